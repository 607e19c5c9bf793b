"""The conformance kit: a backend that conforms passes every row, and each of those that are wrong in one thing fails the row that is meant."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from distributions import install
from toy.backend import WRONG, Told, conformance, environment, put, put_least, put_map, results

import devmod
from devmod import testing

#: What no backend can break: core alone answers.
CORE_ALONE = {"R25-fallback", "R28"}
#: Whose wrong backends are in tests of their own.
ELSEWHERE = {"R44"}


def matches(text: str, pattern: str) -> bool:
    """Whether a text is the pattern, in which … stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("…"))), text, re.DOTALL) is not None


def python(folder: Path, cache: Path, program: str, *flags: str) -> str:
    """What a program prints in a process that has the toy."""
    done = subprocess.run(
        [sys.executable, *flags, "-c", program], env=environment(folder, cache), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- right and wrong backends


@pytest.mark.row("R37")
def test_a_backend_that_conforms_passes_every_row(tmp_path: Path) -> None:
    found = results(put(tmp_path / "site"), tmp_path / "cache")
    assert {name: (each["outcome"], each["reason"]) for name, each in found.items()} == {row.id: ("passed", "") for row in testing.rows()}


@pytest.mark.row("R11", "R17")
def test_a_kind_with_a_map_of_shaders_conforms_too(tmp_path: Path) -> None:
    found = results(put_map(tmp_path / "site"), tmp_path / "cache", kind="toymap")
    assert {name: each["reason"] for name, each in found.items() if each["outcome"] != "passed"} == {
        "R2-aliases": "the kind has no aliases",
        "R23-absent": "the backend has no driver: its Conformance names neither driver_modules nor driver_libraries",
        **dict.fromkeys(
            ("R33-devices", "R33-several", "R37-device", "R37-bind", "R37-stream"), "the backend names no devices (devmod.device.toymap)"
        ),
    }
    assert "failed" not in {each["outcome"] for each in found.values()}


@pytest.mark.row("R31")
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("text", [("skipped", "no sample's payload is source that the receiver compiles")] * 2),
        (
            "first",
            [
                (
                    "failed",
                    "what the replaced compiler was given, all functions asked for twice, is [b'toy negate'], and must be [b'toy axpy', "
                    "b'toy negate']",
                ),
                ("failed", "TypeError: negate() takes…"),
            ],
        ),
    ],
)
def test_who_compiles_the_shaders_of_a_map(how: str, said: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOYMAP", how)
    found = results(put_map(tmp_path / "site"), tmp_path / "cache", "--row", "R31-once", "--row", "R31-used", kind="toymap")
    for (outcome, reason), row in zip(said, ("R31-once", "R31-used"), strict=True):
        assert found[row]["outcome"] == outcome
        assert matches(found[row]["reason"], reason), found[row]["reason"]


@pytest.mark.row("R24", "R28")
def test_a_backend_of_the_very_least_is_judged_by_what_it_has(tmp_path: Path) -> None:
    found = results(put_least(tmp_path / "site"), tmp_path / "cache", kind="least")
    no_target = "the kind 'least' has no target spec, so it has no fallback and no format of its own (devmod.targets)"
    no_builds = "builds cannot be counted: its payloads are no source, and it does not override Conformance.builds"
    no_devices = "the backend names no devices (devmod.device.least)"
    assert {name: each["reason"] for name, each in found.items() if each["outcome"] != "passed"} == {
        **dict.fromkeys(("R2-aliases", "R2-formats", "R14", "R17", "R18", "R19-forms", "R19-keys", "R19-refused", "R22-round"), no_target),
        **dict.fromkeys(("R22-clash", "R23-same-kind", "R25-fallback", "R26", "R28", "R31-once", "R31-used", "R40-wraps"), no_target),
        **dict.fromkeys(("R30", "R32-once", "R32-failure"), no_builds),
        **dict.fromkeys(("R33-devices", "R33-several", "R37-device", "R37-bind", "R37-stream"), no_devices),
        "R23-absent": "the backend has no driver: its Conformance names neither driver_modules nor driver_libraries",
        "R35": "no function that is called has launch_param_tags for its grid and block",
        "R37-nothing": "no call has a grid",
        "R44": "devmod-least declares none, and is taken to speak version 1",
    }
    assert "failed" not in {each["outcome"] for each in found.values()}


@pytest.mark.row("R5", "R6", "R8", "R12", "R18", "R19", "R23", "R24", "R25", "R26", "R32", "R33", "R34", "R38", "R39", "R40")
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_backend_is_caught_by_the_row_that_is_meant(name: str, tmp_path: Path) -> None:
    told = Told(name)
    only = [argument for row in told.rows for argument in ("--row", row)]
    found = results(put(tmp_path / "site", name), tmp_path / "cache", *only)
    assert {row: each["outcome"] for row, each in found.items()} == dict.fromkeys(found, "failed")
    assert set(found) == set(told.rows)
    said = found[told.rows[0]]["reason"]
    assert matches(said, told.reason), said


def test_every_row_has_a_backend_that_fails_it() -> None:
    caught = {row for name in WRONG for row in Told(name).rows}
    assert {row.id for row in testing.rows()} == caught | CORE_ALONE | ELSEWHERE
    assert len(WRONG) >= 15


@pytest.mark.row("R44")
def test_a_backend_of_another_protocol_is_not_even_asked_for_its_cases(tmp_path: Path) -> None:
    folder = put(tmp_path / "site")
    (points,) = folder.glob("*.dist-info/entry_points.txt")
    points.write_text(points.read_text().replace("1 = devmod\n", "2 = devmod\n"))
    done = conformance(folder, tmp_path / "cache")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "devmod: error: devmod.conformance.toy cannot be used: devmod-toy 1.0 speaks version 2 of devmod's plugin protocol, and "
        f"devmod-core {devmod.__version__} speaks version 1. Upgrade devmod-core: pip install --upgrade devmod-core\n"
    )
    program = """
from devmod.testing import run
from devmod_toy._conformance import ToyConformance
(result,) = run(ToyConformance(), ["R44"])
print(result.outcome, result.reason)
"""
    assert python(folder, tmp_path / "cache", program) == "failed devmod-toy 1.0 speaks 2, and this core 1\n"


