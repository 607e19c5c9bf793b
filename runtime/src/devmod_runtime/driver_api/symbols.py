"""The functions of a driver's library by ctypes: calls of its symbols, and handles in lists.

A vendor's package converts the status in Python code, so KeyboardInterrupt may be raised there after the driver has created a handle.
A ctypes function returns only after its result is stored. So this module creates the handles for every driver.
"""

from __future__ import annotations

import ctypes
from collections import deque
from ctypes import POINTER, byref, c_int
from itertools import starmap

from devmod_runtime.driver_api.errors import DriverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod_runtime.driver_api.api import Api


class Failures(dict):  # type: ignore[type-arg]
    """A function of C for the result of a call: its ``__getitem__`` returns for a success, and calls a Python function otherwise.

    Parameters
    ----------
    success
        The result of a success.
    handle
        The function for other results. It repeats the call or raises DriverError.
    """

    def __init__(self, success: object, handle: Callable[[Any], None]) -> None:
        super().__init__({success: None})
        self._handle = handle

    def __missing__(self, result: Any) -> None:
        self._handle(result)


class Symbols:
    """The functions of a driver's library by name.

    Parameters
    ----------
    library
        ctypes' CDLL of the library that the process has opened.

    Attributes
    ----------
    api : Api
        The API of the library.
    """

    api: Api

    def __init__(self, library: Any) -> None:
        self.library = library
        self._prototypes: dict[str, tuple[Any, tuple[Any, ...], bool]] = {}

    def symbol(self, name: str) -> Any:
        """Return a new object of ctypes for a symbol; the API's error "not supported" if the driver lacks it."""
        try:
            return self.library[name]  # a new object each time, unlike an attribute
        except AttributeError:
            raise DriverError(self.api.not_supported, "this driver has no such function", name) from None

    def check(self, name: str, *arguments: Any) -> None:
        """Call a function with arguments of ctypes."""
        status = self.symbol(name)(*arguments)
        if status:
            raise self.error(name, status)

    def error(self, call: str, status: int) -> DriverError:
        """Return the error for a status that is not a success."""
        name, text = (self.status_text(symbol, status) for symbol in (self.api.error_name, self.api.error_text))
        return DriverError(name or f"error {status}", text if text != name else "", call)

    def status_text(self, symbol: str, status: int) -> str:
        """Return the text that a function of the library writes for a status; "" if it has none."""
        text = ctypes.c_char_p()
        self.symbol(symbol)(c_int(status), byref(text))
        return (text.value or b"").decode()

    def prototype(self, operation: str) -> tuple[Any, tuple[Any, ...], bool]:
        """Return ctypes' function, the types of its results, and whether their pointers come after the other parameters."""
        prototype = self._prototypes.get(operation)
        if prototype is None:
            name, results, parameters, symbol, is_last = self.api.functions[operation]
            function = self.symbol(symbol or name)
            places = tuple(map(POINTER, results))
            function.argtypes = parameters + places if is_last else places + parameters
            prototype = self._prototypes[operation] = function, results, is_last
        return prototype

    def call_symbol(self, operation: str, *arguments: Any) -> Any:
        """Call the function of an operation, and return its results: None, an int, or a tuple of ints."""
        call, types, is_last = self.prototype(operation)
        results = [each() for each in types]
        places = [byref(each) for each in results]
        status = call(*arguments, *places) if is_last else call(*places, *arguments)
        if status:
            raise self.error(self.api.functions[operation].name, status)
        if not results:
            return None
        values = [each.value or 0 for each in results]
        return values[0] if len(values) == 1 else tuple(values)

    # -- handles in lists

    def create_into(self, cell: list[Any], operation: str, *arguments: Any) -> int:
        """Call a function that creates a handle, and return the handle. No interrupt comes between the creation and its place in `cell`.

        Parameters
        ----------
        cell
            An empty list, to which the object of ctypes with the handle is added. It stays empty if the call fails.
        operation
            The operation.
        arguments
            Its input parameters in their order.
        """
        call, (result,), is_last = self.prototype(operation)
        place = result()
        cell.append(place)
        status = call(*arguments, byref(place)) if is_last else call(byref(place), *arguments)
        if status:
            cell.clear()
            raise self.error(self.api.functions[operation].name, status)
        return int(place.value or 0)

    def destroy_from(self, cell: list[Any], operation: str) -> None:
        """Remove the handle of `create_into` from `cell` and destroy it with one call of C. The driver's error is ignored.

        Raises
        ------
        IndexError
            The cell is empty.
        """
        deque(map(self.prototype(operation)[0], map(list.pop, (cell,))), 0)

    def launch_graph_of(self, cell: list[Any], executable: int, stream: int) -> None:
        """Queue an executable graph and remove its graph, the handle of `create_into`, from `cell`, with one call of C."""
        launch = self.prototype("launch_graph")[0]
        ((status, _),) = list(zip(starmap(launch, ((executable, stream),)), map(list.pop, (cell,)), strict=True))
        if status:
            raise self.error(self.api.functions["launch_graph"].name, status)

    def handle_in(self, cell: Sequence[Any]) -> int:
        """Return the handle of `create_into`; also of a list with a plain handle."""
        place = cell[0]
        return place if type(place) is int else int(place.value or 0)
