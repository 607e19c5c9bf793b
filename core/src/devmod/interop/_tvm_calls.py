"""Checks that TVM's runtime can run a module: its format, its OpenCL C, and its functions, described by four fields.

TVM's OpenCL runtime (src/runtime/opencl/opencl_module.cc) splits the source at the lines "// Function: NAME". Each part is a
separate program, built without options, with the kernel NAME.
"""

from __future__ import annotations

from collections.abc import Mapping

from devmod._formats.closed_source import OPTIONS_LINE
from devmod._values.tags import WRITE_ACCESS_TAG, tag_problem
from devmod.errors import FormatError, list_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod._values.code import Code
    from devmod._values.info import FunctionInfo, Interface
    from devmod._values.param import Param
    from devmod._values.spec import TargetSpec

_SCALARS = ("int64", "int32", "uint32", "float64", "float32")


#: The formats that TVM's runtimes of these kinds support. The others support all formats.
_FORMATS = {"rocm": ("hsaco",), "opencl": ("cl", "xclbin", "awsxclbin", "aocx")}
_DELIMITER = b"// Function: "
_OPTIONS = OPTIONS_LINE.encode()
_GUARD = b"DEVMOD_WHOLE_SOURCE"


def runnable_code(spec: TargetSpec, fmt: str, fmap: Mapping[str, FunctionInfo], code: Code) -> Code:
    """Return the code for TVM's runtime: OpenCL C with "// Function:" lines, any other code unchanged.

    Raises
    ------
    FormatError
        TVM's runtime cannot run the module.
    """
    known = _FORMATS.get(spec.kind, spec.formats)
    if fmt not in known:
        raise FormatError(
            f"TVM cannot run the {spec.kind} module: its format is {fmt!r}, and TVM's runtime takes {', '.join(known)}", kind=spec.kind
        )
    for name, info in fmap.items():
        check(spec, name, info)
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


def _with_function_lines(fmap: Mapping[str, FunctionInfo], code: bytes) -> bytes:
    """Return OpenCL C with a part for each function; unchanged if it has them."""
    problem = ""
    there = [part.partition(b"\n")[0].decode("utf-8", "replace") for part in code.split(_DELIMITER)[1:]]
    if code.startswith(_OPTIONS):
        options = code.partition(b"\n")[0][len(_OPTIONS) :].decode("utf-8", "replace").strip()
        problem = f"it is built with the options {options!r}, and TVM builds OpenCL C without options"
    elif not fmap:
        problem = "it has no function"
    elif there and sorted(there) != sorted(fmap):
        problem = f"its source has the lines '// Function: ' of {list_names(there)}, and its functions are {list_names(fmap)}"
    if problem:
        raise FormatError(f"TVM cannot run the opencl module: {problem}", kind="opencl")
    if there:
        return code
    body = code if code.endswith(b"\n") else code + b"\n"
    if len(fmap) > 1:  # devmod builds all parts as one program again, which must define each name once
        body = b"#ifndef " + _GUARD + b"\n#define " + _GUARD + b"\n" + body + b"#endif\n"
    return b"".join(_DELIMITER + name.encode() + b"\n" + body for name in fmap)


def check(spec: TargetSpec, name: str, info: FunctionInfo) -> None:
    """Raise FormatError if TVM's runtime cannot call a function by its four fields."""
    problem = ""
    if info.name != name:
        problem = f"its symbol is {info.name!r}, and TVM asks the driver for {name!r}; give the function the name of its symbol"
    problem = problem or _tag_problem(spec.kind, info) or _argument_problem(spec, info)
    if not problem and info.interface is not None:
        problem = _interface_problem(spec.kind, info, info.interface)
    if problem:
        raise FormatError(f"TVM cannot call the {spec.kind} function {name!r}: {problem}", kind=spec.kind, function=name)


def _tag_problem(kind: str, info: FunctionInfo) -> str:
    of_webgpu = next((tag for tag in info.launch_param_tags if tag.startswith(WRITE_ACCESS_TAG) and kind != "webgpu"), None)
    return f"its launch tag {of_webgpu!r} is one of webgpu modules" if of_webgpu is not None else tag_problem(info.launch_param_tags)


def _argument_problem(spec: TargetSpec, info: FunctionInfo) -> str:
    scalar_at = None
    for number, text in enumerate(info.arg_types):
        if text != "handle":
            if text not in _SCALARS:
                return f"its argument {number} is a {text}; TVM passes buffers and {', '.join(_SCALARS)}"
            scalar_at = number if scalar_at is None else scalar_at
        elif scalar_at is not None and spec.shader_map:
            return (
                f"its argument {number} is a buffer after the scalar argument {scalar_at}; TVM expects buffers first in a "
                f"{spec.kind} function"
            )
    return ""


def _interface_problem(kind: str, info: FunctionInfo, interface: Interface) -> str:
    """Return how an interface differs from the arguments of TVM's functions of that kind; "" if it does not."""
    if kind == "hexagon":
        return "it takes its arguments like a C function, and TVM uses its packed calling convention"
    for param, text in zip(interface.params, info.arg_types, strict=True):
        if param.kind != ("buffer" if text == "handle" else "scalar"):
            return f"its argument {param.name!r} is of the kind {param.kind}; TVM supports buffers and scalars"
    buffers = [param for param in interface.params if param.kind == "buffer"]
    scalars = [param for param in interface.params if param.kind == "scalar"]
    if kind == "webgpu" and _count_write_flags(info) != len(buffers):
        return f"it has no launch tag paramWriteAccess for its {len(buffers)} buffers"
    if kind in ("metal", "vulkan", "webgpu"):
        return _placement_problem(kind, interface, buffers, scalars)
    moved = next((param for param in interface.params if param.at is not None), None)
    return f"its argument {moved.name!r} has the place {moved.at}; TVM supports arguments in order alone" if moved else ""


def _placement_problem(kind: str, interface: Interface, buffers: Sequence[Param], scalars: Sequence[Param]) -> str:
    """Check that buffers are at 0, 1, …, and scalars in one block behind them, in slots of 8 bytes (webgpu: 4)."""
    behind = len(buffers)
    for number, param in enumerate(buffers):
        if param.at != (number if kind == "metal" else (0, number)):
            return f"its buffer {param.name!r} is at {param.at}; TVM binds it at {number}"
    for number, param in enumerate(scalars):
        slot = number * (4 if kind == "webgpu" else 8)
        if param.at != (0, slot):
            return f"its scalar {param.name!r} is at {param.at}; TVM writes it to byte {slot} of the only block"
    places = {"metal": (behind,), "webgpu": ((0, behind),), "vulkan": ("push", (0, behind))}[kind]
    if scalars and (len(interface.blocks) != 1 or interface.blocks[0].at not in places):
        return f"its scalars are not at the place to which TVM writes them, {' or '.join(map(str, places))}"
    return ""


def _count_write_flags(info: FunctionInfo) -> int | None:
    """Return the number of buffers in the tag ``paramWriteAccess:[0,0,1]``; None without the tag."""
    for tag in info.launch_param_tags:
        if tag.startswith(WRITE_ACCESS_TAG):
            return len([digit for digit in tag[len(WRITE_ACCESS_TAG) :].strip("[]").split(",") if digit])
    return None
