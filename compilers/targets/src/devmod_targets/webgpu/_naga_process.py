"""The part of `devmod_targets._library_server` that compiles WGSL with the naga of the wheel wgpu:
it makes a pipeline, and a libvulkan of devmod's returns the shader that wgpu passes to the driver.

A request has the "name" of the file, the "entry" and the "constants".
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LIBRARY = "libvulkan.so.1"
_Receive = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)

#: The beginnings of the features that compute shaders may need.
_FEATURES = ("shader-", "subgroup", "immediates")


def load(start: dict[str, Any]) -> Callable[[dict[str, Any], bytes], tuple[int, bytes, bytes]]:
    """Open the device of wgpu."""
    return _Compiler(os.environ[start["variable"]]).answer


class _Compiler:
    """The device of wgpu, and the shaders that it passes to its driver."""

    def __init__(self, path: str) -> None:
        self._shaders: list[bytes] = []
        self._receive = _Receive(self._add)
        self._device: Any = None
        self._problem = ""
        try:
            _capture(path, self._receive)
            self._device = _device()
        except Exception as error:  # noqa: BLE001 - those of ctypes, wgpu and the driver
            self._problem = f"{type(error).__name__}: {error}"

    def _add(self, code: int, size: int) -> None:
        self._shaders.append(ctypes.string_at(code, size))

    def answer(self, request: dict[str, Any], data: bytes) -> tuple[int, bytes, bytes]:
        """Return the SPIR-V of an entry point. The status is 2 without a device, and 1 for a source
        that does not compile.
        """
        if self._problem:
            return 2, b"", self._problem.encode()
        self._shaders.clear()
        try:
            module = self._device.create_shader_module(label=request["name"], code=data.decode())
            stage = {
                "module": module,
                "entry_point": request["entry"],
                "constants": request["constants"],
            }
            self._device.create_compute_pipeline(layout="auto", compute=stage)
        except Exception as error:  # noqa: BLE001 - wgpu's errors have no class in common
            return 1, b"", str(error).encode()
        if not self._shaders:
            return 1, b"", b"wgpu passed no shader to the driver"
        return 0, self._shaders[0], b""


def _capture(path: str, receive: object) -> None:
    """Load the libvulkan at a path, which is the one that wgpu finds from now on, and lets that of
    the system do its work.
    """
    if sys.platform != "linux":
        raise OSError("it needs Linux")
    import _ctypes

    system = ctypes.CDLL(_LIBRARY)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    lines = [line.split(maxsplit=5) for line in maps.splitlines() if "/libvulkan.so" in line]
    found = lines[0][5]
    # A library that is loaded is found by its name, the one that was loaded first.
    _ctypes.dlclose(system._handle)
    if not ctypes.CDLL(path).devmod_start(os.fsencode(found), receive):
        raise OSError(f"{found} cannot be loaded")


def _device() -> Any:
    """Return a device whose shaders have the lines of the source, and do not check indices or bound
    loops.
    """
    import wgpu
    from wgpu.backends.wgpu_native import _api
    from wgpu.backends.wgpu_native.extras import set_instance_extras

    set_instance_extras(backends=["Vulkan"], flags=["Debug"])
    adapter = wgpu.gpu.request_adapter_sync()
    # Those of the language. A device has some others with a permission alone, such as rays.
    features = [each for each in adapter.features if each.startswith(_FEATURES)]
    device = adapter.request_device_sync(required_features=sorted(features))
    native: Any = _api.libf
    create = native.wgpuDeviceCreateShaderModuleTrusted
    native.wgpuDeviceCreateShaderModule = lambda owner, shader: create(owner, shader, 0)
    return device
