"""The package `vulkan`: its cffi library, and the instance. This is the only file that imports it.

The package's own wrappers convert every argument in Python, 3 to 10 µs a call. So its cffi functions are called as they are: those
of a device through the pointers that the driver itself gives (`Calls`), which skip the loader.

Importing this file opens the Vulkan loader; where that cannot be done it raises DeviceNotFoundError, and trying again later is
fine.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections import deque

from devmod.backend import Once
from devmod.errors import DeviceNotFoundError, LaunchError

NO_LOADER = (
    "the Vulkan loader cannot be opened, so no Vulkan device can be used: {why}. Install it and a driver (Debian and Ubuntu: apt install "
    "libvulkan1 mesa-vulkan-drivers, which has a device on the CPU too; for a GPU, its vendor's driver)"
)

try:
    import vulkan as vk
    from vulkan._vulkan import ffi, lib  # type: ignore[import-untyped]
except ModuleNotFoundError as error:
    if error.name != "vulkan":
        raise DeviceNotFoundError(
            f"the package vulkan cannot be imported: {error}. Install it again: pip install --force-reinstall vulkan", kind="vulkan"
        ) from error
    raise DeviceNotFoundError(
        "the package vulkan is not installed, so no Vulkan device can be used. To add it: pip install vulkan", kind="vulkan"
    ) from error
except OSError as error:
    raise DeviceNotFoundError(NO_LOADER.format(why="libvulkan is not found"), kind="vulkan") from error
except ImportError as error:
    raise DeviceNotFoundError(
        f"the package vulkan cannot be imported: {error}. Install it again: pip install --force-reinstall vulkan", kind="vulkan"
    ) from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "Calls",
    "array",
    "error_name",
    "ffi",
    "instance",
    "lib",
    "listed",
    "log_messages",
    "make",
    "raise_messages",
    "validating",
    "vk",
]

NO_DEVICE = (
    "no Vulkan device was found: {why}. Install the driver of the GPU, or one that runs on the CPU (Debian and Ubuntu: apt install "
    "mesa-vulkan-drivers); `vulkaninfo --summary` lists what the loader sees"
)
_LAYER = "VK_LAYER_KHRONOS_validation"
_PORTABILITY = "VK_KHR_portability_enumeration"
#: The newest version of Vulkan whose features are asked for.
_NEWEST = vk.VK_MAKE_VERSION(1, 3, 0)
_once = Once()
#: What a struct points at, for as long as it lives: cffi's structs do not hold it.
_held: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
#: What the validation layers said and nobody was told yet.
_messages: deque[str] = deque()
_errors = {value: name for name, value in vars(vk).items() if name.startswith("VK_ERROR_") and isinstance(value, int)}


def make(name: str, **fields: Any) -> Any:
    """A new struct, as a pointer: its sType is set, and what it points at lives as long as it does."""
    made = ffi.new(f"{name} *")
    kind = _structure_types.get(name.removeprefix("Vk").upper())
    if kind is not None:
        made.sType = kind
    for field, value in fields.items():
        setattr(made, field, value)
    _held[made] = fields
    return made


def array(name: str, items: list[Any]) -> Any:
    """A new array of handles, numbers, or structs (given as the pointers that `make` returns)."""
    is_struct = ffi.typeof(name).kind == "struct"
    made = ffi.new(f"{name}[]", [item[0] for item in items] if is_struct else items)
    _held[made] = items
    return made


#: sType by the struct's name in capitals, without Vk: the constants' names are the same but for underscores.
_structure_types = {
    name.removeprefix("VK_STRUCTURE_TYPE_").replace("_", ""): value
    for name, value in vars(vk).items()
    if name.startswith("VK_STRUCTURE_TYPE_")
}


def error_name(code: int) -> str:
    """Vulkan's name of a result, such as "VK_ERROR_DEVICE_LOST"."""
    return str(_errors.get(code, f"VkResult {code}"))


class Calls:
    """The driver's functions as attributes: those of a device, or of an instance where no device is given.

    They are looked up when they are first used; what is set as an attribute takes their place.
    """

    def __init__(self, instance: Any, device: Any = None) -> None:
        self._instance = instance
        self._device = device

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("vk"):
            raise AttributeError(name)
        asked = name.encode()
        if self._device is not None:
            found = lib.vkGetDeviceProcAddr(self._device, asked)
        else:
            found = lib.vkGetInstanceProcAddr(self._instance, asked)
        if found == ffi.NULL:
            raise AttributeError(f"the Vulkan driver has no {name}")
        function: Callable[..., Any] = ffi.cast(f"PFN_{name}", found)
        setattr(self, name, function)
        return function


class Instance:
    """The instance of this process.

    Attributes
    ----------
    handle
        Vulkan's.
    calls : Calls
        Its functions.
    version : int
        The version of Vulkan that was asked for; devices know no newer one through it.
    """

    def __init__(self, handle: Any, version: int, messenger: Any) -> None:
        self.handle = handle
        self.version = version
        self.calls = Calls(handle)
        self._process = os.getpid()
        self._messenger: Any = None
        if messenger is not None:
            out = ffi.new("VkDebugUtilsMessengerEXT *")
            self.calls.vkCreateDebugUtilsMessengerEXT(handle, messenger, ffi.NULL, out)
            self._messenger = out[0]

    def close(self) -> None:
        """Destroy it. Nothing that was made with it may be used again."""
        if os.getpid() != self._process:  # a fork's: it waits for threads that stayed in the other process
            return
        if self._messenger is not None:
            self.calls.vkDestroyDebugUtilsMessengerEXT(self.handle, self._messenger, ffi.NULL)
        lib.vkDestroyInstance(self.handle, ffi.NULL)
        log_messages()


