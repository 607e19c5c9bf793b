"""Plugins that fail at every possible place: the error names the distribution, and all other kinds
work.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from distributions import environment, install, run, uninstall
from forked import SOURCE, python

import devmod

CORE = f"devmod-core {devmod.__version__}"
#: A valid backend of the kind {kind}. A test appends code that replaces a part.
SOUND = """
import devmod
class Made(devmod.Module):
    kind = {kind!r}
    format = "x"
    def __init__(self, data):
        self.data = bytes(data)
    def get_function(self, name, query_imports=False):
        return lambda: name
    def save_to_bytes(self):
        return self.data
class Listed(devmod.Device):
    kind, index, name = {kind!r}, 0, "the device"
Listed.__abstractmethods__ = frozenset()
def create(code, fmt, fmap, source):
    return Made(code)
def load(data):
    return Made(data)
def file(path, fmt):
    return Made(open(path, "rb").read())
def devices():
    return [Listed()]
"""
#: Code that uses all functions of a valid backend, and core's own kinds.
OTHERS = """
import devmod, warnings
assert devmod.create("good", b"1", "x", {}).save_to_bytes() == b"1"
assert devmod.load_from_bytes("good", b"2").save_to_bytes() == b"2"
assert devmod.device("good").name == "the device"
with warnings.catch_warnings():
    warnings.simplefilter("ignore", RuntimeWarning)
    assert "good" in [each.kind for each in devmod.devices()]
cuda = devmod.create_with_fallback("cuda", b"//", "ptx", {"f": devmod.FunctionInfo("f", ())})
assert devmod.loads(devmod.dumps(devmod.bundle(cuda))).kind
assert devmod.const_loader({"w": b"1"}, {"i": ["w"]}).get_function("i")()
print("others work")
"""
ATTEMPT = """
import traceback
def attempt(call):
    try:
        print("gave", call())
    except BaseException as error:
        print(type(error).__name__, "|", error, "|", "; ".join(getattr(error, "__notes__", ())), "|", repr(error.__cause__))
"""


def backend(site: Path, kind: str, change: str = "", version: str = "1.0", **entries: str) -> Path:
    """Install the distribution acme-<kind>, valid except for `change`. `entries` has its functions
    by group; default: all.
    """
    module = f"acme_{kind}"
    named = entries or {
        "create": "create",
        "load_from_bytes": "load",
        "load_from_file": "file",
        "device": "devices",
    }
    groups = {
        f"devmod.{group}": {kind: f"{module}:{function}"} for group, function in named.items()
    }
    return install(
        site, f"acme-{kind}", version, groups, {module: SOUND.format(kind=kind) + change}
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with a valid backend of the kind `good`."""
    folder = tmp_path.resolve() / "site"
    backend(folder, "good")
    return folder


def output_of(
    site: Path, tmp_path: Path, program: str, env: dict[str, str] | None = None
) -> tuple[str, str]:
    """Return the output and the standard error of a process that runs `program` and then uses the
    valid kinds.
    """
    out, err = run(ATTEMPT + "import devmod\n" + program + OTHERS, [site], tmp_path / "cache", env)
    assert out.endswith("others work\n")
    return out.removesuffix("others work\n"), err


CREATE = "attempt(lambda: devmod.create('bad', b'', 'x', {}))\n"
FORCED = "attempt(lambda: devmod.create_with_fallback('bad', b'', 'x', {}))\n"
LOAD = "attempt(lambda: devmod.load_from_bytes('bad', b''))\n"
FILE = f"attempt(lambda: devmod.load_from_file({__file__!r}, 'bad'))\n"
PROBE = "attempt(lambda: devmod.device('bad'))\n"


@pytest.mark.row("R5", "R8")
@pytest.mark.parametrize(
    ("function", "program", "key"),
    [
        ("create(code, fmt, fmap, source)", CREATE, "create"),
        ("create(code, fmt, fmap, source)", FORCED, "create"),
        ("load(data)", LOAD, "load_from_bytes"),
        ("file(path, fmt)", FILE, "load_from_file"),
        ("devices()", PROBE, "device"),
    ],
)
def test_exceptions_of_a_plugin_pass_through_with_a_note_of_its_distribution(
    site: Path, tmp_path: Path, function: str, program: str, key: str
) -> None:
    backend(site, "bad", f"def {function}:\n    raise ZeroDivisionError('inside')\n", "2.5")
    note = f"devmod: devmod.{key}.bad of acme-bad 2.5 raised this"
    assert output_of(site, tmp_path, program)[0] == f"ZeroDivisionError | inside | {note} | None\n"


