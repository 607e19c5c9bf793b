"""Programs: the source of a module with the loop over blocks and threads, compiled once, and the
cache of the compiled libraries.
"""

from __future__ import annotations

import re

from devmod.backend import DiskCache, Once
from devmod.errors import FormatError
from devmod_host import _driver
from devmod_host._device import devices
from devmod_host._headers import PRELUDE
from devmod_host._options import check_options
from devmod_host._types import C_TYPES
from devmod_readers.sources import closed_source, split_options
from devmod_runtime import call_uninterrupted, source_constants, specialize_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from devmod import FunctionInfo

_BINARIES = DiskCache("host")
_LOOP = """\
#define devmod_each_thread(call) \\
    gridDim = (struct devmod_dim3){devmod_shape[0], devmod_shape[1], devmod_shape[2]}; \\
    blockDim = (struct devmod_dim3){devmod_shape[3], devmod_shape[4], devmod_shape[5]}; \\
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++) \\
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++) \\
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) \\
    for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++) \\
    for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++) \\
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) call;
"""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def stubs(functions: Iterable[FunctionInfo]) -> str:
    """Return the C code that calls each function for every thread of a launch, and a table of these
    functions.

    The C compiler checks the calls against the source, so a wrong fmap cannot cause a call with
    wrong arguments.

    Raises
    ------
    FormatError
        C cannot call a function with the types of its info.
    """
    lines, names = [_LOOP], []
    for number, info in enumerate(functions):
        if not _NAME.fullmatch(info.name):
            raise FormatError(
                f"the host payload's fmap names a function {info.name!r}, which is not a name in C",
                kind="host",
            )
        values = ", ".join(_value(info, index) for index in range(len(info.arg_types)))
        names.append(f"devmod_launch_{number}")
        head = (
            f"static void {names[-1]}(void *const *devmod_values, const unsigned int *devmod_shape)"
        )
        lines.append(f"{head} {{ devmod_each_thread({info.name}({values})) }}")
    lines.append(
        f"void (*devmod_launches[])(void *const *, const unsigned int *) = {{ {', '.join([*names, '0'])} }};"
    )
    return "\n".join(lines) + "\n"


def _value(info: FunctionInfo, index: int) -> str:
    """Return an argument in C. The call passes the memory of a buffer, and the bytes of a
    number.
    """
    type_ = info.arg_types[index]
    if type_ == "handle":
        return f"devmod_values[{index}]"
    if info.interface is not None:
        type_ = info.interface.params[index].type or type_
    if type_ not in C_TYPES:
        raise FormatError(
            f"argument {index + 1} of the host function {info.name!r} is of type {type_}, which C cannot pass by value; "
            f"expected one of {', '.join(C_TYPES)}, or a pointer",
            kind="host",
            function=info.name,
        )
    return f"*(const {C_TYPES[type_]} *)devmod_values[{index}]"


class Program:
    """The program of a source payload with all its functions. `library` compiles it.

    Parameters
    ----------
    text
        The payload's source.
    functions
        The functions in the order of the fmap.
    """

    def __init__(self, text: str, functions: Sequence[FunctionInfo]) -> None:
        self._text = text
        self._functions = functions
        self._once = Once()

    @property
    def constants(self) -> Sequence[str]:
        """The names of the constants that the source defines."""
        return source_constants(self._text)

    def specialize(self, constants: Mapping[str, object]) -> Program:
        """Return the program with values for constants of its source. Equal values give the same
        object.

        Raises
        ------
        ArgumentError
            The source has no such constant, or C cannot represent a value.
        """
        key = ("specialized", *sorted((name, repr(value)) for name, value in constants.items()))
        return self._once.get(
            key, lambda: Program(specialize_source("host", self._text, constants), self._functions)
        )

    def library(self) -> _driver.Library:
        """Compile the program, once for all threads. The next call after a failure tries again.

        Raises
        ------
        DeviceNotFoundError
            There is no C compiler.
        CompileError, FormatError
            The source has errors, or does not match the fmap.
        """
        # An interrupt of tempfile's clean-up may close the file of another thread.
        return self._once.get("library", lambda: call_uninterrupted(self._load))

    def _load(self) -> _driver.Library:
        options, source = split_options(self._text)
        problem = check_options(options)
        if problem:
            raise FormatError(f"the first line of the host source has {problem}", kind="host")
        body = closed_source("host", source)
        text = f'{PRELUDE}#line 1 "{_driver.SOURCE}"\n{body}\n#line 1 "{_driver.LAUNCH}"\n{stubs(self._functions)}'
        compiler = devices()[0].compiler
        key = _BINARIES.key(compiler.identity, *options, text)
        binary = _BINARIES.read(key)
        if binary is None:
            binary = compiler.build(text, options)
            _BINARIES.write(key, binary)
        return _driver.Library(binary)
