"""The package `vulkan`: its cffi library, and the instance. No other file imports that package.

The package's wrappers convert every argument in Python, 3 to 10 µs a call. This file calls the cffi
functions directly. Device functions go through the driver's pointers (`Calls`), which bypass the
loader.

Importing this file opens the Vulkan loader. If that fails, it raises DeviceNotFoundError; a later
import tries again.
"""

from __future__ import annotations

import atexit
import os
import sys
from _weakref import ref
from collections import deque

from devmod.backend import Once, environment_flag
from devmod.errors import DeviceNotFoundError, LaunchError
from devmod_runtime import driver_import_error, open_driver

NO_LOADER = (
    "the Vulkan loader cannot be opened, so no Vulkan device can be used: {why}. Install it and a driver (Debian and Ubuntu: apt install "
    "libvulkan1 mesa-vulkan-drivers, which has a device on the CPU too; for a GPU, its vendor's driver)"
)

try:
    import vulkan as vk
    from vulkan._vulkan import ffi, lib  # type: ignore[import-untyped]
except OSError as error:
    raise DeviceNotFoundError(
        NO_LOADER.format(why="libvulkan is not found"), kind="vulkan"
    ) from error
except ImportError as error:
    raise driver_import_error(error, "vulkan", "Vulkan", "vulkan") from error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["ffi", "lib", "vk"]

NO_DEVICE = (
    "no Vulkan device was found: {why}. Install the driver of the GPU, or one that runs on the CPU (Debian and Ubuntu: apt install "
    "mesa-vulkan-drivers); `vulkaninfo --summary` lists what the loader sees"
)
_LAYER = "VK_LAYER_KHRONOS_validation"
#: The number of the layers' recommendation UNASSIGNED-CoreValidation-DrawState-InvalidImageLayout.
_COPY_LAYOUT = 0x4DAE5635
#: The warnings of GPU-assisted validation and of printing about their own settings: features that
#: they enable, a full buffer of text.
_SETTINGS = (
    b"VALIDATION-SETTINGS",
    b"WARNING-GPU-Assisted-Validation",
    b"WARNING-DEBUG-PRINTF",
    b"UNASSIGNED-DEBUG-PRINTF",
)
_PORTABILITY = "VK_KHR_portability_enumeration"
#: The newest Vulkan version whose features are used.
_NEWEST = vk.VK_MAKE_VERSION(1, 3, 0)
_once = Once()
#: The objects that each struct points to. cffi's structs do not reference them.
#: Each weak reference removes its own entry without running Python code, so that no interrupt can
#: land in between.
_referents: dict[ref[Any], Any] = {}
#: Messages of the validation layers that are neither raised nor logged yet.
_messages: deque[str] = deque()
_results = ffi.typeof("VkResult").elements

#: Structures of features that are newer than the package: the sType, and the features.
_ADDED = {
    "VkPhysicalDeviceShaderBfloat16FeaturesKHR": (
        1000141000,
        "shaderBFloat16Type, shaderBFloat16DotProduct, shaderBFloat16CooperativeMatrix",
    )
}

#: The errors of the driver for too little memory of the device or of the host.
MEMORY_ERRORS = (vk.VK_ERROR_OUT_OF_DEVICE_MEMORY, vk.VK_ERROR_OUT_OF_HOST_MEMORY)


def make(name: str, **fields: Any) -> Any:
    """Return a new struct as a pointer, with its sType set. The struct keeps the values of its
    fields alive.
    """
    if name in _ADDED:
        struct = _new_added(name)
    else:
        struct = ffi.new(f"{name} *")
    kind = _structure_types.get(name.removeprefix("Vk").upper())
    if kind is not None:
        struct.sType = kind
    for field, value in fields.items():
        setattr(struct, field, value)
    _referents[ref(struct, _referents.pop)] = fields
    return struct


def _new_added(name: str) -> Any:
    from cffi import FFI  # it takes tens of milliseconds, and few devices have these features

    kind, features = _ADDED[name]
    own = FFI()
    own.cdef(f"typedef struct {{ int32_t sType; void *pNext; uint32_t {features}; }} {name};")
    return own.new(f"{name} *", {"sType": kind})


def array(name: str, items: list[Any]) -> Any:
    """Return a new array of handles, numbers or structs. Structs are passed as the pointers that
    `make` returns.
    """
    values = items
    if ffi.typeof(name).kind == "struct":
        values = [item[0] for item in items]
    cells = ffi.new(f"{name}[]", values)
    _referents[ref(cells, _referents.pop)] = items
    return cells


