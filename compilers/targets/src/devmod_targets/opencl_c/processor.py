"""What a kind gives for OpenCL C: clang's flags, the library of the built-in functions, and the
limits of its kernels.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from devmod.errors import CompileError, ToolchainNotFoundError, pip_install
from devmod_targets._text import header_text
from devmod_targets.authoring.zig import toolchain
from devmod_targets.libclc import describe, read_library
from devmod_targets.opencl.clang import run_front_end

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod_readers.reflection import ReflectedFunction
    from devmod_targets.authoring import CompileRequest, Payload
    from devmod_targets.opencl_c._prints import Print


#: The features of OpenCL C 3.0 that are functions of 2.0.
_FEATURES = (
    "atomic_order_acq_rel",
    "atomic_order_seq_cst",
    "atomic_scope_device",
    "atomic_scope_all_devices",
    "generic_address_space",
    "images",
    "int64",
    "program_scope_global_variables",
    "read_write_images",
    "work_group_collective_functions",
)
#: clang's flags of the language.
LANGUAGE = ("-Xclang", f"-cl-ext={','.join(f'+__opencl_c_{name}' for name in _FEATURES)}")
_ZIGLANG = re.compile(r"ziglang (\d+)\.(\d+).*")
#: The first version of ziglang whose clang is that of libclc.
_LEAST_ZIGLANG = (0, 17)


class Processor(ABC):
    """The processors of a kind.

    Attributes
    ----------
    extra
        The extra of devmod-core with the compilers.
    convention
        The calling convention of a kernel, in LLVM IR.
    headers
        The files of devmod's own built-in functions, in the folder ``headers``, in their order. A
        program without the words of a file does not need it: clang takes some time for each.
    options
        The options that the kind's compiler of LLVM IR takes, besides those of OpenCL.
    expected
        Examples of these options, for errors.
    flags
        clang's flags of the processor.
    library
        The library of `devmod_targets.libclc`.
    """

    extra: str
    convention: str
    headers: Mapping[str, Sequence[str]]
    options: re.Pattern[str]
    expected: str
    flags: Sequence[str]
    library: str

    def __init__(self, request: CompileRequest) -> None:
        self.request = request

    def check_clang(self) -> None:
        """Check that clang reads the bitcode of libclc.

        Raises
        ------
        ToolchainNotFoundError
            The wheel ziglang is too old.
        """
        version = _ZIGLANG.fullmatch(toolchain())
        if version is None or (int(version[1]), int(version[2])) >= _LEAST_ZIGLANG:
            return
        kind = self.request.target.kind
        least = ".".join(map(str, _LEAST_ZIGLANG))
        raise ToolchainNotFoundError(
            f"{kind} cannot compile OpenCL C here: expected ziglang {least} or newer, whose clang reads the bitcode of {describe()}, got "
            f"{toolchain()}. To update it: {pip_install('--upgrade', f'devmod-core[{self.extra}]')}",
            kind=kind,
        )

    def modules(self, text: str) -> Sequence[bytes]:
        """Return the bitcode with the built-in functions of a program, in the order of the linking:
        each module needs functions of the other.
        """
        headers = [
            name for name, words in self.headers.items() if all(word in text for word in words)
        ]
        own = own_functions(self.request.target.kind, tuple(self.flags), tuple(headers))
        return own, _library(self.library), own

    def attributes(self, kernels: Mapping[str, ReflectedFunction]) -> Mapping[str, str]:
        """Return the attributes that LLVM needs for kernels, by their names."""
        return MappingProxyType({})

    @abstractmethod
    def problem(self, kernel: ReflectedFunction) -> tuple[str, str]:
        """Return why the kind cannot have a kernel, as the end of a sentence that begins with it,
        and the argument; two empty strings if it can.
        """

    def problem_of_code(self, kernel: ReflectedFunction, payload: Payload) -> str:
        """Return why the kind cannot have a kernel with this code, as the end of a sentence that
        begins with it; "" if it can.
        """
        return ""

    @abstractmethod
    def define_prints(self, prints: Sequence[Print]) -> str:
        """Return the functions that print, in LLVM IR text."""


@lru_cache(2)
def _library(name: str) -> bytes:
    """Return the bitcode of libclc. A process reads it once."""
    return read_library(name)


@lru_cache(8)
def own_functions(kind: str, flags: Sequence[str], headers: Sequence[str]) -> bytes:
    """Return the bitcode of devmod's own built-in functions. A process compiles them once."""
    text = "".join(header_text(__package__, f"headers/{name}") for name in headers)
    result = run_front_end(
        text, ["-cl-std=CL2.0", "-w", *LANGUAGE, *flags], ["-c", "-emit-llvm"], kind=kind
    )
    if result.status:
        raise CompileError(
            f"devmod's built-in functions of OpenCL C do not compile for {kind}: {result.log[:500]}",
            kind=kind,
            log=result.log,
        )
    return result.output
