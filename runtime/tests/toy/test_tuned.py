"""Tuned functions: their variants, the records that choose among them, and what a call costs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import check_each

import devmod
from devmod import FunctionInfo, Interface, Local, Param, TuningRecord
from devmod.backend import Capabilities

PARAMS = [
    Param("x", "buffer", "float32", "rw"),
    Param("n", "scalar", "int32"),
    Param("a", "scalar", "float32"),
]
#: The values of the constants BLOCK and TILE.
FIRST, SECOND, THIRD = (8, 1), (16, 2), (32, 4)
Times = Mapping[Any, Mapping[tuple[int, int], float | None]]


@pytest.fixture(autouse=True)
def devices(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[toy.ToyDevice]]:
    """Two devices of one architecture, and no records of the user."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    with toy.fresh_devices() as made:
        for device in made:
            device.arch = "toy9:feature"
            device.driver_version = "1"
        yield made


def info(**tune: Any) -> FunctionInfo:
    """Return a function with the constants BLOCK and TILE, the size n, a grid and a block."""
    fields: dict[str, Any] = {
        "constants": ["BLOCK", "TILE"],
        "variants": [{"values": list(each)} for each in (FIRST, SECOND, THIRD)],
        "specialized": True,
        "sizes": ["n"],
        "grid": [["ceildiv", "n", ["*", "BLOCK", "TILE"]]],
        "block": ["BLOCK"],
    } | tune
    given = {key: value for key, value in fields.items() if value is not None}
    interface = Interface(PARAMS, extra={"tune": given}, needs=["tuned"])
    return FunctionInfo("f", ["handle", "int32", "float32"], (), (), interface)


class Launched(list[Any]):
    """The launches of a module: the grid, the block, BLOCK and TILE of each."""

    def run(self, launch: Any, *values: Any, BLOCK: int = 0, TILE: int = 0, **more: Any) -> None:
        self.append((launch.grid[0], launch.block[0], BLOCK, TILE))

    def take(self) -> tuple[int, int]:
        """Return the constants of the only launch, and forget it."""
        ((_, _, *values),) = self
        self.clear()
        return tuple(values)  # type: ignore[return-value]


def module(
    about: FunctionInfo | None = None, launcher: Any = toy.ToyLauncher, records: Any = ()
) -> tuple[toy.ToyModule, Launched]:
    """Return a module with the function `f`, and its launches."""
    launched = Launched()
    made = toy.module({"f": about or info()}, {"f": launched.run}, launcher)
    made.tuning_records = tuple(records)
    return made, launched


def record(times: Times, *, device: str = "toy number 0", **fields: Any) -> TuningRecord:
    """Return a record of the times by n."""
    about = {"kind": "toy", "platform": "", "arch": "", "driver": "1"} | fields
    measured = {}
    for size, by_values in times.items():
        for values, seconds in by_values.items():
            measured[(size,), values] = seconds
    return TuningRecord(
        about.pop("function", "f"),
        device=device,
        constants=("BLOCK", "TILE"),
        sizes=("n",),
        measured=measured,
        **about,
    )


def chosen(records: Any, n: int = 1000) -> tuple[int, int]:
    """Return the variant that a call takes."""
    made, launched = module(info(grid=None), records=records)
    made["f"](toy.DEVICES[0].zeros(1, "float32"), n, 1.0, threads=1)
    return launched.take()


ALL = {FIRST: 3e-6, SECOND: 1e-6, THIRD: 2e-6}
#: With a record of another device, the variant for a device without one is the first.
LATER = ALL | {THIRD: 1e-9}


def check_choices(cases: Mapping[str, tuple[list[TuningRecord], tuple[int, int]]]) -> None:
    def check(case: tuple[str, tuple[list[TuningRecord], tuple[int, int]]]) -> None:
        records, expected = case[1]
        assert chosen(records) == expected

    check_each(cases.items(), check)


