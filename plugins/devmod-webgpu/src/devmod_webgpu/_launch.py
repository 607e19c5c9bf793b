"""Functions: their interfaces and constants, and arrays of wgpu's own."""

from __future__ import annotations

from copy import copy
from math import isfinite

from devmod import Interface
from devmod.backend import DeviceArray, Launcher, Unfit, specialize_constants
from devmod.errors import ArgumentError, CompileError
from devmod_targets.webgpu import read_wgsl
from devmod_webgpu._bindings import Bindings, tvm_interface
from devmod_webgpu._device import WebGPUDevice, devices
from devmod_webgpu._driver import wgpu
from devmod_webgpu._kernel import MEMORY, WebGPUKernel, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from devmod import Device, FunctionInfo, Stream
    from devmod_webgpu._module import WebGPUModule


class WebGPULauncher(Launcher):
    """One function of a WebGPU module."""

    kind = "webgpu"
    bool_bytes = 4
    vec3_lanes = 3
    no_shared_memory = "WGSL fixes the memory that a workgroup shares in the shader; make its size an override, and specialize it"

    def __init__(self, name: str, info: FunctionInfo, text: str, module: WebGPUModule) -> None:
        self._name, self._info, self._text, self._module = name, info, text, module
        #: The constants that are set, by their names in the source, and by what WebGPU calls them.
        self._values: dict[str, bool | int | float] = {}
        self._constants: dict[str, bool | int | float] = {}
        self._access: dict[tuple[int, int], str] = {}
        if info.interface is not None:
            self._interface = info.interface
        else:
            self._interface, self._access = tvm_interface(name, info, text)

    @property
    def interface(self) -> Interface | None:
        return self._interface

    def default_device(self) -> Device:
        return devices()[0]

    def kernel(self, device: Device) -> WebGPUKernel:
        assert isinstance(device, WebGPUDevice)
        bindings = Bindings(self._name, self._info, self._interface, access=self._access, folded=self._info.interface is None)
        return WebGPUKernel(self._name, self._info, self._interface, bindings, self._text, self._module, device, self._constants)

    def specialized(self, constants: Mapping[str, object]) -> WebGPULauncher:
        done = specialize_constants("webgpu", self._name, self._interface, constants)
        for constant, value in done.values:
            if not isfinite(value):
                raise self._cannot(f"the constant {constant.shown!r} is {value}, and WebGPU takes finite numbers alone", constant.shown)
        interface = done.interface
        made = copy(self)
        made._values = {**self._values, **{constant.name: value for constant, value in done.values}}
        made._constants = {**self._constants, **{key_of(constant): value for constant, value in done.values}}
        # The size of a workgroup, and of its memory, may be worked out from constants: the text says how.
        try:
            found = read_wgsl(self._text, self._name, made._values).get(self._info.name)
        except CompileError as error:
            try:
                read_wgsl(self._text, self._name)
            except CompileError:  # nothing that was set is to blame, and the device's compiler has the last word
                found = None
            else:
                raise self._cannot(f"with these constants, {error}", next(iter(constants), "")) from error
        if found is not None:
            extra = {**interface.extra, MEMORY: found.extra.get(MEMORY, 0)}
            interface = Interface(interface.params, interface.blocks, found.block, extra)
        made._interface = interface
        return made

    def _cannot(self, text: str, argument: str) -> ArgumentError:
        return ArgumentError(
            f"the webgpu function {self._name!r} cannot be specialized so: {text}", kind="webgpu", function=self._name, argument=argument
        )

    def adopt(self, value: object) -> tuple[DeviceArray, Stream | None] | None:
        if isinstance(value, wgpu.GPUBuffer):
            return _adopt(value)
        if isinstance(value, (wgpu.GPUTexture, wgpu.GPUTextureView, wgpu.GPUSampler)):
            raise Unfit(f"is a wgpu {type(value).__name__}, and only buffers are taken")
        return None

    def adopt_stream(self, value: object) -> Stream | None:
        if isinstance(value, wgpu.GPUQueue):
            return next((device.default_stream for device in devices() if device.opened and device.gpu.queue is value), None)
        return None


def _adopt(buffer: Any) -> tuple[DeviceArray, Stream | None]:
    device = next((each for each in devices() if each.opened and each.gpu is buffer._device), None)
    if device is None:
        raise Unfit(
            "is a wgpu.GPUBuffer of a GPUDevice that devmod did not open; make it on devmod.device('webgpu').gpu, or pass its content "
            "as a NumPy array"
        )
    if not buffer.usage & wgpu.BufferUsage.STORAGE:
        raise Unfit("is a wgpu.GPUBuffer that was made without BufferUsage.STORAGE")
    if buffer.size % 4:
        raise Unfit(f"is a wgpu.GPUBuffer of {buffer.size} bytes, and WebGPU binds whole words of 4")
    if buffer.map_state != "unmapped":
        raise Unfit("is a wgpu.GPUBuffer that is mapped; call its unmap() first")
    return DeviceArray(device, buffer, (buffer.size,), "void", buffer), device.default_stream
