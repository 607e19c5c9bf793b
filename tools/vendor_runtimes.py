"""Fetch vendors' libraries from Debian's packages for the tests: HIP's runtime and NVIDIA's driver.
They are unpacked, and not installed. Intel's OpenCL runtime for the CPU is installed into `.venv`,
from PyPI. With `--volume`, fetch what `make test-all` alone needs.

    .venv/bin/python tools/vendor_runtimes.py [--force] [--volume]

On a machine without a card they report no device. They are in the user's cache folder, where the
loader does not search, so other tests find none. `tests/vendors/vendor_runtime.py` finds them for a
test.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from environments import ROOT, VENV, InstallError, install, python_of
from system import last_line, report

_DRIVER = ("libcuda1", "libnvidia-ptxjitcompiler1")
_PYTHON = (
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "libstdc++6",
    "zlib1g",
)

#: Debian has these programs in another folder than nvcc.
_PROGRAMS = ("cudafe++", "fatbinary", "nvlink", "ptxas")
_PROFILE = """
SITE = $(_HERE_)/../site/nvidia
NVVMIR_LIBRARY_DIR = $(SITE)/cuda_nvcc/nvvm/libdevice
PATH += $(_HERE_):
INCLUDES += "-I$(SITE)/cuda_runtime/include" "-I$(SITE)/cuda_nvcc/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(_HERE_)"
"""
#: A program header of ELF for the stack, and the flag of a segment that is executed.
_PT_GNU_STACK = 0x6474E551
_EXECUTE = 1
#: The keys of Debian's archive, in the package debian-archive-keyring of every Debian.
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Runtime(NamedTuple):
    """Packages of a suite of Debian, with the library that tests open.

    The suite is fixed, whatever this machine has: the tests compare what this version answers.
    Wheels are unpacked into `site`.
    """

    name: str
    suite: str
    component: str
    packages: tuple[str, ...]
    library: str
    megabytes: int
    architecture: str = ""
    wheels: tuple[str, ...] = ()


def _version(name: str) -> str:
    """Return the requirement of a distribution in the version of this environment, or of any."""
    try:
        return f"{name}=={metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return name


#: What to fetch. Debian 12's mesa-vulkan-drivers depends on the other libraries that HIP's runtime
#: needs, Debian 13's on most of them.
RUNTIMES = (
    Runtime(
        "libamdhip64",
        "bookworm",
        "main",
        (
            "libamdhip64-5",
            "libhsa-runtime64-1",
            "libhsakmt1",
            "libamd-comgr2",
            "libllvm15",
            "libnuma1",
        ),
        "libamdhip64.so.5",
        48,
    ),
    Runtime("libcuda-470", "bullseye", "non-free", _DRIVER, "libcuda.so.1", 8),
    Runtime("libcuda-535", "bookworm", "non-free", _DRIVER, "libcuda.so.1", 10),
    Runtime("libcuda-550", "trixie", "non-free", _DRIVER, "libcuda.so.1", 11),
)
#: A system for qemu-aarch64, and nvcc of CUDA 12, of which no wheel has the program.
VOLUME = (
    Runtime(
        "aarch64",
        "bookworm",
        "main",
        _PYTHON,
        "python3.11",
        29,
        "arm64",
        ("numpy<3", _version("nvidia-cuda-runtime"), _version("nvidia-cuda-runtime-cu12")),
    ),
    Runtime(
        "nvcc-12",
        "trixie",
        "non-free",
        ("nvidia-cuda-toolkit",),
        "cicc",
        110,
        "amd64",
        ("nvidia-cuda-runtime-cu12==12.4.127", "nvidia-cuda-nvcc-cu12==12.4.131"),
    ),
)


def main() -> int:
    """Fetch the runtimes that are missing; return 0 also if one cannot be used: the tests skip what
    needs it.
    """
    if sys.platform.startswith("linux") and platform.machine() == "x86_64":
        if "--volume" in sys.argv:
            runtimes = list(VOLUME)
        else:
            runtimes = list(RUNTIMES)
            install_intel(python_of(VENV))
        for runtime in runtimes:
            provide(runtime, again="--force" in sys.argv)
    return 0


def install_intel(python: Path) -> None:
    """Install the extra `devmod-opencl[intel]` into an environment, if it is missing."""
    if (python.parent.parent / "lib" / "libintelocl.so").exists():
        return
    report("installing Intel's OpenCL runtime for the tests (275 MB, once)")
    try:
        install(python, ["--editable", f"{ROOT / 'plugins' / 'devmod-opencl'}[intel]"])
    except InstallError as error:
        report(
            f"Intel's OpenCL runtime cannot be installed, so the tests use one OpenCL driver: {last_line(str(error))}"
        )


def provide(runtime: Runtime, *, again: bool = False) -> None:
    """Fetch a runtime if it is missing, and write its stamp: the inputs, the folder of the library,
    and the reason if there is none.

    A failure is not repeated before the inputs change, unless `again`.
    """
    inputs = hashlib.sha256(repr(runtime).encode()).hexdigest()[:16]
    stamp = VENV / f"devmod-{runtime.name}"
    lines = stamp.read_text().split("\n", 2) if stamp.exists() else [""]
    if lines[0] == inputs and (not lines[1] or Path(lines[1]).is_dir()) and not again:
        return
    folder = cache_folder() / runtime.name / inputs
    try:
        if not folder.exists():
            report(
                f"fetching Debian's {runtime.packages[0]} of {runtime.suite} for the tests ({runtime.megabytes} MB, once)"
            )
            fetch(runtime, folder)
        for library in folder.glob(f"{runtime.library}*"):
            refuse_executable_stack(library)
        check(runtime, folder)
    except (InstallError, OSError) as error:
        reason = str(error).strip()
        report(
            f"{runtime.name} cannot be used, so its tests are skipped (tools/vendor_runtimes.py --force tries again): {last_line(reason)}"
        )
        stamp.write_text(f"{inputs}\n\n{reason}")
        return
    stamp.write_text(f"{inputs}\n{folder}\n")


def cache_folder() -> Path:
    """Return the folder of what tests keep in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "devmod-tests"


