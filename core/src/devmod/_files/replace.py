"""Replacing the constants of a module by name (R51). The kernels stay, so no compiler is needed.

A program has the names of the model beside its declarations: `original` of a constant is its name
there, "" if it was computed when the program was made. Several constants with one name are its
parts: consecutive rows, in the order of the declarations. `folded` has the identities of the values
that are in kernels or in computed constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devmod._files.bundle_file import dumps, loads_own
from devmod._modules.bundle import BundleModule
from devmod._modules.const_loader import (
    KIND,
    ConstantTensor,
    ConstLoaderModule,
    as_constant,
    items_of,
)
from devmod._modules.module import LibraryModule, Module, ordered, usable_functions, walk
from devmod._modules.stored import StoredModule
from devmod._values.info import Interface
from devmod.errors import ArgumentError, did_you_mean, list_names
from devmod.targets import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Mapping

    #: The constants of a name of the model, each as its own name, or those of its parts, and the
    #: constants beside it: programs of several kinds may have one each.
    Places = dict[str, list[tuple[list[str], dict[str, ConstantTensor]]]]

#: The classes of which a tree has copies. Others are read from bytes first.
_COPIED = (StoredModule, BundleModule, ConstLoaderModule, LibraryModule)


def replace_constants(
    module: Module, values: Mapping[str, Any], *, partial: bool = False
) -> Module:
    """Return a module with other values of its constants. The kernels stay as they are, and no
    compiler is needed.

    Parameters
    ----------
    module
        The module, such as a program of a model. It does not change. Of a file, the constants that
        are replaced are not read.
    values
        Name to host array, as for `const_loader`, of the type and the shape of the constant. The
        name is that of the model from which the program was made, such as "encoder.weight".
    partial
        Whether the other constants keep their values.

    Returns
    -------
    Module
        The module with the new values. `devmod.save` writes it.

    Raises
    ------
    ArgumentError
        Values are missing, or have unknown names, or another type or shape than their constants; or
        a value is in kernels, or in a constant that was computed from it, and the new one is
        another. The message lists the names.
    FormatError
        A value is not a host array, or a module is damaged.
    """
    given = {name: as_constant(name, value) for name, value in items_of(values, "values")}
    if not all(isinstance(each, _COPIED) for each in walk(module)):
        module = loads_own(dumps(module, with_sources=True))
    loaders = {id(each): _loaded(each) for each in walk(module) if each.kind == KIND}
    tensors = {key: {**each.tensors} for key, each in loaders.items()}
    places, folded = _names(module, tensors)
    _check(given, places, folded, partial)
    for name, value in given.items():
        for names, constants in places.get(name, ()):
            _set(constants, names, value)
    changed: dict[int, Module] = {
        key: ConstLoaderModule(tensors[key], each.by_symbol) for key, each in loaders.items()
    }
    return _rebuilt(module, changed)


def _set(constants: dict[str, ConstantTensor], names: list[str], value: ConstantTensor) -> None:
    """Give a constant, or its parts, another value."""
    data = memoryview(value.data)
    for name in names:
        part = constants[name]
        constants[name] = ConstantTensor(part.dtype, part.shape, data[: part.nbytes])
        data = data[part.nbytes :]


def _form(parts: list[ConstantTensor]) -> str:
    """Return the type and the shape of a constant, which may be in parts."""
    first = parts[0]
    shape = first.shape
    if len(parts) > 1:
        shape = (sum(each.shape[0] for each in parts), *shape[1:])
    return ConstantTensor(first.dtype, shape, b"").form


def _loaded(module: Any) -> Any:
    return module._real() if isinstance(module, StoredModule) else module


def _names(
    root: Module, tensors: Mapping[int, dict[str, ConstantTensor]]
) -> tuple[Places, dict[str, set[str]]]:
    """Return the places of the constants by the names of the model, and what is folded. `tensors`
    has the constants by the identities of their modules.
    """
    originals: dict[int, dict[str, str]] = {}
    folded: dict[str, set[str]] = {}
    for module in walk(root):
        if module.kind != PROGRAM:
            continue
        for _, info in usable_functions(module.functions):
            interface = info.interface or Interface(())
            for param in interface.params:
                name = param.extra.get("original")
                if isinstance(name, str):
                    for each in module.imports:
                        originals.setdefault(id(each), {})[param.name] = name
            found = interface.extra.get("folded")
            if isinstance(found, dict):
                for name, identity in found.items():
                    folded.setdefault(name, set()).add(str(identity))
    places: Places = {}
    for key, constants in tensors.items():
        declared = originals.get(key, {})
        for own in dict.fromkeys([*declared, *constants]):
            name = declared.get(own, own)
            if name and own in constants:
                _add(places.setdefault(name, []), own, constants)
    return places, folded


def _add(places: Any, own: str, constants: dict[str, ConstantTensor]) -> None:
    """Add a constant to the places of a name. It is a part if one before has rows of its form."""
    if places:
        names, others = places[-1]
        row = _row(constants[own])
        if others is constants and row and _row(constants[names[0]]) == row:
            names.append(own)
            return
    places.append(([own], constants))


def _row(constant: ConstantTensor) -> tuple[Any, ...]:
    """Return the form of the rows of a constant; () for one number, which has none."""
    if not constant.shape:
        return ()
    return (constant.dtype, constant.shape[1:])


def _identities(parts: list[ConstantTensor]) -> tuple[str, ...]:
    return tuple([each.identity for each in parts])


def _check(
    given: Mapping[str, ConstantTensor],
    places: Places,
    folded: Mapping[str, set[str]],
    partial: bool,
) -> None:
    """Raise ArgumentError for values that constants cannot get."""
    missing = sorted(places.keys() - given.keys())
    unknown = sorted(given.keys() - places.keys() - folded.keys())
    misfits = []
    ambiguous = []
    fixed = []
    example = ""
    advice = ""
    for name, value in sorted(given.items()):
        known = []
        for names, constants in places.get(name, ()):
            known.append([constants[own] for own in names])
        if name in folded and folded[name] != {value.identity}:
            fixed.append(name)
        if len(known) > 1 and len(set(map(_identities, known))) > 1:
            ambiguous.append(name)
        elif known and _form(known[0]) != value.form:
            misfits.append(name)
            example = f" ({name!r} is {_form(known[0])}, and its value is {value.form})"
    if unknown:
        advice = did_you_mean(unknown[0], [*places, *folded])
    problems = [
        ("other types or shapes are given for ", misfits, example),
        (
            "replace the constants of each program before the programs are bundled, since several with different values have the name ",
            ambiguous,
            "",
        ),
        (
            "make the file from the model again, since kernels or computed constants have another value of ",
            fixed,
            "",
        ),
        ("no constant has the name ", unknown, advice),
    ]
    if not partial:
        problems.insert(0, ("values are missing for ", missing, ""))
    texts = [f"{text}{list_names(names)}{more}" for text, names, more in problems if names]
    if texts:
        raise ArgumentError(f"replace_constants: {'; '.join(texts)}", argument="values")


def _rebuilt(root: Module, changed: dict[int, Module]) -> Module:
    """Return a tree with other modules in the place of some. Their importers are copies."""
    for module, imports in reversed(ordered([root])):  # imports before their importers
        below = tuple([changed.get(id(each), each) for each in imports])
        if id(module) not in changed:
            if below == imports:
                continue
            changed[id(module)] = _copy(module)
        changed[id(module)]._devmod_imports = below
    return changed.get(id(root), root)


def _copy(module: Module) -> Module:
    """Return a module of the same bytes. What was loaded of the other one has its imports."""
    if isinstance(module, BundleModule):
        return module._with(_functions={})
    copy = module._with()
    copy.__dict__.pop("_values", None)
    return copy
