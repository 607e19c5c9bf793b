"""The manifest: kernels, targets and settings, read from ``devmod.toml`` or from ``[tool.devmod]`` of a pyproject.toml."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from typing import Any

from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MANIFEST_NAME = "devmod.toml"
_PYPROJECT = "pyproject.toml"

Define = str | int | float | bool
#: The threads of a block by function; "" is all functions.
Blocks = tuple[tuple[str, tuple[int, ...]], ...]
#: The default sizes of local memory: function ("" for the one with the parameter), parameter, bytes, and whether they are per thread.
Locals = tuple[tuple[str, str, int, bool], ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A source file: its path relative to the manifest's folder, its language ("" for that of its suffix), and its name ("" for the default)."""

    path: str
    language: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """The settings of one table: of the manifest, of a kernel, or of a target in one of them.

    `sources` is None where the table has no such key. `target` is the key of a target's table, and "" elsewhere.
    """

    target: str = ""
    sources: tuple[Source, ...] | None = None
    language: str = ""
    name: str = ""
    options: tuple[str, ...] = ()
    defines: tuple[tuple[str, Define], ...] = ()
    include: tuple[str, ...] = ()
    name_expressions: tuple[str, ...] = ()
    functions: tuple[tuple[str, str], ...] = ()
    block: Blocks = ()
    local: Locals = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its settings, and those of its targets.

    `targets` replaces the targets of the manifest, unless it is empty. `skip` has the kinds that the kernel leaves out.
    """

    name: str
    section: Section
    target_sections: tuple[Section, ...] = ()
    targets: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConstantsFile:
    """A file of constants. `name` renames the array of a .npy file. `names` chooses arrays of the other files; () is all of them."""

    path: str
    name: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of the bundle: the files, and the functions that return them, each with the names in order."""

    files: tuple[ConstantsFile, ...] = ()
    functions: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest that `read_manifest` has checked. Paths in it are relative to `folder`, with slashes.

    Parameters
    ----------
    path
        The file, as the caller named it.
    folder
        The absolute path of its folder.
    output
        The bundle to write.
    targets
        The targets, each as in the file.
    kernels
        The kernels in the order of the file.
    section, target_sections
        The settings for all kernels, and those for all kernels of a target.
    constants
        The constants of the bundle.
    mixed, with_sources, compress
        The settings of `devmod.bundle` and `devmod.save`; `compress` is "" or "zstd".
    lines
        The line of each key, by the path of keys to it.
    """

    path: str
    folder: str
    output: str
    targets: tuple[str, ...]
    kernels: tuple[Kernel, ...]
    section: Section = Section()
    target_sections: tuple[Section, ...] = ()
    constants: Constants = Constants()
    mixed: bool = False
    with_sources: bool = False
    compress: str = ""
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict, compare=False, repr=False)


def read_manifest(path: str | os.PathLike[str] = ".") -> Manifest:
    """Read and check a manifest.

    Parameters
    ----------
    path
        The file; or a folder with a ``devmod.toml``, or with a pyproject.toml that has ``[tool.devmod]``.

    Raises
    ------
    FormatError
        The manifest has mistakes. The message has the file, the line and the key of each.
    FileNotFoundError
        There is no such file.
    """
    name = os.fsdecode(path)
    if os.path.isdir(name):
        name = os.path.join(name, MANIFEST_NAME) if name != "." else MANIFEST_NAME
        if not os.path.exists(name):
            name = os.path.join(os.path.dirname(name), _PYPROJECT)
    with open(name, "rb") as file:
        try:
            data = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise FormatError(f"{name}: invalid TOML: {error}") from None
    if os.path.basename(name) == _PYPROJECT:
        data = data.get("tool", {}).get("devmod", {})
    return Manifest(
        path=name,
        folder=os.path.dirname(os.path.abspath(name)),
        output=data.get("output", "kernels.devmod"),
        targets=tuple(data["targets"]),
        kernels=tuple(_kernel(key, table) for key, table in data.get("kernels", {}).items()),
        section=_section(data),
        target_sections=_target_sections(data),
        constants=_constants(data.get("constants", {})),
        mixed=data.get("mixed", False),
        with_sources=data.get("with_sources", False),
        compress=data.get("compress", ""),
    )


def _kernel(name: str, table: dict[str, Any]) -> Kernel:
    return Kernel(name, _section(table), _target_sections(table), tuple(table.get("targets", ())), tuple(table.get("skip", ())))


def _target_sections(table: dict[str, Any]) -> tuple[Section, ...]:
    return tuple(_section(section, key) for key, section in table.get("target", {}).items())


def _section(table: dict[str, Any], target: str = "") -> Section:
    import json

    return Section(
        target=target,
        sources=tuple(Source(each) if isinstance(each, str) else Source(**each) for each in table["sources"])
        if "sources" in table
        else None,
        language=table.get("language", ""),
        name=table.get("name", ""),
        options=tuple(table.get("options", ())),
        defines=tuple(table.get("defines", {}).items()),
        include=tuple(table.get("include", ())),
        name_expressions=tuple(table.get("name_expressions", ())),
        functions=tuple((key, json.dumps(info)) for key, info in table.get("functions", {}).items()),
        block=_blocks(table["block"]) if "block" in table else (),
        local=tuple(_locals(table.get("local", {}))),
    )


def _blocks(value: Any) -> Blocks:
    if isinstance(value, dict):
        return tuple((key, _dims(dims)) for key, dims in value.items())
    return (("", _dims(value)),)


def _dims(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def _locals(table: dict[str, Any], function: str = "") -> Any:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _locals(value, key)
        else:
            size, _, unit = str(value).partition("/")
            yield function, key, int(size), unit == "thread"


def _constants(table: dict[str, Any]) -> Constants:
    files = [ConstantsFile(each) if isinstance(each, str) else ConstantsFile(**each) for each in table.get("files", ())]
    return Constants(tuple(files), tuple((key, tuple(names)) for key, names in table.get("functions", {}).items()))
