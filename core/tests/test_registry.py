"""The registry: the order of its look-ups, and the errors for missing and broken entries."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import importlib_metadata
import pytest
from distributions import (
    GOOD,
    SOURCE,
    Session,
    environment,
    install,
    npu,
    run,
    uninstall,
    wheel,
)
from each_case import raised, refusal
from forked import python

import devmod
from devmod import targets
from devmod._plugins.lookup import lookup
from devmod._plugins.registry import is_name
from devmod._plugins.specs import find_spec
from devmod._values.spec import TargetSpec

Register = Callable[[str, str, object], None]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an empty folder on sys.path, without a restriction to core. The end of the test
    removes modules imported from it.
    """
    folder = tmp_path.resolve() / "site"
    folder.mkdir()
    monkeypatch.delenv("DEVMOD_PLUGINS_ALLOW")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def fresh(stem: str = "npu") -> str:
    """Return a kind that no other test has used. A hit is cached for the life of the process."""
    fresh.number = getattr(fresh, "number", 0) + 1  # type: ignore[attr-defined]
    return f"{stem}{fresh.number}"  # type: ignore[attr-defined]


def plugin(
    site: Path,
    kind: str,
    text: str,
    *,
    group: str = "devmod.load_from_bytes",
    value: str = "",
    version: str = "1.0",
) -> Path:
    """Install a distribution acme-<kind> with one entry and its module."""
    return install(
        site,
        f"acme-{kind}",
        version,
        {group: {kind: value or f"acme_{kind}:entry"}},
        {f"acme_{kind}": text},
    )


SOUND = """
import devmod
class Made(devmod.Module):
    kind = __name__.partition("_")[2]
    def get_function(self, name, query_imports=False):
        raise NotImplementedError
def entry(data):
    return Made()
"""

# -- R1, R3: look-ups
# --------------------------------------------------------------------------------------------------


@pytest.mark.row("R1", "R3")
def test_a_hit_is_cached_and_a_miss_is_not(site: Path) -> None:
    kind = fresh()
    with pytest.raises(devmod.NotRegisteredError):
        devmod.load_from_bytes(kind, b"")
    info = plugin(site, kind, SOUND)
    result = devmod.load_from_bytes(kind, b"")
    assert result.kind == kind
    uninstall(info)
    assert kind not in devmod.registered("devmod.load_from_bytes")
    assert type(devmod.load_from_bytes(kind, b"")) is type(result)


@pytest.mark.row("R4")
@pytest.mark.parametrize("missing", ["{package}.more", "devmod_runtime.more", "unknown_module"])
@pytest.mark.parametrize(
    "group", ["devmod.create", "devmod.load_from_bytes", "devmod.load_from_file", "devmod.device"]
)
def test_an_import_of_a_distribution_that_was_uninstalled_has_the_text_of_a_miss(
    site: Path, tmp_path: Path, group: str, missing: str
) -> None:
    kind = fresh()
    package = f"acme_{kind}"
    info = plugin(
        site,
        kind,
        f"def entry(*values):\n    import {missing.format(package=package)}\n",
        group=group,
    )
    file = tmp_path / f"x.{kind}"
    file.write_bytes(b"")
    call = {
        "devmod.create": lambda: devmod.create(kind, b"", "x", {}),
        "devmod.load_from_bytes": lambda: devmod.load_from_bytes(kind, b""),
        "devmod.load_from_file": lambda: devmod.load_from_file(file),
        "devmod.device": lambda: devmod.device(kind),
    }[group]
    with pytest.raises(devmod.PluginError if missing.startswith("devmod") else ModuleNotFoundError):
        call()
    uninstall(info)
    error = raised(
        ModuleNotFoundError if missing == "unknown_module" else devmod.NotRegisteredError, call
    )
    if missing != "unknown_module":
        assert str(error).startswith(
            f"{group}.{kind} is not registered, and no known distribution provides it; "
        )
        assert isinstance(error.__cause__, ModuleNotFoundError)


@pytest.mark.row("R1")
@pytest.mark.parametrize(
    ("group", "arguments"),
    [
        ("devmod.create", "code, fmt, fmap, source"),
        ("devmod.load_from_bytes", "data"),
        ("devmod.load_from_file", "path, fmt"),
    ],
)
def test_each_group_is_a_group_of_entry_points(
    site: Path, tmp_path: Path, group: str, arguments: str
) -> None:
    kind = fresh()
    plugin(site, kind, SOUND.replace("def entry(data)", f"def entry({arguments})"), group=group)
    file = tmp_path / f"x.{kind}"
    file.write_bytes(b"")
    result = {
        "devmod.create": lambda: devmod.create(kind, b"", "x", {}),
        "devmod.load_from_bytes": lambda: devmod.load_from_bytes(kind, b""),
        "devmod.load_from_file": lambda: devmod.load_from_file(file),
    }
    for each, make in result.items():
        if each == group:
            assert make().kind == kind
        else:
            with pytest.raises(devmod.NotRegisteredError):
                make()


@pytest.mark.row("R6", "R7")
def test_a_plugin_is_imported_when_its_key_is_first_used(site: Path) -> None:
    kind, other = fresh(), fresh()
    plugin(site, kind, SOUND)
    plugin(site, other, "raise AssertionError('imported')")
    found = devmod.registered("devmod.load_from_bytes")
    assert (found[kind].distribution, found[kind].version, found[kind].provider) == (
        f"acme-{kind}",
        "1.0",
        f"acme-{kind} 1.0",
    )
    assert (found[other].value, found[other].problem) == (f"acme_{other}:entry", "")
    assert f"acme_{kind}" not in sys.modules
    devmod.load_from_bytes(kind, b"")
    assert f"acme_{other}" not in sys.modules


def test_an_entry_may_be_an_attribute_of_a_class_and_have_extras(site: Path) -> None:
    kind = fresh()
    text = SOUND + "class Space:\n    entry = staticmethod(entry)\n"
    plugin(site, kind, text, value=f"acme_{kind} : Space.entry [some, extras]")
    assert devmod.load_from_bytes(kind, b"").kind == kind


# -- R4: misses
# --------------------------------------------------------------------------------------------------


MISSES = """
import json, sys
from devmod import NotRegisteredError
from devmod._plugins.lookup import lookup
errors = {}
for group, name in json.load(sys.stdin):
    try:
        lookup(group, name)
    except NotRegisteredError as error:
        assert isinstance(error, RuntimeError)
        assert error.key == f"{group}.{name}"
        errors[error.key] = [str(error), error.kind, error.distribution]
print(json.dumps(errors))
"""


def misses(tmp_path: Path, keys: Iterable[tuple[str, str]], *path: Path) -> dict[str, list[str]]:
    """Return the text, kind and distribution of the error for each key, in a process with core and
    these folders.
    """
    cache = tmp_path / "cache"
    done = python("-S", "-c", MISSES, env=environment(path, cache), input=json.dumps(list(keys)))
    errors = json.loads(done.stdout)
    assert isinstance(errors, dict)
    return errors


