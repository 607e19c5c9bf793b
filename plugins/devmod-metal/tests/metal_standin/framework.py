"""A double of pyobjc's framework Metal, for the one file that calls it. It checks every selector
with pyobjc's own metadata.

`selectors.json` has the types of the arguments and of the result of each selector that the driver
sends. They are from `_metadata.py` of pyobjc-framework-Metal: Q is an unsigned number; @ an object;
Z a bool; ^v:n bytes as input; ^@:o an error as output, for which the caller passes None and gets a
pair. pyobjc takes the types of other selectors from the Objective-C runtime.
"""

from __future__ import annotations

import json
import types
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

KNOWN: dict[str, Any] = json.loads((Path(__file__).parent / "selectors.json").read_text())
#: Selectors that pyobjc's metadata do not have: the types of the runtime are correct, except for
#: the one that the driver registers.
PLAIN = {
    "alloc": [],
    "init": [],
    "setLanguageVersion_": ["Q"],
    "localizedDescription": [],
    "operatingSystemVersionString": [],
    "processInfo": [],
    "as_buffer": ["Q"],
    "conformsToProtocol_": ["@"],
    **{
        f"set{name}_": ["Q"]
        for name in (
            *(
                "TextureType",
                "PixelFormat",
                "Width",
                "Height",
                "Depth",
                "ArrayLength",
                "StorageMode",
                "Usage",
            ),
            *("MinFilter", "MagFilter", "SAddressMode", "TAddressMode", "RAddressMode"),
        )
    },
}
REGISTERED = {"setConstantValue_type_atIndex_": ["^v:n", "Q", "Q"]}


class Size(NamedTuple):
    """MTLSize."""

    width: int
    height: int
    depth: int


class Origin(NamedTuple):
    """MTLOrigin."""

    x: int
    y: int
    z: int


_CHECKS = {
    "Q": lambda value: type(value) is int and value >= 0,
    "q": lambda value: type(value) is int,
    "@": lambda value: value is None or isinstance(value, (Object, str, Data)),
    "Z": lambda value: type(value) is bool,
    "^v:n": lambda value: isinstance(value, bytes),
    "^@:o": lambda value: value is None,
    "{MTLSize=QQQ}": lambda value: isinstance(value, Size),
    "{MTLOrigin=QQQ}": lambda value: isinstance(value, Origin),
}


class Data(bytes):
    """The result of dispatch_data_create."""


class Object:
    """An object of the framework that answers selectors with the given values."""

    def __init__(self, kind: str, log: list[tuple[Any, ...]], **answers: Any) -> None:
        self._kind = kind
        self._log = log
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = KNOWN["selectors"].get(name)
        wanted = known["arguments"] if known else PLAIN.get(name, REGISTERED.get(name))
        assert wanted is not None, f"{self._kind} got {name}, which pyobjc's metadata do not have"

        def send(*arguments: Any) -> Any:
            assert len(arguments) == len(wanted), f"{name} expected {wanted}, got {arguments}"
            for type_, value in zip(wanted, arguments, strict=True):
                assert _CHECKS[type_](value), f"{name} expected {wanted}, got {arguments}"
            self._log.append((self._kind, name, *arguments))
            answer = self._answers.get(name)
            return answer(*arguments) if callable(answer) else answer

        return send

    def __repr__(self) -> str:
        return f"<{self._kind}>"


class Shared:
    """The result of `contents`: the part of pyobjc's objc.varlist that the driver uses."""

    def __init__(self, data: bytearray) -> None:
        self.data = data

    def as_buffer(self, count: int) -> memoryview:
        """Return the first bytes."""
        return memoryview(self.data)[:count]


