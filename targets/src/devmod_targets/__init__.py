"""The build side of devmod: the compilers of its kinds, and the readers of shaders.

- `devmod_targets.authoring` is the API for authors of compilers.
- `devmod_targets.spirv` and `devmod_targets.wgsl` read shaders, for compilers and runtimes.
- One folder for each kind contains its compiler, ``compile.py``. `devmod.TargetSpec.compiler` names it as a string.

core (`devmod.targets`) contains the specs and the architecture readers, which saving, loading and inspecting need.
"""
