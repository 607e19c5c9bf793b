"""What the author of a backend builds on, beside the public names of devmod itself.

A backend needs none of this: a subclass of `devmod.Module` is enough. It needs it to be as good as the others without writing
again what they share. The runtime side builds on RealModule, Launcher and Kernel, a compiler (`TargetSpec.compiler`) on CompileRequest
and Payload: `complete_source` makes a source payload complete in itself, `libclang` reads C-like signatures, `merge_declared` makes
the fmap of what it found.
"""

from __future__ import annotations

from devmod._cachedir import cache_dir as cache_dir
from devmod._cachedir import write_private as write_private
from devmod._formats.raw import read_payload as read_payload
from devmod._formats.wire import decode as decode
from devmod._hooks import run_compiler as run_compiler
from devmod._kept import Kept as Kept
from devmod._launch.arguments import block_packer as block_packer
from devmod._launch.arguments import write_access as write_access
from devmod._launch.constants import Specialized as Specialized
from devmod._launch.constants import constants_of as constants_of
from devmod._launch.constants import specialize_constants as specialize_constants
from devmod._launch.launcher import Kernel as Kernel
from devmod._launch.launcher import Launcher as Launcher
from devmod._launch.launcher import LaunchShape as LaunchShape
from devmod._launch.scalars import Unfit as Unfit
from devmod._launch.specialize import specialize_source as specialize_source
from devmod._memory.array import DeviceArray as DeviceArray
from devmod._memory.array import name_of as dtype_name_of
from devmod._memory.device import begun_at as begun_at
from devmod._memory.device import waited_for as waited_for
from devmod._once import Once as Once
from devmod._payload import CompileRequest as CompileRequest
from devmod._payload import Payload as Payload
from devmod._payload import PayloadModule as PayloadModule
from devmod._real import RealModule as RealModule
from devmod._real import source_text as source_text
from devmod.errors import function_not_found as function_not_found
from devmod.errors import source_refused as source_refused
from devmod.targets._declared import Found as Found
from devmod.targets._declared import merge as merge_declared
from devmod.targets._declared import source_payload as source_payload
from devmod.targets._source import Complete as Complete
from devmod.targets._source import complete as complete_source
from devmod.targets._source import split_options as split_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod.targets._libclang import Libclang as Libclang
    from devmod.targets._libclang import libclang as libclang

__all__ = [
    "CompileRequest",
    "Complete",
    "DeviceArray",
    "Found",
    "Kept",
    "Kernel",
    "LaunchShape",
    "Launcher",
    "Libclang",
    "Once",
    "Payload",
    "PayloadModule",
    "RealModule",
    "Specialized",
    "Unfit",
    "begun_at",
    "block_packer",
    "cache_dir",
    "complete_source",
    "constants_of",
    "decode",
    "dtype_name_of",
    "function_not_found",
    "libclang",
    "merge_declared",
    "read_payload",
    "run_compiler",
    "source_payload",
    "source_refused",
    "source_text",
    "specialize_constants",
    "specialize_source",
    "split_options",
    "waited_for",
    "write_access",
    "write_private",
]


def __getattr__(name: str) -> object:
    # ctypes takes longer to import than all the rest; only compilers want it.
    if name not in ("Libclang", "libclang"):
        raise AttributeError(f"module 'devmod.backend' has no attribute {name!r}")
    from devmod.targets import _libclang

    value: object = getattr(_libclang, name)
    return value
