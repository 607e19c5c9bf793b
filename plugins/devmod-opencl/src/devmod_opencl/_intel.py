"""Intel's CPU runtime from its wheel, which the OpenCL loader does not find.

The wheel `intel-opencl-rt` puts the driver's library into the `lib` folder of the environment. Its
`.icd` file names a folder of Intel's build machine, and no loader searches the environment. So
devmod opens the library itself, and asks for its platform as a loader does, by the function
clIcdGetPlatformIDsKHR (extension cl_khr_icd). Each object of OpenCL begins with a pointer to its
driver's table of functions, by which every loader passes calls on. So the platform works like those
that the loader lists. No file and no environment variable is changed, and the loader's own
platforms stay.
"""

from __future__ import annotations

import ctypes
import os
from importlib import import_module

from devmod_runtime import call_uninterrupted

#: The name of its platform. The platform of Intel's GPUs has another.
INTEL_CPU = "Intel(R) OpenCL"
#: The variables that choose the drivers of OpenCL loaders.
LOADER_VARIABLES = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH")
_DISTRIBUTION = "intel-opencl-rt"
_LIBRARY = "libintelocl.so"
#: CL_ICD2_TAG_KHR, which a driver has in its table if its loader must initialize each platform.
_NEEDS_LOADER = int.from_bytes(b"OPENCL31", "big")


def open_platform() -> int:
    """Return the address of the platform of the installed wheel; 0 if there is none, or if the user
    chooses the loader's drivers.
    """
    if any(os.environ.get(name) for name in LOADER_VARIABLES):
        return 0
    path = library_path()
    if not path:
        return 0
    try:
        # Its folder has the libraries that it needs.
        find = ctypes.CDLL(path).clGetExtensionFunctionAddress
    except (OSError, AttributeError):
        return 0
    find.restype = ctypes.c_void_p
    address = find(b"clIcdGetPlatformIDsKHR")
    if not address:
        return 0
    platform = ctypes.c_void_p()
    list_platforms = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p
    )(address)
    if list_platforms(1, ctypes.byref(platform), None) or not platform.value:
        return 0
    if needs_loader(platform.value):
        return 0
    return platform.value


def library_path() -> str:
    """Return the path of the driver's library in its wheel; "" if that is not installed."""
    # It imports pathlib, which Python 3.13 cannot import again after an interrupt of the first
    # import.
    metadata = call_uninterrupted(import_module, "importlib.metadata")
    try:
        files = metadata.files(_DISTRIBUTION) or ()
    except (metadata.PackageNotFoundError, OSError):
        return ""
    # A path with `..` would be another library than that of an `.icd` file.
    return next(
        (os.path.realpath(str(file.locate())) for file in files if file.name == _LIBRARY), ""
    )


def needs_loader(platform: int) -> bool:
    """Return whether only a loader can initialize a platform (cl_khr_icd 2.0)."""
    table = ctypes.c_void_p.from_address(platform).value or 0
    return ctypes.c_void_p.from_address(table).value == _NEEDS_LOADER
