"""Tests that compare two places of one thing: one for each comment "Where to change"
(`tools/where.py`) whose places no other test compares.

`tests/test_where.py` checks that each has such a test. `tests/test_new_members.py` compares lists.
"""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from each_case import some

import devmod
from devmod import errors
from devmod._formats import index
from devmod._plugins.claim import GROUPS
from devmod._values.param import INFIX, PARAM_KINDS
from devmod.backend import FEATURES, OPERATORS
from devmod.plugins import find_spec
from devmod.targets import KINDS, NAMES
from devmod_readers.programs import RESERVED
from devmod_runtime import Device
from devmod_simulators._sanitize import CHECKS
from devmod_targets import _program_text
from devmod_trust import _policy
from devmod_wgsl._scalars import SCALARS
from devmod_workbench._cli import group
from devmod_workbench._cli._known import KNOWN

ROOT = Path(__file__).resolve().parent.parent


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def between(text: str, start: str, end: str) -> str:
    """Return the part of a text between two marks."""
    _, found, rest = text.partition(start)
    assert found, start
    return rest.partition(end)[0]


def strings(text: str) -> set[str]:
    """Return the strings in double quotes."""
    return set(re.findall(r'"([^"]*)"', text))


def first_cells(page: str, heading: str) -> list[str]:
    """Return the first cell of each row of the table with this heading."""
    rows = between(text_of(page), heading + "\n", "\n\n").splitlines()
    return [row.split("|")[1] for row in rows if row.startswith("|") and not row.startswith("|--")]


def test_an_operator_of_programs_is_in_each_reader_and_on_the_pages() -> None:
    script = between(text_of("extras/browser/js/src/expressions.js"), "const OPERATORS", "\n);")
    reader = between(text_of("tests/spec_reader.py"), "\nOPERATORS = (", ")")
    assert set(re.findall(r'\[\s*"([^"]+)",\s*\[', script)) == OPERATORS.keys()
    assert strings(reader) == OPERATORS.keys()
    in_c = between(text_of("compilers/readers/c/devmod_reader.c"), 'NAMES[] = {"+"', "}")
    assert {"+", *strings(in_c)} == OPERATORS.keys()
    page = between(text_of("docs/formats.md"), "#### Expressions\n", "\n#")
    functions = OPERATORS.keys() - INFIX
    assert functions == {name for name in OPERATORS if name.isidentifier()}
    # A declaration has the name of no function.
    script = between(text_of("extras/browser/js/src/programchecks.js"), "const RESERVED = [", "]")
    reader = between(text_of("tests/spec_reader.py"), "\nRESERVED = (", ")")
    assert functions < {*RESERVED}
    assert strings(script) == strings(reader) == {*RESERVED}
    assert set(re.findall(r"`([^`\w\s]+|[a-z]+)`", page)) >= OPERATORS.keys()


def test_an_operator_of_programs_can_be_written() -> None:
    """Those between operands as in Python, the others as calls."""
    assert set(_program_text._BINARY.values()) == INFIX.keys()
    for name in OPERATORS:
        written = f"{name}(n, 2)"
        if name in INFIX:
            written = f"n {name} 2"
        assert devmod.step("k", v=written).arguments["v"] == (name, "n", 2)


def test_a_key_of_programs_is_a_parameter_and_is_on_the_page() -> None:
    keys = {*_program_text._ROLES, "samplers", "requires"}
    cells = first_cells("docs/programs.md", "## Declare the arrays\n")
    assert {cell.strip(" `") for cell in cells[1:]} == keys
    others = {"name", "kernels", "steps", "backward"}
    assert inspect.signature(devmod.program).parameters.keys() - others == keys


def test_a_kind_of_argument_is_in_each_reader() -> None:
    script = between(text_of("extras/browser/js/src/interface.js"), "const PARAM_KINDS", ");")
    assert strings(script) == {*PARAM_KINDS}
    page = between(text_of("docs/formats.md"), "| `kind` | `buffer`", " |\n")
    assert {"buffer", *re.findall(r"`(\w+)`", page)} == {*PARAM_KINDS}