#: The sType by the struct's name in capitals, without "Vk". The names of the constants differ only
#: in underscores.
_structure_types = {
    name.removeprefix("VK_STRUCTURE_TYPE_").replace("_", ""): value
    for name, value in ffi.typeof("VkStructureType").relements.items()
}


def error_name(code: int) -> str:
    """Return Vulkan's name of a result code, such as "VK_ERROR_DEVICE_LOST"."""
    return str(_results.get(code, f"VkResult {code}"))


class Calls:
    """The driver's functions as attributes: those of `device`, or of the instance if `device` is
    None.

    A function is looked up at its first use. Assigning an attribute replaces the function.
    """

    def __init__(self, instance: Any, device: Any = None) -> None:
        self._instance = instance
        self._device = device

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("vk"):
            raise AttributeError(name)
        symbol = name.encode()
        if self._device is not None:
            pointer = lib.vkGetDeviceProcAddr(self._device, symbol)
        else:
            pointer = lib.vkGetInstanceProcAddr(self._instance, symbol)
        if pointer == ffi.NULL:
            raise AttributeError(f"the Vulkan driver has no {name}")
        function: Callable[..., Any] = ffi.cast(f"PFN_{name}", pointer)
        setattr(self, name, function)
        return function


class Instance:
    """The instance of this process.

    Attributes
    ----------
    handle
        The VkInstance.
    calls : Calls
        Its functions.
    version : int
        The requested Vulkan version. Devices of the instance support no newer one.
    devices : list
        The devices that are not destroyed, such as those whose end an interrupt has cut short.
    """

    def __init__(self, handle: Any, version: int, messenger: Any) -> None:
        self.handle = handle
        self.version = version
        self.calls = Calls(handle)
        self.devices: list[Any] = []
        self._process = os.getpid()
        #: Whether a thread may use the objects at interpreter shutdown. Then none is destroyed: the
        #: end of the process frees them.
        self.in_use = False
        self._messenger: Any = None
        if messenger is not None:
            out = ffi.new("VkDebugUtilsMessengerEXT *")
            self.calls.vkCreateDebugUtilsMessengerEXT(handle, messenger, ffi.NULL, out)
            self._messenger = out[0]

    def close(self) -> None:
        """Destroy the instance. Objects created with it must not be used afterwards."""
        # In a forked child, destroying waits for threads that only the parent has.
        if os.getpid() != self._process:
            return
        if self._messenger is not None:
            self.calls.vkDestroyDebugUtilsMessengerEXT(self.handle, self._messenger, ffi.NULL)
        # An instance must outlive its devices: SwiftShader crashes otherwise.
        if not self.devices and not self.find_users():
            lib.vkDestroyInstance(self.handle, ffi.NULL)
        log_messages()

    def find_users(self) -> bool:
        """Set `in_use` if there is another thread, which may be in a call of the driver, and return
        it. It stays set.

        Python has joined all threads before, except for daemon threads.
        """
        self.in_use |= len(sys._current_frames()) > 1
        return self.in_use


def instance() -> Instance:
    """Return the instance. The first call creates it.

    Raises
    ------
    DeviceNotFoundError
        The loader cannot create one.
    """
    return _once.get("instance", _make_instance)


def known_devices() -> list[Any]:
    """Return the devices of the instance; none if there is no instance."""
    if "instance" not in _once:
        return []
    return instance().devices


def validating() -> bool:
    """Return whether ``DEVMOD_VULKAN_VALIDATE`` enables the validation layers."""
    return environment_flag("DEVMOD_VULKAN_VALIDATE")


