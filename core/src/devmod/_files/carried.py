"""What a save carries from files besides modules, their sources and their parts: tuning records,
and what a file has and this devmod does not know (R56).

The last character of an unknown name decides: it is kept, it makes the save an error, or it is
dropped. docs/formats.md has the rules.
"""

from __future__ import annotations

from itertools import chain

from devmod._formats.index import KEEP, REFUSE, TUNING
from devmod._formats.pages import Index
from devmod._modules.module import Records
from devmod.errors import FormatError, pip_install, quote_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from devmod._formats.parts import StoredPart
    from devmod._modules.module import Module, RecordSource
    from devmod._values.records import TuningRecord

    #: The bytes of an attachment: those of an open file, or new ones.
    Attachment = StoredPart | bytes


def files_of(modules: Iterable[Module]) -> list[Index]:
    """Return the open files that modules are from, each once."""
    files = dict.fromkeys([module._devmod_file for module in modules])
    return [each for each in files if each is not None]


def kept_keys(fields: Mapping[str, Any], place: str, subject: str) -> dict[str, Any]:
    """Return the unknown keys of a map that the new file has too.

    Parameters
    ----------
    fields
        The unknown keys with a mark.
    place, subject
        The file, and what of it has the keys, for messages.
    """
    for key in fields:
        _refuse(key, place, subject)
    return dict(fields)


def kept_head(files: Iterable[Index]) -> tuple[dict[str, Any], dict[str, memoryview]]:
    """Return the unknown keys of the heads of files that the new file has too, and the bytes of the
    sections that it has, by their names.

    Raises
    ------
    FormatError
        Two files have different values, or a name is one that must not be left out.
    """
    keys: dict[str, Any] = {}
    sections: dict[str, memoryview] = {}
    for file in files:
        for key, value in kept_keys(file.extra, file.place, "the key").items():
            if keys.setdefault(key, value) != value:
                raise _conflict(file.place, f"the key {quote_name(key)}")
        for name in file.sections:
            _refuse(name, file.place, "the section")
            if not name.endswith(KEEP):
                continue
            data = file.section(name)
            if sections.setdefault(name, data) != data:
                raise _conflict(file.place, f"the section {quote_name(name)}")
    return keys, sections


def attachments(
    root: Module, files: Iterable[Index], names: Collection[str]
) -> dict[str, dict[str, Attachment]]:
    """Return the attachments of functions by their tags, in the order of the functions' names.

    Parameters
    ----------
    root
        The root of the tree that is saved.
    files
        The files of its modules.
    names
        The functions of the tree. What belongs to others is not saved.
    """
    found: dict[str, dict[str, Attachment]] = _tuning(root._records.sources, names)
    for file in files:
        for part in file.attachments():
            function, tag = part.entry.function, part.entry.tag
            if function not in names or tag == TUNING:
                continue
            _refuse(tag, file.place, f"the attachment of {quote_name(function)}")
            if not tag.endswith(KEEP):
                continue
            other = found.setdefault(function, {}).setdefault(tag, part)
            assert not isinstance(other, bytes)
            if other.entry.stored_digest != part.entry.stored_digest:
                raise _conflict(
                    file.place, f"the attachment {quote_name(tag)} of {quote_name(function)}"
                )
    return dict(sorted(found.items()))


def _tuning(
    sources: Iterable[RecordSource], names: Collection[str]
) -> dict[str, dict[str, Attachment]]:
    """Return the tuning records of functions. Those of one file are not read."""
    stored: dict[str, dict[bytes, StoredPart]] = {}
    given: dict[str, list[TuningRecord]] = {}
    for source in sources:
        if isinstance(source, Index):
            for part in source.attachments():
                if part.entry.tag == TUNING:
                    stored.setdefault(part.entry.function, {})[part.digest] = part
        else:
            for record in source.given:
                given.setdefault(record.function, []).append(record)

    results: dict[str, dict[str, Attachment]] = {}
    for function in {*stored, *given} & {*names}:
        parts = stored.get(function, {})
        if function not in given and len(parts) == 1:
            results[function] = {TUNING: next(iter(parts.values()))}
            continue
        from devmod._formats.tuning import pack_attachment

        records = Records(*sources)(function)
        if records:
            results[function] = {TUNING: pack_attachment(records)}
    return results


def functions_of(names: Iterable[Iterable[str]]) -> set[str]:
    """Return the names of the functions of modules."""
    return set(chain.from_iterable(names))


def _refuse(name: str, place: str, subject: str) -> None:
    """Raise FormatError for an unknown name that must not be left out."""
    if name.endswith(REFUSE):
        raise FormatError(
            f"{place} has {subject} {quote_name(name)}, which a newer devmod wrote and this one cannot save: "
            f"{pip_install('--upgrade devmod-core')}"
        )


def _conflict(place: str, subject: str) -> FormatError:
    return FormatError(
        f"{place} and another file differ in {subject}, which this devmod does not know and cannot join. A newer one may: "
        f"{pip_install('--upgrade devmod-core')}"
    )
