"""Arguments by name, functions that take names alone, and functions on one device."""

from __future__ import annotations

import copy
import ctypes
import gc
import sys
import weakref
from collections.abc import Callable
from functools import partial
from inspect import isroutine, signature
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import refusal
from work import frames

import devmod
from devmod import FunctionInfo, Interface, Param

TAKES = "it takes 4 arguments (x, y, alpha, n)"


def make(*params: Param, tags: tuple[str, ...] = (), **launcher: Any) -> devmod.Function:
    types = {"buffer": "handle", "local": "handle"}
    info = FunctionInfo(
        "f", [types.get(param.kind, param.type) for param in params], tags, (), Interface(params)
    )
    return toy.module({"f": info}, {}, **launcher)["f"]


def axpy(**changes: Any) -> devmod.Function:
    return make(
        Param("x", "buffer", "float32", "r"),
        Param("y", "buffer", "float32", "rw"),
        Param("alpha", "scalar", "float32"),
        Param("n", "scalar", "int32"),
        **changes,
    )


def queued(device: toy.ToyDevice) -> list[list[Any]]:
    """The values that the device's kernels received."""
    return [values for _, values in device.default_stream.queued]


@pytest.mark.row("R34")
def test_arguments_by_name_are_those_by_position(devices: list[toy.ToyDevice]) -> None:
    f = axpy()
    x, y = (devices[0].from_numpy(np.ones(4, "float32")) for _ in range(2))
    for _ in range(2):  # the second call of each form takes the short path
        f(x, y, 2.0, 4, grid=1, block=4)
        f(n=4, alpha=2.0, y=y, x=x, grid=1, block=4)
        f(x, y, n=4, alpha=2.0, grid=1, block=4)
        f(x, y, 2.0, n=4, grid=1, block=4)
    f.bind(x, n=4, y=y, alpha=2.0, grid=1, block=4)()
    seen = queued(devices[0])
    assert len(seen) == 9
    for values in seen:
        assert [
            value is memory for value, memory in zip(values, (x.memory, y.memory), strict=False)
        ] == [True, True]
        assert values[2:] == [b"\0\0\0@", b"\x04\0\0\0"]


@pytest.mark.row("R34")
@pytest.mark.parametrize(
    ("count", "names", "text", "argument"),
    [
        (4, "n", f"got argument 4 'n' twice: by position and by name; {TAKES}", "n"),
        (2, "x alpha n", f"got argument 1 'x' twice: by position and by name; {TAKES}", "x"),
        (0, "x y alhpa n", f"has no argument 'alhpa'; {TAKES}. Did you mean 'alpha'?", "alhpa"),
        (3, "z", f"has no argument 'z'; {TAKES}", "z"),
        (3, "", f"is missing an argument: 'n'; {TAKES}", "n"),
        (1, "alpha", f"is missing arguments: 'y', 'n'; {TAKES}", "y"),
        (0, "", f"is missing arguments: 'x', 'y', 'alpha', 'n'; {TAKES}", "x"),
        (5, "", "takes 4 arguments (x, y, alpha, n); 5 were given", ""),
    ],
)
def test_the_error_for_names_and_counts_lists_the_names(
    count: int, names: str, text: str, argument: str, devices: list[toy.ToyDevice]
) -> None:
    f = axpy()
    y = devices[0].from_numpy(np.ones(4, "float32"))
    good = {"x": y, "y": y, "alpha": 1.0, "n": 4}
    args = [*good.values(), 5][:count]
    for call in (f, f.bind):
        with pytest.raises(devmod.ArgumentError) as caught:
            call(*args, **{name: good.get(name, 1) for name in names.split()}, grid=1, block=4)
        assert str(caught.value) == f"the toy function 'f' {text}"
        assert (caught.value.kind, caught.value.function, caught.value.argument) == (
            "toy",
            "f",
            argument,
        )
    assert queued(devices[0]) == []


