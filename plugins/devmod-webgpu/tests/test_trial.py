"""Trials: a separate process compiles a new shader first."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from backend_checks import run_python
from each_case import raised

import devmod
from devmod import Interface

SET = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n@compute @workgroup_size(1) fn k() {{ x[0] = {}u; }}"
#: naga recurses along the chain of constants, and overflows a stack of 1 MiB.
CHAIN = (
    "@compute @workgroup_size(1) fn k() { _ = c0; }\n"
    + "".join(f"const c{n} = c{n + 1};\n" for n in range(6_000))
    + "const c6000 = 1;\n"
)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Any) -> None:
    """Use an empty cache of trials."""
    from devmod_webgpu import _trial

    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DEVMOD_WEBGPU_TRIAL", raising=False)
    monkeypatch.setattr(_trial, "_tried", set())


@pytest.fixture
def small_stack(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the processes of trials a stack of 1 MiB."""
    from devmod import worker
    from devmod_webgpu import _trial

    start = "import devmod_webgpu._trial_process as it;it._STACK=1<<20;from {}"
    monkeypatch.setattr(worker, "_START", worker._START.replace("from {}", start))
    _trial._idle.end()


def create(text: str) -> devmod.Module:
    return devmod.create(
        "webgpu",
        {"k": text.encode()},
        "wgsl",
        {"k": devmod.FunctionInfo("k", [], interface=Interface())},
    )


