"""What the other readers read in golden files: that in JavaScript, that in C, and the one that is
written from docs/formats.md (tests/spec_reader.py).

A reader gives the error of a whole file, or its modules: the kind and the functions of each,
`error` and `sources`, the errors of its bytes and of its sources, the errors or the unknown needs
of `newer` functions, and the errors of `damaged` ones. Behind the modules are the number of
`tuning` records, and why others are `skipped`.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from environments import ROOT
from fuzzing import c_reader
from fuzzing.specification import spec_reader

#: What a reader reads in a file.
Found = str | list[dict[str, Any]]
#: The words for a file that a reader does not refuse: the reader in C gives origins, sources and
#: shaders to its caller unread.
READ = "read without an error"
_INVALID = 1
_MOST = 1 << 26
#: Errors of libraries. Their other words depend on the version.
_LIBRARIES = ("msgpack", "zstd", "JSON")
_TREES = (".devmod",)
_MODULES = (".bytes",)
_METADATA = (".tvm_meta.json",)


def in_javascript(files: Mapping[str, bytes]) -> dict[str, Found]:
    """Return what the reader in JavaScript reads in each file."""
    given = {name: b64encode(data).decode() for name, data in files.items()}
    command = [str(shutil.which("node")), str(ROOT / "tools" / "golden_reader.mjs")]
    done = subprocess.run(
        command, input=json.dumps(given).encode(), capture_output=True, check=True
    )
    found: dict[str, Found] = json.loads(done.stdout)
    return found


class _Module(ctypes.Structure):
    """A devmod_module."""

    _fields_ = (
        *[(name, c_reader.Slice) for name in ("kind", "format", "variant", "origin")],
        *[(name, ctypes.POINTER(c_reader.Slice)) for name in ("functions", "features")],
        *[(name, ctypes.POINTER(ctypes.c_uint32)) for name in ("imports", "parts")],
        *[(f"{name}_count", ctypes.c_size_t) for name in ("function", "feature", "import", "part")],
        *[(name, ctypes.c_int64) for name in ("rank", "sources")],
        *[(name, ctypes.c_uint64) for name in ("offset", "size")],
        *[(name, ctypes.c_int) for name in ("has_bytes", "is_compressed", "is_part")],
        ("sha256", ctypes.c_uint8 * 32),
    )


class _Function(ctypes.Structure):
    """A devmod_function."""

    _fields_ = (
        *[(name, c_reader.Slice) for name in ("name", "symbol", "interface", "tune")],
        *[(name, ctypes.c_void_p) for name in ("types", "tags")],
        *[(f"{name}_count", ctypes.c_size_t) for name in ("type", "tag")],
    )


class _Contents(ctypes.Structure):
    """A devmod_contents."""

    _fields_ = (
        ("format", c_reader.Slice),
        ("functions", ctypes.POINTER(_Function)),
        *[(name, ctypes.c_void_p) for name in ("code_names", "codes")],
        *[(f"{name}_count", ctypes.c_size_t) for name in ("function", "code")],
    )


def in_c(files: Mapping[str, bytes]) -> dict[str, Found]:
    """Return what the reader in C, without zstd, reads in each file."""
    return {name: _read_in_c(data) for name, data in files.items()}


def _read_in_c(data: bytes) -> Found:
    library = c_reader.library()
    handle = ctypes.c_void_p()
    size = ctypes.c_uint64(len(data))
    result = library.devmod_open(None, data, size, ctypes.byref(handle))
    try:
        result = result or library.devmod_check_all(handle)
        if result:
            return _error_in_c(handle)
        modules = []
        for number in range(library.devmod_record_count(handle)):
            module = _Module()
            if library.devmod_get_module(handle, number, ctypes.byref(module)):
                return _error_in_c(handle)
            if module.kind.size:
                modules.append(_module_in_c(handle, number, module))
        return modules
    finally:
        library.devmod_close(handle)


def _module_in_c(handle: ctypes.c_void_p, number: int, module: _Module) -> dict[str, Any]:
    names = [_text(module.functions[at]) for at in range(module.function_count)]
    found: dict[str, Any] = {"kind": _text(module.kind), "functions": names}
    if not module.has_bytes:
        return found
    error = _use_in_c("devmod_get_bytes", handle, number, c_reader.Slice())
    if module.sources >= 0:
        sources = _use_in_c("devmod_get_bytes", handle, module.sources, c_reader.Slice())
        if sources:
            found["sources"] = sources
    contents = _Contents()
    if not error and found["kind"] in spec_reader().KINDS:
        error = _use_in_c("devmod_get_contents", handle, number, contents)
    if error:
        return found | {"error": error}
    for at in range(contents.function_count):
        function = contents.functions[at]
        result = c_reader.library().devmod_check_needs(handle, ctypes.byref(function))
        if result:
            key = "newer"
            if result == _INVALID:
                key = "damaged"
            found.setdefault(key, {})[_text(function.name)] = _error_in_c(handle)
    return found


def _use_in_c(name: str, handle: ctypes.c_void_p, number: int, into: ctypes.Structure) -> str:
    """Return the error of a function of the reader for the bytes of a record; "" without one."""
    call = getattr(c_reader.library(), name)
    if call(handle, ctypes.c_uint32(number), ctypes.c_uint64(_MOST), ctypes.byref(into)):
        return _error_in_c(handle)
    return ""


def _error_in_c(handle: ctypes.c_void_p) -> str:
    error: str = c_reader.library().devmod_error(handle).decode(errors="backslashreplace")
    return error


def _text(found: c_reader.Slice) -> str:
    return ctypes.string_at(found.data, found.size).decode()


def in_specification(files: Mapping[str, bytes]) -> dict[str, Found]:
    """Return what tests/spec_reader.py reads in each file. Of an error of msgpack or of zstd it
    has the library's name alone.
    """
    found: dict[str, Found] = {}
    for name, data in files.items():
        try:
            found[name] = _read_in_specification(name, data)
        except spec_reader().SpecError as error:
            found[name] = _of_library(str(error))
    return found


def _read_in_specification(name: str, data: bytes) -> list[dict[str, Any]]:
    reader = spec_reader()
    if name.endswith(_METADATA):
        reader.read_metadata(data)
        return []
    if name.endswith(_MODULES):
        contents = reader.read_module(name.split(".")[-2], data)
        reader.require_sound(contents.get("functions", {}))
        return []
    tree = reader.read_bundle(data)
    modules = []
    for record in tree["records"]:
        if record["role"] != "module":
            continue
        found = {
            key: record[key] for key in ("kind", "functions", "newer", "damaged") if key in record
        }
        if record["kind"] == "program" and not record["features"]:
            found |= _programs_in_specification(record["bytes"])
        modules.append(found)
    records = 0
    skipped: list[str] = []
    for attachment in tree.get("attached", []):
        if attachment["tag"] == "tuning+":
            known, problems = reader.read_tuning(attachment)
            records += len(known)
            skipped += problems
    if records or skipped:
        modules.append({"tuning": records, "skipped": list(map(_of_library, skipped))})
    return modules


def _of_library(text: str) -> str:
    """Return an error; of one of a library its name alone."""
    library, _, _ = text.partition(": ")
    if library in _LIBRARIES:
        return library
    return text


def _programs_in_specification(data: bytes) -> dict[str, Any]:
    reader = spec_reader()
    contents = reader.read_module("program", data)
    found: dict[str, Any] = {}
    for name, info in contents["functions"].items():
        needs = info.get("newer") or reader.unknown_needs(info.get("interface", {}))
        if needs:
            found.setdefault("newer", {})[name] = needs
            continue
        try:
            reader.read_program(name, info, contents["code"][name])
        except reader.SpecError as error:
            found.setdefault("damaged", {})[name] = str(error)
    return found


#: Each reader, and the ends of the names of the files that it reads.
READERS: dict[str, tuple[Callable[[Mapping[str, bytes]], dict[str, Found]], tuple[str, ...]]] = {
    "javascript": (in_javascript, (*_TREES, *_MODULES)),
    "c": (in_c, _TREES),
    "specification": (in_specification, (*_TREES, *_MODULES, *_METADATA)),
}


def missing(reader: str) -> str:
    """Return why a reader cannot run here; "" if it can."""
    if reader == "javascript" and shutil.which("node") is None:
        return "node is not installed"
    if reader == "c" and c_reader.compiler() is None:
        return "there is no C compiler on PATH"
    return ""


def first_error(found: Found) -> str:
    """Return the first error of a file that should be refused."""
    if isinstance(found, str):
        return found
    for module in found:
        for each in (
            module.get("error"),
            *module.get("damaged", {}).values(),
            module.get("sources"),
        ):
            if each:
                return str(each)
    return READ


def read_all(reader: str, files: Mapping[str, bytes]) -> dict[str, Found]:
    """Return what a reader reads in each of the files that are for it."""
    read, ends = READERS[reader]
    return read({name: data for name, data in files.items() if name.endswith(ends)})


def add_readers(
    entries: Mapping[str, dict[str, Any]],
    files: Mapping[str, bytes],
    path: Path,
    choose: Callable[[Found], Any] = lambda found: found,
) -> None:
    """Add what each reader reads to the entries of files. A reader that cannot run here has what
    it has in the JSON file at a path.
    """
    for reader in READERS:
        if missing(reader):
            before = entries_of(path)
            found = {name: entry[reader] for name, entry in before.items() if reader in entry}
        else:
            found = {name: choose(each) for name, each in read_all(reader, files).items()}
        for name, each in found.items():
            if name in entries:
                entries[name][reader] = each


def entries_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of files in a JSON file."""
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["files"]
    return found


def write_entries(path: Path, about: str, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the entries of files as JSON, with a line for each reader."""
    texts = []
    for name, entry in entries.items():
        lines = [f"   {_json(key)}: {_json(value)}" for key, value in entry.items()]
        texts.append(f"  {_json(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    files = ",\n".join(texts)
    text = f'{{\n "about": {_json(about)},\n "files": {{\n{files}\n }}\n}}\n'
    path.write_text(text, encoding="utf-8")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
