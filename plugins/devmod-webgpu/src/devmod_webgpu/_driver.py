"""The package wgpu. Only `_load` imports it too, and all code for its differences from WebGPU is
here.

Importing this file loads wgpu-native. If that fails, it raises DeviceNotFoundError; a later import
tries again.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import NamedTuple

from devmod.backend import FEATURES, RLock
from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_runtime import (
    call_uninterrupted,
    driver_import_error,
    fork_safe,
    has_uninterrupted_calls,
)
from devmod_webgpu._load import load_wgpu

try:
    load_wgpu()
    import wgpu
except (ImportError, OSError, RuntimeError) as error:  # wgpu's wheels contain wgpu-native
    raise driver_import_error(error, "webgpu", "WebGPU", "wgpu") from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from devmod import Device

__all__ = ["wgpu"]

#: The base class of the errors that wgpu raises.
Error = wgpu.GPUError

#: The launches of a batch that are submitted together. More would only keep memory, and the device
#: idle.
_MOST_TOGETHER = 1024

NO_ADAPTER = (
    "no WebGPU adapter was found: wgpu sees no driver of Vulkan, Metal or Direct3D 12 here. For a GPU, install its vendor's driver; for a "
    "device on the CPU, on Linux: the Vulkan driver lavapipe (Debian: apt install mesa-vulkan-drivers)"
)
#: The features that are enabled if the adapter has them: those of compute shaders, timestamps, and
#: those of images: formats, filters and storage textures.
_REQUESTED = (
    *("shader-f16", "timestamp-query", "subgroups", "subgroup", "subgroup-barrier"),
    *("float32-filterable", "bgra8unorm-storage", "texture-formats-tier1", "texture-formats-tier2"),
    *("texture-format16bit-norm", "texture-adapter-specific-format-features"),
)
#: wgpu-native's feature names that differ from WebGPU's.
_NAMES = {"subgroup": "subgroups"}
_TYPES = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")
_LAST = ("OpenGL", "OpenGLES", "D3D11")


class Dispatch(NamedTuple):
    """A launch of a batch.

    Attributes
    ----------
    device
        The GPUDevice.
    pipeline, groups, blocks
        The pipeline, the numbers of the bind groups with them, and the blocks in x, y and z.
    error
        Returns the error of the launch for an error of wgpu.
    unused, uniforms
        When the launch is in the queue, `uniforms` is appended to `unused`.
    """

    device: Any
    pipeline: Any
    groups: Sequence[tuple[int, Any]]
    blocks: tuple[int, int, int]
    error: Callable[[Exception], Exception]
    unused: list[Any] | deque[Any]
    uniforms: Any


class Clear(NamedTuple):
    """A fill of a batch with zeros: the GPUDevice, the buffer, the first byte, the size in bytes,
    and the error for an error of wgpu.
    """

    device: Any
    buffer: Any
    start: int
    size: int
    error: Callable[[Exception], Exception]


#: Launches of batches, and devices with command buffers that another thread submits. An entry is
#: removed when it is in the device's queue: later operations of any stream follow it, also after an
#: interrupt.
_submissions: deque[Dispatch | Clear | tuple[Any, Sequence[Any]]] = deque()
_submissions_lock = fork_safe(RLock())
#: What a thread holds that submits directly.
_submit_lock = fork_safe(RLock())


def adapters() -> list[Any]:
    """Return the adapters, GPUs before CPUs. Adapters of OpenGL and Direct3D 11 are returned only
    if there is no other.

    wgpu's variable WGPUPY_WGPU_ADAPTER_NAME puts first the adapters with its text in their summary.

    Raises
    ------
    DeviceNotFoundError
        There is no adapter.
    """
    result = all_adapters()
    modern = [adapter for adapter in result if adapter.info["backend_type"] not in _LAST]
    result = modern or result
    if not result:
        raise DeviceNotFoundError(NO_ADAPTER, kind="webgpu")
    import os

    preferred = os.environ.get("WGPUPY_WGPU_ADAPTER_NAME", "")

    def rank(adapter: Any) -> tuple[bool, int]:
        kind = adapter.info["adapter_type"]
        place = _TYPES.index("Unknown")
        if kind in _TYPES:
            place = _TYPES.index(kind)
        return bool(preferred) and preferred not in adapter.summary, place

    return sorted(result, key=rank)


def version() -> str:
    """Return the versions of wgpu and of wgpu-native."""
    try:
        from wgpu.backends.wgpu_native import __version__ as native
    except ImportError:
        native = "unknown"
    return f"wgpu {wgpu.__version__}, wgpu-native {native}"


def all_adapters() -> list[Any]:
    """Return all adapters that wgpu lists, including those of OpenGL.

    Raises
    ------
    DeviceNotFoundError
        wgpu cannot list them.
    """
    try:
        return list(wgpu.gpu.enumerate_adapters_sync())
    except (Error, OSError, RuntimeError) as error:
        raise DeviceNotFoundError(
            f"{NO_ADAPTER} (wgpu: {describe_error(error)})", kind="webgpu"
        ) from error


def open_device(adapter: Any) -> Any:
    """Return a GPUDevice with the limits of the adapter and all its features for compute
    shaders.
    """
    return adapter.request_device_sync(required_features=_requested(adapter), required_limits={})


def _requested(adapter: Any) -> list[str]:
    return [name for name in _REQUESTED if name in adapter.features]


def features_of(adapter: Any) -> frozenset[str]:
    """Return the features that `open_device` enables, as WebGPU and as interfaces name them."""
    names = [_NAMES.get(name, name) for name in _requested(adapter)]
    return frozenset(
        ["images", *names, *(name for name, feature in FEATURES.items() if feature.webgpu in names)]
    )


def subgroup_size_of(adapter: Any) -> int | None:
    """Return the number of threads in a subgroup; None if it is unknown, or is not always the
    same.
    """
    info = adapter.info
    # wgpu 0.32 misspells the first part.
    least = info.get("subgroup_min_size") or info.get("stackgroup_min_size")
    most = info.get("subgroup_max_size") or info.get("stackgroup_max_size")
    if not least or least != most:
        return None
    return int(least)


def limits_of(adapter: Any) -> dict[str, int]:
    """Return the limits that apply to launches and to images, as WebGPU names them."""
    limits = {}
    for name, value in sorted(adapter.limits.items()):
        if "color" in name or "vertex" in name or "inter-stage" in name:
            continue
        webgpu_name, *rest = name.split("-")
        for part in rest:
            webgpu_name += part.upper() if part[0].isdigit() else part.capitalize()
        limits[webgpu_name] = int(value)
    return limits


def submit(device: Any, commands: Sequence[Any]) -> None:
    """Submit command buffers.

    wgpu then calls the callbacks of finished operations of all threads. An interrupt of such a
    callback would be lost, and the thread that waits for it would never continue. So no operation
    with a callback begins in another thread while this one submits.
    """
    if _submissions:
        end_submissions()  # an error of theirs is raised before these commands are queued
    with _submit_lock:
        if not has_uninterrupted_calls():
            device.queue.submit(commands)
            return
    _submissions.append((device, commands))
    call_uninterrupted(_submit_all)


def gather(entry: Dispatch | Clear, batches: Collection[object]) -> None:
    """Submit a launch or a fill with those that follow: before the next other operation, or at the
    end of the stream's batches.
    """
    _submissions.append(entry)
    # Another thread may have ended the batch.
    if not batches or len(_submissions) >= _MOST_TOGETHER:
        end_submissions()


def end_submissions() -> None:
    """Submit the launches of batches. Wait until they, and the submissions of earlier interrupted
    calls, are in the queue.
    """
    if _submissions:
        call_uninterrupted(_submit_all)


def _submit_all() -> None:
    with _submissions_lock:
        _submit_in_turn()


def _submit_in_turn() -> None:
    # Not until it is empty: other threads may add launches all the time.
    left = len(_submissions)
    while left:
        entry = _submissions[0]
        done = 1
        try:
            if isinstance(entry, (Dispatch, Clear)):
                together = [entry]
                while (
                    done < left
                    and isinstance(other := _submissions[done], (Dispatch, Clear))
                    and other.device is entry.device
                ):
                    together.append(other)
                    done += 1
                _submit_together(together)
            else:
                device, commands = entry
                device.queue.submit(commands)
        finally:
            for _ in range(done):
                _submissions.popleft()
        left -= done


def _submit_together(entries: Sequence[Dispatch | Clear]) -> None:
    """Submit launches of one device as one compute pass, in which WebGPU orders them. Fills are
    between two passes.
    """
    device = entries[0].device
    run = None
    pipeline = None
    try:
        encoder = device.create_command_encoder()
        for each in entries:
            if isinstance(each, Clear):
                if run is not None:
                    run.end()
                    run = pipeline = None
                encoder.clear_buffer(each.buffer, each.start, each.size)
                continue
            if run is None:
                run = encoder.begin_compute_pass()
            if each.pipeline is not pipeline:
                pipeline = each.pipeline
                run.set_pipeline(pipeline)
            for number, group in each.groups:
                run.set_bind_group(number, group)
            run.dispatch_workgroups(*each.blocks)
        if run is not None:
            run.end()
        commands = encoder.finish()
    except Error as error:
        if len(entries) == 1:
            raise entries[0].error(error) from error
        # As without a batch: those before the one that fails run, and the error names that one.
        for each in entries:
            _submit_together([each])
        return
    device.queue.submit([commands])
    # The last first, so that the next batch finds the buffer with its first launch's scalars first.
    for each in reversed(entries):
        if isinstance(each, Dispatch) and each.uniforms:
            each.unused.append(each.uniforms)


def wait(device: Any) -> None:
    """Wait until a device's queue is empty. `call_uninterrupted` executes it."""
    _submit_all()
    # finish() raises for a lost device; submitting to one ends the process (wgpu-native panics).
    # Submitting starts pending writes to buffers, and frees the encoder's memory.
    device.queue.submit([device.create_command_encoder().finish()])
    # wgpu 0.32 cannot call GPUQueue.on_submitted_work_done: its callback does not have the
    # signature that the library expects.
    if hasattr(device, "_poll_wait"):
        device._poll_wait()
    else:
        usage = wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        device.queue.read_buffer(device.create_buffer(size=4, usage=usage), 0, 4)


