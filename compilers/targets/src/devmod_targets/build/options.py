"""The options of `devmod.compile`, each in one place.

A field of `CompileOptions` is an option: its name, its type and its default in a manifest, and an
`Option` with its texts and its forms. From the fields come

- the options of ``devmod compile``, and their names in error texts,
- the keys of a manifest's tables (`manifest.Section`), and their JSON schema,
- the fields of a job, which the key of the build cache contains, and the job's arguments.

`devmod.compile` has a parameter for each field; a test compares the two. An argument without a
field of the request reaches the compiler of the kind as `CompileRequest.others`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from math import isfinite
from operator import add
from typing import Any, TypeVar

from devmod import FunctionInfo, Interface, Local, load_metadata_from_json
from devmod.errors import FormatError
from devmod_targets._compilers import SUBGROUP_SIZES
from devmod_targets._text import split_arguments
from devmod_targets.build.tables import Table, check_path, describe

Value = TypeVar("Value")

Strings = tuple[str, ...]

Define = str | int | float | bool
#: Pairs of a name and a value: macros; declared functions, each as JSON of a metadata file; blocks
#: of threads, grids and default sizes of memory by function, where "" is all functions, or the one
#: with the parameter; the values of constants; names of parameters, each with the names in the
#: sources that it replaces. Of a default size of local memory, the name is function and parameter.
Pairs = tuple[tuple[Any, Any], ...]
#: Values by the names of options, of parameters, or of keys.
Values = dict[str, Any]

_STRINGS = {"type": "array", "items": {"$ref": "#/$defs/text"}}

_MACRO = r"(?a)[A-Za-z_]\w*(?:\([\w\s,.]*\))?"

#: ``name(types)`` or ``name=symbol(types)``. The name of an overload contains brackets and commas.
_FUNCTION = re.compile(r"(?:(?P<name>.+)=)?(?P<symbol>[^=()]+)\((?P<types>[^()]*)\)")

_DIMS = "expected an integer of 1 or more, an expression, or an array of up to three of them for x, y, z"

_SIZE = r"([1-9][0-9]{0,17})(/thread)?"

_CONSTANT = r"(?a)[A-Za-z_]\w*"


def _last(earlier: Any, later: Any) -> Any:
    return later or earlier


def _or_none(value: Any) -> Any:
    return value or None


def _dict_or_none(pairs: Any) -> Any:
    return dict(pairs) or None


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Option:
    """What is known of an option besides its name, its type and its default.

    Parameters
    ----------
    help
        The text of ``devmod compile --help``.
    description
        The text of the JSON schema of manifests.
    flags
        The flags of the command line. The first is the one in error texts.
    metavar
        What follows the flag in the help.
    type
        The type of the command line's value: str or int.
    multiple
        Whether the command line may have the option more than once.
    parse
        Returns the argument of `devmod.compile` for the value of the command line: a tuple if it
        is `multiple`. Raises ValueError for an invalid one.
    key
        The key in a manifest; "" for the option's name.
    schema
        The JSON schema of the key's value.
    read
        Returns the value of a key of a manifest's table: strings, numbers and tuples of them. An
        invalid value is a mistake of the table.
    per_kind
        Whether the tables for all kernels have the key too: that of the manifest and
        ``[target.KIND]``. The others are for one kernel.
    merge
        Returns the value for two tables: of the general and of the specific one.
    argument
        Returns the argument of `devmod.compile` for the value of the key.
    keyed_by
        What the keys of an argument are that is a map; "" for an option without such a map. Of
        several sources of a command, each takes those that it has.
    """

    help: str
    description: str
    flags: Strings
    metavar: str | None = None
    type: type = str
    multiple: bool = True
    parse: Callable[[Any], Any] = _same
    key: str = ""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string", "pattern": r"\S"})
    read: Callable[[Table, str], Any] = Table.string
    per_kind: bool = False
    merge: Callable[[Any, Any], Any] = _last
    argument: Callable[[Any], Any] = _or_none
    keyed_by: str = ""

    def as_metadata(self) -> dict[str, Option]:
        """Return the metadata of the option's field."""
        return {"option": self}


