"""Tuned functions: their variants, the records that choose among them, and what a call costs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import toy_backend as toy
from each_case import check_each, error_of
from work import frames

import devmod
from devmod import FunctionInfo, Interface, Local, Param, TuningRecord
from devmod.backend import Capabilities

pytestmark = pytest.mark.row("R52")

PARAMS = [
    Param("x", "buffer", "float32", "rw"),
    Param("n", "scalar", "int32"),
    Param("a", "scalar", "float32"),
]
#: The values of the constants BLOCK and TILE.
FIRST, SECOND, THIRD = (8, 1), (16, 2), (32, 4)
Times = Mapping[int, Mapping[tuple[int, int], float | None]]


@pytest.fixture(autouse=True)
def devices(tmp_path: Any, monkeypatch: Any) -> Iterator[list[toy.ToyDevice]]:
    """Two devices of one architecture, and no records of the user."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    with toy.fresh_devices() as made:
        for device in made:
            device.arch = "toy9:feature"
            device.driver_version = "1"
        yield made


def info(*variants: tuple[int, int], **tune: Any) -> FunctionInfo:
    """Return a function with the constants BLOCK and TILE, the size n, a grid and a block."""
    fields = {
        "constants": ["BLOCK", "TILE"],
        "variants": [{"values": list(each)} for each in variants or (FIRST, SECOND, THIRD)],
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

    def take(self) -> tuple[int, ...]:
        """Return the only launch, and forget it."""
        (launch,) = self
        self.clear()
        return tuple(launch)


def module(
    about: FunctionInfo | None = None, launcher: Any = toy.ToyLauncher, records: Any = ()
) -> tuple[toy.ToyModule, Launched]:
    """Return a module with the function `f`, and its launches."""
    launched = Launched()
    made = toy.module({"f": about or info()}, {"f": launched.run}, launcher)
    made.tuning_records = tuple(records)
    return made, launched


def array(device: int = 0) -> Any:
    return toy.DEVICES[device].zeros(4, "float32")


def variants_of(f: Any) -> list[tuple[int, ...]]:
    return [tuple(each.values()) for each in f.variants]


LIKE = TuningRecord(
    "f", "toy", "", "toy number 0", driver="1", constants=("BLOCK", "TILE"), sizes=("n",)
)


def record(times: Times, **fields: Any) -> TuningRecord:
    """Return a record of the first device with times by n."""
    measured = {}
    for size, by_values in times.items():
        for values, seconds in by_values.items():
            measured[(size,), values] = seconds
    return LIKE.replace(measured=measured, **fields)


def chosen(records: Any, n: int = 1000) -> tuple[int, ...]:
    """Return the variant that a call takes."""
    made, launched = module(info(grid=None), records=records)
    made["f"](array(), n, 1.0, threads=1)
    return launched.take()[2:]


def check_choices(expected: tuple[int, int], *cases: Any) -> None:
    """Check the variant that each list of records chooses."""

    def check(records: Any) -> None:
        assert chosen(records) == expected

    check_each(cases, check)


ALL = {FIRST: 3e-6, SECOND: 1e-6, THIRD: 2e-6}
#: With a record of another device, the variant for a device without one is the first.
LATER = ALL | {THIRD: 1e-9}
OWN = record({1000: ALL})
SISTER = record({1000: LATER}, device="toy number 1", arch="toy9")


def test_the_records_of_the_device_choose_before_those_of_its_architecture() -> None:
    check_choices(
        FIRST,
        [],
        [OWN.replace(function="g")],
        [OWN.replace(kind="other")],
        [OWN.replace(platform="P")],
        [OWN.replace(device="toy")],  # its name begins alike
        [OWN.replace(device="toy number 01")],
        [OWN.replace(constants=("BLOCK", "ROWS"))],
        [OWN.replace(sizes=("m",))],
        [SISTER.replace(arch="toy90")],
        [SISTER.replace(arch="")],
    )
    check_choices(
        SECOND,
        [OWN],
        [SISTER, OWN],
        [OWN.replace(driver="0")],
        [OWN, record({1000: LATER}, driver="0")],
        [record({1000: {FIRST: 2e-6}}), record({1000: {SECOND: 1e-6}}, driver="0")],
        [OWN.arranged(("TILE", "BLOCK"), ("n",))],
    )
    check_choices(THIRD, [SISTER])


def test_only_a_variant_that_works_and_that_the_file_has_is_chosen() -> None:
    gone = {1000: {(64, 8): 1e-9}}
    second_failed = {SECOND: None}
    check_choices(FIRST, [record(gone)], [record({1000: dict.fromkeys(ALL)})])
    check_choices(
        SECOND,
        [record({1000: ALL | gone[1000]})],
        [record(gone | {9000: ALL})],
        [record({1000: ALL, 9000: second_failed})],
        [record({1000: {FIRST: None}})],
        [record({1000: {THIRD: None}}), SISTER],
    )
    check_choices(
        THIRD,
        [record({1000: ALL | second_failed})],
        [record({1000: second_failed, 9000: ALL})],
        [record({1000: ALL, 9000: {SECOND: False}})],  # it is wrong
    )


def test_the_nearest_sizes_decide() -> None:
    times = {
        100: {FIRST: 1e-6, SECOND: 2e-6},
        10_000: {FIRST: 2e-6, SECOND: 1e-6},
        0: {FIRST: 2e-6, THIRD: 1e-6},
        -100: {FIRST: 2e-6, SECOND: 1e-6},
    }
    expected = {
        FIRST: (8, 100, 999, 1000),  # 1000 is as near to both: the smaller one
        SECOND: (-(2**31), 1001, 2**31 - 1),
        THIRD: (-1, 0, 1, 7),  # zero counts as a half
    }
    for variant, sizes in expected.items():
        assert [chosen([record(times)], n) for n in sizes] == [variant] * len(sizes)
    backwards = record(dict(reversed(times.items())))
    assert chosen([backwards]) == FIRST, "the order in which sizes were measured decides nothing"


def measured(first: tuple[float, int, float], second: tuple[float, int, float]) -> TuningRecord:
    """Return a record at n=1000 of the first two variants: the seconds, turns and spread of
    each.
    """
    made = record({1000: {FIRST: first[0], SECOND: second[0]}})
    turns = {((1000,), FIRST): first[1:], ((1000,), SECOND): second[1:]}
    return made.replace(turns={case: own for case, own in turns.items() if own[0]})


def test_a_variant_replaces_the_first_one_if_it_is_certainly_faster() -> None:
    check_choices(
        SECOND,
        [measured((10e-6, 25, 0.1e-6), (9e-6, 25, 9e-6))],  # its own spread does not count
        [measured((10e-6, 25, 4e-6), (5e-6, 25, 0.0))],
        [measured((10e-6, 0, 0.0), (9.99e-6, 0, 0.0))],  # of another tool
        [measured((10e-6, 100, 0.0), (9.9e-6, 6, 0.0))],
    )
    check_choices(
        FIRST,
        [measured((10e-6, 25, 4e-6), (9e-6, 25, 0.0))],
        [measured((10e-6, 25, 0.0), (9.95e-6, 25, 0.0))],
        [measured((10e-6, 5, 0.0), (1e-6, 25, 0.0))],  # too few turns of one of them
        [measured((10e-6, 25, 0.0), (1e-6, 5, 0.0))],
        [measured((10e-6, 1, 0.0), (1e-6, 1, 0.0))],
    )
    # At the nearest size there is no settled time.
    few = measured((1e-6, 5, 0.0), (10e-6, 5, 0.0))
    check_choices(SECOND, [few, record({9000: {FIRST: 2e-6, SECOND: 1e-6}})])
    # The noise of the first variant grows with its time by the blocks, here to 16 times.
    made = measured((10e-6, 25, 4e-6), (9e-6, 25, 0.0))
    assert module(records=[made])[0]["f"].launch_config(n=16_000).block[0] == 8


def test_times_count_by_the_blocks_of_the_call(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_LOG", "debug")
    times = {FIRST: 4e-6, SECOND: 2e-6, THIRD: 1.5e-6}  # in 16 blocks, in 4 and in 1
    f = module(records=[record({128: times})])[0]["f"]
    expected = {128: THIRD, 127: THIRD, 129: SECOND, 160: SECOND, 193: THIRD}
    for n, variant in expected.items():
        assert f.launch_config(n=n).block[0] == variant[0]
    small = module(records=[record({10: ALL})])[0]["f"]
    assert small.launch_config(n=159).block[0] == 16, "few threads of its block had work"
    text = "the fastest in the file's records of this device at n=128"
    lines = capsys.readouterr().err
    assert f"takes BLOCK=32, TILE=4: {text}: 1.5 us, and the first variant 4 us\n" in lines
    assert (
        f"{text}: 2 us for 4 blocks, 5 here, and the first variant 4 us for 16 blocks, 17 here\n"
        in lines
    )


def others(count: int, times: Times, **fields: Any) -> list[TuningRecord]:
    return [record(times, device=f"other {number}", **fields) for number in range(count)]


def test_times_of_few_turns_are_no_times_of_another_device() -> None:
    few = {((1000,), SECOND): (5, 0.0)}
    three = others(3, {1000: ALL})
    check_choices(SECOND, three)
    check_choices(THIRD, [each.replace(turns=few) for each in three])


def test_three_devices_decide_for_one_that_nobody_measured() -> None:
    good = {1000: ALL, 9: {FIRST: 1e-6, SECOND: 1.05e-6}}
    three = others(3, good)
    check_choices(
        SECOND,
        three,
        [*others(2, good), *others(1, good, platform="P")],
        others(3, {1000: {FIRST: 2e-6, SECOND: 1e-6, THIRD: 1e-6}}),
    )
    check_choices(
        FIRST,
        others(2, good),
        [*others(2, good), record(good, device="other 0", driver="2")],
        [*others(2, good), record({9: dict.fromkeys(ALL)}, device="all failed")],
        others(3, {1000: ALL, 9: {FIRST: 1e-6, SECOND: 1.06e-6}}),
        others(3, good, kind="other"),
        [*three, record({9: {FIRST: 1e-6, SECOND: None}}, device="x")],
        [*three, record({9: {FIRST: 1e-6}}, device="x")],
        [*three, record({1000: {FIRST: 1e-6}})],  # the device itself
    )


@pytest.mark.parametrize("sizes", [("n",), ()])
def test_a_switch_takes_the_first_variant_of_functions_that_are_looked_up(
    sizes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = (1000,) * len(sizes)
    own = LIKE.replace(sizes=sizes, measured={(key, FIRST): 2e-6, (key, SECOND): 1e-6})
    made, launched = module(info(sizes=[*sizes]), records=[own])
    f = made["f"]
    expected = {"off": FIRST, "OFF": FIRST, "0": FIRST, "on": SECOND, "": SECOND}
    for value, variant in expected.items():
        monkeypatch.setenv("DEVMOD_TUNE", value)
        f.on(toy.DEVICES[0])(array(), 1000, 1.0)
        assert launched.take()[2:] == variant
    monkeypatch.setenv("DEVMOD_TUNE", "off")
    f(array(), 1000, 1.0)
    assert launched.take()[2:] == SECOND, "it was looked up before"


class LimitedDevice(toy.ToyDevice):
    """A device with blocks of up to 16 threads."""

    driver_version = "1"
    limits = {"max_block": 16, "view_alignment": 16}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(self, {"block": "max_block"})


def test_a_variant_that_does_not_fit_the_device_is_never_chosen() -> None:
    toy.DEVICES[0] = LimitedDevice(0)
    assert chosen([record({1000: LATER})]) == SECOND
    made, launched = module(info((32, 1), (8, 1)))
    assert made["f"].variants == ({"BLOCK": 8, "TILE": 1},)
    made["f"](array(), 1, 1.0)
    assert launched.take() == (1, 8, 8, 1)
    unfit, _ = module(info((32, 1)))
    error = error_of(unfit.get_function, "f")
    assert str(error) == "the toy function 'f' has no variant that fits toy device 0 (toy number 0)"


class PickyLauncher(toy.ToyLauncher):
    """A launcher whose compiler refuses blocks of 16."""

    def specialize(self, constants: Mapping[str, object]) -> toy.ToyLauncher:
        if constants["BLOCK"] == 16:
            raise devmod.CompileError(f"the toy compiler refuses {constants}", kind="toy")
        return super().specialize(constants)


def test_a_variant_that_cannot_be_built_is_passed_over(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVMOD_LOG", "debug")
    made, launched = module(launcher=PickyLauncher, records=[OWN])
    made["f"](array(), 1000, 1.0)
    assert launched.take()[2:] == THIRD
    assert [line for line in capsys.readouterr().err.splitlines() if "takes" in line] == [
        "devmod: the toy function 'f' on toy device 0 (toy number 0) takes BLOCK=16, TILE=2: the fastest in the file's records of this "
        "device at n=1000: 1 us, and the first variant 3 us. It cannot be built: the toy compiler refuses {'BLOCK': 16, 'TILE': 2}",
        "devmod: the toy function 'f' on toy device 0 (toy number 0) takes BLOCK=32, TILE=4: the fastest in the file's records of this "
        "device at n=1000: 2 us, and the first variant 3 us",
    ]
    refused, _ = module(info((16, 1), (16, 2)), PickyLauncher)
    error = error_of(refused["f"], array(), 1000, 1.0)
    assert str(error) == "the toy compiler refuses {'BLOCK': 16, 'TILE': 1}"

    made, launched = module(info((65, 1), (64, 1)))  # a limit that only the kernel knows
    made["f"](array(), 64, 1.0)
    assert launched.take() == (1, 64, 64, 1)


class FullLauncher(toy.ToyLauncher):
    """A launcher whose device has no free memory for the first kernel."""

    def kernel(self, device: devmod.Device) -> toy.ToyKernel:
        kernel = super().kernel(device)
        if len(self.module.built) == 1:
            raise devmod.DeviceMemoryError("the toy device is full", kind="toy")
        return kernel


def test_a_device_without_free_memory_for_a_moment_bans_no_variant() -> None:
    made, launched = module(launcher=FullLauncher, records=[OWN])
    f = made["f"]
    error = error_of(f, array(), 1000, 1.0)
    assert isinstance(error, devmod.DeviceMemoryError)
    for _ in range(2):
        f(array(), 1000, 1.0)
        assert launched.take()[2:] == SECOND


# -- calls


def test_each_form_of_a_call_takes_the_variant_of_its_sizes() -> None:
    made, launched = module(records=[record({10: {FIRST: 1e-6, THIRD: 2e-6}, 1000: ALL})])
    f = made["f"]
    device = toy.DEVICES[0]
    on_device = array()
    expected = {10: (2, 8, 8, 1), 1000: (32, 16, 16, 2), 999: (32, 16, 16, 2)}
    calls = [
        lambda x, n: f(x, n, 1.0),
        lambda x, n: f(x, n=np.int64(n), a=1),
        lambda x, n: f(a=1.0, x=x, n=n),
        lambda x, n: f(x, n, 1.0, stream=device.default_stream),
        lambda x, n: f.on(device)(x, n, 1.0),
        lambda x, n: f.bind(on_device, n, 1.0)(),
    ]
    for call in calls:
        for x in (on_device, np.zeros(4, "float32")):
            for n in (10, 1000, 999, 10) * 2:
                call(x, n)
                assert launched.take() == expected[n]
    for n, (grid, block, _, _) in expected.items():
        assert f.launch_config(n=n) == devmod.LaunchConfig((grid, 1, 1), (block, 1, 1))
    f(on_device, 0, 1.0)
    assert launched == []
    assert sorted(made.built) == [("f", 0)] * 2, "each variant is built once"
    f(array(1), 1000, 1.0)
    assert launched.take()[2:] == FIRST, "nothing is known of the other device"


def test_a_wrong_argument_has_the_error_of_other_functions() -> None:
    f = module()[0]["f"]
    f(array(), 10, 1.0)
    wrong = {
        ": argument 2 'n': 1.5 is not a whole number": 1.5,
        ": argument 2 'n': 2147483648 does not fit int32 (-2147483648 to 2147483647)": 2**31,
        ": argument 2 'n': '3' is not a whole number": "3",
        " (BLOCK=8, TILE=1), n=-8: the grid is -1; expected at least 0": -8,
    }
    for text, n in [*wrong.items()] * 2:
        error = error_of(f, array(), n, 1.0)
        assert (str(error), error.argument) == (f"the toy function 'f'{text}", "n")
    for name, value in {"grid": 1, "threads": (4, 4), "block": 8}.items():
        error = error_of(f, array(), 10, 1.0, **{name: value})
        text = f"has a grid of its own, and was given {name}={value!r}; omit {name}="
        assert (str(error), error.argument) == (f"the toy function 'f' {text}", name)
    assert str(error_of(f.launch_config, n=1, m=2)) == (
        "the toy function 'f': launch_config takes the arguments that decide the variant and the grid: expected 'n', got 'n', 'm'"
    )


def test_a_repeated_call_has_no_frame_more_than_that_of_another_function() -> None:
    plain, _ = module(FunctionInfo("f", info().arg_types, (), (), Interface(PARAMS)))
    set_by_hand = plain["f"].specialize(BLOCK=8, TILE=1)
    tuned, _ = module()
    for x in (array(), np.zeros(4, "float32")):
        counts = set()
        for f, launch in ((set_by_hand, {"grid": 2, "block": 8}), (tuned["f"], {})):
            for n in (10, 20) * 2:
                f(x, n, 1.0, **launch)
            for n in (10, 20):
                counts.add(len(frames(partial(f, x, n, 1.0, **launch))))
        assert len(counts) == 1


def test_a_variant_without_a_block_is_an_error_of_the_file() -> None:
    made = module(info(block=[["-", "BLOCK", 8]]))[0]
    error = error_of(made.get_function, "f")
    assert str(error) == "the tuned function is invalid: the block is 0; expected at least 1"
    assert isinstance(error, devmod.FormatError)


# -- variants and other functions of a function


def test_a_function_lists_its_variants_and_gives_each() -> None:
    made, launched = module(records=[record({10: ALL})])
    f = made["f"]
    assert variants_of(f) == [FIRST, SECOND, THIRD]
    assert f.block is None
    for constants in f.variants:
        g = f.specialize(**constants)
        assert (g.variants, g.block) == ((constants,), (constants["BLOCK"], 1, 1))
        g(array(), 10, 1.0)
        assert launched.take()[1:] == (constants["BLOCK"], *constants.values())
    f(array(), 10, 1.0)
    assert len(made.built) == 3, "the variants of f are those of g"


def test_constants_that_are_set_leave_no_choice() -> None:
    made, launched = module(records=[record({10: ALL})])
    f = made["f"]
    for specialized, expected in (
        (f.specialize(TILE=2), (10, 8, 8, 2)),  # with the default's BLOCK
        (f.specialize(OTHER=1), (5, 16, 16, 2)),
        (f.on(toy.DEVICES[0]).specialize(OTHER=1).specialize(BLOCK=4), (40, 4, 4, 1)),
    ):
        for _ in range(3):
            specialized(array(), 159, 1.0)
            assert launched.take() == expected


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
    assert f.launch_config(threads=20) == devmod.LaunchConfig((3, 1, 1), (8, 1, 1))


def test_a_variant_may_have_a_grid_a_block_and_an_interface_of_its_own() -> None:
    scratch = Param("s", "local", "float32", default=Local(32))
    larger = Interface([*PARAMS, scratch.replace(default=Local(64))], block=(4, 2, 1))
    tune = {
        "constants": ["MODE"],
        "variants": [
            {"values": ["plain"], "grid": ["n"]},
            {"values": ["tiled"], "grid": [1, ["+", "n", 1]], "interface": larger.to_dict()},
        ],
    }
    interface = Interface(
        [*PARAMS, scratch], default_block=(2, 1, 1), extra={"tune": tune}, needs=["tuned"]
    )
    about = FunctionInfo("f", [*info().arg_types, "handle"], (), (), interface)
    seen = []
    f = toy.module(
        {"f": about},
        {"f": lambda launch, *values: seen.append((launch.grid, launch.block, values[3]))},
    )["f"]
    tiled = f.specialize(MODE="tiled")
    for _ in range(3):
        f(array(), 5, 1.0)
        tiled(array(), 5, 1.0)
    expected = [
        ((5, 1, 1), (2, 1, 1), ("local", 32)),
        ((1, 6, 1), (4, 2, 1), ("local", 64)),
    ]
    assert seen == expected * 3


def test_a_guard_takes_tuned_functions() -> None:
    made, launched = module(records=[record({10: ALL})])
    with devmod.guard():
        guarded = array()
        made["f"](guarded, 10, 1.0)
        made["f"].bind(guarded, 10, 1.0)()
    assert launched == [(1, 16, 16, 2)] * 2
