"""The stand-in CUDA driver in processes of its own: what a test of this process cannot change, and
what other tests must not see.
"""

from __future__ import annotations

import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from cuda_process import run

import devmod
from devmod_simulators import StandinDriver, _toolkit


def test_other_tests_of_this_process_see_no_device(standin: StandinDriver) -> None:
    standin.hide()
    with pytest.raises(devmod.DeviceNotFoundError):
        devmod.device("cuda")
    assert "cuda" not in {device.kind for device in devmod.devices()}


DEVICES = """
check(cuda.cuInit(0))
count = check(cuda.cuDeviceGetCount())
print([check(cuda.cuDeviceComputeCapability(check(cuda.cuDeviceGet(i)))) for i in range(count)])
"""


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"devices": 2, "arch": "90,80"}, "[(9, 0), (8, 0)]\n"),
        (
            {"devices": 3, "arch": "90,80,100", "CUDA_VISIBLE_DEVICES": "2,0,7,1"},
            "[(10, 0), (9, 0)]\n",
        ),
    ],
)
def test_devices_and_their_architectures(settings: dict[str, object], expected: str) -> None:
    assert run(DEVICES, **settings) == expected


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"devices": 0}, "NO_DEVICE"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "NO_DEVICE"),
        ({"fail": "cuInit=803"}, "SYSTEM_DRIVER_MISMATCH"),
    ],
)
def test_a_driver_without_devices(settings: dict[str, object], name: str) -> None:
    assert run("print(cuda.cuInit(0)[0].name)", **settings) == f"CUDA_ERROR_{name}\n"


@pytest.mark.parametrize(("limit", "size"), [("AS", 1 << 34), ("FSIZE", 1 << 20)])
def test_a_limit_of_the_process_is_named(limit: str, size: int) -> None:
    """Each call has it: those who ask again, and the text of the error."""
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_{limit}, ({size}, {size}))\n"
        "for _ in range(2): result = cuda.cuInit(0)[0]\n"
        "print(result.name, check(cuda.cuGetErrorString(result)).decode())"
    )
    reason = (
        "the simulated GPU cannot start: the memory of its devices cannot be reserved: a limit of "
        "this process forbids it (ulimit -v, ulimit -f)"
    )
    assert run(code, f"devmod-simulators: {reason}\n" * 2) == (
        "CUDA_ERROR_OPERATING_SYSTEM OS call failed or operation not supported on this OS: "
        f"{reason}\n"
    )


def test_an_older_driver_lacks_newer_functions() -> None:
    code = """
open_device()
try:
    cuda.cuFuncGetParamInfo(0, 0)
except RuntimeError as error:
    print(check(cuda.cuDriverGetVersion()), "cuFuncGetParamInfo" in str(error))
"""
    assert run(code, driver_version=12020) == "12020 True\n"


def test_a_forked_child_has_no_driver() -> None:
    code = """
open_device()
child = os.fork()
if not child:
    print(cuda.cuInit(0)[0].name, cuda.cuMemAlloc(16)[0].name, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(cuda.cuMemAlloc(16)[0].name)
"""
    assert run(code) == "CUDA_ERROR_NOT_INITIALIZED CUDA_ERROR_NOT_INITIALIZED\nCUDA_SUCCESS\n"


def test_each_device_has_its_memory_and_kernels_need_access_to_a_peer() -> None:
    code = """
check(cuda.cuInit(0))
first, second = (check(cuda.cuDevicePrimaryCtxRetain(check(cuda.cuDeviceGet(i)))) for i in range(2))
check(cuda.cuCtxSetCurrent(second))
pointer = check(cuda.cuMemAlloc(1 << 20))
print(check(cuda.cuMemGetInfo()))
stream = check(cuda.cuStreamCreate(0))
check(cuda.cuCtxSetCurrent(first))
print(check(cuda.cuMemGetInfo()))
print(check(cuda.cuPointerGetAttribute(cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer)))
print(cuda.cuCtxEnablePeerAccess(second, 0)[0].name, cuda.cuCtxEnablePeerAccess(second, 0)[0].name)
"""
    assert run(code, devices=2, memory=1 << 21) == (
        "(1048576, 2097152)\n(2097152, 2097152)\n1\nCUDA_SUCCESS CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED\n"
    )


