"""The calls that create and destroy handles, by ctypes for both drivers.

KeyboardInterrupt may be raised within a function of cuda-bindings, after the driver has returned: it makes the status by a function of
Python. A ctypes function is left only when its result is in its place.
"""

from __future__ import annotations

from collections import deque
from ctypes import POINTER, byref
from itertools import starmap

from devmod_cuda._functions import FUNCTIONS
from devmod_cuda._library import Symbols

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class HandleCalls(Symbols):
    """The calls of libcuda by name, and handles in lists."""

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        self._prototypes: dict[str, tuple[Any, tuple[Any, ...], bool]] = {}

    def prototype(self, name: str) -> tuple[Any, tuple[Any, ...], bool]:
        """Return ctypes' function, the types of its results, and whether they are behind the parameters."""
        prototype = self._prototypes.get(name)
        if prototype is None:
            results, parameters, *symbol = FUNCTIONS[name]
            is_last = symbol[1:] == ["last"]
            function = self.symbol(symbol[0] if symbol else name)
            places = tuple(map(POINTER, results))
            function.argtypes = parameters + places if is_last else places + parameters
            prototype = self._prototypes[name] = function, results, is_last
        return prototype

    def create_into(self, cell: list[Any], name: str, *arguments: Any) -> int:
        """Call a function that creates a handle, and return the handle. No interrupt comes between the creation and its place in `cell`.

        Parameters
        ----------
        cell
            An empty list, to which the object of ctypes with the handle is added. It stays empty if the call fails.
        name
            The function's name in cuda.h, without the suffix of its version.
        arguments
            Its input parameters in their order.
        """
        call, (result,), is_last = self.prototype(name)
        place = result()
        cell.append(place)
        status = call(*arguments, byref(place)) if is_last else call(byref(place), *arguments)
        if status:
            cell.clear()
            raise self.error(name, status)
        return int(place.value or 0)

    def destroy_from(self, cell: list[Any], name: str) -> None:
        """Remove the handle of `create_into` from `cell` and destroy it with one call of C. The driver's error is ignored.

        Raises
        ------
        IndexError
            The cell is empty.
        """
        deque(map(self.prototype(name)[0], map(list.pop, (cell,))), 0)

    def launch_graph_of(self, cell: list[Any], executable: int, stream: int) -> None:
        """Queue an executable graph and remove its graph, the handle of `create_into`, from `cell`, with one call of C."""
        launch = self.prototype("cuGraphLaunch")[0]
        ((status, _),) = list(zip(starmap(launch, ((executable, stream),)), map(list.pop, (cell,)), strict=True))
        if status:
            raise self.error("cuGraphLaunch", status)

    def handle_in(self, cell: Sequence[Any]) -> int:
        """Return the handle of `create_into`; also of a list with a plain handle."""
        place = cell[0]
        return place if type(place) is int else int(place.value or 0)