@pytest.mark.row("R44")
def test_a_backend_that_declares_no_protocol_speaks_the_first(tmp_path: Path) -> None:
    folder = put(tmp_path / "site")
    (points,) = folder.glob("*.dist-info/entry_points.txt")
    points.write_text(points.read_text().replace("[devmod.protocol]\n1 = devmod\n", ""))
    found = results(folder, tmp_path / "cache", "--row", "R44", "--row", "R1")
    assert found["R44"]["outcome"] == "skipped"
    assert found["R44"]["reason"] == "devmod-toy declares none, and is taken to speak version 1"
    assert found["R1"]["outcome"] == "passed"


def test_checks_hold_without_assert_statements(tmp_path: Path) -> None:
    program = 'from devmod.testing import run\nprint([(each.row.id, each.outcome) for each in run("toy", ["R24-runs", "R26", "R11"])])'
    assert python(put(tmp_path / "wrong", "wrong_mask"), tmp_path / "cache", program, "-O") == (
        "[('R11', 'passed'), ('R24-runs', 'failed'), ('R26', 'passed')]\n"
    )


def test_without_numpy_what_needs_it_is_skipped(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["numpy"] = None
from devmod.testing import run
from devmod_toy._conformance import ToyConformance
for result in run(ToyConformance(), ["R18", "R37-host"]):
    print(result.row.id, result.outcome, result.reason)
"""
    assert python(put(tmp_path / "site"), tmp_path / "cache", program) == (
        "R18 passed \nR37-host skipped NumPy is not installed; to add all that the kit uses: pip install 'devmod-core[testing]'\n"
    )


@pytest.mark.row("R32")
def test_builds_of_binaries_are_counted_where_the_cases_say_how(tmp_path: Path) -> None:
    program = """
from contextlib import contextmanager
from devmod_toy import _module
from devmod_toy._conformance import ToyConformance
from devmod.testing import run

class Binary(ToyConformance):
    samples = ToyConformance.samples[1:]

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
    unknown = "builds cannot be counted: its payloads are no source, and it does not override Conformance.builds"
    assert python(put(tmp_path / "site"), tmp_path / "cache", program) == (
        f"R32-once skipped {unknown}\nR32-failure skipped {unknown}\nR32-once passed \nR32-failure passed \n"
    )


def test_a_sample_whose_toolchain_is_missing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*arguments: object, **options: object) -> devmod.Module:
        raise devmod.ToolchainNotFoundError("the compiler is missing: pip install it", kind="other")

    monkeypatch.setattr(devmod, "compile", missing)

    class Compiled(Other):
        samples = (testing.Sample.compiled("text", "other"),)

    (result,) = testing.run(Compiled(), ["R12"])
    assert (result.outcome, result.reason) == ("skipped", "no sample can be compiled here: the compiler is missing: pip install it")

    class Both(Other):
        samples = (*Compiled.samples, testing.Sample(b"", "other", {"f": devmod.FunctionInfo("f", ())}))

    (result,) = testing.run(Both(), ["R12"])
    assert result.reason.startswith("NotRegisteredError: devmod.create.other is not registered")


