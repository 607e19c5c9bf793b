"""Reading the source of `devmod.compile`: text, bytes or a file, and its language."""

from __future__ import annotations

import os

from devmod.backend import detect_form, find_spec, open_regular
from devmod.errors import CompileError, FormatError
from devmod.targets import KINDS
from devmod_targets._text import is_utf8
from devmod_targets.authoring import check_source_text, decode_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import TargetSpec

    Source = str | os.PathLike[str]

#: The suffixes of sources that are neither text nor payloads: LLVM bitcode, and objects.
_BINARY_SUFFIXES = ("bc", "o")
#: The maximum number of characters of a path.
_MAX_PATH = 4096


def read_source(
    source: Source | bytes | bytearray | memoryview, spec: TargetSpec, language: str | None
) -> tuple[str, bytes | None, str, str, str]:
    """Return the text of a source, its bytes if it is not text, and its file's name, folder and suffix ("" without a file)."""
    binary = _binary_languages(spec)
    if isinstance(source, (bytes, bytearray, memoryview)) and binary:
        data = bytes(source)
        payload = spec.compiled_as.get(detect_form(data), "")
        other = next((suffix for suffix in binary if suffix in _BINARY_SUFFIXES), next(iter(binary)))
        suffix = payload if payload in spec.languages and payload not in spec.source_formats else other
        if (language is None and suffix not in binary) or language in _payload_texts(spec):
            # A text payload as bytes, as compilers return it: with a zero byte at its end.
            return decode_source(data.rstrip(b"\0"), "<bytes>", spec.kind), None, "", "", suffix
        if language not in (None, *binary, *binary.values()):
            expected = ", ".join(binary.values())
            raise CompileError(f"the source is bytes, which are {expected} and not {language}", kind=spec.kind)
        return "", data, "", "", suffix
    if isinstance(source, str):
        if language in (*binary, *binary.values()):
            raise CompileError(f"{language} is not text: pass its bytes, or its file as a pathlib.Path", kind=spec.kind)
        suffix = os.path.splitext(source.strip())[1][1:].lower()
        if "\n" not in source.strip() and suffix and suffix in _suffixes(spec):
            raise CompileError(
                f"the source is a str of one line that ends in '.{suffix}': a str is always text. {file_hint(source)}",
                kind=spec.kind,
            )
        return check_source_text(source, "<text>", spec.kind), None, "", "", ""
    if not isinstance(source, os.PathLike):
        expected = f"a str (text){', bytes (' + ', '.join(binary.values()) + ')' if binary else ''} or an os.PathLike (a file)"
        raise CompileError(f"a source is {expected}, not {type(source).__name__}", kind=spec.kind)
    path = os.path.abspath(os.fsdecode(source))
    if not is_utf8(os.path.basename(path)):
        raise CompileError(
            f"the name of the file {path!r} is not UTF-8, and the payload's origin has that name: rename the file", kind=spec.kind
        )
    try:
        with open_regular(path, hint="Pass the text, or - on the command line for standard input") as file:
            data = file.read()
    except FormatError as error:
        raise CompileError(str(error), kind=spec.kind) from None
    folder, name = os.path.split(path)
    suffix = os.path.splitext(name)[1][1:].lower()
    if language is None and suffix not in spec.languages:
        _check_suffix(spec, name, suffix)
    if (suffix if language is None else language) in (*binary, *(() if language is None else binary.values())):
        return "", data, name, folder, suffix
    return decode_source(data, name, spec.kind), None, name, folder, suffix


def resembles_path(text: str) -> bool:
    """Return whether a source that does not compile may be intended as a path: one word with a slash or a dot."""
    word = text.strip()
    return len(word) <= _MAX_PATH and len(word.split()) == 1 and not set(word) & set("{}()#;") and bool(set(word) & set("/\\."))


def file_hint(path: str) -> str:
    return f"For the file, pass pathlib.Path({path.strip()!r})"


def _check_suffix(spec: TargetSpec, name: str, suffix: str) -> None:
    """Raise CompileError if the suffix is another target's: the compiler's own error would be misleading."""
    other = _other_target(spec, suffix)
    if other is not None:
        languages = ", ".join(f"{language} (.{ending})" for ending, language in spec.languages.items())
        default = next(iter(spec.languages.values()))
        raise CompileError(
            f"{name} is {other.languages[suffix]} by its suffix, a source for {other.kind}; {spec.kind} takes {languages}. If the suffix "
            f"is wrong, pass the language: devmod.compile(…, language={default!r})",
            kind=spec.kind,
        )


def _other_target(spec: TargetSpec, suffix: str) -> TargetSpec | None:
    """Return another target whose source files have this suffix; None if it is this target's own or unknown."""
    if suffix in spec.languages or not spec.languages:
        return None
    return next((other for other in filter(None, map(find_spec, KINDS)) if suffix in other.languages), None)


def _binary_languages(spec: TargetSpec) -> dict[str, str]:
    """Return the languages that are not text."""
    return {
        suffix: language
        for suffix, language in spec.languages.items()
        if suffix in _BINARY_SUFFIXES or spec.suffixes.get(suffix, "") in set(spec.formats) - spec.text_formats
    }


def _payload_texts(spec: TargetSpec) -> set[str]:
    """Return the names of the languages that are payloads in text, such as PTX."""
    own = {suffix: language for suffix, language in spec.languages.items() if suffix in set(spec.text_formats) - set(spec.source_formats)}
    return {*own, *own.values()}


def _suffixes(spec: TargetSpec) -> set[str]:
    """Return the suffixes of source and payload files of the target and of core's targets."""
    specs = [spec, *filter(None, map(find_spec, KINDS))]
    return {suffix for one in specs for suffix in (*one.languages, *one.suffixes)} | {"c", "cc", "cpp", "h", "hpp"}


def language_of(spec: TargetSpec, language: str | None, suffix: str) -> str:
    if language is None:
        return spec.languages.get(suffix, "")
    known = {**spec.languages, **{name: name for name in spec.languages.values()}}
    if language not in known:
        names = ", ".join(map(repr, dict.fromkeys(spec.languages.values()))) or "none"
        raise CompileError(f"{spec.kind} has no language {language!r}; its languages: {names}", kind=spec.kind)
    return known[language]
