"""Policies: TOML files whose rules bind a source to a name, a lowest version, and the keys that
must have signed.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote

from devmod.backend import open_regular
from devmod.errors import DevmodError, TrustError, did_you_mean, list_names
from devmod_trust._envelope import (
    MAX_VERSION,
    Envelope,
    name_problem,
    read_envelope,
    read_statement,
)
from devmod_trust._keys import PublicKey, read_public_key
from devmod_trust._sigstore import Identity

MEMORY = "memory"
PACKAGE = "package:"
#: What a URL may consist of, so that everyone reads it in one way: no credentials, query, fragment,
#: backslash or white space.
_URL = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*)://((?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])?)(?::(\d{1,5}))?(/[^\\?#\s\x00-\x20\x7f]*)?"
)
_PORTS = {"http": "80", "https": "443"}
#: The most links in a path, as for Linux.
_MAX_LINKS = 40
#: The keys of a policy, of its rules, and of the signers that are no file.
_TOP = ("rule", "raw")
# Where to change: a key of a policy
#   here: `_RULE` and `_rule`; `Policy.check` has the text of a refused file
#   also: `docs/trust.md`
#   tests: `tests/test_two_places.py`, `extras/trust/tests/test_policy.py`
_RULE = ("source", "name", "keys", "threshold", "version")
_IDENTITY = ("issuer", "identity", "config")


class File:
    """A file that policies are asked about.

    The parameters are those of the hook ``devmod_verify``.
    """

    def __init__(
        self, place: str, package: str, head: bytes, size: int, signature: bytes | None
    ) -> None:
        self.place = place
        self.package = package
        self.head = head
        self.size = size
        self.signature = signature

    @cached_property
    def paths(self) -> list[str]:
        """The paths of the file by which rules are found; none if it has no path."""
        if not os.path.isabs(self.place):
            return []
        return paths_of(self.place)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the header and the head."""
        return sha256(self.head).hexdigest()

    @cached_property
    def envelope(self) -> Envelope:
        """The signatures. Raises ValueError with the reason if they are invalid."""
        return read_envelope(self.signature or b"")


class Source:
    """A pattern of places: a path relative to a folder, a URL, ``package:NAME`` or ``memory``."""

    def __init__(self, text: object, folder: str) -> None:
        if not isinstance(text, str) or not text or "\0" in text:
            raise ValueError(f"source: expected texts, got {text!r}")
        self._text = text
        self._is_url = "://" in text
        self._base = ""
        is_package = re.fullmatch(r"package:[A-Za-z_]\w*(?:\.\w+)*", text, re.ASCII)
        if text.startswith(PACKAGE) and not is_package:
            raise ValueError(
                f"source: expected package: and the name of a package that can be imported, got {text!r}"
            )
        if self._is_url:
            pattern = normal_url(text)
            if not pattern:
                raise ValueError(
                    f"source: expected a URL without query, credentials, '..', encoded '/' and wildcards of hosts, got {text!r}"
                )
        else:
            parts = text.replace(os.sep, "/").split("/")
            fixed = 0
            while fixed < len(parts) and "*" not in parts[fixed]:
                fixed += 1
            if not parts[-1] or ".." in parts[fixed:]:
                raise ValueError(
                    f"source: {text!r} names no file: '**' takes the files in a folder, and no '..' is after a wildcard"
                )
            base = "/".join(parts[:fixed])
            if not base and text.startswith("/"):
                base = "/"
            self._base = os.path.join(folder, base)
            pattern = "".join(f"/{part}" for part in parts[fixed:])
        tokens = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
        expression = ""
        for part in re.findall(r"\*\*/|\*\*?|[^*]+", pattern):
            expression += tokens.get(part) or re.escape(part)
        self._glob = re.compile(expression, re.DOTALL)

    def takes(self, file: File) -> bool:
        """Return whether a file comes from here. Links of the pattern are resolved now, one by one,
        as those of the file's path.
        """
        if self._text == MEMORY or self._text.startswith(PACKAGE):
            return self._text in (file.place, f"{PACKAGE}{file.package}")
        if self._is_url:
            return self._glob.fullmatch(normal_url(file.place)) is not None
        if not file.paths:
            return False
        for each in paths_of(self._base):
            base = each.rstrip("/")
            for place in file.paths:
                if place.startswith(base) and self._glob.fullmatch(place, len(base)):
                    return True
        return False


