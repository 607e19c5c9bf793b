"""The compiler writes a random name."""

from uuid import uuid4

from devmod_toy._compile import payload, target

ROWS = ("R38-compiled",)
REASON = "the compiler's output differs: from byte … on, …, in another process with the same folder, user, environment and clock"
TARGET = target("compiles_random:compile")


def compile(request):
    return payload(request, str(uuid4()))