@pytest.mark.row("R5")
def test_a_reraised_error_has_one_note_and_errors_of_devmod_have_none(
    site: Path, tmp_path: Path
) -> None:
    backend(
        site,
        "bad",
        "kept = OSError('once')\ndef load(data):\n    raise kept\ndef create(*all):\n    raise devmod.FormatError('mine')\n",
    )
    out = output_of(site, tmp_path, LOAD + LOAD + CREATE)[0]
    line = (
        "OSError | once | devmod: devmod.load_from_bytes.bad of acme-bad 1.0 raised this | None\n"
    )
    assert out == line + line + "FormatError | mine |  | None\n"


@pytest.mark.row("R8", "R10")
def test_exceptions_of_an_object_registered_in_the_process_have_no_note(
    site: Path, tmp_path: Path
) -> None:
    program = (
        "def load(data): raise ValueError('mine')\ndevmod.register('devmod.load_from_bytes', 'bad', load)\n"
        + LOAD
    )
    assert output_of(site, tmp_path, program)[0] == "ValueError | mine |  | None\n"


@pytest.mark.row("R8")
@pytest.mark.parametrize(
    ("change", "wrong", "cause"),
    [
        ("def load(data): return None", "returned NoneType, not a devmod.Module", "None"),
        ("def load(data): return Made", "returned ABCMeta, not a devmod.Module", "None"),
        ("Made.kind = 'cuda'", "returned a module of kind 'cuda', not 'bad'", "None"),
        ("Made.kind = None", "returned a module of kind None, not 'bad'", "None"),
        (
            "Made.kind = property(lambda self: {}[3])",
            "returned a module whose kind cannot be read (KeyError: 3)",
            "KeyError(3)",
        ),
    ],
)
def test_the_result_of_a_loader_is_checked(
    site: Path, tmp_path: Path, change: str, wrong: str, cause: str
) -> None:
    backend(site, "bad", change)
    spec = "import acme_bad\ndevmod.register('devmod.targets', 'bad', devmod.TargetSpec('bad', title='B', distribution='acme-bad', formats=['x']))\n"
    assert output_of(site, tmp_path, spec + LOAD)[0] == (
        f"PluginError | devmod.load_from_bytes.bad is broken: acme-bad 1.0 {wrong}. Report it to its publisher, or uninstall it |  | {cause}\n"
    )


@pytest.mark.row("R8")
def test_the_error_for_a_wrong_result_names_a_distribution_that_was_uninstalled_meanwhile(
    site: Path, tmp_path: Path
) -> None:
    info = backend(site, "bad", "def load(data): return None")
    gone = f"for each in __import__('pathlib').Path({str(info)!r}).iterdir(): each.unlink()\n__import__('os').rmdir({str(info)!r})\n"
    out = output_of(site, tmp_path, LOAD + gone + LOAD)[0].splitlines()
    assert out[0] == out[1]
    assert "acme-bad 1.0 returned NoneType" in out[1]


#: What `devices` of a plugin may do, and the text of the warning.
PROBES = (
    (
        "def devices(): return [3]",
        "devmod.device.bad is broken: acme-bad 1.0 returned int, not a sequence of devmod.Device. Report it to its publisher, or uninstall it",
    ),
    (
        "def devices(): return None",
        "devmod.device.bad is broken: acme-bad 1.0 returned NoneType, not a sequence of devmod.Device. Report it to its publisher, or "
        "uninstall it",
    ),
    (
        "def devices(): raise RuntimeError('cuInit: 999')",
        "devmod.device.bad of acme-bad 1.0 failed: RuntimeError: cuInit: 999",
    ),
    (
        "def devices(): raise SystemExit(3)",
        "devmod.device.bad of acme-bad 1.0 failed: SystemExit: 3",
    ),
    (
        "def devices(): raise AssertionError",
        "devmod.device.bad of acme-bad 1.0 failed: AssertionError",
    ),
    (
        "class Mute(Exception):\n    def __str__(self): return 1 // 0\ndef devices(): raise Mute",
        "devmod.device.bad of acme-bad 1.0 failed: Mute: its text cannot be read",
    ),
)


