"""What cuda and rocm have for OpenCL C: clang's flags, the headers, and the library of mathematics."""

from __future__ import annotations

import re
from hashlib import sha256

from devmod.errors import CompileError
from devmod_targets._text import header_text
from devmod_targets.authoring.zig import linked_files, run_zig
from devmod_targets.opencl.clang import front_end
from devmod_targets.opencl.device._definitions import parts_of
from devmod_targets.opencl.device._prints import declare, define_cuda, define_hip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod_targets.authoring import CompileRequest
    from devmod_targets.opencl.device._prints import Print


#: The memory of the functions of a work-group: a value for each of the most threads of a block. OpenCL C has no such variable outside
#: of a kernel.
_SCRATCH = """
@devmod_scratch = internal addrspace(3) global [1024 x i64] undef, align 16
define linkonce_odr hidden ptr addrspace(3) @devmod_values() alwaysinline { ret ptr addrspace(3) @devmod_scratch }
"""


class Processor:
    """A kind of processors.

    Attributes
    ----------
    flags
        clang's flags of the processor.
    calling_convention
        That of a kernel, in LLVM IR.
    spaces
        The keywords of clang's address spaces.
    headers
        devmod's headers of the built-in functions, in their order.
    """

    calling_convention = ""
    header = ""
    spaces: Mapping[int, str] = {0: "generic", 1: "global", 3: "local", 4: "constant", 5: "private"}
    flags: Sequence[str]

    def __init__(self, request: CompileRequest) -> None:
        self.request = request

    @property
    def headers(self) -> Mapping[str, str]:
        return {name: header_text(__package__, f"headers/{name}") for name in (self.header, "devmod_device.h")}

    def compile(self, definitions: str) -> tuple[str, list[str], list[bytes]]:
        """Compile the definitions of built-in functions.

        Returns
        -------
        str
            What the program has beside them, in LLVM IR text.
        list of str
            The names of the libraries that they need.
        list of bytes
            The definitions and the libraries in bitcode, in the order of the linking.
        """
        request = self.request
        if "devmod_image_ptr" in definitions:
            definitions = header_text(__package__, "headers/devmod_images.h") + definitions
        flags, output = ["-w", *self.flags, *parts_of(definitions)], ["-c", "-emit-llvm"]
        unit = front_end(request, definitions, flags, output, standard="2.0", headers=self.headers, declared=False)
        if unit.status:
            kind = request.target.kind
            raise CompileError(
                f"devmod's definitions of the built-in functions of OpenCL C do not compile for {kind}: {unit.log[:500]}",
                kind=kind,
                log=unit.log,
            )
        # A symbol is in bitcode as it is.
        lines, libraries, modules = self.library(unit.output)
        return lines + (_SCRATCH if b"devmod_values" in unit.output else ""), libraries, [unit.output, *modules]

    def prints(self, prints: Sequence[Print]) -> tuple[str, list[bytes]]:
        """Return what the program has of functions that print, in LLVM IR text, and the modules with the rest."""
        raise NotImplementedError

    def library(self, code: bytes) -> tuple[str, list[str], list[bytes]]:
        """Return the result of `compile` for the functions of mathematics of which bitcode has symbols."""
        raise NotImplementedError


class Nvptx(Processor):
    calling_convention = "ptx_kernel"
    header = "devmod_nvptx.h"

    def __init__(self, request: CompileRequest) -> None:
        super().__init__(request)
        features = [option for option in request.options if option.startswith("--cuda-feature=")]
        self.flags = ["--target=nvptx64-nvidia-cuda", f"-march={request.target.archs[0].replace('compute_', 'sm_')}", *features]

    def prints(self, prints: Sequence[Print]) -> tuple[str, list[bytes]]:
        return define_cuda(prints), []

    def library(self, code: bytes) -> tuple[str, list[str], list[bytes]]:
        if b"__nv_" not in code:
            return "", [], []
        from devmod_targets.cuda.libdevice import find_libdevice

        data = find_libdevice(self.request)
        return "", [f"libdevice sha256:{sha256(data).hexdigest()[:16]}"], [data]


