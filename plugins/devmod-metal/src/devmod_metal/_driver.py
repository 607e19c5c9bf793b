"""The operations of Metal that this backend needs, by pyobjc. No other file imports pyobjc.

Importing this file opens the framework. It raises DeviceNotFoundError if that fails; a later import
tries again.
"""

from __future__ import annotations

import sys
from functools import cache

from devmod.errors import DeviceNotFoundError, pip_install
from devmod_metal._interface import (
    ConstantValue,
    DeviceProperties,
    MetalError,
    Pipeline,
    TextureProperties,
)
from devmod_runtime import driver_import_error

try:
    import Foundation
    import libdispatch
    import Metal
    import objc
except ImportError as error:
    if sys.platform != "darwin":
        raise DeviceNotFoundError(
            f"Metal needs macOS, got {sys.platform}. This machine can compile, save, load and inspect metal modules. To run them, on a "
            f"Mac: {pip_install('devmod-metal')}",
            kind="metal",
        ) from error
    modules = ("Foundation", "libdispatch", "Metal", "objc")
    packages = "pyobjc-framework-Metal pyobjc-framework-libdispatch"
    repair = pip_install("--force-reinstall", packages)
    raise driver_import_error(
        error, "metal", "Metal", "pyobjc", modules=modules, distribution=packages, repair=repair
    ) from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod_metal._interface import Dims

#: Metal's types of function constants, by dtype.
_TYPES = {
    "bool": "Bool",
    "int8": "Char",
    "uint8": "UChar",
    "int16": "Short",
    "uint16": "UShort",
    "int32": "Int",
    "uint32": "UInt",
    "int64": "Long",
    "uint64": "ULong",
    "float16": "Half",
    "float32": "Float",
}
#: Metal's types of textures, filters and address modes, by devmod's names.
_TEXTURE_TYPES = {"1d": "1D", "2d": "2D", "3d": "3D", "1d_array": "1DArray", "2d_array": "2DArray"}
_FILTERS = {"nearest": "Nearest", "linear": "Linear"}
_ADDRESS_MODES = {
    "clamp": "ClampToEdge",
    "repeat": "Repeat",
    "mirror": "MirrorRepeat",
    "border": "ClampToZero",
}
#: The usages of a texture that kernels read and write.
_USAGES = ("MTLTextureUsageShaderRead", "MTLTextureUsageShaderWrite")
#: The bytes that `setConstantValue:type:atIndex:` copies for each constant.
_CONSTANT_BYTES = 8

# pyobjc's metadata do not have the size of this pointer's target.
objc.registerMetaDataForSelector(
    b"MTLFunctionConstantValues",
    b"setConstantValue:type:atIndex:",
    {
        "arguments": {
            2: {"type": b"^v", "type_modifier": b"n", "c_array_of_fixed_length": _CONSTANT_BYTES}
        }
    },
)


