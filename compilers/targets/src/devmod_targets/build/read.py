"""Read and check a manifest."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from typing import Any

from devmod.backend import COMPRESS_LEVELS
from devmod.plugins import shared_scan
from devmod_targets.build.checks import Checks
from devmod_targets.build.document import Document, ManifestError, read_document
from devmod_targets.build.manifest import (
    Constants,
    ConstantsFile,
    KernelEntry,
    Manifest,
    ProgramEntry,
    Section,
    Source,
)
from devmod_targets.build.options import OPTIONS, Strings, key_of, read_options
from devmod_targets.build.tables import Table, check_path, describe

#: Keys of a kernel that are not for all kernels.
_KERNEL_KEYS = ("sources", *(key_of(name) for name, each in OPTIONS.items() if not each.per_kind))
#: Likely mistakes at the top of a manifest, each with the end of the message about an unknown key.
_HINTS = {
    "kernel": ". Did you mean 'kernels', as in [kernels.twice]?",
    **dict.fromkeys(_KERNEL_KEYS, "; it belongs to one kernel: [kernels.NAME]"),
    "tool": ". Only a pyproject.toml has [tool.devmod]; in this file its keys are at the top",
}
#: The suffixes of files with constants.
CONSTANTS_SUFFIXES = (".npy", ".npz", ".safetensors")

#: The keys with the texts of a program, each with an example.
_PROGRAM_TEXTS = {
    "inputs": '["x: float32[n]"]',
    "outputs": '["y: float32[n]"]',
    "updates": '["x: float32[n]"]',
    "temporaries": '["sums: float32[n] = 0"]',
    "constants": '["w: float32[n]"]',
    "states": '["cache: float32[128, 64] = 0"]',
    "samplers": '["linear: linear clamp"]',
    "requires": '["n % 4 == 0"]',
}

#: Likely mistakes in the name of a key, each with the end of the message about an unknown key.
_SECTION_HINTS = {
    "source": ". Did you mean 'sources'?",
    "files": ". Did you mean 'sources'?",
    "target": ". Did you mean 'targets'?",
    "flags": ". Did you mean 'options'?",
    "args": ". Did you mean 'options', or the table 'functions'?",
    "arguments": ". Did you mean the table 'functions', which declares the arguments of a function?",
    "fmap": ". Did you mean the table 'functions'?",
    "alias": ". Did you mean 'aliases'?",
    "includes": ". Did you mean 'include'?",
    "include_dirs": ". Did you mean 'include'?",
    "macros": ". Did you mean 'defines'?",
    "werror": """. To make each warning an error: options = ["--werror"]""",
}


def read_manifest(path: str | os.PathLike[str] = ".") -> Manifest:
    """Read and check a manifest.

    Parameters
    ----------
    path
        The file; or a folder with a ``devmod.toml``, or with a pyproject.toml that has
        ``[tool.devmod]``.

    Raises
    ------
    ManifestError
        The manifest has mistakes. The message has the file, the line and the key of each. It is a
        FormatError.
    FileNotFoundError
        There is no such file, or the folder has no manifest.
    """
    return manifest_of(read_document(path))


def manifest_of(document: Document) -> Manifest:
    """Return the manifest of a document. The errors are those of `read_manifest`."""
    table = Table(document.data, (), document)
    manifest = Manifest(
        path=document.path,
        folder=os.path.dirname(os.path.abspath(document.path)),
        output=_output(table),
        targets=_targets(table),
        kernels=tuple(
            read_kernel(name, kernel)
            for name, kernel in table.tables("kernels", "kernels, such as [kernels.twice]")
        ),
        section=_section(table, in_kernel=False),
        target_sections=tuple(read_target_tables(table, in_kernel=False)),
        constants=_constants(table),
        programs=tuple(_programs(table)),
        mixed=table.boolean("mixed"),
        with_sources=table.boolean("with_sources"),
        compress=_compress(table),
        strict=table.boolean("strict"),
        tune_records=_records(table, "tune_records"),
        triton_records=_records(table, "triton_records"),
    )
    table.check_keys(_HINTS)
    has_content = manifest.kernels or manifest.constants.files or manifest.triton_records
    if not has_content and not document.problems:
        table.add(
            "the manifest has no kernels; a kernel is a table such as [kernels.twice] with sources",
            "kernels",
        )
    with shared_scan():
        Checks(manifest, document).run()
    if document.problems:
        raise ManifestError(document.path, [*document.problems])
    return manifest


def _output(table: Table) -> str:
    value = table.string("output", "kernels.devmod")
    path = check_path(table, value, "output")
    if path.startswith("../"):
        table.add(
            f"expected a file in the manifest's folder, got {value!r}; devmod build --output FILE writes another",
            "output",
        )
    elif path and posixpath.splitext(path)[1] != ".devmod":
        table.add(f"expected a file that ends in .devmod, got {value!r}", "output")
    return path


def _targets(table: Table) -> Strings:
    targets = table.strings("targets", '["opencl", "cuda -arch=sm_90"]')
    if "targets" not in table.data:
        table.add(
            'the key is missing. It lists the targets, as in targets = ["opencl", "cuda -arch=sm_90"]',
            "targets",
        )
    elif targets == ():
        table.add(
            'the array is empty: expected targets, such as ["opencl", "cuda -arch=sm_90"]',
            "targets",
        )
    return targets or ()


def _compress(table: Table) -> str:
    value = table.get("compress")
    if value in ["", *COMPRESS_LEVELS]:
        return value or ""
    table.add(f'expected "zstd", or "zstd:19" for another level, got {describe(value)}', "compress")
    return ""


def _records(table: Table, key: str) -> Strings:
    paths = table.strings(key, '["records.json"]') or ()
    return tuple(check_path(table, each, key, at) for at, each in enumerate(paths))


def _constants(table: Table) -> Constants:
    value = table.typed("constants", dict, "a table with files")
    if value is None:
        return Constants()
    own = table.table(value, "constants")
    files = _constants_files(own)
    expected = 'a table of functions, such as { load_weights = ["w", "b"] }'
    functions = own.table(own.typed("functions", dict, expected) or {}, "functions")
    named = []
    for name in functions.data:
        names = functions.strings(name, '["w", "b"]')
        if names is not None:
            named.append((name, names))
    own.check_keys({"file": ". Did you mean 'files'?", "symbols": ". Did you mean 'functions'?"})
    if "files" not in value:
        own.add('the key is missing. It lists the files, as in files = ["weights.npz"]', "files")
    return Constants(files, tuple(named))


def _constants_files(table: Table) -> tuple[ConstantsFile, ...]:
    result = []
    paths = table.typed("files", list, 'an array of paths, such as ["weights.npz"]') or ()
    missing = 'the file has no path, as in { path = "w.npy", name = "weights" }'
    for index, each in enumerate(paths):
        path, entry = _entry(table, each, "files", index, missing)
        name = entry.string("name")
        names = entry.strings("names", '["w", "b"]') or ()
        entry.check_keys()

        file = ConstantsFile(check_path(table, path, "files", index), name, names)
        problem = _constants_problem(file)
        if problem:
            table.add(problem, "files", index)
        result.append(file)
    return tuple(result)


def _constants_problem(file: ConstantsFile) -> str:
    """Return what is wrong with the keys of a file of constants; "" if nothing is."""
    if not file.path:
        return ""  # its check has added a mistake
    suffix = posixpath.splitext(file.path)[1].lower()
    if suffix not in CONSTANTS_SUFFIXES:
        return f"expected a file that ends in {', '.join(CONSTANTS_SUFFIXES)}, got {file.path!r}"
    if file.name and suffix != ".npy":
        hint = f"{file.path!r} names its own. To choose some: names"
        return f"the key name is for .npy files, which have one array; {hint}"
    if file.names and suffix == ".npy":
        return f"the key names is for .npz and .safetensors; {file.path!r} has one array. To name it: name"
    return ""


def _entry(table: Table, value: object, name: str, index: int, missing: str) -> tuple[str, Table]:
    """Return the path of a file in an array, and the table with its other keys, which is empty for
    a path alone.
    """
    if not isinstance(value, dict):
        return table.check_string(value, name, index), table.table({}, name, index)
    entry = table.table(value, name, index)
    if "path" not in value:
        entry.add(missing)
    return entry.string("path"), entry


def _programs(table: Table) -> Iterator[ProgramEntry]:
    for name, lines in table.tables("programs", "programs, such as [programs.normalize]"):
        data = {key: _joined(value) for key, value in lines.data.items()}
        own = Table(data, lines.keys, lines.document)
        example = '["scale(x=x, y=y, threads=n)"]'
        steps = _steps(own, example)
        declared = tuple(
            (key, own.strings(key, text) or ()) for key, text in _PROGRAM_TEXTS.items()
        )
        if not steps and ("steps" not in own.data or steps == ()):
            own.add(f"the program has no steps, such as steps = {example}")
        entry = ProgramEntry(name, steps or ("",), declared, own.string("backward"))
        own.check_keys(
            {
                "kernels": "; the steps name the kernels",
                "step": ". Did you mean 'steps'?",
                "input": ". Did you mean 'inputs'?",
            }
        )
        yield entry


def _steps(table: Table, example: str) -> tuple[Any, ...] | None:
    """Return the steps of a program or of a repeat, "" in the place of a wrong one; None if they
    are absent or no array.
    """
    values = table.typed("steps", list, f"an array of steps, such as {example}")
    if values is None:
        return None
    steps = []
    for index, each in enumerate(values):
        if isinstance(each, dict):
            steps.append(_repeated(table.table(each, "steps", index), example))
            continue
        if isinstance(each, str):
            each = " ".join(each.split())  # a long one has several lines
        steps.append(table.check_string(each, "steps", index))
    return tuple(steps)


def _repeated(table: Table, example: str) -> Any:
    """Return a `devmod_targets._program_text.Repeated`; "" after a mistake."""
    from devmod_targets._program_text import Repeated

    count = table.get("repeat")
    if type(count) is int:
        count = str(count)
    elif count is not None:
        count = table.check_string(count, "repeat")
    name = table.string("name")
    steps = _steps(table, example)
    table.check_keys()
    if count is None or not table.data.get("name") or not table.data.get("steps"):
        table.add(
            f'a repeat has a count, a name and steps, such as {{ repeat = "n", name = "i", steps = {example} }}'
        )
        return ""
    if not count or not steps or not all(steps):
        return ""
    return Repeated(count, name, steps)


def _joined(value: object) -> object:
    """Return an array with each text in one line: a long one has several."""
    if not isinstance(value, list):
        return value
    lines = []
    for each in value:
        if isinstance(each, str):
            each = " ".join(each.split())
        lines.append(each)
    return lines


# -- Read the settings of a kernel, of a target or of the whole manifest.


def read_kernel(name: str, table: Table) -> KernelEntry:
    """Return a kernel."""
    if not name.strip() or not name.isprintable():
        table.add("a kernel's name is text without control characters")
    section = _section(table, in_kernel=True)
    targets = tuple(read_target_tables(table, in_kernel=True))
    own = table.strings("targets", '["opencl", "cuda -arch=sm_90"]')
    skip = table.strings("skip", '["vulkan"]') or ()
    if own == ():
        table.add(
            "the array is empty; without this key the kernel has the targets of the manifest",
            "targets",
        )
    table.check_keys(_SECTION_HINTS | {"output": "; the manifest has one output for all kernels"})
    return KernelEntry(name, section, targets, own or (), skip)


def read_target_tables(table: Table, *, in_kernel: bool) -> Iterator[Section]:
    """Yield the settings of each target in a manifest or a kernel."""
    for key, target in table.tables("target", "targets, such as [target.cuda]"):
        yield _section(target, key, in_kernel=in_kernel)
        hints = _SECTION_HINTS
        if not in_kernel:
            moved = f"; it belongs to one kernel: [kernels.NAME.target.{key}]"
            hints = hints | dict.fromkeys(_KERNEL_KEYS, moved)
        target.check_keys(hints)


def _section(table: Table, target: str = "", *, in_kernel: bool) -> Section:
    """Return the settings of a table, which only a kernel's has all of."""
    sources = _sources(table) if in_kernel else None
    return Section(target, sources, **read_options(table, in_kernel=in_kernel))


def _sources(table: Table) -> tuple[Source, ...] | None:
    expected = 'an array of paths, such as ["twice.cl", "twice.cu"]'
    value = table.typed("sources", list, expected)
    if value is None:
        return None
    if not value:
        table.add(f"expected {expected}, got an empty array", "sources")
    result = []
    for index, each in enumerate(value):
        path, entry = _entry(
            table,
            each,
            "sources",
            index,
            'the source has no path, as in { path = "k.inc", language = "OpenCL C" }',
        )
        language = entry.string("language")
        name = entry.string("name")
        entry.check_keys()
        if any(mark in path for mark in "*?["):
            table.add(
                f"patterns are not supported, got {path!r}; name each file. devmod init lists them",
                "sources",
                index,
            )
            path = ""
        result.append(Source(check_path(table, path, "sources", index), language, name))
    return tuple(result)
