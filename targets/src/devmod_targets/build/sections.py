"""Read the settings of a kernel, of a target or of the whole manifest."""

from __future__ import annotations

import json
import re
from typing import Any

from devmod import load_metadata_from_json
from devmod.errors import FormatError
from devmod_targets.build.manifest import KernelEntry, Section, Source
from devmod_targets.build.tables import Table, check_finite, check_path, describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod_targets.build.manifest import Define

_MACRO = re.compile(r"[A-Za-z_]\w*(?:\([\w\s,.]*\))?", re.ASCII)
_SIZE = re.compile(r"([1-9][0-9]{0,17})(/thread)?", re.ASCII)
_THREADS = "expected the threads of a block, an integer of 1 or more, or an array of up to three for x, y, z"
#: Likely mistakes in the name of a key, each with the end of the message about an unknown key.
_HINTS = {
    "source": ". Did you mean 'sources'?",
    "files": ". Did you mean 'sources'?",
    "target": ". Did you mean 'targets'?",
    "flags": ". Did you mean 'options'?",
    "args": ". Did you mean 'options', or the table 'functions'?",
    "arguments": ". Did you mean the table 'functions', which declares the arguments of a function?",
    "fmap": ". Did you mean the table 'functions'?",
    "includes": ". Did you mean 'include'?",
    "include_dirs": ". Did you mean 'include'?",
    "macros": ". Did you mean 'defines'?",
    "werror": """. To make each warning an error: options = ["--werror"]""",
}
#: Keys of a kernel that are not for all kernels.
_KERNEL_KEYS = ("sources", "language", "name", "name_expressions", "functions", "block", "local")


def read_kernel(name: str, table: Table) -> KernelEntry:
    """Return a kernel."""
    if not name.strip() or not name.isprintable():
        table.add("a kernel's name is text without control characters")
    section = read_section(table)
    targets = tuple(read_target_tables(table, in_kernel=True))
    own = table.strings("targets", '["opencl", "cuda -arch=sm_90"]')
    skip = table.strings("skip", '["vulkan"]') or ()
    if own == ():
        table.add("the array is empty; without this key the kernel has the targets of the manifest", "targets")
    table.check_keys(_HINTS | {"output": "; the manifest has one output for all kernels"})
    return KernelEntry(name, section, targets, own or (), skip)


def read_target_tables(table: Table, *, in_kernel: bool) -> Iterator[Section]:
    """Yield the settings of each target in a manifest or a kernel."""
    for key, target in table.tables("target", "targets, such as [target.cuda]"):
        yield read_section(target, key) if in_kernel else read_common(target, key)
        moved = f"; it belongs to one kernel: [kernels.NAME.target.{key}]"
        target.check_keys(_HINTS if in_kernel else _HINTS | dict.fromkeys(_KERNEL_KEYS, moved))


def read_common(table: Table, target: str = "") -> Section:
    """Return the settings that any table may have."""
    return Section(target=target, options=_options(table), defines=_defines(table), include=_include(table))


def read_section(table: Table, target: str = "") -> Section:
    """Return the settings of a kernel, or of a target of it."""
    return Section(
        target=target,
        sources=_sources(table),
        language=table.string("language"),
        name=table.string("name"),
        options=_options(table),
        defines=_defines(table),
        include=_include(table),
        name_expressions=table.strings("name_expressions", '["scale<float>"]') or (),
        functions=tuple(_functions(table)),
        block=tuple(_blocks(table)),
        local=tuple(_locals(table)),
    )


def _options(table: Table) -> tuple[str, ...]:
    return table.strings("options", '["--use_fast_math"]') or ()


def _include(table: Table) -> tuple[str, ...]:
    paths = table.strings("include", '["include"]') or ()
    return tuple(check_path(table, each, "include", index) for index, each in enumerate(paths))


def _defines(table: Table) -> tuple[tuple[str, Define], ...]:
    value = table.get("defines")
    if value is None:
        return ()
    if not isinstance(value, dict):
        table.add(f"expected a table of macros, such as {{ WIDTH = 16 }}, got {describe(value)}", "defines")
        return ()
    result: list[tuple[str, Define]] = []
    for macro, text in value.items():
        if not _MACRO.fullmatch(macro):
            table.add('expected the name of a macro, or a name with parameters such as "F(x)"', "defines", macro)
        elif not isinstance(text, (str, int, float)):
            table.add(f"expected a string, a number or a boolean, got {describe(text)}", "defines", macro)
        elif isinstance(text, str) and not text.isprintable():
            table.add(f"the string has a line break or a control character: {text!r}", "defines", macro)
        elif not isinstance(text, float) or check_finite(table, text, "defines", macro):
            result.append((macro, text))
    return tuple(result)


