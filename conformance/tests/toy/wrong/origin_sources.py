"""The origin lacks the digest of the source."""

from devmod_toy._compile import payload, target

ROWS = ("R42",)
REASON = "the sources in the origin: expected the SHA-256 of the compiled text, got {}"
TARGET = target("origin_sources:compile")


def compile(request):
    return payload(request, sources={})
