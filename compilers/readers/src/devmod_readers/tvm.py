"""Reading and writing TVM's serialization of one module's fields. Each size that is read is checked
against the bytes that are left.

The layout, every integer little-endian (apache-tvm 0.27):

    bytes, str      u64 length, the bytes
    vector          u64 count, the values
    map             u64 count, key and value pairs in insertion order
    data type       u8 code, u8 bits, u16 lanes
    function info   str name; vector of data types; vector of str, the launch tags;
                    vector of i32, the extra tags
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from devmod import FunctionInfo
from devmod.backend import (
    WRITE_ACCESS_TAG,
    Reader,
    array_bytes,
    dtype_name,
    parse_dtype,
    tag_problem,
)
from devmod.errors import FormatError, count_text, list_names, quote_name
from devmod_readers.elf import symbol_bytes as symbol_bytes
from devmod_readers.sources import OPTIONS_LINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from devmod import Interface, Param, TargetSpec
    from devmod.backend import Binary, Code

    _Functions = Mapping[str, FunctionInfo]
    #: DLPack's code, bits and lanes.
    _Type = tuple[int, int, int]
    #: A tensor: DLPack's code, bits and lanes of its elements; its shape; its bytes.
    Tensor = tuple[_Type, list[int], memoryview]

#: The first eight bytes of a tensor.
_TENSOR_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1
#: The most dimensions of a tensor, as in NumPy.
_MAX_DIMENSIONS = 64

_SCALARS = ("int64", "int32", "uint32", "float64", "float32")
#: The formats that TVM's runtimes of these kinds support. The others support all formats.
_FORMATS = {"rocm": ("hsaco",), "opencl": ("cl", "xclbin", "awsxclbin", "aocx")}
_DELIMITER = b"// Function: "
_OPTIONS = OPTIONS_LINE.encode()
_GUARD = b"DEVMOD_WHOLE_SOURCE"


class TvmReader(Reader):
    """Reads TVM's values in sequence. Errors have ``field``, the name of the current field, and the
    offset, as those of msgpack.
    """

    __slots__ = ()

    def finish(self) -> None:
        """Raise FormatError if bytes follow the last field."""
        self.field = ""
        if self.at != len(self.data):
            raise self.error(f"{len(self.data) - self.at} more bytes follow the last field")

    def read(self, size: int) -> memoryview:
        """Read `size` bytes."""
        left = len(self.data) - self.at
        if size > left:
            raise self.error(f"expected {count_text(size, 'byte')}, and {left} are left")
        part: memoryview = self.data[self.at : self.at + size]
        self.at += size
        return part

    def read_number(self, size: int, *, signed: bool = False) -> int:
        """Read an integer of `size` bytes."""
        return int.from_bytes(self.read(size), "little", signed=signed)

    def read_count(self, smallest: int) -> int:
        """Read a count of items of at least `smallest` bytes each."""
        start = self.at
        count = self.read_number(8)
        left = len(self.data) - self.at
        if count * smallest > left:
            raise self.error(
                f"a count of {count}, and {count_text(left, 'byte')} {'is' if left == 1 else 'are'} left",
                start,
            )
        return count

    def read_bytes(self) -> memoryview:
        """Read a length and that number of bytes."""
        return self.read(self.read_number(8))

    def read_str(self) -> str:
        """Read a string."""
        start = self.at
        try:
            return str(self.read_bytes(), "utf-8")
        except UnicodeDecodeError:
            raise self.error("a string is not UTF-8", start) from None

    def read_dtype(self) -> _Type:
        """Read a data type."""
        return self.read_number(1), self.read_number(1), self.read_number(2)

    # -- fields

    def read_fmap(self) -> dict[str, FunctionInfo]:
        """Read a map of name to function info."""
        fmap: dict[str, FunctionInfo] = {}
        for _ in range(self.read_count(8)):
            self.field = "fmap"
            key = self.read_key(fmap)
            path = f"fmap of {quote_name(key)}"
            self.field = f"{path}, name"
            name = self.read_str()
            self.field = f"{path}, arg_types"
            types = [dtype_name(self.read_dtype()) for _ in range(self.read_count(4))]
            self.field = f"{path}, launch_param_tags"
            tags = [self.read_str() for _ in range(self.read_count(8))]
            self.field = f"{path}, arg_extra_tags"
            extra_tags = [self.read_number(4, signed=True) for _ in range(self.read_count(4))]
            fmap[key] = FunctionInfo(name, types, tags, extra_tags)
        return fmap

    def read_shaders(self) -> dict[str, memoryview]:
        """Read a map of entry name to bytes."""
        shaders: dict[str, memoryview] = {}
        for _ in range(self.read_count(16)):
            name = self.read_key(shaders)
            shaders[name] = self.read_bytes()
        return shaders

    # A const_loader's bytes:
    #   vector of str     the names
    #   vector of tensor  in that order, each
    #       u64 magic, u64 0; i32 device type (1, the CPU), i32 device index; i32 ndim; data type;
    #       i64 shape[ndim]; i64 number of bytes; the elements
    #   vector of str     the init symbols
    #   vector            in that order, each a vector of str, the names of its constants
    def read_constants(self) -> tuple[dict[str, Tensor], dict[str, list[str]]]:
        """Read the constants by name, and the names by init symbol."""
        tensors: dict[str, Tensor] = {}
        for name in self._read_keys("names", 44, "{} names and {} tensors"):
            self.field = f"constant {quote_name(name)}"
            tensors[name] = self._read_tensor()
        by_symbol: dict[str, list[str]] = {}
        for symbol in self._read_keys("init symbols", 8, "{} init symbols, and names for {}"):
            self.field = f"init symbol {quote_name(symbol)}"
            by_symbol[symbol] = [self.read_str() for _ in range(self.read_count(8))]
        return tensors, by_symbol

    def _read_keys(self, field: str, smallest: int, problem: str) -> list[str]:
        """Read the keys of a map and the count of its values, of at least `smallest` bytes each.
        `problem` describes another count.
        """
        self.field = field
        keys: dict[str, None] = {}
        for _ in range(self.read_count(8)):
            keys[self.read_key(keys)] = None
        start = self.at
        count = self.read_count(smallest)
        if count != len(keys):
            raise self.error(problem.format(len(keys), count), start)
        return list(keys)

    def _read_tensor(self) -> Tensor:
        start = self.at
        magic = self.read_number(8)
        reserved = self.read_number(8)
        if magic != _TENSOR_MAGIC or reserved:
            raise self.error("a tensor does not begin with TVM's magic number and a zero", start)
        device = self.read_number(4, signed=True)
        # The index of the device.
        self.read_number(4, signed=True)
        if device != _CPU:
            raise self.error(f"a tensor has the device type {device}, expected 1 (CPU)", start)
        dimensions = self.read_number(4, signed=True)
        if not 0 <= dimensions <= _MAX_DIMENSIONS:
            raise self.error(f"{dimensions} dimensions, expected 0 to {_MAX_DIMENSIONS}", start)
        dtype = self.read_dtype()
        shape = [self.read_number(8, signed=True) for _ in range(dimensions)]
        if any(length < 0 for length in shape):
            raise self.error(f"the shape {tuple(shape)} has a negative length", start)
        size = self.read_number(8)
        expected = array_bytes(dtype, shape)
        if size != expected:
            raise self.error(
                f"{count_text(size, 'byte')} for {dtype_name(dtype)} of shape {tuple(shape)}, which takes {expected}",
                start,
            )
        return dtype, shape, self.read(size)


# -- writing


def module_parts(
    spec: TargetSpec, fmt: str, saved_format: str, fmap: _Functions, code: Code
) -> list[Binary]:
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
    code = _runnable_code(spec, fmt, fmap, code)
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


def constants_parts(
    tensors: Mapping[str, Any], by_symbol: Mapping[str, Iterable[str]]
) -> list[Binary]:
    """Return a const_loader's bytes in parts. A tensor has `dtype`, `shape` and `data`."""
    names = sorted(tensors)
    parts: list[Binary] = [_strings(names), _integer(len(names))]
    for name in names:
        tensor = tensors[name]
        parts.append(
            _integer(_TENSOR_MAGIC)
            + _integer(0)
            + _integer(_CPU, 4)
            + _integer(0, 4)
            + _integer(len(tensor.shape), 4)
        )
        parts.append(
            _dtype(tensor.dtype)
            + b"".join(map(_integer, tensor.shape))
            + _integer(len(tensor.data))
        )
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


