"""devmod: compile device kernels on a machine without a device, ship one file, run it where a
backend is installed.

All public names are here. Each is imported at its first use; `import devmod` imports no other
module.

docs/design/modules.md has the reasons.
"""

from __future__ import annotations

# Where to change: a new public name, such as a function, a class or a method of one
#   here: `_NAMES`, and an import for type checkers; a method has neither
#   also: `docs/api.md`, or `docs/api-backends.md` for one of `core/src/devmod/backend.py`
#   tests: `tests/test_public_names.py`, `tests/test_docs.py` with `-m volume`
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod import backend as backend
    from devmod import errors as errors
    from devmod import interop as interop
    from devmod import targets as targets
    from devmod._arrays.array import Array as Array
    from devmod._arrays.empty import empty as empty
    from devmod._files.bundle_file import bundle as bundle
    from devmod._files.bundle_file import dumps as dumps
    from devmod._files.bundle_file import installed as installed
    from devmod._files.bundle_file import load as load
    from devmod._files.bundle_file import loads as loads
    from devmod._files.bundle_file import save as save
    from devmod._files.replace import replace_constants as replace_constants
    from devmod._formats.raw import load_metadata_from_json as load_metadata_from_json
    from devmod._formats.trust import trust as trust
    from devmod._modules.compile import build as build
    from devmod._modules.compile import compile as compile
    from devmod._modules.compile import program as program
    from devmod._modules.compile import repeat as repeat
    from devmod._modules.compile import step as step
    from devmod._modules.const_loader import const_loader as const_loader
    from devmod._modules.create import create as create
    from devmod._modules.create import create_with_fallback as create_with_fallback
    from devmod._modules.create import load_from_bytes as load_from_bytes
    from devmod._modules.create import load_from_file as load_from_file
    from devmod._modules.module import Module as Module
    from devmod._plugins.devices import device as device
    from devmod._plugins.devices import devices as devices
    from devmod._plugins.registry import register as register
    from devmod._plugins.registry import registered as registered
    from devmod._values.info import Block as Block
    from devmod._values.info import FunctionInfo as FunctionInfo
    from devmod._values.info import Interface as Interface
    from devmod._values.origin import Origin as Origin
    from devmod._values.param import Local as Local
    from devmod._values.param import Member as Member
    from devmod._values.param import Param as Param
    from devmod._values.records import TuningRecord as TuningRecord
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
    from devmod.errors import GuardError as GuardError
    from devmod.errors import LaunchError as LaunchError
    from devmod.errors import NotRegisteredError as NotRegisteredError
    from devmod.errors import PluginError as PluginError
    from devmod.errors import RuntimeNotLinkedError as RuntimeNotLinkedError
    from devmod.errors import ToolchainNotFoundError as ToolchainNotFoundError
    from devmod.errors import TrustError as TrustError
    from devmod_runtime import Device as Device
    from devmod_runtime import Event as Event
    from devmod_runtime import Function as Function
    from devmod_runtime import Image as Image
    from devmod_runtime import Launch as Launch
    from devmod_runtime import LaunchConfig as LaunchConfig
    from devmod_runtime import ProgramFunction as ProgramFunction
    from devmod_runtime import Sampler as Sampler
    from devmod_runtime import Stream as Stream
    from devmod_runtime import TunedFunction as TunedFunction
    from devmod_runtime import set_compiler as set_compiler
    from devmod_workbench import Benchmark as Benchmark
    from devmod_workbench import Explanation as Explanation
    from devmod_workbench import Profile as Profile
    from devmod_workbench import Report as Report
    from devmod_workbench import TuningResult as TuningResult
    from devmod_workbench import Verification as Verification
    from devmod_workbench import bench as bench
    from devmod_workbench import doctor as doctor
    from devmod_workbench import explain as explain
    from devmod_workbench import guard as guard
    from devmod_workbench import profile as profile
    from devmod_workbench import tune as tune
    from devmod_workbench import verify as verify

    __all__: list[str]

__version__ = "0.1.0"

#: The public names of each module; "" for names that are modules themselves.
_NAMES = {
    "": "backend errors interop targets",
    "_arrays.array": "Array",
    "_arrays.empty": "empty",
    "_files.bundle_file": "bundle dumps installed load loads save",
    "_formats.raw": "load_metadata_from_json",
    "_formats.trust": "trust",
    "_modules.compile": "build compile program repeat step",
    "_modules.const_loader": "const_loader",
    "_modules.create": "create create_with_fallback load_from_bytes load_from_file",
    "_modules.module": "Module",
    "_files.replace": "replace_constants",
    "_plugins.devices": "device devices",
    "_plugins.registry": "register registered",
    "_values.info": "Block FunctionInfo Interface",
    "_values.origin": "Origin",
    "_values.param": "Local Member Param",
    "_values.records": "TuningRecord",
    "_values.spec": "TargetSpec",
    "_values.target": "Target",
    "errors": (
        "ArgumentError CompileError ConflictError DeviceMemoryError DeviceNotFoundError DevmodError FetchError FormatError "
        "FunctionNotFoundError GuardError LaunchError NotRegisteredError PluginError RuntimeNotLinkedError ToolchainNotFoundError "
        "TrustError"
    ),
}
#: The public names that devmod-runtime has. Each backend's wheel needs that wheel.
_IN_RUNTIME = (
    "Device",
    "Event",
    "Function",
    "Image",
    "Launch",
    "LaunchConfig",
    "ProgramFunction",
    "Sampler",
    "Stream",
    "TunedFunction",
    "set_compiler",
)
#: The public names that devmod-workbench has; and its tools, which need devmod-runtime too.
_IN_WORKBENCH = ("Explanation", "Report", "doctor", "explain")
_TOOLS = (
    "Benchmark",
    "Profile",
    "TuningResult",
    "Verification",
    "bench",
    "guard",
    "profile",
    "tune",
    "verify",
)


