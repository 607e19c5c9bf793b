"""How constants are saved: each large one is a part of the file, and equal ones are there once."""

from __future__ import annotations

from devmod._formats.parts import MIN_PART, StoredPart, find_equal
from devmod._modules.stored import StoredModule
from devmod._util.buffers import flat
from devmod._util.digest import sha256_of_parts
from devmod.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod._modules.module import Module
    from devmod._values.code import Binary


class ConstantForm:
    """How one const_loader is saved.

    Attributes
    ----------
    wire
        Its bytes for the file; None for a stored module, which has them.
    parts
        For each of its parts the position in `ConstantPlan.parts`.
    """

    def __init__(self, wire: Sequence[Binary] | None, parts: Sequence[int]) -> None:
        self.wire = wire
        self.parts = parts


class ConstantPlan:
    """How the constants of a tree are saved.

    Attributes
    ----------
    parts
        All parts. Of equal ones, the forms name the first.
    digests
        The SHA-256 of each, if it was computed, else b"".
    forms
        The form of each const_loader that is saved, by its identity.
    same
        For each const_loader that is equal to a later one, that one: several programs may have the
        same constants.
    """

    def __init__(self, loaders: Sequence[Module]) -> None:
        self.parts: list[StoredPart | Binary] = []
        self.forms: dict[int, ConstantForm] = {}
        self.same: dict[int, Module] = {}
        for each in loaders:
            wire, parts = _split(each)
            start = len(self.parts)
            self.parts += parts
            self.forms[id(each)] = ConstantForm(wire, range(start, len(self.parts)))
        equal = find_equal(self.parts)
        self.digests = [digest for _, digest in equal]
        for form in self.forms.values():
            form.parts = [equal[number][0] for number in form.parts]
        if len(loaders) > 1:
            self._find_same(loaders)

    def _find_same(self, loaders: Sequence[Module]) -> None:
        last: dict[object, Module] = {}
        for each in reversed(loaders):
            form = self.forms[id(each)]
            key = _digest(each, form), tuple(form.parts)
            other = last.setdefault(key, each)
            if other is not each:
                self.same[id(each)] = other
                del self.forms[id(each)]


def _split(module: Module) -> tuple[Sequence[Binary] | None, Sequence[StoredPart | Binary]]:
    """Return a module's bytes for a file, and its parts."""
    if isinstance(module, StoredModule) and module.has_digest:
        return None, module.parts
    from devmod._modules.const_loader import ConstLoaderModule, load_from_bytes

    constants = module
    if not isinstance(module, ConstLoaderModule):
        wire = module.wire_parts()
        try:
            constants = load_from_bytes(memoryview(b"".join(wire)))
        except FormatError:  # the class of a plugin; the first use raises the error
            return wire, ()
    assert isinstance(constants, ConstLoaderModule)
    pieces, tensors = constants.file_parts(MIN_PART)
    # Those of an open file are read when the new file is written.
    return pieces, [each.part or flat(each.data) for each in tensors]


def _digest(module: Module, form: ConstantForm) -> bytes:
    if form.wire is not None:
        return sha256_of_parts(form.wire)
    assert isinstance(module, StoredModule)
    return module.entry.stored_digest