@pytest.mark.row("R52")
def test_the_records_of_the_device_choose_before_those_of_its_architecture() -> None:
    own = record({1000: ALL})
    sister = record({1000: LATER}, device="toy number 1", arch="toy9")
    check_choices(
        {
            "none": ([], FIRST),
            "of the device": ([own], SECOND),
            "of the architecture": ([sister], THIRD),
            "of both": ([sister, own], SECOND),
            "of another function": ([record({1000: ALL}, function="g")], FIRST),
            "of another kind": ([record({1000: ALL}, kind="other")], FIRST),
            "of another platform": ([record({1000: ALL}, platform="P")], FIRST),
            "of a device whose name begins alike": ([record({1000: ALL}, device="toy")], FIRST),
            "of a device with a longer name": (
                [record({1000: ALL}, device="toy number 01")],
                FIRST,
            ),
            "of another architecture": ([sister.replace(arch="toy90")], FIRST),
            "of a device without an architecture": ([sister.replace(arch="")], FIRST),
            "of another driver": ([record({1000: ALL}, driver="0")], SECOND),
            "of this driver and of another": (
                [own, record({1000: LATER}, driver="0")],
                SECOND,
            ),
            "of another driver for one variant": (
                [record({1000: {FIRST: 2e-6}}), record({1000: {SECOND: 1e-6}}, driver="0")],
                SECOND,
            ),
            "with other constants": ([own.replace(constants=("BLOCK", "ROWS"))], FIRST),
            "with other sizes": ([own.replace(sizes=("m",))], FIRST),
            "with the constants in another order": (
                [own.arranged(("TILE", "BLOCK"), ("n",))],
                SECOND,
            ),
        }
    )


@pytest.mark.row("R52")
def test_only_a_variant_that_works_and_that_the_file_has_is_chosen() -> None:
    gone = (64, 8)
    failed: dict[Any, Any] = {FIRST: None, SECOND: None, THIRD: None}
    check_choices(
        {
            "the best is gone": ([record({1000: ALL | {gone: 1e-9}})], SECOND),
            "all measured are gone": ([record({1000: {gone: 1e-9}})], FIRST),
            "all of the nearest size are gone": (
                [record({1000: {gone: 1e-9}, 9000: ALL})],
                SECOND,
            ),
            "the best failed": ([record({1000: ALL | {SECOND: None}})], THIRD),
            "the best elsewhere failed here": (
                [record({1000: {SECOND: None}, 9000: ALL})],
                THIRD,
            ),
            "it failed at another size": ([record({1000: ALL, 9000: {SECOND: None}})], SECOND),
            "the default failed": ([record({1000: {FIRST: None}})], SECOND),
            "all failed": ([record({1000: failed})], FIRST),
            "the best of the architecture failed on the device": (
                [
                    record({1000: {THIRD: None}}),
                    record({1000: LATER}, device="toy number 1", arch="toy9"),
                ],
                SECOND,
            ),
        }
    )


@pytest.mark.row("R52")
def test_the_nearest_sizes_decide() -> None:
    times: Times = {
        100: {FIRST: 1e-6, SECOND: 2e-6},
        10_000: {FIRST: 2e-6, SECOND: 1e-6},
        0: {FIRST: 2e-6, THIRD: 1e-6},
        -100: {FIRST: 2e-6, SECOND: 1e-6},
    }

    def check(case: tuple[int, tuple[int, int]]) -> None:
        n, expected = case
        assert chosen([record(times)], n) == expected

    check_each(
        [
            (100, FIRST),
            (999, FIRST),
            (1000, FIRST),  # as near to both: the smaller one
            (1001, SECOND),
            (2**31 - 1, SECOND),
            (8, FIRST),
            (7, THIRD),  # zero counts as a half
            (1, THIRD),
            (0, THIRD),
            (-1, THIRD),
            (-(2**31), SECOND),
        ],
        check,
    )


def devices_with(count: int, times: Times, **more: Any) -> list[TuningRecord]:
    return [record(times, device=f"other {number}", **more) for number in range(count)]


