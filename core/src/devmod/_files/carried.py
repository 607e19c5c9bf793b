"""What a save carries from files besides modules, their sources and their parts: tuning records,
and what a file has and this devmod does not know (R56).

The last character of an unknown name decides: it is kept, it makes the save an error, or it is
dropped. docs/formats.md has the rules.
"""

from __future__ import annotations

from devmod._formats.index import KEEP, REFUSE, TUNING
from devmod._formats.pages import Index
from devmod._modules.module import Records, walk
from devmod.errors import FormatError, pip_install, quote_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from devmod._formats.parts import StoredAttachment
    from devmod._modules.module import Module, RecordSource

    #: The bytes of an attachment: those of an open file, or new ones.
    Attachment = StoredAttachment | bytes


def files_of(modules: Iterable[Module]) -> list[Index]:
    """Return the open files that modules are from, each once."""
    files = dict.fromkeys([module._devmod_file for module in modules])
    return [each for each in files if each is not None]


def mark_of(name: str) -> str:
    """Return the mark of an unknown name: KEEP, REFUSE, or "" for one that a save drops."""
    mark = name[-1:]
    if mark in (KEEP, REFUSE):
        return mark
    return ""


class Unknown:
    """Decides for unknown names whether the new file has what they name.

    Attributes
    ----------
    dropped
        What it does not have, for a warning.
    """

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def keeps(self, name: str, place: str, subject: str, *, explained: bool = False) -> bool:
        """Return whether the new file has what a name of a file names. With `explained`, features
        say what it is, and it is not dropped.

        Raises
        ------
        FormatError
            It must not be left out.
        """
        text = f"{place} has {subject} {quote_name(name)}, which a newer devmod wrote"
        mark = mark_of(name)
        if mark == REFUSE:
            raise FormatError(
                f"{text} and this one cannot save: {pip_install('--upgrade devmod-core')}"
            )
        if explained or mark == KEEP:
            return True
        self.dropped.append(f"{text}. It is not saved")
        return False

    def keys(
        self, fields: Mapping[str, Any], place: str, *, explained: bool = False
    ) -> dict[str, Any]:
        """Return the unknown keys of a record or a head that the new file has too."""
        return {
            key: value
            for key, value in fields.items()
            if self.keeps(key, place, "the key", explained=explained)
        }


def verify_rest(root: Module) -> None:
    """Compare what files have besides modules with the digests in their indexes: sources,
    attachments and sections, and the bytes between all parts with zero.

    Raises
    ------
    FormatError
        A file is damaged.
    """
    for file in files_of(walk(root)):
        file.check_rest()


def kept_head(
    files: Iterable[Index], unknown: Unknown
) -> tuple[dict[str, Any], dict[str, memoryview]]:
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
        for key, value in unknown.keys(file.extra, file.place).items():
            if keys.setdefault(key, value) != value:
                raise _conflict(file.place, f"the key {quote_name(key)}")
        for name in file.sections:
            if not unknown.keeps(name, file.place, "the section"):
                continue
            data = file.section(name)
            if sections.setdefault(name, data) != data:
                raise _conflict(file.place, f"the section {quote_name(name)}")
    return keys, sections


def attachments(
    sources: Sequence[RecordSource],
    files: Iterable[Index],
    names: Collection[str],
    unknown: Unknown,
) -> dict[str, dict[str, Attachment]]:
    """Return the attachments of functions by their tags, in the order of the functions' names.

    Parameters
    ----------
    sources
        Where the tuning records of the tree are.
    files
        The files of its modules.
    names
        The functions of the tree. What belongs to others is not saved.
    """
    found: dict[str, dict[str, Attachment]] = _tuning(sources, names)
    for file in files:
        for part in file.attachments():
            function, tag = part.entry.function, part.entry.tag
            if function not in names or tag == TUNING:
                continue
            subject = f"for the function {quote_name(function)} the attachment"
            if not unknown.keeps(tag, file.place, subject):
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
    stored: dict[str, dict[bytes, StoredAttachment]] = {}
    given: set[str] = set()
    for source in sources:
        if isinstance(source, Index):
            for part in source.attachments():
                if part.entry.tag == TUNING:
                    stored.setdefault(part.entry.function, {})[part.digest] = part
        else:
            given |= source.by_function.keys()

    results: dict[str, dict[str, Attachment]] = {}
    for function in (given | stored.keys()) & {*names}:
        parts = stored.get(function, {})
        if function not in given and len(parts) == 1:
            results[function] = {TUNING: next(iter(parts.values()))}
            continue
        from devmod._formats.tuning import pack_attachment

        records = Records(*sources)(function)
        if records:
            results[function] = {TUNING: pack_attachment(records)}
    return results


def _conflict(place: str, subject: str) -> FormatError:
    return FormatError(
        f"{place} and another file differ in {subject}, which this devmod does not know and cannot join. A newer one may: "
        f"{pip_install('--upgrade devmod-core')}"
    )
