"""Compile kernels.cl and values.cl with pyclspv, and assemble modes.spvasm.

Run ``python make.py`` on x86-64 Linux, where devmod, pyclspv 0.0.1 and spirv-tools are
installed.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    from devmod_targets.vulkan._clspv_process import load

    compile_source = load({})
    for name in ("kernels", "values"):
        source = (HERE / f"{name}.cl").read_bytes()
        _, code, _ = compile_source({"options": "-cl-kernel-arg-info"}, source)
        (HERE / f"{name}.spv").write_bytes(code)
    text = str(HERE / "modes.spvasm")
    subprocess.run(
        ["spirv-as", "--target-env", "spv1.0", text, "-o", str(HERE / "modes.spv")], check=True
    )


if __name__ == "__main__":
    main()
