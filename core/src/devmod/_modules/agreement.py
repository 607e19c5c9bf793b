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
from devmod._values.info import block_text, shorten
from devmod._values.param import (
    Param,
    declaration_text,
    is_value,
    member_text,
    members_by_value,
    parameter_text,
)
from devmod.errors import DevmodError, FormatError, count_text, list_names, quote_name
from devmod.targets import PROGRAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from devmod._modules.module import Module
    from devmod._values.code import Functions, Names
    from devmod._values.info import Interface
    from devmod._values.param import Member
    from devmod._values.tuning import Variant

    #: A parameter of a call. A Member is one to which a struct is flattened.
    Parameter = Param | Member
    #: The parameters of a call by name.
    Form = dict[str, Parameter]
    #: The functions of candidates.
    FunctionsOf = Mapping[Module, Functions]
    #: The interfaces of candidates of one function.
    Interfaces = Mapping[Module, Interface]

#: By DLPack's codes. The other codes of numbers are floats.
_CLASSES = {0: "integer", 1: "integer", 3: "address", 6: "bool"}
#: The number of rows and of characters of a cell in an error.
_MAX_ROWS = 32
_MAX_CELL = 60
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
    return _agreement(_interfaces(name, functions_of(candidates)))


def functions_of(candidates: Iterable[Module]) -> dict[Module, Functions]:
    """Return the functions of candidates. One has none if its bytes are damaged or its target spec
    is broken: the first use raises the error.
    """
    results: dict[Module, Functions] = {}
    for each in candidates:
        try:
            results[each] = each.functions
        except DevmodError:
            results[each] = {}
    return results


def _agreement(interfaces: Interfaces) -> Agreement | None:
    if len(interfaces) < 2:
        return None
    different = _different(interfaces)
    flattened = _flattened_names(different)
    forms = [_form(interface, flattened) for interface in different]
    names = list(forms[0])
    if any(form.keys() != forms[0].keys() for form in forms):
        return None
    for name in names:
        if not _all_agree(form[name] for form in forms):
            return None
    if all(list(form) == names for form in forms):
        return Agreement(flattened, "")
    return Agreement(flattened, _ORDERS)


# In the index of a file: a map of function to array, of whether the orders differ and the names of
# the flattened structs. It has the functions for which there is one of the two. So a call needs the
# bytes of one candidate.
def pack_agreements(agreements: Mapping[str, Agreement]) -> dict[str, list[object]]:
    """Return the agreements for an index."""
    packed = {}
    for name, each in agreements.items():
        packed[name] = [bool(each.keywords_only), *sorted(each.flattened)]
    return packed


def read_agreement(value: object) -> Agreement | None:
    """Return the agreement of one function in an index; None if there is none."""
    if not isinstance(value, list) or not value:
        return None
    differs, *flattened = value
    if not all(isinstance(each, str) for each in flattened):
        return None
    return Agreement(frozenset(flattened), _ORDERS if differs else "")


def has_names(interface: Interface | None) -> bool:
    """Return whether the parameters are known, and each has a name of its own."""
    if interface is None or interface.newer:
        return False
    names = [param.name for param in interface.params]
    return all(names) and len(set(names)) == len(names)


def common_signature(name: str, functions: FunctionsOf) -> str:
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
    defaults = {}
    for interface in interfaces:
        for param in interface.params:
            if param.default is not None:
                defaults[param.name] = parameter_text(param)
    if common.keywords_only:
        parts.insert(0, "*")
    elif defaults:
        parts.append("*")

    text = f"{name}({', '.join([*parts, *defaults.values()])})"
    records = _common_records(interfaces, common.flattened) - {"", *forms[0]}
    if records:
        text += f" record {', '.join(sorted(records))}"
    blocks = {block_text(interface) for interface in interfaces}
    if len(blocks) == 1:
        text += f" {blocks.pop()}".rstrip()  # "" without a block
    return text


def _common_records(interfaces: Sequence[Interface], flattened: frozenset[str]) -> set[str]:
    """Return the names of the records that each interface takes: its blocks, and its flattened
    structs.
    """
    names = []
    for interface in interfaces:
        own = {block.name for block in interface.blocks}
        names.append(own | flattened & {param.name for param in interface.params})
    return set.intersection(*names)


