"""The structure of the repository: layers without circles, wheels that know each other's public
names alone, one version.
"""

from __future__ import annotations

import ast
import dis
import importlib
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import packages_distributions
from itertools import pairwise
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from each_case import some
from imports import ROOT, circles, imports, modules, statements

from devmod.backend import find_spec
from devmod.targets import KINDS

#: What each layer of core may import of devmod besides itself.
_FORMATS = {"errors", "_util", "_values", "_plugins", "targets"}
_FILES = {*_FORMATS, "_formats", "_modules"}
LAYERS = {
    "_util": {"errors"},
    "_values": {"errors", "_util"},
    "targets": {"errors", "_util", "_values"},
    "_arrays": {"errors", "_util", "_values"},
    "_plugins": {"errors", "_util", "_values", "targets"},
    "_formats": _FORMATS,
    "_modules": {*_FORMATS, "_formats", "_arrays"},
    "_files": _FILES,
    "worker": {"_util"},
    "interop": {*_FILES, "_files"},
}
#: The rooms of core that nothing of a load, a save, a look-up or a fallback imports.
ASIDE = {"worker", "interop"}
#: The packages that name for type checkers what they import at its first use.
LAZY = {"devmod", "devmod.backend", "devmod.interop", "devmod_runtime"}
PROJECTS = sorted(
    path
    for folder in ("", "*/", "*/*/")
    for path in ROOT.glob(f"{folder}pyproject.toml")
    if not {".venv", "build", "node_modules", "tests"}
    & {*path.relative_to(ROOT).parts}  # a clone may be in a folder of such a name
)
METADATA = {path: tomllib.loads(path.read_text())["project"] for path in PROJECTS}


def layer(module: str) -> str:
    """Return the part of core that a module is in: the name behind ``devmod.``."""
    return module.split(".")[1] if "." in module else ""


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(imports()) == []


def test_no_modules_need_the_types_of_each_other() -> None:
    # The parts of the interpreter of PTX name each other's types: its lanes know their execution.
    graph = {
        name: found
        for name, found in imports(types=True).items()
        if not name.startswith("devmod_simulators.ptx.")
    }
    assert circles({name: set() if name in LAZY else found for name, found in graph.items()}) == []


@pytest.mark.parametrize("folder", ["page", "js/src"])
def test_no_files_of_javascript_import_each_other_in_a_circle(folder: str) -> None:
    statement = re.compile(
        r'^(?:import |export |\}).* from "\./([\w.]+)"', re.MULTILINE
    )  # none in a comment, which imports types
    files = (ROOT / "extras" / "browser" / folder).glob("*.js")
    graph = {path.name: set(statement.findall(path.read_text())) for path in files}
    assert sum(map(len, graph.values())) > len(graph)
    assert circles(graph) == []


def test_the_rooms_aside_are_above_the_others() -> None:
    for name in LAYERS.keys() - ASIDE:
        assert ASIDE.isdisjoint(LAYERS[name]), name


#: A save, a load, a look-up and a fallback of one kind, where core is the only wheel; and the files
#: of core that they have imported.
FOUR_ACTIONS = """
import sys
import devmod

kernel = devmod.create_with_fallback("opencl", b"kernel", "cl", {"f": devmod.FunctionInfo("f", ["handle"])})
devmod.save(kernel, "f.devmod")
found = devmod.load("f.devmod")
assert found.functions["f"].arg_types == ("handle",)
for module, error in (found, devmod.NotRegisteredError), (kernel, devmod.RuntimeNotLinkedError):
    try:
        module["f"]
    except error:
        continue
    raise AssertionError(module)
for name, module in list(sys.modules.items()):
    if name.split(".")[0] == "devmod":
        print(name, module.__file__)
"""


def tokens(path: Path) -> int:
    """Return the tokens of a file, without comments and the ends of lines. A string is one, as in
    Python 3.11.
    """
    count = depth = 0
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            name = tokenize.tok_name[token.type]
            if depth == 0 and name not in LAYOUT:
                count += 1
            if name == "FSTRING_START":
                depth += 1
            if name == "FSTRING_END":
                depth -= 1
    return count


LAYOUT = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENCODING", "ENDMARKER"}