def _by_function(schema: Mapping[str, Any]) -> Values:
    """Return the schema of a value for all functions, or of a table of function to value."""
    return {"anyOf": [schema, {"type": "object", "additionalProperties": schema}]}


def _distinct(earlier: tuple[Value, ...], later: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys(earlier + later))


def _updated(earlier: Pairs, later: Pairs) -> Pairs:
    """Merge pairs of a name and a value."""
    return tuple((dict(earlier) | dict(later)).items())


def _strings(example: str) -> Callable[[Table, str], Strings]:
    """Return the reader of an array of strings."""
    return lambda table, key: table.strings(key, example) or ()


# -- defines


def _parse_defines(texts: Sequence[str]) -> dict[str, str | None]:
    result = {}
    for text in texts:
        name, equals, value = text.partition("=")
        result[name] = value if equals else None
    return result


def _read_defines(table: Table, key: str) -> Pairs:
    macros = table.typed(key, dict, "a table of macros, such as { WIDTH = 16 }") or {}
    result: list[tuple[str, Define]] = []
    for macro, value in macros.items():
        problem = _define_problem(macro, value)
        if problem:
            table.add(problem, key, macro)
        else:
            result.append((macro, value))
    return tuple(result)


def _define_problem(macro: str, value: object) -> str:
    """Return what is wrong with a macro; "" if nothing is."""
    if not re.fullmatch(_MACRO, macro):
        return 'expected the name of a macro, or a name with parameters such as "F(x)"'
    if not isinstance(value, (str, int, float)):
        return f"expected a string, a number or a boolean, got {describe(value)}"
    if isinstance(value, str) and not value.isprintable():
        return f"the string has a line break or a control character: {value!r}"
    if isinstance(value, float) and not isfinite(value):
        return f"expected a finite number, got {value}"
    return ""


# -- include


def _read_include(table: Table, key: str) -> Strings:
    paths = table.strings(key, '["include"]') or ()
    return tuple(check_path(table, each, key, index) for index, each in enumerate(paths))


def _specific_first(earlier: Strings, later: Strings) -> Strings:
    return _distinct(later, earlier)


# -- fmap


def _parse_functions(texts: Sequence[str]) -> dict[str, FunctionInfo] | None:
    result: dict[str, FunctionInfo] = {}
    for text in texts:
        match = _FUNCTION.fullmatch(text.strip())
        if match is None:
            raise ValueError(
                f"--function {text}: expected a name and the types of the arguments, such as 'scale(handle, float32)'"
            )

        types: list[str] = []
        if match["types"].strip():
            types = [each.strip() for each in match["types"].split(",")]
        symbol = match["symbol"].strip()
        name = (match["name"] or symbol).strip()
        if name in result:
            raise ValueError(f"--function {text}: {name} is given twice")

        try:
            result[name] = FunctionInfo(symbol, types)
        except FormatError as error:
            raise ValueError(f"--function {text}: {error}") from None
    return result or None


def _read_functions(table: Table, key: str) -> Pairs:
    result = []
    for name, function in table.tables(key, "functions, such as [kernels.twice.functions.twice]"):
        declaration = _declaration(name, function)
        if declaration:
            result.append((name, declaration))
    return tuple(result)


def _declaration(name: str, function: Table) -> str:
    """Return a declared function as JSON of a metadata file; "" after a mistake."""
    data: Values = {"name": function.string("name", name)}
    for key in ("arg_types", "launch_param_tags", "arg_extra_tags"):
        value = function.typed(key, list, "an array")
        if value is not None:
            data[key] = value
    params = function.get("params")
    interface = function.get("interface")
    function.check_keys(
        {
            "symbol": ". Did you mean 'name', the symbol in the source?",
            "args": ". Did you mean 'params'?",
        }
    )
    if params is not None and interface is not None:
        function.add("the interface has its own params; give one of the two", "params")
        return ""
    if params is not None:
        interface = {"params": params}
    if interface is not None:
        data["interface"] = interface
    data.setdefault("arg_types", _types_of(interface))

    try:
        load_metadata_from_json(json.dumps({"func_info": {name: data}}, allow_nan=False))
    except FormatError as error:
        detail = str(error)
        for prefix in ("the metadata of the function", "the function"):
            detail = detail.removeprefix(f"{prefix} {name!r}: ")
        function.add(f"the declaration is invalid: {detail}")
        return ""
    except (TypeError, ValueError):
        function.add("the declaration has a date, a time or a number that is not finite")
        return ""
    return json.dumps(data)


