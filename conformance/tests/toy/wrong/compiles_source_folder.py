"""The compiler writes the folder of the source file."""

from devmod_toy._compile import payload, target

ROWS = ("R38-compiled",)
REASON = "the compiler's output differs: from byte … on, …, in another folder"
TARGET = target("compiles_source_folder:compile")


def compile(request):
    return payload(request, request.folder)
