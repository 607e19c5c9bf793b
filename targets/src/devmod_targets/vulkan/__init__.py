"""The build side of Vulkan."""
