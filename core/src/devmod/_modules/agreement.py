"""Compare the arguments of a bundle's candidates: one call must be valid for each of them.

The rules are in docs/bundles.md ("One call for every candidate"). A parameter is compared by its
name. A candidate whose interface is unknown, has a parameter without a name, or has two of one name
is not compared.
"""

from __future__ import annotations

from typing import NamedTuple

from devmod._formats.wire import StoredFunctions
from devmod._modules.choice import describe_candidate
from devmod._modules.module import holds_candidates, walk
from devmod._modules.stored import release
from devmod._plugins.discovery import shared_scan
from devmod._plugins.specs import find_spec
from devmod._util.text import escape, escape_line
from devmod._values.dtypes import array_bytes, dtype_name, parse_dtype
from devmod._values.info import block_text
from devmod._values.param import (
    Param,
    declaration_text,
    is_value,
    member_text,
    members_by_value,
    parameter_text,
)
from devmod.errors import DevmodError, FormatError, list_names, quote_name
from devmod.targets import PROGRAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from devmod._modules.module import Module
    from devmod._values.info import FunctionInfo, Interface
    from devmod._values.param import Member

    #: The parameters of a call by name. A Member is a parameter to which a struct is flattened.
    Form = dict[str, Param | Member]
    #: The functions of candidates.
    Functions = Mapping[Module, Mapping[str, FunctionInfo]]

_CLASSES = {
    0: "integer",
    1: "integer",
    3: "address",
    6: "bool",
}  # DLPack's codes; the others of numbers are floats
#: The number of rows and of characters of a cell in an error.
_MAX_ROWS, _MAX_CELL = 32, 60
#: The number of pairs of signatures in an error.
_MAX_TABLES = 8
#: The bytes of different functions of one name that are compared. Those of a hostile file may
#: unpack to gigabytes of parameters.
_MAX_COMPARED = 1 << 22


_ORDERS = "its candidates have different orders of arguments"


class Agreement(NamedTuple):
    """The arguments that several candidates have in common.

    Attributes
    ----------
    flattened : frozenset of str
        The structs whose members are arguments of the call.
    keywords_only : str
        Why the arguments are given by name alone, as a clause of a message; "" if their order is
        the same.
    """

    flattened: frozenset[str]
    keywords_only: str


def agreement(name: str, candidates: Sequence[Module]) -> Agreement | None:
    """Return what the candidates of a function have in common; None if fewer than two are
    comparable, or they do not agree.
    """
    return _agreement(_interfaces(name, {each: functions_of(each) for each in candidates}))


def functions_of(module: Module) -> Mapping[str, FunctionInfo]:
    """Return a candidate's functions; none if its bytes are damaged or its target spec is broken.
    The first use raises the error.
    """
    try:
        return module.functions
    except DevmodError:
        return {}


def _agreement(interfaces: Mapping[Module, Interface]) -> Agreement | None:
    if len(interfaces) < 2:
        return None
    different = _different(interfaces)
    flattened = _flattened_names(different)
    forms = [_form(interface, flattened) for interface in different]
    if any(form.keys() != forms[0].keys() for form in forms) or not all(
        _all_agree(form[name] for form in forms) for name in forms[0]
    ):
        return None
    same_order = all(list(form) == list(forms[0]) for form in forms[1:])
    return Agreement(flattened, "" if same_order else _ORDERS)


# In the index of a file: a map of function to array, of whether the orders differ and the names of
# the flattened structs. It has the functions for which there is one of the two. So a call needs the
# bytes of one candidate.
def pack_agreements(agreements: Mapping[str, Agreement]) -> dict[str, list[object]]:
    """Return the agreements for an index."""
    return {
        name: [bool(each.keywords_only), *sorted(each.flattened)]
        for name, each in agreements.items()
    }


def read_agreement(value: object) -> Agreement | None:
    """Return the agreement of one function in an index; None if there is none."""
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value[1:]):
        return Agreement(frozenset(value[1:]), _ORDERS if value[0] else "")
    return None


