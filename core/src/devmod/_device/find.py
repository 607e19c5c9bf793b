"""Finding devices: `devmod.device`, `devmod.devices`, and the entry points of the group ``devmod.device``."""

from __future__ import annotations

from devmod._device.device import Device
from devmod._plugins import registry
from devmod._plugins.lookup import lookup
from devmod.errors import ArgumentError, DeviceNotFoundError, DevmodError, NotRegisteredError, PluginError, describe_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GROUP = "devmod.device"


def device(kind: str, index: int = 0) -> Device:
    """Return a device by its kind and number.

    Parameters
    ----------
    kind
        The backend's kind, such as "opencl". A number may follow a colon, as in "opencl:1".
    index
        The device's number among the devices of that kind, from 0, if `kind` has no number.

    Raises
    ------
    ArgumentError
        The text after the colon is not a number, or both `kind` and `index` give a number.
    NotRegisteredError
        The kind's runtime is not installed; the message has the command that installs it.
    DeviceNotFoundError
        There is no driver, or no device of that number.
    """
    if isinstance(kind, str) and ":" in kind:
        kind, index = _parse_numbered_kind(kind, index)
    found = devices_of(kind, lookup(GROUP, kind))
    if type(index) is not int or not 0 <= index < len(found):
        listed = "; ".join(f"{each.index} {each.name}" for each in found) or "none"
        raise DeviceNotFoundError(f"there is no {kind} device {index!r}; there are: {listed}", kind=kind)
    return found[index]


def _parse_numbered_kind(text: str, index: int) -> tuple[str, int]:
    """Parse a text such as "opencl:1" into kind and number."""
    kind, _, number = text.partition(":")
    if index != 0:
        raise ArgumentError(f"device({text!r}, {index!r}) gives two numbers; write device({kind!r}, {index!r})", argument="index")
    if not (number.isascii() and number.isdigit() and len(number) <= 9):
        raise ArgumentError(f"device({text!r}): expected a number from 0 behind the colon, as in {kind + ':0'!r}", argument="kind")
    return kind, int(number)


def devices() -> list[Device]:
    """Return all devices of all installed kinds, ordered by kind and number.

    A kind without a driver or a device adds none. A broken plugin, or a driver that raises an exception of its own, adds none either and
    issues a RuntimeWarning; the devices of the other kinds are returned.
    """
    found: list[Device] = []
    for kind in registry.registered(GROUP):
        try:
            found.extend(probe(kind))
        except (DeviceNotFoundError, NotRegisteredError):  # the latter: a concurrent uninstall
            continue
        except DevmodError as error:
            import warnings

            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
    return found


def probe(kind: str) -> list[Device]:
    """Return the devices of one kind, and raise nothing but DevmodError.

    Raises
    ------
    DevmodError
        As for `device`. An exception of the driver becomes the cause of a PluginError that names the distribution.
    """
    find = lookup(GROUP, kind)
    try:
        return devices_of(kind, find)
    except DevmodError:
        raise
    except (Exception, SystemExit) as error:
        claim = registry.used_claim(GROUP, kind)
        source = f"{GROUP}.{kind} of {claim.provider}" if claim else f"{GROUP}.{kind}, registered in this process,"
        raise PluginError(
            f"{source} failed: {describe_error(error)}", kind=kind, key=f"{GROUP}.{kind}", distribution=claim.distribution if claim else ""
        ) from error


def devices_of(kind: str, find: Any) -> list[Device]:
    """Call `find`, the entry ``devmod.device.<kind>``, and check the result."""
    result = registry.call_entry(GROUP, kind, find)
    found = list(result) if isinstance(result, (list, tuple)) else [result]
    wrong = [type(each).__name__ for each in found if not isinstance(each, Device)]
    if wrong:
        from devmod._plugins.messages import wrong_result

        raise wrong_result(GROUP, kind, f"returned {wrong[0]}, not a sequence of devmod.Device", kind, registry.used_claim(GROUP, kind))
    return found
