"""The origin lacks the target."""

from devmod_toy._compile import payload, target

ROWS = ("R42",)
REASON = "the target in the origin: expected 'toy -arch=t2', got ''"
TARGET = target("origin_target:compile")


def compile(request):
    return payload(request, target="")
