"""Launches, by ctypes for every driver: a ctypes function with prepared arguments is faster than one of a vendor's package."""

from __future__ import annotations

import ctypes
from abc import abstractmethod
from itertools import repeat, starmap

from devmod_runtime.driver_api.calls import Calls
from devmod_runtime.driver_api.errors import DriverError
from devmod_runtime.driver_api.symbols import Failures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Dims = tuple[int, int, int]


class ParameterBlock:
    """The packed parameters of a launch, and the array by which the driver finds them (``extra``).

    A launch reads the block before it returns. Launches of several threads at once need a block each.

    Parameters
    ----------
    nbytes
        The bytes of the parameters.
    end
        `Api.parameters_end`.
    offsets
        The offset of each parameter, for a launch that takes their addresses.

    Attributes
    ----------
    buffer
        The bytes, for ``struct.pack_into``.
    extra : int
        The address of the array.
    pointers : int
        The address of an array with the address of each parameter.
    """

    __slots__ = ("_extra", "_pointers", "_size", "buffer", "extra", "pointers")

    def __init__(self, nbytes: int, end: int = 0, offsets: Sequence[int] = ()) -> None:
        self.buffer = ctypes.create_string_buffer(max(nbytes, 1))
        self._size = ctypes.c_size_t(nbytes)
        start = ctypes.addressof(self.buffer)
        # The marks of the buffer's address and of the address of its size are 1 and 2 in CUDA and HIP.
        self._extra = (ctypes.c_void_p * 5)(1, start, 2, ctypes.addressof(self._size), end)
        self.extra = ctypes.addressof(self._extra)
        self._pointers = (ctypes.c_void_p * max(len(offsets), 1))(*(start + offset for offset in offsets))
        self.pointers = ctypes.addressof(self._pointers)


class Launches(Calls):
    """The launches of one driver."""

    @abstractmethod
    def launch_config(self, grid: Dims, block: Dims, shared_memory: int, stream: int, attributes: Sequence[tuple[int, bytes]] = ()) -> Any:
        """Return a launch configuration as `prepare_launch` takes it.

        Parameters
        ----------
        grid, block
            Blocks, and threads of a block.
        shared_memory
            Dynamic shared memory in bytes.
        stream
            The stream's handle.
        attributes
            The number and the value of each attribute of the driver's own.
        """

    @abstractmethod
    def launch_call(self, config: Any, function: int, block: ParameterBlock) -> tuple[str, Any, tuple[Any, ...]]:
        """Return the name of the driver's function that launches, its object of ctypes, and its arguments."""

    def prepare_launch(
        self,
        context: int,
        config: Any,
        function: int,
        block: ParameterBlock,
        explain: Callable[[DriverError], Exception] = lambda error: error,
    ) -> Callable[[], object]:
        """Return a function of C without parameters that launches. It keeps `block` alive.

        The thread's current context is not queried: if it is the wrong one, the launch is repeated with `context`.

        Parameters
        ----------
        context
            The context of the function and the stream.
        config
            A result of `launch_config`.
        function
            The function's handle.
        block
            The parameters.
        explain
            Returns the exception for an error of the driver.
        """
        launch = self.launch_call(config, function, block)

        def repeat_launch(status: int) -> None:
            try:
                self._launch_again(context, launch, status)
            except DriverError as error:
                explained = explain(error)
                if explained is error:
                    raise
                raise explained from error

        repeat_launch.block = block  # type: ignore[attr-defined]  # the arguments have its addresses alone
        launches = starmap(launch[1], repeat(launch[2]))
        return map(Failures(0, repeat_launch).__getitem__, launches).__next__

    def _launch_again(self, context: int, launch: tuple[str, Any, tuple[Any, ...]], status: int) -> None:
        """Repeat a launch that failed with `status`, with `context` current. Another context of the thread is current again afterwards.

        Raises
        ------
        DriverError
            The error of the launch, if `context` was current or if the error has another cause; else that of the second launch.
        """
        name, call, arguments = launch
        error: DriverError = self.error(name, status)
        if error.name not in self.api.wrong_context:
            raise error
        current = self.current_context()
        if current == context:
            raise error
        if current == self.no_context:
            self.set_context(context)
            status = call(*arguments)
        else:
            # Not `set_context` afterwards: another library may have destroyed the context that was current.
            push, pop = self.context_functions(context)
            push()
            try:
                status = call(*arguments)
            finally:
                pop(None, None, None)
        if status:
            raise self.error(name, status)
