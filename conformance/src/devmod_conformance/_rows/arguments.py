"""Invalid arguments, and launch values after the arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import devmod
from devmod.backend import COOPERATIVE_TAG, DYNAMIC_SHARED_MEMORY, value_tags
from devmod.plugins import find_spec
from devmod_conformance._case import Call, Conformance, Sample
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    check_argument_error,
    compare_arrays,
    get_function,
    import_numpy,
    launch,
    reference_arrays,
    require,
    require_equal,
    row,
    runtime_module,
    samples_with_calls,
    triple,
    written_arrays,
)

#: The launch tags of a grid or block dimension (R35), and the keyword argument of each.
_DIMENSIONS = {"blockIdx": "grid", "threadIdx": "block"}


@row("R34-invalid")
def invalid_arguments(case: Conformance) -> None:
    """An invalid argument raises ArgumentError, which names it, before any launch."""
    np = import_numpy()
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        info = sample.fmap[call.function]
        spec = find_spec(case.kind)
        has_grid = spec is None or spec.has_grid
        for fault, number, arguments, keywords in _invalid_calls(info, call, has_grid):
            before = [np.copy(each) if isinstance(each, np.ndarray) else each for each in arguments]
            description = f"{call.function!r} with {fault}"
            try:
                launch(case, function, arguments, **keywords)
            except devmod.ArgumentError as error:
                check_argument_error(case, error, description, call.function, "" if number is None else _name(info, number))
            except devmod.DeviceNotFoundError as error:
                raise Skip(f"this machine has no {case.kind} device: {error}") from error
            except Exception as error:
                raise AssertionError(f"{description}: expected ArgumentError, got {type(error).__name__}: {error}") from error
            else:
                raise AssertionError(f"{description}: expected ArgumentError, but the kernel was launched")
            for one, two in zip(arguments, before, strict=True):
                if isinstance(one, np.ndarray):
                    require(np.array_equal(one, two, equal_nan=one.dtype.kind in "fc"), f"{description} changes an array")
        valid, expected = call.make_arguments(), reference_arrays(call)
        launch(case, function, valid, **call.keywords)
        compare_arrays(call, valid, expected, "called with valid arguments after invalid calls")


@row("R35-values")
def launch_values(case: Conformance) -> None:
    """A function with launch_param_tags accepts TVM's launch values after its arguments."""
    applies = False
    for sample, call in samples_with_calls(case):
        values = _launch_values(sample.fmap[call.function], call)
        if values is None:
            continue
        applies = True
        arguments, expected = call.make_arguments(), reference_arrays(call)
        launch(case, get_function(runtime_module(case, sample), call.function), [*arguments, *values])
        compare_arrays(call, arguments, expected, f"called with the launch values {values}")
    if not applies:
        raise Skip("no called function has launch_param_tags for its grid and block")


@row("R35-clusters")
def clusters(case: Conformance) -> None:
    """A launch with clusters computes the same result, or raises LaunchError before any launch."""
    applies = False
    for sample, call in samples_with_calls(case):
        info = sample.fmap[call.function]
        tags = [tag for tag in info.launch_param_tags if not tag.startswith("clusterCtaIdx.")]
        at = tags.index(DYNAMIC_SHARED_MEMORY) if DYNAMIC_SHARED_MEMORY in tags else len(tags)
        function, values = _tagged(case, sample, call, [*tags[:at], "clusterCtaIdx.x", *tags[at:]])
        if values is None:
            continue
        applies = True
        if function is None:
            continue
        _check_launch(case, call, function, values, "launched with clusters of one block", may_refuse=False)
        if triple(call.grid)[0] % 2 == 0:
            wide = _launch_values(function.info, call, cluster=2)
            assert wide is not None
            _check_launch(case, call, function, wide, "launched with clusters of two blocks")
    if not applies:
        raise Skip("no called function has launch_param_tags for its grid and block")


