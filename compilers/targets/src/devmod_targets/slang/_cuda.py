"""From Slang's CUDA text to CUDA C++ for NVRTC, and to HIP for clang.

No document specifies that text. This module relies on what slangpy 0.42.0 and 0.43.1 write:

- A kernel starts with ``extern "C" __global__ void NAME(``, at the start of a line.
- The parameters of the file are ``SLANG_globalParams``. The code reads each as
  ``globalParams_0->NAME``.
- Functions such as ``make_float2 (`` make vectors.
- A call of ``printf(`` has no string before it on its line.
- An atomic on an element of a buffer is the value of a variable:
  ``uint NAME = atomicAdd((&(BUFFER)[``.
- A surface is read and written at a place in bytes, before ``SLANG_CUDA_BOUNDARY_MODE``.
- Assembly reads the size of an image into ``w`` and ``h``. The number of mip levels is 0, after a
  comment.
- Functions of textures have the names of CUDA. Names of the source end with ``_`` and a number.

An expression that no longer matches would give wrong code without an error. So `_check_forms`
raises one for a line that has the sign of a form in `_FORMS` and not the form.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from devmod.errors import CompileError
from devmod_readers.options.cuda import writes_folders
from devmod_targets._text import print_place
from devmod_targets.authoring import CompileRequest, Payload, warn_caller
from devmod_targets.authoring._source import line_directive
from devmod_targets.slang._driver import Entry, text_of, translate
from devmod_targets.slang._interface import ReflectedArgument, read_arguments
from devmod_targets.slang._wrapper import (
    Compiler,
    Text,
    Variable,
    Wrapped,
    check_arguments,
    finish,
    missing_function,
    parameter_name,
    prelude,
    strange_text,
    symbol_for,
)

#: The name of the functions around Slang's kernels in lines of a source.
_KERNELS = "slang/kernels.h"
_LANGUAGES = {"cuda": "CUDA C++", "rocm": "HIP"}
#: The number of the language CUDA, whose prelude is replaced.
_CUDA = 6
_KERNEL = re.compile(r'^extern "C" __global__ void (\w+)\(', re.MULTILINE)
#: The functions that make vectors. NVRTC warns of CUDA's own of the same name: some of their types
#: are deprecated. The source's own names end with "_" and a number.
_VECTOR = re.compile(r"\bmake_(\w*[a-z][1-4]) *\(")
#: The options of HIP that name a folder.
_PATHS = ("-device-libs=", "-toolchain=")
#: The call of printf. Slang's text has strings, and none of the comments of the source.
_PRINT = re.compile(r"^[^\"\n]*\bprintf\(", re.MULTILINE)
#: An atomic on an element of a buffer, up to the index. That of a signed number has a cast.
_ATOMIC = re.compile(
    r"^\s*(\w+) +\w+ = atomic\w+\((?:\(unsigned long long\*\)\()?\((?P<element>&\((?P<buffer>[\w.>-]+)\)\[)",
    re.MULTILINE,
)
#: The end of a read or a write of a surface, whose place counts bytes, and the size of an image.
_SURFACE = re.compile(r" \* \d+(, \(\((?:(?! \* \d+,)[^\n;])*?\)\)\.y), SLANG_CUDA_BOUNDARY_MODE\)")
_SIZE = re.compile(
    r'asm\("txq\.width\.b32 %0, \[%2\]; txq\.height\.b32 %1, \[%2\];" : "=r"\(w\), "=r"\(h\) : "l"\((\([^\n;:]*?\))\)\)'
)
#: A function of textures and surfaces that headers/images.h does not have, outside of strings. The
#: source's own names end with a number.
_OTHER_FUNCTION = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|\b(?!(?:tex2DLod|tex2Dfetch_int|surf2Dread|surf2Dwrite)\b)((?:tex|surf)[1-3C]\w*[A-Za-z]) ?[<(]'
)
#: The number of mip levels, which is 1 here.
_LEVELS = re.compile(r"/\* txq\.num_mipmap_levels[^*\n]*\*/ ([^;\n]*?) = 0;")
_GLOBALS = re.compile(r'^extern "C" __constant__ (\w+) SLANG_globalParams;', re.MULTILINE)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


class _Form(NamedTuple):
    """A form that this module relies on.

    Attributes
    ----------
    pattern
        The form.
    sign
        A sign of what has the form. A line has no more signs than forms.
    expected
        An example of the form, for the error.
    """

    pattern: re.Pattern[str]
    sign: re.Pattern[str]
    expected: str


_FORMS = (
    _Form(_GLOBALS, re.compile("__constant__"), 'extern "C" __constant__ TYPE SLANG_globalParams;'),
    _Form(
        re.compile(r"\bglobalParams_0->|^#define globalParams_0 \(&SLANG_globalParams\)$"),
        re.compile(r"\bglobalParams_0\b|\bSLANG_globalParams(?:\.|->)"),
        "globalParams_0->NAME",
    ),
    _Form(
        _VECTOR,
        re.compile(
            r"\bmake_(?:__half|u?(?:char|short|int|long|longlong)|float|double|bool)[1-4]\b"
        ),
        "make_float2 (",
    ),
    _Form(_PRINT, re.compile(r"^.*\bprintf\b", re.MULTILINE), "printf("),
    _Form(
        _ATOMIC,
        re.compile(
            r"\batomic[A-Z]\w*\((?:\([\w ]+\*\)|\()*&\(?(?:globalParams_0->)?\w+(?:\.data)?\)?\["
        ),
        "TYPE NAME = atomicAdd((&(BUFFER)[PLACE]), VALUE);",
    ),
    _Form(
        _SURFACE,
        re.compile(r"\bsurf2D(?:read|write)\b"),
        "(IMAGE), ((PLACE)).x * BYTES, ((PLACE)).y, SLANG_CUDA_BOUNDARY_MODE)",
    ),
    _Form(
        _SIZE,
        re.compile(r"\btxq\.width\b"),
        'asm("txq.width.b32 %0, [%2]; txq.height.b32 %1, [%2];" : "=r"(w), "=r"(h) : "l"((IMAGE)))',
    ),
    _Form(
        _LEVELS,
        re.compile(r" = w;[^;\n]* = h;[^;\n}]+;"),
        "/* txq.num_mipmap_levels not available in CUDA */ NAME = 0;",
    ),
)


def compile(request: CompileRequest, compiler: Compiler) -> Payload:  # noqa: A001 - what it does
    """Translate a source, and compile all entry points as one program.
    `devmod_targets.slang.compile` documents it.
    """
    paths = []
    others = []
    for option in request.options:
        if request.target.kind == "rocm" and option.startswith(_PATHS):
            paths.append(option)
        else:
            others.append(option)
    lines = _has_lines(request)
    translation = translate(
        request.replace(options=tuple(others)),
        "cuda",
        preludes={_CUDA: ""},
        together=True,
        lines=lines,
        check=lambda entry: check_arguments(request, entry),
    )
    translation = translation._replace(rest=[*translation.rest, *paths])
    text = Text(request, translation.entries[0].code.decode("utf-8", "replace"))
    _check_forms(request, translation.toolchain, text.text)
    if request.target.kind == "rocm" and _PRINT.search(text.text):
        from devmod_targets.rocm._device_library import dropped_print

        place, *_ = print_place(request.name, request.text)
        dropped = dropped_print(request.replace(options=translation.rest), place)
        warnings = [f"the Slang source has warnings:\n{each}" for each in dropped]
        warn_caller(request, warnings, frames=1)
    kernels = [
        _kernel(request, translation.toolchain, text, entry) for entry in translation.entries
    ]
    body = _with_places(_shared(text, translation.entries[0]))
    body = _VECTOR.sub(r"\1(", _KERNEL.sub(r"static __device__ void kernel_\1(", body))
    for match in _OTHER_FUNCTION.finditer(body):
        if match[1]:
            raise missing_function(request, "CUDA C++", match[1])
    body = _LEVELS.sub(r"\1 = 1;", body)
    body = _SURFACE.sub(r"\1, Texels{})", _SIZE.sub(r"picture_size(\1, w, h)", body))
    wrappers = text.instances() + "".join(kernel.text for kernel in kernels)
    if lines:
        wrappers = line_directive(1, _KERNELS) + wrappers
    program = f"{prelude(body + wrappers)}namespace slang {{\n{body}\nnamespace kernels {{\n{wrappers}}}\n}}\n"
    payload = finish(
        request, translation, compiler, program, _LANGUAGES[request.target.kind], kernels
    )
    if lines:
        return _with_own_sources(request, payload)
    return payload


def _with_own_sources(request: CompileRequest, payload: Payload) -> Payload:
    """Return a payload that carries the sources in Slang, if it carries those in CUDA C++."""
    from devmod_targets.cuda.carried import carries_sources, with_sources

    if payload.fmt != "ptx" or not isinstance(payload.code, bytes):
        return payload
    ptx = payload.code.decode()
    if not carries_sources(ptx):
        return payload
    sources = {os.path.basename(path): text_of(path) for path in payload.files or ()}
    sources[request.name] = request.text
    return payload.replace(code=with_sources(ptx, sources, payload.fmap.values()).encode())


def _has_lines(request: CompileRequest) -> bool:
    """Return whether the code gets the lines of the source."""
    if request.target.kind != "cuda":
        return False
    from devmod_targets.cuda.carried import is_checked

    return writes_folders(request.options) or is_checked()


def _check_forms(request: CompileRequest, toolchain: str, text: str) -> None:
    """Raise CompileError for a line of Slang's text that has another form."""
    # The names of kernels are those of the source, without a number.
    lines = _KERNEL.sub("", text).split("\n")
    for form in _FORMS:
        if not form.sign.search(text):
            continue
        for line in lines:
            code = line
            if line.startswith("#line "):
                continue
            if "printf" in line:
                code = _STRING.sub('""', line)
            if len(form.sign.findall(code)) > len(form.pattern.findall(code)):
                raise _strange_form(request, toolchain, form.expected, line)


