"""The error for a missing key: the distribution that provides it, or what the name means otherwise
(R4).
"""

from __future__ import annotations

from devmod._plugins import messages, registry, specs
from devmod._plugins.claim import normalize_name
from devmod._plugins.discovery import distributions, shared_scan
from devmod._util.text import is_valid_name
from devmod.errors import (
    FormatError,
    NotRegisteredError,
    PluginError,
    did_you_mean,
    not_installed,
    pip_install,
)
from devmod.targets import KINDS, PROGRAM, SHARED_OBJECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devmod._values.spec import TargetSpec

#: The kinds of core without a backend, with a description.
_CORE_KINDS = {
    "const_loader": "a kind of core, without devices and payload files; devmod.const_loader(tensors, by_symbol) makes its modules",
    "bundle": "a node of candidates, which has no bytes of its own; devmod.bundle(*modules) makes one, and devmod.save writes it",
    PROGRAM: "the kind of programs, which run on the devices of their kernels; devmod.program makes one, and devmod.load reads its file",
}
#: Words for devices of several kinds, and makers of devices, with a description.
WORDS = {
    "gpu": "a word for devices of several kinds; choose cuda (NVIDIA), rocm (AMD), metal (Apple), or vulkan, opencl or webgpu",
    "nvidia": "a maker of devices; its kind is cuda, and its drivers have vulkan, opencl and webgpu too",
    "amd": "a maker of devices; its kind is rocm, and its drivers have vulkan, opencl and webgpu too",
    "apple": "a maker of devices; its kind is metal, and its systems have webgpu too",
    "intel": "a maker of devices; its drivers have vulkan, opencl and webgpu",
    "cpu": "a device of other kinds; opencl has it with PoCL or Intel's runtime, vulkan with Mesa's lavapipe",
}
#: What to do about a bundle that no name is near to. Its package may lack the entry point.
_NO_BUNDLE = (
    ". Install the package that has it. One of your own names it in its pyproject.toml, under "
    '[project.entry-points."devmod.bundles"], and is then installed again'
)
#: How the other shared objects are read.
_SHARED_OBJECTS = (
    "devmod.load_from_file(path, 'hsaco') or (path, 'cubin') reads one that holds device code, devmod.interop.tvm.load_library(path) the "
    "modules of one that TVM exported"
)


def not_registered(group: str, name: str) -> NotRegisteredError:
    """Return the error for a missing key. The name is valid."""
    key = f"{group}.{name}"
    with shared_scan():
        refused = registry.excluded_claim(group, name)
        if refused is not None:
            return messages.excluded_error(*refused)
        if group == "devmod.bundles":
            known = sorted(registry.registered(group))
            text = f"no installed distribution provides this bundle. The bundles here: {', '.join(known) or 'none'}"
            advice = did_you_mean(name, known) or _NO_BUNDLE
            return NotRegisteredError(
                f"{key} is not registered: {text}{advice}", kind=name, key=key
            )

        distribution = ""
        spec = _spec(group, name)
        if spec is not None:
            distribution = spec.distribution
            text = f"{key} is not registered: {_missing_runtime(spec)}"
        else:
            other = explain_name(group, name)
            if other:
                text = f"{key} is not registered: {name} is {other}"
            else:
                distribution = f"devmod-{name}"
                text = f"{key} is not registered, and {messages.unknown_distribution(name)}{_suggestion(group, name)}"
        for each in distributions():
            if each.problem and not each.entries:
                text += f". {messages.unreadable_entries(each)}"
        return NotRegisteredError(text, kind=name, key=key, distribution=distribution)


def _missing_runtime(spec: TargetSpec) -> str:
    """Return why the distribution of a kind does not provide a key, and how to install or upgrade
    it.
    """
    for each in distributions():
        if normalize_name(each.name) == normalize_name(spec.distribution):
            return (
                f"{each.name} {each.version} is installed and does not provide it. "
                f"To upgrade it: {pip_install('--upgrade', spec.distribution)}"
            )
    return not_installed(f"the {spec.title} runtime", spec.distribution)


