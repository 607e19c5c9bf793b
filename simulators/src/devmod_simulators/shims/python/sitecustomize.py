"""Python below `devmod simulate` imports this file first, and then that of the user."""

from __future__ import annotations

import os
import sys

from devmod_cudart import install

install()
_folder, _own = os.path.dirname(os.path.abspath(__file__)), sys.modules[__name__]
sys.path[:] = [each for each in sys.path if os.path.abspath(each) != _folder]
del sys.modules[__name__]
try:
    import sitecustomize  # noqa: F401  # that of the user
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
sys.modules.setdefault("sitecustomize", _own)