@pytest.mark.row("R6", "R39")
def test_one_kind_imports_no_more_of_core_than_the_readme_says(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FOUR_ACTIONS]
    allowed = {"DEVMOD_PLUGINS_ALLOW": "devmod-core", "DEVMOD_CACHE_DIR": str(tmp_path), "PATH": ""}
    # A process lists the folders of sys.path, with modules for that. The next one has the list from
    # the cache, unless a folder has changed in the last two seconds: by an installation.
    for _ in range(100):
        output = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=tmp_path, env=allowed
        ).stdout
        files = dict(line.split(" ", 1) for line in output.splitlines())
        if "devmod._plugins.scan" not in files:
            break
    assert {name for name in files if layer(name) in ASIDE} == set()

    readme = (ROOT / "README.md").read_text()
    (said,) = re.findall(r"import (\d+) files of it, fewer than ([\d,]+) tokens", readme)
    most = int(said[1].replace(",", ""))
    assert len(files) == int(said[0])
    count = sum(tokens(Path(each)) for each in files.values())
    assert most - 1000 <= count < most


def test_no_test_measures_time() -> None:
    """The load of the machine would decide. `core/tests/work.py` counts calls, lines and jumps."""
    tests = [
        path
        for pattern in ("*/tests/**/*.py", "tests/**/*.py", "*/*/tests/**/*.py")
        for path in ROOT.glob(pattern)
    ]
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in tests
        if not {".venv", "build", "toy"} & {*path.relative_to(ROOT).parts}
        and path != Path(__file__)
        for match in re.finditer(
            r"perf_counter|process_time|thread_time|\btimeout=\d{1,2}\b", path.read_text()
        )
    }
    assert found == set()


@pytest.mark.row("R6")
def test_core_imports_no_other_wheel() -> None:
    graph = imports()
    assert [
        (module, to)
        for module in graph
        if module.split(".")[0] == "devmod"
        for to in graph[module]
        if to.split(".")[0] != "devmod"
    ] == []


@pytest.mark.row("R39")
def test_core_has_no_network_code() -> None:
    """URLs are read by devmod-remote, which core imports for a URL alone."""
    network = {
        "aiohttp",
        "asyncio",
        "fsspec",
        "ftplib",
        "http",
        "requests",
        "smtplib",
        "socket",
        "socketserver",
        "ssl",
        "urllib",
        "urllib3",
    }
    found = set()
    for module, path in modules().items():
        if module.split(".")[0] == "devmod":
            for node, _ in statements(path):
                names = (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                )
                found |= {(module, name) for name in names if name.split(".")[0] in network}
    assert found == set()


@pytest.mark.parametrize(
    ("package", "below"),
    [
        ("devmod_readers", {"devmod"}),
        ("devmod_runtime", {"devmod", "devmod_readers"}),
        ("devmod_simulators", {"devmod", "devmod_readers"}),
    ],
)
def test_a_wheel_below_others_imports_the_wheels_below_it_alone(
    package: str, below: set[str]
) -> None:
    graph = imports()
    wheels = {
        to.split(".")[0]
        for module in graph
        if module.split(".")[0] == package
        for to in graph[module]
    }
    assert wheels == {package, *below}


#: What each part of devmod-runtime may import of its wheel besides itself.
ROOMS = {
    "_leases": set(),
    "_fork": set(),
    "_uninterrupted": {"_fork"},
    "_compilers": set(),
    "_device": {"_fork", "_uninterrupted"},
    "_trial": set(),
    "_launch": {"_device", "_fork"},
    "_tuning": {"_device", "_launch"},
    "_module": {"_compilers", "_device", "_launch", "_tuning"},
    "_program": {"_device", "_fork", "_launch"},
    "_builds": {"_launch", "_module"},
}


@pytest.mark.parametrize(
    ("package", "name"),
    [*(("devmod", name) for name in LAYERS), *(("devmod_runtime", name) for name in ROOMS)],
)
def test_a_part_imports_the_parts_below_it_alone(package: str, name: str) -> None:
    below = {"devmod": LAYERS, "devmod_runtime": ROOMS}[package][name]
    wrong = [
        f"{module} imports {to}"
        for module, found in imports().items()
        if module.split(".")[0] == package and layer(module) == name
        for to in sorted(found)
        if to.split(".")[0] == package and layer(to) not in {name, *below} and to != package
    ]
    assert wrong == []