def _home_of(names: dict[str, str]) -> dict[str, str]:
    """Return the module of each name, for the names of each module."""
    home: dict[str, str] = {}
    for module, each in names.items():
        home |= dict.fromkeys(each.split(), module)
    return home


_HOME = _home_of(_NAMES)


def _resolve(namespace: dict[str, Any], home: dict[str, str], name: str) -> object:
    """Import a public name of the module with this namespace, and bind it there. `home` has the
    module of each name.
    """
    package = namespace["__name__"]
    if name not in home:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    import sys

    module = f"{package.partition('.')[0]}.{home[name] or name}"
    __import__(module)  # importlib takes longer to import than most modules of devmod
    value: object = sys.modules[module]
    if home[name]:
        value = getattr(value, name)
    namespace[name] = value
    return value


def _make_lazy(namespace: dict[str, Any], names: dict[str, str]) -> None:
    """Let the module with this namespace import its public names at their first use, and list them.
    `names` has those of each module. Type checkers report other names.
    """
    namespace["_HOME"] = home = _home_of(names)
    public = sorted(home)
    namespace["__all__"] = public
    namespace["__getattr__"] = lambda name: _resolve(namespace, home, name)
    namespace["__dir__"] = lambda: public


def _runtime(subject: str) -> Any:
    """Return the module `devmod_runtime`. The error without it names `subject`, and the wheels that
    bring it.
    """
    import sys

    try:
        __import__("devmod_runtime")  # by its name, as an entry point: core imports no other wheel
        module = sys.modules["devmod_runtime"]
        # Another version is a folder of that name, or a file of the user.
        if vars(module).get("__version__") == __version__:
            return module
    except ModuleNotFoundError as error:
        if error.name != "devmod_runtime":
            raise
    from devmod.errors import RuntimeNotLinkedError, own_module, pip_install
    from devmod.targets import EXAMPLE, KINDS

    own = own_module("devmod_runtime")
    if own:
        raise RuntimeNotLinkedError(
            f"{subject} needs devmod-runtime, which cannot be imported: {own}"
        )
    others = ", ".join(f"devmod-{kind}" for kind in KINDS if kind != EXAMPLE)
    raise RuntimeNotLinkedError(
        f"{subject} needs devmod-runtime, which is not installed. The wheel of each backend brings it, as in: "
        f"{pip_install(f'devmod-{EXAMPLE}')} (or {others})"
    )


def _workbench(subject: str) -> Any:
    """Return the module `devmod_workbench`. The error without it names `subject`, and the wheel."""
    return _import_wheel("devmod_workbench", subject, "devmod_workbench")


def _can_import(package: str) -> bool:
    """Return whether a package of another wheel is installed. It is not imported. A folder without
    modules is none.
    """
    from importlib.util import find_spec

    try:
        return getattr(find_spec(package), "origin", None) is not None
    except ValueError:  # sys.modules has a stand-in without a spec
        return False


def _import_wheel(
    module: str,
    subject: str,
    *packages: str,
    install: tuple[str, str] | None = None,
    kind: str = "",
) -> Any:
    """Return a module of another wheel, by its name as an entry point. It needs `packages`.

    Without one of them, raise ToolchainNotFoundError with `subject`. `install` has what the text
    names in place of the wheel, and what pip installs.
    """
    from importlib import import_module

    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name
        if missing not in packages:
            missing = next((each for each in packages if not _can_import(each)), None)
        if missing is None:
            raise
        from devmod.errors import ToolchainNotFoundError, not_installed

        wheel = missing.replace("_", "-")
        raise ToolchainNotFoundError(
            f"{subject}: {not_installed(*(install or (wheel, wheel)))}", kind=kind
        ) from None


if not TYPE_CHECKING:  # type checkers then report unknown names

    def __getattr__(name: str) -> object:
        if name == "__all__":  # of `from devmod import *`
            return __dir__()
        subject = f"devmod.{name}"
        if name in _IN_RUNTIME:
            wheel = _runtime(subject)
        elif name in _IN_WORKBENCH:
            wheel = _workbench(subject)
        elif name in _TOOLS:
            wheel = _workbench(subject)
            _runtime(subject)
        else:
            return _resolve(globals(), _HOME, name)
        globals()[name] = value = getattr(wheel, name)
        return value


def __dir__() -> list[str]:
    """Return the public names that exist here: help() and inspect.getmembers() read each of
    them.
    """
    names = [*_HOME, "__version__"]
    has_runtime = _can_import("devmod_runtime")
    if has_runtime:
        names += _IN_RUNTIME
    if _can_import("devmod_workbench"):
        names += _IN_WORKBENCH
        if has_runtime:
            names += _TOOLS
    return sorted(names)
