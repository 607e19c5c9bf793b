"""Read the metadata in a folder of sys.path, and write its index: the cold path of
`devmod._plugins.discovery`.
"""

from __future__ import annotations

import os
import stat
import time

from devmod._plugins.claim import CORE, Distribution, normalize_name
from devmod._plugins.index_file import Folder, shows_change, stamp_from_stat, write_index
from devmod._util.environment import debug
from devmod._util.imports import import_with_pathlib
from devmod._util.regular_files import file_type
from devmod.errors import count_text, describe_error, not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: The size of the largest metadata file that is read, in bytes.
_MAX_SIZE = 1 << 24


def scan(folder: Folder, infos: list[str], status: os.stat_result) -> bool:
    """Read the metadata folders `infos`, or the archive, into `folder`. Return whether the result
    may be cached.

    It may be cached if a later change would change the file times: they are at least two seconds
    old, and they have fractions of a second. Images with normalized times (squashfs, a reproducible
    ext4 image) have whole seconds. Two such images may have the same times, inodes and names, so
    their folders are read at each use.
    """
    start = time.time_ns()
    lasting = shows_change(status, start)
    if stat.S_ISDIR(status.st_mode):
        for name in infos:
            since = start if lasting else 0
            if not _read(folder, name, status.st_dev, since):
                lasting = False
        folder.distributions.sort(
            key=lambda each: (bool(each.problem), -each.changed, each.location)
        )
    elif stat.S_ISREG(status.st_mode):
        _read_archive(folder)
    else:
        lasting = False
    folder.names = f" {' '.join(sorted(set(folder.names.split())))} "
    if lasting and not write_index(folder):
        debug(f"cannot write the index of {folder.path!r} in the cache folder")
    text = f"read {folder.path!r}: {len(folder.distributions)} distributions with devmod entries"
    if not lasting:
        text += "; its times would not show a change, so it has no index"
    debug(text)
    return lasting


def distributions_of_finder(finder: Any) -> list[Distribution]:
    """Return the distributions with devmod entries that a finder of `sys.meta_path` lists."""
    return _with_entries(_listed(f"{finder!r} cannot list distributions", finder))


def _listed(problem: str, finder: Any = None, **limits: object) -> list[Any]:
    """Return the distributions that a finder lists, by default that of folders and archives. If it
    fails, return none: the log has the `problem`.
    """
    try:
        metadata: Any = import_with_pathlib("importlib_metadata")
        if finder is None:
            finder = metadata.MetadataPathFinder
            finder.invalidate_caches()
        context = metadata.DistributionFinder.Context(**limits)
        return list(finder.find_distributions(context))
    except Exception as error:  # noqa: BLE001 - one failing finder or archive must not disable the others
        debug(f"{problem}: {describe_error(error)}")
        return []


def _read(folder: Folder, entry: str, device: int, start: int) -> bool:
    """Read one metadata folder into `folder`. Return whether a later change would change its times;
    `start=0` disables the check.
    """
    inside = f"{folder.path}{os.sep}{entry}"
    is_egg = not entry.lower().endswith(".dist-info")
    metadata = "PKG-INFO" if is_egg else "METADATA"
    files = (f"{inside}{os.sep}entry_points.txt", f"{inside}{os.sep}{metadata}")
    # The folder EGG-INFO of an egg has the egg's name.
    name = _name_in(folder.path if entry.lower() == "egg-info" else entry)
    try:
        declares = b"devmod." in _content(files[0])
    except NotADirectoryError:
        folder.names += f" {name}"  # a file, which distutils wrote; it has no entries
        return True
    except OSError as error:
        debug(f"cannot read {files[0]!r}: {error}")
        declares = False

    problem = ""
    try:
        unreadable = _unreadable(os.stat(files[1]))
    except (OSError, ValueError):
        is_whole = False
        problem = f"{entry} has no METADATA, as an interrupted install or uninstall leaves it"
    else:
        is_whole = True
        folder.names += f" {name}"
        if unreadable:
            problem = f"the METADATA in {entry} cannot be read ({unreadable})"
    if declares and name != CORE:  # the registry has a table of core's entries
        try:
            reader = import_with_pathlib("importlib_metadata").Distribution
        except ImportError:
            problem = f"its metadata cannot be read: {not_installed('importlib-metadata', 'importlib-metadata')}"
            folder.distributions.append(Distribution(name, "", inside, 0, problem))
            return False
        folder.distributions += _distribution_of(reader.at(inside), inside, problem)
    if not start:
        return False

    paths = [inside]  # an installer may still write to it
    # These files may change in place: each build writes egg-info again; unpacking may overwrite
    # dist-info.
    if declares or is_egg or not is_whole or name.startswith("devmod"):
        paths += files
    return _watch(folder, paths, start, device)


