"""Write libclc's bitcode for devmod-targets from the files of Debian's package.

    apt-get install libclc-22
    python tools/libclc.py [FOLDER] [--check]

FOLDER is that of the bitcode, /usr/lib/clc by default. With --check, nothing is written, and the
exit code is 1 if the package has other files than devmod-targets.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import subprocess
import sys
from pathlib import Path

from environments import ROOT

#: Its LLVM is at most that of the ziglang which the extras for OpenCL C require.
PACKAGE = "libclc-22"
LIBRARIES = ("nvptx64--", "amdgcn-amd-amdhsa")
TARGET = ROOT / "compilers" / "targets" / "src" / "devmod_targets" / "libclc"


def package_version() -> str:
    """Return the version of the installed package, such as 1:22.1.8-1~deb12u1."""
    command = ["dpkg-query", "--show", "--showformat=${Version}", PACKAGE]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit(f"{PACKAGE} is not installed: apt-get install {PACKAGE}") from None


def files(folder: Path, version: str) -> dict[str, bytes]:
    """Return the files of devmod-targets by name: the libraries and their record."""
    number = re.search(r"\d+\.\d+\.\d+", version)
    if number is None:
        raise SystemExit(f"{version!r} has no version of LLVM")
    libraries = {}
    result = {}
    for name in LIBRARIES:
        data = (folder / f"{name}.bc").read_bytes()
        libraries[name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        result[f"{name}.bc.xz"] = lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
    record = {"version": number[0], "package": f"{PACKAGE} {version}", "libraries": libraries}
    result["record.json"] = (json.dumps(record, indent=2) + "\n").encode()
    return result


def main() -> int:
    """Write the files and return the exit code."""
    arguments = [each for each in sys.argv[1:] if each != "--check"]
    folder = Path(arguments[0] if arguments else "/usr/lib/clc")
    written = files(folder, package_version())
    if "--check" not in sys.argv:
        for name, data in written.items():
            (TARGET / name).write_bytes(data)
        return 0
    other = [name for name, data in written.items() if (TARGET / name).read_bytes() != data]
    for name in other:
        print(f"{name} differs from that of the package")
    return bool(other)


if __name__ == "__main__":
    sys.exit(main())