def _dtype(codes: _Type) -> bytes:
    return bytes(codes[:2]) + _integer(codes[2], 2)


def _fmap_bytes(fmap: _Functions) -> bytes:
    """Return a map of name to function info, with TVM's four fields."""
    parts = [_integer(len(fmap))]
    for key, info in fmap.items():
        parts += (_string(key), _string(info.name))
        parts += (_integer(len(info.arg_types)), *map(_dtype, map(parse_dtype, info.arg_types)))
        parts.append(_strings(info.launch_param_tags))
        parts += (
            _integer(len(info.arg_extra_tags)),
            *(tag.to_bytes(4, "little", signed=True) for tag in info.arg_extra_tags),
        )
    return b"".join(parts)


# -- what TVM's runtime can run: the format, OpenCL C, and functions described by four fields
#
# TVM's OpenCL runtime (src/runtime/opencl/opencl_module.cc) splits the source at the lines "//
# Function: NAME". Each part is a separate program, built without options, with the kernel NAME.


def _runnable_code(spec: TargetSpec, fmt: str, fmap: _Functions, code: Code) -> Code:
    """Return the code for TVM's runtime: OpenCL C with "// Function:" lines, any other code
    unchanged.

    Raises
    ------
    FormatError
        TVM's runtime cannot run the module.
    """
    known = _FORMATS.get(spec.kind, spec.formats)
    if fmt not in known:
        raise FormatError(
            f"TVM cannot run the {spec.kind} module: its format is {fmt!r}, and TVM's runtime takes {', '.join(known)}",
            kind=spec.kind,
        )
    for name, info in fmap.items():
        _check(spec, name, info)
    if fmt == "cl" and isinstance(code, (bytes, memoryview)):
        return _with_function_lines(fmap, bytes(code))
    shaders = code if isinstance(code, Mapping) else fmap
    missing = next((name for name in fmap if name not in shaders), None)
    if missing is not None:
        raise FormatError(
            f"TVM cannot run the {spec.kind} module: it has no shader under the name of its function {missing!r}; "
            f"it has those of {list_names(shaders)}",
            kind=spec.kind,
            function=missing,
        )
    return code


