"""Read and check a manifest."""

from __future__ import annotations

import os
import posixpath
import re

from devmod_targets.build.checks import Checks
from devmod_targets.build.document import ManifestError, read_document
from devmod_targets.build.manifest import Constants, ConstantsFile, Manifest
from devmod_targets.build.sections import read_common, read_kernel, read_target_tables
from devmod_targets.build.tables import Problems, Table, check_path, describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod_targets.build.document import Document

_COMPRESS = re.compile(r"zstd(:[0-9]{1,2})?", re.ASCII)
_MOVED = "; it belongs to one kernel: [kernels.NAME]"
#: Likely mistakes at the top of a manifest, each with the end of the message about an unknown key.
_HINTS = {
    "kernel": ". Did you mean 'kernels', as in [kernels.twice]?",
    "sources": _MOVED,
    "block": _MOVED,
    "local": _MOVED,
    "functions": _MOVED,
    "name_expressions": _MOVED,
    "name": _MOVED,
    "tool": ". Only a pyproject.toml has [tool.devmod]; in this file its keys are at the top",
}
#: The suffixes of files with constants.
CONSTANTS_SUFFIXES = (".npy", ".npz", ".safetensors")


def read_manifest(path: str | os.PathLike[str] = ".") -> Manifest:
    """Read and check a manifest.

    Parameters
    ----------
    path
        The file; or a folder with a ``devmod.toml``, or with a pyproject.toml that has ``[tool.devmod]``.

    Raises
    ------
    ManifestError
        The manifest has mistakes. The message has the file, the line and the key of each. It is a FormatError.
    FileNotFoundError
        There is no such file, or the folder has no manifest.
    """
    return manifest_of(read_document(path))


def manifest_of(document: Document) -> Manifest:
    """Return the manifest of a document. The errors are those of `read_manifest`."""
    problems = Problems(document)
    table = Table(document.data, (), problems)
    manifest = Manifest(
        path=document.path,
        folder=os.path.dirname(os.path.abspath(document.path)),
        output=_output(table),
        targets=_targets(table),
        kernels=tuple(read_kernel(name, kernel) for name, kernel in table.tables("kernels", "kernels, such as [kernels.twice]")),
        section=read_common(table),
        target_sections=tuple(read_target_tables(table, in_kernel=False)),
        constants=_constants(table),
        mixed=table.boolean("mixed"),
        with_sources=table.boolean("with_sources"),
        compress=_compress(table),
        strict=table.boolean("strict"),
    )
    table.check_keys(_HINTS)
    if not manifest.kernels and not manifest.constants.files and not problems:
        table.add("the manifest has no kernels; a kernel is a table such as [kernels.twice] with sources", "kernels")
    Checks(manifest, problems).run()
    if problems:
        raise ManifestError(document.path, [*problems])
    return manifest


def _output(table: Table) -> str:
    value = table.string("output", "kernels.devmod")
    path = check_path(table, value, "output")
    if path.startswith("../"):
        table.add(f"expected a file in the manifest's folder, got {value!r}; devmod build --output FILE writes another", "output")
    elif path and posixpath.splitext(path)[1] != ".devmod":
        table.add(f"expected a file that ends in .devmod, got {value!r}", "output")
    return path


def _targets(table: Table) -> tuple[str, ...]:
    targets = table.strings("targets", '["opencl", "cuda -arch=sm_90"]')
    if "targets" not in table.data:
        table.add('the key is missing. It lists the targets, as in targets = ["opencl", "cuda -arch=sm_90"]', "targets")
    elif targets == ():
        table.add('the array is empty: expected targets, such as ["opencl", "cuda -arch=sm_90"]', "targets")
    return targets or ()


def _compress(table: Table) -> str:
    value = table.get("compress")
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not _COMPRESS.fullmatch(value):
        table.add(f'expected "zstd", or "zstd:19" for another level, got {describe(value)}', "compress")
        return ""
    return value


def _constants(table: Table) -> Constants:
    value = table.get("constants")
    if value is None:
        return Constants()
    if not isinstance(value, dict):
        table.add(f"expected a table with files, got {describe(value)}", "constants")
        return Constants()
    own = table.table(value, "constants")
    files = _constants_files(own)
    functions = own.get("functions")
    if functions is not None and not isinstance(functions, dict):
        own.add(f'expected a table of functions, such as {{ load_weights = ["w", "b"] }}, got {describe(functions)}', "functions")
        functions = {}
    inner = own.table(functions or {}, "functions")
    named = [(name, inner.strings(name, '["w", "b"]')) for name in functions or {}]
    own.check_keys({"file": ". Did you mean 'files'?", "symbols": ". Did you mean 'functions'?"})
    if "files" not in value:
        own.add('the key is missing. It lists the files, as in files = ["weights.npz"]', "files")
    return Constants(files, tuple((name, names) for name, names in named if names is not None))


def _constants_files(table: Table) -> tuple[ConstantsFile, ...]:
    value = table.get("files")
    if value is None:
        return ()
    if not isinstance(value, list):
        table.add(f'expected an array of paths, such as ["weights.npz"], got {describe(value)}', "files")
        return ()
    result = []
    for index, each in enumerate(value):
        name = ""
        names: tuple[str, ...] = ()
        if isinstance(each, dict):
            entry = table.table(each, "files", index)
            path, name, names = entry.string("path"), entry.string("name"), entry.strings("names", '["w", "b"]') or ()
            entry.check_keys()
            if "path" not in each:
                entry.add('the file has no path, as in { path = "w.npy", name = "weights" }')
        else:
            path = table.check_string(each, "files", index)
        path = check_path(table, path, "files", index)
        suffix = posixpath.splitext(path)[1].lower()
        if path and suffix not in CONSTANTS_SUFFIXES:
            table.add(f"expected a file that ends in {', '.join(CONSTANTS_SUFFIXES)}, got {path!r}", "files", index)
        elif path and name and suffix != ".npy":
            hint = f"{path!r} names its own. To choose some: names"
            table.add(f"the key name is for .npy files, which have one array; {hint}", "files", index)
        elif path and names and suffix == ".npy":
            table.add(f"the key names is for .npz and .safetensors; {path!r} has one array. To name it: name", "files", index)
        result.append(ConstantsFile(path, name, names))
    return tuple(result)
