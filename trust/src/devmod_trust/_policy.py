"""Policies: TOML files whose rules bind a source to a name, a lowest version, and the keys that must have signed."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote

from devmod.backend import open_regular
from devmod.errors import DevmodError, TrustError, did_you_mean, list_names
from devmod_trust._envelope import MAX_VERSION, Envelope, Statement, name_problem, read_envelope, read_statement
from devmod_trust._keys import PublicKey, read_public_key

MEMORY, PACKAGE = "memory", "package:"
#: What a URL may consist of, so that everyone reads it in one way: no credentials, query, fragment, backslash or white space.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://((?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])?)(?::(\d{1,5}))?(/[^\\?#\s\x00-\x20\x7f]*)?")
_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_PORTS = {"http": "80", "https": "443"}
_RULE, _TOP, _KEY = ("source", "name", "keys", "threshold", "version"), ("rule", "raw"), ("file", "until")


class File:
    """A file that policies are asked about: its place, and what is computed once for all of them."""

    def __init__(self, place: str, package: str, head: bytes, signature: bytes | None) -> None:
        self.place, self.package, self.head, self.signature = place, package, head, signature

    @cached_property
    def url(self) -> str:
        """The URL in its one form; "" for other places."""
        return normal_url(self.place)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the header and the index."""
        return sha256(self.head).hexdigest()

    @cached_property
    def envelope(self) -> Envelope:
        """The signatures. Raises ValueError with the reason if they are invalid."""
        return read_envelope(self.signature or b"")


class Source:
    """A pattern of places: a path relative to a folder, a URL, ``package:NAME`` or ``memory``."""

    def __init__(self, text: str, folder: str) -> None:
        self.text = text
        self._fixed = ""
        if text == MEMORY or text.startswith(PACKAGE):
            if not re.fullmatch(r"memory|package:[A-Za-z_]\w*(?:\.\w+)*", text, re.ASCII):
                raise ValueError(f"expected package: and the name of a package that can be imported, got {text!r}")
            return
        if "://" in text:
            text = normal_url(text)
            if not text:
                raise ValueError(
                    f"expected a URL whose host has no wildcard, without query, credentials, '..' and encoded '/', got {self.text!r}"
                )
        else:
            parts = text.replace(os.sep, "/").split("/")
            fixed = next((at for at, part in enumerate(parts) if "*" in part), len(parts))
            if not parts[-1] or ".." in parts[fixed:]:
                raise ValueError(f"{text!r} names no file: '**' takes the files in a folder, and no '..' is after a wildcard")
            self._fixed = os.path.join(folder, "/".join(parts[:fixed]) or text[: text.startswith("/")])
            text = "/".join(parts[fixed:])
        tokens = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
        self._glob = re.compile(re.sub(r"\*\*/|\*\*|\*|[^*]+", lambda found: tokens.get(found[0]) or re.escape(found[0]), text), re.DOTALL)

    def takes(self, file: File) -> bool:
        """Return whether a file comes from here. Links of the pattern are resolved now, as those of the file's path were."""
        if self.text == MEMORY or self.text.startswith(PACKAGE):
            return self.text == file.place or (bool(file.package) and self.text == PACKAGE + file.package)
        if not self._fixed:
            return bool(file.url and self._glob.fullmatch(file.url))
        if file.place == MEMORY or "://" in file.place:
            return False
        base, place = os.path.realpath(self._fixed).replace(os.sep, "/"), file.place.replace(os.sep, "/")
        if not self._glob.pattern:
            return place == base
        base = base.rstrip("/") + "/"
        return place.startswith(base) and self._glob.fullmatch(place, len(base)) is not None


class Signer(NamedTuple):
    """A key of a rule, as the policy names it, and the time from which it counts no more."""

    name: str
    key: PublicKey
    until: datetime | None

    def is_expired(self) -> bool:
        """Return whether the key counts no more, by the clock now."""
        return self.until is not None and datetime.now(UTC) >= self.until


class Rule(NamedTuple):
    """A rule: files from its sources need its name and its keys."""

    number: int
    sources: tuple[Source, ...]
    name: str
    signers: tuple[Signer, ...]
    threshold: int
    version: int


class Taken(NamedTuple):
    """The answer of a rule that takes a file: the keys that have signed it, and what they have signed."""

    policy: str
    rule: int
    keys: tuple[str, ...]
    statement: Statement


