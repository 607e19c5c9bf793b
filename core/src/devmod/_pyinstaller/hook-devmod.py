"""The PyInstaller hook of the package devmod, which the name of this file selects."""

from __future__ import annotations

from devmod._pyinstaller import collect

datas, hiddenimports = collect()