def test_launch_values_follow_arguments_by_position_alone(devices: list[toy.ToyDevice]) -> None:
    f = make(Param("n", "scalar", "int32"), tags=("blockIdx.x", "threadIdx.x"))
    f(1, 2, 3)
    assert refusal(devmod.ArgumentError, f, 1, 2, 3, n=1) == (
        "the toy function 'f' is called with launch values and with arguments by name; launch values follow the arguments by position"
    )
    assert refusal(devmod.ArgumentError, f, 2, 3, n=1) == (
        "the toy function 'f' takes 1 argument (n); the launch is given by name, with threads= or grid=; 2 were given"
    )
    assert len(queued(devices[0])) == 1


def test_a_python_keyword_takes_an_underscore(devices: list[toy.ToyDevice]) -> None:
    f = make(Param("lambda", "scalar", "int32"), Param("self", "scalar", "int32"))
    f(lambda_=1, self=2, grid=1, block=1)
    f(lambda_=1, self=2, grid=1, block=1)
    assert queued(devices[0]) == [[b"\1\0\0\0", b"\2\0\0\0"]] * 2
    assert refusal(devmod.ArgumentError, f, **{"lambda": 1}, self=2, grid=1, block=1) == (
        "the toy function 'f' takes its argument 'lambda' as lambda_="
    )


def test_a_parameter_with_the_name_of_a_launch_keyword_takes_an_underscore(
    devices: list[toy.ToyDevice],
) -> None:
    f = make(Param("grid", "scalar", "int32"), Param("n", "scalar", "int32"))
    f(7, n=2, grid=1, block=1)
    f(n=2, grid_=7, grid=1, block=1)
    f.replace(keywords_only="a reason")(n=2, grid_=7, grid=1, block=1)
    assert queued(devices[0]) == [[b"\7\0\0\0", b"\2\0\0\0"]] * 3
    assert refusal(devmod.ArgumentError, f, n=2, grid=7, block=1) == (
        "the toy function 'f' is missing an argument: 'grid'; it takes 2 arguments (grid, n). Give 'grid' as grid_="
    )


def test_a_misspelt_launch_keyword_has_the_near_one(devices: list[toy.ToyDevice]) -> None:
    f = make(Param("n", "scalar", "int32"))
    assert (
        refusal(devmod.ArgumentError, f, 2, thread=1)
        == "the toy function 'f' has no argument 'thread'; it takes 1 argument (n). Did you mean 'threads'?"
    )
    text = refusal(devmod.ArgumentError, f, 2, grid=1, block=1, **{"x" * 1000: 1})
    cut = f"'{'x' * 100}'… (1000 characters)"
    assert text == f"the toy function 'f' has no argument {cut}; it takes 1 argument (n)"
    assert queued(devices[0]) == []


def test_a_name_of_two_parameters_names_neither(devices: list[toy.ToyDevice]) -> None:
    f = make(
        Param("n", "scalar", "int32"), Param("n", "scalar", "int32"), Param("m", "scalar", "int32")
    )
    f(1, 2, m=3, grid=1, block=1)
    assert (
        refusal(devmod.ArgumentError, f, 1, n=2, m=3, grid=1, block=1)
        == "the toy function 'f' has several arguments 'n': give them by position"
    )
    assert (
        refusal(devmod.ArgumentError, f, 1, m=3, grid=1, block=1)
        == "the toy function 'f' is missing an argument: argument 2 'n'; it takes 3 arguments (n, n, m)"
    )


def test_a_function_without_names_takes_positions(devices: list[toy.ToyDevice]) -> None:
    f = toy.module({"f": FunctionInfo("f", ["int32", "int32"])})["f"]
    assert (
        refusal(devmod.ArgumentError, f, 1, grid=1, block=1)
        == "the toy function 'f' takes 2 arguments (int32, int32); 1 was given"
    )
    assert (
        refusal(devmod.ArgumentError, f, 1, n=1, grid=1, block=1)
        == "the toy function 'f' has no argument 'n'; it takes 2 arguments (int32, int32)"
    )


def test_an_invalid_value_by_name_names_the_argument(devices: list[toy.ToyDevice]) -> None:
    f = axpy()
    y = devices[0].from_numpy(np.ones(4, "float32"))
    for _ in range(2):
        f(n=4, y=y, x=y, alpha=1.0, grid=1, block=4)
        assert refusal(devmod.ArgumentError, f, n=2**31, y=y, x=y, alpha=1.0, grid=1, block=4) == (
            "the toy function 'f': argument 4 'n': 2147483648 does not fit int32 (-2147483648 to 2147483647)"
        )


