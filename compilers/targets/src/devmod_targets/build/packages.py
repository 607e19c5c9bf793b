"""The reason why an optional package of a build cannot be imported."""

from __future__ import annotations

from devmod.errors import describe_error, not_installed, own_module


def import_problem(
    error: ImportError | AttributeError,
    package: str,
    distribution: str,
    *,
    subject: str = "",
    parts: tuple[str, ...] = (),
) -> str:
    """Return why a package cannot be imported: it is not installed, or its import fails.

    Parameters
    ----------
    error
        The exception of the import.
    package, distribution
        The package, and what pip installs for it.
    subject
        The package with its purpose, as the subject of the sentence. Default: its name.
    parts
        Further packages that the same command installs.
    """
    if isinstance(error, ModuleNotFoundError) and error.name in (package, *parts):
        return not_installed(subject or package, distribution, package, *parts)
    return f"{package} cannot be imported: {own_module(package, *parts) or describe_error(error)}"
