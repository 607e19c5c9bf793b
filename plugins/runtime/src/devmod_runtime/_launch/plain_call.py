"""Plain calls: the code of the call of one function, unrolled over its arguments.

A plain call has device arrays of the exact type or host arrays, ints and floats, and a
configuration that a call had before. Python takes a third of the time of a loop for it, and finds
the names of the arguments where it looks for those of every parameter.

What queues the launch is cached by the configuration: with device arrays it takes their memory, and
with host arrays the arrays, which it checks and copies (`host_call`).
"""

from __future__ import annotations

import builtins
import operator
import os
from _weakref import ref
from functools import lru_cache
from struct import error as struct_error
from types import CodeType, FunctionType
from typing import Any

from devmod import Local
from devmod._plugins.devices import VARIABLE
from devmod.backend import ConversionError
from devmod_runtime._device.device_array import DeviceArray
from devmod_runtime._device.stream import current_stream, entered, is_in_stream
from devmod_runtime._launch.arguments import Argument, BlockBytes
from devmod_runtime._launch.scalars import AddressBytes, real

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from devmod import Device, Function
    from devmod_runtime._launch.config import Dims

#: The value of a parameter that a call omits. Compared by identity: arrays compare their elements.
MISSING = object()
#: The number of arguments too many that a call can have before they are taken for those by name.
_MORE = 4
_LAUNCH = "grid, block, threads, stream"
#: For letters of `_kind_of`, the name of the value that the kernel takes; v for the others.
_VALUES = {"-": "a", "F": "a", "b": "m", "B": "m"}
#: What `os.environ` reads, and the key of DEVMOD_DEVICE there. A look-up in `os.environ` itself
#: takes 0.6 µs of each call with host arrays.
variables: Any = os.environ._data  # type: ignore[attr-defined]
DEVICE_KEY = os.environ.encodekey(VARIABLE)
#: Whether `are_counts` returns true, in most calls.
_PLAIN_DIMS = " and ".join(
    f"({each} is None or type({each}) is int)" for each in ("grid", "block", "threads")
)


class Callers(dict[Any, Any]):
    """The functions that queue launches, by the device, the grid, the block, the threads and the
    stream of a plain call. With host arrays, the value of DEVMOD_DEVICE is in the place of the
    device.

    Attributes
    ----------
    last
        The function of the last call and its key. Most loops give the same objects again: to
        compare them takes half of the time of a look-up.

    Parameters
    ----------
    sizes
        The number of the sizes of a tuned function, behind the rest of the key.
    device
        The device of `Function.on`.
    is_unpacked
        Whether the functions take each value as an argument of its own, and numbers unconverted.
        Otherwise they take one tuple, with the bytes of the numbers.
    """

    __slots__ = ("_reference", "device", "is_elsewhere", "is_unpacked", "last", "owner")

    def __init__(
        self, sizes: int = 0, device: Device | None = None, *, is_unpacked: bool = False
    ) -> None:
        self.is_unpacked = is_unpacked
        #: The device of `on`, which the function references.
        self.device = device
        none = (None,) * sizes
        self.last: tuple[Any, ...] = (None, MISSING, None, None, None, None, *none)
        #: Whether an adopted device keeps some.
        self.is_elsewhere = False
        #: The owner of what an adopted device keeps.
        self.owner = _Owner()
        self._reference = ref(self.owner)

    def __missing__(self, key: tuple[Any, ...]) -> Any:
        """Return the function that an adopted device keeps."""
        caches = getattr(key[0], "_caches", None)
        if caches is None:
            raise KeyError(key)
        # Not `cache_of`, whose dictionary makes a reference in each call.
        return caches.data[self._reference][key]


class _Owner:
    """Is alive while some functions are."""


def are_counts(*dims: Dims) -> bool:
    """Return whether all are ints: a float may be an equal key."""
    for each in dims:
        counts = each if isinstance(each, tuple) else (each,)
        for count in counts:
            if count is not None and not hasattr(count, "__index__"):
                return False
    return True


def _pack_other(pack: Callable[[Any], bytes], value: Any) -> bytes:
    """Return the bytes of a value of another type. Raise KeyError for the address of an array,
    which `KernelCall` checks, and for a block of another candidate's layout.
    """
    if isinstance(value, (AddressBytes, BlockBytes)):
        raise KeyError
    packed = pack(value)
    if isinstance(packed, AddressBytes):
        raise KeyError
    return packed