def test_no_file_and_no_call_needs_the_workbench() -> None:
    """`devmod` names its public functions, and imports it when a program uses one. The kit compares
    with it, and its pytest plugin is a module of its own.
    """
    uses = {
        name.partition(".")[0]
        for name, found in imports().items()
        for to in found
        if to.startswith("devmod_workbench")
    }
    assert uses == {"devmod_workbench", "devmod_pytest", "devmod_conformance"}


@pytest.mark.parametrize("package", ["devmod", "devmod_runtime"])
def test_the_command_line_is_no_part_of_what_a_program_runs(package: str) -> None:
    for module, path in modules().items():
        if module.partition(".")[0] == package:
            assert not re.search(r"^\s*(?:import|from) (?:click|rich)\b", path.read_text(), re.M)


#: The modules that start processes. `tests/test_strangers_folder.py` runs them in the folder of a
#: stranger.
STARTS = {
    "devmod.worker",
    "devmod_hexagon._transport",
    "devmod_host._driver",
    "devmod_opencl._linker",
    "devmod_simulators._command",  # the user's command, or devmod
    "devmod_simulators._toolkit",  # nvcc --version
    "devmod_simulators.drivers.build",  # in a source tree: a wheel has the libraries
    "devmod_targets._cli.triton",  # the user's command
    "devmod_targets.authoring._process",
    "devmod_targets.webgpu._naga",
}


def test_processes_are_started_in_few_modules_that_search_no_current_folder() -> None:
    """devmod.worker alone knows how to start Python, and `find_program` alone searches PATH."""
    texts = {module: path.read_text() for module, path in modules().items()}

    def modules_with(pattern: str) -> set[str]:
        return {module for module, text in texts.items() if re.search(pattern, text)}

    assert (
        modules_with(
            r"subprocess\.(?:run|Popen|call|check_\w+|getoutput)\(|\bos\.(?:exec|spawn|posix_spawn|system|popen)\w*\("
        )
        == STARTS
    )
    starts_python = modules_with(
        r"\[sys\.executable|multiprocessing import|import multiprocessing|ProcessPool"
    )
    assert starts_python - {"devmod_simulators._command", "devmod_simulators.drivers.library"} == {
        "devmod.worker"
    }  # `-P`; a file's path
    assert modules_with(r"shutil\.which\(") == {"devmod._util.programs"}


def test_each_lock_is_one_that_an_interrupt_releases() -> None:
    found = [
        module
        for module, path in modules().items()
        if re.search(r"(threading|_thread)(\.| import .*\b)R?Lock\b", path.read_text())
    ]
    assert found == ["devmod._util.locks"]


#: What a ``with`` statement holds that an interrupt must not leave held.
HELD = re.compile(r"(^|[._])(lock|turn|removal|context)$")

#: What CPython has between the end of an exception's handler and the jump behind it.
AFTER_A_HANDLER = {"POP_TOP", "LOAD_CONST", "STORE_FAST", "DELETE_FAST"}


def jumps_out_of_range(code: CodeType) -> Iterator[int]:
    """Yield the lines of a function's jumps to the begin of a loop that are out of the range of the
    ``with`` statement around the loop, also those of the functions in it.

    CPython since 3.12 makes such a jump of a condition that is false, and looks at signals there.
    The jumps behind a handled exception, which are out of the range too, are left out.
    """
    instructions = list(dis.get_instructions(code))
    ends = {
        before.offset
        for before, each in pairwise(instructions)
        if "WITH_EXCEPT_START" in (before.opname, each.opname)
    }
    ranges = dis._parse_exception_table(code)  # type: ignore[attr-defined]  # typeshed lacks it

    def end_of(offset: int) -> int | None:
        return next((each.target for each in ranges if each.start <= offset < each.end), None)

    line = code.co_firstlineno
    is_handled = False
    for each in instructions:
        if each.positions is not None:
            line = each.positions.lineno or line
        if each.opname.startswith("JUMP_BACKWARD") and not is_handled:
            end = end_of(each.argval)
            if end in ends and end_of(each.offset) != end:
                yield line
        is_handled = each.opname == "POP_EXCEPT" or (is_handled and each.opname in AFTER_A_HANDLER)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from jumps_out_of_range(each)


