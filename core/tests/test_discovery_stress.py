"""Discovery among hundreds of distributions with many defects, and with processes that write one
index at the same time.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from distributions import (
    AN_HOUR_LATER,
    LIST,
    PYTHON,
    Session,
    environment,
    folders_read,
    install,
    npu,
    run,
    seen,
    uninstall,
)
from test_discovery import _zip

SOUND = """
import devmod
class Made(devmod.Module):
    kind = __name__.rpartition("_")[2]
    def get_function(self, name, query_imports=False):
        raise NotImplementedError
def create(code, fmt, fmap, source):
    return Made()
def load(data):
    return Made()
"""


def one(
    site: Path,
    kind: str,
    version: str = "1.0",
    *,
    name: str = "",
    value: str = "",
    text: str = SOUND,
) -> Path:
    """Install a distribution acme-<kind> (or `name`) with a loader of the kind in its own
    module.
    """
    name = name or f"acme-{kind}"
    module = f"{name.replace('-', '_')}_{kind}"
    groups = {
        "devmod.create": {kind: value or f"{module}:create"},
        "devmod.load_from_bytes": {kind: value or f"{module}:load"},
    }
    return install(site, name, version, groups, {module: text})


# -- hundreds of distributions

OTHERS = 464
EACH = 3


def crowd(site: Path) -> dict[str, str]:
    """500 distributions; gives what each kind comes to: "" sound, or what its error has to say."""
    site.mkdir(parents=True)
    for number in range(OTHERS):
        groups = (
            {"console_scripts": {f"other-{number}": f"other_{number}:main"}}
            if number % 10 < 4
            else None
        )
        install(site, f"other-{number}", groups=groups)
    result: dict[str, str] = {}
    for number in range(EACH):
        one(site, f"sound{number}", f"1.{number}")
        result[f"sound{number}"] = ""
        one(site, f"twice{number}", "0.9")  # an older version is still there
        one(site, f"twice{number}", "1.0")
        result[f"twice{number}"] = ""
        one(site, f"clash{number}")
        one(site, f"clash{number}", "2.0", name=f"rival-{number}")
        result[f"clash{number}"] = f"devmod.load_from_bytes.clash{number} is claimed by "
        one(site, f"fails{number}", text=f"raise OSError('no lib{number}.so')")
        result[f"fails{number}"] = (
            f"acme-fails{number} 1.0: importing acme_fails{number}_fails{number} failed (OSError: no lib{number}.so)"
        )
        one(site, f"nothing{number}", value=f"acme_gone_{number}:entry")
        result[f"nothing{number}"] = (
            f"acme-nothing{number} 1.0: importing acme_gone_{number} failed (ModuleNotFoundError: No module named"
        )
        one(site, f"lacks{number}", value=f"acme_lacks{number}_lacks{number}:gone")
        result[f"lacks{number}"] = f"acme_lacks{number}_lacks{number} has no 'gone'"
        (one(site, f"half{number}") / "METADATA").unlink()
        result[f"half{number}"] = f"acme_half{number}-1.0.dist-info has no METADATA"
        (one(site, f"nameless{number}") / "METADATA").write_text(
            "Metadata-Version: 2.1\nVersion: 1.0\n"
        )
        result[f"nameless{number}"] = (
            f"the METADATA in acme_nameless{number}-1.0.dist-info has no Name"
        )
        mute = one(site, f"mute{number}")
        (mute / "entry_points.txt").write_bytes(
            f"[devmod.load_from_bytes]\nmute{number} = ".encode() + b"\xff:load\n"
        )
        result[f"mute{number}"] = (
            f"The entry points of acme-mute{number} at {str(mute)!r} are unknown"
        )
        later = one(site, f"later{number}", "9.0")
        with (later / "entry_points.txt").open("a") as file:
            file.write("[devmod.protocol]\n2 = devmod\n")
        result[f"later{number}"] = (
            f"acme-later{number} 9.0 supports version 2 of devmod's plugin protocol"
        )
    return result


ATTEMPT = """
import json, sys
import devmod
found = {}
for kind in json.loads(KINDS):
    try:
        found[kind] = devmod.load_from_bytes(kind, b"").kind
    except devmod.DevmodError as error:
        found[kind] = f"{type(error).__name__}: {error}"