class Signer(NamedTuple):
    """A key of a rule, by the name that the policy has for it, and the time from which it counts no
    more.
    """

    name: str
    key: PublicKey | Identity
    until: datetime | None

    def is_expired(self) -> bool:
        """Return whether the key counts no more, by the clock now."""
        return self.until is not None and datetime.now(UTC) >= self.until


class Rule(NamedTuple):
    """A rule: files from its sources need its name and its keys."""

    number: int
    sources: list[Source]
    name: str
    signers: list[Signer]
    threshold: int
    version: int

    def takes(self, file: File) -> bool:
        """Return whether a file comes from one of the sources."""
        return any(source.takes(file) for source in self.sources)


class Taken(NamedTuple):
    """The answer of a rule that takes a file: the keys that count and have signed it."""

    policy: str
    rule: int
    keys: tuple[str, ...]


class Policy(NamedTuple):
    """A policy that was read, and the state of its files then."""

    path: str
    rules: list[Rule]
    allows_raw: bool
    stamps: dict[str, tuple[int, ...]]

    def check(self, file: File) -> list[Taken]:
        """Return the answer of each rule that has the file as a source. Raise TrustError if one
        refuses it, or if there is none.
        """
        what = repr(file.place)
        if len(file.paths) > 1:
            what += f" ({file.paths[-1]!r})"
        if file.package:
            what += f" of the package {file.package!r}"
        taken = []
        by = repr(self.path)
        try:
            if not file.head:
                if self.allows_raw:
                    return []
                raise ValueError(
                    "it has no index that could be signed. Save it in a .devmod file and sign "
                    'that, or add the line raw = "allow" at the top of the policy'
                )
            rules = [rule for rule in self.rules if rule.takes(file)]
            if not rules:
                raise ValueError("no rule has it as a source. Add it to the source of a rule")
            for rule in rules:
                by = f"rule {rule.number} of {self.path!r} ({rule.name})"
                taken.append(Taken(self.path, rule.number, _keys_of(file, rule)))
        except ValueError as error:
            raise TrustError(f"{what} is refused by {by}: {error}") from None
        return taken


def check(file: File, policies: Iterable[str]) -> list[Taken]:
    """Return the answers of all policies. Raise TrustError if one of them refuses the file or is
    invalid.
    """
    taken = []
    for path in policies:
        taken += read_policy(path).check(file)
    return taken


def _keys_of(file: File, rule: Rule) -> tuple[str, ...]:
    """Return the keys by which a rule takes a file. Raise ValueError with the reason and what to do
    if it refuses it.
    """
    again = f"Get it and its .sig again from who publishes {rule.name}"
    if file.signature is None:
        todo = "Give the content of its .sig as signature="
        if file.place != MEMORY:
            beside = file.place.rpartition("/")[2] + ".sig"
            todo = f"Expected is {beside!r} beside it; `devmod sign` writes it"
        names = list_names(each.name for each in rule.signers)
        raise ValueError(f"it has no signature; expected is one by {names}. {todo}")
    try:
        envelope = file.envelope
    except ValueError as error:
        raise ValueError(f"its file of signatures is invalid: {error}. {again}") from None
    keys = _signed_by(envelope, rule, again)
    try:
        statement = read_statement(envelope.payload)
    except ValueError as error:
        raise ValueError(
            f"what {keys[0]!r} has signed is invalid: {error}. Sign it again with `devmod sign`"
        ) from None
    has_its_size = file.size in (-1, statement.size)  # that of a file at a URL may be unknown
    if statement.digest != file.digest or not has_its_size:
        raise ValueError(
            f"{keys[0]!r} has signed another file: {statement.name}, version {statement.version}. {again}"
        )
    if statement.name != rule.name:
        raise ValueError(
            f"it is signed as {statement.name!r}. Put each file where the rule for its name has it as a source"
        )
    if statement.version < rule.version:
        raise ValueError(
            f"it is signed as version {statement.version}, and the lowest is {rule.version}. Get a newer one"
        )
    return keys