def _watch(folder: Folder, paths: list[str], start: int, device: int) -> bool:
    """Note the stamps of a metadata folder and of its files. Return whether a later change would
    change its times.
    """
    lasting = True
    for path in paths:
        try:
            about = os.stat(path)
        except OSError:
            stamp = ""
        else:
            stamp = stamp_from_stat(about)
            lasting = lasting and shows_change(about, start, device)
        if len(paths) > 1:
            folder.watched.append((stamp, path))
    return lasting


def _unreadable(status: os.stat_result) -> str:
    """Return why a metadata file is not read: reading a pipe or a device may never end. Return ""
    for other files.
    """
    if not stat.S_ISREG(status.st_mode):
        kind = file_type(status.st_mode)
        if kind:
            return f"it is {kind}"
    if status.st_size > _MAX_SIZE:
        return f"it has {count_text(status.st_size, 'byte')}"
    return ""


def _content(path: str) -> bytes:
    """Return the content of a file; b"" if it is missing. An interrupt may come after any call, so
    a file object holds the open file.
    """
    try:
        unreadable = _unreadable(os.stat(path))
        if unreadable:
            raise OSError(unreadable)
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _read_archive(folder: Folder) -> None:
    results = _listed(f"cannot read the archive {folder.path!r}", path=[folder.path])
    folder.distributions = _with_entries(results)
    for each in results:
        location = str(getattr(each, "_path", ""))
        folder.names += f" {_name_in(location.rstrip('/'))}"


def _with_entries(sources: list[Any]) -> list[Distribution]:
    result = []
    for each in sources:
        location = str(getattr(each, "_path", ""))
        try:
            text = each.read_text("entry_points.txt") or ""
        except Exception as error:  # noqa: BLE001 - as above
            debug(f"cannot read the entry points of {location!r}: {describe_error(error)}")
            continue
        if "devmod." not in text:
            continue
        for distribution in _distribution_of(each, location):
            if normalize_name(distribution.name) != CORE:
                result.append(distribution)
    return result


def _distribution_of(metadata: Any, location: str, problem: str = "") -> list[Distribution]:
    """Convert a distribution of importlib_metadata. Return it, or nothing if it has no entry in a
    devmod group.

    `problem` is why its METADATA is not read. The name is then read from the folder's name.
    """
    folder = os.path.basename(location.rstrip("/"))
    name = version = ""
    if not problem:
        try:
            name = str(metadata.metadata.get("Name", ""))
            version = str(metadata.metadata.get("Version", ""))
        except Exception as error:  # noqa: BLE001 - broken metadata may raise anything, and must not disable other distributions
            name = version = ""
            problem = f"the METADATA in {folder} cannot be read ({describe_error(error)})"
        if not problem and not name:
            problem = f"the METADATA in {folder} has no Name"
        elif not problem and not version:
            problem = f"the METADATA in {folder} has no Version"
    if not name:
        name = os.path.splitext(folder)[0].partition("-")[0]

    result = Distribution(name, version, location, _changed(location), problem)
    try:
        for each in metadata.entry_points:
            if str(each.group).startswith("devmod."):
                result.entries.append((each.group, each.name, each.value))
    except Exception as error:  # noqa: BLE001 - as above
        result.entries = []
        if not problem:
            text = f"the entry_points.txt in {folder} cannot be read ({describe_error(error)})"
            result.problem = text
        return [result]
    if not result.entries:
        return []
    return [result]


def _name_in(path: str) -> str:
    """Return the normalized distribution name in the name of a metadata folder."""
    return normalize_name(os.path.splitext(os.path.basename(path))[0].partition("-")[0])


def _changed(path: str) -> int:
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return 0  # inside an archive
    return max(about.st_mtime_ns, about.st_ctime_ns)