def has_names(interface: Interface | None) -> bool:
    """Return whether the parameters are known, and each has a name of its own."""
    names = [param.name for param in interface.params] if interface is not None else [""]
    return all(names) and len(set(names)) == len(names)


def common_signature(name: str, functions: Functions) -> str:
    """Return the signature of a call that reaches each candidate of a function; "" if fewer than
    two are comparable.
    """
    by_module = _interfaces(name, functions)
    if len(by_module) < 2:
        return ""
    common = _agreement(by_module)
    if common is None:
        return f"{name}: its candidates take different arguments"
    interfaces = _different(by_module)
    forms = [_form(interface, common.flattened) for interface in interfaces]
    parts = [_common_text([form[each] for form in forms]) for each in forms[0]]
    defaults = {
        param.name: parameter_text(param)
        for interface in interfaces
        for param in interface.params
        if param.default is not None
    }
    if common.keywords_only or defaults:
        parts.insert(0 if common.keywords_only else len(parts), "*")
    owners = [
        {block.name for block in each.blocks}
        | common.flattened & {param.name for param in each.params}
        for each in interfaces
    ]
    blocks = {block_text(interface) for interface in interfaces}
    records = sorted(set.intersection(*owners) - {"", *forms[0]})
    texts = [
        f"record {', '.join(records)}" if records else "",
        blocks.pop() if len(blocks) == 1 else "",
    ]
    return " ".join(filter(None, (f"{name}({', '.join([*parts, *defaults.values()])})", *texts)))


def shared_functions(modules: Sequence[Module]) -> Iterator[tuple[str, Functions]]:
    """Yield each function that several candidates of bundles have, with the functions of these
    candidates. No payload is kept.
    """
    owners: dict[str, list[Module]] = {}
    for candidate in walk(*modules, enter=holds_candidates):
        for name in () if holds_candidates(candidate) else candidate:
            owners.setdefault(name, []).append(candidate)
    functions: dict[Module, Mapping[str, FunctionInfo]] = {}
    for name, several in owners.items():
        for each in several if len(several) > 1 else ():
            if each not in functions:
                functions[each] = functions_of(each)
                release(each)
        if len(several) > 1:
            yield name, {each: functions[each] for each in several}


def agreements(modules: Sequence[Module], *, check: bool = False) -> dict[str, Agreement]:
    """Return the agreements for which arguments are given by name alone, or a struct is flattened.

    With `check`, raise FormatError if two candidates take different arguments in a function of one
    name. The message has the signatures of all such functions. Warn if a call must give a block
    that the other candidates have.
    """
    results = {}
    nodes: Mapping[Module, Module] | None = None
    mismatches: dict[str, Mapping[Module, Interface]] = {}
    without: dict[tuple[tuple[str, ...], object], list[str]] = {}
    with shared_scan():
        for name, functions in shared_functions(modules):
            interfaces = _interfaces(name, functions)
            common = _agreement(interfaces)
            if common is not None and (common.keywords_only or common.flattened):
                results[name] = common
            elif common is None and len(interfaces) > 1:
                nodes = kernel_nodes(modules) if nodes is None else nodes
                for group in by_node(interfaces, nodes):
                    own = {each: interfaces[each] for each in group}
                    mismatches |= {name: own} if len(own) > 1 and _agreement(own) is None else {}
            block = _common_block(interfaces.values()) if check else None
            kinds = tuple(
                dict.fromkeys(
                    module.kind
                    for module, each in interfaces.items()
                    if block and _needs_block(module, each)
                )
            )
            if kinds:
                without.setdefault((kinds, block), []).append(name)
        if check and mismatches:
            raise _mismatch_error(mismatches)
    if without:
        import warnings

        for (kinds, size), names in without.items():
            text = f"a call of {list_names(names)} needs block= on {list_names(kinds)} alone: the other candidates have blocks of {size}. "
            warnings.warn(
                escape(f"{text}Compile it with this block: {_block_hint(names, size)}"),
                UserWarning,
                stacklevel=3,
            )
    return results


