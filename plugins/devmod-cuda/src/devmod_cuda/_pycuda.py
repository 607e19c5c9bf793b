"""The driver with pycuda, which initializes it and has the primary contexts of the devices.

pycuda's objects for memory, streams and modules belong to the thread that made their context
current: they are never freed if their last reference dies in another thread. So those are handles
of the same libcuda, in pycuda's primary contexts.
"""

from __future__ import annotations

import ctypes

import pycuda.driver as cuda

from devmod_cuda._calls import CudaDriver


class PycudaDriver(CudaDriver):
    """The driver with pycuda."""

    name = "pycuda"

    def initialize(self) -> None:
        try:
            cuda.init()
        except cuda.Error:
            super().initialize()  # raises the error with its name

    @property
    def version(self) -> int:
        return int(cuda.get_driver_version())

    def retain_primary_context(self, device: int) -> int:
        try:
            context = cuda.Device(device).retain_primary_context()
        except cuda.Error:
            return super().retain_primary_context(device)  # raises the error with its name
        # Its destructor would use a driver that may be gone.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(context))
        return int(context.handle)
