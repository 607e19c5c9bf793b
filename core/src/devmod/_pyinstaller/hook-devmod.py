"""PyInstaller's hook for devmod; PyInstaller goes by this file's name."""

from devmod._pyinstaller import collect

datas, hiddenimports = collect()
