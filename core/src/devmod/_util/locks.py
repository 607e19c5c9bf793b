"""The lock of devmod: an interrupt does not leave it acquired."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import RLock as RLock
else:
    from _thread import RLock

    class RLock(RLock):
        """A lock that its thread may acquire again, as `threading.RLock`. An interrupt at a
        ``with`` statement does not leave it acquired, as it does in CPython 3.14 with those of
        Python.
        """

        if sys.version_info >= (3, 14):
            # KeyboardInterrupt may come behind the call of `__enter__`, before the statement counts
            # as entered. It does not come behind an attribute.
            _acquired = property(RLock.acquire)

            def __enter__(self) -> bool:
                return self._acquired
