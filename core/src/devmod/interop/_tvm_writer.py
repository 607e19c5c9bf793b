"""Writing TVM's serialization of one module's fields. `devmod.interop._tvm_bytes` has the layout, and reads it."""

from __future__ import annotations

from devmod.backend import parse_dtype
from devmod.errors import FormatError
from devmod_targets.interop._tvm_calls import runnable_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from devmod import FunctionInfo, TargetSpec
    from devmod.backend import Binary, Code

#: The first eight bytes of a tensor.
_TENSOR_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1


def module_parts(spec: TargetSpec, fmt: str, saved_format: str, fmap: Mapping[str, FunctionInfo], code: Code) -> list[Binary]:
    """Return a module's bytes for TVM's runtime, in parts.

    Parameters
    ----------
    spec, fmt, fmap, code
        The payload.
    saved_format
        The format in the module's own bytes, which may be an alias of `fmt`.

    Raises
    ------
    FormatError
        TVM's runtime cannot run the module.
    """
    code = runnable_code(spec, fmt, fmap, code)
    parts: list[Binary] = []
    for field in spec.fields:
        if field == "fmt":
            parts.append(_string(saved_format))
        elif field == "fmap":
            parts.append(_fmap_bytes(fmap))
        elif isinstance(code, (bytes, memoryview)):
            parts += (_integer(len(code)), code)
        else:
            parts.append(_integer(len(code)))
            for name, shader in code.items():
                parts += (_string(name), _integer(len(shader)), shader)
    return parts


def constants_parts(tensors: Mapping[str, Any], by_symbol: Mapping[str, Iterable[str]]) -> list[Binary]:
    """Return a const_loader's bytes in parts. A tensor has `dtype`, `shape` and `data`."""
    names = sorted(tensors)
    parts: list[Binary] = [_strings(names), _integer(len(names))]
    for name in names:
        tensor = tensors[name]
        parts.append(_integer(_TENSOR_MAGIC) + _integer(0) + _integer(_CPU, 4) + _integer(0, 4) + _integer(len(tensor.shape), 4))
        parts.append(_dtype(tensor.dtype) + b"".join(map(_integer, tensor.shape)) + _integer(len(tensor.data)))
        parts.append(tensor.data)
    parts += [_strings(by_symbol), _integer(len(by_symbol)), *map(_strings, by_symbol.values())]
    return parts


def _integer(value: int, size: int = 8) -> bytes:
    return value.to_bytes(size, "little", signed=value < 0)


def _string(text: str) -> bytes:
    """Return a string. Raise FormatError if it cannot be encoded in UTF-8."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise FormatError(f"the name {text!r} cannot be encoded in UTF-8") from None
    return _integer(len(data)) + data


def _strings(texts: Iterable[str]) -> bytes:
    items = list(texts)
    return _integer(len(items)) + b"".join(map(_string, items))


def _dtype(text_or_codes: str | tuple[int, int, int]) -> bytes:
    code, bits, lanes = parse_dtype(text_or_codes) if isinstance(text_or_codes, str) else text_or_codes
    return bytes((code, bits)) + _integer(lanes, 2)


def _fmap_bytes(fmap: Mapping[str, FunctionInfo]) -> bytes:
    """Return a map of name to function info, with TVM's four fields."""
    parts = [_integer(len(fmap))]
    for key, info in fmap.items():
        parts += (_string(key), _string(info.name))
        parts += (_integer(len(info.arg_types)), *map(_dtype, info.arg_types))
        parts.append(_strings(info.launch_param_tags))
        parts += (_integer(len(info.arg_extra_tags)), *(tag.to_bytes(4, "little", signed=True) for tag in info.arg_extra_tags))
    return b"".join(parts)
