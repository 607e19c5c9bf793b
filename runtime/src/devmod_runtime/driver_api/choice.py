"""The choice between the Python packages through which a vendor's driver can be used."""

from __future__ import annotations

from importlib.util import find_spec

from devmod.errors import DeviceNotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod_runtime.driver_api.api import Api


def choose_driver(api: Api, variable: str, name: str, names: tuple[str, str], modules: Sequence[str]) -> str:
    """Return the name of the driver: that of an environment variable, else the one that is installed.

    Parameters
    ----------
    api
        The vendor's API.
    variable, name
        The environment variable, and its value: "" if it is not set.
    names
        The driver that is always there, and the one that may be installed.
    modules
        The modules of the second one. One of them is enough.

    Raises
    ------
    DeviceNotFoundError
        The variable has another value.
    """
    if not name:
        return names[1] if any(map(_is_installed, modules)) else names[0]
    if name not in names:
        raise DeviceNotFoundError(
            f"no {api.title} device can be used: {variable}={name!r} names no driver; set it to {names[0]!r} or {names[1]!r}, or unset it",
            kind=api.kind,
        )
    return name


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # another finder raises an error for it
        return False
