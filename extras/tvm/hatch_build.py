"""The hook that builds the libraries of a wheel: one for each minor version of TVM, here that whose
headers this Python has.
"""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    """Compile the library with the compiler of TVM's own wheel: an exception of C++ must pass from
    one library to the other.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, and add the library to the wheel."""
        tvm = distribution("apache-tvm")
        ffi = distribution("apache-tvm-ffi")
        minor = re.match(r"\d+\.\d+", tvm.version)
        assert minor is not None
        output = Path(self.root, "src", "devmod_tvm", f"bridge-{minor[0]}.so")
        headers = [tvm.locate_file("tvm/include"), ffi.locate_file("tvm_ffi/include")]
        libraries = [tvm.locate_file("tvm/lib"), ffi.locate_file("tvm_ffi/lib")]
        command = [
            os.environ.get("CXX", "g++"),
            "-std=c++17",
            "-O2",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-s",
        ]
        for each in headers:
            command += ["-I", str(each)]
        for each in (self.root, *headers):  # messages name files
            command.append(f"-ffile-prefix-map={each}=.")
        command += ["-o", str(output), str(Path(self.root, "native", "bridge.cpp"))]
        for each in libraries:
            command += ["-L", str(each)]
        command += ["-ltvm_runtime", "-ltvm_ffi"]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)}\nfailed:\n{process.stderr}")
        build_data["pure_python"] = False
        build_data["artifacts"].append(f"/src/devmod_tvm/{output.name}")
        build_data["tag"] = f"py3-none-{_platform(output.read_bytes())}"


def _platform(library: bytes) -> str:
    """Return the platform of a wheel's tag: that of TVM's own wheel, if the library needs no newer
    functions of glibc and libstdc++.
    """
    glibc = [(0,)]
    libstdcxx = [(0,)]
    for each in re.findall(rb"\0GLIBC(?:XX)?_([\d.]+)(?=\0)", library):
        number = tuple(map(int, each.split(b".")))
        if number[0] == 2:
            glibc.append(number)
        else:
            libstdcxx.append(number)
    machine = re.sub(r"[-.]", "_", sysconfig.get_platform())
    if len(glibc) > 1 and max(glibc) <= (2, 28) and max(libstdcxx) <= (3, 4, 24):
        return machine.replace("linux", "manylinux_2_28", 1)
    return machine
