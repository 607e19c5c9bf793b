"""The documents, the Makefile and the layout of the repository agree."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from each_case import some

ROOT = Path(__file__).resolve().parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
GROUPS = re.findall(r"^##@ (.*)$", MAKEFILE, re.MULTILINE)


def test_make_help_lists_every_task() -> None:
    tasks = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
    phony = set(" ".join(re.findall(r"^\.PHONY:(.*)$", MAKEFILE, re.MULTILINE)).split())
    output = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert tasks == phony
    assert {line.split()[1] for line in output.splitlines() if line.startswith("  make ")} == tasks
    assert {
        "demo",
        "test",
        "lint",
        "types",
        "format",
        "bench",
        "golden",
        "clean",
        "wheels",
        "setup",
    } <= tasks
    assert all(line.startswith("  make ") or line in ("", *GROUPS) for line in output.splitlines())


def test_the_commands_for_gpus_name_existing_files() -> None:
    commands = dict(re.findall(r"^GPU_(\w+) = (.*)$", MAKEFILE, re.MULTILINE))
    assert set(commands) == {
        *(f"cuda_{do}" for do in ("test", "questions", "bench", "sanitize", "others", "wheels")),
        "rocm_test",
        "metal_test",
    }
    for path in re.findall(
        r"[\w-]+/[\w./-]+", " ".join(commands.values()).replace("$(BIN)/python", "")
    ):
        assert (ROOT / path).exists(), path


def test_ci_runs_all_tests_and_people_all_but_the_volume() -> None:
    script = ROOT / ".ci" / "run"
    assert "\npython3 tools/strangers.py bookworm trixie\n" in script.read_text()
    assert "\n        make test ||" in script.read_text()  # where no bare system can be made
    assert script.stat().st_mode & 0o111
    people, everything = (commands_of(task, "-m pytest") for task in ("test", "test-all"))
    assert [each.replace(' -m "not volume"', "") for each in people] == everything != people


def markers_of(task: str, marker: str = "") -> list[str]:
    """Return the options by which a task chooses tests."""
    (command,) = commands_of(task, "-m pytest", marker)
    options = shlex.split(command.partition("||")[0])
    return options[options.index("worksteal") + 1 :]


#: A file of each place, and the marker of its test.
PLACES = {
    "extras/simulators/tests/test_a.py": "volume_but",
    "extras/simulators/tests/test_b.py": "volume",
    "tests/test_simulate_c.py": "once",
    "tests/test_d.py": "once",
}
SIMULATED = ["test_a", "test_simulate_c"]


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        ("", ["test_a", "test_d", "test_simulate_c"]),
        ("not simulators", ["test_d"]),
        ("simulators", SIMULATED),
        ("simulators or once", ["test_a", "test_d", "test_simulate_c"]),
    ],
)
def test_a_marker_leaves_out_the_tests_of_the_simulators(
    tmp_path: Path, marker: str, expected: list[str]
) -> None:
    for name, own in PLACES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"import pytest\n@pytest.mark.{own}\ndef {path.stem}():\n    pass\n", encoding="utf-8"
        )
    shutil.copy(ROOT / "conftest.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def collected(options: list[str]) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, *options, "."], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted(re.findall(r"::(\w+)$", done.stdout, re.MULTILINE))

    assert collected(markers_of("test", marker)) == expected
    if marker == "simulators":
        assert collected(markers_of("test-all", marker)) == sorted([*SIMULATED, "test_b"])


def commands_of(task: str, text: str, marker: str = "") -> list[str]:
    """Return the commands of a task that contain a text, without running the task."""
    output = subprocess.run(
        ["make", "-s", "-n", task, "PYTHON=true", f"MARKER={marker}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    commands = []
    for line in output.splitlines():
        if text in line:
            commands.append(" ".join(line.split()))
    return commands


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_types_are_checked_for_each_system(platform: str) -> None:
    (command,) = commands_of("types", f"--platform {platform}")
    folders = {each.removesuffix("/src") for each in command.split()}
    expected = {
        "core",
        "compilers/readers",
        "compilers/targets",
        "compilers/wgsl",
        "plugins/runtime",
        "plugins/driver-api",
        "extras/remote",
        "plugins/devmod-metal",
    }
    assert expected <= folders
    assert ("plugins/devmod-cuda" in folders) == (platform == "linux")


#: Stands for the programs of lint, types and tests: it writes its name, and some of them fail.
PROGRAM = """#!/bin/sh
name=$(basename "$0")
if [ "$2" = pytest ]; then name=pytest; fi
echo $name >> log
case " $FAULTS " in *" $name "*) exit 1;; esac
"""


@pytest.mark.parametrize(
    ("faults", "parts"),
    [
        ("", set()),
        ("ruff", {"lint"}),
        ("mypy", {"types"}),
        ("pytest", {"tests"}),
        ("ruff mypy pytest", {"lint", "types", "tests"}),
    ],
)
def test_each_part_of_make_test_runs_and_counts(
    tmp_path: Path, faults: str, parts: set[str]
) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    for name in ("python", "ruff", "mypy"):
        program = tmp_path / name
        program.write_text(PROGRAM)
        program.chmod(0o755)
    done = subprocess.run(
        ["make", "test", "PYTHON=true", "BIN=.", "C_FILES=true"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "FAULTS": faults},
        capture_output=True,
        text=True,
        check=False,
    )
    ran = (tmp_path / "log").read_text().split()
    assert {*ran} == {"python", "ruff", "mypy", "pytest"}
    assert ran.count("mypy") == 3  # one for each system
    assert (done.returncode != 0) == bool(parts)
    _, _, failed = done.stderr.partition("make test: failed: ")
    assert {*failed.partition("\n")[0].split()} == parts


def test_mypy_checks_for_the_python_that_runs_it() -> None:
    """With NumPy 2.5 and Python 3.11 as the target, mypy finds errors that are none: the stubs need
    `typing.override`.
    """
    template = "conformance/src/devmod_conformance/_cli/templates/both/pyproject.toml.tmpl"
    for path in ("pyproject.toml", template):
        text = (ROOT / path).read_text(encoding="utf-8")
        _, _, section = text.partition("[tool.mypy]")
        assert section, path
        assert not re.search("^python_version", section, re.MULTILINE), path


def test_the_commands_that_documents_show_exist() -> None:
    from devmod_workbench._cli._known import KNOWN

    tasks = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
    documents: list[Path] = []
    for pattern in ("*.md", "docs/*.md", "*/README.md", "*/*/README.md"):
        documents += some(ROOT.glob(pattern))
    for document in documents:
        for block in re.findall(r"```(?:console|sh)\n(.*?)```", document.read_text(), re.DOTALL):
            for line in block.splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True)
                if words[:1] == ["make"]:
                    assert words[1] in tasks, f"{document.name}: {line}"
                if words[:1] == ["devmod"]:
                    assert words[1] in (*KNOWN, "--version"), f"{document.name}: {line}"


def test_the_index_of_the_design_notes_lists_each_by_its_title() -> None:
    folder = ROOT / "docs" / "design"
    listed = re.findall(r"^- \[(.+?)\]\((\S+)\)", (folder / "README.md").read_text(), re.MULTILINE)
    titles = [
        (note.read_text().splitlines()[0].removeprefix("# "), note.name)
        for note in folder.glob("*.md")
        if note.name != "README.md"
    ]
    assert sorted(listed) == sorted(titles)


def test_a_package_names_each_design_note_of_a_wheel() -> None:
    notes = {note.name for note in (ROOT / "docs" / "design").glob("*.md")} - {
        "README.md",
        "tests.md",
    }
    packages = [
        *ROOT.glob("*/src/*/__init__.py"),
        *ROOT.glob("*/src/*/*/__init__.py"),
        *ROOT.glob("*/*/src/*/__init__.py"),
        *ROOT.glob("*/*/src/*/*/__init__.py"),
    ]
    named = {
        note
        for package in packages
        for note in re.findall(
            r"docs/design/([\w-]+\.md)", package.read_text().partition('"""\n')[0]
        )
    }
    assert named == notes


