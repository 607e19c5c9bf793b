"""What cuda and rocm have for OpenCL C: clang's flags, the headers, and the library of mathematics."""

from __future__ import annotations

import re
from hashlib import sha256

from devmod.errors import CompileError
from devmod_targets._text import header_text
from devmod_targets.authoring.zig import run_zig
from devmod_targets.opencl.clang import UNOPTIMIZED, front_end
from devmod_targets.opencl.device._prints import define_cuda, define_hip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod_targets.authoring import CompileRequest
    from devmod_targets.opencl.device._prints import Print


_DECLARED = re.compile(r"^declare [^@\n]*@([\w.$]+)\(", re.MULTILINE)
#: The memory of the functions of a work-group: a value for each of the most threads of a block.
_SCRATCH = """
@devmod_scratch = internal addrspace(3) global [1024 x i64] undef, align 16
define internal ptr addrspace(3) @devmod_values() alwaysinline { ret ptr addrspace(3) @devmod_scratch }
"""
_SCRATCH_DECLARATION = re.compile(r"^declare [^\n]*@devmod_values\([^\n]*\n", re.MULTILINE)


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
    output
        clang's flags of the linked program: by default optimized LLVM IR text.
    headers
        devmod's headers of the built-in functions, in their order.
    """

    calling_convention = ""
    header = ""
    spaces: Mapping[int, str] = {0: "generic", 1: "global", 3: "local", 4: "constant", 5: "private"}
    flags: Sequence[str]
    output: Sequence[str] = ("-emit-llvm", "-S", "-O2")

    def __init__(self, request: CompileRequest) -> None:
        self.request = request

    @property
    def headers(self) -> Mapping[str, str]:
        return {name: header_text(__package__, f"headers/{name}") for name in (self.header, "devmod_device.h")}

    def compile(self, definitions: str) -> str:
        """Return the definitions of built-in functions as LLVM IR text."""
        request = self.request
        if "devmod_image_ptr" in definitions:
            definitions = header_text(__package__, "headers/devmod_images.h") + definitions
        flags, output = ["-w", *self.flags], ["-S", "-emit-llvm"]
        unit = front_end(request, definitions, flags, output, standard="2.0", headers=self.headers, declared=False)
        if unit.status:
            kind = request.target.kind
            raise CompileError(
                f"devmod's definitions of the built-in functions of OpenCL C do not compile for {kind}: {unit.log[:500]}",
                kind=kind,
                log=unit.log,
            )
        return unit.output.decode()

    def finish(self, text: str, prints: Sequence[Print] = ()) -> tuple[str, list[str], list[bytes]]:
        """Return the definitions with the memory that they need, the names of the libraries, and the modules in which those are.

        The definitions or the libraries also have the functions of `prints`.
        """
        if _SCRATCH_DECLARATION.search(text):
            text = _SCRATCH_DECLARATION.sub("", text) + _SCRATCH
        functions = [name for name in _DECLARED.findall(text) if not name.startswith("llvm.")]
        libraries, modules = self.library(functions, text, prints) if functions or prints else ([], [])
        return text + self.prints(prints), libraries, modules

    def prints(self, prints: Sequence[Print]) -> str:
        """Return the definitions of functions that print; "" if the library has them."""
        return ""

    def library(self, functions: Sequence[str], text: str, prints: Sequence[Print]) -> tuple[list[str], list[bytes]]:
        """Return the names and the modules of the library that defines functions."""
        raise NotImplementedError

    def link(self, text: str, definitions: str, modules: Sequence[bytes]) -> bytes:
        """Return the program with the definitions and what they need of the modules, as `output` has it.

        Raises
        ------
        CompileError
            LLVM refuses the program.
        """
        bitcode = self._run(["-emit-llvm", "-c", *UNOPTIMIZED], {"program.ll": definitions.encode()})
        files = {"program.ll": text.encode(), "definitions.bc": bitcode}
        files |= {f"library{number}.bc": module for number, module in enumerate(modules)}
        linked = [part for name in list(files)[1:] for part in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", name)]
        return self._run([*self.output, *linked], files)

    def _run(self, arguments: Sequence[str], files: Mapping[str, bytes]) -> bytes:
        kind = self.request.target.kind
        command = ["clang", "--no-default-config", "-x", "ir", "-Wno-override-module", *self.flags, *arguments, "program.ll", "-o", "out"]
        result = run_zig(command, files, "out", kind=kind)
        if result.status:
            raise CompileError(f"LLVM cannot link {self.request.name} for {kind}: {result.log[:500]}", kind=kind, log=result.log)
        return result.output


class Nvptx(Processor):
    calling_convention = "ptx_kernel"
    header = "devmod_nvptx.h"

    def __init__(self, request: CompileRequest) -> None:
        super().__init__(request)
        features = [option for option in request.options if option.startswith("--cuda-feature=")]
        self.flags = ["--target=nvptx64-nvidia-cuda", f"-march={request.target.archs[0].replace('compute_', 'sm_')}", *features]

    def prints(self, prints: Sequence[Print]) -> str:
        return define_cuda(prints)

    def library(self, functions: Sequence[str], text: str, prints: Sequence[Print]) -> tuple[list[str], list[bytes]]:
        if not functions:
            return [], []
        from devmod_targets.cuda.libdevice import find_libdevice

        data = find_libdevice(self.request)
        return [f"libdevice sha256:{sha256(data).hexdigest()[:16]}"], [data]


class Amdgcn(Processor):
    calling_convention = "amdgpu_kernel"
    header = "devmod_amdgcn.h"

    def __init__(self, request: CompileRequest) -> None:
        super().__init__(request)
        from devmod_targets.rocm.mathematics import processor_flags

        self.flags = ["--target=amdgcn-amd-amdhsa", *processor_flags(request)]

    def library(self, functions: Sequence[str], text: str, prints: Sequence[Print]) -> tuple[list[str], list[bytes]]:
        from devmod_targets.rocm.mathematics import compile_functions

        definitions = {name: _hip_definition(name, _count(text, name)) for name in functions}
        code, libraries, needed = compile_functions(self.request, {**definitions, **define_hip(prints)})
        if needed:
            raise MissingFunctionError(sorted(needed)[0].rpartition("_")[2])
        return libraries, [self._run(["-emit-llvm", "-c", *UNOPTIMIZED], {"program.ll": code.encode()})]


class Spirv(Processor):
    header = "devmod_spirv.h"
    spaces: Mapping[int, str] = {0: "private", 1: "global", 2: "constant", 3: "local", 4: "generic"}
    # The definitions have pointers to any address space, which LLVM replaces when it inlines them. A device chooses its vectors itself.
    output = ("-c", "-O2", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops")

    def __init__(self, request: CompileRequest, version: str) -> None:
        super().__init__(request)
        self.flags = [f"--target=spirv64v{version}-unknown-unknown"]

    def library(self, functions: Sequence[str], text: str, prints: Sequence[Print]) -> tuple[list[str], list[bytes]]:
        own = [name for name in functions if not re.match(r"_Z\d+(?:__spirv_|get_)", name)]
        if own:
            raise MissingFunctionError(own[0])
        return [], []


class MissingFunctionError(Exception):
    """A function of the library of mathematics is not there. On rocm it is in the device library, which the request does not name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _count(text: str, name: str) -> int:
    """Return the number of parameters of a declared function."""
    match = re.search(rf"@{re.escape(name)}\(([^)]*)\)", text)
    return match[1].count(",") + 1 if match else 1


#: The fast functions of HIP that are not used: the emulator of gfx1100 does not compute them as the processor does.
_PRECISE = ("sin", "cos")


def _hip_definition(symbol: str, count: int) -> str:
    """Return the definition of a function in HIP, by the function of the same name in HIP's headers."""
    _, type_, name = symbol.split("_", 2)
    number, function = {
        "f32": ("float", f"{name}f"),
        "f64": ("double", name),
        "fast": ("float", f"{'' if name in _PRECISE else '__'}{name}f"),
    }[type_]
    names = ", ".join("xyz"[:count])
    return f"{number} {symbol}({', '.join(f'{number} {each}' for each in 'xyz'[:count])}) {{ return {function}({names}); }}"


PROCESSORS: Mapping[str, type[Processor]] = {"cuda": Nvptx, "rocm": Amdgcn}
