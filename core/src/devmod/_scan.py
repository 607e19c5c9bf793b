"""Reading the metadata of a folder of sys.path itself, and writing its index: the cold path of `devmod._discovery`."""

from __future__ import annotations

import os
import stat
import time

from devmod._cachedir import write_private
from devmod._discovery import MAGIC, Distribution, Folder, check_value, index_path, normalized, stamped
from devmod._log import debug
from devmod.errors import said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SECOND = 1_000_000_000
#: A file system may give two changes the same time when they are closer than this (FAT: 2 s).
_SETTLED = 2 * _SECOND
#: As many indexes are kept; each folder that ever stood on sys.path may have one.
_MOST_INDEXES = 256


def scan(folder: Folder, infos: list[str], found: os.stat_result) -> bool:
    """Read into `folder` what its metadata folders `infos` say, or what the archive does; whether it may be remembered.

    It may when a change would show in its times: they are at least two seconds old, and of a file system that keeps a fraction
    of a second. Whole seconds come of images with normalized times (squashfs, an ext4 image built reproducibly), where
    another image may have the same times, inodes and names; nothing but reading all of it again is right there.
    """
    began = time.time_ns()
    lasting = _lasting(found, found.st_dev, began) and found.st_ctime_ns % _SECOND != 0
    if stat.S_ISDIR(found.st_mode):
        for name in infos:
            lasting = _read(folder, name, found.st_dev, began if lasting else 0) and lasting
        folder.distributions.sort(key=lambda each: (bool(each.problem), -each.changed, each.location))
    elif stat.S_ISREG(found.st_mode):
        _read_archive(folder)
    else:
        lasting = False
    folder.names = f" {' '.join(sorted(set(folder.names.split())))} "
    if lasting:
        _write(folder)
    kept = "" if lasting else "; nothing to go by if it changes, so no index"
    debug(f"read {folder.path!r}: {len(folder.distributions)} distributions with devmod entries{kept}")
    return lasting


def ask(finder: Any) -> list[Distribution]:
    """The distributions with devmod entries that a finder of `sys.meta_path` knows."""
    try:
        return _sound(list(finder.find_distributions(_context())))
    except Exception as error:  # noqa: BLE001 - a stranger's finder must not take the others down
        debug(f"{finder!r} cannot list distributions: {said(error)}")
        return []


def _context(**limits: object) -> Any:
    from importlib_metadata import DistributionFinder

    made: Any = DistributionFinder.Context
    return made(**limits)


def _read(folder: Folder, called: str, device: int, began: int) -> bool:
    """Read one metadata folder into `folder`. Whether a later change of it would show; with `began` 0 nobody asks."""
    inside = f"{folder.path}{os.sep}{called}"
    egg = not called.lower().endswith(".dist-info")
    files = (f"{inside}{os.sep}entry_points.txt", f"{inside}{os.sep}{'PKG-INFO' if egg else 'METADATA'}")
    name = _name_in(folder.path if called.lower() == "egg-info" else called)
    try:
        declares = b"devmod." in _content(files[0])
    except NotADirectoryError:
        folder.names += f" {name}"  # the file that distutils wrote; it declares no entries
        return True
    except OSError as error:
        debug(f"cannot read {files[0]!r}: {error}")
        declares = False
    whole = os.path.exists(files[1])
    if whole:
        folder.names += f" {name}"
    if declares and name != "devmod-core":  # core's entries stand in the registry's own table
        try:
            from importlib_metadata import Distribution as Metadata
        except ImportError:
            problem = "its metadata cannot be read without importlib-metadata. To add it: pip install importlib-metadata"
            folder.distributions.append(Distribution(name, "", inside, 0, problem))
            return False
        folder.distributions += _told(Metadata.at(inside), inside, without=not whole)
    if not began:
        return False
    watched = [inside]  # an installer that is not done yet has only just made it
    # These may change in place: egg-info is written again by each build, dist-info only by what unpacks over it.
    if declares or egg or not whole or name.startswith("devmod"):
        watched += files
    lasting = True
    for path in watched:
        try:
            about = os.stat(path)
        except OSError:
            stamp = ""
        else:
            stamp = stamped(about)
            lasting = lasting and _lasting(about, device, began)
        if len(watched) > 1:
            folder.watched.append((stamp, path))
    return lasting


