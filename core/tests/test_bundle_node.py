"""`bundle` nodes: the choice of a candidate, and the errors without one."""

from __future__ import annotations

import threading
import traceback
from typing import Any

import numpy as np
import pytest
from candidates import (
    INFO,
    FakeDevice,
    Loaded,
    Register,
    Runtime,
    chosen,
    loaded,
    made,
    missing,
    ptx,
)
from each_case import raised, refusal

import devmod

# -- what a bundle is


def test_a_bundle_has_the_functions_of_all_its_candidates() -> None:
    first, second = made("cuda", "f", "g"), made("opencl", "g", "h")
    node = devmod.bundle(first, devmod.bundle(second), first)
    assert (node.kind, node.format, node.property_mask) == ("bundle", "", 2)
    assert list(node.functions) == ["f", "g", "h"]
    assert [each.kind for each in node.imports] == ["cuda", "bundle", "cuda"]
    assert repr(node) == "<BundleModule bundle: f, g, h>"


def test_the_error_for_an_unknown_function_lists_the_functions() -> None:
    assert (
        refusal(
            devmod.FunctionNotFoundError,
            loaded(made("cuda", "scale"), made("opencl", "add")).get_function,
            "scael",
        )
        == "the bundle module has no function 'scael'; it has: 'scale', 'add'. Did you mean 'scale'?"
    )


# -- which one


def test_the_first_installed_candidate_is_chosen(register: Register) -> None:
    module = loaded(made("cuda"), made("opencl"), made("webgpu"))
    Runtime(register, "webgpu", "")
    assert chosen(module) == "webgpu"
    Runtime(register, "opencl", "")
    assert chosen(loaded(made("cuda"), made("opencl"), made("webgpu"))) == "opencl"


def test_only_modules_with_the_function_are_candidates(register: Register) -> None:
    for kind in ("cuda", "opencl"):
        Runtime(register, kind, "")
    assert chosen(loaded(made("cuda", "g"), made("opencl", "f"))) == "opencl"


def test_prefer_and_the_environment_change_the_order_of_kinds(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = ("rocm", "opencl", "webgpu")
    for kind in kinds:
        Runtime(register, kind, "")
    modules = [made(kind) for kind in kinds]
    assert chosen(loaded(*modules)) == "rocm"
    assert chosen(loaded(*modules, prefer=("vulkan", "webgpu", "opencl"))) == "webgpu"
    assert chosen(loaded(*modules, prefer="opencl, webgpu")) == "opencl"
    module = loaded(*modules)
    monkeypatch.setenv("DEVMOD_PREFER", " webgpu ,opencl,")
    assert chosen(module) == "webgpu"
    assert chosen(loaded(*modules, prefer=["opencl"])) == "opencl"
    monkeypatch.setenv("DEVMOD_PREFER", "opencl")
    assert chosen(module) == "opencl"
    monkeypatch.delenv("DEVMOD_PREFER")
    assert chosen(module) == "rocm"


def test_prefer_applies_to_nested_bundles(register: Register) -> None:
    for kind in ("cuda", "opencl"):
        Runtime(register, kind, "sm_90")
    root = made("metal", "g")
    root.import_module(devmod.bundle(made("cuda"), made("opencl")))
    module = devmod.loads(devmod.dumps(root), prefer=("opencl",))
    assert module.get_function("f", query_imports=True)()[0] == "opencl"


def test_prefer_is_a_sequence_of_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    data = devmod.dumps(made("cuda"))
    values: tuple[Any, ...] = ((1,), 3, 0, None, b"cuda")
    for value in values:
        assert refusal(devmod.FormatError, devmod.loads, data, prefer=value) == (
            f"prefer is a sequence of kinds such as ('cuda', 'opencl'), not {value!r}"
        )
    assert (
        refusal(devmod.FormatError, devmod.loads, devmod.dumps(made("cuda")), prefer=("openCL",))
        == "prefer has 'openCL', which is not a kind. Did you mean 'opencl'?"
    )
    monkeypatch.setenv("DEVMOD_PREFER", "cuda,open-cl")
    assert (
        refusal(devmod.FormatError, loaded(made("cuda"), made("opencl")).get_function, "f")
        == "DEVMOD_PREFER has 'open-cl', which is not a kind"
    )


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("arch", "wanted"),
    [
        ("sm_80", "sm_75"),
        ("sm_75", "sm_75"),
        ("sm_90", "sm_90"),
        ("sm_120", "sm_90"),
        ("sm_70", "sm_50"),
    ],
)
def test_within_a_kind_the_best_variant_is_chosen(
    register: Register, arch: str, wanted: str
) -> None:
    Runtime(register, "cuda", arch)
    module = loaded(ptx("sm_90"), ptx("sm_50"), ptx("sm_75"))
    assert f".target {wanted}\n".encode() in module.get_function("f")()[2]


