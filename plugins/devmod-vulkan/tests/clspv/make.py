"""Compile kernels.cl and values.cl with pyclspv, and assemble modes.spvasm.

Run ``python make.py`` with CPython 3.11 on x86-64, where pyclspv 0.0.1 and spirv-tools are
installed.

pyclspv writes the names of arguments and not their types, for which clspv has the option
-cl-kernel-arg-info. `with_types` adds the operands that clspv writes with it.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
#: The types of the arguments in the sources, in their order, and whether their memory is const.
KERNELS = {
    "dot_parts": [
        ("x", "float*", 1), ("y", "float*", 1), ("parts", "float*", 0), ("n", "int", 0), ("scratch", "float*", 0)
    ],
    "fixed_block": [("x", "int*", 0), ("step", "int", 0)],
    "launch": [("x", "uint*", 0)],
    "values": [
        ("x", "float*", 0), ("options", "Options", 0), ("c", "char", 0), ("l", "long", 0), ("u", "uchar4", 0), ("v", "float3", 0)
    ],
    "table": [("x", "float*", 0), ("table", "Table", 0), ("i", "int", 0)],
    "partly": [("x", "float*", 0)],
    "texels": [("image", "image2d_t", 0), ("x", "float*", 0)],
}  # fmt: skip


def with_types(text: str) -> str:
    """Return the assembly of clspv with the types of arguments."""
    ids = dict(re.findall(r'(%\w+) = OpString "(\w+)"', text))
    constants = {number: f"%uint_{number}" for number in (0, 1)}
    kernel = ""
    strings: dict[str, str] = {}
    lines = []
    for line in text.splitlines():
        found = re.search(r"OpExtInst %void %\w+ (Kernel %\w+|ArgumentInfo) (%\w+)", line)
        if found and found[1] == "ArgumentInfo":
            name = ids[found[2]]
            type_, const = next(each[1:] for each in KERNELS[kernel] if each[0] == name)
            strings.setdefault(type_, f"%type_{len(strings)}")
            line += f" {strings[type_]} {constants[0]} {constants[0]} {constants[const]}"
        elif found:
            kernel = ids[found[2]]
        lines.append(line)
    last = max(number for number, line in enumerate(lines) if "= OpString" in line)
    added = [f'{number} = OpString "{type_}"' for type_, number in strings.items()]
    return "\n".join([*lines[: last + 1], *added, *lines[last + 1 :], ""])


def run(*command: str, data: bytes | None = None) -> bytes:
    return subprocess.run(command, input=data, check=True, capture_output=True).stdout


def main() -> None:
    import pyclspv

    texts = {"modes": (HERE / "modes.spvasm").read_text()}
    for name in ("kernels", "values"):
        plain = pyclspv.compile((HERE / f"{name}.cl").read_text())
        texts[name] = with_types(run("spirv-dis", "--no-color", "-", data=plain).decode())
    for name, text in texts.items():
        out = str(HERE / f"{name}.spv")
        run("spirv-as", "--target-env", "spv1.0", "-", "-o", out, data=text.encode())
        run("spirv-val", "--target-env", "vulkan1.1", "--scalar-block-layout", out)


if __name__ == "__main__":
    main()
