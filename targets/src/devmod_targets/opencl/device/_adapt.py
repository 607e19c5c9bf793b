"""Change the kernels of a program in LLVM IR text to the arguments that devmod's runtimes pass.

- A pointer to local memory becomes an offset of 32 bits into the shared memory of the launch. clang has no declaration of such memory in
  OpenCL C, so it is declared here.
- A vector of three numbers by value has three elements in the arguments, as on the other kinds, and not four.
- Functions other than kernels are internal. A function that is `inline` in C99 has no definition elsewhere, so it has one here.
"""

from __future__ import annotations

import re

from devmod_targets._text import split_arguments

#: The shared memory of a launch.
_MEMORY = "devmod_local_memory"
_DEFINE = re.compile(r"^define (?P<words>[^@\n]*)@(?P<name>[\w.$]+)\(", re.MULTILINE)
_LINKAGES = re.compile(
    r"\b(?:private|internal|available_externally|linkonce(?:_odr)?|weak(?:_odr)?|external|dso_local|protected|hidden|default)\s+"
)
_THREE = re.compile(r"<3 x (\w+)>")
_VARIABLE = re.compile(r"%[\w.$-]+$")
_ENTRY = re.compile(r"[\w.$-]+:[^\n]*\n")
_SIZE = re.compile(r"!reqd_work_group_size !(\d+)")


def adapt(text: str, convention: str) -> str:
    """Return the program with changed kernels. `convention` is the calling convention of a kernel, such as "ptx_kernel"."""
    parts: list[str] = []
    at = 0
    uses_memory = False
    for match in _DEFINE.finditer(text):
        words = match["words"]
        if convention not in words.split():
            parts += [text[at : match.start()], f"define internal {_LINKAGES.sub('', words)}@{match['name']}("]
            at = match.end()
            continue
        arguments = split_arguments(text, match.end()) or []
        end = text.index("{\n", match.end())
        changed, lines = [], []
        for argument in arguments:
            new, added = _argument(argument)
            uses_memory |= _MEMORY in added
            changed.append(new)
            lines += [added] if added else []
        rest = text[match.end() : end]
        tail = rest[_closing(rest) :]
        size = _SIZE.search(tail)
        entry = _ENTRY.match(text, end + 2)
        start = entry.end() if entry else end + 2
        parts += [text[at : match.end()], ", ".join(changed), _with_size(tail, text, size, convention), text[end:start], *lines]
        at = start
    parts.append(text[at:])
    if uses_memory:
        parts.append(f"\n@{_MEMORY} = external addrspace(3) global [0 x i8], align 16\n")
    return _inlined("".join(parts))


def _inlined(text: str) -> str:
    """Return a module without the attribute that forbids to inline a kernel's body into the kernel. clang sets it for NVPTX."""
    groups = set(re.findall(r"^define [^\n]*@__clang_ocl_kern_imp_[^\n]*\) #(\d+)", text, re.MULTILINE))
    return re.sub(
        r"^attributes #(\d+) = [^\n]*",
        lambda line: line[0].replace(" noinline", "") if line[1] in groups else line[0],
        text,
        flags=re.MULTILINE,
    )


def _argument(argument: str) -> tuple[str, str]:
    """Return an argument of the changed kernel, and the statements that make the original one of it."""
    name = _VARIABLE.search(argument)
    three = _THREE.match(argument)
    if not name:
        return argument, ""
    if argument.startswith("ptr addrspace(3)"):
        return f"i32 {name[0]}.offset", f"  {name[0]} = getelementptr i8, ptr addrspace(3) @{_MEMORY}, i32 {name[0]}.offset\n"
    if three:
        lines = []
        value = "poison"
        for lane in range(3):
            lines.append(f"  {name[0]}.lane{lane} = extractvalue [3 x {three[1]}] {name[0]}.lanes, {lane}\n")
            result = name[0] if lane == 2 else f"{name[0]}.part{lane}"
            lines.append(f"  {result} = insertelement <3 x {three[1]}> {value}, {three[1]} {name[0]}.lane{lane}, i32 {lane}\n")
            value = result
        return f"[3 x {three[1]}] {name[0]}.lanes", "".join(lines)
    return argument, ""


def _closing(text: str) -> int:
    """Return the position of the parenthesis that ends the parameters."""
    depth = 1
    for at, mark in enumerate(text):
        depth += (mark == "(") - (mark == ")")
        if not depth:
            return at
    return len(text)


def _with_size(tail: str, text: str, size: re.Match[str] | None, convention: str) -> str:
    """Return the end of a kernel's head, with the fixed block of threads as an attribute for NVPTX, which does not read the metadata."""
    if size is None or convention != "ptx_kernel":
        return tail
    node = re.search(rf"^!{size[1]} = !\{{i32 (\d+), i32 (\d+), i32 (\d+)\}}", text, re.MULTILINE)
    return tail.replace(")", f') "nvvm.reqntid"="{node[1]},{node[2]},{node[3]}"', 1) if node else tail
