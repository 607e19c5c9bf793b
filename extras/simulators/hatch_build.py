"""The hook that builds the libraries of the wheel, for both machines, with the C compiler of the
wheel ziglang.

An editable installation has none: there the C compiler of the machine builds them at their first
use.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: The C library that they need: manylinux_2_28 has it.
GLIBC = "2.28"
MACHINES = ("aarch64", "x86_64")


class CustomBuildHook(BuildHookInterface[Any]):
    """Compile the libraries. One wheel has those of all machines, so each machine builds the same
    wheel.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, and add the libraries to the wheel."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        library = importlib.import_module("devmod_simulators.drivers.library")
        self.folder = tempfile.TemporaryDirectory()
        for machine in MACHINES:
            compiler = [
                sys.executable,
                "-m",
                "ziglang",
                "cc",
                "-target",
                f"{machine}-linux-gnu.{GLIBC}",
                "-g0",
                "-s",
                "-rtlib=none",  # nothing here calls zig's compiler-rt, which takes long to compile
            ]
            for each in (
                library.libcuda,
                library.cubins,
                library.engine,
                library.libcudart12,
                library.libcudart13,
            ):
                target = Path(self.folder.name, machine, each.soname)
                target.parent.mkdir(exist_ok=True)
                each.build_with(compiler, target)
                build_data["force_include"][str(target)] = (
                    f"devmod_simulators/drivers/built/{machine}/{target.name}"
                )
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + ".".join(
            f"manylinux_{GLIBC.replace('.', '_')}_{machine}" for machine in MACHINES
        )

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the libraries, which the wheel has now."""
        if version != "editable":
            self.folder.cleanup()
