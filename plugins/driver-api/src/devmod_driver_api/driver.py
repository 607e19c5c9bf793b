"""One opened driver: the functions of its library by ctypes. Handles are integers, which `Handles`
creates and destroys.

A ctypes function returns only after its result is stored. A vendor's package converts the status in
Python code, so KeyboardInterrupt may be raised there after the driver has created a handle, or
after it has queued a graph.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_int
from itertools import repeat, starmap
from typing import Any, NamedTuple

from devmod_driver_api.api import RELAXED_CAPTURE, Api, DriverError

Dims = tuple[int, int, int]


class DriverLaunchConfig(NamedTuple):
    """The checked configuration of a launch, as the driver takes it.

    Attributes
    ----------
    grid, block
        Blocks, and threads of a block.
    shared_memory
        Dynamic shared memory in bytes.
    attributes
        The number and the value of each attribute of the driver's own.
    """

    grid: Dims
    block: Dims
    shared_memory: int
    attributes: Sequence[tuple[int, bytes]] = ()


#: The name of the driver's function that launches, its object of ctypes, and its arguments.
LaunchCall = tuple[str, Any, tuple[Any, ...]]
#: A function of ctypes, the types of its results, and whether their pointers come last.
Prototype = tuple[Any, tuple[Any, ...], bool]


class Failures(dict):  # type: ignore[type-arg]
    """A function of C for the result of a call: its ``__getitem__`` returns for a success, which is
    0, and calls a Python function otherwise.

    Parameters
    ----------
    handle
        The function for other results. It repeats the call or raises DriverError.
    """

    def __init__(self, handle: Callable[[Any], None]) -> None:
        super().__init__({0: None})
        self._handle = handle

    def __missing__(self, result: Any) -> None:
        self._handle(result)


class RelaxedCapture:
    """The relaxed capture mode of the thread for the body of a ``with`` statement. After an
    interrupt the mode may stay.
    """

    __slots__ = ("_driver", "_exchange", "_mode")

    def __init__(self, driver: Driver, exchange: Any) -> None:
        self._driver = driver
        self._exchange = exchange

    def __enter__(self) -> None:
        self._mode = byref(c_int(RELAXED_CAPTURE))
        status = self._exchange(self._mode)
        if status:
            raise self._driver.error(
                self._driver.api.functions["exchange_capture_mode"].name, status
            )

    def __exit__(self, *_: object) -> None:
        self._exchange(self._mode)  # the driver has written the mode before


class Driver(ABC):
    """One opened driver.

    The methods work on the thread's current context, unless they have a parameter `context`. They
    raise DriverError.

    Parameters
    ----------
    library
        ctypes' CDLL of the library that the process has opened.

    Attributes
    ----------
    api : Api
        The API of the library.
    name : str
        What opens the driver and has its contexts: "ctypes", or a package.
    no_context : int
        The result of `current_context` for a thread without a context.
    """

    api: Api
    name = "ctypes"
    no_context = 0

    def __init__(self, library: Any) -> None:
        self.library = library
        self._prototypes: dict[str, Prototype] = {}

    # -- functions of the library

    def symbol(self, name: str) -> Any:
        """Return a new object of ctypes for a symbol; the API's error "not supported" if the driver
        lacks it.
        """
        try:
            return self.library[name]  # a new object each time, unlike an attribute
        except AttributeError:
            raise DriverError(
                self.api.not_supported, "this driver has no such function", name
            ) from None

    def error(self, call: str, status: int) -> DriverError:
        """Return the error for a status that is not a success."""
        name = self.status_text(self.api.error_name, status)
        text = self.status_text(self.api.error_text, status)
        if text == name:
            text = ""
        return DriverError(name or f"error {status}", text, call)

    def status_text(self, symbol: str, status: int) -> str:
        """Return the text that a function of the library writes for a status; "" if it has none."""
        text = ctypes.c_char_p()
        self.symbol(symbol)(c_int(status), byref(text))
        return (text.value or b"").decode()

    def prototype(self, operation: str) -> Prototype:
        """Return ctypes' function, the types of its results, and whether their pointers come after
        the other parameters.
        """
        prototype = self._prototypes.get(operation)
        if prototype is None:
            name, results, parameters, symbol, is_last = self.api.functions[operation]
            function = self.symbol(symbol or name)
            places = tuple(map(POINTER, results))
            if is_last:
                function.argtypes = parameters + places
            else:
                function.argtypes = places + parameters
            prototype = self._prototypes[operation] = function, results, is_last
        return prototype

    def call(self, operation: str, *arguments: Any) -> Any:
        """Call the function of an operation, and return its results: None, a number, or a tuple of
        numbers.

        Parameters
        ----------
        operation
            A key of `Api.functions`.
        arguments
            The input parameters of the function in their order; pointers are addresses.
        """
        call, types, is_last = self.prototype(operation)
        results = [each() for each in types]
        places = [byref(each) for each in results]
        if is_last:
            status = call(*arguments, *places)
        else:
            status = call(*places, *arguments)
        if status:
            raise self.error(self.api.functions[operation].name, status)
        if not results:
            return None
        values = [each.value or 0 for each in results]
        if len(values) == 1:
            return values[0]
        return tuple(values)

    # -- handles in lists

    def create_into(self, cell: list[Any], operation: str, *arguments: Any) -> int:
        """Call a function that creates a handle, and return the handle. No interrupt comes between
        the creation and its place in `cell`.

        Parameters
        ----------
        cell
            An empty list, to which the object of ctypes with the handle is added. It stays empty if
            the call fails.
        operation
            The operation.
        arguments
            Its input parameters in their order.
        """
        call, (result,), is_last = self.prototype(operation)
        place = result()
        cell.append(place)
        if is_last:
            status = call(*arguments, byref(place))
        else:
            status = call(byref(place), *arguments)
        if status:
            cell.clear()
            raise self.error(self.api.functions[operation].name, status)
        return int(place.value or 0)

    def destroy_from(self, cell: list[Any], operation: str) -> None:
        """Remove the handle of `create_into` from `cell` and destroy it with one call of C. The
        driver's error is ignored.

        Raises
        ------
        IndexError
            The cell is empty.
        """
        deque(map(self.prototype(operation)[0], map(list.pop, (cell,))), 0)

    def launch_graph_of(self, cell: list[Any], executable: int, stream: int) -> None:
        """Queue an executable graph and remove its graph, the handle of `create_into`, from `cell`,
        with one call of C.
        """
        launch = self.prototype("launch_graph")[0]
        # The C calling convention lets a caller pass more arguments than a function has.
        (status,) = map(launch, (executable,), (stream,), map(list.pop, (cell,)))
        if status:
            raise self.error(self.api.functions["launch_graph"].name, status)

    # -- process and devices

    def initialize(self) -> None:
        """Initialize the driver API."""
        self.call("initialize", 0)

    @property
    def version(self) -> int:
        """The version of the API that the driver supports, such as 12090 for CUDA 12.9."""
        return int(self.call("version"))

    def device_count(self) -> int:
        """Return the number of devices."""
        return int(self.call("device_count"))

    def device_name(self, device: int) -> str:
        """Return the name of a device."""
        name = ctypes.create_string_buffer(256)
        self.call("device_name", name, len(name), device)
        return name.value.decode(errors="replace")

    @abstractmethod
    def device_arch(self, device: int) -> str:
        """Return the architecture of a device, as targets name it."""

    # -- contexts

    @abstractmethod
    def context_functions(
        self, context: int
    ) -> tuple[Callable[[], object], Callable[[object, object, object], None]]:
        """Return ``__enter__`` and ``__exit__`` of a ``with`` statement whose body runs with a
        context as the thread's current one.
        """

    @abstractmethod
    def context_device(self, context: int) -> int:
        """Return the number of the device of a context."""

    @abstractmethod
    def context_id(self, context: int) -> int:
        """Return the number of a context, which no other one of the process has had. A destroyed
        context has none.
        """

    @abstractmethod
    def has_primary_context(self, device: int) -> bool:
        """Return whether the primary context of a device exists."""

    def retain_primary_context(self, device: int) -> int:
        """Return the primary context of a device. It is released when the process ends."""
        return int(self.call("retain_primary_context", device))

    # -- memory

    @abstractmethod
    def locate(self, address: int) -> tuple[int, int, int]:
        """Return the context, the kind (`HOST` or `DEVICE`; another number if it is unknown), and
        the device's number of an address.
        """

    # -- streams and events

    def stream_id(self, stream: int) -> int:
        """Return the number of a stream, which no other one of the process has had; 0 if the driver
        has no such numbers. The stream's context is current.
        """
        return int(self.call("stream_id", stream))

    def relaxed(self) -> RelaxedCapture:
        """Return a context manager whose body may allocate, load and wait while another library
        captures a stream: it ends no capture.
        """
        return RelaxedCapture(self, self.prototype("exchange_capture_mode")[0])

    def is_done(self, query: str, handle: int) -> bool:
        """Return False if the device has not reached the end of a stream or an event; True also for
        an error, which the wait raises.
        """
        try:
            self.call(query, handle)
        except DriverError as error:
            return error.name != self.api.not_ready
        return True

    # -- modules and functions

    @abstractmethod
    def load_module(self, data: bytes | memoryview) -> int:
        """Load a binary into the current context, and return the module.

        Raises
        ------
        DriverError
            `log` is the error log of the driver's compiler.
        """

    def unload_module(self, module: int) -> None:
        """Unload a module. Its functions become invalid."""
        self.call("unload_module", module)

    # -- launches

    @abstractmethod
    def launch_call(
        self,
        config: DriverLaunchConfig,
        stream: int,
        function: int,
        block: Any,
        offsets: Sequence[int],
    ) -> LaunchCall:
        """Return the name of the driver's function that launches, its object of ctypes, and its
        arguments, which keep `block` alive.

        A launch reads the block before it returns. Launches of several threads at once need a block
        each.

        Parameters
        ----------
        config
            The configuration of the launch.
        stream, function
            The handles of the stream and of the function.
        block
            The memory of the packed parameters: an array of ctypes.
        offsets
            The offset of each parameter in the block.
        """

    def prepare_launch(
        self,
        context: int,
        launch: LaunchCall,
        explain: Callable[[DriverError], Exception],
        *,
        stays: bool = True,
    ) -> Callable[[], object]:
        """Return a function of C without parameters that launches.

        The thread's current context is not queried: if it is the wrong one, the launch is repeated
        with `context`.

        Parameters
        ----------
        context
            The context of the function and the stream.
        launch
            A result of `launch_call`.
        explain
            Returns the exception for an error of the driver.
        stays
            Whether `context` stays current in a thread that has none.
        """

        def repeat_launch(status: int) -> None:
            try:
                self._launch_again(context, launch, status, stays=stays)
            except DriverError as error:
                raise explain(error) from error

        launches = starmap(launch[1], repeat(launch[2]))
        return map(Failures(repeat_launch).__getitem__, launches).__next__

    def _launch_again(self, context: int, launch: LaunchCall, status: int, *, stays: bool) -> None:
        """Repeat a launch that failed with `status`, with `context` current. Another context of the
        thread is current again afterwards; without one, `context` stays current if `stays` is true.

        Raises
        ------
        DriverError
            The error of the launch, if `context` was current or if the error has another cause;
            else that of the second launch.
        """
        name, call, arguments = launch
        error: DriverError = self.error(name, status)
        if error.name not in self.api.wrong_context:
            raise error
        current = self.call("current_context")
        if current == context:
            raise error
        if stays and current == self.no_context:
            self.call("set_context", context)
            status = call(*arguments)
        else:
            # Not `set_context` afterwards: another library may have destroyed the context that was
            # current.
            push, pop = self.context_functions(context)
            push()
            try:
                status = call(*arguments)
            finally:
                pop(None, None, None)
        if status:
            raise self.error(name, status)
