"""The same inputs give the same file: in other folders, with other numbers of workers, another
home, another clock, in another order.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import devmod

SOURCES = {
    "k.cl": '#include "scale.h"\nkernel void k(global float *x) { x[get_global_id(0)] *= SCALE; }\n',
    "k.metal": "#include <metal_stdlib>\nkernel void k(device float *x [[buffer(0)]], metal::uint i [[thread_position_in_grid]]) { x[i] *= 2; }\n",
    "k.comp": '#version 450\n#extension GL_GOOGLE_include_directive : require\n#include "scale.h"\nlayout(local_size_x = 64) in;\n'
    "layout(set = 0, binding = 0) buffer X { float x[]; };\nvoid main() { x[gl_GlobalInvocationID.x] *= SCALE; }\n",
    "k.wgsl": '#include "scale.h"\n@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n'
    "@compute @workgroup_size(64) fn k(@builtin(global_invocation_id) id: vec3u) { x[id.x] *= SCALE; }\n",
    "k.cu": '#include "scale.h"\nextern "C" __global__ void k(float *x) { x[threadIdx.x] *= SCALE; }\n',
    "k.hip": '#include <hip/hip_runtime.h>\n#include "scale.h"\nextern "C" __global__ void k(float *x) { x[threadIdx.x] *= SCALE; }\n',
    "k.c": '#include "scale.h"\nvoid k(float *x, int n) { for (int i = 0; i < n; i++) x[i] *= SCALE; }\n',
}
#: Shifts the clock of Python.
CLOCK = "import time\n_now = time.time\ntime.time = lambda: _now() - 1e9\n_ns = time.time_ns\ntime.time_ns = lambda: _ns() - 10**18\n"


def targets() -> list[str]:
    """Return the targets that compile on this machine."""
    result = ["opencl", "metal", "webgpu"]
    if shutil.which("glslangValidator"):
        result.append("vulkan")
    if find_spec("cuda") and find_spec("nvidia"):
        result.append("cuda -arch=sm_80,compute_90")
    if find_spec("ziglang"):
        result += ["rocm -arch=gfx1100", "hexagon -arch=v68"]
    return result


@pytest.mark.row("R38")
def test_the_file_depends_on_its_inputs_alone(tmp_path: Path) -> None:
    outputs = []
    for number, (name, workers, seed) in enumerate(
        (("one", "1", "1"), ("another place", "3", "2"))
    ):
        folder = tmp_path / name
        (folder / "inc").mkdir(parents=True)
        for source, text in SOURCES.items():
            (folder / source).write_text(text)
            os.utime(folder / source, (number * 10**9, number * 10**9))
        (folder / "inc" / "scale.h").write_text("#define SCALE 2.0f\n")
        listed = ", ".join(f'"{each}"' for each in targets())
        sources = ", ".join(f'"{each}"' for each in SOURCES)
        (folder / "devmod.toml").write_text(
            f'output = "k.devmod"\ntargets = [{listed}]\nmixed = true\n[kernels.k]\nsources = [{sources}]\ninclude = ["inc"]\n'
        )
        home = tmp_path / f"home {number}"
        home.mkdir()
        if number:
            (home / "sitecustomize.py").write_text(CLOCK)
        environment = {
            variable: text
            for variable, text in os.environ.items()
            if not variable.startswith(("DEVMOD", "XDG", "LC_"))
        }
        environment |= {
            "HOME": str(home),
            "TMPDIR": str(home),
            "TZ": f"UTC+{number * 9}",
            "PYTHONHASHSEED": seed,
            "LANG": ("C", "C.UTF-8")[number],
        }
        environment |= {
            "PYTHONPATH": str(home),
            "DEVMOD_CACHE_DIR": str(home / "cache"),
            "USER": f"user{number}",
        }
        command = [sys.executable, "-m", "devmod", "build", str(folder), "-j", workers]
        done = subprocess.run(
            command, env=environment, cwd=home, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr + done.stdout
        outputs.append((folder / "k.devmod").read_bytes())
    assert outputs[0] == outputs[1]
    kinds = {module.kind for module in devmod.loads(outputs[0]).imports}
    assert kinds == {target.partition(" ")[0] for target in targets()}
    assert str(tmp_path).encode() not in outputs[0]


def test_the_order_in_which_jobs_end_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from build_project import write_kernels

    from devmod_targets.build import pool

    manifest = write_kernels(tmp_path / "p", 5)
    devmod.build(manifest, cache=False, output=tmp_path / "forward.devmod")
    run = pool.Pool.run
    monkeypatch.setattr(pool.Pool, "run", lambda self, jobs: reversed(list(run(self, jobs))))
    devmod.build(manifest, cache=False, output=tmp_path / "backward.devmod")
    assert (tmp_path / "forward.devmod").read_bytes() == (tmp_path / "backward.devmod").read_bytes()
