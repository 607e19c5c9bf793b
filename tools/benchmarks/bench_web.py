"""A model on a web page: the npm package beside ONNX Runtime Web, by WebGPU and by WebAssembly, in
the same Chromium.

    python tools/benchmarks/bench_web.py [--install] [--rounds 15]

The model is magika's, from its wheel, which reads the kind of a file from 2,048 bytes of it. The
page fetches all from a server on this machine. The first call is from an empty page to the first
result, with what is fetched and compiled; later calls are medians, from a typed array to a typed
array. WebAssembly runs with SIMD on one thread, as on a page without cross-origin isolation.
Chromium has no GPU here: its WebGPU is SwiftShader, on the processor. A table without bounds, since
the kernels are not devmod's. ``--install`` fetches the peer and the model into build/ by npm and
pip; without them, it measures nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from timing import record

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

driver: Any = import_module("browser_driver")
ORT = ROOT / "build" / "onnxruntime-web" / "node_modules" / "onnxruntime-web" / "dist"
WHEELS = ROOT / "build" / "onnx-models"
#: What each page runs: `make` returns a function from the input to the numbers.
DEVMOD = """
const { open } = await import("/devmod-webgpu/index.js");
const f = await (await open("/magika.devmod")).getFunction("magika");
const call = async (x) => (await f(x)).target_label;
"""
ONNX = """
const ort = await import("/ort.PROVIDER.min.mjs"); // its build for this alone
ort.env.wasm.wasmPaths = "/";
const session = await ort.InferenceSession.create("/model.onnx", { executionProviders: ["PROVIDER"] });
const call = async (x) => (await session.run({ bytes: new ort.Tensor("int32", x, [1, 2048]) })).target_label.data;
"""
TIMED = """
const x = Int32Array.from({ length: 2048 }, (_, at) => (at * 37) % 256);
const began = performance.now();
SETUP
let found = await call(x);
const first = performance.now() - began;
const times = [];
for (let number = 0; number < argument; number++) {
  const start = performance.now();
  found = await call(x);
  times.push(performance.now() - start);
}
return [first, times.sort((one, other) => one - other)[times.length >> 1], Array.from(found)];
"""


def fetch() -> None:
    """Fetch the packages."""
    if not ORT.exists():
        ORT.parents[2].mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "onnxruntime-web"],
            cwd=ORT.parents[2],
            check=True,
        )
    if not (WHEELS / "magika").exists():
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--only-binary=:all:",
            "--target",
            str(WHEELS),
            "magika",
        ]
        subprocess.run(command, check=True)


def main(rounds: int) -> None:
    """Print the figures."""
    if not ORT.exists() or not (WHEELS / "magika").exists():
        print("ONNX Runtime Web and magika are not here: --install fetches them")
        return
    model = WHEELS / "magika" / "models" / "standard_v3_3" / "model.onnx"
    pages = {
        "devmod": DEVMOD,
        **{
            f"ONNX Runtime Web, {each}": ONNX.replace("PROVIDER", each)
            for each in ("webgpu", "wasm")
        },
    }
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, driver.file_server() as server:
        target = Path(folder) / "magika.devmod"
        command = [
            sys.executable,
            "-m",
            "devmod",
            "onnx",
            str(model),
            "-t",
            "webgpu",
            "-q",
            "-o",
            str(target),
            "--name",
            "magika",
            "--dim",
            "bytes=1,2048",
        ]
        subprocess.run(command, check=True)
        server.files |= {
            path.name: path.read_bytes()
            for path in (*ORT.glob("*.wasm"), *ORT.glob("*.mjs"), model, target)
        }
        for name, setup in pages.items():
            browser = driver.Browser(*driver.WEBGPU)  # a new one has nothing cached
            try:
                browser.open(server.url)
                server.sent = 0
                server.asked.clear()
                first, later, results[name] = browser.evaluate(
                    TIMED.replace("SETUP", setup), rounds
                )
            finally:
                browser.close()
            package = sum(
                (driver.JS / "src" / Path(each).name).stat().st_size
                for each in server.asked
                if each.startswith("devmod-webgpu/")
            )
            fetched = (server.sent + package) / 1e6
            record("What a page fetches for magika", name, fetched, "MB")
            record("A call of magika on a page", name, first, "ms", column="the first")
            record("A call of magika on a page", name, later, "ms", column="later")
            print(
                f"{name:<26} {fetched:5.1f} MB fetched, the first call {first:6.0f} ms, later calls {later:6.1f} ms"
            )
    for name, found in results.items():
        np.testing.assert_allclose(found, results["devmod"], atol=1e-4, err_msg=name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--install", action="store_true")
    options = parser.parse_args()
    if options.install:
        fetch()
    main(options.rounds)
