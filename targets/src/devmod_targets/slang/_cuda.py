"""From Slang's CUDA text to CUDA C++ for NVRTC, and to HIP for clang."""

from __future__ import annotations

import re

from devmod_targets.slang._driver import translate
from devmod_targets.slang._wrapper import Wrapper, checked, fields_of, finish, prelude, signature_of, strange_text, symbol_for, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from devmod_targets.authoring import CompileRequest, Payload
    from devmod_targets.slang._driver import Entry

_LANGUAGES = {"cuda": "CUDA C++", "rocm": "HIP"}
#: The number of the language CUDA, whose prelude is replaced.
_CUDA = 6
_KERNEL = re.compile(r'^extern "C" __global__ void (\w+)\(', re.MULTILINE)
_GLOBALS = re.compile(r'^extern "C" __constant__ (\w+) SLANG_globalParams;', re.MULTILINE)


def compile(request: CompileRequest, compiler: Callable[[CompileRequest], Payload]) -> Payload:  # noqa: A001 - what it does
    """Translate a source in Slang, and compile the result with the kind's compiler. `devmod_targets.slang.compile` documents it."""
    translation = translate(request, "cuda", preludes={_CUDA: ""}, together=True)
    text = translation.entries[0].code.decode("utf-8", "replace")
    wrappers = checked(request, lambda: _wrappers(request, text, translation.entries))
    text = _KERNEL.sub(r"static __device__ void \1(", _GLOBALS.sub(r"static __shared__ \1 SLANG_globalParams;", text))
    kernels = "".join(wrapper.text for wrapper in wrappers)
    program = f"{prelude(text)}namespace slang {{\n{text}\nnamespace kernels {{\n{kernels}}}\n}}\n"
    return finish(request, translation, compiler, program, _LANGUAGES[request.target.kind], wrappers)


def _wrappers(request: CompileRequest, text: str, entries: list[Entry]) -> list[Wrapper]:
    """Return the kernels that callers call."""
    has_counts = ".GetDimensions(" in text
    shared = _GLOBALS.search(text)
    fields = fields_of(request, text, shared[1]) if shared else []
    values = wrap(request, entries[0].globals, fields, has_counts=has_counts) if shared else []
    # Slang's functions read the parameters of the file in memory of the block.
    memory, copies = [], []
    for value, (_, name) in zip(values, fields, strict=True):
        if value.type:
            memory.append(f"    __shared__ {value.type} memory_of_{name};\n")
            copies.append(f"        memory_of_{name} = {value.value};\n        SLANG_globalParams.{name} = &memory_of_{name};\n")
        else:
            copies.append(f"        SLANG_globalParams.{name} = {value.value};\n")
    if copies:
        memory.append("    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {\n" + "".join(copies) + "    }\n    __syncthreads();\n")
    starts = {match[1]: match.end() for match in _KERNEL.finditer(text)}
    result = []
    for entry in entries:
        if entry.symbol not in starts:
            raise strange_text(request, f"no kernel {entry.symbol!r}")
        own = wrap(request, entry.reflection["parameters"], signature_of(request, text, starts[entry.symbol]), has_counts=has_counts)
        x, y, z = entry.reflection["threadGroupSize"]
        declarations = ", ".join(each for value in (*values, *own) for each in value.declarations)
        arguments = ", ".join(f"&{value.value}" if value.type else value.value for value in own)
        symbol = symbol_for(entry.symbol)
        kernel = (
            f'extern "C" __global__ void __launch_bounds__({x * y * z}) {symbol}({declarations})\n'
            f"{{\n{''.join(memory)}    slang::{entry.symbol}({arguments});\n}}\n"
        )
        result.append(Wrapper(entry.name, symbol, [*values, *own], (x, y, z), kernel))
    return result