class Framework:
    """Apple's framework. Each method raises `MetalError` for an error of Metal.

    The objects that it returns (devices, queues, buffers, libraries, pipelines, commands, events)
    are opaque to the rest of the backend. On machines without Metal, the tests replace this class
    by a double.
    """

    def devices(self) -> Sequence[Any]:
        """Return all devices of this machine, the preferred one first."""
        with objc.autorelease_pool():
            # Low-power GPUs come last.
            return sorted(Metal.MTLCopyAllDevices(), key=lambda device: bool(device.isLowPower()))

    def properties(self, device: Any) -> DeviceProperties:
        """Return the properties of a device."""
        with objc.autorelease_pool():
            threads = device.maxThreadsPerThreadgroup()
            # Apple's table of features: all functions of SIMD-groups, reductions too.
            families = (Metal.MTLGPUFamilyApple7, Metal.MTLGPUFamilyMac2)
            return DeviceProperties(
                str(device.name()),
                str(Foundation.NSProcessInfo.processInfo().operatingSystemVersionString()),
                int(device.recommendedMaxWorkingSetSize()),
                (int(threads.width), int(threads.height), int(threads.depth)),
                int(device.maxThreadgroupMemoryLength()),
                int(device.maxBufferLength()),
                int(device.readWriteTextureSupport()),
                bool(device.supports32BitFloatFiltering()),
                any(device.supportsFamily_(family) for family in families),
            )

    def queue(self, device: Any) -> Any:
        """Create a command queue."""
        return _not_none(device.newCommandQueue(), "no command queue")

    def buffer(self, device: Any, nbytes: int) -> Any:
        """Create a buffer in memory that host and device share."""
        return _not_none(
            device.newBufferWithLength_options_(nbytes, Metal.MTLResourceStorageModeShared),
            "no buffer",
        )

    def contents(self, buffer: Any, nbytes: int) -> memoryview:
        """Return the bytes of a buffer, writable and without a copy. They are valid while the
        buffer exists.
        """
        view: memoryview = memoryview(buffer.contents().as_buffer(nbytes)).cast("B")
        return view

    def texture(self, device: Any, type_: str, format_: str, extent: Dims, layers: int) -> Any:
        """Create a texture that kernels read and write, in memory of the device."""
        with objc.autorelease_pool():
            descriptor = Metal.MTLTextureDescriptor.alloc().init()
            descriptor.setTextureType_(_texture_type(type_))
            descriptor.setPixelFormat_(_pixel_format(format_))
            width, height, depth = extent
            descriptor.setWidth_(width)
            descriptor.setHeight_(height)
            descriptor.setDepth_(depth)
            descriptor.setArrayLength_(max(layers, 1))
            # A GPU with memory of its own has no shared textures.
            descriptor.setStorageMode_(Metal.MTLStorageModePrivate)
            descriptor.setUsage_(sum(getattr(Metal, usage) for usage in _USAGES))
            return _not_none(device.newTextureWithDescriptor_(descriptor), "no texture")

    def texture_properties(self, value: Any) -> TextureProperties | None:
        """Return the properties of a texture; None for other objects."""
        if not _conforms(value, "MTLTexture"):
            return None
        with objc.autorelease_pool():
            types = {_texture_type(name): name for name in _TEXTURE_TYPES}
            type_ = int(value.textureType())
            format_ = int(value.pixelFormat())
            usage = int(value.usage())
            name = types.get(type_, type_)
            return TextureProperties(
                value.device(),
                name,
                _formats().get(format_, format_),
                (int(value.width()), int(value.height()), int(value.depth())),
                int(value.arrayLength())
                if isinstance(name, str) and name.endswith("_array")
                else 0,
                tuple(each for each in _USAGES if usage and not usage & getattr(Metal, each)),
            )

    def sampler(self, device: Any, filter_: str, address: str, normalized: bool) -> Any:
        """Create a sampler."""
        with objc.autorelease_pool():
            descriptor = Metal.MTLSamplerDescriptor.alloc().init()
            number = getattr(Metal, f"MTLSamplerMinMagFilter{_FILTERS[filter_]}")
            descriptor.setMinFilter_(number)
            descriptor.setMagFilter_(number)
            mode = getattr(Metal, f"MTLSamplerAddressMode{_ADDRESS_MODES[address]}")
            descriptor.setSAddressMode_(mode)
            descriptor.setTAddressMode_(mode)
            descriptor.setRAddressMode_(mode)
            descriptor.setNormalizedCoordinates_(normalized)
            return _not_none(device.newSamplerStateWithDescriptor_(descriptor), "no sampler")

    def sampler_device(self, value: Any) -> Any:
        """Return the device of a sampler; None for other objects."""
        return value.device() if _conforms(value, "MTLSamplerState") else None

    def compile(self, device: Any, text: str, options: Sequence[str]) -> Any:
        """Compile a source to a library. The text of an error is the compiler's whole log."""
        with objc.autorelease_pool():
            settings = Metal.MTLCompileOptions.alloc().init()
            for option in options:
                if option in ("-ffast-math", "-fno-fast-math"):
                    settings.setFastMathEnabled_(option == "-ffast-math")
                elif option.startswith("-std="):
                    settings.setLanguageVersion_(_version(option))
                else:
                    raise MetalError(
                        f"error: Metal's compiler does not support the option {option!r}"
                    )
            library, error = device.newLibraryWithSource_options_error_(text, settings, None)
            return _check_result(library, error)

    def load(self, device: Any, data: bytes) -> Any:
        """Load a metallib as a library."""
        with objc.autorelease_pool():
            library, error = device.newLibraryWithData_error_(
                libdispatch.dispatch_data_create(data, len(data), None, None), None
            )
            return _check_result(library, error)

    def functions(self, library: Any) -> Sequence[str]:
        """Return the names of the functions of a library."""
        with objc.autorelease_pool():
            return [str(name) for name in library.functionNames()]

    def pipeline(
        self, device: Any, library: Any, name: str, constants: Sequence[ConstantValue]
    ) -> Pipeline:
        """Create the pipeline of a function with values for its constants."""
        with objc.autorelease_pool():
            values = Metal.MTLFunctionConstantValues.alloc().init()
            for constant in constants:
                kind = getattr(Metal, f"MTLDataType{_TYPES[constant.type]}")
                values.setConstantValue_type_atIndex_(
                    constant.data.ljust(_CONSTANT_BYTES, b"\0"), kind, constant.at
                )
            function = _check_result(
                *library.newFunctionWithName_constantValues_error_(name, values, None)
            )
            pipeline = _check_result(
                *device.newComputePipelineStateWithFunction_error_(function, None)
            )
            return Pipeline(
                pipeline,
                int(pipeline.maxTotalThreadsPerThreadgroup()),
                int(pipeline.staticThreadgroupMemoryLength()),
                int(pipeline.threadExecutionWidth()),
            )

    def launch(
        self,
        queue: Any,
        pipeline: Any,
        buffers: Sequence[tuple[int, Any, int]],
        values: Sequence[tuple[int, bytes]],
        local: Sequence[tuple[int, int]],
        textures: Sequence[tuple[int, Any]],
        samplers: Sequence[tuple[int, Any]],
        grid: Dims,
        block: Dims,
    ) -> Any:
        """Commit one launch and return its commands. Buffers, values, sizes of threadgroup memory,
        textures and samplers have an index.

        A buffer has the first byte of the argument in it.
        """
        with objc.autorelease_pool():
            commands = _not_none(queue.commandBuffer(), "no command buffer")
            encoder = _not_none(commands.computeCommandEncoder(), "no command encoder")
            encoder.setComputePipelineState_(pipeline)
            for index, buffer, offset in buffers:
                encoder.setBuffer_offset_atIndex_(buffer, offset, index)
            for index, data in values:
                encoder.setBytes_length_atIndex_(data, len(data), index)
            for index, nbytes in local:
                encoder.setThreadgroupMemoryLength_atIndex_(nbytes, index)
            for index, texture in textures:
                encoder.setTexture_atIndex_(texture, index)
            for index, sampler in samplers:
                encoder.setSamplerState_atIndex_(sampler, index)
            encoder.dispatchThreadgroups_threadsPerThreadgroup_(
                Metal.MTLSizeMake(*grid), Metal.MTLSizeMake(*block)
            )
            encoder.endEncoding()
            commands.commit()
            return commands

    def copy(
        self, queue: Any, source: Any, start: int, target: Any, offset: int, nbytes: int
    ) -> Any:
        """Commit a copy from one buffer to another, and return its commands. All numbers are
        multiples of 4.
        """
        with objc.autorelease_pool():
            commands = _copy(queue, source, start, target, offset, nbytes)
            commands.commit()
            return commands

    def copy_texture(
        self,
        queue: Any,
        buffer: Any,
        texture: Any,
        extent: Dims,
        layers: int,
        row: int,
        *,
        is_read: bool,
    ) -> Any:
        """Commit a copy of a buffer to a texture, or of a texture to a buffer, and return its
        commands.

        The rows of the texture have `row` bytes each and lie one behind the other in the buffer, as
        do its planes and its layers.
        """
        with objc.autorelease_pool():
            commands = _not_none(queue.commandBuffer(), "no command buffer")
            encoder = _not_none(commands.blitCommandEncoder(), "no command encoder")
            _, height, depth = extent
            # Metal's validation accepts the bytes of a plane for several planes only.
            plane, size, origin = (
                row * height if depth > 1 else 0,
                Metal.MTLSizeMake(*extent),
                Metal.MTLOriginMake(0, 0, 0),
            )
            for layer in range(max(layers, 1)):
                at = layer * row * height
                if is_read:
                    encoder.copyFromTexture_sourceSlice_sourceLevel_sourceOrigin_sourceSize_toBuffer_destinationOffset_destinationBytesPerRow_destinationBytesPerImage_(
                        texture, layer, 0, origin, size, buffer, at, row, plane
                    )
                else:
                    encoder.copyFromBuffer_sourceOffset_sourceBytesPerRow_sourceBytesPerImage_sourceSize_toTexture_destinationSlice_destinationLevel_destinationOrigin_(
                        buffer, at, row, plane, size, texture, layer, 0, origin
                    )
            encoder.endEncoding()
            commands.commit()
            return commands

    def address(self, buffer: Any) -> int:
        """Return the address of the buffer's object, as DLPack has it."""
        return int(objc.pyobjc_id(buffer))

    def allocated(self, device: Any) -> int:
        """Return the bytes that this process has allocated on a device."""
        return int(device.currentAllocatedSize())

    def event(self, device: Any) -> Any:
        """Create an event with the value 0, for queues of all devices."""
        return _not_none(device.newSharedEvent(), "no event")

    def signal(self, queue: Any, event: Any, value: int, scratch: Any) -> Any:
        """Commit commands that set an event to a value after all earlier commands of the queue, and
        return them.

        They also copy the first half of `scratch`, a buffer of 8 bytes, to the second, since
        commands without work may have no times.
        """
        with objc.autorelease_pool():
            commands = _copy(queue, scratch, 0, scratch, 4, 4)
            commands.encodeSignalEvent_value_(event, value)
            commands.commit()
            return commands

    def wait_for(self, queue: Any, event: Any, value: int) -> Any:
        """Commit commands that block the queue until an event has a value, and return them."""
        with objc.autorelease_pool():
            commands = _not_none(queue.commandBuffer(), "no command buffer")
            commands.encodeWaitForEvent_value_(event, value)
            commands.commit()
            return commands

    def wait(self, commands: Any) -> None:
        """Wait on the host until commands have completed or failed."""
        commands.waitUntilCompleted()

    def is_complete(self, commands: Any) -> bool:
        """Return whether commands have completed or failed."""
        return int(commands.status()) >= int(Metal.MTLCommandBufferStatusCompleted)

    def failure(self, commands: Any) -> str:
        """Return the error of completed commands; "" if there is none."""
        if int(commands.status()) != int(Metal.MTLCommandBufferStatusError):
            return ""
        with objc.autorelease_pool():
            return _error_text(commands.error())

    def times(self, commands: Any) -> tuple[float, float]:
        """Return the start and the end of completed commands, in seconds of the device's clock."""
        return float(commands.GPUStartTime()), float(commands.GPUEndTime())


