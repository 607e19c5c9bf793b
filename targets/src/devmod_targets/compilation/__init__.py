"""The implementation of `devmod.compile`: reading the source, checking the arguments, calling the kind's compiler, making the module.

`devmod.compile` calls `compile_source`. Programs call `devmod.compile`.

docs/design/targets.md has the reasons.
"""

from __future__ import annotations

from devmod_targets.compilation._architectures import architecture_problem as architecture_problem
from devmod_targets.compilation._compile import compile_source as compile_source
from devmod_targets.compilation._compile import files_read as files_read
from devmod_targets.compilation._compile import validation_of as validation_of
from devmod_targets.compilation._compile import variants_of as variants_of

__all__ = ["architecture_problem", "compile_source", "files_read", "validation_of", "variants_of"]
