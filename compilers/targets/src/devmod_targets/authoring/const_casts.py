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
from devmod_targets.authoring.clang import ARRAYS, POINTERS, RECORD, Libclang, lane_type, type_kind

#: A parameter, by the function's name and its number; or a variable, by the hash of its
#: declaration.
_Place = tuple[str, int] | int

#: A cast to a pointer or reference, or the name of a type that may be one.
_CAST = re.compile(
    r"[*&]\s*(?:(?:const|volatile|restrict|__restrict(?:__)?)\s*)*[)>]|\b(?:typedef|using)\b"
)
#: clang's kind of a type that is known later, or never.
_DEPENDENT = 26
#: clang's number of OpenCL's address space of constants.
_CONSTANT = 3
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
    casts = _Casts(library, declarations)
    result = {}
    for place, flags in casts.written_places().items():
        node = casts.removing[next(bits(flags))]
        file, line, _ = library.location(node.location)
        name = names.get(file) or os.path.basename(file)
        result[place] = f"{name}:{line}: ({node.type.spelling})"
    return result


def written_param(param: Param, place: _Place, written: Mapping[_Place, str]) -> Param:
    """Return a param of const elements with the access "rw" and the cast, if `written_parameters`
    returns its place.
    """
    if param.kind != "buffer" or param.access != "r" or place not in written:
        return param
    return param.replace(access="rw", extra={**param.extra, "const_cast": written[place]})


class _Casts:
    """The casts of a program, and the ways of its pointers to them."""

    def __init__(self, library: Libclang, declarations: Iterable[Any]) -> None:
        kinds = library.cindex.CursorKind
        self._kinds = kinds
        self._casts = {getattr(kinds, name) for name in _CASTS}
        self._passing = {getattr(kinds, name) for name in _PASSING}
        self._parts = (kinds.ARRAY_SUBSCRIPT_EXPR, kinds.MEMBER_REF_EXPR)
        self._assignments = (kinds.BINARY_OPERATOR, kinds.COMPOUND_ASSIGNMENT_OPERATOR)
        functions = list(_bodies(declarations))
        #: The names of the functions with a body.
        self._names = {function.spelling for function in functions}
        self._places: dict[int, _Place] = {}
        for function in functions:
            number = 0
            for child in function.get_children():
                if child.kind == kinds.PARM_DECL:
                    self._places[child.hash] = (function.spelling, number)
                    number += 1
        #: The casts that remove const, and for each place the bits of those that its pointer
        #: reaches.
        self.removing: list[Any] = []
        self._flags = dict.fromkeys(self._places.values(), 0)
        self._uses: dict[_Place, set[_Place]] = {}
        #: The casts whose value becomes a pointer to const again: ``(const float *)((char *)x +
        #: offset)``.
        self._kept: set[int] = set()
        searched = (
            *self._casts,
            *self._assignments,
            kinds.UNEXPOSED_EXPR,
            kinds.VAR_DECL,
            kinds.CALL_EXPR,
        )
        for function in functions:
            for node in library.descendants(function, searched):
                self._visit(node)

    def _visit(self, node: Any) -> None:
        kinds = self._kinds
        if node.kind == kinds.CALL_EXPR:
            self._visit_call(node, list(node.get_arguments()))
        elif node.kind == kinds.UNEXPOSED_EXPR and type_kind(node.type) == _DEPENDENT:
            # A call in a template, or one with an error.
            self._visit_call(node, list(node.get_children())[1:])
        elif node.kind == kinds.VAR_DECL:
            self._visit_variable(node)
        elif node.kind in self._assignments:
            self._visit_assignment(node)
        else:
            self._visit_cast(node)

    def _visit_call(self, node: Any, arguments: list[Any]) -> None:
        callee = node.spelling or next((each.spelling for each in node.get_children()), "")
        if callee not in self._names:
            return
        # The first operand of an object's own operator is the object.
        first = -1 if callee == "operator()" else 0
        for number, argument in enumerate(arguments, first):
            self._pass(argument, (callee, number))

    def _visit_variable(self, node: Any) -> None:
        # A pointer to what is not const gets the pointer by a cast, which counts itself.
        if _is_mutable(node.type):
            return
        for value in node.get_children():
            self._pass(value, node.hash)
            if _is_pointer(node.type):
                self._kept |= self._inner(value)

    def _visit_assignment(self, node: Any) -> None:
        # The left operand of an assignment is a name, a member or an element. Of another operator,
        # clang reads its value.
        operands = list(node.get_children())
        left = operands[0]
        is_part = left.kind in self._parts and _is_pointer(left.type)
        if left.kind != self._kinds.DECL_REF_EXPR and not is_part:
            return
        if not _is_mutable(left.type):
            for place in self._origins(left):
                self._pass(operands[-1], place)

    def _visit_cast(self, node: Any) -> None:
        is_pointer = _is_pointer(node.type)
        is_mutable = _is_mutable(node.type)
        if is_pointer and not is_mutable:
            self._kept |= self._inner(node)
            return
        if node.hash in self._kept:
            return
        if is_mutable or (node.kind == self._kinds.CXX_CONST_CAST_EXPR and not is_pointer):
            for place in self._origins(node, is_address=not is_pointer):
                self._flags[place] |= 1 << len(self.removing)
            self.removing.append(node)

    def _inner(self, expression: Any) -> set[int]:
        """Return the hashes of an expression, and of those whose pointers it has as its value."""
        pending = [expression]
        found = set()
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
        reached = transitive_parts(self._flags, self._uses)
        return {place: flags for place, flags in reached.items() if flags}

    def _pass(self, value: Any, target: _Place) -> None:
        for place in self._origins(value):
            self._uses.setdefault(place, set()).add(target)
            self._flags.setdefault(target, 0)

    def _place(self, name: Any) -> _Place:
        declaration = name.referenced
        if declaration is None:
            return 0
        number: int = declaration.hash
        return self._places.get(number, number)

    def _origins(self, expression: Any, *, is_address: bool = False) -> Iterator[_Place]:
        """Yield the parameters and variables whose pointers an expression passes on, or its
        address.
        """
        pending = [(expression, is_address)]
        while pending:
            node, is_address = pending.pop()
            if node.kind == self._kinds.DECL_REF_EXPR:
                place = self._place(node)
                self._flags.setdefault(place, 0)
                yield place
                continue
            operands = self._operands(node, is_address)
            # The operator & has the address of its operand, and an argument is a value.
            if node.kind == self._kinds.UNARY_OPERATOR:
                is_address = True
            elif node.kind == self._kinds.CALL_EXPR:
                is_address = False
            for operand in operands:
                pending.append((operand, is_address))

    def _operands(self, node: Any, is_address: bool) -> list[Any]:
        """Return the operands whose pointers, or addresses, an expression passes on."""
        kinds = self._kinds
        children = list(node.get_children())
        if node.kind in self._passing:
            return children
        if not is_address and not _has_pointer(node.type):
            return []  # a value that was read through a pointer
        if node.kind == kinds.MEMBER_REF_EXPR and _is_mutable(node.type):
            return []  # it has no pointer to const without a cast, which counts itself
        if node.kind in self._parts:
            return children[:1]
        if node.kind == kinds.UNARY_OPERATOR:
            return children
        if node.kind == kinds.CONDITIONAL_OPERATOR:
            return children[1:]
        if node.kind == kinds.CALL_EXPR and not _is_mutable(node.type):
            return list(node.get_arguments())
        return []


