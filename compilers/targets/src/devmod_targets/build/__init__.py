"""Build a folder of kernels for a list of targets: the manifest, and the plan of compiler runs that
follows from it.

- `read_manifest` reads and checks ``devmod.toml``, or ``[tool.devmod]`` of a pyproject.toml.
- `plan_of` returns the jobs: one for each source and variant, in the order of the file.

The files, in the order of a build:

- `read`: `document` (the file, and line numbers), `checks` (files, languages, targets), `manifest`
  (the values). `matrix` selects the settings and the sources of a kernel for a target, without
  macros for languages that have no preprocessor.
- `plan`: the jobs. `build` runs them, and writes the file: `closure` (include files), `toolchains`
  (versions), `cache` (`threads`), `constants`, `programs`.
- `jobs` compiles one job, in a process of `pool` or on a `cluster`.
- `result` and `display`: the report.
- `skeleton` (``devmod init``) uses these files. `packages`: errors of optional imports.

docs/design/build.md has the reasons.
"""

from __future__ import annotations

from devmod_targets.build.document import ManifestError
from devmod_targets.build.plan import plan_of
from devmod_targets.build.read import read_manifest

__all__ = ["ManifestError", "plan_of", "read_manifest"]