@pytest.mark.row("R52")
def test_three_devices_decide_for_one_that_nobody_measured() -> None:
    good = {1000: ALL, 9: {FIRST: 1e-6, SECOND: 1.05e-6}}
    cases = {
        "three": (devices_with(3, good), SECOND),
        "two": (devices_with(2, good), FIRST),
        "two, one with two drivers": (
            [*devices_with(2, good), record(good, device="other 0", driver="2")],
            FIRST,
        ),
        "of two platforms": (
            [*devices_with(2, good), *devices_with(1, good, platform="P")],
            SECOND,
        ),
        "one is slower": (
            devices_with(3, {1000: ALL, 9: {FIRST: 1e-6, SECOND: 1.06e-6}}),
            FIRST,
        ),
        "it failed once": (
            [*devices_with(3, good), record({9: {FIRST: 1e-6, SECOND: None}}, device="x")],
            FIRST,
        ),
        "it was not measured once": (
            [*devices_with(3, good), record({9: {FIRST: 1e-6}}, device="x")],
            FIRST,
        ),
        "two are good": (
            devices_with(3, {1000: {FIRST: 2e-6, SECOND: 1e-6, THIRD: 1e-6}}),
            SECOND,
        ),
        "of another kind": (devices_with(3, good, kind="other"), FIRST),
        "the device has a record": (
            [*devices_with(3, good), record({1000: {FIRST: 1e-6}})],
            FIRST,
        ),
    }
    check_choices(cases)


@pytest.mark.row("R52")
def test_a_switch_takes_the_first_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    own = record({1000: ALL})
    for value, expected in (
        ("off", FIRST),
        ("OFF", FIRST),
        ("0", FIRST),
        ("on", SECOND),
        ("", SECOND),
    ):
        monkeypatch.setenv("DEVMOD_TUNE", value)
        assert chosen([own]) == expected


class LimitedDevice(toy.ToyDevice):
    """A device with blocks of up to 16 threads."""

    limits = {"max_block": 16, "view_alignment": 16}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(self, {"block": "max_block"})


@pytest.mark.row("R52")
def test_a_variant_that_does_not_fit_the_device_is_never_chosen() -> None:
    toy.DEVICES[0] = LimitedDevice(0)
    toy.DEVICES[0].driver_version = "1"
    assert chosen([record({1000: LATER})]) == SECOND
    made, launched = module(info(variants=[{"values": [32, 1]}, {"values": [8, 1]}]))
    f = made["f"]
    assert f.variants == ({"BLOCK": 8, "TILE": 1},)
    f(toy.DEVICES[0].zeros(1, "float32"), 1, 1.0)
    assert launched.take() == (8, 1)
    with pytest.raises(devmod.DeviceNotFoundError) as caught:
        module(info(variants=[{"values": [32, 1]}]))[0]["f"]
    assert (
        str(caught.value)
        == "the toy function 'f' has no variant that fits toy device 0 (toy number 0)"
    )


class PickyLauncher(toy.ToyLauncher):
    """A launcher whose compiler refuses some variants."""

    refused: tuple[object, ...] = (16,)
    constants_set: Mapping[str, object] = {}

    def specialize(self, constants: Mapping[str, object]) -> toy.ToyLauncher:
        result = type(self)(self.module, self.name, partial(self.run, **constants))
        result.constants_set = constants
        return result

    def kernel(self, device: devmod.Device) -> toy.ToyKernel:
        block = self.constants_set["BLOCK"]
        if block in self.refused:
            raise devmod.CompileError(f"the toy compiler refuses BLOCK={block}", kind="toy")
        return super().kernel(device)


class EverPickyLauncher(PickyLauncher):
    refused = (8, 16, 32)


