"""The compiler of Vulkan's GLSL, HLSL and SPIR-V."""