def test_a_field_of_a_file_is_in_each_reader_and_on_the_page() -> None:
    fields = {key for key, _ in index._FIELDS.values()}
    script = between(
        text_of("extras/browser/js/src/head.js"),
        "const isModule",
        "reader.field = subject;\n  const isNode",
    )
    compared = set(re.findall(r'key === "(\w+)"', script))
    code = between(text_of("compilers/readers/c/devmod_reader.c"), "read_record(reader *r", "};")
    cells = first_cells("docs/formats.md", "The record of a module:\n\n| key | value |")
    from spec_reader import KEYS

    assert compared == fields | {*index._OF_ATTACHMENTS}
    assert strings(code) == fields
    assert {*KEYS, "origin"} == fields
    assert [cell.strip(" `") for cell in cells] == [key for key, _ in index._FIELDS.values()]


def test_a_need_is_in_the_browser_by_webgpus_name() -> None:
    script = between(text_of("extras/browser/js/src/pipeline.js"), "const NEEDS", "]);")
    needs = dict(re.findall(r'\["(\w+)", "([\w-]*)"\]', script))
    assert {need for need, name in needs.items() if name} == {
        name for name, each in FEATURES.items() if each.webgpu not in ("", name)
    }
    assert needs.keys() <= FEATURES.keys()
    for need, name in needs.items():
        assert name == FEATURES[need].webgpu, need


def test_a_need_is_in_each_reader() -> None:
    from spec_reader import NEEDS

    known = {*FEATURES, "tuned", "repeat"}
    assert (
        strings(between(text_of("compilers/readers/c/devmod_reader.c"), "NEEDS[] = {", "}"))
        == known
    )
    assert known == NEEDS


#: The texts of errors of arrays that a call in the browser has too, without their values. Those of
#: names, numbers and launch options are compared by `tests/test_browser_calls.py`.
TEXTS_OF_ARRAYS = (
    "is an array of {}, and the {} takes {}{}",
    "has {} bytes, which is not a whole number of {}",
    "has {} bytes, and the kernel declares {}; pass an array of {} bytes or more",
)


def test_a_text_of_an_error_of_arrays_is_the_browsers_too() -> None:
    checks = re.sub(
        r"\{[^{}]*\}", "{}", text_of("plugins/runtime/src/devmod_runtime/_launch/checks.py")
    )
    script = re.sub(r"\$\{[^{}]*\}", "{}", text_of("extras/browser/js/src/arguments.js"))
    for text in TEXTS_OF_ARRAYS:
        assert f'f"{text}"' in checks, text
        assert f"`{text}`" in script, text


def test_an_error_class_is_a_public_name() -> None:
    classes = {
        name
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, devmod.DevmodError)
    }
    assert classes == {*devmod._NAMES["errors"].split()}
    assert classes <= {*errors.__all__}
    page = re.findall(r"autoexception:: devmod\.(\w+)", text_of("docs/api.md"))
    assert sorted(page) == sorted(classes)


def test_a_command_is_in_the_metadata_of_its_wheel_and_in_the_help() -> None:
    known = {name: each.distribution for name, each in KNOWN.items() if not each.is_own}
    commands = ROOT / "workbench" / "src" / "devmod_workbench" / "_cli"
    own = {path.stem for path in commands.glob("[a-z]*.py")}
    others = {}
    files = set()
    for path in (*some(ROOT.glob("*/pyproject.toml")), *some(ROOT.glob("*/*/pyproject.toml"))):
        project = tomllib.loads(path.read_text())["project"]
        entries = project.get("entry-points", {}).get("devmod.commands", {})
        for name, value in entries.items():
            others[name] = project["name"]
            files.add(value)
    assert known == others
    assert own == KNOWN.keys() - known.keys()
    assert files == commands_of_other_wheels()


