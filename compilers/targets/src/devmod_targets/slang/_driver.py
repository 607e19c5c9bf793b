"""Slang's compiler: the library of the wheel slangpy, in a process of its own.

`translate` gives each compute entry point of a source in the language of a target, with Slang's
reflection of it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from devmod import Origin
from devmod.errors import CompileError, ToolchainNotFoundError, compile_error, not_installed
from devmod_targets._paths import name_in
from devmod_targets._text import dropped_print
from devmod_targets.authoring import (
    CompileRequest,
    Payload,
    _library,
    options_and_defines,
    warn_caller,
)
from devmod_targets.authoring._process import digests_of
from devmod_targets.authoring._source import define_options, line_directive
from devmod_targets.slang._slang_process import symbol_of

_WHEEL = "slangpy"
_EXTRA = "devmod-core[build-slang]"
_LIBRARY = r"(?:lib)?slang-compiler\.[\w.-]*(?:so|dylib|dll)[\w.-]*"
#: The options of Slang. Others are those of the kind's own compiler.
_OPTIONS = re.compile(r"-O[0-3]|-matrix-layout-row-major|-fp-mode=(?:fast|precise|default)")
#: Parameters that Slang moves out of its block of uniform parameters, and entry points that it
#: renames: the reflection has both.
_IGNORED = ("31106", "31107", "40100")
#: A file name that is no option and has nothing that Slang reads.
_PLAIN_NAME = re.compile(r"\w[\w.-]{0,200}")
#: The qualifier of matrices, outside of comments.
_COLUMN_MAJOR = re.compile(r"//[^\n]*|/\*.*?\*/|\b(column_major)\b", re.DOTALL)
_DEFINE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_INSTANCE = re.compile(r"[A-Za-z_][\w.:]*\s*(?:<[^\"\\;{}]*>)?")
#: The file of a message.
_PLACE = re.compile(r"^\s*--> ([^:\n]+):\d+", re.MULTILINE)
#: The file of a line that Slang writes.
_DIRECTIVE = re.compile(r'^#line (\d+) "(.*)"$', re.MULTILINE)
#: The messages about an instance that is none.
_NO_ENTRY = re.compile(r"no function found matching entry point name '([^'\n]*)'")
_NO_FUNCTION = "expected entry point to be a function"
_MAX_ENTRIES = 256
#: The limits on the reflection, which the compiler determines.
_MAX_REFLECTION = 16 << 20


class Entry(NamedTuple):
    """One compute entry point.

    Attributes
    ----------
    name
        Its name as the user wrote it: "saxpy", or an expression of ``name_expressions=`` such as
        "scale<float>".
    symbol
        Its name in the code.
    code
        The text or the SPIR-V. With `together`, all entry points have the same code.
    reflection
        Slang's reflection of it, an item of "entryPoints": unchecked JSON.
    globals
        Slang's reflection of the parameters of the file, "parameters": unchecked JSON.
    """

    name: str
    symbol: str
    code: bytes
    reflection: Mapping[str, Any]
    globals: Sequence[Any]


class Translation(NamedTuple):
    """The result of Slang.

    Attributes
    ----------
    entries
        The entry points in the order of the source, then the instances.
    toolchain
        For the origin: "slangpy 0.43.1 (slang 2026.12)".
    options
        For the origin: Slang's options and the defines.
    rest
        The options for the kind's own compiler.
    sources, files
        As in `Origin` and in `Payload`.
    """

    entries: Sequence[Entry]
    toolchain: str
    options: Sequence[str]
    rest: Sequence[str]
    sources: Mapping[str, str]
    files: Mapping[str, str]

    def origin_of(self, payload: Payload) -> Origin:
        """Return the origin of the result, of which the kind's compiler has made a payload."""
        own = payload.origin
        assert own is not None
        toolchain = ", ".join(filter(None, (self.toolchain, own.toolchain)))
        return Origin(own.target, toolchain, (*self.options, *own.options), self.sources)


