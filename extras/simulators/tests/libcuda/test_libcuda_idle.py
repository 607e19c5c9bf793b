"""Work that no call waits for: the stand-in CUDA driver runs it after a while, as a driver does."""

from __future__ import annotations

import pytest
from cuda_process import run

HEAD = '''
import ctypes, sys, threading, time
open_device()
text = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry count(.param .u64 number) { .reg .u64 %r; .reg .u32 %v;
ld.param.u64 %r, [number]; atom.global.add.u32 %v, [%r], 1; ret; }
.visible .entry reply(.param .u64 flags) { .reg .u64 %r; .reg .u32 %v; .reg .pred %p;
ld.param.u64 %r, [flags];
W: ld.volatile.global.u32 %v, [%r]; setp.eq.u32 %p, %v, 0; @%p bra W;
st.volatile.global.u32 [%r+4], 7; ret; }
"""
module = check(cuda.cuModuleLoadData(text))
def launch(name, address, stream=0):
    kernel = check(cuda.cuModuleGetFunction(module, name))
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, ((address,), (ctypes.c_void_p,)), 0))
def mapped():
    memory = check(cuda.cuMemHostAlloc(8, cuda.CU_MEMHOSTALLOC_DEVICEMAP))
    numbers = (ctypes.c_uint32 * 2).from_address(memory)
    numbers[:] = 0, 0
    return memory, numbers
def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
done = threading.Event()
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def note(data):
    done.set()
def call(stream):
    check(cuda.cuLaunchHostFunc(stream, cuda.CUhostFn(_ptr=ctypes.addressof(note)), 0))
'''
FAULT = (
    "devmod-simulators: count: atomic access of 4 bytes at global address 0x10 is out of bounds, "
    "kernel count, block (0, 0, 0), thread (0, 0, 0), PTX line 6 (atom.global.add.u32)\n"
)
#: A wait for what each of several streams counts, the last after the others.
STREAMS = """
memory, numbers = mapped()
streams = [check(cuda.cuStreamCreate(1)) for _ in range(20)]
for stream in streams:
    launch(b"count", memory, stream)
    event = check(cuda.cuEventCreate(0))
    check(cuda.cuEventRecord(event, stream))
    check(cuda.cuStreamWaitEvent(streams[-1], event, 0))
launch(b"count", memory + 4, streams[-1])
until(lambda: numbers[1])
print(*numbers)
"""


@pytest.mark.parametrize("checks", ["", "bounds,race"])
def test_a_program_waits_for_a_host_function_by_a_condition(checks: str) -> None:
    code = "call(check(cuda.cuStreamCreate(1))); print(done.wait(60))"
    assert run(HEAD + code, sanitize=checks) == "True\n"


def test_a_program_reads_memory_until_kernels_have_written_there() -> None:
    assert run(HEAD + STREAMS) == "20 1\n"


def test_a_kernel_waits_for_the_program_which_makes_calls_meanwhile() -> None:
    code = """
memory, numbers = mapped()
stream, other = (check(cuda.cuStreamCreate(1)) for _ in range(2))
launch(b"reply", memory, stream)
time.sleep(1)
begin = time.monotonic()
print(numbers[1], cuda.cuStreamQuery(stream)[0].name)
check(cuda.cuMemsetD32Async(memory, 1, 1, other))
check(cuda.cuStreamSynchronize(other))
until(lambda: numbers[1])
check(cuda.cuStreamSynchronize(stream))
launch(b"count", memory, other)
check(cuda.cuCtxSynchronize())
print(*numbers, time.monotonic() - begin < 20)
"""
    assert run(HEAD + code, idle_ms=90) == "0 CUDA_ERROR_NOT_READY\n2 7 True\n"


def test_a_program_makes_calls_that_wait_for_nothing() -> None:
    code = """
call(check(cuda.cuStreamCreate(1)))
until(lambda: check(cuda.cuCtxGetCurrent()) and done.is_set())
print(done.is_set())
"""
    assert run(HEAD + code, idle_ms=30) == "True\n"


def test_a_call_comes_first() -> None:
    """Without a wait, old data shows: nothing runs while the program makes calls."""
    code = """
memory, numbers = mapped()
launch(b"count", memory)
print(*numbers)
check(cuda.cuCtxSynchronize())
print(*numbers)
"""
    assert run(HEAD + code) == "0 0\n1 0\n"


def test_a_setting_keeps_work_until_a_call() -> None:
    code = "call(0); print(done.wait(1)); check(cuda.cuCtxSynchronize()); print(done.is_set())"
    assert run(HEAD + code, idle_ms=0) == "False\nTrue\n"


def test_a_fault_without_a_call_is_sticky() -> None:
    code = """
launch(b"count", 16)
until(lambda: time.sleep(0.5) or cuda.cuMemAlloc(16)[0])
print(cuda.cuMemAlloc(16)[0].name)
"""
    assert run(HEAD + code, FAULT, idle_ms=60) == "CUDA_ERROR_ILLEGAL_ADDRESS\n"


def test_a_process_forks_and_ends_with_work_that_nobody_waits_for() -> None:
    code = """
import warnings
warnings.simplefilter("ignore")
memory, numbers = mapped()
launch(b"reply", memory)
call(0)
time.sleep(1)
child = os.fork()
if not child:
    print(cuda.cuMemAlloc(16)[0].name, flush=True)
    sys.exit()
print(os.waitpid(child, 0)[1], done.is_set(), flush=True)
"""
    assert run(HEAD + code, idle_ms=90) == "CUDA_ERROR_NOT_INITIALIZED\n0 False\n"


def test_no_thread_stays_without_work() -> None:
    code = """
memory, numbers = mapped()
launch(b"count", memory)
check(cuda.cuCtxSynchronize())
until(lambda: len(os.listdir("/proc/self/task")) == 1)
launch(b"count", memory)
until(lambda: numbers[0] == 2)
until(lambda: len(os.listdir("/proc/self/task")) == 1)
print(*numbers)
"""
    assert run(HEAD + code, idle_ms=60) == "2 0\n"
