"""The instructions of PTX that the simulated GPU has, by family: the end of
docs/cuda-without-a-gpu.md.

python tools/ptx_instructions.py    print the section
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "extras/simulators/src/devmod_simulators/ptx/instructions.txt"
HEAD = """\
Of the parts between strokes an opcode has one, and a part with a question mark may be missing.
An asterisk stands for any other parts.
LLVM compiles an instruction unless its row has the reason why NumPy interprets its kernel.
Any other opcode is `CUDA_ERROR_NOT_SUPPORTED`.
"""


def section() -> str:
    """Return the section."""
    lines = [HEAD, "| name | parts |", "|---|---|"]
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("["):
            title = line.strip("[]")
            lines += ["", f"### {title}", ""]
            lines += ["| instructions | parts | operands | interpreted |", "|---|---|---|---|"]
        elif "|" in line:
            cells = [cell.strip() for cell in line.split("|")]
            cells += [""] * (4 - len(cells))
            code = [f"`{cell}`" if cell else "" for cell in cells[:3]]
            lines.append(f"| {' | '.join([*code, cells[3]])} |")
        elif line:
            name, _, parts = line.partition(" = ")
            lines.append(f"| `{name}` | `{parts}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(section(), end="")