class Amdgcn(Processor):
    calling_convention = "amdgpu_kernel"
    header = "devmod_amdgcn.h"

    def __init__(self, request: CompileRequest) -> None:
        super().__init__(request)
        from devmod_targets.rocm.mathematics import processor_flags

        self.flags = ["--target=amdgcn-amd-amdhsa", *processor_flags(request)]

    def prints(self, prints: Sequence[Print]) -> tuple[str, list[bytes]]:
        from devmod_targets.rocm.mathematics import compile_functions

        return declare(prints), [compile_functions(self.request, define_hip(prints))[0]]

    def library(self, code: bytes) -> tuple[str, list[str], list[bytes]]:
        found = {match[0].decode(): [part.decode() for part in match.groups()] for match in _OF_HIP.finditer(code)}
        lines = [_INTRINSIC.format(symbol=symbol, name=name) for symbol, (type_, name, _) in found.items() if _is_of_llvm(type_, name)]
        definitions = {symbol: _hip_definition(symbol, *each) for symbol, each in found.items() if not _is_of_llvm(*each[:2])}
        if not definitions:
            return "".join(lines), [], []
        from devmod_targets.rocm.mathematics import compile_functions

        module, libraries, needed = compile_functions(self.request, definitions)
        if needed:
            raise MissingFunctionError(sorted(needed)[0].split("_")[2])
        return "".join(lines), libraries, [module]


#: The definitions have pointers to any address space, which LLVM replaces when it inlines them. A device chooses its vectors itself.
_SPIRV_OUTPUT = ("-c", "-O2", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops")


class Spirv(Processor):
    header = "devmod_spirv.h"
    spaces: Mapping[int, str] = {0: "private", 1: "global", 2: "constant", 3: "local", 4: "generic"}

    def __init__(self, request: CompileRequest, version: str) -> None:
        super().__init__(request)
        self.flags = [f"--target=spirv64v{version}-unknown-unknown"]

    def library(self, code: bytes) -> tuple[str, list[str], list[bytes]]:
        missing = re.search(rb"devmod_missing_\w+", code)
        if missing:
            raise MissingFunctionError(missing[0].decode())
        return "", [], []

    def link(self, text: str, modules: Sequence[bytes]) -> bytes:
        """Return the program with the modules in SPIR-V.

        Raises
        ------
        CompileError
            LLVM refuses the program.
        """
        files, linked = linked_files(modules)
        command = ["clang", "--no-default-config", "-x", "ir", "-Wno-override-module", *self.flags, *_SPIRV_OUTPUT, *linked]
        result = run_zig([*command, "program.ll", "-o", "out"], {"program.ll": text.encode(), **files}, "out", kind="opencl")
        if result.status:
            raise self.request.error(f"LLVM cannot link {self.request.name} for opencl: {result.log[:500]}", log=result.log)
        return result.output


class MissingFunctionError(Exception):
    """A function of the library of mathematics is not there. On rocm it is in the device library, which the request does not name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


#: The symbol of a function of HIP, with its type, its name and the number of its parameters.
_OF_HIP = re.compile(rb"devmod_(f32|f64|fast)_(\w+?)_of([12])")
#: LLVM computes these functions of float for amdgcn, so HIP's headers are not read for them.
_OF_LLVM = ("exp", "exp2", "exp10", "log", "log2", "log10")
_INTRINSIC = (
    "define linkonce_odr hidden float @{symbol}(float %x) alwaysinline {{\n"
    "  %result = call float @llvm.{name}.f32(float %x)\n  ret float %result\n}}\n"
)


def _is_of_llvm(type_: str, name: str) -> bool:
    return type_ == "f32" and name in _OF_LLVM


#: The fast functions of HIP that are not used: the emulator of gfx1100 does not compute them as the processor does.
_PRECISE = ("sin", "cos")


def _hip_definition(symbol: str, type_: str, name: str, count: str) -> str:
    """Return the definition of a function in HIP, by the function of the same name in HIP's headers."""
    number, function = {
        "f32": ("float", f"{name}f"),
        "f64": ("double", name),
        "fast": ("float", f"{'' if name in _PRECISE else '__'}{name}f"),
    }[type_]
    names = "xy"[: int(count)]
    return f"{number} {symbol}({', '.join(f'{number} {each}' for each in names)}) {{ return {function}({', '.join(names)}); }}"


PROCESSORS: Mapping[str, type[Processor]] = {"cuda": Nvptx, "rocm": Amdgcn}