def _strange_form(
    request: CompileRequest, toolchain: str, expected: str, line: str
) -> CompileError:
    """Return the error for a line in a form that this module does not read."""
    return request.error(
        f"Slang's translation of {request.name} cannot be read: expected {expected!r}, got {line.strip()[:300]!r}. {toolchain} wrote it: "
        "install a version of slangpy that docs/slang.md names"
    )


def _of_file(text: Text, entry: Entry) -> list[Variable]:
    """Return the variables of the parameters of the file; [] if nothing uses them."""
    match = _GLOBALS.search(text.text)
    if not match:
        return []
    variables = text.variables(entry.globals, text.fields(match[1]))
    return [
        variable._replace(expression=f"SLANG_globalParams.{variable.expression}")
        for variable in variables
    ]


def _is_used(text: Text, variables: Sequence[Variable], argument: ReflectedArgument) -> bool:
    """Return whether a text with one kernel uses an argument. A cbuffer is used as a whole."""
    variable = text.root_of(argument, variables)
    if variable is None:
        return False
    name = variable.expression.rpartition(".")[2]
    return re.search(rf"\bglobalParams_0->{name}\b", text.text) is not None


def _shared(text: Text, entry: Entry) -> str:
    """Return the text with the parameters of the file in memory that a block shares. Each kernel
    writes them there.
    """
    memory = [r"static __shared__ \1 SLANG_globalParams;"]
    body = text.text
    for variable in _of_file(text, entry):
        if not variable.is_constant_buffer:
            continue
        name = variable.expression.rpartition(".")[2]
        value = variable.value
        memory.append(f"static __shared__ {value.type} {value.expression};")
        # Its address is known, so that it needs no generic pointer.
        body = re.sub(rf"\bglobalParams_0->{name}\b", f"(&{value.expression})", body)
    return _GLOBALS.sub("\n".join(memory), body)


