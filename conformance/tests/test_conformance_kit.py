"""The conformance kit: a conforming backend passes every row, and each wrong backend fails the row
for its fault.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import forked
import pytest
from devmod_toy import _device, _entries
from devmod_toy._conformance import ToyConformance
from devmod_toy._module import ToyKernel
from distributions import install
from each_case import check_texts, refusal, some
from toy.backend import ALLOWED, conformance, environment, put, put_least, put_map, results
from toy_faults import FAULTS, devices
from toy_faults._fault import Fault

import devmod
import devmod_conformance as kit

#: The rows that core alone decides, so that no backend can fail them.
CORE_ALONE = {"R25-fallback", "R28"}
#: The rows that are skipped for a backend without `devmod.device`.
NEED_DEVICES = (
    *("R33-devices", "R33-on", "R33-several", "R37-bind", "R37-copies", "R37-current"),
    *(
        "R37-deleted",
        "R37-device",
        "R37-dlpack",
        "R37-elapsed",
        "R37-events",
        "R37-in-place",
        "R37-memory",
        "R37-result",
        "R37-stream",
        "R37-views",
        "R37-zeros",
        "R40-needs",
        "R52-variants",
    ),
)
#: The rows that are skipped for a backend without images, and for one that cannot require a size of
#: subgroups.
NO_IMAGES = {
    **dict.fromkeys(
        ("R34-images", "R37-images", "R37-sampled", "R37-written"),
        "the case has no images: the backend does not support them, or gives no kernels with images",
    ),
    "R57": "the backend adopts no objects, or the case gives none",
    "R40-subgroup": "the case has no subgroups: the backend cannot require their size, or gives no kernel that shows it",
}
NO_IMAGES["R34-scalars"] = (
    "the case has no scalars: the backend gives no kernels that store a scalar"
)
#: The toy's samples. A sample keeps what the compiler has returned, and each fault may have another
#: compiler.
SAMPLES = copy.deepcopy(ToyConformance.samples)
#: Of the wrong backends of one row, the first, or one that is quicker. `make test` has these.
FIRST = {
    row: name
    for name in sorted(FAULTS, reverse=True)
    if name != "interrupted_file"
    for row in FAULTS[name].rows
}
for quicker in ("compiles_random", "interrupted_opening"):
    FIRST |= dict.fromkeys(FAULTS[quicker].rows, quicker)
#: A second wrong backend of its row: that of FIRST does not hang.
HANGS = "interrupted_import"
#: The rows that start processes. A run has those that do not, or all; the toy's run has all in make
#: test.
IN_PROCESSES = {
    "R5-no-file",
    "R6",
    "R8",
    "R23-lazy",
    "R37-forks",
    "R37-interrupts",
    "R38-saved",
    "R39",
    "R61",
}
RUNS = pytest.mark.parametrize(
    "chosen",
    [[row.id for row in kit.rows() if row.id not in IN_PROCESSES], []],
    ids=["some", "all"],
)
#: The rows whose wrong backend is in a test of its own.
OWN_TESTS = {"R44"}
HAS_GRID = "a launch of this kind has a grid"
#: Cases whose compiler is missing.
NO_TOOLCHAIN = """
import devmod
from devmod_conformance import Conformance, Sample


def missing(*arguments, **options):
    raise devmod.ToolchainNotFoundError("the compiler is missing: pip install it", kind="toy")


devmod.compile = missing


class Cases(Conformance):
    kind = "toy"
    samples = (Sample.compiled("text", "toy"),)
"""

#: Cases that show what the command has set.
SHOWN = """
from devmod_conformance import Conformance


class Cases(Conformance):
    kind = "toy"

    @property
    def samples(self):
        raise AssertionError(f"{self.interrupt_places} places in {self.timeout:g} s")
"""
#: The toy as the wrong backends of R61 are, but each lock is released: it is slow, and right.
SLOW = """
import sys
import threading
import time
from importlib import import_module

import devmod_toy._entries as entries
from devmod.backend import release_import_lock
from devmod_toy._device import ToyDevice
from devmod_toy._module import ToyModule
from toy_faults import FAULTS
from toy_faults._fault import Fault

NAME = "slow"
FAULTS[NAME] = slow = Fault((), "")
LOCK = threading.Lock()
BUILDING = []


@slow.replaces(ToyDevice, "synchronize")
def synchronize(before, self):
    with LOCK:
        time.sleep(0.02)
        before(self)


@slow.replaces(entries, "devices")
def devices(before):
    sys.modules.pop("toydriver", None)
    release_import_lock()
    thread = threading.Thread(target=__import__, args=("toydriver",), daemon=True)
    thread.start()
    thread.join()
    return before()


