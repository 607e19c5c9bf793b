"""Tuned functions of bundles: the variants of several candidates, and what explains the choice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import toy_backend as toy
from test_tuned import ALL, FIRST, LIKE, PARAMS, SECOND, THIRD, array, info, record, variants_of
from test_tuned import devices as devices

import devmod
from devmod import FunctionInfo, Interface
from devmod.backend import FallbackModule
from devmod_runtime._tuning.overlay import own_key, write_own
from devmod_workbench._cli import main

pytestmark = pytest.mark.row("R52")


@pytest.fixture(autouse=True)
def _kind(devices: list[toy.ToyDevice], register: Callable[..., None]) -> None:
    """The devices have the architectures 1 and 2, of which 2 runs payloads for 1 too."""
    for number, device in enumerate(devices, 1):
        device.arch = f"t{number}"
    register("devmod.targets", "toy", SPEC)
    register("devmod.device", "toy", lambda: toy.DEVICES)
    register("devmod.load_from_bytes", "toy", LoadedModule.load)


def rank(variant: str, arch: str) -> int | None:
    if variant > arch:
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
    """A module whose launches note the payload, BLOCK and the blocks."""

    launched = []
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
    about = info(*variants, specialized=len(variants) > 1 or None, **tune)
    return LoadedModule(SPEC, "toy", {"f": about}, payload.encode())


def launch(f: Any, device: int = 0) -> tuple[str, int, int]:
    """Return the payload, BLOCK and the blocks of a launch."""
    f(array(device), 1000, 1.0)
    return LoadedModule.launched.pop()


def explained(root: devmod.Module, **options: Any) -> str:
    """Return the last line of an explanation."""
    return str(devmod.explain(root, **options)).splitlines()[-1].strip()


def test_the_candidates_of_a_kind_have_one_list_of_variants() -> None:
    """In the order of the file, each from the best candidate that has it."""
    root = devmod.bundle(
        module("t1a", FIRST),
        module("t2a", SECOND),
        module("t2b", FIRST),
        module("t2c", THIRD, SECOND),
    )
    root.tuning_records = [record({1000: ALL})]
    for loaded in (root, devmod.loads(devmod.dumps(root))):
        f = loaded["f"]
        assert variants_of(f) == [FIRST]
        assert launch(f) == ("t1a", 0, 125)
        second = f.on(toy.DEVICES[1])
        assert variants_of(second) == [FIRST, SECOND, THIRD]
        assert launch(second, 1) == launch(f, 1) == ("t2b", 0, 125)
        assert launch(second.specialize(BLOCK=16, TILE=2), 1) == ("t2a", 0, 32)
        assert launch(second.specialize(BLOCK=32, TILE=4), 1) == ("t2c", 32, 8)
        first = f.specialize(BLOCK=8, TILE=1).on(toy.DEVICES[1])
        assert variants_of(first) == [FIRST]
        assert launch(first, 1) == ("t2b", 0, 125)
    root.tuning_records = [record({1000: ALL}, device="toy number 1")]
    assert launch(root["f"], 1) == ("t2a", 0, 32)


def test_other_functions_of_the_name_do_not_join() -> None:
    x, n, a = PARAMS
    plain = FunctionInfo("f", info().arg_types, (), (), Interface(PARAMS))
    others = [
        LoadedModule(SPEC, "toy", {"f": plain}, b"t1p"),
        module("t1c", (1, 2), constants=["BLOCK", "ROWS"], grid=None),
        module("t1d", THIRD, sizes=None, grid=None),
    ]
    # One call has one order of the kernel's values, and copies what one of them writes.
    for types, params in (
        (["int32", "handle", "float32"], [n, x, a]),
        (plain.arg_types, [x.replace(access="r"), n, a]),
    ):
        about = info(THIRD, specialized=None, grid=None)
        interface = about.interface.replace(params=params)
        about = about.replace(arg_types=types, interface=interface)
        others.append(LoadedModule(SPEC, "toy", {"f": about}, b"t1g"))
    first, last = module("t1a", FIRST, grid=None), module("t1e", SECOND, grid=None)
    assert variants_of(devmod.bundle(first, *others, last)["f"]) == [FIRST, SECOND]


def test_the_chosen_candidate_alone_is_built() -> None:
    modules = [module("t1a", FIRST, sizes=None), module("t1b", SECOND, sizes=None)]
    root = devmod.bundle(*modules)
    times = {((), FIRST): 2e-6, ((), SECOND): 1e-6}
    root.tuning_records = [LIKE.replace(sizes=(), measured=times)]
    f = root["f"]
    assert [each.built for each in modules] == [[], [("f", 0)]], "it depends on no size"
    assert launch(f) == ("t1b", 0, 32)
    assert f.on(toy.DEVICES[1]) is not None
    assert launch(f, 1) == ("t1a", 0, 125)
    assert [each.built for each in modules] == [[("f", 1)], [("f", 0)]]


BEST = """\
f on this machine:
  best     toy/toy for t1  it fits toy device 0, t1
  refused  toy/toy for t2  no toy device fits t2; there is: t1, t2