#: What all functions' code needs.
_NAMES: dict[str, Any] = {
    "__builtins__": builtins,  # an import from C, such as for a warning, takes it from the globals
    "BlockBytes": BlockBytes,
    "ConversionError": ConversionError,
    # A new configuration or another type: `KernelCall` converts it or raises the error.
    "NOT_PLAIN": (AttributeError, KeyError, struct_error, OverflowError, TypeError, ValueError),
    "pack_other": _pack_other,
    "real": real,
    "M": MISSING,
    "are_counts": are_counts,
    "current_stream": current_stream,
    "entered": entered,
    "index": operator.index,
    "is_in_stream": is_in_stream,
    "variables": variables,
    "DEVICE_KEY": DEVICE_KEY,
    "DeviceArray": DeviceArray,
}


def plain_call(function: Function, callers: Callers) -> Callable[..., Any]:
    """Return the method of a call of a function that takes plain calls, and passes on all others.

    `callers` are those of the function. The code has them as a global: Python looks up an attribute
    of an object of such a class slowly.
    """
    arguments = function._signature.arguments
    more = max(_MORE, len(function._signature.launch))
    names: tuple[str, ...] = ()
    if function._order.is_plain and function._has_names:
        names = function._order.names
    elif function._order.is_plain:
        more += len(arguments)  # in the place of those by name
    sizes = frozenset(each.number for each in arguments if each.size)
    kinds = "".join(map(_kind_of, arguments))
    if callers.is_unpacked:
        kinds = kinds.translate({ord("f"): "F", ord("v"): "-"})
    keys = tuple([each.number for each in function.key_arguments])
    foreign: tuple[int, ...] | None = None
    if function._has_foreign:
        foreign = tuple([each.number for each in arguments if each.written])
    code, defaults = _code(
        kinds,
        callers.is_unpacked,
        function._first_buffer,
        sizes,
        bool(names),
        more,
        keys,
        foreign,
    )
    at = code.co_posonlyargcount
    code = code.replace(
        co_varnames=(*code.co_varnames[:at], *names, *code.co_varnames[at + len(names) :])
    )
    names_of_code = _NAMES | _constants(arguments) | {"callers": callers}
    if function._has_foreign:
        launcher = function._launcher
        names_of_code |= {
            "FOREIGN": launcher.plain_classes,
            "device_of": launcher.plain_device,
            "take": launcher.plain_memory,
            "fixed": function.fixed_device,
        }
    return FunctionType(code, names_of_code, "__call__", defaults)


def packed_call(arguments: Sequence[Argument], queue: Callable[..., Any]) -> Callable[..., Any]:
    """Return what takes each value as an argument of its own, and gives all to `queue` in one
    tuple, with the bytes of the numbers. It raises ConversionError for a number that does not fit.
    """
    code = _packed_code("".join(map(_kind_of, arguments)))
    return FunctionType(code, _NAMES | _constants(arguments) | {"queue": queue})


@lru_cache(256)
def _packed_code(kinds: str) -> CodeType:
    places = [f"a{number}" for number in range(len(kinds))]
    values = [f"v{at}" if kind in "fv" else f"a{at}" for at, kind in enumerate(kinds)]
    lines = [
        "try:",
        "    pass",
        *[line for line in _conversions(kinds) if "BlockBytes" not in line],
        "except NOT_PLAIN: raise ConversionError",
        f"return queue({tuple_text(values)})",
    ]
    return compiled(f"def call({', '.join(places)}):", lines).__code__


def _constants(arguments: Sequence[Argument]) -> dict[str, Any]:
    """Return what the code that converts the arguments needs."""
    constants: dict[str, Any] = {}
    for each in arguments:
        expected, convert = _converter(each)
        constants |= {
            f"T{each.number}": expected,
            f"P{each.number}": convert,
            f"N{each.number}": each.pack,
            f"S{each.number}": each.size,
        }
    return constants


def _kind_of(argument: Argument) -> str:
    """Return the letter of what the code does for an argument.

    b and B are arrays of one type and of any, p and P those that are several values of the kernel,
    f floats, v other values. F and - are floats and others that the kernel converts.
    """
    if argument.kind == "buffer" or argument.is_address:
        letter = "b"
        if argument.packed is not None:
            letter = "p"
        if argument.is_padded or (argument.type and not argument.is_address):
            return letter
        return letter.upper()
    if argument.plain_packer is not None and argument.plain_packer[0] is float:
        return "f"
    return "v"