RUNTIMES = {
    "cuda": "CUDA",
    "rocm": "ROCm",
    "metal": "Metal",
    "vulkan": "Vulkan",
    "opencl": "OpenCL",
    "hexagon": "Hexagon",
    "webgpu": "WebGPU",
}


@pytest.mark.row("R2", "R4")
def test_the_miss_of_a_known_kind_has_the_command(tmp_path: Path) -> None:
    of_kinds = ("devmod.create", "devmod.load_from_bytes", "devmod.device", "devmod.conformance")
    kinds = {(group, kind): kind for group in of_kinds for kind in RUNTIMES}
    kinds |= {("devmod.load_from_bytes", alias): "rocm" for alias in ("hsaco", "hip")}
    formats = {
        "cuda": ("cuda", "ptx", "cubin", "fatbin"),
        "rocm": ("hsaco", "hip"),
        "metal": ("metal", "metallib"),
        "vulkan": ("spv",),
        "opencl": ("cl", "il", "clbin", "xclbin", "awsxclbin", "aocx"),
        "webgpu": ("wgsl",),
        "hexagon": ("so_hexagon",),
    }
    kinds |= {
        ("devmod.load_from_file", fmt): kind for kind, several in formats.items() for fmt in several
    }
    assert misses(tmp_path, kinds) == {
        f"{group}.{name}": [
            f"{group}.{name} is not registered: the {RUNTIMES[kind]} runtime is not installed. To add it: pip install devmod-{kind}",
            name,
            f"devmod-{kind}",
        ]
        for (group, name), kind in kinds.items()
    }


#: The kinds in the errors of `misses`.
KINDS = "cuda, hexagon, metal, opencl, rocm, vulkan, webgpu"


@pytest.mark.row("R4")
def test_the_miss_of_an_unknown_kind_warns_about_its_publisher(tmp_path: Path) -> None:
    groups = (
        "devmod.create",
        "devmod.load_from_bytes",
        "devmod.load_from_file",
        "devmod.targets",
        "devmod.device",
        "devmod.conformance",
    )
    lists = {
        "devmod.targets": f". The targets here: {KINDS}",
        "devmod.device": f". The kinds: {KINDS}",
        "devmod.conformance": f". The kinds: {KINDS}",
    }
    assert misses(tmp_path, [(group, "npu_9") for group in groups]) == {
        f"{group}.npu_9": [
            f"{group}.npu_9 is not registered, and no known distribution provides it; by convention it would be devmod-npu_9; "
            "install that only if you trust its publisher" + lists.get(group, ""),
            "npu_9",
            "devmod-npu_9",
        ]
        for group in groups
    }


@pytest.mark.row("R4")
def test_the_miss_of_a_misspelt_kind_has_the_nearest_kind(tmp_path: Path) -> None:
    found = misses(
        tmp_path,
        [("devmod.device", "opncl"), ("devmod.conformance", "vulcan"), ("devmod.create", "opncl")],
    )
    ends = {key: text[0].partition("its publisher")[2] for key, text in found.items()}
    assert ends == {
        "devmod.device.opncl": f". Did you mean 'opencl'? The kinds: {KINDS}",
        "devmod.conformance.vulcan": f". Did you mean 'vulkan'? The kinds: {KINDS}",
        "devmod.create.opncl": "",  # these kinds come from files
    }


@pytest.mark.row("R4")
def test_the_miss_of_a_kind_with_an_installed_target_has_its_command(tmp_path: Path) -> None:
    text = "import devmod\nSPEC = devmod.TargetSpec('npu', title='Acme', distribution='acme-runtime', formats=['nbin'], aliases=['npu2'])\n"
    plugin(tmp_path / "site", "npu", text, group="devmod.targets", value="acme_npu:SPEC")
    keys = [
        ("devmod.create", "npu"),
        ("devmod.load_from_bytes", "npu2"),
        ("devmod.load_from_file", "nbin"),
    ]
    assert misses(tmp_path, keys, tmp_path / "site") == {
        f"{group}.{name}": [
            f"{group}.{name} is not registered: the Acme runtime is not installed. To add it: pip install acme-runtime",
            name,
            "acme-runtime",
        ]
        for group, name in keys
    }


@pytest.mark.row("R4", "R8")
def test_the_miss_is_reported_in_spite_of_a_broken_target(tmp_path: Path) -> None:
    plugin(tmp_path / "site", "npu", "1 / 0", group="devmod.targets", value="acme_npu:SPEC")
    errors = misses(
        tmp_path, [("devmod.create", "npu"), ("devmod.load_from_file", "ptx")], tmp_path / "site"
    )
    assert "no known distribution provides it" in errors["devmod.create.npu"][0]
    assert "pip install devmod-cuda" in errors["devmod.load_from_file.ptx"][0]


@pytest.mark.row("R4")
def test_the_miss_of_a_key_that_an_installed_runtime_lacks_has_the_upgrade(tmp_path: Path) -> None:
    npu(tmp_path / "site", "0.3", name="devmod-cuda", kind="other")
    errors = misses(tmp_path, [("devmod.device", "cuda")], tmp_path / "site")
    assert errors["devmod.device.cuda"][0] == (
        "devmod.device.cuda is not registered: devmod-cuda 0.3 is installed and does not provide it. To upgrade it: pip install --upgrade "
        "devmod-cuda"
    )


@pytest.mark.row("R2", "R4")
@pytest.mark.parametrize("group", ["devmod.create", "devmod.device", "devmod.conformance"])
def test_an_alias_in_the_place_of_a_kind_is_explained(group: str, tmp_path: Path) -> None:
    errors = misses(tmp_path, [(group, "hip")], tmp_path / "site")
    assert errors[f"{group}.hip"][0] == (
        f"{group}.hip is not registered: hip is an alias of rocm, under which its bytes are loaded; everywhere else the kind is rocm"
    )


@pytest.mark.row("R4")
def test_a_word_for_devices_in_the_place_of_a_kind_is_explained(tmp_path: Path) -> None:
    words = {
        "gpu": "a word for devices of several kinds; choose cuda (NVIDIA), rocm (AMD), metal (Apple), or vulkan, opencl or webgpu",
        "nvidia": "a maker of devices; its kind is cuda, and its drivers have vulkan, opencl and webgpu too",
        "amd": "a maker of devices; its kind is rocm, and its drivers have vulkan, opencl and webgpu too",
        "apple": "a maker of devices; its kind is metal, and its systems have webgpu too",
        "intel": "a maker of devices; its drivers have vulkan, opencl and webgpu",
        "cpu": "a device of other kinds; opencl has it with PoCL or Intel's runtime, vulkan with Mesa's lavapipe",
    }
    groups = ("devmod.device", "devmod.targets", "devmod.conformance")
    chosen = [(group, word) for word in words for group in groups]
    # A file of a stranger may be of a backend with such a name.
    loaded = [("devmod.load_from_bytes", word) for word in words]
    errors = misses(tmp_path, chosen + loaded, tmp_path / "site")
    for group, word in chosen:
        text = f"{group}.{word} is not registered: {word} is {words[word]}"
        assert errors[f"{group}.{word}"][0] == text
    for group, word in loaded:
        assert f"by convention it would be devmod-{word}" in errors[f"{group}.{word}"][0]