@pytest.mark.row("R8")
def test_devices_of_other_kinds_are_listed_beside_failing_probes(
    site: Path, tmp_path: Path
) -> None:
    texts = {
        f"bad{number}": text.replace("bad", f"bad{number}")
        for number, (_, text) in enumerate(PROBES)
    }
    for kind, (change, _) in zip(texts, PROBES, strict=True):
        backend(site, kind, change)
    program = """
with __import__("warnings").catch_warnings(record=True) as caught:
    __import__("warnings").simplefilter("always")
    print([each.name for each in devmod.devices()])
print(*sorted(str(each.message) for each in caught), sep="\\n")
"""
    assert output_of(site, tmp_path, program)[0].splitlines() == [
        "['the device']",
        *sorted(texts.values()),
    ]
    done = cli(site, tmp_path, "devices", "--json")
    listed = json.loads(done.stdout)
    assert [each["name"] for each in listed["devices"]] == ["the device"]
    assert sorted(listed["problems"]) == [f"{kind}: {text}" for kind, text in texts.items()]


@pytest.mark.row("R8")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            "def devices(): raise RuntimeError('cuInit: 999')",
            "devmod.device.bad of acme-bad 1.0 failed: RuntimeError: cuInit: 999",
        ),
        (
            "def devices(): raise SystemExit(3)",
            "devmod.device.bad of acme-bad 1.0 failed: SystemExit: 3",
        ),
        (
            "def devices(): return 'none'",
            "devmod.device.bad is broken: acme-bad 1.0 returned str, not a sequence of devmod.Device. Report it to its publisher, or uninstall it",
        ),
        (
            "def load(data): return None",
            "devmod.load_from_bytes.bad is broken: acme-bad 1.0 returned NoneType, not a devmod.Module. Report it to its publisher, or uninstall it",
        ),
    ],
)
def test_the_next_candidate_is_used_after_one_with_a_failing_plugin(
    site: Path, tmp_path: Path, change: str, text: str
) -> None:
    backend(site, "bad", "Made.functions = {'f': devmod.FunctionInfo('f', ())}\n" + change)
    program = """
import acme_bad, acme_good
acme_good.Made.functions = acme_bad.Made.functions
bad, good = acme_bad.Made(b"1"), acme_good.Made(b"2")
print(devmod.loads(devmod.dumps(devmod.bundle(bad, good)))["f"]())
attempt(lambda: devmod.loads(devmod.dumps(devmod.bundle(bad, acme_bad.Made(b"3"))))["f"])
"""
    out = output_of(site, tmp_path, program)[0]
    alone = f"f\nPluginError | no candidate of the bundle can run 'f' here:\n  1. bad/x: {text}\n  2. bad/x: as above |  | PluginError("
    assert out.startswith(alone), out


