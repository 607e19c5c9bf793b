"""The lock of devmod's own code, under signals."""

from __future__ import annotations

import random
import signal

import pytest

from devmod.backend import RLock

#: Of as many interrupts CPython 3.14 leaves more than a third of its own locks acquired.
INTERRUPTS = 300


@pytest.mark.row("R61")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals at a set time are POSIX's")
def test_an_interrupt_leaves_no_lock_acquired() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    lock = RLock()
    chosen = random.Random(7)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(INTERRUPTS):
            try:
                signal.setitimer(signal.ITIMER_REAL, chosen.uniform(0.0001, 0.0004))
                while True:
                    with lock:
                        pass
            except KeyboardInterrupt:
                assert not lock._is_owned()  # type: ignore[attr-defined]  # typeshed lacks it
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_thread_acquires_its_lock_again() -> None:
    lock = RLock()
    with lock, lock as inner:
        assert inner is True
        assert lock._is_owned()  # type: ignore[attr-defined]  # typeshed lacks it
    assert not lock._is_owned()  # type: ignore[attr-defined]  # typeshed lacks it
