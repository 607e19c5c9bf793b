"""devmod-cuda: its list of devices, devices over contexts and streams of other libraries, and
`tensor_map`. Importing it loads no driver and no driver library.

docs/design/cuda.md has the reasons.
"""

from __future__ import annotations

#: The packages with contexts and streams of CUDA.
_PACKAGES = ("cuda", "cupy", "numba", "pycuda", "torch")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod import Array, Device
    from devmod_cuda._tensor_map import TensorMap


def devices() -> Sequence[Device]:
    """Entry point ``devmod.device.cuda``: return the CUDA devices in the driver's order."""
    from devmod_cuda._device import devices as list_devices

    return list_devices()


def adopt(handle: object) -> Device | None:
    """Entry point ``devmod.adopt.cuda``: return the device over a context or a stream of another
    library; None for other objects.
    """
    package = type(handle).__module__.partition(".")[0]
    if package not in _PACKAGES and not hasattr(type(handle), "__cuda_stream__"):
        return None
    from devmod_driver_api import is_for_hip

    if is_for_hip(package):
        return None
    from devmod_cuda._launch import ADOPTION

    return ADOPTION.adopt_device(handle)


def current_device() -> Device:
    """Return the device over the thread's current CUDA context, whichever library has made it.

    It is that of `devmod.device` for the primary context of a device. Otherwise it is a device over
    the context, which its library keeps: `devmod.device` with an object of the library references
    that object.

    Raises
    ------
    ArgumentError
        No context is current in this thread.
    DeviceNotFoundError
        There is no driver or no device.
    """
    from devmod_cuda._launch import ADOPTION

    return ADOPTION.current_device()


def tensor_map(
    array: Array,
    box: Sequence[int],
    *,
    steps: Sequence[int] | None = None,
    interleave: str = "none",
    swizzle: str = "none",
    l2_promotion: str = "none",
    fill: str = "zeros",
) -> TensorMap:
    """Return a tensor map: the descriptor of an array from which a kernel copies boxes with the
    Tensor Memory Accelerator.

    A kernel takes it as ``const __grid_constant__ CUtensorMap``. The result keeps the array alive.

    Parameters
    ----------
    array
        An array of 1 to 5 dimensions on a CUDA device. Its rows are a multiple of 16 bytes.
    box
        The elements that one copy transfers, in the order of the array's dimensions: 1 to 256 in
        each.
    steps
        The distance in elements between two elements of the box in each dimension, 1 to 8; None for
        1.
    interleave
        "none", "16B" or "32B".
    swizzle
        "none", "32B", "64B" or "128B": how the box is stored in shared memory.
    l2_promotion
        "none", "64B", "128B" or "256B".
    fill
        "zeros" or "nan": the elements of a box that are outside of the array.

    Raises
    ------
    ArgumentError
        The array or an option is not supported.
    LaunchError
        The device has no tensor maps.
    """
    from devmod_cuda._tensor_map import tensor_map as make

    return make(
        array,
        box,
        steps=steps,
        interleave=interleave,
        swizzle=swizzle,
        l2_promotion=l2_promotion,
        fill=fill,
    )
