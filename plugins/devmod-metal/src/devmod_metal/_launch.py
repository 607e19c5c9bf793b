"""Launching: arguments at their indices, limits and launches."""

from __future__ import annotations

from functools import partial

from devmod import Block, Interface, Param
from devmod.backend import ConversionError, constants_of, escape
from devmod.errors import CompileError, FormatError, LaunchError, list_names
from devmod_metal._device import Memory, MetalDevice, MetalStream, devices, metal, wait_for
from devmod_metal._interface import ConstantValue, MetalError
from devmod_runtime import Kernel, LaunchConfig, Launcher, block_packer, specialize_constants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import Device, FunctionInfo, Image, Sampler
    from devmod_metal._interface import Dims, Pipeline
    from devmod_metal._library import Shader

#: The maximum size of a value that is set as bytes. Larger values are copied to a buffer.
_MAX_VALUE_BYTES = 4096
#: The size of threadgroup memory is a multiple of this.
_LOCAL_STEP = 16
#: The size of a scalar in TVM's struct.
_TVM_SCALAR = 8
#: The number of indices of each table. Metal ignores larger indices without an error.
_INDEX_COUNTS = {"buffer": 31, "threadgroup": 31, "image": 128, "sampler": 16}


class MetalLauncher(Launcher):
    """One function of a Metal module."""

    kind = "metal"
    has_images = True
    no_shared_memory = "in Metal threadgroup memory is an argument; pass devmod.Local(nbytes)"
    interface: Interface

    def __init__(
        self,
        name: str,
        info: FunctionInfo,
        shader: Shader,
        constants: Sequence[ConstantValue] = (),
        interface: Interface | None = None,
    ) -> None:
        self._name = name
        self._info = info
        self._shader = shader
        self._constants = tuple(constants)
        self.interface = interface or info.interface or _tvm_interface(info)

    @property
    def constants(self) -> Sequence[str]:
        return [*super().constants, *self._shader.constants]

    def default_device(self) -> Device:
        return devices()[0]

    def kernel(self, device: MetalDevice) -> MetalKernel:
        for number, param in enumerate(self.interface.params):
            if unsupported := param.extra.get("unsupported"):
                raise LaunchError(
                    f"the metal function {self._name!r} cannot be called: argument {number + 1} {param.name!r} is of a type that devmod "
                    f"does not support: {escape(str(unsupported))}",
                    kind="metal",
                    function=self._name,
                    argument=param.name,
                )
        return MetalKernel(
            self._name, self._info, self.interface, self._shader, self._constants, device
        )

    def local(self, nbytes: int) -> int:
        return _round_up(nbytes)

    def adopt(self, value: object) -> tuple[Image | Sampler, None] | None:
        if not hasattr(type(value), "conformsToProtocol_"):  # no object of pyobjc
            return None
        adopted = _adopt(value)
        return None if adopted is None else (adopted, None)

    def specialize(self, constants: Mapping[str, object]) -> MetalLauncher:
        # The interface has the function constants; other names are defines of the source.
        names = {
            name
            for each in constants_of(self.interface)
            for name in (each.name, str(each.id))
            if name
        }
        function_constants = {name: value for name, value in constants.items() if name in names}
        defines = {name: value for name, value in constants.items() if name not in names}
        shader = self._shader.specialize(defines, super().constants)
        values = list(self._constants)
        for each in specialize_constants("metal", self._name, self.interface, function_constants):
            constant = each.constant
            data = each.data
            if constant.id is None:
                raise FormatError(
                    f"the function constant {constant.name!r} has no index in the payload's interface",
                    kind="metal",
                )
            # In Metal a bool is one byte.
            value = ConstantValue(
                constant.id, constant.type, data[:1] if constant.type == "bool" else data
            )
            values = [*(one for one in values if one.at != value.at), value]
        # The required block may depend on a define. Metal has no query for it, so the caller gives
        # it.
        interface = self.interface.replace(block=None) if defines else self.interface
        return MetalLauncher(self._name, self._info, shader, values, interface)


def _adopt(value: object) -> Image | Sampler | None:
    """Return an image or a sampler over an object of pyobjc; None for other objects."""
    from devmod_runtime import Image, Sampler

    owner = metal().sampler_device(value)
    if owner is not None:
        return Sampler(_device_of(owner, "a sampler"), "", "", True, value)
    found = metal().texture_properties(value)
    if found is None:
        return None
    device = _device_of(found.device, "a texture")
    for name, number in (("MTLTextureType", found.type), ("MTLPixelFormat", found.format)):
        if isinstance(number, int):
            raise ConversionError(
                f"is a texture with the {name} {number}, which devmod does not support"
            )
    if found.missing_usage:
        raise ConversionError(f"is a texture whose usage lacks {' and '.join(found.missing_usage)}")
    dimensions = int(str(found.type)[0])
    return Image(device, found.extent[:dimensions], str(found.format), found.layers, value)