def test_a_function_of_names_alone_refuses_positions(devices: list[toy.ToyDevice]) -> None:
    f = axpy().replace(keywords_only="its candidates take them in different orders")
    y = devices[0].from_numpy(np.ones(4, "float32"))
    for _ in range(2):
        f(x=y, y=y, alpha=2.0, n=4, grid=1, block=4)
    f.bind(x=y, y=y, alpha=2.0, n=4, grid=1, block=4)()
    for args in ((y, y, 2.0, 4), (y,), (y, y, 2.0, 4, 1, 4)):
        for call in (f, f.bind):
            assert refusal(devmod.ArgumentError, call, *args, grid=1, block=4) == (
                "the toy function 'f' takes its arguments by name: its candidates take them in different orders. "
                "Call it as f(x=…, y=…, alpha=…, n=…, threads=…)"
            )
    assert len(queued(devices[0])) == 3


# -- f.on(device)


def test_on_copies_host_arrays_to_the_device(devices: list[toy.ToyDevice]) -> None:
    f = make(Param("y", "buffer", "float32", "rw"))
    f.on(devices[1])(np.ones(4, "float32"), grid=1, block=4)
    assert (len(queued(devices[0])), len(queued(devices[1]))) == (0, 1)


def test_on_launches_without_arrays_on_the_device(devices: list[toy.ToyDevice]) -> None:
    f = make(Param("n", "scalar", "int32"))
    second = f.on(devices[1])
    for _ in range(2):
        second(1, grid=1, block=1)
    second.bind(n=1, grid=1, block=1)()
    f(1, grid=1, block=1)
    second.on(devices[0])(1, grid=1, block=1)
    assert (len(queued(devices[0])), len(queued(devices[1]))) == (2, 3)


def test_on_refuses_arrays_and_streams_of_other_devices(devices: list[toy.ToyDevice]) -> None:
    f = make(Param("y", "buffer", "float32", "rw")).on(devices[1])
    assert refusal(
        devmod.ArgumentError, f, devices[0].from_numpy(np.ones(4, "float32")), grid=1, block=4
    ) == (
        "the toy function 'f': argument 1 'y' is on toy device 0 (toy number 0), and the function is on toy device 1 (toy number 1); "
        "a launch runs on one device: copy the array through the host"
    )
    assert refusal(
        devmod.ArgumentError, f, np.ones(4, "float32"), grid=1, block=4, stream=devices[0].stream()
    ) == (
        "the toy function 'f' was given stream=, which is a stream of toy device 0 (toy number 0): the function is on toy device 1 "
        "(toy number 1)"
    )


def test_on_builds_the_function_once_for_a_device(devices: list[toy.ToyDevice]) -> None:
    module = toy.module({"f": FunctionInfo("f", [])})
    f = module["f"]
    for _ in range(2):
        f.on(devices[1])(grid=1, block=1)
    assert module.built == [("f", 0), ("f", 1)]


def test_on_refuses_what_is_no_device_of_the_kind(devices: list[toy.ToyDevice]) -> None:
    f = make(Param("n", "scalar", "int32"))
    text = refusal(devmod.ArgumentError, f.on, 1)
    assert (
        text
        == "the toy function 'f': on() takes a device, such as 'toy', or devmod.device('toy'); got 1"
    )
    other = toy.ToyDevice(3)
    other.kind = "other"
    assert refusal(devmod.ArgumentError, f.on, other) == (
        "the toy function 'f' cannot run on other device 3 (toy number 3): expected a device of kind toy"
    )


def test_on_and_specialize_ask_the_resolver(devices: list[toy.ToyDevice]) -> None:
    seen: list[Any] = []
    run = lambda shape, n, bias=0: seen.append((shape, bias))  # noqa: E731
    f = toy.module(
        {"f": FunctionInfo("f", ["int32"], (), (), Interface([Param("n", "scalar", "int32")]))},
        {"f": run},
    )["f"]
    chosen = f.replace(resolve=lambda device: f.on(device), keywords_only="a reason")
    chosen.specialize(bias=7).on(devices[1])(1, grid=1, block=1)
    assert [bias for _, bias in seen] == [7]
    assert len(queued(devices[1])) == 1


