"""The build side of devmod: the compilers of its kinds.

- `devmod_targets.authoring` is the API for authors of compilers.
- One folder for each kind contains its compiler, ``compile.py``. `devmod.TargetSpec.compiler` names
  it as a string.

`devmod_readers` has the readers of binaries and shaders, which runtimes need too. core
(`devmod.targets`) contains the specs and the architecture readers, which saving, loading and
inspecting need.

docs/design/targets.md has the reasons.
"""