def shared_functions(modules: Sequence[Module]) -> Iterator[tuple[str, FunctionsOf]]:
    """Yield each function that several candidates of bundles have, with the functions of these
    candidates. No payload is kept.
    """
    owners: dict[str, list[Module]] = {}
    for candidate in walk(*modules, enter=holds_candidates):
        if holds_candidates(candidate):
            continue
        for name in candidate:
            owners.setdefault(name, []).append(candidate)
    functions: dict[Module, Functions] = {}
    for name, several in owners.items():
        if len(several) == 1:
            continue
        for each in several:
            if each not in functions:
                functions |= functions_of([each])
                release(each)
        yield name, {each: functions[each] for each in several}


def agreements(modules: Sequence[Module], *, check: bool = False) -> dict[str, Agreement]:
    """Return the agreements for which arguments are given by name alone, or a struct is flattened.

    With `check`, raise FormatError if two candidates take different arguments in a function of one
    name, whose message has the signatures of all such functions, or if only some have their own
    grid. Warn if a call must give a block that the other candidates have.
    """
    results = {}
    nodes: Mapping[Module, Module] | None = None
    mismatches = {}
    without: dict[tuple[Names, object], list[str]] = {}
    with shared_scan():
        for name, functions in shared_functions(modules):
            interfaces = _interfaces(name, functions)
            common = _agreement(interfaces)
            if common is None and len(interfaces) > 1:
                if nodes is None:
                    nodes = kernel_nodes(modules)
                mismatched = _mismatched(interfaces, nodes)
                if mismatched:
                    mismatches[name] = mismatched
            elif common is not None and (common.keywords_only or common.flattened):
                results[name] = common
            if check:
                _check_grids(name, interfaces)
                block = _common_block(interfaces.values())
                kinds = _kinds_without_block(interfaces) if block else ()
                if kinds:
                    without.setdefault((kinds, block), []).append(name)
        if check and mismatches:
            raise _mismatch_error(mismatches)
    if without:
        _warn_of_blocks(without)
    return results


def _mismatched(interfaces: Interfaces, nodes: Mapping[Module, Module]) -> Interfaces:
    """Return the candidates of a function that must agree and do not; none if there are none."""
    mismatched = {}
    for group in by_node(interfaces, nodes):
        own = {each: interfaces[each] for each in group}
        if len(own) > 1 and _agreement(own) is None:
            mismatched = own
    return mismatched


def _kinds_without_block(interfaces: Interfaces) -> Names:
    """Return the kinds of the candidates whose call must give a block."""
    kinds: dict[str, None] = {}
    for module, interface in interfaces.items():
        if _needs_block(module, interface):
            kinds[module.kind] = None
    return tuple(kinds)


def _check_grids(name: str, interfaces: Interfaces) -> None:
    """Raise FormatError if some candidates are tuned and have their own grid, and others do not."""
    kinds: dict[bool, dict[str, None]] = {True: {}, False: {}}
    for module, interface in interfaces.items():
        spec = find_spec(module.kind)
        if spec is not None and not spec.has_grid:
            continue
        own = _own_launch(interface)
        kinds[own is not None and bool(own.grid)][module.kind] = None
    if kinds[True] and kinds[False]:
        raise FormatError(
            f"the function {quote_name(name)} has its own grid on {list_names(kinds[True])}, and calls must give one on "
            f"{list_names(kinds[False])}. Compile all with tune= and grid=, or use mixed=True",
            kind="bundle",
            function=name,
        )


def _own_launch(interface: Interface | None) -> Variant | None:
    """Return the first variant of a tuned function with its own grid or block; else None.

    Raises
    ------
    FormatError
        The variants are invalid, or only a newer devmod reads them.
    """
    if interface is None or "tune" not in interface.extra:
        return None
    from devmod._values.tuning import tuning_of

    tuning = tuning_of(interface)
    if tuning is None or not (tuning.variants[0].grid or tuning.variants[0].block):
        return None
    return tuning.variants[0]