# -- the command


def test_the_table(tmp_path: Path) -> None:
    done = conformance(put(tmp_path / "site", "no_alias"), tmp_path / "cache", "--row", "R1", "--row", "R2", "--row", "R44")
    assert done.returncode == 1
    assert done.stdout == (
        "row         outcome  what is asked, or why not\n"
        "R1          passed   The kind's create and load_from_bytes are registered, sound, and of one distribution\n"
        "R2-aliases  FAILED   NotRegisteredError: devmod.load_from_bytes.toyish is not registered: devmod-toy 1.0 is installed and does not "
        "provide it. To upgrade it: pip install --upgrade devmod-toy\n"
        "R2-formats  passed   Every file format of the kind has its loader, where any has\n"
        "R44         passed   The distribution declares the protocol versions that it speaks, and core's is one of them\n"
        "toy: 3 passed, 0 skipped, 1 failed\n"
    )


def test_markdown(tmp_path: Path) -> None:
    done = conformance(put(tmp_path / "site", "other_kind"), tmp_path / "cache", "--markdown", "--row", "R1", "--row", "R11")
    assert done.returncode == 1
    assert done.stdout == (
        "# Conformance of toy\n\n"
        "| row | outcome | what is asked | reason |\n|---|---|---|---|\n"
        "| R1 | passed | The kind's create and load_from_bytes are registered, sound, and of one distribution |  |\n"
        "| R11 | failed | What create makes of code, fmt, fmap and source is a real module of the kind | PluginError: devmod.create.toy is "
        "broken: devmod-toy 1.0 returned a module of kind 'toy2', not 'toy'. Report it to its publisher, or uninstall it |\n"
        "\ntoy: 1 passed, 0 skipped, 1 failed\n"
    )


def test_json_is_a_list_of_rows(tmp_path: Path) -> None:
    done = conformance(put(tmp_path / "site"), tmp_path / "cache", "--json", "--row", "R17")
    assert done.returncode == 0
    assert done.stdout == (
        '[\n  {\n    "row": "R17",\n    "outcome": "passed",\n    "reason": "",\n'
        '    "title": "A module\'s bytes are the kind\'s fields in their order, and wire_parts is the same in parts"\n  }\n]\n'
    )


