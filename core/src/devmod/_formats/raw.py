"""Raw payload files, and the metadata file beside each: ``x.ptx`` and ``x.tvm_meta.json`` (R22).

The metadata has TVM's form::

    {"func_info": {NAME: {"name": …, "arg_types": […], "launch_param_tags": […], "arg_extra_tags":
    […]}}}

TVM also writes "tvm_version", and ignores unknown keys. devmod adds "interface" to a function, and
"shader": the name of the entry if it is not the name of the only function.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from devmod._formats.trust import check_raw_file
from devmod._plugins.specs import spec_of_suffix
from devmod._util.atomic import replacing
from devmod._util.regular_files import file_name, open_regular, suffix_of
from devmod._values.info import FunctionInfo, Interface
from devmod.errors import ArgumentError, FormatError, list_names
from devmod.targets import PROGRAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod._values.code import AnyPath, Binary, Code, Fields, Functions
    from devmod._values.spec import TargetSpec

SUFFIX = ".tvm_meta.json"
_BUNDLE = "devmod"
#: The lists of a function.
_LISTS = ("arg_types", "launch_param_tags", "arg_extra_tags")
#: The name of launch_param_tags in older versions of TVM.
_OLDER_TAGS = "thread_axis_tags"
#: The maximum size of a metadata file. TVM writes some hundred bytes for a function.
_LARGEST_METADATA = 64 << 20


def load_metadata_from_json(text: str | bytes) -> dict[str, FunctionInfo]:
    """Return the fmap in the text of a metadata file.

    Raises
    ------
    FormatError
        `text` is not JSON of this form; the message names the place.
    ArgumentError
        `text` is neither a string nor bytes.
    """
    if not isinstance(text, (str, bytes, bytearray)):
        raise ArgumentError(
            f"load_metadata_from_json(text): text is a str or bytes, not {type(text).__name__}",
            argument="text",
        )
    if isinstance(text, str) and text.endswith(".json"):
        raise ArgumentError(
            f"load_metadata_from_json(text): text is the content of the file, not its path; pass pathlib.Path({text!r}).read_text()",
            argument="text",
        )
    return _read_metadata(text)[0]


def write_payload(
    spec: TargetSpec,
    fmt: str,
    fmap: Functions,
    code: Code,
    path: AnyPath,
) -> None:
    """Write one raw payload and its metadata file; see `devmod.Module.write_to_file`.

    Raises
    ------
    FormatError
        The suffix is that of another format, the module has several shaders, or the metadata file
        exists and describes other functions or is a symbolic link. Neither file is changed.
    """
    name = file_name(path)
    suffix = suffix_of(name)
    if spec.kind == PROGRAM:
        raise FormatError(
            "a program has no raw payload to write; devmod.save writes it with its kernels",
            kind=PROGRAM,
        )
    if suffix == _BUNDLE:
        raise FormatError(
            f"{name!r} cannot contain {fmt!r}: its suffix is that of a bundle; devmod.save writes one",
            kind=spec.kind,
        )
    owner: TargetSpec | None = spec
    if suffix not in spec.suffixes:
        owner = spec_of_suffix(suffix)
    if owner is not None and owner.suffixes[suffix] != fmt:
        raise FormatError(
            f"{name!r} cannot contain {fmt!r}: its suffix is that of {owner.suffixes[suffix]!r}",
            kind=spec.kind,
        )
    metadata: Fields = {"func_info": {key: function_to_json(info) for key, info in fmap.items()}}
    binary = code
    if isinstance(code, Mapping):
        entry, binary = _only_shader(spec, fmt, code)
        if [*fmap] != [entry]:
            metadata["shader"] = entry
    assert not isinstance(binary, Mapping)
    if spec.pack is not None:
        binary = spec.pack(binary)
    beside = metadata_path(name)
    _refuse_clash(beside, fmap)
    if os.path.islink(beside):  # the caller has not named this file
        raise FormatError(
            f"{beside!r} is a symbolic link, and the metadata is written beside the payload; remove it",
            kind=spec.kind,
        )
    _write_both(name, binary, beside, _encode_metadata(spec, metadata))


def _only_shader(spec: TargetSpec, fmt: str, shaders: Mapping[str, Binary]) -> tuple[str, Binary]:
    """Return the name and the code of the shader of a module that has one."""
    if len(shaders) != 1:
        raise FormatError(
            f"the {spec.kind} module has {len(shaders)} shaders, and a {fmt!r} file holds one; use devmod.save",
            kind=spec.kind,
        )
    (shader,) = shaders.items()
    return shader


def _encode_metadata(spec: TargetSpec, metadata: Fields) -> bytes:
    import json

    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False, indent=2)
        return f"{text}\n".encode()
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise FormatError(
            f"the metadata of the {spec.kind} functions cannot be written as JSON: {error}; use devmod.save",
            kind=spec.kind,
        ) from None


def _write_both(name: str, binary: Binary, beside: str, text: bytes) -> None:
    """Write a payload, and its metadata beside it. Neither is changed if the other cannot be."""
    is_new = not os.path.exists(beside)
    is_moved = False
    try:
        with replacing(name, size=len(binary)) as payload:
            payload.write(binary)
            payload.flush()
            # A payload without its metadata cannot be loaded, so the metadata is moved first.
            with replacing(beside, size=len(text)) as file:
                file.write(text)
            is_moved = True
    except BaseException:
        if is_new and is_moved:
            with suppress(OSError):
                os.unlink(beside)
        raise


def read_payload(
    spec: TargetSpec, path: str, fmt: str
) -> tuple[str, dict[str, FunctionInfo], Code]:
    """Return the (fmt, fmap, code) of a raw payload file and the metadata file beside it, as
    `write_payload` writes them.

    Raises
    ------
    FormatError
        The metadata file is missing, or one of the files is invalid or is not a regular file.
    TrustError
        A policy refuses payloads without an index.
    OSError
        The payload cannot be read.
    """
    check_raw_file(path)
    with open_regular(path) as file:
        data: Binary = file.read()
    beside = metadata_path(path)
    try:
        text = _read_bounded(beside)
    except FileNotFoundError:
        compiles = ""
        if suffix_of(path) in spec.languages:
            compiles = f"; devmod.compile(pathlib.Path({path!r}), {spec.kind!r}) compiles a source"
        raise FormatError(
            f"{path!r} has no metadata file: expected {beside!r}, which describes its functions. "
            f"Module.write_to_file writes both{compiles}",
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
        raise FormatError(
            f"{beside!r} describes {len(fmap)} functions, and a {fmt!r} file holds one shader",
            kind=spec.kind,
        )
    return fmt, fmap, {shader or next(iter(fmap)): data}


def metadata_path(path: str) -> str:
    """Return the path of the metadata of a payload file."""
    return os.path.splitext(path)[0] + SUFFIX


def _refuse_clash(path: str, fmap: Functions) -> None:
    try:
        text = _read_bounded(path)
    except FileNotFoundError:
        return
    try:
        there = _read_metadata(text)[0]
    except FormatError as error:
        raise FormatError(
            f"{path!r} already exists and is not a metadata file ({error}); move it"
        ) from error
    differ = []
    for name in {**there, **fmap}:
        if not _same(there.get(name), fmap.get(name)):
            differ.append(name)
    if differ:
        raise FormatError(
            f"{path!r} already exists and describes other functions; different: {list_names(differ)}. Choose another name"
        )


def _same(there: FunctionInfo | None, mine: FunctionInfo | None) -> bool:
    """Return whether `mine` may replace `there` in a metadata file, so that calls of the payload
    beside it stay correct.
    """
    if there is None or mine is None or there.interface is not None:
        return there == mine
    # TVM's metadata has no interface. It describes the same function with less detail.
    return there == FunctionInfo(
        mine.name, mine.arg_types, mine.launch_param_tags, mine.arg_extra_tags
    )


def _read_bounded(path: str) -> bytes:
    with open_regular(path) as file:
        data = file.read(_LARGEST_METADATA + 1)
    if len(data) > _LARGEST_METADATA:
        raise FormatError(
            f"{path!r} is too large for a metadata file: over {_LARGEST_METADATA >> 20} MiB"
        )
    return data


def function_to_json(info: FunctionInfo) -> dict[str, Any]:
    """Return a function as a metadata file has it, in JSON's types."""
    fields: Fields = {"name": info.name}
    for name in _LISTS:
        fields[name] = list(getattr(info, name))
    if info.interface is not None:
        fields["interface"] = info.interface.to_dict()
    return fields


