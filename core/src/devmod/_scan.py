"""Reading the metadata of a folder of sys.path itself, and writing its index: the cold path of `devmod._discovery`."""

from __future__ import annotations

import os
import stat
import time

from devmod._cachedir import write_private
from devmod._discovery import MAGIC, Distribution, Folder, check_value, index_path, normalized, stamp_of
from devmod._log import debug

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

    It may when everything that a change would touch has times that would show the change: at least two seconds old, and of
    a file system that keeps a fraction of a second. Whole seconds come of images with normalized times (squashfs, an ext4
    image built reproducibly), where another image may have the same times, inodes and names; nothing but reading all of
    it again is right there.
    """
    began = time.time_ns()
    lasting = _lasting(found.st_mtime_ns, found.st_ctime_ns, began)
    if stat.S_ISDIR(found.st_mode):
        for name in infos:
            lasting = _read(folder, name, began) and lasting
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
        debug(f"{finder!r} cannot list distributions: {_said(error)}")
        return []


def _context(**limits: object) -> Any:
    from importlib_metadata import DistributionFinder

    made: Any = DistributionFinder.Context
    return made(**limits)


def _read(folder: Folder, called: str, began: int) -> bool:
    """Read one metadata folder into `folder`; whether a later change of it would show."""
    inside = os.path.join(folder.path, called)
    name = _name_in(folder.path if called.lower() == "egg-info" else called)
    try:
        about = os.stat(inside)
    except OSError:
        return True  # a dangling link, or gone since: the folder's own time tells
    if not stat.S_ISDIR(about.st_mode):
        folder.names += f" {name}"  # the file that distutils wrote; it declares no entries
        return True
    egg = not called.lower().endswith(".dist-info")
    files = [os.path.join(inside, "entry_points.txt"), os.path.join(inside, "PKG-INFO" if egg else "METADATA")]
    try:
        with open(files[0], "rb") as file:
            declares = b"devmod." in file.read()
    except FileNotFoundError:
        declares = False
    except OSError as error:
        debug(f"cannot read {files[0]!r}: {error}")
        declares = False
    whole = os.path.exists(files[1])
    if whole:
        folder.names += f" {name}"
    ours = name.startswith("devmod")
    if declares and name != "devmod-core":  # core's entries stand in the registry's own table
        from importlib_metadata import Distribution as Metadata

        # A folder without METADATA goes by its own name, so that the error can say which one is to be removed.
        folder.distributions += _told(Metadata.at(inside), inside, about, "" if whole else called)
    lasting = _lasting(about.st_mtime_ns, about.st_ctime_ns, began)
    # These may change in place: egg-info is written again by each build, dist-info only by what unpacks over it.
    if declares or ours or egg or not whole:
        for path in (inside, *files):
            stamp = stamp_of(path)
            folder.watched.append((stamp, path))
            lasting = lasting and _stamp_lasting(stamp, began)
    return lasting


def _read_archive(folder: Folder) -> None:
    from importlib_metadata import MetadataPathFinder

    MetadataPathFinder.invalidate_caches()
    try:
        found = list(MetadataPathFinder.find_distributions(_context(path=[folder.path])))
    except Exception as error:  # noqa: BLE001 - whatever a damaged archive raises, the others go on
        debug(f"cannot read the archive {folder.path!r}: {_said(error)}")
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
            debug(f"cannot read the entry points of {location!r}: {_said(error)}")
            continue
        if "devmod." in text:
            made += [one for one in _told(each, location, None, "") if normalized(one.name) != "devmod-core"]
    return made


def _told(found: Any, location: str, about: os.stat_result | None, without: str) -> Iterator[Distribution]:
    """What importlib_metadata makes of a distribution; nothing where it has no entry in a group of ours."""
    name, version, problem = without, "", ""
    if without:
        problem = f"{without} has no METADATA, as an interrupted install or uninstall leaves it"
    else:
        try:
            name, version = str(found.metadata["Name"] or ""), str(found.metadata["Version"] or "")
        except Exception as error:  # noqa: BLE001 - whatever broken metadata raises, it breaks this one alone
            problem = f"its METADATA cannot be read ({_said(error)})"
        if not name or not version:
            problem = problem or "its METADATA has no " + ("Version" if name else "Name")
            name = name or os.path.basename(location.rstrip("/"))
    changed = max(about.st_mtime_ns, about.st_ctime_ns) if about is not None else 0
    made = Distribution(name, version, location, changed, problem)
    try:
        made.entries = [(each.group, each.name, each.value) for each in found.entry_points if str(each.group).startswith("devmod.")]
    except Exception as error:  # noqa: BLE001 - as above
        made.problem = problem or f"its entry_points.txt cannot be read ({_said(error)})"
        yield made
        return
    if made.entries:
        yield made


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _name_in(path: str) -> str:
    """The normalized name of the distribution that a metadata folder, by its own name, belongs to."""
    return normalized(os.path.splitext(os.path.basename(path))[0].partition("-")[0])


def _lasting(modified: int, changed: int, began: int) -> bool:
    return changed % _SECOND != 0 and max(modified, changed) <= began - _SETTLED


def _stamp_lasting(stamp: str, began: int) -> bool:
    if not stamp:
        return True  # what is not there shows in its folder's time when it comes
    _, _, modified, changed, _ = stamp.split()
    return _lasting(int(modified), int(changed), began)


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