def test_what_a_backend_prints_is_no_part_of_the_answer(tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(
        "import os\nimport devmod_toy\nprint('hello of the import')\n"
        "def create(*payload):\n    print('hello of a call', flush=True)\n    os.system('echo hello of a program')\n"
        "    return devmod_toy.create(*payload)\n"
    )
    folder = put(tmp_path)
    points = next(folder.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(points.read_text().replace("toy = devmod_toy:create", "toy = chatty:create"))
    done = conformance(folder, tmp_path / "cache", "--json", "--row", "R11")
    assert [(each["row"], each["outcome"]) for each in json.loads(done.stdout)] == [("R11", "passed")]
    for word in ("import", "call", "program"):
        assert f"hello of a {word}" in done.stderr or f"hello of the {word}" in done.stderr


def test_a_row_that_ends_the_process_leaves_the_others_to_be_checked(tmp_path: Path) -> None:
    found = results(put(tmp_path / "site", "ends_in_call"), tmp_path / "cache", "--row", "R17", "--row", "R37-host", "--row", "R44")
    assert {row: each["outcome"] for row, each in found.items()} == {"R17": "passed", "R37-host": "failed", "R44": "passed"}


@pytest.mark.row("R8")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nos._exit(3)", "a process that imports its cases ends with exit status 3"),
        (
            "from devmod.testing import Conformance\nclass Cases(Conformance):\n    def __init__(self):\n        open('/nowhere/k')",
            "making its cases failed (FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/k')",
        ),
    ],
)
def test_cases_that_cannot_be_had_are_their_distributions(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "cases.py").write_text(text)
    folder = put(tmp_path)
    points = next(folder.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(points.read_text().replace("devmod_toy._conformance:ToyConformance", "cases:Cases"))
    done = conformance(folder, tmp_path / "cache", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"devmod: error: devmod.conformance.toy is broken: devmod-toy 1.0: {said}\n"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "nobody",
            "devmod.conformance.nobody is not registered, and no known distribution provides it. By convention it would be devmod-nobody; "
            "install that only if you trust its publisher",
        ),
        ("cuda", "devmod.conformance.cuda is not registered: the CUDA runtime is not installed. To add it: pip install devmod-cuda"),
        ("a/b", "a kind is of the form [a-z][a-z0-9_]{0,31}; this one has U+002F at character 2"),
    ],
)
def test_no_such_backend(kind: str, said: str) -> None:
    with pytest.raises((devmod.NotRegisteredError, devmod.FormatError)) as caught:
        testing.run(kind)
    assert str(caught.value) == said


def test_a_backend_without_cases(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    groups = {"devmod.create": {"toy": "devmod_toy:create"}, "devmod.targets": {"toy": "devmod_toy:TARGET"}}
    install(folder, "devmod-toy", groups=groups)
    done = conformance(folder, tmp_path / "cache")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "devmod: error: devmod.conformance.toy is not registered: the backend of toy, devmod-toy 1.0, ships no cases for the conformance "
        "kit. Its author adds them as that entry point, a subclass of devmod.testing.Conformance\n"
    )


class Other(testing.Conformance):
    kind = "other"


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        (Other, "an object of kind 'other'"),
        (Other(), "an object of kind 'other'"),
        (42, "an object of type int"),
        (dict, "an object of type dict"),
    ],
)
def test_cases_that_are_none(register: Callable[[str, str, object], None], cases: object, said: str) -> None:
    register("devmod.conformance", "toy", cases)
    with pytest.raises(devmod.PluginError) as caught:
        testing.find("toy")
    assert str(caught.value) == (
        f"devmod.conformance.toy is broken: what is registered in this process gives {said}; "
        "it is a subclass of devmod.testing.Conformance with kind = 'toy'"
    )


def test_no_such_row() -> None:
    with pytest.raises(devmod.FormatError, match=r"^the kit has no row 'R99'; its rows: R1, R2-aliases, .*, R44$"):
        testing.run(Other(), ["R99"])


# -- what the kit is made of


def test_rows_are_told_apart_and_in_the_contracts_order() -> None:
    rows = testing.rows()
    assert len({row.id for row in rows}) == len({row.title for row in rows}) == len(rows)
    numbers = [int(row.contract.removeprefix("R")) for row in rows]
    assert numbers == sorted(numbers)
    assert all(row.title and not row.title.endswith(".") for row in rows)


def test_a_row_takes_whatever_a_backend_raises() -> None:
    def leave(case: testing.Conformance) -> None:
        raise SystemExit(3)

    result = testing.Row("R0", "nothing", leave).run(Other())
    assert (result.outcome, result.reason) == ("failed", "SystemExit: 3")

    def interrupt(case: testing.Conformance) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        testing.Row("R0", "nothing", interrupt).run(Other())


def test_cases_without_samples_fail() -> None:
    (result,) = testing.run(Other(), ["R18"])
    assert (result.outcome, result.reason) == ("failed", "the Conformance has no samples: it gives a handful of payloads")