@pytest.mark.row("R40")
def test_a_variant_that_fits_no_device_is_not_loaded(register: Register) -> None:
    runtime = Runtime(register, "cuda", "sm_70", "sm_75")
    other = Runtime(register, "opencl", "")
    assert chosen(loaded(ptx("sm_90"), made("opencl"))) == "opencl"
    assert (runtime.loaded, len(other.loaded)) == ([], 1)


def test_an_unreadable_variant_comes_last(register: Register) -> None:
    Runtime(register, "cuda", "sm_90")
    unread = devmod.create_with_fallback("cuda", b"junk", "ptx", {"f": INFO})
    assert b"sm_80" in loaded(unread, ptx("sm_80")).get_function("f")()[2]
    assert b"junk" in loaded(unread, ptx("sm_100")).get_function("f")()[2]


def test_the_first_device_that_any_variant_fits_decides(register: Register) -> None:
    Runtime(register, "cuda", "sm_50", "sm_80", "sm_90")
    assert b"sm_75" in loaded(ptx("sm_75"), ptx("sm_90")).get_function("f")()[2]


def toy(*variants: str) -> devmod.Module:
    """Return a module of shaders whose variants are numbers."""
    return devmod.create_with_fallback(
        "toy", {str(n): each.encode() for n, each in enumerate(variants)}, "t", {"f": INFO}
    )


@pytest.fixture
def toy_devices(register: Register) -> None:
    """A device of architecture 5. The rank of a variant is its number."""

    def rank(variant: str, arch: str) -> int | None:
        return None if int(variant) > int(arch) else int(variant)

    spec = devmod.TargetSpec(
        "toy",
        title="Toy",
        distribution="devmod-toy",
        formats=("t",),
        shader_map=True,
        rank=rank,
        architecture=lambda fmt, code: bytes(code).decode(),
    )
    register("devmod.targets", "toy", spec)
    Runtime(register, "toy", "5")


@pytest.mark.usefixtures("toy_devices")
@pytest.mark.parametrize(
    ("variants", "best"), [("01", b"1"), ("10", b"1"), ("012", b"2"), ("0", b"0")]
)
def test_the_lowest_ranks_are_ranks_too(variants: str, best: bytes) -> None:
    f = loaded(*map(toy, variants)).get_function("f")
    assert b"\xc4\x01" + best in f()[2]


@pytest.mark.row("R40")
@pytest.mark.usefixtures("toy_devices")
def test_a_map_of_shaders_fits_if_every_shader_fits() -> None:
    third = b"\xc4\x013"
    assert third in loaded(toy("1", "9"), toy("5", "1"), toy("3"), toy("")).get_function("f")()[2]
    assert refusal(
        devmod.DeviceNotFoundError, loaded(toy("9", "1"), toy("8")).get_function, "f"
    ) == (
        "no candidate of the bundle can run 'f' here:\n"
        "  1. toy/t for 1&9: no toy device fits 1&9; there is: 5\n"
        "  2. toy/t for 8: no toy device fits 8; there is: 5"
    )


