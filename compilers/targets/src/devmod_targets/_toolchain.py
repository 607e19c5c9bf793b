"""The description of a kind's build side beside its compiler: what its payloads depend on, and its
smallest kernels.

It is found through `TargetSpec.toolchain`, without an import of the compiler.
"""

from __future__ import annotations

import glob
import os
import re
from pkgutil import resolve_name
from types import MappingProxyType
from typing import NamedTuple

from devmod.backend import environment_text, find_program, find_spec
from devmod.errors import PluginError
from devmod_targets._executables import cache_for_build, libraries_of, package_folders
from devmod_targets._text import header_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The shared libraries of clang.
_LIBRARIES = r"lib(?:LLVM|clang-cpp|lld).*\.(?:so|dylib)"


class SmallKernel(NamedTuple):
    """The source of a kernel ``f(x: float32*)`` that writes 1 to the first element.

    Attributes
    ----------
    file
        Its file in the package of the toolchain. The suffix is that of its language.
    options
        The options of its target.
    """

    file: str
    options: str = ""


class Clang(NamedTuple):
    """The headers of a kind that devmod compiles with the clang of the wheel ziglang, of an option
    or of a variable. They are in the folder ``headers`` of the toolchain's package.

    Attributes
    ----------
    first
        Those that clang includes before each source.
    folders
        Returns the folders of further headers.
    """

    first: tuple[str, ...] = ()
    folders: Callable[[], Sequence[str]] = tuple


class Toolchain(NamedTuple):
    """What the payloads of a kind depend on beside devmod itself, and its smallest kernels.

    Attributes
    ----------
    package
        The package with the files.
    kernel
        The kernel whose compile shows that the compiler works.
    portable
        The kernel whose payload runs on each device of the kind. Its bytes are the file
        ``small_kernel.module`` of the kind's runtime. Default: `kernel`.
    entries
        The pattern of a source with a kernel, by suffix. A file without a match is a header.
    ambiguous
        The suffixes of which most files contain no kernel. `devmod init` finds them only if a kind
        is named.
    declared
        The suffixes of sources whose functions a manifest must declare, such as binaries of other
        builds. `devmod init` does not find them.
    local
        The word before a parameter of local memory, whose size is not part of a source, by suffix.
    wheels
        The wheels of the compiler, as pip writes their names.
    programs
        The programs in PATH.
    files
        ``f(options)``: the further files.
    versions
        ``f(target)``: further versions, each a line; None if they are unknown.
    clang
        Its headers, for a kind that clang compiles.
    subgroup
        The size of all subgroups; None if it differs.
    requires_subgroups
        Whether a size of subgroups can be required that the source does not contain.
    subgroup_hint
        Why it cannot, and what to do. ``{}`` is the size.
    has_shared_memory
        Whether kernels have dynamic shared memory.
    is_embedded
        Whether the compiler gets a text that contains the includes. A name in it leads to no file
        of the user.
    """

    package: str
    kernel: SmallKernel
    portable: SmallKernel | None = None
    entries: Mapping[str, str] = MappingProxyType({})
    ambiguous: Sequence[str] = ()
    declared: Sequence[str] = ()
    local: Mapping[str, str] = MappingProxyType({})
    wheels: Sequence[str] = ()
    programs: Sequence[str] = ()
    files: Callable[[Sequence[str]], Sequence[str]] = lambda _: ()
    versions: Callable[[str], Sequence[str] | None] = lambda _: ()
    clang: Clang | None = None
    subgroup: int | None = None
    requires_subgroups: bool = False
    subgroup_hint: str = ""
    has_shared_memory: bool = False
    is_embedded: bool = False

    def source(self, kernel: SmallKernel) -> str:
        """Return the text of a kernel."""
        return header_text(self.package, kernel.file)


def find_toolchain(kind: str) -> Toolchain | None:
    """Return the toolchain that the spec of a kind names; None if there is none.

    Raises
    ------
    PluginError
        It cannot be imported, or is no `Toolchain`.
    """
    spec = find_spec(kind)
    if spec is None or not spec.toolchain:
        return None
    try:
        toolchain = resolve_name(spec.toolchain)
        if not isinstance(toolchain, Toolchain):
            raise TypeError(f"expected a Toolchain, got {type(toolchain).__name__}")
    except Exception as error:
        raise PluginError(
            f"the toolchain of the target {kind!r} ({spec.toolchain}) is broken: {type(error).__name__}: {error}",
            kind=kind,
            key=f"devmod.targets.{kind}",
        ) from error
    return toolchain


def option_value(options: Sequence[str], prefix: str) -> str:
    """Return the value of the last option with a prefix; "" without one."""
    for option in reversed(options):
        if option.startswith(prefix):
            return option.removeprefix(prefix)
    return ""


def _named_clang(options: Sequence[str]) -> str:
    """Return the path of the clang that the user names, or the name if there is none; "" for that
    of the wheel ziglang.
    """
    name = option_value(options, "-toolchain=") or environment_text("DEVMOD_CLANG")
    return find_program(name) or name


def clang_files(options: Sequence[str]) -> list[str]:
    """Return the files of the clang that the user names, and of the linkers beside it."""
    clang = _named_clang(options)
    if not os.path.isfile(clang):
        return []
    result = [clang]
    for folder in dict.fromkeys((os.path.dirname(clang), os.path.dirname(os.path.realpath(clang)))):
        for each in ("ld.lld", "lld"):
            file = find_program(os.path.join(folder, each))
            if file:
                result.append(file)
    return result + libraries_of(result, _LIBRARIES)


@cache_for_build
def clang_headers(options: tuple[str, ...]) -> str:
    """Return the folder of the headers of a job's clang; "" if it is unknown."""
    clang = _named_clang(options)
    if not clang:
        folders = [os.path.join(each, "lib", "include") for each in package_folders("ziglang")]
    else:
        clang = os.path.realpath(clang)
        number = re.search(r"-(\d+)", os.path.basename(clang))
        version = f"{number[1]}*" if number else "*"
        root = glob.escape(os.path.dirname(os.path.dirname(clang)))
        folders = glob.glob(os.path.join(root, "lib*", "clang", version, "include"))
    if len(folders) == 1 and os.path.isdir(folders[0]):
        return folders[0]
    return ""
