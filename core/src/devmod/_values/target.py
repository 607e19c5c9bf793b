"""Target: the kind and the architectures that a kernel is compiled for, and the current target of a
context.

A target is a kind, the architectures of that kind, and further options::

    cuda -arch=sm_80,sm_90,compute_90
    rocm -arch=gfx90a -format=hip
"""

from __future__ import annotations

from contextvars import ContextVar

from devmod._util.text import is_valid_name, lower_case_hint
from devmod._values.value import Value
from devmod.errors import FormatError, quote_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

#: The characters of a target: printable ASCII, which is unchanged in files, shells and messages.
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_KEY = _LETTERS | frozenset("_-")
_ARCH = _LETTERS | frozenset("_-.:+")
_VALUE = frozenset(map(chr, range(0x21, 0x7F)))
_MAX_LENGTH = 4096

#: The targets entered in this context, the innermost last. The tuple is immutable, so one Target
#: may be entered many times, in many threads and tasks.
_entered: ContextVar[tuple[Target, ...]] = ContextVar("devmod_target", default=())


class Target(Value):
    """The kind and the architectures that a kernel is compiled for. An immutable value. `parse`
    reads the result of ``str()``.

    Parameters
    ----------
    kind
        The kind, such as "cuda". It may be any valid name; the kind is looked up when the target is
        used.
    arch
        The architectures: "sm_90", "sm_80,sm_90", or a sequence of strings. Empty for a kind
        without architectures.
    options
        Further options: the value of each name, in order.

    Raises
    ------
    FormatError
        A part is invalid.

    Examples
    --------
    >>> str(Target("cuda", arch="sm_90"))
    'cuda -arch=sm_90'
    >>> Target.parse("rocm -mcpu=gfx90a").archs
    ('gfx90a',)
    """

    __slots__ = ("archs", "kind", "options")
    archs: tuple[str, ...]
    kind: str
    options: tuple[tuple[str, str], ...]

    def __init__(
        self, kind: str, *, arch: str | Iterable[str] = (), options: Mapping[str, str] | None = None
    ) -> None:
        if isinstance(kind, str) and kind.partition(" ")[2].lstrip().startswith("-"):
            raise FormatError(f"a target's kind is one word; for {kind!r} use Target.parse")
        if isinstance(kind, str) and "," in kind:
            raise FormatError(
                f"a target is one kind, got {kind!r}; give each by itself: {kind.replace(',', ' and ')}"
            )
        if not is_valid_name(kind):
            raise FormatError(
                f"{kind!r} is not a kind: a kind is a lower-case letter and up to 31 lower-case letters, digits and underscores"
                + lower_case_hint(kind)
            )
        pairs = tuple((options or {}).items())
        for key, value in pairs:
            _check_option(kind, key, value)
        self._set(kind=kind, archs=_archs(kind, arch), options=pairs)

    @property
    def arch(self) -> str:
        """The architectures as one string, "sm_80,sm_90"; "" if there are none."""
        return ",".join(self.archs)

    @classmethod
    def parse(cls, text: str | Target) -> Target:
        """Return the target of a string such as "cuda -arch=sm_90". A Target is returned unchanged.

        ``-mcpu=`` is TVM's spelling of ``-arch=``.

        Raises
        ------
        FormatError
            `text` is not a target.
        """
        if isinstance(text, Target):
            return text
        if not isinstance(text, str):
            raise FormatError(
                f"a target is a Target or a string such as 'cuda -arch=sm_90', not {type(text).__name__}"
            )
        if len(text) > _MAX_LENGTH:
            raise FormatError(
                f"a target of {len(text)} characters is too long; the limit is {_MAX_LENGTH}"
            )
        kind, *words = text.split() or [""]
        if not kind:
            raise FormatError(
                "a target is a kind and options, such as 'cuda -arch=sm_90'; this one is empty"
            )
        name, colon, arch = kind.partition(":")
        if colon and is_valid_name(name) and arch:
            corrected = " ".join([name, f"-arch={arch}", *words])
            raise FormatError(
                f"the target {text!r} gives the architecture behind a colon; write {corrected!r}"
            )
        options = _parse_options(text, words)
        return cls(kind, arch=options.pop("arch", ""), options=options)

    @staticmethod
    def current() -> Target | None:
        """Return the target of the innermost ``with target:`` around this call; None if there is
        none.

        It is a context variable (contextvars): a new thread has none, an asyncio task has that of
        its creator.
        """
        entered = _entered.get()
        if not entered:
            return None
        return entered[-1]

    def variants(self) -> tuple[Target, ...]:
        """Return a target for each architecture, in order. A target with at most one architecture
        returns itself.
        """
        if len(self.archs) < 2:
            return (self,)
        options = dict(self.options)
        return tuple(Target(self.kind, arch=arch, options=options) for arch in self.archs)

    def __enter__(self) -> Target:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _entered.set(_entered.get()[:-1])

    def __str__(self) -> str:
        words = [self.kind]
        if self.archs:
            words.append(f"-arch={self.arch}")
        words += [f"-{key}={value}" for key, value in self.options]
        return " ".join(words)

    def __repr__(self) -> str:
        return f"Target.parse({str(self)!r})"


