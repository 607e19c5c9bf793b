"""The forms of a call, invalid arguments, and launch values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from keyword import iskeyword
from typing import Any

import devmod
from devmod.backend import COOPERATIVE_TAG, DYNAMIC_SHARED_MEMORY, LAUNCH_KEYWORDS, value_tags
from devmod_conformance._case import Call, Conformance, Sample
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    applicable,
    called_functions,
    check_call,
    check_refused_call,
    compare_arrays,
    expect_argument_error,
    expect_error,
    get_function,
    has_grid,
    import_numpy,
    kernels_of_row,
    launch,
    list_devices,
    module_with,
    no_device,
    plain_params,
    reference_arrays,
    require,
    require_equal,
    row,
    runtime_module,
    samples_with_calls,
    triple,
    with_interfaces,
    written_arrays,
)
from devmod_conformance._turn import device_turn

_Triple = tuple[int, int, int]
#: The launch tags of a grid or block dimension (R35), and the keyword argument of each.
_DIMENSIONS = {"blockIdx": "grid", "threadIdx": "block"}

#: The number of threads in the largest block that the row tries. No device has as many.
_LARGEST_BLOCK = 1 << 21

#: The tolerance for a float scalar.
_ROUNDING = 1e-5

_NO_PACKS = "the backend takes no array as several values of a kernel"


@row("R34-invalid")
def invalid_arguments(case: Conformance) -> None:
    """An invalid argument raises ArgumentError, which names it, before any launch."""
    np = import_numpy()
    for sample, call, function in called_functions(case):
        info = sample.fmap[call.function]
        for fault, number, arguments, keywords in _invalid_calls(info, call, has_grid(case)):
            arrays = [each for each in arguments if isinstance(each, np.ndarray)]
            before = [np.copy(each) for each in arrays]
            name = ""
            if number is not None:
                name = _name(info, number)
            with expect_argument_error(
                case, call, f"with {fault}", name, "the kernel was launched"
            ):
                launch(case, function, arguments, **keywords)
            for one, two in zip(arrays, before, strict=True):
                require(
                    np.array_equal(one, two, equal_nan=one.dtype.kind in "fc"),
                    f"{call.function!r} with {fault} changes an array",
                )
        check_call(case, call, function, "called with valid arguments after invalid calls")


@row("R35-values")
def launch_values(case: Conformance) -> None:
    """A function with launch_param_tags accepts TVM's launch values after its arguments."""
    for sample, call, _, values in _calls_with_values(case):
        function = get_function(runtime_module(case, sample), call.function)
        arguments = call.make_arguments()
        launch(case, function, [*arguments, *values])
        compare_arrays(
            call, arguments, reference_arrays(call), f"called with the launch values {values}"
        )


@row("R35-clusters")
def clusters(case: Conformance) -> None:
    """A launch with clusters computes the same result, or raises LaunchError before any launch."""
    for call, function, values in _tagged_calls(case, "clusterCtaIdx.x"):
        _check_launch(
            case, call, function, values, "launched with clusters of one block", may_refuse=False
        )
        if triple(call.grid)[0] % 2 == 0:
            wide = _launch_values(function.info, call, cluster=2)
            assert wide is not None
            _check_launch(case, call, function, wide, "launched with clusters of two blocks")


@row("R35-cooperative")
def cooperative(case: Conformance) -> None:
    """A cooperative launch computes the same result, or raises LaunchError before any launch."""
    for call, function, values in _tagged_calls(case, COOPERATIVE_TAG):
        _check_launch(case, call, function, values, "launched cooperatively")


def _calls_with_values(
    case: Conformance, added: str = ""
) -> Iterator[tuple[Sample, Call, devmod.FunctionInfo, list[int]]]:
    """Yield the calls with the function's description and launch values, with another launch tag in
    place of those of its scope.
    """

    def with_values() -> Iterator[tuple[Sample, Call, devmod.FunctionInfo, list[int]]]:
        for sample, call in samples_with_calls(case):
            info = sample.fmap[call.function]
            if added:
                scope = added.removesuffix("x")
                tags = [tag for tag in info.launch_param_tags if not tag.startswith(scope)]
                at = len(tags)
                if DYNAMIC_SHARED_MEMORY in tags:
                    at = tags.index(DYNAMIC_SHARED_MEMORY)
                tags.insert(at, added)
                info = info.replace(launch_param_tags=tags)
            values = _launch_values(info, call)
            if values is not None:
                yield sample, call, info, values

    return applicable(
        with_values(), "no called function has launch_param_tags for its grid and block"
    )