@slow.replaces(ToyModule, "launcher")
def launcher(before, self, name, info):
    try:
        BUILDING.append(True)
        import_module("asyncio")
        return before(self, name, info)
    finally:
        BUILDING.clear()
"""

#: Prints what fails after an interrupt at each place of a class whose attribute learns its name.
INTERRUPTED_CLASS = """
from devmod_conformance._interrupts import interrupt_places, record_places


class Attribute:
    def __set_name__(self, owner, name):
        pass


def use():
    class Owner:
        attribute = Attribute()


places = record_places([use], 0)
assert "Attribute.__set_name__" in [each.function for each in places]
print({each.failure for each in interrupt_places([use], 0, places)})
"""


def matches(text: str, pattern: str) -> bool:
    """Return whether a text matches the pattern, in which … matches any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("…"))), text, re.DOTALL) is not None


def options(rows: Iterable[str]) -> list[str]:
    """Return the options of the command that choose rows."""
    return [word for row in rows for word in ("--row", row)]


def put_cases(folder: Path, program: str) -> Path:
    """Install the toy with other cases into a folder: the class `Cases` of a program."""
    put(folder)
    (folder / "other_cases.py").write_text(program)
    entries = next(folder.rglob("entry_points.txt"))
    entries.write_text(
        entries.read_text().replace("devmod_toy._conformance:ToyConformance", "other_cases:Cases")
    )
    return folder


def python(folder: Path, cache: Path, program: str, *flags: str) -> str:
    """Return what a program prints in a process with the toy installed."""
    done = forked.python(*flags, "-c", program, env=environment(folder, cache))
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- right and wrong backends


@pytest.mark.row("R37")
def test_a_backend_that_conforms_passes_every_row(tmp_path: Path) -> None:
    found = results(put(tmp_path / "site"), tmp_path / "cache")
    expected = {row.id: ("passed", "") for row in kit.rows()} | {
        "R34-gridless": ("skipped", HAS_GRID)
    }
    assert {name: (each["outcome"], each["reason"]) for name, each in found.items()} == expected


@RUNS
@pytest.mark.volume_but("some")
@pytest.mark.row("R11", "R17")
def test_a_conforming_kind_with_a_map_of_shaders_passes_every_row(
    chosen: list[str], tmp_path: Path
) -> None:
    found = results(put_map(tmp_path / "site"), tmp_path / "cache", *options(chosen), kind="toymap")
    assert {
        name: each["reason"] for name, each in found.items() if each["outcome"] != "passed"
    } == {
        "R2-aliases": "the kind has no aliases",
        "R20-values": "no sample has global_arrays",
        **dict.fromkeys(("R38-compiled", "R42"), "no sample is created by Sample.compiled"),
        "R40-example": "the target spec has no needs_arch",
        "R23-absent": "the backend has no driver: its Conformance names no driver_modules, no driver_libraries and no driver_programs",
        **dict.fromkeys(NEED_DEVICES, "the backend lists no devices (devmod.device.toymap)"),
        **NO_IMAGES,
        "R34-gridless": HAS_GRID,
        "R34-open": "no called function has an interface that leaves the block open",
        "R34-local": "no call has a devmod.Local argument and an interface",
        "R34-structs": "no called function has a struct with members in its interface",
        "R34-packs": "no call has an array with its shape behind it",
    }
    assert "failed" not in {each["outcome"] for each in found.values()}


