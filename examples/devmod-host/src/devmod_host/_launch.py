"""Launching: the loop over blocks and threads, in C after the text of the payload, and its call."""

from __future__ import annotations

import re
from time import perf_counter

from devmod.errors import FormatError, LaunchError
from devmod_host import _driver
from devmod_host._device import HostStream, devices
from devmod_host._types import C_TYPES
from devmod_runtime import Kernel, LaunchConfig, Launcher

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
    """Return the C code that calls each function for every thread of a launch, and a table of these functions.

    The C compiler checks the calls against the source, so a wrong fmap cannot cause a call with wrong arguments.

    Raises
    ------
    FormatError
        C cannot call a function with the types of its info.
    """
    lines, names = [_LOOP], []
    for number, info in enumerate(functions):
        if not _NAME.fullmatch(info.name):
            raise FormatError(f"the host payload's fmap names a function {info.name!r}, which is not a name in C", kind="host")
        values = ", ".join(_value(info, index) for index in range(len(info.arg_types)))
        names.append(f"devmod_launch_{number}")
        head = f"static void {names[-1]}(void *const *devmod_values, const unsigned int *devmod_shape)"
        lines.append(f"{head} {{ devmod_each_thread({info.name}({values})) }}")
    lines.append(f"void (*devmod_launches[])(void *const *, const unsigned int *) = {{ {', '.join([*names, '0'])} }};")
    return "\n".join(lines) + "\n"


def _value(info: FunctionInfo, index: int) -> str:
    """Return an argument in C. The call passes the memory of a buffer, and the bytes of a number."""
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


class HostLauncher(Launcher):
    """One function of a host module. `number` is its position in the fmap."""

    kind = "host"
    no_shared_memory = "the threads of a block run one after the other, and share only their arguments"

    def __init__(self, program: Program, number: int, name: str) -> None:
        self._program = program
        self._number = number
        self._name = name

    def default_device(self) -> Device:
        return devices()[0]

    def kernel(self, device: Device) -> HostKernel:
        return HostKernel(self._program.library(), self._number, self._name, device)

    @property
    def constants(self) -> Sequence[str]:
        return self._program.constants

    def specialize(self, constants: Mapping[str, object]) -> HostLauncher:
        return HostLauncher(self._program.specialize(constants), self._number, self._name)


class HostKernel(Kernel):
    """A compiled function. cffi releases the GIL during a call."""

    def __init__(self, library: _driver.Library, number: int, name: str, device: Device) -> None:
        self._library = library  # a reference: the code is unloaded with it
        self._launch = library.launch(number)
        self._name = name
        self._device = device

    def shape(self, launch: LaunchConfig) -> Any:
        limit = self._device.limits["max_dimension"]
        problem = ""
        if launch.cluster != (1, 1, 1):
            problem = f"it does not support clusters; expected cluster=(1, 1, 1), got {launch.cluster}"
        elif max(*launch.grid, *launch.block) > limit:
            problem = f"its max_dimension is {limit}, got grid={launch.grid}, block={launch.block}"
        if problem:
            raise LaunchError(
                f"the host function {self._name!r} cannot be launched on {self._device}: {problem}",
                kind="host",
                function=self._name,
                argument="grid" if max(launch.grid) > limit else "",
            )
        return _driver.ffi.new("unsigned int[]", [*launch.grid, *launch.block])

    def caller(self, stream: Stream, shape: Any) -> Callable[[Sequence[Any]], None]:
        assert isinstance(stream, HostStream)
        # Local names: this function runs at every call.
        launch, turn, new, address = self._launch, stream.turn, _driver.ffi.new, _driver.ffi.from_buffer

        def call(values: Sequence[Any]) -> None:
            pointers = [address(value) if type(value) is bytes else value for value in values]
            with turn:
                launch(new("void *[]", pointers), shape)

        return call

    def time(self, stream: Stream, shape: Any, values: Sequence[Any]) -> float:
        call = self.caller(stream, shape)
        start = perf_counter()
        call(values)
        return perf_counter() - start
