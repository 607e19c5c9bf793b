"""Global variables of a module, as arrays over the memory of the loaded image."""

from __future__ import annotations

import devmod
from devmod.backend import DeviceArray, array_bytes, parse_dtype
from devmod.errors import ArgumentError
from devmod_cuda._device import CudaDevice
from devmod_cuda._memory import Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_cuda._module import CudaModule


def get_global(module: CudaModule, name: str, device: object, dtype: str) -> DeviceArray:
    """Return a variable of a module; the documentation is that of `CudaModule.get_global`."""
    if device is None:
        device = devmod.device("cuda")
    if not isinstance(device, CudaDevice):
        raise ArgumentError(
            f"get_global({name!r}) takes a device of kind cuda, such as devmod.device('cuda'), got {device!r}",
            kind="cuda",
            argument="device",
        )
    parsed = parse_dtype(dtype)
    image = module.images().get(device)
    address, nbytes = image.variable(name)
    element = array_bytes(parsed)
    if not element or nbytes % element:
        raise ArgumentError(
            f"get_global({name!r}): the variable has {nbytes} bytes, which is not a whole number of {dtype}", kind="cuda", argument="dtype"
        )
    # The image owns the memory, so the array keeps it loaded.
    return DeviceArray(device, Memory(address, image), (nbytes // element,), dtype, image)
