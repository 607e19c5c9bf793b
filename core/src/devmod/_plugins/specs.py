"""Look-ups of target specs by kind, alias, format and suffix: core's specs, and those of installed
wheels.
"""

from __future__ import annotations

from devmod._plugins import registry
from devmod._plugins.claim import CORE
from devmod._plugins.discovery import once_per_scan, shared_scan
from devmod.targets import KINDS, NAMES, SHARED_OBJECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from devmod._values.spec import TargetSpec


def find_spec(kind: str) -> TargetSpec | None:
    """Return the spec of a kind, core's or an installed wheel's; None if the kind is unknown.

    Raises
    ------
    PluginError
        The wheel with the kind's spec is broken, or two wheels have one.
    """
    # The registry checks its type.
    result: TargetSpec | None = registry.find("devmod.targets", kind)
    return result


def spec_of_format(fmt: str) -> TargetSpec | None:
    """Return the spec of the kind with payload files of this format; None if there is none.

    The format of a shared object has its machine (``so_hexagon``), which is the kind.
    """
    if fmt.startswith(f"{SHARED_OBJECT}_"):
        spec = find_spec(fmt.partition("_")[2])
        if spec is None or SHARED_OBJECT not in spec.formats:
            return None
        return spec
    with shared_scan():
        return next((spec for spec in _specs(fmt) if fmt in spec.suffixes.values()), None)


def spec_of_language(suffix: str) -> TargetSpec | None:
    """Return the spec of the kind whose default language sources of this suffix have, else of the
    first that compiles them, or None.
    """
    with shared_scan():
        specs = [spec for spec in _specs(suffix) if suffix in spec.languages]
    for spec in specs:
        if suffix == next(iter(spec.languages)):
            return spec
    return specs[0] if specs else None


def spec_of_loader(name: str) -> TargetSpec | None:
    """Return the spec of the kind that ``devmod.load_from_bytes.<name>`` loads: the kind of that
    name or alias.
    """
    with shared_scan():
        spec = find_spec(name)
        if spec is not None:
            return spec
        return next((spec for spec in _specs(name) if name in spec.aliases), None)


def spec_of_suffix(suffix: str) -> TargetSpec | None:
    """Return the spec of the kind with payload files of this suffix (without the dot); None if
    there is none.
    """
    with shared_scan():
        return next((spec for spec in _specs(suffix) if suffix in spec.suffixes), None)


def format_of_suffix(suffix: str) -> str:
    """Return the format of files with this suffix (without the dot); the suffix itself if it is
    unknown.
    """
    spec = spec_of_suffix(suffix)
    if spec is None:
        return suffix
    return spec.suffixes[suffix]


def loading_hint(name: str) -> str:
    """Return the sentence with the calls that read a file which is no bundle; "" if its suffix is
    unknown.
    """
    from devmod._util.regular_files import suffix_of

    suffix = suffix_of(name)
    if not suffix:
        return ""
    calls = []
    source = spec_of_language(suffix)
    if source is not None and source.compiler:
        calls.append(f"devmod.compile(pathlib.Path({name!r}), {source.kind!r}) compiles a source")
    if (spec_of_suffix(suffix) or spec_of_format(suffix)) is not None:
        calls.append(
            f"devmod.load_from_file({name!r}) reads a payload that has a metadata file beside it"
        )
    if suffix == SHARED_OBJECT:
        calls.append(f"devmod.interop.tvm.load_library({name!r}) reads a library that TVM exported")
    if not calls:
        return ""
    return f". {'; '.join(calls)}"


def _specs(name: str) -> Iterator[TargetSpec]:
    """Yield the specs that may have a format, a suffix or an alias: those of core with it, then all
    of wheels. Skip broken wheels.
    """
    from devmod.errors import PluginError

    claims = once_per_scan(("devmod.targets",), lambda: registry.registered("devmod.targets"))
    foreign = [kind for kind, claim in claims.items() if claim.distribution != CORE]
    candidates = [kind for kind in KINDS if kind in foreign or name in NAMES[kind]]
    candidates += [kind for kind in foreign if kind not in KINDS]
    for kind in candidates:
        try:
            spec = find_spec(kind)
        except PluginError:
            continue
        if spec is not None:
            yield spec
