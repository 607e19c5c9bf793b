"""What `devmod simulate` does for nvcc and CMake: programs are linked with the simulated CUDA
runtime, and have PTX.
"""

from __future__ import annotations

import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

from devmod.backend import find_program, program_cache
from devmod_simulators.drivers.build import UnavailableError
from devmod_simulators.drivers.library import libcuda, libcudart12, libcudart13

#: The folder of the simulators in the cache folder.
KIND = "simulator"
_SCRIPT = Path(__file__).resolve().parent / "shims" / "nvcc"
_USUAL = Path("/usr/local/cuda/bin/nvcc")


def find_nvcc() -> str:
    """Return the path of nvcc: that of PATH, of NVIDIA's wheels in this environment, or of the
    usual folder. "" if there is none.
    """
    found = find_program("nvcc")
    if found:
        return found
    for path in _files_of_wheels("*/bin/nvcc"):
        return str(path)
    if _USUAL.exists():
        return str(_USUAL)
    return ""


def _files_of_wheels(pattern: str) -> list[Path]:
    """Return the files of NVIDIA's wheels in this environment, the newest version first."""
    spec = find_spec("nvidia")
    found: list[Path] = []
    if spec is not None and spec.submodule_search_locations is not None:
        for folder in spec.submodule_search_locations:
            found += sorted(Path(folder).glob(pattern), reverse=True)
    return found


def variables(library_path: str) -> dict[str, str]:
    """Return the environment variables that nvcc, CMake and their programs need.

    Parameters
    ----------
    library_path
        LD_LIBRARY_PATH, which the folders of the simulated CUDA runtimes precede.
    """
    values = {
        "LD_LIBRARY_PATH": library_path_of_programs(library_path),
        "DEVMOD_STANDIN_NVCC": str(_SCRIPT),
    }
    runtimes = _runtimes()
    nvcc = find_nvcc()
    version = _major_version(nvcc) if nvcc else max(runtimes, default="")
    runtime = runtimes.get(version)
    folder = _link_folder(version, runtime)
    # Programs that load libraries at run time look for names without a version too.
    values["LD_LIBRARY_PATH"] = os.pathsep.join([folder, values["LD_LIBRARY_PATH"]])
    if not nvcc:
        return values
    if not find_program("nvcc"):
        path = os.environ.get("PATH", os.defpath)
        values["PATH"] = os.pathsep.join([path, os.path.dirname(nvcc)])
    if runtime is None:
        return values
    # nvcc splits the variable at spaces, and reads quotes.
    flags = [os.environ.get("NVCC_APPEND_FLAGS", ""), f'--cudart shared -L "{folder}"']
    values["NVCC_APPEND_FLAGS"] = " ".join(filter(None, flags))
    paths = [folder, os.environ.get("CMAKE_LIBRARY_PATH", "")]
    values["CMAKE_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    return values


def library_path_of_programs(library_path: str) -> str:
    """Return LD_LIBRARY_PATH with the folders of the simulated CUDA runtimes before the others."""
    folders = [str(path.parent) for path in _runtimes().values()]
    return os.pathsep.join(dict.fromkeys([*folders, *library_path.split(os.pathsep)]))


def _runtimes() -> dict[str, Path]:
    """Return the paths of the simulated CUDA runtimes by their major versions."""
    found = {}
    for library in (libcudart12, libcudart13):
        try:
            path = library.build()
        except UnavailableError:  # a source tree without the headers of this version
            continue
        found[path.name.rpartition(".")[2]] = path
    return found


def _major_version(nvcc: str) -> str:
    done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"release (\d+)\.", done.stdout)
    if match is None:
        return ""
    return match[1]


def _link_folder(version: str, runtime: Path | None) -> str:
    """Return a folder with the names by which linkers, CMake and programs look for NVIDIA's
    libraries, of a major version and its runtime, if there is one.

    The static runtime is the shared one too: a linker looks at what a file contains.
    """
    folder = Path(program_cache(KIND, f"links{version}"))
    targets = {"libcuda.so": libcuda.build()}
    if runtime is not None:
        targets["libcudart.so"] = runtime
        targets["libcudart_static.a"] = runtime
    for nvrtc in _files_of_wheels(f"*/lib/libnvrtc.so.{version}")[:1]:
        targets["libnvrtc.so"] = nvrtc
        # It loads its part of a name with the whole version by itself.
        for each in nvrtc.parent.glob(f"libnvrtc*.so.{version}*"):
            targets[each.name] = each
    for name, target in targets.items():
        link = folder / name
        if link.is_symlink() and link.readlink() == target:
            continue
        # Other processes may use the folder.
        temporary = folder / f"{name}.{os.getpid()}"
        temporary.symlink_to(target)
        temporary.replace(link)
    return str(folder)
