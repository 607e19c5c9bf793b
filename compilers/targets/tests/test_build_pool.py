"""Worker processes: a killed one loses only its job, and the build's own end ends all of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from build_project import (
    KERNEL,
    die,
    die_once,
    is_running,
    jobs_in,
    leave_program,
    note,
    note_and_compile,
    print_and_read,
    run_count,
    wait_for,
    write_kernels,
)

import devmod
from devmod_targets.build.pool import Pool
from devmod_targets.build.result import Outcome
from devmod_targets.compilation import compile_source

PROGRAM = """
import sys
from build_project import jobs_in, note
from pathlib import Path
from devmod_targets.build.pool import Pool
with Pool(1, note) as pool:
    print([outcome.data for _, outcome in pool.run(jobs_in(Path(sys.argv[1]), 2))])
"""


@pytest.fixture(autouse=True)
def in_process() -> None:
    """Here builds have workers."""


def test_each_job_runs_once_and_its_outcome_has_its_number(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, 7)
    with Pool(2, note) as pool:
        assert dict(pool.run(jobs)) == dict.fromkeys(range(7), Outcome(b"done"))
    assert [run_count(job) for job in jobs] == [1] * 7
    assert len({path.read_text() for path in tmp_path.glob("*.run")}) == 2
    assert str(os.getpid()) not in {path.read_text() for path in tmp_path.glob("*.run")}


def test_a_killed_worker_loses_only_its_job(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, 6)
    with Pool(2, die_once) as pool:
        assert dict(pool.run(jobs)) == dict.fromkeys(range(6), Outcome(b"done"))
    assert [run_count(job) for job in jobs] == [1, 2, 1, 1, 1, 1]


def test_a_job_that_kills_each_worker_fails_and_the_others_are_built(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, 3)
    with Pool(1, die) as pool:
        outcomes = dict(pool.run(jobs))
    assert [run_count(job) for job in jobs] == [1, 3, 1]
    assert [outcomes[number].data for number in range(3)] == [b"done", b"", b"done"]
    assert outcomes[1].error == "WorkerError"
    assert outcomes[1].message == (
        "the worker process ended 3 times while it compiled k1.cl for opencl: the compiler crashed, or the machine has too little memory. "
        "Try fewer processes (-j 1), or compile the source alone with devmod compile"
    )


@pytest.mark.skipif(
    not os.path.isdir("/proc"), reason="the state of other processes is read from /proc"
)
def test_the_compiler_of_a_killed_worker_ends(tmp_path: Path) -> None:
    with Pool(1, leave_program) as pool:
        assert dict(pool.run(jobs_in(tmp_path, 1))) == {0: Outcome(b"done")}
        wait_for(lambda: not is_running(int((tmp_path / "pid").read_text())))


def test_a_frozen_program_compiles_in_its_own_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with Pool(2, note) as pool:
        assert dict(pool.run(jobs_in(tmp_path, 2))) == dict.fromkeys(range(2), Outcome(b"done"))
    assert {path.read_text() for path in tmp_path.glob("*.run")} == {str(os.getpid())}


def test_standard_output_and_input_belong_to_the_build(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Pool(1, print_and_read) as pool:
        assert dict(pool.run(jobs_in(tmp_path, 1))) == {0: Outcome(b"done")}
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "noise of a compiler\n")


def test_a_program_without_a_main_guard_starts_workers(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, program, tmp_path],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[b'done', b'done']\n", "")


@pytest.mark.skipif(
    not os.path.isdir("/proc"), reason="the state of other processes is read from /proc"
)
@pytest.mark.parametrize("forks", [False, True], ids=["no fork", "a fork"])
def test_workers_end_with_a_build_that_is_killed(forks: bool, tmp_path: Path) -> None:
    """Also the programs that they run, and their temporary files; and where a fork of the build
    remains.
    """
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys, threading\nfrom pathlib import Path\nfrom build_project import jobs_in, wait_for\n"
        "from devmod_targets.build.pool import Pool\nfrom hanging import hang\n"
        "def fork():\n"
        "    wait_for(Path(sys.argv[1], 'pids').exists)\n"
        "    if os.fork() == 0: os._exit(len(sys.stdin.read()))\n"
        "    Path(sys.argv[1], 'forked').touch()\n"
        f"if {forks}: threading.Thread(target=fork, daemon=True).start()\n"
        "with Pool(1, hang) as pool:\n    list(pool.run(jobs_in(Path(sys.argv[1]), 1)))\n"
    )
    (tmp_path / "hanging.py").write_text(
        "import os, subprocess, tempfile\nfrom pathlib import Path\n"
        "def hang(job):\n"
        "    sleeper = subprocess.Popen(['sleep', '1000'])\n"
        "    Path(job.folder, 'new').write_text(f'{os.getpid()} {sleeper.pid}')\n"
        "    os.rename(Path(job.folder, 'new'), Path(job.folder, 'pids'))\n"
        "    Path(tempfile.gettempdir(), 'left').touch()\n"
        "    sleeper.wait()\n"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
        "TMPDIR": str(temporary),
    }
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", program, tmp_path], env=environment, stdin=subprocess.PIPE
    ) as process:
        wait_for((tmp_path / ("forked" if forks else "pids")).exists)
        process.kill()
        pids = [int(text) for text in (tmp_path / "pids").read_text().split()]
        wait_for(lambda: not any(is_running(pid) for pid in pids))
        wait_for(lambda: not list(temporary.iterdir()))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows ends a process in another way")
def test_a_build_that_is_killed_before_it_has_a_worker_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import os, signal\nfrom build_project import note\nfrom devmod_targets.build.pool import Pool\n"
        "with Pool(1, note):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


SHADER = "#version 450\nlayout(local_size_x = 1) in;\nlayout(set = 0, binding = 0) buffer X {{ float x[]; }};\nvoid main() {{ x[0] = {0}; }}\n"


@pytest.mark.skipif(
    not shutil.which("glslangValidator") or not shutil.which("spirv-opt"),
    reason="glslang or spirv-opt is not installed",
)
def test_one_compile_by_programs_alone_needs_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library in the process of a compile may crash it, so such a compile has a worker. Without
    sources in the file nothing lists them.
    """
    for name in ("glslangValidator", "spirv-dis"):
        script = tmp_path / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] || echo $PPID >> {tmp_path}/{name}\nexec {shutil.which(name) or "true"} "$@"\n'
        )
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))

    def parents(program: str) -> list[str]:
        path = tmp_path / program
        lines = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    folder = tmp_path / "p"
    write_kernels(folder, 2)
    for number in range(2):
        (folder / f"k{number}.comp").write_text(SHADER.format(number))
    manifest = folder / "devmod.toml"
    manifest.write_text(
        manifest.read_text()
        .replace('["opencl"]', '["opencl", "vulkan"]')
        .replace('.cl"', '.cl", "k#.comp"')
    )
    manifest.write_text(manifest.read_text().replace("k#", "k0", 1).replace("k#", "k1", 1))
    manifest.write_text(
        manifest.read_text() + '[target.vulkan]\noptions = ["--compiler=glslangValidator"]\n'
    )
    devmod.build(manifest).raise_for_failures()
    assert str(os.getpid()) not in parents("glslangValidator")
    (folder / "k0.comp").write_text(SHADER.format(7))
    assert [each.status for each in devmod.build(manifest).results] == [
        "cached",
        "compiled",
        "cached",
        "cached",
    ]
    assert parents("glslangValidator") == [str(os.getpid())]
    one = (folder / "k.devmod").read_bytes()
    assert parents("spirv-dis") == []
    assert devmod.build(manifest, cache=False).failures == ()
    assert (folder / "k.devmod").read_bytes() == one

    monkeypatch.setattr("devmod_targets.build.jobs.attempt", note_and_compile)
    (folder / "k1.cl").write_text(KERNEL.format(name="k1", factor=7))
    assert [each.status for each in devmod.build(manifest).results] == [
        "cached",
        "cached",
        "compiled",
        "cached",
    ]
    assert len(runs := [path.read_text() for path in folder.glob("*.run")]) == 1
    assert runs != [str(os.getpid())]


