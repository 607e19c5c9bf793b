"""GLSL is compiled by the library of the wheel slangpy: what it compiles, what it refuses, and how
its processes live and end.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from each_case import refusal

import devmod
from devmod_targets.authoring import _library, _process

pytestmark = pytest.mark.skipif(find_spec("slangpy") is None, reason="slangpy is not installed")
EMPTY = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {}\n"
#: Each operand makes the tree one level deeper, and glslang walks it by recursion.
DEEP = EMPTY.replace("{}", "{ int y = 1; int x = " + "y + " * 30_000 + "y; }")


refused = partial(refusal, devmod.CompileError, devmod.compile, target="vulkan")


@pytest.mark.parametrize(
    ("extension", "statement"),
    [
        (
            "GL_KHR_cooperative_matrix",
            "coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a = coopmat<float16_t, 3, 16, 16, 0>(0.0);",
        ),
        ("GL_EXT_integer_dot_product", "y[0] = dotPacked4x8EXT(y[1], y[2]);"),
        ("GL_EXT_bfloat16", "bfloat16_t b = bfloat16_t(y[0]); y[0] = uint(b);"),
    ],
)
def test_shaders_that_need_a_new_glslang(extension: str, statement: str) -> None:
    source = (
        f"#version 450\n#extension {extension} : require\n#extension GL_EXT_shader_explicit_arithmetic_types : require\n"
        "#extension GL_KHR_memory_scope_semantics : require\nlayout(local_size_x = 32) in;\n"
        f"layout(binding = 0) buffer Y {{ uint y[]; }};\nvoid main() {{ {statement} }}\n"
    )
    module = devmod.compile(source, "vulkan -arch=vulkan1.3", name="k")
    assert module.functions["k"].arg_types == ("handle",)


@pytest.mark.parametrize(
    "head",
    [
        "#version 450\n",
        "#version 450 core // with a comment\n",
        "// a comment with #version 310 es\n/* and\nmore */ \n #  version 450 /* two\nlines */\n",
        "// joined \\\n#version 310\n#version 450\n",
        "#version 450\r\n",
        "#version 310 es\n",
    ],
)
def test_defines_follow_the_version_and_move_no_line(head: str) -> None:
    body = "layout(local_size_x = N) in;\nlayout(binding = 0) buffer Y { float y[]; };\nvoid main() {\n  y[0] = F(2.0)\n}\n"
    defines = {"N": "4", "F(x)": "x * 3.0;", "EMPTY": ""}
    (info,) = devmod.compile(head + body, "vulkan", defines=defines).functions.values()
    assert info.interface is not None
    assert info.interface.block == (4, 1, 1)
    line = len((head + body).splitlines()) - 1
    assert refused(head + body, defines=defines | {"F(x)": "z;"}) == (
        f"the GLSL source does not compile: <text>:{line}: error: 'z' : undeclared identifier"
    )


def test_a_source_without_a_version_is_refused_with_defines_too() -> None:
    text = refused("void main() {}\n", defines={"N": 1})
    assert text.startswith(
        "the GLSL source does not compile: error: #version: compute shaders require es profile with version 310"
    )


@pytest.fixture
def usual_stack() -> Iterator[None]:
    """Start the processes of the library with the usual limit on the stack: NVIDIA's compiler
    raises that of the whole process.
    """
    before = resource.getrlimit(resource.RLIMIT_STACK)
    _library.IDLE.end()
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_STACK, before)
    _library.IDLE.end()


@pytest.mark.usefixtures("usual_stack")
def test_a_crash_ends_the_process_of_the_library_alone() -> None:
    version = devmod.compile(EMPTY, "vulkan").origin.toolchain  # type: ignore[union-attr]
    assert refused(DEEP) == (
        f"the library of {version} cannot process <text>: its process ends with signal 11. To use the system's tools, pass another --compiler="
    )
    assert list(devmod.compile(EMPTY, "vulkan").functions) == ["main"]


@pytest.fixture
def own_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the library of a copy of the wheel whose package must not be imported, before the real
    one in sys.path.
    """
    spec = find_spec("slangpy")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (real,) = (
        path
        for path in Path(spec.submodule_search_locations[0]).iterdir()
        if "slang-glslang" in path.name
    )
    package = tmp_path / "slangpy"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('slangpy was imported')\n")
    (tmp_path / "slangpy-99.1.dist-info").mkdir()
    library = package / real.name
    library.symlink_to(real)
    monkeypatch.syspath_prepend(tmp_path)
    return library


def test_the_wheel_is_found_without_an_import(own_wheel: Path) -> None:
    origin = devmod.compile(EMPTY, "vulkan").origin
    assert origin is not None
    assert origin.toolchain == "slangpy 99.1"
    assert "slangpy" not in sys.modules


