"""Launchers of a module's functions, with objects of wgpu as arguments."""

from __future__ import annotations

import re
from copy import copy
from math import isfinite

from devmod import Interface
from devmod.backend import ConversionError, PipelineConstant, constants_of
from devmod.errors import ArgumentError, CompileError, FormatError
from devmod_runtime import DeviceArray, DeviceCache, Launcher, specialize_constants
from devmod_webgpu._bindings import Bindings, tvm_interface
from devmod_webgpu._device import WebGPUDevice, devices, opened_device
from devmod_webgpu._driver import wgpu
from devmod_webgpu._kernel import WebGPUKernel
from devmod_wgsl import read_wgsl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from devmod import Device, FunctionInfo, Image, Sampler, Stream
    from devmod_readers.reflection import ReflectedFunction


_BLANK = r"(?:\s|//.*|/\*[^\0]*?\*/)*"
#: The name of the array in each use of `arrayLength`; "" where it is a pointer.
_LENGTHS = re.compile(rf"\barrayLength{_BLANK}\({_BLANK}(?:&{_BLANK}(\w+))?")


def key_of(constant: Any) -> str:
    """Return the name under which WebGPU sets a constant."""
    if constant.id is None:
        return constant.name  # type: ignore[no-any-return]
    return str(constant.id)


class WebGPULauncher(Launcher):
    """One function of a WebGPU module."""

    kind = "webgpu"
    bool_bytes = 4
    vec3_lanes = 3
    has_images = True
    no_shared_memory = "the shader fixes the size of its workgroup memory; declare the size as an override, and specialize it"
    interface: Interface

    def __init__(
        self,
        name: str,
        info: FunctionInfo,
        text: str,
        reflected: Mapping[str, ReflectedFunction],
        shaders: DeviceCache,
    ) -> None:
        self._name = name
        self._info = info
        self._text = text
        self._reflected = reflected
        #: The modules of wgpu by device and text, of all functions of the module.
        self._shaders = shaders
        #: The constants that are set: by their names in the source, and by the names that WebGPU
        #: uses.
        self._values: dict[str, bool | int | float] = {}
        self._constants: dict[str, bool | int | float] = {}
        self._access: dict[tuple[int, int], str] = {}
        shader = reflected.get(info.name)
        if info.interface is None:
            self.interface, self._access = tvm_interface(name, info, shader)
            return
        self.interface = info.interface
        block = info.interface.block
        if block is None or shader is None:
            return
        if shader.block not in (None, block):
            raise FormatError(
                f"the WGSL of the webgpu function {name!r} is built for blocks of {shader.block} threads, but the payload's fmap gives "
                f"{block}",
                kind="webgpu",
                function=name,
            )

    @property
    def unset_constants(self) -> Sequence[PipelineConstant]:
        required = [each for each in constants_of(self.interface) if each.default is None]
        return [each for each in required if key_of(each) not in self._constants]

    def default_device(self) -> Device:
        return devices()[0]

    def lengths_read(self) -> Collection[int]:
        names = set(_LENGTHS.findall(self._text))
        # The names of the source: those of the arguments may differ.
        places: dict[str, Any] = {}
        for shader in self._reflected.values():
            places |= {param.name: param.at for param in shader.params}
        buffers = [
            number for number, param in enumerate(self.interface.params) if param.kind == "buffer"
        ]
        if not names <= places.keys():
            return buffers  # a pointer that is a variable may be to any buffer
        read = {places[name] for name in names}
        return [number for number in buffers if self.interface.params[number].at in read]

    def kernel(self, device: WebGPUDevice) -> WebGPUKernel:
        bindings = Bindings(self._name, self._info, self.interface, self._access)
        constants = None
        if not self.unset_constants:
            constants = self._constants
        kernel_type = WebGPUKernel
        if any(param.kind in ("image", "sampler") for param in self.interface.params):
            from devmod_webgpu._image_kernel import ImageKernel

            kernel_type = ImageKernel
        return kernel_type(
            self._name,
            self._info,
            self.interface,
            bindings,
            self._text,
            self._shaders,
            device,
            constants,
        )

    def specialize(self, constants: Mapping[str, object]) -> WebGPULauncher:
        new = specialize_constants("webgpu", self._name, self.interface, constants)
        for each in new:
            if not isfinite(each.value):
                raise self._error(
                    f"the constant {each.constant.label!r} is {each.value}, expected a finite number",
                    each.constant.label,
                )
        launcher = copy(self)
        launcher._values = {**self._values, **{each.constant.name: each.value for each in new}}
        launcher._constants = {
            **self._constants,
            **{key_of(each.constant): each.value for each in new},
        }
        # The size of a workgroup and of its memory may depend on constants, so the text is read
        # again.
        try:
            shader = read_wgsl(self._text, self._name, launcher._values).get(self._info.name)
        except CompileError as error:
            if self._reflected:
                raise self._error(
                    f"with these constants, {error}", next(iter(constants), "")
                ) from error
            shader = None  # the constants are not the cause; the device's compiler decides
        block = None
        extra = {**self.interface.extra}
        if shader is not None:
            block = shader.block
            extra["workgroup_memory"] = shader.extra.get("workgroup_memory", 0)
        launcher.interface = self.interface.replace(block=block, extra=extra)
        return launcher

    def _error(self, text: str, argument: str) -> ArgumentError:
        return ArgumentError(
            f"the webgpu function {self._name!r} cannot be specialized: {text}",
            kind="webgpu",
            function=self._name,
            argument=argument,
        )

    def adopt(self, value: object) -> tuple[DeviceArray | Image | Sampler, Stream | None] | None:
        if isinstance(value, wgpu.GPUBuffer):
            device = _device_of(value)
            return _adopt(device, value), device.default_stream
        if isinstance(value, (wgpu.GPUTexture, wgpu.GPUTextureView, wgpu.GPUSampler)):
            from devmod_webgpu._images import adopt

            device = _device_of(value)
            return adopt(device, value), device.default_stream
        return None

    @property
    def plain_classes(self) -> tuple[type, ...]:  # type: ignore[override]
        from wgpu.backends.wgpu_native import GPUBuffer  # that of wgpu is its base class

        return (GPUBuffer,)

    def plain_device(self, value: Any) -> WebGPUDevice:
        return _device_of(value)

    def plain_memory(self, value: Any, device: Any, written: bool, stream: object) -> Any:
        # In another stream, the call orders the streams.
        is_default = stream is None and device.current_stream is device.default_stream
        if not is_default or not isinstance(value, wgpu.GPUBuffer):
            raise ConversionError
        if value._device is not device.gpu:
            raise ConversionError
        _check_buffer(value)
        return value

    def adopt_stream(self, value: object) -> Stream | None:
        if isinstance(value, wgpu.GPUQueue):
            device = opened_device(value._device)
            if device is not None:
                return device.default_stream
        return None


