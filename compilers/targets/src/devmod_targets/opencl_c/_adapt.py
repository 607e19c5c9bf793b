"""Change the kernels of a program in LLVM IR text to the arguments that devmod's runtimes pass.

- A pointer to local memory becomes an offset of 32 bits into the dynamic shared memory of the
  launch. clang has no declaration of such memory in OpenCL C, so it is declared here.
- A vector of three numbers by value has three elements in the arguments, as on the other kinds, and
  not four.
- A structure of one member by value is a structure. For AMD's processors, clang passes the member.
- The functions of a work-group have memory that the block shares.
- Functions other than kernels are internal. A function that is `inline` in C99 has no definition
  elsewhere, so it has one here.
"""

from __future__ import annotations

import re

from devmod_targets._text import split_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The dynamic shared memory of a launch. The largest alignment of OpenCL C's types is that of
#: double16. All such variables begin at one address: each argument has one, whose name the
#: sanitizer shows.
_DECLARATION = "@{} = external addrspace(3) global [0 x i8], align 128\n"
_PLAIN = re.compile(r"%(\w+)$", re.ASCII)
#: The memory of the functions of a work-group: a value of 64 bits for each of the most threads of a
#: block. OpenCL C has no such variable outside of a kernel.
_VALUES = re.compile(r"^declare [^\n]*@devmod_values\([^\n]*\n", re.MULTILINE)
_VALUES_DEFINITION = """
@devmod_scratch = internal addrspace(3) global [1024 x i64] undef, align 16
define internal ptr addrspace(3) @devmod_values() alwaysinline { ret ptr addrspace(3) @devmod_scratch }
"""
_DEFINE = re.compile(r"^define (?P<words>[^@\n]*)@(?P<name>[\w.$]+)\(", re.MULTILINE)
_LINKAGES = re.compile(
    r"\b(?:private|internal|available_externally|linkonce(?:_odr)?|weak(?:_odr)?|external|dso_local|protected|hidden|default)\s+"
)
_THREE = re.compile(r"<3 x (\w+)>")
#: A name with other characters than these is in quotation marks.
_VARIABLE = re.compile(r'%(?P<name>[\w.$-]+|"[^"\n]+")$')
#: The type of an argument that is a number, a vector or a pointer.
_TYPE = re.compile(r"ptr(?: addrspace\(\d+\))?|<[^>]*>|[^ ]+")
#: What clang appends to the name of a structure for its only member. No name of C has a dot.
_MEMBER = ".coerce"
_ENTRY = re.compile(r"[\w.$-]+:[^\n]*\n")
#: The body of a kernel, which clang writes as a function of its own.
_BODY = re.compile(r"^define [^\n]*@__clang_ocl_kern_imp_[^\n]*\) #(\d+)", re.MULTILINE)
_GROUP = re.compile(r"^attributes #(\d+) = [^\n]*", re.MULTILINE)


def adapt(text: str, convention: str, attributes: Mapping[str, str]) -> str:
    """Return a program with changed kernels.

    Parameters
    ----------
    text
        The program.
    convention
        The calling convention of its kernels, such as "ptx_kernel".
    attributes
        The attributes that LLVM needs for some of the kernels, by their names.
    """
    parts: list[str] = []
    at = 0
    declared: list[str] = []
    for match in _DEFINE.finditer(text):
        words = match["words"]
        if convention not in words.split():
            words = _LINKAGES.sub("", words)
            parts += [text[at : match.start()], f"define internal {words}@{match['name']}("]
            at = match.end()
            continue
        changed = []
        lines = []
        for number, argument in enumerate(split_arguments(text, match.end()) or []):
            memory = ""
            if argument.startswith("ptr addrspace(3)"):
                memory = _memory_name(match["name"], argument, number)
                declared.append(_DECLARATION.format(memory))
            new, added = _argument(argument, memory)
            changed.append(new)
            lines.append(added)
        end = text.index("{\n", match.end())
        tail = text[match.end() : end]
        tail = tail[_closing(tail) + 1 :]
        attribute = attributes.get(match["name"], "")
        start = end + 2
        entry = _ENTRY.match(text, start)
        if entry:
            start = entry.end()
        head = f"{text[at : match.end()]}{', '.join(changed)}) {attribute}{tail}"
        parts += [head, text[end:start], *lines]
        at = start
    parts.append(text[at:])
    if declared:
        parts += ["\n", *declared]
    changed_text, count = _VALUES.subn("", "".join(parts))
    if count:
        changed_text += _VALUES_DEFINITION
    return _with_inlined_bodies(changed_text)


def _with_inlined_bodies(text: str) -> str:
    """Return a module without the attribute that forbids LLVM to inline the body of a kernel into
    the kernel. clang sets it.
    """
    groups = set(_BODY.findall(text))

    def without(group: re.Match[str]) -> str:
        if group[1] in groups:
            return group[0].replace(" noinline", "")
        return group[0]

    return _GROUP.sub(without, text)


# Where to change: the name of the memory of a local argument
#   here: `_memory_name`
#   also: `local_argument` of `extras/simulators/src/devmod_simulators/ptx/reports.py`
#   tests: `tests/test_sanitized_languages.py`
def _memory_name(kernel: str, argument: str, number: int) -> str:
    """Return the name of the memory of a local argument: that of a variable of the kernel, as clang
    has it in PTX, and the argument's number.
    """
    # PTX has letters of ASCII alone.
    shown = f"argument{number + 1}"
    match = _PLAIN.search(argument)
    if match:
        shown = match[1]
    return f"{kernel}_$_{shown}_$_local{number}"


def _argument(argument: str, memory: str) -> tuple[str, str]:
    """Return an argument of the changed kernel, and the statements that make the original one of
    it. `memory` is the memory of a local one.
    """
    match = _VARIABLE.search(argument)
    if not match:
        return argument, ""
    own = match["name"].strip('"')

    def named(suffix: str) -> str:
        return f'%"{own}{suffix}"'

    if memory:
        place = f"getelementptr i8, ptr addrspace(3) @{memory}, i32 {named('.offset')}"
        return f"i32 {named('.offset')}", f"  {named('')} = {place}\n"
    member = _TYPE.match(argument)
    if member and own.endswith(_MEMBER):
        type_ = f"{{ {member[0]} }}"
        value = named(".structure")
        return f"{type_} {value}", f"  {named('')} = extractvalue {type_} {value}, 0\n"
    three = _THREE.match(argument)
    if not three:
        return argument, ""
    element = three[1]
    lines = []
    vector = "poison"
    for lane in range(3):
        number = named(f".lane{lane}")
        result = named(f".part{lane}")
        if lane == 2:
            result = named("")
        lines.append(f"  {number} = extractvalue [3 x {element}] {named('.lanes')}, {lane}\n")
        insert = f"insertelement <3 x {element}> {vector}, {element} {number}, i32 {lane}"
        lines.append(f"  {result} = {insert}\n")
        vector = result
    return f"[3 x {element}] {named('.lanes')}", "".join(lines)


def _closing(text: str) -> int:
    """Return the position of the parenthesis that ends the parameters."""
    depth = 1
    for at, mark in enumerate(text):
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
        if depth == 0:
            return at
    return len(text)
