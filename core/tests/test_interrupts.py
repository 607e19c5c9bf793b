"""Objects that threads share are consistent after an exception at any bytecode, and after a fork."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from devmod.backend import Once
from devmod_runtime import Pool, call_uninterrupted

#: Seconds after which a process or a thread hangs.
HANGS = 600

#: Code that raises KeyboardInterrupt at random points: `storm` sends this process signals while `body` runs repeatedly. Each one lands.
STORM = """
import random, signal, sys, threading

def storm(body, seed, interrupts, shortest=2e-6, longest=3e-4):
    chosen = random.Random(seed)
    landed = [0]
    armed = [False]
    def interrupt(*_):
        if armed[0]:
            armed[0] = False
            landed[0] += 1
            raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, interrupt)
    sys.unraisablehook = lambda _: None  # an interrupt in a finalizer is lost
    def repeat():  # a function: Python 3.13 has the end of a loop outside of the try around it
        while armed[0]:
            body()
    while landed[0] < interrupts:
        try:
            armed[0] = True
            signal.setitimer(signal.ITIMER_REAL, chosen.uniform(shortest, longest))
            repeat()
        except KeyboardInterrupt:
            pass
"""


def run(program: str, *arguments: object) -> str:
    """Return the output of a program in another process, which must succeed in time."""
    command = [sys.executable, "-c", STORM + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


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
@pytest.mark.parametrize("seed", [1, 2])
def test_a_value_is_made_once_in_spite_of_interrupts(seed: int) -> None:
    assert run(ONCE, seed, 1000) == "[] []\n"


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
    threads += [threading.Thread(target=lambda: found.append(once.get("k", lambda: 7))) for _ in range(3)]
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
    assert run(FORKED_FLIGHT) == "making 'k' needs 'k' itself\nthe child's\nthe parent's\n"


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
    assert (user, pool.free(), pool.take()) == (None, ["a"], "a")


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
    user.other.other = user  # a cycle: the collector calls the weak reference's callback before the finalizer
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
    assert run(UNINTERRUPTED, seed) == ""


def test_calls_in_other_threads_do_not_wait_for_each_other() -> None:
    """Each call waits for the others. An exception is raised in the calling thread."""
    barrier = threading.Barrier(5)
    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(call_uninterrupted(barrier.wait, HANGS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    barrier.wait(HANGS)
    for thread in threads:
        thread.join()
    assert len(results) == 4
    with pytest.raises(ZeroDivisionError):
        call_uninterrupted(divmod, 1, 0)


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
        [sys.executable, "-W", "ignore", "-c", UNINTERRUPTED_FORK], capture_output=True, text=True, check=False, timeout=HANGS
    )
    assert (done.stdout, done.stderr) == ("2\n3\n", "")
