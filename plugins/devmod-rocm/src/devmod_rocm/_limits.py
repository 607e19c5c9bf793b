"""The limits of a device."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_rocm._calls import HipDriver

#: HIP's numbers of the attributes (hipDeviceAttribute_t), the same from HIP 5 on. The names are HIP's without hipDeviceAttribute, in the
#: spelling of the other kinds.
ATTRIBUTES = {
    "max_threads_per_block": 56,
    "max_block_dim_x": 26,
    "max_block_dim_y": 27,
    "max_block_dim_z": 28,
    "max_grid_dim_x": 29,
    "max_grid_dim_y": 30,
    "max_grid_dim_z": 31,
    "max_shared_memory_per_block": 74,
    "warp_size": 87,
    "max_registers_per_block": 71,
    "multiprocessor_count": 63,
    "max_threads_per_multiprocessor": 57,
    "cooperative_launch": 10,
}


def read_limits(driver: HipDriver, device: int) -> dict[str, int]:
    """Return the limits of a device. Element types are aligned, so views may begin at every element."""
    return {name: driver.device_attribute(device, number) for name, number in ATTRIBUTES.items()} | {"view_alignment": 1}
