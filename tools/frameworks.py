"""Run the tests of devmod-frameworks with PyTorch, JAX, tvm-ffi and TVM, which `make setup` does not install: they have 1 GB.

    python tools/frameworks.py [--prepare] [pytest options]

The environment stays between runs; --prepare makes it and runs nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from environments import ROOT, InstallError, install, kept
from setup import editable, fingerprint, group, interpreter

#: Newer wheels of PyTorch need NVIDIA's. TVM calls the functions of tvm-ffi.
PACKAGES = ("torch==2.13.0", "jax", "jax-tvm-ffi", "apache-tvm-ffi", "apache-tvm==0.27.0.post1")


def fill(python: Path) -> None:
    """Install into the environment."""
    install(python, [*editable(), *group("test"), *PACKAGES], cached=True)


def main() -> int:
    """Run the tests and return the exit code."""
    try:
        python = kept(ROOT / "build" / "frameworks", f"{interpreter()}{fingerprint()}{PACKAGES}", fill)
    except InstallError as error:
        print(error)
        return 1
    if "--prepare" in sys.argv:
        return 0
    print(f"== frameworks: the tests of devmod-frameworks with {', '.join(PACKAGES)}", flush=True)
    return subprocess.call([str(python), "-m", "pytest", "frameworks/tests", "-q", *sys.argv[1:]], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
