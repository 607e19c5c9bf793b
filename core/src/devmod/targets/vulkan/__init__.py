"""The target spec of Vulkan, and the reader of its architectures."""
