"""Vulkan, as core must know it."""