@row("R35-cooperative")
def cooperative(case: Conformance) -> None:
    """A cooperative launch computes the same result, or raises LaunchError before any launch."""
    applies = False
    for sample, call in samples_with_calls(case):
        tags = [tag for tag in sample.fmap[call.function].launch_param_tags if tag != COOPERATIVE_TAG]
        at = tags.index(DYNAMIC_SHARED_MEMORY) if DYNAMIC_SHARED_MEMORY in tags else len(tags)
        function, values = _tagged(case, sample, call, [*tags[:at], COOPERATIVE_TAG, *tags[at:]])
        if values is None:
            continue
        applies = True
        if function is None:
            continue
        _check_launch(case, call, function, values, "launched cooperatively")
    if not applies:
        raise Skip("no called function has launch_param_tags for its grid and block")


# -- inside


def _tagged(case: Conformance, sample: Sample, call: Call, tags: Sequence[str]) -> tuple[Any, list[int] | None]:
    """Return a function with other launch tags, and its launch values.

    The function is None if the device has no such launches. The values are None if the tags lack a dimension.
    """
    info = sample.fmap[call.function]
    tagged = devmod.FunctionInfo(info.name, info.arg_types, tags, info.arg_extra_tags, info.interface)
    values = _launch_values(tagged, call)
    if values is None:
        return None, None
    module = devmod.create(case.kind, sample.code, sample.fmt, {**sample.fmap, call.function: tagged})
    try:
        return get_function(module, call.function), values
    except devmod.LaunchError:
        return None, values


def _check_launch(
    case: Conformance, call: Call, function: Any, values: Sequence[int], description: str, *, may_refuse: bool = True
) -> None:
    """Raise AssertionError unless the launch computes the reference's result, or raises LaunchError if it may and changes nothing."""
    arguments, expected = call.make_arguments(), reference_arrays(call)
    try:
        launch(case, function, [*arguments, *values])
    except devmod.LaunchError as error:
        require(may_refuse, f"{call.function!r} {description}: expected a launch, got LaunchError: {error}")
        require_equal(error.kind, case.kind, f"{call.function!r} {description}: the kind in the error")
        compare_arrays(call, arguments, call.make_arguments(), f"{description}, with LaunchError")
    except devmod.DeviceNotFoundError as error:
        raise Skip(f"this machine has no {case.kind} device: {error}") from error
    except Exception as error:
        raise AssertionError(f"{call.function!r} {description}: expected LaunchError, got {type(error).__name__}: {error}") from error
    else:
        compare_arrays(call, arguments, expected, description)


def _name(info: devmod.FunctionInfo, number: int) -> str:
    """Return the name of an argument, or its number from 1 if the name is unknown."""
    name = info.interface.params[number].name if info.interface is not None else ""
    return name or str(number + 1)


def _invalid_calls(info: devmod.FunctionInfo, call: Call, has_grid: bool) -> Iterator[tuple[str, int | None, list[Any], dict[str, Any]]]:
    """Yield invalid calls: a description, the argument's number or None, the arguments and the keywords."""
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
    if has_grid and call.grid is not None:
        for grid in (-1, "4", 1.5, (1, 1, 1, 1), (), None):
            yield f"grid={grid!r}", None, create(), {**call.keywords, "grid": grid}
    if has_grid and call.block is not None:
        for block in (0, -1, "4", (1, 1, 1, 1)):
            yield f"block={block!r}", None, create(), {**call.keywords, "block": block}
    yield "an object that is not a stream", None, create(), {**call.keywords, "stream": object()}


def _invalid_values(info: devmod.FunctionInfo, number: int, value: Any) -> Iterator[tuple[str, Any]]:
    np = import_numpy()
    if isinstance(value, np.ndarray):
        yield "a str", "text"
        yield "None", None
        yield "a number", 1.5
        declared = info.interface.params[number].type if info.interface is not None else ""
        if declared and value.dtype.kind in "iuf":
            yield "an array of another type", value.astype("float64" if value.dtype != np.float64 else "float32")
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
    """Return the grid and block as TVM's launch values, with clusters of `cluster` blocks; None if the tags lack a dimension."""
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
            if length != 1 and (keyword, axis) not in dimensions and not (keyword == "block" and fixed):
                return None
    return values
