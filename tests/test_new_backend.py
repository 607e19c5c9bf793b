"""`devmod new-backend`: its distribution is built, installed in a clean environment, checked, used
and uninstalled.
"""

from __future__ import annotations

import json
import os
import pty
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devmod_workbench._cli import main
from wheels import build_into  # tools/wheels.py

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
for use in (lambda: module["axpy"], lambda: devmod.create_with_fallback("acme", b"", "acme_program", {}), lambda: devmod.compile("", "acme")):
    try:
        use()
    except devmod.NotRegisteredError as error:
        print(error)
"""


def run_command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main(["new-backend", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out + err


def run_own_tests(box: Any, folder: Path, *options: str) -> None:
    """Run a distribution's own tests on the installed wheel."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DEVMOD_", "PYTEST_", "PYTHON"))
    }
    done = subprocess.run(
        [str(box.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.row("R4", "R18", "R24", "R28", "R37")
@pytest.mark.volume_but("some")
@pytest.mark.parametrize("own_tests", [("-k", "not TestConformance"), ()], ids=["some", "all"])
def test_a_new_backend_is_installed_used_and_uninstalled(
    own_tests: tuple[str, ...],
    environment: Callable[..., Any],
    wheels: Any,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    box = environment(wheels.direct("devmod-core", "conformance"))
    bundle = str(tmp_path / "axpy.devmod")
    box.run("-m", "devmod", "new-backend", "acme", "--output", str(tmp_path / "whole"))
    run_command(capsys, "acme", "--output", tmp_path / "target", "--target-only")
    target, whole = tmp_path / "target" / "devmod-acme", tmp_path / "whole" / "devmod-acme"
    for folder in (target, whole):
        build_into(sys.executable, folder, [folder], "wheel")

    # With the build side only, modules are fallbacks.
    box.install(*map(str, target.glob("*.whl")))
    run_own_tests(box, target, *own_tests)
    name, digest, message = box.run("-c", COMPILE, bundle).split(maxsplit=2)
    assert name == "FallbackModule"
    assert message == (
        "the acme function 'axpy' cannot be used here: this module is a fallback, made while the Acme runtime was not installed. "
        "It can be inspected and saved. To run it: pip install devmod-acme\n"
    )
    box.uninstall("devmod-acme")

    # With the runtime, modules have the same bytes and run.
    box.install(*map(str, whole.glob("*.whl")))
    run_own_tests(box, whole, *own_tests)
    # Its own tests check every row. The command finds the cases too.
    rows = json.loads(
        box.run(
            "-m", "devmod", "conformance", "acme", "--json", "--row", "R18", "--row", "R37-host"
        )
    )
    assert [row["outcome"] for row in rows] == ["passed", "passed"]
    # The first file was compiled without the runtime.
    assert box.run("-c", LOAD_AND_RUN + COMPILE + LOAD_AND_RUN, bundle) == (
        f"True\nAcmeModule {digest}\nTrue\n"
    )
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "twice.acmesrc").write_text("kernel twice x:float32[]\n    x = add x x\n")
    (tmp_path / "p" / "devmod.toml").write_text(
        'targets = ["acme"]\n[kernels.twice]\nsources = ["twice.acmesrc"]\n'
    )
    statuses = [
        json.loads(box.run("-m", "devmod", "build", str(tmp_path / "p"), "-q", "--json"))["jobs"][
            0
        ]["status"]
        for _ in range(2)
    ]
    assert statuses == ["compiled", "cached"]
    (readme,) = re.findall(r"```python\n(.*?)```", (whole / "README.md").read_text(), re.DOTALL)
    assert (
        box.run("-W", "error", "-c", readme + "\nprint(y.tolist() == (2 * x + 1).tolist())")
        == "True\n"
    )
    listed = json.loads(box.run("-m", "devmod", "plugins", "--json"))
    assert {(row["distribution"], row["state"]) for row in listed} == {
        (name, "ok")
        for name in (
            "devmod-acme",
            "devmod-conformance",
            "devmod-readers",
            "devmod-runtime",
            "devmod-targets",
        )
    }
    name, forced, _ = box.run(
        "-c", COMPILE, bundle, env={"DEVMOD_COMPILE_FORCE_FALLBACK": "1"}
    ).split(maxsplit=2)
    assert (name, forced) == ("FallbackModule", digest)

    # After uninstalling, the file can be read, and the errors name what is missing.
    box.uninstall("devmod-acme")
    provides = "is not registered, and no known distribution provides it; by convention it would be devmod-acme; install that only if you trust its publisher"
    assert box.run("-c", WITHOUT, bundle).splitlines() == [
        "acme ['axpy']",
        f"devmod.load_from_bytes.acme {provides}",
        f"devmod.create.acme {provides}",
        f"devmod.targets.acme {provides}. The targets here: cuda, hexagon, metal, opencl, rocm, vulkan, webgpu",
    ]


def test_the_files_pass_ruff_and_mypy(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Ruff runs with the settings of the distributions. Mypy runs with those of this repository,
    which are stricter: so it has the types of devmod from the cache of `make types`.
    """
    folders = []
    for kind, flags in (("my_npu3", ("--target-only",)), ("my_npu2", ())):
        names = ("--title", "Größe & Co.", "--author", "Ann O. <ann@example.org>")
        assert run_command(capsys, kind, "--output", tmp_path, *names, *flags)[0] == 0
        folder = tmp_path / f"devmod-{kind}"
        folders.append(folder)
        table = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        assert table["project"]["name"] == folder.name
        assert table["project"]["authors"] == [{"name": "Ann O. <ann@example.org>"}]
        assert ("devmod.create" in table["project"]["entry-points"]) == (not flags)
        assert table["tool"]["mypy"]["strict"]
    sources = [str(folder / "src") for folder in folders]
    for tool in (["ruff", "check", "--no-cache", *map(str, folders)], ["mypy", *sources]):
        done = subprocess.run(
            [sys.executable, "-m", *tool],
            cwd=ROOT,
            env=os.environ | {"MYPYPATH": os.pathsep.join(sources)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("flags", [(), ("--target-only",)], ids=["whole", "target"])
@pytest.mark.parametrize(
    ("name", "text"),
    [("z", "Z"), ("acme", "Acme"), ("z" * 31 + "9", "Z" * 80)],
    ids=["short", "usual", "longest"],
)
def test_the_files_are_formatted_for_any_name(
    name: str, text: str, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run_command(capsys, name, "--output", tmp_path, "--title", text, "--author", text, *flags)
    for tool in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *tool, "--no-cache"],
            cwd=tmp_path / f"devmod-{name}",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["z", "acme", "z" * 31 + "9"], ids=["short", "usual", "longest"])
def test_no_two_names_of_the_template_are_equal(
    kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A file shows which of the names a call takes."""
    run_command(capsys, kind, "--output", tmp_path)
    folder = tmp_path / f"devmod-{kind}"
    target = folder / "src" / f"devmod_{kind}" / "target.py"
    spec = runpy.run_path(str(target))["SPEC"]
    names = [spec.kind, *spec.formats, *spec.suffixes, *spec.source_keys, *spec.languages]
    assert names[0] == kind
    assert len({*names}) == len(names) == 5
    assert spec.suffixes == {names[2]: names[1]}
    table = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    entries = table["project"]["entry-points"]
    assert [*entries["devmod.load_from_file"]] == [names[1]]
    assert [*entries["devmod.create"]] == [kind]


def test_the_command_prints_the_next_steps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "a new one" / "devmod-acme"
    assert run_command(capsys, "acme", "--output", tmp_path / "a new one") == (
        0,
        f"Created {folder}, a working backend. Next:\n  cd '{folder}'\n"
        '  pip install -e ".[dev]"\n  pytest\n  devmod conformance acme\n'
        "README.md lists the files, and what to change in each.\n",
    )
    assert {path.name for path in folder.iterdir()} == {
        ".github",
        ".gitignore",
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "src",
        "tests",
    }
    assert (folder / "src" / "devmod_acme" / "py.typed").read_bytes() == b""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["Acme"],
            "'Acme' cannot be a kind: expected a lower-case letter and up to 31 lower-case letters, digits and underscores, no underscore at the end. Did you mean 'acme'?",
        ),
        (
            ["acme_"],
            "'acme_' cannot be a kind: expected a lower-case letter and up to 31 lower-case letters, digits and underscores, no underscore at the end. Did you mean 'acme'?",
        ),
        (
            ["acme-npu"],
            "'acme-npu' cannot be a kind: expected a lower-case letter and up to 31 lower-case letters, digits and underscores, no underscore at the end. Did you mean 'acme_npu'?",
        ),
        (
            ["../acme"],
            "'../acme' cannot be a kind: expected a lower-case letter and up to 31 lower-case letters, digits and underscores, no underscore at the end",
        ),
        (
            ["devmod-acme"],
            "expected the name of the kind, 'acme', got 'devmod-acme'. The distribution is devmod-<kind>",
        ),
        (
            ["cuda"],
            "'cuda' is a kind of devmod-core, and devmod-cuda is its runtime. Choose the name of a new kind",
        ),
        (
            ["hip"],
            "'hip' is a format or a file suffix of the kind cuda. Choose the name of a new kind",
        ),
        (
            ["ptx"],
            "'ptx' is a format or a file suffix of the kind cuda. Choose the name of a new kind",
        ),
        (
            ["const_loader"],
            "'const_loader' is reserved for devmod-core. Choose the name of a new kind",
        ),
        (["core"], "'core' is reserved for devmod-core. Choose the name of a new kind"),
        (
            ["acme", "--title", 'A"'],
            "'A\"' cannot be written into source files: expected up to 80 printable characters, no quotes, braces or backslashes",
        ),
        ([], "NAME is missing: devmod new-backend NAME (on a terminal, the command asks for it)"),
    ],
)
def test_an_invalid_value_is_an_error_and_nothing_is_written(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = run_command(capsys, *arguments)
    assert (code, output.splitlines()[-1]) == (2, f"devmod: error: {message}")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_changed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "devmod-acme").mkdir()
    code, output = run_command(capsys, "acme", "--output", tmp_path)
    assert code == 2
    assert output.splitlines()[-1] == (
        f"devmod: error: {tmp_path / 'devmod-acme'} exists already. Choose another --output, or remove it"
    )
    assert list((tmp_path / "devmod-acme").iterdir()) == []


@pytest.mark.parametrize("cause", ["full disk", "Ctrl-C"])
def test_an_incomplete_folder_is_removed(
    cause: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write = Path.write_text

    def full(path: Path, *text: Any, **how: Any) -> int:
        if path.name == "py.typed":
            raise (
                KeyboardInterrupt
                if cause == "Ctrl-C"
                else OSError(28, "No space left on device", str(path))
            )
        return write(path, *text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    code, output = run_command(capsys, "acme", "--output", tmp_path / "new")
    folder = tmp_path / "new" / "devmod-acme"
    error = (
        f"devmod: error: {folder / 'src' / 'devmod_acme' / 'py.typed'}: No space left on device\n"
    )
    assert (code, output) == (
        (130, f"\ninterrupted: {folder} was not written\n") if cause == "Ctrl-C" else (1, error)
    )
    assert not folder.exists()
    monkeypatch.undo()
    assert run_command(capsys, "acme", "--output", tmp_path / "new")[0] == 0


def test_on_a_terminal_the_command_asks_for_the_values(tmp_path: Path) -> None:
    terminal, stdin = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "devmod", "new-backend"],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
    )
    os.write(terminal, b"cuda\nacme\n\nAcme Inc.\nn\nout\n")
    output, _ = process.communicate(timeout=300)
    os.close(terminal)
    os.close(stdin)
    assert process.returncode == 0, output
    assert b"Error: 'cuda' is a kind of devmod-core" in output
    table = tomllib.loads((tmp_path / "out" / "devmod-acme" / "pyproject.toml").read_text())
    assert table["project"]["description"] == "The Acme target of devmod"
    assert table["project"]["authors"] == [{"name": "Acme Inc."}]
