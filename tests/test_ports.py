"""`make ports`: what a project's row counts, and the module that projects import in place of
pyopencl.
"""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from each_case import check_each

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "examples" / "ports")]

import environments  # noqa: E402
import ports  # noqa: E402

PAGE = "\n".join(["A page", "", *ports.HEAD, "| other | 1 |", "", "The end", ""])
KERNELS = """
import pyopencl as cl
import numpy as np
import pyopencl.array

SOURCE = '''
kernel void scale(global float *y, global const float *x, float factor, global const float *offset, local float *part) {
    int i = get_global_id(0);
    part[get_local_id(0)] = x[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[i] = factor * part[get_local_id(0)];
    if (offset) y[i] += *offset;
}
kernel void unguarded(global float *y) { y[get_global_id(0)] = 1; }
kernel void reads(global float *x, global float *y) { y[0] = x[0]; }
'''
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build("-DUNUSED=1")
def scale(x, factor, offset=None):
    y = cl.array.zeros(queue, x.shape, np.float32)
    added = None if offset is None else offset.data
    event = program.scale(queue, (x.size,), (4,), y.data, x.data, np.float32(factor), added, cl.LocalMemory(16))
    event.wait()
    return y
"""
TESTS = """
import numpy as np, pytest
import pyopencl.array
from peer import SOURCE, cl, context, program, queue, scale

ones = cl.array.to_device(queue, np.ones(8, np.float32))

def test_arguments(): assert scale(ones, 3, ones[:1]).get().tolist() == [4] * 8
def test_null(): assert scale(ones, 3).get().tolist() == [3] * 8
def test_the_caller_gives_no_work_group():
    # No work-item is added, which would write behind the array.
    y = cl.array.zeros(queue, 202, np.float32)
    program.unguarded(queue, (101,), None, y.data)
    program.unguarded(queue, (0,), None, y.data) if hasattr(program, "module") else None
    assert y.get().tolist() == [1] * 101 + [0] * 101
def test_order():
    y = cl.array.zeros(queue, 8, np.float32)
    first = program.unguarded(queue, (8,), None, y.data)
    second = program.unguarded(queue, (8,), (2,), y.data, wait_for=[first])
    cl.wait_for_events([second])
    assert y.get().tolist() == [1] * 8
def test_kernels():
    kernel = cl.Kernel(program, "scale")
    assert kernel.function_name == "scale" and kernel.num_args == 5
    assert {each.function_name for each in program.all_kernels()} == {"scale", "unguarded", "reads"}
    size = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, queue.device)
    assert size >= 4 and isinstance(program, cl.Program)
def test_errors():
    with pytest.raises(cl.RuntimeError): cl.Program(context, "kernel void k(").build()
    with pytest.raises(cl.LogicError): program.unguarded(queue, (8,), (3,), ones.data)
    with pytest.raises(AttributeError): program.missing
def test_read_only():
    y = cl.array.zeros(queue, 1, np.float32)
    x = cl.Buffer(context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.ones(1, np.float32))
    program.reads(queue, (1,), (1,), x, y.data)
    assert y.get().tolist() == [1]
def test_wrong(): assert scale(ones, 3).get().tolist() == [4] * 8
def test_skipped(): pytest.skip("no reason")
"""
DATA = """
[peer]
title = "A peer"
packages = ["peer"]
changes = [["peer/__init__.py", "import pyopencl as cl", "import devmod_pyopencl as cl"]]
tests = "$tools/../{tests}"
seconds = 60
causes = [["pointer", "null pointers"]]
call = "import numpy as np, peer; x = peer.cl.array.to_device(peer.queue, np.ones(8, np.float32)); call = lambda: peer.scale(x, 2, x)"
"""


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, str]]:
    """Return a function that runs projects of a data file, and returns what is printed and the
    page.
    """
    monkeypatch.setattr(ports, "FOLDER", tmp_path / "build")
    monkeypatch.setattr(ports, "environment", lambda name, project: Path(sys.executable))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.delenv("DEVMOD_DEVICE", raising=False)

    def copy(project: ports.Project, python: Path, site: Path) -> None:
        shutil.copytree(tmp_path / "installed", site)

    monkeypatch.setattr(ports, "copy_packages", copy)
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")

    def call(text: str, *names: str) -> tuple[str, str]:
        data = tmp_path / "data.toml"
        data.write_text(text, encoding="utf-8")
        assert ports.main(list(names), data, page) == 0
        return capsys.readouterr().out, page.read_text(encoding="utf-8")

    return call


