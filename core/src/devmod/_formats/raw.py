"""Raw payload files, and the metadata file beside each: ``x.ptx`` and ``x.tvm_meta.json`` (R22).

The metadata's text is TVM's::

    {"func_info": {NAME: {"name": …, "arg_types": […], "launch_param_tags": […], "arg_extra_tags": […]}}}

TVM also writes "tvm_version", and reads past keys that it does not know. Ours are "interface" in a function, and "shader",
the entry's name where that is not the only function's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from devmod._atomic import replacing
from devmod._info import FunctionInfo, Interface
from devmod.errors import ArgumentError, FormatError, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from devmod._payload import Binary, Code
    from devmod.targets import TargetSpec

SUFFIX = ".tvm_meta.json"
#: What a metadata file may weigh. TVM's have some hundred bytes a function.
_LARGEST_METADATA = 64 << 20


def load_metadata_from_json(text: str | bytes) -> dict[str, FunctionInfo]:
    """The fmap in the text of a metadata file.

    Raises
    ------
    FormatError
        `text` is not such JSON; the message says where.
    ArgumentError
        `text` is neither a string nor bytes.
    """
    if not isinstance(text, (str, bytes, bytearray)):
        raise ArgumentError(f"load_metadata_from_json(text): text is a str or bytes, not {type(text).__name__}", argument="text")
    return _read_metadata(text)[0]


def write_payload(spec: TargetSpec, fmt: str, fmap: Mapping[str, FunctionInfo], code: Code, path: str | os.PathLike[str]) -> None:
    """Write one raw payload and its metadata file; see `devmod.Module.write_to_file`.

    Raises
    ------
    FormatError
        The suffix is another format's, the module has several shaders, or a metadata file is there that describes other
        functions. Neither file is touched.
    """
    name = os.fsdecode(path)
    suffix = os.path.splitext(name)[1][1:].lower()
    if spec.suffixes.get(suffix, fmt) != fmt:
        raise FormatError(f"{name!r} would hold {fmt!r}, and its suffix says {spec.suffixes[suffix]!r}", kind=spec.kind)
    metadata: dict[str, Any] = {"func_info": {key: _to_json(info) for key, info in fmap.items()}}
    if isinstance(code, Mapping):
        if len(code) != 1:
            raise FormatError(
                f"the {spec.kind} module has {len(code)} shaders, and a {fmt!r} file holds one; use devmod.save", kind=spec.kind
            )
        ((entry, binary),) = code.items()
        if [*fmap] != [entry]:
            metadata["shader"] = entry
    else:
        binary = code
    if spec.pack is not None:
        binary = spec.pack(binary)
    beside = metadata_path(name)
    _refuse_clash(beside, fmap)
    import json

    try:
        text = f"{json.dumps(metadata, ensure_ascii=False, allow_nan=False, indent=2)}\n".encode()
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise FormatError(
            f"what the {spec.kind} functions are cannot be written as JSON: {error}; use devmod.save", kind=spec.kind
        ) from None
    with replacing(name) as file:
        file.write(binary)
    with replacing(beside) as file:
        file.write(text)


def read_payload(spec: TargetSpec, path: str, fmt: str) -> tuple[str, dict[str, FunctionInfo], Code]:
    """The (fmt, fmap, code) of a raw payload file and the metadata file beside it: what `write_payload` wrote.

    Raises
    ------
    FormatError
        There is no metadata file, or it or the payload is not of the form.
    OSError
        The payload cannot be read.
    """
    with open(path, "rb") as file:
        data: Binary = file.read()
    beside = metadata_path(path)
    try:
        text = _read_bounded(beside)
    except FileNotFoundError:
        raise FormatError(
            f"{path!r} has no metadata file beside it: {beside!r} says what its functions are. "
            "Module.write_to_file writes both; source is compiled with devmod.compile",
            kind=spec.kind,
        ) from None
    try:
        fmap, shader = _read_metadata(text)
    except FormatError as error:
        raise FormatError(f"{beside!r}: {error}", kind=spec.kind) from error
    if spec.unpack is not None:
        data = spec.unpack(data)
    if not spec.shader_map:
        return fmt, fmap, data
    if not shader and len(fmap) != 1:
        raise FormatError(f"{beside!r} describes {len(fmap)} functions, and a {fmt!r} file holds one shader", kind=spec.kind)
    return fmt, fmap, {shader or next(iter(fmap)): data}


def metadata_path(path: str) -> str:
    """Where the metadata of a payload file lies."""
    return os.path.splitext(path)[0] + SUFFIX


def _refuse_clash(path: str, fmap: Mapping[str, FunctionInfo]) -> None:
    try:
        text = _read_bounded(path)
    except FileNotFoundError:
        return
    try:
        there = _read_metadata(text)[0]
    except FormatError as error:
        raise FormatError(f"{path!r} is there already and is no metadata file ({error}); move it away") from error
    differ = [name for name in {**there, **fmap} if not _same(there.get(name), fmap.get(name))]
    if differ:
        raise FormatError(f"{path!r} is there already and describes other functions; they differ in: {quoted(differ)}. Choose another name")


def _same(there: FunctionInfo | None, mine: FunctionInfo | None) -> bool:
    """Whether a metadata file may be written over one that describes `there`: what lies beside it must still be called rightly."""
    if there is None or mine is None or there.interface is not None:
        return there == mine
    # TVM's metadata has no interface. It describes the same function, and ours says more of it.
    return there == FunctionInfo(mine.name, mine.arg_types, mine.launch_param_tags, mine.arg_extra_tags)


def _read_bounded(path: str) -> bytes:
    with open(path, "rb") as file:
        data = file.read(_LARGEST_METADATA + 1)
    if len(data) > _LARGEST_METADATA:
        raise FormatError(f"{path!r} is too large for a metadata file: over {_LARGEST_METADATA >> 20} MiB")
    return data


def _to_json(info: FunctionInfo) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": info.name,
        "arg_types": list(info.arg_types),
        "launch_param_tags": list(info.launch_param_tags),
        "arg_extra_tags": list(info.arg_extra_tags),
    }
    if info.interface is not None:
        made["interface"] = info.interface.to_dict()
    return made


def _read_metadata(text: str | bytes) -> tuple[dict[str, FunctionInfo], str]:
    """The fmap, and the shader's name or ""."""
    import json

    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the metadata is not JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("func_info"), dict):
        raise FormatError("the metadata has no map 'func_info'")
    shader = data.get("shader", "")
    if not isinstance(shader, str):
        raise FormatError("the metadata's 'shader' is not a string")
    return dict(_functions(data["func_info"])), shader


def _functions(infos: dict[str, Any]) -> Iterator[tuple[str, FunctionInfo]]:
    for key, fields in infos.items():
        if not isinstance(fields, dict):
            raise FormatError(f"the metadata of the function {key!r} is not a map")
        lists = {name: fields.get(name, []) for name in ("arg_types", "launch_param_tags", "arg_extra_tags")}
        wrong = [name for name, value in lists.items() if not isinstance(value, list)]
        if "name" not in fields or "arg_types" not in fields or wrong:
            raise FormatError(f"the metadata of the function {key!r} has no name, no arg_types, or a field that is not a list")
        try:
            interface = Interface.from_dict(fields["interface"]) if "interface" in fields else None
            yield key, FunctionInfo(fields["name"], **lists, interface=interface)
        except FormatError as error:
            raise FormatError(f"the metadata of the function {key!r}: {error}") from error
