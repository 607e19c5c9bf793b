"""Name the files of this repository by Google's magika, from one `.devmod` file: python run.py
[FILE …]

The model is not in this repository. `pip download` fetches its wheel the first time, and `devmod
onnx` makes the file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

import devmod

ROOT = Path(__file__).resolve().parents[3]
OUT = ROOT / "build" / "magika"
INSIDE = "magika/models/standard_v3_3/"
BLOCK = 4096


def provide() -> None:
    """Make magika.devmod beside the model's settings in build/magika. Without a network, the
    program ends with a reason.
    """
    if (OUT / "magika.devmod").exists():
        return
    OUT.mkdir(parents=True, exist_ok=True)
    fetch = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(OUT),
        "magika",
    ]
    done = subprocess.run(fetch, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"skipped: the wheel of magika cannot be fetched:\n{done.stderr}")
    with zipfile.ZipFile(max(OUT.glob("magika-*.whl"))) as wheel:
        for name in ("model.onnx", "config.min.json"):
            (OUT / name).write_bytes(wheel.read(INSIDE + name))
    targets = ["-t", "opencl", "-t", "webgpu", "-t", "cuda -arch=compute_80"]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "devmod",
            "onnx",
            "model.onnx",
            *targets,
            "--name",
            "magika",
            "-o",
            "magika.devmod",
        ],
        cwd=OUT,
        check=True,
    )


def features(path: Path, settings: dict[str, int]) -> np.ndarray:
    """Return the model's input for a file: the bytes of its first and its last block without white
    space, padded.
    """
    first, last, padding = settings["beg_size"], settings["end_size"], settings["padding_token"]
    data = path.read_bytes()
    result = np.full(first + last, padding, np.int32)
    begin = np.frombuffer(data[:BLOCK].lstrip()[:first], np.uint8)
    end = np.frombuffer(data[-BLOCK:].rstrip()[-last:], np.uint8)
    result[: len(begin)] = begin
    result[first + last - len(end) :] = end
    return result


def main() -> None:
    """Print the name of each file's content, and how sure the model is."""
    provide()
    settings = json.loads((OUT / "config.min.json").read_text())
    magika = devmod.load(OUT / "magika.devmod")["magika"]
    chosen = (
        "README.md",
        "Makefile",
        "pyproject.toml",
        "core/src/devmod/errors.py",
        "extras/browser/js/src/index.js",
        "examples/images/demo.png",
    )
    paths = [Path(name) for name in sys.argv[1:]] or [ROOT / name for name in chosen]
    for path in paths:
        (scores,) = magika(features(path, settings)[None])
        best = int(scores.argmax())
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        print(f"{scores[best]:6.1%}  {settings['target_labels_space'][best]:12}  {shown}")


if __name__ == "__main__":
    main()
