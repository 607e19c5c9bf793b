"""What the payloads of Hexagon depend on, and its smallest kernel."""

from __future__ import annotations

from devmod_targets._executables import cache_for_build, library_folders, package_folders
from devmod_targets._toolchain import Clang, SmallKernel, Toolchain


@cache_for_build
def _library_headers() -> tuple[str, ...]:
    """Return the folders of the headers of C and C++; () if they are not installed."""
    for folder in package_folders("ziglang"):
        of_c, of_cpp = library_folders(folder, "hexagon")
        return (*of_cpp, *of_c)
    return ()


TOOLCHAIN = Toolchain(
    __package__,
    SmallKernel("small_kernel.c", "-arch=v65"),
    ambiguous=("c", "cpp", "ll", "bc", "s", "o"),
    wheels=("libclang", "ziglang"),
    clang=Clang(folders=_library_headers),
)