@pytest.mark.row("R4")
def test_a_format_in_the_place_of_a_kind_is_explained(tmp_path: Path) -> None:
    of = {
        "ptx": "cuda",
        "cubin": "cuda",
        "fatbin": "cuda",
        "spv": "vulkan",
        "cl": "opencl",
        "clbin": "opencl",
        "wgsl": "webgpu",
        "so": "hexagon",
    }
    asked = [
        (group, fmt)
        for fmt in of
        for group in ("devmod.load_from_bytes", "devmod.create", "devmod.device", "devmod.targets")
    ]
    errors = misses(tmp_path, [*asked, ("devmod.load_from_bytes", "devmod")], tmp_path / "site")
    for group, fmt in asked:
        kind = of[fmt]
        create = f"devmod.create('{kind}', code, '{fmt}', fmap)"
        todo = f"{create} takes a payload in memory, devmod.load_from_file(path) a payload file"
        assert (
            errors[f"{group}.{fmt}"][0]
            == f"{group}.{fmt} is not registered: {fmt} is a format of {kind}, not a kind; {todo}"
        )
    assert errors["devmod.load_from_bytes.devmod"][0] == (
        "devmod.load_from_bytes.devmod is not registered: devmod is the format of bundles, not a kind; devmod.loads(data) reads a bundle in "
        "memory, devmod.load(path) a file"
    )


@pytest.mark.row("R4")
def test_the_miss_of_a_kind_of_core_names_no_wheel(tmp_path: Path) -> None:
    asked = [
        ("devmod.device", "const_loader"),
        ("devmod.load_from_file", "const_loader"),
        ("devmod.create", "bundle"),
    ]
    errors = misses(tmp_path, asked, tmp_path / "site")
    constants = "const_loader is a kind of core, without devices and payload files; devmod.const_loader(tensors, by_symbol) makes its modules"
    node = "bundle is a node of candidates, which has no bytes of its own; devmod.bundle(*modules) makes one, and devmod.save writes it"
    for (group, name), what in zip(asked, (constants, constants, node), strict=True):
        assert errors[f"{group}.{name}"][0] == f"{group}.{name} is not registered: {what}"


@pytest.mark.row("R4")
def test_a_kind_in_the_place_of_a_file_format_is_explained(tmp_path: Path) -> None:
    errors = misses(
        tmp_path,
        [
            ("devmod.load_from_file", fmt)
            for fmt in ("opencl", "comp", "so_x86_64", "so_amdgpu", "so_cuda", "acme")
        ],
        tmp_path / "site",
    )
    assert errors["devmod.load_from_file.opencl"][0] == (
        "devmod.load_from_file.opencl is not registered: opencl is a kind, not a file format; the file formats of opencl: "
        "cl, il, clbin, xclbin, awsxclbin, aocx"
    )
    assert errors["devmod.load_from_file.comp"][0] == (
        "devmod.load_from_file.comp is not registered: comp is the suffix of a source (GLSL), not a payload format; "
        "devmod.compile(pathlib.Path(path), 'vulkan') compiles it"
    )
    for machine in ("x86_64", "amdgpu", "cuda"):
        assert errors[f"devmod.load_from_file.so_{machine}"][0] == (
            f"devmod.load_from_file.so_{machine} is not registered: so_{machine} is a shared object for {machine}; "
            "devmod.load_from_file(path, 'hsaco') or (path, 'cubin') reads one that holds device code, "
            "devmod.interop.tvm.load_library(path) the modules of one that TVM exported"
        )
    assert errors["devmod.load_from_file.acme"][0].startswith(
        "devmod.load_from_file.acme is not registered, and no known distribution"
    )


FORM = "a kind is of the form [a-z][a-z0-9_]{0,31}; got "


@pytest.mark.row("R4")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", FORM + "0 characters"),
        ("Cuda", FORM + "U+0043 at character 1. Did you mean 'cuda'?"),
        ("openCL", FORM + "U+0043 at character 5. Did you mean 'opencl'?"),
        ("9", FORM + "U+0039 at character 1"),
        ("npu; pip install evil", FORM + "U+003B at character 4"),
        ("a b", FORM + "U+0020 at character 2"),
        ("npu\n", FORM + "U+000A at character 4"),
        ("npü", FORM + "U+00FC at character 3"),
        ("a-b", FORM + "U+002D at character 2"),
        ("a.b", FORM + "U+002E at character 2"),
        ("a" * 33, FORM + "33 characters"),
        ("pip install x " * 10**6, FORM + "14000000 characters"),
        (None, FORM + "an object of type NoneType"),
        (b"cuda", FORM + "an object of type bytes"),
        (["cuda"], FORM + "an object of type list"),
    ],
)
def test_an_invalid_kind_is_a_format_error_without_a_command(name: Any, text: str) -> None:
    for call in (
        lambda: devmod.load_from_bytes(name, b""),
        lambda: devmod.create(name, b"", "x", {}),
        lambda: devmod.register("devmod.create", name, lambda: None),
        lambda: find_spec(name),
    ):
        assert refusal(devmod.FormatError, call) == text


@pytest.mark.row("R4")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", f"expected a kind, got 0 characters. The kinds: {KINDS}"),
        (":0", f"expected a kind, got 0 characters. The kinds: {KINDS}"),
        ("openCL", f"'openCL' is not a kind. Did you mean 'opencl'? The kinds: {KINDS}"),
        ("Zebra", f"'Zebra' is not a kind. The kinds: {KINDS}"),
        (
            "GPU",
            "'GPU' is not a kind; gpu is a word for devices of several kinds; choose cuda (NVIDIA), rocm (AMD), metal (Apple), or vulkan, opencl or webgpu",
        ),
        (
            "npu; pip install evil",
            f"expected a kind, got U+003B at character 4. The kinds: {KINDS}",
        ),
        ("npü:1", f"expected a kind, got U+00FC at character 3. The kinds: {KINDS}"),
        ("a" * 33, f"expected a kind, got 33 characters. The kinds: {KINDS}"),
    ],
)
def test_the_error_for_a_device_of_no_kind_has_the_kinds(name: str, text: str) -> None:
    assert refusal(devmod.FormatError, devmod.device, name) == text


@pytest.mark.parametrize(
    ("group", "name", "is_valid"),
    [
        ("devmod.commands", "a", True),
        ("devmod.commands", "a-z", True),
        ("devmod.commands", "z" * 32, True),
        ("devmod.commands", "z" * 33, False),
        ("devmod.commands", "", False),
        ("devmod.commands", "-a", False),
        ("devmod.commands", "a_b", False),
        ("devmod.commands", "a9", False),
        ("devmod.commands", "a`", False),
        ("devmod.commands", "a{", False),
        ("devmod.commands", "A", False),
        ("devmod.commands", None, False),
        ("devmod.hooks", "devmod_verify", True),
        ("devmod.hooks", "devmod_verify.npu", True),
        ("devmod.hooks", "a.b.c", False),
        ("devmod.hooks", "a.", False),
        ("devmod.hooks", ".a", False),
        ("devmod.hooks", None, False),
        ("devmod.create", "npu_9", True),
        ("devmod.create", "a.b", False),
        ("devmod.create", "a-b", False),
    ],
)
def test_the_names_of_each_group(group: str, name: Any, is_valid: bool) -> None:
    assert is_name(group, name) is is_valid


