"""`devmod.device` with contexts and streams of pycuda, cuda.core and others, for CUDA alone.
plugins/driver-api/tests has the streams of both vendors.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from backend_checks import run_in_threads, run_python
from each_case import refusal, some
from foreign_context import foreign_context
from interruptible import run_storm
from standin_cuda import CUDA, Standin

import devmod
import devmod_cuda

pytestmark = pytest.mark.row("R57")
HOST = np.arange(64, dtype="float32")
LAUNCH = {"grid": 1, "block": 64}


@pytest.fixture
def pycuda(device: Any) -> Any:
    """pycuda's module of the driver."""
    module = pytest.importorskip("pycuda.driver", reason=CUDA.missing_driver("pycuda"))
    module.init()
    return module


@pytest.fixture
def context(pycuda: Any) -> Iterator[Any]:
    """A context that pycuda has made, as pycuda.autoinit does."""
    made = pycuda.Device(0).make_context()
    yield made
    gc.collect()
    made.pop()


@pytest.fixture
def core(device: Any) -> Any:
    """cuda.core, with the primary context."""
    module = pytest.importorskip("cuda.core")
    module.Device(0).set_current()
    return module


def needs_pycuda() -> None:
    """Skip a test whose child process imports pycuda, if that is not installed."""
    if reason := CUDA.missing_driver("pycuda"):
        pytest.skip(reason)