def test_a_library_that_cannot_be_loaded(own_wheel: Path) -> None:
    own_wheel.unlink()
    own_wheel.write_text("no library")
    text = refused(EMPTY)
    assert text.startswith(
        "the library of slangpy 99.1 cannot process <text>: its process ends with exit status 1 (OSError: "
    )
    assert text.endswith("). To use the system's tools, pass another --compiler=")


@pytest.mark.skipif(os.name != "posix", reason="Windows has no FIFO in a folder")
def test_the_time_limit(own_wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_wheel.unlink()
    os.mkfifo(own_wheel)  # it blocks whoever loads it
    monkeypatch.setattr(_process, "TIMEOUT", 0.2)
    assert refused(EMPTY) == (
        "the library of slangpy 99.1 cannot process <text>: its process exceeded the time limit of 0.2 seconds. To use the system's tools, "
        "pass another --compiler="
    )


@pytest.mark.skipif(os.name != "posix", reason="Windows has no FIFO in a folder")
def test_an_interrupt_ends_the_process_of_the_library(own_wheel: Path, tmp_path: Path) -> None:
    own_wheel.unlink()
    os.mkfifo(own_wheel)
    script = (
        "import devmod, subprocess, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "start = subprocess.Popen.__init__\n"
        "def noted(process, *args, **given):\n"
        "    start(process, *args, **given)\n"
        "    print(process.pid, flush=True)\n"
        "subprocess.Popen.__init__ = noted\n"
        f"devmod.compile({EMPTY!r}, 'vulkan')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        number = int(process.stdout.readline())
        writer = -1
        while writer < 0:
            with suppress(OSError):  # nobody reads it yet
                writer = os.open(own_wheel, os.O_WRONLY | os.O_NONBLOCK)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        os.close(writer)
    assert err.endswith("KeyboardInterrupt\n")
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_threads_and_processes_get_the_same_bytes(tmp_path: Path) -> None:
    sources = [EMPTY.replace("{}", f"{{ uint x = {number}; }}") for number in range(8)]

    def build(source: str) -> bytes:
        return devmod.compile(source, "vulkan").save_to_bytes()

    alone = [build(source) for source in sources]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(build, sources)) == alone
    script = f"import devmod, sys; sys.stdout.buffer.write(devmod.compile({sources[3]!r}, 'vulkan').save_to_bytes())"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
        == alone[3]
    )


@pytest.mark.row("R38")
def test_the_bytes_do_not_depend_on_the_shaders_before() -> None:
    """glslang reads memory that it has not written where an integer becomes a float16_t without
    arithmetic on it.
    """
    source = (
        "#version 450\n#extension GL_EXT_shader_16bit_storage : require\nlayout(local_size_x = 1) in;\n"
        "layout(binding = 0) buffer Y { float16_t y[]; };\nvoid main() { y[0] = float16_t(0); }\n"
    )
    made = set()
    for number in range(10):
        devmod.compile(
            EMPTY.replace("{}", "{ float x = 1; " + "x *= x + 2.0; " * number + "}"), "vulkan"
        )
        made.add(devmod.compile(source, "vulkan").save_to_bytes())
    assert len(made) == 1


#: Python 3.12 warns about a fork while a thread that was joined, such as that of a time limit, is
#: still in the system's count.
NO_WARNING_OF_AN_ENDED_THREAD = (
    "import warnings\nwarnings.filterwarnings('ignore', 'This process .* is multi-threaded')\n"
)


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="/proc has the processes of a process"
)
def test_one_process_serves_many_shaders_and_ends_with_the_program(tmp_path: Path) -> None:
    """A child of a fork has a process of its own."""
    script = tmp_path / "script.py"
    script.write_text(
        f"import os, devmod\n{NO_WARNING_OF_AN_ENDED_THREAD}EMPTY = {EMPTY!r}\n"
        "def children():\n"
        "    with open(f'/proc/{os.getpid()}/task/{os.getpid()}/children') as file:\n"
        "        return file.read().split()\n"
        "for _ in range(3):\n"
        "    devmod.compile(EMPTY, 'vulkan')\n"
        "print(*children(), flush=True)\n"
        "child = os.fork()\n"
        "devmod.compile(EMPTY, 'vulkan')\n"
        "if child == 0:\n"
        "    print(*children(), flush=True)\n"
        "else:\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", script], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first.isdigit()
    assert second.isdigit()
    assert first != second
    assert done.stderr == ""
    assert not any(os.path.exists(f"/proc/{number}") for number in (first, second))


#: 2^26 additions: the library works on them for minutes, and takes gigabytes.
ENDLESS = EMPTY.replace("{}", "{ float x = A26; }").replace(
    "\n", "\n#define A0 1.0\n" + "".join(f"#define A{n + 1} A{n} + A{n}\n" for n in range(26)), 1
)


