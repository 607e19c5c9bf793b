"""The repeated call with NumPy arrays: what `Call` has checked once is not asked again."""

from __future__ import annotations

from devmod.backend import ConversionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np

    from devmod_runtime._launch.call import Call
else:
    from devmod._util.numpy import np


class HostCall:
    """A call with contiguous NumPy arrays of the types of a call before it, on the same device, with the same grid, block and stream.

    Parameters
    ----------
    call
        The call before it.
    args
        Its arguments.
    """

    __slots__ = ("_buffers", "_device", "_enqueue", "_may_share", "_ndarray", "_scalars", "_stream", "_uint8")

    def __init__(self, call: Call, args: Sequence[Any]) -> None:
        arguments = call.function._signature.arguments
        assert call.stream is not None
        self._device, self._stream, self._enqueue = call.stream.device, call.stream, call.enqueue
        # The names of NumPy once, and not at each call.
        self._ndarray, self._uint8, self._may_share = np.ndarray, np.uint8, np.may_share_memory
        self._buffers = [
            (each.number, args[each.number].dtype, each.unit, each.size, each.written) for each in arguments if each.kind == "buffer"
        ]
        self._scalars = [(each.number, each.pack) for each in arguments if each.pack is not None]

    @staticmethod
    def repeats(call: Call, args: Sequence[Any]) -> bool:
        """Return whether a call is of the form that can be repeated: its buffers are contiguous NumPy arrays in memory of their own."""
        arguments = call.function._signature.arguments
        buffers = [args[each.number] for each in arguments if each.kind == "buffer"]
        return (
            len(buffers) == len(call.transfers)
            and all(type(each) is np.ndarray and each.dtype.isbuiltin == 1 and each.flags.c_contiguous for each in buffers)
            and all(each.pack is not None or (each.kind == "buffer" and each.layout is None) for each in arguments)
        )

    def values_of(self, args: Sequence[Any]) -> list[Any] | None:
        """Return the values of the scalars, and None for arrays; None if `Call` must check the arguments."""
        values: list[Any] = [None] * len(args)
        arrays: list[Any] = []
        ndarray, may_share = self._ndarray, self._may_share
        for number, dtype, unit, size, written in self._buffers:
            array = args[number]
            # NumPy's own dtypes are one object each.
            if type(array) is not ndarray or array.dtype is not dtype or not array.nbytes or array.nbytes % unit or array.nbytes < size:
                return None
            flags = array.flags
            if not flags.c_contiguous or (written and not flags.writeable) or any(may_share(array, other) for other in arrays):
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
        uint8 = self._uint8
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
