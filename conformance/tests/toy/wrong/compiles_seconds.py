"""The compiler writes the clock's seconds."""

from datetime import UTC, datetime

from devmod_toy._compile import payload, target

ROWS = ("R38-compiled",)
REASON = "the compiler's output differs: from byte … on, …, at another time or with another host name"
TARGET = target("compiles_seconds:compile")


def compile(request):
    return payload(request, str(int(datetime.now(UTC).timestamp())))