class Policy(NamedTuple):
    """A policy that was read, and the state of its files then."""

    path: str
    rules: tuple[Rule, ...]
    refuses_raw: bool
    stamps: tuple[tuple[str, tuple[int, ...]], ...]

    def check(self, file: File) -> list[Taken]:
        """Return the answer of each rule that has the file as a source. Raise TrustError if one refuses it, or if there is none."""
        if not file.head:
            if self.refuses_raw:
                raise TrustError(
                    f'{file.place!r} is refused by {self.path!r}: it has no index that could be signed, and the policy has raw = "refuse". '
                    "Save it in a .devmod file, and sign that"
                )
            return []
        rules = [rule for rule in self.rules if any(source.takes(file) for source in rule.sources)]
        if not rules:
            where = f" of the package {file.package!r}" if file.package else ""
            raise TrustError(
                f"{file.place!r}{where} is refused by {self.path!r}: no rule has it as a source. Add it to the source of a rule"
            )
        return [self._check(rule, file) for rule in rules]

    def _check(self, rule: Rule, file: File) -> Taken:
        def refuse(why: str, todo: str) -> TrustError:
            return TrustError(f"{file.place!r} is refused by rule {rule.number} of {self.path!r} ({rule.name}): {why}. {todo}")

        again = f"Get it and its .sig again from who publishes {rule.name}"
        names = list_names(each.name for each in rule.signers)
        if file.signature is None:
            raise refuse(f"it has no signature; expected is one by {names}", _missing(file.place))
        try:
            envelope = file.envelope
        except ValueError as error:
            raise refuse(f"its file of signatures is invalid: {error}", again) from None
        signed = [each for each in rule.signers if each.key.has_signed(envelope)]
        counted = tuple(each.name for each in signed if not each.is_expired())
        if len(counted) < rule.threshold:
            expired = "".join(f"; {each.name!r} has, and counts no more since {each.until}" for each in signed if each.is_expired())
            by = f"signed by {list_names(counted)} alone" if counted else "not signed by a key that counts"
            raise refuse(
                f"it is {by}, and the rule needs {rule.threshold} of {names}{expired}",
                "Sign it again with a key that counts" if expired else again,
            )
        try:
            statement = read_statement(envelope.payload)
        except ValueError as error:
            raise refuse(f"what {counted[0]!r} has signed is invalid: {error}", "Sign it again with `devmod sign`") from None
        if statement.digest != file.digest:
            raise refuse(f"{counted[0]!r} has signed another file: {statement.name}, version {statement.version}", again)
        if statement.name != rule.name:
            raise refuse(f"it is signed as {statement.name!r}", "Put each file where the rule for its name has it as a source")
        if statement.version < rule.version:
            raise refuse(f"it is signed as version {statement.version}, and the lowest is {rule.version}", "Get a newer one")
        return Taken(self.path, rule.number, counted, statement)


def check(file: File, policies: Iterable[str]) -> list[Taken]:
    """Return the answers of all policies. Raise TrustError if one of them refuses the file or is invalid."""
    return [taken for path in policies for taken in read_policy(path).check(file)]


def _missing(place: str) -> str:
    if place == MEMORY:
        return "Give the content of its .sig as signature="
    return f"Expected is {place.rpartition('/')[2] + '.sig'!r} beside it; `devmod sign` writes it"


# -- reading

#: The policies that this process has read.
_policies: dict[str, Policy] = {}


def read_policy(path: str) -> Policy:
    """Return a policy. It is read again if its file, or that of a key, has changed. Raise TrustError if it is invalid."""
    name = os.path.abspath(path) if path else path
    policy = _policies.get(name)
    if policy is None or any(_stamp(file) != stamp for file, stamp in policy.stamps):
        policy = _policies[name] = _read(name)
    return policy


