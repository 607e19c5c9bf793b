"""Calling: arguments that are wrong, and the shape of a launch behind the arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import devmod
from devmod.targets import find_spec
from devmod.testing._case import Call, Conformance
from devmod.testing._row import Skip
from devmod.testing._rows._tools import called_samples, compare, expected, function_of, launch, must, numpy, real, row, same, written

#: The launch tags that take a value (R35); the others take none.
_DIMENSIONS = {"blockIdx": "grid", "threadIdx": "block"}
_SHARED_MEMORY = "tirx.use_dyn_shared_memory"


@row("R34")
def arguments(case: Conformance) -> None:
    """A wrong argument is an ArgumentError that names it, before anything is launched."""
    np = numpy()
    for sample, call in called_samples(case):
        function = function_of(real(case, sample), call.function)
        info = sample.fmap[call.function]
        spec = find_spec(case.kind)
        has_grid = spec is None or spec.has_grid
        for what, number, given, keywords in _wrong_calls(info, call, has_grid):
            before = [np.copy(each) if isinstance(each, np.ndarray) else each for each in given]
            how = f"{call.function!r} given {what}"
            try:
                launch(case, function, given, **keywords)
            except devmod.ArgumentError as error:
                _check_error(case, error, how, call.function, "" if number is None else _name(info, number))
            except devmod.DeviceNotFoundError as error:
                raise Skip(f"there is no {case.kind} device here: {error}") from error
            except Exception as error:
                raise AssertionError(f"{how} raises {type(error).__name__} and not ArgumentError: {error}") from error
            else:
                raise AssertionError(f"{how} is launched; it must raise ArgumentError")
            for one, two in zip(given, before, strict=True):
                if isinstance(one, np.ndarray):
                    must(np.array_equal(one, two, equal_nan=one.dtype.kind in "fc"), f"{how} has changed an array")
        right, wanted = call.make_arguments(), expected(call)
        launch(case, function, right, **call.shape)
        compare(call, right, wanted, "called rightly after wrong calls")


@row("R35")
def launch_values(case: Conformance) -> None:
    """TVM's launch values may follow the arguments."""
    found = False
    for sample, call in called_samples(case):
        values = _launch_values(sample.fmap[call.function], call)
        if values is None:
            continue
        found = True
        given, wanted = call.make_arguments(), expected(call)
        launch(case, function_of(real(case, sample), call.function), [*given, *values])
        compare(call, given, wanted, f"called with the launch values {values}")
    if not found:
        raise Skip("no function that is called has launch_param_tags for its grid and block")


# -- inside


def _check_error(case: Conformance, error: devmod.ArgumentError, how: str, function: str, argument: str) -> None:
    """Fail unless the error of a wrong call says what it is about, to people and to programs."""
    same(error.kind, case.kind, f"{how}: the error's kind")
    must(repr(function) in str(error), f"{how}: the error does not name the function: {error}")
    if argument:
        same(error.argument, argument, f"{how}: the error's argument")
        must(argument in str(error), f"{how}: the error does not name the argument: {error}")


def _name(info: devmod.FunctionInfo, number: int) -> str:
    """What an argument is called: its name where one is known, else its number from 1."""
    name = info.interface.params[number].name if info.interface is not None else ""
    return name or str(number + 1)


def _wrong_calls(info: devmod.FunctionInfo, call: Call, has_grid: bool) -> Iterator[tuple[str, int | None, list[Any], dict[str, Any]]]:
    """Calls that must be refused: what is wrong, the argument's number or None, the arguments and the keywords."""
    np = numpy()
    right = call.make_arguments
    count = len(right())
    if count:
        yield "an argument too few", None, right()[:-1], call.shape
    yield "an argument too many", None, [*right(), None], call.shape
    for number, value in enumerate(right()):
        for what, wrong in _wrong_values(info, number, value):
            given = right()
            given[number] = wrong
            yield f"{what} as argument {number + 1}", number, given, call.shape
    for number in written(call):
        given = right()
        if isinstance(given[number], np.ndarray):
            given[number].setflags(write=False)
            yield f"an array that cannot be written as argument {number + 1}", number, given, call.shape
    if has_grid and call.grid is not None:
        for grid in (-1, "4", 1.5, (1, 1, 1, 1), (), None):
            yield f"grid={grid!r}", None, right(), {**call.shape, "grid": grid}
    if has_grid and call.block is not None:
        for block in (0, -1, "4", (1, 1, 1, 1)):
            yield f"block={block!r}", None, right(), {**call.shape, "block": block}
    yield "a stream that is none", None, right(), {**call.shape, "stream": object()}


def _wrong_values(info: devmod.FunctionInfo, number: int, value: Any) -> Iterator[tuple[str, Any]]:
    np = numpy()
    if isinstance(value, np.ndarray):
        yield "a str", "text"
        yield "None", None
        yield "a number", 1.5
        known = info.interface.params[number].type if info.interface is not None else ""
        if known and value.dtype.kind in "iuf":
            yield "an array of another type", value.astype("float64" if value.dtype != np.float64 else "float32")
    elif isinstance(value, (bool, int, float)):
        yield "a str", "text"
        yield "None", None
        yield "an array", np.zeros(3, "float32")
        name = info.arg_types[number]
        if name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
            yield "half a number", 0.5
            yield "a number that is too large", 1 << 70
            if name.startswith("u"):
                yield "a number below zero", -1


def _launch_values(info: devmod.FunctionInfo, call: Call) -> list[int] | None:
    """The call's grid and block as TVM gives them; None where the tags do not say all of both."""
    if call.grid is None or not info.launch_param_tags:
        return None
    triples = {word: _triple(getattr(call, word)) for word in _DIMENSIONS.values()}
    values, said = [], set()
    for tag in info.launch_param_tags:
        name, _, axis = tag.partition(".")
        if tag == _SHARED_MEMORY:
            values.append(0)
        elif name == "clusterCtaIdx":
            values.append(1)
        elif name in _DIMENSIONS:
            said.add((_DIMENSIONS[name], axis))
            values.append(triples[_DIMENSIONS[name]]["xyz".index(axis)])
    fixed = info.interface is not None and info.interface.block is not None
    for word, triple in triples.items():
        for axis, length in zip("xyz", triple, strict=True):
            if length != 1 and (word, axis) not in said and not (word == "block" and fixed):
                return None
    return values


def _triple(given: Any) -> tuple[int, int, int]:
    x, y, z = (*((given,) if isinstance(given, int) else given or ()), 1, 1, 1)[:3]
    return x, y, z
