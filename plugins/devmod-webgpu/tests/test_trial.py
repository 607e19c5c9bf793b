"""Trials: a separate process compiles a new shader first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from backend_checks import run_python

import devmod
from devmod import Interface

SET = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n@compute @workgroup_size(1) fn k() {{ x[0] = {}u; }}"
#: naga recurses along the chain of constants, and overflows its stack.
CHAIN = (
    "@compute @workgroup_size(1) fn k() { _ = c0; }\n" + "".join(f"const c{n} = c{n + 1};\n" for n in range(30_000)) + "const c30000 = 1;\n"
)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Any) -> None:
    """Use an empty cache of trials."""
    from devmod_webgpu import _trial

    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DEVMOD_WEBGPU_TRIAL", raising=False)
    monkeypatch.setattr(_trial, "_tried", set())


def create(text: str) -> devmod.Module:
    return devmod.create("webgpu", {"k": text.encode()}, "wgsl", {"k": devmod.FunctionInfo("k", [], interface=Interface())})


def break_process_start(monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod import worker
    from devmod_webgpu import _trial

    def popen(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(_trial, "_idle", [])
    monkeypatch.setattr(worker.subprocess, "Popen", popen)


def message_of(module: devmod.Module) -> str:
    with pytest.raises(devmod.CompileError) as caught:
        module.get_function("k")
    assert (caught.value.kind, caught.value.function) == ("webgpu", "k")
    return str(caught.value)


def test_a_shader_that_crashes_naga_does_not_crash_this_process(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        f"the webgpu shader of 'k' crashes wgpu or the driver of {device}. A separate process compiled it first, so this process is not "
        "affected. Change the shader: use simpler expressions, or avoid the construct that the log names"
    )
    module = create(CHAIN)
    assert message_of(module) == text
    break_process_start(monkeypatch)
    assert message_of(module) == text  # from the cache


def test_a_shader_that_passed_a_trial_starts_no_process(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod_webgpu import _trial

    assert devmod.compile(SET.format(1), "webgpu", name="k").get_function("k")
    break_process_start(monkeypatch)
    assert devmod.compile(SET.format(1), "webgpu", name="k").get_function("k")
    monkeypatch.setattr(_trial, "_tried", set())  # as in another process
    assert devmod.compile(SET.format(1), "webgpu", name="k").get_function("k")


def test_a_shader_with_images_is_tried_with_its_layouts(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod_webgpu import _trial

    requests = []
    ask = _trial._Process.ask
    monkeypatch.setattr(_trial._Process, "ask", lambda self, request: requests.append(request) or ask(self, request))
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
            (2, "storage_texture", {"format": "rgba8uint", "access": "write-only", "view_dimension": "2d"}),
        ]
    ]
    assert message_of(
        devmod.create("webgpu", {"k": f"{text} _ = c0; }} {CHAIN.partition('}')[2]}".encode()}, "wgsl", module.functions)
    ).startswith("the webgpu shader of 'k' crashes wgpu or the driver")


def test_one_process_serves_many_shaders(device: Any) -> None:
    from devmod_webgpu import _trial

    pids = []
    for number in range(3):
        assert devmod.compile(SET.format(number), "webgpu", name="k").get_function("k")
        pids.append(_trial._idle[-1].process.pid)
    assert len(set(pids)) == 1


def test_a_process_that_was_killed_is_replaced(device: Any) -> None:
    from devmod_webgpu import _trial

    assert devmod.compile(SET.format(10), "webgpu", name="k").get_function("k")
    for each in _trial._idle:
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
    print(len(_trial._idle))
"""


def test_the_process_for_a_new_text_starts_before_the_driver_is_loaded(device: Any) -> None:
    assert run_python(FIRST_USE, DEVMOD_PLUGINS_ALLOW="devmod-webgpu") == "False\n1\n"


def test_a_process_that_ends_before_its_first_shader_is_replaced(device: Any) -> None:
    from devmod_webgpu import _trial

    _trial._stop_all()
    for _ in range(2):  # the second does nothing
        _trial.expect(SET.format(22))
    (process,) = _trial._idle
    process.kill()
    assert devmod.compile(SET.format(22), "webgpu", name="k").get_function("k")
    assert _trial._idle != [process]


def test_the_error_if_no_process_can_be_started(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    break_process_start(monkeypatch)
    module = devmod.compile(SET.format(20), "webgpu", name="k")
    assert message_of(module) == (
        "the webgpu shader of 'k' was not loaded: devmod builds a new shader in another process first, and [Errno 1] Operation not permitted. "
        "If you trust the shader, set DEVMOD_WEBGPU_TRIAL=0 to build it in this process only"
    )
    monkeypatch.setenv("DEVMOD_WEBGPU_TRIAL", "0")
    assert module.get_function("k")


def test_an_interrupted_trial_stops_its_process(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from devmod_webgpu import _trial

    assert devmod.compile(SET.format(30), "webgpu", name="k").get_function("k")
    module = devmod.compile(SET.format(31), "webgpu", name="k")
    with monkeypatch.context() as patch:

        def interrupted(line: bytes) -> None:
            raise KeyboardInterrupt

        patch.setattr(_trial.json, "loads", interrupted)  # the answer is read, but not used
        with pytest.raises(KeyboardInterrupt):
            module.get_function("k")
    assert _trial._idle == []
    assert module.get_function("k")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_forked_process_does_not_use_its_parents_process(device: Any) -> None:
    from devmod_webgpu import _trial

    assert devmod.compile(SET.format(40), "webgpu", name="k").get_function("k")
    assert _trial._idle
    process = _trial._idle[-1]
    child = os.fork()
    if not child:
        os._exit(len(_trial._idle) + 2 * (not process._requests.closed) + 4 * (not process._printed.closed))
    assert os.waitpid(child, 0)[1] == 0
    assert devmod.compile(SET.format(41), "webgpu", name="k").get_function("k")
