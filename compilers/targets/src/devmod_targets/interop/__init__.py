"""Modules that other compilers made, as modules of devmod. `devmod.interop` has the same modules
under their public names.

- `triton`: kernels that Triton compiled.
- `offload`: fatbins, offload bundles and host files, taken apart into variants.

docs/design/targets.md has the reasons.
"""