def _block_hint(names: Sequence[str], size: object) -> str:
    """Return the argument of `devmod.compile` that gives functions a block.

    Other functions of the same source may have other blocks.
    """
    if len(names) > _MAX_TABLES:
        return f"devmod.compile(…, block={size})"
    return f"devmod.compile(…, block={dict.fromkeys(names, size)})"


def kernel_nodes(modules: Iterable[Module]) -> dict[Module, Module]:
    """Return the node of each kernel's candidate that programs import. They find their kernels
    there: others of these names may differ.
    """
    imported = [
        node
        for each in walk(*modules)
        if each.kind == PROGRAM
        for node in each.imports
        if holds_candidates(node)
    ]
    return {
        each: node
        for node in reversed(imported)
        for each in walk(node, enter=holds_candidates)
        if not holds_candidates(each)
    }


def by_node(candidates: Iterable[Module], nodes: Mapping[Module, Module]) -> list[list[Module]]:
    """Return the candidates of a function in groups, one for each of `kernel_nodes`, and one of
    those that no program imports.
    """
    groups: dict[Module | None, list[Module]] = {}
    for each in candidates:
        groups.setdefault(nodes.get(each), []).append(each)
    return list(groups.values())


def common_block(name: str, candidates: Sequence[Module]) -> int | tuple[int, ...] | None:
    """Return the block that all candidates of a function with a fixed or a default block have, as a
    call gives it; None without one.
    """
    return _common_block(
        _interfaces(name, {each: functions_of(each) for each in candidates}).values()
    )


def _common_block(interfaces: Iterable[Interface]) -> int | tuple[int, ...] | None:
    blocks = {each.block or each.default_block for each in interfaces} - {None}
    x, y, z = blocks.pop() or (0, 0, 0) if len(blocks) == 1 else (0, 0, 0)
    return None if 0 in (x, y, z) else (x, y, z) if z != 1 else (x, y) if y != 1 else x


def _needs_block(module: Module, interface: Interface) -> bool:
    """Return whether a call of the candidate must give its block."""
    spec = find_spec(module.kind)
    return (
        spec is not None
        and spec.has_grid
        and not (interface.block or interface.default_block or interface.open_block)
    )


def _mismatch_error(mismatches: Mapping[str, Mapping[Module, Interface]]) -> FormatError:
    """Return the error for functions whose candidates take different arguments."""
    tables: list[str] = []
    locals_: dict[str, None] = {}
    for name, interfaces in mismatches.items():
        flattened = _flattened_names(list(interfaces.values()))
        forms = [(module, _form(interface, flattened)) for module, interface in interfaces.items()]
        # The first one that another one differs from: one whose type or format is unknown may agree
        # with all.
        first, form = next(
            each for each in forms if any(_differences(each[1], other) for _, other in forms)
        )
        others = [each for each in forms if each[0] is not first]
        title = f"{quote_name(name)}:\n" if len(mismatches) > 1 else ""
        different = {
            tuple(map(_text, other.values())): (module, other)
            for module, other in reversed(others)
            if _differences(form, other)
        }
        for module, other in reversed(different.values()):
            tables.append(
                title + _table(describe_candidate(first), form, describe_candidate(module), other)
            )
            locals_ |= dict.fromkeys(
                _local_text(name, each)
                for each in (form | other).values()
                if each.name not in form.keys() & other.keys()
            )
    names = (
        f"function {quote_name(next(iter(mismatches)))}"
        if len(mismatches) == 1
        else f"functions {list_names(mismatches)}"
    )
    more = f"\nand {len(tables) - _MAX_TABLES} more" if len(tables) > _MAX_TABLES else ""
    hints = list(filter(None, locals_))[:_MAX_TABLES]
    hint = (
        f"\nOr give parameters of local memory a default size, and calls omit them: {', '.join(hints)}"
        if hints
        else ""
    )
    return FormatError(
        f"the candidates of the bundle take different arguments in the {names}. Give them the same names and types, or use mixed=True and "
        f"call each by its own signature:\n{chr(10).join(tables[:_MAX_TABLES])}{more}{hint}",
        kind="bundle",
        function=next(iter(mismatches)),
    )


