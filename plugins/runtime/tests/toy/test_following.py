"""The function of a bundle takes the candidate for the device of its arrays: order of the choice,
errors, work.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import refusal
from work import work

import devmod
from devmod import Block, FunctionInfo, Interface, Member, Param
from devmod._modules.bundle import BundleModule
from devmod.backend import ConversionError
from devmod_runtime import DeviceArray
from devmod_runtime._launch.opening import Opening

pytestmark = pytest.mark.row("R33", "R34")

Register = Callable[..., None]
X = Param("x", "buffer", "float32", "rw")
A, N = Param("a", "scalar", "float32"), Param("n", "scalar", "int32")
STRUCT = Param(
    "p", "scalar", "uint8x8", align=4, members=(Member("a", "float32"), Member("n", "int32", 4))
)
CALL: dict[str, Any] = {"grid": 1, "block": 1}


class OtherDevice(toy.ToyDevice):
    kind = "other"


class OtherArray(toy.ForeignArray):
    """An array of a library that the backend of the kind "other" alone adopts."""


class OtherLauncher(toy.ToyLauncher):
    kind = "other"

    def default_device(self) -> devmod.Device:
        return devmod.device("other", 0)

    def adopt(self, value: object) -> tuple[DeviceArray, devmod.Stream | None] | None:
        if type(value) is OtherArray:
            if not value.shape:
                raise ConversionError("is another's array without dimensions")
            return DeviceArray(value.on, value.data, value.shape, value.dtype), value.work
        return None

    def adopt_stream(self, value: object) -> devmod.Stream | None:
        return value.of if isinstance(value, OtherStream) else None


class OtherStream:
    """A stream of that library."""

    def __init__(self, of: devmod.Stream) -> None:
        self.of = of


class OwnLauncher(toy.ToyLauncher):
    """It takes no array of the library of the other kind."""

    def adopt(self, value: object) -> tuple[DeviceArray, devmod.Stream | None] | None:
        return None if isinstance(value, OtherArray) else super().adopt(value)


def spec(kind: str) -> devmod.TargetSpec:
    return devmod.TargetSpec(
        kind,
        title=kind,
        distribution=f"devmod-{kind}",
        formats=("toy",),
        architecture=lambda fmt, code: bytes(code).decode(),
        rank=(lambda variant, arch: 1 if variant == arch else None) if kind == "toy" else None,
    )


@pytest.fixture
def of(register: Register) -> Iterator[SimpleNamespace]:
    """Two toy devices of the architectures 1 and 2, and two devices of the kind other."""
    others = [OtherDevice(0), OtherDevice(1)]
    with toy.fresh_devices() as found:
        for number, device in enumerate(found, 1):
            device.arch = str(number)
        for kind, devices in (("toy", found), ("other", others)):
            register("devmod.targets", kind, spec(kind))
            register("devmod.device", kind, lambda devices=devices: devices)
        yield SimpleNamespace(one=found[0], two=found[1], other=others[0], another=others[1])


def module(factor: int, *params: Param, kind: str = "toy", variant: str = "1") -> toy.ToyModule:
    """Return a module whose function sets each element of x to a·n·factor, whatever the order of
    its parameters.
    """
    info = FunctionInfo(
        "f",
        ["handle" if each.kind == "buffer" else "int32" for each in params],
        (),
        (),
        Interface(params),
    )

    def run(launch: object, *values: Any, times: int = 1) -> None:
        given: dict[str, Any] = dict(zip([each.name for each in params], values, strict=True))
        if "p" in given:
            given["a"], given["n"] = given["p"][:4], given["p"][4:]
        a = np.frombuffer(given["a"], "float32")[0]
        n = int.from_bytes(given["n"], "little")
        toy.floats(given["x"])[:] = a * n * factor * times

    made = toy.ToyModule(spec(kind), "toy", {"f": info}, variant.encode())
    made.runs = {"f": run}
    made.launcher_type = OtherLauncher if kind == "other" else OwnLauncher
    return made


def pair(
    *params: Param, other: tuple[Param, ...] = (), prefer: tuple[str, ...] = ()
) -> tuple[Any, toy.ToyModule, toy.ToyModule]:
    """Return a function, and its candidates for the first toy device and for the kind other."""
    own = module(1, *(params or (X, A, N)))
    second = module(10, *(other or params or (X, A, N)), kind="other")
    return BundleModule((own, second), prefer)["f"], own, second


def filled(function: Any, array: Any, *args: Any, **named: Any) -> float:
    """Call with an array; return its first element."""
    function(array, *(args or (2.0, 3)), **CALL, **named)
    if isinstance(array, toy.ForeignArray):
        return float(toy.floats(array.data)[0])
    return float((array.numpy() if isinstance(array, DeviceArray) else array)[0])


def test_the_arrays_decide_the_candidate_which_is_built_once(of: Any) -> None:
    f, own, other = pair()
    host = np.zeros(2, "float32")
    arrays = [of.one.zeros(2, "float32"), of.other.zeros(2, "float32")]
    for _ in range(4):
        assert [filled(f, each) for each in (host, *arrays)] == [6, 6, 60]
        f(n=3, a=1.0, x=arrays[1], **CALL)
        assert arrays[1].numpy()[0] == 30
    assert (own.built, other.built) == ([("f", 0)], [("f", 0)])
    assert filled(f, of.another.zeros(2, "float32")) == 60
    assert other.built == [("f", 0), ("f", 1)]
    assert (f.kind, f.on(of.other).kind) == ("toy", "other")


def test_the_other_candidate_is_built_for_no_host_array(of: Any) -> None:
    f, _, other = pair()
    assert filled(f, np.zeros(2, "float32")) == filled(f, of.one.zeros(2, "float32")) == 6
    assert other.built == []


def test_a_device_of_the_same_kind_has_its_best_candidate(of: Any) -> None:
    first, second = module(1, X, A, N), module(7, X, A, N, variant="2")
    f = devmod.bundle(first, second)["f"]
    assert [filled(f, each.zeros(2, "float32")) for each in (of.one, of.two, of.one)] == [6, 42, 6]
    assert (first.built, second.built) == ([("f", 0)], [("f", 1)])
    # One that fits the second device alone refuses an array of the first one.
    f = devmod.bundle(module(7, X, A, N, variant="2"))["f"]
    assert refusal(devmod.ArgumentError, filled, f, of.one.zeros(2, "float32")) == (
        "the toy function 'f': argument 1 'x' is on toy device 0 (toy number 0), and the function is on toy device 1 (toy number 1); "
        "no candidate of the bundle can run 'f' here:\n  1. toy/toy for 2: no toy device fits 2; there is: 1"
    )


@pytest.mark.parametrize("own", [(X, A, N), (N, X, A), (X, STRUCT)])
@pytest.mark.parametrize("other", [(X, A, N), (A, N, X), (X, STRUCT), (STRUCT, X)])
def test_a_call_reaches_a_candidate_with_another_order(
    own: tuple[Param, ...], other: tuple[Param, ...], of: Any
) -> None:
    f, _, _ = pair(*own, other=other)
    x, y = of.other.zeros(2, "float32"), of.one.zeros(2, "float32")
    given = {"a": 2.0, "n": 3}
    both_have_a_struct = STRUCT in own and STRUCT in other
    for _ in range(3):
        for array, expected in ((x, 60), (y, 6)):
            array.fill(0)
            f(x=array, **({"p": given} if both_have_a_struct else given), **CALL)
            assert array.numpy()[0] == expected
            if not both_have_a_struct and own[0] is X and other[0] is X:
                array.fill(0)
                f(array, 2.0, n=3, **CALL)
                assert array.numpy()[0] == expected


def test_equal_arguments_in_another_order_are_not_exchanged(of: Any) -> None:
    y = X.replace(name="y")
    made = [module(1, X, y, A, N), module(10, y, X, A, N, kind="other")]
    f = devmod.bundle(*made)["f"]
    for _ in range(3):
        for device, expected in ((of.one, 6), (of.other, 60)):
            arrays = [device.zeros(2, "float32") for _ in range(2)]
            f(x=arrays[0], y=arrays[1], a=2.0, n=3, **CALL)
            assert [each.numpy()[0] for each in arrays] == [expected, 0]


@pytest.mark.parametrize(("number", "at"), [("int32", 4), ("int32", 8), ("int64", 8)])
def test_a_record_is_given_to_the_other_candidate_as_it_was(number: str, at: int, of: Any) -> None:
    """Each kind has a block of its own, whose bytes are the values of both numbers."""

    def record(kind: str, factor: int, number: str, at: int) -> toy.ToyModule:
        params = (X, A.replace(at=(0, 0)), N.replace(type=number, at=(0, at)))
        interface = Interface(params, blocks=[Block("push", 16, name="numbers")])
        info = FunctionInfo("f", ["handle", "float32", number], (), (), interface)

        def run(launch: object, x: bytearray, a: bytes, n: bytes) -> None:
            if len(n) == 16:
                n = n[at : at + int(number[3:]) // 8]
            toy.floats(x)[:] = np.frombuffer(a, "float32")[0] * int.from_bytes(n, "little") * factor

        made = toy.ToyModule(spec(kind), "toy", {"f": info}, b"1")
        made.runs = {"f": run}
        made.launcher_type = OtherLauncher if kind == "other" else OwnLauncher
        return made

    f = devmod.bundle(record("toy", 1, "int32", 4), record("other", 10, number, at))["f"]
    for _ in range(3):
        for device, expected in ((of.one, 6), (of.other, 60)):
            x = device.zeros(2, "float32")
            assert filled(f, x) == expected
            x.fill(0)
            f(x, numbers={"a": 2.0, "n": 3}, **CALL)
            assert x.numpy()[0] == expected


def test_a_prepared_launch_and_constants_follow(of: Any) -> None:
    f, _, other = pair()
    x = of.other.zeros(2, "float32")
    launch = f.bind(x, 2.0, 3, **CALL)
    assert launch.stream.device is of.other
    launch()
    assert x.numpy()[0] == 60
    threefold = f.specialize(times=3)
    assert [filled(threefold, each.zeros(2, "float32")) for each in (of.one, of.other)] == [18, 180]
    assert filled(threefold.specialize(times=4), x) == 240
    assert other.built == [("f", 0)] * 3


def test_a_stream_decides_for_host_arrays(of: Any) -> None:
    f, own, _ = pair()
    x = np.zeros(2, "float32")
    for _ in range(3):
        assert filled(f, x, stream=of.other.default_stream) == 60
        assert filled(f, x, stream=OtherStream(of.other.default_stream)) == 60
        assert filled(f, x) == 6
    assert refusal(
        devmod.ArgumentError,
        lambda: filled(f, of.one.zeros(2, "float32"), stream=of.other.default_stream),
    ) == (
        "the other function 'f': argument 1 'x' is on toy device 0 (toy number 0), and the stream is on other device 0 (toy number 0); "
        "a launch runs on one device: copy the array through the host"
    )
    assert own.built == [("f", 0)]


def test_an_array_of_another_library_decides(of: Any) -> None:
    f, _, other = pair()
    for _ in range(2):
        for device, kind, expected in (
            (of.one, toy.ForeignArray, 6),
            (of.other, OtherArray, 60),
            (of.another, OtherArray, 60),
        ):
            assert filled(f, kind(device, np.zeros(2, "float32"))) == expected
    assert other.built == [("f", 0), ("f", 1)]
    assert refusal(devmod.ArgumentError, filled, f, OtherArray(of.other, np.float32(1))) == (
        "the toy function 'f': argument 1 'x' is another's array without dimensions"
    )


TWO = (X, X.replace(name="y"), A, N)


def test_two_devices_in_one_call_are_both_named(of: Any) -> None:
    f, _, _ = pair(*TWO)
    one, other = of.one.zeros(2, "float32"), of.other.zeros(2, "float32")
    library = OtherArray(of.other, np.zeros(2, "float32"))
    text = (
        "the {} function 'f': argument 2 'y' is on {} device 0 (toy number 0), and argument 1 'x' is on {} device 0 (toy number 0); a "
        "launch runs on one device: copy the array through the host"
    )
    host = np.zeros(2, "float32")
    for _ in range(2):
        for x, y in ((one, other), (other, one), (one, library), (library, one)):
            kinds = ("toy", "other") if x is one else ("other", "toy")
            assert refusal(
                devmod.ArgumentError, lambda x=x, y=y: f(x, y, 2.0, 3, **CALL)
            ) == text.format(kinds[0], kinds[1], kinds[0])
        for array, expected in ((one, 6), (other, 60)):
            f(array, array, 2.0, 3, **CALL)
            f(host, array, 2.0, 3, **CALL)
            assert host[0] == array.numpy()[0] == expected or expected == 60


def test_what_comes_before_the_arrays(of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = of.other.zeros(2, "float32"), of.one.zeros(2, "float32")
    f, _, _ = pair()
    assert refusal(devmod.ArgumentError, filled, f.on(of.one), x) == (
        "the toy function 'f': argument 1 'x' is on other device 0 (toy number 0), and the function is on toy device 0 (toy number 0); a "
        "launch runs on one device: copy the array through the host"
    )

    chosen, _, _ = pair(prefer=("toy",))
    assert filled(chosen, y) == 6
    assert filled(chosen.on(of.other), x) == 60
    assert refusal(devmod.ArgumentError, filled, chosen, x) == (
        "the toy function 'f': argument 1 'x' is on other device 0 (toy number 0), and prefer=('toy',) has chosen toy: call "
        "f.on(array.device), or give prefer=('toy', 'other')"
    )
    for prefer in (("toy", "other"), ("cuda",)):  # each is named; the choice was another one
        assert filled(pair(prefer=prefer)[0], x) == 60

    f, _, other = pair()
    monkeypatch.setenv("DEVMOD_DEVICE", "other:1")
    assert filled(f, of.another.zeros(2, "float32")) == 60
    assert refusal(devmod.ArgumentError, filled, f, x) == (
        "the toy function 'f': argument 1 'x' is on other device 0 (toy number 0), and DEVMOD_DEVICE names other:1: call "
        "f.on(array.device), or change the variable"
    )
    assert other.built == [("f", 1)]
    assert filled(f.on(of.other), x) == 60
    # The candidate at hand takes arrays of each device of its kind.
    monkeypatch.setenv("DEVMOD_DEVICE", "toy:0")
    of.two.arch = "1"
    assert filled(f, of.two.zeros(2, "float32")) == 6


def test_an_array_of_a_kind_that_cannot_run_has_the_reason(of: Any, register: Register) -> None:
    register("devmod.targets", "third", spec("third"))
    info = module(1, X, A, N).functions["f"]
    missing = devmod.create_with_fallback("third", b"1", "toy", {"f": info})
    f = devmod.bundle(module(1, X, A, N), missing)["f"]
    device = OtherDevice(0)
    device.kind = "third"
    text = refusal(devmod.ArgumentError, filled, f, device.zeros(2, "float32"))
    assert text.startswith(
        "the toy function 'f': argument 1 'x' is on third device 0 (toy number 0), and the function is on toy device 0 (toy number 0); no "
        "candidate of the bundle can run 'f' here:\n  1. third/toy for 1: "
    )
    assert 'pip install "devmod-third' in text or "pip install devmod-third" in text
    assert refusal(devmod.ArgumentError, filled, f, of.other.zeros(2, "float32")) == (
        "the toy function 'f': argument 1 'x' is on other device 0 (toy number 0), and the kernel has code for toy, third alone: pass a "
        "host array, array.numpy(), or build the kernel for other too"
    )
    assert filled(f, np.zeros(2, "float32")) == 6


def test_a_call_that_follows_does_no_more_than_one_of_the_candidate(of: Any) -> None:
    """The first candidate's function, with arrays of its own device, has the same code as one
    without other candidates.
    """
    f, _, _ = pair()
    alone = module(1, X, A, N)["f"]
    x, y = of.one.zeros(2, "float32"), of.other.zeros(2, "float32")
    on = f.on(of.other)

    def counted(function: Any, array: Any) -> int:
        for _ in range(3):
            function(array, 2.0, 3, **CALL)
        return int(work(lambda: function(array, 2.0, 3, **CALL)))

    own = counted(alone, x)
    assert counted(f, x) == own
    assert counted(f, y) == counted(on, y)
    assert counted(f, x) == own


def test_a_candidate_with_other_types_is_called_without_a_checked_call_of_the_first(
    of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, _, _ = pair(X, A, N, other=(X, A, N.replace(type="int64")))
    y = of.other.zeros(2, "float32")
    for _ in range(2):
        assert filled(f, y) == 60

    def unwanted(*args: Any, **keywords: Any) -> Any:
        raise AssertionError("a call was checked again")

    monkeypatch.setattr(Opening, "kernel_call", unwanted)
    assert filled(f, y) == 60


def test_a_number_that_does_not_fit_is_named_after_good_calls(of: Any) -> None:
    f, _, _ = pair()
    y = of.other.zeros(2, "float32")
    for _ in range(3):
        filled(f, y)
    assert refusal(devmod.ArgumentError, filled, f, y, 2.0, 2**40) == (
        "the other function 'f': argument 3 'n': 1099511627776 does not fit int32 (-2147483648 to 2147483647)"
    )


def test_a_function_and_those_of_its_other_devices_are_freed_at_once(of: Any) -> None:
    f, _, _ = pair()
    for device in (of.one, of.other, of.one):
        filled(f, device.zeros(2, "float32"))
    other = weakref.ref(f._others[of.other])
    own = weakref.ref(f)
    gc.collect()
    gc.disable()
    try:
        del f
        assert (own(), other()) == (None, None)
    finally:
        gc.enable()


def test_threads_build_the_other_candidate_once(of: Any) -> None:
    f, _, other = pair()
    barrier = threading.Barrier(8)
    results = []

    def run() -> None:
        y = of.other.zeros(2, "float32")
        barrier.wait()
        results.append(filled(f, y))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (results, other.built) == ([60] * 8, [("f", 0)])