def _with_places(text: str) -> str:
    """Return the text with the places of atomics counted in values of the type of each.

    Slang counts so, but all atomics on a ByteAddressBuffer that a function takes share one type of
    elements.
    """
    parts = []
    end = 0
    for atomic in _ATOMIC.finditer(text):
        start = place = atomic.end()
        depth = 1
        while depth and place < len(text):
            depth += {"[": 1, "]": -1}.get(text[place], 0)
            place += 1
        if text[place : place + 1] == ")":  # not a member of the element
            parts += [
                text[end : atomic.start("element")],
                f"({atomic[1]} *){atomic['buffer']}.data + ({text[start : place - 1]})",
            ]
            end = place
    return "".join([*parts, text[end:]])


def _kernel(request: CompileRequest, toolchain: str, text: Text, entry: Entry) -> Wrapped:
    """Return the kernel that callers call for an entry point."""
    starts = {match[1]: match.end() for match in _KERNEL.finditer(text.text)}
    kernel_name = entry.symbol
    if kernel_name not in starts:
        # Slang changes a name that C++ cannot have, such as "main".
        kernel_name = f"{kernel_name}_0"
    if kernel_name not in starts:
        line = next((each for each in text.text.split("\n") if "__global__" in each), "")
        expected = f'extern "C" __global__ void {entry.symbol}('
        raise _strange_form(request, toolchain, expected, line)
    of_file = _of_file(text, entry)
    declared = text.parameters(starts[kernel_name])
    own = text.variables(entry.reflection.get("parameters", []), declared)
    arguments, _, threads, *_ = read_arguments(request, entry)
    if threads is None:
        raise strange_text(request, f"no block of threads of {entry.name!r}")
    if request.language == "HLSL":
        arguments = [each for each in arguments if _is_used(text, of_file, each)]
    copies: list[str] = []
    lines = [f"{each.value.type} {each.value.expression};" for each in own]
    declarations = []
    samplers = [parameter_name(argument) for argument in arguments if argument.kind == "sampler"]
    sampler = next(iter(samplers), "")
    for argument in arguments:
        variables = own
        statements = lines
        if argument.is_global:
            variables = of_file
            statements = copies
        declaration, statement = text.declaration(argument, variables, sampler)
        declarations.append(declaration)
        statements.append(statement)
    if any(copies):
        copies = [
            "if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {",
            *copies,
            "}",
            "__syncthreads();",
        ]
    values = []
    for variable in own:
        value = variable.value.expression
        if variable.is_constant_buffer:
            value = f"&{value}"
        values.append(value)
    symbol = symbol_for(entry.symbol)
    x, y, z = threads
    kernel = [
        f'extern "C" __global__ void __launch_bounds__({x * y * z}) {symbol}({", ".join(declarations)})',
        "{",
        *copies,
        *lines,
        f"slang::kernel_{kernel_name}({', '.join(values)});",
        "}",
        "",
    ]
    return Wrapped(entry.name, symbol, arguments, threads, "\n".join(kernel))