def _local_text(function: str, param: Param | Member) -> str:
    """Return the argument of `devmod.compile` that gives a parameter of local memory a default
    size; "" for another parameter.
    """
    if not isinstance(param, Param) or param.kind != "local":
        return ""
    size = array_bytes(parse_dtype(param.type)) if param.type else 4
    return (
        f"devmod.compile(…, local={{{function!r}: {{{param.name!r}: Local(per_thread={size})}}}})"
    )


def _interfaces(name: str, functions: Functions) -> dict[Module, Interface]:
    """Return the interfaces that can be compared; none if they are too large. Those of equal bytes
    are one object.
    """
    interfaces = {}
    decoded: dict[bytes, Interface | None] = {}
    size = 0
    with shared_scan():
        for candidate, infos in functions.items():
            try:
                if isinstance(infos, StoredFunctions):
                    packed = infos.packed(name)
                    if packed not in decoded:
                        size += len(packed)
                        if size > _MAX_COMPARED:
                            return {}
                        decoded[packed] = infos.read(name).interface
                    interface = decoded[packed]
                else:
                    interface = infos[name].interface
            except (DevmodError, KeyError):  # a damaged function: the first use raises the error
                continue
            if interface is not None and has_names(interface):
                interfaces[candidate] = interface
    return interfaces


def _different(interfaces: Mapping[Module, Interface]) -> list[Interface]:
    """Return each interface once."""
    return list({id(each): each for each in interfaces.values()}.values())


def _flattened_names(interfaces: Sequence[Interface]) -> frozenset[str]:
    """Return the names of the structs that another interface has neither as a parameter nor as a
    member of one.
    """
    names = [
        {
            name
            for param in each.params
            for name in (param.name, *(member.name for member in members_by_value(param)))
        }
        for each in interfaces
    ]
    everywhere = set.intersection(*names)
    return frozenset(
        param.name
        for interface in interfaces
        for param in interface.params
        if members_by_value(param) and not is_value(param.members) and param.name not in everywhere
    )


def _form(interface: Interface, flattened: frozenset[str]) -> Form:
    """Return the parameters of a call, in the order of the interface. Structs remain if their
    members' names are not unique.
    """
    params = [param for param in interface.params if param.default is None]
    if any(
        "role" in param.extra for param in params
    ):  # a program, whose shapes and order are those of a call by position too
        arguments = [
            param for param in params if param.extra.get("role") in ("input", "update", "output")
        ]
        return {
            param.name: param.replace(extra={**param.extra, "place": place})
            for place, param in enumerate(arguments, 1)
        }
    flat = [
        each
        for param in params
        for each in ((members_by_value(param) if param.name in flattened else ()) or (param,))
    ]
    form: Form = {each.name: each for each in flat}
    return form if len(form) == len(flat) else {param.name: param for param in params}


def _differences(first: Form, second: Form) -> list[str]:
    """Return the names of the parameters that are missing in one form, or have other types."""
    return [
        name
        for name in first | second
        if name not in first or name not in second or not _agree(first[name], second[name])
    ]


def _all_agree(params: Iterable[Param | Member]) -> bool:
    """Return whether one value fits all parameters. Those that fit one of an unknown type or format
    may not fit each other.
    """
    known: dict[tuple[Any, ...], Param | Member] = {}
    for param in params:
        if not all(_agree(each, param) for each in known.values()):
            return False
        known.setdefault(
            (_class_of(_value_of(param)), _format_of(param), bool(param.members)), param
        )
    return True


def _agree(first: Param | Member, second: Param | Member) -> bool:
    """Return whether one value fits two parameters."""
    if any(
        getattr(first, "extra", {}).get(key) != getattr(second, "extra", {}).get(key)
        for key in ("role", "shape", "value", "place")
    ):
        return False
    first, second = _value_of(first), _value_of(second)
    (kind, *one), (other_kind, *other) = _class_of(first), _class_of(second)
    if (
        kind != other_kind
        or (one and other and one != other)
        or len({_format_of(first), _format_of(second)} - {""}) > 1
    ):
        return False
    if one != other:  # one type is unknown
        return True
    if kind == "buffer" or not first.members or not second.members:
        return True
    same_names = [each.name for each in first.members] == [each.name for each in second.members]
    return same_names and all(map(_agree, first.members, second.members))


