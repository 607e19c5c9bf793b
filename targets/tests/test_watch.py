"""`devmod build --watch`: a change of an input starts a build, and nothing else does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from build_project import InProcess, wait_for, write_kernels
from interruptible import interruptible_python

import devmod
from devmod._cli import main
from devmod_targets.build import plan_of, read_manifest
from devmod_targets.build.watch import watch_manifest

COMMAND = [sys.executable, "-m", "devmod", "build"]
BROKEN = "\nkernel void k1(global float *x) { x[0] = ; }\n"
INCLUDES = '#include "sizes.h"\nkernel void k0(global float *x) { x[0] = SIZE; }\n'
ANY_INCLUDE = "#define TEXT(x) #x\n#include TEXT(SIZES)\nkernel void k0(global float *x) { x[0] = SIZE; }\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is a project with two kernels. Its build writes a cache and a log into it."""
    monkeypatch.setattr("devmod_targets.build.pool.Pool", InProcess)
    write_kernels(tmp_path / "p", 2)
    monkeypatch.chdir(tmp_path / "p")
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "p" / "cache"))
    return tmp_path / "p"


class Watcher:
    """Watches folders as `watchfiles.watch` does, but looks only after a build. When there is no change, it makes the next edit."""

    def __init__(self, *edits: Callable[[], object]) -> None:
        self.edits = list(edits)
        self.watched: list[tuple[str, ...]] = []
        self.builds: list[int] = []
        """For each build, the number of the edits before it."""
        self._count = len(edits)

    def run(self) -> list[int]:
        watch_manifest(".", lambda: plan_of(read_manifest()), self.build, changes=self.changes)
        return self.builds

    def build(self) -> None:
        self.builds.append(self._count - len(self.edits))
        with open("build.log", "a") as log:
            log.write("a build\n")
        devmod.build().raise_for_failures()

    def changes(self, *folders: str, watch_filter: Callable[[object, str], bool], recursive: bool, **_: object) -> Iterator[set[object]]:
        self.watched.append(folders)
        before = _states(folders, recursive)
        yield set()
        while True:
            now = _states(folders, recursive)
            found = {(1, path) for path in {*before, *now} if before.get(path) != now.get(path) and watch_filter(1, path)}
            before = now
            if found:
                yield found
            elif self.edits:
                self.edits.pop(0)()
            else:
                return


def _states(folders: tuple[str, ...], recursive: bool) -> dict[str, tuple[int, ...]]:
    paths = [path for folder in folders for path in (Path(folder).rglob("*") if recursive else Path(folder).glob("*"))]
    states = {str(path): path.lstat() for path in paths if not path.is_dir()}
    return {path: (state.st_mtime_ns, state.st_ino, state.st_size) for path, state in states.items()} | dict.fromkeys(
        (str(path) for path in paths if path.is_dir()), ()
    )


def write(name: str, text: str = "") -> Callable[[], object]:
    def edit() -> None:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)

    return edit


def kernel(factor: int) -> str:
    return f"kernel void k0(global float *x) {{ x[0] *= {factor}; }}\n"


def test_a_change_of_a_source_starts_a_build_and_other_files_do_not() -> None:
    watcher = Watcher(
        write("README.md", "text"),
        write("k0.cl", kernel(5)),
        write("other.cl", "nothing"),
        write("k.devmod.d/x", ""),
        write("k1.cl", BROKEN),
    )
    assert watcher.run() == [0, 2, 5]


def test_the_output_the_cache_and_the_log_of_a_build_start_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_BUILD_CACHE", ".devmod-cache")
    assert Watcher().run() == [0]
    assert {"k.devmod", "build.log", ".devmod-cache"} <= {*os.listdir()}


def test_a_header_starts_a_build_also_one_that_hides_another(project: Path) -> None:
    write("k0.cl", INCLUDES)()
    write("common/sizes.h", "#define SIZE 1\n")()
    manifest = project / "devmod.toml"
    manifest.write_text(manifest.read_text().replace("[kernels.k0]", '[kernels.k0]\ninclude = ["common"]'))
    watcher = Watcher(
        write("common/sizes.h", "#define SIZE 2\n"),
        write("common/other.h", ""),
        write("sizes.h", "#define SIZE 3\n"),
        lambda: os.remove("sizes.h"),
    )
    assert watcher.run() == [0, 1, 3, 4]
    assert watcher.watched[0] == (str(project), str(project / "common"))
    assert "SIZE 2" in devmod.load("k.devmod").imports[0].inspect_source()


def test_a_header_in_a_folder_that_is_missing_at_first(project: Path) -> None:
    write("k0.cl", INCLUDES.replace("sizes.h", "deep/er/sizes.h"))()
    watcher = Watcher(write("deep/README", ""), write("deep/er/sizes.h", "#define SIZE 2\n"), write("deep/er/sizes.h", "#define SIZE 3\n"))
    builds = watcher.run()
    assert builds[-1] == 3
    assert "SIZE 3" in devmod.load("k.devmod").imports[0].inspect_source()