@pytest.mark.row("R52")
def test_a_variant_that_cannot_be_built_is_passed_over(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_LOG", "debug")
    x = toy.DEVICES[0].zeros(1, "float32")
    made, launched = module(launcher=PickyLauncher, records=[record({1000: ALL})])
    made["f"](x, 1000, 1.0)
    assert launched.take() == THIRD
    assert [line for line in capsys.readouterr().err.splitlines() if "takes" in line] == [
        "devmod: the toy function 'f' on toy device 0 (toy number 0) takes BLOCK=16, TILE=2: the fastest in the file's records of this "
        "device at n=1000: 1 us, and the first variant 3 us. It cannot be built: the toy compiler refuses BLOCK=16",
        "devmod: the toy function 'f' on toy device 0 (toy number 0) takes BLOCK=32, TILE=4: the fastest in the file's records of this "
        "device at n=1000: 2 us, and the first variant 3 us",
    ]
    made, launched = module(launcher=EverPickyLauncher)
    with pytest.raises(devmod.CompileError) as caught:
        made["f"](x, 1000, 1.0)
    assert str(caught.value) == "the toy compiler refuses BLOCK=8"

    too_large = info(variants=[{"values": [65, 1]}, {"values": [64, 1]}])
    made, launched = module(too_large)  # a limit that only the kernel knows
    made["f"](x, 64, 1.0)
    assert launched == [(1, 64, 64, 1)]


# -- calls


def test_each_form_of_a_call_takes_the_variant_of_its_sizes() -> None:
    made, launched = module(records=[record({10: {FIRST: 1e-6, THIRD: 2e-6}, 1000: ALL})])
    device = toy.DEVICES[0]
    f = made["f"]
    on_device = device.zeros(4, "float32")
    on_host = np.zeros(4, "float32")
    calls: list[Callable[[int], object]] = []
    for x in (on_device, on_host):
        calls += [
            partial(lambda x, n: f(x, n, 1.0), x),
            partial(lambda x, n: f(x, np.int64(n), 1), x),
            partial(lambda x, n: f(x, n=n, a=1.0), x),
            partial(lambda x, n: f(a=1.0, x=x, n=n), x),
            partial(lambda x, n: f(x, n, 1.0, stream=device.default_stream), x),
            partial(lambda x, n: f.on(device)(x, n, 1.0), x),
        ]
    calls.append(lambda n: f.bind(on_device, n, 1.0)())
    for call in calls:
        for n, expected in (
            (10, (2, 8, 8, 1)),
            (1000, (32, 16, 16, 2)),
            (999, (32, 16, 16, 2)),
            (10, (2, 8, 8, 1)),
        ) * 2:
            call(n)
            assert launched == [expected]
            launched.clear()
    f(on_device, 0, 1.0)
    assert launched == []
    assert sorted(made.built) == [("f", 0)] * 2, "each variant is built once"
    other = toy.DEVICES[1].zeros(4, "float32")
    f(other, 1000, 1.0)
    assert launched.take() == FIRST, "nothing is known of the other device"


def test_a_wrong_argument_has_the_error_of_other_functions() -> None:
    f = module()[0]["f"]
    x = toy.DEVICES[0].zeros(4, "float32")
    f(x, 10, 1.0)
    for _ in range(2):
        for n, text in (
            (1.5, ": argument 2 'n': 1.5 is not a whole number"),
            (
                2**31,
                ": argument 2 'n': 2147483648 does not fit int32 (-2147483648 to 2147483647)",
            ),
            ("3", ": argument 2 'n': '3' is not a whole number"),
            (-8, " (BLOCK=8, TILE=1), n=-8: the grid is -1; expected at least 0"),
        ):
            with pytest.raises(devmod.ArgumentError) as caught:
                f(x, n, 1.0)
            assert (str(caught.value), caught.value.argument) == (
                f"the toy function 'f'{text}",
                "n",
            )
    for name, value in (("grid", 1), ("threads", (4, 4)), ("block", 8)):
        with pytest.raises(devmod.ArgumentError) as caught:
            f(x, 10, 1.0, **{name: value})
        assert str(caught.value) == (
            f"the toy function 'f' has a grid of its own, and was given {name}={value!r}; omit {name}="
        )
        assert caught.value.argument == name


def frames(call: Callable[[], object]) -> int:
    """Return the number of Python functions that a call calls."""
    count = 0

    def each(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(each)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def test_a_repeated_call_has_no_frame_more_than_that_of_another_function() -> None:
    plain, _ = module(FunctionInfo("f", info().arg_types, (), (), Interface(PARAMS)))
    tuned, _ = module()
    device = toy.DEVICES[0]
    for x in (device.zeros(4, "float32"), np.zeros(4, "float32")):
        counts = []
        set_by_hand = plain["f"].specialize(BLOCK=8, TILE=1)
        for f, launch in ((set_by_hand, {"grid": 2, "block": 8}), (tuned["f"], {})):
            for n in (10, 20) * 2:
                f(x, n, 1.0, **launch)
            counts += [frames(partial(f, x, n, 1.0, **launch)) for n in (10, 20)]
        assert counts == [counts[0]] * 4


# -- variants and other functions of a function


def test_a_function_lists_its_variants_and_gives_each() -> None:
    made, launched = module(records=[record({10: ALL})])
    device = toy.DEVICES[0]
    f = made["f"]
    assert f.variants == (
        {"BLOCK": 8, "TILE": 1},
        {"BLOCK": 16, "TILE": 2},
        {"BLOCK": 32, "TILE": 4},
    )
    for constants in f.variants:
        g = f.variant(**constants)
        assert g.variants == (constants,)
        for x in (device.zeros(4, "float32"), np.zeros(4, "float32")):
            for n in (10, 100) * 2:
                g(x, n, 1.0)
                grid = -(-n // (constants["BLOCK"] * constants["TILE"]))
                assert launched == [(grid, constants["BLOCK"], *constants.values())]
                launched.clear()
    assert len(made.built) == 3, "the variants of f are those of g"

    for constants, text in (
        ({"BLOCK": 8}, "BLOCK=8"),
        ({"BLOCK": 8, "TILE": 2}, "BLOCK=8, TILE=2"),
        ({}, "without constants"),
    ):
        with pytest.raises(devmod.ArgumentError) as caught:
            f.variant(**constants)
        assert str(caught.value) == (
            f"the toy function 'f' has no variant {text}; its variants: BLOCK=8, TILE=1; BLOCK=16, TILE=2; BLOCK=32, TILE=4"
        )
    many = module(info(variants=[{"values": [each, 1]} for each in range(1, 12)]))[0]["f"]
    with pytest.raises(devmod.ArgumentError, match=r"; BLOCK=8, TILE=1; 3 more$"):
        many.variant(BLOCK=0)


def test_constants_that_are_set_leave_no_choice() -> None:
    made, launched = module(records=[record({10: ALL})])
    x = toy.DEVICES[0].zeros(4, "float32")
    f = made["f"]
    for specialized, expected in (
        (f.specialize(BLOCK=16, TILE=2), (5, 16, 16, 2)),
        (f.specialize(TILE=2), (10, 8, 8, 2)),  # with the default's BLOCK
        (f.specialize(BLOCK=4).specialize(TILE=3), (14, 4, 4, 3)),
        (f.specialize(OTHER=1), (5, 16, 16, 2)),
        (f.specialize(OTHER=1).specialize(BLOCK=32), (5, 32, 32, 1)),
        (f.on(toy.DEVICES[0]).specialize(BLOCK=32), (5, 32, 32, 1)),
        (f.replace(device=toy.DEVICES[0]), (5, 16, 16, 2)),
    ):
        for _ in range(3):
            specialized(x, 159, 1.0)
            assert launched == [(-(-159 // (expected[2] * expected[3])), *expected[1:])]
            launched.clear()


def test_the_configuration_of_a_launch_is_that_of_the_variant() -> None:
    f = module(records=[record({10: {FIRST: 1e-6}, 1000: ALL})])[0]["f"]
    assert f.launch_config(n=10) == devmod.LaunchConfig((2, 1, 1), (8, 1, 1))
    assert f.launch_config(n=1000) == devmod.LaunchConfig((32, 1, 1), (16, 1, 1))
    third = f.variant(BLOCK=32, TILE=4)
    assert (third.launch_config(n=1000).grid, third.block, f.block) == ((8, 1, 1), (32, 1, 1), None)
    with pytest.raises(devmod.ArgumentError) as caught:
        f.launch_config(n=1, m=2)
    assert str(caught.value) == (
        "the toy function 'f': launch_config takes the arguments that decide the variant and the grid: expected 'n', got 'n', 'm'"
    )
    threads = module(info(grid=None, sizes=None))[0]["f"]
    assert threads.launch_config(threads=20) == devmod.LaunchConfig((3, 1, 1), (8, 1, 1))


def test_a_tuned_function_describes_itself() -> None:
    f = module()[0]["f"]
    assert repr(f) == "<Function toy f(x, n, a)>"
    assert (
        str(inspect.signature(f))
        == "(x: 'float32* rw', n: 'int32', a: 'float32', *, stream=None) -> None"
    )
    assert f.__doc__ == (
        "The toy kernel f.\n\nParameters\n----------\nx : float32* rw\nn : int32\na : float32\n\nLaunch\n------\n"
        "    the grid and the block are those of the variant, one of 3 by BLOCK, TILE, which depends on the device, n"
    )
    f = module(info(grid=None, sizes=None))[0]["f"]
    assert "*, grid=None, threads=None, stream=None)" in str(inspect.signature(f))
    assert f.__doc__.endswith(
        "    threads= or grid=; the block is that of the variant, one of 3 by BLOCK, TILE, which depends on the device"
    )


def test_a_variant_may_have_a_grid_a_block_and_an_interface_of_its_own() -> None:
    scratch = Param("s", "local", "float32", default=Local(32))
    params = [*PARAMS, scratch]
    larger = Interface([*PARAMS, scratch.replace(default=Local(64))], block=(4, 2, 1))
    tune = {
        "constants": ["MODE"],
        "variants": [
            {"values": ["plain"], "grid": ["n"]},
            {"values": ["tiled"], "grid": [1, ["+", "n", 1]], "interface": larger.to_dict()},
        ],
    }
    interface = Interface(params, default_block=(2, 1, 1), extra={"tune": tune}, needs=["tuned"])
    about = FunctionInfo("f", [*info().arg_types, "handle"], (), (), interface)
    seen: list[Any] = []
    made = toy.module(
        {"f": about},
        {"f": lambda launch, *values: seen.append((launch.grid, launch.block, values[3]))},
    )
    f = made["f"]
    x = toy.DEVICES[0].zeros(4, "float32")
    tiled = f.variant(MODE="tiled")
    for _ in range(3):
        f(x, 5, 1.0)
        tiled(x, 5, 1.0)
        tiled(x, 6, 1.0, s=Local(8))
    assert (
        seen
        == [
            ((5, 1, 1), (2, 1, 1), ("local", 32)),
            ((1, 6, 1), (4, 2, 1), ("local", 64)),
            ((1, 7, 1), (4, 2, 1), ("local", 8)),
        ]
        * 3
    )


def test_a_function_without_sizes_builds_the_variant_that_it_takes() -> None:
    times = {((), (8, 1)): 2e-6, ((), (16, 2)): 1e-6}
    known = record({}).replace(sizes=(), measured=times)
    made, launched = module(info(sizes=None), records=[known])
    f = made["f"]
    assert made.built == [("f", 0)]
    for n in (10, 1000):
        f(toy.DEVICES[0].zeros(4, "float32"), n, 1.0)
        assert launched.take() == SECOND
    assert made.built == [("f", 0)]
    assert f.on(toy.DEVICES[1]) is not None
    assert made.built == [("f", 0), ("f", 1)]


def test_guard_and_profile_take_tuned_functions() -> None:
    made, launched = module(records=[record({10: ALL})])
    f = made["f"]
    x = toy.DEVICES[0].zeros(4, "float32")
    f(x, 10, 1.0)
    with devmod.profile() as report:
        f(x, 10, 1.0)
    assert [each.name for each in report.records if each.action == "launch"] == ["f"]
    with devmod.guard():
        guarded = toy.DEVICES[0].zeros(4, "float32")
        f(guarded, 10, 1.0)
        f.bind(guarded, 10, 1.0)()
    f(x, 10, 1.0)
    assert launched == [(1, 16, 16, 2)] * 5


class NumberKernel(toy.ToyKernel):
    """A kernel that converts the numbers of plain calls itself."""

    def plain_caller(self, stream: Any, shape: Any, arguments: Any) -> Callable[..., Any]:
        return lambda memories, numbers: self.run(shape, *memories, *numbers)


class NumberLauncher(toy.ToyLauncher):
    def packs_numbers(self, arguments: Any) -> bool:
        return True

    def specialize(self, constants: Mapping[str, object]) -> toy.ToyLauncher:
        return type(self)(self.module, self.name, partial(self.run, **constants))

    def kernel(self, device: devmod.Device) -> toy.ToyKernel:
        return NumberKernel(device, self.run)


def test_a_backend_that_converts_numbers_itself() -> None:
    made, launched = module(
        launcher=NumberLauncher, records=[record({10: {FIRST: 1e-6}, 1000: ALL})]
    )
    f = made["f"]
    x = toy.DEVICES[0].zeros(4, "float32")
    for n, expected in ((10, FIRST), (1000, SECOND)) * 3:
        f(x, n, 1.0)
        assert launched.take() == expected
