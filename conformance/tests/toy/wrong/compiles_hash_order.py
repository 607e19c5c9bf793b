"""The compiler writes a set in hash order."""

from devmod_toy._compile import payload, target

ROWS = ("R38-compiled",)
REASON = "the compiler's output differs: from byte … on, …, with another PYTHONHASHSEED"
TARGET = target("compiles_hash_order:compile")


def compile(request):
    return payload(request, " ".join({f"macro_{number}" for number in range(20)}))
