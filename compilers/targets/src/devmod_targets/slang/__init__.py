"""The compiler of Slang, one language for the kinds vulkan, webgpu, metal, cuda, rocm and hexagon.

It translates a source to the kind's own language, and hands the result to the kind's own compiler.
"""
