"""What a call of a PyTorch model changes: buffers, other tensors and numbers of its modules, and of
the caches among its arguments. Importing this imports no torch.

A program has no such places. A tensor that changes becomes an input and an output of a functional
call: `functional` gives the model the old value, and returns the new one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from devmod.errors import ArgumentError, list_names

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["States", "is_object", "restoring"]

#: The parts of a module that are no part of the names of what is in them.
_UNNAMED = ("_parameters", "_buffers", "_modules")
_NUMBERS = (int, float, str, type(None))
#: The number of tokens of a layer of transformers' caches that has a sliding window.
_SLIDING = ".cumulative_length_int"
#: The value of a place that is not there.
_ABSENT = "nothing"


class _Place(NamedTuple):
    """A tensor or a number: `container[key]`, or within tuples there."""

    container: Any
    key: Any
    path: tuple[int, ...]
    value: Any

    def put(self, value: Any) -> None:
        """Give the place another value."""
        result = value
        if self.path:
            result = _replaced(self.container[self.key], self.path, value)
        self.container[self.key] = result


def _replaced(parts: tuple[Any, ...], path: tuple[int, ...], value: Any) -> tuple[Any, ...]:
    """Return a tuple with another value at a place in it."""
    first, *rest = path
    own = value
    if rest:
        own = _replaced(parts[first], tuple(rest), value)
    return (*parts[:first], own, *parts[first + 1 :])


def is_object(value: Any) -> bool:
    """Return whether a value may have tensors among its attributes, as a cache has."""
    if callable(value) or isinstance(value, ModuleType) or not hasattr(value, "__dict__"):
        return False
    return type(value).__module__.partition(".")[0] not in sys.stdlib_module_names


class _Snapshot:
    """The places of objects, and their values now.

    Parameters
    ----------
    roots
        The objects, by the start of the names of their places.

    Attributes
    ----------
    places
        The places by name.
    """

    def __init__(self, roots: Mapping[str, Any]) -> None:
        import torch

        self._torch = torch
        self._containers: list[tuple[Any, Any]] = []
        self._seen = set[int]()
        self.places: dict[str, _Place] = {}
        #: What is still to be visited: a value, its name and its place.
        self._waiting: list[tuple[Any, str, Any]] = []
        for name, root in roots.items():
            self._waiting.append((root, name, (None, None, ())))
        while self._waiting:
            self._visit(*self._waiting.pop())

    def _visit(self, value: Any, name: str, place: Any) -> None:
        torch = self._torch
        container, key, path = place
        if container is not None and isinstance(value, (torch.Tensor, *_NUMBERS)):
            self.places.setdefault(name, _Place(container, key, path, value))
            return
        if type(value) is tuple and container is not None:
            for number, each in reversed([*enumerate(value)]):
                self._waiting.append((each, f"{name}.{number}", (container, key, (*path, number))))
            return
        if isinstance(value, torch.nn.Module) or is_object(value):
            value = value.__dict__
        if not isinstance(value, (list, dict)) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._containers.append((value, value.copy()))
        items = [*enumerate(value)]
        if isinstance(value, dict):
            items = [*value.items()]
        for key, each in reversed(items):
            own = f"{name}.{key}".strip(".")
            if key in _UNNAMED:
                own = name
            self._waiting.append((each, own, (value, key, ())))

    def restore(self) -> None:
        """Give all places their values."""
        for container, values in self._containers:
            if isinstance(container, list):
                container[:] = values
                continue
            if container.keys() != values.keys():
                container.clear()
            for key, value in values.items():
                if key not in container or container[key] is not value:
                    container[key] = value

    def copy_tensors(self) -> None:
        """Give the places of tensors copies, which share memory where the tensors do."""
        memo: dict[int, Any] = {}
        copies: dict[int, Any] = {}
        for place in self.places.values():
            if isinstance(place.value, self._torch.Tensor):
                key = id(place.value)
                if key not in copies:
                    copies[key] = deepcopy(place.value.detach(), memo)
                place.put(copies[key])


@contextmanager
def restoring(roots: Mapping[str, Any]) -> Iterator[_Snapshot]:
    """Yield a snapshot of objects. The end restores it."""
    snapshot = _Snapshot(roots)
    try:
        yield snapshot
    finally:
        snapshot.restore()


class States:
    """The state of a model.

    Parameters
    ----------
    roots
        The model with the name "", and the caches among its arguments by name.

    Attributes
    ----------
    values
        The first values of the tensors that calls change, by name.
    nexts
        The values of these tensors behind each call, if there are some.
    notes
        Sentences about what calls change without an effect on the results.
    """

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self._roots = roots
        self.values: dict[str, Any] = {}
        self.nexts: list[Sequence[Any]] = []
        self.notes: list[str] = []
        #: The names of places that share a state, by the name of the state.
        self._shared: dict[str, list[str]] = {}
        #: The changed tensors that are no state.
        self._others: dict[str, Any] = {}

    def find(self, calls: Sequence[Callable[[], Sequence[Any]]]) -> list[Sequence[Any]]:
        """Make calls in a row, find what they change, and return their results.

        Raises
        ------
        ArgumentError
            The results depend on a change that cannot be state.
        """
        import torch

        changes: dict[str, str] = {}
        results = []
        with restoring(self._roots) as original:
            original.copy_tensors()
            before = _Snapshot(self._roots)
            versions = _versions(before)
            for call in calls:
                results.append(call())
                after = _Snapshot(self._roots)
                for name, why in _changes(original, after, versions, changes).items():
                    changes[name] = changes.get(name) or why
                versions = _versions(after)
                before = after  # so that the identities are those of these tensors alone
            del before
        for name in changes:
            place = original.places.get(name)
            if place is None or not isinstance(place.value, torch.Tensor):
                continue
            if changes[name]:
                self._others[name] = place.value
            else:
                self._add(name, place.value)
        if changes:
            self._check(calls, results, {name: why for name, why in changes.items() if why})
        return results

    def _add(self, name: str, value: Any) -> None:
        """Add a state, unless it is that of another place."""
        for own, known in self.values.items():
            if known is value:
                self._shared[own].append(name)
                return
        self.values[name] = value
        self._shared[name] = [name]

    def functional(
        self, function: Callable[[], Any], values: Sequence[Any]
    ) -> tuple[Any, list[Any]]:
        """Return what a function returns if the states have some values, and their next values. The
        model stays as it is.
        """
        with restoring(self._roots) as now:
            for name, value in self._others.items():
                now.places[name].put(value.detach().clone())
            for names, value in zip(self._shared.values(), values, strict=True):
                own = value.clone()
                for name in names:
                    now.places[name].put(own)
            result = function()
            after = _Snapshot(self._roots)
            return result, [after.places[name].value for name in self.values]

    def _check(
        self,
        calls: Sequence[Callable[[], Sequence[Any]]],
        results: Sequence[Sequence[Any]],
        others: Mapping[str, str],
    ) -> None:
        """Raise an error if functional calls have other results. `others` has why changes are no
        state.
        """
        values = [*self.values.values()]
        for call, wanted in zip(calls, results, strict=True):
            got, values = self.functional(call, values)
            if not all(map(_is_close, got, wanted)):
                break
            self.nexts.append(values)
        else:
            if others:
                self.notes.append(
                    f"each call changes {list_names(others)}, which no program does; the results of {len(calls)} calls do not depend on it"
                )
            return
        if others:
            reasons = "; ".join(f"{name!r} {why}" for name, why in others.items())
            advice = "use register_buffer, or a cache of a fixed length, such as StaticCache"
            if any(name.endswith(_SLIDING) for name in others):
                # Such a layer branches by a number of Python. The mask has the window anyway.
                advice = (
                    "replace each layer of the cache that has a sliding window by one of the length of all tokens: "
                    "cache.layers[i] = StaticLayer(max_cache_len)"
                )
            raise ArgumentError(
                f"torch.export: the results depend on what former calls have changed, and that is no state of a program: {reasons}. "
                f"State is a tensor that keeps its shape and type: {advice}",
                argument="model",
            )
        raise ArgumentError(
            f"torch.export: the results differ if each call gets {list_names(self.values)} of the call before as an input. "
            "No program has random numbers; make them an input",
            argument="model",
        )


def _versions(snapshot: _Snapshot) -> dict[int, int]:
    """Return the numbers of writes to tensors, by their identities."""
    return {id(each.value): _version(each.value) for each in snapshot.places.values()}


def _version(value: Any) -> int:
    return int(getattr(value, "_version", 0))


def _changes(
    original: _Snapshot,
    after: _Snapshot,
    versions: Mapping[int, int],
    known: Collection[str],
) -> dict[str, str]:
    """Return the names of the places that a call has changed, with why each is no state, or "".

    Parameters
    ----------
    original
        The places before all calls, whose tensors no call changes.
    after
        The places behind the call.
    versions
        The numbers of writes to tensors before the call. A write by `Tensor.data` counts as none.
    known
        The names of places that an earlier call has changed.
    """
    result = {}
    for name in dict.fromkeys([*original.places, *after.places]):
        old = original.places[name].value if name in original.places else _ABSENT
        new = after.places[name].value if name in after.places else _ABSENT
        is_written = versions.get(id(new), _version(new)) != _version(new)
        if not is_written and _is_equal(old, new):
            continue
        result[name] = ""
        if not is_written and id(new) in versions and name not in known:
            result[name] = (
                "changes by Tensor.data, or by a tensor that shares its memory, which no exporter sees"
            )
        if _described(old) != _described(new) or not _is_tensor(old):
            result[name] = f"is {_described(old)} before the first call, and then {_described(new)}"
    return result


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "_version")


def _described(value: Any) -> str:
    if _is_tensor(value):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if value is _ABSENT:
        return str(value)
    return repr(value)[:80]


def _is_equal(one: Any, two: Any) -> bool:
    """Return whether values are the same, or tensors with the same elements; NaN is NaN."""
    import torch

    if not (_is_tensor(one) and _is_tensor(two)):
        return type(one) is type(two) and bool(one == two)
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    return torch.equal(one, two) or bool(((one == two) | ((one != one) & (two != two))).all())


def _is_close(one: Any, two: Any) -> bool:
    import torch

    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    is_close: bool = torch.allclose(one, two, rtol=1e-4, atol=1e-6, equal_nan=True)
    return is_close
