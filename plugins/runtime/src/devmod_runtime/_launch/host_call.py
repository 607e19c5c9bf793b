"""What queues a launch with host arrays, for calls like one before it: code that is unrolled over
the arguments.

What `KernelCall` has checked once is not asked again: the device, the grid, the block and the
stream. For an array that the kernel reads, one that it writes, and an int, the code is::

    def call(values):
        (a0, a1, a2) = values
        try:
            if type(a0) is not ndarray: a0 = plain_array(a0)
            flags0 = a0.flags
            if a0.dtype is not D0 or not flags0.c_contiguous or ...: raise ConversionError
            if type(a1) is not ndarray: a1 = plain_array(a1)
            flags1 = a1.flags
            if a1.dtype is not D1 or not flags1.writeable or ...: raise ConversionError
        except AttributeError: raise ConversionError
        if (a0 is a1 or not (...)) and may_share_memory(a0, a1): raise ConversionError
        data0 = a0.data
        data1 = a1.data
        start = perf_counter()
        if a0.nbytes >= LEAST or a1.nbytes >= LEAST:
            result = in_place([data0, data1, a2], is_long)
            is_long = perf_counter() - start > LONG
            return result
        try:
            m0 = upload(data0)
            m1 = upload(data1)
        except UPLOAD_ERRORS: raise ConversionError
        result = enqueue((m0, m1, a2))
        if is_long: synchronize()
        read(m1, data1)
        is_long = perf_counter() - start > LONG
        return result
"""

from __future__ import annotations

import builtins
from functools import lru_cache, partial
from itertools import combinations
from math import inf
from time import perf_counter
from types import CodeType, FunctionType

from devmod.backend import ConversionError
from devmod_runtime._device.host import plain_array
from devmod_runtime._device.in_place import InPlace
from devmod_runtime._launch.checks import LONG
from devmod_runtime._launch.plain_call import compiled, tuple_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import numpy as np

    from devmod_runtime._device.stream import Stream
    from devmod_runtime._launch.arguments import Argument
    from devmod_runtime._launch.opening import Queue
else:
    from devmod.backend import np


def host_call(
    arguments: Sequence[Argument],
    dtypes: Mapping[int, np.dtype[Any]],
    stream: Stream,
    enqueue: Queue,
    is_unpacked: bool,
) -> Queue:
    """Return what queues a launch with contiguous host arrays, for calls like a call before it: on
    the same device, with the same grid, block and stream.

    Parameters
    ----------
    arguments, dtypes
        The arguments of the function, and the types of the arrays by number.
    stream, enqueue
        The stream, and the function that queues a launch with device arrays.
    is_unpacked
        Whether `enqueue` takes each value as an argument of its own.

    Returns
    -------
    function
        It takes what `enqueue` takes, with host arrays in place of their memory, and returns what
        that returns. It raises ConversionError if `KernelCall` must check them.
    """
    device = stream.device
    queue = enqueue
    if is_unpacked:
        queue = lambda values: enqueue(*values)  # noqa: E731
    written = {number: arguments[number].written for number in dtypes}
    names: dict[str, Any] = {
        "LEAST": device.in_place_from,
        "UPLOAD_ERRORS": device.upload_errors,
        "may_share_memory": np.may_share_memory,
        "ndarray": np.ndarray,
        "uint8": np.uint8,
        "upload": device.uploader(stream),
        "read": device.reader(stream),
        "synchronize": stream.synchronize,
        "enqueue": enqueue,
        "in_place": partial(_launch_in_place, stream, queue, written),
    }
    kinds = ""
    for each in arguments:
        number = each.number
        if number not in dtypes:
            kinds += "-"
            continue
        letter = "r"
        if each.written:
            letter = "w"
        if dtypes[number].kind == "c":
            letter = letter.upper()
        kinds += letter
        names |= {
            f"D{number}": dtypes[number],
            f"S{number}": each.size or 1,
            f"U{number}": each.unit,
        }
    code = _code(kinds, is_unpacked, device.in_place_from < inf)
    return FunctionType(code, _NAMES | names)


def repeated_types(
    arguments: Sequence[Argument], args: Sequence[Any], copies: int
) -> dict[int, np.dtype[Any]]:
    """Return the types of the arrays of a call that `host_call` can repeat, by the number of the
    argument: each buffer is a contiguous host array in memory of its own, one of the `copies`. Else
    none.
    """
    buffers = [each for each in arguments if each.kind == "buffer"]
    # The shape of an array for vectors with padding, and for several values, is read each time.
    if len(buffers) != copies or any(map(_is_read, arguments)):
        return {}
    dtypes: dict[int, np.dtype[Any]] = {}
    for buffer in buffers:
        array = args[buffer.number]
        if type(array) is not np.ndarray:
            array = plain_array(array)
        # NumPy's own dtypes are one object each.
        if array is None or array.dtype.isbuiltin != 1 or not array.flags.c_contiguous:
            return {}
        dtypes[buffer.number] = array.dtype
    return dtypes


def _is_read(argument: Argument) -> bool:
    return argument.is_padded or argument.is_address or argument.packed is not None


