"""The compiler of the stand-in for hiprtc: `devmod.compile`, with the clang of ziglang. It runs in
a process of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import devmod
from devmod.backend import payload_of


def main(folder: str, *options: str) -> int:
    """Compile the file `source` of a folder for ``--offload-arch=``. Return the exit status."""
    arch = next(each.partition("=")[2] for each in options if each.startswith("--offload-arch="))
    if arch == "gfx9999":
        return 134  # what hiprtc does with an architecture that it does not support
    rest = [each for each in options if not each.startswith("--offload-arch=")]
    text = Path(folder, "source").read_text(encoding="utf-8")
    try:
        module = devmod.compile(
            text.replace("//devmod:", "// ", 1), f"rocm -arch={arch}", language="HIP", options=rest
        )
    except devmod.CompileError as error:
        # The real one names the file that it has written.
        Path(folder, "log").write_text(
            (error.log or str(error)).replace("<text>:", "/tmp/comgr-12ab/input/CompileSource:")
        )
        return 1
    payload = payload_of(module)
    assert payload is not None
    assert isinstance(payload[3], bytes)
    Path(folder, "code").write_bytes(payload[3])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