def _sources(table: Table) -> tuple[Source, ...] | None:
    value = table.get("sources")
    if value is None:
        return None
    if not isinstance(value, list) or not value:
        what = "an empty array" if value == [] else describe(value)
        table.add(f'expected an array of paths, such as ["twice.cl", "twice.cu"], got {what}', "sources")
        return ()
    result = []
    for index, each in enumerate(value):
        if not isinstance(each, dict):
            path, language, name = table.check_string(each, "sources", index), "", ""
        else:
            entry = table.table(each, "sources", index)
            path, language, name = entry.string("path"), entry.string("language"), entry.string("name")
            entry.check_keys()
            if "path" not in each:
                entry.add('the source has no path, as in { path = "k.inc", language = "OpenCL C" }')
        if any(mark in path for mark in "*?["):
            table.add(f"patterns are not supported, got {path!r}; name each file. devmod init lists them", "sources", index)
            path = ""
        result.append(Source(check_path(table, path, "sources", index), language, name))
    return tuple(result)


def _functions(table: Table) -> Iterator[tuple[str, str]]:
    """Yield the declared functions, each as JSON of a metadata file."""
    for name, function in table.tables("functions", "functions, such as [kernels.twice.functions.twice]"):
        fields: dict[str, Any] = {"name": function.string("name", name)}
        for key in ("arg_types", "launch_param_tags", "arg_extra_tags"):
            value = function.get(key)
            if value is None:
                continue
            if not isinstance(value, list):
                function.add(f"expected an array, got {describe(value)}", key)
            else:
                fields[key] = value
        params, interface = function.get("params"), function.get("interface")
        function.check_keys({"symbol": ". Did you mean 'name', the symbol in the source?", "args": ". Did you mean 'params'?"})
        if params is not None and interface is not None:
            function.add("the interface has its own params; give one of the two", "params")
            continue
        if params is not None:
            interface = {"params": params}
        if interface is not None:
            fields["interface"] = interface
        fields.setdefault("arg_types", _types_of(interface))
        try:
            text = json.dumps({"func_info": {name: fields}}, allow_nan=False)
            load_metadata_from_json(text)
        except FormatError as error:
            detail = str(error).removeprefix(f"the metadata of the function {name!r}: ").removeprefix(f"the function {name!r}: ")
            function.add(f"the declaration is invalid: {detail}")
        except (TypeError, ValueError):
            function.add("the declaration has a date, a time or a number that is not finite")
        else:
            yield name, json.dumps(fields)


def _types_of(interface: Any) -> list[Any]:
    """Return the types of the arguments in the params of an interface; [] for an invalid one, which the later check reports."""
    params = interface.get("params") if isinstance(interface, dict) else None
    if not isinstance(params, list) or not all(isinstance(each, dict) for each in params):
        return []
    return [each.get("type", "") if each.get("kind") in ("scalar", "uniform") else "handle" for each in params]


def _blocks(table: Table) -> Iterator[tuple[str, tuple[int, ...]]]:
    value = table.get("block")
    items = value.items() if isinstance(value, dict) else [("", value)] if value is not None else []
    for function, dims in items:
        keys = ("block", function) if isinstance(value, dict) else ("block",)
        numbers = dims if isinstance(dims, list) else [dims]
        if 1 <= len(numbers) <= 3 and all(type(each) is int and 1 <= each < 2**31 for each in numbers):
            yield function, tuple(numbers)
        else:
            table.add(f"{_THREADS}, got {json.dumps(dims) if _is_numbers(dims) else describe(dims)}", *keys)


def _is_numbers(value: object) -> bool:
    return isinstance(value, list) and len(value) <= 8 and all(type(each) is int for each in value)


def _locals(table: Table) -> Iterator[tuple[str, str, int, bool]]:
    value = table.get("local")
    if value is None:
        return
    if not isinstance(value, dict):
        table.add(f'expected a table of sizes by parameter, such as {{ scratch = "4/thread" }}, got {describe(value)}', "local")
        return
    for key, size in value.items():
        if isinstance(size, dict):
            yield from (each for parameter, own in size.items() if (each := _local(table, key, parameter, own)))
        elif local := _local(table, "", key, size):
            yield local


def _local(table: Table, function: str, parameter: str, size: object) -> tuple[str, str, int, bool] | None:
    match = _SIZE.fullmatch(size) if isinstance(size, str) else _SIZE.fullmatch(str(size)) if type(size) is int else None
    if match is None:
        keys = ("local", function, parameter) if function else ("local", parameter)
        table.add(f'expected bytes of 1 or more, such as 1024, or "4/thread", got {describe(size)}', *keys)
        return None
    return function, parameter, int(match[1]), bool(match[2])