def _converter(argument: Argument) -> tuple[object, Callable[..., Any] | None]:
    """Return the type of a value that is converted, and the converter. That of an array that is
    several values takes its type and its shape.

    No value has the type "-".
    """
    if argument.kind == "buffer":
        fields = None
        if argument.packed is not None:
            fields = argument.packed.fields
        # `KernelCall` checks the shape of an array for vectors with padding.
        return "-" if argument.is_padded else argument.type, fields
    if argument.kind == "local":
        return Local, lambda value: value
    return argument.plain_packer or ("-", argument.pack)


@lru_cache(256)
def _code(
    kinds: str,
    is_unpacked: bool,
    first: int,
    sizes: frozenset[int],
    has_names: bool,
    more: int,
    keys: tuple[int, ...],
    foreign: tuple[int, ...] | None,
) -> tuple[CodeType, tuple[Any, ...]]:
    """Return the code of a call of all functions with such arguments, and the defaults of its
    parameters.

    Each argument has two parameters, by position and by name: one that is given twice is an error
    of devmod's. Between them are `more`. The values of the arguments `keys` are part of the key. A
    kernel takes the values in one tuple, unless `is_unpacked`. `foreign` has the arguments that are
    written, for a function that takes buffers of another library.
    """
    count = len(kinds)
    positions = [f"a{number}" for number in range(count)]
    extra = [f"x{number}" for number in range(more)]
    names: list[str] = []
    if has_names:
        names = [f"n{number}" for number in range(count)]

    args = tuple_text(positions)
    given = f"({', '.join([*positions, *extra])}, *rest), {tuple_text(names)}, keywords"
    other = f"return self._call_in_other_form({given}, {_LAUNCH}, shared_memory)"
    is_other = "x0 is not M or keywords or shared_memory is not None"
    if count and not names:
        is_other += f" or {positions[-1]} is M"
    lines = [f"if {is_other}: {other}"]
    if names:
        lines += _lines_of_names(positions, names, other)

    checked = f"return self._call_checked({args}, {_LAUNCH}, shared_memory)"
    if keys:
        lines += [
            "try:",
            *(
                f"    s{each} = a{each} if type(a{each}) is int else index(a{each})"
                for each in keys
            ),
            f"except TypeError: {checked}",
        ]
    last = "".join(f", l{each}" for each in keys)
    key = "".join(f", s{each}" for each in keys)
    is_new = "".join(f" or l{each} != s{each}" for each in keys)

    lines += [
        "try:",
        *_lines_of_arrays(kinds, first, sizes, foreign),
        f"    call, d, g, b, t, c{last} = callers.last",
        f"    if t is not threads or d is not device or g is not grid or b is not block or c is not current{is_new}:",
        f"        call = callers[device, grid, block, threads, current{key}]",
        f"        if {_PLAIN_DIMS}:",
        "            if device is callers.device or not getattr(device, 'is_adopted', False):",
        f"                callers.last = call, device, grid, block, threads, current{key}",
        "        elif not are_counts(grid, block, threads): raise KeyError",
        *_conversions(kinds),
        "except NOT_PLAIN: pass",
        "else:",
        f"    try: return call({_passed(kinds, is_unpacked)})",
        "    except ConversionError: pass",
        checked,
    ]

    parameters = ", ".join(f"{each}=M" for each in (*positions, *extra))
    by_names = "".join(f"{each}=M, " for each in names)
    launch = "grid=None, block=None, threads=None, stream=None, shared_memory=None"
    head = f"def call(self, {parameters}, /, {by_names}{launch}, *rest, **keywords):"
    call = compiled(head, lines)
    return call.__code__, call.__defaults__ or ()


def compiled(head: str, lines: Sequence[str]) -> FunctionType:
    """Return the function `call` of a head and the lines of its body, for its code."""
    space: dict[str, Any] = {"M": MISSING}  # the default of parameters
    exec("\n    ".join([head, *lines]), space)  # noqa: S102 - it has no text but the numbers of arguments
    call: FunctionType = space["call"]
    return call


def tuple_text(items: Sequence[str]) -> str:
    return f"({''.join(f'{each}, ' for each in items)})"