@pytest.mark.skipif(
    not shutil.which("glslangValidator") or not shutil.which("spirv-opt"),
    reason="glslang or spirv-opt is not installed",
)
def test_the_warnings_of_other_threads_are_not_those_of_a_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_and_warn(*args: Any, **keywords: Any) -> Any:
        thread = Thread(target=warnings.warn, args=("of another thread",))
        thread.start()
        thread.join()
        warnings.warn("of the compiler", stacklevel=1)
        return compile_source(*args, **keywords)

    monkeypatch.setattr("devmod_targets.build.jobs.compile_source", compile_and_warn)
    (tmp_path / "k.comp").write_text(SHADER.format(1))
    (tmp_path / "devmod.toml").write_text(
        'targets = ["vulkan"]\n[kernels.k]\nsources = ["k.comp"]\n'
    )
    with pytest.warns(UserWarning, match="of another thread"):
        (result,) = devmod.build(tmp_path, cache=False).results
    assert result.warnings == ("of the compiler",)


def test_a_message_of_one_long_name_is_searched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search from each letter of the name does not end within the time of a test."""

    def refuse(*args: Any, **keywords: Any) -> Any:
        raise devmod.CompileError("no", kind="vulkan", log=f"a.h:2: {'a.' * 200_000}\nb.h:3: no")

    monkeypatch.setattr("devmod_targets.build.jobs.compile_source", refuse)
    (tmp_path / "k.comp").write_text(SHADER.format(1))
    (tmp_path / "devmod.toml").write_text(
        'targets = ["vulkan"]\n[kernels.k]\nsources = ["k.comp"]\n'
    )
    (failure,) = devmod.build(tmp_path, cache=False).failures
    assert (failure.file, failure.line) == ("a.h", 2)
