"""The forms of a call, invalid arguments, and launch values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    reference_arrays,
    require,
    require_equal,
    row,
    runtime_module,
    samples_with_calls,
    triple,
    written_arrays,
)
from devmod_conformance._turn import device_turn

_Triple = tuple[int, int, int]
#: The launch tags of a grid or block dimension (R35), and the keyword argument of each.
_DIMENSIONS = {"blockIdx": "grid", "threadIdx": "block"}


@row("R34-invalid")
def invalid_arguments(case: Conformance) -> None:
    """An invalid argument raises ArgumentError, which names it, before any launch."""
    np = import_numpy()
    for sample, call, function in called_functions(case):
        info = sample.fmap[call.function]
        for fault, number, arguments, keywords in _invalid_calls(info, call, has_grid(case)):
            before = [np.copy(each) if isinstance(each, np.ndarray) else each for each in arguments]
            with expect_argument_error(
                case,
                call,
                f"with {fault}",
                "" if number is None else _name(info, number),
                "the kernel was launched",
            ):
                launch(case, function, arguments, **keywords)
            for one, two in zip(arguments, before, strict=True):
                if isinstance(one, np.ndarray):
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
                tags = [
                    tag
                    for tag in info.launch_param_tags
                    if not tag.startswith(added.removesuffix("x"))
                ]
                at = (
                    tags.index(DYNAMIC_SHARED_MEMORY)
                    if DYNAMIC_SHARED_MEMORY in tags
                    else len(tags)
                )
                info = info.replace(launch_param_tags=[*tags[:at], added, *tags[at:]])
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
        module = module_with(case, sample, call.function, info)
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
    arguments, expected = call.make_arguments(), reference_arrays(call)
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
    name = info.interface.params[number].name if info.interface is not None else ""
    return name or str(number + 1)


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
        declared = info.interface.params[number].type if info.interface is not None else ""
        if declared and value.dtype.kind in "iuf":
            yield (
                "an array of another type",
                value.astype("float64" if value.dtype != np.float64 else "float32"),
            )
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
    fixed = info.interface.block if info.interface is not None else None
    triples = {"grid": triple(call.grid), "block": triple(call.block or fixed)}
    values, dimensions = [], set()
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
        for axis, length in zip("xyz", lengths, strict=True):
            if (
                length != 1
                and (keyword, axis) not in dimensions
                and not (keyword == "block" and fixed)
            ):
                return None
    return values


@row("R34-names")
def arguments_by_name(case: Conformance) -> None:
    """Arguments by name compute the same result; an unknown, a missing or a doubled name raises
    ArgumentError, which names it.
    """
    pairs = [
        (sample, call)
        for sample, call in samples_with_calls(case)
        if _names(sample.fmap[call.function])
    ]
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
        wanted = tuple(one * two for one, two in zip(grid, block, strict=True))
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
        part = tuple(-(-count // 2) for count in grid)
        count = tuple(one * two for one, two in zip(part, block, strict=True))
        expected, arguments = call.make_arguments(), call.make_arguments()
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
    pairs = [
        (sample, call)
        for sample, call in _calls_with_grids(case)
        if max(triple(call.grid)) >= least
    ]
    functions = [(call, function) for _, call, function in called_functions(case, pairs)]
    with_block = [
        (call, function)
        for call, function in functions
        if call.block is not None or function.block is not None
    ]
    for call, function in applicable(with_block, reason):
        given = {"block": call.block} if call.block is not None else {}
        yield call, function, triple(call.grid), triple(given.get("block", function.block)), given


#: The number of threads in the largest block that the row tries. No device has as many.
_LARGEST_BLOCK = 1 << 21


@row("R34-limit")
def block_limit(case: Conformance) -> None:
    """Each block that is accepted computes the result. A block that is too large raises
    LaunchError, which names it, before any launch.
    """
    pairs = [
        (sample, call)
        for sample, call in _calls_with_grids(case)
        if call.block is not None
        and _has_spare_threads(call)
        and not _fixed_block(sample.fmap[call.function])
    ]
    reason = "no call chooses a block in x, has more threads than elements, and no devmod.Local: only such a call may have any block"
    for _, call, function in called_functions(case, applicable(pairs, reason)):
        size = triple(call.block)[0]
        threads = triple(call.grid)[0] * size
        while size < _LARGEST_BLOCK:
            size *= 2
            description, arguments = f"with block={size}", call.make_arguments()
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


#: The tolerance for a float scalar.
_ROUNDING = 1e-5


@row("R34-floats")
def float_scalars(case: Conformance) -> None:
    """A scalar of 32 or 64 bits that is a float has all its bits in the kernel."""
    found = [
        (sample, call, number)
        for sample, call in samples_with_calls(case)
        for number, value in enumerate(call.make_arguments())
        if isinstance(value, float)
        and sample.fmap[call.function].arg_types[number] in ("float32", "float64")
    ]
    for sample, call, number in applicable(
        found, "no call has a scalar of type float32 or float64"
    ):
        function = get_function(runtime_module(case, sample), call.function)
        given, expected = call.make_arguments(), call.make_arguments()
        given[number] = expected[number] = (given[number] or 1) * 4 / 3
        call.reference(*expected)
        launch(case, function, given, **call.keywords)
        # 16 bits change a number by up to 5e-4. A reference may round in another order.
        exact = replace(call, rtol=min(call.rtol, _ROUNDING), atol=min(call.atol, _ROUNDING))
        compare_arrays(exact, given, expected, f"with {given[number]!r} as argument {number + 1}")


@row("R34-scalars")
def all_scalars(case: Conformance) -> None:
    """A scalar of each type has its value in the kernel:

    its sign, its highest bits and each digit.
    """
    np = import_numpy()
    for sample in kernels_of_row(
        case,
        case.scalars,
        "the case has no scalars: the backend gives no kernels that store a scalar",
    ):
        module = runtime_module(case, sample)
        for name, info in sample.fmap.items():
            function, dtype = get_function(module, name), np.dtype(info.arg_types[1])
            keywords = (
                {}
                if not has_grid(case)
                else {"grid": 1}
                if function.block
                else {"grid": 1, "block": 1}
            )
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
        most, step = float(np.finfo(dtype).max), float(np.finfo(dtype).eps)
        return [1 + step, -1 - step, most, -most, 0.0]
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return [most, most - 5, most // 2 + 2, 1, 0, *([-1, -2, least] if least else [])]


def _has_spare_threads(call: Call) -> bool:
    """Return whether the call has more threads, all in x, than array elements, and no memory of a
    block: then each thread is compared.
    """
    arguments, grid, block = call.make_arguments(), triple(call.grid), triple(call.block)
    is_larger = grid[0] * block[0] > max(getattr(each, "size", 0) for each in arguments)
    return (
        grid[1:] == block[1:] == (1, 1)
        and is_larger
        and not any(isinstance(each, devmod.Local) for each in arguments)
    )


def _fixed_block(info: devmod.FunctionInfo) -> tuple[int, int, int] | None:
    return info.interface.block if info.interface is not None else None


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
    found = [
        each
        for each in _interfaces(_calls_with_grids(case))
        if each[1].block is not None and each[2].block is None
    ]
    for sample, call, interface in applicable(
        found, "no call has a block and an interface that fixes none"
    ):
        block = triple(call.block)
        function = _function_with(
            case,
            sample,
            call,
            {**interface.to_dict(), "default_block": list(block), "open_block": False},
        )
        require_equal(
            function.block,
            block,
            f"the block of {call.function!r} with a default block in its interface",
        )
        for keywords in (
            {"grid": call.grid},
            {
                "threads": tuple(
                    one * two for one, two in zip(triple(call.grid), block, strict=True)
                )
            },
        ):
            check_call(
                case,
                call,
                function,
                f"with the default block and {next(iter(keywords))}=",
                **keywords,
            )


@row("R34-open")
def chosen_block(case: Conformance) -> None:
    """The backend chooses a block of powers of two where the interface leaves it open."""
    found = [each for each in _interfaces(_calls_with_grids(case)) if each[2].open_block]
    for sample, call, interface in applicable(
        found, "no called function has an interface that leaves the block open"
    ):
        function = get_function(runtime_module(case, sample), call.function)
        wanted = tuple(
            one * two
            for one, two in zip(
                triple(call.grid), triple(call.block or interface.default_block), strict=True
            )
        )
        for size in ({"threads": wanted}, {"threads": 1}, {"grid": 1}):
            config = function.launch_config(**size)
            require(
                len(config.block) == 3
                and all(each > 0 and each & (each - 1) == 0 for each in config.block),
                f"the block that the backend chooses for {call.function!r}: expected powers of two, got {config.block!r}",
            )
        check_call(case, call, function, "with a block that the backend chose", threads=wanted)


@row("R34-local")
def local_default(case: Conformance) -> None:
    """A Local argument with a default in the interface may be omitted."""
    with_local = [
        (sample, call, interface)
        for sample, call, interface in _interfaces(samples_with_calls(case))
        if any(isinstance(value, devmod.Local) for value in call.make_arguments())
    ]
    for sample, call, interface in applicable(
        with_local, "no call has a devmod.Local argument and an interface"
    ):
        arguments = call.make_arguments()
        params = [param.to_dict() for param in interface.params]
        for param, value in zip(params, arguments, strict=True):
            if isinstance(value, devmod.Local):
                param["default"] = {"bytes": value.nbytes}
        function = _function_with(case, sample, call, {**interface.to_dict(), "params": params})
        launch(
            case,
            function,
            [each for each in arguments if not isinstance(each, devmod.Local)],
            **call.keywords,
        )
        compare_arrays(call, arguments, reference_arrays(call), "without its Local arguments")


@row("R34-structs")
def structs(case: Conformance) -> None:
    """A struct by value may be a record, a mapping, a sequence or bytes; a missing member raises
    ArgumentError, which names it.
    """
    np = import_numpy()
    found = [
        (sample, call, number, param)
        for sample, call, interface in _interfaces(samples_with_calls(case))
        for number, param in enumerate(interface.params)
        if param.members and param.kind != "buffer"
    ]
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
            launch(
                case,
                function,
                [*arguments[:number], value, *arguments[number + 1 :]],
                **call.keywords,
            )
            compare_arrays(
                call, arguments, reference_arrays(call), f"with {form} as argument {number + 1}"
            )
        missing = dtype.names[-1]
        arguments, fault = (
            call.make_arguments(),
            f"without the member {missing!r} of argument {number + 1}",
        )
        del mapping[missing]
        with expect_argument_error(case, call, fault, param.name) as caught:
            launch(
                case,
                function,
                [*arguments[:number], mapping, *arguments[number + 1 :]],
                **call.keywords,
            )
        require(
            missing in str(caught[0]),
            f"{call.function!r} {fault}: the error does not name the member: {caught[0]}",
        )


@row("R34-records")
def records(case: Conformance) -> None:
    """The scalars of a block may be given as one record under its name; the record beside one of
    its members raises ArgumentError.
    """
    found = [
        (sample, call, interface, members)
        for sample, call, interface in _interfaces(samples_with_calls(case))
        if _names(sample.fmap[call.function]) and (members := _first_block(interface))
    ]
    for sample, call, interface, members in applicable(
        found, "no called function has scalars in a block of memory in its interface"
    ):
        blocks = [block.to_dict() for block in interface.blocks]
        blocks[0]["name"] = "devmod_record"
        function = _function_with(case, sample, call, {**interface.to_dict(), "blocks": blocks})
        arguments = call.make_arguments()
        given = dict(zip(_names(sample.fmap[call.function]), arguments, strict=True))
        record = {interface.params[number].name: arguments[number] for number in members}
        others = {
            name: value
            for number, (name, value) in enumerate(given.items())
            if number not in members
        }
        launch(case, function, [], **others, devmod_record=record, **call.keywords)
        compare_arrays(
            call, arguments, reference_arrays(call), "with the scalars of a block as one record"
        )
        first, value = next(
            (name, value) for number, (name, value) in enumerate(given.items()) if number in members
        )
        with expect_argument_error(case, call, f"with a record and its member {first!r}", first):
            launch(
                case,
                function,
                [],
                **others,
                devmod_record=record,
                **{first: value},
                **call.keywords,
            )


@row("R34-packs")
def packs(case: Conformance) -> None:
    """An array may be its address and its shape in the kernel; one with another number of
    dimensions raises ArgumentError.
    """
    found = [
        (sample, call, number)
        for sample, call in samples_with_calls(case)
        for arguments in [call.make_arguments()]
        for number, value in enumerate(arguments)
        if (shape := getattr(value, "shape", ()))
        and [type(each) for each in arguments[number + 1 :]][: len(shape)] == [int] * len(shape)
        if tuple(arguments[number + 1 : number + 1 + len(shape)]) == shape
    ]
    for sample, call, number in applicable(found, "no call has an array with its shape behind it"):
        types, arguments = sample.fmap[call.function].arg_types, call.make_arguments()
        params: list[dict[str, Any]] = [
            {"name": f"p{place}", "kind": "buffer"}
            if type_ == "handle"
            else {"name": f"p{place}", "kind": "scalar", "type": type_}
            for place, type_ in enumerate(types)
        ]
        behind = slice(number + 1, number + 1 + arguments[number].ndim)
        params[number]["pack"] = [
            "ptr:handle",
            *(f"shape{axis}:{type_}" for axis, type_ in enumerate(types[behind])),
        ]
        del params[behind]
        given = list(arguments)
        del given[behind]
        try:
            function = _function_with(case, sample, call, {"params": params})
        except (devmod.LaunchError, devmod.FormatError) as error:
            if isinstance(error, devmod.FormatError) or "does not support such arguments" in str(
                error
            ):  # a shader has no place for them
                raise Skip("the backend takes no array as several values of a kernel") from None
            raise
        launch(case, function, given, **call.keywords)
        compare_arrays(
            call,
            arguments,
            reference_arrays(call),
            "with an array that is its address and its shape",
        )
        given[number] = given[number][None]
        with expect_argument_error(
            case,
            call,
            f"with {given[number].ndim} dimensions of argument {number + 1}",
            f"p{number}",
        ):
            launch(case, function, given, **call.keywords)


def _first_block(interface: devmod.Interface) -> list[int]:
    """Return the numbers of the arguments in the first block of an interface; none if there is no
    block.
    """
    places = (
        [param.at if param.kind == "scalar" else None for param in interface.params]
        if interface.blocks
        else []
    )
    return [number for number, at in enumerate(places) if isinstance(at, tuple) and at[0] == 0]


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
            other = next((each for each in all_devices if each is not device), None)
            arguments = call.make_arguments()
            first = next(
                (number for number, each in enumerate(arguments) if isinstance(each, np.ndarray)),
                None,
            )
            if other is None or first is None:
                continue
            arguments[first] = other.from_numpy(arguments[first])
            with expect_argument_error(case, call, f"on {device} with an array of {other}", ""):
                function_there(*arguments, **call.keywords)
        with expect_error(devmod.ArgumentError, "Function.on(0)"):
            function.on(0)


def _names(info: devmod.FunctionInfo) -> list[str]:
    """Return the keywords of all arguments; none if one of them has no keyword of its own."""
    if info.interface is None:
        return []
    names = [param.name + "_" * iskeyword(param.name) for param in info.interface.params]
    usable = all(name.isidentifier() and name not in LAUNCH_KEYWORDS for name in names)
    return names if usable and len(set(names)) == len(names) else []


def _wrong_names(
    names: list[str], call: Call
) -> Iterator[tuple[str, str, list[Any], int, dict[str, Any]]]:
    """Yield calls with wrong names: a description, the name, the arguments, the number of those by
    position, and those by name.
    """
    unknown, arguments = "no_such_argument", call.make_arguments()
    yield f"the unknown name {unknown!r}", unknown, arguments, len(arguments), {unknown: 1}
    yield (
        f"{names[0]!r} by position and by name",
        names[0],
        arguments,
        len(arguments),
        {names[0]: arguments[0]},
    )
    yield (
        f"no {names[-1]!r}",
        names[-1],
        arguments,
        0,
        dict(list(zip(names, arguments, strict=True))[:-1]),
    )


def _calls_with_grids(case: Conformance) -> list[tuple[Sample, Call]]:
    return (
        [(sample, call) for sample, call in samples_with_calls(case) if call.grid is not None]
        if has_grid(case)
        else []
    )


def _interfaces(
    pairs: Iterable[tuple[Sample, Call]],
) -> list[tuple[Sample, Call, devmod.Interface]]:
    """Return the calls whose function has an interface, with it."""
    described = [(sample, call, sample.fmap[call.function].interface) for sample, call in pairs]
    return [
        (sample, call, interface) for sample, call, interface in described if interface is not None
    ]


def _function_with(case: Conformance, sample: Sample, call: Call, interface: dict[str, Any]) -> Any:
    """Return the called function of a module in which it has another interface."""
    info = sample.fmap[call.function].replace(interface=devmod.Interface.from_dict(interface))
    return get_function(module_with(case, sample, call.function, info), call.function)
