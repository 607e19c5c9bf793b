"""Finding devices: `devmod.device`, `devmod.devices`, and the entry points of the group
``devmod.device``.
"""

from __future__ import annotations

from devmod._plugins import registry
from devmod._plugins.lookup import call_entry, lookup
from devmod._util.environment import environment_items, environment_text
from devmod._util.text import is_number, is_valid_name
from devmod.errors import (
    ArgumentError,
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    NotRegisteredError,
    PluginError,
    describe_error,
    did_you_mean,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from devmod import Device

GROUP = "devmod.device"
VARIABLE = "DEVMOD_DEVICE"


def device(kind: str | object, index: int | None = None) -> Device:
    """Return a device by its kind and number, or the device over an object of another library.

    Parameters
    ----------
    kind
        The backend's kind, such as "opencl". A number may follow a colon, as in "opencl:1". Or a
        context, a queue, a stream or a device of another library. Launches use it then, in order
        with the caller's own commands, and nothing of it is freed. One object has one device while
        that is referenced.
    index
        The device's number among the devices of that kind, from 0. Default: the number in `kind`,
        or else the kind's number in ``DEVMOD_DEVICE``, or else 0.

    Raises
    ------
    ArgumentError
        The text after the colon is not a number, or both `kind` and `index` give a number. No
        backend can use the object.
    NotRegisteredError
        The kind's runtime is not installed; the message has the command that installs it.
    DeviceNotFoundError
        There is no driver, or no device of that number.
    FormatError
        ``DEVMOD_DEVICE`` is invalid.
    """
    if not isinstance(kind, str):
        from devmod._plugins.adopt import adopt

        return adopt(kind, index)
    if ":" in kind:
        text = kind
        kind, _, number = text.partition(":")
        if index is not None:
            raise ArgumentError(
                f"device({text!r}, {index!r}) gives two numbers; write device({kind!r}, {index!r})",
                argument="index",
            )
        if not is_number(number, 9):
            raise ArgumentError(
                f"device({text!r}): expected a number from 0 behind the colon, as in {kind + ':0'!r}",
                argument="kind",
            )
        index = int(number)
    if index is None:
        default = default_device(kind)
        if default is not None:
            return default
        index = 0
    return _device(kind, index)


# Where to change: a device's name in texts, such as "opencl:1"
#   here: `plugins/runtime/src/devmod_runtime/_device/device.py` (`__repr__`): with the driver's
#     name of it
#   tests: `workbench/tests/test_explain.py`, `plugins/runtime/tests/toy/test_device.py`
def device_label(device: Any) -> str:
    """Return the kind and the number of a device, as in "opencl:1"."""
    return f"{device.kind}:{device.index}"


def default_device(kind: str) -> Device | None:
    """Return the device that ``DEVMOD_DEVICE`` names for a kind, as in ``opencl:1,vulkan:0``; None
    if it names none.

    Raises
    ------
    FormatError
        The variable is not a list of such items, has a kind twice, or has an unknown kind.
    NotRegisteredError, DeviceNotFoundError
        As for `device`.
    """
    numbers: dict[str, int] = {}
    for item in environment_items(VARIABLE):
        name, _, number = item.partition(":")
        if not is_valid_name(name) or not is_number(number, 9):
            raise _invalid(f"expected items such as opencl:1, separated by commas, got {item!r}")
        if name in numbers:
            raise _invalid(
                f"it has two devices of kind {name!r}: {name}:{numbers[name]} and {item}"
            )
        problem = _unknown_kind(name)
        if problem:
            raise _invalid(problem)
        numbers[name] = int(number)
    index = numbers.get(kind)
    if index is None:
        return None
    why = f"the environment variable {VARIABLE} is {environment_text(VARIABLE)!r}, and "
    return _device(kind, index, why)


def _invalid(problem: str) -> FormatError:
    return FormatError(
        f"the environment variable {VARIABLE} is {environment_text(VARIABLE)!r}: {problem}"
    )


def _unknown_kind(name: str) -> str:
    """Return the words about a kind that nothing names, else ""."""
    if registry.is_claimed("devmod.targets", name) or registry.is_claimed(GROUP, name):
        return ""
    kinds = [*registry.registered("devmod.targets"), *registry.registered(GROUP)]
    return f"unknown kind {name!r}{did_you_mean(name, kinds)}"


def _device(kind: str, index: int, why: str = "") -> Device:
    candidates = devices_of(kind, lookup(GROUP, kind))
    if type(index) is int and 0 <= index < len(candidates):
        return candidates[index]
    there = "; ".join(f"{each.index} {each.name}" for each in candidates) or "none"
    raise DeviceNotFoundError(
        f"{why}there is no {kind} device {index!r}; there are: {there}", kind=kind
    )


def devices(*kinds: str) -> list[Device]:
    """Return all devices of all installed kinds, ordered by kind and number.

    A kind without a driver or a device adds none. A broken plugin, or a driver that raises an
    exception of its own, adds none either and issues a RuntimeWarning; the devices of the other
    kinds are returned.

    Parameters
    ----------
    *kinds
        Return the devices of these kinds alone, such as "opencl"; no other driver is loaded.

    Raises
    ------
    ArgumentError
        A kind is unknown.
    """
    for each in kinds:
        if not isinstance(each, str):
            raise ArgumentError(f"devices: expected kinds, got {each!r}", argument="kinds")
        problem = _unknown_kind(each)
        if problem:
            raise ArgumentError(f"devices: {problem}", argument="kinds")
    return devices_of_kinds(kinds or registry.registered(GROUP))


def devices_of_kinds(kinds: Iterable[str]) -> list[Device]:
    """Return the devices of some kinds, as `devices` returns those of all."""
    result = []
    for kind in sorted({*kinds} & {*registry.registered(GROUP)}):
        try:
            result.extend(probe(kind))
        except (DeviceNotFoundError, NotRegisteredError):  # the latter: a concurrent uninstall
            continue
        except DevmodError as error:
            import warnings

            warnings.warn(str(error), RuntimeWarning, stacklevel=3)
    return result


def probe(kind: str) -> list[Device]:
    """Return the devices of one kind, and raise nothing but DevmodError.

    Raises
    ------
    DevmodError
        As for `device`. An exception of the driver becomes the cause of a PluginError that names
        the distribution.
    """
    find = lookup(GROUP, kind)
    try:
        return devices_of(kind, find)
    except DevmodError:
        raise
    except (Exception, SystemExit) as error:
        claim = registry.used_claim(GROUP, kind)
        source = f"{claim.key}, registered {claim.provider},"
        if claim.distribution:
            source = f"{claim.key} of {claim.provider}"
        raise PluginError(
            f"{source} failed: {describe_error(error)}",
            kind=kind,
            key=claim.key,
            distribution=claim.distribution,
        ) from error


def devices_of(kind: str, find: Any) -> list[Device]:
    """Call `find`, the entry ``devmod.device.<kind>``, and check the result."""
    result = call_entry(GROUP, kind, find)
    # The entry has imported it, or has raised the error for a missing devmod-runtime.
    from devmod import Device

    listing = [result]
    if isinstance(result, (list, tuple)):
        listing = list(result)
    wrong = [type(each).__name__ for each in listing if not isinstance(each, Device)]
    if wrong:
        from devmod._plugins.messages import wrong_result

        claim = registry.used_claim(GROUP, kind)
        raise wrong_result(claim, kind, f"returned {wrong[0]}, not a sequence of devmod.Device")
    return listing
