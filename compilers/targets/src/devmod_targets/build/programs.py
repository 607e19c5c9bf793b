"""The programs of a manifest: their text, which is checked when it is read, and their modules,
which are made after the compiles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from devmod import Module
from devmod.errors import FormatError, list_names, quote_name
from devmod_readers.programs import Program, check_names, gradient_of
from devmod_targets._program_text import Repeated, parse_program
from devmod_targets.build.document import KeyPath, ManifestError, read_document
from devmod_targets.build.manifest import Manifest, ProgramEntry
from devmod_targets.programs import Parts


def check_programs(entries: Sequence[ProgramEntry], add: Callable[[KeyPath, str], None]) -> None:
    """Check the text of programs, and their names. `add` gets the keys and the text of each
    mistake.
    """
    positions = {each.name: position for position, each in enumerate(entries)}
    programs = {}
    for position, entry in enumerate(entries):
        keys: KeyPath = ("programs", entry.name)
        if entry.backward and entry.backward not in positions:
            add((*keys, "backward"), f"the manifest has no program {entry.backward!r}")
        if not all(map(all, (entry.steps, *dict(entry.declared).values()))):
            continue  # the reader has added the mistake
        program, mistakes = _parse(entry)
        for key, number, text in mistakes:
            add((*keys, *_place(entry, key, number)), text)
        if mistakes:
            continue
        try:
            check_names(program)
        except FormatError as error:
            place, text = _mistake(entry, error)
            add((*keys, *place), text)
        programs[entry.name] = program
        for number, step in enumerate(program.steps):
            if positions.get(step.kernel, -1) < position:
                continue
            text = f"a step may call the programs above {entry.name!r}, and {step.kernel!r} is not one of them"
            if step.kernel == entry.name:
                text = "it launches itself; if this is a kernel, take another name for the program"
            add((*keys, *_place(entry, "steps", number)), text)
    for name, program in programs.items():
        if program.backward in programs:
            try:
                gradient_of(program, programs[program.backward])
            except FormatError as error:
                add(("programs", name, "backward"), str(error).partition(": backward: ")[2])


def add_programs(manifest: Manifest, module: Module, *, complete: bool) -> tuple[Module, list[str]]:
    """Return a module with the programs of a manifest, and for each that is left out the reason.

    Parameters
    ----------
    manifest
        The manifest.
    module
        The kernels and the constants.
    complete
        Whether the module has all kernels of the manifest. If not, a program of which a kernel is
        missing is left out.

    Raises
    ------
    ManifestError
        A program does not fit its kernels or the constants.
    """
    reasons = []
    known = {*module}
    parts = None
    for entry in manifest.programs:
        program, _ = _parse(entry)
        missing = [name for name in program.kernels if name not in known]
        if missing and not complete:
            reasons.append(
                f"the program {entry.name!r} is not in the file: this build lacks {list_names(missing)}"
            )
            continue
        try:
            parts = parts or Parts(entry.name, module)
            parts.add(program)
            known.add(entry.name)
        except FormatError as error:
            place, text = _mistake(entry, error)
            problem = read_document(manifest.path).problem(("programs", entry.name, *place), text)
            raise ManifestError(manifest.path, [problem]) from None
    if parts is not None:
        module = parts.module()
    return module, reasons


def _parse(entry: ProgramEntry) -> tuple[Program, list[tuple[str, int, str]]]:
    """Return a program, and the key, the index and the text of each mistake."""
    mistakes = []

    def report(key: str, number: int, text: str) -> None:
        mistakes.append((key, number, text))

    return parse_program(
        entry.name, entry.steps, dict(entry.declared), entry.backward, report
    ), mistakes


def _place(entry: ProgramEntry, key: str, number: int) -> KeyPath:
    """Return the keys of a text. The number of a step counts those in repeats."""
    if key == "steps":
        return _places(entry.steps)[number]
    return key, number


def _places(steps: Sequence[Any]) -> list[KeyPath]:
    """Return the keys of steps, with those in repeats."""
    result = []
    for number, each in enumerate(steps):
        if isinstance(each, Repeated):
            result += [("steps", number, *inner) for inner in _places(each.steps)]
        else:
            result.append(("steps", number))
    return result


def _mistake(entry: ProgramEntry, error: FormatError) -> tuple[KeyPath, str]:
    """Return the key and the index of the text with a mistake, () for the whole program, and the
    message without the program's name.
    """
    prefix = f"the program {quote_name(entry.name)}"
    if not str(error).startswith(prefix):
        return (), str(error)
    text = str(error)[len(prefix) + 2 :]  # behind a comma or a colon
    if match := re.match(r"step (\d+) ", text):
        return _place(entry, "steps", int(match[1]) - 1), text
    for key, texts in entry.declared:
        if text.startswith(f"{key}: "):
            return (key,), text.removeprefix(f"{key}: ")
        for number, each in enumerate(texts):
            if each.partition(":")[0].strip() == error.argument:
                return (key, number), text
    return (), text
