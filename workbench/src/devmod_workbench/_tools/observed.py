"""What `devmod.guard` and `devmod.profile` replace while they are active: attributes of `Opening`,
and public methods.

Without an observer, each is the original one, so no call has an instruction for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from devmod.backend import RLock
from devmod_runtime._launch.function import _references as references

#: From a class and the name of a method to the function that makes the new method from the present
#: one. A method that the class does not have is None.
Methods = Mapping[tuple[type, str], Callable[[Any], Any]]

_lock = RLock()
#: The active observers, in the order in which they replace methods: guards before profiles, so that
#: a profile sees a guard's work.
_active: list[tuple[int, Methods]] = []
#: The methods of each class itself before the first of their observers; None for one that it does
#: not have.
_originals: dict[tuple[type, str], Any] = {}


@contextmanager
def replaced(methods: Methods, *, order: int) -> Iterator[None]:
    """Replace methods in the context. Those with a lower `order` are replaced first."""
    observer = add(methods, order=order)
    try:
        yield
    finally:
        with _lock:
            _active[:] = [each for each in _active if each is not observer]
            _apply()


def add(methods: Methods, *, order: int) -> object:
    """Replace methods for the rest of the process, or until `replaced` removes the observer that
    this returns.
    """
    observer = (order, methods)
    with _lock:
        _active.append(observer)
        _active.sort(key=lambda each: each[0])
        _apply()
    return observer


def _apply() -> None:
    new: dict[tuple[type, str], Any] = {}
    for _, methods in _active:
        for place, make in methods.items():
            owner, name = place
            _originals.setdefault(place, owner.__dict__.get(name))
            new[place] = make(new.get(place, _originals[place]))
    for (owner, name), method in {**_originals, **new}.items():
        if method is not None:
            setattr(owner, name, method)
        else:
            delattr(owner, name)
    # Without an observer, drop the original: other code may replace the method later, and the class
    # can be freed.
    for place in _originals.keys() - new.keys():
        del _originals[place]
    for reference in [*references]:
        if (each := reference()) is not None:
            each.reopen()