def _bodies(declarations: Iterable[Any]) -> Iterator[Any]:
    for each in declarations:
        if each.kind.name in _CLASSES:
            yield from _bodies(each.get_children())
        elif each.kind.name in _FUNCTIONS and each.is_definition():
            yield each


def _is_pointer(type_: Any) -> bool:
    kind = type_kind(type_.get_canonical())
    return kind in POINTERS or kind in ARRAYS


def _has_pointer(type_: Any) -> bool:
    """Return whether a value is a pointer, or a struct with a pointer, or an array of pointers,
    among its members.
    """
    type_ = type_.get_canonical()
    if _is_pointer(type_) or type_kind(type_) != RECORD:
        return _is_pointer(type_)
    for field in type_.get_fields():
        member = field.type.get_canonical()
        if type_kind(member) in ARRAYS:
            member = lane_type(member)
        if _is_pointer(member):
            return True
    return False


def _is_mutable(type_: Any) -> bool:
    """Return whether a type is a pointer, or a reference, to what is not const, nor in OpenCL's
    constant memory.
    """
    type_ = type_.get_canonical()
    if type_kind(type_) not in POINTERS:
        return False
    target = type_.get_pointee().get_canonical()
    # const may be on the array or on its elements.
    while type_kind(target) in ARRAYS and not target.is_const_qualified():
        target = lane_type(target)
    return not target.is_const_qualified() and target.get_address_space() != _CONSTANT
