"""Values of a pool, and calls in other threads, are consistent after an exception at any bytecode,
and after a fork.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from queue import SimpleQueue

import pytest
from interruptible import HANGS, interruptible_python, run_storm

from devmod_runtime import Pool, _uninterrupted, call_uninterrupted, has_uninterrupted_calls


class User:
    """A user of a pool's value."""

    token: object
    other: User | None = None


def user_of(pool: Pool) -> User:
    user = User()
    user.token = pool.lend(user, pool.take())
    return user


def test_a_value_is_free_again_when_its_user_is_collected() -> None:
    pool = Pool()
    pool.add(["a"])
    user: User | None = user_of(pool)
    with pytest.raises(IndexError):
        pool.take()
    user = None
    assert (user, pool.take()) == (None, "a")


def test_a_value_is_not_free_while_a_finalizer_uses_it_or_after_it_has_saved_it() -> None:
    pool, saved, seen = Pool(), [], []
    pool.add(["a"])

    class Finalized(User):
        def __del__(self) -> None:
            try:
                seen.append(pool.take())
            except IndexError:
                seen.append(None)
            saved.append(self.other)

    user: User | None = Finalized()
    assert user is not None
    user.other = user_of(pool)
    user.other.other = (
        user  # a cycle: the collector calls the weak reference's callback before the finalizer
    )
    user = None
    gc.collect()
    assert seen == [None]
    with pytest.raises(IndexError):
        pool.take()
    saved.clear()
    gc.collect()
    assert pool.take() == "a"


UNINTERRUPTED = """
import time
from devmod_runtime import call_uninterrupted, has_uninterrupted_calls
begun, done = [], []

def work(number):
    begun.append(number)
    time.sleep(2e-4)
    done.append(number)
    return number

def ask():
    assert call_uninterrupted(work, 7) == 7

storm(ask, int(sys.argv[1]), 300)
signal.setitimer(signal.ITIMER_REAL, 0)
while has_uninterrupted_calls(): time.sleep(0.01)
assert len(done) == len(begun) > 0
assert call_uninterrupted(threading.get_ident) != threading.get_ident()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals that come at a set time are POSIX's")
@pytest.mark.row("R32")
@pytest.mark.parametrize("seed", range(2))
def test_an_interrupt_of_a_call_in_another_thread_ends_only_the_wait(seed: int) -> None:
    assert run_storm(UNINTERRUPTED, seed) == ""


def test_calls_in_other_threads_do_not_wait_for_each_other() -> None:
    """Each call waits for the others. An exception is raised in the calling thread."""
    barrier = threading.Barrier(5)
    results: list[object] = []
    threads = [
        threading.Thread(target=lambda: results.append(call_uninterrupted(barrier.wait, HANGS)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    barrier.wait(HANGS)
    for thread in threads:
        thread.join()
    assert len(results) == 4
    with pytest.raises(ZeroDivisionError):
        call_uninterrupted(divmod, 1, 0)


def test_a_call_is_seen_while_a_thread_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """WebGPU submits in the calling thread if there is no such call: wgpu would then call back for
    a wait that has just begun.
    """
    seen = []

    class Busy(list[bool]):
        def append(self, value: bool) -> None:
            seen.append(has_uninterrupted_calls())  # the thread is awake, and not known to be busy
            super().append(value)

    monkeypatch.setattr(_uninterrupted, "_busy", Busy())
    call_uninterrupted(int)
    assert seen[0]


UNSEEN = """
import signal, threading, time
from devmod_runtime import call_uninterrupted
done = threading.Event()

def interrupt():
    time.sleep(0.1)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    call_uninterrupted(done.wait, 60)
except KeyboardInterrupt:
    print("interrupted", done.is_set(), flush=True)
done.set()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no signals of a thread here")
@pytest.mark.row("R37")
def test_a_signal_that_wakes_no_wait_ends_it() -> None:
    """As one that comes just before the wait: here another thread gets it."""
    done = subprocess.run(
        interruptible_python("-c", UNSEEN), capture_output=True, text=True, check=False, timeout=50
    )
    assert (done.stdout, done.stderr) == ("interrupted False\n", "")


AT_THE_END = """
import atexit
from devmod_runtime import call_uninterrupted, has_uninterrupted_calls
@atexit.register
def end():
    print([call_uninterrupted(divmod, number, 3) for number in (7, 8, 9)], has_uninterrupted_calls())
"""


def test_calls_while_python_ends() -> None:
    """Python 3.12 starts no thread then."""
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("[(2, 1), (2, 2), (3, 0)] False\n", "")


def test_a_call_where_python_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    # No thread that waits is woken.
    monkeypatch.setattr(_uninterrupted, "_idle", [])
    monkeypatch.setattr(_uninterrupted, "_wakes", SimpleQueue())
    monkeypatch.setattr(_uninterrupted, "start_new_thread", refuse)
    assert call_uninterrupted(threading.get_ident) == threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        call_uninterrupted(divmod, 1, 0)
    assert not has_uninterrupted_calls()


UNINTERRUPTED_FORK = """
import os
from devmod_runtime import call_uninterrupted
call_uninterrupted(int)
child = os.fork()
if not child:
    print(call_uninterrupted(max, 1, 2), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(call_uninterrupted(max, 1, 3))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_child_starts_threads_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", UNINTERRUPTED_FORK],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert (done.stdout, done.stderr) == ("2\n3\n", "")


LEFT = """
import ctypes, os, signal, sys, threading, time
from devmod_runtime import call_uninterrupted

c = ctypes.CDLL(None)
c.__cxa_atexit(c.abort, None, None)  # an exit handler of a C library
begun, end = threading.Event(), threading.Event()

def work():
    begun.set()
    end.wait()
    time.sleep(0.1)
    print("complete", flush=True)

def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    call_uninterrupted(work)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
ENDS = {
    "meanwhile": ("end.set(); sys.exit(3)", -6, ["interrupted", "complete"]),
    "never": ("sys.exit(3)", 3, ["interrupted"]),
    "never, after KeyboardInterrupt": ("signal.raise_signal(2)", -2, ["interrupted"]),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the exit handlers are those of glibc")
@pytest.mark.parametrize("end", ENDS)
def test_python_ends_with_its_code_whether_an_interrupted_call_ends_or_not(end: str) -> None:
    """Only where it does not, the exit handlers of C libraries are left out: they may crash."""
    text, code, lines = ENDS[end]
    done = subprocess.run(
        interruptible_python("-c", LEFT + text),
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )
    assert (done.returncode, done.stdout.splitlines()) == (code, lines), done.stderr
