"""Tuned functions of bundles: the variants of several candidates, and what explains the choice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import toy_backend as toy
from test_tuned import ALL, FIRST, PARAMS, SECOND, THIRD, info, record

import devmod
from devmod import FunctionInfo, Interface
from devmod._cli import main
from devmod_runtime._tuning.overlay import write_own

Register = Callable[..., None]


@pytest.fixture(autouse=True)
def devices(
    register: Register, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[toy.ToyDevice]]:
    """Two toy devices of the architectures 1 and 2, of which 2 runs payloads for 1 too."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    with toy.fresh_devices() as found:
        for number, device in enumerate(found, 1):
            device.arch = f"t{number}"
            device.driver_version = "1"
        register("devmod.targets", "toy", SPEC)
        register("devmod.device", "toy", lambda: toy.DEVICES)
        register("devmod.load_from_bytes", "toy", LoadedModule.load)
        yield found


def rank(variant: str, arch: str) -> int | None:
    if int(variant[1:]) > int(arch[1:]):
        return None
    return int(variant[1:])


SPEC = devmod.TargetSpec(
    "toy",
    title="Toy",
    distribution="devmod-toy",
    formats=("toy",),
    architecture=lambda fmt, code: bytes(code).decode()[:2],
    rank=rank,
)


class LoadedModule(toy.ToyModule):
    """A module whose launches note the payload and the constants."""

    launched: list[tuple[str, int, int]] = []
    built: Any = []
    target = "toy"

    def launcher(self, name: str, about: FunctionInfo) -> Any:
        payload = bytes(self.code).decode()

        def run(launch: Any, *values: Any, BLOCK: int = 0, TILE: int = 0) -> None:
            LoadedModule.launched.append((payload, BLOCK, launch.grid[0]))

        return toy.ToyLauncher(self, name, run)


def module(payload: str, *variants: tuple[int, int], **tune: Any) -> LoadedModule:
    """Return a module for the architecture at the start of the payload's text, with one variant
    that is compiled in, or with several.
    """
    entries = [{"values": list(each)} for each in variants]
    about = info(variants=entries, specialized=len(variants) > 1 or None, **tune)
    return LoadedModule(SPEC, "toy", {"f": about}, payload.encode())


def call(f: Any, device: toy.ToyDevice, n: int = 1000) -> tuple[str, int, int]:
    """Return the payload, BLOCK and the blocks of a launch."""
    LoadedModule.launched.clear()
    f(device.zeros(1, "float32"), n, 1.0)
    (launch,) = LoadedModule.launched
    return launch


def test_the_candidates_of_a_kind_have_one_list_of_variants(devices: list[toy.ToyDevice]) -> None:
    """In the order of the file, each from the best candidate that has it."""
    root = devmod.bundle(
        module("t1a", FIRST),
        module("t2a", SECOND),
        module("t2b", FIRST),
        module("t2c", THIRD, SECOND),
    )
    root.tuning_records = [record({1000: ALL})]
    for loaded in (root, devmod.loads(devmod.dumps(root))):
        f: Any = loaded["f"]
        assert f.variants == ({"BLOCK": 8, "TILE": 1},)
        assert call(f, devices[0]) == ("t1a", 0, 125)
        second = f.on(devices[1])
        assert [tuple(each.values()) for each in second.variants] == [FIRST, SECOND, THIRD]
        assert call(second, devices[1]) == ("t2b", 0, 125)
        assert call(f, devices[1]) == ("t2b", 0, 125), "by the array's device"
        assert call(second.variant(BLOCK=16, TILE=2), devices[1]) == ("t2a", 0, 32)
        assert call(second.variant(BLOCK=32, TILE=4), devices[1]) == ("t2c", 32, 8)
        first = f.variant(BLOCK=8, TILE=1).on(devices[1])
        assert first.variants == ({"BLOCK": 8, "TILE": 1},)
        assert call(first, devices[1]) == ("t2b", 0, 125)
    root.tuning_records = [record({1000: ALL}, device="toy number 1")]
    assert call(root["f"].on(devices[1]), devices[1]) == ("t2a", 0, 32)


