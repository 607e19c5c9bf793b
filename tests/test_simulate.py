"""`devmod simulate`, and programs of others below it, unchanged. tests/simulated has them;
tools/frameworks.py runs those of large wheels.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import forked
import pytest
from interruptible import interruptible_python
from simulate_command import python, simulate

import devmod

pytestmark = pytest.mark.usefixtures("simulator")
PROGRAMS = Path(__file__).parent / "simulated"
NAME = "simulated GPU (devmod-simulators)"
NO_LAUNCH = "devmod-simulators: nothing was checked: no launch ran to its end\n"


USE = """
import numpy, devmod
device, x = devmod.device("cuda"), numpy.arange(4, dtype="int32")
module = devmod.compile('extern "C" __global__ void f(int *x) { x[threadIdx.x] *= 2; }', "cuda -arch=compute_80")
module["f"](x, grid=1, block=4)
print(x, device, device.name, device.is_simulated, devmod.explain(module), sep="\\n")
"""


@pytest.mark.row("R49")
def test_a_simulated_device_says_so_wherever_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    *lines, why = python(USE).splitlines()
    assert lines == ["[0 2 4 6]", f"cuda device 0 ({NAME})", NAME, "True", "f on this machine:"]
    assert why.endswith(
        "it fits simulated cuda device 0, sm_90; a compiler there builds it before its first launch"
    )
    assert f"; {NAME} (driver CUDA " in simulate(sys.executable, "-m", "devmod", "doctor", "cuda")
    monkeypatch.setenv("DEVMOD_CUDA_DRIVER", "simulator")
    listed = forked.python("-m", "devmod", "devices").stdout
    assert f"\ncuda     0      {NAME} " in listed


@pytest.mark.row("R49")
def test_a_simulated_device_is_never_chosen_by_itself() -> None:
    """The wheel is installed here, and a process finds no CUDA device by it."""
    listed = forked.python("-m", "devmod", "devices").stdout
    assert "kind" in listed
    assert "simulated" not in listed


def test_each_device_has_its_architecture() -> None:
    program = (
        "import devmod; print([each.arch.partition(':')[0] for each in devmod.devices('cuda')])"
    )
    assert python(program, "--devices", "2", "--arch", "sm_90a,80") == "['sm_90', 'sm_80']\n"
    assert "Invalid value for '--arch': '9.0' is no architecture such as sm_90" in simulate(
        "true", options=("--arch", "9.0"), code=2
    )


def test_caches_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", __file__)
    folder = f"{__file__}/simulator/simulate/cuda"
    assert simulate("true", code=1) == (
        f"devmod: error: the cache folder {folder!r} cannot be made: {__file__}: File exists. "
        "Set DEVMOD_CACHE_DIR to another folder\n"
    )


@pytest.mark.parametrize("options", [(), ("--sanitize",)])
@pytest.mark.parametrize("place", ["", "simulator", "simulator/simulate/numba"])
def test_caches_that_others_can_write_to_are_not_used(
    place: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They have code that is run, such as numba's index, which is a pickle."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "caches"))
    simulate("true")
    folder = tmp_path / "caches" / place
    folder.chmod(0o777)
    error = simulate("true", code=1)
    assert error.endswith(". Set DEVMOD_CACHE_DIR to another folder\n")
    assert f"is not used: other users can write to {str(folder)!r} (mode 0777)" in error


def test_an_unknown_option_is_no_command() -> None:
    for option in ("--sanitze", "--sanitze=bounds"):
        assert simulate("true", options=(option,), code=2).endswith(
            "devmod: error: No such option '--sanitze'. Did you mean '--sanitize'?\n"
        )
    # The word behind the option is COMMAND.
    assert simulate("true", options=("--sanitize", "bounds,race"), code=1) == (
        "devmod: error: 'bounds,race' cannot be started: No such file or directory. "
        "Checks are given with an equals sign: --sanitize=bounds,race\n"
    )


@pytest.mark.row("R59")
def test_the_command_takes_the_place_of_the_process() -> None:
    """So its exit code and the signals are those of the command."""
    assert simulate("sh", "-c", "exit 7", code=7) == ""
    assert simulate(
        "sh", "-c", "kill -SEGV $$", options=("--sanitize",), code=128 + signal.SIGSEGV
    ).endswith(NO_LAUNCH)
    assert (
        simulate("no-such-program", code=1)
        == "devmod: error: 'no-such-program' cannot be started: No such file or directory\n"
    )
    assert (
        simulate("", code=1)
        == "devmod: error: '' cannot be started: the name of the program is empty\n"
    )
    words = [
        sys.executable,
        "-m",
        "devmod",
        "simulate",
        "--",
        "sh",
        "-c",
        "echo $$; grep SigIgn /proc/$$/status",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        number, _, ignored = process.communicate()[0].split()
    assert int(number) == process.pid
    assert not int(ignored, 16) & (1 << signal.SIGPIPE - 1)


def test_the_words_behind_sanitize_are_the_command() -> None:
    """The value of the option follows `=` alone."""
    script = "import sys; print(sys.argv[1:])"
    for options in (("--sanitize",), ("--arch", "sm_80", "--sanitize"), ("--sanitize=race",)):
        words = (*options, sys.executable, "-c", script, "--sanitize", "x")
        done = forked.python("-m", "devmod", "simulate", *words)
        assert (done.returncode, done.stdout) == (0, "['--sanitize', 'x']\n"), done.stderr


WAITS = "trap 'echo SIGINT; exit 5' INT; trap 'echo SIGTERM; exit 5' TERM; trap 'echo SIGHUP; exit 5' HUP; echo starts; while :; do sleep 0.1; done"


@pytest.mark.parametrize("option", ["--arch=sm_90", "--sanitize"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_reach_the_command(option: str, number: signal.Signals) -> None:
    """A terminal sends SIGINT to all processes in front, and `kill` a signal to one."""
    words = interruptible_python("-m", "devmod", "simulate", option, "--", "sh", "-c", WAITS)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starts\n"
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert (output, process.returncode) == (f"{number.name}\n", 5)


def test_caches_are_apart_from_those_of_gpus(tmp_path: Path) -> None:
    names = (
        "CACHEDB",
        "CUDA_CACHE_PATH",
        "DEVMOD_CACHE_DIR",
        "NUMBA_CACHE_DIR",
        "PYCUDA_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "XDG_CACHE_HOME",
    )
    program = f"import os; print(*(os.environ[name] for name in {names}), sep='\\n')"
    variables = dict.fromkeys(names[1:], str(tmp_path / "user")) | {
        "DEVMOD_CACHE_DIR": str(tmp_path / "devmod")
    }
    folders = {Path(line) for line in python(program, **variables).splitlines()}
    assert len(folders) == len(names)
    assert [each for each in folders if tmp_path / "devmod" / "simulator" not in each.parents] == []


def test_a_file_for_other_machines_has_no_ptx_for_a_cubin() -> None:
    program = "import devmod\ntry:\n    devmod.compile('__global__ void f() {}', 'cuda -arch=sm_80')\nexcept devmod.CompileError as error:\n    print(error)"
    assert (
        python(program)
        == "below `devmod simulate`, NVIDIA's compilers return PTX for a cubin: compile for compute_NN, or outside\n"
    )


def test_the_users_sitecustomize_is_imported(tmp_path: Path) -> None:
    """The command has one of its own, which imports that of the user."""
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = __file__")
    program = (
        "import sitecustomize, sys; print(mine, sitecustomize.__file__, 'shims' in str(sys.path))"
    )
    file = tmp_path / "sitecustomize.py"
    assert python(program, PYTHONPATH=str(tmp_path)) == f"{file} {file} False\n"
    program = (
        "import sitecustomize, sys; print(hasattr(__builtins__, 'mine'), 'shims' in str(sys.path))"
    )
    assert python(program, PYTHONPATH="") == "False False\n"


@pytest.mark.parametrize("way", ["command", "body"])
def test_a_device_of_cuda_core_waits(way: str) -> None:
    """It does by the CUDA runtime of cuda-bindings, whatever is imported first."""
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    program = "from cuda.core import Device\ndevice = Device()\ndevice.set_current()\nprint(device.sync())"
    if way == "command":
        assert python(program) == "None\n"
        return
    body = "import cuda.bindings.runtime, devmod_simulators\nwith devmod_simulators.sanitize():\n"
    body += "".join(f"    {line}\n" for line in program.splitlines())
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_cuda_core() -> None:
    pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    assert simulate(
        sys.executable, str(PROGRAMS / "core_add.py"), options=("--arch", "sm_80")
    ).splitlines() == [
        f"{NAME} sm_80",
        "ptx True",
        "cubin True",
        *(
            f"{codes} [1, 3, 5, 7, 9, 11, 13, 15] 9"
            for codes in ("ptx ptx", "ltoir ltoir", "ltoir ptx", "ptx ltoir")
        ),
    ]


def test_pycuda() -> None:
    if find_spec("pycuda") is None:
        pytest.skip("pycuda is not installed (make test-setup builds it)")
    folder = next(iter(find_spec("nvidia").submodule_search_locations), "")  # type: ignore[union-attr,arg-type]
    path = os.pathsep.join([os.path.join(folder, "cu13", "bin"), os.environ["PATH"]])
    lines = simulate(
        sys.executable, "-W", "ignore", str(PROGRAMS / "pycuda_kernels.py"), PATH=path
    ).splitlines()
    assert lines == [
        "GPUArray True",
        "SourceModule True",
        "ElementwiseKernel True",
        "ReductionKernel True",
    ]


@pytest.mark.parametrize("compiler", ["NVRTC", "tinygrad"])
def test_tinygrad(compiler: str, tmp_path: Path) -> None:
    """Without DEV, tinygrad would import all its backends for a constant."""
    pytest.importorskip("tinygrad", reason="tinygrad is not installed")
    library = tmp_path / "libnvrtc.so"
    variables = {}
    if compiler == "NVRTC":
        from cuda.pathfinder import load_nvidia_dynamic_lib

        library.symlink_to(load_nvidia_dynamic_lib("nvrtc").abs_path)
        variables["NOOPT"] = "1"
    # tinygrad looks for NVRTC where the linker does.
    variables["LD_LIBRARY_PATH"] = f"{tmp_path}{os.pathsep}{library.resolve().parent}"
    program = str(PROGRAMS / "tinygrad_kernels.py")
    lines = simulate(sys.executable, program, DEV="CUDA", **variables).splitlines()
    assert lines == ["add True", "matmul True", "softmax True"]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("package", "program", "count"),
    [
        ("numba_cuda", "numba_kernels", 5),
        ("numba_cuda", "numba_adopted", 4),
        ("triton", "triton_kernels", 3),
    ],
)
def test_programs_with_large_wheels(package: str, program: str, count: int, arch: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed (make frameworks installs it in an environment)")
    lines = simulate(
        sys.executable, "-W", "ignore", str(PROGRAMS / f"{program}.py"), options=("--arch", arch)
    ).splitlines()
    assert len(lines) == count
    assert [line for line in lines if not line.endswith(" True")] == []


@pytest.mark.row("R34", "R50")
def test_a_run_gives_the_bytes_of_dynamic_shared_memory(tmp_path: Path) -> None:
    module = devmod.compile(
        'extern "C" __global__ void k(int *x) {\n'
        "  extern __shared__ int t[]; unsigned bytes;\n"
        '  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));\n'
        "  if (bytes) t[0] = bytes;\n"
        "  *x = bytes ? t[0] : 7;\n"
        "}",
        "cuda -arch=compute_80",
    )
    file = tmp_path / "k.devmod"
    file.write_bytes(devmod.dumps(module))
    words = (
        "-m",
        "devmod",
        "run",
        str(file),
        "k",
        "x=zeros[1]",
        "--print",
        "x",
        "--grid",
        "1",
        "--block",
        "1",
    )
    simulated = os.environ | {"DEVMOD_CUDA_DRIVER": "simulator"}
    for nbytes, value, *option in ((0, 7), (4096, 4096, "--sanitize=bounds")):
        sized = (*words, "--shared-memory", str(nbytes), *map(str, option))
        assert f"x: int32[1]\n[{value}]\n" in forked.python(*sized, env=simulated).stdout
    refused = forked.python(*words, env=simulated)
    assert (
        "the cuda function 'k' uses dynamic shared memory, and its interface has no default: give --shared-memory, "
        in refused.stderr
    )
    assert refused.returncode == 1


ONE_CALL = """
import numpy as np, devmod
from devmod import Local
cuda = devmod.compile('''
extern "C" __global__ void turn(float *x) {
    extern __shared__ float t[];
    t[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = t[blockDim.x - 1 - threadIdx.x];
}''', "cuda -arch=compute_80", shared_memory=Local(per_thread=4), block=32)
opencl = devmod.compile('''
kernel void turn(global float *x, local float *t) {
    int i = get_local_id(0);
    t[i] = x[i]; barrier(CLK_LOCAL_MEM_FENCE); x[i] = t[get_local_size(0) - 1 - i];
}''', "opencl", local={"t": Local(per_thread=4)}, block=32)
turn = devmod.loads(devmod.dumps(devmod.bundle(cuda, opencl)))["turn"]
for device in turn.devices():
    for block in ({}, {"block": 32}):
        x = np.arange(32, dtype="float32")
        turn.on(device)(x=x, threads=32, **block)
        print(device.kind, x.tolist() == list(range(31, -1, -1)))
