"""A plugin of pytest for Triton's tests, with PyTorch for the CPU: what they make on "cuda" is made
on the CPU, and each launch copies the tensors that it uses to the simulated GPU, and back.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from triton.backends.nvidia.driver import CudaLauncher

DRIVER = ctypes.CDLL("libcuda.so.1")
DRIVER.cuMemcpyHtoD_v2.argtypes = (ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t)
DRIVER.cuMemcpyDtoH_v2.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t)
DRIVER.cuMemFree_v2.argtypes = (ctypes.c_uint64,)

launch_kernel = CudaLauncher.__call__
#: During a launch: storages by their address, with the address of the copy.
copies: dict[int, tuple[torch.UntypedStorage, int]] | None = None
#: Storages whose addresses a program has in a tensor of pointers, as in `copies`, in all launches.
addressed: dict[int, tuple[torch.UntypedStorage, int]] = {}


def check(code: int) -> None:
    """Raise an error of the driver with its text."""
    if code:
        text = ctypes.c_char_p()
        DRIVER.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError((text.value or b"").decode())


def launch(*arguments: Any) -> None:
    """Launch a kernel, wait for it, and copy its tensors back."""
    global copies
    copies = dict(addressed)
    try:
        for host, (storage, device) in addressed.items():
            check(DRIVER.cuMemcpyHtoD_v2(device, host, storage.nbytes()))
        launch_kernel(*arguments)
        check(DRIVER.cuCtxSynchronize())
        for host, (storage, device) in copies.items():
            check(DRIVER.cuMemcpyDtoH_v2(host, device, storage.nbytes()))
    finally:
        for host in copies.keys() - addressed.keys():
            DRIVER.cuMemFree_v2(copies[host][1])
        copies = None


def data_ptr(tensor: torch.Tensor) -> int:
    """Return the address of a tensor, in a launch that of its copy."""
    start = int(tensor.untyped_storage().data_ptr())
    if copies is not None and start:
        start = copy_of(tensor, copies)
    return start + int(tensor.storage_offset() * tensor.element_size())


def copy_of(tensor: torch.Tensor, known: dict[int, tuple[torch.UntypedStorage, int]]) -> int:
    """Return the address of the copy of a tensor's storage, made if it is not among the known."""
    storage = tensor.untyped_storage()
    host = int(storage.data_ptr())
    if host not in known:
        device = ctypes.c_uint64()
        # PyTorch's memory is longer too: an atomic of 16 bits accesses the 32 bits around them.
        size = -(-storage.nbytes() // 4) * 4
        check(DRIVER.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(size)))
        known[host] = storage, device.value
        check(DRIVER.cuMemcpyHtoD_v2(device, host, storage.nbytes()))
    return known[host][1]


class OnCpu(TorchFunctionMode):  # type: ignore[misc]
    """Make on the CPU what is asked for on "cuda"."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        _types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function of PyTorch."""
        named = {name: on_cpu(value) for name, value in (kwargs or {}).items()}
        if function is torch.Tensor.cuda:
            return args[0]
        return function(*map(on_cpu, args), **named)


def on_cpu(value: Any) -> Any:
    """Return the CPU for "cuda", and another value as it is."""
    is_device = isinstance(value, (str, torch.device))
    if is_device and str(value).startswith("cuda"):
        return "cpu"
    return value


def nothing(*_arguments: object) -> int:
    """Return 0: the number of the device, the handle of the stream."""
    return 0


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Leave a sample: every 40th case of each test, and at least that in the middle."""
    sample: list[pytest.Function] = []
    for _, group in groupby(list(items), lambda item: item.originalname):
        cases = list(group)
        sample += cases[len(cases) // 2 % 40 :: 40]
    items[:] = sample


context = ctypes.c_void_p()
check(DRIVER.cuInit(0))
check(DRIVER.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(DRIVER.cuCtxSetCurrent(context))
CudaLauncher.__call__ = launch
torch.Tensor.data_ptr = data_ptr
OnCpu().__enter__()
torch._C._cuda_getCurrentRawStream = nothing
torch.cuda.is_available = lambda: True
torch.cuda.current_device = nothing
torch.cuda.default_stream = nothing
torch.cuda.set_device = nothing
torch.cuda.synchronize = nothing
torch.cuda.stream = contextlib.nullcontext
torch.cuda.get_device_name = lambda _device=0: "simulated GPU"
torch.cuda.get_device_capability = lambda _device=0: divmod(
    int(os.environ["DEVMOD_STANDIN_ARCH"]), 10
)