def instance() -> Instance:
    """The instance, made when it is first asked for.

    Raises
    ------
    DeviceNotFoundError
        The loader gives none; the message says why and what to install.
    """
    made: Instance = _once.get("instance", _make_instance)
    return made


def validating() -> bool:
    """Whether the validation layers watch, as ``DEVMOD_VULKAN_VALIDATE`` asks for."""
    return os.environ.get("DEVMOD_VULKAN_VALIDATE", "") not in ("", "0")


def _make_instance() -> Instance:
    version = ffi.new("uint32_t *", vk.VK_MAKE_VERSION(1, 0, 0))
    try:
        lib.vkEnumerateInstanceVersion(version)
    except (AttributeError, ffi.error):  # a loader of Vulkan 1.0, which allows no newer devices either
        newest = version[0]
    else:
        newest = _NEWEST | 0xFFF
    extensions, layers, flags, messenger = [], [], 0, None
    if _PORTABILITY in _names("vkEnumerateInstanceExtensionProperties", "VkExtensionProperties", "extensionName"):
        extensions.append(_PORTABILITY)
        flags = vk.VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR
    if validating():
        if _LAYER not in _names("vkEnumerateInstanceLayerProperties", "VkLayerProperties", "layerName"):
            raise DeviceNotFoundError(
                f"DEVMOD_VULKAN_VALIDATE is set, and the Vulkan loader has no layer {_LAYER}. Install it (Debian and Ubuntu: apt install "
                "vulkan-validationlayers), or unset the variable",
                kind="vulkan",
            )
        layers.append(_LAYER)
        extensions.append("VK_EXT_debug_utils")
        messenger = make(
            "VkDebugUtilsMessengerCreateInfoEXT",
            messageSeverity=vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
            messageType=vk.VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | vk.VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
            pfnUserCallback=_on_message,
        )
    info = make(
        "VkInstanceCreateInfo",
        flags=flags,
        pApplicationInfo=make("VkApplicationInfo", pEngineName=ffi.new("char[]", b"devmod"), apiVersion=newest),
        enabledLayerCount=len(layers),
        ppEnabledLayerNames=array("char *", [ffi.new("char[]", name.encode()) for name in layers]),
        enabledExtensionCount=len(extensions),
        ppEnabledExtensionNames=array("char *", [ffi.new("char[]", name.encode()) for name in extensions]),
        pNext=messenger if messenger is not None else ffi.NULL,
    )
    out = ffi.new("VkInstance *")
    code = lib.vkCreateInstance(info, ffi.NULL, out)
    if code:
        raise DeviceNotFoundError(NO_DEVICE.format(why=f"the Vulkan loader gives no instance ({error_name(code)})"), kind="vulkan")
    made = Instance(out[0], newest, messenger)
    atexit.register(made.close)  # devices are opened later, so they are closed before
    return made


def _names(function: str, struct: str, field: str) -> set[str]:
    """The names that one of the loader's lists has."""
    call = getattr(lib, function)
    before = (ffi.NULL,) if "Extension" in function else ()
    count = ffi.new("uint32_t *")
    if call(*before, count, ffi.NULL) < 0:
        return set()
    found = ffi.new(f"{struct}[]", max(count[0], 1))
    if call(*before, count, found) < 0:
        return set()
    return {ffi.string(getattr(found[number], field)).decode() for number in range(count[0])}


def listed(call: Callable[..., int], item: str, *before: Any) -> list[Any]:
    """What one of Vulkan's functions enumerates: it gives the count first, then fills an array of `item`."""
    count = ffi.new("uint32_t *")
    if call(*before, count, ffi.NULL):
        return []
    found = ffi.new(f"{item}[]", max(count[0], 1))
    if call(*before, count, found) < 0:
        return []
    return [found[number] for number in range(count[0])]


# -- what the validation layers say -----------------------------------------------------------------------------------


@ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT")  # type: ignore[untyped-decorator]  # cffi brings no types
def _on_message(severity: int, kind: int, data: Any, user: Any) -> int:
    _messages.append(ffi.string(data.pMessage).decode("utf-8", "replace") if data.pMessage != ffi.NULL else "a message without words")
    return 0


def raise_messages(what: str) -> None:
    """LaunchError with what the validation layers said of the calls that were just made, if they said anything."""
    if _messages:
        raise LaunchError(f"the Vulkan validation layers object to {what}: {' | '.join(_taken())}", kind="vulkan")


def log_messages() -> None:
    """Write what the validation layers said, where nobody can be told by an exception."""
    if _messages:
        from logging import getLogger

        for message in _taken():
            getLogger("devmod.vulkan").error("the Vulkan validation layers: %s", message)


def _taken() -> list[str]:
    taken = []
    while _messages:
        taken.append(_messages.popleft())
    return taken