def _warn_of_blocks(without: Mapping[tuple[Names, object], list[str]]) -> None:
    """Warn of functions whose call must give a block, by the kinds and the block of the others."""
    import warnings

    for (kinds, size), names in without.items():
        text = f"a call of {list_names(names)} needs block= on {list_names(kinds)} alone: the other candidates have blocks of {size}. "
        warnings.warn(
            escape(f"{text}Compile it with this block: {_block_hint(names, size)}"),
            UserWarning,
            stacklevel=4,
        )


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
    imported: list[Module] = []
    for module in walk(*modules):
        if module.kind == PROGRAM:
            imported += filter(holds_candidates, module.imports)

    nodes = {}
    # A candidate that several nodes have is of the first one.
    for node in reversed(imported):
        for each in walk(node, enter=holds_candidates):
            if not holds_candidates(each):
                nodes[each] = node
    return nodes


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
    return _common_block(_interfaces(name, functions_of(candidates)).values())


def _common_block(interfaces: Iterable[Interface]) -> int | tuple[int, ...] | None:
    blocks = {each.block or each.default_block for each in interfaces} - {None}
    if len(blocks) != 1:
        return None
    block = blocks.pop() or (0, 0, 0)
    if 0 in block:  # the caller chooses a dimension
        return None
    return shorten(block)


def _needs_block(module: Module, interface: Interface) -> bool:
    """Return whether a call of the candidate must give its block."""
    spec = find_spec(module.kind)
    if spec is None or not spec.has_grid or _own_launch(interface):
        return False
    return not (interface.block or interface.default_block or interface.open_block)


def _mismatch_error(mismatches: Mapping[str, Interfaces]) -> FormatError:
    """Return the error for functions whose candidates take different arguments."""
    tables = []
    hints: dict[str, None] = {}
    for name, interfaces in mismatches.items():
        title = ""
        if len(mismatches) > 1:
            title = f"{quote_name(name)}:\n"
        first, form, others = _differing_forms(interfaces)
        for module, other in others:
            table = _table(describe_candidate(first), form, describe_candidate(module), other)
            tables.append(title + table)
            hints |= dict.fromkeys(_local_hints(name, form, other))

    names = f"functions {list_names(mismatches)}"
    if len(mismatches) == 1:
        names = f"function {quote_name(next(iter(mismatches)))}"
    text = "\n".join(tables[:_MAX_TABLES])
    if len(tables) > _MAX_TABLES:
        text += f"\nand {len(tables) - _MAX_TABLES} more"
    if hints:
        shown = ", ".join(list(hints)[:_MAX_TABLES])
        text += f"\nOr give parameters of local memory a default size, and calls omit them: {shown}"
    return FormatError(
        f"the candidates of the bundle take different arguments in the {names}. Give them the same names and types, or use mixed=True and "
        f"call each by its own signature:\n{text}",
        kind="bundle",
        function=next(iter(mismatches)),
    )


def _differing_forms(
    interfaces: Interfaces,
) -> tuple[Module, Form, list[tuple[Module, Form]]]:
    """Return the first candidate that another one differs from, its form, and the candidates that
    differ from it: one for each form.
    """
    flattened = _flattened_names(list(interfaces.values()))
    forms = {module: _form(interface, flattened) for module, interface in interfaces.items()}
    # Not simply the first candidate: one whose type or format is unknown may agree with all.
    first = next(
        each for each in forms if any(_differences(forms[each], other) for other in forms.values())
    )
    form = forms[first]
    others = {}
    # Of equal forms, that of the first candidate is shown.
    for module, other in reversed(forms.items()):
        if _differences(form, other):
            others[tuple(map(_text, other.values()))] = (module, other)
    return first, form, list(reversed(others.values()))


def _local_hints(name: str, first: Form, second: Form) -> Iterator[str]:
    """Yield how a compile gives local memory that only one form has a default size."""
    for each in (first | second).values():
        if each.name in first and each.name in second:
            continue
        if isinstance(each, Param) and each.kind == "local":
            yield _local_text(name, each)


def _local_text(function: str, param: Param) -> str:
    """Return the argument of `devmod.compile` that gives local memory a default size."""
    size = 4
    if param.type:
        size = array_bytes(parse_dtype(param.type))
    return (
        f"devmod.compile(…, local={{{function!r}: {{{param.name!r}: Local(per_thread={size})}}}})"
    )