def test_a_project_runs_with_pyopencl_with_devmod_and_on_vulkan(
    run: Callable[..., tuple[str, str]], tmp_path: Path
) -> None:
    pytest.importorskip("pyopencl")
    (tmp_path / "installed" / "peer").mkdir(parents=True)
    (tmp_path / "installed" / "peer" / "__init__.py").write_text(KERNELS, encoding="utf-8")
    tests = tmp_path / "test_peer.py"
    tests.write_text(TESTS, encoding="utf-8")
    output, page = run(DATA.replace("$tools/../{tests}", str(tests)))
    assert output == (
        "A peer: .test_read_only: passed, with devmod failed\n"
        "A peer: devmod copied 0 arrays\n"
        "A peer: on Vulkan 1 fail: null pointers\n"
    )
    row = page.splitlines()[5].split(" | ")
    assert row[:6] == ["| A peer", "1", "7, 1, 1", "6, 2, 1", "1", "6, 2, 1"]
    assert row[8] == "3"
    assert page.splitlines()[4] == "| other | 1 |"
    assert " of one in " not in row[5]
    outcomes = json.loads((tmp_path / "build" / "peer-devmod.json").read_text(encoding="utf-8"))
    assert outcomes[".test_wrong"] == "failed"
    assert len(outcomes) == 9


def test_the_row_of_a_project_replaces_its_earlier_one(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    for row in ("| A peer | 1 |", "| A peer | 2 |"):
        ports.write_row(page, row)
    assert page.read_text(encoding="utf-8") == PAGE.replace(
        "| other | 1 |\n", "| other | 1 |\n| A peer | 2 |\n"
    )
    page.write_text("no table", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^page.md has no table with the head "):
        ports.write_row(page, "| A peer | 1 |")


def test_a_changed_line_is_in_the_file_once(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    project = {"changes": [["a.py", "import a", "import b"]]}
    for text, count in (("", 0), ("import a\nimport a", 2), ("import ab", 0)):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=f"^a.py has {count} lines 'import a'; expected 1$"):
            ports.change(project, tmp_path)
        assert path.read_text(encoding="utf-8") == text
    path.write_text("import a\n", encoding="utf-8")
    ports.change(project, tmp_path)
    assert path.read_text(encoding="utf-8") == "import b\n"
    assert ports.changed_lines(project) == 1
    twice = {"changes": [["a.py", "import b", "import c", 2]]}
    with pytest.raises(ValueError, match=r"^a.py has 1 lines 'import b'; expected 2$"):
        ports.change(twice, tmp_path)
    path.write_text("import b\nimport b", encoding="utf-8")
    ports.change(twice, tmp_path)
    assert path.read_text(encoding="utf-8") == "import c\nimport c"
    assert ports.changed_lines(twice) == 2


def test_a_test_that_is_missing_differs() -> None:
    runs = {
        "pyopencl": ports.Run({"a": ("passed", ""), "b": ("failed", "")}, [], Path("none")),
        "devmod": ports.Run({"a": ("passed", ""), "c": ("skipped", "")}, [], Path("none")),
    }
    assert ports.differences(runs) == [
        "b: failed, with devmod missing",
        "c: missing, with devmod skipped",
    ]


def test_one_of_several_tests_runs_on_vulkan(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setenv("DEVMOD_OPENCL_POCL_CPU", "1")
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "porting"))
    import ports_plugin

    for step, expected in (("1", [*range(7)]), ("3", [0, 3, 6])):
        monkeypatch.setenv("PORTS_STEP", step)
        items = [*range(7)]
        ports_plugin.pytest_collection_modifyitems(items)
        assert items == expected
    run = ports.Run({"a": ("passed", ""), "b": ("skipped", "")}, [], Path("none"))
    project = {"title": "A peer", "changes": [], "vulkan_step": 3}
    cells = ports.row(project, dict.fromkeys(ports.MODES, run)).split(" | ")
    assert cells[3:6] == ["1, 0, 1", "0", "1, 0, 1 of one in 3"]


def test_what_cannot_run_says_why(
    run: Callable[..., tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match=r"^there is no project 'b'; there is: peer$"):
        run(DATA, "b")
    monkeypatch.delenv("PEER", raising=False)
    output, page = run(DATA + 'source = "PEER"\n')
    assert (output, page) == ("A peer: not run: PEER names no folder\n", PAGE)

    def fail(name: str, project: ports.Project) -> Path:
        raise environments.InstallError("no network\nand more")

    monkeypatch.setattr(ports, "environment", fail)
    assert run(DATA) == ("A peer: not run: no network\n", PAGE)


def test_the_data_file_and_the_page_fit() -> None:
    projects = tomllib.loads(ports.DATA.read_text(encoding="utf-8"))
    required = {"title", "requirements", "packages", "changes", "tests", "seconds", "call"}
    for name, project in projects.items():
        assert (
            required
            <= project.keys()
            <= required | {"source", "beside", "prepare", "causes", "vulkan_step"}
        ), name
        compile(project["call"], name, "exec")
    lines = ports.PAGE.read_text(encoding="utf-8").splitlines()
    assert lines.count(ports.HEAD[0]) == 1


def test_the_work_group_divides_the_work_items() -> None:
    pytest.importorskip("pyopencl")
    import devmod_pyopencl as door

    def check(size: tuple[int, ...], expected: tuple[int, ...]) -> None:
        assert door.choose_block(size) == expected

    cases: list[tuple[Any, Any]] = [
        ((1,), (1,)),
        ((64,), (64,)),
        ((101,), (1,)),
        ((1000,), (50,)),
        ((96, 40), (48, 1)),
        ((6, 35, 4), (6, 7, 1)),
        ((0, 8), (1, 8)),
    ]
    check_each(cases, lambda case: check(*case))
