"""Values that threads share are consistent after an exception at any bytecode, and after a fork."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from distributions import install
from interruptible import HANGS, run_storm

from devmod.backend import Once

ONCE = """
from collections import Counter
from devmod.backend import Once
once, failures = Once(), []
makers = Counter()
key = [0]

def make(number):
    makers[number] += 1
    if makers[number] > 1: failures.append(f"{number} is made twice at once")
    try:
        for _ in range(20): len(makers)
        if number % 7 == 3 and random.random() < 0.5: raise ValueError("no")
        return number
    finally:
        makers[number] = 0

def ask():
    number = key[0]
    try: once.get(number, lambda: make(number))
    except ValueError: pass

done = False
def others():
    while not done:
        ask()
threads = [threading.Thread(target=others) for _ in range(3)]
for each in threads: each.start()

def body():
    key[0] += 1
    ask()

sys.setswitchinterval(1e-5)
storm(body, int(sys.argv[1]), int(sys.argv[2]))
done = True
for each in threads:
    each.join(300)
    if each.is_alive(): failures.append("a thread hangs")
for number in range(key[0] + 1):
    for _ in range(50):
        try: assert once.get(number, lambda: number) == number; break
        except ValueError: pass
held = [each for each in once._attempts.values() if not each.lock.acquire(blocking=False)]
print(failures, held)
"""


@pytest.mark.row("R32")
def test_a_value_is_made_once_in_spite_of_interrupts() -> None:
    assert run_storm(ONCE, 1, 1000) == "[] []\n"


@pytest.mark.row("R32")
def test_the_next_thread_makes_the_value_after_an_interrupt() -> None:
    once, begun, interrupted = Once(), threading.Event(), threading.Event()
    found: list[Any] = []

    def make() -> int:
        begun.set()
        interrupted.wait(HANGS)
        raise KeyboardInterrupt

    def first() -> None:
        with pytest.raises(KeyboardInterrupt):
            once.get("k", make)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert begun.wait(HANGS)
    threads += [
        threading.Thread(target=lambda: found.append(once.get("k", lambda: 7))) for _ in range(3)
    ]
    for each in threads[1:]:
        each.start()
    interrupted.set()
    for each in threads:
        each.join(HANGS)
    assert found == [7, 7, 7]


@pytest.mark.row("R32")
def test_a_value_that_needs_itself_is_an_error_each_time() -> None:
    once = Once()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"^making 'k' needs 'k' itself$"):
            once.get("k", lambda: once.get("k", lambda: 1))
    assert once.get("k", lambda: 2) == 2


IMPORTS_FOR_OTHERS = """
import _imp, faulthandler, threading
faulthandler.dump_traceback_later(int(sys.argv[1]), exit=True)
import devmod
from devmod.backend import Once, release_import_lock

# Another thread makes the value, and imports: this one waits for it.
once, begun, may_import = Once(), threading.Event(), threading.Event()
def make():
    begun.set()
    may_import.wait()
    import colorsys
    return "made"
threading.Thread(target=lambda: once.get("k", make)).start()
begun.wait()
_imp.acquire_lock()
may_import.set()
print(once.get("k", make))

# Another thread imports hashlib, and reads what this one saves.
module = devmod.create_with_fallback("cuda", bytes(4 << 20), "cubin", {})
assert "hashlib" not in sys.modules
_imp.acquire_lock()
_imp.acquire_lock()
devmod.save(module, sys.argv[2])
print(_imp.lock_held())

# A finder has the lock.
class Finder:
    def find_spec(name, *_):
        if name == "absent":
            print(release_import_lock(), _imp.lock_held())
sys.meta_path.insert(0, Finder)
try:
    import absent
except ImportError:
    print(_imp.lock_held())

# So has another thread.
held, end = threading.Event(), threading.Event()
def hold():
    _imp.acquire_lock()
    held.set()
    end.wait()
    _imp.release_lock()
threading.Thread(target=hold).start()
held.wait()
print(release_import_lock(), _imp.lock_held())
end.set()
"""


@pytest.mark.row("R37", "R61")
def test_a_thread_that_waits_for_another_one_lets_it_import(tmp_path: Path) -> None:
    """An interrupt may leave Python's import lock with the main thread, which can still import."""
    expected = "made\nFalse\nFalse True\nFalse\nTrue True\n"
    assert run_storm(IMPORTS_FOR_OTHERS, 60, tmp_path / "k.devmod") == expected


OPEN_FILES = """
import gc, os
def open_files():
    gc.collect()
    return len(os.listdir("/dev/fd"))
"""

READ_METADATA = """
from devmod import plugins
site = sys.argv[3]
sys.path.insert(0, site)

def body():
    os.utime(site)  # metadata that has just changed is read again
    assert "npu" in plugins.registered("devmod.create")

body()
before = open_files()
storm(body, int(sys.argv[1]), int(sys.argv[2]), longest=1e-3)
print(open_files() - before)
"""


@pytest.mark.row("R37")
@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="this system does not list the open files")
def test_an_interrupt_leaves_no_metadata_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found in the conformance kit: R37-interrupts counted one open file in about one of 100
    runs.
    """
    for number in range(40):
        install(tmp_path, f"other-{number}", groups={"other": {"x": "x:y"}})
    install(tmp_path, "devmod-npu", groups={"devmod.create": {"npu": "npu:create"}})
    monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", "devmod-npu")
    assert run_storm(OPEN_FILES + READ_METADATA, 1, 400, tmp_path) == "0\n"


LOAD = """
import devmod
path = sys.argv[3]
devmod.save(devmod.create_with_fallback("cuda", bytes(100), "cubin", {}), path)

devmod.load(path)
before = open_files()
storm(lambda: devmod.load(path), int(sys.argv[1]), int(sys.argv[2]))
print(open_files() - before)
"""


@pytest.mark.row("R37")
@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="this system does not list the open files")
def test_an_interrupted_load_leaves_no_file_open(tmp_path: Path) -> None:
    assert run_storm(OPEN_FILES + LOAD, 1, 1000, tmp_path / "k.devmod") == "0\n"


FORKED_FLIGHT = """
import os, warnings
from devmod.backend import Once
warnings.simplefilter("ignore")  # Python 3.12 warns about forks with threads
once, begun, end = Once(), threading.Event(), threading.Event()
def make():
    begun.set()
    end.wait()
    return "the parent's"
thread = threading.Thread(target=lambda: once.get("k", make))
thread.start()
begun.wait()
child = os.fork()
if not child:
    signal.alarm(300)
    def again(): return once.get("k", again)
    try: once.get("k", again)
    except RuntimeError as error: print(error)
    print(once.get("k", lambda: "the child's"), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
end.set()
thread.join()
print(once.get("k", None))
"""


@pytest.mark.row("R32")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_while_another_thread_makes_the_value() -> None:
    assert run_storm(FORKED_FLIGHT) == "making 'k' needs 'k' itself\nthe child's\nthe parent's\n"
