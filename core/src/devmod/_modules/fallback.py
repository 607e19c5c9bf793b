"""The fallback: a module whose runtime is not installed. It cannot run."""

from __future__ import annotations

from devmod._modules.module import BINARY_SERIALIZABLE
from devmod._modules.payload import PayloadModule
from devmod.errors import RuntimeNotLinkedError, fallback_cause, runtime_not_linked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod import Device
    from devmod._arrays.array import Array


class FallbackModule(PayloadModule):
    """A module with the kind, the bytes and the inspection of the runtime's module, for any kind
    with a TargetSpec.

    It exists at build time only: no loader returns one. It never compiles.

    Attributes
    ----------
    variable
        The environment variable that caused the fallback; "" if the runtime is not installed.
    excluded
        The distribution that `variable` (DEVMOD_PLUGINS_ALLOW or DEVMOD_PLUGINS_DENY) excludes; ""
        for any other cause.

    Notes
    -----
    Follows TVM's fallback modules (PR 19465). Their get_function raises the same error for every
    name; this class distinguishes unknown names.
    """

    variable = ""
    excluded = ""

    @property
    def cause(self) -> str:
        """The cause of the fallback, for messages: "the runtime was not installed"."""
        return fallback_cause("the runtime", self.variable, self.excluded)

    @property
    def property_mask(self) -> int:
        return BINARY_SERIALIZABLE

    def get_function(self, name: str, query_imports: bool = False) -> object:
        """Raise FunctionNotFoundError for an unknown name, RuntimeNotLinkedError for a function of
        the module.
        """
        owner, _ = self.find_function(name, query_imports)
        if owner is not self:
            return owner.get_function(name, query_imports)
        raise self._not_linked(name, "function")

    def get_global(self, name: str, device: Device | None = None, **options: Any) -> Array:
        """Raise RuntimeNotLinkedError: only the runtime can list the globals."""
        raise self._not_linked(name, "global")

    def _not_linked(self, name: str, noun: str) -> RuntimeNotLinkedError:
        spec = self._spec
        return runtime_not_linked(
            spec.kind,
            spec.title,
            name,
            spec.install,
            noun=noun,
            variable=self.variable,
            excluded=self.excluded,
        )