def test_an_unknown_group_is_a_format_error() -> None:
    for group in ("devmod.nothing", "", "create", None, []):
        text = refusal(devmod.FormatError, devmod.registered, group)
        assert text == (
            "unknown group of entry points; the groups are devmod.create, devmod.load_from_bytes, devmod.load_from_file, devmod.targets, "
            "devmod.device, devmod.adopt, devmod.hooks, devmod.conformance, devmod.commands, devmod.bundles, devmod.protocol"
        )
        assert refusal(devmod.FormatError, devmod.register, group, "npu", object()) == text


@pytest.mark.parametrize(
    "name", ["", "a.b.c", "Verify", ".cuda", "devmod_verify.", "devmod_verify.Cuda"]
)
def test_an_invalid_hook_is_a_format_error(name: str) -> None:
    assert (
        refusal(devmod.FormatError, devmod.register, "devmod.hooks", name, object())
        == "a hook is of the form [a-z][a-z0-9_]{0,31}, optionally followed by .<kind>"
    )


def test_the_error_for_an_invalid_format_calls_it_a_format() -> None:
    with pytest.raises(
        devmod.FormatError,
        match=r"^a format is of the form \[a-z\]\[a-z0-9_\]\{0,31\}; got U\+0050 at character 1\. Did you mean 'ptx'\?$",
    ):
        devmod.load_from_file("x", "PTX")


# -- R8: broken plugins
# --------------------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[str, str, str, type[BaseException] | None]] = {
    # what: module, value, the reason in the message, the cause
    "module": (
        SOUND,
        "acme_gone.part:entry",
        "importing acme_gone.part failed (ModuleNotFoundError: No module named 'acme_gone')",
        ImportError,
    ),
    "dependency": (
        "import not_installed",
        "",
        "importing {module} failed (ModuleNotFoundError: No module named 'not_installed')",
        ImportError,
    ),
    "raises": (
        "raise RuntimeError('no libnpu.so')",
        "",
        "importing {module} failed (RuntimeError: no libnpu.so)",
        RuntimeError,
    ),
    "syntax": (
        "def",
        "",
        "importing {module} failed (SyntaxError: invalid syntax ({module}.py, line 1))",
        SyntaxError,
    ),
    "exits": ("raise SystemExit(3)", "", "importing {module} failed (SystemExit: 3)", SystemExit),
    "attribute": (
        "x = 1",
        "",
        "its entry is '{module}:entry', and {module} has no 'entry' (AttributeError: module '{module}' has no attribute 'entry')",
        AttributeError,
    ),
    "attribute of one": (
        "class Space: pass",
        "{module}:Space.entry",
        "its entry is '{module}:Space.entry', and {module}.Space has no 'entry' (AttributeError: type object 'Space' has no attribute 'entry')",
        AttributeError,
    ),
    "no attribute named": (
        SOUND,
        "{module}",
        "its entry is '{module}', which is not of the form 'module:attribute'",
        None,
    ),
    "no name": (
        SOUND,
        "rm -rf /:x",
        "its entry is 'rm -rf /:x', which is not of the form 'module:attribute'",
        None,
    ),
    "relative": (
        SOUND,
        ".acme:x",
        "its entry is '.acme:x', which is not of the form 'module:attribute'",
        None,
    ),
    "no function": (
        "entry = 5",
        "",
        "{module}:entry is of type int and cannot be called; it is called as f(data)",
        None,
    ),
    "nothing": (
        "entry = None",
        "",
        "{module}:entry is of type NoneType and cannot be called; it is called as f(data)",
        None,
    ),
    "too few": ("def entry(): pass", "", "{module}:entry cannot be called as f(data)", None),
    "too many": (
        "def entry(data, more): pass",
        "",
        "{module}:entry cannot be called as f(data)",
        None,
    ),
    "named ones": (
        "def entry(data, *, more): pass",
        "",
        "{module}:entry cannot be called as f(data)",
        None,
    ),
}


@pytest.mark.row("R8")
@pytest.mark.parametrize("what", BROKEN)
def test_the_error_for_a_broken_plugin_has_its_distribution_the_reason_and_the_command(
    site: Path, what: str
) -> None:
    text, value, reason, cause = BROKEN[what]
    kind, good = fresh(), fresh()
    module = f"acme_{kind}"
    plugin(site, kind, text, value=value.format(module=module), version="1.2")
    plugin(site, good, SOUND)
    for _ in range(2):  # a failure is not cached: the second call fails with the same text
        error = raised(devmod.PluginError, devmod.load_from_bytes, kind, b"")
        assert str(error) == (
            f"devmod.load_from_bytes.{kind} is broken: acme-{kind} 1.2: {reason.format(module=module)}. Install it again "
            f"(pip install --force-reinstall acme-{kind}==1.2), or report it to its publisher"
        )
        assert (error.distribution, error.key) == (
            f"acme-{kind}",
            f"devmod.load_from_bytes.{kind}",
        )
        assert isinstance(error, RuntimeError)
        assert not isinstance(error, devmod.ConflictError)
        assert isinstance(error.__cause__, cause) if cause else error.__cause__ is None
    assert devmod.load_from_bytes(good, b"").kind == good


@pytest.mark.row("R8", "R32")
def test_a_repaired_plugin_works_at_the_next_call(site: Path) -> None:
    kind = fresh()
    plugin(site, kind, "raise RuntimeError('not yet')")
    with pytest.raises(devmod.PluginError, match="not yet"):
        devmod.load_from_bytes(kind, b"")
    (site / f"acme_{kind}.py").write_text(SOUND)
    assert devmod.load_from_bytes(kind, b"").kind == kind


@pytest.mark.row("R4", "R8")
def test_a_claim_of_an_invalid_name_is_listed_with_its_problem(site: Path) -> None:
    names = {"Npu 3": "acme:f", "devmod_compile.opencl": "acme:f"}
    install(
        site,
        "acme-names",
        groups={"devmod.create": names, "devmod.hooks": names, "devmod.protocol": {"1": "devmod"}},
    )
    found = {
        f"{group}.{name}": devmod.registered(group)[name].problem
        for group in ("devmod.create", "devmod.hooks")
        for name in names
    }
    assert found == {
        "devmod.create.Npu 3": "a kind is of the form [a-z][a-z0-9_]{0,31}; got U+004E at character 1",
        "devmod.create.devmod_compile.opencl": "a kind is of the form [a-z][a-z0-9_]{0,31}; got U+002E at character 15",
        "devmod.hooks.Npu 3": "a hook is of the form [a-z][a-z0-9_]{0,31}, optionally followed by .<kind>",
        "devmod.hooks.devmod_compile.opencl": "",
    }
    assert devmod.registered("devmod.protocol")["1"].problem == ""


