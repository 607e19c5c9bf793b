"""ROCm for tests: the names in its messages, the stand-in HIP runtime, and kernels.

`DEVMOD_TEST_ROCM=hardware` runs the tests with the real runtime.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from vendor import Vendor, library_class

from devmod_simulators import StandinDriver as Standin
from devmod_standins import libamdhip64, rdna3

if TYPE_CHECKING:
    import devmod

__all__ = [
    "ROCM",
    "SONAME",
    "Standin",
    "child_environment",
    "device_arch",
    "library",
    "needs_emulator",
    "on_hardware",
    "standin",
]


class Rocm(Vendor):
    """HIP's runtime: devmod-rocm and hip-python load libamdhip64 by its name. hip-python's streams
    are arguments of launches.
    """

    kind, title, api, maker = "rocm", "ROCm", "HIP", "AMD"
    format = "hsaco"
    #: Its name is the one by which hip-python loads the runtime, and the first that devmod-rocm
    #: tries.
    driver_library = libamdhip64
    device_name = "stand-in runtime (no GPU)"
    dlpack_type = 10
    legacy_stream = 0
    dlpack_streams = ((None, 1), (0, 1))
    pageable_bytes = 0  # HIP documents none
    executes_slowly = True  # the emulator is imported
    functions = {
        "allocate": "hipMalloc",
        "allocate_host": "hipHostMalloc",
        "begin_capture": "hipStreamBeginCapture",
        "copy_on_device": "hipMemcpyDtoDAsync",
        "copy_to_device": "hipMemcpyHtoDAsync",
        "copy_to_host": "hipMemcpyDtoHAsync",
        "create_event": "hipEventCreateWithFlags",
        "create_stream": "hipStreamCreateWithFlags",
        "destroy_event": "hipEventDestroy",
        "destroy_executable": "hipGraphExecDestroy",
        "destroy_graph": "hipGraphDestroy",
        "destroy_stream": "hipStreamDestroy",
        "elapsed": "hipEventElapsedTime",
        "enter_context": "hipSetDevice",
        "fill": "hipMemsetD8Async",
        "free": "hipFree",
        "instantiate_graph": "hipGraphInstantiateWithFlags",
        "is_event_done": "hipEventQuery",
        "is_stream_done": "hipStreamQuery",
        "launch": "hipModuleLaunchKernel",
        "launch_graph": "hipGraphLaunch",
        "load_module": "hipModuleLoadData",
        "synchronize_context": "hipDeviceSynchronize",
        "synchronize_event": "hipEventSynchronize",
        "synchronize_stream": "hipStreamSynchronize",
        "unload_module": "hipModuleUnload",
        "wait_event": "hipStreamWaitEvent",
    }
    shared_memory_limit = "max_shared_memory_per_block"
    first_use = ("enter_context", "allocate", "create_stream", "synchronize_context")

    def error(self, text: str) -> str:
        return f"hipError{text.title().replace(' ', '')} ({text})"

    def foreign_stream(self, library: str, handle: int, **values: Any) -> Any:
        if library == "own":
            return library_class(
                "ihipStream_t", "rocm.bindings.hip", __int__=lambda self: self.handle
            )(handle=handle)
        name, attribute = {"torch": ("Stream", "cuda_stream"), "cupy": ("ExternalStream", "ptr")}[
            library
        ]
        return library_class(name, f"{library}.cuda")(**{attribute: handle, **values})

    def missing_execution(self) -> str:
        """Return why no machine code of gfx1100 can be executed here; "" if it can."""
        return "" if self.on_hardware() else rdna3.missing()

    def driver_environment(self, name: str, folder: Path) -> dict[str, str]:
        from rocm_kernels import VARIABLE, payload

        kernels = folder / "kernels.devmod"
        kernels.write_bytes(payload())
        return {**super().driver_environment(name, folder), VARIABLE: str(kernels)}

    def kernels(self, *, executes: bool = True) -> devmod.Module:
        from rocm_kernels import module

        return module(executes=executes)

    def payload(self, source: str) -> bytes:
        from hip_modules import code_object

        return code_object(source)


ROCM = Rocm(Path(__file__).resolve().parent)
SONAME = ROCM.library
on_hardware, child_environment = ROCM.on_hardware, ROCM.child_environment
library, standin, needs_emulator = ROCM.built_library, ROCM.standin, ROCM.needs_execution


@cache
def device_arch() -> str:
    """Return the processor that the tests compile for: the emulator's, or that of the first device,
    which another process asks for.
    """
    if not on_hardware():
        return rdna3.TARGET
    code = "import devmod; print(devmod.device('rocm').arch)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    if process.returncode:
        pytest.skip(f"this machine has no ROCm device: {process.stderr.strip().splitlines()[-1]}")
    return process.stdout.strip()
