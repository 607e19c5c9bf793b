"""Programs of nvcc and CMake below `devmod simulate`, as they are. tests/simulated has them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from simulate_command import python, simulate
from vendor_runtime import VendorRuntime

PROGRAMS = Path(__file__).parent / "simulated"


def wheel_file(pattern: str) -> Path:
    """Return a file of NVIDIA's wheels, or skip the test."""
    spec = find_spec("nvidia")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        for path in Path(folder).glob(pattern):
            return path
    pytest.skip(f"no wheel of NVIDIA's with {pattern} is installed")


@pytest.fixture(autouse=True, scope="module")
def nvcc(simulator: None) -> str:
    """The path of nvcc."""
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed, which nvcc needs")
    return str(wheel_file("*/bin/nvcc"))


def test_what_the_user_has_set_is_kept(tmp_path: Path) -> None:
    names = ("NVCC_APPEND_FLAGS", "CMAKE_LIBRARY_PATH")
    program = f"import os; print(*(os.environ[name] for name in {names}), sep='\\n')"
    cache = tmp_path / "a b"
    flags, folders = python(
        program,
        NVCC_APPEND_FLAGS="-DN=1",
        CMAKE_LIBRARY_PATH="/own",
        DEVMOD_CACHE_DIR=str(cache),
    ).splitlines()
    folder = cache / "simulator" / "links13"
    assert flags == f'-DN=1 --cudart shared -L "{folder}"'
    assert folders == f"{folder}:/own"
    names = sorted(each.name for each in folder.iterdir())
    assert [name for name in names if not name.startswith("libnvrtc")] == [
        "libcuda.so",
        "libcudart.so",
        "libcudart_static.a",
    ]


def test_nvcc_of_the_wheels_is_found_without_a_toolkit(nvcc: str) -> None:
    """Behind the folders of PATH."""
    path = os.path.dirname(shutil.which("sh") or "")
    found = python("import os; print(os.environ['PATH'])", PATH=path).rstrip()
    assert found == f"{path}:{os.path.dirname(nvcc)}"


DRY = {
    "": "ptx 90",
    "-arch=sm_80": "elf 80, ptx 80, ptx 90",
    "-arch compute_80 -code sm_80": "elf 80, ptx 90",
    "-gencode arch=compute_75,code=sm_75 -gencode=arch=compute_80,code=[compute_80,sm_80]": "elf 75, elf 80, ptx 80, ptx 90",
    "-arch=native": "elf 90, ptx 90",
    "-dlto -arch=sm_80": "elf 80, ptx 80, ptx 90",
    "-Xcompiler -E -o -ptx": "ptx 90",
}


def test_the_architectures_of_a_program(nvcc: str) -> None:
    """PTX for each simulated device is added, whatever the flags are."""
    lines = [f"echo; {nvcc} --dryrun {flags} k.cu 2>&1" for flags in DRY]
    parts = simulate("sh", "-c", "\n".join(lines)).split("\n\n")
    for (flags, expected), part in zip(DRY.items(), parts, strict=True):
        (images,) = re.findall(
            "^.* fatbinary .* --embedded-fatbin", part.partition("nvlink")[0], re.M
        )
        kinds = sorted(
            re.findall(r"kind=(\w+),sm=(\d+)", images),
            key=lambda each: (each[0], int(each[1])),
        )
        assert ", ".join(" ".join(each) for each in kinds) == expected, flags
        assert "-generate-line-info" in part
        assert " -lcudart " in part
    text = simulate(nvcc, "--dryrun", "-arch=all-major", "k.cu", options=("--arch", "80,90"))
    assert "kind=ptx,sm=80" in text
    assert "kind=ptx,sm=90" in text


UNCHANGED = ("-ptx -arch=sm_80", "--ptx", "-E", "--version", "-ptx -lineinfo", "--list-gpu-arch")