def test_a_primary_context_lives_as_long_as_it_is_retained() -> None:
    code = """
open_device()
device = check(cuda.cuDeviceGet(0))
handle = int(check(cuda.cuDevicePrimaryCtxRetain(device)))
pointer = check(cuda.cuMemAlloc(16))
print(handle == int(check(cuda.cuCtxGetCurrent())), cuda.cuDevicePrimaryCtxRelease(device)[0].name, cuda.cuMemsetD8(pointer, 0, 16)[0].name)
print(cuda.cuDevicePrimaryCtxRelease(device)[0].name, cuda.cuMemAlloc(16)[0].name)
check(cuda.cuDevicePrimaryCtxRetain(device))
print(check(cuda.cuMemGetInfo())[0] == check(cuda.cuDeviceTotalMem(device)), cuda.cuMemsetD8(pointer, 0, 16)[0].name)
"""
    assert run(code) == (
        "True CUDA_SUCCESS CUDA_SUCCESS\nCUDA_SUCCESS CUDA_ERROR_CONTEXT_IS_DESTROYED\nTrue CUDA_ERROR_INVALID_VALUE\n"
    )


def test_threads_with_functions_of_python_in_their_streams() -> None:
    code = """
import ctypes, threading
open_device()
context = check(cuda.cuCtxGetCurrent())
done = []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def note(data):
    done.append(data)
def work(number):
    check(cuda.cuCtxSetCurrent(context))
    stream, event = check(cuda.cuStreamCreate(number % 2)), check(cuda.cuEventCreate(0))
    memory = check(cuda.cuMemAlloc(64))
    for i in range(100):
        check(cuda.cuMemsetD32Async(memory, i, 16, stream))
        check(cuda.cuLaunchHostFunc(stream, cuda.CUhostFn(_ptr=ctypes.addressof(note)), 100 * number + i + 1))
        check(cuda.cuEventRecord(event, stream))
        if i % 3 == 0:
            check(cuda.cuEventSynchronize(event))
        if i % 10 == 0:
            check(cuda.cuCtxSynchronize())
    check(cuda.cuStreamSynchronize(stream))
    check(cuda.cuMemFree(memory))
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print([[value for value in done if (value - 1) // 100 == number] == list(range(100 * number + 1, 100 * number + 101)) for number in range(4)])
"""
    assert run(code) == "[True, True, True, True]\n"


def test_a_report_is_written_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "report"
    run("open_device(); check(cuda.cuMemAlloc(100)); cuda.cuMemFree(5)", report=path)
    lines = path.read_text().splitlines()
    assert {"contexts 1", "device-0-blocks 1", "device-0-bytes 100"} <= set(lines)
    assert lines[-1] == "violation 0x5 is freed and is not the start of a device allocation"


def test_a_device_pointer_cannot_be_dereferenced() -> None:
    code = "import ctypes, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nopen_device(); ctypes.string_at(int(check(cuda.cuMemAlloc(16))), 1)"
    run(code, ends=-signal.SIGSEGV)


def test_a_truncated_image_is_refused() -> None:
    code = """
import ctypes, mmap
from cuda.bindings import nvrtc
open_device()
program = check(nvrtc.nvrtcCreateProgram(b'extern "C" __global__ void k() {}', b"k.cu", 0, [], []))
nvrtc.nvrtcCompileProgram(program, 2, [b"--gpu-architecture=sm_90", b"--no-cache"])
size = check(nvrtc.nvrtcGetCUBINSize(program))
cubin = bytearray(size)
nvrtc.nvrtcGetCUBIN(program, cubin)
room = mmap.mmap(-1, 8192)
start = ctypes.addressof(ctypes.c_char.from_buffer(room))
ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + 4096), 4096, 0)
ctypes.memmove(start + 4096 - 500, bytes(cubin[:500]), 500)
print(cuda.cuModuleLoadData(start + 4096 - 500)[0].name, cuda.cuModuleLoadData(bytes(cubin))[0].name)
"""
    assert run(code, skip_cubins=1) == "CUDA_ERROR_INVALID_IMAGE CUDA_SUCCESS\n"


