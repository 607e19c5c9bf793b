"""OpenCL C for NVIDIA's processors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from devmod import FunctionInfo, Target
from devmod.errors import CompileError
from devmod_targets._text import find_code
from devmod_targets.cuda._binary import wrap_binary
from devmod_targets.cuda._llvm_ir import check_arch
from devmod_targets.libclc import PTX
from devmod_targets.opencl_c._prints import define_with_vprintf
from devmod_targets.opencl_c.compile import compile_opencl
from devmod_targets.opencl_c.processor import Processor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod_readers.reflection import ReflectedFunction
    from devmod_targets._compilers import Compiler
    from devmod_targets.authoring import CompileRequest, Payload
    from devmod_targets.opencl_c._prints import Print

#: The number of threads of a warp.
_WARP = 32
#: The types of the images that devmod-cuda describes to a kernel.
_IMAGES = ("1d", "2d", "3d", "1d_array", "2d_array")

#: A variable of a kernel in shared memory, in PTX, and the most bytes of these.
_SHARED = re.compile(
    r"^\s*\.shared \.align \d+ \.[a-z]+(?P<bits>\d+) (?P<kernel>[\w$]+?)_\$_[\w$]+(?:\[(?P<count>\d+)\])?;",
    re.MULTILINE,
)
_MOST_SHARED = 49152
_PACKED = re.compile(r"initialized packed aggregate with pointers '([\w.$]+)'")

#: The version of PTX whose instructions devmod's functions may use. That of the result is the
#: lowest one that has the architecture.
_FEATURE = "--cuda-feature=+ptx90"


def compile_program(
    request: CompileRequest, compiler: Compiler, requested: str
) -> tuple[Payload, list[str], list[str]]:
    """Compile an OpenCL C source to PTX, or to cubins for the architectures ``sm_`` of the target.
    `requested` is the value of ``-format=``, "" without it.

    Return the payload, the warnings, and the reports of the assembler. The errors are those of
    `compile_opencl` and `wrap_binary`.
    """
    if requested == "cuda":
        raise request.error(
            f"OpenCL C compiles to PTX, and the target {str(request.target)!r} requests CUDA C++: leave out -format=cuda"
        )
    archs = [arch.replace("sm_", "compute_") for arch in request.target.archs]
    lowest = min(archs, key=_number)
    target = Target("cuda", arch=lowest)
    ptx = request.replace(target=target)
    try:
        payload, warnings = compile_opencl(ptx, OpenclProcessor(ptx), compiler)
    except CompileError as error:
        check_arch(ptx, error.log)
        raise _explain_packed(ptx, error) from None
    assert payload.origin is not None
    if requested == "ptx" or (not requested and request.target.archs == (lowest,)):
        origin = payload.origin.replace(target=str(request.target))
        return payload.replace(origin=origin), warnings, []
    declared = {
        name: FunctionInfo(info.name, info.arg_types) for name, info in payload.fmap.items()
    }
    assert isinstance(payload.code, bytes)
    binary, reports = wrap_binary(
        request.replace(
            text=payload.code.decode(),
            data=b"",
            language="PTX",
            fmap=declared,
            options=(),
            defines={},
            include=(),
        ),
        requested,
    )
    assert binary.origin is not None
    tools = f"{payload.origin.toolchain}, {binary.origin.toolchain}"
    origin = payload.origin.replace(target=str(request.target), toolchain=tools)
    texts = {**(payload.source or {}), **(binary.source or {})}
    code = payload.replace(code=binary.code, fmt=binary.fmt, source=texts, origin=origin)
    return code, warnings, reports


def _explain_packed(request: CompileRequest, error: CompileError) -> CompileError:
    """Return the error for constants with pointers that are not aligned; another one unchanged."""
    name = _PACKED.search(str(error))
    if name is None:
        return error
    place, _ = find_code(
        rf"\b{name[1].rpartition('.')[2]}\b(?=[^;,]*=)", request.text, request.name
    )
    return request.error(
        f"{place}: error: the constant {name[1]!r} has packed structs with pointers, which need PTX 7.1 (CUDA 11.1): add the option "
        "--cuda-feature=+ptx71",
        log=error.log,
    )


def _number(arch: str) -> int:
    """Return the number of an architecture."""
    digits = re.sub(r"\D", "", arch)
    return int(digits or 0)


class OpenclProcessor(Processor):
    extra = "build-cuda-opencl"
    convention = "ptx_kernel"
    library = PTX
    headers: Mapping[str, Sequence[str]] = {
        "devmod_nvptx.h": (),
        "devmod_functions.h": (),
        "devmod_saturation.h": ("mad_sat",),
        "devmod_atomics.h": ("atom",),
        "devmod_groups.h": ("_group_",),
        "devmod_nvptx_native.h": ("native_",),
        "devmod_nvptx_images.h": ("image",),
        "devmod_half.h": ("half",),
        "devmod_half_conversions.h": ("half", "convert_"),
        "devmod_half_stores.h": ("half", "vstore"),
    }
    options = re.compile(r"-O[0-3s]|--cuda-feature=\+ptx\d\d|-ffp-contract=(?:on|off|fast)")
    expected = "-O0 to -O3, -lineinfo, or --cuda-feature=+ptx80 (the version of PTX)"

    def __init__(self, request: CompileRequest) -> None:
        super().__init__(request)
        arch = request.target.arch.replace("compute_", "sm_")
        front = [each for each in request.options if self.options.fullmatch(each)]
        front = [each for each in front if not each.startswith("-O")]
        if not any(each.startswith("--cuda-feature") for each in front):
            # clang's default is that of the CUDA on this machine, or PTX 4.2.
            front.append(_FEATURE)
        self.flags = ["--target=nvptx64-nvidia-cuda", f"-march={arch}", *front]

    def attributes(self, kernels: Mapping[str, ReflectedFunction]) -> Mapping[str, str]:
        result = {}
        for name, kernel in kernels.items():
            if kernel.block:
                x, y, z = kernel.block
                result[name] = f'"nvvm.reqntid"="{x},{y},{z}" '
        return result

    def problem(self, kernel: ReflectedFunction) -> tuple[str, str]:
        if kernel.subgroup not in (None, _WARP):
            return f"requires sub-groups of {kernel.subgroup}, and those of cuda have {_WARP}", ""
        if not kernel.symbol.isascii():
            return "has a name that PTX cannot have: use letters of ASCII", ""
        for param in kernel.params:
            if param.kind == "image" and param.type not in _IMAGES:
                what = "an image of linear memory, of depths or of samples"
                return (
                    f"takes {param.name!r}, {what}, which devmod does not have for cuda. Pass an array, or compile for opencl",
                    param.name,
                )
        return "", ""

    def problem_of_code(self, kernel: ReflectedFunction, payload: Payload) -> str:
        assert isinstance(payload.code, bytes)
        size = 0
        for match in _SHARED.finditer(payload.code.decode()):
            if match["kernel"] == kernel.symbol:
                size += int(match["bits"]) // 8 * int(match["count"] or 1)
        if size <= _MOST_SHARED:
            return ""
        return (
            f"has {size} bytes of local memory, and cuda has at most {_MOST_SHARED} for its variables. Take it as a local argument, whose "
            "size the launch defines"
        )

    def define_prints(self, prints: Sequence[Print]) -> str:
        return define_with_vprintf(prints)
