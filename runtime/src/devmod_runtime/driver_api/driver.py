"""One opened driver: its modules, functions and graphs. `calls` has devices, memory, streams and events, `launches` has launches."""

from __future__ import annotations

from abc import abstractmethod

from devmod_runtime import open_driver
from devmod_runtime.driver_api.api import RELAXED_CAPTURE
from devmod_runtime.driver_api.launches import Launches


class Driver(Launches):
    """One opened driver: its modules, functions and graphs."""

    # -- modules and functions

    @abstractmethod
    def load_module(self, data: bytes | memoryview) -> tuple[int, str]:
        """Load an image into the current context. Return the module and the information log of the driver's compiler.

        Raises
        ------
        DriverError
            `log` is the error log.
        """

    def unload_module(self, module: int) -> None:
        """Unload a module. Its functions become invalid."""
        self.call("unload_module", module)

    def get_function(self, module: int, name: str) -> int:
        """Return a kernel of a module; the API's error "not found" if there is none of that name."""
        return int(self.call("get_function", module, name.encode()))

    def get_global(self, module: int, name: str) -> tuple[int, int]:
        """Return the address and the bytes of a variable of a module; the API's error "not found" if there is none of that name."""
        pointer, nbytes = self.call("get_global", module, name.encode())
        return pointer, nbytes

    def function_attribute(self, function: int, attribute: int) -> int:
        """Return an attribute of a function by its number."""
        return int(self.call("function_attribute", attribute, function))

    def max_active_blocks(self, function: int, threads: int, shared_memory: int) -> int:
        """Return the blocks of `threads` threads that one multiprocessor runs at once."""
        return int(self.call("max_active_blocks", function, threads, shared_memory))

    @abstractmethod
    def preferred_block(self, function: int, shared_memory: int = 0, limit: int = 0) -> tuple[int, int]:
        """Return the fewest blocks, and the threads of a block, with which a launch occupies the device best."""

    # -- graphs

    def begin_capture(self, stream: int, mode: int = RELAXED_CAPTURE) -> None:
        """Capture the later work of a stream into a graph. The legacy default stream has no capture."""
        self.call("begin_capture", stream, mode)

    def end_capture(self, stream: int) -> int:
        """End a capture, and return its graph."""
        return int(self.call("end_capture", stream))

    def is_capturing(self, stream: int) -> bool:
        """Return whether a stream is being captured."""
        return int(self.call("is_capturing", stream)) != 0

    def launch_graph(self, executable: int, stream: int) -> None:
        """Queue an executable graph."""
        self.call("launch_graph", executable, stream)

    def destroy_graph(self, graph: int) -> None:
        """Destroy a graph. Its executable graphs stay valid."""
        self.call("destroy_graph", graph)


#: The drivers that this process has opened.
_opened: list[Driver] = []


def record_open_driver(driver: Driver) -> None:
    """Record that this process has opened a driver. A forked child calls no function of it.

    Raises
    ------
    LaunchError
        The parent had opened a driver of the kind when this process was forked.
    """
    open_driver(driver.api.kind, _close_in_child)
    _opened.append(driver)


def _close_in_child() -> None:
    for driver in _opened:
        driver.usable = False
