"""NumPy, imported at its first use. The reference stays, because finalizers at the interpreter's
exit cannot import.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


class _NumPy:
    """NumPy's attributes."""

    _module: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(
            self.import_numpy(), name
        )  # the next look-up is one of Python's own
        return value

    def import_numpy(self) -> ModuleType:
        """Import NumPy once, and return it."""
        if self._module is None:
            import numpy

            if not hasattr(numpy, "ndarray"):
                from devmod.errors import own_module

                raise ImportError(
                    f"NumPy cannot be imported: {own_module('numpy') or 'its module has no ndarray'}",
                    name="numpy",
                )
            self._module = numpy
        return self._module


np = _NumPy()