def test_a_worker_that_ends_is_an_error_and_no_signal() -> None:
    code = """
import signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
open_device()
def load():
    print(cuda.cuModuleLoadData(b".version 9.0\\n.target sm_90\\n.address_size 64\\n\\0")[0].name)
load()
"""
    reason = "devmod-simulators: the worker did not start: No such file or directory\n"
    assert run(code, reason, worker="/missing/program") == "CUDA_ERROR_UNKNOWN\n"
    reason = "devmod-simulators: the worker has ended; its standard error has the reason\n" * 2
    assert run(code + "os.wait()\nload()", reason, worker="/bin/true") == "CUDA_ERROR_UNKNOWN\n" * 2


ENDLESS = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 flag) {{ .reg .u64 %r; .reg .f32 %f; ld.param.u64 %r, [flag]; st.global.u32 [%r], 1; mov.f32 %f, 0f00000000;
l: {"sin.approx.f32 %f, %f; " * 99} bra l; }}
"""


@pytest.mark.volume_but("SIGKILL")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_the_worker_of_a_killed_program_ends_within_a_kernel(name: str) -> None:
    """It has the program's standard error, which ends with the last process. The kernel would end
    after minutes: its steps are counted.
    """
    code = f"""
import ctypes, os, signal, threading
open_device()
flag = check(cuda.cuMemHostAlloc(4, 0))
value = ctypes.c_int.from_address(flag)
kernel = check(cuda.cuModuleGetFunction(check(cuda.cuModuleLoadData({ENDLESS.encode()!r})), b"k"))
check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1024, 1, 1, 0, 0, ((flag,), (ctypes.c_void_p,)), 0))
def kill():
    while value.value != 1:
        pass
    os.kill(os.getpid(), signal.{name})
threading.Thread(target=kill).start()
check(cuda.cuCtxSynchronize())
"""
    run(code, ends=-getattr(signal, name))


@pytest.mark.skipif(
    find_spec("pycuda") is None, reason="pycuda is not installed (make test-setup builds it)"
)
def test_pycuda_has_the_same_driver() -> None:
    code = """
import pycuda.driver
pycuda.driver.init()
context = pycuda.driver.Device(0).retain_primary_context()
context.push()
check(cuda.cuInit(0))
memory = pycuda.driver.mem_alloc(16)
print(int(check(cuda.cuCtxGetCurrent())) == context.handle, check(cuda.cuMemGetAddressRange(int(memory)))[1])
del memory
context.pop()
"""
    assert run(code) == "True 16\n"


LAUNCHES = '''
open_device()
text = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry plain() { ret; }
.visible .entry video() {
.reg .b32 %a; mov.u32 %a, %tid.x; vabsdiff2.u32.u32.u32 %a, %a, %a, %a; ret;
}
"""
module = check(cuda.cuModuleLoadData(text))
for name in (b"plain", b"video", b"video"):
    function = check(cuda.cuModuleGetFunction(module, name))
    check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
check(cuda.cuCtxSynchronize())
'''


@pytest.mark.skipif(find_spec("llvmlite") is None, reason="llvmlite is not installed")
@pytest.mark.parametrize(
    ("engine", "shown"),
    [
        (
            "compiled",
            "devmod-simulators: the interpreter executes video: vabsdiff2.u32.u32.u32: rare\n"
            "devmod-simulators: 1 launches compiled, 2 interpreted\n",
        ),
        ("interpreter", "devmod-simulators: 0 launches compiled, 3 interpreted\n"),
    ],
)
def test_a_setting_shows_what_is_interpreted(engine: str, shown: str) -> None:
    run(LAUNCHES, shown, verbose=1, engine=engine)
    run(LAUNCHES, engine=engine)


def test_the_driver_has_a_name_without_a_version_also_without_a_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source tree lacks the runtimes whose headers are not installed."""
    monkeypatch.setattr("devmod_simulators._toolkit._runtimes", dict)
    monkeypatch.setattr("devmod_simulators._toolkit.find_nvcc", str)
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    folder, rest = _toolkit.variables("/others")["LD_LIBRARY_PATH"].split(os.pathsep, 1)
    assert [path.name for path in Path(folder).iterdir()] == ["libcuda.so"]
    assert rest == "/others"
