"""Pipelines and launches of a function on a device. WebGPU's command buffers can be used once, so a
prepared launch encodes its commands each time.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import NamedTuple

from devmod.backend import Once
from devmod.errors import ArgumentError, FormatError, LaunchError
from devmod_runtime import Kernel, LaunchConfig
from devmod_webgpu import _driver
from devmod_webgpu._copy import Region
from devmod_webgpu._driver import launch_error
from devmod_webgpu._pipeline import build_pipeline, compile_shader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import FunctionInfo, Interface
    from devmod_runtime import DeviceCache
    from devmod_webgpu._bindings import Binding, Bindings
    from devmod_webgpu._device import WebGPUDevice, WebGPUStream

#: The most blocks in x with which TVM's shaders are launched unfolded.
_FOLD = 65535


class Built(NamedTuple):
    """A pipeline, the layouts of its groups, and the bind groups of those without bindings."""

    pipeline: Any
    layouts: Sequence[Any]
    empty: Mapping[int, Any]


class WebGPUKernel(Kernel):
    """A pipeline on one device."""

    def __init__(
        self,
        name: str,
        info: FunctionInfo,
        interface: Interface,
        bindings: Bindings,
        text: str,
        shaders: DeviceCache,
        device: WebGPUDevice,
        constants: Mapping[str, bool | int | float] | None,
    ) -> None:
        self._name = name
        self._device = device
        self._bindings = bindings
        self._invalid_launch = partial(device.invalid_launch, name)
        self._interface = interface
        self._blocks = [each for each in bindings.listed if each.type == "uniform"]
        self._buffers = [
            each for each in bindings.listed if each.type in ("storage", "read-only-storage")
        ]
        self._images = [
            each
            for each in bindings.listed
            if each.type in ("texture", "storage_texture", "sampler")
        ]
        #: Whether the shader declares some buffers as read-only and others as writable.
        self._is_mixed = len({each.type for each in self._buffers}) > 1
        # Uniform buffers that no call uses. pop and append of a deque are atomic. A buffer may
        # be reused as soon as its launch is in the queue (in a batch, when it is submitted),
        # because the next write follows the launch in the queue.
        self._free: deque[list[list[Any]]] = deque()
        if constants is not None:  # else a call is refused
            self._recipe = (shaders, text, info.name, constants)
            self._default = self._build(self._first_unfiltered())

    def _first_unfiltered(self) -> Sequence[int]:
        """Return the arguments without filters in the pipeline that is built first
        (`ImageKernel`).
        """
        return ()

    def _built(self, values: Any) -> Built:
        """Return the pipeline for the arguments of a call."""
        return self._default

    def _build(self, unfiltered: Sequence[int]) -> Built:
        shaders, text, entry, constants = self._recipe
        if "\0" in entry:  # C strings end there
            raise FormatError(
                f"the webgpu function {self._name!r} has the entry point {entry!r}, expected a name without null characters",
                kind="webgpu",
            )
        groups: list[list[tuple[int, str, dict[str, Any]]]] = [
            [] for _ in range(self._bindings.groups)
        ]
        for each in self._bindings.listed:
            groups[each.group].append(each.layout(filters=each.argument not in unfiltered))
        from devmod_webgpu._trial import try_shader

        try_shader(self._device, self._name, text, entry, groups, constants)
        device = self._device
        of_device = shaders.get(device, Once)
        shader = of_device.get(text, lambda: compile_shader(device, text, entry))
        gpu = device.gpu
        try:
            layouts, pipeline = build_pipeline(gpu, shader, entry, groups, constants)
            empty = {
                number: gpu.create_bind_group(layout=layouts[number], entries=[])
                for number, group in enumerate(groups)
                if not group
            }
            return Built(pipeline, layouts, empty)
        # The last two are for names and numbers that cffi cannot convert.
        except (_driver.Error, OverflowError, UnicodeError) as error:
            if _driver.is_lost(error):
                raise launch_error(
                    f"the webgpu function {self._name!r} cannot be built", self._device, error
                ) from error
            raise FormatError(
                f"{self._device.name} cannot build the webgpu function {self._name!r} (entry {entry!r}) with the arguments that the "
                f"payload's fmap gives it: {_driver.describe_error(error)}",
                kind="webgpu",
                function=self._name,
            ) from error

    # -- launch configuration

    def shape(self, launch: LaunchConfig) -> tuple[int, int, int, bytes]:
        """Return the dispatched blocks in x, y and z, and the bytes of TVM's packGridDimX."""
        x, y, z = launch.grid
        most = self._device.limits["maxComputeWorkgroupsPerDimension"]
        limit = f"its maxComputeWorkgroupsPerDimension is {most}, but grid={launch.grid} has more blocks in"
        pack = b""
        if self._bindings.folded:
            if z > 1:
                raise self._invalid_launch(
                    f"grid={launch.grid} has {z} blocks in z, expected 1: TVM's shaders fold large x into z"
                )
            # As TVM's runtime does: halve x until it fits, so that few blocks are idle.
            while x > _FOLD:
                x = -(-x // 2)
                z = z * 2
            if z > most:
                raise self._invalid_launch(f"{limit} x than fit into x and z")
            pack = (launch.grid[0] - 1).to_bytes(4, "little")
        for axis, count in zip("xyz", (x, y, z), strict=True):
            if count > most:
                argument = "" if self._bindings.folded else "grid"
                raise self._invalid_launch(f"{limit} {axis}", argument)
        # As in devmod-vulkan: these CPU devices multiply the three numbers in 32 bits.
        if launch.blocks >= 1 << 32 and self._device.name.startswith(("llvmpipe", "SwiftShader")):
            name = self._device.name.partition(" ")[0]
            raise self._invalid_launch(
                f"{name} counts blocks in 32 bits, but grid={launch.grid} has {launch.blocks} blocks"
            )
        return x, y, z, pack

    # -- launching

    def caller(self, stream: WebGPUStream, shape: Any) -> Callable[[Sequence[Any]], None]:
        gpu = stream.gpu
        x, y, z, pack = shape
        free = self._free
        error_type = _driver.Error
        batches = stream.batches

        def call(values: Sequence[Any]) -> None:
            try:
                uniforms = free.pop()
            except IndexError:
                uniforms = []
            try:
                self._fill(uniforms, values, pack)
                built = self._built(values)
                groups = self._groups(built, uniforms, values)
                # The caller may destroy or map its own buffers and textures before the batch ends.
                if batches and self._owns(values):
                    _driver.gather(
                        _driver.Dispatch(
                            gpu,
                            built.pipeline,
                            groups,
                            (x, y, z),
                            self._launch_error,
                            free,
                            uniforms,
                        ),
                        batches,
                    )
                    return
                _dispatch(gpu, built.pipeline, groups, x, y, z)
            except error_type as error:
                raise self._launch_error(error) from error
            free.append(uniforms)

        return call

    def prepare(
        self, stream: WebGPUStream, shape: Any, values: Sequence[Any]
    ) -> Callable[[], object]:
        gpu = stream.gpu
        x, y, z, pack = shape
        error_type = _driver.Error
        uniforms: list[list[Any]] = []
        try:
            self._fill(uniforms, values, pack)
            built = self._built(values)
            groups = self._groups(built, uniforms, values)
        except error_type as error:
            raise self._launch_error(error) from error
        # The caller may destroy or map its own buffers and textures. Binding them raises;
        # submitting them would end the process.
        rebound = None
        if not self._owns(values):
            rebound = tuple(values)
        encode = gpu.create_command_encoder
        submit = _driver.submit
        pipeline = built.pipeline
        batches = stream.batches
        gather = _driver.gather
        dispatch = _driver.Dispatch(gpu, pipeline, groups, (x, y, z), self._launch_error, [], None)

        def launch() -> None:
            if batches and rebound is None:
                gather(dispatch, batches)
                return
            try:
                current = groups
                if rebound is not None:
                    current = self._groups(built, uniforms, rebound)
                encoder = encode()
                run = encoder.begin_compute_pass()
                run.set_pipeline(pipeline)
                for number, group in current:
                    run.set_bind_group(number, group)
                run.dispatch_workgroups(x, y, z)
                run.end()
                submit(gpu, (encoder.finish(),))
            except error_type as error:
                raise self._launch_error(error) from error

        return launch

    def time(self, stream: WebGPUStream, shape: Any, values: Sequence[Any]) -> float:
        gpu = stream.gpu
        x, y, z, pack = shape
        device = self._device
        uniforms: list[list[Any]] = []
        try:
            self._fill(uniforms, values, pack)
            built = self._built(values)
            groups = self._groups(built, uniforms, values)
            if device.is_cpu or not device.timed:
                # The host's clock measures from an empty queue to an empty queue. Once an image was
                # cleared, lavapipe writes the first timestamp of a pass behind its work.
                from time import perf_counter

                device.synchronize()
                start = perf_counter()
                _dispatch(gpu, built.pipeline, groups, x, y, z)
                device.synchronize()
                return perf_counter() - start
            queries = gpu.create_query_set(type="timestamp", count=2)
            _dispatch(gpu, built.pipeline, groups, x, y, z, _driver.pass_times(queries, 1))
            start, end = device.times(queries, 2)
            return max(end - start, 0.0)
        except _driver.Error as error:
            raise self._launch_error(error) from error

    def _owns(self, values: Sequence[Any]) -> bool:
        """Return whether no other code can destroy or map the memory of a call."""
        return all(self._device.owns(values[each.argument]) for each in self._buffers)

    def _fill(self, uniforms: list[list[Any]], values: Sequence[Any], pack: bytes) -> None:
        """Write a call's scalars to the uniform buffers, which are made first, except for those
        that have the same bytes already.

        Each of `uniforms` has a buffer, its bytes and its entry of a bind group.
        """
        if not self._blocks:
            return
        blocks = self._bindings.pack(values)
        for number, each in enumerate(self._blocks):
            if each.block < 0:
                data = values[each.argument]
            else:
                data = blocks[each.block]
            if pack:
                data = data[:-4] + pack
            if number == len(uniforms):
                buffer = self._device.uniform(len(data))
                uniforms.append([buffer, None, {"binding": each.number, "resource": buffer}])
            uniform = uniforms[number]
            if uniform[1] != data:
                self._device.gpu.queue.write_buffer(
                    uniform[0], 0, data.ljust(-(-len(data) // 4) * 4, b"\0")
                )
                uniform[1] = data

    def _groups(
        self, built: Built, uniforms: list[list[Any]], values: Sequence[Any]
    ) -> list[tuple[int, Any]]:
        """Return the bind groups of a call."""
        entries: list[list[dict[str, Any]]] = [[] for _ in range(self._bindings.groups)]
        for each, (_, _, entry) in zip(self._blocks, uniforms, strict=True):
            entries[each.group].append(entry)
        bound = set()
        for each in self._buffers:
            memory = values[each.argument]
            if memory.size < each.least or memory.map_state != "unmapped":
                self._check_buffer(each, memory)
                # For an empty array, whose one word is too small.
                memory = self._device.allocate(each.least)
            root = memory
            if type(memory) is Region:
                if memory.splits_a_word:
                    self.check_buffers(values)
                root = memory.buffer
                memory = memory.resource
            bound.add(root)
            entries[each.group].append({"binding": each.number, "resource": memory})
        for each in self._images:
            entries[each.group].append(
                {"binding": each.number, "resource": values[each.argument].handle}
            )
        if self._is_mixed and len(bound) < len(self._buffers):
            self.check_buffers(values)
        create = self._device.gpu.create_bind_group
        groups: list[tuple[int, Any]] = []
        try:
            for number, items in enumerate(entries):
                if items:
                    groups.append((number, create(layout=built.layouts[number], entries=items)))
                else:
                    groups.append((number, built.empty[number]))
            return groups
        except _driver.Error as error:
            try:
                self.check_buffers(values)
            except LaunchError as reason:
                raise reason from error
            self._check_adopted(values, _driver.describe_error(error))
            raise

    def _check_adopted(self, values: Sequence[Any], reason: str) -> None:
        """Raise ArgumentError if wgpu refuses an object of the caller, which devmod cannot check
        (`ImageKernel`).
        """

    def _check_buffer(self, binding: Binding, memory: Any) -> None:
        """Raise LaunchError for a buffer that cannot be bound, and ArgumentError for a view that
        ends within a word.
        """
        most = self._device.limits["maxStorageBufferBindingSize"]
        if memory.map_state != "unmapped":
            problem = "is a wgpu.GPUBuffer that is mapped; call its unmap() first"
        elif memory.size < binding.least and not (memory.size == 4 and self._device.owns(memory)):
            problem = (
                f"has {memory.size} bytes, but the shader's variable needs at least {binding.least}"
            )
        elif type(memory) is Region and memory.splits_a_word:
            raise self._invalid_argument(
                binding,
                f"is a view of {memory.nbytes} bytes, and WebGPU binds whole words of 4 bytes: the last word has elements that are not in "
                "the view; end it at a word",
            )
        elif memory.size > most:
            raise self._invalid_launch(
                f"its maxStorageBufferBindingSize is {most}, but {self._label(binding)} has {memory.size} bytes"
            )
        else:
            return
        raise LaunchError(
            f"the webgpu function {self._name!r} cannot be launched: {self._label(binding)} {problem}",
            kind="webgpu",
            function=self._name,
        )

    def _label(self, binding: Binding) -> str:
        name = self._interface.params[binding.argument].name
        if not name:
            return f"argument {binding.argument + 1}"
        return f"argument {binding.argument + 1} {name!r}"

    def check_buffers(self, values: Sequence[Any]) -> None:
        first: dict[int, Binding] = {}
        for each in self._buffers:
            memory = values[each.argument]
            self._check_buffer(each, memory)
            # WebGPU forbids a buffer that one dispatch binds as read-only and as writable.
            is_view = type(memory) is Region
            if is_view:
                memory = memory.buffer
            other = first.setdefault(id(memory), each)
            if other.type != each.type:
                relation = "the same buffer"
                if is_view or type(values[other.argument]) is Region:
                    relation = "views of one buffer"
                raise self._invalid_argument(
                    each,
                    f"and {self._label(other)} are {relation}, and the shader declares one of "
                    "them as read-only. WebGPU forbids this in one launch; pass a copy for one of them",
                )

    def _invalid_argument(self, binding: Binding, text: str) -> ArgumentError:
        return ArgumentError(
            f"the webgpu function {self._name!r}: {self._label(binding)} {text}",
            kind="webgpu",
            function=self._name,
            argument=self._interface.params[binding.argument].name or str(binding.argument + 1),
        )

    def _launch_error(self, error: Exception) -> LaunchError:
        return launch_error(
            f"a launch of the webgpu function {self._name!r} failed", self._device, error
        )


def _dispatch(
    gpu: Any,
    pipeline: Any,
    groups: Sequence[tuple[int, Any]],
    x: int,
    y: int,
    z: int,
    times: Any = None,
) -> None:
    """Encode one dispatch and submit it."""
    encoder = gpu.create_command_encoder()
    run = encoder.begin_compute_pass(timestamp_writes=times)
    run.set_pipeline(pipeline)
    for number, group in groups:
        run.set_bind_group(number, group)
    run.dispatch_workgroups(x, y, z)
    run.end()
    # finish() raises for an error or a lost device; submit() would end the process.
    _driver.submit(gpu, [encoder.finish()])
