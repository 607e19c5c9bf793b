"""Saving processes that are killed at random moments: every file is the old one or the new one, complete.

DEVMOD_TEST_KILLS is the number of kills of each test; docs/reliability.md has the numbers of the last runs.
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
KILLS = int(os.environ.get("DEVMOD_TEST_KILLS", "25"))


@pytest.mark.parametrize("act", ["save", "write_to_file", "cache"])
def test_a_process_killed_during_a_save(act: str, tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "killed_saves.py"), act, str(tmp_path), str(KILLS), str(random.randrange(1 << 32))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + KILLS)
    assert (done.returncode, done.stderr) == (0, ""), f"{command}\n{done.stderr}"
    assert int(done.stdout) > KILLS // 10, f"only {done.stdout} of {KILLS} kills came in the middle of a save"


SAVES = """
import sys
import devmod
path, number = sys.argv[1], int(sys.argv[2])
module = devmod.create_with_fallback("cuda", bytes([number]) * (1 << 20), "cubin", {})
print(flush=True)
for _ in range(int(sys.argv[3])):
    devmod.save(module, path)
"""


def test_simultaneous_saves_to_one_name_of_which_some_are_killed(tmp_path: Path) -> None:
    """No save removes the temporary file of another one as stale. No temporary file is left."""
    path = tmp_path / "k.devmod"

    def start(number: int, times: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SAVES, str(path), str(number), str(times)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    sound = [start(number, 30) for number in range(3)]
    for number in range(3, 9):
        victim = start(number, 1 << 30)
        assert victim.stdout is not None
        victim.stdout.readline()
        time.sleep(random.uniform(0, 0.05))
        victim.kill()
        victim.communicate()
        assert victim.returncode == -signal.SIGKILL
    for child in sound:
        assert (child.communicate(timeout=120)[1], child.returncode) == ("", 0)
    module = devmod.load(path)
    module.verify()
    devmod.save(module, path)
    assert os.listdir(tmp_path) == ["k.devmod"]


INTERRUPTED = """
import gc, os, random, signal, sys, time
import devmod
path, count = sys.argv[1], int(sys.argv[2])
one, other = (devmod.create_with_fallback("cuda", bytes([number]) * (1 << 18), "cubin", {}) for number in (1, 2))
armed = False
def interrupt(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
whole = {one.save_to_bytes(), other.save_to_bytes()}
devmod.save(one, path)
began = time.perf_counter()
devmod.save(one, path)
once = time.perf_counter() - began
folder = os.path.dirname(path)
hits = 0
for number in range(count):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, once))
        devmod.save(other if number % 2 else one, path)
        armed = False
    except KeyboardInterrupt:
        hits += 1
    armed = False
    assert devmod.load(path).save_to_bytes() in whole
    devmod.save(one, path)
    assert os.listdir(folder) == ["k.devmod"], os.listdir(folder)
gc.collect()  # the loaded modules are mapped until then
open_files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
assert open_files < 20, open_files
print(hits)
"""


def test_saves_interrupted_by_ctrl_c(tmp_path: Path) -> None:
    """The exception may come at any instruction. The file is the old or the new one, and the next save leaves no other file."""
    count = KILLS * 8
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "k.devmod"), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + KILLS)
    # Python prints and drops an exception in a callback of its import system.
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > count // 10


INTERRUPTED_CACHE = """
import gc, os, random, signal, sys
from devmod.backend import DiskCache
armed = False
def interrupt(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
cache = DiskCache("npu")
key, data = cache.key("source"), bytes(20000)
cache.write(key, data)
cache.read(key)
before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
hits = 0
for _ in range(int(sys.argv[1])):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 4e-4))
        cache.write(key, data)
        found = cache.read(key)
        armed = False
        assert found == data
    except KeyboardInterrupt:
        hits += 1
    armed = False
gc.collect()
assert not before or len(os.listdir("/proc/self/fd")) == before
assert len(os.listdir(os.path.dirname(cache.path(key)))) == 1
print(hits)
"""


def test_a_cache_interrupted_by_ctrl_c(tmp_path: Path) -> None:
    """The entry is complete, no temporary file is left, and no file is open."""
    count = KILLS * 80
    command = [sys.executable, "-c", INTERRUPTED_CACHE, str(count)]
    env = {**os.environ, "DEVMOD_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + KILLS, env=env)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > count // 10
