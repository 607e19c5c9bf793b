"""The environment variables of devmod-vulkan, each with what it does. docs/plugins.md has the same rows."""

from __future__ import annotations

VARIABLES = {
    "DEVMOD_VULKAN_DEVICE": "the Vulkan device that is listed first: its number in the usual order, or a part of its name; read once, when "
    "the devices are listed",
    "DEVMOD_VULKAN_VALIDATE": "neither empty nor `0` nor `false` (in any case): Vulkan's validation layers check every call; read once, "
    "when the devices are listed",
}