@pytest.mark.row("R34")
def test_on_takes_the_text_of_a_device(
    devices: list[toy.ToyDevice], register: Callable[..., None]
) -> None:
    register("devmod.device", "toy", lambda: devices)
    f = make()
    assert f.on("toy").default_device() is devices[0]
    assert f.on("toy:1").default_device() is devices[1]
    with pytest.raises(devmod.DeviceNotFoundError, match=r"^there is no toy device 7"):
        f.on("toy:7")


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        ((16, 256), "grid=16, block=256"),
        (16, "grid=16"),
        (((2, 2), 64), "grid=(2, 2), block=64"),
        ((1, 2, 3), "grid=(1, 2, 3)"),
    ],
)
def test_a_launch_in_brackets_is_shown_as_a_call(dims: Any, text: str) -> None:
    with pytest.raises(devmod.ArgumentError) as caught:
        make()[dims]
    assert (
        str(caught.value)
        == f"the toy function 'f': f[…] is no launch; give the grid and the block in the call: f(…, {text})"
    )


def warm(f: devmod.Function, device: toy.ToyDevice) -> tuple[Any, Any]:
    """Call a function until it has code of its own for such calls. Return its arrays."""
    x, y = (device.from_numpy(np.ones(4, "float32")) for _ in range(2))
    for _ in range(3):
        f(x, y, 2.0, 4, grid=1, block=4)
    return x, y


WRONG = (
    "x, y, 2, 4, y=h; x, y, 2, 4, n=4; x, x=x, y=y, alpha=2, n=4; x, alpha=2, n=4; x, y, n=4; x=x, y=y, n=4; x, y, 2, 4, m=4; "
    "x=x, y=y, alpha=2, m=4; x, y, 2, 4, 4; x, y, 2, 4, 4, 4, 4, x=x; x, y, 2, 4, 4, 4, 4, 4, 4; shared_memory=0; "
    "x, y, 2, 4, shared_memory=16; x, h, y, 4; 2, 4, x, y"
)


@pytest.mark.row("R34")
@pytest.mark.parametrize("form", WRONG.split("; "))
def test_a_repeated_function_raises_the_errors_of_a_new_one(
    form: str, devices: list[toy.ToyDevice]
) -> None:
    f, errors = axpy(), []
    x, y = warm(f, devices[0])
    for each in (axpy(), f):
        with pytest.raises((devmod.ArgumentError, devmod.LaunchError)) as caught:
            eval(
                f"f({form}, grid=1, block=4)", {"f": each, "x": x, "y": y, "h": np.ones(4, "int32")}
            )
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.row("R34")
def test_a_repeated_call_runs_the_code_of_its_function_alone(devices: list[toy.ToyDevice]) -> None:
    f = axpy()
    x, y = warm(f, devices[0])
    calls = (
        lambda: f(x, y, 2.0, 4, grid=1, block=4),
        lambda: f(x, y, n=4, alpha=2, grid=1, block=4),
        lambda: f(x=x, y=y, n=4, alpha=2.0, grid=1, block=4),
    )
    for call in calls:
        call()  # the first call by name adds the names to the code
        files = frames(call)
        # Another test may have entered a stream: then a call looks for the current one.
        assert [
            each for each in files if "devmod_runtime" in each and not each.endswith("stream.py")
        ] == []
        assert files.count("<string>") == 1
    assert [values[2:] for values in queued(devices[0])] == [[b"\0\0\0@", b"\x04\0\0\0"]] * 9
    assert isinstance(f, devmod.Function)
    assert f.__doc__ == axpy().__doc__


def test_names_of_arguments_are_none_of_the_code_of_a_call(devices: list[toy.ToyDevice]) -> None:
    names = ["self", "a0", "n0", "x0", "rest", "keywords", "device", "call", "not a name", "grid"]
    f = make(
        Param("values", "buffer", "float32"), *(Param(name, "scalar", "int32") for name in names)
    )
    keywords = {name if name != "grid" else "grid_": number for number, name in enumerate(names)}
    x = devices[0].from_numpy(np.ones(4, "float32"))
    for _ in range(3):
        f(values=x, **keywords, grid=1, block=1)
        f(x, **keywords, grid=1, block=1)
        f(x, *range(10), grid=1, block=1)
    assert [values[1:] for values in queued(devices[0])] == [
        [number.to_bytes(4, "little") for number in range(10)]
    ] * 9


