"""A stand-in for a vendor's library, such as `libcuda`: building it, and giving it to a child
process or to this one.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import metadata
from pathlib import Path

from devmod_simulators.drivers.build import UnavailableError, arguments, build, compile_library
from devmod_simulators.drivers.driver import PREFIX, StandinDriver

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
    """

    def __init__(
        self,
        soname: str,
        folders: Sequence[Path],
        setting: str,
        command: Sequence[str],
        includes: Callable[[], list[Path]] = list,
    ) -> None:
        self.soname = soname
        self._folders = folders
        self._setting = setting
        self._includes = includes
        self._command = "\x1f".join([sys.executable, *command])

    @cached_property
    def _built(self) -> Path | UnavailableError:
        try:
            return build(self.soname, self._folders, self._includes)
        except UnavailableError as error:
            return error

    def build(self) -> Path:
        """Build the library and return its path.

        Raises
        ------
        UnavailableError
            There is no C compiler, or a header is not installed.
        BuildError
            The library does not compile.
        """
        if isinstance(self._built, UnavailableError):
            raise self._built
        return self._built

    def build_with(self, compiler: Sequence[str], target: Path) -> None:
        """Build the library for a wheel, with the command of a C compiler.

        Raises
        ------
        UnavailableError
            A header is not installed.
        BuildError
            The library does not compile.
        """
        compile_library(
            [*compiler, *arguments(self.soname, self._folders, self._includes())], target
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


def _cuda_headers() -> list[Path]:
    """Return the folder of cuda.h, in the wheel nvidia-cuda-runtime."""
    with suppress(metadata.PackageNotFoundError):
        for file in metadata.files("nvidia-cuda-runtime") or ():
            if file.name == "cuda.h":
                return [Path(str(file.locate())).resolve().parent]
    raise UnavailableError(
        "cuda.h is not installed, which the stand-in CUDA driver needs: pip install nvidia-cuda-runtime"
    )


#: Gives programs PTX where they ask NVIDIA's compilers for a cubin.
cubins = StandinLibrary("libdevmod_cubins.so.1", (_PACKAGE / "shims",), "", ())
#: CUDA's driver: launches of PTX are executed by `devmod_simulators.ptx`.
libcuda = DriverLibrary(
    "libcuda.so.1",
    (COMMON, _DRIVERS / "libcuda"),
    "worker",
    (str(_PACKAGE / "ptx"),),
    _cuda_headers,
)