def _signed_by(envelope: Envelope, rule: Rule, again: str) -> tuple[str, ...]:
    """Return the keys of a rule that count and have signed. Raise ValueError if they are too few,
    with `again` as the advice if no other is known.
    """
    keys = []
    expired = ""
    todo = ""
    for each in rule.signers:
        try:
            has_signed = each.key.has_signed(envelope)
        except ValueError as error:  # sigstore cannot be used; the other keys may suffice
            todo = todo or str(error)
            continue
        if not has_signed:
            continue
        if each.is_expired():
            expired += f"; {each.name!r} has, and counts no more since {each.until}"
        else:
            keys.append(each.name)
    if len(keys) >= rule.threshold:
        return tuple(keys)

    by = "not signed by a key that counts"
    if keys:
        by = f"signed by {list_names(keys)} alone"
    if expired:
        again = "Sign it again with a key that counts"
    names = list_names(each.name for each in rule.signers)
    raise ValueError(
        f"it is {by}, and the rule needs {rule.threshold} of {names}{expired}. {todo or again}"
    )


# -- reading

#: The policies that this process has read.
_policies: dict[str, Policy] = {}


def read_policy(path: str) -> Policy:
    """Return a policy. It is read again if its file, or that of a key, has changed. Raise
    TrustError if it is invalid.
    """
    name = os.path.abspath(path) if path else path
    policy = _policies.get(name)
    if policy is None or any(_stamp(file) != stamp for file, stamp in policy.stamps.items()):
        policy = _policies[name] = _read(name)
    return policy


def _read(path: str) -> Policy:
    stamps = {path: _stamp(path)}
    where = ""
    try:
        with open_regular(path) as file:
            data = tomllib.load(file)
        _check_keys(data, _TOP)
        raw = data.get("raw", "refuse")
        if raw not in ("refuse", "allow"):
            raise ValueError(f'raw: expected "refuse" or "allow", got {raw!r}')
        if not isinstance(data.get("rule"), list) or not data["rule"]:
            raise ValueError("it has no [[rule]]")
        rules = []
        for number, table in enumerate(data["rule"], 1):
            where = f"rule {number}: "
            rules.append(_rule(number, table, os.path.dirname(path), stamps))
    except OSError as error:
        problem = f"it cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        problem = f"{where}{error}"
    else:
        return Policy(path, rules, raw == "allow", stamps)
    raise TrustError(f"the policy {path!r} is invalid, so everything is refused: {problem}")


def _rule(number: int, table: object, folder: str, stamps: dict[str, tuple[int, ...]]) -> Rule:
    if not isinstance(table, dict):
        raise ValueError("expected a table, [[rule]]")
    if "raw" in table:  # a line at the end of the file belongs to its last rule
        raise ValueError("raw belongs at the top of the policy, before the first [[rule]]")
    _check_keys(table, _RULE)
    for key in ("source", "name", "keys"):
        if key not in table:
            raise ValueError(f"it has no {key}")
    for key in ("source", "keys"):
        if not isinstance(table[key], list) or not table[key]:
            raise ValueError(f"{key}: expected a list that is not empty, got {table[key]!r}")
    sources = [Source(text, folder) for text in table["source"]]
    problem = name_problem(table["name"])
    if problem:
        raise ValueError(f"name: {problem}")
    signers = [_signer(entry, folder, stamps) for entry in table["keys"]]
    names: dict[bytes, str] = {}
    for each in signers:
        if each.key.data in names:
            raise ValueError(
                f"keys: {names[each.key.data]!r} and {each.name!r} are one key, which would count twice"
            )
        names[each.key.data] = each.name
    threshold = table.get("threshold", 1)
    if not _is_number(threshold, 1, len(signers)):
        raise ValueError(
            f"threshold: expected a number from 1 to {len(signers)}, the number of keys, got {threshold!r}"
        )
    version = table.get("version", 0)
    if not _is_number(version, 0, MAX_VERSION):
        raise ValueError(f"version: expected a number from 0 to {MAX_VERSION}, got {version!r}")
    return Rule(number, sources, table["name"], signers, threshold, version)


def _signer(entry: object, folder: str, stamps: dict[str, tuple[int, ...]]) -> Signer:
    table: dict[str, Any] = {}
    if isinstance(entry, str):
        table = {"file": entry}
    elif isinstance(entry, dict):
        table = entry
    is_file = "file" in table
    if is_file == ("issuer" in table) or not _has_texts(table):
        raise ValueError(
            f'keys: expected "FILE", {{ file = "FILE" }} or {{ issuer = "URL", identity = "NAME" }}, got {entry!r}'
        )
    if is_file:
        _check_keys(table, ("file", "until"), "keys: ")
        name = table["file"]
        path = os.path.join(folder, name)
    else:
        _check_keys(table, (*_IDENTITY, "until"), "keys: ")
        if "identity" not in table:
            raise ValueError(f"keys: {table['issuer']!r} needs an identity")
        name = table["identity"]
        path = table.get("config", "")
        if path:
            path = os.path.join(folder, path)
    until = _until(table)
    stamps[path] = _stamp(path)
    try:
        if is_file:
            return Signer(name, read_public_key(path), until)
        return Signer(name, Identity(table["issuer"], name, path), until)
    except OSError as error:
        raise ValueError(f"keys: {name!r} cannot be read: {error.strerror}") from None
    except DevmodError as error:
        raise ValueError(f"keys: {error}") from None