def _types_of(interface: Any) -> list[Any]:
    """Return the types of the values in an interface; [] for an invalid one, which the later check
    reports.
    """
    try:
        values = Interface.from_dict(interface).values
    except FormatError:
        return []
    result: list[Any] = []
    for each in values:
        if each.kind not in ("scalar", "uniform"):
            result.append("handle")
        elif each.type == "handle":
            result.append("uint64")  # an address
        else:
            result.append(each.type)
    return result


def _functions_argument(functions: Pairs) -> Any:
    if not functions:
        return None
    declared = {name: json.loads(text) for name, text in functions}
    return load_metadata_from_json(json.dumps({"func_info": declared}))


# -- Values for all functions, or by function.


def _parse_by_function(
    flag: str, texts: Sequence[str], parse: Callable[[str], Value | None], expected: str
) -> Value | dict[str, Value] | None:
    """Return the value for all functions, or those by function; None without texts."""
    result = {}
    for text in texts:
        function, equals, value_text = text.rpartition("=")
        value = parse(value_text)
        if value is None or (equals and not function):
            raise ValueError(f"{flag} {text}: expected {expected}")
        if function in result:
            of = f"the function {function!r}" if function else "all functions"
            raise ValueError(f"{flag} is given twice for {of}")
        result[function] = value
        if "" in result and len(result) > 1:
            raise ValueError(
                f"{flag} is given for all functions and for one; give it for each function"
            )
    return result.get("", result or None)


def _read_by_function(read: Callable[..., Any]) -> Callable[[Table, str], Pairs]:
    """Return the reader of a value for all functions, which are "", or of those by function."""

    def read_all(table: Table, key: str) -> Pairs:
        given = table.get(key)
        values: Values = {}
        if isinstance(given, dict):
            for function, each in given.items():
                values[function] = read(table, each, key, function)
        elif given is not None:
            values[""] = read(table, given, key)
        return _known(values)

    return read_all


def _known(values: Mapping[Any, Any]) -> Pairs:
    """Return the values that are not None, which is one with a mistake."""
    return tuple(each for each in values.items() if each[1] is not None)


# -- block and grid


def _parse_blocks(texts: Sequence[str]) -> Any:
    expected = "threads in x, y, z, such as 64, 16,16, blur=16,16 or BLOCK"
    return _parse_by_function("--block", texts, _parse_dims, expected)


def _parse_grids(texts: Sequence[str]) -> Any:
    expected = "blocks in x, y, z, such as 'ceildiv(n, BLOCK)' or blur='n,m'"
    return _parse_by_function("--grid", texts, _parse_dims, expected)


def _parse_dims(text: str) -> tuple[int | str, ...] | None:
    """Return the numbers and the expressions in a text of the command line; None for an invalid
    text.
    """
    dims = []
    for part in split_arguments(f"{text})") or ():
        value: int | str = part
        if part.isascii() and part.lstrip("+-").isdigit():
            value = int(part)
        if not value or (isinstance(value, int) and value < 1):
            return None
        dims.append(value)
    return tuple(dims) if 1 <= len(dims) <= 3 else None


def _read_dims(table: Table, value: object, *keys: str) -> tuple[int | str, ...] | None:
    """Return the numbers and the expressions of a block or a grid; None after a mistake."""
    parts = value if isinstance(value, list) else [value]
    if 1 <= len(parts) <= 3 and all(map(_is_dim, parts)):
        return tuple(parts)
    shown = describe(value)
    if isinstance(value, list) and len(value) <= 8 and all(type(each) is int for each in value):
        shown = json.dumps(value)
    table.add(f"{_DIMS}, got {shown}", *keys)
    return None


