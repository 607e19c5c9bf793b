"""Record kernels that Triton compiles as vectors of the tests: metadata, PTX, cubin and hsaco. It
needs triton, which needs no driver.

Run it with a Python that has triton: ``python tools/record_triton.py``. It replaces
compilers/targets/tests/vectors/triton.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "compilers/targets/tests/vectors/triton"
#: The fields of the metadata that `devmod.interop.triton` reads.
FIELDS = (
    "name",
    "num_warps",
    "num_ctas",
    "num_stages",
    "shared",
    "warp_size",
    "global_scratch_size",
    "global_scratch_align",
    "profile_scratch_size",
    "profile_scratch_align",
    "launch_cooperative_grid",
    "launch_pdl",
    "tensordesc_meta",
    "triton_version",
)


def main() -> None:
    """Compile the kernels and write the vectors."""
    with tempfile.TemporaryDirectory() as cache:
        # Line information has the folder of the source.
        os.environ |= {
            "TRITON_CACHE_DIR": cache,
            "TRITON_DISABLE_LINE_INFO": "1",
            "TRITON_DEFAULT_FP_FUSION": "1",
        }
        sys.path.insert(0, str(ROOT / "compilers/targets/tests/kernels/triton"))
        from kernels import VECTORS  # type: ignore[import-not-found]

        FOLDER.mkdir(parents=True, exist_ok=True)
        for name in VECTORS:
            _record(name, VECTORS[name], "cuda", 90)
        _record("add", VECTORS["add"], "hip", "gfx1100")


def _record(name: str, vector: Any, backend: str, arch: int | str) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function, signature, constants, options = vector
    source = ASTSource(function, signature=signature, constexprs=constants)
    kernel = triton.compile(source, target=GPUTarget(backend, arch, 32), options=options)
    target = {"backend": backend, "arch": arch, "warp_size": 32}
    metadata = {
        field: getattr(kernel.metadata, field)
        for field in FIELDS
        if hasattr(kernel.metadata, field)
    } | {"target": target}
    texts = {
        "signature": signature,
        "constants": [[list(path), value] for path, value in source.constants.items()],
        "text": function.src,
    }
    stem = f"{name}.{backend}"
    (FOLDER / f"{stem}.json").write_text(
        f"{json.dumps({'metadata': metadata, 'source': texts}, indent=1)}\n"
    )
    if backend == "cuda":
        (FOLDER / f"{stem}.ptx").write_text(kernel.asm["ptx"])
    binary = "cubin" if backend == "cuda" else "hsaco"
    (FOLDER / f"{stem}.{binary}").write_bytes(kernel.asm[binary])


if __name__ == "__main__":
    main()