def _has_texts(table: dict[str, Any]) -> bool:
    """Return whether the names and paths of a signer are texts that can be some."""
    for key in ("file", *_IDENTITY):
        text = table.get(key, "-")
        if not isinstance(text, str) or not text or "\0" in text:
            return False
    return True


def _until(table: dict[str, Any]) -> datetime | None:
    """Return the time from which a signer counts no more."""
    if "until" not in table:
        return None
    until = table["until"]
    if type(until) is date:
        return datetime.combine(until, time(), UTC)
    if isinstance(until, datetime) and until.tzinfo is not None:
        return until
    raise ValueError(
        f"keys: until: expected a date, or a time with its offset such as 2027-01-31T12:00:00Z, got {until}"
    )


def _is_number(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _check_keys(table: dict[str, Any], known: tuple[str, ...], where: str = "") -> None:
    for key in sorted(table.keys() - known):
        advice = did_you_mean(key, known) or f". Its keys: {', '.join(known)}"
        raise ValueError(f"{where}it has the unknown key {key!r}{advice}")


def _stamp(path: str) -> tuple[int, ...]:
    """Return what changes when a file is written or replaced; () if it cannot be read."""
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return ()
    return state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino, state.st_dev


def paths_of(path: str) -> list[str]:
    """Return an absolute path as it is given, as it is after each of its links is resolved, one by
    one, and at last without any.

    Rules for all of them apply. Who can write to a folder, and makes a link there, does not choose
    other rules for it.
    """
    real = os.path.realpath(path)
    found = [os.path.normpath(path)]
    drive, rest = os.path.splitdrive(path)
    root = drive + os.sep
    place = root
    parts: list[str] = []
    if real != path:  # most paths have no links
        parts = rest.split(os.sep)[::-1]
    while parts:
        part = parts.pop()
        if part == "..":
            place = os.path.dirname(place)
            continue
        inner = os.path.join(place, part)
        target = ""
        if part not in ("", ".") and len(found) <= _MAX_LINKS:
            target = _target(inner)
        if not target:
            place = os.path.normpath(inner)
            continue
        if os.path.isabs(target):
            place = root
        parts += target.split(os.sep)[::-1]
        found.append(os.path.normpath(os.path.join(place, *reversed(parts))))
    # Other systems have links of other sorts, which `realpath` resolves.
    return [each.replace(os.sep, "/") for each in dict.fromkeys([*found, real])]


def _target(path: str) -> str:
    """Return where a link leads; "" if it is none."""
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return ""


def normal_url(text: str) -> str:
    """Return the form of a URL in which equal ones are equal; "" if servers and libraries could
    read it in different ways.

    The scheme and the host are in lower case, the port of the scheme is left out, and letters,
    digits and ``-._~`` are not encoded.
    """
    found = _URL.fullmatch(text)
    if found is None:
        return ""
    quoted = quote(found[4] or "/", safe="!$%&'()*+,;=:@/~\"<>[]^`{|}")
    # At each second place is what was encoded.
    parts = re.split(r"%([0-9A-Fa-f]{2})", quoted)
    codes = [chr(int(each, 16)) for each in parts[1::2]]
    if "%" in "".join(parts[::2]) or {"/", "\\", "\0"} & {*codes}:
        return ""
    for number, each in enumerate(codes):
        text = each
        if not re.fullmatch(r"[A-Za-z0-9._~-]", each):
            text = f"%{ord(each):02X}"
        parts[2 * number + 1] = text
    path = "".join(parts)
    if {".", ".."} & {*path.split("/")}:
        return ""
    scheme = found[1].lower()
    place = f"{scheme}://{found[2].lower()}"
    port = found[3]
    if port is not None and port != _PORTS.get(scheme):
        place += f":{int(port)}"
    return place + path