def fetch(runtime: Runtime, target: Path) -> None:
    """Download the packages with apt, and unpack the folder of the library."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise InstallError(f"{program} is not installed; the packages are Debian's")
    archives = find_archives()
    target.parent.mkdir(parents=True, exist_ok=True)
    failure: InstallError | None = None
    for archive in archives:
        with tempfile.TemporaryDirectory(dir=target.parent) as name:
            try:
                download(runtime, archive, Path(name))
            except InstallError as error:
                failure = failure or error
                continue
            for package in Path(name).glob("*.deb"):
                run(["dpkg-deb", "-x", str(package), f"{name}/files"])
            files = Path(name, "files")
            library = next(files.rglob(runtime.library), None)
            if library is None:
                raise InstallError(f"{runtime.packages[0]} has no {runtime.library}")
            kept = library.parent
            if runtime.name == "aarch64":
                kept = files
            if runtime.name == "nvcc-12":
                kept = library.parent.parent
                complete_toolkit(library.parent, files)
            if runtime.wheels:
                unpack_wheels(runtime, kept / "site")
            shutil.rmtree(target, ignore_errors=True)
            kept.rename(target)
            return
    raise failure or InstallError(
        "apt has no source with the component main, and so no address of Debian's archive"
    )


def complete_toolkit(programs: Path, files: Path) -> None:
    """Put what nvcc needs into the folder of its programs: the others, its settings, and an empty
    library that it links.
    """
    for name in _PROGRAMS:
        (files / "usr" / "bin" / name).rename(programs / name)
    profile = programs / "nvcc.profile"
    profile.unlink()  # a link
    profile.write_text(_PROFILE)
    (programs / "libcudadevrt.a").write_text("!<arch>\n")


def unpack_wheels(runtime: Runtime, folder: Path) -> None:
    """Download wheels for Python 3.11 on Linux, and unpack them into a folder."""
    command = [getattr(sys, "_base_executable", sys.executable), "-m", "pip", "download"]
    command += ["--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.11"]
    machine = "x86_64"
    if runtime.architecture == "arm64":
        machine = "aarch64"
    command += [f"--platform=manylinux_2_{minor}_{machine}" for minor in (5, 17, 27, 28)]
    command.append(f"--platform=manylinux2014_{machine}")
    run([*command, f"--dest={folder}", *runtime.wheels])
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        wheel.unlink()


def find_archives() -> list[str]:
    """Return the addresses of archives in this machine's sources of apt, whatever their form. They
    may be mirrors.

    Suites such as bookworm-updates and bookworm-security have a dash. The archive of the latter has
    no other suites.
    """
    system = platform.freedesktop_os_release().get("ID", "")
    if system != "debian":
        raise InstallError(f"this system is {system or 'unknown'}, and the packages are Debian's")
    lines = run(
        [
            "apt-get",
            "indextargets",
            "--no-release-info",
            "--format",
            "$(REPO_URI) $(RELEASE) $(COMPONENT)",
            "Created-By: Packages",
        ]
    )
    entries = [line.split() for line in lines.splitlines()]
    return list(
        dict.fromkeys(
            uri for uri, suite, component in entries if component == "main" and "-" not in suite
        )
    )


def download(runtime: Runtime, archive: str, folder: Path) -> None:
    """Download the packages into a folder, with a list of packages of its own: nothing of the
    system changes, and root is not needed.
    """
    for name in ("parts", "lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    source = {
        "Types": "deb",
        "URIs": archive,
        "Suites": runtime.suite,
        "Components": runtime.component,
        "Signed-By": KEYRING,
        "Targets": "Packages",
    }
    if runtime.architecture:
        source["Architectures"] = runtime.architecture
    (folder / "parts" / "archive.sources").write_text(
        "".join(f"{name}: {value}\n" for name, value in source.items())
    )
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": folder / "parts",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",  # the user _apt cannot write to a folder in root's cache
        "Acquire::Languages": "none",
    }
    if runtime.architecture:
        settings["APT::Architecture"] = runtime.architecture
        settings["APT::Architectures"] = runtime.architecture
    command = ["apt-get", *(f"-o{name}={value}" for name, value in settings.items())]
    run([*command, "--error-on=any", "update"])
    run([*command, "download", *runtime.packages], folder)


def refuse_executable_stack(library: Path) -> None:
    """Clear the mark of an ELF file that asks for an executable stack.

    Debian's libamdhip64 has it from a file of assembly without a note, and needs none. glibc from
    2.41 on opens no library with it.
    """
    with library.open("r+b") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            return
        (offset,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        for position in range(offset, offset + size * count, size):
            file.seek(position)
            kind, flags = struct.unpack("<II", file.read(8))
            if kind == _PT_GNU_STACK and flags & _EXECUTE:
                file.seek(position + 4)
                file.write(struct.pack("<I", flags & ~_EXECUTE))


def check(runtime: Runtime, folder: Path) -> None:
    """Check that a process can open the library: the system may lack one that it needs."""
    if runtime.name == "aarch64":
        check_system(folder)
        return
    if runtime.name == "nvcc-12":
        run([str(folder / "bin" / "nvcc"), "--version"])
        return
    program = f"import ctypes; ctypes.CDLL({runtime.library!r})"
    run([sys.executable, "-c", program], environment={**os.environ, "LD_LIBRARY_PATH": str(folder)})


def check_system(folder: Path) -> None:
    """Check that qemu runs Debian's Python with NumPy."""
    if shutil.which("qemu-aarch64") is None:
        raise InstallError(
            "qemu-aarch64 is not installed; Debian and Ubuntu: apt-get install qemu-user"
        )
    command = ["qemu-aarch64", "-L", str(folder), str(folder / "usr" / "bin" / "python3.11")]
    environment = os.environ | {"PYTHONPATH": str(folder / "site")}
    run([*command, "-c", "import numpy"], environment=environment)


def run(
    command: list[str], folder: Path | None = None, environment: dict[str, str] | None = None
) -> str:
    """Run a command and return its output, or raise InstallError with the last line of its
    errors.
    """
    environment = {**(environment or os.environ), "LC_ALL": "C"}
    process = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["no message"]
        raise InstallError(
            f"{Path(command[0]).name} failed with exit code {process.returncode}: {lines[-1]}"
        )
    return process.stdout


if __name__ == "__main__":
    raise SystemExit(main())