def commands_of_other_wheels() -> set[str]:
    """Return the functions of click's commands, as entry points name them."""
    results = set()
    for source in (*ROOT.glob("*/src"), *ROOT.glob("*/*/src")):
        for path in source.rglob("*.py"):
            text = path.read_text()
            if source.parent.name == "workbench" or not re.search(r"@click\.(command|group)", text):
                continue
            module = ".".join(path.relative_to(source).with_suffix("").parts)
            pattern = r"^@click\.(?:command|group)(?:.|\n)*?^def (\w+)\("
            for name in re.findall(pattern, text, re.MULTILINE):
                results.add(f"{module}:{name}")
    return results


def test_a_key_of_a_policy_is_on_the_page() -> None:
    cells = first_cells(
        "docs/trust.md", "each that has. A policy is read again when it or a key has changed.\n"
    )
    words = set(re.findall(r"\w+", " ".join(cells)))
    assert {*_policy._TOP[1:], *_policy._RULE, *_policy._IDENTITY[:2]} <= words


def test_an_entry_point_group_is_on_the_page() -> None:
    cells = first_cells("docs/backend.md", "Core finds a backend only by its entry points:\n")
    assert [cell.strip(" `") for cell in cells[1:]] == [*GROUPS]


def test_an_exit_status_is_in_the_help_and_on_the_page() -> None:
    cells = first_cells("docs/command-line.md", "## Exit status\n")
    epilog = group.epilog or ""
    assert re.findall(r"^  (\d+) ", epilog, re.MULTILINE) == [cell.strip() for cell in cells[1:]]


def test_a_check_of_the_sanitizer_is_on_the_page() -> None:
    cells = first_cells("docs/cuda-without-a-gpu.md", "devmod-simulators: 2 reports\n```\n")
    assert [cell.strip(" `") for cell in cells[1:]] == [*CHECKS]


def test_a_setting_of_the_stand_in_drivers_is_in_the_readme() -> None:
    rows = first_cells("extras/simulators/README.md", "`driver.set(name, value)`.\n")
    listed = set(re.findall(r"`(\w+)`", " ".join(rows)))
    folder = ROOT / "extras" / "simulators"
    code = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.c"))
    taken = set(re.findall(r'\b(?:device_)?setting(?:_number)?\("(\w+)"', code))
    assert taken - {"launched"} == listed  # the command alone sets it


def test_the_figures_of_the_suites_of_others_are_those_of_the_comparison() -> None:
    comparison = {}
    for line in text_of("docs/comparison.md").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 7:
            comparison[cells[1].split(" ")[0]] = (cells[2], cells[3])
    page = text_of("extras/simulators/README.md")
    rows = between(page, "| project | passed | failed |\n", "\n\n").splitlines()[1:]
    assert len(rows) == 6
    for row in rows:
        _, name, passed, failed, _ = row.split("|")
        figures = (passed.replace(",", "").strip(), failed.partition(",")[0].strip())
        assert comparison[name.split()[0]] == figures, name


