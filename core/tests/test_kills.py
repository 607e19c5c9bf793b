"""Saving processes that are killed at random moments: every file is the old one or the new one,
complete.

DEVMOD_TEST_KILLS is the number of kills of each test; docs/reliability.md has the numbers of the
last runs. DEVMOD_TEST_SEED repeats the random moments of a run, as far as a machine repeats them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import devmod

HERE = Path(__file__).parent
KILLS = int(os.environ.get("DEVMOD_TEST_KILLS", "6"))
#: Seconds after which a process hangs.
HANGS = 600 + 10 * KILLS


@pytest.fixture
def seed() -> int:
    """Return the seed of the random moments. pytest prints it where the test fails."""
    seed = int(os.environ.get("DEVMOD_TEST_SEED") or random.randrange(1 << 32))
    print(f"DEVMOD_TEST_SEED={seed}")
    return seed


def check(command: list[str], env: dict[str, str] | None = None) -> str:
    """Run a command that must succeed, and return its standard error."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, env=env)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("act", ["save", "write_to_file", "cache"])
def test_a_process_killed_during_a_save(act: str, tmp_path: Path, seed: int) -> None:
    assert (
        check(
            [
                sys.executable,
                str(HERE / "killed_saves.py"),
                act,
                str(tmp_path),
                str(KILLS),
                str(seed),
            ]
        )
        == ""
    )


SAVES = """
import sys
import devmod
path, number = sys.argv[1], int(sys.argv[2])
module = devmod.create_with_fallback("cuda", bytes([number]) * (1 << 20), "cubin", {})
print(flush=True)
for _ in range(int(sys.argv[3])):
    devmod.save(module, path)
"""


def test_simultaneous_saves_to_one_name_of_which_some_are_killed(tmp_path: Path, seed: int) -> None:
    """No save removes the temporary file of another one as stale. No temporary file is left."""
    path, chance = tmp_path / "k.devmod", random.Random(seed)

    def start(number: int, times: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SAVES, str(path), str(number), str(times)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    sound = [start(number, 15) for number in range(3)]
    for number in range(3, 9):
        victim = start(number, 1 << 30)
        assert victim.stdout is not None
        victim.stdout.readline()
        time.sleep(chance.uniform(0, 0.05))
        victim.kill()
        victim.communicate()
        assert victim.returncode == -signal.SIGKILL
    for child in sound:
        assert (child.communicate(timeout=HANGS)[1], child.returncode) == ("", 0)
    module = devmod.load(path)
    module.verify()
    devmod.save(module, path)
    assert os.listdir(tmp_path) == ["k.devmod"]


#: Code that raises KeyboardInterrupt at random instructions of `body`. The body runs again until
#: the interrupt comes, so each one lands.
INTERRUPT = """
import gc, os, random, signal, sys
import devmod
from devmod.backend import DiskCache
random.seed(int(sys.argv[1]))
armed = False
def interrupt(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
def repeat(body):  # a function: Python 3.13 has the end of a loop outside of the try around it
    while armed:
        body()
def interrupted(body, longest):
    global armed
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, longest))
        repeat(body)
    except KeyboardInterrupt:
        pass
def open_files():
    gc.collect()  # the loaded modules are mapped until then
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
"""

SAVE = """
path = sys.argv[3]
one, other = (devmod.create_with_fallback("cuda", bytes([number]) * (1 << 18), "cubin", {}) for number in (1, 2))
whole = {one.save_to_bytes(), other.save_to_bytes()}
devmod.save(one, path)
for number in range(int(sys.argv[2])):
    interrupted(lambda: devmod.save(other if number % 2 else one, path), 3e-3)
    assert devmod.load(path).save_to_bytes() in whole
    devmod.save(one, path)
    assert os.listdir(os.path.dirname(path)) == ["k.devmod"], os.listdir(os.path.dirname(path))
assert open_files() < 20, open_files()
"""


def test_saves_interrupted_by_ctrl_c(tmp_path: Path, seed: int) -> None:
    """The exception may come at any instruction. The file is the old or the new one, and the next
    save leaves no other file.
    """
    # The standard error is not compared: Python prints and drops an exception in a callback of its
    # import system.
    check(
        [
            sys.executable,
            "-c",
            INTERRUPT + SAVE,
            str(seed),
            str(KILLS * 8),
            str(tmp_path / "k.devmod"),
        ]
    )


CACHE = """
cache = DiskCache("npu")
key, data = cache.key("source"), bytes(20000)
def body():
    cache.write(key, data)
    found = cache.read(key)
    assert found == data
body()
before = open_files()
for _ in range(int(sys.argv[2])):
    interrupted(body, 4e-4)
assert open_files() == before
assert len(os.listdir(os.path.dirname(cache.path(key)))) == 1
"""


def test_a_cache_interrupted_by_ctrl_c(tmp_path: Path, seed: int) -> None:
    """The entry is complete, no temporary file is left, and no file is open."""
    check(
        [sys.executable, "-c", INTERRUPT + CACHE, str(seed), str(KILLS * 80)],
        {**os.environ, "DEVMOD_CACHE_DIR": str(tmp_path)},
    )
