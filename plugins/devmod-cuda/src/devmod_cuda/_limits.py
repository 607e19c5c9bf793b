"""The limits and the architecture of a device."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_cuda._calls import CudaDriver

#: CUDA's numbers of the attributes (CUdevice_attribute). The names are CUDA's without CU_DEVICE_ATTRIBUTE_, in lower case.
ATTRIBUTES = {
    "max_threads_per_block": 1,
    "max_block_dim_x": 2,
    "max_block_dim_y": 3,
    "max_block_dim_z": 4,
    "max_grid_dim_x": 5,
    "max_grid_dim_y": 6,
    "max_grid_dim_z": 7,
    "max_shared_memory_per_block": 8,
    "warp_size": 10,
    "max_registers_per_block": 12,
    "multiprocessor_count": 16,
    "max_threads_per_multiprocessor": 39,
    "max_shared_memory_per_multiprocessor": 81,
    "cooperative_launch": 95,
    "max_shared_memory_per_block_optin": 97,
    "max_blocks_per_multiprocessor": 106,
    "reserved_shared_memory_per_block": 111,
    "cluster_launch": 120,
    "tensor_map_access_supported": 127,
}
_MAJOR, _MINOR = 75, 76
#: The PTX version of each driver version of CUDA 12. From 13.0 on, CUDA 13.x reads PTX 9.x.
_PTX_OF_12 = ("8.0", "8.1", "8.2", "8.3", "8.4", "8.5", "8.5", "8.6", "8.7", "8.8")


def read_limits(driver: CudaDriver, device: int) -> dict[str, int]:
    """Return the limits of a device. Element types are aligned, so views may begin at every element."""
    return {name: driver.device_attribute(device, number) for name, number in ATTRIBUTES.items()} | {"view_alignment": 1}


def read_arch(driver: CudaDriver, device: int) -> str:
    """Return the architecture of a device with the PTX version of the driver: ``sm_90:ptx8.7``."""
    number = 10 * driver.device_attribute(device, _MAJOR) + driver.device_attribute(device, _MINOR)
    ptx = ptx_version(driver.version)
    return f"sm_{number}:ptx{ptx}" if ptx else f"sm_{number}"


def ptx_version(cuda: int) -> str:
    """Return the newest PTX version that a driver reads; "" for a driver newer than this table.

    Parameters
    ----------
    cuda
        The version of CUDA that the driver supports, such as 12080.
    """
    major, minor = cuda // 1000, cuda % 1000 // 10
    if major == 12:
        return _PTX_OF_12[min(minor, len(_PTX_OF_12) - 1)]
    return f"9.{minor}" if major == 13 else ""
