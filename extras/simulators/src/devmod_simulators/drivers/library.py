"""A stand-in for a vendor's library, such as `libcuda`: building it, and giving it to a child
process or to this one.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import metadata
from pathlib import Path

from devmod_simulators.drivers.build import UnavailableError, arguments, build, compile_library
from devmod_simulators.drivers.driver import PREFIX, StandinDriver
from devmod_simulators.drivers.generated import driver_files, runtime_files

_DRIVERS = Path(__file__).resolve().parent
#: What the drivers of all vendors share.
COMMON = _DRIVERS / "common"
_PACKAGE = _DRIVERS.parent


class StandinLibrary:
    """A shared library with the functions of a vendor's. A process of its own does the work that
    needs a compiler or a device.

    Parameters
    ----------
    soname
        The name by which programs load the library.
    folders
        The folders of its C files.
    setting
        The setting that has the command of its process.
    command
        The arguments of this Python for that process.
    includes
        A function that returns the folders of the headers that it needs, or raises
        UnavailableError.
    needs
        The stand-ins whose functions it calls.
    generate
        A function that returns files to include, by their names, from the folders of headers.
    options
        More options of the compiler.
    """

    def __init__(
        self,
        soname: str,
        folders: Sequence[Path],
        setting: str,
        command: Sequence[str],
        includes: Callable[[], list[Path]] = list,
        needs: Sequence[StandinLibrary] = (),
        generate: Callable[[Sequence[Path]], Mapping[str, str]] = lambda _: {},
        options: Sequence[str] = (),
    ) -> None:
        self.soname = soname
        self._folders = folders
        self._setting = setting
        self._includes = includes
        self._needs = needs
        self._generate = generate
        self._options = options
        self._command = "\x1f".join([sys.executable, *command])

    @cached_property
    def _built(self) -> Path:
        needs = [each.build() for each in self._needs]
        return build(
            self.soname, self._folders, self._includes, needs, self._generate, self._options
        )

    def build(self) -> Path:
        """Build the library and return its path.

        Raises
        ------
        UnavailableError
            There is no C compiler, or a header is not installed.
        BuildError
            The library does not compile.
        """
        return self._built

    def build_with(self, compiler: Sequence[str], target: Path) -> None:
        """Build the library for a wheel, with the command of a C compiler. The libraries that it
        needs are in the same folder.

        Raises
        ------
        UnavailableError
            A header is not installed.
        BuildError
            The library does not compile.
        """
        needs = [target.parent / each.soname for each in self._needs]
        headers = self._includes()
        words = arguments(self.soname, self._folders, headers, needs, "$ORIGIN")
        compile_library(
            [*compiler, *words, *self._options], target, self._folders, self._generate(headers)
        )

    def environment(self, **settings: object) -> dict[str, str]:
        """Return the environment variables by which a child process finds the library, with
        settings such as ``devices=2``.

        Raises
        ------
        UnavailableError
            As for `build`.
        """
        paths = [str(self.build().parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        values = {self._setting: self._command, **settings}
        return {
            "LD_LIBRARY_PATH": os.pathsep.join(paths),
            **{PREFIX + name.upper(): str(value) for name, value in values.items()},
        }


class DriverLibrary(StandinLibrary):
    """A stand-in driver, with devices, memory and streams. A worker process executes kernels."""

    @cached_property
    def _loaded(self) -> StandinDriver:
        driver = StandinDriver(self.build())
        driver.set_always(self._setting, self._command)
        return driver

    @property
    def is_taken(self) -> bool:
        """Whether this process has loaded another library of this soname."""
        with suppress(OSError):
            return not hasattr(ctypes.CDLL(self.soname, mode=os.RTLD_NOLOAD), "standin_report")
        return False

    def load(self) -> StandinDriver:
        """Load the driver into this process, with the first call, and return it. It has no devices
        until `StandinDriver.show`.

        Libraries that load a driver by this soname later get this one.

        Raises
        ------
        UnavailableError
            As for `build`.
        """
        return self._loaded


def _headers(distribution: str, name: str, library: str) -> list[Path]:
    """Return the folder of a header in a wheel of NVIDIA's."""
    with suppress(metadata.PackageNotFoundError):
        for file in metadata.files(distribution) or ():
            if file.name == name:
                return [Path(str(file.locate())).resolve().parent]
    raise UnavailableError(
        f"{name} is not installed, which {library} needs: pip install {distribution}"
    )


def _runtime_headers(major: int) -> list[Path]:
    """Return the folders of the headers of a CUDA runtime. Their folder `crt` is in a wheel of its
    own; that of CUDA 13 has the macros for both.
    """
    library = f"the stand-in CUDA runtime {major}"
    distribution = "nvidia-cuda-runtime-cu12" if major == 12 else "nvidia-cuda-runtime"
    (crt,) = _headers("nvidia-cuda-crt", "host_defines.h", library)
    return [*_headers(distribution, "cuda_runtime_api.h", library), crt.parent]


def _runtime(major: int) -> StandinLibrary:
    folder = _DRIVERS / "libcudart"
    return StandinLibrary(
        f"libcudart.so.{major}",
        (folder, folder / f"cuda{major}"),
        "",
        (),
        lambda: _runtime_headers(major),
        (libcuda,),
        runtime_files,
    )


#: Gives programs PTX where they ask NVIDIA's compilers for a cubin.
cubins = StandinLibrary("libdevmod_cubins.so.1", (_PACKAGE / "shims",), "", ())
#: What kernels that LLVM compiles share.
engine = StandinLibrary(
    "libdevmod_engine.so.1",
    (_PACKAGE / "ptx" / "compiled",),
    "",
    (),
    options=("-O3", "-ffp-contract=off"),
)
#: CUDA's driver: launches of PTX are executed by `devmod_simulators.ptx`.
libcuda = DriverLibrary(
    "libcuda.so.1",
    (COMMON, _DRIVERS / "libcuda"),
    "worker",
    (str(_PACKAGE / "ptx"),),
    lambda: _headers("nvidia-cuda-runtime", "cuda.h", "the stand-in CUDA driver"),
    generate=driver_files,
)
#: CUDA's runtime, of two versions, over the functions of the driver.
libcudart12 = _runtime(12)
libcudart13 = _runtime(13)