@pytest.mark.row("R8")
def test_an_interrupt_during_an_import_is_not_a_plugin_error(site: Path) -> None:
    kind = fresh()
    plugin(site, kind, "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        devmod.load_from_bytes(kind, b"")


@pytest.mark.row("R8")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SPEC = 'cuda'", "{module}:SPEC is of type str, not a devmod.TargetSpec"),
        (
            "import devmod\nSPEC = devmod.TargetSpec('other', title='T', distribution='d', formats=['f'])",
            "{module}:SPEC is the TargetSpec of the kind 'other'",
        ),
    ],
)
def test_a_target_without_the_spec_of_its_kind_is_broken(
    site: Path, text: str, reason: str
) -> None:
    kind = fresh()
    plugin(site, kind, text, group="devmod.targets", value=f"acme_{kind}:SPEC")
    assert refusal(devmod.PluginError, find_spec, kind).startswith(
        f"devmod.targets.{kind} is broken: acme-{kind} 1.0: {reason.format(module=f'acme_{kind}')}. Install"
    )


@pytest.mark.row("R8")
@pytest.mark.parametrize(
    "text",
    [
        "def entry(data, more=1): return Made()",
        "def entry(*all): return Made()",
        "def entry(data, *, more=1): return Made()",
        "entry = lambda data: Made()",
        "import functools\nentry = functools.partial(lambda one, data: Made(), 1)",
        "class Call:\n    def __call__(self, data): return Made()\nentry = Call()",
        "class Call:\n    def load(self, data): return Made()\nentry = Call().load",
    ],
)
def test_any_callable_with_the_right_arguments_is_valid(site: Path, text: str) -> None:
    kind = fresh()
    plugin(site, kind, SOUND.partition("def entry")[0] + text)
    assert devmod.load_from_bytes(kind, b"").kind == kind


# -- R9: conflicts
# --------------------------------------------------------------------------------------------------


