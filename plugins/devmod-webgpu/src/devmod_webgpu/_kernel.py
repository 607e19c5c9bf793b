"""Pipelines and launches. A command buffer of WebGPU serves once, so a prepared launch encodes anew what is all ready."""

from __future__ import annotations

from devmod import Interface
from devmod.backend import Kernel, LaunchShape, constants_of
from devmod.errors import CompileError, FormatError, LaunchError
from devmod_webgpu import _driver
from devmod_webgpu._bindings import Bindings
from devmod_webgpu._device import WebGPUDevice, WebGPUStream
from devmod_webgpu._driver import refused, wgpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import FunctionInfo, Stream
    from devmod_webgpu._bindings import Binding
    from devmod_webgpu._module import WebGPUModule

#: The key of an interface for the bytes of workgroup memory.
MEMORY = "workgroup_memory"
#: The most blocks in x that TVM's shaders are launched with unfolded.
_FOLD = 65535


def key_of(constant: Any) -> str:
    """What WebGPU calls a constant."""
    return constant.name if constant.id is None else str(constant.id)


def compile_shader(device: WebGPUDevice, text: str) -> Any:
    """wgpu's shader module of a text.

    Raises
    ------
    CompileError
        naga refuses it.
    """
    try:
        return device.gpu.create_shader_module(code=text)
    except _driver.Error as error:
        if _driver.is_lost(error):
            raise refused("a shader cannot be compiled", device, error) from error
        raise CompileError(
            f"{device.name} cannot build the webgpu source: {_driver.words(error)}", kind="webgpu", log=str(error)
        ) from error


