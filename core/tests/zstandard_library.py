"""The library of zstd: the standard library's from Python 3.14 on, before it backports.zstd.
pytest's `pythonpath` has this folder.
"""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["NAME", "zstd"]

#: The module's name, for a test that hides it.
NAME = zstd.__name__