def test_a_failing_architecture_reader_does_not_prevent_saving(
    register: Register, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def broken(fmt: str, code: object) -> str:
        raise IndexError("too short")

    spec = devmod.TargetSpec(
        "toy", title="Toy", distribution="devmod-toy", formats=("t",), architecture=broken
    )
    register("devmod.targets", "toy", spec)
    monkeypatch.setenv("DEVMOD_LOG", "debug")
    data = devmod.dumps(devmod.create_with_fallback("toy", b"x", "t", {}))
    assert b"variant" not in data
    assert (
        "devmod: the architecture of a toy/t payload could not be read: IndexError: too short\n"
        in capsys.readouterr().err
    )


def test_a_kind_without_an_entry_for_devices_fits_if_installed(register: Register) -> None:
    Runtime(register, "opencl", devices=False)
    assert chosen(loaded(made("cuda"), made("opencl"))) == "opencl"
    constants = devmod.const_loader({"w": b"1"}, {"f": ["w"]})
    (array,) = loaded(made("cuda"), constants).get_function("f")()
    assert bytes(memoryview(array)) == b"1"


def test_runtime_modules_may_be_candidates(register: Register) -> None:
    node = devmod.bundle(made("cuda"), Loaded("opencl", b"real"))
    assert node.get_function("f")() == ("opencl", "f", b"real")


def test_the_choice_is_cached(register: Register) -> None:
    runtime = Runtime(register, "opencl", "")
    module = loaded(made("cuda"), made("opencl"))
    for _ in range(3):
        module.get_function("f")
    assert (runtime.listed, len(runtime.loaded)) == (1, 1)


def test_an_added_candidate_is_considered(register: Register) -> None:
    Runtime(register, "opencl", "")
    node = devmod.bundle(made("opencl"))
    with pytest.raises(devmod.RuntimeNotLinkedError):
        node.get_function("f")
    node.import_module(devmod.loads(devmod.dumps(made("opencl"))))
    assert chosen(node) == "opencl"


def test_query_imports_searches_the_imports_of_candidates(register: Register) -> None:
    Runtime(register, "opencl", "")
    first, second = made("cuda", "other"), made("webgpu", "another")
    second.import_module(made("opencl", "f"))
    module = loaded(first, second)
    with pytest.raises(devmod.FunctionNotFoundError):
        module.get_function("f")
    assert module.get_function("f", query_imports=True)()[0] == "opencl"


def test_a_global_comes_from_the_first_usable_candidate(register: Register) -> None:
    tensor = np.arange(3, dtype="float32")
    constants = devmod.const_loader({"table": tensor}, {"__init__": ["table"]})
    bundle = loaded(made("metal"), made("cuda"), constants)
    assert bundle.get_global("table").numpy().tolist() == [0, 1, 2]
    Runtime(register, "cuda")
    assert refusal(devmod.FunctionNotFoundError, bundle.get_global, "other") == (
        "no candidate of the bundle that can run here has a global 'other'; the const_loader module has no constant 'other'; it has: 'table'"
    )
    assert refusal(
        devmod.NotRegisteredError, loaded(made("metal"), made("vulkan")).get_global, "table"
    ).startswith("no candidate of the bundle can run 'table' here:\n  1. metal/metal: ")


@pytest.mark.row("R32")
def test_many_threads_resolve_and_load_once(register: Register) -> None:
    runtime = Runtime(register, "opencl", "")
    module = loaded(made("cuda"), made("opencl"))
    barrier = threading.Barrier(32)
    found = []

    def ask() -> None:
        barrier.wait()
        found.append(module.get_function("f")())

    threads = [threading.Thread(target=ask) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 32
    assert len(set(found)) == 1
    assert len(runtime.loaded) == 1


# -- skipped candidates, and errors that are raised


@pytest.mark.row("R8")
def test_a_broken_runtime_is_skipped(register: Register) -> None:
    def cannot_list() -> list[FakeDevice]:
        raise ImportError("libcuda is not there")

    register("devmod.load_from_bytes", "cuda", lambda data: "no module")
    register("devmod.load_from_bytes", "rocm", Loaded)
    register("devmod.device", "rocm", cannot_list)
    Runtime(register, "opencl", "")
    assert chosen(loaded(made("cuda"), made("rocm"), made("opencl"))) == "opencl"


def test_an_error_of_the_chosen_candidate_is_raised(register: Register) -> None:
    runtime = Runtime(register, "cuda", "sm_90")
    other = Runtime(register, "opencl", "")
    runtime.fails = devmod.CompileError("bad source", log="line 1")
    module = loaded(made("cuda"), made("opencl"))
    error = raised(devmod.CompileError, module.get_function, "f")
    assert error is runtime.fails
    assert other.loaded == []
    runtime.fails = None
    assert chosen(module) == "cuda"


@pytest.mark.row("R41")
def test_damage_of_the_chosen_candidate_is_raised(register: Register) -> None:
    Runtime(register, "cuda", "sm_90")
    Runtime(register, "opencl", "")
    data = bytearray(devmod.dumps(devmod.bundle(made("cuda", code=b"find me"), made("opencl"))))
    data[data.index(b"find me")] ^= 1
    with pytest.raises(
        devmod.FormatError, match=r"^the bundle in memory: the cuda module with 'f' is damaged: "
    ):
        devmod.loads(data).get_function("f")


@pytest.mark.row("R4", "R24")
def test_the_error_has_the_command_for_each_missing_candidate() -> None:
    error = raised(
        devmod.NotRegisteredError, lambda: loaded(ptx("sm_90"), made("opencl")).get_function("f")
    )
    assert str(error) == (
        "no candidate of the bundle can run 'f' here:\n"
        f"  1. cuda/ptx for {devmod.backend.find_spec('cuda').architecture('ptx', ptx('sm_90').code)}: {missing('cuda')}\n"
        f"  2. opencl/cl: {missing('opencl')}"
    )
    assert (error.kind, error.function) == ("bundle", "f")


@pytest.mark.row("R25")
def test_the_error_names_fallbacks(register: Register) -> None:
    assert refusal(
        devmod.RuntimeNotLinkedError,
        devmod.bundle(made("cuda"), devmod.loads(devmod.dumps(made("opencl")))).get_function,
        "f",
    ) == (
        "no candidate of the bundle can run 'f' here:\n"
        "  1. cuda/cuda: a fallback, made while the runtime was not installed; pip install devmod-cuda\n"
        f"  2. opencl/cl: {missing('opencl')}"
    )


def test_the_error_names_candidates_without_a_device(register: Register) -> None:
    def no_driver() -> list[FakeDevice]:
        reason = "no OpenCL driver is installed: pip install 'devmod-opencl[pocl]'"
        raise devmod.DeviceNotFoundError(reason) from OSError("libOpenCL.so.1 cannot be opened")

    Runtime(register, "cuda")
    Runtime(register, "opencl", devices=False)
    register("devmod.device", "opencl", no_driver)
    error = raised(
        devmod.DeviceNotFoundError,
        lambda: loaded(made("cuda"), made("opencl"), made("webgpu")).get_function("f"),
    )
    assert str(error) == (
        "no candidate of the bundle can run 'f' here:\n"
        "  1. cuda/cuda: the cuda runtime is installed, and there is no cuda device\n"
        "  2. opencl/cl: no OpenCL driver is installed: pip install 'devmod-opencl[pocl]'\n"
        f"  3. webgpu/wgsl: {missing('webgpu')}"
    )
    # That of the caller, with all reasons.
    assert "".join(traceback.format_exception(error)).count("Traceback") == 1


@pytest.mark.row("R8")
def test_the_error_class_for_a_broken_runtime(register: Register) -> None:
    def broken() -> list[FakeDevice]:
        raise ImportError("libcuda is not there")

    register("devmod.load_from_bytes", "cuda", Loaded)
    register("devmod.device", "cuda", broken)
    error = raised(
        devmod.PluginError, lambda: loaded(made("opencl"), made("cuda")).get_function("f")
    )
    assert str(error) == (
        "no candidate of the bundle can run 'f' here:\n"
        f"  1. opencl/cl: {missing('opencl')}\n"
        "  2. cuda/cuda: devmod.device.cuda, registered in this process, failed: ImportError: libcuda is not there"
    )
    assert isinstance(error.__cause__, devmod.PluginError)
    assert isinstance(error.__cause__.__cause__, ImportError)


def test_the_log_has_the_choice_and_its_reason(
    register: Register, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    Runtime(register, "opencl", "pocl-cpu")
    module = loaded(made("cuda"), made("opencl"))
    module.get_function("f")
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("DEVMOD_LOG", "debug")
    loaded(made("cuda"), made("opencl")).get_function("f")
    assert (
        f"devmod: 'f' of the bundle resolves to opencl/cl: it fits opencl device 0; skipped cuda/cuda ({missing('cuda')})\n"
    ) in capsys.readouterr().err
    Runtime(register, "cuda", "sm_90", "sm_80")
    loaded(ptx("sm_80"), made("opencl")).get_function("f")
    assert "devmod: 'f' of the bundle resolves to cuda/ptx for " in (
        said := capsys.readouterr().err
    )
    assert ": it fits cuda device 0, sm_90\n" in said