def _parse_options(text: str, words: Sequence[str]) -> dict[str, str]:
    """Return the options that the words of a target's text give, with those for the architectures
    as "arch".
    """
    options = {}
    for position, word in enumerate(words):
        key, equals, value = word[1:].partition("=")
        if not word.startswith("-") or not equals or not key:
            message = (
                f"the target {quote_name(text)} has {word!r}, which is not of the form -name=value"
            )
            following = words[position + 1 : position + 2]
            if following and _is_split(word, following[0]):
                suggestion = f"{word}={following[0]}"
                message += f". Did you mean {suggestion!r}?"
            elif word.startswith("-cl-"):  # an option of OpenCL's compiler
                message += f". For the compiler, give options=[{word!r}]"
            raise FormatError(message)
        if not value:
            raise FormatError(f"the target {text!r} gives -{key} no value")
        if key == "mcpu":
            key = "arch"
        if key in options:
            raise FormatError(f"the target {text!r} gives -{key} twice")
        options[key] = value
    return options


def _is_split(word: str, following: str) -> bool:
    """Whether two words are an option and its value, as in ``-arch sm_90``."""
    is_option = word[0] == "-" and "=" not in word and word[1:2] in _LETTERS
    return is_option and following[0] in _LETTERS


def _archs(kind: str, arch: str | Iterable[str]) -> tuple[str, ...]:
    if arch == "":
        return ()
    if isinstance(arch, str):
        archs = tuple(arch.split(","))
    elif hasattr(arch, "__iter__"):
        archs = tuple(arch)
    else:
        raise FormatError(
            f"the architectures of a {kind} target are a string or a sequence of strings, not {arch!r}"
        )
    for one in archs:
        is_name = isinstance(one, str) and one[:1] in _LETTERS and _ARCH.issuperset(one)
        if not is_name:
            raise FormatError(
                f"{one!r} is not an architecture of {kind}: expected a name such as 'sm_90', 'gfx90a:xnack+' or 'v68'"
            )
    if len(set(archs)) != len(archs):
        raise FormatError(f"the {kind} target names an architecture twice: {','.join(archs)}")
    return archs


def _check_option(kind: str, key: object, value: object) -> None:
    if (
        not isinstance(key, str)
        or not key
        or not _KEY.issuperset(key)
        or key[0] not in _LETTERS
        or key in ("arch", "mcpu")
    ):
        raise FormatError(f"{key!r} is not the name of an option of a {kind} target")
    if not isinstance(value, str) or not value or not _VALUE.issuperset(value):
        raise FormatError(
            f"the option -{key} of a {kind} target has the value {value!r}; a value is printable ASCII without spaces"
        )
