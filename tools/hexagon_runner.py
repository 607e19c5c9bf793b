"""Build the runner of devmod-hexagon from its C sources, with the clang and the musl of the wheel
ziglang.

    python tools/hexagon_runner.py [--check]

The program and a digest of its sources are committed, so that a receiver needs no compiler. With
--check, nothing is written, and the exit code is 1 if the program of these sources would be another
one. The first run takes a minute or two, because it builds musl.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from environments import ROOT

FOLDER = ROOT / "plugins" / "devmod-hexagon"
PROGRAM = FOLDER / "src" / "devmod_hexagon" / "runner"
DIGEST = FOLDER / "runner" / "sources.sha256"
#: For v66, the oldest core with HVX of 128 bytes that the emulator of Debian 12 has too.
FLAGS = (
    "-target",
    "hexagon-linux-musl",
    "-mcpu=hexagonv66",
    "-O2",
    "-s",
    "-Wall",
    "-Wextra",
    "-Werror",
)


def sources() -> list[Path]:
    """Return the C files."""
    return sorted(FOLDER.joinpath("runner").glob("*.c"))


def digest() -> str:
    """Return the digest of the C files, the header and the flags."""
    result = hashlib.sha256("\n".join(FLAGS).encode())
    for path in [*sources(), FOLDER / "runner" / "runner.h"]:
        result.update(f"\n{path.name}\n".encode() + path.read_bytes())
    return result.hexdigest()


def build() -> bytes:
    """Compile the program and return it."""
    found = find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("ziglang is not installed: pip install ziglang")
    zig = Path(found.submodule_search_locations[0]) / "zig"
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "devmod-hexagon-runner"
    )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "runner")
        command = [
            str(zig),
            "cc",
            *FLAGS,
            "-o",
            str(out),
            *(path.name for path in sources()),
            "-lm",
        ]
        environment = os.environ | {
            "ZIG_GLOBAL_CACHE_DIR": str(cache),
            "ZIG_LOCAL_CACHE_DIR": folder,
        }
        subprocess.run(command, cwd=FOLDER / "runner", env=environment, check=True)
        return out.read_bytes()


def main() -> int:
    """Build and write the program, or check it."""
    program = build()
    if "--check" in sys.argv:
        same = PROGRAM.read_bytes() == program
        print(
            "the runner matches its sources"
            if same
            else "the runner does not match its sources: run make hexagon-runner"
        )
        return 0 if same else 1
    PROGRAM.write_bytes(program)
    PROGRAM.chmod(0o755)
    DIGEST.write_text(digest() + "\n")
    print(f"{PROGRAM.relative_to(ROOT)}: {len(program)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
