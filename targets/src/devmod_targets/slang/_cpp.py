"""From Slang's C++ text to C++ for Hexagon: functions that run all threads of a grid, one after the other.

A function takes the numbers of blocks in x, y and z after its arguments, each a uint32. Its launch tags name them.
"""

from __future__ import annotations

import re

from devmod_targets.slang._driver import translate
from devmod_targets.slang._wrapper import Wrapper, checked, fields_of, finish, prelude, strange_text, symbol_for, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from devmod_targets.authoring import CompileRequest, Payload
    from devmod_targets.slang._driver import Entry

#: The number of the language C++, whose prelude is replaced.
_CPP = 5
_KERNEL = re.compile(r"^void (_\w+)\(void\*", re.MULTILINE)
#: The parameters of a function after its arguments.
BLOCKS = ("blocks_x", "blocks_y", "blocks_z")


def compile(request: CompileRequest, compiler: Callable[[CompileRequest], Payload]) -> Payload:  # noqa: A001 - what it does
    """Translate a source in Slang, and compile the result with the kind's compiler. `devmod_targets.slang.compile` documents it."""
    translation = translate(request, "cpp", preludes={_CPP: ""})
    wrappers = checked(request, lambda: [_wrapper(request, number, entry) for number, entry in enumerate(translation.entries)])
    text = "".join(wrapper.text for wrapper in wrappers)
    return finish(request, translation, compiler, f"{prelude(text)}namespace slang {{\n{text}}}\n", "C++", wrappers, blocks=BLOCKS)


def _wrapper(request: CompileRequest, number: int, entry: Entry) -> Wrapper:
    text = entry.code.decode("utf-8", "replace")
    kernel = _KERNEL.search(text)
    if kernel is None:
        raise strange_text(request, f"no kernel {entry.symbol!r}")
    values = []
    lines: list[str] = []
    places: list[str] = []
    for struct, params in (("GlobalParams_0", entry.globals), ("EntryPointParams_0", entry.reflection["parameters"])):
        fields = fields_of(request, text, struct)
        own = wrap(request, params, fields, has_counts=False) if fields else []
        values += own
        variable = f"slang_{len(lines)}"
        members = ", ".join(f"&{value.value}" if value.type else value.value for value in own)
        lines.append(f"    {struct} {variable} = {{{members}}};\n" if own else "")
        places.append(f"&{variable}" if own else "nullptr")
    x, y, z = entry.reflection["threadGroupSize"]
    loops = "".join(
        f"    for (uint {name} = 0; {name} < {limit}; {name}++)\n"
        for name, limit in zip(("bz", "by", "bx", "tz", "ty", "tx"), (*reversed(BLOCKS), z, y, x), strict=True)
    )
    symbol = symbol_for(entry.symbol)
    declarations = [*(each for value in values for each in value.declarations), *(f"uint {name}" for name in BLOCKS)]
    function = (
        f"namespace kernel_{number} {{\nnamespace {{\n{text}\n}}\n"
        f'extern "C" void {symbol}({", ".join(declarations)})\n{{\n{"".join(lines)}{loops}'
        "    {\n        ComputeThreadVaryingInput thread = {{bx, by, bz}, {tx, ty, tz}};\n"
        f"        {kernel[1]}(&thread, {places[1]}, {places[0]});\n    }}\n}}\n}}\n"
    )
    return Wrapper(entry.name, symbol, values, (x, y, z), function)