print(json.dumps([found, sorted(devmod.registered("devmod.create")), len(devmod.registered("devmod.targets"))]))
"""


@pytest.mark.row("R3", "R4", "R8", "R9", "R44")
def test_broken_plugins_among_500_distributions_do_not_affect_the_others(tmp_path: Path) -> None:
    site, cache = tmp_path.resolve() / "site", tmp_path / "cache"
    expected = crowd(site)
    assert sum(1 for _ in site.glob("*.dist-info")) == 500
    program = AN_HOUR_LATER + ATTEMPT.replace("KINDS", repr(json.dumps(list(expected))))
    shown = sorted(["const_loader", *(kind for kind in expected if not kind.startswith("mute"))])
    answers = []
    for how in ("cold", "warm"):
        assert (folders_read([site], cache) == []) == (how == "warm")
        found, listed, targets = json.loads(run(program, [site], cache)[0])
        assert (listed, targets) == (shown, 8)
        for kind, problem in expected.items():
            if problem:
                assert problem in found[kind], (how, kind, found[kind])
                assert len(found[kind]) < 700 or kind.startswith("mute"), found[
                    kind
                ]  # the text names no other plugin
            else:
                assert found[kind] == kind
        answers.append(found)
    assert answers[0] == answers[1]


@pytest.mark.row("R3")
def test_a_plugin_installed_among_500_while_a_process_runs(tmp_path: Path) -> None:
    site, cache = tmp_path.resolve() / "site", tmp_path / "cache"
    site.mkdir()
    for number in range(499):
        install(site, f"other-{number}")
    ask = "devmod.load_from_bytes('new', b'').kind"
    with Session([site], cache) as running:
        assert running.ask(ask).startswith("NotRegisteredError")
        assert running.ask(ask).startswith("NotRegisteredError")
        assert folders_read([site], cache) == []
        time.sleep(0.02)
        info = one(site, "new")
        assert running.ask(ask) == "new"
        uninstall(info)
        assert running.ask("sorted(devmod.registered('devmod.create'))") == ["const_loader"]


# -- simultaneous processes


@pytest.mark.row("R32")
def test_an_outdated_index_that_is_written_last_is_not_used(tmp_path: Path) -> None:
    """Two processes write the index of one folder. The process that read it first writes last."""
    site, cache = tmp_path.resolve() / "site", tmp_path / "cache"
    npu(site)
    ready, go = tmp_path / "ready", tmp_path / "go"
    hold = f"""
import os
real = devmod._plugins.scan.write_index
def slow(folder):
    open({str(ready)!r}, "w").close()
    for _ in range(30000):
        if os.path.exists({str(go)!r}):
            break
        time.sleep(0.01)
    real(folder)