def _read_metadata(text: str | bytes) -> tuple[dict[str, FunctionInfo], str]:
    """Return the fmap, and the name of the shader or ""."""
    from devmod._util.strict_json import parse

    try:
        if not isinstance(text, str):
            text = str(text, "utf-8")  # the json module takes UTF-16 and UTF-32 too
        data = parse(text)
    except ValueError as error:
        raise FormatError(f"the metadata is not JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("func_info"), dict):
        raise FormatError("the metadata has no map 'func_info'")
    shader = data.get("shader", "")
    if not isinstance(shader, str):
        raise FormatError("the metadata's 'shader' is not a string")
    return dict(_functions(data["func_info"])), shader


def _functions(infos: Fields) -> Iterator[tuple[str, FunctionInfo]]:
    for key, fields in infos.items():
        if not isinstance(fields, dict):
            raise FormatError(f"the metadata of the function {key!r} is not a map")
        older = fields.get(_OLDER_TAGS, fields.get("launch_param_tags", []))
        if fields.setdefault("launch_param_tags", older) != older:
            raise FormatError(
                f"the metadata of the function {key!r} has launch_param_tags, and other {_OLDER_TAGS}"
            )
        lists = {name: fields.get(name, []) for name in _LISTS}
        are_lists = all(isinstance(value, list) for value in lists.values())
        if "name" not in fields or "arg_types" not in fields or not are_lists:
            raise FormatError(
                f"the metadata of the function {key!r} has no name, no arg_types, or a field that is not a list"
            )
        interface = None
        try:
            if "interface" in fields:
                interface = Interface.from_dict(fields["interface"])
            yield key, FunctionInfo(fields["name"], **lists, interface=interface)
        except FormatError as error:
            raise FormatError(f"the metadata of the function {key!r}: {error}") from error
