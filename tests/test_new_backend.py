"""`devmod new-backend`, for real: written, built, installed in a clean environment, checked, used, uninstalled."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devmod._cli import main

ROOT = Path(__file__).resolve().parent.parent

COMPILE = """
import hashlib, sys, devmod
source = "kernel axpy x:float32[] y:float32[] a:float32\\n    t = mul a x\\n    y = add t y\\n"
module = devmod.compile(source, "acme")
devmod.save(module, sys.argv[1])
print(type(module).__name__, hashlib.sha256(module.save_to_bytes()).hexdigest())
try:
    module["axpy"]
except devmod.RuntimeNotLinkedError as error:
    print(error)
"""
LOAD_AND_RUN = """
import sys, devmod, numpy as np
x, y = np.arange(10, dtype="float32"), np.ones(10, dtype="float32")
devmod.load(sys.argv[1])["axpy"](x, y, 2.0, grid=1, block=16)
print(y.tolist() == (2 * x + 1).tolist())
"""
WITHOUT = """
import sys, devmod
module = devmod.load(sys.argv[1])
assert devmod.dumps(module) == open(sys.argv[1], "rb").read()
print(module.kind, list(module.functions))
for use in (lambda: module["axpy"], lambda: devmod.create_with_fallback("acme", b"", "acme", {}), lambda: devmod.compile("", "acme")):
    try:
        use()
    except devmod.NotRegisteredError as error:
        print(error)