devmod._plugins.scan.write_index = slow
"""
    slow = subprocess.Popen(
        [*PYTHON, AN_HOUR_LATER + hold + LIST],
        env=environment([site], cache),
        stdout=subprocess.PIPE,
        text=True,
    )
    for _ in range(30000):
        if ready.exists():
            break
        time.sleep(0.01)
    time.sleep(0.02)
    npu(site, name="acme-tpu", kind="tpu")
    both = {"npu": "devmod-npu 1.0", "tpu": "acme-tpu 1.0"}
    assert seen([site], cache) == both
    assert folders_read([site], cache) == []  # the index of the other process is current
    go.touch()
    assert json.loads(slow.communicate(timeout=300)[0]) == {"npu": "devmod-npu 1.0"}
    assert folders_read([site], cache) == [str(site)]  # the index that was written last is outdated
    assert seen([site], cache) == both
    assert folders_read([site], cache) == []


# -- the places of modules


@pytest.mark.row("R3")
def test_plugins_that_share_a_namespace_package(tmp_path: Path) -> None:
    first, second, cache = (
        tmp_path.resolve() / "first",
        tmp_path.resolve() / "second",
        tmp_path / "cache",
    )

    def portion(folder: Path, kind: str) -> None:
        install(
            folder,
            f"acme-{kind}",
            groups={"devmod.load_from_bytes": {kind: f"acme.devices.npu_{kind}:load"}},
        )
        package = folder / "acme" / "devices"
        package.mkdir(parents=True, exist_ok=True)
        (package / f"npu_{kind}.py").write_text(SOUND)

    portion(first, "one")
    portion(second, "two")
    with Session([first, second], cache) as running:
        assert running.ask(
            "[devmod.load_from_bytes(kind, b'').kind for kind in ('one', 'two')]"
        ) == ["one", "two"]
        time.sleep(0.02)
        portion(second, "three")  # into a package that is already imported
        assert running.ask("devmod.load_from_bytes('three', b'').kind") == "three"
        portion(tmp_path.resolve() / "third", "four")
        running.do(f"import sys; sys.path.append({str(tmp_path.resolve() / 'third')!r})")
        assert running.ask("devmod.load_from_bytes('four', b'').kind") == "four"


@pytest.mark.row("R9")
@pytest.mark.parametrize("first", ["zip", "folder"])
def test_the_first_of_one_distribution_in_a_zip_and_one_in_a_folder_is_used(
    tmp_path: Path, first: str
) -> None:
    one(tmp_path / "old", "npu", "1.0")
    archive = _zip(tmp_path / "old", tmp_path.resolve() / "lib.zip")
    folder = tmp_path.resolve() / "folder"
    one(folder, "npu", "2.0")
    path = [archive, folder] if first == "zip" else [folder, archive]
    program = "import devmod\nprint(devmod.registered('devmod.create')['npu'].provider, devmod.load_from_bytes('npu', b'').kind)\nimport acme_npu_npu\nprint(acme_npu_npu.__file__)"
    who, file = run(program, path, tmp_path / "cache")[0].splitlines()
    assert who == f"acme-npu {'1.0' if first == 'zip' else '2.0'} npu"
    assert file.startswith(str(path[0]))


# -- the selection of distributions

USE = """
import json, devmod
def provider(call):
    try:
        return type(call()).__module__
    except devmod.DevmodError as error:
        return type(error).__name__
print(json.dumps([provider(lambda: devmod.create("npu", b"", "x", {})), provider(lambda: devmod.load_from_bytes("npu", b"")), provider(lambda: devmod.load_from_bytes("tpu", b""))]))
"""
A, B, NONE, BOTH = "acme_one_npu", "acme_two_npu", "NotRegisteredError", "ConflictError"
CREATE, LOAD = "devmod.create.npu", "devmod.load_from_bytes.npu"


@pytest.mark.row("R9")
@pytest.mark.parametrize(
    ("choose", "allow", "deny", "found"),
    [
        ("", "", "", (BOTH, BOTH)),
        (f"{CREATE}=acme-one,{LOAD}=Acme.Two", "", "", (A, B)),  # each key separately
        (f"{CREATE}=acme-one", "", "", (A, BOTH)),
        (f"{CREATE}=acme-none", "", "", (BOTH, BOTH)),
        ("", "acme-one,acme-tpu", "", (A, A)),
        ("", "", "acme_two", (A, A)),
        ("", "", "acme-one,acme-two", (NONE, NONE)),
        ("", "acme-one,acme-two,acme-tpu", "acme-one", (B, B)),
        (
            f"{CREATE}=acme-one",
            "",
            "acme-one",
            (B, B),
        ),  # DEVMOD_PLUGINS_CHOOSE does not admit an excluded distribution
        (f"{CREATE}=acme-one", "acme-tpu", "", (NONE, NONE)),
    ],
)
def test_the_variables_that_select_and_exclude_distributions(
    tmp_path: Path, choose: str, allow: str, deny: str, found: tuple[str, str]
) -> None:
    site = tmp_path / "site"
    text = SOUND.replace('__name__.rpartition("_")[2]', '"npu"')
    one(site, "npu", name="acme-one", text=text)
    one(site, "npu", name="acme-two", text=text)
    one(site, "tpu", value="acme_tpu_tpu:load")
    env = {
        "DEVMOD_PLUGINS_CHOOSE": choose,
        "DEVMOD_PLUGINS_ALLOW": allow,
        "DEVMOD_PLUGINS_DENY": deny,
    }
    got: Any = json.loads(run(USE, [site], tmp_path / "cache", env)[0])
    assert got == [*found, "acme_tpu_tpu"]
