"""A killed process ends the compilers that it runs, and the next compile removes their folders."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from build_project import is_running, wait_for

from devmod.backend import find_program

SHADER = "[numthreads(1, 1, 1)] void main() {}\n"
#: A program that starts another one, as nvcc, g++ and zig do, and never ends.
HANGING = """#!/bin/sh
case "$*" in *{argument}*) ;; *) exec {program} "$@" ;; esac
sleep 1000 &
echo $$ $! > {folder}/new
mv {folder}/new {folder}/pids
wait
"""

#: In a program: a thread that forks while a compiler runs. The fork remains until the standard
#: input ends.
FORKING = """
import os, sys, threading, time
def fork():
    while not os.path.exists(sys.argv[1] + "/pids"):
        time.sleep(0.01)
    if os.fork() == 0: sys.stdin.read(); os._exit(0)
    open(sys.argv[1] + "/forked", "w").close()
threading.Thread(target=fork, daemon=True).start()
"""

pytestmark = pytest.mark.skipif(
    not os.path.isdir("/proc"), reason="the state of other processes is read from /proc"
)


@pytest.mark.parametrize(
    ("end", "forks"),
    [(signal.SIGTERM, False), (signal.SIGKILL, False), (signal.SIGKILL, True)],
    ids=["SIGTERM", "SIGKILL", "a fork that stays"],
)
@pytest.mark.parametrize(
    ("name", "argument", "call"),
    [
        ("glslangValidator", "source.hlsl", f"({SHADER!r}, 'vulkan', language='HLSL')"),
        ("naga", "source.wgsl", "('@compute @workgroup_size(1) fn k() {}', 'webgpu')"),
    ],
)
def test_the_compilers_of_a_killed_process_end(
    end: signal.Signals, forks: bool, name: str, argument: str, call: str, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / name
    program.parent.mkdir()
    program.write_text(
        HANGING.format(argument=argument, program=shutil.which("true"), folder=tmp_path)
    )
    program.chmod(0o755)
    _kill(f"{FORKING if forks else ''}devmod.compile{call}", end, tmp_path)


@pytest.mark.once
@pytest.mark.skipif(
    sys.platform != "linux" or not find_program("g++"), reason="nvcc needs Linux and g++"
)
def test_nvcc_of_a_killed_process_ends(tmp_path: Path) -> None:
    """The real nvcc, whose first command is g++."""
    pytest.importorskip("nvidia.cu13", reason="the wheel nvidia-cuda-nvcc is not installed")
    program = tmp_path / "bin" / "g++"
    program.parent.mkdir()
    program.write_text(
        HANGING.format(argument="program.cu", program=find_program("g++"), folder=tmp_path)
    )
    program.chmod(0o755)
    _kill(
        "devmod.compile('__global__ void k() {}', 'cuda -arch=sm_90 -compiler=nvcc')",
        signal.SIGKILL,
        tmp_path,
    )


def _kill(call: str, end: signal.Signals, folder: Path) -> None:
    """Kill a process in a compile by a program that hangs; then compile in another process with the
    same temporary folder.
    """
    temporary = folder / "tmp"
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary), "DEVMOD_CACHE_DIR": str(folder / "cache")}
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    command = [sys.executable, "-W", "ignore", "-c", f"import devmod; {call}", folder]
    with subprocess.Popen(
        command, env=environment | {"PATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        wait_for((folder / ("forked" if FORKING in call else "pids")).exists)
        process.send_signal(end)
        pids = [int(pid) for pid in (folder / "pids").read_text().split()]
        wait_for(lambda: not any(map(is_running, pids)))
        process.communicate()  # a fork ends, and its lock of the folder with it
    assert process.returncode == -end
    assert len(list(temporary.iterdir())) == 1
    program = "from devmod.backend import temporary_folder\nwith temporary_folder(): pass"
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert list(temporary.iterdir()) == []
