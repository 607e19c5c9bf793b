"""pyobjc's Metal, behind the interface of `devmod_metal._interface`. This is the only file that imports it.

Importing this file opens the framework; where that cannot be done it raises DeviceNotFoundError, and trying again later is fine.
"""

from __future__ import annotations

import sys

from devmod.errors import DeviceNotFoundError
from devmod_metal._interface import Constant, Facts, Pipeline, Refused

try:
    import Foundation
    import libdispatch
    import Metal
    import objc
except ImportError as error:
    if sys.platform != "darwin":
        raise DeviceNotFoundError(
            f"Metal needs macOS, and this is {sys.platform}: a metal module is compiled, saved, loaded and inspected here. To run it, on a "
            "Mac: pip install devmod-metal",
            kind="metal",
        ) from error
    raise DeviceNotFoundError(
        f"pyobjc's Metal cannot be imported: {error}. Install it: "
        "pip install --force-reinstall pyobjc-framework-Metal pyobjc-framework-libdispatch",
        kind="metal",
    ) from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod_metal._interface import Dims

#: Metal's types of function constants, by the names of ours.
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
#: The most bytes of a constant that `setConstantValue:type:atIndex:` is told to take.
_CONSTANT_BYTES = 8

# pyobjc's metadata do not say how many bytes stand behind this pointer.
objc.registerMetaDataForSelector(
    b"MTLFunctionConstantValues",
    b"setConstantValue:type:atIndex:",
    {"arguments": {2: {"type": b"^v", "type_modifier": b"n", "c_array_of_fixed_length": _CONSTANT_BYTES}}},
)


class Framework:
    """`devmod_metal._interface.Metal` on the framework. Its methods are documented there."""

    def devices(self) -> Sequence[Any]:
        with objc.autorelease_pool():
            # The stronger ones first, on Macs that have several.
            return sorted(Metal.MTLCopyAllDevices(), key=lambda device: bool(device.isLowPower()))

    def facts(self, device: Any) -> Facts:
        with objc.autorelease_pool():
            most = device.maxThreadsPerThreadgroup()
            return Facts(
                str(device.name()),
                str(Foundation.NSProcessInfo.processInfo().operatingSystemVersionString()),
                int(device.recommendedMaxWorkingSetSize()),
                (int(most.width), int(most.height), int(most.depth)),
                int(device.maxThreadgroupMemoryLength()),
                int(device.maxBufferLength()),
            )

    def queue(self, device: Any) -> Any:
        return _given(device.newCommandQueue(), "no command queue")

    def buffer(self, device: Any, nbytes: int) -> Any:
        return _given(device.newBufferWithLength_options_(nbytes, Metal.MTLResourceStorageModeShared), "no buffer")

    def contents(self, buffer: Any, nbytes: int) -> memoryview:
        view: memoryview = memoryview(buffer.contents().as_buffer(nbytes)).cast("B")
        return view

    def compile(self, device: Any, text: str, options: Sequence[str]) -> Any:
        with objc.autorelease_pool():
            settings = Metal.MTLCompileOptions.alloc().init()
            for option in options:
                if option in ("-ffast-math", "-fno-fast-math"):
                    settings.setFastMathEnabled_(option == "-ffast-math")
                elif option.startswith("-std="):
                    settings.setLanguageVersion_(_version(option))
                else:
                    raise Refused(f"error: the option {option!r} is none that Metal's compiler can be given")
            library, error = device.newLibraryWithSource_options_error_(text, settings, None)
            return _made(library, error)

    def load(self, device: Any, data: bytes) -> Any:
        with objc.autorelease_pool():
            library, error = device.newLibraryWithData_error_(libdispatch.dispatch_data_create(data, len(data), None, None), None)
            return _made(library, error)

    def functions(self, library: Any) -> Sequence[str]:
        with objc.autorelease_pool():
            return [str(name) for name in library.functionNames()]

    def pipeline(self, device: Any, library: Any, name: str, constants: Sequence[Constant]) -> Pipeline:
        with objc.autorelease_pool():
            values = Metal.MTLFunctionConstantValues.alloc().init()
            for constant in constants:
                kind = getattr(Metal, f"MTLDataType{_TYPES[constant.type]}")
                values.setConstantValue_type_atIndex_(constant.data.ljust(_CONSTANT_BYTES, b"\0"), kind, constant.at)
            function = _made(*library.newFunctionWithName_constantValues_error_(name, values, None))
            made = _made(*device.newComputePipelineStateWithFunction_error_(function, None))
            return Pipeline(made, int(made.maxTotalThreadsPerThreadgroup()), int(made.staticThreadgroupMemoryLength()))

    def launch(
        self,
        queue: Any,
        pipeline: Any,
        buffers: Sequence[tuple[int, Any]],
        values: Sequence[tuple[int, bytes]],
        local: Sequence[tuple[int, int]],
        grid: Dims,
        block: Dims,
    ) -> Any:
        with objc.autorelease_pool():
            commands = _given(queue.commandBuffer(), "no command buffer")
            encoder = _given(commands.computeCommandEncoder(), "no command encoder")
            encoder.setComputePipelineState_(pipeline)
            for index, buffer in buffers:
                encoder.setBuffer_offset_atIndex_(buffer, 0, index)
            for index, data in values:
                encoder.setBytes_length_atIndex_(data, len(data), index)
            for index, nbytes in local:
                encoder.setThreadgroupMemoryLength_atIndex_(nbytes, index)
            encoder.dispatchThreadgroups_threadsPerThreadgroup_(Metal.MTLSizeMake(*grid), Metal.MTLSizeMake(*block))
            encoder.endEncoding()
            commands.commit()
            return commands

    def event(self, device: Any) -> Any:
        return _given(device.newSharedEvent(), "no event")

    def signal(self, queue: Any, event: Any, value: int) -> Any:
        with objc.autorelease_pool():
            commands = _given(queue.commandBuffer(), "no command buffer")
            commands.encodeSignalEvent_value_(event, value)
            commands.commit()
            return commands

    def wait_for(self, queue: Any, event: Any, value: int) -> Any:
        with objc.autorelease_pool():
            commands = _given(queue.commandBuffer(), "no command buffer")
            commands.encodeWaitForEvent_value_(event, value)
            commands.commit()
            return commands

    def wait(self, commands: Any) -> None:
        commands.waitUntilCompleted()

    def done(self, commands: Any) -> bool:
        return int(commands.status()) >= int(Metal.MTLCommandBufferStatusCompleted)

    def failure(self, commands: Any) -> str:
        if int(commands.status()) != int(Metal.MTLCommandBufferStatusError):
            return ""
        with objc.autorelease_pool():
            return _words(commands.error())

    def times(self, commands: Any) -> tuple[float, float]:
        return float(commands.GPUStartTime()), float(commands.GPUEndTime())


def _version(option: str) -> int:
    """The number of a language version, as in ``-std=metal3.1``."""
    major, _, minor = option.rpartition("metal")[2].partition(".")
    number = getattr(Metal, f"MTLLanguageVersion{major}_{minor}", None)
    if number is None:
        raise Refused(f"error: this macOS has no Metal {major}.{minor}, which the option {option!r} asks for")
    return int(number)


def _given(thing: Any, what: str) -> Any:
    if thing is None:
        raise Refused(what)
    return thing


def _made(thing: Any, error: Any) -> Any:
    # An error beside a thing is a warning.
    if thing is None:
        raise Refused(_words(error))
    return thing


def _words(error: Any) -> str:
    return "no reason is given" if error is None else str(error.localizedDescription())
