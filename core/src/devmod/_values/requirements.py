"""What a function requires of a device, and whether a device has it.

The choice of a bundle's candidate, `devmod.explain` and the first use of a function ask one
question: ``fits(requirements(interface, format), device.capabilities)``. Requirements are derived
and never stored. What is unknown fits, and the driver decides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from devmod._util.text import escape_line
from devmod._values.dtypes import parse_dtype
from devmod._values.limits import LIMITS
from devmod.errors import count_text, list_names, pip_install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from devmod import Device
    from devmod._values.info import Interface
    from devmod._values.value import Place

#: The limit of each kind of parameter that has a binding. That of an image depends on its access.
_BINDINGS = {"buffer": "storage_buffers", "uniform": "uniform_buffers", "sampler": "samplers"}


class Requirements(NamedTuple):
    """What a function requires of a device. `requirements` derives it from an interface. It can be
    hashed: `devmod bundle` compares functions by it.

    Attributes
    ----------
    features
        The features, by their names in `Interface.needs`.
    subgroup
        The number of threads in a subgroup; None for any.
    block
        The block for which the function is built; None for any.
    images
        The name, the format and the access of each image whose format the function fixes.
    amounts
        The names of limits, each with the amount that the function needs. A limit may be there
        several times.
    format
        The payload's format; "" if it is unknown.
    clauses
        Amounts, each with the clause of a message about it: what the arrays and steps of a program
        need. The other amounts are of a kernel.
    unknown
        Those of `features` that this devmod does not know.
    newer
        The unknown needs of a newer function, which no device runs here.
    """

    features: tuple[str, ...] = ()
    subgroup: int | None = None
    block: tuple[int, int, int] | None = None
    images: tuple[tuple[str, str, str], ...] = ()
    amounts: tuple[tuple[str, int], ...] = ()
    format: str = ""
    clauses: tuple[tuple[tuple[str, int], str], ...] = ()
    unknown: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()


class Capabilities(NamedTuple):
    """What a device has of what functions require.

    Parameters
    ----------
    device
        The device. Its `features`, `subgroup_sizes` and `limits` are read when a function requires
        something of them.
    limits
        For names in `LIMITS`, the names in `Device.limits`. A limit without a name, or without a
        value, is unknown, and is not compared.

        The names are ``block_x``, ``block_y``, ``block_z`` and ``block`` (the threads of a block in
        a dimension and in all, if the kernel requires its block), ``subgroups`` (of a block, if the
        function requires their size), ``shared_memory`` (the bytes of static shared memory, if the
        compiler wrote "workgroup_memory" into the interface's `extra`), ``array`` and ``storage``
        (the bytes of each array of fixed size, and of each that is a storage buffer),
        ``push_constants`` (bytes), ``uniform`` (the bytes of each uniform block), ``sets``
        (descriptor sets or bind groups, up to the last one with a binding), and the numbers of
        bindings: ``storage_buffers``, ``uniform_buffers``, ``sampled_images`` (only read, and the
        function does not fix the format), ``storage_images`` (the other images), ``samplers``, and
        ``resources`` (all of these but the samplers).
    problem
        Why the device runs no function, such as a driver that cannot compile, as the end of a
        sentence about the function; "" if it does.
    subgroup_problem
        Why no size of subgroups can be required, if `subgroup_sizes` is empty: the end of "needs
        subgroups of 32 threads, …", with a field for the device; "" if that is unknown.
    image_problem
        Returns why kernels cannot access images of a format, by the format and the access, as a
        clause; "" if they can, or if it is unknown.
    format_problem
        Returns why the device takes no payload of a format, as a clause; "" if it does; None if
        only the driver knows, as for a binary that it has made.
    """

    device: Any
    limits: Mapping[str, str] | None = None
    problem: str = ""
    subgroup_problem: str = ""
    image_problem: Callable[[str, str], str] | None = None
    format_problem: Callable[[str], str | None] | None = None


def requirements(interface: Interface | None, fmt: str = "") -> Requirements:
    """Return what a function with a payload of a format requires, as far as its interface has it.
    Without one, only the format is known.
    """
    if interface is None:
        return Requirements(format=fmt)
    if interface.newer:
        return Requirements(format=fmt, newer=interface.newer)
    amounts = []
    if interface.block is not None:
        amounts += _block_amounts(interface.block, interface.subgroup)
    memory = interface.extra.get("workgroup_memory", 0)
    if type(memory) is int:
        amounts.append(("shared_memory", memory))

    images = []
    places = []
    for param in interface.params:
        kind = _BINDINGS.get(param.kind)
        if param.kind == "image":
            kind = "sampled_images"
            if param.format or "w" in param.access:
                kind = "storage_images"
            if param.format:
                images.append((param.name, param.format, param.access))
        elif param.kind == "buffer":
            amounts += ("array", param.size), ("storage", param.size)
        elif param.kind == "uniform":
            amounts.append(("uniform", _uniform_bytes(param.type)))
        if kind is not None:
            places.append((kind, param.at))
    for each in interface.blocks:
        if each.at == "push":
            amounts.append(("push_constants", each.size))
            continue
        amounts.append(("uniform", each.size))
        places.append(("uniform_buffers", each.at))

    return Requirements(
        _features_of(interface),
        interface.subgroup,
        interface.block,
        tuple(images),
        (*amounts, *_binding_counts(places).items()),
        fmt,
        unknown=_unknown_of(interface),
    )


def _unknown_of(interface: Interface) -> tuple[str, ...]:
    if not interface.needs:
        return ()
    from devmod._values.features import unknown_needs

    return unknown_needs(interface.needs)


def _features_of(interface: Interface) -> tuple[str, ...]:
    features = dict.fromkeys(interface.needs)
    if features:
        from devmod._values.features import TUNED

        features.pop(TUNED, None)  # a need of the reader, not of the device
    webgpu = interface.extra.get("features", [])
    if not isinstance(webgpu, list):  # a file may have anything there
        webgpu = [webgpu]
    for name in webgpu:
        features.setdefault(_need_of(str(name)))
    return tuple(features)


def _block_amounts(block: tuple[int, int, int], subgroup: int | None) -> list[tuple[str, int]]:
    """Return what a block of threads needs, by the names of limits."""
    x, y, z = block
    threads = x * y * z
    amounts = [("block_x", x), ("block_y", y), ("block_z", z), ("block", threads)]
    if subgroup:
        # The last subgroup may have fewer threads.
        amounts.append(("subgroups", -(-threads // subgroup)))
    return amounts


def _binding_counts(places: Sequence[tuple[str, Place]]) -> dict[str, int]:
    """Return how many bindings of each kind there are, and how many sets."""
    counts = dict.fromkeys(
        (
            "sets",
            "storage_buffers",
            "uniform_buffers",
            "sampled_images",
            "storage_images",
            "samplers",
            "resources",
        ),
        0,
    )
    for kind, at in places:
        counts[kind] += 1
        if kind != "samplers":
            counts["resources"] += 1
        if type(at) is tuple:
            counts["sets"] = max(counts["sets"], at[0] + 1)
    return counts


def program_requirements(program: Any, interfaces: Mapping[str, Interface | None]) -> Requirements:
    """Return what a program requires beside its kernels: its arrays and its blocks of fixed size.

    Parameters
    ----------
    program
        The program, a `devmod_readers.programs.Program`.
    interfaces
        Those of its kernels. An array at an address is no storage buffer.
    """
    bound = _bound_arrays(program, interfaces)
    clauses: dict[tuple[str, int], str] = {}
    for number, step in enumerate(program.steps, 1):
        if step.block and all(type(each) is int for each in step.block):
            x, y, z = (*step.block, 1, 1)[:3]
            clause = f"step {number} launches {step.kernel!r} in blocks of {x} × {y} × {z} threads"
            for amount in _block_amounts((x, y, z), None):
                clauses.setdefault(amount, clause)
    for array in program.arrays():
        if array.format or not all(type(each) is int for each in array.shape):
            continue
        nbytes = array.nbytes(array.shape)
        clause = f"the array {array.name!r} has {count_text(nbytes, 'byte')}"
        clauses.setdefault(("array", nbytes), clause)
        if array.name in bound:
            clauses.setdefault(("storage", nbytes), clause)
    return Requirements(amounts=tuple(clauses), clauses=tuple(clauses.items()))


def _bound_arrays(program: Any, interfaces: Mapping[str, Interface | None]) -> set[object]:
    """Return the arrays that a step of a program passes as a buffer."""
    buffers: dict[str, set[str]] = {}
    for kernel, interface in interfaces.items():
        buffers[kernel] = set()
        if interface is not None:
            buffers[kernel] = {param.name for param in interface.params if param.kind == "buffer"}

    arrays: set[object] = set()
    for step in program.steps:
        for name, value in step.arguments.items():
            if name in buffers[step.kernel] and isinstance(value, str):
                arrays.add(value)
    return arrays


def _need_of(webgpu: str) -> str:
    """Return the name in `Interface.needs` of a feature of WebGPU, or the name itself."""
    from devmod._values.features import FEATURES

    for name, feature in FEATURES.items():
        if feature.webgpu == webgpu:
            return name
    return webgpu


def _uniform_bytes(type_: str) -> int:
    """Return the bytes of a uniform of type "uint8" or "uint8xN"; 0 for other types."""
    if not type_:
        return 0
    code, bits, lanes = parse_dtype(type_)
    if (code, bits) != (1, 8):
        return 0
    return lanes


def fits(needed: Requirements, capabilities: Capabilities | None) -> str:
    """Return "" if a device has what a function requires, else the first thing that is missing, as
    the end of a sentence.

    Parameters
    ----------
    needed
        The requirements.
    capabilities
        `Device.capabilities`; None if they are unknown.
    """
    if needed.newer:
        from devmod._values.features import newer_text

        return newer_text(needed.newer)
    if capabilities is None:
        return ""
    device = capabilities.device
    if needed.format and capabilities.format_problem is not None:
        problem = capabilities.format_problem(needed.format)
        if problem:
            return f"cannot run on {device}: {problem}"

    sizes: Sequence[int] = ()
    if needed.subgroup:
        sizes = device.subgroup_sizes
    unknown = _unreported(needed.unknown, device)
    if unknown:
        upgrade = pip_install("--upgrade devmod-core devmod-runtime")
        return f"needs {list_names(unknown)}, which neither this devmod nor {device} has: {upgrade}"
    missing = _missing(needed, device, sizes)
    if missing:
        return f"needs {escape_line(' and '.join(missing))}, which {device} does not have"

    if capabilities.problem:
        return capabilities.problem
    if needed.subgroup and not sizes and capabilities.subgroup_problem:
        problem = capabilities.subgroup_problem.format(device)
        return f"needs subgroups of {needed.subgroup} threads, {problem}"
    if capabilities.image_problem is not None:
        for name, format_, access in needed.images:
            problem = capabilities.image_problem(format_, access)
            if problem:
                return f"has the image {name!r} of {format_}: {problem}"
    if capabilities.limits:
        return _exceeded(needed, device, capabilities.limits)
    return ""


def _unreported(unknown: Sequence[str], device: Any) -> list[str]:
    """Return those of the unknown features that a device does not report."""
    if not unknown:
        return []
    features = device.features or ()
    return [name for name in unknown if name not in features]


def _missing(needed: Requirements, device: Any, sizes: Sequence[int]) -> list[str]:
    """Return the features and the subgroups that a device lacks."""
    missing = []
    if needed.features:
        features = device.features
        if features is not None:
            missing += [name for name in needed.features if name not in features]
    if sizes and needed.subgroup not in sizes:
        missing.append(
            f"subgroups of {needed.subgroup} threads (it has subgroups of {', '.join(map(str, sizes))})"
        )
    return missing


def _exceeded(needed: Requirements, device: Any, names: Mapping[str, str]) -> str:
    """Return "" if no limit of a device is exceeded, else the first one, as the end of a
    sentence.
    """
    for limit, amount in needed.amounts:
        driver_name = names.get(limit)
        if not amount or driver_name is None:
            continue
        most = device.limits.get(driver_name, amount)
        if amount > most:
            clause = dict(needed.clauses).get((limit, amount))
            if clause is None:
                clause = f"the kernel {LIMITS[limit][2].format(amount)}"
            return f"cannot run on {device}: its {driver_name} is {most}, but {clause}"
    return ""


def device_of_call(devices: Sequence[Device], fmt: str) -> Device:
    """Return the device of a call that names none: the first that takes payloads of a format, or
    else the first.

    Parameters
    ----------
    devices
        The devices of the payload's kind, at least one.
    fmt
        The payload's format.
    """
    for device in devices:
        capabilities = device.capabilities
        if capabilities is None or capabilities.format_problem is None:
            return device
        if not capabilities.format_problem(fmt):
            return device
    return devices[0]
