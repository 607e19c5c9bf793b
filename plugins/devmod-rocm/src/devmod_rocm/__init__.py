"""devmod-rocm: the functions that its entry points name. Importing it loads no driver and no driver library."""

from __future__ import annotations