def _device_of(value: Any) -> WebGPUDevice:
    """Return the device of an object of wgpu. Raise ConversionError if devmod did not open it."""
    device = opened_device(value._device)
    if device is None:
        hint = ""
        if isinstance(value, wgpu.GPUBuffer):
            hint = ", or pass its content as a NumPy array"
        raise ConversionError(
            f"is a wgpu.{type(value).__name__} of a GPUDevice that no device of devmod is over; call devmod.device(gpu_device) first and "
            f"keep the result, or create it on devmod.device('webgpu').gpu{hint}"
        )
    return device


def _adopt(device: WebGPUDevice, buffer: Any) -> DeviceArray:
    _check_buffer(buffer)
    return DeviceArray(device, buffer, (buffer.size,), "void", buffer)


def _check_buffer(buffer: Any) -> None:
    """Raise ConversionError if kernels cannot take a GPUBuffer now."""
    if not buffer.usage & wgpu.BufferUsage.STORAGE:
        raise ConversionError(
            "is a wgpu.GPUBuffer without BufferUsage.STORAGE; create it with that usage"
        )
    if buffer.size % 4:
        raise ConversionError(
            f"is a wgpu.GPUBuffer of {buffer.size} bytes, expected a multiple of 4"
        )
    if buffer.map_state != "unmapped":
        raise ConversionError("is a wgpu.GPUBuffer that is mapped; call its unmap() first")
