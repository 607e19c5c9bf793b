"""What a machine with a GPU and without a network needs for devmod's tests: `cuda_machine.py
wheels` fetches it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from build_pycuda import wheel_for
from environments import InstallError
from pythons import find

#: The largest folder, which travels with the source tree in 64 MiB. Larger wheels are cut into
#: parts.
PART = 42 << 20
#: What the tests and benchmarks import, beside devmod's own wheels. CuPy is too large for most
#: lines; give its wheel beforehand.
PACKAGES = (
    "backports.zstd; python_version < '3.14'",
    "click",
    "cuda-bindings",
    "cuda-core",
    "filelock",
    "hatchling",
    "hypothesis",
    "importlib-metadata",
    "libclang",
    "ml_dtypes",
    "msgpack",
    "numpy",
    "pillow",
    "pluggy",
    "pyopencl",
    "pytest",
    "pytest-xdist",
    "pytools",
    "rich",
    "typing-extensions",
    "vulkan",
    "wgpu",
)
#: NVIDIA's wheels of one toolkit: NVRTC refuses headers of another version.
TOOLKIT = (
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime",
    "nvidia-cuda-crt",
    "nvidia-cuda-cccl",
    "nvidia-nvfatbin",
    "nvidia-cuda-sanitizer-api",
)
#: Since CUDA 13.3 this one has the number of CCCL behind that of CUDA: 13.3.5.0 is CCCL 3.5.0, for
#: CUDA 13.5.
_CCCL = "nvidia-cuda-cccl"
_CCCL_SINCE = 3
_CCCL_MAJOR = 3
#: The wheels of this repository that the machine needs.
OWN = (
    "devmod_core",
    "devmod_readers",
    "devmod_wgsl",
    "devmod_driver_api",
    "devmod_targets",
    "devmod_conformance",
    "devmod_runtime",
    "devmod_cuda",
    "devmod_opencl",
    "devmod_vulkan",
    "devmod_webgpu",
)
#: Debian's packages of programs and of the Vulkan loader. They need the C and C++ libraries alone.
DEBIAN = ("libvulkan1", "glslang-tools", "spirv-tools")
_PLATFORMS = (
    "manylinux2014",
    "manylinux_2_17",
    "manylinux_2_24",
    "manylinux_2_25",
    "manylinux_2_27",
    "manylinux_2_28",
    "manylinux_2_34",
    "manylinux_2_35",
)


def fetch(folder: Path, version: str, installed: Mapping[str, str] | None = None) -> None:
    """Fetch the wheels for a version of Python into folders 1, 2, … of `folder`, with those of this
    repository and of pycuda.

    Parameters
    ----------
    folder
        The folder, whose contents are removed first.
    version
        The machine's Python, such as "3.12".
    installed
        The distributions that the machine has, with their versions or "": they are left out, and
        NVIDIA's wheels are those of the machine's NVRTC. None for a complete environment.

    Raises
    ------
    InstallError
        A wheel cannot be downloaded or built.
    """
    import wheels

    shutil.rmtree(folder, ignore_errors=True)
    downloads = folder / "downloads"
    downloads.mkdir(parents=True)
    try:
        _download(downloads, version, _requirements(installed or {}, version))
        own = [path for path in wheels.build(folder / "own") if path.name.startswith(OWN)]
        files = [*downloads.glob("*.whl"), *own, *_pycuda(version), *_debian(downloads)]
        for number, size in enumerate(_pack(folder, files), 1):
            print(f"{folder / str(number)}: {size / (1 << 20):.1f} MiB")
    finally:
        shutil.rmtree(downloads)
        shutil.rmtree(folder / "own", ignore_errors=True)


def read_installed(path: Path) -> dict[str, str]:
    """Read a list of distributions as ``pip list --format=freeze`` prints it. A line may lack the
    version.
    """
    versions: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, version = line.strip().partition("==")
        if name and not name.startswith("#"):
            versions[canonicalize_name(name)] = version
    return versions


def _requirements(installed: Mapping[str, str], python: str) -> list[str]:
    """Return the distributions that the machine's Python lacks: in the versions of this
    environment, and NVIDIA's in the version of the machine's NVRTC.
    """
    results = [
        requirement
        for name, requirement in sorted(_closure(PACKAGES, python).items())
        if name not in installed
    ]
    toolkit = installed.get(TOOLKIT[0]) or metadata.version(TOOLKIT[0])
    major, minor, *_ = toolkit.split(".")
    for name in TOOLKIT:
        if name in installed:
            continue
        number = f"{major}.{minor}"
        if name == _CCCL and int(minor) >= _CCCL_SINCE:
            number = f"{major}.{_CCCL_MAJOR}.{minor}"
        results.append(f"{name}=={number}.*")
    return results


def _closure(names: Iterable[str], python: str) -> dict[str, str]:
    """Return distributions and all that they depend on with the machine's Python, as requirements
    of their versions in this environment.
    """
    machine = {"extra": "", "python_version": python, "python_full_version": f"{python}.0"}
    requirements: dict[str, str] = {}
    queue = [Requirement(name) for name in names]
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        if name in requirements:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate(machine):
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            requirements[name] = name  # the Python of this environment does not need it
            continue
        requirements[name] = f"{name}=={distribution.version}"
        queue += map(Requirement, distribution.requires or ())
    return requirements


def _download(folder: Path, version: str, requirements: Iterable[str]) -> None:
    platforms = [f"--platform={tag}_x86_64" for tag in _PLATFORMS]
    options = [
        "--no-deps",
        "--only-binary=:all:",
        f"--python-version={version}",
        "--implementation=cp",
        *platforms,
    ]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--dest",
        str(folder),
        *options,
        *requirements,
    ]
    if subprocess.run(command, check=False).returncode:
        raise InstallError("pip could not download the wheels")


def _pycuda(version: str) -> list[Path]:
    """Return pycuda's wheel; an empty list if it cannot be built here."""
    major, _, minor = version.partition(".")
    python = find().get((int(major), int(minor)))
    try:
        if python is None:
            raise InstallError(f"there is no Python {version} on this machine to build it")
        return [wheel_for(python)]
    except InstallError as error:
        print(f"no wheel of pycuda, so its tests will be skipped: {error}")
        return []


def _debian(folder: Path) -> list[Path]:
    """Return Debian's packages for the suites of Vulkan and WebGPU; an empty list where apt-get
    cannot download them.
    """
    if shutil.which("apt-get"):
        subprocess.run(
            ["apt-get", "download", *DEBIAN], cwd=folder, capture_output=True, check=False
        )
    packages = list(folder.glob("*.deb"))
    if len(packages) < len(DEBIAN):
        print(
            f"apt-get could not download {', '.join(DEBIAN)}: without them on the machine, tests of Vulkan and WebGPU are skipped"
        )
    return packages


def _pack(folder: Path, files: Iterable[Path]) -> list[int]:
    """Copy files into folders of at most `PART` bytes, in parts where necessary; return the sizes
    of the folders.
    """
    sizes = [0]
    for path in sorted(files, key=lambda path: -path.stat().st_size):
        data = path.read_bytes()
        parts = [data[start : start + PART] for start in range(0, len(data), PART)]
        for index, part in enumerate(parts):
            number = next(
                (each for each, size in enumerate(sizes) if size + len(part) <= PART), len(sizes)
            )
            if number == len(sizes):
                sizes.append(0)
            sizes[number] += len(part)
            target = folder / str(number + 1)
            target.mkdir(exist_ok=True)
            (
                target
                / (f"{path.name}.part{index:02}of{len(parts):02}" if len(parts) > 1 else path.name)
            ).write_bytes(part)
    return sizes
