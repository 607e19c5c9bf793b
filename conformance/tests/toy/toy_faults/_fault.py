"""The table of faults: `FAULTS` has each by its name. A decorator adds the function below it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from devmod_toy._module import ToyKernel


@dataclass
class Fault:
    """One wrong backend: the toy with a changed method, a changed entry point, or code that its
    import runs.

    Attributes
    ----------
    rows
        The rows that must fail.
    reason
        The reason of the first of them; … matches any text.
    timeout
        `Conformance.timeout` for a backend that hangs, on an idle machine.
    own_process
        Whether the process of the rows ends or hangs, or must not have imported the toy before.
    at_import
        What the import of the backend's entries does, in the processes of the rows alone.
    without
        The entry points that the distribution lacks.
    groups
        Further groups of entry points that it declares.
    changes
        An owner, an attribute of it, and a function that makes the new value from the present one,
        for each change.
    """

    rows: tuple[str, ...]
    reason: str
    timeout: float = 0
    own_process: bool = False
    at_import: Callable[[], object] | None = None
    without: tuple[tuple[str, str], ...] = ()
    groups: tuple[str, ...] = ()
    changes: list[tuple[object, str, Callable[[Any], Any]]] = field(default_factory=list)

    def apply(self, set_attribute: Callable[[Any, str, Any], object]) -> None:
        """Make the changes."""
        for owner, name, change in self.changes:
            set_attribute(owner, name, change(getattr(owner, name)))

    def sets(self, owner: object, name: str, value: object) -> Fault:
        """Add a change: an attribute has another value."""
        self.changes.append((owner, name, lambda before: value))
        return self

    def replaces(
        self, owner: object, name: str
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator of a function that replaces a method. The function gets the present
        method as its first argument.
        """

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            def change(before: Any) -> Callable[..., Any]:
                return lambda *args, **keywords: function(before, *args, **keywords)

            self.changes.append((owner, name, change))
            return function

        return add


FAULTS: dict[str, Fault] = {}


def fault(name: str, *rows: str, reason: str, **options: Any) -> Fault:
    """Add a fault without changes."""
    FAULTS[name] = result = Fault(rows, reason, **options)
    return result


def replaces(
    owner: object, name: str, *rows: str, reason: str, **options: Any
) -> Callable[[Callable[..., Any]], Fault]:
    """Return a decorator that adds a fault with the name of its function, which replaces a method
    (see `Fault.replaces`).
    """

    def decorate(function: Callable[..., Any]) -> Fault:
        result = fault(function.__name__, *rows, reason=reason, **options)
        result.replaces(owner, name)(function)
        return result

    return decorate


def changes_values(*rows: str, reason: str) -> Callable[[Callable[[Any], Any]], Fault]:
    """Return a decorator that adds a fault: kernels get ``function(value)`` in the place of each
    value.
    """

    def decorate(function: Callable[[Any], Any]) -> Fault:
        def caller(before: Any, kernel: Any, stream: Any, shape: Any) -> Callable[[Any], Any]:
            run = before(kernel, stream, shape)
            return lambda values: run([function(value) for value in values])

        caller.__name__ = function.__name__
        return replaces(ToyKernel, "caller", *rows, reason=reason)(caller)

    return decorate


def at_import(
    *rows: str, reason: str, own_process: bool = False
) -> Callable[[Callable[[], object]], Fault]:
    """Return a decorator that adds a fault: the import of the backend's entries calls the
    function.
    """
    return lambda function: fault(
        function.__name__, *rows, reason=reason, own_process=own_process, at_import=function
    )