def _copy(queue: Any, source: Any, start: int, target: Any, offset: int, nbytes: int) -> Any:
    """Return a command buffer with a copy."""
    commands = _not_none(queue.commandBuffer(), "no command buffer")
    encoder = _not_none(commands.blitCommandEncoder(), "no command encoder")
    encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
        source, start, target, offset, nbytes
    )
    encoder.endEncoding()
    return commands


def _conforms(value: object, protocol: str) -> bool:
    """Return whether a value is an object of a protocol of Metal."""
    return isinstance(value, objc.objc_object) and bool(
        value.conformsToProtocol_(objc.protocolNamed(protocol))
    )


def _texture_type(type_: str) -> int:
    return int(getattr(Metal, f"MTLTextureType{_TEXTURE_TYPES[type_]}"))


@cache
def _formats() -> dict[int, str]:
    """Return the names of all formats of images by the numbers of Metal."""
    from devmod.backend import IMAGE_FORMATS

    return {_pixel_format(name): name for name in IMAGE_FORMATS}


def _pixel_format(name: str) -> int:
    """Return Metal's number of a format: MTLPixelFormatRGBA8Unorm is that of "rgba8unorm"."""
    from devmod.backend import IMAGE_FORMATS

    each = IMAGE_FORMATS[name]
    return int(
        getattr(Metal, f"MTLPixelFormat{each.order.upper()}{each.bits}{each.encoding.capitalize()}")
    )


def _version(option: str) -> int:
    """Return the number of a language version, as in ``-std=metal3.1``."""
    major, _, minor = option.rpartition("metal")[2].partition(".")
    number = getattr(Metal, f"MTLLanguageVersion{major}_{minor}", None)
    if number is None:
        raise MetalError(
            f"error: this macOS does not support Metal {major}.{minor} of the option {option!r}"
        )
    return int(number)


def _not_none(value: Any, text: str) -> Any:
    if value is None:
        raise MetalError(text)
    return value


def _check_result(value: Any, error: Any) -> Any:
    # With a value, the error is a warning.
    if value is None:
        raise MetalError(_error_text(error))
    return value


def _error_text(error: Any) -> str:
    return "Metal gives no reason" if error is None else str(error.localizedDescription())