def break_process_start(monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod import worker
    from devmod_webgpu import _trial

    def popen(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(_trial, "_idle", worker.IdleWorkers(2))
    monkeypatch.setattr(subprocess, "Popen", popen)


def message_of(module: devmod.Module) -> str:
    error = raised(devmod.CompileError, module.get_function, "k")
    assert (error.kind, error.function) == ("webgpu", "k")
    return str(error)


@pytest.mark.usefixtures("small_stack")
def test_a_shader_that_crashes_naga_does_not_crash_this_process(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        f"the webgpu shader of 'k' crashes wgpu or the driver of {device}. A separate process compiled it first, so this process is not "
        "affected. Change the shader: use simpler expressions, or avoid the construct that the log names"
    )
    module = create(CHAIN)
    assert message_of(module) == text
    break_process_start(monkeypatch)
    assert message_of(module) == text  # from the cache


def test_a_shader_that_passed_a_trial_starts_no_process(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_webgpu import _trial

    assert devmod.compile(SET.format(1), "webgpu", name="k").get_function("k")
    break_process_start(monkeypatch)
    assert devmod.compile(SET.format(1), "webgpu", name="k").get_function("k")
    monkeypatch.setattr(_trial, "_tried", set())  # as in another process
    assert devmod.compile(SET.format(1), "webgpu", name="k").get_function("k")


@pytest.mark.usefixtures("small_stack")
def test_a_shader_with_images_is_tried_with_its_layouts(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_webgpu import _trial

    requests = []
    trial = _trial._Process.compile
    monkeypatch.setattr(
        _trial._Process,
        "compile",
        lambda self, request: requests.append(request) or trial(self, request),
    )
    text = (
        "@group(0) @binding(0) var t: texture_2d<u32>; @group(0) @binding(1) var s: sampler; @group(0) @binding(2) var o: "
        "texture_storage_2d<rgba8uint, write>; @compute @workgroup_size(1) fn k() { textureStore(o, vec2(0, 0), textureGather(0, t, s, vec2f())); "
    )
    if "subgroups" in device.features:
        text = f"enable subgroups; {text}"
    module = devmod.compile(f"{text} }}", "webgpu")
    assert module.get_function("k")
    assert requests[0]["groups"] == [
        [
            (0, "texture", {"sample_type": "uint", "view_dimension": "2d"}),
            (1, "sampler", {"type": "non-filtering"}),
            (
                2,
                "storage_texture",
                {"format": "rgba8uint", "access": "write-only", "view_dimension": "2d"},
            ),
        ]
    ]
    assert message_of(
        devmod.create(
            "webgpu",
            {"k": f"{text} _ = c0; }} {CHAIN.partition('}')[2]}".encode()},
            "wgsl",
            module.functions,
        )
    ).startswith("the webgpu shader of 'k' crashes wgpu or the driver")


def test_one_process_serves_many_shaders(device: Any) -> None:
    from devmod_webgpu import _trial

    pids = []
    for number in range(3):
        assert devmod.compile(SET.format(number), "webgpu", name="k").get_function("k")
        pids.append(_trial._idle._workers[-1][1].process.pid)
    assert len(set(pids)) == 1


def test_a_process_that_was_killed_is_replaced(device: Any) -> None:
    from devmod_webgpu import _trial

    assert devmod.compile(SET.format(10), "webgpu", name="k").get_function("k")
    for _, each in _trial._idle._workers:
        each.process.kill()
    assert devmod.compile(SET.format(11), "webgpu", name="k").get_function("k")


#: Prints for each new process whether this one has loaded the driver before.
FIRST_USE = f"""
import sys, devmod
from devmod import Interface
from devmod_webgpu import _trial

start = _trial._Process.__init__
_trial._Process.__init__ = lambda self: (print("devmod_webgpu._driver" in sys.modules), start(self))[1]
code = {{"k": {SET.format(21).encode()!r}}}
module = devmod.create("webgpu", code, "wgsl", {{"k": devmod.FunctionInfo("k", [], interface=Interface())}})
try:
    module.get_function("k")
except devmod.FormatError:  # its interface has no argument
    print(len(_trial._idle._workers))
"""


def test_the_process_for_a_new_text_starts_before_the_driver_is_loaded(device: Any) -> None:
    assert run_python(FIRST_USE, DEVMOD_PLUGINS_ALLOW="devmod-webgpu") == "False\n1\n"


def test_a_process_that_ends_before_its_first_shader_is_replaced(device: Any) -> None:
    from devmod_webgpu import _trial

    _trial._idle.end()
    for _ in range(2):  # the second does nothing
        _trial.expect(SET.format(22))
    ((_, process),) = _trial._idle._workers
    process.kill()
    assert devmod.compile(SET.format(22), "webgpu", name="k").get_function("k")
    assert _trial._idle._workers != [("", process)]


def test_the_error_if_no_process_can_be_started(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_process_start(monkeypatch)
    module = devmod.compile(SET.format(20), "webgpu", name="k")
    assert message_of(module) == (
        "the webgpu shader of 'k' was not loaded: devmod builds a new shader in another process first, and [Errno 1] Operation not permitted. "
        "If you trust the shader, set DEVMOD_WEBGPU_TRIAL=0 to build it in this process only"
    )
    monkeypatch.setenv("DEVMOD_WEBGPU_TRIAL", "0")
    assert module.get_function("k")


def test_an_interrupted_trial_stops_its_process(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_webgpu import _trial

    assert devmod.compile(SET.format(30), "webgpu", name="k").get_function("k")
    module = devmod.compile(SET.format(31), "webgpu", name="k")
    with monkeypatch.context() as patch:

        def interrupted(line: bytes) -> None:
            raise KeyboardInterrupt

        patch.setattr(_trial.json, "loads", interrupted)  # the answer is read, but not used
        with pytest.raises(KeyboardInterrupt):
            module.get_function("k")
    assert _trial._idle._workers == []
    assert module.get_function("k")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_forked_process_does_not_use_its_parents_process(device: Any) -> None:
    from devmod_webgpu import _trial

    assert devmod.compile(SET.format(40), "webgpu", name="k").get_function("k")
    assert _trial._idle._workers
    process = _trial._idle._workers[-1][1]
    child = os.fork()
    if not child:
        os._exit(
            len(_trial._idle._workers)
            + 2 * (not process._requests.closed)
            + 4 * (not process._printed.closed)
        )
    assert os.waitpid(child, 0)[1] == 0
    assert devmod.compile(SET.format(41), "webgpu", name="k").get_function("k")


#: Starts a process for a text, stops it when it is ready, and forks.
KILLED = """
import os, signal, sys
from devmod_webgpu import _trial
_trial.expect("a text")
((_, worker),) = _trial._idle._workers
worker.answer()
os.kill(worker.process.pid, signal.SIGSTOP)  # it does not end by itself after a while
if os.fork() == 0: sys.stdin.read(); os._exit(0)
print(worker.process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"),
    reason="a stopped process ends with this one on Linux alone",
)
def test_a_trial_ends_with_a_killed_process_whose_fork_remains(device: Any) -> None:
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", KILLED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        state = Path(f"/proc/{process.stdout.readline().strip()}/stat")
        assert state.exists()
        process.kill()
        for _ in range(12000):
            if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
            time.sleep(0.01)
    raise AssertionError("the process runs after two minutes")
