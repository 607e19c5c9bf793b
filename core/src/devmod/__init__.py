"""devmod: compile device kernels on a machine without a device, ship one file, run it where a backend is installed.

All public names are here. Each is imported at its first use; `import devmod` imports no other module.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod import backend as backend
    from devmod import errors as errors
    from devmod import interop as interop
    from devmod import targets as targets
    from devmod._device.array import Array as Array
    from devmod._device.device import Device as Device
    from devmod._device.find import device as device
    from devmod._device.find import devices as devices
    from devmod._device.stream import Event as Event
    from devmod._device.stream import Stream as Stream
    from devmod._formats.bundle_file import bundle as bundle
    from devmod._formats.bundle_file import dumps as dumps
    from devmod._formats.bundle_file import load as load
    from devmod._formats.bundle_file import loads as loads
    from devmod._formats.bundle_file import save as save
    from devmod._formats.installed import installed as installed
    from devmod._formats.raw import load_metadata_from_json as load_metadata_from_json
    from devmod._launch.function import Function as Function
    from devmod._launch.launch import Launch as Launch
    from devmod._launch.launcher import LaunchConfig as LaunchConfig
    from devmod._modules.compile import build as build
    from devmod._modules.compile import compile as compile
    from devmod._modules.const_loader import const_loader as const_loader
    from devmod._modules.create import create as create
    from devmod._modules.create import create_with_fallback as create_with_fallback
    from devmod._modules.create import load_from_bytes as load_from_bytes
    from devmod._modules.create import load_from_file as load_from_file
    from devmod._modules.module import Module as Module
    from devmod._plugins.hooks import set_compiler as set_compiler
    from devmod._plugins.registry import register as register
    from devmod._plugins.registry import registered as registered
    from devmod._values.info import Block as Block
    from devmod._values.info import FunctionInfo as FunctionInfo
    from devmod._values.info import Interface as Interface
    from devmod._values.local import Local as Local
    from devmod._values.origin import Origin as Origin
    from devmod._values.param import Member as Member
    from devmod._values.param import Param as Param
    from devmod._values.spec import TargetSpec as TargetSpec
    from devmod._values.target import Target as Target
    from devmod.errors import ArgumentError as ArgumentError
    from devmod.errors import CompileError as CompileError
    from devmod.errors import ConflictError as ConflictError
    from devmod.errors import DeviceMemoryError as DeviceMemoryError
    from devmod.errors import DeviceNotFoundError as DeviceNotFoundError
    from devmod.errors import DevmodError as DevmodError
    from devmod.errors import FetchError as FetchError
    from devmod.errors import FormatError as FormatError
    from devmod.errors import FunctionNotFoundError as FunctionNotFoundError
    from devmod.errors import LaunchError as LaunchError
    from devmod.errors import NotRegisteredError as NotRegisteredError
    from devmod.errors import PluginError as PluginError
    from devmod.errors import RuntimeNotLinkedError as RuntimeNotLinkedError
    from devmod.errors import ToolchainNotFoundError as ToolchainNotFoundError

__version__ = "0.1.0.dev1"

#: The module of each public name; "" for a name that is a module itself.
_HOME = {
    "ArgumentError": "errors",
    "Array": "_device.array",
    "Block": "_values.info",
    "CompileError": "errors",
    "ConflictError": "errors",
    "Device": "_device.device",
    "DeviceMemoryError": "errors",
    "DeviceNotFoundError": "errors",
    "DevmodError": "errors",
    "Event": "_device.stream",
    "FetchError": "errors",
    "FormatError": "errors",
    "Function": "_launch.function",
    "FunctionInfo": "_values.info",
    "FunctionNotFoundError": "errors",
    "Interface": "_values.info",
    "Launch": "_launch.launch",
    "LaunchConfig": "_launch.launcher",
    "LaunchError": "errors",
    "Local": "_values.local",
    "Member": "_values.param",
    "Module": "_modules.module",
    "NotRegisteredError": "errors",
    "Origin": "_values.origin",
    "Param": "_values.param",
    "PluginError": "errors",
    "RuntimeNotLinkedError": "errors",
    "Stream": "_device.stream",
    "Target": "_values.target",
    "TargetSpec": "_values.spec",
    "ToolchainNotFoundError": "errors",
    "backend": "",
    "build": "_modules.compile",
    "bundle": "_formats.bundle_file",
    "compile": "_modules.compile",
    "const_loader": "_modules.const_loader",
    "create": "_modules.create",
    "create_with_fallback": "_modules.create",
    "device": "_device.find",
    "devices": "_device.find",
    "dumps": "_formats.bundle_file",
    "errors": "",
    "installed": "_formats.installed",
    "interop": "",
    "load": "_formats.bundle_file",
    "load_from_bytes": "_modules.create",
    "load_from_file": "_modules.create",
    "load_metadata_from_json": "_formats.raw",
    "loads": "_formats.bundle_file",
    "register": "_plugins.registry",
    "registered": "_plugins.registry",
    "save": "_formats.bundle_file",
    "set_compiler": "_plugins.hooks",
    "targets": "",
}

__all__ = sorted([*_HOME, "__version__"])


def _resolve(namespace: dict[str, Any], home: dict[str, str], name: str) -> object:
    """Import a public name of the module with this namespace, and bind it there. `home` has the module of each name."""
    if name not in home:
        raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
    import sys

    module = f"devmod.{home[name] or name}"
    __import__(module)  # importlib takes longer to import than most modules of devmod
    value: object = sys.modules[module]
    if home[name]:
        value = getattr(value, name)
    namespace[name] = value
    return value


if not TYPE_CHECKING:  # type checkers then report unknown names

    def __getattr__(name: str) -> object:
        return _resolve(globals(), _HOME, name)


def __dir__() -> list[str]:
    return __all__