def _interfaces(name: str, functions: FunctionsOf) -> dict[Module, Interface]:
    """Return the interfaces that can be compared; none if they are too large. Those of equal bytes
    are one object.
    """
    interfaces = {}
    decoded = {}
    size = 0
    with shared_scan():
        for candidate, infos in functions.items():
            try:
                if not isinstance(infos, StoredFunctions):
                    interface = infos[name].interface
                else:
                    packed = infos.packed(name)
                    if packed not in decoded:
                        size += len(packed)
                        if size > _MAX_COMPARED:
                            return {}
                        decoded[packed] = infos.read(name).interface
                    interface = decoded[packed]
                _own_launch(interface)
            except (DevmodError, KeyError):  # a damaged function: the first use raises the error
                continue
            if interface is not None and has_names(interface):
                interfaces[candidate] = interface
    return interfaces


def _different(interfaces: Interfaces) -> list[Interface]:
    """Return each interface once."""
    return list({id(each): each for each in interfaces.values()}.values())


def _flattened_names(interfaces: Sequence[Interface]) -> frozenset[str]:
    """Return the names of the structs that another interface has neither as a parameter nor as a
    member of one.
    """
    everywhere = set.intersection(*map(_all_names, interfaces))
    flattened = set()
    for interface in interfaces:
        for param in interface.params:
            is_struct = bool(members_by_value(param)) and not is_value(param.members)
            if is_struct and param.name not in everywhere:
                flattened.add(param.name)
    return frozenset(flattened)


def _all_names(interface: Interface) -> set[str]:
    """Return the names of the parameters, and of the members of structs by value."""
    names = set()
    for param in interface.params:
        names.add(param.name)
        names |= {member.name for member in members_by_value(param)}
    return names


def _form(interface: Interface, flattened: frozenset[str]) -> Form:
    """Return the parameters of a call, in the order of the interface. Structs remain if their
    members' names are not unique.
    """
    params = [param for param in interface.params if param.default is None]
    if any("role" in param.extra for param in params):
        return _program_form(params)

    flat: list[Parameter] = []
    for param in params:
        members = members_by_value(param)
        if members and param.name in flattened:
            flat += members
        else:
            flat.append(param)
    form = {each.name: each for each in flat}
    if len(form) < len(flat):
        return {param.name: param for param in params}
    return form


def _program_form(params: Sequence[Param]) -> Form:
    """Return the parameters of a program's call. A call by position has their shapes and their
    order too.
    """
    form: Form = {}
    for param in params:
        if param.extra.get("role") in ("input", "update", "output"):
            form[param.name] = param.replace(extra={**param.extra, "place": len(form) + 1})
    return form


def _differences(first: Form, second: Form) -> list[str]:
    """Return the names of the parameters that are missing in one form, or have other types."""
    names = []
    for name in first | second:
        in_both = name in first and name in second
        if not in_both or not _agree(first[name], second[name]):
            names.append(name)
    return names


def _all_agree(params: Iterable[Parameter]) -> bool:
    """Return whether one value fits all parameters. Those that fit one of an unknown type or format
    may not fit each other.
    """
    known: dict[tuple[Any, ...], Parameter] = {}
    for param in params:
        if not all(_agree(each, param) for each in known.values()):
            return False
        key = (_class_of(_value_of(param)), _format_of(param), bool(param.members))
        known.setdefault(key, param)
    return True


def _agree(first: Parameter, second: Parameter) -> bool:
    """Return whether one value fits two parameters."""
    for key in ("role", "shape", "value", "place"):
        if first.extra.get(key) != second.extra.get(key):
            return False

    first = _value_of(first)
    second = _value_of(second)
    kind, *one = _class_of(first)
    other_kind, *other = _class_of(second)
    if kind != other_kind or (one and other and one != other):
        return False
    formats = {_format_of(first), _format_of(second)} - {""}
    if len(formats) > 1:
        return False
    if one != other:  # one type is unknown
        return True
    if kind == "buffer" or not first.members or not second.members:
        return True
    same_names = [each.name for each in first.members] == [each.name for each in second.members]
    return same_names and all(map(_agree, first.members, second.members))


def _format_of(param: Parameter) -> str:
    """Return the format of an image; "" if images of several formats fit."""
    if isinstance(param, Param):
        return param.format
    return ""