def test_where_a_macro_names_the_include_any_file_may_be_one(project: Path) -> None:
    """But not the files that the build and editors write."""
    write("k0.cl", ANY_INCLUDE)()
    write("sizes.h", "#define SIZE 1\n")()
    manifest = project / "devmod.toml"
    manifest.write_text(manifest.read_text().replace("[kernels.k0]", '[kernels.k0]\ndefines = { SIZES = "sizes.h" }'))
    watcher = Watcher(write("new.h"), write("k0.cl~"), write(".git/HEAD"), write("devmod-tmp-1234/devmod-tmp-5/source.c"))
    watcher.build = lambda: watcher.builds.append(len(watcher.edits))  # type: ignore[method-assign]
    devmod.build()
    assert watcher.run() == [4, 3]


def test_where_a_define_names_the_include_it_is_an_input(project: Path) -> None:
    write("k0.cl", "#include SIZES\nkernel void k0(global float *x) { x[0] = 1; }\n")()
    manifest = project / "devmod.toml"
    manifest.write_text(manifest.read_text().replace("[kernels.k0]", "[kernels.k0]\ndefines = { SIZES = '\"sizes.h\"' }"))
    watcher = Watcher(write("new.h"), write("sizes.h", "#define SIZE 1\n"))
    watcher.build = lambda: watcher.builds.append(len(watcher.edits))  # type: ignore[method-assign]
    assert watcher.run() == [2, 0]


def test_a_new_folder_of_the_manifest_is_watched_and_what_changed_meanwhile_is_built(project: Path) -> None:
    write("include/sizes.h", "#define SIZE 1\n")()
    text = (project / "devmod.toml").read_text()
    watcher = Watcher(
        write("k0.cl", INCLUDES), write("devmod.toml", 'include = ["include"]\n' + text), write("include/sizes.h", "#define SIZE 2\n")
    )
    builds = watcher.run()
    assert builds == [0, 1, 2, 2, 3]
    assert watcher.watched == [(str(project),), (str(project), str(project / "include"))]


def test_a_manifest_with_mistakes_waits_for_their_mend(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Any file of the project may be the missing source, and a log that the build writes is none."""
    text = (project / "devmod.toml").read_text()
    watcher = Watcher(
        write("devmod.toml", text.replace('"k0.cl"', '"sub/k0.cl"')),
        write("notes.txt"),
        write("build.log", "x"),
        write("sub/k0.cl", kernel(3)),
    )
    assert watcher.run() == [0, 1, 1, 4, 4]
    assert "devmod.toml:4: kernels.k0.sources[0]: 'sub/k0.cl' does not exist" in capfd.readouterr().err


def test_constants_are_inputs(project: Path) -> None:
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    np.save("w.npy", np.zeros(4))
    with (project / "devmod.toml").open("a") as file:
        file.write('[constants]\nfiles = ["w.npy"]\n')
    assert Watcher(lambda: np.save("w.npy", np.ones(4))).run() == [0, 1]


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a session")
@pytest.mark.parametrize("source", ["k0", ANY_INCLUDE.replace("SIZES", "INCLUDED")])
def test_watch_builds_again_after_a_change(project: Path, source: str) -> None:
    pytest.importorskip("watchfiles", reason="watchfiles is not installed")
    if source != "k0":  # any file may be an include, and the output of the build is in the folder
        write("k0.cl", source)()
        write("sizes.h", "#define SIZE 1\n")()
        write("devmod.toml", "defines = { INCLUDED = '\"sizes.h\"' }\n" + Path("devmod.toml").read_text())()
    log = project / "output"
    with log.open("w") as output:
        process = subprocess.Popen(interruptible_python(*COMMAND[1:], "--watch"), stderr=output, stdout=output, start_new_session=True)

    def read_until(count: int) -> str:
        wait_for(lambda: log.read_text().count("Waiting") >= count or process.poll() is not None)
        return log.read_text()

    try:
        read_until(1)
        (project / "k1.cl").write_text(BROKEN)
        text = read_until(2)
        assert "Changed: k1.cl\n" in text
        assert "expected expression" in text
        manifest = (project / "devmod.toml").read_text()
        (project / "devmod.toml").write_text("output = [\n")
        assert "devmod: error: " in read_until(3)
        write_kernels(project, 2)
        (project / "devmod.toml").write_text(manifest)
        read_until(4)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
    assert process.returncode == 130
    assert "output" not in [name for line in log.read_text().splitlines() if line.startswith("Changed: ") for name in line.split()]


def test_watch_without_watchfiles_names_the_command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("devmod_targets.build.watch.import_module", refuse)
    assert main(["build", "--watch"]) == 1
    assert capfd.readouterr().err == (
        'devmod: error: --watch cannot be used: watchfiles is not installed. To add it: pip install "devmod-targets[build-watch]"\n'
    )