def translate(
    request: CompileRequest,
    target: str,
    options: Sequence[str] = (),
    *,
    preludes: Mapping[int, str] | None = None,
    together: bool = False,
    lines: bool = False,
    check: Callable[[Entry], None] = lambda _: None,
) -> Translation:
    """Translate a source.

    Parameters
    ----------
    request
        The compile request, in Slang.
    target, options
        Slang's name of the target, such as "wgsl" or "cuda", and further options of slangc for it.
    preludes
        The text before the output instead of Slang's own, by the number of the language: 5 for C++,
        6 for CUDA.
    together
        Whether the entry points become one code instead of one each.
    lines
        Whether the code, a text, has the lines of the source, as ``#line 3 "k.slang"``.
    check
        Raises a CompileError for an entry point that the target cannot express, if the reason is in
        its reflection. It is called for each entry point, before the error of Slang for one that
        Slang does not translate.

    Raises
    ------
    ToolchainNotFoundError
        The wheel is not installed.
    CompileError
        The source has errors, or no entry point.
    """
    remaining, defines = options_and_defines(request)
    own, rest = _split_options(request, remaining)
    macros = _macros(request, defines)
    file = request.name
    if not _PLAIN_NAME.fullmatch(file):
        file = "source.slang"
    roots = [each for each in (request.folder, *request.include) if each]
    arguments = [*_arguments(target, own, roots, lines=lines), *macros, *options]
    instances = [_check_instance(request, text) for text in request.name_expressions]
    # The source is not written. Its folder is a file, so no name in an include leads beside the
    # source.
    folder = _library.find_library(_WHEEL, _LIBRARY)
    if not folder:
        missing = not_installed(_WHEEL, _EXTRA, _WHEEL)
        raise ToolchainNotFoundError(
            f"cannot compile the Slang source {request.name}: {missing}. {_WHEEL} has wheels for Linux with glibc 2.34 or newer, "
            "Windows, and macOS on arm64",
            kind=request.target.kind,
        )
    wheel = _library.wheel_version(_WHEEL, folder)
    question = {
        "file": os.path.join(folder, file),
        "arguments": [*arguments, "-no-codegen"],
        "instances": instances,
        "preludes": preludes or {},
        "together": together,
    }
    status, about, programs, log = _run(request, folder, wheel, question)
    instances = about["instances"]
    texts = _Messages(request, target, log, file, (folder, *roots))
    paths = about["files"]
    if status:  # there is no list of files, and the messages have lines of them
        paths = _existing(folder, _PLACE.findall(log))
    files = _read_files(folder, file, paths)
    sources = {
        request.name: request.digest,
        **_names(request, files, roots),
    }
    _check_matrices(request, files)

    entries = []
    for reflection, code in programs:
        entries += _entries(request, reflection, code)
    for entry in entries:
        check(entry)
    if status:
        _check_instances(request, instances, texts)
        errors = texts.errors or [f"status {status}"]
        raise compile_error(request.target.kind, "Slang", errors, texts.log)
    # devmod joins the programs in C++.
    _check_entries(request, entries, instances, together=together or target == "cpp")

    if lines:
        entries = [
            entry._replace(code=_with_names(entry.code, os.path.join(folder, file), request, roots))
            for entry in entries
        ]
    codes = b"".join(entry.code for entry in entries)
    dropped = dropped_print(request.name, request.text, codes)
    if dropped:
        texts.warnings.append(dropped)
    if texts.warnings:
        warning = "\n".join(["the Slang source has warnings:", *texts.warnings])
        warn_caller(request, [warning], frames=2)
    toolchain = f"{wheel} (slang {about['version']})"
    return Translation(entries, toolchain, [*own, *macros], rest, sources, files)


def _arguments(target: str, own: Iterable[str], roots: Iterable[str], *, lines: bool) -> list[str]:
    """Return the arguments of slangc, without the defines."""
    mode = "none"
    if lines:
        mode = "standard"
    arguments = ["-target", target, "-line-directive-mode", mode]
    if target != "spirv":
        # Otherwise Slang 2026.12 moves a read of a buffer, `float v = x[i]`, to the use of v, also
        # behind a barrier.
        arguments.append("-g2")
    for option in own:
        arguments += option.split("=")
    for root in roots:
        arguments += ["-I", root]
    return arguments


def _with_names(code: bytes, source: str, request: CompileRequest, roots: Sequence[str]) -> bytes:
    """Return a text with the names of its files as `request` has them, without folders."""

    def named(match: re.Match[str]) -> str:
        path = match[2].replace("\\\\", "\\")
        name = request.name
        if path != source:
            name = name_in(path, roots)
        return line_directive(int(match[1]), name).rstrip("\n")

    text = code.decode("utf-8", "replace")
    return _DIRECTIVE.sub(named, text).encode()


def _existing(folder: str, paths: Iterable[str]) -> list[str]:
    return [path for path in paths if os.path.isfile(os.path.join(folder, path))]


def _macros(request: CompileRequest, defines: Mapping[str, str]) -> list[str]:
    for name in defines:
        if not _DEFINE.fullmatch(name):
            raise request.error(
                f"the define {name!r} has parameters, which Slang's -D does not take: write a #define in the source"
            )
    return define_options(defines)


def _read_files(folder: str, file: str, paths: Iterable[str]) -> dict[str, str]:
    """Return the digests of the files besides the source, by their paths."""
    read = dict.fromkeys(os.path.normpath(os.path.join(folder, path)) for path in paths)
    read.pop(os.path.join(folder, file), None)
    return digests_of(list(read), (os.path.dirname(folder),))