def _value_of(param: Parameter) -> Parameter:
    """Return the parameter; for an array or a matrix by value, its description."""
    if isinstance(param, Param) and is_value(param.members):
        return param.members[0]
    return param


def _class_of(param: Parameter) -> tuple[Any, ...]:
    """Return the kind of a parameter and what two of them must have in common; the kind alone if
    the type is unknown.
    """
    if not isinstance(param, Param):
        if param.type == "handle" and not param.shape:
            return ("buffer",)
        return _class_of_value(param, param.shape)

    # An address: a device array is a value for both.
    if param.type == "handle" and param.kind == "scalar":
        return ("buffer",)
    if param.kind == "image" and param.type and param.sample:
        return (param.kind, param.type, param.sample)
    if param.kind not in ("buffer", "scalar", "uniform"):
        return (param.kind,)
    if param.kind == "buffer":
        return _class_of_buffer(param)
    if _is_struct(param):
        return ("value", "struct", ())
    return _class_of_value(param, ())


def _is_struct(param: Param) -> bool:
    return param.type.startswith("uint8x") and (param.align > 0 or param.kind == "uniform")


def _class_of_buffer(param: Param) -> tuple[Any, ...]:
    if not param.type:
        return ("buffer",)
    code, bits, lanes = parse_dtype(param.type)
    if _is_struct(param):
        return ("buffer", f"structs of {count_text(lanes, 'byte')}")
    # Three lanes have the memory of four, so that an array for single elements has other places.
    if lanes != 3:
        lanes = 1
    return ("buffer", dtype_name((code, bits, lanes)))


def _class_of_value(param: Parameter, shape: tuple[int, ...]) -> tuple[Any, ...]:
    if param.members:
        return ("value", "struct", shape)
    if not param.type:
        return ("value",)
    code, _, lanes = parse_dtype(param.type)
    return ("value", _CLASSES.get(code, "float"), lanes, shape)


def _common_text(params: Sequence[Parameter]) -> str:
    """Return a parameter of several candidates. Where the types differ, it has what they have in
    common.
    """
    texts = list(dict.fromkeys(map(_text, params)))
    if len(texts) == 1:
        return texts[0]
    name = params[0].name
    kind, *details = max(map(_class_of, map(_value_of, params)), key=len)
    access = ""
    for letter in "rw":
        if any(letter in getattr(each, "access", "") for each in params):
            access += letter
    if kind == "buffer":
        element = details[0] if details else "void"
        return f"{name}: {element}* {access}".rstrip()
    if kind == "image":
        formats = {_format_of(each) for each in params} - {""}
        words = ["image", *details[:1], *(formats or details[1:]), access]
        return f"{name}: {' '.join(filter(None, words))}"
    if not details:
        return texts[0]
    type_ = details[0]
    if type_ != "struct" and details[1] != 1:
        type_ += f"x{details[1]}"
    lengths = "".join(f"[{length}]" for length in details[-1])
    return f"{name}: {type_}{lengths}"


def _text(param: Parameter) -> str:
    if not isinstance(param, Param):
        return member_text(param)
    if "place" in param.extra:
        return f"{param.extra['place']}. {declaration_text(param)}"
    return parameter_text(param)


def _table(left: str, first: Form, right: str, second: Form) -> str:
    """Return both signatures side by side, one parameter a line, with a mark at those that
    differ.
    """
    differing = _differences(first, second)
    names = list(first | second)
    if len(names) > _MAX_ROWS:
        names = differing
    rows = [(left, right, "")]
    for name in names[:_MAX_ROWS]:
        mark = "  <- differs" if name in differing else ""
        rows.append((_cell(first.get(name)), _cell(second.get(name)), mark))

    width = max(len(one) for one, _, _ in rows)
    other_width = max(len(other) for _, other, _ in rows)
    lines = [
        f"  {one:<{width}}  {other:<{other_width}}{mark}".rstrip() for one, other, mark in rows
    ]
    if len(names) > _MAX_ROWS:
        lines.append(f"  and {len(names) - _MAX_ROWS} more")
    return "\n".join(lines)


def _cell(param: Parameter | None) -> str:
    if param is None:
        return "-"
    text = _text(param)
    if len(text) > _MAX_CELL:
        text = f"{text[: _MAX_CELL - 1]}…"
    return escape_line(text)