def _spec(group: str, name: str) -> TargetSpec | None:
    """Return the spec of the kind that the key belongs to; None if it is unknown."""
    if group in ("devmod.targets", "devmod.hooks", "devmod.commands"):
        return None
    if name == PROGRAM and group != "devmod.load_from_bytes":
        return None
    try:
        if group == "devmod.load_from_file":
            return specs.spec_of_format(name)
        if group == "devmod.load_from_bytes":
            return specs.spec_of_loader(name)
        return specs.find_spec(name)
    except PluginError:
        return None


def _suggestion(group: str, name: str) -> str:
    """Return a sentence with the nearest name, and the list of names; "" for the other groups.

    In the other groups a miss is common, and difflib is slow to import.
    """
    if group not in ("devmod.targets", "devmod.device", "devmod.conformance"):
        return ""
    known = sorted({*registry.registered(group), *KINDS} - {PROGRAM})
    noun = "kinds"
    if group == "devmod.targets":
        noun = "targets here"
    nearest = did_you_mean(name, known, cutoff=0.7)
    return f"{nearest or '.'} The {noun}: {', '.join(known)}"


def invalid_kind(group: str, name: str) -> FormatError:
    """Return the error for a name that a person gave for a kind, and that no kind can have."""
    word = name.lower()
    if not is_valid_name(word):
        problem = messages.name_problem(name)
        return FormatError(f"expected a kind, got {problem}{_suggestion(group, '')}")
    if word in WORDS:
        return FormatError(f"{name!r} is not a kind; {word} is {WORDS[word]}")
    return FormatError(f"{name!r} is not a kind{_suggestion(group, name)}")


def explain_name(group: str, name: str) -> str:
    """Return what a name means outside this group, with the call to use instead; "" if it is
    unknown.

    It may be an alias of a kind, a format or another word in place of a kind, or a kind or the
    suffix of a source in place of a format.
    """
    if group == "devmod.hooks":
        return ""
    if name in _CORE_KINDS and group != "devmod.targets":
        return _CORE_KINDS[name]
    # What a person chooses.
    if name in WORDS and group in ("devmod.targets", "devmod.device", "devmod.conformance"):
        return WORDS[name]
    try:
        if group == "devmod.load_from_file":
            return _explain_format(name)
        return _explain_kind(name)
    except PluginError:
        return ""


def _explain_format(name: str) -> str:
    """Return what a name in the place of a format means."""
    spec = specs.find_spec(name)
    if spec is not None:
        return f"a kind, not a file format; the file formats of {name}: {', '.join(dict.fromkeys(spec.suffixes.values()))}"
    spec = specs.spec_of_language(name)
    if spec is not None:
        compiled = f"devmod.compile(pathlib.Path(path), {spec.kind!r})"
        return f"the suffix of a source ({spec.languages[name]}), not a payload format; {compiled} compiles it"
    if name.startswith(f"{SHARED_OBJECT}_"):
        return f"a shared object for {name[3:]}; {_SHARED_OBJECTS}"
    return ""


def _explain_kind(name: str) -> str:
    """Return what a name in the place of a kind means."""
    spec = specs.spec_of_loader(name)
    if spec is not None and spec.kind != name:
        return f"an alias of {spec.kind}, under which its bytes are loaded; everywhere else the kind is {spec.kind}"
    if name == "devmod":
        return "the format of bundles, not a kind; devmod.loads(data) reads a bundle in memory, devmod.load(path) a file"
    spec = specs.spec_of_format(name)
    if spec is None:
        return ""
    fmt = name
    if name.startswith(f"{SHARED_OBJECT}_"):
        fmt = SHARED_OBJECT
    create = f"devmod.create({spec.kind!r}, code, {fmt!r}, fmap)"
    return f"a format of {spec.kind}, not a kind; {create} takes a payload in memory, devmod.load_from_file(path) a payload file"
