"""The demo's other side: load the one file where the OpenCL wheel is, run everything, compare with NumPy, draw.

    python run.py <folder of the repository> <folder with kernels.devmod>

Exits with 1 when an error is over its tolerance or the bytes of the two environments differ.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from cases import CASES, Result, Runner
from PIL import Image
from rich import box
from rich.console import Console
from rich.table import Table

import devmod


def same_bytes(module: devmod.Module, digests: dict[str, str]) -> dict[str, tuple[str, bool]]:
    """For each module: its digest here, and whether the build box saved the same bytes.

    The bytes are those of the real module, which this environment makes from the payload; the build box saved a fallback's.
    """
    found = {}
    for stored in module.imports:
        real = devmod.create(stored.kind, stored.code, stored.format, stored.functions)
        assert type(real).__module__.startswith("devmod_opencl"), f"{real!r} is not devmod-opencl's"
        name = next(iter(stored.functions))
        digest = hashlib.sha256(real.save_to_bytes()).hexdigest()
        found[name] = (digest, digest == digests.get(name) == hashlib.sha256(stored.save_to_bytes()).hexdigest())
    return found


def main(repository: Path, out: Path) -> int:
    """Run all, print the tables; gives the exit code."""
    console = Console(width=max(Console().width, 96))
    module = devmod.load(out / "kernels.devmod")
    device = devmod.device("opencl")
    bad = []

    table = Table("kernel", "kind", "device", box=box.ROUNDED, title="run on the device, compared with NumPy", title_justify="left")
    for title in ("time", "largest error", "allowed"):
        table.add_column(title, justify="right")
    results: dict[str, Result] = {}
    for name, (case, _) in CASES.items():
        results[name] = found = case(Runner(module, device), repository)
        good = found.error <= found.tolerance  # a NaN is no good either
        if not good:
            bad.append(f"{name}: the largest error is {found.error:.3g}, allowed are {found.tolerance:g}")
        shown = f"[green]{found.error:.2e}[/]" if good else f"[red]{found.error:.2e}[/]"
        table.add_row(name, "opencl", device.name, f"{found.seconds * 1e3:.3f} ms", shown, f"{found.tolerance:g}")
    console.print(table)

    table = Table("module", "SHA-256 of its bytes", "fallback = real", box=box.ROUNDED, title_justify="left")
    table.title = "the bytes of both environments"
    compared = same_bytes(module, json.loads((out / "digests.json").read_text()))
    for name, (digest, same) in compared.items():
        table.add_row(name, digest[:48] + "…", "[green]same[/]" if same else "[red]DIFFERENT[/]")
        if not same:
            bad.append(f"the module with {name}: the build box saved other bytes")
    console.print(table)
    if len(compared) != len(json.loads((out / "digests.json").read_text())):
        bad.append("the file holds another number of modules than the build box saved")

    for found in results.values():
        for name, picture in found.pictures.items():
            Image.fromarray(picture).save(out / name)
            console.print(f"picture: {out / name}", soft_wrap=True)
    for line in bad:
        console.print(f"[red]FAILED[/] {line}", soft_wrap=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
