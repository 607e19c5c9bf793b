"""Read and check a manifest."""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from math import isfinite
from typing import Any

from devmod.backend import COMPRESS_LEVELS
from devmod.errors import FormatError, did_you_mean, list_names, quote_name
from devmod.plugins import shared_scan
from devmod_targets._compilers import SUBGROUP_SIZES
from devmod_targets.build.checks import Checks
from devmod_targets.build.document import Document, KeyPath, ManifestError, read_document
from devmod_targets.build.manifest import (
    Aliases,
    Constants,
    ConstantsFile,
    Define,
    KernelEntry,
    Manifest,
    ProgramEntry,
    Section,
    Source,
)

#: Keys of a kernel that are not for all kernels.
_KERNEL_KEYS = (
    "sources",
    "language",
    "name",
    "name_expressions",
    "functions",
    "block",
    "local",
    "shared_memory",
    "subgroup",
)
#: Likely mistakes at the top of a manifest, each with the end of the message about an unknown key.
_HINTS = {
    "kernel": ". Did you mean 'kernels', as in [kernels.twice]?",
    **dict.fromkeys(_KERNEL_KEYS, "; it belongs to one kernel: [kernels.NAME]"),
    "tool": ". Only a pyproject.toml has [tool.devmod]; in this file its keys are at the top",
}
#: The suffixes of files with constants.
CONSTANTS_SUFFIXES = (".npy", ".npz", ".safetensors")


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
        section=read_common(table),
        target_sections=tuple(read_target_tables(table, in_kernel=False)),
        constants=_constants(table),
        programs=tuple(_programs(table)),
        mixed=table.boolean("mixed"),
        with_sources=table.boolean("with_sources"),
        compress=_compress(table),
        strict=table.boolean("strict"),
    )
    table.check_keys(_HINTS)
    if not manifest.kernels and not manifest.constants.files and not document.problems:
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


def _targets(table: Table) -> tuple[str, ...]:
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


def _constants(table: Table) -> Constants:
    value = table.typed("constants", dict, "a table with files")
    if value is None:
        return Constants()
    own = table.table(value, "constants")
    files = _constants_files(own)
    functions = own.table(
        own.typed("functions", dict, 'a table of functions, such as { load_weights = ["w", "b"] }')
        or {},
        "functions",
    )
    named = [(name, functions.strings(name, '["w", "b"]')) for name in functions.data]
    own.check_keys({"file": ". Did you mean 'files'?", "symbols": ". Did you mean 'functions'?"})
    if "files" not in value:
        own.add('the key is missing. It lists the files, as in files = ["weights.npz"]', "files")
    return Constants(files, tuple((name, names) for name, names in named if names is not None))


def _constants_files(table: Table) -> tuple[ConstantsFile, ...]:
    result = []
    for index, each in enumerate(
        table.typed("files", list, 'an array of paths, such as ["weights.npz"]') or ()
    ):
        path, entry = _entry(
            table,
            each,
            "files",
            index,
            'the file has no path, as in { path = "w.npy", name = "weights" }',
        )
        name, names = entry.string("name"), entry.strings("names", '["w", "b"]') or ()
        entry.check_keys()
        path = check_path(table, path, "files", index)
        suffix = posixpath.splitext(path)[1].lower()
        if path and suffix not in CONSTANTS_SUFFIXES:
            table.add(
                f"expected a file that ends in {', '.join(CONSTANTS_SUFFIXES)}, got {path!r}",
                "files",
                index,
            )
        elif path and name and suffix != ".npy":
            hint = f"{path!r} names its own. To choose some: names"
            table.add(
                f"the key name is for .npy files, which have one array; {hint}", "files", index
            )
        elif path and names and suffix == ".npy":
            table.add(
                f"the key names is for .npz and .safetensors; {path!r} has one array. To name it: name",
                "files",
                index,
            )
        result.append(ConstantsFile(path, name, names))
    return tuple(result)


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


def _programs(table: Table) -> Iterator[ProgramEntry]:
    for name, lines in table.tables("programs", "programs, such as [programs.normalize]"):
        own = Table(
            {key: _joined(value) for key, value in lines.data.items()}, lines.keys, lines.document
        )
        steps = own.strings("steps", example := '["scale(x=x, y=y, threads=n)"]')
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