def test_other_functions_of_the_name_do_not_join(devices: list[toy.ToyDevice]) -> None:
    plain = LoadedModule(
        SPEC, "toy", {"f": FunctionInfo("f", info().arg_types, (), (), Interface(PARAMS))}, b"t1p"
    )
    others = [
        plain,
        module("t1c", (1, 2), constants=["BLOCK", "ROWS"], grid=None),
        module("t1d", THIRD, sizes=None, grid=None),
    ]
    first = module("t1a", FIRST, grid=None)
    # One call has one order of the kernel's values, and copies what one of them writes.
    for params in ([PARAMS[1], PARAMS[0], PARAMS[2]], [PARAMS[0].replace(access="r"), *PARAMS[1:]]):
        about = info(variants=[{"values": [32, 4]}], specialized=None, grid=None)
        about = about.replace(interface=about.interface.replace(params=params))  # type: ignore[union-attr]
        if params[0] is PARAMS[1]:
            about = about.replace(arg_types=["int32", "handle", "float32"])
        others.append(LoadedModule(SPEC, "toy", {"f": about}, b"t1g"))
    root = devmod.bundle(first, *others, module("t1e", SECOND, grid=None))
    f: Any = root["f"]
    assert [tuple(each.values()) for each in f.variants] == [FIRST, SECOND]


def test_only_the_chosen_candidate_is_built(devices: list[toy.ToyDevice]) -> None:
    LoadedModule.built.clear()
    times = {((), FIRST): 2e-6, ((), SECOND): 1e-6}
    modules = [module("t1a", FIRST, sizes=None), module("t1b", SECOND, sizes=None)]
    for each in modules:
        each.built = []
    root = devmod.bundle(*modules)
    root.tuning_records = [record({}).replace(sizes=(), measured=times)]
    f: Any = root["f"]
    assert call(f, devices[0]) == ("t1b", 0, 32)
    assert [each.built for each in modules] == [[], [("f", 0)]]


BEST = """\
f on this machine:
  best     toy/toy for t1  it fits toy device 0, t1
  refused  toy/toy for t2  no toy device fits t2; there is: t1, t2
"""
BY_FILE = "the fastest in the file's records of this device"
MEASURED = f"""\
  variant  BLOCK=8, TILE=1: {BY_FILE} at n=10: 1 us
  variant  BLOCK=16, TILE=2: {BY_FILE} at n=1000: 1 us, and the first variant 3 us"""