def _tagged_calls(case: Conformance, added: str) -> Iterator[tuple[Call, Any, list[int]]]:
    """Yield the calls with a function that has another launch tag, and its launch values. A device
    may lack such launches.
    """
    for sample, call, info, values in _calls_with_values(case, added):
        tags = info.launch_param_tags
        module = module_with(case, sample, call.function, launch_param_tags=tags)
        try:
            function = get_function(module, call.function)
        except devmod.LaunchError:
            continue
        yield call, function, values


def _check_launch(
    case: Conformance,
    call: Call,
    function: Any,
    values: Sequence[int],
    description: str,
    *,
    may_refuse: bool = True,
) -> None:
    """Raise AssertionError unless the launch computes the reference's result, or raises LaunchError
    if it may and changes nothing.
    """
    arguments = call.make_arguments()
    expected = reference_arrays(call)
    try:
        launch(case, function, [*arguments, *values])
    except devmod.LaunchError as error:
        require(
            may_refuse,
            f"{call.function!r} {description}: expected a launch, got LaunchError: {error}",
        )
        require_equal(
            error.kind, case.kind, f"{call.function!r} {description}: the kind in the error"
        )
        compare_arrays(call, arguments, call.make_arguments(), f"{description}, with LaunchError")
    except devmod.DeviceNotFoundError as error:
        raise no_device(error) from error
    except Exception as error:
        raise AssertionError(
            f"{call.function!r} {description}: expected LaunchError, got {type(error).__name__}: {error}"
        ) from error
    else:
        compare_arrays(call, arguments, expected, description)


def _name(info: devmod.FunctionInfo, number: int) -> str:
    """Return the name of an argument, or its number from 1 if the name is unknown."""
    if info.interface is None or not info.interface.params[number].name:
        return str(number + 1)
    return info.interface.params[number].name


def _invalid_calls(
    info: devmod.FunctionInfo, call: Call, grids: bool
) -> Iterator[tuple[str, int | None, list[Any], dict[str, Any]]]:
    """Yield invalid calls: a description, the argument's number or None, the arguments and the
    keywords.
    """
    np = import_numpy()
    create = call.make_arguments
    if create():
        yield "too few arguments", None, create()[:-1], call.keywords
    yield "too many arguments", None, [*create(), None], call.keywords
    for number, value in enumerate(create()):
        for fault, wrong in _invalid_values(info, number, value):
            arguments = create()
            arguments[number] = wrong
            yield f"{fault} as argument {number + 1}", number, arguments, call.keywords
    for number in written_arrays(call):
        arguments = create()
        if isinstance(arguments[number], np.ndarray):
            arguments[number].setflags(write=False)
            yield f"a read-only array as argument {number + 1}", number, arguments, call.keywords
    if grids and call.grid is not None:
        for grid in (-1, "4", 1.5, (1, 1, 1, 1), (), None):
            yield f"grid={grid!r}", None, create(), {**call.keywords, "grid": grid}
    if grids and call.block is not None:
        for block in (0, -1, "4", (1, 1, 1, 1)):
            yield f"block={block!r}", None, create(), {**call.keywords, "block": block}
    yield "an object that is not a stream", None, create(), {**call.keywords, "stream": object()}


def _invalid_values(
    info: devmod.FunctionInfo, number: int, value: Any
) -> Iterator[tuple[str, Any]]:
    np = import_numpy()
    if isinstance(value, np.ndarray):
        yield "a str", "text"
        yield "None", None
        yield "a number", 1.5
        is_declared = info.interface is not None and info.interface.params[number].type
        if is_declared and value.dtype.kind in "iuf":
            other = "float32" if value.dtype == np.float64 else "float64"
            yield "an array of another type", value.astype(other)
    elif isinstance(value, (bool, int, float)):
        yield "a str", "text"
        yield "None", None
        yield "an array", np.zeros(3, "float32")
        name = info.arg_types[number]
        if name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
            yield "a fraction", 0.5
            yield "a number out of range", 1 << 70
            if name.startswith("u"):
                yield "a negative number", -1


