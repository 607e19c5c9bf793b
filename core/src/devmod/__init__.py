"""devmod: compile device kernels on a box without any device, ship one file, run it where a backend is installed.

Everything public is here and is imported when it is first used; `import devmod` itself imports nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod import interop as interop
    from devmod._compile import compile as compile
    from devmod._const_loader import const_loader as const_loader
    from devmod._create import create as create
    from devmod._create import create_with_fallback as create_with_fallback
    from devmod._create import load_from_bytes as load_from_bytes
    from devmod._create import load_from_file as load_from_file
    from devmod._formats.bundle import bundle as bundle
    from devmod._formats.bundle import dumps as dumps
    from devmod._formats.bundle import load as load
    from devmod._formats.bundle import loads as loads
    from devmod._formats.bundle import save as save
    from devmod._formats.raw import load_metadata_from_json as load_metadata_from_json
    from devmod._hooks import set_compiler as set_compiler
    from devmod._info import Block as Block
    from devmod._info import FunctionInfo as FunctionInfo
    from devmod._info import Interface as Interface
    from devmod._info import Param as Param
    from devmod._launch.function import Function as Function
    from devmod._launch.function import Launch as Launch
    from devmod._launch.function import Local as Local
    from devmod._memory.device import Array as Array
    from devmod._memory.device import Device as Device
    from devmod._memory.device import Event as Event
    from devmod._memory.device import Stream as Stream
    from devmod._memory.device import device as device
    from devmod._memory.device import devices as devices
    from devmod._module import Module as Module
    from devmod._payload import Origin as Origin
    from devmod._registry import register as register
    from devmod._registry import registered as registered
    from devmod._target import Target as Target
    from devmod.errors import ArgumentError as ArgumentError
    from devmod.errors import CompileError as CompileError
    from devmod.errors import ConflictError as ConflictError
    from devmod.errors import DeviceNotFoundError as DeviceNotFoundError
    from devmod.errors import DevmodError as DevmodError
    from devmod.errors import FormatError as FormatError
    from devmod.errors import FunctionNotFoundError as FunctionNotFoundError
    from devmod.errors import LaunchError as LaunchError
    from devmod.errors import NotRegisteredError as NotRegisteredError
    from devmod.errors import PluginError as PluginError
    from devmod.errors import RuntimeNotLinkedError as RuntimeNotLinkedError
    from devmod.errors import ToolchainNotFoundError as ToolchainNotFoundError
    from devmod.targets import TargetSpec as TargetSpec

__version__ = "0.1.0.dev1"

#: Where each public name lives; "" means that the name is a module of its own.
_HOME = {
    "ArgumentError": "errors",
    "Array": "_memory.device",
    "Block": "_info",
    "CompileError": "errors",
    "ConflictError": "errors",
    "Device": "_memory.device",
    "DeviceNotFoundError": "errors",
    "DevmodError": "errors",
    "Event": "_memory.device",
    "FormatError": "errors",
    "Function": "_launch.function",
    "FunctionInfo": "_info",
    "FunctionNotFoundError": "errors",
    "Interface": "_info",
    "Launch": "_launch.function",
    "LaunchError": "errors",
    "Local": "_launch.function",
    "Module": "_module",
    "NotRegisteredError": "errors",
    "Origin": "_payload",
    "Param": "_info",
    "PluginError": "errors",
    "RuntimeNotLinkedError": "errors",
    "Stream": "_memory.device",
    "Target": "_target",
    "TargetSpec": "targets",
    "ToolchainNotFoundError": "errors",
    "backend": "",
    "bundle": "_formats.bundle",
    "compile": "_compile",
    "const_loader": "_const_loader",
    "create": "_create",
    "create_with_fallback": "_create",
    "device": "_memory.device",
    "devices": "_memory.device",
    "dumps": "_formats.bundle",
    "errors": "",
    "interop": "",
    "load": "_formats.bundle",
    "load_from_bytes": "_create",
    "load_from_file": "_create",
    "load_metadata_from_json": "_formats.raw",
    "loads": "_formats.bundle",
    "register": "_registry",
    "registered": "_registry",
    "save": "_formats.bundle",
    "set_compiler": "_hooks",
    "targets": "",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'devmod' has no attribute {name!r}")
    import sys

    module = f"devmod.{home or name}"
    __import__(module)  # importlib itself costs more to import than most modules of ours
    value: object = sys.modules[module]
    if home:
        value = getattr(value, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
