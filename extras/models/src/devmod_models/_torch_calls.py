"""The arguments and the results of a PyTorch model as tensors by name: those in lists, tuples and
dicts have names of their own. Importing this imports no torch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devmod.errors import ArgumentError
from devmod_models._names import default_names, named_results, result_names
from devmod_models._torch_state import is_object

__all__ = ["Arguments", "tensors_of_results"]

#: Arguments that are options of the model, and no inputs.
_OPTIONS = (bool, int, float, str, type(None))


class Arguments:
    """The arguments of a model.

    Parameters
    ----------
    model
        The model, whose `forward` gives the positional arguments their names.
    args, kwargs
        Its arguments.

    Attributes
    ----------
    tensors
        The tensors by name: copies, since the model may change its own.
    caches
        The objects with tensors that the model changes, by name: copies.
    is_plain
        Whether all arguments are positional tensors.
    """

    def __init__(self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        names = default_names(model.forward, len(args))
        self._args = dict(zip(names, args, strict=True))
        self._kwargs = kwargs
        self.tensors: dict[str, Any] = {}
        self.caches: dict[str, Any] = {}
        for number, (name, each) in enumerate(self._args.items()):
            self._add(each, name, f"the argument {number}")
        self.is_plain = not kwargs and [*self.tensors] == names
        for name, each in kwargs.items():
            if not isinstance(each, _OPTIONS):
                self._add(each, name, f"the argument {name!r}")

    def _add(self, value: Any, name: str, what: str) -> None:
        import torch

        if isinstance(value, torch.Tensor):
            self.tensors[name] = value.detach().clone()
        elif isinstance(value, (list, tuple, Mapping)):
            for key, each in _items(value):
                if not isinstance(each, _OPTIONS):
                    self._add(each, f"{name}_{key}", what)
        elif is_object(value):
            self.caches[name] = copy.deepcopy(value)
        else:
            raise ArgumentError(
                f"torch.export: {what} is {type(value).__name__}; expected a Tensor",
                argument="args",
            )

    def call(self, forward: Any, tensors: Mapping[str, Any]) -> Any:
        """Return what a function returns for the arguments, with other tensors in their places."""
        known = {**tensors, **self.caches}
        args = [_filled(each, name, known) for name, each in self._args.items()]
        kwargs = {name: _filled(each, name, known) for name, each in self._kwargs.items()}
        return forward(*args, **kwargs)

    def fresh(self, number: int, *, has_steps: bool = True) -> dict[str, Any]:
        """Return tensors for another call: the elements in another order, and floats times others.
        A single integer may be a position, to which the `number` of the call is added.
        """
        import torch

        random = torch.Generator().manual_seed(number)
        result = {}
        for name, each in self.tensors.items():
            order = torch.randperm(each.numel(), generator=random).to(each.device)
            value = each.flatten()[order].reshape(each.shape)
            if each.dtype.is_floating_point:
                factors = torch.rand(each.shape, generator=random) + 0.5
                value = value * factors.to(each.device, each.dtype)
            elif each.numel() == 1 and has_steps and each.dtype != torch.bool:
                value = value + number
            result[name] = value
        return result


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    else:
        yield from enumerate(value)


def _filled(value: Any, name: str, known: Mapping[str, Any]) -> Any:
    """Return an argument with what `known` has by the names of its parts."""
    if name in known:
        return known[name]
    if not isinstance(value, (list, tuple, Mapping)):
        return value
    parts = {key: _filled(each, f"{name}_{key}", known) for key, each in _items(value)}
    if isinstance(value, Mapping):
        result: Any = copy.copy(value)
        for key, each in parts.items():
            result[key] = each
        return result
    if hasattr(value, "_fields"):
        return type(value)(*parts.values())
    return type(value)(parts.values())


def tensors_of_results(
    value: Any, outputs: Sequence[str] | None, caches: Mapping[str, Any], notes: list[str]
) -> dict[str, Any]:
    """Return what a model has returned: tensors by name. `notes` gets a sentence about a cache that
    is left out because the model makes it in each call.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return named_results(value, outputs, torch.Tensor, "model")
    items: dict[str, Any] = {}
    if isinstance(value, Mapping):
        items = {str(key): each for key, each in value.items()}
    elif isinstance(value, (list, tuple)):
        own = [each for each in value if not _is_cache(each)]
        items = dict(zip(result_names(len(own)), own, strict=True))
        items |= {f"result {at}": each for at, each in enumerate(value) if _is_cache(each)}
    else:
        return named_results(value, outputs, torch.Tensor, "model")
    results: dict[str, Any] = {}
    for name, each in items.items():
        if _is_cache(each):
            if all(each is not own for own in caches.values()):
                notes.append(
                    f"{name}, a {type(each).__name__} that the model makes in each call, is no result; an argument that is a cache is state"
                )
            continue
        results |= _flat(name, each)
    return named_results(results, outputs, torch.Tensor, "model")


def _is_cache(value: Any) -> bool:
    """Return whether a value is a cache of transformers."""
    names = {(each.__module__, each.__name__) for each in type(value).__mro__}
    return ("transformers.cache_utils", "Cache") in names


def _flat(name: str, value: Any) -> dict[str, Any]:
    """Return the tensors of a result by name; the result itself if it has other values."""
    import torch

    if not isinstance(value, (list, tuple, Mapping)) or not value:
        return {name: value}
    result: dict[str, Any] = {}
    for key, each in _items(value):
        result |= _flat(f"{name}_{key}", each)
    if not all(isinstance(each, torch.Tensor) for each in result.values()):
        return {name: value}
    return result
