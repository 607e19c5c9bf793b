"""Policies: which files may be used. Core asks the hook ``devmod_verify`` about each, and
devmod-trust checks the signatures (R46).

docs/design/trust.md has the reasons.
"""

from __future__ import annotations

import os

from devmod._util.environment import environment_paths
from devmod._util.locks import RLock
from devmod.errors import (
    ArgumentError,
    DevmodError,
    TrustError,
    admission_hint,
    describe_error,
    not_installed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

    from devmod._values.code import Binary, Fields, Names

VARIABLE = "DEVMOD_TRUST"
#: What a policy names as the source of bytes in memory.
MEMORY = "memory"
#: A file of signatures is read up to one byte more: the checker refuses it then.
MAX_SIGNATURE = 1 << 20
_HOOK = "devmod_verify"
_CHECKER = "devmod-trust"
#: Held while DEVMOD_TRUST is extended.
_lock: Any = RLock()


def trust(policy: str | os.PathLike[str]) -> None:
    """Refuse each file that a policy of devmod-trust does not take, in this process and in those
    that it starts.

    Files that are open are not checked again. The path is added to the environment variable
    DEVMOD_TRUST: with several policies, each must take a file.

    Parameters
    ----------
    policy
        The policy's file. It is read when the first file is opened.

    Raises
    ------
    ArgumentError
        The path has the character that separates paths in environment variables.
    FormatError
        It is no regular file.
    OSError
        The file cannot be read.
    """
    from devmod._util.regular_files import open_regular, path_to_str

    name = os.path.abspath(path_to_str(policy, "trust(policy)", ""))
    open_regular(name).close()
    if os.pathsep in name:
        raise ArgumentError(
            f"trust(policy): the path {name!r} has {os.pathsep!r}, which separates paths in {VARIABLE}",
            argument="policy",
        )
    with _lock:  # of two threads at once, one would drop the other's policy
        os.environ[VARIABLE] = os.pathsep.join((*policies(), name))


def policies() -> tuple[str, ...]:
    """Return the paths in DEVMOD_TRUST.

    An empty one among others stays, and nothing is taken then.
    """
    return environment_paths(VARIABLE)


class FileHead:
    """The header and the head of an open file, about which the hook ``devmod_verify`` is asked
    once.

    Under a policy it is asked when the file is opened, and without one before the first module is
    passed to its runtime: a look at the hooks takes longer than to open a file.

    Parameters
    ----------
    data
        The bytes of both. Under a policy they are a copy: another process may change a mapped file.
    place
        The name of the file in messages.
    source
        What a policy compares: MEMORY, a URL without credentials and query, or a path; under a
        policy from the root, with its links.
    size
        The size of the file; -1 if it is unknown.
    package
        The package whose file it is, for `devmod.installed`.
    signature
        The content of the file with the signatures.
    paths
        The policies, from `policies`.

    Raises
    ------
    ArgumentError
        `signature` is neither bytes nor None.
    """

    def __init__(
        self,
        data: Binary,
        place: str,
        source: str,
        size: int,
        package: str,
        signature: bytes | None,
        paths: Names,
    ) -> None:
        if signature is not None and not isinstance(signature, bytes):
            raise ArgumentError(
                "signature is the content of the file with the signatures, as bytes, not "
                f"{type(signature).__name__}",
                argument="signature",
            )
        self.data = data
        self.place = place
        self.size = size
        self.paths = paths
        self._question: Fields = {
            "place": source,
            "package": package,
            "head": data,
            "size": size,
            "signature": signature,
            "policies": paths,
        }

    def check(self) -> None:
        """Ask once. Raise TrustError under a policy, or what a plugin raises."""
        if self._question:
            _ask(self.place, self._question)
            self._question = {}


def check_raw(place: str, source: str = MEMORY) -> None:
    """Raise TrustError if there are policies, and one refuses what has no index: payloads, the
    bytes of one module, TVM's files.
    """
    if paths := policies():
        FileHead(b"", place, source, -1, "", None, paths).check()


def check_raw_file(path: str) -> None:
    """Raise TrustError as `check_raw` does, for a file without an index."""
    from devmod._util.regular_files import absolute

    check_raw(repr(path), absolute(path))


def read_signature(open_file: Callable[[], BinaryIO]) -> bytes | None:
    """Return the content of a file with signatures, which `open_file` opens; None if there is no
    such file.
    """
    try:
        with open_file() as file:
            return file.read(MAX_SIGNATURE + 1)
    except FileNotFoundError:
        return None


def _ask(place: str, question: Fields) -> None:
    from devmod._plugins import hooks, registry
    from devmod._plugins.claim import normalize_name
    from devmod._plugins.discovery import shared_scan

    is_checked = no_policy = not question["policies"]
    with shared_scan():
        for claim, call in hooks.callers(_HOOK, ""):
            if no_policy and claim.value == _CHECKER.replace("-", "_"):
                continue  # it checks policies alone, and pluggy takes time at the first use in each process
            try:
                call(**question)
            except DevmodError as error:
                if question["place"] == MEMORY and not question["head"]:
                    # A policy has one name for all bytes in memory: name the call that had these.
                    error.args = (f"{place}: {error}",)
                raise
            except Exception as error:
                if no_policy:
                    raise
                raise TrustError(
                    f"{place} is refused: the check by {claim.provider} failed: {describe_error(error)}",
                    distribution=claim.distribution,
                ) from error
            is_checked = is_checked or normalize_name(claim.distribution) == _CHECKER
        if not is_checked:
            why = not_installed(f"{_CHECKER}, which checks files,", _CHECKER)
            for claim in registry.declared_claims("devmod.hooks", _HOOK):
                if normalize_name(claim.distribution) == _CHECKER and (
                    variable := registry.excluding_variable(claim)
                ):
                    why = f"{variable} excludes {_CHECKER}, which checks files: {admission_hint(_CHECKER, variable)}"
            raise TrustError(
                f"{place} is refused: {VARIABLE} names a policy, and {why}", distribution=_CHECKER
            )


# Windows has no forks. A thread of the parent may hold the lock, which no child has.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _lock._is_owned() or _lock._at_fork_reinit())