@pytest.mark.row("R36")
def test_one_directory_for_each_backend() -> None:
    from devmod.plugins import find_spec
    from devmod.targets import KINDS, NAMES

    specs = ROOT / "core" / "src" / "devmod" / "targets"
    assert {path.parent.name for path in specs.glob("*/__init__.py")} == set(NAMES)
    build_side = ROOT / "compilers" / "targets" / "src" / "devmod_targets"
    shared = {
        "_cli",
        "authoring",
        "build",
        "interop",
        "libclc",
        "opencl_c",
        "slang",
        "spirv_ptx",
        "triton",
    }  # the last three are languages
    assert {path.parent.name for path in build_side.glob("*/__init__.py")} == {*KINDS, *shared}
    assert not {path.stem.strip("_") for path in build_side.glob("*.py")} & set(KINDS)
    plugins = [path.parent for path in (ROOT / "plugins").glob("devmod-*/pyproject.toml")]
    assert sorted(plugin.name for plugin in plugins) == sorted(f"devmod-{kind}" for kind in KINDS)
    for plugin in plugins:
        kind = plugin.name.removeprefix("devmod-")
        spec = find_spec(kind)
        assert spec is not None
        assert spec.compiler.startswith(f"devmod_targets.{kind}.")
        assert (plugin / "src" / f"devmod_{kind}" / "__init__.py").exists()
        assert (plugin / "README.md").exists()
        assert (plugin / "tests").is_dir()


