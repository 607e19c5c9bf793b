"""The fallback: a module made where its runtime is not installed. Everything but the running."""

from __future__ import annotations

from devmod._module import BINARY_SERIALIZABLE
from devmod._payload import PayloadModule
from devmod.errors import runtime_not_linked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._memory.device import Array


class FallbackModule(PayloadModule):
    """A module of any kind with a TargetSpec: the same kind, the same bytes, the same inspection as the real one.

    It exists at build time only (nothing loads into it), and it never compiles anything.

    Attributes
    ----------
    forced
        Whether DEVMOD_COMPILE_FORCE_FALLBACK asked for it, so that the runtime may be installed all the same.

    Notes
    -----
    Follows TVM's fallback modules (PR 19465), whose get_function refuses every name alike; here an unknown name is told
    from a known one.
    """

    forced = False

    @property
    def property_mask(self) -> int:
        return BINARY_SERIALIZABLE

    def get_function(self, name: str, query_imports: bool = False) -> object:
        """Raise: FunctionNotFoundError for a name that the module does not have, RuntimeNotLinkedError for one it has."""
        owner, _ = self.find_function(name, query_imports)
        if owner is not self:
            return owner.get_function(name, query_imports)
        raise runtime_not_linked(self.kind, self._spec.title, name, self._spec.install, forced=self.forced)

    def get_global(self, name: str) -> Array:
        """Raise RuntimeNotLinkedError: what globals there are, only the runtime knows."""
        raise runtime_not_linked(self.kind, self._spec.title, name, self._spec.install, what="global", forced=self.forced)
