"""From Slang's C++ text to C++ for Hexagon: functions that run all threads of a grid, one after the
other.

A function takes the numbers of blocks in x, y and z after its arguments, each a uint32. Its launch
tags name them.
"""

from __future__ import annotations

import re

from devmod.errors import CompileError
from devmod_targets.authoring import CompileRequest, Payload
from devmod_targets.slang._driver import Entry, translate
from devmod_targets.slang._interface import read_arguments
from devmod_targets.slang._wrapper import (
    Compiler,
    Text,
    Wrapped,
    check_arguments,
    finish,
    prelude,
    strange_text,
    symbol_for,
)

#: The number of the language C++, whose prelude is replaced.
_CPP = 5
#: Slang's error about what a target lacks, and the note with its place.
_UNAVAILABLE = "E36107"
_USE = re.compile(r"note: see using of '([^'\n]+)'\n\s*--> ([^:\n]+):(\d+)")
_KERNEL = re.compile(r"^void (_\w+)\(void\*", re.MULTILINE)
#: The structs of the parameters of a file and of an entry point, and the variables of these types.
_STRUCTS = (
    (True, "GlobalParams_0", "slang_globals"),
    (False, "EntryPointParams_0", "slang_arguments"),
)
#: The parameters of a function after its arguments.
_BLOCKS = ("slang_blocks_x", "slang_blocks_y", "slang_blocks_z")


def compile(request: CompileRequest, compiler: Compiler) -> Payload:  # noqa: A001 - what it does
    """Translate a source, and compile all entry points as one program.
    `devmod_targets.slang.compile` documents it.
    """
    try:
        translation = translate(
            request, "cpp", preludes={_CPP: ""}, check=lambda entry: check_arguments(request, entry)
        )
    except CompileError as error:
        raise _explained(request, error) from None
    functions = [
        _function(request, number, entry) for number, entry in enumerate(translation.entries)
    ]
    text = "".join(function.text for function in functions)
    return finish(
        request,
        translation,
        compiler,
        f"{prelude(text)}namespace slang {{\n{text}}}\n",
        "C++",
        functions,
        blocks=_BLOCKS,
    )


def _explained(request: CompileRequest, error: CompileError) -> CompileError:
    """Return the error for what Slang does not translate to C++, such as barriers; another error
    unchanged.
    """
    if _UNAVAILABLE not in error.log:
        return error
    use = _USE.search(error.log)
    what = str(error)
    if use:
        what = f"{use[2]}:{use[3]}: {use[1]}"
    why = "Slang's C++ does not have it"
    if use is None or re.search("Barrier|Interlocked|Atomic|Wave|Quad", use[1]):
        why = "the threads of a block run one after the other there, without barriers, atomics and waves"
    return request.error(
        f"{what} is not supported on hexagon: {why}. Compile the file without this entry point for hexagon",
        log=error.log,
    )


def _function(request: CompileRequest, number: int, entry: Entry) -> Wrapped:
    """Return the function that callers call for an entry point."""
    text = Text(request, entry.code.decode("utf-8", "replace"))
    kernel = _KERNEL.search(text.text)
    arguments, _, threads, *_ = read_arguments(request, entry)
    if kernel is None or threads is None:
        raise strange_text(request, f"no kernel {entry.symbol!r}")
    lines = []
    declarations = []
    places = []
    for is_global, struct, name in _STRUCTS:
        parameters = entry.reflection.get("parameters", [])
        if is_global:
            parameters = entry.globals
        variables = []
        fields = text.fields(struct)
        if fields:
            variables = text.variables(parameters, fields)
            lines.append(f"{struct} {name};")
            places.append(f"&{name}")
        else:
            places.append("nullptr")
        variables = [each._replace(expression=f"{name}.{each.expression}") for each in variables]
        for variable in variables:
            if variable.is_constant_buffer:
                value = variable.value
                lines.append(f"{value.type} {value.expression};")
                lines.append(f"{variable.expression} = &{value.expression};")
        for argument in arguments:
            if argument.is_global == is_global:
                declaration, statement = text.declaration(argument, variables)
                declarations.append(declaration)
                lines.append(statement)
    declarations += [f"uint {name}" for name in _BLOCKS]
    ids = ("bz", "by", "bx", "tz", "ty", "tx")
    loops = [
        f"for (uint {name} = 0; {name} < {end}; {name}++)"
        for name, end in zip(ids, (*_BLOCKS[::-1], *threads[::-1]), strict=True)
    ]
    symbol = symbol_for(entry.symbol)
    function = [
        f"namespace kernel_{number} {{",
        "namespace {",
        text.text,
        "}",
        text.instances(),
        f'extern "C" void {symbol}({", ".join(declarations)})',
        "{",
        *lines,
        *loops,
        "{",
        "ComputeThreadVaryingInput thread = {{bx, by, bz}, {tx, ty, tz}};",
        f"{kernel[1]}(&thread, {places[1]}, {places[0]});",
        "}",
        "}",
        "}",
        "",
    ]
    return Wrapped(entry.name, symbol, arguments, threads, "\n".join(function))
