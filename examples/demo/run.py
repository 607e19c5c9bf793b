"""The demo's second machine: load the files where the runtimes are installed, run everything on
each, compare with NumPy, draw.

    python run.py <folder of the repository> <folder with the files of build.py>

Each kernel is one call, the same line of Python on every kind of device. The exit status is 1 if an
error exceeds its tolerance, if a call differs between two kinds, or if the bytes of the two
environments differ. A kind without a device here (Metal on Linux, Vulkan without a driver) is
listed as compiled, with the reason. Emulators (qemu for Hexagon, the simulated GPU for CUDA, one of
AMD's RDNA3) run smaller sizes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from cases import DSP_CASES, ONE_SOURCE_CASES, SMALL_ONE_SOURCE_CASES, Timed
from PIL import Image
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

import devmod


def main(repository: Path, out: Path) -> int:
    """Run everything, print the tables and return the exit status."""
    console = Console(width=max(Console().width, 110))
    failures: list[str] = []
    digests = json.loads((out / "digests.json").read_text())

    pictures: dict[str, np.ndarray] = {}
    not_run: dict[str, str] = {}
    calls: dict[str, dict[str, dict[str, None]]] = {name: {} for name in ONE_SOURCE_CASES}
    # A file has each function once for each kind. The device chooses.
    for name, build_digests in digests.items():
        failures += run_file(
            console, out / name, build_digests, repository, calls, pictures, not_run
        )
    failures += [
        f"the call of {name} is not the same on every kind"
        for name, texts in calls.items()
        if len(texts) > 1
    ]
    console.print(table_of_calls(calls))
    if (out / "pictures.devmod").exists():
        failures += run_program(console, out / "pictures.devmod", repository)
    if (out / "dsp.devmod").exists():
        failures += run_dsp(console, out / "dsp.devmod")
    for kind, reason in not_run.items():
        console.print(f"not run, {kind}: {reason}", soft_wrap=True, markup=False)

    table = Table(
        "file",
        "kind",
        "modules",
        "SHA-256 of their bytes",
        "fallback = real",
        box=box.ROUNDED,
        title_justify="left",
    )
    table.title = "the bytes of both environments"
    for name, build_digests in digests.items():
        for kind, kind_digests in build_digests.items():
            failures += compare_bytes(table, out / name, kind, kind_digests)
    console.print(table)

    for name, picture in pictures.items():
        Image.fromarray(picture).save(out / name)
        console.print(f"picture: {out / name}", soft_wrap=True)
    if pictures:
        overview(pictures, next(iter(pictures)).partition("-")[0]).save(
            out / "demo.png", optimize=True
        )
        console.print(f"picture: {out / 'demo.png'} (the one of the README)", soft_wrap=True)
    for line in failures:
        console.print(f"[red]FAILED[/] {line}", soft_wrap=True)
    return bool(failures)


def run_file(
    console: Console,
    path: Path,
    kinds: Iterable[str],
    repository: Path,
    calls: dict[str, dict[str, dict[str, None]]],
    pictures: dict[str, np.ndarray],
    not_run: dict[str, str],
) -> list[str]:
    """Run a file on the devices of its kinds, print its table, and return the failures. Add to
    `calls`, `pictures` and `not_run`.
    """
    failures: list[str] = []
    table = Table("kernel", "kind", "device", box=box.ROUNDED, title_justify="left")
    table.title = f"{path.name}: run on the device, compared with NumPy"
    for title in ("time", "largest error", "allowed"):
        table.add_column(title, justify="right")
    module = devmod.load(path)
    launches = 4 if path.stem == "kernels" else 1
    for kind, device in [(each, device) for each in kinds for device in devices_of(each, not_run)]:
        if device is None:
            table.add_row(
                "all", kind, "[yellow]compiled; no device here[/]", "–", "–", "–", end_section=True
            )
            continue
        names = {
            name for stored in module.imports if stored.kind == kind for name in stored.functions
        }
        # ROCm's stand-in runtime and qemu execute the machine code of another processor, one
        # instruction after another, and the simulated GPU executes PTX.
        is_emulator = kind == "hexagon" or (kind == "rocm" and "no GPU" in device.name)
        is_emulated = is_emulator or device.is_simulated
        all_cases = {
            name: case
            for name, (case, functions) in ONE_SOURCE_CASES.items()
            if names.issuperset(functions)
        }
        cases = all_cases
        if is_emulated:
            cases = {
                name: SMALL_ONE_SOURCE_CASES.get(name, case) for name, case in all_cases.items()
            }
        for name, case in cases.items():
            timed = Timed(module, device, 0 if is_emulated else launches)
            try:
                result = case(timed, device, repository)
            except devmod.ToolchainNotFoundError as error:  # of TVM's matmul, a source in CUDA C++
                not_run[f"{name} on {kind}"] = str(error)
                continue
            text = "\n".join(dict.fromkeys(timed.calls))
            # On an emulator the sizes differ, and the rest of the call does not.
            same = next(
                (
                    each
                    for each in calls[name]
                    if is_emulated and without_numbers(each) == without_numbers(text)
                ),
                text,
            )
            calls[name].setdefault(same, {})[f"{kind} (smaller)" if is_emulated else kind] = None
            is_within = result.error <= result.tolerance  # False for NaN
            if not is_within:
                failures.append(
                    f"{name} on {kind}: the largest error is {result.error:.3g}, allowed are {result.tolerance:g}"
                )
            error_text = (
                f"[green]{result.error:.2e}[/]" if is_within else f"[red]{result.error:.2e}[/]"
            )
            is_last = name == list(cases)[-1]
            duration = "–" if is_emulated else f"{timed.seconds * 1e3:.3f} ms"
            label = "RDNA3 emulator" if is_emulated and kind == "rocm" else device.name
            table.add_row(
                name,
                kind,
                label,
                duration,
                error_text,
                f"{result.tolerance:g}",
                end_section=is_last,
            )
            prefix = kind if path.stem == "kernels" else f"{path.stem}-{kind}"
            pictures |= {
                f"{prefix}-{file}": picture
                for file, picture in result.pictures.items()
                if not is_emulated
            }
    console.print(table)
    return failures


def compare_bytes(table: Table, path: Path, kind: str, build_digests: dict[str, str]) -> list[str]:
    """Compare the bytes of a kind's modules with those of the build machine, add a row to the
    table, and return the differences.
    """
    run_digests = same_bytes(path, kind)
    differences = [
        f"the {kind} module with {name} is in one environment alone"
        for name in run_digests.keys() ^ build_digests.keys()
    ]
    for name in run_digests.keys() & build_digests.keys():
        if set(run_digests[name]) != {build_digests[name]}:
            differences.append(
                f"the {kind} module with {name}: the build machine saved other bytes"
            )
    digest = hashlib.sha256(
        "".join(stored for stored, _ in run_digests.values()).encode()
    ).hexdigest()
    same = "[red]DIFFERENT[/]" if differences else "[green]same[/]"
    table.add_row(path.stem, kind, str(len(run_digests)), digest[:48] + "…", same)
    return differences


def devices_of(kind: str, not_run: dict[str, str]) -> list[devmod.Device | None]:
    """Return the devices of a kind. If there is none, return [None] and add the reason to
    `not_run`.
    """
    try:
        devmod.device(kind)
    except devmod.DeviceNotFoundError as error:
        not_run[kind] = str(error)
        return [None]
    return [each for each in devmod.devices() if each.kind == kind]


def without_numbers(text: str) -> str:
    """Return a call without its numbers."""
    return re.sub(r"-?\d[\d.]*(?:e-?\d+)?", "0", text)


def run_dsp(console: Console, path: Path) -> list[str]:
    """Run the file for Hexagon, print its table, and return the failures."""
    module = devmod.load(path)
    table = Table(
        "kernel", Column("call", overflow="fold"), "device", box=box.ROUNDED, title_justify="left"
    )
    table.title = "a file for DSPs: a call has no grid"
    for title in ("time", "largest error", "allowed"):
        table.add_column(title, justify="right")
    failures = []
    try:
        device = devmod.device("hexagon")
    except devmod.DeviceNotFoundError as error:
        table.add_row("all", "–", "[yellow]compiled; no device here[/]", "–", "–", "–")
        console.print(table)
        console.print(f"not run, hexagon: {error}", soft_wrap=True, markup=False)
        return []
    for name, case in DSP_CASES.items():
        timed = Timed(module, device)
        result = case(timed, device)
        is_within = result.error <= result.tolerance
        error_text = f"[green]{result.error:.2e}[/]" if is_within else f"[red]{result.error:.2e}[/]"
        table.add_row(
            name,
            escape(timed.calls[0]),
            device.name,
            f"{timed.seconds * 1e3:.3f} ms",
            error_text,
            f"{result.tolerance:g}",
        )
        if not is_within:
            failures.append(
                f"{name} on hexagon: the largest error is {result.error:.3g}, allowed are {result.tolerance:g}"
            )
    console.print(table)
    digests = same_bytes(path, "hexagon")
    return failures + [
        f"the hexagon module with {name}: other bytes"
        for name, (stored, real) in digests.items()
        if stored != real
    ]


def run_program(console: Console, path: Path, repository: Path) -> list[str]:
    """Run the program of a file on each of its devices, print its table, draw a picture of each
    kind, and return the failures.
    """
    sys.path.insert(0, str(repository / "examples" / "applications" / "pictures"))
    from pictures import TOLERANCES, check, make_picture

    module, picture = (
        devmod.load(path),
        np.asarray(Image.open(repository / "examples" / "images" / "lake.png").convert("RGBA")),
    )
    table = Table("program", "kind", "device", box=box.ROUNDED, title_justify="left")
    table.title = f"{path.name}: one call launches {', '.join(module.functions['enhance'].interface.extra['kernels'])}"
    table.add_column("time", justify="right")
    table.add_column("largest errors", overflow="fold")
    failures = []
    for device in module["enhance"].devices():
        program = module["enhance"].on(device)
        errors = check(module, device, make_picture(), 203, 97)
        wrong = [name for name, error in errors.items() if not error <= TOLERANCES[name]]
        failures += [
            f"{name} of the program on {device.kind}: the largest error is {errors[name]:.3g}"
            for name in wrong
        ]
        height, width = picture.shape[0] // 2, picture.shape[1] // 2
        begin = time.perf_counter()
        result = program(picture, width, height)
        seconds = time.perf_counter() - begin
        Image.fromarray(result).save(path.with_name(f"{device.kind}-enhanced.png"))
        texts = [
            f"[{'red' if name in wrong else 'green'}]{name} {error:.2g}[/]"
            for name, error in errors.items()
        ]
        table.add_row(
            "enhance", device.kind, device.name, f"{seconds * 1e3:.0f} ms", ", ".join(texts)
        )
        console.print(f"picture: {path.with_name(f'{device.kind}-enhanced.png')}", soft_wrap=True)
    console.print(table)
    return failures


def table_of_calls(calls: dict[str, dict[str, dict[str, None]]]) -> Table:
    """Return a table of the calls of each kernel, with the kinds that ran them."""
    table = Table(
        "kernel",
        "call",
        "ran on",
        box=box.ROUNDED,
        title="the same line of Python on every kind",
        title_justify="left",
    )
    for name, texts in calls.items():
        for text, kinds in texts.items():
            table.add_row(name, escape(text), ", ".join(kinds))
    return table


def overview(pictures: dict[str, np.ndarray], kind: str) -> Image.Image:
    """Return the pictures of one kind side by side, small and with few colours."""
    height, gap = 200, 8
    parts = [
        Image.fromarray(picture)
        for name, picture in pictures.items()
        if name.startswith(f"{kind}-")
    ]
    parts = [
        part.resize((part.width * height // part.height, height), Image.Resampling.LANCZOS)
        for part in parts
    ]
    whole = Image.new("RGB", (sum(part.width + gap for part in parts) - gap, height), "white")
    left = 0
    for part in reversed(parts):
        whole.paste(part, (left, 0))
        left += part.width + gap
    return whole.quantize(96)


def same_bytes(path: Path, kind: str) -> dict[str, tuple[str, str]]:
    """Return, by the first function of each module of a kind, the digests of the stored and of the
    real module's bytes.

    The real module is made from the payload alone. The build machine saved the bytes of a fallback.
    """
    digests = {}
    for stored in devmod.load(path).imports:
        if stored.kind != kind:
            continue
        real = devmod.create(stored.kind, stored.code, stored.format, stored.functions)
        assert type(real).__module__.startswith(f"devmod_{kind}"), (
            f"{real!r} is not devmod-{kind}'s"
        )
        name = next(iter(stored.functions))
        digests[name] = (
            hashlib.sha256(stored.save_to_bytes()).hexdigest(),
            hashlib.sha256(real.save_to_bytes()).hexdigest(),
        )
    return digests


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
