"""The stand-in for hiprtc: building it, and the environment in which a process finds it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
from standin_build import CACHE

FOLDER = Path(__file__).resolve().parent / "hiprtc"
SONAME = "libhiprtc.so"


@cache
def library() -> Path:
    """Build the library and return its path, or skip the test."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler is installed (cc), which builds the stand-in for hiprtc")
    source = FOLDER / "hiprtc.c"
    target = CACHE / hashlib.sha256(source.read_bytes()).hexdigest()[:16] / SONAME
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            result = Path(folder, SONAME)
            flags = ["-D_GNU_SOURCE", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
            subprocess.run([compiler, *flags, "-o", str(result), str(source)], check=True)
            result.replace(target)
    return target


def environment() -> dict[str, str]:
    """Return the environment variables with which a process finds the library, and the library its compiler."""
    folders = [str(library().parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return {
        "LD_LIBRARY_PATH": os.pathsep.join(folders),
        "DEVMOD_STANDIN_HIPRTC": "\x1f".join([sys.executable, str(FOLDER / "compiler.py")]),
    }
