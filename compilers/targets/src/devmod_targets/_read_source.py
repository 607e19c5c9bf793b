"""Read the source of `devmod.compile`: text, bytes or a file, and its language."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from devmod.backend import detect_form, find_spec, open_regular
from devmod.errors import CompileError, FormatError
from devmod.targets import KINDS
from devmod_targets._compilers import owner_of, takes
from devmod_targets._text import is_utf8
from devmod_targets.authoring import check_source_text, decode_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devmod import TargetSpec

    Path = str | os.PathLike[str]
    #: Those that are added one by one.
    OwnNames = dict[str, str]
    #: The names, or the digests, of files or of parameters by others.
    Names = Mapping[str, str]


#: The suffixes of sources that are neither text nor payloads: LLVM bitcode, and objects.
_BINARY_SUFFIXES = ("bc", "o")
#: The maximum number of characters of a path.
_MAX_PATH = 4096


class SourceText(NamedTuple):
    """A source as it was read.

    Attributes
    ----------
    text
        Its text; "" if it is not text.
    data
        Its bytes; None if it is text.
    name, folder, suffix
        Those of its file; "" without one. Bytes may have a suffix that shows their language.
    """

    text: str
    data: bytes | None = None
    name: str = ""
    folder: str = ""
    suffix: str = ""

    @property
    def shown_name(self) -> str:
        """The name in diagnostics and origins."""
        if self.name:
            return self.name
        return "<text>" if self.data is None else "<bytes>"


def read_source(
    source: Path | bytes | bytearray | memoryview, spec: TargetSpec, language: str | None
) -> SourceText:
    binary = _binary_languages(spec)
    if isinstance(source, (bytes, bytearray, memoryview)) and binary:
        return _read_bytes(bytes(source), spec, language, binary)
    if isinstance(source, str):
        return SourceText(_checked_text(source, spec, language, binary))
    if isinstance(source, os.PathLike):
        return _read_file(source, spec, language, binary)
    types = f", bytes ({', '.join(binary.values())})" if binary else ""
    raise CompileError(
        f"a source is a str (text){types} or an os.PathLike (a file), not {type(source).__name__}"
    )


def _read_bytes(data: bytes, spec: TargetSpec, language: str | None, binary: Names) -> SourceText:
    suffix = spec.compiled_as.get(detect_form(data), "")
    if suffix not in spec.languages or suffix in spec.source_formats:
        objects = (each for each in binary if each in _BINARY_SUFFIXES)
        suffix = next(objects, next(iter(binary)))

    if (language is None and suffix not in binary) or language in _payload_texts(spec):
        # A text payload as bytes, as compilers return it: with a zero byte at its end.
        text = decode_source(data.rstrip(b"\0"), "<bytes>", spec.kind)
        return SourceText(text, suffix=suffix)
    if language not in (None, *binary, *binary.values()):
        expected = ", ".join(binary.values())
        raise CompileError(f"the source is bytes, which are {expected} and not {language}")
    return SourceText("", data, suffix=suffix)


def _checked_text(source: str, spec: TargetSpec, language: str | None, binary: Names) -> str:
    if language in (*binary, *binary.values()):
        raise CompileError(f"{language} is not text: pass its bytes, or its file as a pathlib.Path")
    word = source.strip()
    suffix = os.path.splitext(word)[1][1:].lower()
    if "\n" not in word and suffix and suffix in _suffixes(spec):
        raise CompileError(
            f"the source is a str of one line that ends in '.{suffix}': a str is always text. {file_hint(source)}"
        )
    return check_source_text(source, "<text>", spec.kind)


def _read_file(
    source: os.PathLike[str], spec: TargetSpec, language: str | None, binary: Names
) -> SourceText:
    path = os.path.abspath(os.fsdecode(source))
    folder, name = os.path.split(path)
    if not is_utf8(name):
        raise CompileError(
            f"the name of the file {path!r} is not UTF-8, and the payload's origin has that name: rename the file"
        )
    hint = "Pass the text, or - on the command line for standard input"
    try:
        with open_regular(path, hint=hint) as file:
            data = file.read()
    except FormatError as error:
        raise CompileError(str(error)) from None

    suffix = os.path.splitext(name)[1][1:].lower()
    if language is None:
        if suffix not in spec.languages:
            _check_suffix(spec, name, suffix)
        is_binary = suffix in binary
    else:
        is_binary = language in (*binary, *binary.values())
    if is_binary:
        return SourceText("", data, name, folder, suffix)
    return SourceText(decode_source(data, name, spec.kind), None, name, folder, suffix)


def resembles_path(text: str) -> bool:
    """Return whether a source that does not compile may be intended as a path: one word with a
    slash or a dot.
    """
    word = text.strip()
    return (
        len(word) <= _MAX_PATH
        and len(word.split()) == 1
        and not set(word) & set("{}()#;")
        and bool(set(word) & set("/\\."))
    )


def file_hint(path: str) -> str:
    return f"For the file, pass pathlib.Path({path.strip()!r})"


def _check_suffix(spec: TargetSpec, name: str, suffix: str) -> None:
    """Raise CompileError if the suffix is another target's: the compiler's own error would be
    misleading.
    """
    other = owner_of(suffix)
    # `owner_of` also finds names of languages, such as "object".
    if other is None or suffix not in other.languages or not spec.languages:
        return
    own = other.languages[suffix]
    if own == "Slang":
        raise _no_slang(spec)
    languages = ", ".join(f"{language} (.{ending})" for ending, language in spec.languages.items())
    default = next(iter(spec.languages.values()))
    raise CompileError(
        f"{name} is {own} by its suffix, a source for {other.kind}; {spec.kind} takes {languages}. "
        f"If the suffix is wrong, pass the language: devmod.compile(…, language={default!r})"
    )


def _no_slang(spec: TargetSpec) -> CompileError:
    """Return the error for a kind into whose language Slang cannot be translated."""
    kinds = ", ".join(each.kind for each in _own_specs() if takes(each, "Slang"))
    languages = " or ".join(dict.fromkeys(spec.languages.values())) or "its own language"
    return CompileError(
        f"Slang cannot be translated for {spec.kind}: it reaches {kinds}. For {spec.kind}, write the kernel in {languages}"
    )


def _own_specs() -> list[TargetSpec]:
    """Return the specs of core's kinds."""
    return [spec for spec in map(find_spec, KINDS) if spec is not None]


