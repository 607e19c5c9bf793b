"""What the author of a backend builds on, beside the public names of devmod itself.

A backend needs none of this: a subclass of `devmod.Module` is enough. It needs it to be as good as the others without writing
again what they share.
"""

from __future__ import annotations

from devmod._arguments import block_packer as block_packer
from devmod._array import DeviceArray as DeviceArray
from devmod._array import name_of as dtype_name_of
from devmod._cachedir import cache_dir as cache_dir
from devmod._cachedir import write_private as write_private
from devmod._files import read_payload as read_payload
from devmod._hooks import run_compiler as run_compiler
from devmod._launcher import Kernel as Kernel
from devmod._launcher import Launcher as Launcher
from devmod._launcher import LaunchShape as LaunchShape
from devmod._once import Once as Once
from devmod._payload import PayloadModule as PayloadModule
from devmod._real import RealModule as RealModule
from devmod._scalars import Unfit as Unfit
from devmod._specialize import specialize_source as specialize_source
from devmod._wire import decode as decode
from devmod.targets._source import split_options as split_options

__all__ = [
    "DeviceArray",
    "Kernel",
    "LaunchShape",
    "Launcher",
    "Once",
    "PayloadModule",
    "RealModule",
    "Unfit",
    "block_packer",
    "cache_dir",
    "decode",
    "dtype_name_of",
    "read_payload",
    "run_compiler",
    "specialize_source",
    "split_options",
    "write_private",
]
