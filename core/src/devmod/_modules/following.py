"""The candidates that the calls of a bundle's function take for the device of their arrays."""

from __future__ import annotations

from devmod._plugins.devices import VARIABLE, default_device
from devmod.errors import DevmodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from devmod import Device
    from devmod._modules.module import Module
    from devmod._values.code import Names


class CannotFollowError(Exception):
    """No candidate is taken for the device of an array. The text ends a sentence that begins with
    the array.
    """


class Following:
    """How the function of a bundle follows its arrays to other devices.

    Parameters
    ----------
    functions
        Each candidate, and the name of its function.
    kind
        The kind of the candidate of calls with host arrays.
    prefer
        The kinds of ``prefer=``. If `kind` is one of them, the function follows to those alone.
    choose
        Returns the function of the best candidate for a device.
    """

    def __init__(
        self,
        functions: Sequence[tuple[Module, str]],
        kind: str,
        prefer: Names,
        choose: Callable[[Device], Any],
    ) -> None:
        self._functions = functions
        self._kind = kind
        self._prefer = prefer
        self._choose = choose
        self._constants: Mapping[str, object] = {}

    def specialized(self, constants: Mapping[str, object]) -> Following:
        """Return what the function with constants set follows by."""
        result = Following(self._functions, self._kind, self._prefer, self._choose)
        result._constants = {**self._constants, **constants}
        return result

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of the candidates, in the order of the file."""
        return list(dict.fromkeys(module.kind for module, _ in self._functions))

    def function_on(self, device: Device) -> Any:
        """Return the function of the best candidate for a device. None if that of the default
        device is taken there.

        Raises
        ------
        CannotFollowError
            No candidate is taken; the text has the reason.
        PluginError, DeviceNotFoundError, RuntimeNotLinkedError, NotRegisteredError
            No candidate of the kind can run there.
        CompileError, FormatError
            The candidate cannot be built for the device.
        """
        named = self._check(device)
        if named is not None and named is not device:
            return None
        function = self._choose(device)
        if self._constants:
            function = function.specialize(**self._constants)
        return function

    def _check(self, device: Device) -> Device | None:
        """Return the device of the kind that DEVMOD_DEVICE names; None without one."""
        kind = device.kind
        if self._kind in self._prefer and kind not in self._prefer:
            raise CannotFollowError(
                f"is on {device}, and prefer={self._prefer!r} has chosen {self._kind}: call f.on(array.device), or give "
                f"prefer={(*self._prefer, kind)!r}"
            )
        if getattr(device, "is_adopted", False):
            return None  # it has no number that the variable could name
        named = default_device(kind)
        if kind != self._kind and named is not None and named is not device:
            raise CannotFollowError(
                f"is on {device}, and {VARIABLE} names {kind}:{named.index}: call f.on(array.device), or change the variable"
            )
        return named

    def candidates(self) -> Iterator[Any]:
        """Yield a function of each other kind that can run here. It is not built. Its backend knows
        the arrays of the libraries of that kind.
        """
        seen = {self._kind}
        for module, name in self._functions:
            if module.kind in seen:
                continue
            try:
                function = module._unopened(name)
            except DevmodError:
                continue
            seen.add(module.kind)
            yield function
