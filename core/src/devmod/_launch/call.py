"""One call of a function in full: every argument looked at, every error worded, host arrays copied in and back."""

from __future__ import annotations

from devmod._launch.function import Local
from devmod._launch.host import Overlap, host_view, plan_transfers
from devmod._launch.scalars import Unfit, _shown
from devmod._memory.array import DeviceArray
from devmod._memory.device import Stream
from devmod.errors import ArgumentError, LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from devmod._launch.arguments import Argument
    from devmod._launch.function import Function
    from devmod._launch.host import HostView, Transfer
    from devmod._launch.launcher import Kernel
    from devmod._memory.device import Device

_UNSUPPORTED = {"image": "images", "sampler": "samplers"}


class Call:
    """A call with everything checked and converted, before anything is launched.

    Parameters
    ----------
    function, args, grid, block, stream, shared_memory
        As the caller gave them.
    bound
        Whether it is to be launched again and again, so that arrays of the host are refused.

    Attributes
    ----------
    kernel, where, shape, values
        What `Kernel.prepare` takes; `shape` is None for a grid with a zero in it. Values for host arrays come when it is launched.

    Raises
    ------
    ArgumentError, LaunchError
        As `Function.__call__` says.
    """

    def __init__(
        self, function: Function, args: Sequence[Any], grid: Any, block: Any, stream: Any, shared_memory: Any, *, bound: bool = False
    ) -> None:
        self._function = function
        self._launcher = function._launcher
        self._device: Device | None = None
        self._settled_by = ""
        self._adopted_streams: list[Stream | None] = []
        self._hosts: list[tuple[int, HostView, bool]] = []
        self._kept: list[Any] = []
        plain_count = len(args) == len(function._plan.arguments)
        for argument in function._plan.arguments:
            if argument.kind in _UNSUPPORTED:
                what = _UNSUPPORTED[argument.kind]
                raise LaunchError(
                    f"{function.described} cannot be called: {argument.label} is of kind {argument.kind}, and {what} are not supported yet",
                    kind=self._launcher.kind,
                    function=function.name,
                    argument=argument.name,
                )
        args, launch = function._shapes.read(args, grid, block, shared_memory)
        self.where = self._stream(stream)
        self.values: list[Any] = [
            self._convert(argument, value, bound) for argument, value in zip(function._plan.arguments, args, strict=True)
        ]
        self.transfers, self._transfer_of = self._plan_transfers()
        device = self._device if self._device is not None else self._launcher.default_device()
        if self.where is None:
            self.where = next((each for each in self._adopted_streams if each is not None), None) or device.default_stream
        # What another library does next with its memory is not in our stream's order unless it is queued there too. For memory of
        # which no stream is known, a caller who names one has thought of that.
        where, named = self.where, stream is not None
        self._settles = any(each is not where if each is not None else not named for each in self._adopted_streams)
        self.kernel: Kernel = function.open(device)
        self.shape: Any = None
        self._enqueue: Callable[[list[Any]], None]
        if launch is not None:
            self.shape = self.kernel.shape(launch)
            if not bound:
                # What a plain call would look for: with launch values behind the arguments, or shared memory, there is none.
                has_buffers = any(each.kind == "buffer" for each in function._plan.arguments)
                plain = plain_count and shared_memory == 0
                key = (device if has_buffers else None, grid, block, stream) if plain else (device, launch.key, self.where)
                self._enqueue = function.caller(key, self.kernel, self.where, self.shape)

    def launch(self) -> None:
        """Launch it once. With arrays of the host, wait and copy back."""
        if self.shape is None:
            return
        assert self.where is not None
        if self.transfers:
            self._launch_with_host(self.where)
        else:
            self._enqueue(self.values)
        if self._settles:
            self.where.synchronize()

    def _launch_with_host(self, where: Stream) -> None:
        device = where.device
        memories = []
        for transfer in self.transfers:
            memory = device.allocate(max(transfer.nbytes, 1))
            if transfer.nbytes:
                device.write(memory, transfer.source.read(), where)
            memories.append(memory)
        values = list(self.values)
        for number, transfer_number in self._transfer_of.items():
            values[number] = memories[transfer_number]
        self._enqueue(values)
        waited = False
        for transfer, memory in zip(self.transfers, memories, strict=True):
            if transfer.back is not None and transfer.back.nbytes:
                device.read(memory, transfer.back.write_target(), where)
                transfer.back.finish()
                waited = True
        if not waited:
            where.synchronize()

    # -- one argument

    def _convert(self, argument: Argument, value: Any, bound: bool) -> Any:
        try:
            if argument.pack is not None:
                return argument.pack(value)
            if type(value) is Local and (argument.kind == "local" or argument.may_be_local):
                return self._launcher.local(value.nbytes)
            if argument.kind == "local":
                raise Unfit(f"is {_shown(value)}, and the kernel takes memory that a block shares: pass devmod.Local(nbytes)")
            return self._buffer(argument, value, bound)
        except Unfit as error:
            raise self._wrong(argument, str(error)) from None

    def _buffer(self, argument: Argument, value: Any, bound: bool) -> Any:
        array = value
        if not isinstance(value, DeviceArray):
            adopted = self._launcher.adopt(value)
            if adopted is None:
                return self._host(argument, value, bound)
            array, stream = adopted
            self._adopted_streams.append(stream)
            self._kept.append(array)
        if array.device.kind != self._launcher.kind:
            raise Unfit(f"is on {array.device}; copy it through the host: pass array.numpy()")
        self._take_device(array.device, argument.label)
        if not argument.takes(array.dtype, array.nbytes):
            raise Unfit(self._mistyped(argument, array.dtype, array.nbytes))
        return array.memory

    def _host(self, argument: Argument, value: Any, bound: bool) -> None:
        view = host_view(value)
        if view is None:
            raise Unfit(f"is {_shown(value)}, and the kernel takes an array{f' of {argument.shown}' if argument.shown else ''}")
        if not argument.takes(view.dtype, view.nbytes):
            raise Unfit(self._mistyped(argument, view.dtype, view.nbytes))
        if bound:
            raise Unfit("is in the host's memory, and bind takes device arrays: pass device.from_numpy(array)")
        if argument.written and not view.array.flags.writeable:
            raise Unfit("is read-only, and the kernel may write to it; pass a copy, or device.from_numpy(array)")
        self._hosts.append((argument.number, view, argument.written))

    def _mistyped(self, argument: Argument, dtype: str, nbytes: int) -> str:
        if argument.holds(dtype):
            each = f"{argument.type} of {argument.unit} bytes" if argument.shown == argument.type else argument.shown
            return f"has {nbytes} bytes, which is no whole number of {each}"
        return f"is an array of {dtype}, and the kernel takes {argument.shown}"

    # -- where

    def _stream(self, stream: Any) -> Stream | None:
        if stream is None:
            return None
        found = stream if isinstance(stream, Stream) else self._launcher.adopt_stream(stream)
        if found is None or found.device.kind != self._launcher.kind:
            given = _shown(stream) if found is None else f"a stream of {found.device}"
            raise ArgumentError(
                f"{self._function.described} was given stream=, which is {given} and no stream of kind {self._launcher.kind}",
                kind=self._launcher.kind,
                function=self._function.name,
                argument="stream",
            )
        self._take_device(found.device, "the stream")
        return found

    def _take_device(self, device: Device, label: str) -> None:
        if self._device is None:
            self._device, self._settled_by = device, label
        elif self._device is not device:
            raise Unfit(
                f"is on {device}, and {self._settled_by} is on {self._device}; a launch runs on one device: copy what is not there "
                "through the host"
            )

    def _plan_transfers(self) -> tuple[list[Transfer], dict[int, int]]:
        if not self._hosts:
            return [], {}
        try:
            return plan_transfers(self._hosts)
        except Overlap as error:
            first, second = (self._function._plan.arguments[number] for number in (error.first, error.second))
            raise self._wrong(second, f"overlaps {first.label} in part, and the kernel writes to one of them; pass a copy of it") from None

    def _wrong(self, argument: Argument, text: str) -> ArgumentError:
        # Texts of scalars begin with the value, those of arrays with the verb.
        joined = ":" if argument.pack is not None else ""
        return ArgumentError(
            f"{self._function.described}: {argument.label}{joined} {text}",
            kind=self._launcher.kind,
            function=self._function.name,
            argument=argument.name or str(argument.number + 1),
        )