def test_other_calls_of_nvcc_are_as_they_were(nvcc: str) -> None:
    own = simulate("sh", "-c", "\n".join(f"{nvcc} --dryrun {each} k.cu 2>&1" for each in UNCHANGED))
    assert "compute_90" not in own.replace("compute_90\n", "")
    assert own.count("-generate-line-info") == 1
    debug = simulate("sh", "-c", f"{nvcc} --dryrun -G k.cu 2>&1")
    assert "warning" not in debug
    cubin = simulate("sh", "-c", f"{nvcc} --dryrun -cubin -arch=sm_80 k.cu 2>&1")
    assert " ptxas " not in cubin
    assert '-o "k.cubin"' in cubin


def test_arguments_reach_nvcc_unchanged(tmp_path: Path) -> None:
    """A program with the name of nvcc prints them."""
    program = tmp_path / "a folder" / "nvcc"
    program.parent.mkdir()
    shutil.copy(shutil.which("printf") or "", program)
    words = ['-DA=it\'s "a" $HOME', "b c.cu", "*", "", "d\\e", "-arch", "sm_80", "-o", "-ptx"]
    lines = simulate(str(program), "%s\\n", *words).splitlines()
    assert lines == [*words, "-lineinfo", "-gencode", "arch=compute_90,code=compute_90"]
    cubin = simulate(str(program), "%s\\n", "--cubin", "a b.cu", "-arch=sm_80", "-G").splitlines()
    assert cubin == ["--ptx", "a b.cu", "-arch=compute_80", "-G", "-o", "a b.cubin"]


@pytest.mark.row("R49")
def test_a_program_of_nvcc_runs(nvcc: str, tmp_path: Path) -> None:
    """Also one that g++ links with the static runtime."""
    script = f"""cd {tmp_path}
{nvcc} -keep {PROGRAMS / "cmake" / "scale.cu"} -o scale && ./scale
g++ scale.o -L $CMAKE_LIBRARY_PATH -lcudart_static -o k && ./k"""
    assert simulate("sh", "-c", script) == "no error: 2 1998\n" * 2
    # It was built elsewhere now.
    assert simulate(str(tmp_path / "scale"), options=("--arch", "sm_100")) == "no error: 2 1998\n"


COMPILES = {
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.20)
project(compiles LANGUAGES CXX)
find_package(CUDAToolkit REQUIRED)
add_executable(compiles main.cpp)
target_link_libraries(compiles PRIVATE CUDA::nvrtc CUDA::cuda_driver)
""",
    "main.cpp": """
#include <cstdio>
#include <cuda.h>
#include <nvrtc.h>
int main()
{
    nvrtcProgram program;
    int count = 0;
    nvrtcCreateProgram(&program, "__global__ void f() {}", 0, 0, 0, 0);
    int compiled = nvrtcCompileProgram(program, 0, 0);
    cuInit(0);
    cuDeviceGetCount(&count);
    std::printf("%d %d\\n", compiled, count);
}
""",
}


def test_cmake_finds_nvrtc_of_the_wheels(tmp_path: Path) -> None:
    """They have no libnvrtc.so."""
    wheel_file("*/include/nvrtc.h")
    path = "/usr/bin:/bin"  # CMake takes the toolkit of an nvcc on PATH
    if not shutil.which("cmake", path=path):
        pytest.skip("CMake is not installed")
    for name, text in COMPILES.items():
        (tmp_path / name).write_text(text)
    script = f"cd {tmp_path} && cmake -B b > log && cmake --build b >> log && b/compiles"
    assert simulate("sh", "-c", script, PATH=path) == "0 1\n"


LINKED = {
    "main.cu": """
#include <cstdio>
extern __device__ int weight;
__device__ int twice(int x, int more);
__global__ void run(int *y, int more) { y[threadIdx.x] = twice(threadIdx.x, more) + weight; }
int main(int, char **arguments)
{
    int *y, host[32];
    cudaMalloc(&y, sizeof host);
    run<<<1, 32>>>(y, arguments[1] ? 0 : 1000);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%s %d\\n", cudaGetErrorName(cudaGetLastError()), host[31]);
}
""",
    "twice.cu": """