@lru_cache(256)
def _code(kinds: str, is_unpacked: bool, has_in_place: bool) -> CodeType:
    """Return the code of all functions for such arguments.

    Parameters
    ----------
    kinds
        A letter for each argument: r and w are arrays that the kernel reads and writes, R and W
        those of complex numbers, and - are numbers.
    is_unpacked
        Whether each value is an argument of its own.
    has_in_place
        Whether arrays may be used where they are.
    """
    arrays = [number for number, kind in enumerate(kinds) if kind != "-"]
    results = [number for number in arrays if kinds[number] in "wW"]
    places = [f"a{number}" for number in range(len(kinds))]
    values = places.copy()
    in_place = places.copy()
    checks: list[str] = []
    datas: list[str] = []
    for number in arrays:
        values[number] = f"m{number}"
        in_place[number] = f"data{number}"
        checks += _checks(number, is_written=number in results)
        # A memoryview has no complex numbers.
        data = f"a{number}.data"
        if kinds[number] in "RW":
            data = f"a{number}.reshape(-1).view(uint8).data"
        datas.append(f"data{number} = {data}")

    head = "def call(values):"
    lines = ["global is_long", f"{tuple_text(places)} = values"]
    passed = tuple_text(values)
    if is_unpacked:
        head = f"def call({', '.join(places)}):"
        lines = ["global is_long"]
        passed = ", ".join(values)
    lines += [
        "try:",
        *checks,
        "except AttributeError: raise ConversionError",
        *_sharing(arrays),
        *datas,
        "start = perf_counter()",
    ]
    if has_in_place:
        are_large = " or ".join(f"a{each}.nbytes >= LEAST" for each in arrays)
        lines += [
            f"if {are_large}:",
            f"    result = in_place([{', '.join(in_place)}], is_long)",
            "    is_long = perf_counter() - start > LONG",
            "    return result",
        ]
    wait = "synchronize()"
    if results:  # an interrupt ends this wait, and not that of a copy
        wait = "if is_long: synchronize()"
    lines += [
        "try:",
        *(f"    m{each} = upload(data{each})" for each in arrays),
        "except UPLOAD_ERRORS: raise ConversionError",
        f"result = enqueue({passed})",
        wait,
        *(f"read(m{each}, data{each})" for each in results),
        "is_long = perf_counter() - start > LONG",
        "return result",
    ]
    return compiled(head, lines).__code__


def _checks(number: int, *, is_written: bool) -> list[str]:
    """Return the lines that check an array."""
    conditions = [
        f"a{number}.dtype is not D{number}",
        f"a{number}.nbytes < S{number}",
        f"not flags{number}.c_contiguous",
        f"a{number}.nbytes % U{number}",
    ]
    if is_written:
        conditions.append(f"not flags{number}.writeable")
    return [
        f"    if type(a{number}) is not ndarray: a{number} = plain_array(a{number})",
        f"    flags{number} = a{number}.flags",
        f"    if {' or '.join(conditions)}: raise ConversionError",
    ]


def _sharing(arrays: Sequence[int]) -> list[str]:
    """Return the line for arrays that may share memory. Those with memory of their own share none,
    unless they are one array.
    """
    if len(arrays) < 2:
        return []
    pairs = list(combinations(arrays, 2))
    same = " or ".join([f"a{one} is a{other}" for one, other in pairs])
    own = " and ".join([f"flags{each}.owndata" for each in arrays])
    shared = " or ".join([f"may_share_memory(a{one}, a{other})" for one, other in pairs])
    return [f"if ({same} or not ({own})) and ({shared}): raise ConversionError"]


#: What the code of all calls needs.
_NAMES: dict[str, Any] = {
    "__builtins__": builtins,  # as in `plain_call`
    "ConversionError": ConversionError,
    "LONG": LONG,
    "perf_counter": perf_counter,
    "plain_array": plain_array,
    #: Whether the last call was long, or there was none.
    "is_long": True,
}


def _launch_in_place(
    stream: Stream,
    enqueue: Queue,
    written: Mapping[int, bool],
    values: list[Any],
    is_long: bool,
) -> Any:
    """Launch with large arrays, which the kernel uses where they are, if it can.

    Parameters
    ----------
    stream, enqueue
        The stream, and the function that queues a launch.
    written
        The numbers of the arrays, and whether the kernel writes to each.
    values
        The bytes of the numbers, and the memory of each array, which the device's replaces.
    is_long
        Whether to wait for the kernel before the copies, which no interrupt ends.
    """
    device = stream.device
    in_place = InPlace(stream)
    results = []
    for number, is_written in written.items():
        data = values[number].cast("B")
        memory = None
        if data.nbytes >= device.in_place_from:
            memory = in_place.take(data, written=is_written)
        if memory is None:
            memory = device.upload(data, stream)
            if is_written:
                results.append((memory, data))
        values[number] = memory
    with in_place:
        result = enqueue(values)
        if is_long:
            stream.synchronize()
        if in_place or not results:
            in_place.finish()
        for memory, data in results:
            device.read(memory, data, stream)
    return result
