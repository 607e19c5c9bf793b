"""Global variables of a module, as arrays over the memory of the loaded image."""

from __future__ import annotations

import devmod
from devmod.backend import DeviceArray, array_bytes, parse_dtype
from devmod.errors import ArgumentError, FunctionNotFoundError
from devmod_hexagon._device import HexagonDevice
from devmod_hexagon._memory import Part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_hexagon._module import HexagonModule


def get_global(module: HexagonModule, name: str, device: object, dtype: str) -> DeviceArray:
    """Return a variable of a module; the documentation is that of `HexagonModule.get_global`."""
    if device is None:
        device = devmod.device("hexagon")
    if not isinstance(device, HexagonDevice):
        raise ArgumentError(
            f"get_global({name!r}) takes a device of kind hexagon, such as devmod.device('hexagon'), got {device!r}",
            kind="hexagon",
            argument="device",
        )
    element = array_bytes(parse_dtype(dtype))
    runner = device.runner()
    image = module.image(runner, device)
    address, nbytes = runner.symbol(image, name)
    if not nbytes:
        raise FunctionNotFoundError(
            f"the hexagon module has no global {name!r}; it exports the variables of its source that are not static",
            kind="hexagon",
            function=name,
        )
    if not element or nbytes % element:
        raise ArgumentError(
            f"get_global({name!r}): the variable has {nbytes} bytes, which is not a whole number of {dtype}",
            kind="hexagon",
            argument="dtype",
        )
    return DeviceArray(device, Part(runner, address, nbytes, image), (nbytes // element,), dtype)