"""


@pytest.mark.row("R34", "R40")
def test_one_call_with_default_sizes_serves_every_kind() -> None:
    lines = python(ONE_CALL, "--sanitize=bounds").splitlines()
    assert {line for line in lines if not line.startswith("devmod-simulators: ")} <= {
        "cuda True",
        "opencl True",
    }
    assert lines.count("cuda True") == 2


USED = "def test_it():\n    import devmod\n    f = devmod.compile('extern \"C\" __global__ void f() {}', 'cuda -arch=compute_80')['f']\n    f(grid=1, block=1)\n"
UNUSED = (
    "devmod-simulators: COMMAND has launched no kernel, so nothing ran on the simulated GPU: it may "
    "have found no device and used the CPU. --no-require-gpu permits that\n"
)


@pytest.mark.row("R49")
def test_tests_that_launch_nothing_fail(tmp_path: Path) -> None:
    """Else CI is green without a test of the GPU. pytest and ctest need an option for that."""
    used, unused = tmp_path / "used", tmp_path / "unused"
    for folder, text in ((used, USED), (unused, "def test_it(): pass\n")):
        folder.mkdir()
        (folder / "test_it.py").write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert UNUSED in simulate(*words, str(unused), code=1)
    assert UNUSED not in simulate(*words, str(used))
    assert UNUSED not in simulate(*words, str(unused), options=("--no-require-gpu",))
    assert simulate("true", options=("--require-gpu",), code=1) == UNUSED
    assert simulate("false", options=("--require-gpu",), code=1) == ""
    ctest = tmp_path / "ctest"
    ctest.write_text("#!/bin/sh\n")
    ctest.chmod(0o755)
    assert simulate(str(ctest), code=1) == UNUSED
    assert simulate("sh", "-c", f"cd {tmp_path} && ./ctest --test-dir build", code=1) == UNUSED
    for script in ("echo pytest", f"ls {ctest}", "true # ctest"):
        assert UNUSED not in simulate("sh", "-c", script)


def test_the_libraries_have_names_without_a_version() -> None:
    """Programs load these names at run time, such as Taichi's."""
    program = (
        "import ctypes; driver = ctypes.CDLL('libcuda.so'); count = ctypes.c_int()\n"
        "print(driver.cuInit(0), driver.cuDeviceGetCount(ctypes.byref(count)), count.value)\n"
        "runtime = ctypes.CDLL('libcudart.so')\n"
        "print(runtime.cudaGetDeviceCount(ctypes.byref(count)), count.value)\n"
    )
    assert python(program, "--devices", "2") == "0 0 2\n0 2\n"


def test_nvrtc_has_a_name_without_a_version() -> None:
    if not find_spec("nvidia.cu13.lib"):
        pytest.skip("NVRTC 13 is not installed (nvidia-cuda-nvrtc)")
    program = (
        "import ctypes; nvrtc = ctypes.CDLL('libnvrtc.so'); program = ctypes.c_void_p()\n"
        "source = b'extern \"C\" __global__ void f(int *x) { *x = 1; }'\n"
        "print(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, None, 0, None, None))\n"
        "print(nvrtc.nvrtcCompileProgram(program, 0, None))\n"
    )
    assert python(program) == "0\n0\n"
