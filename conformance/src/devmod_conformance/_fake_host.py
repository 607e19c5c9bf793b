"""Replaces the clock and the host name that Python code sees."""

from __future__ import annotations

import os
from itertools import count
from typing import Any

#: The time that `replace_clock_and_host` sets: 13 February 2009, 23:31:30 UTC. No file is older
#: than that.
START = 1_234_567_890
#: Time zones whose local dates always differ. They need no time zone database.
EAST, WEST = "DME-14", "DMW+12"


def replace_clock_and_host() -> None:
    """Replace Python's clocks and the names of the host. Call this before the backend is imported.

    The clock starts at `START` and advances by a millisecond at each call. Two processes that do
    the same read the same times. Programs and C libraries still read the system's clock; the time
    zone changes their dates.
    """
    import socket

    _replace_clocks()
    if hasattr(os, "uname"):
        system = os.uname()
        os.uname = lambda: os.uname_result((system[0], "other-host", *system[2:]))
    socket.gethostname = lambda: "other-host"
    os.cpu_count = lambda: 1


def _replace_clocks() -> None:
    import datetime
    import time

    calls = count()
    real = {
        name: getattr(time, name)
        for name in ("gmtime", "localtime", "ctime", "strftime", "asctime")
    }

    def now() -> float:
        return START + next(calls) / 1000

    def of_seconds(name: str) -> Any:
        return lambda seconds=None: real[name](now() if seconds is None else seconds)

    time.time = now
    time.time_ns = lambda: int(now() * 1000) * 1_000_000
    for name in ("gmtime", "localtime", "ctime"):
        setattr(time, name, of_seconds(name))
    time.strftime = lambda form, *value: real["strftime"](form, *(value or (time.localtime(),)))
    time.asctime = lambda *value: real["asctime"](*(value or (time.localtime(),)))

    date: Any = datetime.date
    moment: Any = datetime.datetime

    class LikeDate(type):
        """Instances of the original types are instances of the replacements."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, moment if cls is Moment else date)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, moment if cls is Moment else date)

    class Date(date, metaclass=LikeDate):  # type: ignore[misc]
        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(now())

    class Moment(moment, metaclass=LikeDate):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.fromtimestamp(now(), tz)

        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(now())

        @classmethod
        def utcnow(cls) -> Any:
            return cls.fromtimestamp(now(), datetime.UTC).replace(tzinfo=None)

    datetime.date = Date  # type: ignore[misc]
    datetime.datetime = Moment  # type: ignore[misc]