__device__ int weight = 7;
static __device__ int bound = 20;
__device__ int twice(int x, int more)
{
    if (x > bound + more)
        *reinterpret_cast<int *>(16) = 1;
    return 2 * x;
}
""",
}


def test_device_code_of_several_files_is_linked(nvcc: str, tmp_path: Path) -> None:
    """nvcc links it to machine code; here it is PTX, whose lines stay those of each file."""
    for name, text in LINKED.items():
        (tmp_path / name).write_text(text)
    compiled = f"{nvcc} -dc main.cu && {nvcc} -rdc=true -dlto -arch=sm_80 main.o twice.cu -o k"
    text = simulate("sh", "-c", f"cd {tmp_path} && {compiled} && ./k && ./k fault")
    assert text.startswith("cudaSuccess 69\ncudaErrorIllegalAddress ")
    assert "thread (21, 0, 0), twice.cu:7, " in text


TOUR = """before 5 2.5
launched cudaSuccess
counter 298
table 23 24 14 15
thread 328, pair 3 5
9 cudaErrorInvalidConfiguration: invalid configuration argument
large cudaSuccess cudaSuccess
last cudaSuccess
"""


@pytest.mark.row("R55")
@pytest.mark.volume
@pytest.mark.parametrize("stream", ["legacy", "per-thread"])
def test_what_nvcc_makes_of_variables_and_launches(nvcc: str, tmp_path: Path, stream: str) -> None:
    script = f"{nvcc} --default-stream {stream} {PROGRAMS / 'tour.cu'} -o tour && ./tour"
    assert simulate("sh", "-c", f"cd {tmp_path} && {script}") == TOUR


@pytest.fixture
def nvcc_12() -> str:
    """The folder of nvcc of CUDA 12."""
    runtime = VendorRuntime("nvcc-12")
    if runtime.reason:
        pytest.skip(runtime.reason)
    return str(runtime.path / "bin")


@pytest.mark.row("R55")
@pytest.mark.volume
def test_programs_of_nvcc_12_run(nvcc_12: str, tmp_path: Path) -> None:
    """With the simulated runtime of CUDA 12, by files, linked as device code, and to a cubin."""
    for name, text in LINKED.items():
        (tmp_path / name).write_text(text)
    script = f"""
