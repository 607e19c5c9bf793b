"""`devmod.device` with an object of another library: the entry points of the group
``devmod.adopt``.
"""

from __future__ import annotations

from devmod._plugins import registry
from devmod._plugins.lookup import call_entry, lookup
from devmod._plugins.specs import find_spec
from devmod.errors import ArgumentError, DevmodError, NotRegisteredError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devmod import Device

GROUP = "devmod.adopt"


def adopt(handle: object, index: int | None) -> Device:
    """Return the device that a backend makes over an object of another library.

    Raises
    ------
    ArgumentError
        No backend adopts the object, or the backend cannot; or `index` is given.
    NotRegisteredError
        The runtime of the object's kind is not installed.
    PluginError, ConflictError
        A backend is broken, and no other adopts the object.
    """
    kind_of_handle = _describe(handle)
    if index is not None:
        raise ArgumentError(
            f"device: {kind_of_handle} is one device; omit the index {index!r}", argument="index"
        )
    problem: DevmodError | None = None
    kinds = sorted(registry.registered(GROUP))
    for kind in kinds:
        try:
            entry = lookup(GROUP, kind)
        except NotRegisteredError:  # a concurrent uninstall
            continue
        except DevmodError as error:
            problem = problem or error
            continue
        result = call_entry(GROUP, kind, entry, handle)
        if result is not None:
            return _checked(kind, result)
    if problem is not None:
        raise problem
    missing = [kind for kind in _kinds_of(handle) if kind not in kinds]
    if missing:
        lookup(GROUP, missing[0])  # its error has the command that installs the runtime
    raise ArgumentError(
        f"device: expected a kind such as 'opencl', or an object that a backend adopts, got {kind_of_handle}. {_adopted_by(kinds)}",
        argument="kind",
    )


def _checked(kind: str, result: object) -> Device:
    """Return what an entry returned, if it is a device of its kind."""
    from devmod import Device  # the entry has imported it

    if isinstance(result, Device) and result.kind == kind:
        return result
    from devmod._plugins.messages import wrong_result

    found = type(result).__name__
    if isinstance(result, Device):
        found = f"a device of kind {result.kind!r}"
    claim = registry.used_claim(GROUP, kind)
    raise wrong_result(claim, kind, f"returned {found}, not a devmod.Device of kind {kind!r}")


def _describe(handle: object) -> str:
    """Return the type of an object with its package, as in "a CommandQueue of pyopencl"."""
    from devmod._values.dtypes import describe_value

    description = describe_value(handle)
    package = _package_of(type(handle))
    if package == "builtins":
        return description
    return f"{description} of {package}"


def _package_of(cls: type) -> str:
    """Return the top-level package of a class."""
    return str(cls.__module__).partition(".")[0]


def _kinds_of(handle: object) -> list[str]:
    """Return the kinds whose runtimes adopt objects of this type."""
    classes = [(_package_of(each), each.__name__) for each in type(handle).__mro__]
    kinds = []
    for kind in registry.registered("devmod.targets"):
        handles = _handles(kind)
        if any(name in handles.get(package, ()) for package, name in classes):
            kinds.append(kind)
    return kinds


def _handles(kind: str) -> Mapping[str, Sequence[str]]:
    """Return the classes that the runtime of a kind adopts, by package."""
    try:
        spec = find_spec(kind)
    except DevmodError:  # a broken wheel
        return {}
    if spec is None:
        return {}
    return spec.handles


def _adopted_by(kinds: list[str]) -> str:
    """Return the sentence with what the installed backends adopt."""
    parts = []
    for kind in kinds:
        part = kind
        libraries = [f"{', '.join(names)} of {each}" for each, names in _handles(kind).items()]
        if libraries:
            part = f"{kind} ({'; '.join(libraries)})"
        parts.append(part)
    if not parts:
        return "No installed backend adopts objects"
    return f"The backends that adopt objects: {', '.join(parts)}"
