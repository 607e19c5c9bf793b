"""The values of a manifest. `devmod_targets.build.read_manifest` makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from devmod_targets.build.options import CompileOptions, Strings


class Source(NamedTuple):
    """A source file: its path, its language ("" for that of its suffix), and its name ("" for the
    default).
    """

    path: str
    language: str = ""
    name: str = ""


@dataclass(frozen=True)
class Section(CompileOptions):
    """The settings of one table: of the manifest, of a kernel, or of a target in one of them.

    `sources` is None where the table has no such key. `target` is the key of a target's table, and
    "" elsewhere.
    """

    target: str = ""
    sources: tuple[Source, ...] | None = None


# Where to change: a key of a manifest's kernel
#   here: an option of the compiler is in `options.py` beside this file; any other is read by
#     `read.py` there (`read_kernel`), and its schema is in `schema_frame.json` there
#   also: `compilers/targets/src/devmod_targets/build/matrix.py` and `checks.py` there, if it
#     chooses among targets; `docs/manifest.md`
#   tests: `compilers/targets/tests/test_manifest_schema.py`
class KernelEntry(NamedTuple):
    """A kernel: its settings, and those of its targets.

    `targets` replaces the targets of the manifest, unless it is empty. `skip` has the kinds that
    the kernel leaves out.
    """

    name: str
    section: Section
    target_sections: tuple[Section, ...] = ()
    targets: Strings = ()
    skip: Strings = ()


class ConstantsFile(NamedTuple):
    """A file of constants. `name` renames the array of a .npy file. `names` chooses arrays of the
    other files; () is all of them.
    """

    path: str
    name: str = ""
    names: Strings = ()


class Constants(NamedTuple):
    """The constants of the bundle: the files, and the functions that return them, each with the
    names in order.
    """

    files: tuple[ConstantsFile, ...] = ()
    functions: tuple[tuple[str, Strings], ...] = ()


class ProgramEntry(NamedTuple):
    """A program: its steps (texts and `devmod_targets._program_text.Repeated`), its declarations
    and requirements by their key, and the name of the program of the gradients.
    """

    name: str
    steps: tuple[Any, ...]
    declared: tuple[tuple[str, Strings], ...]
    backward: str = ""


# Where to change: a key of the manifest itself, such as `compress`
#   here: `read.py` there (`manifest_of`) reads it, `schema_frame.json` there has its schema, and
#     `build.py` there (`record_of`) the settings of which an output is a result; `docs/manifest.md`
#   tests: `compilers/targets/tests/test_manifest_schema.py`,
#     `compilers/targets/tests/test_build_stale.py`
class Manifest(NamedTuple):
    """A manifest that `read_manifest` has checked. Paths in it are relative to `folder`, with
    slashes.

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
    programs
        The programs in the order of the file.
    mixed, with_sources, compress
        The settings of `devmod.bundle` and `devmod.save`; `compress` is "" for none.
    strict
        Whether all kernels are compiled with the option ``--strict``.
    tune_records
        The files with tuning records for the bundle.
    triton_records
        The records of Triton's kernels for the bundle.
    """

    path: str
    folder: str
    output: str
    targets: Strings
    kernels: tuple[KernelEntry, ...]
    section: Section = Section()
    target_sections: tuple[Section, ...] = ()
    constants: Constants = Constants()
    programs: tuple[ProgramEntry, ...] = ()
    mixed: bool = False
    with_sources: bool = False
    compress: str = ""
    strict: bool = False
    tune_records: Strings = ()
    triton_records: Strings = ()
