"""CUDA for tests: the names in its messages, the stand-in CUDA driver, and kernels.

`DEVMOD_TEST_CUDA=hardware` runs the tests with the real driver.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vendor import Vendor, library_class

from devmod_simulators import StandinDriver as Standin
from devmod_simulators import libcuda

if TYPE_CHECKING:
    import devmod

__all__ = ["CUDA", "Standin", "child_environment", "missing_driver", "on_hardware", "standin"]

#: NVIDIA's texts of errors, by the words of their names.
_TEXTS = {
    "illegal address": "an illegal memory access was encountered",
    "invalid value": "invalid argument",
    "launch out of resources": "too many resources requested for launch",
    "not found": "named symbol not found",
    "not supported": "operation not supported",
    "out of memory": "out of memory",
}


class Cuda(Vendor):
    """NVIDIA's driver: devmod-cuda, cuda-bindings, cuda.core and pycuda load libcuda by its
    soname.
    """

    kind, title, api, maker = "cuda", "CUDA", "CUDA", "NVIDIA"
    drivers = ("ctypes", "pycuda")
    variable = "DEVMOD_CUDA_DRIVER"
    format = "ptx"
    driver_library = libcuda
    device_name = "simulated GPU (devmod-simulators)"
    dlpack_type = 2
    legacy_stream = 1
    dlpack_streams = ((None, 1), (1, 1), (2, 2))
    pageable_bytes = 64 << 10
    functions = {
        "allocate": "cuMemAlloc",
        "allocate_host": "cuMemHostAlloc",
        "begin_capture": "cuStreamBeginCapture",
        "copy_on_device": "cuMemcpyDtoDAsync",
        "copy_to_device": "cuMemcpyHtoDAsync",
        "copy_to_host": "cuMemcpyDtoHAsync",
        "create_event": "cuEventCreate",
        "create_stream": "cuStreamCreate",
        "destroy_event": "cuEventDestroy",
        "destroy_executable": "cuGraphExecDestroy",
        "destroy_graph": "cuGraphDestroy",
        "destroy_stream": "cuStreamDestroy",
        "elapsed": "cuEventElapsedTime",
        "enter_context": "cuCtxPushCurrent",
        "fill": "cuMemsetD8Async",
        "free": "cuMemFree",
        "instantiate_graph": "cuGraphInstantiateWithFlags",
        "is_event_done": "cuEventQuery",
        "is_stream_done": "cuStreamQuery",
        "launch": "cuLaunchKernelEx",
        "launch_graph": "cuGraphLaunch",
        "load_module": "cuModuleLoadDataEx",
        "retain_primary_context": "cuDevicePrimaryCtxRetain",
        "synchronize_context": "cuCtxSynchronize",
        "synchronize_event": "cuEventSynchronize",
        "synchronize_stream": "cuStreamSynchronize",
        "unload_module": "cuModuleUnload",
        "wait_event": "cuStreamWaitEvent",
    }
    shared_memory_limit = "max_shared_memory_per_block_optin"
    first_use = ("retain_primary_context", "allocate", "create_stream", "synchronize_context")

    def error(self, text: str) -> str:
        return f"CUDA_ERROR_{text.upper().replace(' ', '_')} ({_TEXTS[text]})"

    def foreign_stream(self, library: str, handle: int, **values: Any) -> Any:
        if library == "own":  # the protocol of cuda.core
            return library_class(
                "Stream", "cuda.core", __cuda_stream__=lambda self: (0, self.handle)
            )(handle=handle)
        attribute = {"torch": "cuda_stream", "cupy": "ptr"}[library]
        return library_class("Stream", f"{library}.cuda")(**{attribute: handle, **values})

    def missing_driver(self, name: str) -> str:
        """Return why the driver cannot be opened so: pycuda is built by `make test-setup`, where
        that works.
        """
        if name == "ctypes" or find_spec("pycuda") is not None:
            return ""
        return "pycuda is not installed (make test-setup builds it; .venv/devmod-pycuda has the reason of a failure)"

    def kernels(self, *, executes: bool = True) -> devmod.Module:
        from cuda_kernels import adder

        return adder()

    def payload(self, source: str) -> bytes:
        from ptx_sources import ptx_of

        return ptx_of(source).encode()

    def child_environment(self, **settings: object) -> dict[str, str]:
        # A source is compiled to PTX: the stand-in driver runs no cubins.
        return {**super().child_environment(**settings), "CUDA_FORCE_PTX_JIT": "1"}


CUDA = Cuda(Path(__file__).resolve().parent)
on_hardware, missing_driver, child_environment = (
    CUDA.on_hardware,
    CUDA.missing_driver,
    CUDA.child_environment,
)
standin = CUDA.standin