@pytest.mark.row("R61")
@pytest.mark.skipif(sys.version_info < (3, 12), reason="CPython 3.11 makes no such jumps")
def test_each_jump_in_a_loop_that_a_lock_protects_is_in_its_range() -> None:
    found = []
    for module, path in modules().items():
        text = path.read_text()
        lines = {*jumps_out_of_range(compile(text, str(path), "exec"))}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.With) and any(
                HELD.search(ast.unparse(each.context_expr)) for each in node.items
            ):
                inside = lines.intersection(range(node.lineno, (node.end_lineno or 0) + 1))
                found += [f"{module}:{line}" for line in sorted(inside)]
    assert found == [], "call a function that has the loop"


#: The modules that import pathlib, and those of the runtimes that may import one: they are imported
#: for the kit, or in a thread that no interrupt reaches.
PATHLIB = re.compile(r"(pathlib|zipfile|importlib[._](metadata|resources))\b")
WITHOUT_INTERRUPTS = re.compile(r"devmod_webgpu\._load|.*\._conformance")


def test_no_first_use_imports_pathlib() -> None:
    """Python 3.13 cannot import it again after an interrupt. `import_with_pathlib` can, and a
    thread of `call_uninterrupted` gets none.
    """
    found = set()
    for module, path in modules().items():
        if not path.is_relative_to(ROOT / "plugins") and not path.is_relative_to(ROOT / "core"):
            continue
        for node, is_for_types in statements(path):
            names = [each.name for each in node.names]
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{each}" for each in names]
            if not is_for_types and any(map(PATHLIB.match, names)):
                found.add(module)
    assert [each for each in sorted(found) if not WITHOUT_INTERRUPTS.fullmatch(each)] == []


def test_each_temporary_folder_is_removed_after_its_process_was_killed() -> None:
    """Every folder is one of `devmod.backend.temporary_folder`, but those of a build in a source
    tree and of devmod unpack.

    unpack moves its files, of gigabytes, into the new folder that its user names, so they are in it
    from the start.
    """
    found = [
        module
        for module, path in modules().items()
        if re.search(r"mkdtemp|TemporaryDirectory", path.read_text())
    ]
    assert sorted(found) == ["devmod_simulators.drivers.build", "devmod_targets.packing"]