"""


def written(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main(["new-backend", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out + err


def wheel_of(folder: Path) -> str:
    """The wheel of a distribution, as a requirement."""
    out = folder / "dist"
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)], cwd=folder, capture_output=True, check=True)
    (wheel,) = out.glob("*.whl")
    return f"{folder.name} @ {wheel.as_uri()}"


def run_own_tests(box: Any, folder: Path) -> None:
    """Run a distribution's own tests on what is installed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("DEVMOD_", "PYTEST_", "PYTHON"))}
    done = subprocess.run(
        [str(box.python), "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.row("R4", "R18", "R24", "R28", "R37")
def test_from_a_name_to_an_installed_backend_and_back(environment: Callable[..., Any], wheels: Any, tmp_path: Path) -> None:
    box = environment(wheels.direct("devmod-core", "testing"))
    bundle = str(tmp_path / "axpy.devmod")
    for sort, flags in (("whole", ()), ("target", ("--target-only",))):
        box.run("-m", "devmod", "new-backend", "acme", "--output", str(tmp_path / sort), *flags)
    target, whole = tmp_path / "target" / "devmod-acme", tmp_path / "whole" / "devmod-acme"

    # The build side alone: modules are fallbacks.
    box.install(wheel_of(target))
    run_own_tests(box, target)
    name, digest, said = box.run("-c", COMPILE, bundle).split(maxsplit=2)
    assert name == "FallbackModule"
    assert said == (
        "the acme function 'axpy' cannot be used here: this module is a fallback, made while the Acme runtime was not installed. "
        "It can be inspected and saved. To run it: pip install devmod-acme\n"
    )
    box.uninstall("devmod-acme")

    # The whole: the same bytes, and they run.
    box.install(wheel_of(whole))
    run_own_tests(box, whole)
    rows = json.loads(box.run("-m", "devmod", "conformance", "acme", "--json"))
    outcomes = [row["outcome"] for row in rows]
    assert "failed" not in outcomes, rows
    assert outcomes.count("passed") >= 15
    assert box.run("-c", LOAD_AND_RUN, bundle) == "True\n"  # what was compiled without the runtime
    assert box.run("-c", COMPILE, bundle).split() == ["AcmeModule", digest]
    assert box.run("-c", LOAD_AND_RUN, bundle) == "True\n"
    (readme,) = re.findall(r"```python\n(.*?)```", (whole / "README.md").read_text(), re.DOTALL)
    assert box.run("-W", "error", "-c", readme + "\nprint(y.tolist() == (2 * x + 1).tolist())") == "True\n"
    listed = json.loads(box.run("-m", "devmod", "plugins", "--json"))
    assert {(row["distribution"], row["state"]) for row in listed} == {("devmod-acme", "ok")}
    name, forced, _ = box.run("-c", COMPILE, bundle, env={"DEVMOD_COMPILE_FORCE_FALLBACK": "1"}).split(maxsplit=2)
    assert (name, forced) == ("FallbackModule", digest)

    # Gone again: what was saved is read, and what is missing is said.
    box.uninstall("devmod-acme")
    provides = "is not registered, and no known distribution provides it. By convention it would be devmod-acme; install that only if you trust its publisher"
    assert box.run("-c", WITHOUT, bundle).splitlines() == [
        "acme ['axpy']",
        f"devmod.load_from_bytes.acme {provides}",
        f"devmod.create.acme {provides}",
        f"devmod.targets.acme {provides}",
    ]


@pytest.mark.parametrize("flags", [(), ("--target-only",)])
def test_what_is_written_is_clean(flags: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Ruff with its own settings, mypy strictly, whatever the name, the title and the author."""
    assert (
        written(capsys, "my_npu2", "--output", tmp_path, "--title", "Größe & Co.", "--author", "Ann O. <ann@example.org>", *flags)[0] == 0
    )
    folder = tmp_path / "devmod-my_npu2"
    for tool in (["ruff", "check", "--no-cache"], ["mypy", "--cache-dir", str(ROOT / ".mypy_cache" / f"new-backend{len(flags)}"), "src"]):
        env = os.environ | {"MYPYPATH": f"src:{ROOT / 'core' / 'src'}"}
        done = subprocess.run([sys.executable, "-m", *tool], cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    table = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert table["project"]["name"] == "devmod-my_npu2"
    assert table["project"]["authors"] == [{"name": "Ann O. <ann@example.org>"}]
    assert ("devmod.create" in table["project"]["entry-points"]) == (not flags)


@pytest.mark.parametrize("flags", [(), ("--target-only",)], ids=["whole", "target"])
@pytest.mark.parametrize(("name", "text"), [("z", "Z"), ("acme", "Acme"), ("z" * 31 + "9", "Z" * 80)], ids=["short", "usual", "longest"])
def test_what_is_written_is_formatted_whatever_it_is_called(
    name: str, text: str, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    written(capsys, name, "--output", tmp_path, "--title", text, "--author", text, *flags)
    for tool in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *tool, "--no-cache"],
            cwd=tmp_path / f"devmod-{name}",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_says_what_to_do_next(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "devmod-acme"
    assert written(capsys, "acme", "--output", tmp_path / "new") == (
        0,
        f'{folder} is a backend that works. Next:\n  cd {folder}\n  pip install -e ".[dev]"\n  pytest\n  devmod conformance acme\n'
        "README.md says which file to change for what.\n",
    )
    assert {path.name for path in folder.iterdir()} == {".github", ".gitignore", "LICENSE", "README.md", "pyproject.toml", "src", "tests"}
    assert (folder / "src" / "devmod_acme" / "py.typed").read_bytes() == b""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Acme"], "'Acme' cannot be a kind: it is of the form [a-z][a-z0-9_]{0,31} and does not end in _, since it stands in keys, files and the distribution's name"),
        (["acme_"], "'acme_' cannot be a kind: it is of the form [a-z][a-z0-9_]{0,31} and does not end in _, since it stands in keys, files and the distribution's name"),
        (["../acme"], "'../acme' cannot be a kind: it is of the form [a-z][a-z0-9_]{0,31} and does not end in _, since it stands in keys, files and the distribution's name"),
        (["devmod-acme"], "the name of the kind is meant, 'acme'; the distribution is called devmod-<kind>"),
        (["cuda"], "devmod-core has the kind 'cuda' itself, and devmod-cuda is its runtime; a backend brings a kind of its own"),
        (["hip"], "'hip' is a format of the kind rocm; a backend brings a kind of its own"),
        (["ptx"], "'ptx' is a format of the kind cuda; a backend brings a kind of its own"),
        (["const_loader"], "'const_loader' is a name of devmod-core's own; a backend brings a kind of its own"),
        (["core"], "'core' is a name of devmod-core's own; a backend brings a kind of its own"),
        (["acme", "--title", 'A"'], "'A\"' is to stand in source files: up to 80 printable characters, no quotes, braces or backslashes"),
        ([], "a name is needed: devmod new-backend NAME (on a terminal, without one, it asks)"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_nothing_is_written(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = written(capsys, *arguments)
    assert (code, said.splitlines()[-1]) == (2, f"Error: {message}")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "devmod-acme").mkdir()
    code, said = written(capsys, "acme", "--output", tmp_path)
    assert code == 2
    assert said.splitlines()[-1] == (
        f"Error: {tmp_path / 'devmod-acme'} is there already, and nothing is written into what is; choose another --output, or remove it"
    )
    assert list((tmp_path / "devmod-acme").iterdir()) == []


def test_half_a_backend_is_not_left_behind(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write = Path.write_text

    def full(path: Path, *text: Any, **how: Any) -> int:
        if path.name == "py.typed":
            raise OSError(28, "No space left on device", str(path))
        return write(path, *text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    code, said = written(capsys, "acme", "--output", tmp_path / "new")
    file = tmp_path / "new" / "devmod-acme" / "src" / "devmod_acme" / "py.typed"
    assert (code, said) == (1, f"devmod: error: {file}: No space left on device\n")
    assert not (tmp_path / "new" / "devmod-acme").exists()
    monkeypatch.undo()
    assert written(capsys, "acme", "--output", tmp_path / "new")[0] == 0


def test_on_a_terminal_it_asks_and_asks_again(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "devmod", "new-backend"], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path
    )
    os.write(ours, b"cuda\nacme\n\nAcme Inc.\nn\nout\n")
    said, _ = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0, said
    assert b"Error: devmod-core has the kind 'cuda' itself" in said
    table = tomllib.loads((tmp_path / "out" / "devmod-acme" / "pyproject.toml").read_text())
    assert table["project"]["description"] == "The Acme target of devmod"
    assert table["project"]["authors"] == [{"name": "Acme Inc."}]