def _is_dim(value: object) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    return type(value) is int and 1 <= value < 2**31


def _by_function_argument(pairs: Pairs) -> Any:
    by_function = dict(pairs)
    return by_function.get("", by_function or None)


# -- local and shared_memory


#: Bytes, and whether they are per thread.
_Size = tuple[int, bool]


def _parse_size(text: str) -> _Size | None:
    """Return the size in a text of the command line; None for an invalid text."""
    number, slash, unit = text.partition("/")
    if not (number.isascii() and number.isdigit() and 0 < int(number) < 2**63):
        return None
    if slash and unit != "thread":
        return None
    return int(number), bool(slash)


def _read_size(table: Table, value: object, *keys: str) -> _Size | None:
    """Return the size of a manifest; None after a mistake."""
    text = str(value) if type(value) is int else value
    match = re.fullmatch(_SIZE, text) if isinstance(text, str) else None
    if match is None:
        expected = 'expected bytes of 1 or more, such as 1024, or "4/thread"'
        table.add(f"{expected}, got {describe(value)}", *keys)
        return None
    return int(match[1]), bool(match[2])


def _local_of(nbytes: int, per_thread: bool) -> Local:
    return Local(per_thread=nbytes) if per_thread else Local(nbytes)


def _parse_locals(texts: Sequence[str]) -> Values | None:
    result: Values = {}
    for text in texts:
        names, _, size_text = text.rpartition("=")
        function, _, parameter = names.rpartition(".")
        size = _parse_size(size_text)
        if not parameter or size is None:
            raise ValueError(
                f"--local {text}: expected bytes, such as scratch=1024, scratch=4/thread or reduce.scratch=4/thread"
            )
        group = result
        if function:
            group = result.setdefault(function, {})
        if not isinstance(group, dict) or parameter in group:
            raise ValueError(f"--local {text}: {names} is given twice")
        group[parameter] = _local_of(*size)
    return result or None


def _read_locals(table: Table, key: str) -> Pairs:
    expected = 'a table of sizes by parameter, such as { scratch = "4/thread" }'
    sizes: dict[tuple[str, str], _Size | None] = {}
    for name, value in (table.typed(key, dict, expected) or {}).items():
        if isinstance(value, dict):
            for parameter, own in value.items():
                sizes[name, parameter] = _read_size(table, own, key, name, parameter)
        else:
            sizes["", name] = _read_size(table, value, key, name)
    return _known(sizes)


def _locals_argument(sizes: Pairs) -> Values | None:
    result: Values = {}
    for (function, parameter), size in sizes:
        group = result
        if function:
            group = result.setdefault(function, {})
        group[parameter] = _local_of(*size)
    return result or None


def _parse_shared_memory(texts: Sequence[str]) -> Any:
    def parse(text: str) -> int | Local | None:
        size = _parse_size(text)
        return None if size is None else _shared_size(*size)

    expected = "bytes, such as 1024, 4/thread or reduce=4/thread"
    return _parse_by_function("--shared-memory", texts, parse, expected)


def _shared_size(nbytes: int, per_thread: bool) -> int | Local:
    return Local(per_thread=nbytes) if per_thread else nbytes


def _shared_memory_argument(sizes: Pairs) -> Any:
    return _by_function_argument(tuple((function, _shared_size(*size)) for function, size in sizes))


# -- aliases


def _parse_aliases(texts: Sequence[str]) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for text in texts:
        alias, _, names = text.partition("=")
        parts = names.split(",")
        if not alias or not all(parts):
            raise ValueError(
                f"--alias {text}: expected names, such as data_a=data_a_packed16,data_a_packed32"
            )
        result.setdefault(alias, []).extend(parts)
    return result


def _read_aliases(table: Table, key: str) -> Pairs:
    expected = 'a table of names, such as { data_a = ["data_a_packed16"] }'
    result: list[tuple[str, Strings]] = []
    for alias, names in (table.typed(key, dict, expected) or {}).items():
        if isinstance(names, list):
            checked = [
                table.check_string(name, key, alias, index) for index, name in enumerate(names)
            ]
            result.append((alias, tuple(checked)))
        else:
            text = f'expected an array of names, such as ["data_a_packed16"], got {describe(names)}'
            table.add(text, key, alias)
    return tuple(result)