#: The private names of core that devmod-runtime takes, and those of both that the workbench takes.
#: Other wheels use public ones.
TAKEN = {
    "devmod_runtime": {
        "_arrays.dlpack.Managed",
        "_arrays.dlpack.READ_ONLY",
        "_arrays.dlpack.Tensor",
        "_arrays.dlpack.Versioned",
        "_arrays.dlpack.capsule",
        "_arrays.dlpack.check_elements",
        "_arrays.dlpack.host_capsule",
        "_arrays.elements.unpack",
        "_arrays.empty.in_pages",
        "_formats.tuning.parse_json",
        "_modules.bundle.BundleModule",
        "_modules.bundle.join",
        "_modules.choice.UNAVAILABLE",
        "_modules.choice.candidates_on",
        "_modules.choice.program_kernels",
        "_modules.choice.program_verdicts",
        "_modules.following.CannotFollowError",
        "_modules.following.Following",
        "_modules.programs.candidate_of",
        "_modules.stored.StoredModule",
        "_plugins.devices.VARIABLE",
        "_plugins.hooks.call",
        "_values.dtypes.NUMBERS",
        "_values.info.shorten",
        "_values.param.check_members",
        "_values.param.element_bytes",
        "_values.param.kind_text",
        "_values.param.struct_dtype",
        "_values.tags.DIMENSIONS",
        "_values.tags.SCOPES",
    },
    "devmod_workbench": {
        "_arrays.elements.packing_problem",
        "_arrays.elements.unpack",
        "_files.bundle_file.tree_of",
        "_files.carried.files_of",
        "_files.carried.mark_of",
        "_formats.index.COMPRESSION",
        "_formats.index.KEEP",
        "_formats.index.MAGIC",
        "_formats.index.MAX_DEPTH",
        "_formats.index.REFUSE",
        "_formats.index.TUNING",
        "_formats.index.head_length",
        "_formats.index.newer_features",
        "_formats.index.read_head",
        "_formats.ranges.PIN",
        "_formats.ranges.read_head_of",
        "_formats.wire.StoredFunctions",
        "_modules.agreement.by_node",
        "_modules.agreement.common_signature",
        "_modules.agreement.kernel_nodes",
        "_modules.agreement.shared_functions",
        "_modules.bundle.BundleModule",
        "_modules.choice.candidate_name",
        "_modules.choice.describe_candidate",
        "_modules.choice.program_kernels",
        "_modules.choice.program_verdicts",
        "_modules.choice.verdicts",
        "_modules.module.holds_candidates",
        "_modules.module.owner_of",
        "_modules.module.usable_function",
        "_modules.payload.inspect_payload",
        "_modules.programs.candidate_of",
        "_modules.stored.StoredModule",
        "_modules.stored.own_bytes",
        "_modules.stored.release",
        "_modules.variant.variant_of",
        "_plugins.claim.SHARED_GROUPS",
        "_plugins.devices",
        "_plugins.devices.GROUP",
        "_plugins.devices.device_label",
        "_plugins.devices.probe",
        "_plugins.discovery.distributions",
        "_plugins.discovery.once_per_scan",
        "_plugins.hooks",
        "_plugins.hooks.HOOKS",
        "_plugins.messages",
        "_plugins.messages.broken_entry",
        "_plugins.messages.unknown_distribution",
        "_plugins.messages.unreadable_entries",
        "_plugins.miss.WORDS",
        "_plugins.miss.explain_name",
        "_plugins.registry",
        "_plugins.registry.local_kinds",
        "_plugins.specs.format_of_suffix",
        "_plugins.specs.loading_hint",
        "_plugins.specs.spec_of_format",
        "_util.cache_files.files",
        "_util.cache_files.kinds",
        "_util.cache_files.remove",
        "_util.cache_folder.make_folder",
        "_util.text.has_command",
        "_util.text.is_number",
        "_util.text.shorten_repeat",
        "_values.code.AnyPath",
        "_values.code.Fields",
        "_values.code.Names",
        "_values.code.Source",
        "_values.info.signature_text",
        "devmod.Module",
        "devmod.__version__",
        "devmod._can_import",
        "devmod._import_wheel",
        "devmod_runtime._device.device._shape_of",
        "devmod_runtime._device.device._view_to_copy",
        "devmod_runtime._device.device_array.dtype_of",
        "devmod_runtime._device.host.HostView",
        "devmod_runtime._device.host.NumPyArray",
        "devmod_runtime._device.host.Shape",
        "devmod_runtime._launch.arguments.BlockBytes",
        "devmod_runtime._launch.call.KernelCall",
        "devmod_runtime._launch.function.Function",
        "devmod_runtime._launch.function._references",
        "devmod_runtime._launch.opening.Opening",
        "devmod_runtime._module.shader_entry",
        "devmod_runtime._program.call.CheckedProgramCall",
        "devmod_runtime._program.plan.Named",
        "devmod_runtime._program.plan.Step",
        "devmod_runtime._program.plan.clear",
        "devmod_runtime._program.plan.launches_of",
        "devmod_runtime._program.plan.measure",
        "devmod_runtime._tuning.choice.pairs_text",
        "devmod_runtime._tuning.choice.record_of",
        "devmod_runtime._tuning.noise.CERTAIN",
        "devmod_runtime._tuning.noise.Estimate",
        "devmod_runtime._tuning.noise.LEAST_TURNS",
        "devmod_runtime._tuning.offers.offers",
        "devmod_runtime._tuning.offers.tuned_candidates",
        "devmod_runtime._tuning.overlay.chooser_of",
        "devmod_runtime._tuning.overlay.own_key",
        "devmod_runtime._tuning.overlay.read_own",
        "devmod_runtime._tuning.overlay.write_own",
    },
}