def _device_of(handle: Any, subject: str) -> MetalDevice:
    device = next((each for each in devices() if each.handle == handle), None)
    if device is None:
        raise ConversionError(f"is {subject} of a device that devmod does not list")
    return device


def _round_up(nbytes: int) -> int:
    return -(-nbytes // _LOCAL_STEP) * _LOCAL_STEP


def _tvm_interface(info: FunctionInfo) -> Interface:
    """Return TVM's layout: buffers at the first indices, in order, then one struct of all scalars,
    8 bytes each.
    """
    buffers = sum(arg_type == "handle" for arg_type in info.arg_types)
    params: list[Param] = []
    at = scalars = 0
    for arg_type in info.arg_types:
        if arg_type == "handle":
            params.append(Param("", "buffer", at=at))
            at += 1
        else:
            params.append(Param("", "scalar", arg_type, at=(0, scalars * _TVM_SCALAR)))
            scalars += 1
    return Interface(params, [Block(buffers, scalars * _TVM_SCALAR)] if scalars else ())


class MetalKernel(Kernel):
    """A function on one device."""

    def __init__(
        self,
        name: str,
        info: FunctionInfo,
        interface: Interface,
        shader: Shader,
        constants: Sequence[ConstantValue],
        device: MetalDevice,
    ) -> None:
        self._name = name
        self._device = device
        self._invalid_launch = partial(device.invalid_launch, name)
        self._missing = ""
        self._pipeline: Pipeline | None = None
        #: The numbers of the textures that the kernel may read with a sampler.
        self._sampled = [
            number
            for number, param in enumerate(interface.params)
            if param.kind == "image" and param.extra.get("sampled")
        ]
        self._blocks = [block.at for block in interface.blocks]
        self._pack = block_packer(interface) if interface.blocks else None
        self._assign_indices(interface)
        unset = [
            each.label
            for each in constants_of(interface)
            if all(each.id != one.at for one in constants)
        ]
        try:
            self._pipeline = shader.pipeline(device, info.name, constants)
        except MetalError as error:
            if not unset:
                raise CompileError(
                    f"{device} cannot create the pipeline of the metal function {name!r}: {error}",
                    kind="metal",
                    log=str(error),
                ) from error
            # It may need values of constants, which `specialize` of the function sets.
            self._missing = (
                f"function constants without a value: {list_names(unset)}. "
                f"Set them: f.specialize({unset[0]}=…). Metal's error: {error}"
            )

    def _assign_indices(self, interface: Interface) -> None:
        """Store (argument number, index) for each argument, by its kind."""
        bindings: dict[tuple[str, int], int] = {}
        for number, param in enumerate(interface.params):
            table = (
                "threadgroup"
                if param.kind == "local"
                else param.kind
                if param.kind in ("image", "sampler")
                else "buffer"
            )
            if isinstance(param.at, tuple) and param.kind in ("scalar", "uniform"):
                continue  # part of a block
            index = param.at if isinstance(param.at, int) else -1
            is_invalid = not 0 <= index < _INDEX_COUNTS[table]
            if is_invalid or (table, index) in bindings:
                problem = (
                    f"the index {param.at!r}"
                    if is_invalid
                    else f"the index of argument {bindings[table, index] + 1}"
                )
                raise FormatError(
                    f"the metal function {self._name!r}: argument {number + 1} has {problem} in the payload's interface; "
                    f"expected a unique index from 0 to {_INDEX_COUNTS[table] - 1}",
                    kind="metal",
                )
            bindings[table, index] = number
        self._buffers, self._values, self._local, self._textures, self._samplers = (
            [
                (number, index)
                for (_, index), number in bindings.items()
                if interface.params[number].kind in kinds
            ]
            for kinds in (("buffer",), ("scalar", "uniform"), ("local",), ("image",), ("sampler",))
        )
        for at in self._blocks:
            if (
                not isinstance(at, int)
                or not 0 <= at < _INDEX_COUNTS["buffer"]
                or ("buffer", at) in bindings
            ):
                raise FormatError(
                    f"the metal function {self._name!r} has a block of scalars at {at!r} in the payload's interface; expected a unique "
                    f"index from 0 to {_INDEX_COUNTS['buffer'] - 1}",
                    kind="metal",
                )
            bindings["buffer", at] = -1

    def shape(self, launch: LaunchConfig) -> tuple[Dims, Dims]:
        if self._pipeline is None:
            raise self._invalid_launch(self._missing)
        limits = self._device.limits
        for axis, count in zip(("width", "height", "depth"), launch.block, strict=True):
            limit = limits[f"maxThreadsPerThreadgroup.{axis}"]
            if count > limit:
                raise self._invalid_launch(
                    f"its maxThreadsPerThreadgroup.{axis} is {limit}, got block={launch.block}"
                )
        x, y, z = launch.block
        if x * y * z > self._pipeline.max_threads:
            raise self._invalid_launch(
                f"the pipeline's maxTotalThreadsPerThreadgroup is {self._pipeline.max_threads}, and block={launch.block} has "
                f"{x * y * z} threads",
            )
        for blocks, threads in zip(launch.grid, launch.block, strict=True):
            if blocks * threads >= 1 << 32:
                raise self._invalid_launch(
                    f"the index of a thread in a grid has 32 bits, and grid={launch.grid} of block={launch.block} has more threads",
                )
        return launch.grid, launch.block

    def preferred_block(self) -> tuple[int, int]:
        most, row = super().preferred_block()
        return most, row if self._pipeline is None else max(row, self._pipeline.execution_width)

    def check_local(self, sizes: Sequence[int]) -> str:
        assert self._pipeline is not None
        limit = self._device.limits["maxThreadgroupMemoryLength"]
        requested = sum(map(_round_up, sizes)) + self._pipeline.static_memory
        if requested <= limit:
            return ""
        return f"its maxThreadgroupMemoryLength is {limit}, and devmod.Local arguments and the kernel's own memory need {requested} bytes"

    def check_images(self, images: Mapping[int, Image | Sampler]) -> tuple[int, str] | None:
        from devmod_metal._image import filter_problem
        from devmod_runtime import Image, Sampler

        if not any(
            isinstance(each, Sampler) and each.filter == "linear" for each in images.values()
        ):
            return None
        for number in self._sampled:
            image = images[number]
            if isinstance(image, Image) and (
                problem := filter_problem(image, self._device.filters_float32)
            ):
                return number, image.filter_mismatch(problem)
        return None

    def caller(self, stream: MetalStream, shape: Any) -> Callable[[Sequence[Any]], None]:
        def call(values: Sequence[Any]) -> None:
            self._launch(stream, shape, values)

        return call

    def prepare(
        self, stream: MetalStream, shape: Any, values: Sequence[Any]
    ) -> Callable[[], object]:
        # Metal commits commands only once, so everything else is prepared here.
        commit = self._committer(stream, shape, values)
        return lambda: stream.commands.commit(commit)

    def time(self, stream: MetalStream, shape: Any, values: Sequence[Any]) -> float:
        commands = self._launch(stream, shape, values)
        failure = wait_for([commands])
        if failure:
            stream.wait_for_commands()  # removes the failure, which is raised here
            raise self._device.launch_error(failure)
        start, end = metal().times(commands)
        return end - start

    def _launch(self, stream: MetalStream, shape: Any, values: Sequence[Any]) -> Any:
        return stream.commands.commit(self._committer(stream, shape, values))

    def _committer(
        self, stream: MetalStream, shape: tuple[Dims, Dims], values: Sequence[Any]
    ) -> Callable[[], Any]:
        assert self._pipeline is not None
        local = [(index, values[number]) for number, index in self._local]
        buffers = [
            (index, values[number].handle, values[number].offset) for number, index in self._buffers
        ]
        data = [(index, bytes(values[number])) for number, index in self._values]
        textures = [(index, values[number].handle) for number, index in self._textures]
        samplers = [(index, values[number].handle) for number, index in self._samplers]
        if self._pack is not None:
            data += [
                (at, block)
                for at, block in zip(self._blocks, self._pack(values), strict=True)
                if isinstance(at, int)
            ]
        for index, value in data:
            if len(value) > _MAX_VALUE_BYTES:
                memory: Memory = self._device.allocate(len(value))
                memory.view[:] = value
                buffers.append((index, memory.handle, 0))
        data = [each for each in data if len(each[1]) <= _MAX_VALUE_BYTES]
        driver = metal()
        queue = stream.queue
        pipeline = self._pipeline.handle

        def commit() -> Any:
            try:
                return driver.launch(
                    queue, pipeline, buffers, data, local, textures, samplers, *shape
                )
            except MetalError as error:
                raise LaunchError(
                    f"{self._device} refused a launch of the metal function {self._name!r}: {error}",
                    kind="metal",
                    function=self._name,
                ) from error

        return commit