def _content(path: str) -> bytes:
    """All of a file, b"" where there is none. The plain calls: this runs for every distribution there is."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return b""
    try:
        made = part = os.read(file, 1 << 16)
        while part:
            part = os.read(file, 1 << 16)
            made += part
        return made
    finally:
        os.close(file)


def _read_archive(folder: Folder) -> None:
    try:
        from importlib_metadata import MetadataPathFinder

        MetadataPathFinder.invalidate_caches()
        found = list(MetadataPathFinder.find_distributions(_context(path=[folder.path])))
    except Exception as error:  # noqa: BLE001 - whatever a damaged archive raises, the others go on
        debug(f"cannot read the archive {folder.path!r}: {said(error)}")
        return
    folder.distributions = _sound(found)
    for each in found:
        location = str(getattr(each, "_path", ""))
        folder.names += f" {_name_in(location.rstrip('/'))}"


def _sound(found: list[Any]) -> list[Distribution]:
    made: list[Distribution] = []
    for each in found:
        location = str(getattr(each, "_path", ""))
        try:
            text = each.read_text("entry_points.txt") or ""
        except Exception as error:  # noqa: BLE001 - as above
            debug(f"cannot read the entry points of {location!r}: {said(error)}")
            continue
        if "devmod." in text:
            made += [one for one in _told(each, location) if normalized(one.name) != "devmod-core"]
    return made


def _told(found: Any, location: str, *, without: bool = False) -> Iterator[Distribution]:
    """What importlib_metadata makes of a distribution; nothing where it has no entry in a group of ours.

    `without`: its metadata folder has no METADATA, so that the folder's own name must do.
    """
    where = os.path.basename(location.rstrip("/"))
    name = version = problem = ""
    if without:
        problem = f"{where} has no METADATA, as an interrupted install or uninstall leaves it"
    else:
        try:
            name, version = (str(found.metadata.get(field, "")) for field in ("Name", "Version"))
        except Exception as error:  # noqa: BLE001 - whatever broken metadata raises, it breaks this one alone
            problem = f"the METADATA in {where} cannot be read ({said(error)})"
        if not name or not version:
            problem = problem or f"the METADATA in {where} has no {'Version' if name else 'Name'}"
    name = name or where.partition("-")[0]
    made = Distribution(name, version, location, _changed(location), problem)
    try:
        made.entries = [(each.group, each.name, each.value) for each in found.entry_points if str(each.group).startswith("devmod.")]
    except Exception as error:  # noqa: BLE001 - as above
        made.problem = problem or f"the entry_points.txt in {where} cannot be read ({said(error)})"
        yield made
        return
    if made.entries:
        yield made


def _name_in(path: str) -> str:
    """The normalized name of the distribution that a metadata folder, by its own name, belongs to."""
    return normalized(os.path.splitext(os.path.basename(path))[0].partition("-")[0])


def _changed(path: str) -> int:
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return 0  # inside an archive
    return max(about.st_mtime_ns, about.st_ctime_ns)


def _lasting(about: os.stat_result, device: int, began: int) -> bool:
    """Whether a change after `began` would show in these times; on another device than the folder's they must be fine ones."""
    settled = max(about.st_mtime_ns, about.st_ctime_ns) <= began - _SETTLED
    return settled and (about.st_dev == device or about.st_ctime_ns % _SECOND != 0)


def _write(folder: Folder) -> None:
    lines = ["F", folder.stamp, folder.path], ["N", folder.names]
    body = "".join(_line(*line) for line in lines)
    for each in folder.distributions:
        body += _line("D", each.name, each.version, each.location, str(each.changed), each.problem)
        body += "".join(_line("E", *entry) for entry in each.entries)
    body += "".join(_line("W", stamp, path) for stamp, path in folder.watched)
    data = body.encode("utf-8", "surrogateescape")
    path = index_path(folder.path)
    if path and write_private(path, f"{MAGIC} {check_value(data)} {len(data)}\n".encode() + data):
        _prune(os.path.dirname(path))
    else:
        debug(f"cannot write the index of {folder.path!r} in the cache folder")


def _line(*fields: str) -> str:
    return "\t".join(field.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n") for field in fields) + "\n"


def _prune(base: str) -> None:
    """Remove the indexes that were written first, when there are too many; a lost one is made again."""
    try:
        with os.scandir(base) as listed:
            files = sorted((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path) for entry in listed)
        for _, path in files[:-_MOST_INDEXES]:
            os.unlink(path)
    except OSError:
        pass  # another process was here first
