"""TVM's kernels on a real device: those of the vectors, and one that TVM compiles while the test
runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import devmod

VECTORS = Path(__file__).resolve().parent.parent / "core" / "tests" / "vectors" / "tvm"
TVM = "apache-tvm==0.27.*"

#: Compile a kernel to the file that is named first, and print what kind of module the bytes of the
#: second are: most of the time of such a process is the import of TVM.
COMPILE = """
import sys
import tvm
from tvm import te
a, b = (te.placeholder((1000,), "float32", name) for name in "AB")
c = te.compute((1000,), lambda i: a[i] * 2.0 + b[i], "C")
schedule = tvm.s_tir.Schedule(te.create_prim_func([a, b, c]).with_attr("global_symbol", "axpy"))
(loop,) = schedule.get_loops(schedule.get_sblock("C"))
outer, inner = schedule.split(loop, [None, 64])
schedule.bind(outer, "blockIdx.x")
schedule.bind(inner, "threadIdx.x")
made = tvm.compile(schedule.mod, target=tvm.target.Target({"kind": "opencl"}, host={"kind": "c"})).mod
with open(sys.argv[1], "wb") as file:
    file.write(tvm.get_global_func("runtime.ModulePackImportsToTensor")(made).numpy().tobytes())
with open(sys.argv[2], "rb") as file:
    print(tvm.get_global_func("ffi.Module.load_from_bytes.const_loader")(file.read()).kind)
"""

RUN = """
import importlib.metadata
import sys
import numpy as np
import devmod
assert not [*importlib.metadata.distributions(name="apache-tvm")], "TVM is here"
with open(sys.argv[1], "rb") as file:
    data = file.read()
root = devmod.interop.tvm.load_imports(data)
assert devmod.interop.tvm.dump_imports(root) == data
a, b = np.random.default_rng(0).random((2, 1000), dtype=np.float32)
found = []
for module in (root, devmod.loads(devmod.dumps(root))):
    c = np.zeros(1000, np.float32)
    axpy = module.get_function("axpy_kernel", query_imports=True)
    axpy(a, b, c, grid=16, block=64)
    found.append(c)
    c = np.zeros(1000, np.float32)
    axpy(a, b, c, 16, 64)  # TVM's way: the launch dimensions after the arguments
    found.append(c)
for c in found:
    np.testing.assert_allclose(c, 2 * a + b, rtol=1e-6)
"""


@pytest.fixture(scope="module")
def opencl() -> None:
    """A device to run on."""
    try:
        devmod.device("opencl")
    except (devmod.NotRegisteredError, devmod.DeviceNotFoundError) as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def python_with_tvm(pytestconfig: pytest.Config) -> str:
    """A Python that has TVM: that of DEVMOD_TVM_PYTHON, else one in an environment that is kept in
    pytest's cache.
    """
    named = os.environ.get("DEVMOD_TVM_PYTHON")
    if named:
        return named
    from environments import InstallError, install, kept

    fcntl = pytest.importorskip("fcntl")
    folder = Path(pytestconfig.cache.mkdir(f"tvm-{sys.version_info[0]}.{sys.version_info[1]}"))  # type: ignore[union-attr]
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one of several workers makes it
        try:
            python = kept(
                folder / "venv", TVM, lambda python: install(python, [TVM, "numpy"], cached=True)
            )
        except InstallError as error:
            pytest.skip(f"{TVM} cannot be installed here: {str(error)[-500:]}")
    return str(python)


@pytest.fixture(scope="module")
def by_tvm(python_with_tvm: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What TVM compiles, and the kind that it sees in constants that devmod dumps."""
    tensors = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array(3, np.int64),
        "h": np.ones(0, np.float16),
    }
    module = devmod.const_loader(tensors, {"__init__": ["b", "w"], "later": []})
    folder = tmp_path_factory.mktemp("tvm")
    path, constants = folder / "axpy.tvmimports", folder / "constants"
    constants.write_bytes(devmod.interop.tvm.dump_module_bytes(module))
    env = os.environ | {"TVM_COMPILE_FORCE_FALLBACK": "1"}
    env.pop("PYTHONPATH", None)
    process = subprocess.run(
        [python_with_tvm, "-c", COMPILE, path, constants],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    return path, process.stdout


@pytest.mark.row("R21", "R24")
@pytest.mark.usefixtures("opencl")
@pytest.mark.parametrize(
    "source",
    ["vadd.opencl.tvmimports", "vadd_const.opencl+const_loader.tvmimports", "vadd.opencl.so"],
)
def test_tvms_vadd_runs_and_agrees_with_numpy(source: str) -> None:
    path = VECTORS / source
    root = (
        devmod.interop.tvm.load_library(path)
        if source.endswith(".so")
        else devmod.interop.tvm.load_imports(path.read_bytes())
    )
    a, b = np.random.default_rng(1).random((2, 1024), dtype=np.float32)
    c = np.zeros_like(a)
    root.get_function("vadd_kernel", query_imports=True)(a, b, c, grid=16, block=64)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.row("R21", "R24")
@pytest.mark.usefixtures("opencl")
def test_tvms_matmul_runs_and_agrees_with_numpy_also_by_way_of_a_file(tmp_path: Path) -> None:
    root = devmod.interop.tvm.load_imports((VECTORS / "matmul.opencl.tvmimports").read_bytes())
    devmod.save(root, tmp_path / "matmul.devmod")
    a, b = np.random.default_rng(2).random((2, 64, 64), dtype=np.float32)
    for module in (root, devmod.load(tmp_path / "matmul.devmod")):
        matmul = module.get_function("matmul_kernel", query_imports=True)
        for launch in ({"grid": (8, 8), "block": (8, 8)}, None):
            c = np.zeros_like(a)
            if launch is None:
                matmul(a, b, c, 8, 8, 8, 8)  # blockIdx.y, blockIdx.x, threadIdx.y, threadIdx.x
            else:
                matmul(a, b, c, **launch)
            np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.row("R21", "R24")
@pytest.mark.usefixtures("opencl")
def test_a_kernel_compiled_by_tvm_runs_without_tvm(by_tvm: tuple[Path, str]) -> None:
    process = subprocess.run(
        [sys.executable, "-c", RUN, by_tvm[0]],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.row("R20")
def test_tvm_loads_the_constants_that_devmod_dumps(by_tvm: tuple[Path, str]) -> None:
    assert by_tvm[1] == "const_loader\n"