def test_the_browser_has_the_table_of_types() -> None:
    from devmod._values import dtypes

    script = (ROOT / "extras" / "browser" / "js" / "src" / "dtypes.js").read_text()
    sized, named = (
        script.partition(f"const {name} = new Map([")[2].partition("]);")[0]
        for name in ("SIZED", "NAMED")
    )
    assert {
        int(code): name for code, name in re.findall(r'\[(\d+), "(\w+)"\]', sized)
    } == dtypes._SIZED
    assert {
        (int(code), int(bits)): name
        for code, bits, name in re.findall(r'\["(\d+),(\d+)", "(\w+)"\]', named)
    } == dtypes._NAMED


def test_the_browser_has_the_numbers_of_the_header() -> None:
    from devmod._formats import index

    script = "".join(
        (ROOT / "extras" / "browser" / "js" / "src" / name).read_text()
        for name in ("head.js", "pages.js")
    )
    names = ("NUMBER", "HEADER", "ALIGN", "MAX_DEPTH", "MAX_BARE")
    found = {
        name: int(number)
        for name, number in re.findall(
            rf"^const ({'|'.join(names)}) = (\d+);", script, re.MULTILINE
        )
    }
    assert found == {name: getattr(index, name) for name in names}
    magic = re.search(r"^const MAGIC = \[(.*)\];", script, re.MULTILINE)
    assert magic is not None
    assert bytes(int(each, 16) for each in magic[1].split(", ")) == index.MAGIC


def test_the_browser_has_the_launch_tags() -> None:
    from devmod._values import tags

    script = (ROOT / "extras" / "browser" / "js" / "src" / "tags.js").read_text()
    lists = dict(
        re.findall(
            r"^(?:export )?const (\w+) = (?:/\*.*?\*/ )?\(?\[([^\]]*)\]\)?;", script, re.MULTILINE
        )
    )
    scopes, flags = (tuple(re.findall(r'"([^"]*)"', lists[name])) for name in ("SCOPES", "FLAGS"))
    (shared,) = re.findall(r'^export const DYNAMIC_SHARED_MEMORY = "(.*)";', script, re.MULTILINE)
    (write_access,) = re.findall(r'^export const WRITE_ACCESS = "(.*)";', script, re.MULTILINE)
    assert (scopes, shared, write_access) == (
        tags.SCOPES,
        tags.DYNAMIC_SHARED_MEMORY,
        tags.WRITE_ACCESS_TAG,
    )
    assert {*flags, shared} == tags._KNOWN - tags.DIMENSIONS.keys()


def test_the_documents_have_the_tables_of_features_and_limits() -> None:
    from devmod.backend import FEATURES, LIMITS, Capabilities

    def names(page: str, heading: str) -> set[str]:
        table = (ROOT / "docs" / page).read_text().partition(heading)[2].partition("\n\n")[0]
        return {
            name
            for line in table.splitlines()
            for name in re.findall(r"`(\w+)`", line.split("|")[1])
        }

    assert names("arrays-and-devices.md", "| name | meaning |\n|---|---|\n") == set(FEATURES)
    assert set(re.findall(r"``(\w+)``", Capabilities.__doc__ or "")) == set(LIMITS)


def test_no_file_names_a_machine_or_a_registry_host() -> None:
    process = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if process.returncode:
        pytest.skip("not a git checkout: git lists no files")
    here = str(ROOT)
    for name in process.stdout.splitlines():
        path = ROOT / name
        if not path.is_file() or path.suffix in {".png", ".devmod", ".tvmimports", ".so"}:
            continue
        text = path.read_text(errors="replace")
        assert here + "/" not in text, f"{name} has the path of this checkout"
        assert "index" + "-url =" not in text, f"{name} names a package index"


def test_tests_without_the_emulator_of_rdna3_are_one_group_with_one_line() -> None:
    file = "plugins/devmod-rocm/tests/test_conformance.py"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        file,
        "-k",
        "R37-host",
    ]
    environment = os.environ | {"DEVMOD_RDNA3_EMULATOR": str(ROOT / "no emulator")}
    output = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    ).stdout
    line = r"^(\d+) × there is no emulator of RDNA3 here; DEVMOD_RDNA3_EMULATOR names the folder of one$"
    (count,) = re.findall(line, output, re.MULTILINE)
    assert f" {count} without the emulator of RDNA3 in " in output
    assert "skipped" not in output


def test_the_files_to_copy_have_a_licence_line() -> None:
    """Others copy the reader of C into their trees, without the file LICENSE."""
    files = sorted((ROOT / "compilers" / "readers" / "c").iterdir())
    assert {path.suffix for path in files} == {".c", ".h"}
    first = {path.name: path.read_text().partition("\n")[0] for path in files}
    assert set(first.values()) == {"/* SPDX-License-Identifier: Apache-2.0 */"}, first