"""
BY_FILE = "the fastest in the file's records of this device"
TEN = f"{BY_FILE} at n=10: 1 us"
THOUSAND = f"{BY_FILE} at n=1000: 1 us, and the first variant 3 us"


def test_explain_and_inspect_have_the_record_that_chose(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = devmod.bundle(module("t1a", FIRST, SECOND), module("t2a", THIRD))
    root.tuning_records = [record({10: {FIRST: 1e-6}, 1000: ALL})]
    path = tmp_path / "f.devmod"
    devmod.save(root, path)
    text = str(devmod.explain(devmod.load(path), "f"))
    assert text == (
        f"{BEST}  variant  BLOCK=8, TILE=1: {TEN}\n  variant  BLOCK=16, TILE=2: {THOUSAND}"
    )
    assert main(["inspect", "--here", str(path)]) == 0
    assert capsys.readouterr().out == f"{text}\n"
    assert main(["inspect", "--here", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["variants"]["f"] == [
        {"constants": {"BLOCK": 8, "TILE": 1}, "text": TEN},
        {"constants": {"BLOCK": 16, "TILE": 2}, "text": THOUSAND},
    ]
    monkeypatch.setenv("DEVMOD_TUNE", "off")
    assert explained(root) == "variant  BLOCK=8, TILE=1: the first variant, by DEVMOD_TUNE"


def test_explain_says_that_the_driver_changed_and_whose_record_it_is() -> None:
    root = devmod.bundle(module("t1a", FIRST, SECOND, THIRD))
    times = {1000: {SECOND: 1e-3, THIRD: None}}
    first, second = "variant  BLOCK=8, TILE=1: ", "variant  BLOCK=16, TILE=2: "
    alike = [record({1000: ALL}, device=f"device {number}") for number in range(3)]
    cases = {
        f"{first}the first variant: no record is of this device": [],
        f"{second}{BY_FILE} at n=1000: 1 ms; the driver was 0, and is 1 now": [
            record(times, driver="0")
        ],
        f"{second}{BY_FILE} at n=1000: 1 ms; the driver was unknown, and is 1 now": [
            record(times, driver="")
        ],
        f"{second}the fastest in the file's records of the architecture t1 at n=1000: 1 ms, on sister": [
            record(times, device="sister", arch="t1", driver="0")
        ],
        f"{first}none is certainly faster than the first variant in the file's records of this device at n=1000: 3 us": [
            record({1000: {FIRST: 3e-6, SECOND: 2e-6}}).replace(turns={((1000,), FIRST): (9, 3e-6)})
        ],
        f"{first}the first variant: the records of this device have no settled time": [
            record({1000: {SECOND: 2e-6}}).replace(turns={((1000,), SECOND): (1, 0.0)})
        ],
        f"{first}the first variant that did not fail on this device": [
            record({1000: {SECOND: None}})
        ],
        f"{first}the first variant: each one failed on this device": [
            record({1000: dict.fromkeys(ALL)})
        ],
        f"{second}no record is of this device, and at least 3 toy devices took at most 1.05 of their best time with it": alike,
        "and 2 more sizes": [record({each: {SECOND: 1e-9} for each in range(1, 11)})],
    }
    for text, records in cases.items():
        root.tuning_records = records
        assert explained(root) == text

    # A device of another machine.
    root.tuning_records = [record(times, device="sister", arch="t2")]
    assert "records of the architecture t2" in explained(root, device="toy:t2")
    assert "no record is of this device" in explained(root, device="toy:t1")


def test_the_records_of_the_user_choose_before_those_of_the_file(tmp_path: Path) -> None:
    root = devmod.bundle(module("t1a", FIRST, SECOND, THIRD))
    root.tuning_records = [record({1000: ALL})]

    def block() -> int:
        return launch(devmod.loads(devmod.dumps(root))["f"])[1]

    f = root["f"]
    assert launch(f)[1] == 16
    own = record({1000: {FIRST: 2e-6, THIRD: 1e-6}})
    key = own_key("f", "toy", f.info.interface)
    write_own(key, [own])
    assert (launch(f)[1], block()) == (16, 32), "a call does not read them again"
    assert explained(root) == (
        "variant  BLOCK=32, TILE=4: the fastest in the user's records of this device at n=1000: 1 us, and the first variant 2 us"
    )
    # Later ones replace them.
    write_own(key, [record({1000: {THIRD: 3e-6}})])
    assert block() == 8

    (entry,) = (tmp_path / "cache" / "tuning").iterdir()
    data = entry.read_bytes()
    for damaged in (data[:-1], data.replace(b"3e-06", b"1e-09")):
        entry.write_bytes(damaged)
        assert block() == 16
    assert main(["cache", "clear"]) == 0
    assert not entry.exists()


def test_a_module_without_a_runtime_has_its_variants() -> None:
    fallback = FallbackModule(SPEC, "toy", {"f": info()}, b"t1a")
    with pytest.raises(devmod.RuntimeNotLinkedError):
        fallback.get_function("f")
    loaded = devmod.loads(devmod.dumps(devmod.bundle(module("t1a", FIRST, SECOND))))
    assert launch(devmod.bundle(fallback, loaded)["f"]) == ("t1a", 8, 125)
