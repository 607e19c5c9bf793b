"""Hash bytes in a second thread, while this one writes or copies them."""

from __future__ import annotations

from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: From this size on, hashing in a second thread costs less than it saves.
_OVERLAP_FROM = 1 << 20


def run_both(one: Callable[[], Any], other: Callable[[], None], size: int) -> Any:
    """Run `one` in a second thread and `other` in this one. Wait for both, and return the result of `one`.

    If `size`, the number of bytes that they read, is small, both run in this thread.
    """
    if size < _OVERLAP_FROM:
        other()
        return one()
    from threading import Thread

    results: list[Any] = []

    def run() -> None:
        with suppress(Exception):  # the caller's thread calls `one` again, which raises it there
            results.append(one())

    thread = Thread(target=run, name="devmod-digest")
    thread.start()
    try:
        other()
    finally:
        thread.join()
    return results[0] if results else one()
