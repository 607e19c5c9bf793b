"""The limits of devices with which functions are compared."""

#: The limits with which functions are compared: what each limits and its unit, for documentation,
#: and what a function does with an amount, as the end of a sentence. `Capabilities.limits` has a
#: driver's name of each, which `Device.limits` and messages use.
from __future__ import annotations

# Where to change: a limit with which functions are compared
#   here: `core/src/devmod/_values/requirements.py` (`requirements`, `Capabilities`)
#   also: the docstring of `Capabilities` there, which lists them; `_LIMITS`, the driver's name, and
#     `limits`, which reads the value: `_device.py` of the backend,
#     `plugins/driver-api/src/devmod_driver_api/device.py` for CUDA and ROCm; `_calls.py` of
#     these and `_physical.py` of devmod-vulkan list what is read of the driver;
#     `extras/browser/js/src/pipeline.js` has the browser's copy
#   tests: `tests/test_repository.py`, `core/tests/test_requirements.py`, `tests/test_limits.py`;
#     `plugins/devmod-opencl/tests/test_launch.py`, or that of another backend, for the values
LIMITS = {
    "block_x": ("the size of a block in x", "threads", "is built for blocks of {} threads in x"),
    "block_y": ("the size of a block in y", "threads", "is built for blocks of {} threads in y"),
    "block_z": ("the size of a block in z", "threads", "is built for blocks of {} threads in z"),
    "block": ("the size of a block in all", "threads", "is built for blocks of {} threads"),
    "subgroups": (
        "the subgroups of a block, if the function requires their size",
        "subgroups",
        "is built for blocks of {} subgroups",
    ),
    "shared_memory": (
        "the static shared memory of a block",
        "bytes",
        "uses {} bytes of shared memory",
    ),
    "array": ("each array whose size is fixed", "bytes", "takes an array of {} bytes"),
    "storage": (
        "each array of fixed size that is a storage buffer",
        "bytes",
        "takes a storage buffer of {} bytes",
    ),
    "push_constants": ("the push constants", "bytes", "uses {} bytes of push constants"),
    "uniform": ("each uniform block", "bytes", "uses a uniform block of {} bytes"),
    "sets": (
        "the descriptor sets or bind groups, up to the last one with a binding",
        "sets",
        "uses {}",
    ),
    "storage_buffers": ("the storage buffers", "bindings", "uses {}"),
    "uniform_buffers": ("the uniform blocks", "bindings", "uses {}"),
    "sampled_images": (
        "the images that are only read and whose format the function does not fix",
        "bindings",
        "uses {}",
    ),
    "storage_images": ("the other images", "bindings", "uses {}"),
    "samplers": ("the samplers", "bindings", "uses {}"),
    "resources": ("all of these but the samplers", "bindings", "uses {}"),
}