def _make_instance() -> Instance:
    open_driver("vulkan")
    version = ffi.new("uint32_t *", vk.VK_MAKE_VERSION(1, 0, 0))
    try:
        lib.vkEnumerateInstanceVersion(version)
    except (AttributeError, ffi.error):  # a loader of Vulkan 1.0, which supports no newer devices
        newest = version[0]
    else:
        newest = _NEWEST | 0xFFF
    extensions = [_PORTABILITY]
    layers: list[str] = []
    messenger = None
    if validating():
        if _LAYER not in enumerate_all(
            lib.vkEnumerateInstanceLayerProperties,
            "VkLayerProperties",
            read=lambda each: text_of(each.layerName),
        ):
            raise DeviceNotFoundError(
                f"DEVMOD_VULKAN_VALIDATE is set, but the Vulkan loader does not have the layer {_LAYER}. Install it (Debian and Ubuntu: "
                "apt install vulkan-validationlayers), or unset the variable",
                kind="vulkan",
            )
        layers.append(_LAYER)
        extensions.append("VK_EXT_debug_utils")
        messenger = make(
            "VkDebugUtilsMessengerCreateInfoEXT",
            messageSeverity=vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT
            | vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
            messageType=vk.VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT
            | vk.VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
            pfnUserCallback=_on_message,
        )
    info = make(
        "VkInstanceCreateInfo",
        flags=vk.VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR,
        pApplicationInfo=make(
            "VkApplicationInfo", pEngineName=ffi.new("char[]", b"devmod"), apiVersion=newest
        ),
        enabledLayerCount=len(layers),
        ppEnabledLayerNames=_texts(layers),
        enabledExtensionCount=len(extensions),
        ppEnabledExtensionNames=_texts(extensions),
        pNext=messenger or ffi.NULL,
    )
    out = ffi.new("VkInstance *")
    code = lib.vkCreateInstance(info, ffi.NULL, out)
    if code == vk.VK_ERROR_EXTENSION_NOT_PRESENT:
        # An older loader, which lists all devices. To ask for the extensions first would load and
        # unload every driver once more.
        info.flags = 0
        info.enabledExtensionCount = len(extensions) - 1
        info.ppEnabledExtensionNames += 1
        code = lib.vkCreateInstance(info, ffi.NULL, out)
    if code:
        raise DeviceNotFoundError(
            NO_DEVICE.format(why=f"vkCreateInstance failed with {error_name(code)}"), kind="vulkan"
        )
    created = Instance(out[0], newest, messenger)
    atexit.register(created.close)  # devices register later, so they are closed first
    return created


def _texts(names: list[str]) -> Any:
    """Return a new array of texts."""
    return array("char *", [ffi.new("char[]", name.encode()) for name in names])


def enumerate_all(
    call: Callable[..., int | None],
    item: str,
    *before: Any,
    read: Callable[[Any], Any] = lambda each: each,
) -> list[Any]:
    """Return all items that a Vulkan function enumerates. The function is called for the count
    first, then for an array of `item`.

    An item that is a structure lies in the array, which ends with this call: `read` returns what
    the caller needs of it.
    """
    count = ffi.new("uint32_t *")
    if call(*before, count, ffi.NULL):
        return []
    result = ffi.new(f"{item}[]", max(count[0], 1))
    if (call(*before, count, result) or 0) < 0:  # some of the functions return nothing
        return []
    return [read(result[number]) for number in range(count[0])]


def enumerate_extensions(call: Callable[..., int], *before: Any) -> frozenset[str]:
    """Return the names of all extensions that a Vulkan function enumerates."""
    return frozenset(
        enumerate_all(
            call, "VkExtensionProperties", *before, read=lambda each: text_of(each.extensionName)
        )
    )


def text_of(chars: Any) -> str:
    """Return the text in an array of characters."""
    return str(ffi.string(chars).decode("utf-8", "replace")).strip()


# -- messages of the validation layers
# -----------------------------------------------------------------------------------


@ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT")  # type: ignore[untyped-decorator]  # cffi brings no types
def _on_message(_severity: int, kind: int, data: Any, _user: Any) -> int:
    is_setting = data.pMessageIdName != ffi.NULL and ffi.string(data.pMessageIdName) in _SETTINGS
    # Images have the layout GENERAL always, in copies too. The layers recommend others there.
    is_layout = (
        kind == vk.VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT
        and data.messageIdNumber == _COPY_LAYOUT
    )
    if is_setting or is_layout:
        return 0
    text = "a message without text"
    if data.pMessage != ffi.NULL:
        text = ffi.string(data.pMessage).decode("utf-8", "replace")
    _messages.append(text)
    return 0


def raise_messages(subject: str) -> None:
    """Raise LaunchError with the messages of the validation layers, if there are any. `subject`
    names the calls.
    """
    if _messages:
        raise LaunchError(
            f"the Vulkan validation layers report errors in {subject}: {' | '.join(drain_messages())}",
            kind="vulkan",
        )


def log_messages() -> None:
    """Log the messages of the validation layers, where no exception can be raised."""
    if _messages:
        from logging import getLogger

        for message in drain_messages():
            getLogger("devmod.vulkan").error("the Vulkan validation layers: %s", message)


def drain_messages() -> list[str]:
    """Remove and return the messages of the validation layers."""
    messages = []
    while _messages:
        messages.append(_messages.popleft())
    return messages