def test_each_stream_takes_what_a_device_promises() -> None:
    promised = list(inspect.signature(Device.stream).parameters)
    found = {}
    for folder in some(ROOT.glob("plugins/*/src")):
        for path in some(folder.rglob("*device.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef) and node.name == "stream":
                    every = (*node.args.args, *node.args.kwonlyargs)
                    found[path] = [each.arg for each in every]
    assert len(found) > 5
    assert {path: each for path, each in found.items() if each != promised} == {}


def test_an_instruction_that_uses_memory_is_checked_by_the_sanitizer() -> None:
    from devmod_simulators.ptx import checked, program  # noqa: F401 - it registers all
    from devmod_simulators.ptx.decoder import OPERATIONS

    families = {"ops_atomic", "ops_copy", "ops_mbarrier", "ops_memory", "ops_system", "ops_tensor"}
    families.add("ops_texture")
    memory = set()
    for name, decode in OPERATIONS.items():
        if decode.__module__.rpartition(".")[2] in families:
            memory.add(name)
    assert memory == checked._MEMORY & OPERATIONS.keys()


def test_a_function_of_the_stand_in_of_hip_is_on_its_list() -> None:
    folder = ROOT / "extras" / "simulators" / "standins" / "devmod_standins" / "libamdhip64"
    code = "".join(path.read_text() for path in folder.glob("*.c"))
    page = (folder / "calls.md").read_text()
    made = set(re.findall(r"^[A-Z_]+\((hip\w+)[,)]", code, re.MULTILINE))
    assert made - set(re.findall(r"\w+", page)) == set()


def test_a_request_of_the_runner_of_hexagon_is_on_its_page_and_is_sent() -> None:
    code = between(text_of("plugins/devmod-hexagon/runner/main.c"), "operations[] = {", "};")
    requests = {*strings(code), "call"}  # which has items of any number
    page = text_of("plugins/devmod-hexagon/runner/README.md")
    assert {*re.findall(r'^\| `\["(\w+)"', page, re.MULTILINE)} == requests
    client = "plugins/devmod-hexagon/src/devmod_hexagon"
    sent = strings("".join(path.read_text() for path in (ROOT / client).glob("*.py")))
    assert requests - {"call"} <= sent


def test_a_scalar_type_of_wgsl_needs_a_feature_that_is_known() -> None:
    extensions = {each.wgsl for each in FEATURES.values()}
    assert {each.extension for each in SCALARS.values()} <= {"", *extensions}


def test_a_directive_of_wgsls_preprocessor_is_on_the_page() -> None:
    source = text_of("compilers/targets/src/devmod_targets/webgpu/_preprocess.py")
    followed = set()
    for compared in re.findall(r"\bword(?:\[1\])? (?:==|in|!=) (\"\w+\"|\([^)]*\))", source):
        followed |= strings(compared)
    cells = first_cells("docs/webgpu.md", "| the directive | its effect |")
    assert set(re.findall(r"#(\w+)", " ".join(cells))) == followed


def test_a_file_of_the_page_is_of_a_type_that_the_wheel_takes() -> None:
    suffixes = strings(between(text_of("workbench/hatch_build.py"), "SUFFIXES = (", ")"))
    used = {
        path.suffix for path in (ROOT / "extras" / "browser" / "page").rglob("*") if path.is_file()
    }
    assert used <= suffixes


def test_a_suffix_of_a_language_finds_its_kind() -> None:
    for kind in KINDS:
        spec = find_spec(kind)
        assert spec is not None
        assert spec.languages.keys() <= {*NAMES[kind]}, kind


def metadata_of_core() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(text_of("core/pyproject.toml"))["project"]
    return project


def test_a_kind_is_in_the_metadata_of_core() -> None:
    assert metadata_of_core()["entry-points"]["devmod.targets"].keys() == NAMES.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_compiler_has_an_extra_of_core(kind: str) -> None:
    spec = find_spec(kind)
    assert spec is not None
    assert spec.build_extra in metadata_of_core()["optional-dependencies"]


def test_a_function_of_a_driver_is_called_by_its_name() -> None:
    from devmod_cuda._calls import FUNCTIONS as OF_CUDA
    from devmod_rocm._calls import FUNCTIONS as OF_ROCM

    folders = (
        "plugins/driver-api/src/devmod_driver_api",
        "plugins/devmod-cuda/src",
        "plugins/devmod-rocm/src",
    )
    text = ""
    for folder in folders:
        for path in some((ROOT / folder).rglob("*.py")):
            text += re.sub(r'^ +"\w+": DriverFunction\(', "", path.read_text(), flags=re.MULTILINE)
    assert {name for name in OF_CUDA | OF_ROCM if f'"{name}"' not in text} == set()


def test_a_version_of_tvm_is_the_one_that_its_tests_run_with() -> None:
    pyproject = text_of("extras/tvm/pyproject.toml")
    (version,) = {*re.findall(r'"apache-tvm==([\d.]+)\*"', pyproject)}
    assert f'"apache-tvm=={version}' in text_of("tools/frameworks.py")