class FrameworkDouble:
    """The modules Metal, Foundation, libdispatch and objc, and the log of all messages.

    Attributes
    ----------
    modules : dict
        The modules by their names, for sys.modules.
    log : list of tuple
        The kind of an object, a selector and its arguments, for each message in order.
    selectors, enums : frozenset of str
        All selectors and constants that the double knows.
    classes : tuple of str
        The classes of which the driver makes objects.
    library_error, function_error, command_error : str
        The text of the error of each later compile, function or command; "" for none.
    nothing : set of str
        The selectors of later objects that answer None.
    """

    selectors = frozenset({*KNOWN["selectors"], *PLAIN, *REGISTERED})
    enums = frozenset(KNOWN["enums"])
    classes = (
        "MTLCompileOptions",
        "MTLFunctionConstantValues",
        "MTLTextureDescriptor",
        "MTLSamplerDescriptor",
    )

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.pools = 0
        self.registered: dict[tuple[bytes, bytes], Any] = {}
        self.library_error = self.function_error = self.command_error = ""
        self.nothing: set[str] = set()
        self.modules = {
            "Metal": types.SimpleNamespace(
                **KNOWN["enums"],
                MTLCopyAllDevices=lambda: [self.device("Intel", low=True), self.device("Apple M1")],
                MTLSizeMake=lambda x, y, z: Size(x, y, z),
                MTLOriginMake=lambda x, y, z: Origin(x, y, z),
                **{name: self._class(name) for name in self.classes},
            ),
            "Foundation": types.SimpleNamespace(
                NSProcessInfo=self.object(
                    "NSProcessInfo",
                    processInfo=lambda: self.object(
                        "info", operatingSystemVersionString="Version 15.0"
                    ),
                )
            ),
            "libdispatch": types.SimpleNamespace(dispatch_data_create=self._data),
            "objc": types.SimpleNamespace(
                autorelease_pool=self._pool,
                registerMetaDataForSelector=self._register,
                pyobjc_id=id,
                objc_object=Object,
                protocolNamed=str,
            ),
        }

    def object(self, kind: str, **answers: Any) -> Object:
        """Return an object that answers selectors with values, or with the results of functions."""
        return Object(
            kind,
            self.log,
            **{name: None if name in self.nothing else answer for name, answer in answers.items()},
        )

    def _class(self, kind: str) -> Object:
        made = self.object(kind)
        return self.object(kind, alloc=lambda: self.object(kind, init=lambda: made))

    def _data(self, data: bytes, length: int, queue: Any, destructor: Any) -> Data:
        assert (type(data), len(data), queue, destructor) == (bytes, length, None, None)
        return Data(data)

    @contextmanager
    def _pool(self) -> Any:
        self.pools += 1
        yield

    def _register(self, name: bytes, selector: bytes, metadata: Any) -> None:
        self.registered[name, selector] = metadata

    def error(self, words: str) -> Object | None:
        """Return an NSError, or None if there is no text."""
        return self.object("NSError", localizedDescription=words) if words else None

    def device(self, name: str, *, low: bool = False) -> Object:
        """Return a device."""

        def library(*_: Any) -> Any:
            return (None if self.library_error else self.library()), self.error(self.library_error)

        pipeline = self.object(
            "pipeline",
            maxTotalThreadsPerThreadgroup=512,
            staticThreadgroupMemoryLength=64,
            threadExecutionWidth=16,
        )
        return self.object(
            "device",
            name=name,
            isLowPower=low,
            maxThreadsPerThreadgroup=lambda: Size(1024, 1024, 64),
            maxThreadgroupMemoryLength=32768,
            maxBufferLength=1 << 30,
            recommendedMaxWorkingSetSize=1 << 33,
            currentAllocatedSize=1 << 20,
            readWriteTextureSupport=2,
            supports32BitFloatFiltering=False,
            supportsFamily_=lambda family: family == 1007,
            newTextureWithDescriptor_=lambda descriptor: self.object("texture"),
            newSamplerStateWithDescriptor_=lambda descriptor: self.object("sampler"),
            newCommandQueue=lambda: self.queue(),
            newBufferWithLength_options_=lambda nbytes, options: self.buffer(nbytes),
            newSharedEvent=lambda: self.object("event"),
            newLibraryWithSource_options_error_=library,
            newLibraryWithData_error_=library,
            newComputePipelineStateWithFunction_error_=lambda function, _: (pipeline, None),
        )

    def library(self) -> Object:
        """Return a compiled library with the function k."""
        return self.object(
            "library",
            functionNames=["k"],
            newFunctionWithName_constantValues_error_=lambda *_: (
                None if self.function_error else self.object("function"),
                self.error(self.function_error),
            ),
        )

    def buffer(self, nbytes: int) -> Object:
        """Return a buffer, whose memory is a bytearray."""
        shared = Shared(bytearray(nbytes))
        return self.object("buffer", contents=lambda: shared)

    def queue(self) -> Object:
        """Return a command queue."""
        return self.object("queue", commandBuffer=self.commands)

    def commands(self) -> Object:
        """Return a command buffer that is complete."""
        return self.object(
            "commands",
            computeCommandEncoder=lambda: self.object("encoder"),
            blitCommandEncoder=lambda: self.object("encoder"),
            status=lambda: 5 if self.command_error else 4,
            error=lambda: self.error(self.command_error),
            GPUStartTime=1.0,
            GPUEndTime=1.5,
        )