def _format_of(param: Param | Member) -> str:
    """Return the format of an image; "" if images of several formats fit."""
    return param.format if isinstance(param, Param) else ""


def _value_of(param: Param | Member) -> Param | Member:
    """Return the parameter; for an array or a matrix by value, its description."""
    return param.members[0] if isinstance(param, Param) and is_value(param.members) else param


def _class_of(param: Param | Member) -> tuple[Any, ...]:
    """Return the kind of a parameter and what two of them must have in common; the kind alone if
    the type is unknown.
    """
    shape = () if isinstance(param, Param) else param.shape
    if param.type == "handle" and not shape and getattr(param, "kind", "scalar") == "scalar":
        return ("buffer",)  # an address: a device array is a value for both
    if isinstance(param, Param) and param.kind not in ("buffer", "scalar", "uniform"):
        return (
            (param.kind, param.type, param.sample)
            if param.kind == "image" and param.type and param.sample
            else (param.kind,)
        )
    is_struct = (
        isinstance(param, Param)
        and param.type.startswith("uint8x")
        and (param.align > 0 or param.kind == "uniform")
    )
    if isinstance(param, Param) and param.kind == "buffer":
        if not param.type:
            return ("buffer",)
        code, bits, lanes = parse_dtype(param.type)
        # Three lanes have the memory of four, so that an array for single elements has other
        # places.
        return (
            ("buffer", f"structs of {lanes} bytes")
            if is_struct
            else ("buffer", dtype_name((code, bits, 3 if lanes == 3 else 1)))
        )
    if is_struct or param.members:
        return ("value", "struct", shape)
    if not param.type:
        return ("value",)
    code, _, lanes = parse_dtype(param.type)
    return ("value", _CLASSES.get(code, "float"), lanes, shape)


def _common_text(params: Sequence[Param | Member]) -> str:
    """Return a parameter of several candidates. Where the types differ, it has what they have in
    common.
    """
    texts = list(dict.fromkeys(map(_text, params)))
    if len(texts) == 1:
        return texts[0]
    kind, *details = max(map(_class_of, map(_value_of, params)), key=len)
    access = "".join(
        letter for letter in "rw" if any(letter in getattr(each, "access", "") for each in params)
    )
    if kind == "buffer":
        return f"{params[0].name}: {details[0] if details else 'void'}* {access}".rstrip()
    if kind == "image":
        formats = {_format_of(each) for each in params} - {""}
        return f"{params[0].name}: {' '.join(filter(None, ('image', *details[:1], *(formats or details[1:]), access)))}"
    if not details:
        return texts[0]
    lanes = f"x{details[1]}" if details[0] != "struct" and details[1] != 1 else ""
    return (
        f"{params[0].name}: {details[0]}{lanes}{''.join(f'[{length}]' for length in details[-1])}"
    )


def _text(param: Param | Member) -> str:
    if isinstance(param, Param) and "place" in param.extra:
        return f"{param.extra['place']}. {declaration_text(param)}"
    return parameter_text(param) if isinstance(param, Param) else member_text(param)


def _table(left: str, first: Form, right: str, second: Form) -> str:
    """Return both signatures side by side, one parameter a line, with a mark at those that
    differ.
    """
    differing = _differences(first, second)
    names = list(first | second) if len(first | second) <= _MAX_ROWS else differing
    rows = [(left, right, "")]
    for name in names[:_MAX_ROWS]:
        rows.append(
            (
                _cell(first.get(name)),
                _cell(second.get(name)),
                "  <- differs" if name in differing else "",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [
        f"  {one:<{widths[0]}}  {other:<{widths[1]}}{mark}".rstrip() for one, other, mark in rows
    ]
    if len(names) > _MAX_ROWS:
        lines.append(f"  and {len(names) - _MAX_ROWS} more")
    return "\n".join(lines)


def _cell(param: Param | Member | None) -> str:
    if param is None:
        return "-"
    text = _text(param)
    return escape_line(text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…")
