"""How constants are saved: each large one is a part of the file, and equal ones are there once."""

from __future__ import annotations

from itertools import islice

from devmod._formats.index import CONSTANTS
from devmod._formats.parts import MIN_PART, find_equal
from devmod._modules.stored import StoredModule
from devmod._util.buffers import flat
from devmod._util.digest import sha256_of_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from devmod._formats.parts import Part, StoredPart
    from devmod._modules.module import Module
    from devmod._values.code import Binary


class ConstantForm:
    """How one const_loader is saved.

    Attributes
    ----------
    wire
        Its bytes for the file; None for a stored module, which has them.
    parts
        Its parts, each with its SHA-256, or with NO_DIGEST if that was not computed. Equal ones are
        one object.
    """

    def __init__(self, wire: Sequence[Binary] | None, parts: Sequence[Part]) -> None:
        self.wire = wire
        self.parts = parts


def plan_constants(
    loaders: Sequence[Module],
) -> tuple[dict[int, ConstantForm], dict[int, Module]]:
    """Return how the constants of a tree are saved: the form of each const_loader by its identity,
    and in the place of a form the later const_loader that is equal.

    Several programs may have the same constants.
    """
    split = [_split(each) for each in loaders]
    everything: list[StoredPart | Binary] = []
    for _, own in split:
        everything += own
    equal = iter(find_equal(everything))
    forms: dict[int, ConstantForm] = {}
    for each, (wire, own) in zip(loaders, split, strict=True):
        forms[id(each)] = ConstantForm(wire, list(islice(equal, len(own))))
    if len(loaders) == 1:
        return forms, {}

    last: dict[object, Module] = {}
    same: dict[int, Module] = {}
    for each in reversed(loaders):
        if each.kind != CONSTANTS:  # equal bytes of other kinds are no equal modules
            continue
        form = forms[id(each)]
        key = _digest(each, form), tuple([id(part) for part, _ in form.parts])
        other = last.setdefault(key, each)
        if other is not each:
            same[id(each)] = other
            del forms[id(each)]
    return forms, same


def _split(module: Module) -> tuple[Sequence[Binary] | None, Sequence[StoredPart | Binary]]:
    """Return a module's bytes for a file, and its parts."""
    if isinstance(module, StoredModule) and module.has_digest:
        return None, module.parts
    from devmod._modules.const_loader import ConstLoaderModule, load_from_bytes

    constants = module
    if not isinstance(module, ConstLoaderModule):
        constants = load_from_bytes(memoryview(module.save_to_bytes()))
    assert isinstance(constants, ConstLoaderModule)
    pieces, tensors = constants.file_parts(MIN_PART)
    # Those of an open file are read when the new file is written.
    return pieces, [each.part or flat(each.data) for each in tensors]


def _digest(module: Module, form: ConstantForm) -> bytes:
    if form.wire is not None:
        return sha256_of_parts(form.wire)
    assert isinstance(module, StoredModule)
    return module.entry.stored_digest
