"""Run a part of the tests and the conformance kit with the lowest versions of all dependencies that
the wheels allow, as one set.

    python tools/lowest.py [--prepare] [pytest options]

The kit of Vulkan and WebGPU runs on SwiftShader if it is installed; the other tests use Mesa's
lavapipe.

The environment stays between runs; --prepare makes it and runs nothing. It needs uv, which alone
resolves to the lowest versions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from environments import ROOT, InstallError, install, kept
from setup import editable, fingerprint, group, interpreter
from system import SWIFTSHADER, vulkan_drivers

#: What uses the dependencies: msgpack, pluggy and click; fsspec and aiohttp; libclang, NVRTC and
#: nvFatbin; NumPy.
TESTS = (
    "core/tests",
    "plugins/runtime/tests/toy",
    "extras/remote/tests",
    "extras/trust/tests",
    *(
        f"compilers/targets/tests/test_{name}.py"
        for name in (
            "build_cli",
            "compile_cuda",
            "compile_llvm_ir",
            "compile_metal",
            "compile_opencl",
        )
    ),
)
#: The kinds whose runtimes run here, on their drivers' lowest Python packages.
KINDS = ("opencl", "vulkan", "webgpu")


def fill(python: Path) -> None:
    """Install into the environment."""
    install(python, ["--resolution", "lowest-direct", *editable()])
    install(
        python, [*group("test"), "--editable", str(ROOT / "examples" / "devmod-host")], cached=True
    )  # keeps what is installed


def main() -> int:
    """Run the tests and return the exit code."""
    arguments = [each for each in sys.argv[1:] if each != "--prepare"]
    start = time.monotonic()
    try:
        python = str(kept(ROOT / "build" / "lowest", f"{interpreter()}{fingerprint()}", fill))
    except InstallError as error:
        print(error)
        return 1
    if "--prepare" in sys.argv:
        return 0
    print(
        f"== lowest versions: the tests of {', '.join(TESTS)}, and the kit with {', '.join(KINDS)}",
        flush=True,
    )
    command = [
        python,
        "-m",
        "pytest",
        *TESTS,
        "-q",
        "--dist",
        "worksteal",
        "-m",
        "not once and not volume",
        *arguments,
    ]
    failed = ["the tests"] if subprocess.call(command, cwd=ROOT) else []
    # The processor may be newer than the LLVM of the lowest PoCL, as conftest.py says for the
    # tests.
    variables = (
        {"DEVMOD_OPENCL_POCL_CPU": "1"}
        | os.environ
        | (vulkan_drivers(SWIFTSHADER) if SWIFTSHADER.exists() else {})
    )

    def run_kit(kind: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "devmod", "conformance", kind],
            cwd=ROOT,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )

    with ThreadPoolExecutor() as pool:
        for kind, process in zip(KINDS, pool.map(run_kit, KINDS), strict=True):
            print(
                (process.stdout if process.returncode else process.stdout.splitlines()[-1] + "\n")
                + process.stderr,
                end="",
                flush=True,
            )
            failed += [f"the kit of {kind}"] * bool(process.returncode)
    print(
        f"lowest versions: {', '.join(failed) + ' failed' if failed else 'passed'}, {time.monotonic() - start:.0f} s"
    )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
