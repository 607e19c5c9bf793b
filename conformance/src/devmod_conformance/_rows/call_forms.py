"""The forms of a call: arguments by name, threads in place of a grid, omitted blocks and local memory, structs, one device."""

from __future__ import annotations

from collections.abc import Iterator
from keyword import iskeyword
from typing import Any

import devmod
from devmod.plugins import find_spec
from devmod_conformance._case import Call, Conformance, Sample
from devmod_conformance._row import Skip
from devmod_conformance._rows._tools import (
    check_argument_error,
    check_refused_call,
    compare_arrays,
    expect_error,
    get_function,
    import_numpy,
    launch,
    list_devices,
    reference_arrays,
    require,
    require_equal,
    row,
    runtime_module,
    samples_with_calls,
    triple,
)
from devmod_conformance._turn import device_turn

#: The launch's own keywords. A parameter of such a name is given by position.
_LAUNCH_KEYWORDS = ("grid", "block", "threads", "stream", "shared_memory")


@row("R34-names")
def arguments_by_name(case: Conformance) -> None:
    """Arguments by name compute the same result; an unknown, a missing or a doubled name raises ArgumentError, which names it."""
    applies = False
    for sample, call in samples_with_calls(case):
        names = _names(sample.fmap[call.function])
        if not names:
            continue
        applies = True
        function = get_function(runtime_module(case, sample), call.function)
        for count in dict.fromkeys((0, len(names) // 2)):
            arguments = call.make_arguments()
            keywords = dict(reversed(list(zip(names, arguments, strict=True))[count:]))
            launch(case, function, arguments[:count], **keywords, **call.keywords)
            compare_arrays(call, arguments, reference_arrays(call), f"with {count} arguments by position and the others by name")
        for fault, name, arguments, count, keywords in _wrong_names(names, call):
            check_refused_call(case, call, function, arguments, fault, name, count=count, **keywords, **call.keywords)
    if not applies:
        raise Skip("no called function has an interface with a name for each argument")


@row("R34-threads")
def threads(case: Conformance) -> None:
    """threads= computes the result of the grid that covers the threads, and launch_config returns this grid."""
    applies = False
    for sample, call in _calls_with_grids(case):
        function = get_function(runtime_module(case, sample), call.function)
        block = triple(call.block) if call.block is not None else function.block
        if block is None:
            continue
        applies = True
        grid = triple(call.grid)
        wanted = tuple(one * two for one, two in zip(grid, block, strict=True))
        keywords: dict[str, Any] = {"block": call.block} if call.block is not None else {}
        fewer = (wanted[0] - block[0] + 1, *wanted[1:])  # one thread in the last block
        for count in dict.fromkeys((wanted, fewer)):
            config = function.launch_config(threads=count, **keywords)
            require_equal((config.grid, config.block), (grid, block), f"the grid and the block of {call.function!r} with threads={count}")
            arguments = call.make_arguments()
            launch(case, function, arguments, threads=count, **keywords)
            compare_arrays(call, arguments, reference_arrays(call), f"with threads={count}")
        for fault, wrong in (("both grid and threads", {"grid": call.grid, "threads": wanted}), ("a negative threads", {"threads": -1})):
            check_refused_call(case, call, function, call.make_arguments(), fault, "threads", **wrong, **keywords)
    if not applies:
        raise Skip("no call has a grid and a block")


@row("R34-gridless")
def no_grid(case: Conformance) -> None:
    """A kind without a grid refuses grid=, block= and threads= with an ArgumentError that names the argument, before any launch."""
    spec = find_spec(case.kind)
    if spec is None or spec.has_grid:
        raise Skip("a launch of this kind has a grid")
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        require_equal(function.block, None, f"the block of {call.function!r}, whose launch has no threads")
        for name in ("grid", "block", "threads"):
            check_refused_call(case, call, function, call.make_arguments(), f"{name}=1", name, **{name: 1})


@row("R34-block")
def default_block(case: Conformance) -> None:
    """A call without a block uses the default block of the interface."""
    applies = False
    for sample, call in _calls_with_grids(case):
        interface = sample.fmap[call.function].interface
        if interface is None or interface.block is not None or call.block is None:
            continue
        applies = True
        block = triple(call.block)
        changed = {**interface.to_dict(), "default_block": list(block), "open_block": False}
        function = get_function(_module_with(case, sample, call, changed), call.function)
        require_equal(function.block, block, f"the block of {call.function!r} with a default block in its interface")
        for keywords in ({"grid": call.grid}, {"threads": tuple(one * two for one, two in zip(triple(call.grid), block, strict=True))}):
            arguments = call.make_arguments()
            launch(case, function, arguments, **keywords)
            compare_arrays(call, arguments, reference_arrays(call), f"with the default block and {next(iter(keywords))}=")
    if not applies:
        raise Skip("no call has a block and an interface that fixes none")


@row("R34-open")
def chosen_block(case: Conformance) -> None:
    """The backend chooses a block of powers of two where the interface leaves it open."""
    applies = False
    for sample, call in _calls_with_grids(case):
        interface = sample.fmap[call.function].interface
        if interface is None or not interface.open_block:
            continue
        applies = True
        function = get_function(runtime_module(case, sample), call.function)
        wanted = tuple(one * two for one, two in zip(triple(call.grid), triple(call.block or interface.default_block), strict=True))
        for size in ({"threads": wanted}, {"threads": 1}, {"grid": 1}):
            config = function.launch_config(**size)
            require(
                len(config.block) == 3 and all(each > 0 and each & (each - 1) == 0 for each in config.block),
                f"the block that the backend chooses for {call.function!r}: expected powers of two, got {config.block!r}",
            )
        arguments = call.make_arguments()
        launch(case, function, arguments, threads=wanted)
        compare_arrays(call, arguments, reference_arrays(call), "with a block that the backend chose")
    if not applies:
        raise Skip("no called function has an interface that leaves the block open")


@row("R34-local")
def local_default(case: Conformance) -> None:
    """A Local argument with a default in the interface may be omitted."""
    applies = False
    for sample, call in samples_with_calls(case):
        interface = sample.fmap[call.function].interface
        locals_ = {number: value for number, value in enumerate(call.make_arguments()) if isinstance(value, devmod.Local)}
        if interface is None or not locals_:
            continue
        applies = True
        params = [param.to_dict() for param in interface.params]
        for number, value in locals_.items():
            params[number]["default"] = {"bytes": value.nbytes}
        changed = {**interface.to_dict(), "params": params}
        function = get_function(_module_with(case, sample, call, changed), call.function)
        arguments = call.make_arguments()
        launch(case, function, [each for number, each in enumerate(arguments) if number not in locals_], **call.keywords)
        compare_arrays(call, arguments, reference_arrays(call), "without its Local arguments")
    if not applies:
        raise Skip("no call has a devmod.Local argument and an interface")


@row("R34-structs")
def structs(case: Conformance) -> None:
    """A struct by value may be a record, a mapping, a sequence or bytes; a missing member raises ArgumentError, which names it."""
    np = import_numpy()
    applies = False
    for sample, call in samples_with_calls(case):
        interface = sample.fmap[call.function].interface
        for number, param in enumerate(interface.params if interface is not None else ()):
            if not param.members or param.kind == "buffer":
                continue
            applies = True
            function = get_function(runtime_module(case, sample), call.function)
            dtype: Any = param.dtype
            record = np.asarray(call.make_arguments()[number], dtype)
            mapping = {name: record[name] for name in dtype.names}
            forms = {"a record": record[()], "a mapping": mapping, "a sequence": tuple(mapping.values()), "bytes": record.tobytes()}
            for form, value in forms.items():
                arguments = call.make_arguments()
                launch(case, function, [*arguments[:number], value, *arguments[number + 1 :]], **call.keywords)
                compare_arrays(call, arguments, reference_arrays(call), f"with {form} as argument {number + 1}")
            missing = dtype.names[-1]
            arguments, description = call.make_arguments(), f"{call.function!r} without the member {missing!r} of argument {number + 1}"
            del mapping[missing]
            with expect_error(devmod.ArgumentError, description) as caught:
                launch(case, function, [*arguments[:number], mapping, *arguments[number + 1 :]], **call.keywords)
            check_argument_error(case, caught[0], description, call.function, param.name)
            require(missing in str(caught[0]), f"{description}: the error does not name the member: {caught[0]}")
    if not applies:
        raise Skip("no called function has a struct with members in its interface")


@row("R33-on")
def on_one_device(case: Conformance) -> None:
    """Function.on returns a function that runs on one device, and refuses the arrays of another one."""
    np = import_numpy()
    all_devices = list_devices(case)
    for sample, call in samples_with_calls(case):
        function = get_function(runtime_module(case, sample), call.function)
        for device in all_devices:
            function_there = function.on(device)
            arguments = call.make_arguments()
            with device_turn(case.kind, device.index):
                function_there(*arguments, **call.keywords)
            compare_arrays(call, arguments, reference_arrays(call), f"of Function.on({device})")
            other = next((each for each in all_devices if each is not device), None)
            arguments = call.make_arguments()
            first = next((number for number, each in enumerate(arguments) if isinstance(each, np.ndarray)), None)
            if other is None or first is None:
                continue
            arguments[first] = other.from_numpy(arguments[first])
            description = f"{call.function!r} on {device} with an array of {other}"
            with expect_error(devmod.ArgumentError, description) as caught:
                function_there(*arguments, **call.keywords)
            check_argument_error(case, caught[0], description, call.function, "")
        with expect_error(devmod.ArgumentError, "Function.on('text')"):
            function.on("text")


# -- inside


def _names(info: devmod.FunctionInfo) -> list[str]:
    """Return the keywords of all arguments; none if one of them has no keyword of its own."""
    if info.interface is None:
        return []
    names = [param.name + "_" * iskeyword(param.name) for param in info.interface.params]
    usable = all(name.isidentifier() and name not in _LAUNCH_KEYWORDS for name in names)
    return names if usable and len(set(names)) == len(names) else []


def _wrong_names(names: list[str], call: Call) -> Iterator[tuple[str, str, list[Any], int, dict[str, Any]]]:
    """Yield calls with wrong names: a description, the name, the arguments, the number of those by position, and those by name."""
    unknown, arguments = "no_such_argument", call.make_arguments()
    yield f"the unknown name {unknown!r}", unknown, arguments, len(arguments), {unknown: 1}
    yield f"{names[0]!r} by position and by name", names[0], arguments, len(arguments), {names[0]: arguments[0]}
    yield f"no {names[-1]!r}", names[-1], arguments, 0, dict(list(zip(names, arguments, strict=True))[:-1])


def _calls_with_grids(case: Conformance) -> list[tuple[Sample, Call]]:
    spec = find_spec(case.kind)
    if spec is not None and not spec.has_grid:
        return []
    return [(sample, call) for sample, call in samples_with_calls(case) if call.grid is not None]


def _module_with(case: Conformance, sample: Sample, call: Call, interface: dict[str, Any]) -> devmod.Module:
    """Return the backend's module of a sample, with another interface of the called function."""
    info = sample.fmap[call.function]
    parsed = devmod.Interface.from_dict(interface)
    changed = devmod.FunctionInfo(info.name, info.arg_types, info.launch_param_tags, info.arg_extra_tags, parsed)
    return devmod.create(case.kind, sample.code, sample.fmt, {**sample.fmap, call.function: changed})