def _launch_values(info: devmod.FunctionInfo, call: Call, cluster: int = 1) -> list[int] | None:
    """Return the grid and block as TVM's launch values, with clusters of `cluster` blocks; None if
    the tags lack a dimension.
    """
    if call.grid is None or not info.launch_param_tags:
        return None
    fixed = _fixed_block(info)
    triples = {"grid": triple(call.grid), "block": triple(call.block or fixed)}
    values = []
    dimensions = set()
    for tag in value_tags(info.launch_param_tags):
        name, _, axis = tag.partition(".")
        if tag == DYNAMIC_SHARED_MEMORY:
            values.append(0)
        elif name == "clusterCtaIdx":
            values.append(cluster)
        elif name in _DIMENSIONS:
            dimensions.add((_DIMENSIONS[name], axis))
            values.append(triples[_DIMENSIONS[name]]["xyz".index(axis)])
        else:
            values.append(1)  # no preferred cluster
    for keyword, lengths in triples.items():
        if keyword == "block" and fixed:
            continue
        for axis, length in zip("xyz", lengths, strict=True):
            if length != 1 and (keyword, axis) not in dimensions:
                return None
    return values


@row("R34-names")
def arguments_by_name(case: Conformance) -> None:
    """Arguments by name compute the same result; an unknown, a missing or a doubled name raises
    ArgumentError, which names it.
    """
    pairs = []
    for sample, call in samples_with_calls(case):
        if _names(sample.fmap[call.function]):
            pairs.append((sample, call))
    pairs_with_names = applicable(
        pairs, "no called function has an interface with a name for each argument"
    )
    for sample, call, function in called_functions(case, pairs_with_names):
        names = _names(sample.fmap[call.function])
        for count in dict.fromkeys((0, len(names) // 2)):
            arguments = call.make_arguments()
            keywords = dict(reversed(list(zip(names, arguments, strict=True))[count:]))
            launch(case, function, arguments[:count], **keywords, **call.keywords)
            compare_arrays(
                call,
                arguments,
                reference_arrays(call),
                f"with {count} arguments by position and the others by name",
            )
        for fault, name, arguments, count, keywords in _wrong_names(names, call):
            check_refused_call(
                case,
                call,
                function,
                arguments,
                fault,
                name,
                count=count,
                **keywords,
                **call.keywords,
            )


@row("R34-threads")
def threads(case: Conformance) -> None:
    """threads= computes the result of the grid that covers the threads, and launch_config returns
    this grid.
    """
    for call, function, grid, block, keywords in _calls_with_blocks(
        case, 1, "no call has a grid and a block"
    ):
        wanted = _threads_of(grid, block)
        fewer = (wanted[0] - block[0] + 1, *wanted[1:])  # one thread in the last block
        for count in dict.fromkeys((wanted, fewer)):
            config = function.launch_config(threads=count, **keywords)
            require_equal(
                (config.grid, config.block),
                (grid, block),
                f"the grid and the block of {call.function!r} with threads={count}",
            )
            check_call(case, call, function, f"with threads={count}", threads=count, **keywords)
        for fault, wrong in (
            ("both grid and threads", {"grid": call.grid, "threads": wanted}),
            ("a negative threads", {"threads": -1}),
        ):
            check_refused_call(
                case, call, function, call.make_arguments(), fault, "threads", **wrong, **keywords
            )


@row("R34-part")
def part_of_the_threads(case: Conformance) -> None:
    """threads= for a part of the blocks computes what grid= with these blocks computes."""
    for call, function, grid, block, keywords in _calls_with_blocks(
        case, 2, "no call has a grid of several blocks, and a block"
    ):
        x, y, z = grid
        part = (-(-x // 2), -(-y // 2), -(-z // 2))
        count = _threads_of(part, block)
        expected = call.make_arguments()
        arguments = call.make_arguments()
        launch(case, function, expected, grid=part, **keywords)
        launch(case, function, arguments, threads=count, **keywords)
        compare_arrays(
            call, arguments, expected, f"with threads={count}, compared with grid={part}"
        )


def _calls_with_blocks(
    case: Conformance, least: int, reason: str
) -> Iterator[tuple[Call, Any, _Triple, _Triple, dict[str, Any]]]:
    """Yield the calls whose grid has `least` blocks in a dimension: with the function, the grid,
    the block and the keyword of the block.
    """
    pairs = []
    for sample, call in _calls_with_grids(case):
        if max(triple(call.grid)) >= least:
            pairs.append((sample, call))
    with_block = []
    for _, call, function in called_functions(case, pairs):
        if call.block is not None or function.block is not None:
            with_block.append((call, function))
    for call, function in applicable(with_block, reason):
        if call.block is None:
            yield call, function, triple(call.grid), triple(function.block), {}
        else:
            given = {"block": call.block}
            yield call, function, triple(call.grid), triple(call.block), given


def _threads_of(grid: _Triple, block: _Triple) -> _Triple:
    """Return the threads of a grid of blocks."""
    return grid[0] * block[0], grid[1] * block[1], grid[2] * block[2]


@row("R34-limit")
def block_limit(case: Conformance) -> None:
    """Each block that is accepted computes the result. A block that is too large raises
    LaunchError, which names it, before any launch.
    """
    pairs = []
    for sample, call in _calls_with_grids(case):
        if call.block is None or _fixed_block(sample.fmap[call.function]):
            continue
        if _has_spare_threads(call):
            pairs.append((sample, call))
    reason = "no call chooses a block in x, has more threads than elements, and no devmod.Local: only such a call may have any block"
    for _, call, function in called_functions(case, applicable(pairs, reason)):
        size = triple(call.block)[0]
        threads = triple(call.grid)[0] * size
        while size < _LARGEST_BLOCK:
            size *= 2
            description = f"with block={size}"
            arguments = call.make_arguments()
            try:
                launch(case, function, arguments, threads=max(threads, size), block=size)
            except Exception as error:  # noqa: BLE001 - also what a driver raises
                require(
                    isinstance(error, devmod.LaunchError) and str(size) in str(error),
                    f"{call.function!r} {description}: expected the result, or LaunchError that names the block and the limit, got "
                    f"{type(error).__name__}: {error}",
                )
                compare_arrays(
                    call, arguments, call.make_arguments(), f"{description}, with LaunchError"
                )
                break
            compare_arrays(call, arguments, reference_arrays(call), description)


@row("R34-floats")
def float_scalars(case: Conformance) -> None:
    """A scalar of 32 or 64 bits that is a float has all its bits in the kernel."""
    found = []
    for sample, call in samples_with_calls(case):
        types = sample.fmap[call.function].arg_types
        for number, value in enumerate(call.make_arguments()):
            if isinstance(value, float) and types[number] in ("float32", "float64"):
                found.append((sample, call, number))
    for sample, call, number in applicable(
        found, "no call has a scalar of type float32 or float64"
    ):
        function = get_function(runtime_module(case, sample), call.function)
        given = call.make_arguments()
        expected = call.make_arguments()
        value = given[number] or 1
        given[number] = expected[number] = value * 4 / 3
        call.reference(*expected)
        launch(case, function, given, **call.keywords)
        # 16 bits change a number by up to 5e-4. A reference may round in another order.
        exact = replace(call, rtol=min(call.rtol, _ROUNDING), atol=min(call.atol, _ROUNDING))
        compare_arrays(exact, given, expected, f"with {given[number]!r} as argument {number + 1}")


@row("R34-scalars")
def all_scalars(case: Conformance) -> None:
    """A scalar of each type has its value in the kernel: its sign, its highest bits and each
    digit.
    """
    np = import_numpy()
    for sample in kernels_of_row(
        case,
        case.scalars,
        "the case has no scalars: the backend gives no kernels that store a scalar",
    ):
        module = runtime_module(case, sample)
        for name, info in sample.fmap.items():
            function = get_function(module, name)
            dtype = np.dtype(info.arg_types[1])
            keywords = {}
            if has_grid(case):
                keywords["grid"] = 1
                if not function.block:
                    keywords["block"] = 1
            for value in _extremes(dtype):
                expected = np.array([value], dtype)
                result = np.array([not value], dtype)
                launch(case, function, [result, value], **keywords)
                require(
                    result.tobytes() == expected.tobytes(),
                    f"{name!r} with the {dtype} {value!r}: the kernel got {result.tolist()[0]!r}",
                )


def _extremes(dtype: Any) -> list[Any]:
    """Return values of a type, some of which a backend changes if it takes the scalar for one of
    another type.
    """
    np = import_numpy()
    if dtype.kind == "b":
        return [True, False]
    if dtype.kind == "f":
        largest = float(np.finfo(dtype).max)
        step = float(np.finfo(dtype).eps)
        return [1 + step, -1 - step, largest, -largest, 0.0]
    least = int(np.iinfo(dtype).min)
    most = int(np.iinfo(dtype).max)
    values = [most, most - 5, most // 2 + 2, 1, 0]
    if least:
        values += [-1, -2, least]
    return values


def _has_spare_threads(call: Call) -> bool:
    """Return whether the call has more threads, all in x, than array elements, and no memory of a
    block: then each thread is compared.
    """
    arguments = call.make_arguments()
    grid = triple(call.grid)
    block = triple(call.block)
    if grid[1:] != (1, 1) or block[1:] != (1, 1):
        return False
    if any(isinstance(each, devmod.Local) for each in arguments):
        return False
    return grid[0] * block[0] > max(getattr(each, "size", 0) for each in arguments)


def _fixed_block(info: devmod.FunctionInfo) -> tuple[int, int, int] | None:
    if info.interface is None:
        return None
    return info.interface.block


@row("R34-gridless")
def no_grid(case: Conformance) -> None:
    """A kind without a grid refuses grid=, block= and threads= with an ArgumentError that names the
    argument, before any launch.
    """
    if has_grid(case):
        raise Skip("a launch of this kind has a grid")
    for _, call, function in called_functions(case):
        require_equal(
            function.block, None, f"the block of {call.function!r}, whose launch has no threads"
        )
        for name in ("grid", "block", "threads"):
            check_refused_call(
                case, call, function, call.make_arguments(), f"{name}=1", name, **{name: 1}
            )


@row("R34-block")
def default_block(case: Conformance) -> None:
    """A call without a block uses the default block of the interface."""
    found = []
    for sample, call, interface in with_interfaces(_calls_with_grids(case)):
        if call.block is not None and interface.block is None:
            found.append((sample, call, interface))
    for sample, call, interface in applicable(
        found, "no call has a block and an interface that fixes none"
    ):
        block = triple(call.block)
        changed = interface.replace(default_block=block, open_block=False)
        function = _function_with(case, sample, call, changed)
        require_equal(
            function.block,
            block,
            f"the block of {call.function!r} with a default block in its interface",
        )
        wanted = _threads_of(triple(call.grid), block)
        check_call(case, call, function, "with the default block and grid=", grid=call.grid)
        check_call(case, call, function, "with the default block and threads=", threads=wanted)


@row("R34-open")
def chosen_block(case: Conformance) -> None:
    """The backend chooses a block of powers of two where the interface leaves it open."""
    found = [each for each in with_interfaces(_calls_with_grids(case)) if each[2].open_block]
    for sample, call, interface in applicable(
        found, "no called function has an interface that leaves the block open"
    ):
        function = get_function(runtime_module(case, sample), call.function)
        wanted = _threads_of(triple(call.grid), triple(call.block or interface.default_block))
        for size in ({"threads": wanted}, {"threads": 1}, {"grid": 1}):
            config = function.launch_config(**size)
            powers = [each for each in config.block if each > 0 and each & (each - 1) == 0]
            require(
                len(config.block) == len(powers) == 3,
                f"the block that the backend chooses for {call.function!r}: expected powers of two, got {config.block!r}",
            )
        check_call(case, call, function, "with a block that the backend chose", threads=wanted)


@row("R34-local")
def local_default(case: Conformance) -> None:
    """A Local argument with a default in the interface may be omitted."""
    with_local = []
    for sample, call, interface in with_interfaces(samples_with_calls(case)):
        if any(isinstance(value, devmod.Local) for value in call.make_arguments()):
            with_local.append((sample, call, interface))
    for sample, call, interface in applicable(
        with_local, "no call has a devmod.Local argument and an interface"
    ):
        arguments = call.make_arguments()
        params = list(interface.params)
        for number, value in enumerate(arguments):
            if isinstance(value, devmod.Local):
                params[number] = params[number].replace(default=value)
        function = _function_with(case, sample, call, interface.replace(params=params))
        given = [each for each in arguments if not isinstance(each, devmod.Local)]
        launch(case, function, given, **call.keywords)
        compare_arrays(call, arguments, reference_arrays(call), "without its Local arguments")


@row("R34-structs")
def structs(case: Conformance) -> None:
    """A struct by value may be a record, a mapping, a sequence or bytes; a missing member raises
    ArgumentError, which names it.
    """
    np = import_numpy()
    found = []
    for sample, call, interface in with_interfaces(samples_with_calls(case)):
        for number, param in enumerate(interface.params):
            if param.members and param.kind != "buffer":
                found.append((sample, call, number, param))
    for sample, call, number, param in applicable(
        found, "no called function has a struct with members in its interface"
    ):
        function = get_function(runtime_module(case, sample), call.function)
        dtype: Any = param.dtype
        record = np.asarray(call.make_arguments()[number], dtype)
        mapping = {name: record[name] for name in dtype.names}
        forms = {
            "a record": record[()],
            "a mapping": mapping,
            "a sequence": tuple(mapping.values()),
            "bytes": record.tobytes(),
        }
        for form, value in forms.items():
            arguments = call.make_arguments()
            given = list(arguments)
            given[number] = value
            launch(case, function, given, **call.keywords)
            compare_arrays(
                call, arguments, reference_arrays(call), f"with {form} as argument {number + 1}"
            )
        missing = dtype.names[-1]
        fault = f"without the member {missing!r} of argument {number + 1}"
        del mapping[missing]
        given = call.make_arguments()
        given[number] = mapping
        with expect_argument_error(case, call, fault, param.name) as caught:
            launch(case, function, given, **call.keywords)
        require(
            missing in str(caught[0]),
            f"{call.function!r} {fault}: the error does not name the member: {caught[0]}",
        )


@row("R34-records")
def records(case: Conformance) -> None:
    """The scalars of a block may be given as one record under its name; the record beside one of
    its members raises ArgumentError.
    """
    found = []
    for sample, call, interface in with_interfaces(samples_with_calls(case)):
        members = _first_block(interface)
        if members and _names(sample.fmap[call.function]):
            found.append((sample, call, interface, members))
    for sample, call, interface, members in applicable(
        found, "no called function has scalars in a block of memory in its interface"
    ):
        first_block, *blocks = interface.blocks
        named = interface.replace(blocks=[first_block.replace(name="devmod_record"), *blocks])
        function = _function_with(case, sample, call, named)
        arguments = call.make_arguments()
        names = _names(sample.fmap[call.function])
        others = dict(zip(names, arguments, strict=True))
        record = {}
        for number in members:
            record[interface.params[number].name] = others.pop(names[number])
        launch(case, function, [], **others, devmod_record=record, **call.keywords)
        compare_arrays(
            call, arguments, reference_arrays(call), "with the scalars of a block as one record"
        )
        first = names[members[0]]
        with expect_argument_error(case, call, f"with a record and its member {first!r}", first):
            launch(
                case,
                function,
                [],
                **others,
                devmod_record=record,
                **{first: arguments[members[0]]},
                **call.keywords,
            )


@row("R34-packs")
def packs(case: Conformance) -> None:
    """An array may be its address and its shape in the kernel; one with another number of
    dimensions raises ArgumentError.
    """
    found = []
    for sample, call in samples_with_calls(case):
        arguments = call.make_arguments()
        for number in range(len(arguments)):
            if _has_shape_behind(arguments, number):
                found.append((sample, call, number))
    for sample, call, number in applicable(found, "no call has an array with its shape behind it"):
        arguments = call.make_arguments()
        behind = slice(number + 1, number + 1 + arguments[number].ndim)
        given = list(arguments)
        del given[behind]
        types = sample.fmap[call.function].arg_types
        try:
            packed = devmod.Interface(_packed_params(types, number, behind))
            function = _function_with(case, sample, call, packed)
        except devmod.FormatError:
            raise Skip(_NO_PACKS) from None
        except devmod.LaunchError as error:
            if "does not support such arguments" in str(error):  # a shader has no place for them
                raise Skip(_NO_PACKS) from None
            raise
        launch(case, function, given, **call.keywords)
        compare_arrays(
            call,
            arguments,
            reference_arrays(call),
            "with an array that is its address and its shape",
        )
        given[number] = given[number][None]
        fault = f"with {given[number].ndim} dimensions of argument {number + 1}"
        with expect_argument_error(case, call, fault, f"p{number}"):
            launch(case, function, given, **call.keywords)


def _has_shape_behind(arguments: Sequence[Any], number: int) -> bool:
    """Whether an argument is an array, and the ints behind it are its shape."""
    shape = getattr(arguments[number], "shape", ())
    behind = arguments[number + 1 : number + 1 + len(shape)]
    if not shape or not all(type(each) is int for each in behind):
        return False
    return tuple(behind) == tuple(shape)


def _packed_params(types: Sequence[str], number: int, behind: slice) -> list[devmod.Param]:
    """Return params in which an array has its address and the values behind it as its pack."""
    params = plain_params(types)
    shape = [f"shape{axis}:{type_}" for axis, type_ in enumerate(types[behind])]
    params[number] = params[number].replace(pack=["ptr:handle", *shape])
    del params[behind]
    return params


def _first_block(interface: devmod.Interface) -> list[int]:
    """Return the numbers of the arguments in the first block of an interface; none if there is no
    block.
    """
    if not interface.blocks:
        return []
    numbers = []
    for number, param in enumerate(interface.params):
        if param.kind == "scalar" and isinstance(param.at, tuple) and param.at[0] == 0:
            numbers.append(number)
    return numbers


@row("R33-on")
def on_one_device(case: Conformance) -> None:
    """Function.on returns a function that runs on one device, and refuses the arrays of another
    one.
    """
    np = import_numpy()
    all_devices = list_devices(case)
    for _, call, function in called_functions(case):
        for device in all_devices:
            function_there = function.on(device)
            arguments = call.make_arguments()
            with device_turn(case.kind, device.index):
                function_there(*arguments, **call.keywords)
            compare_arrays(call, arguments, reference_arrays(call), f"of Function.on({device})")
            others = [each for each in all_devices if each is not device]
            arguments = call.make_arguments()
            arrays = [isinstance(each, np.ndarray) for each in arguments]
            if not others or True not in arrays:
                continue
            other = others[0]
            first = arrays.index(True)
            arguments[first] = other.from_numpy(arguments[first])
            with expect_argument_error(case, call, f"on {device} with an array of {other}", ""):
                function_there(*arguments, **call.keywords)
        with expect_error(devmod.ArgumentError, "Function.on(0)"):
            function.on(0)


def _names(info: devmod.FunctionInfo) -> list[str]:
    """Return the keywords of all arguments; none if one of them has no keyword of its own."""
    if info.interface is None:
        return []
    names = []
    for param in info.interface.params:
        name = param.name
        if iskeyword(name):
            name += "_"
        if not name.isidentifier() or name in LAUNCH_KEYWORDS or name in names:
            return []
        names.append(name)
    return names


def _wrong_names(
    names: list[str], call: Call
) -> Iterator[tuple[str, str, list[Any], int, dict[str, Any]]]:
    """Yield calls with wrong names: a description, the name, the arguments, the number of those by
    position, and those by name.
    """
    unknown = "no_such_argument"
    arguments = call.make_arguments()
    count = len(arguments)
    yield f"the unknown name {unknown!r}", unknown, arguments, count, {unknown: 1}
    first = names[0]
    last = names[-1]
    twice = {first: arguments[0]}
    yield f"{first!r} by position and by name", first, arguments, count, twice
    all_but_last = dict(zip(names[:-1], arguments[:-1], strict=True))
    yield f"no {last!r}", last, arguments, 0, all_but_last


def _calls_with_grids(case: Conformance) -> list[tuple[Sample, Call]]:
    if not has_grid(case):
        return []
    return [(sample, call) for sample, call in samples_with_calls(case) if call.grid is not None]


def _function_with(
    case: Conformance, sample: Sample, call: Call, interface: devmod.Interface
) -> Any:
    """Return the called function of a module in which it has another interface."""
    module = module_with(case, sample, call.function, interface=interface)
    return get_function(module, call.function)