@pytest.mark.row("R7")
def test_no_wheel_imports_a_private_name_of_another_wheel() -> None:
    """devmod-runtime and devmod-workbench alone do: they pin core exactly. The names that they take
    are listed.
    """
    wrong: list[str] = []
    taken: dict[str, set[str]] = {own: set() for own in TAKEN}
    for module, path in modules().items():
        own = module.split(".")[0]
        for node, _ in statements(path):
            found = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
            )
            for name in found:
                names = (
                    [name, *(alias.name for alias in node.names)]
                    if isinstance(node, ast.ImportFrom)
                    else [name]
                )
                private = any(
                    re.match(r"_[a-zA-Z]", part) for each in names for part in each.split(".")
                )
                if name.startswith("devmod") and name.split(".")[0] != own and private:
                    if own in TAKEN and name.partition(".")[0] in ("devmod", "devmod_runtime"):
                        taken[own] |= {
                            f"{name.removeprefix('devmod.')}.{alias.name}" for alias in node.names
                        }
                    else:
                        wrong.append(f"{module}: {ast.unparse(node)}")
    assert wrong == []
    assert taken == TAKEN


#: Packages that a wheel imports and does not name: those of the program that calls the module, and
#: those without which it does less or has an error with the command that installs them.
GIVEN = {
    *("pluggy", "devmod_conformance", "devmod_targets", "pytest", "hatchling", "PyInstaller"),
    *("compression", "matplotlib", "ml_dtypes", "numpy", "onnx", "onnxruntime", "PIL", "rich"),
    *("tinygrad", "torch", "wgpu"),
}

#: The wheels that commands of the workbench need; without them their error names the wheel.
WITH_COMMANDS = {"devmod-workbench": {"devmod_runtime", "devmod_readers"}}


@cache
def installed_packages() -> Mapping[str, list[str]]:
    """Return the distributions of each installed package. They are searched for 0.4 s."""
    return packages_distributions()


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_a_wheel_names_what_it_imports_in_its_metadata(path: Path) -> None:
    """Imports inside functions count too. A package of an extra counts as named."""
    project = METADATA[path]
    extras = project.get("optional-dependencies", {})
    named = {
        re.split(r"[^\w.-]", each)[0].lower().replace("_", "-")
        for each in [
            *project.get("dependencies", []),
            *(each for extra in extras.values() for each in extra),
        ]
    }
    imported: dict[str, str] = {}
    own = {each.name for each in path.parent.glob("src/*")}
    for module, file in modules().items():
        if file.is_relative_to(path.parent / "src"):
            for node, is_for_types in statements(file):
                names = (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                )
                imported |= {
                    name.split(".")[0]: module
                    for name in names
                    if not is_for_types and not getattr(node, "level", 0)
                }
    owners = {
        **installed_packages(),
        "devmod": ["devmod-core"],
        **{each: ["pyobjc-framework-metal"] for each in ("objc", "Foundation", "Metal")},
        "libdispatch": ["pyobjc-framework-libdispatch"],
        # It is not installed for Python 3.14, which has zstd itself.
        "backports": ["backports.zstd"],
    }
    missing = {
        f"{module} imports {name}"
        for name, module in imported.items()
        if name
        not in {*sys.stdlib_module_names, *own, *GIVEN, *WITH_COMMANDS.get(project["name"], ())}
        and not {each.lower().replace("_", "-") for each in owners.get(name, [name])} & named
    }
    assert missing == set()


def test_no_runtime_needs_the_build_side() -> None:
    plugins = {path.name for path in (ROOT / "plugins").glob("*/src/*")}
    graph = imports()
    found = {
        (module, to)
        for module in graph
        if module.split(".")[0] in {*plugins, "devmod_runtime"}
        for to in graph[module]
        if to.split(".")[0] == "devmod_targets"
    }
    # CUDA C++ is compiled at the receiver (R30) by NVRTC, which devmod-cuda[jit] installs with
    # devmod-targets.
    assert found == {("devmod_cuda._jit", "devmod_targets.cuda.nvrtc")}
    for project in METADATA.values():
        if project["name"].removeprefix("devmod-").replace("-", "_") in {
            name.removeprefix("devmod_") for name in plugins
        }:
            assert not [
                each for each in project["dependencies"] if each.startswith("devmod-targets")
            ]


