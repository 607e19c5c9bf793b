"""The compiler writes the modification time of the source file."""

import os

from devmod_toy._compile import payload, target

ROWS = ("R38-compiled",)
REASON = "the compiler's output differs: from byte … on, …, from a file with another modification time"
TARGET = target("compiles_file_time:compile")


def compile(request):
    return payload(request, str(os.stat(os.path.join(request.folder, request.name)).st_mtime_ns) if request.folder else "")
