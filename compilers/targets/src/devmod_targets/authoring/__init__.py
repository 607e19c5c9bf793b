"""The build-side API for authors of compilers: declared functions and self-contained sources.

A compiler (`TargetSpec.compiler`) takes a `CompileRequest` and returns a `devmod.backend.Payload`,
which this module has too.

- `complete_source` puts the defines, options and includes of a request into the text of a source
  payload.
- `Toolchain` is what a build knows of a compiler without importing it (`TargetSpec.toolchain`).
- `check_target_options` refuses the unknown options of a target.
- `merge_declared` merges reflected functions with the fmap that the caller declares.
  `devmod_readers.reflection` has their types.
- `devmod_targets.authoring.clang` reads the signatures of C-like kernels. It is a module of its own
  because it imports ctypes.

docs/design/targets.md has the reasons.
"""

from __future__ import annotations

from devmod.backend import Payload as Payload
from devmod_targets._text import check_source_text, decode_source
from devmod_targets._toolchain import Clang, SmallKernel, Toolchain
from devmod_targets.authoring._declared import (
    CompilerReport,
    merge_declared,
    source_payload,
    warn_caller,
)
from devmod_targets.authoring._request import CompileRequest, check_target_options
from devmod_targets.authoring._source import (
    Inliner,
    SelfContainedSource,
    complete_source,
    include_hint,
    line_directive,
    options_and_defines,
)

__all__ = [
    "Clang",
    "CompileRequest",
    "CompilerReport",
    "Inliner",
    "SelfContainedSource",
    "SmallKernel",
    "Toolchain",
    "check_source_text",
    "check_target_options",
    "complete_source",
    "decode_source",
    "include_hint",
    "line_directive",
    "merge_declared",
    "options_and_defines",
    "source_payload",
    "warn_caller",
]