def cli(site: Path, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process with these distributions alone."""
    env = environment([site], tmp_path / "cache", {"PYTHONPATH": f"{site}:{SOURCE}"})
    env["DEVMOD_PLUGINS_ALLOW"] = ",".join(
        {"devmod-runtime"} | {info.name.partition("-")[0] for info in site.glob("*-info")}
    )
    return python("-m", "devmod", *arguments, env=env, cwd=tmp_path)


# -- other versions of core
# --------------------------------------------------------------------------------------------------


@pytest.mark.row("R8", "R44")
@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (
            "from devmod.backend import Tomorrow",
            "ImportError: cannot import name 'Tomorrow' from 'devmod.backend' ({backend})",
        ),
        ("import devmod.tomorrow", "ModuleNotFoundError: No module named 'devmod.tomorrow'"),
        ("devmod.Tomorrow", "AttributeError: module 'devmod' has no attribute 'Tomorrow'"),
    ],
)
def test_the_error_for_a_plugin_that_imports_a_missing_name_of_core_has_the_upgrade(
    site: Path, tmp_path: Path, change: str, cause: str
) -> None:
    backend(site, "bad", change, "9.0")
    cause = cause.format(backend=SOURCE / "devmod" / "backend.py")
    out = output_of(site, tmp_path, CREATE)[0]
    assert out.partition(" |  | ")[0] == (
        f"PluginError | devmod.create.bad cannot be used: acme-bad 9.0: importing acme_bad failed ({cause}), so it was written for another "
        f"version of devmod-core than the {devmod.__version__} installed here. Upgrade both: pip install --upgrade devmod-core acme-bad"
    )


def test_a_missing_name_outside_core_is_no_version_problem(site: Path, tmp_path: Path) -> None:
    (site / "devmodish.py").touch()
    backend(site, "bad", "from devmodish import x")
    assert (
        "Install it again (pip install --force-reinstall acme-bad==1.0)"
        in output_of(site, tmp_path, CREATE)[0]
    )


@pytest.mark.parametrize(
    "package",
    ["devmod_driver_api", "devmod_readers", "devmod_runtime", "devmod_targets", "devmod_wgsl"],
)
def test_an_entry_that_needs_a_missing_wheel_of_devmod_is_broken(
    site: Path, tmp_path: Path, package: str
) -> None:
    change = f"import sys\ndef create(*values):\n    sys.modules[{package!r}] = None\n    from {package} import some\n"
    backend(site, "bad", change)
    assert output_of(site, tmp_path, CREATE)[0].partition(" |  | ")[0] == (
        f"PluginError | devmod.create.bad is broken: acme-bad 1.0: importing {package} failed (ModuleNotFoundError: import of {package} "
        "halted; None in sys.modules). Install it again (pip install --force-reinstall acme-bad==1.0), or report it to its publisher"
    )


def test_a_missing_function_of_a_kind_whose_spec_is_broken(site: Path, tmp_path: Path) -> None:
    backend(site, "bad", "SPEC = 1\n", create="create", targets="SPEC")
    program = """
from devmod._modules.stored import StoredModule
from devmod._formats.index import Entry

entry = Entry("bad", functions=("f",), offset=0, size=0)
attempt(lambda: StoredModule(entry, lambda places: [b""], "'k.devmod'").get_function("g"))
"""
    assert output_of(site, tmp_path, program)[0].startswith(
        "FunctionNotFoundError | the bad module has no function 'g'; it has: 'f'"
    )


@pytest.mark.row("R44")
def test_an_import_of_a_runtime_of_another_version_has_its_error_alone(
    site: Path, tmp_path: Path
) -> None:
    text = "devmod-runtime 0.2 needs devmod-core 0.2: pip install --upgrade devmod-core==0.2"
    backend(site, "bad", f"raise devmod.PluginError({text!r}, distribution='devmod-runtime')")
    assert output_of(site, tmp_path, CREATE)[0].partition(" | ")[2].startswith(f"{text} | ")


# -- incomplete distributions
# --------------------------------------------------------------------------------------------------


def _without_module(site: Path, info: Path) -> None:
    (site / "acme_bad.py").unlink()


def _without_metadata(site: Path, info: Path) -> None:
    (info / "METADATA").unlink()


def _without_entry_points(site: Path, info: Path) -> None:
    (info / "entry_points.txt").unlink()


def _without_info(site: Path, info: Path) -> None:
    uninstall(info)


REPORT = (
    "Install it again (pip install --force-reinstall acme-bad==1.0), or report it to its publisher"
)
MISS = "NotRegisteredError | devmod.create.bad is not registered, and no known distribution provides it; by convention it would be devmod-bad; install that only if you trust its publisher |  | None"


@pytest.mark.row("R4", "R8")
@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (
            _without_module,
            f"PluginError | devmod.create.bad is broken: acme-bad 1.0: importing acme_bad failed (ModuleNotFoundError: No module named 'acme_bad'). {REPORT} |  "
            "| ModuleNotFoundError(\"No module named 'acme_bad'\")",
        ),
        (
            _without_metadata,
            "PluginError | devmod.create.bad is broken: acme_bad-1.0.dist-info has no METADATA, as an interrupted install or uninstall leaves it. "
            "Remove '{info}', and install its distribution again |  | None",
        ),
        (_without_entry_points, MISS),
        (_without_info, MISS),
    ],
)
def test_an_incomplete_uninstall(site: Path, tmp_path: Path, damage: Any, text: str) -> None:
    info = backend(site, "bad")
    damage(site, info)
    assert output_of(site, tmp_path, CREATE)[0] == text.format(info=info) + "\n"


# -- claims of keys of core
# --------------------------------------------------------------------------------------------------


@pytest.mark.row("R9")
def test_claims_of_keys_of_core_are_conflicts_of_those_keys_alone(
    site: Path, tmp_path: Path
) -> None:
    groups = {
        "devmod.targets": {"vulkan": "acme_greedy:SPEC"},
        "devmod.load_from_bytes": {"const_loader": "acme_greedy:load"},
        "devmod.load_from_file": {"devmod": "acme_greedy:file", "so": "acme_greedy:file"},
    }
    install(site, "acme-greedy", "6.6", groups, {"acme_greedy": "raise AssertionError('imported')"})
    keys = [f"{group}.{name}" for group, names in groups.items() for name in names]
    program = """
from devmod._plugins.lookup import lookup
for key in KEYS:
    attempt(lambda: lookup(*key.rsplit(".", 1)))
for kind in ("cuda", "rocm", "metal", "opencl", "hexagon", "webgpu"):
    assert devmod.backend.find_spec(kind).kind == kind
attempt(lambda: devmod.create_with_fallback("vulkan", {"f": b""}, "spv", {}))
attempt(lambda: __import__('devmod._plugins.specs', fromlist=['x']).spec_of_format("wgsl").kind)
""".replace("KEYS", repr(keys))
    conflict = (
        f"ConflictError | {{key}} is claimed by {CORE} and acme-greedy 6.6. Uninstall acme-greedy, or choose one by the environment "
        "variable: DEVMOD_PLUGINS_CHOOSE={key}=devmod-core selects devmod's own; DEVMOD_PLUGINS_CHOOSE={key}=acme-greedy replaces it by "
        "acme-greedy's, which is safe only if you trust its publisher |  | None\n"
    )
    expected = "".join(conflict.format(key=key) for key in keys)
    assert (
        output_of(site, tmp_path, program)[0]
        == expected + conflict.format(key=keys[0]) + "gave webgpu\n"
    )
    deny = {"DEVMOD_PLUGINS_DENY": "acme-greedy"}
    assert output_of(site, tmp_path, program, deny)[0].count("ConflictError") == 0
    choose = {"DEVMOD_PLUGINS_CHOOSE": ",".join(f"{key}=devmod-core" for key in keys)}
    assert output_of(site, tmp_path, program, choose)[0].count("ConflictError") == 0


# -- `devmod plugins`
# --------------------------------------------------------------------------------------------------


@pytest.mark.row("R8", "R9", "R44")
def test_devmod_plugins_prints_the_whole_failure_of_each_plugin(site: Path, tmp_path: Path) -> None:
    fails = "def dive():\n    raise OSError('no libnpu.so')\ntry:\n    dive()\nexcept OSError as error:\n    raise RuntimeError('the first\\nline') from error\n"
    backend(site, "raises", fails, create="create")
    backend(site, "early", "assert False", create="create")
    early = site / "acme_early-1.0.dist-info" / "entry_points.txt"
    early.write_text(early.read_text() + "[devmod.protocol]\n2 = devmod\n")
    (backend(site, "half", create="create") / "METADATA").unlink()
    backend(site, "mute", create="create")
    mute = site / "acme_mute-1.0.dist-info"
    (mute / "entry_points.txt").write_bytes(b"[devmod.create]\nmute = \xff:create\n")
    done = cli(site, tmp_path, "plugins", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = {
        row["distribution"]: row
        for row in json.loads(done.stdout)
        if row["group"] in ("devmod.create", "") and row["distribution"][:4] == "acme"
    }
    assert {name: row["state"] for name, row in rows.items()} == {
        "acme-good": "ok",
        "acme-raises": "broken",
        "acme-early": "broken",
        "acme_half": "broken",
        "acme-mute": "broken",
    }
    raises = rows["acme-raises"]
    assert raises["problem"] == (
        "devmod.create.raises is broken: acme-raises 1.0: importing acme_raises failed (RuntimeError: the first\nline). Install it again "
        "(pip install --force-reinstall acme-raises==1.0), or report it to its publisher"
    )
    for part in (
        "OSError: no libnpu.so",
        "in dive",
        "acme_raises.py",
        "The above exception was the direct cause",
        "RuntimeError: the first",
    ):
        assert part in raises["traceback"]
    assert rows["acme-early"]["problem"] == (
        f"acme-early 1.0 supports version 2 of devmod's plugin protocol, and {CORE} supports version 1. Upgrade devmod-core: pip install "
        "--upgrade devmod-core"
    )
    assert rows["acme_half"]["problem"].startswith("acme_half-1.0.dist-info has no METADATA")
    assert (
        rows["acme-mute"]["name"],
        rows["acme-mute"]["version"],
        rows["acme-mute"]["object"],
    ) == ("", "1.0", "")
    assert rows["acme-mute"]["problem"] == (
        f"The entry points of acme-mute at {str(mute)!r} are unknown: the entry_points.txt in acme_mute-1.0.dist-info cannot be read "
        "(UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 23: invalid start byte)"
    )
    table = cli(site, tmp_path, "plugins").stdout
    assert "no libnpu.so" not in table
    for row in rows.values():
        assert f"! {row['problem']}".replace("\n", "\\n") in [*table.splitlines(), "! "]
    output = cli(site, tmp_path, "plugins", "--debug").stdout
    assert "OSError: no libnpu.so" in output
    env = environment(
        [site],
        tmp_path / "cache",
        {"PYTHONPATH": f"{site}:{SOURCE}", "DEVMOD_PLUGINS_ALLOW": "acme-good"},
    )
    done = python("-m", "devmod", "plugins", "--json", env=env, cwd=tmp_path)
    states = {row["distribution"]: row["state"] for row in json.loads(done.stdout)}
    assert states["acme-mute"] == "excluded by DEVMOD_PLUGINS_ALLOW"
