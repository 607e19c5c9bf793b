"""The repeated call with NumPy arrays: what `Call` has checked once is not asked again."""

from __future__ import annotations

from numpy import may_share_memory, ndarray, uint8

from devmod.backend import ConversionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod_runtime._launch.call import Call


class HostCall:
    """A call with contiguous NumPy arrays of the types of a call before it, on the same device, with the same grid, block and stream.

    Parameters
    ----------
    call
        The call before it.
    args
        Its arguments.
    """

    __slots__ = ("_buffers", "_device", "_enqueue", "_scalars", "_stream")

    def __init__(self, call: Call, args: Sequence[Any]) -> None:
        arguments = call.function._signature.arguments
        assert call.stream is not None
        self._device, self._stream, self._enqueue = call.stream.device, call.stream, call.enqueue
        self._buffers = [
            (each.number, args[each.number].dtype, each.unit, each.size, each.written) for each in arguments if each.kind == "buffer"
        ]
        self._scalars = [(each.number, each.pack) for each in arguments if each.pack is not None]

    @staticmethod
    def repeats(call: Call, args: Sequence[Any]) -> bool:
        """Return whether a call is of the form that can be repeated: its buffers are NumPy arrays in memory of their own."""
        arguments = call.function._signature.arguments
        buffers = [args[each.number] for each in arguments if each.kind == "buffer"]
        return (
            len(buffers) == len(call.transfers)
            and all(type(each) is ndarray and each.dtype.isbuiltin == 1 for each in buffers)
            and all(each.pack is not None or (each.kind == "buffer" and each.layout is None) for each in arguments)
        )

    def values_of(self, args: Sequence[Any]) -> list[Any] | None:
        """Return the values of the scalars, and None for arrays; None if `Call` must check the arguments."""
        values: list[Any] = [None] * len(args)
        arrays: list[Any] = []
        for number, dtype, unit, size, written in self._buffers:
            array = args[number]
            # NumPy's own dtypes are one object each.
            if type(array) is not ndarray or array.dtype is not dtype or not array.nbytes or array.nbytes % unit or array.nbytes < size:
                return None
            flags = array.flags
            if not flags.c_contiguous or (written and not flags.writeable) or any(may_share_memory(array, other) for other in arrays):
                return None
            arrays.append(array)
        try:
            for number, pack in self._scalars:
                values[number] = pack(args[number])
        except ConversionError:
            return None
        return values

    def launch(self, values: list[Any], args: Sequence[Any]) -> Any:
        """Copy the arrays to the device, launch, and copy those back that the kernel may write to."""
        device, stream = self._device, self._stream
        results = []
        for number, _, _, _, written in self._buffers:
            data = args[number].reshape(-1).view(uint8).data
            memory = values[number] = device.allocate(data.nbytes)
            device.write(memory, data, stream)
            if written:
                results.append((memory, data))
        result = self._enqueue(values)
        for memory, data in results:
            device.read(memory, data, stream)
        if not results:
            stream.synchronize()
        return result
