"""TVM's missing runtimes by devmod: OpenCL, Vulkan, WebGPU, Metal, ROCm and Hexagon. TVM calls
`autoload` when it is imported.

docs/design/tvm.md has the reasons.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import warnings
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution

from devmod_tvm._kinds import ALIASES, FILE, KINDS, registered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_tvm._bridge import array as array
    from devmod_tvm._bridge import tensor as tensor

__all__ = ["array", "autoload", "tensor"]


def autoload() -> None:
    """Register in TVM what its build lacks: `ffi.Module.create`, `ffi.Module.load_from_bytes` and
    `device_api` of each kind.

    TVM's import calls it, as an entry point of the group ``tvm.backends``. Neither devmod nor a
    driver is imported before TVM uses a kind. ``DEVMOD_TVM=opencl,vulkan`` chooses the kinds. A
    kind that TVM has itself is left alone. With a version of TVM that this wheel does not support,
    it warns and registers nothing.
    """
    import tvm_ffi

    version = sys.modules["tvm"].__version__
    minor = ".".join(version.split(".")[:2])
    folder = os.path.dirname(os.path.abspath(__file__))
    library = os.path.join(folder, f"bridge-{minor}.so")
    try:
        ctypes.CDLL(library)
    except OSError as error:
        reason = ""
        if os.path.exists(library):
            reason = f" ({error})"
        supported = sorted(name[7:-3] for name in os.listdir(folder) if name.startswith("bridge-"))
        warnings.warn(
            f"devmod-tvm {distribution('devmod-tvm').version} supports TVM {', '.join(supported)}; this is TVM {version}{reason}. "
            "TVM runs without devmod's runtimes. To upgrade: pip install --upgrade devmod-tvm",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    find = partial(tvm_ffi.get_global_func, allow_missing=True)
    register = tvm_ffi.register_global_func
    for kind in _chosen():
        loaders = [f"ffi.Module.load_from_bytes.{name}" for name in (kind, *ALIASES.get(kind, ()))]
        if any(map(find, (f"device_api.{kind}", f"ffi.Module.create.{kind}", *loaders))):
            continue  # TVM has this kind itself
        registered.append(kind)
        find("devmod.tvm.device")(kind, partial(_forward, "call", kind))
        for name in loaders:
            register(name, partial(_forward, "load", kind, name.rpartition(".")[2]))
        if _is_installed(f"devmod-{kind}"):
            register(f"ffi.Module.create.{kind}", partial(_forward, "create", kind))
    register(f"ffi.Module.load_from_bytes.{FILE}", partial(_forward, "load_file_bytes"))
    register(f"ffi.Module.load_from_file.{FILE}", partial(_forward, "load_file"))
    atexit.register(find("devmod.tvm.close"))


def _chosen() -> list[str]:
    """Return the kinds that DEVMOD_TVM names; all if it is empty."""
    names = []
    for each in os.environ.get("DEVMOD_TVM", "").split(","):
        if each.strip():
            names.append(each.strip())
    if not names:
        return [*KINDS]
    unknown = [each for each in names if each not in KINDS]
    if unknown:
        text = f"DEVMOD_TVM has {', '.join(map(repr, unknown))}; expected kinds of {', '.join(KINDS)}, separated by commas"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    return [each for each in KINDS if each in names]


def _is_installed(name: str) -> bool:
    """Return whether a distribution is installed. Reading the entry points of all takes ten times
    as long.
    """
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _forward(name: str, *args: Any) -> Any:
    """Call a function of the module that uses devmod, which this imports at the first use."""
    from devmod_tvm import _bridge as bridge

    return getattr(bridge, name)(*args)


def __getattr__(name: str) -> Any:
    if name not in ("array", "tensor"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from devmod_tvm import _bridge as bridge

    return getattr(bridge, name)