#: The same for Slang's library.
ENDLESS_SLANG = (
    "#define A0 x[0]\n"
    + "".join(f"#define A{n + 1} A{n} + A{n}\n" for n in range(26))
    + '[shader("compute")] [numthreads(1, 1, 1)]\n'
    "void first(uniform RWStructuredBuffer<float> x) { x[0] = A26; }\n"
)


def processes_under(number: int) -> list[int]:
    """Return the first child of a process, its first child, and so on."""
    with suppress(OSError):
        for children in Path(f"/proc/{number}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                return [child, *processes_under(child)]
    return []


def work_of(number: int) -> float:
    """Return the processor time in seconds of a process. Slang's takes 0.3 before its first
    request, for which it has no fork.
    """
    return int(
        Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[11]
    ) / os.sysconf("SC_CLK_TCK")


def is_running(number: int) -> bool:
    """Return whether a process runs. In a container, a process that has ended may stay in the table
    of processes.
    """
    with suppress(OSError):
        return Path(f"/proc/{number}/cmdline").read_bytes() != b""
    return False


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="/proc has the processes of a process"
)
@pytest.mark.volume_but(
    "with a fork that stays-glslang and its fork",
    "SIGKILL of the library's process-glslang and its fork",
)
@pytest.mark.parametrize(
    ("call", "count"),
    [(f"({ENDLESS!r}, 'vulkan')", 3), (f"({ENDLESS_SLANG!r}, 'webgpu', language='Slang')", 2)],
    ids=["glslang and its fork", "Slang"],
)
@pytest.mark.parametrize(
    ("then", "ended", "end"),
    [
        ("", 0, signal.SIGTERM),
        ("", 0, signal.SIGKILL),
        ("os.fork()", 0, signal.SIGKILL),
        ("sys.exit()", 0, 0),
        ("", 1, signal.SIGKILL),
    ],
    ids=[
        "SIGTERM",
        "SIGKILL",
        "with a fork that stays",
        "normal end",
        "SIGKILL of the library's process",
    ],
)
def test_the_end_of_the_program_ends_its_compile(
    call: str, count: int, then: str, ended: int, end: int
) -> None:
    script = (
        "import devmod, os, sys, threading\n"
        f"threading.Thread(target=lambda: devmod.compile{call}, daemon=True).start()\n"
        f"sys.stdin.readline()\n{then}\nprint(flush=True)\nsys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        numbers: list[int] = []
        limit = time.monotonic() + 30
        while (
            len(numbers) < count or (count == 2 and work_of(numbers[1]) < 0.6)
        ) and time.monotonic() < limit:
            numbers = [process.pid, *processes_under(process.pid)]
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        if end:
            os.kill(numbers[ended], end)
        limit = time.monotonic() + 10
        while any(map(is_running, numbers[1:])) and time.monotonic() < limit:
            time.sleep(0.01)
        survivors = [number for number in numbers[1:] if is_running(number)]
        for number in survivors:
            os.kill(number, signal.SIGKILL)
    assert len(numbers) == count
    assert survivors == []


@pytest.mark.volume
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="/proc has the open files of a process"
)
def test_the_limit_on_open_files(tmp_path: Path) -> None:
    """Each fork starts a process of the library, with one more file that it may open."""
    script = (
        f"import devmod, os, resource\n{NO_WARNING_OF_AN_ENDED_THREAD}"
        "def files():\n"
        "    return set(os.listdir('/proc/self/fd'))\n"
        f"version = devmod.compile({EMPTY!r}, 'vulkan').origin.toolchain\n"
        "for number in range(16):\n"
        "    if os.fork() == 0:\n"
        "        before, limits = files(), resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "        resource.setrlimit(resource.RLIMIT_NOFILE, (3 + number, limits[1]))\n"
        "        try:\n"
        f"            print(*devmod.compile({EMPTY!r}, 'vulkan').functions, flush=True)\n"
        "            break\n"
        "        except devmod.CompileError as error:\n"
        "            resource.setrlimit(resource.RLIMIT_NOFILE, limits)\n"
        "            assert files() == before\n"
        "            print(str(error).replace(version, 'VERSION'), flush=True)\n"
        "            break\n"
        "    assert os.wait()[1] == 0\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "main"
    # In some versions of Python the process starts, and has too few files itself.
    inside = (
        "the library of VERSION cannot process <text>: its process ends with exit status 1 (OSError: [Errno 24] Too many open files). To use the "
        "system's tools, pass another --compiler="
    )
    assert set(done.stdout.splitlines()) - {inside} == {
        "cannot compile <text>: a temporary file or folder cannot be used: Too many open files",
        "the library of VERSION cannot process <text>: its process cannot be started: Too many open files",
        "main",
    }
    assert list(tmp_path.iterdir()) == []
