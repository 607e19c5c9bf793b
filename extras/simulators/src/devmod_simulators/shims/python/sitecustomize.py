"""Python below `devmod simulate` imports this file first, and then that of the user."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import_module("devmod_cudart").install()
_folder = os.path.dirname(os.path.abspath(__file__))
_own = sys.modules[__name__]
sys.path[:] = [each for each in sys.path if os.path.abspath(each) != _folder]
del sys.modules[__name__]
try:
    import_module("sitecustomize")  # that of the user
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
sys.modules.setdefault("sitecustomize", _own)
