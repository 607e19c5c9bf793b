"""The package wgpu. This is the only file that imports it, and the only one that knows where it is not as WebGPU says.

Importing this file loads wgpu-native; where that cannot be done it raises DeviceNotFoundError, and trying again later is fine.
"""

from __future__ import annotations

import contextlib

from devmod.errors import DeviceNotFoundError, LaunchError

try:
    import wgpu
    import wgpu.backends.auto
except ModuleNotFoundError as error:
    if error.name != "wgpu":
        raise DeviceNotFoundError(
            f"wgpu cannot be imported: {error}. Install it again: pip install --force-reinstall wgpu", kind="webgpu"
        ) from error
    raise DeviceNotFoundError(
        "wgpu is not installed, so no WebGPU device can be used. To add it: pip install wgpu", kind="webgpu"
    ) from error
except (ImportError, OSError, RuntimeError) as error:
    raise DeviceNotFoundError(
        f"wgpu cannot be imported: {error}. Its wheels bring wgpu-native: pip install --force-reinstall wgpu", kind="webgpu"
    ) from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Error",
    "adapters",
    "backend_words",
    "limits_of",
    "nanoseconds",
    "never_release",
    "open_device",
    "pass_times",
    "wait",
    "wgpu",
    "words",
]

#: What wgpu raises for what it, or the driver below it, refuses.
Error = wgpu.GPUError

NO_ADAPTER = (
    "no WebGPU adapter was found: wgpu sees no driver of Vulkan, Metal or Direct3D 12 here. For a GPU, install its vendor's driver; for a "
    "device on the CPU, on Linux: the Vulkan driver lavapipe (Debian: apt install mesa-vulkan-drivers)"
)
#: What a device is opened with where the adapter has it: what compute shaders can ask for, and timestamps.
_WANTED = ("shader-f16", "timestamp-query", "subgroups", "subgroup", "subgroup-barrier")
#: wgpu-native calls a feature otherwise than WebGPU does.
_NAMES = {"subgroup": "subgroups"}
_TYPES = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")
_LAST = ("OpenGL", "OpenGLES", "D3D11")


def adapters() -> list[Any]:
    """The adapters: GPUs before CPUs. One that is there through OpenGL alone comes where there is no other.

    wgpu's own variable WGPUPY_WGPU_ADAPTER_NAME puts those first whose summary has its text.

    Raises
    ------
    DeviceNotFoundError
        There is none.
    """
    try:
        found = list(wgpu.gpu.enumerate_adapters_sync())
    except (Error, OSError, RuntimeError) as error:
        raise DeviceNotFoundError(f"{NO_ADAPTER} (wgpu says: {words(error)})", kind="webgpu") from error
    modern = [adapter for adapter in found if adapter.info["backend_type"] not in _LAST]
    found = modern or found
    if not found:
        raise DeviceNotFoundError(NO_ADAPTER, kind="webgpu")
    import os

    chosen = os.environ.get("WGPUPY_WGPU_ADAPTER_NAME", "")

    def rank(adapter: Any) -> tuple[bool, int]:
        kind = adapter.info["adapter_type"]
        return bool(chosen) and chosen not in adapter.summary, _TYPES.index(kind) if kind in _TYPES else 2

    return sorted(found, key=rank)


def open_device(adapter: Any) -> Any:
    """A GPUDevice with all that the adapter has of what shaders may need, and its own limits."""
    wanted = [name for name in _WANTED if name in adapter.features]
    return adapter.request_device_sync(required_features=wanted, required_limits={})


def backend_words(adapter: Any) -> str:
    """What an adapter is reached through, such as "Vulkan"."""
    return str(adapter.info["backend_type"])


def features_of(device: Any) -> frozenset[str]:
    """The features that a device was opened with, as WebGPU names them."""
    return frozenset(_NAMES.get(name, name) for name in device.features)


def limits_of(adapter: Any) -> dict[str, int]:
    """The limits that a launch can meet, as WebGPU names them."""
    made = {}
    for name, value in sorted(adapter.limits.items()):
        first, *rest = name.split("-")
        if "texture" not in name and "color" not in name and "vertex" not in name and "inter-stage" not in name:
            made[first + "".join(map(str.capitalize, rest))] = int(value)
    return made


def wait(device: Any) -> None:
    """Wait until all that a device's queue holds is done."""
    # finish() is what tells of a lost device; submitting to one would end the process (wgpu-native panics). Submitting is what makes writes
    # to buffers begin, and what gives the encoder's memory back.
    device.queue.submit([device.create_command_encoder().finish()])
    # wgpu 0.32 cannot call GPUQueue.on_submitted_work_done: its callback has another signature than the library's.
    poll = getattr(device, "_poll_wait", None)
    if poll is not None:
        poll()
        return
    usage = wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    device.queue.read_buffer(device.create_buffer(size=4, usage=usage), 0, 4)


def never_release(device: Any) -> None:
    """Have a device outlive its Python object: releasing it waits for threads that a forked process does not have."""
    with contextlib.suppress(AttributeError, ImportError):
        from wgpu.backends.wgpu_native import lib

        lib.wgpuDeviceAddRef(device._internal)


def nanoseconds(queue: Any) -> float:
    """How long one step of a timestamp is. WebGPU says 1; wgpu-native hands on what the driver counts in."""
    try:
        from wgpu.backends.wgpu_native import lib

        period = float(lib.wgpuQueueGetTimestampPeriod(queue._internal))
    except (AttributeError, ImportError, TypeError):
        return 1.0
    return period if period > 0 else 1.0


def pass_times(query: Any, first: int | None = None, last: int | None = None) -> Any:
    """The ``timestamp_writes`` of a compute pass."""
    made: dict[str, Any] = {"query_set": query}
    if first is not None:
        made["beginning_of_pass_write_index"] = first
    if last is not None:
        made["end_of_pass_write_index"] = last
    return made


def words(error: BaseException) -> str:
    """What wgpu says of an error, on one line, without its own frame."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and line not in ("Validation Error", "Caused by:") and not line.startswith("In wgpu")]
    return "; ".join(said[:4]) or type(error).__name__


def is_lost(error: BaseException) -> bool:
    """Whether wgpu says that the device is gone."""
    return "device is lost" in str(error).lower()


def refused(what: str, device: object, error: BaseException) -> LaunchError:
    """The LaunchError for a call that wgpu refused."""
    if is_lost(error):
        return LaunchError(
            f"{what}: {device} is lost: its driver failed, was reset, or was closed. Start the program anew; what the device held is gone",
            kind="webgpu",
        )
    return LaunchError(f"{what}: {words(error)}", kind="webgpu")
