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

MEMORY, PACKAGE = "memory", "package:"
#: What a URL may consist of, so that everyone reads it in one way: no credentials, query, fragment,
#: backslash or white space.
_URL = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*)://((?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])?)(?::(\d{1,5}))?(/[^\\?#\s\x00-\x20\x7f]*)?"
)
_PORTS = {"http": "80", "https": "443"}
#: The most links in a path, as for Linux.
_MAX_LINKS = 40
_RULE, _TOP, _IDENTITY = (
    ("source", "name", "keys", "threshold", "version"),
    ("rule", "raw"),
    ("file", "issuer", "identity", "config"),
)


class File:
    """A file that policies are asked about.

    The parameters are those of the hook ``devmod_verify``.
    """

    def __init__(
        self, place: str, package: str, head: bytes, size: int, signature: bytes | None
    ) -> None:
        self.place, self.package, self.head, self.size, self.signature = (
            place,
            package,
            head,
            size,
            signature,
        )

    @cached_property
    def paths(self) -> list[str]:
        """The paths of the file by which rules are found; none if it has no path."""
        return paths_of(self.place) if os.path.isabs(self.place) else []

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
        self._text, self._is_url, self._base = text, "://" in text, ""
        if text.startswith(PACKAGE) and not re.fullmatch(
            r"package:[A-Za-z_]\w*(?:\.\w+)*", text, re.ASCII
        ):
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
            fixed = next((at for at, part in enumerate(parts) if "*" in part), len(parts))
            if not parts[-1] or ".." in parts[fixed:]:
                raise ValueError(
                    f"source: {text!r} names no file: '**' takes the files in a folder, and no '..' is after a wildcard"
                )
            self._base = os.path.join(
                folder, "/".join(parts[:fixed]) or text[: text.startswith("/")]
            )
            pattern = "".join(f"/{part}" for part in parts[fixed:])
        tokens = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
        self._glob = re.compile(
            "".join(
                tokens.get(part) or re.escape(part)
                for part in re.findall(r"\*\*/|\*\*?|[^*]+", pattern)
            ),
            re.DOTALL,
        )

    def takes(self, file: File) -> bool:
        """Return whether a file comes from here. Links of the pattern are resolved now, one by one,
        as those of the file's path.
        """
        if self._text == MEMORY or self._text.startswith(PACKAGE):
            return self._text in (file.place, f"{PACKAGE}{file.package}")
        if self._is_url:
            return self._glob.fullmatch(normal_url(file.place)) is not None
        bases = [each.rstrip("/") for each in paths_of(self._base)] if file.paths else []
        return any(
            place.startswith(base) and self._glob.fullmatch(place, len(base))
            for base in bases
            for place in file.paths
        )


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
        package = f" of the package {file.package!r}" if file.package else ""
        link = f" ({file.paths[-1]!r})" if len(file.paths) > 1 else ""
        taken, by = [], repr(self.path)
        try:
            if not file.head:
                if self.allows_raw:
                    return []
                raise ValueError(
                    "it has no index that could be signed. Save it in a .devmod file and sign "
                    'that, or add the line raw = "allow" at the top of the policy'
                )
            rules = [
                rule for rule in self.rules if any(source.takes(file) for source in rule.sources)
            ]
            if not rules:
                raise ValueError("no rule has it as a source. Add it to the source of a rule")
            for rule in rules:
                by = f"rule {rule.number} of {self.path!r} ({rule.name})"
                taken.append(Taken(self.path, rule.number, _keys_of(file, rule)))
        except ValueError as error:
            raise TrustError(f"{file.place!r}{link}{package} is refused by {by}: {error}") from None
        return taken


def check(file: File, policies: Iterable[str]) -> list[Taken]:
    """Return the answers of all policies. Raise TrustError if one of them refuses the file or is
    invalid.
    """
    return [taken for path in policies for taken in read_policy(path).check(file)]


def _keys_of(file: File, rule: Rule) -> tuple[str, ...]:
    """Return the keys by which a rule takes a file. Raise ValueError with the reason and what to do
    if it refuses it.
    """
    again, names = (
        f"Get it and its .sig again from who publishes {rule.name}",
        list_names(each.name for each in rule.signers),
    )
    if file.signature is None:
        beside = f"Expected is {file.place.rpartition('/')[2] + '.sig'!r} beside it; `devmod sign` writes it"
        todo = "Give the content of its .sig as signature=" if file.place == MEMORY else beside
        raise ValueError(f"it has no signature; expected is one by {names}. {todo}")
    try:
        envelope = file.envelope
    except ValueError as error:
        raise ValueError(f"its file of signatures is invalid: {error}. {again}") from None
    signed, problems = [], []
    for each in rule.signers:
        try:
            if each.key.has_signed(envelope):
                signed.append(each)
        except ValueError as error:  # sigstore cannot be used; the other keys may suffice
            problems.append(str(error))
    keys = tuple(each.name for each in signed if not each.is_expired())
    if len(keys) < rule.threshold:
        expired = "".join(
            f"; {each.name!r} has, and counts no more since {each.until}"
            for each in signed
            if each.is_expired()
        )
        by = f"signed by {list_names(keys)} alone" if keys else "not signed by a key that counts"
        todo = (
            problems[0]
            if problems
            else "Sign it again with a key that counts"
            if expired
            else again
        )
        raise ValueError(
            f"it is {by}, and the rule needs {rule.threshold} of {names}{expired}. {todo}"
        )
    try:
        statement = read_statement(envelope.payload)
    except ValueError as error:
        raise ValueError(
            f"what {keys[0]!r} has signed is invalid: {error}. Sign it again with `devmod sign`"
        ) from None
    if statement.digest != file.digest or file.size not in (
        -1,
        statement.size,
    ):  # the size of a file at a URL may be unknown
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
    if missing := [key for key in _RULE[:3] if key not in table]:
        raise ValueError(f"it has no {missing[0]}")
    for key in ("source", "keys"):
        if not isinstance(table[key], list) or not table[key]:
            raise ValueError(f"{key}: expected a list that is not empty, got {table[key]!r}")
    sources = [Source(text, folder) for text in table["source"]]
    if problem := name_problem(table["name"]):
        raise ValueError(f"name: {problem}")
    signers = [_signer(entry, folder, stamps) for entry in table["keys"]]
    names: dict[bytes, str] = {}
    for each in signers:
        if each.key.data in names:
            raise ValueError(
                f"keys: {names[each.key.data]!r} and {each.name!r} are one key, which would count twice"
            )
        names[each.key.data] = each.name
    threshold = _number(table, "threshold", 1, 1, len(signers))
    return Rule(
        number,
        sources,
        table["name"],
        signers,
        threshold,
        _number(table, "version", 0, 0, MAX_VERSION),
    )