@pytest.mark.row("R10")
def test_a_backend_of_this_process_is_checked_as_far_as_it_goes(
    register: Callable[[str, str, object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent / "toy")
    import devmod_toy
    from devmod_toy._conformance import ToyConformance

    for group, name, obj in (
        ("devmod.create", "toy", devmod_toy.create),
        ("devmod.load_from_bytes", "toy", devmod_toy.load_from_bytes),
        ("devmod.targets", "toy", devmod_toy.TARGET),
        ("devmod.conformance", "toy", ToyConformance),
    ):
        register(group, name, obj)
    found = {each.row.id: each for each in testing.run("toy", ["R18", "R37-host", "R6", "R33-devices", "R2-formats"])}
    assert {name: (each.outcome, each.reason) for name, each in found.items()} == {
        "R18": ("passed", ""),
        "R37-host": ("passed", ""),
        "R6": ("skipped", "the backend is registered in this process alone, and this row looks at a new one"),
        "R33-devices": ("skipped", "the backend names no devices (devmod.device.toy)"),
        "R2-formats": ("skipped", "the backend loads no raw payload files (devmod.load_from_file)"),
    }


@pytest.mark.row("R6")
def test_the_kit_costs_an_import_of_devmod_nothing(tmp_path: Path) -> None:
    program = """
import sys
import devmod
devmod.create, devmod.load_from_bytes, devmod.backend
print([name for name in sys.modules if name.startswith(("devmod.testing", "pytest", "numpy", "filelock"))])
import devmod.testing
print([name for name in sys.modules if name.partition(".")[0] in ("pytest", "numpy", "filelock", "msgpack")])
"""
    assert python(put(tmp_path / "site"), tmp_path / "cache", program) == "[]\n[]\n"


# -- in pytest


def suite(folder: Path, cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on a backend's own tests, as its author does."""
    folder.mkdir()
    (folder / "test_conformance.py").write_text(
        "from devmod_toy._conformance import ToyConformance\n\n"
        'pytest_plugins = ["devmod.testing.plugin"]\n\n\n'
        "class TestConformance(ToyConformance):\n    pass\n\n\n"
        "def test_turn(device_turn):\n    with device_turn('toy'), device_turn('toy'):\n        pass\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "-W",
        "error",
        "-rfs",
        str(folder),
        *arguments,
    ]
    site = folder.parent / "site"
    return subprocess.run(command, env=environment(site, cache), capture_output=True, text=True, timeout=300, check=False, cwd=folder)


def test_a_backends_own_tests_are_the_rows(tmp_path: Path) -> None:
    put(tmp_path / "site")
    done = suite(tmp_path / "tests", tmp_path / "cache")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(testing.rows()) + 1} passed" in done.stdout


def test_a_failed_row_is_a_failed_test(tmp_path: Path) -> None:
    put(tmp_path / "site", "no_alias")
    done = suite(tmp_path / "tests", tmp_path / "cache", "-k", "R2-aliases or R44")
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert (
        "AssertionError: R2-aliases (Every alias of the kind loads modules of the kind): NotRegisteredError: devmod.load_from_bytes.toyish "
        "is not registered"
    ) in done.stdout


def test_the_plugin_is_no_entry_point_of_pytest() -> None:
    from importlib.metadata import distribution

    assert not [point for point in distribution("devmod-core").entry_points if point.group == "pytest11"]


# -- turns


def test_a_device_is_one_process_at_a_time(tmp_path: Path) -> None:
    program = f"""
import sys, time
from devmod.testing import device_turn
with device_turn("turns", {os.getpid()}):
    print(time.monotonic(), flush=True)
    time.sleep(0.3)
    print(time.monotonic(), flush=True)
"""
    begun = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
        for _ in range(3)
    ]
    spans = sorted(tuple(map(float, process.communicate(timeout=60)[0].split())) for process in begun)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))


def test_turns_of_two_devices_do_not_wait_for_each_other() -> None:
    begin = time.monotonic()
    with testing.device_turn("turns", 1), testing.device_turn("turns", 2), testing.device_turn("turns", 1):
        assert time.monotonic() - begin < 5