def test_all_distributions_share_one_version() -> None:
    from devmod import __version__

    assert {project["version"] for project in METADATA.values()} == {__version__}
    assert len(PROJECTS) >= 8


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_the_build_side_pins_core_exactly_and_the_runtimes_by_a_lower_bound(path: Path) -> None:
    project = METADATA[path]
    version = project["version"]
    pinned = {
        "devmod",
        "devmod-workbench",
        "devmod-targets",
        "devmod-models",
        "devmod-conformance",
        "devmod-runtime",
    }
    for requirement in project.get("dependencies", []):
        match = re.match(r"devmod-core(?:\[[^]]*\])?(.*)", requirement)
        if match:
            assert match[1] == (f"=={version}" if project["name"] in pinned else f">={version}"), (
                requirement
            )


def test_what_finalizers_change_is_copied_into_a_list_before_a_loop() -> None:
    """Python 3.11 may collect garbage in the middle of `tuple(values)`: a finalizer that changes
    them then ends it with RuntimeError.
    """
    assert [
        module for module, path in modules().items() if re.search(r"\bin tuple\(", path.read_text())
    ] == []


#: Python's own parser of regular expressions, which has no types.
_PARSER: Any = importlib.import_module("re._parser")
#: The end of a possessive repeat, unless one letter or class is repeated.
_POSSESSIVE = re.compile(r"""["')}\d,][*+?}]\+""")
#: The items that a possessive repeat matches one by one, without a further match for each.
_SIMPLE = (["LITERAL"], ["NOT_LITERAL"], ["ANY"], ["IN"])
#: What stands for a part of an expression that is no literal: not simple.
_UNKNOWN = "(?:xx)"


def text_of(node: ast.AST, names: Mapping[str, str]) -> str:
    """Return the text of an expression that consists of literals and of the names of texts."""
    match node:
        case ast.Constant(bytes() as data):
            return data.decode("latin-1")
        case ast.Constant(value):
            return str(value)
        case ast.JoinedStr(values):
            return "".join(text_of(each, names) for each in values)
        case ast.FormattedValue(value):
            return text_of(value, names)
        case ast.BinOp(left, ast.Add(), right):
            return text_of(left, names) + text_of(right, names)
        case ast.Name(name) if name.islower():
            return "x"  # a variable of a function, such as a name in a program that is generated
        case ast.Name(name):
            return names.get(name, _UNKNOWN)
    return _UNKNOWN


def has_faulty_repeat(part: Any) -> bool:
    """Return whether a part of a parsed regular expression has a possessive repeat that Python
    before 3.11.5 matches wrongly.
    """
    match part:
        case (op, (_, _, item)) if str(op) == "POSSESSIVE_REPEAT":
            return [str(each) for each, _ in item] not in _SIMPLE
    is_group = isinstance(part, (tuple, list, _PARSER.SubPattern))
    return is_group and any(map(has_faulty_repeat, part))


def faulty_repeats(code: str) -> Iterator[str]:
    """Yield the expressions of a file that are such regular expressions, whether they are compiled
    at its import or later.
    """
    if not _POSSESSIVE.search(code):
        return
    tree = ast.parse(code)
    names: dict[str, str] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), value=value):
                names[name] = text_of(value, names) if value else _UNKNOWN
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            continue
        text = text_of(node, names)
        if not _POSSESSIVE.search(text):
            continue
        for flags in (0, re.VERBOSE):
            # Not each text is a regular expression.
            with suppress(re.error, FutureWarning):
                if has_faulty_repeat(_PARSER.parse(text, flags)):
                    yield ast.unparse(node)


def test_possessive_repeats_have_one_character_or_class() -> None:
    """Python before 3.11.5 has a fault in the others, which ``(?>(...)*)`` does not have:
    python/cpython gh-100061 and gh-106052.
    """
    found = {}
    for path in (*modules().values(), *some(ROOT.glob("tools/**/*.py"))):
        found[str(path.relative_to(ROOT))] = [*faulty_repeats(path.read_text())]
    assert {path: texts for path, texts in found.items() if texts} == {}