@pytest.mark.row("R52")
def test_explain_and_inspect_have_the_record_that_chose(
    devices: list[toy.ToyDevice], tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = devmod.bundle(module("t1a", FIRST, SECOND), module("t2a", THIRD))
    assert str(devmod.explain(root)) == (
        BEST + "  variant  BLOCK=8, TILE=1: the first variant: no record is of this device"
    )
    known = record({10: {FIRST: 1e-6}, 1000: ALL})
    root.tuning_records = [known]
    path = tmp_path / "f.devmod"
    devmod.save(root, path)
    explained = devmod.explain(devmod.load(path), "f")
    assert str(explained) == BEST + MEASURED
    assert main(["inspect", "--here", str(path)]) == 0
    assert capsys.readouterr().out == f"{explained}\n"
    assert main(["inspect", "--here", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["variants"] == {
        "f": [
            {"constants": {"BLOCK": 8, "TILE": 1}, "text": f"{BY_FILE} at n=10: 1 us"},
            {
                "constants": {"BLOCK": 16, "TILE": 2},
                "text": f"{BY_FILE} at n=1000: 1 us, and the first variant 3 us",
            },
        ]
    }
    monkeypatch.setenv("DEVMOD_TUNE", "off")
    lines = str(devmod.explain(root)).splitlines()
    assert lines[-1] == "  variant  BLOCK=8, TILE=1: the first variant, by DEVMOD_TUNE"


@pytest.mark.row("R52")
def test_explain_says_that_the_driver_changed_and_whose_record_it_is(
    devices: list[toy.ToyDevice],
) -> None:
    root = devmod.bundle(module("t1a", FIRST, SECOND, THIRD))
    times = {1000: {SECOND: 1e-3, THIRD: None}}
    cases = {
        f"SECOND: {BY_FILE} at n=1000: 1 ms; the driver was 0, and is 1 now": record(
            times, driver="0"
        ),
        "SECOND: the fastest in the file's records of the architecture t1 at n=1000: 1 ms, on sister": record(
            times, device="sister", arch="t1", driver="0"
        ),
        "FIRST: the first variant that did not fail on this device": record({1000: {SECOND: None}}),
        "FIRST: the first variant: each one failed on this device": record(
            {1000: {FIRST: None, SECOND: None, THIRD: None}}
        ),
    }
    names = {"FIRST": "BLOCK=8, TILE=1", "SECOND": "BLOCK=16, TILE=2"}
    for expected, each in cases.items():
        root.tuning_records = [each]
        name, _, text = expected.partition(": ")
        last = str(devmod.explain(root)).splitlines()[-1]
        assert last == f"  variant  {names[name]}: {text}"
    root.tuning_records = [record({1000: ALL}, device=f"device {number}") for number in range(3)]
    assert str(devmod.explain(root)).splitlines()[-1] == (
        "  variant  BLOCK=16, TILE=2: no record is of this device, and at least 3 toy devices took at most 1.05 of their best time with it"
    )
    root.tuning_records = [record({each: {SECOND: 1e-9} for each in range(1, 11)})]
    assert str(devmod.explain(root)).splitlines()[-2:] == [
        f"  variant  BLOCK=16, TILE=2: {BY_FILE} at n=8: 1 ns",
        "  and 2 more sizes",
    ]


@pytest.mark.row("R52")
def test_a_device_of_another_machine_has_the_records_of_its_architecture(
    devices: list[toy.ToyDevice],
) -> None:
    root = devmod.bundle(module("t1a", FIRST, SECOND))
    root.tuning_records = [record({1000: ALL}, device="sister", arch="t2")]
    assert str(devmod.explain(root, device="toy:t2")).splitlines()[-1] == (
        "  variant  BLOCK=16, TILE=2: the fastest in the file's records of the architecture t2 at n=1000: 1 us, and the first variant 3 us, "
        "on sister"
    )
    assert "no record is of this device" in str(devmod.explain(root, device="toy:t1"))


@pytest.mark.row("R52")
def test_the_records_of_the_user_choose_before_those_of_the_file(
    devices: list[toy.ToyDevice], tmp_path: Path
) -> None:
    root = devmod.bundle(module("t1a", FIRST, SECOND, THIRD))
    root.tuning_records = [record({1000: ALL})]

    def function() -> Any:
        return devmod.loads(devmod.dumps(root))["f"]

    f = function()
    assert call(f, devices[0])[1] == 16
    own = record({1000: {FIRST: 2e-6, THIRD: 1e-6}})
    assert write_own("f", "toy", f.info.interface, [own])
    assert call(f, devices[0])[1] == 16, "a call does not read them again"
    assert call(function(), devices[0])[1] == 32
    assert str(devmod.explain(root)).splitlines()[-1] == (
        "  variant  BLOCK=32, TILE=4: the fastest in the user's records of this device at n=1000: 1 us, and the first variant 2 us"
    )
    # Later ones replace them, and a function with other arguments has its own.
    assert write_own("f", "toy", f.info.interface, [record({1000: {THIRD: 3e-6}})])
    assert call(function(), devices[0])[1] == 8
    other = module("t1b", FIRST, SECOND, sizes=None)["f"].info.interface
    assert other is not None
    assert write_own("f", "toy", other, [])

    (entry,) = [
        each for each in (tmp_path / "cache" / "tuning").iterdir() if b"toy" in each.read_bytes()
    ]
    data = entry.read_bytes()
    for damaged in (data[:-1], data.replace(b"3e-06", b"1e-09")):
        entry.write_bytes(damaged)
        assert call(function(), devices[0])[1] == 16
    assert main(["cache", "clear"]) == 0
    assert not entry.exists()


def test_a_module_without_a_runtime_has_its_variants(devices: list[toy.ToyDevice]) -> None:
    data = devmod.dumps(devmod.bundle(module("t1a", FIRST, SECOND)))
    from devmod.backend import FallbackModule

    fallback = FallbackModule(SPEC, "toy", {"f": info()}, b"t1a")
    assert devmod.backend.tuning_of(fallback.functions["f"].interface).variants
    with pytest.raises(devmod.RuntimeNotLinkedError):
        fallback.get_function("f")
    assert call(devmod.bundle(fallback, devmod.loads(data))["f"], devices[0]) == ("t1a", 8, 125)
