"""The formats: a module's bytes, the ``.devmod`` file, raw payload files with their metadata.
docs/design/files.md has the reasons.
"""

from __future__ import annotations

#: The kind of the host library at the root of a tree of TVM. It has no bytes.
LIBRARY = "_lib"