def copies(standin: Standin) -> int:
    """Return how many copies the driver has made."""
    return sum(map(standin.calls, ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync")))


def waits(standin: Standin) -> int:
    """Return how often a thread has waited."""
    return sum(
        map(standin.calls, ("cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"))
    )


# -- contexts that are no primary ones


@pytest.mark.each_driver
def test_a_context_of_pycuda(device: Any, context: Any, add: Any, standin: Standin) -> None:
    from pycuda import gpuarray

    adopted: Any = devmod.device(context)
    assert repr(adopted) == f"{device} over a Context of pycuda 0x{context.handle:x}"
    assert adopted is not device
    assert (adopted.kind, adopted.index, adopted.arch) == ("cuda", 0, device.arch)
    # The module is loaded, and memory allocated, in the context.
    own: Any = adopted.from_numpy(HOST)
    assert device.driver.locate(own.address)[0] == context.handle
    a, b = gpuarray.to_gpu(HOST), gpuarray.empty(64, "float32")
    add(a, own, b, 64, **LAUNCH)
    before = copies(standin), waits(standin)
    for function in (add, add.on(adopted)):
        function(a, own, b, 64, **LAUNCH)
        function(b, own, b, 64, **LAUNCH)
    assert (copies(standin), waits(standin)) == before
    assert b.get().tolist() == (3 * HOST).tolist()
    out = np.zeros(64, "float32")
    add.on(adopted)(HOST, HOST, out, 64, **LAUNCH)
    assert out.tolist() == (2 * HOST).tolist()


@pytest.mark.each_driver
def test_launches_run_between_the_callers_own_commands(
    device: Any, context: Any, add: Any, pycuda: Any, standin: Standin
) -> None:
    """The stand-in driver runs work of a stream only after what it depends on."""
    adopted: Any = devmod.device(context)
    a, b = adopted.zeros(64, "float32"), adopted.zeros(64, "float32")
    add(a, a, b, 64, **LAUNCH)
    before = waits(standin)
    pycuda.memset_d32_async(a.address, 0x3F800000, 64)  # 1.0, in the default stream
    add(a, a, b, 64, **LAUNCH)
    pycuda.memset_d32_async(a.address, 0, 64)
    add(a, b, a, 64, **LAUNCH)
    assert waits(standin) == before
    out = np.zeros(64, "float32")
    pycuda.memcpy_dtoh(out, a.address)
    assert out.tolist() == [2] * 64


@pytest.mark.each_driver
def test_one_context_has_one_device(context: Any, pycuda: Any) -> None:
    adopted: Any = devmod.device(context)
    assert devmod.device(context) is adopted
    assert devmod.device(pycuda.Context.get_current()) is adopted
    assert devmod_cuda.current_device() is adopted
    found = run_in_threads(lambda _: devmod.device(context), range(4))
    assert all(each is adopted for each in some(found))


@pytest.mark.each_driver
def test_a_primary_context_and_a_device_are_the_listed_device(
    device: Any, pycuda: Any, core: Any
) -> None:
    primary = pycuda.Device(0).retain_primary_context()
    for each in (primary, core.Device(0), core.Device(0).context):
        assert devmod.device(each) is device
    primary.push()
    assert devmod_cuda.current_device() is device
    primary.pop()


def test_adoption_makes_no_primary_context(environment: dict[str, str]) -> None:
    """That of a real GPU takes hundreds of megabytes."""
    needs_pycuda()
    assert run_python(
        "import devmod, pycuda.autoinit, pycuda.driver as cuda\n"
        "device = devmod.device(pycuda.autoinit.context)\n"
        "over_stream = devmod.device(cuda.Stream())\n"
        "print(device.zeros(4, 'float32').numpy(), over_stream.zeros(1, 'int8').numpy())\n"
        "print(devmod.device('cuda').is_open)\n",
        **environment,
    ) == ("[0. 0. 0. 0.] [0]\nFalse\n")


@pytest.mark.each_driver
def test_the_current_context(device: Any, add: Any) -> None:
    with foreign_context(device) as handle:
        adopted: Any = devmod_cuda.current_device()
        assert (adopted.context.handle, devmod_cuda.current_device()) == (handle, adopted)
        assert repr(adopted).startswith(f"{device} over a context that was current 0x")
        a = adopted.from_numpy(HOST)
        add(a, a, a, 64, **LAUNCH)
        assert a.numpy().tolist() == (2 * HOST).tolist()
        del a
        gc.collect()

    (text,) = run_in_threads(
        lambda _: refusal(devmod.ArgumentError, devmod_cuda.current_device), [0]
    )
    assert text == (
        "current_device: no CUDA context is current in this thread. Make one current with its library, or use devmod.device('cuda')"
    )


@pytest.mark.each_driver
def test_a_thread_without_the_context(context: Any, add: Any, pycuda: Any) -> None:
    """It is current during each operation, and not afterwards."""
    adopted: Any = devmod.device(context)
    a, c = adopted.from_numpy(HOST), adopted.zeros(64, "float32")
    launch = add.bind(a, a, c, 64, **LAUNCH)
    current = []

    def work() -> None:
        launch()
        add(c, a, c, 64, **LAUNCH)
        current.append(c.numpy().tolist())
        current.append(adopted.driver.call("current_context"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert current == [(3 * HOST).tolist(), 0]
    context.pop()
    launch()
    assert c.numpy().tolist() == (2 * HOST).tolist()
    assert adopted.driver.call("current_context") != context.handle
    context.push()


@pytest.mark.each_driver
def test_the_device_holds_the_context_and_nothing_else_does(
    pycuda: Any, add: Any, standin: Standin
) -> None:
    context = pycuda.Device(0).make_context()
    memory = standin.report
    adopted: Any = devmod.device(context)
    array = adopted.from_numpy(HOST)
    with adopted.stream() as stream:
        stream.synchronize()
    references: list[weakref.ref[Any]] = [weakref.ref(each) for each in (context, adopted)]
    context.pop()
    del context, stream
    gc.collect()
    assert all(each() is not None for each in references)
    assert array.numpy().tolist() == HOST.tolist()
    del adopted, array
    gc.collect()
    assert [each() for each in references] == [None, None]
    for name in ("streams", "events", "modules"):
        assert standin.report[name] <= memory[name]


@pytest.mark.each_driver
def test_a_context_that_its_library_has_destroyed(device: Any, add: Any, standin: Standin) -> None:
    """A driver may end the process for its handle, which another context may have. Nothing is freed
    in it.
    """
    use_after_its_end(device, add)
    gc.collect()


def use_after_its_end(device: Any, add: Any) -> None:
    """Check what a device and its objects do after the end of their context."""
    with foreign_context(device):
        adopted: Any = devmod_cuda.current_device()
        a = adopted.from_numpy(HOST)
        launch = add.bind(a, a, a, 64, **LAUNCH)
        stream, event = adopted.stream(), adopted.default_stream.record()
    lost = f"{adopted} cannot be used: its context was destroyed. Its arrays are lost. Pass another context to devmod.device"
    for use in (
        launch,
        a.numpy,
        adopted.stream,
        stream.synchronize,
        event.synchronize,
        adopted.synchronize,
        lambda: adopted.zeros(4, "float32"),
        lambda: add(a, a, a, 64, **LAUNCH),
    ):
        assert refusal(devmod.LaunchError, use) == lost
    with foreign_context(device):
        assert devmod_cuda.current_device() is not adopted


@pytest.mark.each_driver
def test_a_detached_context(device: Any) -> None:
    class Context:
        __module__ = "pycuda._driver"

        def __init__(self, handle: int) -> None:
            self.handle = handle

    with foreign_context(device) as handle:
        pass
    assert refusal(devmod.ArgumentError, devmod.device, Context(handle)) == (
        "device: a Context of pycuda is refused by the driver: cuCtxGetId: CUDA_ERROR_CONTEXT_IS_DESTROYED (context is destroyed). "
        "Its library may have destroyed it"
    )


def test_a_closed_stream(device: Any, core: Any, add: Any) -> None:
    stream = core.Device(0).create_stream()
    adopted: Any = devmod.device(stream)
    a = adopted.from_numpy(HOST)
    launch = add.bind(a, a, a, 64, **LAUNCH)
    stream.close()
    closed = f"<Stream of {adopted}> cannot be used: its library has closed it. Pass an open one to devmod.device, or as stream="
    for use in (launch, lambda: add(a, a, a, 64, **LAUNCH), adopted.default_stream.record):
        assert refusal(devmod.LaunchError, use) == closed
    assert refusal(devmod.ArgumentError, devmod.device, stream).startswith(
        "device: a Stream of cuda is not exported by its library: "
    )
    a.__dlpack__()  # it orders the work of the open streams


@pytest.mark.each_driver
def test_an_array_of_a_context_that_was_not_adopted(context: Any, device: Any, add: Any) -> None:
    from pycuda import gpuarray

    a = gpuarray.to_gpu(HOST)
    assert refusal(devmod.ArgumentError, add, a, a, a, 64, **LAUNCH) == (
        f"the cuda function 'add': argument 1 'a' belongs to another CUDA context of {device}, which has no device of devmod: make one with "
        "devmod.device(context), or with devmod_cuda.current_device() while the context is current, and keep it during the call"
    )
    kept = devmod.device(context)
    add(a, a, a, 64, **LAUNCH)
    kept.synchronize()
    b = device.zeros(64, "float32")
    text = refusal(devmod.ArgumentError, add, a, a, b, 64, **LAUNCH)
    assert text.startswith(
        f"the cuda function 'add': argument 3 'c' is on {device}, and argument 1 'a' is on {kept}; "
    )


# -- streams


@pytest.mark.each_driver
def test_a_stream_of_pycuda_brings_its_context(
    context: Any, pycuda: Any, add: Any, standin: Standin
) -> None:
    from pycuda import gpuarray

    stream = pycuda.Stream()
    adopted: Any = devmod.device(stream)
    assert " over a Stream of pycuda 0x" in repr(adopted)
    assert adopted.context.handle == context.handle
    assert (adopted.default_stream.handle, adopted.default_stream.owner) == (stream.handle, stream)
    a, b = gpuarray.to_gpu_async(HOST, stream=stream), gpuarray.empty(64, "float32")
    stream.synchronize()
    call = add.on(adopted)
    call(a, a, b, 64, **LAUNCH)
    before = copies(standin), waits(standin)
    call(a, b, b, 64, **LAUNCH)
    pycuda.memcpy_dtod_async(int(a.gpudata), int(b.gpudata), 256, stream)
    call(a, b, b, 64, **LAUNCH)
    assert waits(standin) == before[1]
    assert copies(standin) == before[0] + 1  # the caller's
    stream.synchronize()
    assert b.get().tolist() == (6 * HOST).tolist()


@pytest.mark.each_driver
def test_another_library_waits_for_the_launches(core: Any, add: Any, standin: Standin) -> None:
    """cuda.core's streams wait for the caller's own one, and for devmod's."""
    own, other = (core.Device(0).create_stream() for _ in range(2))
    adopted: Any = devmod.device(own)
    a, b = adopted.from_numpy(HOST), adopted.zeros(64, "float32")
    add(a, a, b, 64, **LAUNCH)
    before = waits(standin)
    add(a, b, b, 64, **LAUNCH)
    other.wait(own)
    other.wait(own.record())
    other.wait(adopted.default_stream)
    assert waits(standin) == before
    back = np.zeros(64, "float32")
    adopted.driver.call("copy_to_host", back.ctypes.data, b.address, 256, int(other.handle))
    other.sync()
    assert back.tolist() == (3 * HOST).tolist()


def test_objects_of_others_open_no_driver(environment: dict[str, str]) -> None:
    assert (
        run_python(
            "import sys, devmod_cuda\n"
            "class Stream: __module__ = 'pyopencl'\n"
            "print(devmod_cuda.adopt(Stream()), devmod_cuda.adopt(3))\n"
            "print([each for each in ('numpy', 'devmod_driver_api.driver') if each in sys.modules])\n",
            **environment,
        )
        == "None None\n[]\n"
    )


def test_a_forked_child(environment: dict[str, str]) -> None:
    """It uses nothing of the parent's, and frees nothing."""
    needs_pycuda()
    output = run_python(
        "import os, devmod, pycuda.autoinit\n"
        "context = pycuda.autoinit.context\n"
        "device = devmod.device(context)\n"
        "array = device.zeros(4, 'float32')\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    for use in (lambda: devmod.device(context), array.numpy):\n"
        "        try: use()\n"
        "        except devmod.LaunchError as error: print(error, flush=True)\n"
        "    del array, device\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(array.numpy())\n",
        **environment,
    )
    *errors, last = output.splitlines()
    assert last == "[0. 0. 0. 0.]"
    assert len(errors) == 2
    assert all(
        each.startswith("cuda devices cannot be used in this process: it was forked ")
        for each in errors
    )


INTERRUPTED = """
import gc
import numpy as np, pycuda.autoinit, pycuda.driver as cuda
import devmod
from cuda_kernels import adder

context, stream, ones = pycuda.autoinit.context, cuda.Stream(), np.ones(64, "float32")
add = adder()["add"]

def body():
    for owner in (context, stream):
        device = devmod.device(owner)
        x = device.from_numpy(ones)
        add.on(device)(x, x, x, 64, grid=1, block=64)

body()
storm(body, 1, 150, longest=3e-3)
signal.setitimer(signal.ITIMER_REAL, 0)
gc.collect()
for owner in (context, stream):
    device = devmod.device(owner)
    x = device.from_numpy(ones)
    add.on(device)(x, x, x, 64, grid=1, block=64)
    print(x.numpy().sum(), devmod.device(owner) is device)
print(cuda.Context.get_current().handle == context.handle)
"""


@pytest.mark.row("R61")
def test_interrupts(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interrupt at any point, the context of the caller is current, and the device of an
    object is one.
    """
    needs_pycuda()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert run_storm(INTERRUPTED).splitlines() == ["128.0 True", "128.0 True", "True"]
