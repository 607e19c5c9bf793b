"""The compiler of Vulkan's GLSL, HLSL and SPIR-V. docs/design/vulkan.md has the reasons."""