def _joined(value: object) -> object:
    """Return an array with each text in one line: a long one has several."""
    return (
        [" ".join(each.split()) if isinstance(each, str) else each for each in value]
        if isinstance(value, list)
        else value
    )


# -- Read the settings of a kernel, of a target or of the whole manifest.


_MACRO = r"(?a)[A-Za-z_]\w*(?:\([\w\s,.]*\))?"
_SIZE = r"([1-9][0-9]{0,17})(/thread)?"
_THREADS = "expected the threads of a block, an integer of 1 or more, or an array of up to three for x, y, z"
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


def read_kernel(name: str, table: Table) -> KernelEntry:
    """Return a kernel."""
    if not name.strip() or not name.isprintable():
        table.add("a kernel's name is text without control characters")
    section = read_section(table)
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
        yield read_section(target, key) if in_kernel else read_common(target, key)
        moved = f"; it belongs to one kernel: [kernels.NAME.target.{key}]"
        target.check_keys(
            _SECTION_HINTS if in_kernel else _SECTION_HINTS | dict.fromkeys(_KERNEL_KEYS, moved)
        )


def read_common(table: Table, target: str = "") -> Section:
    """Return the settings that any table may have."""
    return Section(
        target=target,
        options=_options(table),
        defines=_defines(table),
        include=_include(table),
        aliases=_aliases(table),
    )


def read_section(table: Table, target: str = "") -> Section:
    """Return the settings of a kernel, or of a target of it."""
    return Section(
        target=target,
        sources=_sources(table),
        language=table.string("language"),
        name=table.string("name"),
        options=_options(table),
        defines=_defines(table),
        include=_include(table),
        name_expressions=table.strings("name_expressions", '["scale<float>"]') or (),
        functions=tuple(_functions(table)),
        block=tuple(_blocks(table)),
        local=tuple(_locals(table)),
        shared_memory=tuple(_shared_memory(table)),
        aliases=_aliases(table),
        subgroup=_subgroup(table),
    )


def _options(table: Table) -> tuple[str, ...]:
    return table.strings("options", '["--use_fast_math"]') or ()


def _include(table: Table) -> tuple[str, ...]:
    paths = table.strings("include", '["include"]') or ()
    return tuple(check_path(table, each, "include", index) for index, each in enumerate(paths))


def _defines(table: Table) -> tuple[tuple[str, Define], ...]:
    result: list[tuple[str, Define]] = []
    for macro, text in (
        table.typed("defines", dict, "a table of macros, such as { WIDTH = 16 }") or {}
    ).items():
        if not re.fullmatch(_MACRO, macro):
            table.add(
                'expected the name of a macro, or a name with parameters such as "F(x)"',
                "defines",
                macro,
            )
        elif not isinstance(text, (str, int, float)):
            table.add(
                f"expected a string, a number or a boolean, got {describe(text)}", "defines", macro
            )
        elif isinstance(text, str) and not text.isprintable():
            table.add(
                f"the string has a line break or a control character: {text!r}", "defines", macro
            )
        elif isinstance(text, float) and not isfinite(text):
            table.add(f"expected a finite number, got {text}", "defines", macro)
        else:
            result.append((macro, text))
    return tuple(result)


def _aliases(table: Table) -> Aliases:
    result: list[tuple[str, tuple[str, ...]]] = []
    for alias, names in (
        table.typed("aliases", dict, 'a table of names, such as { data_a = ["data_a_packed16"] }')
        or {}
    ).items():
        if isinstance(names, list):
            result.append(
                (
                    alias,
                    tuple(
                        table.check_string(name, "aliases", alias, index)
                        for index, name in enumerate(names)
                    ),
                )
            )
        else:
            table.add(
                f'expected an array of names, such as ["data_a_packed16"], got {describe(names)}',
                "aliases",
                alias,
            )
    return tuple(result)


def _subgroup(table: Table) -> int:
    size: Any = table.get("subgroup")
    if size is None or (type(size) is int and size in SUBGROUP_SIZES):
        return size or 0
    table.add(
        f"expected the threads of a subgroup, a power of two from 1 to 128, got {describe(size)}",
        "subgroup",
    )
    return 0


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
        language, name = entry.string("language"), entry.string("name")
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


