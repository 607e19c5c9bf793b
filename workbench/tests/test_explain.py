"""`devmod.explain` and `devmod inspect --here`: the candidate that a call gets, and why the others
are refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from candidates import INFO, FakeDevice, Register, Runtime, chosen, loaded, made, missing, ptx
from command_line import call
from each_case import check_texts, refusal

import devmod

THERE = "; a compiler there builds it before its first launch"


def outcomes(
    explanation: devmod.Explanation, name: str = "f"
) -> list[tuple[str, str, str, str, str]]:
    return [
        (each.outcome, each.name, each.device, each.reason, each.text)
        for each in explanation.functions[name]
    ]


def test_every_candidate_has_an_outcome_and_a_reason(register: Register) -> None:
    module = loaded(ptx("sm_90"), ptx("sm_75"), ptx("sm_80"), made("rocm"), made("opencl"))
    Runtime(register, "cuda", "sm_80")
    Runtime(register, "opencl", "")
    explanation = devmod.explain(module)
    assert outcomes(explanation) == [
        (
            "best",
            "cuda/ptx for compute_80:ptx8.0",
            "cuda:0",
            "",
            "it fits cuda device 0, sm_80" + THERE,
        ),
        (
            "fits",
            "cuda/ptx for compute_75:ptx8.0",
            "cuda:0",
            "",
            "it fits cuda device 0, sm_80" + THERE,
        ),
        ("fits", "opencl/cl", "opencl:0", "", "it fits opencl device 0" + THERE),
        (
            "refused",
            "cuda/ptx for compute_90:ptx8.0",
            "",
            "no device",
            "no cuda device fits compute_90:ptx8.0; there is: sm_80",
        ),
        ("refused", "rocm/hsaco", "", "not installed", missing("rocm")),
    ]
    best = explanation.best("f")
    assert best is not None
    assert best.kind == chosen(module)


def test_the_text_is_a_table(register: Register) -> None:
    Runtime(register, "opencl", "")
    assert str(devmod.explain(loaded(made("rocm"), made("opencl")), "f")) == (
        f"f on this machine:\n  best     opencl/cl   it fits opencl device 0{THERE}\n  refused  rocm/hsaco  {missing('rocm')}"
    )


def test_what_a_machine_lacks_is_printed_once(register: Register) -> None:
    Runtime(register, "opencl", "")
    Runtime(register, "cuda")
    module = loaded(made("opencl", "f", "g"), made("rocm", "f", "g"), ptx("sm_75"), ptx("sm_80"))
    lines = str(devmod.explain(module)).splitlines()
    cuda = "the cuda runtime is installed, and there is no cuda device"
    assert [
        line.partition("  ")[2].split(maxsplit=1)[0] + " " + line.rpartition("  ")[2]
        for line in lines
        if line.startswith("  ")
    ] == [
        f"best it fits opencl device 0{THERE}",
        f"refused {missing('rocm')}",
        f"refused {cuda}",
        "refused as above",
        f"best it fits opencl device 0{THERE}",
        "refused as above",
    ]
    assert [each.text for each in devmod.explain(module).functions["g"]][1:] == [missing("rocm")]
    assert refusal(
        devmod.DeviceNotFoundError,
        loaded(ptx("sm_75"), made("rocm"), ptx("sm_80")).get_function,
        "f",
    ).splitlines()[1:] == [
        f"  1. cuda/ptx for compute_75:ptx8.0: {cuda}",
        "  2. cuda/ptx for compute_80:ptx8.0: as above",
        f"  3. rocm/hsaco: {missing('rocm')}",
    ]


def test_a_described_device_needs_no_runtime_and_no_driver() -> None:
    explanation = devmod.explain(
        loaded(made("opencl"), ptx("sm_90"), ptx("sm_75")), "f", device="cuda:sm_80"
    )
    assert explanation.device == "cuda:sm_80"
    assert [
        (each.outcome, each.variant, each.reason, each.text) for each in explanation.functions["f"]
    ] == [
        ("best", "compute_75:ptx8.0", "", "it fits cuda:sm_80" + THERE),
        ("refused", "", "other kind", "it is for opencl"),
        ("refused", "compute_90:ptx8.0", "no device", "cuda:sm_80 does not run compute_90:ptx8.0"),
    ]


def test_a_device_of_this_machine_is_compared_alone(register: Register) -> None:
    Runtime(register, "cuda", "sm_80", "sm_90")
    module = loaded(ptx("sm_75"), ptx("sm_90"))
    for device in ("cuda:1", devmod.device("cuda", 1)):
        explanation = devmod.explain(module, device=device)
        best = explanation.best("f")
        assert best is not None
        assert (explanation.device, best.device, best.variant) == (
            "cuda:1",
            "cuda:1",
            "compute_90:ptx8.0",
        )


@pytest.mark.row("R40")
def test_needs_are_reasons(register: Register) -> None:
    class Small(FakeDevice):
        features = frozenset({"fp16"})

    info = devmod.FunctionInfo(
        "k",
        ["handle"],
        interface=devmod.Interface([devmod.Param("x", "buffer", "float64")], needs=("fp64",)),
    )
    module = loaded(devmod.create_with_fallback("opencl", b"k", "cl", {"f": info}), made("cuda"))
    Runtime(register, "opencl", "", devices=False)
    register("devmod.device", "opencl", lambda: [Small("opencl", 0, "")])
    Runtime(register, "cuda", "sm_80")
    explanation = devmod.explain(module)
    assert [(each.kind, each.outcome, each.reason) for each in explanation.functions["f"]] == [
        ("cuda", "best", ""),
        ("opencl", "refused", "no device"),
    ]
    assert explanation.functions["f"][1].text.startswith("needs fp64, which ")
    assert chosen(module) == "cuda"


def test_a_function_without_an_interface_is_unknown(
    register: Register, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Runtime(register, "opencl", "")
    Runtime(register, "cuda", "sm_80")
    bare = {"f": devmod.FunctionInfo("k", ["handle"])}
    file = tmp_path / "k.devmod"
    devmod.save(
        devmod.bundle(devmod.create_with_fallback("opencl", b"k", "cl", bare), ptx("sm_80")), file
    )
    explanation = devmod.explain(devmod.load_from_file(file))
    assert outcomes(explanation) == [
        (
            "unknown",
            "opencl/cl",
            "opencl:0",
            "",
            "opencl:0 decides: the function has no interface, so only its payload has what it needs"
            + THERE,
        ),
        (
            "fits",
            "cuda/ptx for compute_80:ptx8.0",
            "cuda:0",
            "",
            "it fits cuda device 0, sm_80" + THERE,
        ),
    ]
    assert explanation.best("f") == explanation.functions["f"][0]
    code, out, _ = run(capsys, file, "--here", "--json")
    assert (code, [each["outcome"] for each in json.loads(out)["functions"]["f"]]) == (
        0,
        ["unknown", "fits"],
    )


def test_nothing_is_loaded(register: Register) -> None:
    runtime = Runtime(register, "opencl", "")
    devmod.explain(loaded(made("opencl"), made("cuda")))
    assert runtime.loaded == []


def test_a_module_that_is_no_bundle_has_one_candidate() -> None:
    explanation = devmod.explain(made("cuda", "f", "g"))
    assert list(explanation.functions) == ["f", "g"]
    assert [each.outcome for each in explanation.functions["g"]] == ["refused"]
    assert explanation.best("g") is None


def test_the_order_is_that_of_a_call(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    Runtime(register, "opencl", "")
    Runtime(register, "cuda", "sm_80")
    for prefer, variable in (((), ""), (("cuda",), ""), ((), "cuda,opencl")):
        monkeypatch.setenv("DEVMOD_PREFER", variable)
        module = loaded(made("opencl"), made("cuda"), prefer=prefer)
        best = devmod.explain(module).best("f")
        assert best is not None
        assert best.kind == chosen(module)


def test_a_wrong_description_is_an_error() -> None:
    check_texts(
        {
            "'sm_90' describes no device: it is an architecture of cuda; write 'cuda:sm_90'": "sm_90",
            "'gfx1100' describes no device: it is an architecture of rocm; write 'rocm:gfx1100'": "gfx1100",
            "'cuda:sm_x' describes no device: cuda has no architecture 'sm_x'": "cuda:sm_x",
            "'cuad:sm_80' describes no device. Did you mean 'cuda'?": "cuad:sm_80",
            "'hexagon:sm_80' describes no device: hexagon has no architecture 'sm_80'": "hexagon:sm_80",
            "'rocm:sm_80' describes no device: rocm has no architecture 'sm_80'": "rocm:sm_80",
            "'vulkan:typo' describes no device: vulkan has no architecture 'typo'": "vulkan:typo",
            "'opencl:typo' describes no device: opencl has no architectures. `devmod devices` lists the devices of this "
            "machine, such as opencl:0": "opencl:typo",
        },
        lambda device: refusal(devmod.ArgumentError, devmod.explain, made("cuda"), device=device),
    )


def test_unknown_functions_and_devices_are_errors(register: Register) -> None:
    assert (
        refusal(devmod.FunctionNotFoundError, devmod.explain, made("cuda", "scale"), "scael")
        == "the cuda module has no function 'scael'; it has: 'scale'. Did you mean 'scale'?"
    )
    Runtime(register, "opencl", "")
    with pytest.raises(devmod.DeviceNotFoundError):
        devmod.explain(made("opencl"), device="opencl:7")


# -- the command


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    return call(capsys, "inspect", *arguments)


def test_the_command_prints_the_table_and_fails_without_a_candidate(
    register: Register, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.devmod"
    devmod.save(devmod.bundle(made("opencl"), ptx("sm_80")), file)
    none = "A function without a candidate that can run there is an error: the exit status is 1.\n"
    assert run(capsys, file, "--device", "cuda:sm_75") == (
        1,
        "f on cuda:sm_75:\n"
        "  refused  opencl/cl                       it is for opencl\n"
        "  refused  cuda/ptx for compute_80:ptx8.0  cuda:sm_75 does not run compute_80:ptx8.0\n"
        + none,
        "",
    )
    Runtime(register, "opencl", "")
    for option in (["--here"], ["--device", "opencl:0"]):
        code, out, _ = run(capsys, file, "f", *option)
        assert (code, out.splitlines()[1]) == (
            0,
            f"  best     opencl/cl                       it fits opencl device 0{THERE}",
        )


def test_the_command_has_the_functions_that_are_named(
    register: Register, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.devmod"
    devmod.save(made("opencl", "f", "g", "h"), file)
    Runtime(register, "opencl", "")
    for names, shown in (((), ["f", "g", "h"]), (("h", "f"), ["h", "f"])):
        code, out, _ = run(capsys, file, *names, "--here")
        assert (
            code,
            [line.split()[0] for line in out.splitlines() if not line.startswith(" ")],
        ) == (0, shown)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--here", "--device", "cuda"], "expected --here or --device, got both"),
        (
            ["--here", "--verify"],
            "--verify shows the modules of FILE, and --here what runs. Give one of them",
        ),
        (
            ["--device", "cuda", "--source"],
            "--source shows the modules of FILE, and --device what runs. Give one of them",
        ),
        (
            ["f"],
            "FUNCTION 'f' needs --here, --device or --lengths: without them all of FILE is shown",
        ),
    ],
)
def test_options_that_exclude_each_other(
    options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "k.devmod", *options)
    assert (code, out, err.splitlines()[-1]) == (2, "", f"devmod: error: {text}")


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.devmod"
    devmod.save(ptx("sm_75"), file)
    code, out, _ = run(capsys, file, "--device", "cuda:sm_80", "--json")
    found: dict[str, Any] = {
        "kind": "cuda",
        "format": "ptx",
        "variant": "compute_75:ptx8.0",
        "outcome": "best",
        "compiles": True,
        "device": "cuda:sm_80",
        "reason": "",
        "text": "it fits cuda:sm_80" + THERE,
    }
    assert (code, json.loads(out)) == (0, {"device": "cuda:sm_80", "functions": {"f": [found]}})


def test_the_command_shows_each_device_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.devmod"
    devmod.save(ptx("sm_80"), file)
    devices = ["--device", "cuda:sm_75", "--device", "cuda:sm_80"]
    code, out, _ = run(capsys, file, *devices)
    assert (code, [line for line in out.splitlines() if line.startswith("f ")]) == (
        1,
        ["f on cuda:sm_75:", "f on cuda:sm_80:"],
    )
    code, out, _ = run(capsys, file, *devices, "--json")
    assert (code, [each["device"] for each in json.loads(out)]) == (1, ["cuda:sm_75", "cuda:sm_80"])


def test_the_command_reports_errors_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.devmod"
    devmod.save(devmod.create_with_fallback("opencl", b"k", "cl", {"f": INFO}), file)
    assert run(capsys, file, "g", "--here") == (
        1,
        "",
        "devmod: error: the opencl module has no function 'g'; it has: 'f'\n",
    )
