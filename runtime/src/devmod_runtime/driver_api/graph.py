"""Graphs: the launches of a batch in one submission, and prepared launches that are submitted together again and again."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from threading import Lock

from devmod import Launch
from devmod.errors import ArgumentError
from devmod_runtime import Batch, check_driver, fork_safe
from devmod_runtime.driver_api.errors import DriverError, driver_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from devmod_runtime.driver_api.device import DriverDevice
    from devmod_runtime.driver_api.stream import DriverStream


class Capture:
    """The batches of one stream, whose launches the driver captures into a graph.

    Attributes
    ----------
    stream
        The stream.
    """

    def __init__(self, stream: DriverStream) -> None:
        self.stream = stream
        #: The active batches.
        self._batches: set[object] = set()
        #: The driver's result with a graph that is not queued, as `Driver.create_into` has it. An interrupt may leave one.
        self._graphs: list[Any] = []

    @property
    def is_active(self) -> bool:
        """Whether a batch is active."""
        return bool(self._batches)

    def batch(self) -> Batch:
        """Return the context manager of a batch."""
        return Batch(self._batches, self._begin_batch, self._end_batch)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Submit the launches captured so far, and capture none while the body runs. The thread holds the lock of the stream."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def pause(self) -> None:
        """Submit the launches captured so far, and capture no more."""
        with self.stream.lock:
            if self.is_begun:
                self._submit()

    def resume(self) -> None:
        """Capture the following launches, if a batch is active."""
        with self.stream.lock:
            if self._batches and not self.is_begun:
                self._begin_capture()

    def _begin_batch(self) -> None:
        """Capture the following launches."""
        check_driver(self.stream.device.kind)
        self.resume()

    def _end_batch(self) -> None:
        """Submit the captured launches, if the outermost batch has ended."""
        with self.stream.lock:
            if not self._batches:
                self.pause()

    @property
    def is_begun(self) -> bool:
        """Whether `_begin_capture` was called and `_submit` has not returned. After an interrupt the driver may capture nothing yet."""
        return self in self.stream.device.context.captures

    def _begin_capture(self) -> None:
        context = self.stream.device.context
        # Registered before it begins, so that memory of captured launches is not freed. The next operation ends an interrupted capture.
        context.captures[self] = None
        if context.waits:
            context.captures.pop(self, None)
            return  # the launches are queued one by one
        self.stream.is_captured = True
        try:
            with context:
                context.driver.begin_capture(self.stream.handle)
        except DriverError as error:
            self._end()
            raise driver_error(f"{self.stream.device} cannot begin a batch", error, self.stream.device) from error

    def _submit(self) -> None:
        """End the capture and queue its graph once. After an interrupt, the next call completes both."""
        context = self.stream.device.context
        driver, stream = context.driver, self.stream.handle
        try:
            with context:
                if driver.is_capturing(stream):
                    self._graphs.clear()  # an interrupt came before the end of the capture
                    driver.create_into(self._graphs, "end_capture", stream)
                if self._graphs and driver.handle_in(self._graphs):
                    self._queue(self._graphs)
        except DriverError as error:
            self._end()
            raise driver_error(f"{self.stream.device} refused the launches of a batch", error, self.stream.device) from error
        self._end()

    def _end(self) -> None:
        self.stream.is_captured = False
        self.stream.device.context.end_capture(self)

    def _queue(self, graphs: list[Any]) -> None:
        context = self.stream.device.context
        driver = context.driver
        destroyed = list(graphs)
        try:
            executable = context.graphs.create(driver.handle_in(graphs))
            driver.launch_graph_of(graphs, executable.value, self.stream.handle)
        except DriverError:
            graphs.clear()
            raise
        finally:
            if not graphs:
                driver.destroy_from(destroyed, "destroy_graph")


@contextmanager
def uncaptured(device: DriverDevice) -> Iterator[None]:
    """Suspend all captures of a device while the body runs: the driver refuses to wait for the device during one."""
    wait = device.context.begin_wait()
    captures = tuple(device.context.captures)
    for each in captures:
        each.pause()
    try:
        yield
    finally:
        del wait
        for each in captures:
            each.resume()


class Graph:
    """Prepared launches as one graph of the driver. `DriverStream.graph` returns one; a call queues all of them in their order.

    It keeps the launches and their arrays alive.
    """

    __slots__ = ("_executable", "_launches", "_lock", "_stream")

    def __init__(self, stream: DriverStream, launches: Sequence[Launch]) -> None:
        for number, each in enumerate(launches, 1):
            if not isinstance(each, Launch) or each.stream is not stream:
                got = f"one for {each.stream!r}" if isinstance(each, Launch) else repr(each)
                raise ArgumentError(
                    f"a graph of {stream!r} takes launches that were bound with stream= this stream; launch {number} is {got}",
                    kind=stream.device.kind,
                    argument="launches",
                )
        check_driver(stream.device.kind)
        self._stream, self._launches = stream, tuple(launches)
        #: CUDA and HIP forbid calls of several threads at once with one graph.
        self._lock = fork_safe(Lock())
        api = stream.device.api
        if stream.is_default:
            raise ArgumentError(
                f"the default stream of a {api.kind} device has no graphs: {api.name} does not capture it. Create a stream with "
                "device.stream(), and bind the launches with stream= it",
                kind=api.kind,
                argument="stream",
            )
        context = stream.device.context
        driver = context.driver
        try:
            with stream.lock, stream.uncaptured(), context:
                stream.is_captured = True
                driver.begin_capture(stream.handle)
                try:
                    for each in self._launches:
                        each()
                except BaseException:
                    with suppress(DriverError):  # the error of the launch says more
                        driver.destroy_graph(driver.end_capture(stream.handle))
                    raise
                finally:
                    stream.is_captured = False
                graph = driver.end_capture(stream.handle)
                try:
                    self._executable = context.graphs.create(graph)
                finally:
                    driver.destroy_graph(graph)
        except DriverError as error:
            raise driver_error(f"{stream.device} cannot create a graph of {len(launches)} launches", error, stream.device) from error

    def __call__(self) -> None:
        """Queue all launches.

        Raises
        ------
        LaunchError
            The driver refuses them.
        """
        stream = self._stream
        check_driver(stream.device.kind)
        context = stream.device.context
        try:
            with stream.lock, self._lock, context:
                context.driver.launch_graph(self._executable.value, stream.handle)
        except DriverError as error:
            raise driver_error(f"{stream.device} refused a graph of {len(self._launches)} launches", error, stream.device) from error

    def __repr__(self) -> str:
        return f"<Graph of {len(self._launches)} launches on {self._stream.device}>"
