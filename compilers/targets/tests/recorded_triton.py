"""The kernels of compilers/targets/tests/vectors/triton, as objects with the attributes of Triton's
compiled kernels.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FOLDER = Path(__file__).parent / "vectors/triton"


def recorded_kernel(
    name: str, backend: str = "cuda", *, metadata: dict[str, Any] | None = None, **source: Any
) -> Any:
    """Return a recorded kernel, with changed fields of its metadata and of its source."""
    stem = f"{name}.{backend}"
    fields = json.loads((FOLDER / f"{stem}.json").read_text())
    changed = fields["metadata"] | (metadata or {})
    target = SimpleNamespace(**changed.pop("target"))
    binary = "cubin" if backend == "cuda" else "hsaco"
    asm: dict[str, Any] = {binary: (FOLDER / f"{stem}.{binary}").read_bytes()}
    if backend == "cuda":
        asm["ptx"] = (FOLDER / f"{stem}.ptx").read_text()
    recorded = fields["source"]
    attributes = {
        "name": name,
        "signature": {
            key: tuple(kind) if isinstance(kind, list) else kind
            for key, kind in recorded["signature"].items()
        },
        "constants": {tuple(path): value for path, value in recorded["constants"]},
        "fn": SimpleNamespace(src=recorded["text"]),
    } | source
    return SimpleNamespace(
        asm=asm,
        metadata=SimpleNamespace(**changed, target=target),
        src=SimpleNamespace(**attributes),
    )