def _binary_languages(spec: TargetSpec) -> OwnNames:
    """Return the languages that are not text."""
    binary_formats = set(spec.formats) - spec.text_formats
    binary = {suffix for suffix, fmt in spec.suffixes.items() if fmt in binary_formats}
    binary.update(_BINARY_SUFFIXES)
    return {suffix: name for suffix, name in spec.languages.items() if suffix in binary}


def _payload_texts(spec: TargetSpec) -> set[str]:
    """Return the names of the languages that are payloads in text, such as PTX."""
    payloads = set(spec.text_formats) - set(spec.source_formats)
    result = set()
    for suffix, language in spec.languages.items():
        if suffix in payloads:
            result |= {suffix, language}
    return result


def _suffixes(spec: TargetSpec) -> set[str]:
    """Return the suffixes of source and payload files of the target and of core's targets."""
    result = {"c", "cc", "cpp", "h", "hpp"}
    for each in (spec, *_own_specs()):
        result.update(each.languages, each.suffixes)
    return result


def language_of(spec: TargetSpec, language: str | None, suffix: str) -> str:
    if language is None:
        return spec.languages.get(suffix, "")
    if not takes(spec, language):
        if language.lower() == "slang":
            raise _no_slang(spec)
        names = ", ".join(map(repr, dict.fromkeys(spec.languages.values()))) or "none"
        raise CompileError(f"{spec.kind} has no language {language!r}; its languages: {names}")
    return spec.languages.get(language, language)
