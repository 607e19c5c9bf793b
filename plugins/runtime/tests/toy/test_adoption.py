"""`devmod.device` with an object of another library: the group ``devmod.adopt``."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import toy_backend as toy
from distributions import install
from each_case import raised, refusal

import devmod

pytestmark = pytest.mark.row("R57")

Register = Callable[..., None]
KIND = "device: expected a kind such as 'opencl', or an object that a backend adopts, got "


class Queue:
    """A queue of another library."""

    __module__ = "acme.queues"


class UnboundProxy:
    """A proxy for what this context does not have, such as Werkzeug's."""

    __module__ = "acme.proxies"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is outside of a context")


class NewQueue(Queue):
    """A class that the other library derives."""


def library(name: str, *classes: str) -> Any:
    """Return a stand-in for a module of a library with these classes."""
    module: Any = ModuleType(name)
    for each in classes:
        setattr(module, each, type(each, (), {"__module__": name}))
    return module


def adopt(handle: object) -> devmod.Device | None:
    """Return a new toy device for a Queue."""
    if not isinstance(handle, Queue):
        return None
    device: devmod.Device = toy.ToyDevice(7)
    return device


def test_the_backend_of_an_object_adopts_it(
    register: Register, devices: list[toy.ToyDevice]
) -> None:
    handles = []

    def other(handle: object) -> None:
        handles.append(handle)

    register("devmod.adopt", "another", other)
    register("devmod.adopt", "toy", adopt)
    queue = NewQueue()
    device = devmod.device(queue)
    assert (type(device), device.index) == (toy.ToyDevice, 7)
    assert handles == [queue]


def test_core_keeps_neither_the_object_nor_the_device(register: Register) -> None:
    register("devmod.adopt", "toy", adopt)
    queue = Queue()
    device = devmod.device(queue)
    references: list[weakref.ref[Any]] = [weakref.ref(queue), weakref.ref(device)]
    del queue, device
    gc.collect()
    assert [each() for each in references] == [None, None]


def test_an_index_beside_an_object_is_an_error(register: Register) -> None:
    register("devmod.adopt", "toy", lambda handle: pytest.fail("the backend is asked"))
    error = raised(devmod.ArgumentError, lambda: devmod.device(Queue(), 1))
    assert (str(error), error.argument) == (
        "device: a Queue of acme is one device; omit the index 1",
        "index",
    )


def test_an_object_that_no_backend_adopts(register: Register) -> None:
    cases = {
        "None": None,
        "3": 3,
        "a bytes": b"toy",
        "a list": ["toy"],
        "a Queue of acme": Queue(),
        "an UnboundProxy of acme": UnboundProxy(),
    }
    for what, handle in cases.items():
        error = raised(devmod.ArgumentError, lambda handle=handle: devmod.device(handle))
        assert str(error) == f"{KIND}{what}. No installed backend adopts objects"
        assert error.argument == "kind"

    register("devmod.adopt", "toy", adopt)
    register("devmod.adopt", "opencl", adopt)
    register(
        "devmod.targets",
        "another",
        devmod.TargetSpec(
            "another",
            title="Another",
            distribution="devmod-another",
            formats=["x"],
            handles={"one": ["Queue", "Stream"], "two": ["Context"]},
        ),
    )
    register("devmod.adopt", "another", adopt)
    assert refusal(devmod.ArgumentError, devmod.device, 3) == (
        f"{KIND}3. The backends that adopt objects: another (Queue, Stream of one; Context of two), "
        "opencl (CommandQueue, Context, Device of pyopencl), toy"
    )


@pytest.mark.parametrize(
    ("package", "name", "title", "kind"),
    [
        ("pyopencl._cl", "CommandQueue", "OpenCL", "opencl"),
        ("wgpu.backends.wgpu_native._api", "GPUDevice", "WebGPU", "webgpu"),
    ],
)
def test_an_object_whose_wheel_is_missing_has_its_command(
    register: Register, package: str, name: str, title: str, kind: str
) -> None:
    module = library(package, name, "Other")
    derived = type("Mine", (getattr(module, name),), {})
    for handle in (getattr(module, name)(), derived()):
        error = raised(devmod.NotRegisteredError, lambda handle=handle: devmod.device(handle))
        assert str(error) == (
            f"devmod.adopt.{kind} is not registered: the {title} runtime is not installed. To add it: pip install devmod-{kind}"
        )
        assert (error.kind, error.distribution) == (kind, f"devmod-{kind}")
    top = package.partition(".")[0]
    text = refusal(devmod.ArgumentError, devmod.device, module.Other())
    assert text == f"{KIND}an Other of {top}. No installed backend adopts objects"
    # The runtime is there, and does not adopt this object.
    register("devmod.adopt", kind, lambda handle: None)
    text = refusal(devmod.ArgumentError, devmod.device, getattr(module, name)())
    assert text.startswith(f"{KIND}a {name} of {top}. The backends that adopt objects: {kind} (")


@pytest.mark.row("R8")
def test_an_entry_that_returns_something_else_is_broken(
    register: Register, devices: list[toy.ToyDevice]
) -> None:
    results: list[object] = []
    register("devmod.adopt", "another", lambda handle: results[-1])
    for result, found in (
        (3, "int"),
        ([devices[0]], "list"),
        (devices[0], "a device of kind 'toy'"),
    ):
        results.append(result)
        assert refusal(devmod.PluginError, devmod.device, Queue()) == (
            f"devmod.adopt.another is broken: the function registered in this process returned {found}, not a devmod.Device of kind 'another'"
        )


@pytest.mark.row("R8")
def test_the_errors_of_an_entry_pass_through(register: Register) -> None:
    errors: list[Exception] = []

    def fail(handle: object) -> None:
        raise errors[-1]

    register("devmod.adopt", "toy", fail)
    errors.append(devmod.ArgumentError("the queue is of no device here"))
    assert raised(devmod.ArgumentError, lambda: devmod.device(Queue())) is errors[0]
    errors.append(OSError("no driver"))
    assert raised(OSError, lambda: devmod.device(Queue())) is errors[1]


@pytest.mark.row("R8")
def test_a_broken_backend_hides_no_other_one(
    register: Register, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    install(
        site,
        "acme-broken",
        groups={"devmod.adopt": {"broken": "acme_broken:adopt"}},
        modules={"acme_broken": "raise RuntimeError('it is broken')"},
    )
    monkeypatch.delenv("DEVMOD_PLUGINS_ALLOW", raising=False)
    monkeypatch.syspath_prepend(str(site))
    error = raised(devmod.PluginError, lambda: devmod.device(Queue()))
    assert str(error).startswith(
        "devmod.adopt.broken is broken: acme-broken 1.0: importing acme_broken failed (RuntimeError: it is broken)"
    )
    register("devmod.adopt", "toy", adopt)
    assert devmod.device(Queue()).kind == "toy"