def _lines_of_names(positions: Sequence[str], names: Sequence[str], other: str) -> list[str]:
    """Return the lines that take arguments by name in the place of those by position. `other` is
    the statement for a call with too many or too few.
    """
    # Here x0 is M, and a local variable.
    pairs = list(zip(positions, names, strict=True))
    missing = " or ".join(f"{each} is x0" for each in names)
    both_or_none = " or ".join(f"({place} is x0) is ({name} is x0)" for place, name in pairs)
    given_twice = " or ".join(f"{each} is not x0" for each in names)
    return [
        "if a0 is x0:",
        f"    if {missing}: {other}",
        *(f"    {place} = {name}" for place, name in pairs),
        f"elif {positions[-1]} is x0:",
        f"    if {both_or_none}: {other}",
        *(f"    if {place} is x0: {place} = {name}" for place, name in pairs[1:]),
        f"elif {given_twice}: {other}",
    ]


def _lines_of_arrays(
    kinds: str, first: int, sizes: frozenset[int], foreign: tuple[int, ...] | None
) -> list[str]:
    """Return the lines that find the device and the stream in the key of a call, and what stands
    for each array. They raise NOT_PLAIN.
    """
    # The current stream is part of the key. Nothing looks for it in a program that enters no
    # stream.
    current = "if entered and stream is None: current = current_stream"
    if first < 0:
        return [
            "    device = None",
            "    current = stream",
            f"    {current}(self.default_device())",
        ]
    arrays = [number for number, kind in enumerate(kinds) if kind in "bBpP"]
    on_device = [
        f"    if type(a{first}) is DeviceArray:",
        f"        device = a{first}.device",
        _checks(kinds, arrays, first, sizes),
        *(f"        m{each} = a{each}.memory" for each in arrays),
    ]
    if foreign is not None:
        on_device = [
            f"    if type(a{first}) is DeviceArray or type(a{first}) in FOREIGN:",
            f"        if type(a{first}) is DeviceArray: device = a{first}.device",
            f"        else: device = fixed or device_of(a{first})",
        ]
        for number in arrays:
            other = f"m{number} = take(a{number}, device, {number in foreign}, stream)"
            if kinds[number] in "pP" or number in sizes:
                other = "raise KeyError"
            on_device += [
                f"        if type(a{number}) is DeviceArray:",
                f"    {_checks(kinds, [number], -1, sizes & {number})}",
                f"            m{number} = a{number}.memory",
                f"        else: {other}",
            ]
    return [
        *on_device,
        "        current = stream",
        f"        {current}(device)",
        "    else:",
        "        device = variables.get(DEVICE_KEY)",
        "        if entered and stream is None and is_in_stream(): raise KeyError",
        "        current = stream",
        *(f"        m{each} = a{each}" for each in arrays),
    ]


def _passed(kinds: str, is_unpacked: bool) -> str:
    """Return the text of what the function that queues a launch takes."""
    values = [f"{_VALUES.get(kind, 'v')}{number}" for number, kind in enumerate(kinds)]
    if is_unpacked:
        return ", ".join(values)
    return tuple_text(values)


def _checks(kinds: str, arrays: Sequence[int], first: int, sizes: frozenset[int]) -> str:
    """Return the line that checks device arrays. It raises NOT_PLAIN."""
    checks = [f"a{number}.device is device" for number in arrays if number != first]
    checks += [f"a{number}.dtype is T{number}" for number in arrays if kinds[number] in "bp"]
    checks += [f"a{number}.nbytes >= S{number}" for number in sizes]
    return f"        if not ({' and '.join(checks) or True}): raise KeyError"


def _conversions(kinds: str) -> list[str]:
    """Return the lines that convert numbers, F, f and v of `_kind_of`. They raise NOT_PLAIN."""
    lines = []
    for number, kind in enumerate(kinds):
        if kind == "F":
            is_plain = f"type(a{number}) is float or type(a{number}) is int"
            lines.append(f"    if not ({is_plain}): a{number} = real(a{number})")
        if kind in "pP":
            lines.append(f"    v{number} = m{number}, P{number}(a{number}.dtype, a{number}.shape)")
        if kind not in "fv":
            continue
        condition = f"kind is T{number}"
        if kind == "f":
            condition += " or kind is int"
        lines += [
            f"    kind = type(a{number})",
            f"    if {condition}: v{number} = P{number}(a{number})",
            f"    elif kind is BlockBytes and device not in self._others: v{number} = a{number}",
            f"    else: v{number} = pack_other(N{number}, a{number})",
        ]
    return lines
