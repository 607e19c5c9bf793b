"""The input of a target's compiler."""

from __future__ import annotations

import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from devmod.backend import find_spec
from devmod.errors import CompileError, did_you_mean, list_names
from devmod_targets._paths import with_slashes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from devmod import FunctionInfo, Target, TargetSpec


def check_target_options(target: Target, supported: Sequence[str] = ()) -> None:
    """Check the options of a target, such as ``-format=ptx``. `supported` has their names, and
    "arch" if the kind has architectures.

    Raises
    ------
    CompileError
        The target has another option, or an architecture that the kind does not have. It would have
        no effect.
    """
    if target.archs and "arch" not in supported:
        raise CompileError(
            f"the target {str(target)!r} names an architecture, and {target.kind} has none. Use the target {target.kind!r}",
            kind=target.kind,
        )
    known = [f"-{each}" for each in supported]
    expected = f"expected {list_names(known)}" if known else "the kind has no options"
    for name, value in target.options:
        if name not in supported:
            hint = did_you_mean(f"-{name}", known)
            if name.startswith("cl-"):  # an option of OpenCL's compiler
                hint = f". For the compiler, give options=[{f'-{name}={value}'!r}]"
            raise CompileError(
                f"the target {str(target)!r} has the option -{name}; {expected}{hint}",
                kind=target.kind,
            )


def target_format(
    target: Target, formats: Sequence[str], supported: Sequence[str] = ("format",)
) -> str:
    """Return the format that a target's option names, or the first of `formats`. Raise CompileError
    as `check_target_options` does.
    """
    check_target_options(target, supported)
    fmt = dict(target.options).get("format", formats[0])
    if fmt not in formats:
        others = " or ".join(f"-format={each}" for each in formats[1:])
        raise CompileError(
            f"the target {str(target)!r} has the option -format={fmt}; expected -format={formats[0]} (the default) or {others}",
            kind=target.kind,
        )
    return fmt


def check_one_arch(target: Target) -> None:
    """Raise CompileError for several architectures of a target that keeps the source."""
    if len(target.archs) > 1:
        raise CompileError(
            f"the target {str(target)!r} keeps the source, which is the same for all architectures; name at most one",
            kind=target.kind,
        )


def arch_hint(arch: str, prefix: str, is_known: Callable[[str], object]) -> str:
    """Return the end of a message for an architecture whose prefix is missing or misspelt, as in 86
    and 8.6 for sm_86; "" for others.
    """
    for name in (prefix + arch, prefix + re.sub(r"^\D+|\.", "", arch)):
        if name != arch and is_known(name):
            return f". Did you mean {name!r}?"
    return ""


class CompileRequest(NamedTuple):
    """The input of a target's compiler. `devmod.compile` makes it from its arguments.

    Parameters
    ----------
    text
        The source; "" if it is not text.
    name
        The source's name in diagnostics and origins: the file's name without folders, or "<text>".
    folder
        The folder for relative includes; "" for a source given as a string. It is never written to
        a file.
    stem
        The name of a shader with the entry point `main`.
    target
        The Target.
    language
        The language of the source; "" if the target's spec has no languages.
    fmap
        The caller's declarations of the functions, or None.
    options, defines, include, name_expressions
        The arguments of `devmod.compile`.
    data
        The source if it is not text (SPIR-V); b"" otherwise.
    warnings_as_errors
        Whether the compiler's warnings are errors. The payload does not depend on this.
    strict
        Whether a warning about what the receiver's compiler may refuse is an error, and a source
        that no validator checked.
    partial
        Whether a compiler may leave out the functions that do not compile. The key ``left_out`` of
        `Payload.origin` then has their names.
    listings
        Whether `Payload.source` may be used. A compiler need not run a program for it alone, such
        as a disassembler, otherwise.
    root
        The folder of the project whose manifest has the source; "" for a source of
        `devmod.compile`.
    others
        The arguments of `devmod.compile` that have no field here, such as ``block``, as they were
        given.
    """

    text: str
    target: Any
    name: str = "<text>"
    folder: str = ""
    stem: str = "main"
    language: str = ""
    fmap: Mapping[str, FunctionInfo] | None = None
    options: Sequence[str] = ()
    defines: Mapping[str, str | None] = MappingProxyType({})
    include: Sequence[str] = ()
    name_expressions: Sequence[str] = ()
    data: bytes = b""
    warnings_as_errors: bool = False
    strict: bool = False
    partial: bool = False
    listings: bool = True
    root: str = ""
    others: Mapping[str, Any] = MappingProxyType({})

    def replace(self, **fields: Any) -> CompileRequest:
        """Return a request with other values for some fields."""
        return self._replace(**fields)

    @property
    def content(self) -> bytes:
        """The source as bytes."""
        return self.data or self.text.encode()

    @property
    def digest(self) -> str:
        """The SHA-256 of the source."""
        from hashlib import sha256

        return sha256(self.content).hexdigest()

    @property
    def declared(self) -> dict[str, FunctionInfo]:
        """The functions of `fmap` by their symbols."""
        return {info.name: info for info in (self.fmap or {}).values()}

    def outside(self, path: str) -> str:
        """Return why no include may read the file of a real path, as a clause of a message; "" if
        one may.

        A payload publishes the text of an include. The user has named a source of `devmod.compile`,
        and no file of a manifest.
        """
        if self.folder and not self.root:
            return ""
        folders = [each for each in (self.root, self.folder, *self.include) if each]
        roots = [os.path.realpath(each) for each in folders]  # a link cannot lead outside
        if any(path.startswith(os.path.join(root, "")) for root in roots):
            return ""
        folder = os.path.dirname(path)
        own = ""
        if self.root:
            folder = with_slashes(folder, roots[0])
            own = "the project, the source's folder and "
        return f"outside {own}the folders of include=. To allow it, add its folder: include=[{folder!r}]"

    @property
    def spec(self) -> TargetSpec:
        """The spec of the target's kind."""
        spec = find_spec(self.target.kind)
        assert spec is not None  # it names this compiler
        return spec

    def error(self, text: str, **fields: Any) -> CompileError:
        """Return the CompileError of the target's kind. `fields` are its other fields, such as
        ``function`` and ``log``.
        """
        return CompileError(text, kind=self.target.kind, **fields)