def test_a_function_in_a_class_is_no_method(devices: list[toy.ToyDevice]) -> None:
    f = axpy()
    holder = type("Holder", (), {"f": f})()
    x, y = (devices[0].from_numpy(np.ones(4, "float32")) for _ in range(2))
    for _ in range(4):  # the first calls take other ways
        holder.f(x, y, 2.0, 4, grid=1, block=4)
    assert holder.f is f
    assert [values[0] is x.memory for values in queued(devices[0])] == [True] * 4


#: Py_TPFLAGS_HAVE_VECTORCALL of Include/object.h.
HAS_VECTORCALL = 1 << 11


@pytest.mark.skipif(
    sys.version_info < (3, 12) and hasattr(sys, "gettotalrefcount"),
    reason="a debug build of Python 3.11 checks more of such a class",
)
def test_a_repeated_call_has_neither_a_tuple_nor_a_dictionary(
    devices: list[toy.ToyDevice],
) -> None:
    f = axpy()
    x, y = (devices[0].from_numpy(np.ones(4, "float32")) for _ in range(2))
    for _ in range(3):
        f(x, y, 2.0, 4, grid=1, block=4)
    assert type(f).__flags__ & HAS_VECTORCALL
    assert isinstance(f, devmod.Function)


def test_a_python_without_ctypes_has_repeated_calls(
    devices: list[toy.ToyDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    find_maker = pytest.importorskip("devmod_runtime._launch.call_class")._maker
    find_maker.cache_clear()
    try:
        f = axpy()
        x, y = (devices[0].from_numpy(np.ones(4, "float32")) for _ in range(2))
        for _ in range(3):
            f(x, y, 2.0, 4, grid=1, block=4)
        f(x, n=5, alpha=3.0, y=y, grid=1, block=4)
    finally:
        find_maker.cache_clear()
    assert type(f) is not devmod.Function
    assert [values[1] is y.memory for values in queued(devices[0])] == [True] * 4
    assert queued(devices[0])[-1][2:] == [np.float32(3).tobytes(), (5).to_bytes(4, "little")]


def test_the_class_of_a_repeated_call_changes_nothing_else(devices: list[toy.ToyDevice]) -> None:
    """CPython fills the slots of a class by other rules if C makes it."""
    f = axpy()

    def observed() -> list[object]:
        kind = type(f)
        names = kind.__name__, kind.__qualname__, kind.__module__, kind.__doc__
        return [repr(f), str(f), hash(f), f == f, f == axpy(), f.__doc__, signature(f), *names]

    before = observed()
    x, y = (devices[0].from_numpy(np.ones(4, "float32")) for _ in range(2))
    for _ in range(3):
        f(x, y, 2.0, 4, grid=1, block=4)
    assert type(f) is not devmod.Function
    assert observed() == before
    assert "Function" in repr(f)
    assert refusal(TypeError, copy.copy, f).startswith("cannot pickle or copy 'Function' object")


def test_the_class_of_a_repeated_call_ends_with_the_function(devices: list[toy.ToyDevice]) -> None:
    f = axpy().on(devices[0])
    x, y = (devices[0].from_numpy(np.ones(4, "float32")) for _ in range(2))
    for number in range(6):  # other forms and other code of a call
        f(x, y, 2.0, 4, grid=1, block=4)
        f(x, y, alpha=2.0, n=number, grid=1, block=4)
    gone = [weakref.ref(f), weakref.ref(type(f)), weakref.ref(f._plain_call)]  # type: ignore[attr-defined]
    del f
    assert gone[0]() is None  # without the collector
    gc.collect()
    assert [each() for each in gone] == [None] * 3


def test_a_partial_of_a_function_has_the_function(devices: list[toy.ToyDevice]) -> None:
    """A partial of a partial takes the parts of this, such as the code of its repeated call."""
    f = axpy()
    x, y = (devices[0].from_numpy(np.ones(4, "float32")) for _ in range(2))
    for _ in range(4):
        f(x, y, 2.0, 4, grid=1, block=4)
    g = partial(partial(f, x), y, grid=1)
    assert (g.func, g.args, g.keywords) == (f, (x, y), {"grid": 1})
    before = len(queued(devices[0]))
    for _ in range(3):  # a call by name replaces that code
        g(n=4, alpha=2.0, block=4)
        g(2.0, 4, block=4)
    assert [values[1] is y.memory for values in queued(devices[0])[before:]] == [True] * 6


@pytest.mark.parametrize("is_on_host", [False, True])
def test_a_driver_imports_a_module_in_a_repeated_call(
    is_on_host: bool, devices: list[toy.ToyDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A C function imports with the builtins of the code that calls it, such as for a warning."""

    class Name:
        from_param = staticmethod(lambda _: ctypes.py_object("colorsys"))

    import_module = ctypes.PyDLL(None).PyImport_Import
    import_module.argtypes, import_module.restype = [Name], ctypes.py_object
    monkeypatch.setattr(toy.ToyKernel, "caller", lambda *_: import_module)
    f = axpy()
    x, y = np.ones(4, "float32"), np.ones(4, "float32")
    if not is_on_host:
        x, y = map(devices[0].from_numpy, (x, y))
    for _ in range(4):  # the first calls take other ways
        f(x, y, 2.0, 4, grid=1, block=4)


@pytest.mark.parametrize("calls", [0, 4])
def test_libraries_that_take_partials_apart_tell_functions_apart(
    calls: int, devices: list[toy.ToyDevice]
) -> None:
    tokenize = pytest.importorskip("dask.base").tokenize
    funcname = pytest.importorskip("dask.utils").funcname
    f, g = axpy(), axpy()
    x, y = (devices[0].from_numpy(np.ones(4, "float32")) for _ in range(2))
    for _ in range(calls):  # the later ones take another way
        f(x, y, 2.0, 4, grid=1, block=4)
        g(x, y, 2.0, 4, grid=1, block=4)
    # Equal tokens are one task of a graph: one of two functions would run.
    assert tokenize(f) != tokenize(g)
    assert tokenize(partial(f, x)) != tokenize(partial(g, x))
    assert funcname(f) == "f"
    assert isroutine(f) == (sys.version_info >= (3, 14))  # as each partial is
    if isinstance(f, partial):
        assert signature(f.func) == signature(f)
        assert (f.args, f.keywords) == ((), {})
        f.func(x, y, n=4, alpha=2.0, grid=1, block=4)
        assert queued(devices[0])[-1][1] is y.memory


#: A call as those before it, and others: by name, with another grid, and with a list for a number.
CALLS: dict[str, Callable[[devmod.Function, Any, Any], object]] = {
    "repeated": lambda f, x, y: f(x, y, 2.0, 4, grid=1, block=4),
    "by name": lambda f, x, y: f(x, alpha=2.0, n=4, y=y, grid=1, block=4),
    "another grid": lambda f, x, y: f(x, y, 2.0, 4, grid=2, block=4),
    "another type": lambda f, x, y: f(x, y, np.float64(2), np.int8(4), grid=2, block=4),
}


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_a_finalizer_of_the_same_collection_calls_a_function(
    call: str, is_first: bool, devices: list[toy.ToyDevice]
) -> None:
    f = axpy()
    x, y = (devices[0].from_numpy(np.ones(4, "float32")) for _ in range(2))
    for _ in range(4):
        CALLS["repeated"](f, x, y)
    failures: list[Exception] = []

    class Owner:
        def __init__(self, function: devmod.Function) -> None:
            self.function = function
            self.cycle = self
            if not is_first:  # the function refers to it, and the function's finalizer comes first
                function.owner = self  # type: ignore[attr-defined]

        def __del__(self) -> None:
            try:
                for _ in range(2):
                    CALLS[call](self.function, x, y)
                    CALLS["repeated"](self.function, x, y)
            except Exception as error:
                failures.append(error)

    before = len(queued(devices[0]))
    gc.collect()
    owner = Owner(f)
    if is_first:  # the older object of a collection is finalized first
        owner.function = g = axpy()
        for _ in range(4):
            CALLS["repeated"](g, x, y)
        before += 4
        del g
    del f, owner
    gc.collect()
    assert failures == []
    assert len(queued(devices[0])) == before + 4
