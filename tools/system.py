"""Install what pip cannot: compilers, drivers and a browser of the system. Use apt if that is
allowed, else print the command.

    python3 tools/system.py [--tests]

Nothing here is required: the demo and the tests skip what is missing, with the reason. Standard
library only.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from environments import ROOT, VENV

#: The packages that could not be installed the last time. A second run does not try them.
STAMP = "devmod-system"
#: The folders in which the Vulkan loader looks for drivers and layers.
_VULKAN = [
    Path(base) / "vulkan"
    for base in ("/usr/share", "/usr/local/share", "/etc", Path.home() / ".local" / "share")
]
_NPM = ROOT / "browser" / "js"
#: The file of the Vulkan driver SwiftShader, which Debian's package of Chromium has.
SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")


class Need(NamedTuple):
    """A package of Debian and Ubuntu, its purpose, and a check for it or an equivalent on this
    machine.
    """

    package: str
    purpose: str
    there: Callable[[], bool]


def _program(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) for name in names)


def _vulkan(pattern: str) -> Callable[[], bool]:
    return lambda: any(list(folder.glob(pattern)) for folder in _VULKAN)


#: For the demo and everything else: kernels compiled, and devices to run them on.
RUN = (
    Need(
        "glslang-tools",
        "compiles GLSL and HLSL for Vulkan",
        _program("glslangValidator", "glslang"),
    ),
    Need("spirv-tools", "checks, optimizes and lists SPIR-V", _program("spirv-val")),
    Need("libvulkan1", "the Vulkan loader", lambda: ctypes.util.find_library("vulkan") is not None),
    Need(
        "mesa-vulkan-drivers",
        "lavapipe, a Vulkan device on the CPU, for Vulkan and WebGPU",
        _vulkan("icd.d/*.json"),
    ),
    Need("qemu-user", "runs Hexagon kernels on the CPU", _program("qemu-hexagon")),
)
#: For the tests alone.
TESTS = (
    Need(
        "spirv-cross",
        "writes Metal source from SPIR-V for the tests of Metal's reader",
        _program("spirv-cross"),
    ),
    Need(
        "vulkan-validationlayers",
        "reports wrong uses of Vulkan",
        _vulkan("explicit_layer.d/VkLayer_khronos_validation.json"),
    ),
    Need(
        "rocm-device-libs",
        "the math functions of double for AMD GPUs",
        Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode/ocml.bc").exists,
    ),
    Need(
        "chromium",
        "WebGPU in a browser, and a second Vulkan driver",
        _program("chromium", "chromium-browser", "google-chrome"),
    ),
)


def vulkan_drivers(*files: Path) -> dict[str, str]:
    """Return environment variables with which the Vulkan loader opens these drivers alone."""
    # Loaders before 1.3.207 read the second.
    return dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), os.pathsep.join(map(str, files)))


def provide(needs: Iterable[Need], *, again: bool = False) -> None:
    """Install the missing packages if that is allowed, and print what and why. A second run does
    not repeat a failure.
    """
    missing = [need for need in needs if not need.there()]
    stamp = VENV / STAMP
    refused = stamp.read_text().split() if stamp.exists() and not again else []
    missing = [need for need in missing if need.package not in refused]
    if not missing or not sys.platform.startswith("linux"):
        return
    why = "missing here:\n" + "\n".join(f"  - {need.package}: {need.purpose}" for need in missing)
    if not apt([need.package for need in missing], why):
        report(
            f"continuing without {', '.join(need.package for need in missing)}: what needs them is skipped, with the reason"
        )
    left = [need.package for need in missing if not need.there()]
    if left and VENV.is_dir():
        stamp.write_text("\n".join([*refused, *left]))


def apt(packages: Sequence[str], why: str) -> bool:
    """Install packages with apt if that needs no password, else print the command. Return whether
    it succeeded.
    """
    hint = f"sudo apt-get install {' '.join(packages)}"
    if shutil.which("apt-get") and may_install():
        as_root = ["sudo", "-n"] if os.geteuid() else []
        command = [*as_root, "apt-get", "install", "--yes", "--no-install-recommends", *packages]
        report(f"{why}. Running: {' '.join(command)}")
        # A new machine has no list of packages, so the installation fails: it is repeated after an
        # update of the list.
        for step in (command, [*as_root, "apt-get", "update"], command):
            process = subprocess.run(step, capture_output=True, text=True, check=False)
            if step is command and process.returncode == 0:
                return True
        report(f"apt-get failed: {last_line(process.stderr)}")
        return False
    report(f"{why}.\nOn Debian and Ubuntu: {hint}")
    return False


def may_install() -> bool:
    """Return whether apt can run without asking for a password."""
    if os.geteuid() == 0:
        return True
    return (
        bool(shutil.which("sudo"))
        and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    )


def node_packages() -> None:
    """Install what the tests of the npm package need, if npm is installed. A change of its
    package.json repeats it.
    """
    expected = (_NPM / "package.json").read_text()
    stamp = _NPM / "node_modules" / "devmod-setup"
    if stamp.exists() and stamp.read_text() == expected:
        return
    npm = shutil.which("npm")
    if npm is None:
        report(
            "npm is not installed, so the browser's tests are skipped (Debian and Ubuntu: sudo apt-get install nodejs npm)"
        )
        return
    report(f"installing the packages of {_NPM.relative_to(ROOT)} with npm")
    process = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--silent"],
        cwd=_NPM,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        report(
            f"npm install failed, so the browser's tests are skipped: {last_line(process.stdout + process.stderr)}"
        )
        return
    stamp.write_text(expected)


def report(text: str) -> None:
    """Print a line on standard error, so that standard output has the task's output alone."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


def last_line(text: str) -> str:
    """Return the last line of what a program printed: most have the reason of a failure there."""
    return (text.strip().splitlines() or ["no message"])[-1]


def main() -> int:
    """Install what only the tests need."""
    provide(TESTS, again="--force" in sys.argv)
    node_packages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
