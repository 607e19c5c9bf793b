"""Find the parameters whose `const` a program removes by a cast. The kernel may write to their
arrays.

A cast to a pointer, or reference, to what is not const counts, whether the program writes through
it or not. Its operand may be the parameter, an address in its array, a number that the pointer was
cast to, a variable that has the pointer, or the parameter of a function to which a kernel passes
it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from devmod import Param
from devmod_readers.uses import bits, transitive_parts
from devmod_targets.authoring.clang import Libclang, lane_type, type_kind

#: A parameter, by the function's name and its number; or a variable, by the hash of its
#: declaration.
_Place = tuple[str, int] | int

#: A cast to a pointer or reference, or the name of a type that may be one.
_CAST = re.compile(
    r"[*&]\s*(?:(?:const|volatile|restrict|__restrict(?:__)?)\s*)*[)>]|\b(?:typedef|using)\b"
)
_POINTER, _REFERENCES, _RECORD, _ARRAYS = 101, (103, 104), 105, (112, 114, 115)
#: clang's number of OpenCL's address space, and its kind of a type that is known later, or never.
_CONSTANT, _DEPENDENT = 3, 26
_CASTS = (
    "CSTYLE_CAST_EXPR",
    "CXX_CONST_CAST_EXPR",
    "CXX_REINTERPRET_CAST_EXPR",
    "CXX_STATIC_CAST_EXPR",
    "CXX_FUNCTIONAL_CAST_EXPR",
)
#: The expressions that may have the pointer of an operand as their value. An unexposed one is a
#: conversion that clang adds.
_PASSING = (
    *_CASTS,
    "UNEXPOSED_EXPR",
    "PAREN_EXPR",
    "BINARY_OPERATOR",
    "COMPOUND_ASSIGNMENT_OPERATOR",
    "INIT_LIST_EXPR",
)
_FUNCTIONS = ("FUNCTION_DECL", "FUNCTION_TEMPLATE", "CXX_METHOD")
_CLASSES = ("STRUCT_DECL", "CLASS_DECL", "CLASS_TEMPLATE")


def may_cast(text: str) -> bool:
    """Return whether a program in C++ may have such a cast. The search takes much less time than a
    parse with the bodies of functions.

    C converts a pointer without a cast.
    """
    return _CAST.search(text) is not None


def written_parameters(
    library: Libclang, declarations: Iterable[Any], names: Mapping[str, str] = MappingProxyType({})
) -> Mapping[_Place, str]:
    """Return the parameters whose const a cast removes, each with the first such cast, such as
    "k.cl:4: (float *)".

    A parameter is the name of the function without its scope, and the number of the parameter.

    Parameters
    ----------
    library, declarations
        libclang, and the declarations of the program, which have bodies.
    names
        The names of files for messages, by libclang's. A file without one has the name of its
        path's last part.
    """
    casts, result = _Casts(library, declarations), {}
    for place, flags in casts.written_places().items():
        node = casts.removing[next(bits(flags))]
        file, line, _ = library.location(node.location)
        result[place] = (
            f"{names.get(file) or os.path.basename(file)}:{line}: ({node.type.spelling})"
        )
    return result


def written_param(param: Param, place: _Place, written: Mapping[_Place, str]) -> Param:
    """Return a param of const elements with the access "rw" and the cast, if `written_parameters`
    returns its place.
    """
    is_written = param.kind == "buffer" and param.access == "r" and place in written
    return (
        param.replace(access="rw", extra={**param.extra, "const_cast": written[place]})
        if is_written
        else param
    )


class _Casts:
    """The casts of a program, and the ways of its pointers to them."""

    def __init__(self, library: Libclang, declarations: Iterable[Any]) -> None:
        kinds = library.cindex.CursorKind
        self._casts, self._passing = (
            {getattr(kinds, name) for name in names} for names in (_CASTS, _PASSING)
        )
        self._parts = (kinds.ARRAY_SUBSCRIPT_EXPR, kinds.MEMBER_REF_EXPR)
        self._kinds = kinds
        functions = [
            (each, [child for child in each.get_children() if child.kind == kinds.PARM_DECL])
            for each in _bodies(declarations)
        ]
        self._places: dict[int, _Place] = {
            param.hash: (function.spelling, number)
            for function, params in functions
            for number, param in enumerate(params)
        }
        #: The casts that remove const, and for each place the bits of those that its pointer
        #: reaches.
        self.removing: list[Any] = []
        self._flags: dict[_Place, int] = dict.fromkeys(self._places.values(), 0)
        self._uses: dict[_Place, set[_Place]] = {}
        names = {function.spelling for function, _ in functions}
        #: The casts whose value becomes a pointer to const again: ``(const float *)((char *)x +
        #: offset)``.
        kept: set[int] = set()
        assignments = (kinds.BINARY_OPERATOR, kinds.COMPOUND_ASSIGNMENT_OPERATOR)
        searched = (
            *self._casts,
            *assignments,
            kinds.UNEXPOSED_EXPR,
            kinds.VAR_DECL,
            kinds.CALL_EXPR,
        )
        for function, _ in functions:
            for node in library.descendants(function, searched):
                kind = node.kind
                if kind == kinds.CALL_EXPR or (
                    kind == kinds.UNEXPOSED_EXPR and type_kind(node.type) == _DEPENDENT
                ):  # or one with an error
                    arguments = (
                        list(node.get_arguments())
                        if kind == kinds.CALL_EXPR
                        else list(node.get_children())[1:]
                    )
                    callee = node.spelling or next(
                        (each.spelling for each in node.get_children()), ""
                    )
                    # The first operand of an object's own operator is the object.
                    for number, argument in (
                        enumerate(arguments, -1 if callee == "operator()" else 0)
                        if callee in names
                        else ()
                    ):
                        self._pass(argument, (callee, number))
                elif kind == kinds.VAR_DECL:
                    # A pointer to what is not const gets the pointer by a cast, which counts
                    # itself.
                    for value in () if _is_mutable(node.type) else node.get_children():
                        self._pass(value, node.hash)
                        kept |= self._inner(value) if _is_pointer(node.type) else set()
                elif kind in assignments:
                    # The left operand of an assignment is a name, a member or an element. Of
                    # another operator, clang reads its value.
                    operands = list(node.get_children())
                    if operands[0].kind == kinds.DECL_REF_EXPR or (
                        operands[0].kind in self._parts and _is_pointer(operands[0].type)
                    ):
                        for place in (
                            () if _is_mutable(operands[0].type) else self._origins(operands[0])
                        ):
                            self._pass(operands[-1], place)
                elif _is_pointer(node.type) and not _is_mutable(node.type):
                    kept |= self._inner(node)
                elif node.hash in kept:
                    continue
                elif _is_mutable(node.type) or (
                    node.kind == kinds.CXX_CONST_CAST_EXPR and not _is_pointer(node.type)
                ):
                    for place in self._origins(node, is_address=not _is_pointer(node.type)):
                        self._flags[place] |= 1 << len(self.removing)
                    self.removing.append(node)

    def _inner(self, expression: Any) -> set[int]:
        """Return the hashes of an expression, and of those whose pointers it has as its value."""
        pending, found = [expression], set()
        while pending:
            node = pending.pop()
            if node.kind in self._passing:
                found.add(node.hash)
                pending += node.get_children()
        return found

    def written_places(self) -> dict[_Place, int]:
        """Return the parameters and variables whose pointers reach casts that remove const, with
        the bits of these.
        """
        return {
            place: flags
            for place, flags in transitive_parts(self._flags, self._uses).items()
            if flags
        }

    def _pass(self, value: Any, target: _Place) -> None:
        for place in self._origins(value):
            self._uses.setdefault(place, set()).add(target)
            self._flags.setdefault(target, 0)

    def _place(self, name: Any) -> _Place:
        declaration = name.referenced
        number = declaration.hash if declaration is not None else 0
        return self._places.get(number, number)

    def _origins(self, expression: Any, *, is_address: bool = False) -> Iterator[_Place]:
        """Yield the parameters and variables whose pointers an expression passes on, or its
        address.
        """
        kinds = self._kinds
        pending = [(expression, is_address)]
        while pending:
            node, is_address = pending.pop()
            kind = node.kind
            if kind == kinds.DECL_REF_EXPR:
                place = self._place(node)
                self._flags.setdefault(place, 0)
                yield place
                continue
            children = list(node.get_children())
            if kind in self._passing:
                pending += [(child, is_address) for child in children]
            elif not is_address and not _has_pointer(node.type):
                continue  # a value that was read through a pointer
            elif kind == kinds.MEMBER_REF_EXPR and _is_mutable(node.type):
                continue  # it has no pointer to const without a cast, which counts itself
            elif kind in self._parts:
                pending += [(child, is_address) for child in children[:1]]
            elif kind == kinds.UNARY_OPERATOR:
                pending += [(child, True) for child in children]
            elif kind == kinds.CONDITIONAL_OPERATOR:
                pending += [(child, is_address) for child in children[1:]]
            elif kind == kinds.CALL_EXPR and not _is_mutable(node.type):
                pending += [(child, False) for child in node.get_arguments()]


def _bodies(declarations: Iterable[Any]) -> Iterator[Any]:
    for each in declarations:
        if each.kind.name in _CLASSES:
            yield from _bodies(each.get_children())
        elif each.kind.name in _FUNCTIONS and each.is_definition():
            yield each


def _is_pointer(type_: Any) -> bool:
    kind = type_kind(type_.get_canonical())
    return kind == _POINTER or kind in _REFERENCES or kind in _ARRAYS


def _has_pointer(type_: Any) -> bool:
    """Return whether a value is a pointer, or a struct with a pointer, or an array of pointers,
    among its members.
    """
    type_ = type_.get_canonical()
    if _is_pointer(type_) or type_kind(type_) != _RECORD:
        return _is_pointer(type_)
    members = [each.type.get_canonical() for each in type_.get_fields()]
    return any(
        _is_pointer(lane_type(each) if type_kind(each) in _ARRAYS else each) for each in members
    )


def _is_mutable(type_: Any) -> bool:
    """Return whether a type is a pointer, or a reference, to what is not const, nor in OpenCL's
    constant memory.
    """
    type_ = type_.get_canonical()
    if type_kind(type_) != _POINTER and type_kind(type_) not in _REFERENCES:
        return False
    target = type_.get_pointee().get_canonical()
    while (
        type_kind(target) in _ARRAYS and not target.is_const_qualified()
    ):  # const may be on the array or on its elements
        target = lane_type(target)
    return not target.is_const_qualified() and target.get_address_space() != _CONSTANT