cd {tmp_path}
nvcc -c {PROGRAMS / "tour.cu"} -o tour.o && nvcc tour.o -o tour 2> /dev/null && ./tour
ldd tour | grep -o '[^ ]*/libcudart.so.12'
nvcc -rdc=true -gencode arch=compute_80,code=sm_80 main.cu twice.cu -o k 2> /dev/null
./k
nvcc -cubin -arch=sm_80 {PROGRAMS / "cmake" / "scale.cu"} -o scale.cubin && grep -c .target scale.cubin
nvcc {PROGRAMS / "faults.cu"} -o faults 2> /dev/null && ./faults right
"""
    path = os.pathsep.join([nvcc_12, os.environ["PATH"]])
    lines = simulate("sh", "-c", script, PATH=path).removeprefix(TOUR).splitlines()
    assert lines[1:] == ["cudaSuccess 69", "1", "no error"]
    # It is the one of devmod, with functions that NVIDIA's lacks.
    assert b"devmod" in Path(lines[0]).read_bytes()


def found_in(reports: str) -> list[tuple[int, str]]:
    """Return the line and the kind of each report."""
    return [
        (int(line), kind)
        for kind, line in re.findall(r"^(\w[^:\n]*): \S*faults\.cu:(\d+) ", reports, re.MULTILINE)
    ]


@pytest.mark.row("R49")
def test_the_faults_of_nvidias_samples_are_found_by_line(nvcc: str, tmp_path: Path) -> None:
    """By the command and by the plugin of pytest. The same kernels without them are not accused."""
    source = PROGRAMS / "faults.cu"
    marks = [
        (number, line.rpartition("  // ")[2])
        for number, line in enumerate(source.read_text().splitlines(), 1)
        if "  // " in line
    ]
    assert len(marks) == 7
    script = f"cd {tmp_path} && {nvcc} {source} -o faults && ./faults; echo status $?"
    reports = simulate("sh", "-c", script, options=("--sanitize",), code=1)
    assert reports.startswith("no error\nstatus 1\n")
    assert found_in(reports) == marks
    assert reports.endswith("\ndevmod-simulators: 7 reports\n")
    right = simulate(str(tmp_path / "faults"), "right", options=("--sanitize",))
    assert right == "no error\ndevmod-simulators: 0 reports\n"

    (tmp_path / "test_faults.py").write_text(
        "import subprocess\n"
        "def test_wrong(): subprocess.run(['./faults'], check=True)\n"
        "def test_right(): subprocess.run(['./faults', 'right'], check=True)\n"
    )
    words = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "--devmod-sanitize"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed in" in done.stdout
    assert found_in(re.sub("^E +(devmod_simulators.*?: )?", "", done.stdout, flags=re.M)) == marks


@pytest.mark.row("R55")
@pytest.mark.parametrize(("streams", "found"), [("legacy", "0x1010101"), ("per-thread", "0")])
def test_a_program_has_the_default_stream_that_it_is_compiled_for(
    nvcc: str, tmp_path: Path, streams: str, found: str
) -> None:
    """That of a thread does not wait for a stream that fills."""
    program = str(tmp_path / "streams")
    source = str(PROGRAMS / "streams.cu")
    command = f"{nvcc} -default-stream {streams} {source} -o {program} && {program}"
    expected = f"{found}\n60 10 7\n31 0 6.5\n32 1024 cudaSuccess\n"
    assert simulate("sh", "-c", command) == expected


MESSAGE = (
    "devmod-simulators: the program uses NVIDIA's CUDA runtime, which needs private functions of NVIDIA's driver. The simulated "
    "GPU has the functions of cuda.h, and a CUDA runtime of its own: build a program of nvcc below `devmod simulate`, or with "
    "--cudart shared (CMake: -DCMAKE_CUDA_RUNTIME_LIBRARY=Shared). PyTorch, CuPy and Warp do not run on it\n"
)
COUNTS = """
extern int cudaGetDeviceCount(int *);
int count(void) { int n = -1; cudaGetDeviceCount(&n); return cudaGetDeviceCount(&n) ? -1 : n; }
int main(void) { return count() + 1; }
"""


def test_a_program_with_nvidias_runtime_inside_is_told_the_flag(tmp_path: Path) -> None:
    """Once."""
    archive = wheel_file("*/lib/libcudart_static.a")
    (tmp_path / "k.c").write_text(COUNTS)
    program = str(tmp_path / "k")
    libraries = ["-lpthread", "-ldl", "-lrt", "-lstdc++"]
    subprocess.run(["cc", tmp_path / "k.c", archive, *libraries, "-o", program], check=True)
    assert simulate(program) == MESSAGE


def test_a_package_with_a_path_to_nvidias_runtime_is_as_before(tmp_path: Path) -> None:
    """As PyTorch's wheels have: the simulated runtime does not take its place."""
    library = wheel_file("*/lib/libcudart.so.*")
    (tmp_path / "k.c").write_text(COUNTS)
    (tmp_path / "torch").mkdir()
    words = [
        "cc",
        "-shared",
        "-fPIC",
        tmp_path / "k.c",
        "-o",
        tmp_path / "torch" / "_C.so",
        library,
    ]
    paths = f"-Wl,--disable-new-dtags,-rpath,{library.parent}"
    subprocess.run([*words, paths], check=True)
    (tmp_path / "torch" / "__init__.py").write_text(
        "import ctypes, os\ncount = ctypes.CDLL(os.path.join(os.path.dirname(__file__), '_C.so')).count\n"
    )
    program = "import torch; print('imported', flush=True); print(torch.count())"
    assert python(program, PYTHONPATH=str(tmp_path)) == f"imported\n-1\n{MESSAGE}"
