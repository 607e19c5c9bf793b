"""Launching: the loop over blocks and threads, written in C behind the payload's own text, and the call of it."""

from __future__ import annotations

import re
from time import perf_counter

from devmod.backend import Kernel, Launcher, LaunchShape
from devmod.errors import FormatError, LaunchError
from devmod_host import _driver
from devmod_host._device import HostStream, devices
from devmod_host._types import C_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from devmod import Device, FunctionInfo, Stream
    from devmod_host._program import Program

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
    """The C that calls each function for every thread of a launch, and the table by which they are found.

    The C compiler checks it against the source, so that an fmap that lies cannot make a call with the wrong arguments.

    Raises
    ------
    FormatError
        A function cannot be called from C as its info says.
    """
    lines, names = [_LOOP], []
    for number, info in enumerate(functions):
        if not _NAME.fullmatch(info.name):
            raise FormatError(f"the host payload's fmap names a function {info.name!r}, which is no name in C", kind="host")
        values = ", ".join(_value(info, index) for index in range(len(info.arg_types)))
        names.append(f"devmod_launch_{number}")
        head = f"static void {names[-1]}(void *const *devmod_values, const unsigned int *devmod_shape)"
        lines.append(f"{head} {{ devmod_each_thread({info.name}({values})) }}")
    lines.append(f"void (*devmod_launches[])(void *const *, const unsigned int *) = {{ {', '.join([*names, '0'])} }};")
    return "\n".join(lines) + "\n"


def _value(info: FunctionInfo, index: int) -> str:
    """An argument in C. Core hands a buffer over as its memory, and a number as its bytes."""
    type_ = info.arg_types[index]
    if type_ == "handle":
        return f"devmod_values[{index}]"
    if info.interface is not None:
        type_ = info.interface.params[index].type or type_
    if type_ not in C_TYPES:
        raise FormatError(
            f"argument {index + 1} of the host function {info.name!r} is of type {type_}, which C cannot be given by value; "
            f"it takes {', '.join(C_TYPES)}, and pointers",
            kind="host",
            function=info.name,
        )
    return f"*(const {C_TYPES[type_]} *)devmod_values[{index}]"


class HostLauncher(Launcher):
    """One function of a host module, by its place in the module's fmap."""

    kind = "host"
    no_shared_memory = "the threads of a block run one after the other here, and share nothing but their arguments"

    def __init__(self, program: Program, number: int, name: str) -> None:
        self._program = program
        self._number = number
        self._name = name

    def default_device(self) -> Device:
        return devices()[0]

    def kernel(self, device: Device) -> HostKernel:
        return HostKernel(self._program.library(), self._number, self._name, device)

    def specialized(self, constants: Mapping[str, object]) -> HostLauncher:
        return HostLauncher(self._program.specialized(constants), self._number, self._name)


class HostKernel(Kernel):
    """A compiled function. cffi lets other Python threads run while it runs."""

    def __init__(self, library: _driver.Library, number: int, name: str, device: Device) -> None:
        self._library = library  # the code lives as long as it
        self._launch = library.launch(number)
        self._name = name
        self._device = device

    def shape(self, launch: LaunchShape) -> Any:
        most = self._device.limits["max_dimension"]
        trouble = ""
        if launch.cluster != (1, 1, 1):
            trouble = f"it has no clusters, and clusters of {launch.cluster} blocks were asked for"
        elif max(*launch.grid, *launch.block) > most:
            trouble = f"its max_dimension is {most}, and grid={launch.grid}, block={launch.block} was asked for"
        if trouble:
            raise LaunchError(
                f"the host function {self._name!r} cannot be launched so on {self._device}: {trouble}", kind="host", function=self._name
            )
        return _driver.ffi.new("unsigned int[]", [*launch.grid, *launch.block])

    def caller(self, stream: Stream, shape: Any) -> Callable[[Sequence[Any]], None]:
        assert isinstance(stream, HostStream)
        # What every call uses is at hand in local names.
        launch, turn, new, address = self._launch, stream.turn, _driver.ffi.new, _driver.ffi.from_buffer

        def call(values: Sequence[Any]) -> None:
            pointers = [address(value) if type(value) is bytes else value for value in values]
            with turn:
                launch(new("void *[]", pointers), shape)

        return call

    def time(self, stream: Stream, shape: Any, values: Sequence[Any]) -> float:
        call = self.caller(stream, shape)
        begun = perf_counter()
        call(values)
        return perf_counter() - begun