def _split_options(request: CompileRequest, options: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the options of Slang, and those of the kind's own compiler."""
    own = []
    rest = []
    for option in options:
        if option == "-matrix-layout-column-major":
            raise request.error(
                f"the option {option!r} is not supported: matrices of arguments have rows. Omit it, and use transpose()"
            )
        if _OPTIONS.fullmatch(option):
            own.append(option)
        else:
            rest.append(option)
    return own, rest


def _check_instance(request: CompileRequest, text: str) -> str:
    name = text.strip()
    if not _INSTANCE.fullmatch(name) or not text.isprintable():
        raise request.error(
            f"name_expressions= contains {text!r}; expected an entry point, or an instance such as 'scale<float>'"
        )
    return name


def _check_instances(request: CompileRequest, instances: Sequence[str], texts: _Messages) -> None:
    """Raise CompileError for an instance that Slang does not find, with the reason."""
    found = _NO_ENTRY.search(texts.log)
    generic = ""
    if _NO_FUNCTION in texts.log:
        generic = next((each for each in instances if "<" not in each), "")
    if not found and not generic:
        return

    name = generic
    if found:
        name = found[1]
    reason = ""
    if generic:
        reason = ": it is generic, and has no arguments"
    else:
        others = [each for each in texts.errors if not _NO_ENTRY.search(each)]
        if others:
            reason = f": {others[0].removeprefix('error: ')}"
    raise request.error(
        f"name_expressions= contains {name!r}, which is no instance of an entry point of {request.name}{reason}",
        log=texts.log,
    )


def _check_matrices(request: CompileRequest, files: Iterable[str]) -> None:
    """Raise CompileError for matrices in the order of columns, whose places are not in the
    reflection.
    """
    included = [(os.path.basename(path), text_of(path)) for path in files]
    for name, text in [(request.name, request.text), *included]:
        for match in _COLUMN_MAJOR.finditer(text):
            if match[1]:
                line = text.count("\n", 0, match.start(1)) + 1
                raise request.error(
                    f"{name}:{line}: a matrix is column_major, which no argument of devmod can be: omit it, and use transpose()"
                )


def text_of(path: str) -> str:
    """Return the text of a file that Slang has read."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _names(
    request: CompileRequest, files: Mapping[str, str], roots: Sequence[str]
) -> dict[str, str]:
    """Return the digests of files by their names in the folders of the request.

    Raises
    ------
    CompileError
        A file is outside of these folders: the source of a stranger could read any file.
    """
    result = {}
    for path, digest in files.items():
        outside = request.outside(os.path.realpath(path))
        if outside:
            raise request.error(
                f"the Slang source {request.name} includes the file {path!r}, which is {outside}"
            )
        name = name_in(path, roots)
        number = 1
        while name in result:
            number += 1
            name = f"{name.partition(' (')[0]} ({number})"
        result[name] = digest
    return result


# -- Read what Slang returns. It is checked as that of a stranger.


#: The reflection and the code of a program.
_Program = tuple[bytes, bytes]


def _entries(request: CompileRequest, reflection: bytes, code: bytes) -> list[Entry]:
    """Return the compute entry points of a program."""
    data = _parsed(reflection)
    entries = data.get("entryPoints")
    parameters = data.get("parameters", [])
    if (
        not isinstance(entries, list)
        or not isinstance(parameters, list)
        or len(entries) > _MAX_ENTRIES
    ):
        raise reflection_error(request, "expected a map with a list of entry points")
    result = []
    for entry in entries:
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("name"), str)
            or not isinstance(entry.get("parameters", []), list)
        ):
            raise reflection_error(
                request, "expected entry points with a name and a list of parameters"
            )
        if entry.get("stage") == "compute":
            result.append(Entry(entry["name"], entry["name"], code, entry, parameters))
    return result


def _parsed(reflection: bytes) -> dict[str, Any]:
    """Return the map of a reflection; {} if it is none, or too large."""
    if len(reflection) > _MAX_REFLECTION:
        return {}
    try:
        data = json.loads(reflection)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    return data


def reflection_error(request: CompileRequest, problem: str, **fields: Any) -> CompileError:
    """Return the error about a reflection that is not as expected."""
    return request.error(
        f"Slang's reflection of {request.name} cannot be read: {problem}", **fields
    )


def _check_entries(
    request: CompileRequest, entries: list[Entry], instances: Sequence[str], *, together: bool
) -> None:
    """Give the instances, which are last, their names, and check that there is an entry point and
    none twice.
    """
    if not entries:
        raise request.error(
            f'the Slang source {request.name} has no entry point: mark a function with [shader("compute")] and [numthreads(x, y, z)]; '
            "for a generic one, pass the instances: name_expressions=['scale<float>']"
        )
    first = len(entries) - len(instances)
    if first < 0:
        raise reflection_error(
            request, f"expected {len(instances)} instances, got {len(entries)} entry points"
        )
    for number, instance in enumerate(instances, first):
        entries[number] = entries[number]._replace(name=instance)
        if together:
            entries[number] = entries[number]._replace(symbol=symbol_of(instance))

    _check_distinct(request, [entry.name for entry in entries])
    if together:
        _check_distinct(request, [entry.symbol for entry in entries])


def _check_distinct(request: CompileRequest, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise request.error(
                f"the Slang source {request.name} has two entry points named {name!r}",
                function=name,
            )


class _Messages:
    """The messages of Slang, with the names of the user's files.

    Attributes
    ----------
    errors, warnings
        Each in the form ``k.slang:3: error: …``.
    log
        All messages.
    """

    _HEAD = re.compile(
        r"(?P<severity>fatal error|internal error|error|warning|note)(?:\[E(?P<number>\d+)\]|\s*(?P<old>\d+))?: (?P<text>.*)"
    )
    _PLACE = re.compile(r"\s*--> (?P<file>[^:\n]+):(?P<line>\d+)")
    _EXCEPTION = r"^Slang compilation aborted due to an exception of \w+ (?:unexpected|unimplemented|abort compilation): "
    _LABEL = re.compile(r"\s*\|\s*\^+ (?P<text>.+)")
    #: The note about what a target lacks. Its error has the entry point alone.
    _USE = re.compile(r"see using of '([^'\n]+)'")
    #: The place of an internal error, before its message.
    _INTERNAL_PLACE = re.compile(
        r"^(?P<file>[^()\n]+)\((?P<line>\d+)\): note 99999: ", re.MULTILINE
    )

    def __init__(
        self, request: CompileRequest, target: str, log: str, file: str, folders: Sequence[str]
    ) -> None:
        self._target = target
        for folder in sorted(folders, key=len, reverse=True):
            if len(folder) > 1:
                log = log.replace(os.path.join(folder, ""), "")
        if file != request.name:
            log = log.replace(file, request.name)
        self.log = log.strip()
        self.errors: list[str] = []
        self.warnings: list[str] = []
        block: list[str] = []
        for line in [*log.splitlines(), "note: end"]:
            if self._HEAD.match(line):
                self._add(block)
                block = []
            block.append(line)

    def _add(self, block: Sequence[str]) -> None:
        """Add a message, a head with the lines that belong to it."""
        if not block:
            return
        head = self._HEAD.match(block[0])
        if not head:
            return
        place = next(filter(None, map(self._PLACE.match, block)), None)
        if place:
            self._complete_last(head, place)
        if head["severity"] == "note" or head["number"] in _IGNORED:
            return
        texts = self.errors
        severity = "error"
        if head["severity"] == "warning":
            texts = self.warnings
            severity = "warning"

        if head["number"] == "99997":
            place = self._INTERNAL_PLACE.search(self.log)
        words = head["text"]
        label = next(filter(None, map(self._LABEL.match, block)), None)
        # One of the two may have the name of what is wrong.
        if label and ("'" not in words or "'" in label["text"]):
            words = label["text"]
        words = re.sub(
            self._EXCEPTION, f"Slang cannot translate it to {self._target}: ", words.strip()
        )
        text = f"{severity}: {words}"
        if place:
            text = f"{place['file']}:{place['line']}: {text}"
        if text not in texts:
            texts.append(text)

    def _complete_last(self, head: re.Match[str], place: re.Match[str]) -> None:
        """Replace the last error by what the note about it says."""
        use = self._USE.fullmatch(head["text"])
        if not use or not self.errors:
            return
        if "uses features that are not available" in self.errors[-1]:
            self.errors[-1] = (
                f"{place['file']}:{place['line']}: error: {use[1]} is not available for {self._target}"
            )


# -- Run Slang.


def _run(
    request: CompileRequest, library: str, wheel: str, question: Mapping[str, Any]
) -> tuple[int, Any, list[_Program], str]:
    """Return the status, the map of the library's answer, the reflection and the code of each
    program, and the messages.
    """
    cause = "The source"
    if question["instances"]:
        cause = "The source or name_expressions="
    status, (about, *parts), log = _library.ask_library(
        request.target.kind,
        f"the library of {wheel} cannot process {request.name}",
        f"{cause} may cause a fault of Slang",
        # Its answers do not depend on the requests before, and a fork takes as long as Slang
        # itself.
        {"module": "devmod_targets.slang._slang_process", "forks": False, "library": library},
        question,
        request.text.encode(),
    )
    return status, json.loads(about), list(zip(parts[::2], parts[1::2], strict=True)), log