@pytest.mark.parametrize(
    ("planted", "is_found"),
    [
        ('X = re.compile(r"(?:ab|c)*+")', True),
        ('X = (rb"(?:ab){1,8}+",)', True),
        ('def f(): return re.search("(?=(?:.(?!b))++)", text)', True),
        ('A = "(?:ab|c)"\nB = "?+"\nX = A + B', True),
        ('N = 3\nA = "(?:ab|c)"\nX = rf"{A}{{1,{N}}}+"', True),
        ('from a import A\nX = rf"{A}*+"', True),
        ('X = re.compile("""(?:a # )\n | bc)*+""", re.VERBOSE)', True),
        ('X = r"(a)\\1++"', True),
        ('X = r"a*+[bc]++\\s?+.{1,9}+(?:d)*+"', False),
        ('X = r"(?>(?:ab|c)*)"', False),
        ('A = "[ab]"\nX = rf"{A}*+"', False),
        ('X = "C++ (as of 17)+"', False),
        ('def f(name): return f"for (; {name} < 9; {name}++)"', False),
    ],
)
def test_a_planted_possessive_repeat_is_found(planted: str, is_found: bool) -> None:
    assert bool([*faulty_repeats(planted)]) == is_found


#: Where nothing of a kind is: the kind's own folders and its description have it.
PLACES = (
    "core/src/devmod/**/*.py",
    "workbench/src/devmod_workbench/_tools/*.py",
    "compilers/targets/src/devmod_targets/build/*.py",
    "compilers/targets/src/devmod_targets/_cli/*.py",
    "compilers/targets/src/devmod_targets/doctor.py",
)


def kinds_in(code: str) -> list[str]:
    """Return the literals of a file that are the name of a kind of devices or of a format, several
    of them, or begin as a target or a device does (``cuda -arch=sm_90``, ``opencl:1``).
    """
    specs = [find_spec(kind) for kind in KINDS]
    names = {name for spec in specs if spec for name in (spec.kind, *spec.formats)}
    names.update(*(spec.format_aliases for spec in specs if spec))
    name = rf"(?:{'|'.join(map(re.escape, names))})"
    literal = re.compile(rf"[.\s]*{name}(?:[\s,|/]+{name})*(?:_|:\w*|\s+-.*|[\s,|/]*)", re.DOTALL)
    found = []
    documented = set()
    for node in ast.walk(ast.parse(code)):  # a docstring precedes its text
        if isinstance(node, ast.Expr):
            documented.add(node.value)
        text = getattr(node, "value", None)
        if isinstance(node, ast.keyword):
            text = node.arg
        elif not isinstance(node, ast.Constant) or node in documented:
            continue
        if isinstance(text, bytes):
            text = text.decode("latin-1")
        if isinstance(text, str) and literal.fullmatch(text):
            found.append(text)
    return found


def test_what_is_of_a_kind_is_in_the_folders_of_the_kind() -> None:
    found = {}
    for place in PLACES:
        paths = [*ROOT.glob(place)]
        assert paths, place
        for path in paths:
            if "src/devmod/targets" not in path.as_posix():
                found[str(path.relative_to(ROOT))] = kinds_in(path.read_text())
    assert {path: literals for path, literals in found.items() if literals} == {}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        ('X = kind == "cuda"', ["cuda"]),
        ('X = {b"fatbin": 1}', ["fatbin"]),
        ('X = label.startswith(f"{a}webgpu:")', ["webgpu:"]),
        ('X = "rocm hexagon".split()', ["rocm hexagon"]),
        ('X = Target.parse("cuda -arch=compute_80")', ["cuda -arch=compute_80"]),
        ('X = path.endswith(".xclbin")', [".xclbin"]),
        ("X = dict(vulkan=1)", ["vulkan"]),
        ('match X:\n    case "spv": pass', ["spv"]),
        ('def f():\n    """metal"""', []),
        ('X = "a shader of metal"', []),
        ('X = ("oscl", "metals", "cudart", "hip-like")', []),
        ('X = "such as opencl or cuda -arch=sm_90"', []),
    ],
)
def test_a_planted_literal_of_a_kind_is_found(
    place: str, planted: str, expected: list[str]
) -> None:
    path = next(each for each in ROOT.glob(place) if "src/devmod/targets" not in each.as_posix())
    assert kinds_in(f"{planted}\n{path.read_text().partition('from __future__')[0]}") == expected
    assert kinds_in(f"{path.read_text()}\n{planted}\n") == expected