class WebGPUKernel(Kernel):
    """A pipeline on one device."""

    def __init__(
        self,
        name: str,
        info: FunctionInfo,
        interface: Interface,
        bindings: Bindings,
        text: str,
        module: WebGPUModule,
        device: WebGPUDevice,
        constants: Mapping[str, bool | int | float],
    ) -> None:
        self._name, self._device, self._bindings = name, device, bindings
        self._interface = interface
        self._blocks = [each for each in bindings.listed if each.type == "uniform"]
        self._buffers = [each for each in bindings.listed if each.type != "uniform"]
        # Uniform buffers that no call is using. Taking from and putting to a list is atomic. A buffer may go back as soon as its launch is
        # queued: what is written to it next comes behind that in the queue.
        self._free: list[list[Any]] = []
        self._check_limits()
        self._missing = [each.shown for each in constants_of(interface) if each.default is None and key_of(each) not in constants]
        # What takes images or samplers is listed, and refused when it is called.
        if not self._missing and all(param.kind not in ("image", "sampler") for param in interface.params):
            self._build(module, text, info.name, constants)

    def _check_limits(self) -> None:
        limits = self._device.limits
        features = self._interface.extra.get("features", [])
        # What is no list of names in a stranger's file is named as it is.
        lacking = [each for each in (features if isinstance(features, list) else [features]) if str(each) not in self._device.features]
        if lacking:
            raise FormatError(
                f"the webgpu function {self._name!r} needs the feature {lacking[0]}, which {self._device} does not have",
                kind="webgpu",
                function=self._name,
            )
        sorts = {"storage": "maxStorageBuffersPerShaderStage", "uniform": "maxUniformBuffersPerShaderStage"}
        for sort, limit in sorts.items():
            count = sum(each.type.endswith(sort) for each in self._bindings.listed)
            if count > limits[limit]:
                raise self._over(f"its {limit} is {limits[limit]}, and the function has {count} of them")
        if self._bindings.groups > limits["maxBindGroups"]:
            raise self._over(f"its maxBindGroups is {limits['maxBindGroups']}, and the function binds in {self._bindings.groups} groups")
        memory, most = self._interface.extra.get(MEMORY, 0), limits["maxComputeWorkgroupStorageSize"]
        if isinstance(memory, int) and memory > most:
            raise self._over(f"its maxComputeWorkgroupStorageSize is {most}, and the shader's workgroup shares {memory} bytes")
        most = limits["maxUniformBufferBindingSize"]
        for size in (block.size for block in self._interface.blocks):
            if size > most:
                raise self._over(f"its maxUniformBufferBindingSize is {most}, and the function has a uniform of {size} bytes")
        if self._interface.block is not None:
            self._check_block(self._interface.block)

    def _check_block(self, block: tuple[int, int, int]) -> None:
        limits = self._device.limits
        for axis, count in zip("XYZ", block, strict=True):
            most = limits[f"maxComputeWorkgroupSize{axis}"]
            if count > most:
                raise self._over(f"its maxComputeWorkgroupSize{axis} is {most}, and the shader's workgroup is {block}")
        x, y, z = block
        most = limits["maxComputeInvocationsPerWorkgroup"]
        if x * y * z > most:
            raise self._over(f"its maxComputeInvocationsPerWorkgroup is {most}, and the shader's workgroup {block} has {x * y * z} threads")

    def _build(self, module: WebGPUModule, text: str, entry: str, constants: Mapping[str, bool | int | float]) -> None:
        if "\0" in entry:  # where C ends a name
            raise FormatError(f"the webgpu function {self._name!r} has the entry point {entry!r}, which is no name", kind="webgpu")
        shader = module.shader(self._device, text)
        gpu = self._device.gpu
        try:
            self._layouts = [self._layout(gpu, group) for group in range(self._bindings.groups)]
            layout = gpu.create_pipeline_layout(bind_group_layouts=self._layouts)
            stage = {"module": shader, "entry_point": entry, "constants": {name: float(value) for name, value in constants.items()}}
            self._pipeline = gpu.create_compute_pipeline(layout=layout, compute=stage)
            self._empty = {
                group: gpu.create_bind_group(layout=self._layouts[group], entries=[])
                for group in range(self._bindings.groups)
                if all(each.group != group for each in self._bindings.listed)
            }
        except (_driver.Error, OverflowError, UnicodeError) as error:  # the others: names and numbers that C has no form for
            if _driver.is_lost(error):
                raise refused(f"the webgpu function {self._name!r} cannot be built", self._device, error) from error
            raise FormatError(
                f"{self._device.name} cannot build the webgpu function {self._name!r} (entry {entry!r}) with the arguments that the "
                f"payload's fmap gives it: {_driver.words(error)}",
                kind="webgpu",
                function=self._name,
            ) from error

    def _layout(self, gpu: Any, group: int) -> Any:
        entries = []
        for each in self._bindings.listed:
            if each.group == group:
                buffer = {"type": each.type, "min_binding_size": -(-each.least // 4) * 4 if each.type != "uniform" else 0}
                entries.append({"binding": each.number, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": buffer})
        return gpu.create_bind_group_layout(entries=entries)

    # -- a launch's shape

    def shape(self, launch: LaunchShape) -> tuple[int, int, int, bytes]:
        """Blocks in x, y, z as they are dispatched, and the bytes of TVM's packGridDimX."""
        if self._missing:
            raise LaunchError(
                f"the webgpu function {self._name!r} has constants without a value; set them: "
                f"f.specialize({', '.join(f'{name}=…' for name in self._missing)})",
                kind="webgpu",
                function=self._name,
            )
        if launch.cluster != (1, 1, 1):
            raise self._over(f"clusters of {launch.cluster} blocks were asked for, and WebGPU has none")
        x, y, z = launch.grid
        most = self._device.limits["maxComputeWorkgroupsPerDimension"]
        pack, limit = b"", f"its maxComputeWorkgroupsPerDimension is {most}, and grid={launch.grid} has more blocks in"
        if self._bindings.folded:
            if z > 1:
                raise self._over(f"grid={launch.grid} has {z} blocks in z, which TVM's shaders keep for what x is folded into")
            # As TVM's runtime does it: halve x until it fits, so that few blocks have nothing to do.
            while x > _FOLD:
                x, z = -(-x // 2), z * 2
            if z > most:
                raise self._over(f"{limit} x than can be folded into z")
            pack = (launch.grid[0] - 1).to_bytes(4, "little")
        for axis, count in zip("xyz", (x, y, z), strict=True):
            if count > most:
                raise self._over(f"{limit} {axis}")
        return x, y, z, pack

    # -- launching

    def caller(self, stream: Stream, shape: Any) -> Callable[[Sequence[Any]], None]:
        assert isinstance(stream, WebGPUStream)
        gpu, (x, y, z, pack) = stream.gpu, shape
        free, error_type = self._free, _driver.Error

        def call(values: Sequence[Any]) -> None:
            try:
                uniforms = free.pop()
            except IndexError:
                uniforms = self._uniforms()
            try:
                self._fill(uniforms, values, pack)
                groups = self._groups(uniforms, values)
                _dispatch(gpu, self._pipeline, groups, x, y, z)
            except error_type as error:
                raise self._failed(error, values) from error
            free.append(uniforms)

        return call

    def prepare(self, stream: Stream, shape: Any, values: Sequence[Any]) -> Callable[[], object]:
        assert isinstance(stream, WebGPUStream)
        gpu, (x, y, z, pack), device = stream.gpu, shape, self._device
        error_type = _driver.Error
        uniforms = self._uniforms()
        try:
            self._fill(uniforms, values, pack)
            groups = self._groups(uniforms, values)
        except error_type as error:
            raise self._failed(error, values) from error
        self._check_shared(values)
        if not all(self._device.owns(values[each.argument]) for each in self._buffers):
            # Somebody else may destroy or map a buffer of theirs. Binding it tells; submitting it then would end the process.
            kept = tuple(values)

            def careful() -> None:
                try:
                    _dispatch(gpu, self._pipeline, self._groups(uniforms, kept), x, y, z)
                except error_type as error:
                    raise self._failed(error, kept) from error

            return careful
        encode, submit, pipeline = gpu.create_command_encoder, gpu.queue.submit, self._pipeline

        def launch() -> None:
            if device.elsewhere:
                device.check_here()
            try:
                encoder = encode()
                run = encoder.begin_compute_pass()
                run.set_pipeline(pipeline)
                for number, group in groups:
                    run.set_bind_group(number, group)
                run.dispatch_workgroups(x, y, z)
                run.end()
                submit((encoder.finish(),))
            except error_type as error:
                raise self._failed(error) from error

        return launch

    def time(self, stream: Stream, shape: Any, values: Sequence[Any]) -> float:
        assert isinstance(stream, WebGPUStream)
        gpu, (x, y, z, pack) = stream.gpu, shape
        device = self._device
        uniforms = self._uniforms()
        try:
            self._fill(uniforms, values, pack)
            groups = self._groups(uniforms, values)
            if not device.timed:
                # Without timestamps: the host's clock, from an empty queue to an empty queue.
                from time import perf_counter

                device.synchronize()
                began = perf_counter()
                _dispatch(gpu, self._pipeline, groups, x, y, z)
                device.synchronize()
                return perf_counter() - began
            queries = device.queries(2)
            _dispatch(gpu, self._pipeline, groups, x, y, z, _driver.pass_times(queries, 0, 1))
            began, ended = device.times(queries, 2)
            return max(ended - began, 0.0)
        except _driver.Error as error:
            raise self._failed(error, values) from error

    def _uniforms(self) -> list[Any]:
        """Buffers for the blocks, in the order of `_blocks`."""
        sizes = [self._interface.blocks[each.block].size if each.block >= 0 else 0 for each in self._blocks]
        return [self._device.uniform(size) if size else None for size in sizes]

    def _fill(self, uniforms: list[Any], values: Sequence[Any], pack: bytes) -> None:
        """Write a call's scalars."""
        if not self._blocks:
            return
        blocks = self._bindings.pack(values)
        write = self._device.gpu.queue.write_buffer
        for number, each in enumerate(self._blocks):
            data = values[each.argument] if each.block < 0 else blocks[each.block]
            if uniforms[number] is None:
                uniforms[number] = self._device.uniform(len(data))
            if pack:
                data = data[:-4] + pack
            if len(data) % 4:
                data = data.ljust(-(-len(data) // 4) * 4, b"\0")
            write(uniforms[number], 0, data)

    def _groups(self, uniforms: list[Any], values: Sequence[Any]) -> list[tuple[int, Any]]:
        """The bind groups of a call."""
        entries: list[list[dict[str, Any]]] = [[] for _ in range(self._bindings.groups)]
        for each, buffer in zip(self._blocks, uniforms, strict=True):
            entries[each.group].append({"binding": each.number, "resource": buffer})
        for each in self._buffers:
            memory = values[each.argument]
            if memory.size < each.least or memory.map_state != "unmapped":
                memory = self._other(each, memory)
            entries[each.group].append({"binding": each.number, "resource": memory})
        create = self._device.gpu.create_bind_group
        try:
            return [
                (number, create(layout=self._layouts[number], entries=listed) if listed else self._empty[number])
                for number, listed in enumerate(entries)
            ]
        except _driver.Error as error:
            most = self._device.limits["maxStorageBufferBindingSize"]
            for each in self._buffers:
                size = values[each.argument].size
                if size > most:
                    raise self._over(f"its maxStorageBufferBindingSize is {most}, and {self._label(each)} has {size} bytes") from error
            raise

    def _other(self, binding: Binding, memory: Any) -> Any:
        """What is bound in place of memory that is too small: for an empty array, which has one word, as much as one element."""
        if memory.map_state != "unmapped":
            raise LaunchError(
                f"the webgpu function {self._name!r} cannot be launched: {self._label(binding)} is a wgpu.GPUBuffer that is mapped; call "
                "its unmap() first",
                kind="webgpu",
                function=self._name,
            )
        if memory.size == 4 and self._device.owns(memory):
            return self._device.allocate(binding.least)
        raise LaunchError(
            f"the webgpu function {self._name!r} cannot be launched: {self._label(binding)} has {memory.size} bytes, and the shader's "
            f"variable takes at least {binding.least}",
            kind="webgpu",
            function=self._name,
        )

    def _label(self, binding: Binding) -> str:
        name = self._interface.params[binding.argument].name
        return f"argument {binding.argument + 1} {name!r}" if name else f"argument {binding.argument + 1}"

    def _check_shared(self, values: Sequence[Any]) -> None:
        """LaunchError where one buffer is bound for reading alone and for writing, which WebGPU allows in no dispatch."""
        first: dict[int, Binding] = {}
        for each in self._buffers:
            other = first.setdefault(id(values[each.argument]), each)
            if other.type != each.type:
                raise LaunchError(
                    f"the webgpu function {self._name!r} cannot be launched: {self._label(other)} and {self._label(each)} are one buffer, "
                    "and the shader declares one of them as read-only; WebGPU does not let a launch write to what it binds so. Pass a copy",
                    kind="webgpu",
                    function=self._name,
                )

    def _failed(self, error: Exception, values: Sequence[Any] = ()) -> LaunchError:
        if values and not _driver.is_lost(error):
            self._check_shared(values)
        return refused(f"a launch of the webgpu function {self._name!r} was refused", self._device, error)

    def _over(self, text: str) -> LaunchError:
        return LaunchError(
            f"the webgpu function {self._name!r} cannot be launched so on {self._device}: {text}", kind="webgpu", function=self._name
        )


def _dispatch(gpu: Any, pipeline: Any, groups: Sequence[tuple[int, Any]], x: int, y: int, z: int, times: Any = None) -> None:
    """Encode one dispatch and submit it."""
    encoder = gpu.create_command_encoder()
    run = encoder.begin_compute_pass(timestamp_writes=times)
    run.set_pipeline(pipeline)
    for number, group in groups:
        run.set_bind_group(number, group)
    run.dispatch_workgroups(x, y, z)
    run.end()
    # finish() is what finds a mistake, or a lost device; submit() of such would end the process.
    gpu.queue.submit([encoder.finish()])