def _functions(table: Table) -> Iterator[tuple[str, str]]:
    """Yield the declared functions, each as JSON of a metadata file."""
    from devmod import load_metadata_from_json

    for name, function in table.tables(
        "functions", "functions, such as [kernels.twice.functions.twice]"
    ):
        fields: dict[str, Any] = {"name": function.string("name", name)}
        for key in ("arg_types", "launch_param_tags", "arg_extra_tags"):
            value = function.typed(key, list, "an array")
            if value is not None:
                fields[key] = value
        params, interface = function.get("params"), function.get("interface")
        function.check_keys(
            {
                "symbol": ". Did you mean 'name', the symbol in the source?",
                "args": ". Did you mean 'params'?",
            }
        )
        if params is not None and interface is not None:
            function.add("the interface has its own params; give one of the two", "params")
            continue
        if params is not None:
            interface = {"params": params}
        if interface is not None:
            fields["interface"] = interface
        fields.setdefault("arg_types", _types_of(interface))
        try:
            load_metadata_from_json(json.dumps({"func_info": {name: fields}}, allow_nan=False))
        except FormatError as error:
            detail = (
                str(error)
                .removeprefix(f"the metadata of the function {name!r}: ")
                .removeprefix(f"the function {name!r}: ")
            )
            function.add(f"the declaration is invalid: {detail}")
        except (TypeError, ValueError):
            function.add("the declaration has a date, a time or a number that is not finite")
        else:
            yield name, json.dumps(fields)


def _types_of(interface: Any) -> list[Any]:
    """Return the types of the values in an interface; [] for an invalid one, which the later check
    reports.
    """
    from devmod import Interface

    try:
        values = Interface.from_dict(interface).values
    except FormatError:
        return []
    types = {"handle": "uint64"}  # an address
    return [
        types.get(each.type, each.type) if each.kind in ("scalar", "uniform") else "handle"
        for each in values
    ]


def _blocks(table: Table) -> Iterator[tuple[str, tuple[int, ...]]]:
    value = table.get("block")
    items = value.items() if isinstance(value, dict) else [("", value)] if value is not None else []
    for function, dims in items:
        keys = ("block", function) if isinstance(value, dict) else ("block",)
        numbers = dims if isinstance(dims, list) else [dims]
        if 1 <= len(numbers) <= 3 and all(
            type(each) is int and 1 <= each < 2**31 for each in numbers
        ):
            yield function, tuple(numbers)
        else:
            table.add(
                f"{_THREADS}, got {json.dumps(dims) if _is_numbers(dims) else describe(dims)}",
                *keys,
            )


def _is_numbers(value: object) -> bool:
    return isinstance(value, list) and len(value) <= 8 and all(type(each) is int for each in value)


def _locals(table: Table) -> Iterator[tuple[str, str, int, bool]]:
    value = table.typed(
        "local", dict, 'a table of sizes by parameter, such as { scratch = "4/thread" }'
    )
    for key, size in (value or {}).items():
        if isinstance(size, dict):
            yield from (
                each
                for parameter, own in size.items()
                if (each := _local(table, key, parameter, own))
            )
        elif local := _local(table, "", key, size):
            yield local


def _local(
    table: Table, function: str, parameter: str, size: object
) -> tuple[str, str, int, bool] | None:
    keys = ("local", function, parameter) if function else ("local", parameter)
    found = _size(table, size, *keys)
    return (function, parameter, *found) if found is not None else None


def _shared_memory(table: Table) -> Iterator[tuple[str, int, bool]]:
    value = table.get("shared_memory")
    if value is None:
        return
    if not isinstance(value, dict):
        if (found := _size(table, value, "shared_memory")) is not None:
            yield "", *found
        return
    for function, size in value.items():
        if (found := _size(table, size, "shared_memory", function)) is not None:
            yield function, *found


def _size(table: Table, size: object, *keys: str) -> tuple[int, bool] | None:
    """Return the bytes of a size, and whether they are per thread; None for another value."""
    text = str(size) if type(size) is int else size
    match = re.fullmatch(_SIZE, text) if isinstance(text, str) else None
    if match is None:
        table.add(
            f'expected bytes of 1 or more, such as 1024, or "4/thread", got {describe(size)}', *keys
        )
        return None
    return int(match[1]), bool(match[2])


