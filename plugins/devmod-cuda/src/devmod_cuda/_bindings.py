"""The driver through cuda-bindings. No other file imports cuda.bindings.driver."""

from __future__ import annotations

from cuda.bindings import driver as cuda

from devmod_cuda._functions import FUNCTIONS
from devmod_cuda._calls import CudaDriver
from devmod_driver_api.errors import DriverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: The parameters that cuda-bindings takes as members of an enumeration, by function: the position and the enumeration.
_ENUMERATIONS = {
    "cuDeviceGetAttribute": (0, cuda.CUdevice_attribute),
    "cuFuncGetAttribute": (0, cuda.CUfunction_attribute),
    "cuFuncSetAttribute": (1, cuda.CUfunction_attribute),
    "cuStreamBeginCapture": (1, cuda.CUstreamCaptureMode),
}
#: Names that cuda-bindings spells otherwise.
_NAMES = {"cuGraphInstantiateWithFlags": "cuGraphInstantiate"}


class BindingsDriver(CudaDriver):
    """The driver through cuda-bindings."""

    name = "cuda-bindings"

    def call(self, operation: str, *arguments: Any) -> Any:
        name = FUNCTIONS[operation].name
        place, enumeration = _ENUMERATIONS.get(name, (0, None))
        if enumeration is not None:
            arguments = (*arguments[:place], _member(enumeration, arguments[place], name), *arguments[place + 1 :])
        try:
            status, *results = getattr(cuda, _NAMES.get(name, name))(*arguments)
        except RuntimeError as error:  # the driver is older than the function
            raise DriverError("CUDA_ERROR_NOT_SUPPORTED", str(error), name) from None
        if status:
            raise _error(name, status)
        if not results:
            return None
        return int(results[0]) if len(results) == 1 else tuple(map(int, results))

    def device_name(self, device: int) -> str:
        status, name = cuda.cuDeviceGetName(256, device)
        if status:
            raise _error("cuDeviceGetName", status)
        return str(name.split(b"\0")[0].decode(errors="replace"))

    def pointer_attributes(self, pointer: int, attributes: Sequence[int]) -> tuple[int, ...]:
        numbers = [cuda.CUpointer_attribute(each) for each in attributes]
        status, values = cuda.cuPointerGetAttributes(len(numbers), numbers, pointer)
        if status:
            raise _error("cuPointerGetAttributes", status)
        return tuple(int(each or 0) for each in values)

    def load_image(self, image: int, options: Mapping[int, int | bytes]) -> int:
        numbers = [cuda.CUjit_option(each) for each in options]
        status, module = cuda.cuModuleLoadDataEx(image, len(numbers), numbers, list(options.values()))
        if status:
            raise _error("cuModuleLoadDataEx", status)
        return int(module)


def _member(enumeration: Any, number: int, call: str) -> Any:
    try:
        return enumeration(number)
    except ValueError:  # newer than this cuda-bindings
        raise DriverError("CUDA_ERROR_NOT_SUPPORTED", f"cuda-bindings has no {enumeration.__name__} {number}", call) from None


def _error(call: str, status: Any) -> DriverError:
    try:
        name = status.name
        _, text = cuda.cuGetErrorString(status)
    except (AttributeError, ValueError):
        return DriverError(f"error {int(status)}", "", call)
    return DriverError(name, text.decode() if text else "", call)
