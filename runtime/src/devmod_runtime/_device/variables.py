"""Global variables of a module on a device, as arrays."""

from __future__ import annotations

from devmod import device as find_device
from devmod.backend import array_bytes, parse_dtype
from devmod.errors import ArgumentError
from devmod_runtime._device.device_array import DeviceArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def global_array(
    kind: str, name: str, device: Any, dtype: str, options: dict[str, Any], find: Callable[[Any], tuple[Any, int, object]]
) -> DeviceArray:
    """Return a global variable as an array over its memory: the `get_global` of a kind whose payloads have no types of variables.

    Parameters
    ----------
    kind, name
        The kind and the variable.
    device
        The device; None for the default device of the kind.
    dtype
        The element type of the array.
    options
        The other options of the call. There are none, so any is an error.
    find
        Return the memory of the variable on a device, its bytes, and the object that keeps it alive.

    Raises
    ------
    ArgumentError
        `device` is of another kind, the variable is not a whole number of elements of `dtype`, or there is an option.
    """
    if options:
        raise ArgumentError(f"get_global of a {kind} module takes the option dtype=, got {list(options)}", kind=kind)
    element = array_bytes(parse_dtype(dtype))
    if device is None:
        device = find_device(kind)
    if getattr(device, "kind", None) != kind:
        raise ArgumentError(
            f"get_global({name!r}) takes a device of kind {kind}, such as devmod.device({kind!r}), got {device!r}",
            kind=kind,
            argument="device",
        )
    memory, nbytes, owner = find(device)
    if not element or nbytes % element:
        raise ArgumentError(
            f"get_global({name!r}): the variable has {nbytes} bytes, which is not a whole number of {dtype}", kind=kind, argument="dtype"
        )
    return DeviceArray(device, memory, (nbytes // element,), dtype, owner)