def _read(path: str) -> Policy:
    stamps = {path: _stamp(path)}

    def invalid(why: object, where: str = "") -> TrustError:
        return TrustError(f"the policy {path!r} is invalid, so everything is refused: {where}{why}")

    try:
        with open_regular(path) as file:
            data = tomllib.load(file)
    except OSError as error:
        raise invalid(f"it cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise invalid(error) from None
    rules = data.get("rule")
    try:
        _known(data, _TOP)
        if "raw" in data and data["raw"] != "refuse":
            raise ValueError(f'raw: expected "refuse", got {data["raw"]!r}')
        if not isinstance(rules, list) or not rules:
            raise ValueError("it has no [[rule]]")
    except ValueError as error:
        raise invalid(error) from None
    made = []
    for number, rule in enumerate(rules, 1):
        try:
            made.append(_rule(number, rule, os.path.dirname(path), stamps))
        except ValueError as error:
            raise invalid(error, f"rule {number}: ") from None
    return Policy(path, tuple(made), "raw" in data, tuple(stamps.items()))


def _rule(number: int, rule: object, folder: str, stamps: dict[str, tuple[int, ...]]) -> Rule:
    if not isinstance(rule, dict):
        raise ValueError("expected a table, [[rule]]")
    _known(rule, _RULE)
    for key in _RULE[:3]:
        if key not in rule:
            raise ValueError(f"it has no {key}")
    sources, signers = [], []
    for text in _list(rule, "source"):
        if not isinstance(text, str) or not text or "\0" in text:
            raise ValueError(f"source: expected texts, got {text!r}")
        try:
            sources.append(Source(text, folder))
        except ValueError as error:
            raise ValueError(f"source: {error}") from None
    if problem := name_problem(rule["name"]):
        raise ValueError(f"name: {problem}")
    for entry in _list(rule, "keys"):
        signers.append(_signer(entry, folder, stamps))
        for other in signers[:-1]:
            if other.key.data == signers[-1].key.data:
                raise ValueError(f"keys: {other.name!r} and {signers[-1].name!r} are one key, which would count twice")
    threshold, version = rule.get("threshold", 1), rule.get("version", 0)
    if type(threshold) is not int or not 1 <= threshold <= len(signers):
        raise ValueError(f"threshold: expected a number from 1 to {len(signers)}, the number of keys, got {threshold!r}")
    if type(version) is not int or not 0 <= version <= MAX_VERSION:
        raise ValueError(f"version: expected a number from 0 to {MAX_VERSION}, got {version!r}")
    return Rule(number, tuple(sources), rule["name"], tuple(signers), threshold, version)


def _signer(entry: object, folder: str, stamps: dict[str, tuple[int, ...]]) -> Signer:
    table = {"file": entry} if isinstance(entry, str) else entry
    if not isinstance(table, dict) or not isinstance(table.get("file"), str) or not table["file"] or "\0" in table["file"]:
        raise ValueError(f'keys: expected "FILE" or {{ file = "FILE", until = TIME }}, got {entry!r}')
    _known(table, _KEY, "keys: ")
    until = table.get("until")
    if type(until) is date:
        until = datetime.combine(until, time(), UTC)
    if "until" in table and (not isinstance(until, datetime) or until.tzinfo is None):
        raise ValueError(
            f"keys: until: expected a date, or a date and a time with its offset such as 2027-01-31T12:00:00Z, got {table['until']}"
        )
    name = table["file"]
    path = os.path.join(folder, name)
    stamps[path] = _stamp(path)
    try:
        return Signer(name, read_public_key(path), until)
    except OSError as error:
        raise ValueError(f"keys: {name!r} cannot be read: {error.strerror}") from None
    except DevmodError as error:
        raise ValueError(f"keys: {error}") from None


def _list(rule: Mapping[str, Any], key: str) -> list[Any]:
    value = rule[key]
    if not isinstance(value, list) or not value:
        raise ValueError(f"{key}: expected a list that is not empty, got {value!r}")
    return value


def _known(table: Mapping[str, Any], keys: tuple[str, ...], where: str = "") -> None:
    for key in table:
        if key not in keys:
            raise ValueError(f"{where}it has the unknown key {key!r}{did_you_mean(key, keys)}")


def _stamp(path: str) -> tuple[int, ...]:
    """Return what changes when a file is written or replaced; () if it cannot be read."""
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return ()
    return state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino, state.st_dev


def normal_url(text: str) -> str:
    """Return the form of a URL in which equal ones are equal; "" if servers and libraries could read it in different ways.

    The scheme and the host are in lower case, the port of the scheme is left out, and letters, digits and ``-._~`` are not encoded.
    """
    found = _URL.fullmatch(text)
    if found is None:
        return ""
    scheme, host, port, path = found[1].lower(), found[2].lower(), found[3], quote(found[4] or "/", safe="!$%&'()*+,;=:@/~\"<>[]^`{|}")
    parts = re.split(r"%([0-9A-Fa-f]{2})", path)
    if "%" in "".join(parts[::2]):
        return ""
    for at in range(1, len(parts), 2):
        character = chr(int(parts[at], 16))
        if character in "/\\\0":
            return ""
        parts[at] = character if _UNRESERVED.fullmatch(character) else f"%{parts[at].upper()}"
    path = "".join(parts)
    if {".", ".."} & {*path.split("/")}:
        return ""
    return f"{scheme}://{host}{'' if port is None or port == _PORTS.get(scheme) else f':{int(port)}'}{path}"
