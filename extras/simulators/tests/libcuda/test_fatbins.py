"""Fatbins: the member that fits a device, compressed or not."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_calls import driver, errors, read, zeros
from ptx_sources import ptx_of

from devmod_simulators import StandinDriver, libcuda

nvfatbin = pytest.importorskip("cuda.bindings.nvfatbin", reason="cuda-bindings has no nvfatbin")
pytestmark = pytest.mark.usefixtures("context")

#: The number that a kernel stores: each member has its own.
SOURCE = 'extern "C" __global__ void k(int *x) { *x = %d; }'


def fatbin(*images: tuple[str, str, bytes], options: tuple[str, ...] = ()) -> bytes:
    """Return a fatbin of images: kind, architecture, and bytes."""
    handle = nvfatbin.create(list(options), len(options))
    for kind, arch, image in images:
        if kind == "ptx":
            nvfatbin.add_ptx(handle, image, len(image), arch, "name", "")
        else:
            nvfatbin.add_cubin(handle, image, len(image), arch, "name")
    data = bytearray(nvfatbin.size(handle))
    nvfatbin.get(handle, data)
    nvfatbin.destroy(handle)
    return bytes(data)


def ptx(arch: str, number: int = 0) -> tuple[str, str, bytes]:
    """Return an image, whose kernel stores the number."""
    text = ptx_of(SOURCE % number, f"--gpu-architecture=compute_{arch}")
    return "ptx", arch, text.encode() + b"\0"


def cubin() -> tuple[str, str, bytes]:
    """Return an image without PTX."""
    folder = Path(__file__).parents[4] / "compilers" / "targets" / "tests" / "vectors" / "triton"
    return "cubin", "90", (folder / "add.cuda.cubin").read_bytes()


def stored(image: bytes) -> int:
    """Return what the kernel of an image stores."""
    function = driver.cuModuleGetFunction(driver.cuModuleLoadData(image), b"k")
    target = zeros(1)
    driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ((int(target),), (ctypes.c_void_p,)), 0)
    (value,) = read(target, 1)
    return int(value)


COMPRESSIONS: dict[str, tuple[tuple[str, ...], int]] = {
    "none": (("-compress=false",), 0),
    "lz4": (("-compress-all", "-compress-mode=speed"), 1 << 13),
    "zstd": (("-compress-all", "-compress-mode=size"), 1 << 15),
}


def flags(image: bytes) -> int:
    """Return how the first member is compressed: bit 13 is LZ4, bit 15 zstd."""
    return int.from_bytes(image[16 + 40 : 16 + 48], "little") & (1 << 13 | 1 << 15)


@pytest.mark.volume_but("lz4", "zstd")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_compressed_member_runs(compression: str) -> None:
    options, flag = COMPRESSIONS[compression]
    image = fatbin(ptx("90", 7), options=options)
    assert flags(image) == flag
    assert stored(image) == 7


@pytest.mark.volume_but("90-members0-90", "103-members3-90")
@pytest.mark.parametrize(
    ("device", "members", "taken"),
    [
        ("90", ["75", "90", "100"], "90"),
        ("89", ["75", "90", "80"], "80"),
        ("90", ["80", "90a"], "90a"),
        ("103", ["90", "100a"], "90"),
        ("103", ["90", "100f"], "100f"),
        ("120", ["90", "100f"], "90"),
    ],
)
def test_the_newest_member_that_a_device_takes(
    device: str, members: list[str], taken: str, standin: StandinDriver
) -> None:
    standin.set("arch", device)
    images = [ptx(arch, number) for number, arch in enumerate(members)]
    assert stored(fatbin(*images)) == members.index(taken)


def refused(
    image: bytes, standin: StandinDriver, capfd: pytest.CaptureFixture[str]
) -> tuple[str, str]:
    """Return the error of an image and its reason, which standard error has too."""
    capfd.readouterr()
    name = errors.cuModuleLoadData(image)
    assert capfd.readouterr().err == f"devmod-simulators: {standin.reason}\n"
    return name, standin.reason


@pytest.mark.volume_but("sm_90")
@pytest.mark.parametrize(
    ("members", "names"),
    [([], "sm_90"), (["100", "100a", "100f"], "sm_90, compute_100, compute_100a, compute_100f")],
    ids=["sm_90", "newer"],
)
def test_a_program_without_ptx_is_told_the_flag(
    members: list[str], names: str, standin: StandinDriver, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once: each file of a program has a fatbin."""
    image = fatbin(cubin(), *map(ptx, members))
    assert refused(image, standin, capfd) == (
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        f"the program has no PTX that the simulated GPU, sm_90, takes: its fatbin has {names}. Build it below `devmod simulate`, "
        "or with -gencode arch=compute_90,code=compute_90 of nvcc (CMake: -DCMAKE_CUDA_ARCHITECTURES=90)",
    )
    assert errors.cuModuleLoadData(image) == "CUDA_ERROR_NO_BINARY_FOR_GPU"
    assert capfd.readouterr().err == ""


@pytest.mark.volume_but("zstd")
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_member_that_is_damaged(
    compression: str, standin: StandinDriver, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is allocated on the word of the file."""
    image = fatbin(ptx("90"), options=COMPRESSIONS[compression][0])
    size = int.from_bytes(image[32:36], "little")
    claims = image[:72] + (1 << 40).to_bytes(8, "little") + image[80:]
    assert refused(claims, standin, capfd) == (
        "CUDA_ERROR_INVALID_IMAGE",
        "the CUDA fatbin is invalid: the member at byte 16 has 1099511627776 bytes after "
        f"decompression of {size}, which is over the limit",
    )
    plain = int.from_bytes(image[72:80], "little")
    for wrong in (plain - 1, plain + 1):
        name, reason = refused(
            image[:72] + wrong.to_bytes(8, "little") + image[80:], standin, capfd
        )
        assert name == "CUDA_ERROR_INVALID_IMAGE"
        assert "damaged" in reason or f"expected {wrong}" in reason
    outside = image[:24] + (1 << 40).to_bytes(8, "little") + image[32:]
    assert errors.cuModuleLoadData(outside) == "CUDA_ERROR_INVALID_IMAGE"


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python has zstd")
def test_a_python_without_zstd_names_the_option_of_nvcc(tmp_path: Path) -> None:
    hides = "import sys; sys.modules['backports.zstd'] = None"
    (tmp_path / "sitecustomize.py").write_text(hides)
    (tmp_path / "image").write_bytes(fatbin(ptx("90"), options=COMPRESSIONS["zstd"][0]))
    program = (
        "import ctypes\ncuda = ctypes.CDLL('libcuda.so.1')\ncontext, module = ctypes.c_void_p(), ctypes.c_void_p()\n"
        "cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)\n"
        "print(cuda.cuModuleLoadData(ctypes.byref(module), open('image', 'rb').read()))"
    )
    environment = os.environ | libcuda.environment() | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "801\n"
    assert done.stderr == (
        "devmod-simulators: a member of the CUDA fatbin is compressed with zstd, and cannot be read: "
        'backports.zstd is not installed. To add it: pip install "devmod-readers[zstd]", or make the fatbin with --compress-mode=none\n'
    )
