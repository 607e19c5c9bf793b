"""OpenCL C for AMD's processors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from devmod_targets._text import print_place
from devmod_targets.libclc import AMDGPU
from devmod_targets.opencl_c.compile import compile_opencl
from devmod_targets.opencl_c.processor import Processor
from devmod_targets.rocm._device_library import major_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod_readers.reflection import ReflectedFunction
    from devmod_targets._compilers import Compiler
    from devmod_targets.authoring import CompileRequest, Payload
    from devmod_targets.opencl_c._prints import Print

_WIDE = "-mwavefrontsize64"
#: clang's limit for OpenCL C is 256 threads, and that of HIP, which launches the kernels, is 1024.
_LIMITED = '"amdgpu-flat-work-group-size"="1,256"'
_LIMIT = '"amdgpu-flat-work-group-size"="1,1024"'


def compile_program(
    request: CompileRequest, compiler: Compiler, version: Sequence[str]
) -> tuple[Payload, list[str]]:
    """Compile an OpenCL C source to a code object.

    Parameters
    ----------
    request
        The compile request.
    compiler
        The compiler of LLVM IR.
    version
        clang's option for the version of the code object.

    Returns
    -------
    Payload
        The code object.
    list of str
        The warnings.
    """

    def compile_ir(inner: CompileRequest) -> Payload:
        return compiler(inner.replace(text=inner.text.replace(_LIMITED, _LIMIT)))

    processor = OpenclProcessor(request, version)
    payload, warnings = compile_opencl(request, processor, compile_ir)
    if processor.prints:
        place, _ = print_place(request.name, request.text)
        warnings.append(
            f"{place}: warning: printf prints nothing in a kernel in OpenCL C for rocm. Compile it for opencl or cuda to see the output"
        )
    return payload, warnings


class OpenclProcessor(Processor):
    """The processors of the kind.

    Attributes
    ----------
    prints
        Whether the program calls printf.
    """

    extra = "build-rocm-opencl"
    convention = "amdgpu_kernel"
    library = AMDGPU
    headers: Mapping[str, Sequence[str]] = {
        "devmod_amdgpu.h": (),
        "devmod_functions.h": (),
        "devmod_saturation.h": ("mad_sat",),
        "devmod_atomics.h": ("atom",),
        "devmod_groups.h": ("_group_",),
    }
    options = re.compile(
        r"-O[0-3s]|-m(?:no-)?wavefrontsize64|-ffp-contract=(?:on|off|fast)|-save-temps|-mcode-object-version=\d"
    )
    expected = "-O0 to -O3, or -mwavefrontsize64 (waves of 64 threads)"

    def __init__(self, request: CompileRequest, version: Sequence[str]) -> None:
        super().__init__(request)
        self.prints = False
        arch = request.target.arch
        self._wave = 64 if major_version(arch) < 10 else 32
        waves = [option for option in request.options if option.endswith("wavefrontsize64")]
        for option in waves:
            self._wave = 64 if option == _WIDE else 32
        target = ("--target=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib")
        self.flags = [*target, *version, *waves]
        if self._wave == 64:
            self.flags.append("-D__GFX_WAVE64__")

    def problem(self, kernel: ReflectedFunction) -> tuple[str, str]:
        if kernel.subgroup not in (None, self._wave):
            return (
                f"requires sub-groups of {kernel.subgroup}, and those of {self.request.target.arch} have {self._wave} with these options. "
                "-mwavefrontsize64 and -mno-wavefrontsize64 choose the size where the processor has both",
                "",
            )
        for param in kernel.params:
            if param.kind in ("image", "sampler"):
                return (
                    f"takes {param.name!r}, and devmod has no images for rocm. Pass an array, or compile for opencl",
                    param.name,
                )
        return "", ""

    def define_prints(self, prints: Sequence[Print]) -> str:
        self.prints = True
        return "".join(
            f"define internal i32 @{each.symbol}({', '.join(each.types)}) {{\n  ret i32 0\n}}\n"
            for each in prints
        )