def _with_function_lines(fmap: _Functions, code: bytes) -> bytes:
    """Return OpenCL C with a part for each function; unchanged if it has them."""
    problem = ""
    there = [_first_line(part) for part in code.split(_DELIMITER)[1:]]
    if code.startswith(_OPTIONS):
        options = _first_line(code[len(_OPTIONS) :]).strip()
        problem = (
            f"it is built with the options {options!r}, and TVM builds OpenCL C without options"
        )
    elif not fmap:
        problem = "it has no function"
    elif there and sorted(there) != sorted(fmap):
        problem = f"its source has the lines '// Function: ' of {list_names(there)}, and its functions are {list_names(fmap)}"
    if problem:
        raise FormatError(f"TVM cannot run the opencl module: {problem}", kind="opencl")
    if there:
        return code
    body = code
    if not body.endswith(b"\n"):
        body += b"\n"
    # devmod builds all parts as one program again, which must define each name once.
    if len(fmap) > 1:
        body = b"#ifndef " + _GUARD + b"\n#define " + _GUARD + b"\n" + body + b"#endif\n"
    return b"".join(_DELIMITER + name.encode() + b"\n" + body for name in fmap)


def _first_line(text: bytes) -> str:
    return text.partition(b"\n")[0].decode("utf-8", "replace")


def _check(spec: TargetSpec, name: str, info: FunctionInfo) -> None:
    """Raise FormatError if TVM's runtime cannot call a function by its four fields."""
    problem = ""
    if info.name != name:
        problem = f"its symbol is {info.name!r}, and TVM asks the driver for {name!r}; give the function the name of its symbol"
    problem = problem or _tag_problem(spec.kind, info) or _argument_problem(spec, info)
    if not problem and info.interface is not None:
        problem = _interface_problem(spec.kind, info, info.interface)
    if problem:
        raise FormatError(
            f"TVM cannot call the {spec.kind} function {name!r}: {problem}",
            kind=spec.kind,
            function=name,
        )


