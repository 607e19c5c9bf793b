"""HIP's runtime through hip-python, or the wheels rocm-bindings that follow it. No other file imports these packages."""

from __future__ import annotations

try:
    from rocm.bindings import hip
except ModuleNotFoundError:  # before version 10
    from hip import hip

from devmod_driver_api.errors import DriverError
from devmod_rocm._functions import FUNCTIONS
from devmod_rocm._calls import HipDriver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The parameters that hip-python takes as members of an enumeration, by operation: the position and the name of the enumeration.
_ENUMERATIONS = {
    "device_attribute": (0, "hipDeviceAttribute_t"),
    "function_attribute": (0, "hipFunction_attribute"),
    "begin_capture": (1, "hipStreamCaptureMode"),
}


class HipPythonDriver(HipDriver):
    """HIP's runtime through hip-python."""

    name = "hip-python"

    def call(self, operation: str, *arguments: Any) -> Any:
        name = FUNCTIONS[operation].name
        place, enumeration = _ENUMERATIONS.get(operation, (0, ""))
        if enumeration:
            arguments = (*arguments[:place], _member(enumeration, arguments[place], name), *arguments[place + 1 :])
        try:
            status, *results = getattr(hip, name)(*arguments)
        except AttributeError:
            raise DriverError(self.api.not_supported, f"this hip-python has no {name}", name) from None
        except RuntimeError:  # the symbol is missing
            raise DriverError(self.api.not_supported, "this driver has no such function", name) from None
        except ValueError as error:  # an error code that is unknown to this hip-python
            raise DriverError("hipErrorUnknown", str(error), name) from None
        if status:
            raise self.error(name, int(status))
        if not results:
            return None
        numbers = [int(each or 0) for each in results]
        return numbers[0] if len(numbers) == 1 else tuple(numbers)


def library_path() -> str:
    """Return the path or the name of the library that hip-python opens at its first call."""
    try:
        from rocm.bindings.util.paths import get_library_path
    except ImportError:  # before version 10
        return "libamdhip64.so"
    return str(get_library_path("amdhip64").decode())


def _member(enumeration: str, number: int, call: str) -> Any:
    try:
        return getattr(hip, enumeration)(number)
    except ValueError:  # newer than this hip-python
        raise DriverError("hipErrorNotSupported", f"hip-python has no {enumeration} {number}", call) from None