@pytest.mark.row("R9")
def test_two_distributions_of_one_name_are_a_conflict_of_that_key_alone(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, good = fresh(), fresh()
    for name, version in (("acme-one", "1.0"), ("Acme.Two", "2.0")):
        module = name.lower().replace("-", "_").replace(".", "_")
        groups = {
            "devmod.load_from_bytes": {kind: f"{module}:entry"},
            "devmod.hooks": {"devmod_verify": f"{module}:Verify"},
        }
        text = (
            SOUND.replace('__name__.partition("_")[2]', repr(kind))
            + f"    \nMade.whose = {name!r}\n"
        )
        install(site, name.lower().replace(".", "-"), version, groups, {module: text})
    plugin(site, good, SOUND)
    key = f"devmod.load_from_bytes.{kind}"
    error = raised(devmod.ConflictError, devmod.load_from_bytes, kind, b"")
    first, second = sorted(("acme-one 1.0", "acme-two 2.0"), key=str(error).index)
    choices = [f"DEVMOD_PLUGINS_CHOOSE={each.partition(' ')[0]}" for each in (first, second)]
    assert str(error) == (
        f"{key} is claimed by {first} and {second}. Uninstall one, or choose one by the environment variable: {' or '.join(choices)}"
    )
    assert isinstance(error, devmod.PluginError)
    assert error.key == key
    assert devmod.registered("devmod.load_from_bytes")[kind].problem == str(error)
    assert devmod.load_from_bytes(good, b"").kind == good
    assert devmod.registered("devmod.hooks")["devmod_verify"].problem == ""

    monkeypatch.setenv("DEVMOD_PLUGINS_CHOOSE", f"devmod.create.x=y,{key}=acme-three")
    assert refusal(devmod.ConflictError, devmod.load_from_bytes, kind, b"").startswith(
        f"{key} is claimed by {first} and {second}; acme-three, which DEVMOD_PLUGINS_CHOOSE names for it, does not claim it. Uninstall one"
    )
    monkeypatch.setenv("DEVMOD_PLUGINS_CHOOSE", f"devmod.create.x=y, {key} = ACME_Two ")
    assert devmod.registered("devmod.load_from_bytes")[kind].provider == "acme-two 2.0"
    assert devmod.load_from_bytes(kind, b"").whose == "Acme.Two"  # type: ignore[attr-defined]


@pytest.mark.row("R9")
def test_a_distribution_alone_is_chosen_for_all_its_keys(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = fresh(), fresh()
    for name in ("acme-one", "acme-two"):
        groups = {
            group: dict.fromkeys(kinds, "acme:entry")
            for group in ("devmod.load_from_bytes", "devmod.create", "devmod.device")
        }
        install(site, name, "1.0", groups | {"devmod.load_from_file": {"so": "acme:entry"}})

    def chosen() -> set[str]:
        return {
            devmod.registered(group)[kind].distribution
            for kind in kinds
            for group in ("devmod.load_from_bytes", "devmod.create", "devmod.device")
        }

    monkeypatch.setenv("DEVMOD_PLUGINS_CHOOSE", "other, Acme_Two, acme-one")
    assert chosen() == {"acme-two"}
    monkeypatch.setenv(
        "DEVMOD_PLUGINS_CHOOSE", f"acme-two,devmod.create.{kinds[0]}=acme-one"
    )  # a choice for one key goes first
    assert devmod.registered("devmod.create")[kinds[0]].distribution == "acme-one"
    assert devmod.registered("devmod.device")[kinds[0]].distribution == "acme-two"
    # A name of core is replaced by its key alone.
    assert "is claimed by devmod-core" in devmod.registered("devmod.load_from_file")["so"].problem
    monkeypatch.setenv("DEVMOD_PLUGINS_CHOOSE", "devmod.load_from_file.so=acme-two")
    assert devmod.registered("devmod.load_from_file")["so"].distribution == "acme-two"


@pytest.mark.row("R9")
def test_a_claim_of_a_key_of_core_is_a_conflict(tmp_path: Path) -> None:
    install(tmp_path / "site", "acme-so", "1.0", {"devmod.load_from_file": {"so": "acme_so:entry"}})
    program = """
        import devmod
        try:
            devmod.load_from_file("x.so", "so")
        except (devmod.ConflictError, OSError) as error:
            print(error)
        """
    assert run(program, [tmp_path / "site"], tmp_path / "cache")[0] == (
        f"devmod.load_from_file.so is claimed by devmod-core {devmod.__version__} and acme-so 1.0. Uninstall acme-so, or choose one by "
        "the environment variable: DEVMOD_PLUGINS_CHOOSE=devmod.load_from_file.so=devmod-core selects devmod's own; "
        "DEVMOD_PLUGINS_CHOOSE=devmod.load_from_file.so=acme-so replaces it by acme-so's, which is safe only if you trust its publisher\n"
    )
    choice = {"DEVMOD_PLUGINS_CHOOSE": "devmod.load_from_file.so=devmod-core"}
    assert (
        "No such file or directory: 'x.so'"
        in run(program, [tmp_path / "site"], tmp_path / "cache", choice)[0]
    )


@pytest.mark.row("R9")
def test_three_distributions_of_one_name(site: Path) -> None:
    kind = fresh()
    for number in range(3):
        install(
            site, f"acme-{number}-{kind}", "1.0", {"devmod.load_from_bytes": {kind: "acme:entry"}}
        )
    key = f"devmod.load_from_bytes.{kind}"
    text = refusal(devmod.ConflictError, devmod.load_from_bytes, kind, b"")
    names = sorted((f"acme-{number}-{kind}" for number in range(3)), key=text.index)
    assert text == (
        f"{key} is claimed by {' and '.join(f'{name} 1.0' for name in names)}. Uninstall all but one, or choose one by the environment "
        f"variable: {' or '.join(f'DEVMOD_PLUGINS_CHOOSE={name}' for name in names)}"
    )


# -- which distributions may be used
# ------------------------------------------------------------------------------------


@pytest.mark.row("R4", "R9")
@pytest.mark.parametrize("variable", ["DEVMOD_PLUGINS_ALLOW", "DEVMOD_PLUGINS_DENY"])
def test_an_excluded_distribution_is_ignored(
    site: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    kind = fresh()
    plugin(site, kind, SOUND)
    install(site, f"rival-{kind}", groups={"devmod.load_from_bytes": {kind: "rival:entry"}})
    allow = variable.endswith("ALLOW")
    monkeypatch.setenv(
        variable, "acme-other" if allow else f" Acme_{kind} ,rival.{kind},devmod-core"
    )
    error = raised(devmod.NotRegisteredError, devmod.load_from_bytes, kind, b"")
    name = error.distribution
    todo = f"add {name} to" if allow else f"remove {name} from"
    assert str(error) == (
        f"devmod.load_from_bytes.{kind} is not registered: {name} 1.0 provides it, and the environment variable {variable} excludes it. "
        f"To use it, {todo} {variable}"
    )
    assert kind not in devmod.registered("devmod.load_from_bytes")
    assert "const_loader" in devmod.registered("devmod.load_from_bytes")
    monkeypatch.setenv(variable, f"x,,ACME-{kind}" if allow else f"rival-{kind}")
    # The excluded distribution is no conflict.
    assert devmod.load_from_bytes(kind, b"").kind == kind


@pytest.mark.parametrize("value", ["", ",", " , "])
def test_empty_lists_restrict_nothing(
    site: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    kind = fresh()
    plugin(site, kind, SOUND)
    monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", value)
    monkeypatch.setenv("DEVMOD_PLUGINS_DENY", value)
    assert devmod.load_from_bytes(kind, b"").kind == kind


# -- R10: in-process registration
# ---------------------------------------------------------------------------------------


class Made(devmod.Module):
    kind = "made"

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        raise NotImplementedError


class Other(Made):
    pass


@pytest.mark.row("R10")
def test_an_object_registered_in_the_process_precedes_entry_points_and_can_be_removed(
    site: Path,
) -> None:
    kind = fresh()
    plugin(site, kind, SOUND)
    from_entry = type(devmod.load_from_bytes(kind, b""))
    Made.kind = kind
    try:
        devmod.register("devmod.load_from_bytes", kind, lambda data: Made())
        assert type(devmod.load_from_bytes(kind, b"")) is Made
        claim = devmod.registered("devmod.load_from_bytes")[kind]
        assert claim.provider == "in this process"
        assert (
            repr(claim) == f"<Claim devmod.load_from_bytes.{kind} = {claim.value} in this process>"
        )
        assert devmod.registered("devmod.load_from_bytes")[kind].value == (
            f"{__name__}:test_an_object_registered_in_the_process_precedes_entry_points_and_can_be_removed.<locals>.<lambda>"
        )
        assert refusal(
            devmod.ConflictError,
            devmod.register,
            "devmod.load_from_bytes",
            kind,
            lambda data: Other(),
        ) == (
            f"devmod.load_from_bytes.{kind} is already registered in this process, as {__name__}:"
            "test_an_object_registered_in_the_process_precedes_entry_points_and_can_be_removed.<locals>.<lambda>. To replace it: "
            f"devmod.register('devmod.load_from_bytes', '{kind}', obj, replace=True)"
        )
        assert type(devmod.load_from_bytes(kind, b"")) is Made
        devmod.register("devmod.load_from_bytes", kind, lambda data: Other(), replace=True)
        assert type(devmod.load_from_bytes(kind, b"")) is Other
    finally:
        for _ in range(2):
            devmod.register("devmod.load_from_bytes", kind, None, replace=True)
        Made.kind = "made"
    assert type(devmod.load_from_bytes(kind, b"")) is from_entry
    assert devmod.registered("devmod.load_from_bytes")[kind].provider == f"acme-{kind} 1.0"


@pytest.mark.row("R10")
def test_registering_the_same_object_again_changes_nothing(register: Register) -> None:
    def entry(data: object) -> Made:
        return Made()

    register("devmod.load_from_bytes", "made", entry)
    devmod.register("devmod.load_from_bytes", "made", entry)
    assert type(devmod.load_from_bytes("made", b"")) is Made


@pytest.mark.row("R8", "R10")
@pytest.mark.parametrize(
    ("group", "name", "obj", "reason"),
    [
        (
            "devmod.create",
            "made",
            5,
            "the object is of type int and cannot be called; it is called as f(code, fmt, fmap, source)",
        ),
        (
            "devmod.create",
            "made",
            None,
            "the object is of type NoneType and cannot be called; it is called as f(code, fmt, fmap, source)",
        ),
        (
            "devmod.create",
            "made",
            lambda code: None,
            "the object cannot be called as f(code, fmt, fmap, source)",
        ),
        (
            "devmod.load_from_file",
            "made",
            lambda path: None,
            "the object cannot be called as f(path, fmt)",
        ),
        ("devmod.device", "made", lambda index: None, "the object cannot be called as f()"),
        ("devmod.adopt", "made", lambda: None, "the object cannot be called as f(handle)"),
        ("devmod.targets", "made", object, "the object is of type type, not a devmod.TargetSpec"),
        (
            "devmod.targets",
            "made",
            TargetSpec("other", title="T", distribution="d", formats=["f"]),
            "the object is the TargetSpec of the kind 'other'",
        ),
        ("devmod.hooks", "devmod_compile.made", None, "the object is None"),
        (
            "devmod.hooks",
            "devmod_verify.made",
            object(),
            "the hook devmod_verify takes no kind. Register the object as 'devmod_verify'",
        ),
        ("devmod.conformance", "made", None, "the object is None"),
    ],
)
def test_an_object_is_checked_before_it_is_registered(
    group: str, name: str, obj: object, reason: str
) -> None:
    assert (
        refusal(devmod.PluginError, devmod.register, group, name, obj)
        == f"{group}.{name} cannot be registered: {reason}"
    )
    assert name not in devmod.registered(group)


def test_the_protocol_is_for_distributions_alone() -> None:
    assert (
        refusal(devmod.FormatError, devmod.register, "devmod.protocol", "1", object())
        == "devmod.protocol has the entry points of distributions alone; no object can be looked up or registered in it"
    )


# -- R32: threads
# --------------------------------------------------------------------------------------------------


def together(count: int, call: Callable[[], object]) -> list[object]:
    """Return the results or exceptions of so many simultaneous calls in threads."""
    gate, got = threading.Barrier(count), []

    def body() -> None:
        gate.wait()
        try:
            got.append(call())
        except devmod.DevmodError as error:
            got.append(error)

    threads = [threading.Thread(target=body) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


@pytest.mark.row("R32")
def test_simultaneous_look_ups_import_once(site: Path) -> None:

    kind = fresh()
    plugin(site, kind, "import builtins, time\nbuiltins.imported += 1\ntime.sleep(0.05)\n" + SOUND)
    import builtins

    builtins.imported = 0  # type: ignore[attr-defined]
    try:
        got = together(16, lambda: lookup("devmod.load_from_bytes", kind))
        assert builtins.imported == 1  # type: ignore[attr-defined]
    finally:
        del builtins.imported  # type: ignore[attr-defined]
    assert len({id(each) for each in got}) == 1
    assert callable(got[0])


@pytest.mark.row("R32")
@pytest.mark.parametrize("count", [1, 8])
def test_a_failure_is_raised_in_every_thread_and_is_not_cached(
    site: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, attempts = fresh(), list[int]()
    monkeypatch.setattr("builtins.attempts", attempts, raising=False)
    text = "import builtins, threading, time\nbuiltins.attempts.append(threading.get_ident())\ntime.sleep(0.02)\n"
    plugin(site, kind, text + "raise RuntimeError('the cause')\n")
    for _ in range(2):
        attempts.clear()
        got = together(count, lambda: devmod.load_from_bytes(kind, b""))
        assert [type(each) for each in got] == [devmod.PluginError] * count
        assert all("the cause" in str(each) for each in got)
        assert attempts
        assert len(attempts) == len(
            set(attempts)
        )  # each thread tries once: Python repeats an import that failed in another one
    (site / f"acme_{kind}.py").write_text(SOUND)
    assert [
        type(each).__name__ for each in together(8, lambda: devmod.load_from_bytes(kind, b""))
    ] == ["Made"] * 8


@pytest.mark.row("R32")
def test_a_look_up_locks_nothing_during_an_import(site: Path) -> None:
    """The import of a plugin can wait for a look-up in another thread."""
    slow, quick = fresh(), fresh()
    plugin(site, quick, SOUND)
    wait = f"""
import threading, devmod
done = []
thread = threading.Thread(target=lambda: done.append(devmod.load_from_bytes({quick!r}, b"")), daemon=True)
thread.start()
thread.join(300)
assert done
devmod.register("devmod.conformance", {slow!r}, object())
"""
    plugin(site, slow, wait + SOUND)
    try:
        assert devmod.load_from_bytes(slow, b"").kind == slow
        assert slow in devmod.registered("devmod.conformance")
    finally:
        devmod.register("devmod.conformance", slow, None, replace=True)


@pytest.mark.row("R10", "R32")
def test_a_registration_during_an_import_replaces_the_entry_point(site: Path) -> None:

    kind = fresh()
    plugin(
        site,
        kind,
        f"import devmod\ndevmod.register('devmod.load_from_bytes', {kind!r}, lambda data: 'mine')\n"
        + SOUND,
    )
    try:
        assert lookup("devmod.load_from_bytes", kind)(None) == "mine"
        assert lookup("devmod.load_from_bytes", kind)(None) == "mine"
    finally:
        devmod.register("devmod.load_from_bytes", kind, None, replace=True)


# -- R44: the protocol
# --------------------------------------------------------------------------------------------------


@pytest.mark.row("R44")
@pytest.mark.parametrize(
    ("versions", "text"),
    [
        (
            {"2": "devmod"},
            "supports version 2 of devmod's plugin protocol, and {core} supports version 1. Upgrade devmod-core: pip install --upgrade devmod-core",
        ),
        (
            {"0": "devmod"},
            "supports version 0 of devmod's plugin protocol, and {core} supports version 1. Upgrade acme-{kind}: pip install --upgrade acme-{kind}",
        ),
        (
            {"3": "devmod", "2": "devmod"},
            "supports version 3 and 2 of devmod's plugin protocol, and {core} supports version 1. Upgrade devmod-core: pip install --upgrade "
            "devmod-core",
        ),
        (
            {"new": "devmod"},
            "supports version new of devmod's plugin protocol, and {core} supports version 1. Report it to the publisher of acme-{kind}: a "
            "version is a number",
        ),
    ],
)
def test_a_plugin_of_another_protocol_is_rejected_before_its_import(
    site: Path, versions: dict[str, str], text: str
) -> None:
    kind = fresh()
    groups = {"devmod.load_from_bytes": {kind: f"acme_{kind}:entry"}, "devmod.protocol": versions}
    install(site, f"acme-{kind}", "9.1", groups, {f"acme_{kind}": SOUND})
    text = text.format(core=f"devmod-core {devmod.__version__}", kind=kind)
    assert (
        refusal(devmod.PluginError, devmod.load_from_bytes, kind, b"")
        == f"devmod.load_from_bytes.{kind} cannot be used: acme-{kind} 9.1 {text}"
    )
    assert f"acme_{kind}" not in sys.modules
    assert devmod.registered("devmod.load_from_bytes")[kind].problem == f"acme-{kind} 9.1 {text}"


@pytest.mark.row("R44")
@pytest.mark.parametrize("versions", [{}, {"1": "devmod"}, {"1": "devmod", "2": "devmod"}])
def test_a_plugin_with_version_1_among_others_or_without_a_version_is_used(
    site: Path, versions: dict[str, str]
) -> None:
    kind = fresh()
    groups = {"devmod.load_from_bytes": {kind: f"acme_{kind}:entry"}} | (
        {"devmod.protocol": versions} if versions else {}
    )
    install(site, f"acme-{kind}", "9.1", groups, {f"acme_{kind}": SOUND})
    assert devmod.load_from_bytes(kind, b"").kind == kind


# -- core's own entries
# --------------------------------------------------------------------------------------------------


@pytest.mark.row("R1", "R20")
def test_the_table_of_core_equals_its_metadata() -> None:
    from devmod.plugins import CORE_ENTRIES

    with open(SOURCE.parent / "pyproject.toml", "rb") as file:
        declared = tomllib.load(file)["project"]["entry-points"]
    ours = {
        group: dict(entries) for group, entries in declared.items() if group.startswith("devmod.")
    }
    assert ours == CORE_ENTRIES
    for group, entries in CORE_ENTRIES.items():
        assert set(entries) <= set(devmod.registered(group))


@pytest.mark.row("R2")
@pytest.mark.parametrize("kind", targets.KINDS)
def test_the_table_of_names_equals_the_specs(kind: str) -> None:
    spec = find_spec(kind)
    assert spec is not None
    assert targets.NAMES[kind] == tuple(
        sorted({*spec.suffixes, *spec.suffixes.values(), *spec.languages, *spec.aliases})
    )


@pytest.mark.row("R29")
@pytest.mark.parametrize("kind", RUNTIMES)
def test_every_target_of_core_is_registered(kind: str) -> None:
    spec = find_spec(kind)
    assert spec is not None
    assert (spec.kind, spec.title, spec.install) == (
        kind,
        RUNTIMES[kind],
        f"pip install devmod-{kind}",
    )
    package = f"devmod_targets.{kind}"
    assert (spec.compiler, spec.toolchain, spec.build_extra) == (
        f"{package}.compile:compile",
        f"{package}.toolchain:TOOLCHAIN",
        f"build-{kind}",
    )


# -- real installers
# --------------------------------------------------------------------------------------------------

BACKEND = '''
"""A build backend in the source tree, without downloads: its wheel has a .pth file with this folder."""
import os, zipfile

def get_requires_for_build_editable(config=None):
    return []

def build_editable(folder, config=None, metadata=None):
    name = "acme_edit-1.0-py3-none-any.whl"
    info = "acme_edit-1.0.dist-info"
    files = {
        "acme_edit.pth": os.getcwd() + "\\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: acme-edit\\nVersion: 1.0\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{info}/entry_points.txt": "[devmod.load_from_bytes]\\nedit = acme_edit:entry\\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{each},,\\n" for each in files) + f"{info}/RECORD,,\\n"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as made:
        for file, text in files.items():
            made.writestr(file, text)
    return name
'''

#: Core's dependencies come from the environment of the tests.
DEPENDENCIES = (
    f"import sys\nsys.path.append({str(Path(importlib_metadata.__file__).parents[1])!r})\n"
)


@pytest.fixture(scope="module", params=[pytest.param("pip", marks=pytest.mark.volume), "uv"])
def installer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Callable[..., None]]:
    """Return the interpreter of a new virtual environment, and a function that runs its pip without
    a network.
    """
    base = tmp_path_factory.mktemp(request.param)
    with_pip = [] if request.param == "pip" else ["--without-pip"]
    subprocess.run(
        [sys.executable, "-m", "venv", *with_pip, str(base / "venv")],
        check=True,
        capture_output=True,
    )
    python = base / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if request.param == "uv":
        uv = pytest.importorskip("uv", reason="uv is not installed").find_uv_bin()
        command = [uv, "pip", "{}", "--offline", "--python", str(python)]
    else:
        command = [str(python), "-m", "pip", "{}", "--disable-pip-version-check"]

    def do(what: str, *arguments: str) -> None:
        full = [part.format(what) for part in command] + list(arguments)
        done = subprocess.run(full, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr

    return python, do


@pytest.mark.row("R3")
def test_real_installs_upgrades_and_uninstalls_are_discovered(
    installer: tuple[Path, Callable[..., None]], tmp_path: Path
) -> None:
    python, do = installer
    yes = ["-y"] if "pip" in python.parts[-4] else []
    offline = ["--no-index", "--no-deps"]
    groups = {"devmod.load_from_bytes": {"real": "acme_real:entry"}}
    wheels = [
        wheel(tmp_path / "wheels", "acme-real", version, groups, {"acme_real": SOUND})
        for version in ("1.0", "1.1")
    ]
    offers = "{name: each.provider for name, each in devmod.registered('devmod.load_from_bytes').items() if name == 'real'}"

    def new_process() -> Any:
        with Session([], tmp_path / "cache", before=DEPENDENCIES, python=str(python)) as session:
            return session.ask(offers)

    with Session([], tmp_path / "cache", before=DEPENDENCIES, python=str(python)) as running:
        assert running.ask(offers) == new_process() == {}
        do("install", *offline, str(wheels[0]))
        assert running.ask(offers) == new_process() == {"real": "acme-real 1.0"}
        do("install", *offline, "--upgrade", str(wheels[1]))
        assert running.ask(offers) == new_process() == {"real": "acme-real 1.1"}
        assert running.ask("devmod.load_from_bytes('real', b'').kind") == "real"
        do("uninstall", *yes, "acme-real")
        assert running.ask(offers) == new_process() == {}


@pytest.mark.row("R3", "R8")
def test_an_editable_install_is_discovered_and_needs_a_new_process(
    installer: tuple[Path, Callable[..., None]], tmp_path: Path
) -> None:
    python, do = installer
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "acme-edit"\nversion = "1.0"\n'
    )
    (project / "backend.py").write_text(BACKEND)
    (project / "acme_edit.py").write_text(SOUND)
    ask = "devmod.load_from_bytes('edit', b'').kind"
    yes = ["-y"] if "pip" in python.parts[-4] else []
    with Session([], tmp_path / "cache", before=DEPENDENCIES, python=str(python)) as running:
        assert running.ask(ask).startswith("NotRegisteredError")
        do("install", "--no-deps", "--no-build-isolation", "-e", str(project))
        try:
            not_found = (
                "PluginError: devmod.load_from_bytes.edit cannot be used: acme-edit 1.0 is an editable install, and its module acme_edit is "
                "not found. If it was installed after this process began, restart Python; else install it again"
            )
            assert running.ask(ask) == not_found
            with Session([], tmp_path / "cache", before=DEPENDENCIES, python=str(python)) as new:
                assert new.ask(ask) == "edit"
                (project / "acme_edit.py").unlink()
            with Session([], tmp_path / "cache", before=DEPENDENCIES, python=str(python)) as new:
                assert new.ask(ask) == not_found
        finally:
            do("uninstall", *yes, "acme-edit")


@pytest.mark.row("R3")
def test_a_folder_that_is_made_after_python_has_cached_its_absence_is_found(tmp_path: Path) -> None:
    """Python caches for the life of the process that a folder on sys.path is missing."""
    later = tmp_path / "later"
    with Session(
        [later],
        tmp_path / "cache",
        before="import contextlib\nwith contextlib.suppress(ImportError):\n    import no_such_module\n",
    ) as running:
        install(
            later,
            "acme-later",
            groups={"devmod.load_from_bytes": {"later": "acme_later:entry"}},
            modules={"acme_later": SOUND},
        )
        assert running.ask("devmod.load_from_bytes('later', b'').kind") == "later"


def test_the_debug_log_has_the_decisions(tmp_path: Path) -> None:
    npu(tmp_path / "site")
    program = (
        "import devmod\nfrom devmod._plugins.lookup import lookup\nlookup('devmod.create', 'npu')\n"
    )
    assert run(program, [tmp_path / "site"], tmp_path / "cache")[1] == ""
    errors = run(program, [tmp_path / "site"], tmp_path / "cache", {"DEVMOD_LOG": "debug"})[1]
    assert "devmod: devmod.create.npu is devmod_npu:create of devmod-npu 1.0\n" in errors
    assert GOOD.startswith("def create(")


def test_the_debug_log_ends_with_the_plugin_whose_import_crashes(tmp_path: Path) -> None:
    npu(tmp_path / "site")
    (tmp_path / "site" / "devmod_npu.py").write_text("import os\nos._exit(0)\n")
    errors = run(
        "import devmod\ndevmod.create('npu', b'', 'x', {})\n",
        [tmp_path / "site"],
        tmp_path / "cache",
        {"DEVMOD_LOG": "debug"},
    )[1]
    assert errors.endswith("devmod: devmod.create.npu is devmod_npu:create of devmod-npu 1.0\n")