def _tag_problem(kind: str, info: FunctionInfo) -> str:
    for tag in info.launch_param_tags:
        if tag.startswith(WRITE_ACCESS_TAG) and kind != "webgpu":
            return f"its launch tag {tag!r} is one of webgpu modules"
    return tag_problem(info.launch_param_tags)


def _argument_problem(spec: TargetSpec, info: FunctionInfo) -> str:
    scalar_at = None
    for number, text in enumerate(info.arg_types):
        if text != "handle":
            if text not in _SCALARS:
                return f"its argument {number} is a {text}; TVM passes buffers and {', '.join(_SCALARS)}"
            if scalar_at is None:
                scalar_at = number
        elif scalar_at is not None and spec.shader_map:
            return (
                f"its argument {number} is a buffer after the scalar argument {scalar_at}; TVM expects buffers first in a "
                f"{spec.kind} function"
            )
    return ""


def _interface_problem(kind: str, info: FunctionInfo, interface: Interface) -> str:
    """Return how an interface differs from the arguments of TVM's functions of that kind; "" if it
    does not.
    """
    if kind == "hexagon":
        return (
            "it takes its arguments like a C function, and TVM uses its packed calling convention"
        )
    for param in interface.params:
        if param.pack:
            return f"its argument {param.name!r} is several values of the kernel; TVM passes the address of an array alone"
    for param, text in zip(interface.params, info.arg_types, strict=True):
        expected = "buffer" if text == "handle" else "scalar"
        if param.kind != expected:
            return f"its argument {param.name!r} is of the kind {param.kind}; TVM supports buffers and scalars"
    return _place_problem(kind, info, interface)


def _place_problem(kind: str, info: FunctionInfo, interface: Interface) -> str:
    """Return how the places of buffers and scalars differ from those of TVM's functions; "" if
    they do not.
    """
    buffers = [param for param in interface.params if param.kind == "buffer"]
    scalars = [param for param in interface.params if param.kind == "scalar"]
    if kind == "webgpu" and _count_write_flags(info) != len(buffers):
        return f"it has no launch tag paramWriteAccess for its {len(buffers)} buffers"
    if kind in ("metal", "vulkan", "webgpu"):
        return _placement_problem(kind, interface, buffers, scalars)
    for param in interface.params:
        if param.at is not None:
            return f"its argument {param.name!r} has the place {param.at}; TVM supports arguments in order alone"
    return ""


def _placement_problem(
    kind: str, interface: Interface, buffers: Sequence[Param], scalars: Sequence[Param]
) -> str:
    """Check that buffers are at 0, 1, …, and scalars in one block behind them, in slots of 8 bytes
    (webgpu: 4).
    """
    behind = len(buffers)
    for number, param in enumerate(buffers):
        place = number if kind == "metal" else (0, number)
        if param.at != place:
            return f"its buffer {param.name!r} is at {param.at}; TVM binds it at {number}"
    slot_bytes = 4 if kind == "webgpu" else 8
    for number, param in enumerate(scalars):
        slot = number * slot_bytes
        if param.at != (0, slot):
            return f"its scalar {param.name!r} is at {param.at}; TVM writes it to byte {slot} of the only block"
    places = {"metal": (behind,), "webgpu": ((0, behind),), "vulkan": ("push", (0, behind))}[kind]
    if scalars and (len(interface.blocks) != 1 or interface.blocks[0].at not in places):
        return f"its scalars are not at the place to which TVM writes them, {' or '.join(map(str, places))}"
    return ""


def _count_write_flags(info: FunctionInfo) -> int | None:
    """Return the number of buffers in the tag ``paramWriteAccess:[0,0,1]``; None without the
    tag.
    """
    for tag in info.launch_param_tags:
        if tag.startswith(WRITE_ACCESS_TAG):
            digits = tag[len(WRITE_ACCESS_TAG) :].strip("[]").split(",")
            return len([digit for digit in digits if digit])
    return None
