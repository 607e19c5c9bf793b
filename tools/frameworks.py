"""Run the tests of devmod-frameworks with PyTorch, JAX, tvm-ffi and TVM, which `make setup` does not install: they have 1 GB.

    python tools/frameworks.py [--prepare] [pytest options]

The environment stays between runs; --prepare makes it and runs nothing.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys

from environments import ROOT, InstallError, install, make_venv, python_of
from setup import editable, fingerprint, group, interpreter

VENV = ROOT / "build" / "frameworks"
#: Newer wheels of PyTorch need NVIDIA's. TVM calls the functions of tvm-ffi.
PACKAGES = ("torch==2.13.0", "jax", "jax-tvm-ffi", "apache-tvm-ffi", "apache-tvm==0.27.0.post1")


def environment() -> None:
    """Make or update the environment."""
    stamp, expected = VENV / "devmod-setup", hashlib.sha256(f"{interpreter()}{fingerprint()}{PACKAGES}".encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == expected:
        return
    make_venv(VENV)
    install(python_of(VENV), [*editable(), *group("test"), *PACKAGES], cached=True)
    stamp.write_text(expected)


def main() -> int:
    """Run the tests and return the exit code."""
    try:
        environment()
    except InstallError as error:
        print(error)
        return 1
    if "--prepare" in sys.argv:
        return 0
    print(f"== frameworks: the tests of devmod-frameworks with {', '.join(PACKAGES)}", flush=True)
    return subprocess.call([str(python_of(VENV)), "-m", "pytest", "frameworks/tests", "-q", *sys.argv[1:]], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
