"""Arguments at their indices, and launches."""

from __future__ import annotations

from devmod import Block, Interface, Param
from devmod.backend import Kernel, Launcher, LaunchShape, block_packer, constants_of, specialize_constants
from devmod.errors import CompileError, FormatError, LaunchError, quoted
from devmod_metal._device import Memory, MetalStream, devices, settle
from devmod_metal._interface import Constant, Refused, metal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from devmod import Device, FunctionInfo, Stream
    from devmod_metal._device import MetalDevice
    from devmod_metal._interface import Dims, Pipeline
    from devmod_metal._library import Shader

#: What is set as bytes may have so many; more goes through a buffer.
_MOST_BYTES = 4096
#: Metal takes threadgroup memory in multiples of these bytes.
_STEP = 16
#: The bytes of a scalar in TVM's struct.
_TVM_SCALAR = 8
#: Metal's places for buffers and values, and for threadgroup memory: it looks at none beyond them, nor says so.
_PLACES = 31


class MetalLauncher(Launcher):
    """One function of a Metal module."""

    kind = "metal"
    no_shared_memory = "Metal takes the memory that a threadgroup shares as an argument; pass devmod.Local(nbytes)"

    def __init__(
        self, name: str, info: FunctionInfo, shader: Shader, constants: Sequence[Constant] = (), interface: Interface | None = None
    ) -> None:
        self._name, self._info, self._shader, self._constants = name, info, shader, tuple(constants)
        self._interface = interface or info.interface or _as_tvm(info)

    @property
    def interface(self) -> Interface | None:
        return self._interface

    def default_device(self) -> Device:
        return devices()[0]

    def kernel(self, device: Device) -> MetalKernel:
        from devmod_metal._device import MetalDevice

        assert isinstance(device, MetalDevice)
        return MetalKernel(self._name, self._info, self._interface, self._shader, self._constants, device)

    def local(self, nbytes: int) -> int:
        return -(-nbytes // _STEP) * _STEP

    def specialized(self, constants: Mapping[str, object]) -> MetalLauncher:
        # Function constants by the interface; other names are of the source's preprocessor.
        known = {name for each in constants_of(self._interface) for name in (each.name, str(each.id)) if name}
        own = {name: value for name, value in constants.items() if name in known}
        shader = self._shader.with_defines({name: value for name, value in constants.items() if name not in known})
        given = specialize_constants("metal", self._name, self._interface, own)
        made = list(self._constants)
        for (constant, _), data in zip(given.values, given.data, strict=True):
            if constant.id is None:
                raise FormatError(f"the function constant {constant.name!r} has no index in the payload's interface", kind="metal")
            # A bool is a byte to Metal.
            value = Constant(constant.id, constant.type, data[:1] if constant.type == "bool" else data)
            made = [*(each for each in made if each.at != value.at), value]
        return MetalLauncher(self._name, self._info, shader, made, given.interface)


def _as_tvm(info: FunctionInfo) -> Interface:
    """TVM's rule: buffers at the first indices, in order, and behind them one struct of all scalars, 8 bytes each."""
    buffers = sum(declared == "handle" for declared in info.arg_types)
    params: list[Param] = []
    at = scalars = 0
    for declared in info.arg_types:
        if declared == "handle":
            params.append(Param("", "buffer", at=at))
            at += 1
        else:
            params.append(Param("", "scalar", declared, at=(0, scalars * _TVM_SCALAR)))
            scalars += 1
    return Interface(params, [Block(buffers, scalars * _TVM_SCALAR)] if scalars else ())


class MetalKernel(Kernel):
    """A function on one device."""

    def __init__(
        self, name: str, info: FunctionInfo, interface: Interface, shader: Shader, constants: Sequence[Constant], device: MetalDevice
    ) -> None:
        self._name, self._device = name, device
        self._missing = ""
        self._pipeline: Pipeline | None = None
        self._buffers: list[tuple[int, int]] = []
        self._values: list[tuple[int, int]] = []
        self._local: list[tuple[int, int]] = []
        self._blocks = [block.at for block in interface.blocks]
        self._pack = block_packer(interface) if interface.blocks else None
        self._place(interface)
        unset = [each.shown for each in constants_of(interface) if all(each.id != one.at for one in constants)]
        try:
            self._pipeline = shader.pipeline(device, info.name, constants)
        except Refused as error:
            if not unset:
                raise CompileError(
                    f"{device} makes no pipeline of the metal function {name!r}: {error}", kind="metal", log=str(error)
                ) from error
            # It may want constants, which are set on the function that is being asked for.
            self._missing = f"its function constants may have to be set, f.specialize({unset[0]}=…): {quoted(unset)}. Metal says: {error}"

    def _place(self, interface: Interface) -> None:
        """Where each argument goes: (number, index)."""
        taken: dict[tuple[str, int], int] = {}
        for number, param in enumerate(interface.params):
            table = "threadgroup" if param.kind == "local" else param.kind if param.kind in ("image", "sampler") else "buffer"
            if isinstance(param.at, tuple) and param.kind in ("scalar", "uniform"):
                continue  # it lies in a block
            index = param.at if isinstance(param.at, int) else -1
            beyond = index >= _PLACES and table in ("buffer", "threadgroup")
            if index < 0 or beyond or (table, index) in taken:
                own = index < 0 or beyond
                wrong = f"the place {param.at!r}" if own else f"the index of argument {taken[table, index] + 1}"
                raise FormatError(
                    f"the metal function {self._name!r}: argument {number + 1} has {wrong} in the payload's interface; Metal wants an "
                    f"index of its own, up to {_PLACES - 1}",
                    kind="metal",
                )
            taken[table, index] = number
            if table == "threadgroup":
                self._local.append((number, index))
            elif param.kind == "buffer":
                self._buffers.append((number, index))
            elif table == "buffer":
                self._values.append((number, index))
        for at in self._blocks:
            if not isinstance(at, int) or not 0 <= at < _PLACES or ("buffer", at) in taken:
                raise FormatError(
                    f"the metal function {self._name!r} has a block of scalars at {at!r} in the payload's interface; Metal wants an index "
                    f"of its own, up to {_PLACES - 1}",
                    kind="metal",
                )
            taken["buffer", at] = -1

    def shape(self, launch: LaunchShape) -> tuple[Dims, Dims]:
        if self._pipeline is None:
            raise self._over(self._missing)
        limits = self._device.limits
        if launch.cluster != (1, 1, 1):
            raise self._over(f"clusters of {launch.cluster} blocks were asked for, and Metal has none")
        for axis, count in zip(("width", "height", "depth"), launch.block, strict=True):
            most = limits[f"maxThreadsPerThreadgroup.{axis}"]
            if count > most:
                raise self._over(f"its maxThreadsPerThreadgroup.{axis} is {most}, and block={launch.block} was asked for")
        x, y, z = launch.block
        if x * y * z > self._pipeline.most_threads:
            raise self._over(
                f"the pipeline's maxTotalThreadsPerThreadgroup is {self._pipeline.most_threads}, and block={launch.block} has "
                f"{x * y * z} threads"
            )
        for blocks, threads in zip(launch.grid, launch.block, strict=True):
            if blocks * threads >= 1 << 32:
                raise self._over(f"a thread's place in a grid has 32 bits, and grid={launch.grid} of block={launch.block} has more threads")
        return launch.grid, launch.block

    def caller(self, stream: Stream, shape: Any) -> Callable[[Sequence[Any]], None]:
        def call(values: Sequence[Any]) -> None:
            self._launch(stream, shape, values)

        return call

    def prepare(self, stream: Stream, shape: Any, values: Sequence[Any]) -> Callable[[], object]:
        # Commands are committed once: what can be made before is made here.
        assert isinstance(stream, MetalStream)
        commit = self._committer(stream, shape, values)
        return lambda: stream.launch(commit)

    def time(self, stream: Stream, shape: Any, values: Sequence[Any]) -> float:
        assert isinstance(stream, MetalStream)
        commands = self._launch(stream, shape, values)
        failed = settle([commands])
        if failed:
            stream.settle()  # it is told of here
            raise self._device.failed(failed)
        start, end = metal().times(commands)
        return end - start

    def _launch(self, stream: Stream, shape: Any, values: Sequence[Any]) -> Any:
        assert isinstance(stream, MetalStream)
        return stream.launch(self._committer(stream, shape, values))

    def _committer(self, stream: MetalStream, shape: tuple[Dims, Dims], values: Sequence[Any]) -> Callable[[], Any]:
        assert self._pipeline is not None
        local = [(index, values[number]) for number, index in self._local]
        if local:
            most = self._device.limits["maxThreadgroupMemoryLength"]
            asked = sum(nbytes for _, nbytes in local) + self._pipeline.own_memory
            if asked > most:
                raise self._over(
                    f"its maxThreadgroupMemoryLength is {most}, and devmod.Local arguments with what the kernel declares take {asked} bytes"
                )
        buffers = [(index, values[number].handle) for number, index in self._buffers]
        data = [(index, bytes(values[number])) for number, index in self._values]
        if self._pack is not None:
            data += [(at, block) for at, block in zip(self._blocks, self._pack(values), strict=True) if isinstance(at, int)]
        for index, value in data:
            if len(value) > _MOST_BYTES:
                memory: Memory = self._device.allocate(len(value))
                memory.view[:] = value
                buffers.append((index, memory.handle))
        data = [each for each in data if len(each[1]) <= _MOST_BYTES]
        driver, queue, pipeline = metal(), stream.queue, self._pipeline.handle

        def commit() -> Any:
            try:
                return driver.launch(queue, pipeline, buffers, data, local, *shape)
            except Refused as error:
                raise LaunchError(
                    f"{self._device} refused a launch of the metal function {self._name!r}: {error}", kind="metal", function=self._name
                ) from error

        return commit

    def _over(self, text: str) -> LaunchError:
        return LaunchError(
            f"the metal function {self._name!r} cannot be launched so on {self._device}: {text}", kind="metal", function=self._name
        )