def _signer(entry: object, folder: str, stamps: dict[str, tuple[int, ...]]) -> Signer:
    table: dict[str, Any] = (
        {"file": entry} if isinstance(entry, str) else entry if isinstance(entry, dict) else {}
    )
    texts = [table[each] for each in _IDENTITY if each in table]
    if not all(isinstance(each, str) and each and "\0" not in each for each in texts) or (
        "file" in table
    ) == ("issuer" in table):
        raise ValueError(
            f'keys: expected "FILE", {{ file = "FILE" }} or {{ issuer = "URL", identity = "NAME" }}, got {entry!r}'
        )
    _check_keys(
        table, ("file", "until") if "file" in table else (*_IDENTITY[1:], "until"), "keys: "
    )
    if "issuer" in table and "identity" not in table:
        raise ValueError(f"keys: {table['issuer']!r} needs an identity")
    name, until = table.get("file") or table["identity"], table.get("until")
    if type(until) is date:
        until = datetime.combine(until, time(), UTC)
    if "until" in table and (not isinstance(until, datetime) or until.tzinfo is None):
        raise ValueError(
            f"keys: until: expected a date, or a time with its offset such as 2027-01-31T12:00:00Z, got {table['until']}"
        )
    file = table.get("file") or table.get("config", "")
    path = file and os.path.join(folder, file)
    stamps[path] = _stamp(path)
    try:
        return Signer(
            name,
            read_public_key(path) if "file" in table else Identity(table["issuer"], name, path),
            until,
        )
    except OSError as error:
        raise ValueError(f"keys: {name!r} cannot be read: {error.strerror}") from None
    except DevmodError as error:
        raise ValueError(f"keys: {error}") from None


def _number(table: dict[str, Any], key: str, default: int, least: int, most: int) -> int:
    value = table.get(key, default)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(
            f"{key}: expected a number from {least} to {most}{', the number of keys' * (key == 'threshold')}, got {value!r}"
        )
    return value


def _check_keys(table: dict[str, Any], known: tuple[str, ...], where: str = "") -> None:
    for key in sorted(table.keys() - known):
        raise ValueError(f"{where}it has the unknown key {key!r}{did_you_mean(key, known)}")


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
    real, found = os.path.realpath(path), [os.path.normpath(path)]
    drive, rest = os.path.splitdrive(path)
    place = root = drive + os.sep
    parts = rest.split(os.sep)[::-1] if real != path else []  # most paths have no links
    while parts:
        part = parts.pop()
        inner = os.path.join(place, part)
        try:
            target = (
                os.readlink(inner)
                if part not in ("", ".", "..") and len(found) <= _MAX_LINKS
                else ""
            )
        except (OSError, ValueError):  # it is no link
            target = ""
        if target:
            parts += target.split(os.sep)[::-1]
            place = root if os.path.isabs(target) else place
            found.append(os.path.normpath(os.path.join(place, *reversed(parts))))
        else:
            place = os.path.dirname(place) if part == ".." else os.path.normpath(inner)
    return [
        each.replace(os.sep, "/") for each in dict.fromkeys([*found, real])
    ]  # other systems have links of other sorts


def normal_url(text: str) -> str:
    """Return the form of a URL in which equal ones are equal; "" if servers and libraries could
    read it in different ways.

    The scheme and the host are in lower case, the port of the scheme is left out, and letters,
    digits and ``-._~`` are not encoded.
    """
    found = _URL.fullmatch(text)
    if found is None:
        return ""
    scheme, host, port = found[1].lower(), found[2].lower(), found[3]
    parts = re.split(
        r"%([0-9A-Fa-f]{2})", quote(found[4] or "/", safe="!$%&'()*+,;=:@/~\"<>[]^`{|}")
    )
    codes = [chr(int(each, 16)) for each in parts[1::2]]
    if "%" in "".join(parts[::2]) or {"/", "\\", "\0"} & {*codes}:
        return ""
    parts[1::2] = [
        each if re.fullmatch(r"[A-Za-z0-9._~-]", each) else f"%{ord(each):02X}" for each in codes
    ]
    path = "".join(parts)
    if {".", ".."} & {*path.split("/")}:
        return ""
    return f"{scheme}://{host}{'' if port is None or port == _PORTS.get(scheme) else f':{int(port)}'}{path}"
