"""The reader in C (readers/c): it accepts and refuses the same files as Python, finds the same candidates, and its example runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import devmod

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
from fuzzing import c_reader, seeds  # noqa: E402

pytestmark = [pytest.mark.row("R50"), pytest.mark.skipif(c_reader.compiler() is None, reason="no C compiler on PATH")]
FILES = sorted((ROOT / "tests/golden").glob("*/*.devmod"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_golden_files(path: Path) -> None:
    c_reader.compare_bundle(path.read_bytes())
    assert c_reader.ask(path.read_bytes())[0] == 0 or path.parent.name == "bad"


def test_files_of_several_pages() -> None:
    for data in seeds.lookups():
        c_reader.compare_bundle(data)
        assert c_reader.ask(data) == (0, 0, 0, "")


def test_words_for_other_files() -> None:
    good = FILES[-1].read_bytes()
    assert c_reader.ask(b"safetensors" * 10)[3] == "it is no .devmod file: it does not begin with the magic bytes"
    assert c_reader.ask(good[:8] + b"\3" + good[9:])[3] == "it is a development file, from before version 1: build it again"
    assert c_reader.ask(good[:8] + b"\5" + good[9:])[3] == "it is in version 2 of the format; this reader reads version 1"
    assert c_reader.ask(good[:-1])[3] == "the file has another size than its index describes"


SOURCE = b"__kernel void twice(__global float *x, float factor) { x[get_global_id(0)] *= factor; }\n"


def test_the_example(tmp_path: Path) -> None:
    functions = {"scale": devmod.FunctionInfo("twice", ["handle", "float32"])}
    module = devmod.create_with_fallback("opencl", SOURCE, "cl", functions)
    other = devmod.create_with_fallback("cuda", b"cubin", "cubin", functions)
    devmod.save(devmod.bundle(other, module), tmp_path / "kernels.devmod")
    program = str(c_reader.compiler())
    sources = [str(c_reader.FOLDER / "example_opencl.c"), str(c_reader.FOLDER / "devmod_reader.c")]
    for source in sources:
        subprocess.run([program, *c_reader.FLAGS, "-c", source, "-o", str(tmp_path / "object.o")], check=True)
    driver = Path(sys.prefix, "lib", "libintelocl.so")
    if not driver.exists():
        pytest.skip("Intel's OpenCL is not in this environment")
    loader = ["-l:libOpenCL.so.1", f"-L{driver.parent}", f"-Wl,--allow-shlib-undefined,-rpath,{driver.parent}"]
    subprocess.run([program, *c_reader.FLAGS, *sources, *loader, "-o", str(tmp_path / "example")], check=True, capture_output=True)
    variables = {"OCL_ICD_FILENAMES": str(driver), "LD_LIBRARY_PATH": str(driver.parent)}
    command = [str(tmp_path / "example"), str(tmp_path / "kernels.devmod"), "scale"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.partition(":")[2].split()) == (0, ["0", "2.5", "5", "7.5", "10", "12.5", "15", "17.5"]), (
        done.stderr
    )
    command[-1] = "absent"
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "the file has no OpenCL C with this function\n")
