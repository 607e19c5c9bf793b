"""Build the runner of devmod-hexagon from its C sources, with the clang and the musl of the wheel
ziglang.

    python tools/hexagon_runner.py [--check]

The program, a digest of its sources and the notices of what it is linked with are committed, so
that a receiver needs no compiler. With --check, nothing is written, and the exit code is 1 if the
program of these sources, or its notices, would be others. The first run takes a minute or two,
because it builds musl.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from environments import ROOT

FOLDER = ROOT / "plugins" / "devmod-hexagon"
PROGRAM = FOLDER / "src" / "devmod_hexagon" / "runner"
DIGEST = FOLDER / "runner" / "sources.sha256"
NOTICES = FOLDER / "THIRD-PARTY-NOTICES"
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

#: The types of a section with symbols, and of a symbol that names a source file.
_SYMBOLS = 2
_FILE = 4


# Where to change: a function that Hexagon kernels import
#   here: `plugins/devmod-hexagon/runner/exports.c`; then `make hexagon-runner`. `docs/hexagon.md`
#     names the headers that have some
#   tests: `plugins/devmod-hexagon/tests/test_library.py`
def sources() -> list[Path]:
    """Return the C files."""
    return sorted(FOLDER.joinpath("runner").glob("*.c"))


def digest() -> str:
    """Return the digest of the C files, the header and the flags."""
    result = hashlib.sha256("\n".join(FLAGS).encode())
    for path in [*sources(), FOLDER / "runner" / "runner.h"]:
        result.update(f"\n{path.name}\n".encode() + path.read_bytes())
    return result.hexdigest()


def toolchain() -> Path:
    """Return the folder of ziglang."""
    found = find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("ziglang is not installed: pip install ziglang")
    return Path(found.submodule_search_locations[0])


def build(*, strip: bool = True) -> bytes:
    """Compile the program and return it. With its symbols, it names the files of its libraries."""
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "devmod-hexagon-runner"
    )
    flags = FLAGS if strip else [flag for flag in FLAGS if flag != "-s"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "runner")
        command = [
            str(toolchain() / "zig"),
            "cc",
            *flags,
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


def linked_files(program: bytes) -> set[str]:
    """Return the names of the source files that a program of ELF32 with symbols is linked from."""
    start = struct.unpack_from("<I", program, 32)[0]
    size, count = struct.unpack_from("<HH", program, 46)
    sections = [
        struct.unpack_from("<10I", program, start + number * size) for number in range(count)
    ]
    names = set()
    for section in sections:
        if section[1] != _SYMBOLS:
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], section[9]):
            name, _, _, info = struct.unpack_from("<IIIB", program, at)
            if info & 15 == _FILE:
                end = program.index(b"\0", strings + name)
                names.add(program[strings + name : end].decode())
    return names


def notices(program: bytes) -> str:
    """Return the notices of musl and Zig, and of the files of musl that have one of their own."""
    folder = toolchain()
    musl = folder / "lib" / "libc" / "musl"
    own: dict[str, list[str]] = {}
    for name in sorted(linked_files(program)):
        for path in sorted(musl.glob(f"src/**/{name}")):
            comments = re.findall(r"/\*.*?\*/", path.read_text(encoding="utf-8"), re.DOTALL)
            for comment in comments:
                if re.search(r"copyright \(c\)", comment, re.IGNORECASE):
                    text = re.sub(r"/\* origin: \S+ \*/\n", "", comment)
                    own.setdefault(text, []).append(path.relative_to(musl).as_posix())
    lines = [
        "The program devmod_hexagon/runner is linked with parts of musl and of Zig.",
        "",
        "-- musl: COPYRIGHT",
        "",
        (musl / "COPYRIGHT").read_text(encoding="utf-8").strip(),
        "",
        "-- Zig: LICENSE",
        "",
        (folder / "LICENSE").read_text(encoding="utf-8").strip(),
    ]
    for text, files in own.items():
        lines += ["", f"-- musl: {', '.join(files)}", "", text]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Build and write the program and the notices, or check them."""
    program = build()
    text = notices(build(strip=False))
    if "--check" in sys.argv:
        problems = []
        if PROGRAM.read_bytes() != program:
            problems.append("the runner does not match its sources")
        if NOTICES.read_text(encoding="utf-8") != text:
            problems.append(f"{NOTICES.name} does not match what the runner is linked with")
        for each in problems:
            print(f"{each}: run make hexagon-runner")
        if not problems:
            print("the runner matches its sources")
        return int(bool(problems))
    PROGRAM.write_bytes(program)
    PROGRAM.chmod(0o755)
    DIGEST.write_text(digest() + "\n")
    NOTICES.write_text(text, encoding="utf-8")
    print(f"{PROGRAM.relative_to(ROOT)}: {len(program)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
