"""The caches of other programs in the cache folder, such as those of compilers that devmod starts.

Their files have any name and are code that is run.
"""

from __future__ import annotations

import os

from devmod._util.cache_files import TAG, TAG_TEXT, enforce_bound, is_tagged
from devmod._util.cache_folder import cache_dir, folder_problem, make_folder, write_private
from devmod._util.disk_cache import size_bound
from devmod.errors import DevmodError

#: The cache folders whose size this process has bounded.
_bounded: set[str] = set()
_ADVICE = "Set DEVMOD_CACHE_DIR to another folder"


def program_cache(kind: str, *names: str) -> str:
    """Return a folder for the caches of other programs, made for this user alone.

    `devmod cache` counts and clears the files in the folder of the kind, whatever their names. At
    the first call of a process, the least recently used entries of all kinds are removed beyond
    ``DEVMOD_CACHE_SIZE``.

    Parameters
    ----------
    kind
        The name of the folder in the cache folder. No `DiskCache` has it.
    names
        The folders in it.

    Raises
    ------
    DevmodError
        There is no cache folder, the folder cannot be made, other users may write to it, or it has
        files that are not of such caches.
    """
    base = cache_dir()
    if not base:
        raise DevmodError(
            "there is no cache folder, because this user has no home folder: set DEVMOD_CACHE_DIR"
        )
    top = os.path.join(base, kind)
    folder = os.path.join(top, *names)
    _check(base)
    try:
        make_folder(top)
        _check(top)
        if not is_tagged(top):
            _tag(top)
        make_folder(folder)
    except OSError as error:
        raise DevmodError(
            f"the cache folder {folder!r} cannot be made: {error.filename}: {error.strerror}. "
            f"{_ADVICE}"
        ) from None
    _check(folder)
    if base not in _bounded:  # listing all files takes time
        _bounded.add(base)
        bound = size_bound()
        enforce_bound(base, bound, bound)
    return folder


def _check(folder: str) -> None:
    problem = folder_problem(folder)
    if problem:
        raise DevmodError(f"the cache folder {folder!r} is not used: {problem}. {_ADVICE}")


def _tag(folder: str) -> None:
    """Mark a folder as one of such caches. A folder with a user's own files is not marked."""
    for name in os.listdir(folder):
        if not name.startswith(TAG):  # another process may write the tag
            raise DevmodError(
                f"the cache folder {folder!r} is not used: it has the file {name!r}, which is not "
                f"of a cache. {_ADVICE}"
            )
    if not write_private(os.path.join(folder, TAG), TAG_TEXT):
        raise DevmodError(f"the cache folder {folder!r} cannot be written to. {_ADVICE}")
