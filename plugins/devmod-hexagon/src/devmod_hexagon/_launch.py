"""Launches. A launch is one call of a function.

A function has no grid, unless its launch tags name one: it then takes the number of blocks for each
tag after its arguments, a uint32, and runs all threads itself.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from devmod.backend import GRID_TAGS, find_spec
from devmod.errors import FormatError, LaunchError
from devmod_hexagon import _binary
from devmod_hexagon._abi import MAX_STACK_BYTES, CallLayout, result_reader
from devmod_hexagon._device import HexagonDevice, devices
from devmod_hexagon._runner import Memory, Runner, call_item
from devmod_runtime import Kernel, LaunchConfig, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod import Device, FunctionInfo, Stream
    from devmod.backend import Binary
    from devmod_hexagon._runner import LoadedBinary, RunnerThread


#: The numbers of blocks are uint32.
_MAX_BLOCKS = 2**32 - 1


class LoadedBinaries:
    """The binary of a module in each runner.

    Launchers have it and not the module, which has the launchers: a cycle is freed late.
    """

    def __init__(self, fmt: str, code: Binary) -> None:
        self._fmt = fmt
        self._code = code
        self._loaded: WeakKeyDictionary[RunnerThread, LoadedBinary] = WeakKeyDictionary()

    def get(self, runner: RunnerThread, device: HexagonDevice) -> LoadedBinary:
        """Return the binary in a runner. It is loaded once for all threads."""
        with runner.lock:
            binary = self._loaded.get(runner)
            if binary is None:
                self._check(device)
                code = self._code
                binary = self._loaded[runner] = runner.request(
                    Runner.load, code, *_binary.read_extent(code)
                )
            return binary

    def _check(self, device: HexagonDevice) -> None:
        """Raise FormatError unless the device can run the payload's architecture."""
        spec = find_spec("hexagon")
        assert spec is not None
        assert spec.architecture is not None
        assert spec.rank is not None
        variant = spec.architecture(self._fmt, self._code)
        if not variant:
            raise FormatError(
                "the hexagon payload of format 'so' has no readable architecture, so it is not a shared object for Hexagon",
                kind="hexagon",
            )
        if spec.rank(variant, device.arch) is None:
            raise FormatError(
                f"the hexagon module is built for {variant}, and {device} is a {device.arch}: a core runs code for its own version and for "
                f"older ones. Compile it with the target 'hexagon -arch={device.arch}'",
                kind="hexagon",
            )


class HexagonLauncher(Launcher):
    """One function of a Hexagon module."""

    kind = "hexagon"
    vec3_lanes = 4
    no_shared_memory = "a hexagon function is one call, without blocks that share memory"
    has_packs = True

    def __init__(self, name: str, info: FunctionInfo, binaries: LoadedBinaries) -> None:
        self._name = name
        self._info = info
        self._binaries = binaries
        self.has_grid = bool(_grid_axes(info))

    def default_device(self) -> Device:
        return devices()[0]

    def kernel(self, device: HexagonDevice) -> HexagonKernel:
        kernel = HexagonKernel(self._name, self._info, self._binaries, device)
        kernel.address(device.runner())
        return kernel


class HexagonKernel(Kernel):
    """A function on a device. It has an address in each runner of the device."""

    def __init__(
        self, name: str, info: FunctionInfo, binaries: LoadedBinaries, device: HexagonDevice
    ) -> None:
        self._name = name
        self._info = info
        self._binaries = binaries
        self._device = device
        self._axes = _grid_axes(info)
        self._layout = CallLayout(info, len(self._axes))
        self._read_result = result_reader(info)
        if self._layout.stack_bytes > MAX_STACK_BYTES:
            raise FormatError(
                f"the hexagon function {name!r} takes {self._layout.stack_bytes} bytes of arguments on the stack; the runner passes "
                f"{MAX_STACK_BYTES} at most",
                kind="hexagon",
                function=name,
            )
        #: The runner of the last call, the binary in it, and the function's address there.
        self._place: tuple[RunnerThread, LoadedBinary, int] | None = None

    def address(self, runner: RunnerThread) -> int:
        """Return the function's address in a runner, which loads the module first if necessary."""
        place = self._place
        if place is None or place[0] is not runner:
            binary = self._binaries.get(runner, self._device)
            address, _ = runner.request(Runner.symbol, binary, self._info.name)
            if not address:
                raise FormatError(
                    f"the hexagon module has no symbol {self._info.name!r} for its function {self._name!r}; its fmap does not match its "
                    "code",
                    kind="hexagon",
                    function=self._name,
                )
            place = self._place = (runner, binary, address)
        return place[2]

    def shape(self, launch: LaunchConfig) -> Any:
        too_many = next((each for each in launch.grid if each > _MAX_BLOCKS), 0)
        if too_many:
            raise LaunchError(
                f"the hexagon function {self._name!r} takes at most {_MAX_BLOCKS} blocks in a dimension, and {too_many} were requested",
                kind="hexagon",
                function=self._name,
                argument="grid",
            )
        return tuple(launch.grid[axis].to_bytes(4, "little") for axis in self._axes)

    def item(self, runner: RunnerThread, values: Sequence[Any], shape: Sequence[bytes]) -> bytes:
        """Return the call with these values and numbers of blocks, for a runner.

        Raises
        ------
        LaunchError
            An array belongs to a runner that has ended.
        """
        address = self.address(runner)
        addresses: list[Any] = []
        for value in values:
            if isinstance(value, Memory):
                if value.runner is not runner:
                    self._device.memory_runner(value)
                addresses.append(value.address)
            else:
                addresses.append(value)
        addresses += shape
        return call_item(address, self._layout.pack(addresses))

    def caller(self, stream: Stream, shape: Any) -> Callable[[Sequence[Any]], Any]:
        runner_of = self._device.runner
        item = self.item
        read = self._read_result

        def call(values: Sequence[Any]) -> None:
            runner = runner_of()
            runner.queue_call(item(runner, values, shape))

        if read is None:
            return call
        return lambda values: read(self._run(values, shape)[1])

    def prepare(self, stream: Stream, shape: Any, values: Sequence[Any]) -> Callable[[], object]:
        runner = self._device.runner()
        item = self.item(runner, values, shape)

        def launch() -> None:
            if runner.ended:
                self.item(
                    self._device.runner(), values, shape
                )  # raises LaunchError if an array belongs to the ended runner
            runner.queue_call(item)

        return launch

    def time(self, stream: Stream, shape: Any, values: Sequence[Any]) -> float:
        return float(self._run(values, shape)[0]) * 1e-9

    def _run(self, values: Sequence[Any], shape: Sequence[bytes]) -> Sequence[Any]:
        """Call the function and wait. Return the nanoseconds of the call and the bytes of its
        result.
        """
        runner = self._device.runner()
        return runner.request(Runner.call, self.item(runner, values, shape))


def _grid_axes(info: FunctionInfo) -> list[int]:
    """Return the axes of the numbers of blocks that a function takes after its arguments, in their
    order.
    """
    return [GRID_TAGS.index(tag) for tag in info.launch_param_tags if tag in GRID_TAGS[:3]]