@pytest.mark.row("R31")
@pytest.mark.parametrize(
    ("how", "outcomes"),
    [
        ("text", [("skipped", "no sample has a payload in a source format")] * 2),
        (
            "first",
            [
                (
                    "failed",
                    "the inputs of the replaced compiler after two get_function of each name: expected [b'toy axpy', b'toy negate'], got "
                    "[b'toy negate']",
                ),
                ("failed", "TypeError: negate() takes…"),
            ],
        ),
    ],
)
def test_the_compiler_of_a_map_of_shaders(
    how: str, outcomes: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOYMAP", how)
    found = results(
        put_map(tmp_path / "site"),
        tmp_path / "cache",
        "--row",
        "R31-once",
        "--row",
        "R31-used",
        kind="toymap",
    )
    for (outcome, reason), row in zip(outcomes, ("R31-once", "R31-used"), strict=True):
        assert found[row]["outcome"] == outcome
        assert matches(found[row]["reason"], reason), found[row]["reason"]


@pytest.mark.once
@RUNS
@pytest.mark.volume_but("some")
@pytest.mark.row("R24", "R28")
def test_rows_that_do_not_apply_to_a_minimal_backend_are_skipped(
    chosen: list[str], tmp_path: Path
) -> None:
    found = results(
        put_least(tmp_path / "site"), tmp_path / "cache", *options(chosen), kind="least"
    )
    no_target = (
        "the kind 'least' has no target spec (devmod.targets), so it has no fallback and no formats"
    )
    no_builds = "builds cannot be counted: the payload is not source, and the backend does not override Conformance.builds"
    no_devices = "the backend lists no devices (devmod.device.least)"
    assert {
        name: each["reason"] for name, each in found.items() if each["outcome"] != "passed"
    } == {
        **dict.fromkeys(
            (
                "R2-aliases",
                "R2-formats",
                "R14",
                "R17",
                "R18",
                "R19-forms",
                "R19-keys",
                "R19-refused",
                "R22-round",
            ),
            no_target,
        ),
        **dict.fromkeys(
            (
                "R22-clash",
                "R23-same-kind",
                "R25-fallback",
                "R26",
                "R28",
                "R31-once",
                "R31-used",
                "R40-wraps",
            ),
            no_target,
        ),
        **dict.fromkeys(("R30-files", "R40-example"), no_target),
        **dict.fromkeys(("R30-build", "R32-once", "R32-load", "R32-failure"), no_builds),
        **dict.fromkeys(NEED_DEVICES, no_devices),
        **NO_IMAGES,
        "R34-names": "no called function has an interface with a name for each argument",
        "R34-threads": "no call has a grid and a block",
        "R34-block": "no call has a block and an interface that fixes none",
        "R34-part": "no call has a grid of several blocks, and a block",
        "R34-limit": "no call chooses a block in x, has more threads than elements, and no devmod.Local: only such a call may have any block",
        "R34-gridless": HAS_GRID,
        "R34-open": "no called function has an interface that leaves the block open",
        "R34-local": "no call has a devmod.Local argument and an interface",
        "R34-structs": "no called function has a struct with members in its interface",
        "R34-records": "no called function has scalars in a block of memory in its interface",
        "R34-packs": "no call has an array with its shape behind it",
        "R23-absent": "the backend has no driver: its Conformance names no driver_modules, no driver_libraries and no driver_programs",
        **dict.fromkeys(
            ("R35-values", "R35-clusters", "R35-cooperative"),
            "no called function has launch_param_tags for its grid and block",
        ),
        "R20-values": "no sample has global_arrays",
        **dict.fromkeys(("R38-compiled", "R42"), "no sample is created by Sample.compiled"),
        "R37-nothing": "no call has a grid",
        "R44": "devmod-least declares no protocol version, which means version 1",
    }
    assert "failed" not in {each["outcome"] for each in found.values()}


def outcomes(
    name: str, site: Path, cache: Path, timeout: float, monkeypatch: pytest.MonkeyPatch
) -> dict[str, tuple[str, str]]:
    """Return the outcome and the reason of each row of a fault. This process is the wrong backend's
    too, unless its rows need their own.
    """
    fault = FAULTS[name]
    if fault.own_process:
        monkeypatch.setenv("TOY_TIMEOUT", str(timeout))
        rows = results(site, cache, *options(fault.rows))
        return {row: (each["outcome"], each["reason"]) for row, each in rows.items()}
    with monkeypatch.context() as patch:
        patch.setattr(ToyConformance, "timeout", timeout)
        patch.setattr(ToyConformance, "samples", copy.deepcopy(SAMPLES))
        fault.apply(patch.setattr)
        patch.setenv("DEVMOD_PLUGINS_ALLOW", ALLOWED)
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        patch.syspath_prepend(site)  # the rows' processes get this path
        _device.devices.cache_clear()  # type: ignore[attr-defined]
        return {each.row.id: (each.outcome, each.reason) for each in kit.run("toy", fault.rows)}


@pytest.mark.once
@pytest.mark.row("R1", "R5", "R6", "R8", "R12", "R18", "R19", "R20", "R23", "R24", "R25", "R26")
@pytest.mark.row("R32", "R33", "R34", "R35", "R38", "R39", "R40", "R42")
@pytest.mark.volume_but(*FIRST.values(), HANGS)
@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_wrong_backend_fails_the_row_for_its_fault(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[name]
    site = put(tmp_path / "site", name)
    for patience in (1, 10, 50):  # on a loaded machine, more than the fault takes the time
        found = outcomes(
            name,
            site,
            tmp_path / "cache",
            patience * fault.timeout or ToyConformance.timeout,
            monkeypatch,
        )
        if not fault.timeout or matches(found[fault.rows[0]][1], fault.reason):
            break
    assert {row: outcome for row, (outcome, _) in found.items()} == dict.fromkeys(
        fault.rows, "failed"
    )
    reason = found[fault.rows[0]][1]
    assert matches(reason, fault.reason), reason


def test_a_pool_that_clears_memory_and_a_build_for_each_function_conform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = [*FAULTS["late_zeros"].changes[:1], *FAULTS["builds_twice"].changes[:1]]
    monkeypatch.setitem(
        FAULTS, "late_zeros", Fault(("R32-once", "R32-load", "R37-zeros"), "", changes=changes)
    )
    found = outcomes(
        "late_zeros",
        put(tmp_path / "site", "late_zeros"),
        tmp_path / "cache",
        ToyConformance.timeout,
        monkeypatch,
    )
    assert found == dict.fromkeys(("R32-once", "R32-load", "R37-zeros"), ("passed", ""))


def test_a_device_with_a_queue_conforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Fault(("R37-copies", "R37-views"), "", changes=FAULTS["early_copy"].changes[2:])
    for name in ("copy", "write"):
        queue.replaces(_device.ToyDevice, name)(
            lambda before, *arguments: (devices.run_queue(), before(*arguments))
        )
    monkeypatch.setitem(FAULTS, "early_copy", queue)
    found = outcomes(
        "early_copy",
        put(tmp_path / "site", "early_copy"),
        tmp_path / "cache",
        ToyConformance.timeout,
        monkeypatch,
    )
    assert found == dict.fromkeys(("R37-copies", "R37-views"), ("passed", ""))


@pytest.mark.parametrize(
    ("times", "launches", "waits"),
    [
        ([0.3] * 4, [], []),
        # A launch was slow while it was measured. Then the wait for an event is.
        ([0.3] * 3, [0.3] * 4, [0, 0, 0.5]),
    ],
)
@pytest.mark.row("R37")
def test_a_device_that_other_processes_slow_down_conforms(
    times: list[float],
    launches: list[float],
    waits: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next calls of Launch.time, of launches and of Event.synchronize take these seconds
    more.
    """

    def wait(seconds: list[float]) -> float:
        own = seconds.pop(0) if seconds else 0
        time.sleep(own)
        return own

    def slow_caller(before: Any, *arguments: Any) -> Callable[[Any], Any]:
        run = before(*arguments)
        return lambda values: (wait(launches), run(values))

    loaded = Fault(("R37-elapsed",), "")
    loaded.replaces(ToyKernel, "caller")(slow_caller)
    loaded.replaces(ToyKernel, "time")(lambda before, *given: wait(times) + before(*given))
    loaded.replaces(_device.ToyEvent, "synchronize")(lambda before, *given: wait(waits))
    monkeypatch.setitem(FAULTS, "late_time", loaded)
    site = put(tmp_path / "site", "late_time")
    found = outcomes("late_time", site, tmp_path / "cache", ToyConformance.timeout, monkeypatch)
    assert found == {"R37-elapsed": ("passed", "")}
    assert [*launches, *waits] == []


@pytest.mark.volume
@pytest.mark.row("R61")
def test_a_slow_backend_that_releases_its_locks_conforms(tmp_path: Path) -> None:
    site = put(tmp_path / "site")
    (site / "toy_fault.py").write_text(SLOW)
    found = results(site, tmp_path / "cache", "--row", "R61")
    assert [each["reason"] for each in found.values()] == [""]
    assert found["R61"]["outcome"] == "passed"


def test_every_row_has_a_backend_that_fails_it() -> None:
    failed = {row for fault in FAULTS.values() for row in fault.rows}
    assert {row.id for row in kit.rows()} == failed | CORE_ALONE | OWN_TESTS
    assert len(FAULTS) >= 130
    assert set(FIRST) == failed  # also in make test


@pytest.mark.row("R44")
def test_the_cases_of_a_backend_with_another_protocol_are_not_imported(tmp_path: Path) -> None:
    folder = put(tmp_path / "site")
    (points,) = folder.glob("*.dist-info/entry_points.txt")
    points.write_text(points.read_text().replace("1 = devmod\n", "2 = devmod\n"))
    done = conformance(folder, tmp_path / "cache")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "devmod: error: devmod.conformance.toy cannot be used: devmod-toy 1.0 supports version 2 of devmod's plugin protocol, and "
        f"devmod-core {devmod.__version__} supports version 1. Upgrade devmod-core: pip install --upgrade devmod-core\n"
    )
    program = """
from devmod_conformance import run
from devmod_toy._conformance import ToyConformance
from devmod_toy._module import ToyKernel
(result,) = run(ToyConformance(), ["R44"])
print(result.outcome, result.reason)
"""
    assert (
        python(folder, tmp_path / "cache", program)
        == "failed devmod-toy 1.0 declares protocol version 2, but the installed core has version 1\n"
    )


@pytest.mark.row("R44")
def test_a_backend_without_a_protocol_version_has_version_1(tmp_path: Path) -> None:
    folder = put(tmp_path / "site")
    (points,) = folder.glob("*.dist-info/entry_points.txt")
    points.write_text(points.read_text().replace("[devmod.protocol]\n1 = devmod\n", ""))
    found = results(folder, tmp_path / "cache", "--row", "R44", "--row", "R1-keys")
    assert found["R44"]["outcome"] == "skipped"
    assert (
        found["R44"]["reason"] == "devmod-toy declares no protocol version, which means version 1"
    )
    assert found["R1-keys"]["outcome"] == "passed"


def test_rows_do_not_depend_on_assert_statements(tmp_path: Path) -> None:
    program = 'from devmod_conformance import run\nprint([(each.row.id, each.outcome) for each in run("toy", ["R24-runs", "R26", "R11"])])'
    assert python(put(tmp_path / "wrong", "wrong_mask"), tmp_path / "cache", program, "-O") == (
        "[('R11', 'passed'), ('R24-runs', 'failed'), ('R26', 'passed')]\n"
    )


def test_rows_that_need_numpy_are_skipped_without_it(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["numpy"] = None
from devmod_conformance import run
from devmod_toy._conformance import ToyConformance
from devmod_toy._module import ToyKernel
for result in run(ToyConformance(), ["R18", "R37-host"]):
    print(result.row.id, result.outcome, result.reason)
"""
    assert python(put(tmp_path / "site"), tmp_path / "cache", program) == (
        "R18 passed \nR37-host skipped NumPy is not installed. To add it: pip install numpy\n"
    )


@pytest.mark.row("R32")
def test_builds_of_binaries_are_counted_by_an_override(tmp_path: Path) -> None:
    program = """
from contextlib import contextmanager
from devmod_toy import _module
from devmod_toy._conformance import ToyConformance
from devmod_toy._module import ToyKernel
from devmod_conformance import run

class Binary(ToyConformance):
    samples = ToyConformance.samples[1:2]

class Counted(Binary):
    @contextmanager
    def builds(self, sample, on_build):
        before = _module.kernels
        _module.kernels = lambda *arguments: (on_build(), before(*arguments))[1]
        yield
        _module.kernels = before

for cases in (Binary(), Counted()):
    for result in run(cases, ["R32-once", "R32-failure"]):
        print(result.row.id, result.outcome, result.reason)
"""
    unknown = "builds cannot be counted: the payload is not source, and the backend does not override Conformance.builds"
    assert python(put(tmp_path / "site"), tmp_path / "cache", program) == (
        f"R32-once skipped {unknown}\nR32-failure skipped {unknown}\nR32-once passed \nR32-failure passed \n"
    )


def test_a_sample_whose_toolchain_is_missing_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object, **options: object) -> devmod.Module:
        raise devmod.ToolchainNotFoundError("the compiler is missing: pip install it", kind="other")

    monkeypatch.setattr(devmod, "compile", missing)

    class Compiled(Other):
        samples = (kit.Sample.compiled("text", "other"),)

    (result,) = kit.run(Compiled(), ["R12"])
    assert (result.outcome, result.reason) == (
        "skipped",
        "no sample can be compiled on this machine: the compiler is missing: pip install it",
    )

    class Both(Other):
        samples = (*Compiled.samples, kit.Sample(b"", "other", {"f": devmod.FunctionInfo("f", ())}))

    (result,) = kit.run(Both(), ["R12"])
    assert result.reason.startswith("NotRegisteredError: devmod.create.other is not registered")


def test_a_run_without_a_usable_sample_is_an_error(tmp_path: Path) -> None:
    folder = put_cases(tmp_path / "site", NO_TOOLCHAIN)
    done = conformance(
        folder, tmp_path / "cache", "--row", "R1-keys", "--row", "R12", "--row", "R17"
    )
    reason = "no sample can be compiled on this machine: the compiler is missing: pip install it"
    assert (done.returncode, done.stderr) == (
        1,
        f"devmod: error: 2 of 3 rows were not checked: {reason}\n",
    )
    assert done.stdout.endswith(" as R12\ntoy: 1 passed, 2 skipped, 0 failed\n")
    done = conformance(folder, tmp_path / "cache", "--row", "R1-keys")
    assert (done.returncode, done.stderr) == (0, "")


# -- the command


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.row("R61")
def test_an_interrupt_that_python_raises_as_another_exception() -> None:
    """CPython 3.11 raises RuntimeError."""
    command = [sys.executable, "-c", INTERRUPTED_CLASS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "{''}\n", done.stdout + done.stderr


@pytest.mark.row("R61")
def test_all_places_of_an_interrupt_have_hours(tmp_path: Path) -> None:
    folder = put_cases(tmp_path / "site", SHOWN)
    for words, reason in (
        ((), "30 places in 120 s"),
        (("--all-places",), "0 places in 14400 s"),
    ):
        found = results(folder, tmp_path / "cache", "--row", "R61", *words)
        assert found["R61"]["reason"] == reason


def test_the_table(tmp_path: Path) -> None:
    done = conformance(
        put(tmp_path / "site", "no_alias"),
        tmp_path / "cache",
        "--row",
        "R1-keys",
        "--row",
        "R2",
        "--row",
        "R44",
    )
    assert done.returncode == 1
    assert done.stdout == (
        "row         outcome  requirement, or reason\n"
        "R1-keys     passed   The entries create and load_from_bytes of the kind can be imported, and one distribution provides both\n"
        "R2-aliases  FAILED   NotRegisteredError: devmod.load_from_bytes.toyish is not registered: devmod-toy 1.0 is installed and does not "
        "provide it. To upgrade it: pip install --upgrade devmod-toy\n"
        "R2-formats  passed   If one file format of the kind has a loader, every one has\n"
        "R44         passed   The distribution declares the protocol version of the installed core\n"
        "toy: 3 passed, 0 skipped, 1 failed\n"
    )


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        (("R12", "R17", "R1-keys"), "1 passed, 0 skipped, 2 failed for one reason"),
        (("R12", "R17", "R2-formats", "R44"), "2 passed, 0 skipped, 2 failed for one reason"),
        (("R12", "R1-keys"), "1 passed, 0 skipped, 1 failed"),
    ],
)
def test_the_table_has_a_reason_of_several_rows_once(
    rows: tuple[str, ...], counts: str, tmp_path: Path
) -> None:
    folder = put(tmp_path / "site")
    (folder / "no_files.py").write_text(
        "from devmod_toy._conformance import ToyConformance\n"
        "class Cases(ToyConformance):\n"
        "    @property\n"
        "    def samples(self):\n"
        "        raise OSError('k.bin is missing')\n"
    )
    entries = next(folder.rglob("entry_points.txt"))
    entries.write_text(
        entries.read_text().replace("devmod_toy._conformance:ToyConformance", "no_files:Cases")
    )
    words = [word for row in rows for word in ("--row", row)]
    lines = conformance(folder, tmp_path / "cache", *words).stdout.splitlines()
    reasons = {line.split()[0]: line.split(maxsplit=2)[2] for line in lines if "FAILED" in line}
    expected = dict.fromkeys(rows[:1], "OSError: k.bin is missing")
    expected |= dict.fromkeys([each for each in rows if each == "R17"], "as R12")
    assert (reasons, lines[-1]) == (expected, f"toy: {counts}")


def test_json_is_a_list_of_rows(tmp_path: Path) -> None:
    done = conformance(put(tmp_path / "site"), tmp_path / "cache", "--json", "--row", "R17")
    assert done.returncode == 0
    assert done.stdout == (
        '[\n  {\n    "row": "R17",\n    "outcome": "passed",\n    "reason": "",\n'
        '    "title": "A module\'s bytes are the fields of the kind in order; wire_parts returns the same bytes in parts"\n  }\n]\n'
    )


def test_the_output_of_a_backend_is_not_in_the_table(tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(
        "import os\nfrom devmod_toy import _entries\nprint('hello of the import')\n"
        "def create(*payload):\n    print('hello of a call', flush=True)\n    os.system('echo hello of a program')\n"
        "    return _entries.create(*payload)\n"
    )
    folder = put(tmp_path)
    points = next(folder.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(
        points.read_text().replace("toy = devmod_toy._entries:create", "toy = chatty:create")
    )
    done = conformance(folder, tmp_path / "cache", "--json", "--row", "R11")
    assert [(each["row"], each["outcome"]) for each in json.loads(done.stdout)] == [
        ("R11", "passed")
    ]
    for word in ("import", "call", "program"):
        assert f"hello of a {word}" in done.stderr or f"hello of the {word}" in done.stderr


def test_the_rows_after_one_that_ends_the_process_are_checked(tmp_path: Path) -> None:
    found = results(
        put(tmp_path / "site", "ends_in_call"),
        tmp_path / "cache",
        "--row",
        "R17",
        "--row",
        "R37-host",
        "--row",
        "R44",
    )
    assert {row: each["outcome"] for row, each in found.items()} == {
        "R17": "passed",
        "R37-host": "failed",
        "R44": "passed",
    }


@pytest.mark.row("R8")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\nos._exit(3)", "a process that imports its cases ends with exit status 3"),
        (
            "from devmod_conformance import Conformance\nclass Cases(Conformance):\n    def __init__(self):\n        open('/nowhere/k')",
            "creating its cases failed (FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/k')",
        ),
    ],
)
def test_the_error_for_broken_cases_names_their_distribution(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "cases.py").write_text(text)
    folder = put(tmp_path)
    points = next(folder.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(
        points.read_text().replace("devmod_toy._conformance:ToyConformance", "cases:Cases")
    )
    done = conformance(folder, tmp_path / "cache", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr
        == f"devmod: error: devmod.conformance.toy is broken: devmod-toy 1.0: {message}\n"
    )


def test_a_missing_backend() -> None:
    check_texts(
        {
            "devmod.conformance.nobody is not registered, and no known distribution provides it; by convention it would be devmod-nobody; "
            "install that only if you trust its publisher. The kinds: cuda, hexagon, metal, opencl, rocm, vulkan, webgpu": "nobody",
            "devmod.conformance.cuda is not registered: the CUDA runtime is not installed. To add it: pip install devmod-cuda": "cuda",
            "expected a kind, got U+002F at character 2. The kinds: cuda, hexagon, metal, opencl, rocm, vulkan, webgpu": "a/b",
        },
        lambda kind: refusal((devmod.NotRegisteredError, devmod.FormatError), kit.run, kind),
    )


def test_a_backend_without_cases(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    groups = {
        "devmod.create": {"toy": "devmod_toy._entries:create"},
        "devmod.targets": {"toy": "devmod_toy:TARGET"},
    }
    install(folder, "devmod-toy", groups=groups)
    done = conformance(folder, tmp_path / "cache")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "devmod: error: devmod.conformance.toy is not registered: the toy backend, devmod-toy 1.0, ships no cases for the conformance kit. "
        "Its author adds a subclass of devmod_conformance.Conformance as that entry point\n"
    )


class Other(kit.Conformance):
    kind = "other"


@pytest.mark.parametrize(
    ("cases", "actual"),
    [
        (Other, "one with kind = 'other'"),
        (Other(), "one with kind = 'other'"),
        (42, "int"),
        (dict, "dict"),
    ],
)
def test_an_entry_that_is_not_a_conformance(
    register: Callable[[str, str, object], None], cases: object, actual: str
) -> None:
    register("devmod.conformance", "toy", cases)
    assert refusal(devmod.PluginError, kit.find, "toy") == (
        "devmod.conformance.toy is broken: the object that is registered in this process: expected a subclass of "
        f"devmod_conformance.Conformance with kind = 'toy', got {actual}"
    )


def test_an_unknown_row() -> None:
    listed = r"Its rows: R1-keys, R1-groups, R2-aliases, .*, R52-variants, R57, R61$"
    with pytest.raises(
        devmod.FormatError, match=rf"^the conformance kit has no row 'xyz'\. {listed}"
    ):
        kit.run(Other(), ["xyz"])
    with pytest.raises(
        devmod.FormatError,
        match=rf"^the conformance kit has no row 'R38-compile'\. Did you mean 'R38-compiled'\? {listed}",
    ):
        kit.run(Other(), ["R38-compile"])


# -- the rows


def test_rows_are_unique_and_in_the_order_of_the_contract() -> None:
    rows = kit.rows()
    assert len({row.id for row in rows}) == len({row.title for row in rows}) == len(rows)
    numbers = [int(row.contract.removeprefix("R")) for row in rows]
    assert numbers == sorted(numbers)
    assert all(row.title and not row.title.endswith(".") for row in rows)


def test_every_exception_of_a_backend_fails_its_row() -> None:
    def leave(case: kit.Conformance) -> None:
        raise SystemExit(3)

    result = kit.Row("R0", "requirement", leave).run(Other())
    assert (result.outcome, result.reason) == ("failed", "SystemExit: 3")

    def interrupt(case: kit.Conformance) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kit.Row("R0", "requirement", interrupt).run(Other())


def test_cases_without_samples_fail() -> None:
    (result,) = kit.run(Other(), ["R18"])
    assert (result.outcome, result.reason) == (
        "failed",
        "the Conformance has no samples; give it at least one Sample",
    )


@pytest.mark.row("R10")
def test_a_backend_of_this_process_skips_the_rows_that_need_another_process(
    register: Callable[[str, str, object], None],
) -> None:
    for group, name, obj in (
        ("devmod.create", "toy", _entries.create),
        ("devmod.load_from_bytes", "toy", _entries.load_from_bytes),
        ("devmod.targets", "toy", _entries.TARGET),
        ("devmod.conformance", "toy", ToyConformance),
    ):
        register(group, name, obj)
    found = {
        each.row.id: each
        for each in kit.run("toy", ["R18", "R37-host", "R6", "R33-devices", "R2-formats"])
    }
    assert {name: (each.outcome, each.reason) for name, each in found.items()} == {
        "R18": ("passed", ""),
        "R37-host": ("passed", ""),
        "R6": (
            "skipped",
            "the backend is registered in this process only, and this row needs a new process",
        ),
        "R33-devices": ("skipped", "the backend lists no devices (devmod.device.toy)"),
        "R2-formats": (
            "skipped",
            "the backend has no loader of raw payload files (devmod.load_from_file)",
        ),
    }


@pytest.mark.row("R6")
def test_importing_devmod_imports_nothing_of_the_kit(tmp_path: Path) -> None:
    program = """
import sys
import devmod
devmod.create, devmod.load_from_bytes, devmod.backend
print([name for name in sys.modules if name.startswith(("devmod_conformance", "pytest", "numpy", "filelock"))])
import devmod_conformance
print([name for name in sys.modules if name.partition(".")[0] in ("pytest", "numpy", "filelock", "msgpack")])
"""
    env = environment(put(tmp_path / "site"), tmp_path / "cache")
    assert subprocess.check_output([sys.executable, "-c", program], env=env) == b"[]\n[]\n"


# -- in pytest


def suite(folder: Path, cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on a backend's own tests."""
    folder.mkdir(exist_ok=True)
    (folder / "test_conformance.py").write_text(
        "from devmod_toy._conformance import ToyConformance\n\n"
        'pytest_plugins = ["devmod_conformance.plugin"]\n\n\n'
        "class TestConformance(ToyConformance):\n    pass\n\n\n"
        "def test_turn(device_turn):\n    with device_turn('toy'), device_turn('toy'):\n        pass\n"
    )
    words = ["-q", "-p", "no:cacheprovider", "--strict-markers", "-W", "error", "-rfs", str(folder)]
    command = [sys.executable, "-m", "pytest", *words, *arguments]
    site = folder.parent / "site"
    # pytest rewrites the plugins that it finds, and caches nothing of that here.
    env = environment(site, cache) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=300, check=False, cwd=folder
    )


@pytest.mark.once
@pytest.mark.volume
def test_a_backends_own_tests_pass(tmp_path: Path) -> None:
    put(tmp_path / "site")
    done = suite(tmp_path / "tests", tmp_path / "cache")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(kit.rows())} passed, 1 skipped" in done.stdout


def test_a_backends_own_tests_are_the_rows(tmp_path: Path) -> None:
    put(tmp_path / "site")
    done = suite(tmp_path / "tests", tmp_path / "cache", "--collect-only")
    assert re.findall(r"\[(.*)\]$", done.stdout, re.MULTILINE) == [row.id for row in kit.rows()]


def test_a_failed_row_is_a_failed_test(tmp_path: Path) -> None:
    put(tmp_path / "site", "no_alias")
    done = suite(
        tmp_path / "tests",
        tmp_path / "cache",
        "-k",
        "R2-aliases or R18 or R34-gridless or R44 or turn",
    )
    assert done.returncode == 1
    assert "1 failed, 3 passed, 1 skipped" in done.stdout
    assert (
        "AssertionError: R2-aliases (Every alias of the kind loads modules of the kind): NotRegisteredError: devmod.load_from_bytes.toyish "
        "is not registered"
    ) in done.stdout


def test_pytest_loads_the_plugin_only_by_name() -> None:
    from importlib.metadata import distribution

    assert not [
        point
        for point in distribution("devmod-conformance").entry_points
        if point.group == "pytest11"
    ]


# -- turns


def test_one_process_at_a_time_locks_a_device(tmp_path: Path) -> None:
    program = f"""
import sys, time
from devmod_conformance import device_turn
with device_turn("turns", {os.getpid()}):
    print(time.monotonic(), flush=True)
    time.sleep(0.1)
    print(time.monotonic(), flush=True)
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        for _ in range(3)
    ]
    spans = sorted(
        tuple(map(float, process.communicate(timeout=300)[0].split())) for process in processes
    )
    assert all(first[1] <= second[0] for first, second in some(pairwise(spans)))


def test_the_locks_of_two_devices_are_independent() -> None:
    with kit.device_turn("turns", 1), kit.device_turn("turns", 2), kit.device_turn("turns", 1):
        pass  # a shared lock would never be free
