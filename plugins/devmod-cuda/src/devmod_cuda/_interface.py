"""The interface of the two drivers. Handles (device, context, stream, event, module, function, pointer) are plain integers.

`_driver` makes one object of a subclass: cuda-bindings (`_bindings`) or pycuda (`_pycuda`). The methods here and in the base classes name
the calls of CUDA's driver API. A subclass implements `call` for all of them and a few special ones.
"""

from __future__ import annotations

import ctypes
from abc import abstractmethod

from devmod_cuda._calls import DISABLE_TIMING as DISABLE_TIMING
from devmod_cuda._calls import LEGACY_STREAM as LEGACY_STREAM
from devmod_cuda._calls import NON_BLOCKING as NON_BLOCKING
from devmod_cuda._calls import PORTABLE as PORTABLE
from devmod_cuda._launches import Launches
from devmod_cuda._launches import ParameterBlock as ParameterBlock
from devmod_cuda._library import DriverError as DriverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: CU_STREAM_CAPTURE_MODE_RELAXED: other calls of the process, such as a free by the garbage collector, do not end the capture.
RELAXED_CAPTURE = 2

#: Numbers of CUjit_option.
JIT_MAX_REGISTERS, JIT_INFO_LOG, JIT_INFO_LOG_SIZE, JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE, JIT_OPTIMIZATION_LEVEL = 0, 3, 4, 5, 6, 7
#: The largest log of the driver's compiler.
_LOG_BYTES = 16384


class Driver(Launches):
    """One opened driver of CUDA: its modules, functions and graphs."""

    @abstractmethod
    def load_image(self, image: int, options: Mapping[int, int | bytes]) -> int:
        """Return the module of an image in memory.

        Parameters
        ----------
        image
            The address of the image.
        options
            Values by number of CUjit_option. The driver writes its logs to the bytes objects, as cuda-bindings requires.
        """

    # -- modules and functions

    def load_module(self, data: bytes | memoryview, options: Mapping[int, int] | None = None) -> tuple[int, str]:
        """Load PTX, a cubin or a fatbin into the current context. Return the module and the information log of the driver's compiler.

        Parameters
        ----------
        data
            The image. A zero byte is appended, which ends PTX.
        options
            Values by number of CUjit_option, such as ``{JIT_MAX_REGISTERS: 32}``.

        Raises
        ------
        DriverError
            `log` is the error log.
        """
        image = ctypes.create_string_buffer(bytes(data), len(data) + 1)
        info, errors = bytes(_LOG_BYTES), bytes(_LOG_BYTES)
        logs: dict[int, int | bytes] = {
            JIT_INFO_LOG: info,
            JIT_INFO_LOG_SIZE: _LOG_BYTES,
            JIT_ERROR_LOG: errors,
            JIT_ERROR_LOG_SIZE: _LOG_BYTES,
        }
        try:
            module = self.load_image(ctypes.addressof(image), {**(options or {}), **logs})
        except DriverError as error:
            error.log = _text_of(errors)
            raise
        return module, _text_of(info)

    def unload_module(self, module: int) -> None:
        """Unload a module. Its functions become invalid."""
        self.call("cuModuleUnload", module)

    def get_function(self, module: int, name: str) -> int:
        """Return a kernel of a module; CUDA_ERROR_NOT_FOUND if there is none of that name."""
        return int(self.call("cuModuleGetFunction", module, name.encode()))

    def get_global(self, module: int, name: str) -> tuple[int, int]:
        """Return the address and the bytes of a variable of a module; CUDA_ERROR_NOT_FOUND if there is none of that name."""
        pointer, nbytes = self.call("cuModuleGetGlobal", module, name.encode())
        return pointer, nbytes

    def function_attribute(self, function: int, attribute: int) -> int:
        """Return an attribute of a function by its number (CUfunction_attribute)."""
        return int(self.call("cuFuncGetAttribute", attribute, function))

    def set_function_attribute(self, function: int, attribute: int, value: int) -> None:
        """Set an attribute of a function by its number (CUfunction_attribute)."""
        self.call("cuFuncSetAttribute", function, attribute, value)

    def param_places(self, function: int) -> list[tuple[int, int]] | None:
        """Return the offset and size of each parameter of a function; None if the driver is older than CUDA 12.4."""
        if self.version < 12040:
            return None
        places: list[tuple[int, int]] = []
        while True:
            try:
                offset, size = self.call("cuFuncGetParamInfo", function, len(places))
            except DriverError as error:
                if error.name == "CUDA_ERROR_INVALID_VALUE":  # the index is past the last parameter
                    return places
                raise
            places.append((offset, size))

    def max_active_blocks(self, function: int, threads: int, shared_memory: int) -> int:
        """Return the blocks of `threads` threads that one multiprocessor runs at once."""
        return int(self.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared_memory))

    def preferred_block(self, function: int, shared_memory: int = 0, limit: int = 0) -> tuple[int, int]:
        """Return the fewest blocks, and the threads of a block, with which a launch occupies the device best."""
        blocks, threads = self.call("cuOccupancyMaxPotentialBlockSize", function, 0, shared_memory, limit)
        return blocks, threads

    # -- graphs

    def begin_capture(self, stream: int, mode: int = RELAXED_CAPTURE) -> None:
        """Capture the later work of a stream into a graph. The legacy default stream has no capture."""
        self.call("cuStreamBeginCapture", stream, mode)

    def end_capture(self, stream: int) -> int:
        """End a capture, and return its graph."""
        return int(self.call("cuStreamEndCapture", stream))

    def is_capturing(self, stream: int) -> bool:
        """Return whether a stream is being captured."""
        return int(self.call("cuStreamIsCapturing", stream)) != 0

    def instantiate_graph(self, graph: int, flags: int = 0) -> int:
        """Return an executable graph of the current context."""
        return int(self.call("cuGraphInstantiateWithFlags", graph, flags))

    def launch_graph(self, executable: int, stream: int) -> None:
        """Queue an executable graph."""
        self.call("cuGraphLaunch", executable, stream)

    def destroy_executable(self, executable: int) -> None:
        """Destroy an executable graph. The driver does it when its launches are done."""
        self.call("cuGraphExecDestroy", executable)

    def destroy_graph(self, graph: int) -> None:
        """Destroy a graph. Its executable graphs stay valid."""
        self.call("cuGraphDestroy", graph)


def _text_of(log: bytes) -> str:
    return log[: log.find(b"\0")].decode(errors="replace").strip()
