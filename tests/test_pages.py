"""The pages that a reader follows from the top to the bottom do what they show."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from alone import hide
from pages import blocks, commands, same

from devmod._plugins import discovery, registry
from devmod_workbench._cli import main

#: The first page of devmod-simulators.
SIMULATORS = "../extras/simulators/README.md"
DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = (
    "getting-started.md",
    "calling.md",
    "arrays-and-devices.md",
    "build-in-ci.md",
    "bundles.md",
    "cuda.md",
    pytest.param("cuda-without-a-gpu.md", marks=pytest.mark.simulators),
    "errors.md",
    "find-out-what-is-wrong.md",
    "hexagon.md",
    "images.md",
    "manifest.md",
    "porting.md",
    "profiling.md",
    "programs.md",
    "remote.md",
    "rocm.md",
    "trust.md",
    "tune.md",
    pytest.param(SIMULATORS, marks=pytest.mark.simulators),
)
#: Blocks without a mark: what installs devmod, needs files that the page does not make, or another
#: compiler.
NOT_RUN = {
    "getting-started.md": 1,
    "build-in-ci.md": 0,
    "bundles.md": 0,
    "calling.md": 1,
    "arrays-and-devices.md": 0,
    "cuda.md": 3,
    "cuda-without-a-gpu.md": 2,
    "errors.md": 0,
    "find-out-what-is-wrong.md": 0,
    "hexagon.md": 0,
    "images.md": 0,
    "manifest.md": 4,
    "porting.md": 0,
    "profiling.md": 0,
    "programs.md": 1,
    "remote.md": 6,
    "rocm.md": 1,
    "trust.md": 0,
    "tune.md": 0,
    SIMULATORS: 3,
}
#: The page shows what happens where this distribution is missing, so the test hides it if it is
#: installed.
MISSING = {"bundles.md": "devmod-cuda"}


def run_command(words: list[str], folder: Path, status: int = 0) -> str:
    if words[0] == "devmod" and not {"profile", "simulate", "--sanitize"} & {*words}:
        return run_in_process(words[1:], status)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PYTHONUTF8": "1", "COLUMNS": "160", "PATH": path}
    while "=" in words[0]:
        name, _, env[name] = words[0].partition("=")
        words = words[1:]
    assert words[0] in ("devmod", "python"), f"{shlex.join(words)}: the test runs no such command"
    command = ["-m", *words] if words[0] == "devmod" else words[1:]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == status, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + (done.stderr if status else "")


def run_in_process(words: list[str], status: int) -> str:
    """Return what a command prints, here in the current folder: a process of its own takes longer
    than most commands.
    """
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(out if status else err))
        stack.enter_context(mock.patch.dict(os.environ, COLUMNS="160"))
        # As in a frozen program, these launch in this process too.
        if words[0] in ("bench", "run", "verify"):
            stack.enter_context(mock.patch.object(sys, "frozen", True, create=True))
        found = main(words)
    printed, errors = (stream.buffer.getvalue().decode() for stream in (out, err))
    assert found == status, f"{shlex.join(words)}\n{printed}\n{errors}"
    return printed


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_do_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "readers").symlink_to(DOCS.parent / "readers")  # vectors of the tests
    monkeypatch.chdir(tmp_path)
    if page in MISSING:
        monkeypatch.setattr(registry, "_cache", {})  # other tests of this process have filled it
        monkeypatch.setattr(
            discovery, "_scan_all", discovery._scan_all
        )  # the end of the test restores it
        hide(MISSING[page])
    names: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for mark, name, text in blocks((DOCS / page).read_text()):
        if mark == "file":
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        elif mark == "with" and find_spec(name) is None:
            continue
        elif mark in ("run", "with"):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, page, "exec"), names)
            printed = out.getvalue()
        elif mark == "prints":
            assert same(text, printed), f"the page has\n{text}\nand the block prints\n{printed}"
        else:
            for words, expected in commands(text):
                got = run_command(words, tmp_path, int(name or 0))
                assert same(expected, got), (
                    f"$ {shlex.join(words)}\nthe page has\n{expected}\nand the command prints\n{got}"
                )


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_code_is_run(page: str) -> None:
    text = (DOCS / page).read_text()
    fences = re.findall(r"^```(python|c|wgsl|hlsl|toml|console)$", text, re.MULTILINE)
    assert (
        len(fences)
        == len([mark for mark, _, _ in blocks(text) if mark != "prints"]) + NOT_RUN[page]
    )
