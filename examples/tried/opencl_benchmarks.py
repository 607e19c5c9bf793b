"""Compile the OpenCL C of benchmarks, such as Rodinia, SHOC and Parboil, for OpenCL, CUDA and ROCm.

    pip install "devmod[opencl,pocl,build-cuda-opencl,build-rocm-opencl]"
    git clone https://github.com/vetter/shoc
    git clone https://github.com/abduld/Parboil
    git clone https://github.com/yuhc/gpu-rodinia
    python opencl_benchmarks.py shoc Parboil gpu-rodinia

A file is counted if it is complete: PoCL builds it with MACROS, which are those of the programs.
The line of each file has its SHA-256.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from pathlib import Path

import devmod

TARGETS = ("opencl", "cuda -arch=compute_80", "rocm -arch=gfx1100")
#: What the programs define. Those of SHOC do it for float.
MACROS = {
    "shoc": {
        "SINGLE_PRECISION": "",
        "SCALAR": "float",
        "FPTYPE": "float",
        "FPVECTYPE": "float4",
        "POSVECTYPE": "float4",
        "FORCEVECTYPE": "float4",
        "SCALAR_TYPE": "float",
        "VECTOR_TYPE": "float4",
        "BLOCK_SIZE": "16",
        "LROWS": "8",
        "LCOLS": "256",
        "N_GP": "64",
        "MAX_IMG_WIDTH": "8192",
    },
    "gpu-rodinia": {"BLOCK_SIZE": "16", "DEFAULT_ORDER": "256", "DEFAULT_ORDER_2": "256"},
}


def compile_file(file: Path, target: str, options: str) -> devmod.Module:
    """Compile a file. Rodinia's include files of the folder above theirs, and one of them has a
    variable with the name of the others' macro.
    """
    if "int BLOCK_SIZE" in file.read_text():
        options = options.replace("-DBLOCK_SIZE=16", "")
    return devmod.compile(
        file, target, language="OpenCL C", options=options, include=[file.parent.parent]
    )


def options_of(folder: Path) -> str:
    """Return the options of the compiler for the files of a folder."""
    macros = MACROS.get(folder.name.lower(), {})
    return " ".join(f"-D{name}={value}" if value else f"-D{name}" for name, value in macros.items())


def outcome(file: Path, target: str, options: str) -> str:
    """Compile a file, build it if a device is there for it, and return "ok" or the error."""
    try:
        module = compile_file(file, target, options)
        if target == "opencl":
            for name in module.functions:
                module[name]
    except devmod.DevmodError as error:
        return str(error).replace("\n", " ")[:300]
    return "ok"


def main() -> None:
    warnings.simplefilter("ignore")
    for folder in map(Path, sys.argv[1:]):
        counts = dict.fromkeys(TARGETS, 0)
        for file in sorted(folder.rglob("*.cl")):
            digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
            outcomes = [outcome(file, each, options_of(folder)) for each in TARGETS]
            print(digest, file.relative_to(folder), *outcomes, sep="  ", flush=True)
            if outcomes[0] == "ok":
                for target, text in zip(TARGETS, outcomes, strict=True):
                    counts[target] += text == "ok"
        print(folder.name, counts)


if __name__ == "__main__":
    main()