def map_submitted(buffer: Any) -> None:
    """Wait for the submitted copies to a buffer, and map it for reading. `call_uninterrupted`
    executes it.
    """
    # The thread that submits may wait for this one: in the handler of a signal.
    if _submit_lock.acquire(timeout=1):
        _submit_lock.release()
    try:
        buffer.map_sync("READ_NOSYNC")  # as wgpu's own `read_buffer`: without one more submission
    except ValueError:  # of another version
        buffer.map_sync(wgpu.MapMode.READ)


def never_release() -> None:
    """Keep all objects of wgpu in this process, a forked child. To release one, a driver may wait
    for threads, or for locks of threads, that only the parent has.
    """
    for base in (wgpu.GPUObjectBase, wgpu.GPUAdapter):
        base.__del__ = lambda self: None


def timestamp_period(queue: Any) -> float:
    """Return the nanoseconds of one timestamp tick. WebGPU specifies 1; wgpu-native returns the
    driver's ticks.
    """
    period = 0.0
    with contextlib.suppress(AttributeError, ImportError, TypeError):
        from wgpu.backends.wgpu_native import lib

        period = float(lib.wgpuQueueGetTimestampPeriod(queue._internal))
    if period <= 0:
        return 1.0
    return period


def pass_times(query: Any, last: int | None = None) -> Any:
    """Return the ``timestamp_writes`` of a compute pass: its start is query 0, and its end
    `last`.
    """
    times = {"query_set": query, "beginning_of_pass_write_index": 0}
    if last is not None:
        times["end_of_pass_write_index"] = last
    return times


def describe_error(error: BaseException) -> str:
    """Return wgpu's message on one line, without its headings."""
    content = []
    for line in map(str.strip, str(error).splitlines()):
        if line not in ("", "Validation Error", "Caused by:") and not line.startswith("In wgpu"):
            content.append(line)
    return "; ".join(content[:4]) or type(error).__name__


def is_lost(error: BaseException) -> bool:
    """Return whether an error of wgpu reports a lost device."""
    return "device is lost" in str(error).lower()


def launch_error(subject: str, device: Device, error: BaseException) -> LaunchError:
    """Return the LaunchError for a failed call of wgpu."""
    if is_lost(error):
        advice = "Start a new process to use the device again"
        if device.is_adopted:
            advice = "Call devmod.device with a new GPUDevice"
        return LaunchError(
            f"{subject}: {device} is lost: its driver failed, was reset, or was closed. The contents of its memory are lost. {advice}",
            kind="webgpu",
        )
    if isinstance(error, wgpu.GPUOutOfMemoryError):
        return device.memory_error(0, f"{subject}: {describe_error(error)}")
    return LaunchError(f"{subject}: {describe_error(error)}", kind="webgpu")