# -- subgroup


def _read_subgroup(table: Table, key: str) -> int:
    size = table.get(key)
    if size is None:
        return 0
    if type(size) is int and size in SUBGROUP_SIZES:
        return size
    expected = "expected the threads of a subgroup, a power of two from 1 to 128"
    table.add(f"{expected}, got {describe(size)}", key)
    return 0


# -- tune


def _parse_tune(texts: Sequence[str]) -> dict[str, tuple[Define, ...]] | None:
    result: dict[str, tuple[Define, ...]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        if not re.fullmatch(_CONSTANT, name) or not values or name in result:
            raise ValueError(
                f"--tune {text}: expected a constant and its values, such as BLOCK=64,128"
            )
        result[name] = tuple(map(_constant, values.split(",")))
    return result or None


def _constant(text: str) -> Define:
    """Return the number, the boolean or the text of the command line."""
    try:
        value: Define = json.loads(text)
    except ValueError:
        return text
    return value


def _read_tune(table: Table, key: str) -> Pairs:
    result: list[tuple[str, tuple[Define, ...]]] = []
    expected = "a table of constants, such as { BLOCK = [64, 128] }"
    for name, values in (table.typed(key, dict, expected) or {}).items():
        if re.fullmatch(_CONSTANT, name) and _are_constants(values):
            result.append((name, tuple(values)))
        else:
            table.add(
                f"expected the name of a constant and an array of values, such as BLOCK = [64, 128], got {describe(values)}",
                key,
                name,
            )
    return tuple(result)


def _are_constants(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(each, Define) for each in values)


# -- The record.


# Where to change: an option of `devmod.compile`
#   here: a field with its texts and its forms
#   also: `core/src/devmod/_modules/compile.py` (`compile`): the parameter, which
#     `compilers/targets/src/devmod_targets/_arguments.py` (`Arguments`) has again; its use:
#     `compilers/targets/src/devmod_targets/_interfaces.py` (`with_arguments`) if it changes
#     interfaces, or the kind's compiler (`others` of
#     `compilers/targets/src/devmod_targets/authoring/_request.py`); docs/manifest.md
#   tests: `compilers/targets/tests/test_compile_options.py`,
#     `compilers/targets/tests/test_manifest_schema.py`, `tests/test_new_members.py`
@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """The options of `devmod.compile` as a table of a manifest or a job has them: strings, numbers
    and tuples of them.
    """

    language: str = field(
        default="",
        metadata=Option(
            "The language of sources whose suffix shows no language of a target, such as GLSL; of one source in any case. "
            "[default: by the suffix, or the only target's first]",
            'The language of the sources, such as "OpenCL C", or the suffix of its files. Default: by the suffix of each source.',
            ("--language",),
            "LANGUAGE",
            multiple=False,
        ).as_metadata(),
    )
    name: str = field(
        default="",
        metadata=Option(
            "The function's name of a shader whose entry point is `main`. [default: the source's stem]",
            "The function's name of a shader whose entry point is main. Default: the kernel's name, or the file's stem if the kernel has "
            "several sources for the target.",
            ("--name",),
            multiple=False,
        ).as_metadata(),
    )
    options: Strings = field(
        default=(),
        metadata=Option(
            "An option for the backend's compiler, as in --option=-cl-fast-relaxed-math.",
            "Options of the compiler, such as --use_fast_math; --werror makes the warnings of any compiler errors. Those of more specific "
            "tables come last.",
            ("--option",),
            "OPTION",
            schema=_STRINGS,
            read=_strings('["--use_fast_math"]'),
            per_kind=True,
            merge=add,
            argument=_same,
        ).as_metadata(),
    )
    defines: Pairs = field(
        default=(),
        metadata=Option(
            "Define a macro.",
            "Macros and their values; true is 1. A more specific table overrides.",
            ("-D", "--define"),
            "NAME[=VALUE]",
            parse=_parse_defines,
            schema={
                "type": "object",
                "propertyNames": {"pattern": r"^[A-Za-z_][A-Za-z0-9_]*(\([A-Za-z0-9_\s,.]*\))?$"},
                "additionalProperties": {"type": ["string", "number", "boolean"]},
            },
            read=_read_defines,
            per_kind=True,
            merge=_updated,
            argument=_dict_or_none,
        ).as_metadata(),
    )
    include: Strings = field(
        default=(),
        metadata=Option(
            "A folder to search for includes.",
            "Folders to search for includes, relative to the manifest. Those of more specific tables come first.",
            ("-I", "--include"),
            "FOLDER",
            schema={"type": "array", "items": {"$ref": "#/$defs/path"}},
            read=_read_include,
            per_kind=True,
            merge=_specific_first,
            argument=_same,
        ).as_metadata(),
    )
    name_expressions: Strings = field(
        default=(),
        metadata=Option(
            "An instance of a C++ template or of a generic function of Slang, as in --name-expression 'scale<float>'.",
            "Instances of C++ templates to compile, such as scale<float>. For CUDA C++, HIP and the Metal shading language.",
            ("--name-expression",),
            "EXPRESSION",
            schema=_STRINGS,
            read=_strings('["scale<float>"]'),
            merge=_distinct,
            argument=_same,
        ).as_metadata(),
    )
    fmap: Pairs = field(
        default=(),
        metadata=Option(
            "A function and the types of its arguments, as in --function 'scale(handle, float32, int32)'. For sources that "
            "contain no types, such as PTX, where it also selects the functions.",
            "Declared functions by name, for arguments that the source does not show, such as those of LLVM IR.",
            ("--function",),
            "NAME[=SYMBOL](TYPE,...)",
            parse=_parse_functions,
            key="functions",
            schema={"type": "object", "additionalProperties": {"$ref": "#/$defs/function"}},
            read=_read_functions,
            merge=_updated,
            argument=_functions_argument,
        ).as_metadata(),
    )
    block: Pairs = field(
        default=(),
        metadata=Option(
            "The default block of threads, for calls that give none. Without FUNCTION, of all functions. Of a "
            "tuned function also expressions of its constants, such as BLOCK.",
            "The default block of threads of a call: an integer, or up to three for x, y, z; or a table of function to these. Of a tuned "
            "function also expressions of its constants.",
            ("--block",),
            "[FUNCTION=]X[,Y[,Z]]",
            parse=_parse_blocks,
            schema=_by_function({"$ref": "#/$defs/dims"}),
            read=_read_by_function(_read_dims),
            argument=_by_function_argument,
            keyed_by="function",
        ).as_metadata(),
    )
    local: Pairs = field(
        default=(),
        metadata=Option(
            "The default size of a parameter of local memory: in all, or for each thread of a block.",
            'The default sizes of parameters of local memory: bytes, or "4/thread"; or a table of function to such a table.',
            ("--local",),
            "[FUNCTION.]PARAMETER=BYTES[/thread]",
            parse=_parse_locals,
            schema={
                "type": "object",
                "additionalProperties": _by_function({"$ref": "#/$defs/size"}),
            },
            read=_read_locals,
            merge=_updated,
            argument=_locals_argument,
            keyed_by="parameter of local memory",
        ).as_metadata(),
    )
    shared_memory: Pairs = field(
        default=(),
        metadata=Option(
            "The default dynamic shared memory of a block, for calls that give none: in all, or for each thread.",
            'The default dynamic shared memory of a block, of the functions that use some: bytes, or "4/thread"; or a table of function to '
            "these.",
            ("--shared-memory",),
            "[FUNCTION=]BYTES[/thread]",
            parse=_parse_shared_memory,
            schema=_by_function({"$ref": "#/$defs/size"}),
            read=_read_by_function(_read_size),
            argument=_shared_memory_argument,
            keyed_by="function",
        ).as_metadata(),
    )
    aliases: Pairs = field(
        default=(),
        metadata=Option(
            "A parameter's name, and the names in the sources that it replaces.",
            "Names of parameters, each with the names in the sources that it replaces. Names that a source does not have are ignored.",
            ("--alias",),
            "NAME=NAME[,NAME...]",
            parse=_parse_aliases,
            schema={"type": "object", "additionalProperties": _STRINGS},
            read=_read_aliases,
            per_kind=True,
            merge=_updated,
            argument=_dict_or_none,
        ).as_metadata(),
    )
    subgroup: int = field(
        default=0,
        metadata=Option(
            "The threads of a subgroup with which the functions must run.",
            "The number of threads in a subgroup with which the functions must run.",
            ("--subgroup",),
            "THREADS",
            int,
            multiple=False,
            schema={"enum": list(SUBGROUP_SIZES)},
            read=_read_subgroup,
        ).as_metadata(),
    )
    tune: Pairs = field(
        default=(),
        metadata=Option(
            "A constant of the source and its values. The functions have a variant for each combination; the first is the default.",
            "The constants of tuned functions, each with its values: { BLOCK = [64, 128] }. There is a variant for each combination.",
            ("--tune",),
            "NAME=VALUE,...",
            parse=_parse_tune,
            schema={
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                "additionalProperties": {
                    "type": "array",
                    "items": {"type": ["string", "number", "boolean"]},
                },
            },
            read=_read_tune,
            argument=_dict_or_none,
        ).as_metadata(),
    )
    constraints: Strings = field(
        default=(),
        metadata=Option(
            "A comparison of constants that each variant meets, as in --constraint 'BLOCK * TILE <= 512'.",
            'Comparisons of constants that each variant meets, such as ["BLOCK * TILE <= 512"].',
            ("--constraint",),
            "COMPARISON",
            schema=_STRINGS,
            read=_strings('["BLOCK * TILE <= 512"]'),
            argument=_same,
        ).as_metadata(),
    )
    sizes: Strings = field(
        default=(),
        metadata=Option(
            "An integer argument that decides which variant is the best.",
            "The integer arguments that decide which variant is the best.",
            ("--size",),
            "ARGUMENT",
            schema=_STRINGS,
            read=_strings('["n"]'),
            argument=_same,
        ).as_metadata(),
    )
    grid: Pairs = field(
        default=(),
        metadata=Option(
            "The grid of the calls of a tuned function, which then give none: expressions of constants and arguments. Without "
            "FUNCTION, of all functions.",
            'The grid of the calls of a tuned function, such as "ceildiv(n, BLOCK)", or up to three expressions; or a table of function to '
            "these.",
            ("--grid",),
            "[FUNCTION=]X[,Y[,Z]]",
            parse=_parse_grids,
            schema=_by_function({"$ref": "#/$defs/dims"}),
            read=_read_by_function(_read_dims),
            argument=_by_function_argument,
            keyed_by="function",
        ).as_metadata(),
    )


#: The options by name.
OPTIONS: dict[str, Option] = {each.name: each.metadata["option"] for each in fields(CompileOptions)}


def key_of(name: str) -> str:
    """Return the key of an option in a manifest."""
    return OPTIONS[name].key or name


def _options_of(*, in_kernel: bool) -> dict[str, Option]:
    """Return the options of a table: all in a kernel's, and those for all kernels elsewhere."""
    if in_kernel:
        return OPTIONS
    return {name: option for name, option in OPTIONS.items() if option.per_kind}


def read_options(table: Table, *, in_kernel: bool) -> Values:
    """Return the options of a manifest's table by name."""
    options = _options_of(in_kernel=in_kernel)
    return {name: option.read(table, key_of(name)) for name, option in options.items()}


def merge_options(sections: Sequence[CompileOptions]) -> Values:
    """Return the options of several tables by name, of which the more specific ones are last."""
    result = {}
    for name, option in OPTIONS.items():
        result[name] = reduce(option.merge, [getattr(each, name) for each in sections])
    return result


def schema_of(*, in_kernel: bool) -> Values:
    """Return the JSON schema of the keys that `read_options` reads."""
    result: Values = {}
    for name, option in _options_of(in_kernel=in_kernel).items():
        result[key_of(name)] = {**option.schema, "description": option.description}
    return result