# -- Read values of a manifest's tables and check their types. Mistakes are collected, so that one
# message lists all of them.


class Table:
    """A table of a manifest. A read of an absent key returns the default; a read of a wrong type
    adds a mistake and returns the default.
    """

    def __init__(self, data: Mapping[str, Any], keys: KeyPath, document: Document) -> None:
        self.data = data
        self.keys = keys
        self.document = document
        self._known: list[str] = []

    def add(self, text: str, *keys: str | int) -> None:
        """Add a mistake at this table, or at a key in it."""
        self.document.add((*self.keys, *keys), text)

    def get(self, name: str) -> Any:
        """Return the value of a key, or None. The key counts as known."""
        self._known.append(name)
        return self.data.get(name)

    def typed(self, name: str, expected_type: type, expected: str) -> Any:
        """Return a value of a type; None if it is absent, and after a mistake."""
        value = self.get(name)
        if value is None or isinstance(value, expected_type):
            return value
        self.add(f"expected {expected}, got {describe(value)}", name)
        return None

    def string(self, name: str, default: str = "") -> str:
        """Return a string that is neither empty nor has control characters."""
        value = self.get(name)
        return default if value is None else self.check_string(value, name) or default

    def strings(self, name: str, example: str) -> tuple[str, ...] | None:
        """Return an array of strings, "" in the place of a wrong one; None if it is absent or no
        array.
        """
        value = self.typed(name, list, f"an array of strings, such as {example}")
        return (
            None
            if value is None
            else tuple(self.check_string(each, name, index) for index, each in enumerate(value))
        )

    def boolean(self, name: str) -> bool:
        """Return a boolean; False if it is absent."""
        return self.typed(name, bool, "true or false") is True

    def tables(self, name: str, what: str) -> list[tuple[str, Table]]:
        """Return the tables in a table, by name."""
        result = []
        for key, table in (self.typed(name, dict, f"a table of {what}") or {}).items():
            if isinstance(table, dict):
                result.append((key, self.table(table, name, key)))
            else:
                self.add(f"expected a table, got {describe(table)}", name, key)
        return result

    def table(self, data: Mapping[str, Any], *keys: str | int) -> Table:
        """Return a table in this one."""
        return Table(data, (*self.keys, *keys), self.document)

    def check_string(self, value: object, *keys: str | int) -> str:
        """Return a string; "" after a mistake."""
        if not isinstance(value, str):
            self.add(f"expected a string, got {describe(value)}", *keys)
        elif not value.strip():
            self.add("the string is empty", *keys)
        elif not value.isprintable():
            self.add(f"the string has a line break or a control character: {value!r}", *keys)
        else:
            return value
        return ""

    def check_keys(self, hints: Mapping[str, str] | None = None) -> None:
        """Add a mistake for each key that was not read. `hints` has a sentence for some."""
        for name in self.data:
            if name not in self._known:
                hint = (hints or {}).get(name) or did_you_mean(name, self._known)
                self.add(
                    f"unknown key{hint or f'; the keys here are {list_names(dict.fromkeys(self._known))}'}",
                    name,
                )


def check_path(table: Table, value: str, *keys: str | int) -> str:
    """Return a relative path without ``.`` and needless ``..``; "" for an empty one, and after a
    mistake.
    """
    if value.startswith(("/", "~")) or (
        value[1:2] == ":" and value[0].isascii() and value[0].isalpha()
    ):
        table.add(
            f"expected a path relative to the manifest's folder, got {value!r}: other machines have other folders",
            *keys,
        )
    elif "\\" in value:
        table.add(
            f"expected slashes in a path, got {value!r}; write {value.replace(chr(92), '/')!r}",
            *keys,
        )
    elif value.startswith("$") or "${" in value:
        table.add(f"environment variables are not replaced, got {value!r}", *keys)
    elif value:
        return posixpath.normpath(value)
    return ""


def describe(value: object) -> str:
    """Return a value for a message, with TOML's name of its type."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"the string {quote_name(value)}"
    if isinstance(value, int):
        return f"the integer {value}" if abs(value) < 10**30 else "an integer"
    if isinstance(value, float):
        return f"the float {value}"
    if isinstance(value, (datetime, date, time)):
        return f"the date or time {value}"
    return "an array" if isinstance(value, list) else "a table"
