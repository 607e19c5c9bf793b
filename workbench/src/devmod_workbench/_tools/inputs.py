"""The arguments of `devmod run`, `devmod bench` and `devmod verify`: from the command line, and
from the interface alone.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from math import prod
from typing import NamedTuple

from devmod import Param
from devmod.backend import numpy_dtype, parse_dtype
from devmod.errors import (
    ArgumentError,
    DevmodError,
    FormatError,
    did_you_mean,
    list_names,
)
from devmod_readers.programs import Array
from devmod_runtime import ProgramFunction
from devmod_runtime._program.plan import measure
from devmod_workbench._tools.draws import (
    NotFromInterfaceError,
    draw_of,
    has_integers,
    is_size,
    moved,
    random_array,
)
from devmod_workbench._tools.lengths import choose_lengths, known_lengths
from devmod_workbench._tools.values import GENERATED_ARRAY, UNTYPED, read_count, read_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    import numpy as np

    from devmod import Device, Function, Image, Interface
    from devmod_runtime._device.host import NumPyArray, Shape
    from devmod_workbench._tools.draws import NumPyType
    from devmod_workbench._tools.lengths import Constraint
    from devmod_workbench._tools.values import Numbers

    #: The arguments of a call by name, or all of them by number from "1", in their order.
    Arguments = dict[str, Any]
    Interfaces = Iterable[Interface]
    #: NumPy's kinds of numbers by their names.
    Kinds = dict[str, str]
    #: The numbers that devmod chooses for scalars, for members and for lanes, by name.
    Chosen = dict[str, float]
    #: Values of arguments by name; a str is a text for `read_value`.
    Given = Mapping[str, Any]
else:
    from devmod.backend import np

#: The scalars from an interface: integers are small, so that products of sizes stay inside of the
#: arrays. And the elements of an array.
_INTEGER = 16
_FLOAT = 0.5
_LENGTH = 1 << 18
#: The largest product of the integers of `distinct_numbers`, and the most elements of an array for
#: it.
_MOST_PRODUCT = 1 << 18
_MOST_ELEMENTS = 1 << 20
#: The texels of an image in each dimension, and the most bytes of one input: what a kernel declares
#: may be a stranger's.
_TEXELS = 64
_MOST_BYTES = 1 << 28
#: The format of an image that declares none, by what the kernel reads or writes. Each device with
#: images has the first.
_FORMATS = {"": "rgba8unorm", "float": "rgba8unorm", "int": "rgba32sint", "uint": "rgba32uint"}


def _small(name: str, dtype: NumPyType, number_of: Callable[[str, NumPyType], float]) -> NumPyArray:
    """Return one value with the numbers of `number_of`, which gets the name of the value, of a
    member, or of a lane as in ``size[0]``.
    """
    if dtype.subdtype is not None:
        base, lengths = dtype.subdtype
        if len(lengths) > 1 or lengths[0] > 4:
            return np.broadcast_to(_small(name, base, number_of), lengths)
        return np.stack([_small(f"{name}[{lane}]", base, number_of) for lane in range(lengths[0])])
    result = np.zeros((), dtype)
    if dtype.names:
        for member in dtype.names:
            result[member] = _small(member, dtype[member], number_of)
    elif dtype.type is np.void:
        raise NotFromInterfaceError(f"it is {dtype.itemsize} bytes of unknown meaning")
    else:
        result[()] = number_of(name, dtype)
    return result


class Invented(NamedTuple):
    """What arguments from the interface alone are made of.

    Attributes
    ----------
    numbers
        The numbers of scalars, of members and of lanes by their names. Other integers are 16, and
        other floats 0.5.
    length
        The number of an array's elements.
    declared
        What the parameters of other candidates declare, by their names (`declared_params`).
    word
        The draw of arrays (`devmod_workbench._tools.draws`).
    draw
        The function that returns an array: `random_array`, or one that stores its results.
    """

    numbers: Mapping[str, float] = {}
    length: int = _LENGTH
    declared: Mapping[str, Param] = {}
    word: str = "random"
    draw: Callable[..., NumPyArray] = random_array

    def completed(self, param: Param) -> Param:
        """Return a parameter with the type of a buffer or the format of an image that another
        candidate declares for it.
        """
        known = self.declared.get(param.name, param)
        if param.kind != known.kind:
            return param
        if param.kind == "image":
            return param.replace(format=param.format or known.format)
        if param.type:
            return param
        return param.replace(type=known.type, members=known.members)

    def word_of(self, name: str, dtype: NumPyType) -> str:
        """Return the draw of an array. Integers that may be indices have those of "random": in the
        draw "signed" all of them, and in others those with such a name.
        """
        if self.word == "signed" and has_integers(dtype):
            return "random"
        return draw_of(name, dtype, self.word)

    def number(self, name: str, dtype: NumPyType) -> float:
        """Return the number of a scalar of a type that is not a struct."""
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            number = int(self.numbers.get(name, _INTEGER))
            return max(min(number, limits.max), limits.min)
        return dtype.kind == "b" or self.numbers.get(name, _FLOAT)


def equal_numbers(kinds: Kinds) -> Invented:
    """Return inputs in which all integers are equal."""
    integers = _names_of_integers(kinds)
    return Invented(dict.fromkeys(integers, _INTEGER), _length([_INTEGER] * len(integers)))


def distinct_numbers(kinds: Kinds, blocks: Collection[int]) -> Invented:
    """Return inputs in which the numbers differ, and one integer or more is greater than a block
    and no multiple of it.

    Such integers are multiples of 4 if the blocks allow that: kernels of vectors expect it. The
    product of all is 2**18 at most, unless there are too many.

    Parameters
    ----------
    kinds
        The `kinds_of_numbers` of all candidates, which have one number for one name.
    blocks
        The numbers of threads of their blocks in any dimension.
    """
    lengths = [each for each in blocks if each > 1]
    block = max(lengths, default=_INTEGER)
    step = 2
    if block >= 8:
        step = 8
    large = []
    for each in range(2 * block - step // 2, block, -step):
        if all(each % length for length in lengths):
            large.append(each)

    integers = _names_of_integers(kinds)
    numbers = _some_large(integers, large[:3] or [2 * block - 1])
    length = _length(numbers.values())
    floats = [name for name in kinds if name not in integers]
    for place, name in enumerate(floats):
        numbers[name] = (place % 6 + 2) / 8
    return Invented(numbers, length)


def _some_large(integers: Sequence[str], large: Sequence[int]) -> Chosen:
    """Return numbers of which as many are large as the limit on their product allows, or one."""
    # The other numbers are multiples of 4, as long as their product allows that too.
    attempts = [(number, 4) for number in range(len(large), 0, -1)]
    attempts.append((1, 1))
    for number, step in attempts:
        small = range(2 * step, (len(integers) + 5) * step, step)
        values = dict.fromkeys([*large[:number], *small])
        numbers: Chosen = dict(zip(integers, values, strict=False))
        if prod(numbers.values()) <= _MOST_PRODUCT:
            break
    return numbers


def numbers_of_many_blocks(
    distinct: Invented, kinds: Kinds, threads: Sequence[int], blocks: Sequence[int], turn: int
) -> Invented:
    """Return inputs in which as many integers as there are axes are less than the threads of a
    launch by a part of a block, and the others are small. They are multiples of 4 as those of
    `distinct_numbers`.

    Parameters
    ----------
    distinct, kinds
        The `distinct_numbers`, and what they were made of.
    threads, blocks
        The threads of the launch, and of a block, in each dimension.
    turn
        Which integer is the first large one: 0 or 1.
    """
    integers = _names_of_integers(kinds)
    integers = integers[turn:] + integers[:turn]
    large = []
    for axis, number in enumerate(threads, 1):
        part = max(blocks[axis - 1] * 3 // 32 * 4, 1)  # 24 of 64
        large.append(number - part * axis)
    numbers = _some_large(integers, large)
    needed = [*numbers.values()]
    if prod(needed) > _MOST_PRODUCT:
        return distinct
    if len(integers) == 1:  # it may be both sides of a matrix
        needed *= 2
    return Invented({**distinct.numbers, **numbers}, _length(needed))


def negative_numbers(kinds: Kinds) -> Chosen:
    """Return a negative number for each scalar whose name does not suggest a size."""
    numbers: Chosen = {}
    for place, (name, kind) in enumerate(kinds.items()):
        if kind == "u" or is_size(name.partition("[")[0], is_scalar=True):
            continue
        numbers[name] = -(place % 6 + 2)
        if kind != "i":
            numbers[name] /= 8
    return numbers


def _length(numbers: Iterable[float]) -> int:
    """Return the length of arrays for indices below a product: a thread may have four elements."""
    return max(_LENGTH, min(4 * int(prod(numbers)), _MOST_ELEMENTS))


def _names_of_integers(kinds: Kinds) -> list[str]:
    return [name for name, kind in kinds.items() if kind in "iu"]


def kinds_of_numbers(interfaces: Interfaces) -> Kinds:
    """Return the kind of each number that the scalars of functions have, by name."""
    kinds: Kinds = {}
    for interface in interfaces:
        # The names that stand alone in the shapes of a program.
        if "kernels" in interface.extra:
            shapes = [each.extra.get("shape", ()) for each in interface.params]
            names = [each for each in chain(*shapes) if isinstance(each, str)]
            kinds |= dict.fromkeys(names, "u")

    def note(name: str, dtype: NumPyType) -> float:
        # All candidates get one number.
        if dtype.kind != "b" and (name not in kinds or dtype.kind == "u"):
            kinds[name] = dtype.kind
        return 0

    for param in params_of(interfaces):
        if param.kind in ("scalar", "uniform") and param.default is None:
            with suppress(FormatError, NotFromInterfaceError):
                if param.dtype is not None:
                    _small(param.name, param.dtype, note)
    return kinds


def params_of(interfaces: Interfaces) -> Iterator[Param]:
    """Yield the parameters of several functions."""
    for interface in interfaces:
        yield from interface.params


class RandomImage(NamedTuple):
    """An image of random texels, which `on_device` makes."""

    shape: Shape
    format: str
    layers: int
    word: str
    #: Another number than 0 moves the texels, as `moved` does.
    seed: int = 0


def declared_params(interfaces: Interfaces) -> dict[str, Param]:
    """Return the first buffer with a type, if all of that name agree on it, and the first image
    with a format, by their names.
    """
    params = []
    types: dict[str, set[Any]] = {}
    for each in params_of(interfaces):
        declared: Any = None
        if each.kind == "buffer" and each.type:
            declared = parse_dtype(each.type)[:2]
        elif each.format:
            declared = each.kind
        if declared is not None:
            params.append(each)
            types.setdefault(each.name, set()).add(declared)

    found: dict[str, Param] = {}
    for each in params:
        if each.kind == "image" or len(types[each.name]) == 1:
            found.setdefault(each.name, each)
    return found


def threads_of_images(interfaces: Interfaces) -> list[int]:
    """Return one thread for each texel of the images from `default_value`; none for functions
    without images.
    """
    axes = [_axes_of_image(each) for each in params_of(interfaces) if each.kind == "image"]
    return [_TEXELS] * max(axes, default=0)


def _axes_of_image(param: Param) -> int:
    return int(param.type[:1] or 2)


def default_value(param: Param, invented: Invented) -> Any:
    """Return a value for a parameter: an array of random numbers, of more if the kernel declares
    more, or a small scalar.

    An image has 64 texels in each dimension, in the format that the kernel declares.

    Raises
    ------
    NotFromInterfaceError
        The interface says too little.
    """
    if param.kind == "image":
        return _default_image(param, invented)
    if param.kind == "local":
        raise NotFromInterfaceError(
            "the size of this local memory is unknown; give its bytes, such as local:256 or local:4/thread"
        )
    if param.type == "handle":
        raise NotFromInterfaceError("it is the address of an array")
    try:
        dtype = param.dtype
    except FormatError as error:
        raise NotFromInterfaceError(str(error)) from None
    if dtype is None:
        raise NotFromInterfaceError("its type is unknown")
    if param.kind == "buffer":
        return _default_array(param, dtype, invented)

    value = _small(param.name, dtype, invented.number)
    if dtype.names:
        return value[()]
    return value.tolist()


def _default_image(param: Param, invented: Invented) -> RandomImage:
    if param.type == "1d_buffer":
        raise NotFromInterfaceError("it is an image over a buffer")
    shape = (_TEXELS,) * _axes_of_image(param)
    layers = 0
    if param.type.endswith("_array"):
        layers = _INTEGER
    return RandomImage(shape, param.format or _FORMATS[param.sample], layers, invented.word)


def _default_array(param: Param, dtype: NumPyType, invented: Invented) -> NumPyArray:
    # The same numbers for elements of one lane and of several: candidates of one function may
    # differ in that.
    lanes = prod(dtype.shape)
    size = dtype.itemsize
    wanted = min(invented.length // lanes, _MOST_BYTES // size)
    declared = -(-param.size // size)
    elements = max(wanted, declared, 1)
    if elements * size > _MOST_BYTES:
        raise NotFromInterfaceError(
            f"the kernel declares {elements * size} bytes for it, more than {_MOST_BYTES}"
        )
    word = invented.word_of(param.name, dtype.base)
    array = invented.draw(param.name, (elements * lanes,), dtype.base, word)
    return array.reshape(elements, *dtype.shape)


def program_of(function: Function) -> ProgramFunction | None:
    """Return a function that is a program; None for another one."""
    if isinstance(function, ProgramFunction):
        return function
    return None


def has_grid(function: Function) -> bool:
    """Return whether a call gives a grid, or threads."""
    return program_of(function) is None and "grid" in function.launch_keywords


def parameters(function: Function) -> dict[str, Param]:
    """Return the parameters of a function by the names of a call, in their order. A parameter
    without a name has its number from 1.
    """
    program = program_of(function)
    if program is not None:
        declared = {each.name: each for each in program.interface.params}
        return {name: declared[name] for name in (*program.names, *program.outputs)}

    params = [each.param for each in function._signature.arguments]
    names = function._order.names
    if len(names) != len(params):  # without names, or with the members of structs
        names = tuple(each.name or str(number) for number, each in enumerate(params, 1))
    return dict(zip(names, params, strict=True))


def has_argument(function: Function, name: str) -> bool:
    """Return whether an argument of a function, or a length of a program, has the name."""
    params = parameters(function)
    if _keyword(name, params) in params:
        return True
    program = program_of(function)
    if program is not None:
        return name in program.program.length_names
    return name in function._order.records


def arguments_of(
    function: Function,
    given: Given,
    sizes: Numbers,
    invented: Invented | None = None,
) -> Arguments:
    """Return the arguments of a call on the host.

    Parameters
    ----------
    function
        The function.
    given
        Name to value; a str is a text for `read_value`. The name of a length of a program has a
        number.
    sizes
        As for `read_value`; they are lengths of a program too.
    invented
        What missing arguments are made of. Default: they are not made; the call has its defaults,
        and samplers.

    Raises
    ------
    ArgumentError
        A value is invalid.
    NotFromInterfaceError
        A missing argument cannot be made from the interface.
    """
    params = parameters(function)
    program = program_of(function)
    if program is not None:
        return _program_arguments(program, params, given, sizes, invented)
    if invented is not None:
        params = {name: invented.completed(each) for name, each in params.items()}
    values = {_keyword(name, params): value for name, value in given.items()}
    records = function._order.records
    _check_names(function, values, params, records)
    for name, value in values.items():
        if isinstance(value, str):
            param = params.get(name, UNTYPED)
            # The keyword of a call may be another one: ``in_``.
            values[name] = read_value(param.name or name, value, param, sizes)

    in_records: set[int] = set()
    for name in values.keys() & records.keys():
        in_records.update(records[name].numbers)
    for number, (name, param) in enumerate(params.items()):
        if name in values or number in in_records or param.default is not None:
            continue
        if param.kind == "sampler":
            values[name] = "nearest"
        elif invented is not None:
            values[name] = _invented_value(function, name, param, invented)
    if any(name.isdecimal() for name in values):
        return _by_number(values, len(params))
    return values


def _keyword(name: str, params: Collection[str]) -> str:
    """Return the keyword of a parameter in a call: ``in_`` for one called "in"."""
    if name not in params and f"{name}_" in params:
        return f"{name}_"
    return name


def _invented_value(function: Function, name: str, param: Param, invented: Invented) -> Any:
    if function._signature.interface is None:
        raise NotFromInterfaceError("the function has no interface")
    try:
        return default_value(param, invented)
    except NotFromInterfaceError as error:
        raise NotFromInterfaceError(f"{name}: {error}") from None


def _by_number(values: Mapping[str, Any], count: int) -> Arguments:
    """Return arguments in the order of their numbers, which must all be there."""
    in_order = [str(number) for number in range(1, len(values) + 1)]
    others = values.keys() - {*in_order}
    if others:
        raise ArgumentError(
            f"expected all arguments by number, 1=… to {count}=…, got {list_names(values)}",
            argument=min(others),
        )
    return {number: values[number] for number in in_order}


def _check_names(
    function: Any, given: Iterable[str], params: Mapping[str, Param], others: Collection[str]
) -> None:
    lengths = ""
    if others and program_of(function) is not None:
        lengths = f"; its lengths: {list_names(others)}"
    for name in given:
        if name not in params and name not in others:
            suggestion = did_you_mean(name, [*params, *others])
            error = ArgumentError(
                f"{function.label} has no argument {name!r}{suggestion}; its arguments: {list_names(params)}{lengths}",
                kind=function.kind,
                function=function.name,
                argument=name,
            )
            error.keywords = [
                each for each, param in params.items() if param.name not in ("", each)
            ]
            raise error


def _program_arguments(
    function: ProgramFunction,
    params: Mapping[str, Param],
    given: Given,
    sizes: Numbers,
    invented: Invented | None,
) -> Arguments:
    """Return the arguments of a program. An array without a shape of its own has the declared one,
    for known lengths or small ones.
    """
    declared = function.program.declared
    names = function.program.length_names
    _check_names(function, given, params, names)
    stated = {name: sizes[name] for name in names if name in sizes}
    values = {}
    # The text of an array without its shape; "" for an argument that is not given.
    made = {}
    for name, value in given.items():
        if name in names:
            if isinstance(value, str):
                value = read_count(value, sizes, name)
            stated[name] = int(value)
        elif text := _without_shape(value, declared.get(name)):
            made[name] = text
        elif isinstance(value, str):
            values[name] = read_value(name, value, params[name], sizes)
        else:
            values[name] = value

    lengths, constraints = known_lengths(function, values, stated)
    for _, name, length in constraints:
        if stated.get(name, length) != length:
            raise function.error(f"{name}={stated[name]}, and an array has {length} there", name)
    if invented is not None:
        for name in function.names:
            if name not in given and name not in function.defaults:
                made[name] = ""
    if made:
        lengths = _lengths_for_made(function, lengths, constraints, invented)
        values |= _made_values(function, params, made, lengths, invented or Invented())
    return {name: values[name] for name in params if name in values}


def _made_values(
    function: ProgramFunction,
    params: Mapping[str, Param],
    made: Mapping[str, str],
    lengths: Numbers,
    invented: Invented,
) -> Arguments:
    values = {}
    for name, text in made.items():
        array = function.program.declared[name]
        if isinstance(array, Array):
            values[name] = _declared_array(function, array, lengths, text, invented)
        elif name in lengths:
            values[name] = lengths[name]
        else:
            values[name] = default_value(params[name], invented)
    return values


def _without_shape(value: Any, declared: Any) -> str:
    """Return the text of an array whose shape is left to the program, with its type; "" for another
    argument.
    """
    if not isinstance(value, str) or not isinstance(declared, Array):
        return ""
    match = GENERATED_ARRAY.fullmatch(value)
    if match is None or match["shape"] is not None:
        return ""
    return f"{match['word']}:{match['type'] or declared.type}"


def _lengths_for_made(
    function: ProgramFunction,
    lengths: dict[str, int],
    constraints: Sequence[Constraint],
    invented: Invented | None,
) -> dict[str, int]:
    """Return lengths for the arrays that are made here: those of `invented`, or small ones."""
    wanted = (invented or Invented()).numbers
    found = choose_lengths(function, lengths, constraints, wanted)
    if found is None:
        found = choose_lengths(function, lengths, constraints, {})
    if found is not None:
        return found
    names = list_names(function.program.length_names)
    error = function.error(f"no lengths that it accepts were found: give {names}")
    if invented is None:
        raise error
    raise NotFromInterfaceError(str(error))


def _declared_array(
    function: ProgramFunction,
    array: Array,
    lengths: Numbers,
    text: str,
    invented: Invented,
) -> Any:
    shape, nbytes = measure(array, dict(lengths), function.error)
    if text:
        sizes = shape
        if array.texel is not None and array.texel.channels > 1:
            sizes = (*shape, array.texel.channels)
        return read_value(array.name, f"{text}[{','.join(map(str, sizes))}]", UNTYPED, {})
    if nbytes > _MOST_BYTES:
        raise NotFromInterfaceError(
            f"{array.name}: the shape {shape} has {nbytes} bytes, more than {_MOST_BYTES}"
        )
    if array.format:
        return RandomImage(shape[::-1], array.format, 0, invented.word)
    dtype = numpy_dtype(array.type)
    return invented.draw(array.name, shape, dtype, invented.word_of(array.name, dtype))


def moved_arguments(function: Function, arguments: Arguments, seed: int) -> Arguments:
    """Return arguments on the host whose floats are moved by one unit in the last place."""
    params = parameters(function)
    result = {}
    for name, value in arguments.items():
        if isinstance(value, RandomImage):
            value = value._replace(seed=seed)
        elif isinstance(value, np.ndarray):
            value = moved(value, seed)
        elif isinstance(value, float):
            value = moved(np.array(value, params[name].dtype), seed).item()
        result[name] = value
    return result


def describe_inputs(
    made: Mapping[str, Any], invented: Invented
) -> dict[str, tuple[str, list[int], str]]:
    """Return the draw, the shape and the type of each invented array of numbers."""
    found = {}
    for name, value in made.items():
        if isinstance(value, np.ndarray) and not value.dtype.names:
            word = invented.word_of(name, value.dtype)
            found[name] = word, [*value.shape], value.dtype.name
    return found


def call_once(function: Function, arguments: Arguments, **launch: Any) -> tuple[Any, Arguments]:
    """Call a function. Return its result, and the arguments on the device with the outputs that a
    program has made.
    """
    result = call_with(function, arguments, launch)
    program = program_of(function)
    if program is None or not program.outputs:
        return result, arguments
    if not isinstance(result, tuple):
        result = (result,)
    outputs = dict(zip(program.outputs, result, strict=True))
    return None, on_device(function, arguments | outputs)


def call_with(function: Callable[..., Any], arguments: Arguments, launch: Mapping[str, Any]) -> Any:
    """Call a function, or its `bind`, with arguments and the keywords of a launch."""
    if "1" in arguments:
        return function(*arguments.values(), **launch)
    return function(**arguments, **launch)


def on_device(function: Function, arguments: Arguments) -> Arguments:
    """Return arguments with their arrays, images and samplers on the function's device, and a new
    state if a program has one.
    """
    params = parameters(function)
    device = function.default_device()

    result = {}
    for name, value in arguments.items():
        try:
            result[name] = _copy(name, value, params.get(name, UNTYPED), device)
        except DevmodError as error:
            raise ArgumentError(
                f"{name}: {error}", kind=device.kind, function=function.name, argument=name
            ) from None

    program = program_of(function)
    if program is not None and program.states and "state" not in result:
        known, _ = known_lengths(program, result, {})
        lengths = {name: known[name] for name in program.open_lengths if name in known}
        result["state"] = program.state(**lengths)
    return result


def _copy(name: str, value: Any, param: Param, device: Device) -> Any:
    """Return an array, an image or a sampler on a device, and any other value as it is."""
    kind = param.kind
    if kind == "sampler" and isinstance(value, str):
        return device.sampler(filter=value)
    if isinstance(value, RandomImage):
        return _image_on_device(name, value, device)
    if not isinstance(value, np.ndarray) or kind in ("scalar", "uniform"):
        return value
    if kind == "image" and value.ndim:
        return device.image_from_numpy(value, param.format or None)
    if kind == "buffer" or value.ndim:
        return device.from_numpy(value)
    return value


def _image_on_device(name: str, value: RandomImage, device: Device) -> Image:
    try:
        image = device.image(value.shape, value.format, layers=value.layers)
    except DevmodError as error:
        raise NotFromInterfaceError(f"{name}: {error}") from None
    word = value.word
    if value.format.endswith("norm"):
        word = "texels"
    texels = random_array(name, image.array_shape, np.dtype(image.texel.dtype), word)
    image.copy_from(moved(texels, value.seed))
    return image


def results_of(
    function: Function, arguments: Arguments, written: Collection[str] = ()
) -> dict[str, NumPyArray]:
    """Return the arrays that a function may have written to, and those of `written`, on the
    host.
    """
    params = parameters(function)
    values = [*arguments.items()]
    program = program_of(function)
    if program is not None and program.states:
        values.extend(arguments["state"].items())
    results = {}
    for name, value in values:
        if not hasattr(value, "numpy"):
            continue
        param = params.get(name, UNTYPED)
        if param.access != "r" or {name, param.name} & {*written}:
            results[name] = value.numpy()
    return results
