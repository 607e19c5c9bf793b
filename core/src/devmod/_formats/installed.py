"""Bundles in installed packages: the entry-point group ``devmod.bundles``."""

from __future__ import annotations

from devmod._formats.bundle_file import load
from devmod._plugins.load import bundle_files
from devmod._plugins.lookup import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod._modules.module import Module


def installed(name: str, *, prefer: Sequence[str] = ()) -> Module:
    """Open the bundle that an installed distribution provides under a name, the name of an entry point in ``devmod.bundles``.

    The value of the entry point is a package, which is imported. Its ``*.devmod`` files are opened as `load` opens them. Several files
    are the candidates of one `bundle`, sorted by name.

    Raises
    ------
    NotRegisteredError
        No distribution provides the name. The message lists the names that there are.
    PluginError, ConflictError
        The package cannot be imported or has no such file, or two distributions provide the name.
    """
    modules = [load(file, prefer=prefer) for file in bundle_files(lookup("devmod.bundles", name))]
    if len(modules) == 1:
        return modules[0]
    from devmod._modules.bundle import BundleModule, kinds_in

    return BundleModule(modules, kinds_in(prefer))
