"""The runtime module: refused payloads, and machines without Metal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from each_case import raised, refusal
from metal_kernels import ADD, add_info, adder

import devmod

K = devmod.FunctionInfo("k", ["handle"])


def module_of(code: bytes, fmt: str = "metal", name: str = "k") -> devmod.Module:
    return devmod.create("metal", {"k": code}, fmt, {"k": devmod.FunctionInfo(name, ["handle"])})


@pytest.mark.row("R23", "R25")
@pytest.mark.skipif(sys.platform == "darwin", reason="this is a Mac")
def test_a_machine_without_metal(tmp_path: Path) -> None:
    program = """
import sys, devmod
m = devmod.create("metal", {"k": b"kernel void k(device float *x) {}"}, "metal", {"k": devmod.FunctionInfo("k", ["handle"])})
assert type(m).__name__ == "MetalModule", m
devmod.save(m, "k.devmod")
assert devmod.load("k.devmod").save_to_bytes() == m.save_to_bytes()
for ask in (lambda: m["k"], lambda: devmod.load("k.devmod")["k"], lambda: devmod.device("metal")):
    try: ask()
    except devmod.DeviceNotFoundError as error: print(error)
"""
    process = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert process.stderr == ""
    text = (
        f"Metal needs macOS, got {sys.platform}. This machine can compile, save, load and inspect metal modules. To run them, on a Mac: "
        "pip install devmod-metal\n"
    )
    assert process.stdout == text * 3


@pytest.mark.row("R40")
@pytest.mark.parametrize(
    ("fmt", "code", "text"),
    [
        ("metal", b"", "the metal shader 'k' of format 'metal' is empty"),
        (
            "metal",
            b"kernel \xff",
            "the metal shader 'k' of format 'metal' is not UTF-8 text: byte 7 is 0xff",
        ),
        (
            "metal",
            b"kernel \0",
            "the metal shader 'k' of format 'metal' has a zero byte at 7, which ends a source",
        ),
        (
            "metallib",
            b"\x03\x02\x23\x07",
            "the metal shader 'k' of format 'metallib' is not such a file: expected b'MTLB' at its start, got b'\\x03\\x02#\\x07'",
        ),
        (
            "metal",
            b"//devmod: -I/tmp\n",
            "the source's first line has the option '-I/tmp', which names a path",
        ),
    ],
)
def test_invalid_payloads(fmt: str, code: bytes, text: str) -> None:
    """They are refused without Metal too."""
    error = raised(devmod.FormatError, lambda: module_of(code, fmt)["k"])
    assert str(error) == text
    assert error.kind == "metal"


def test_a_missing_shader() -> None:
    module = devmod.create("metal", {"other": b"x"}, "metal", {"k": K})
    assert (
        refusal(devmod.FormatError, module.get_function, "k")
        == "the metal module has no shader for its function 'k'; it has those of 'other'"
    )


def test_a_shader_under_the_name_of_its_entry(double: Any) -> None:
    module = devmod.create("metal", {"add": ADD.encode()}, "metal", {"plus": add_info()})
    assert module["plus"].name == "plus"


def test_a_source_that_does_not_compile(double: Any) -> None:
    source = b"#include <metal_stdlib>\nkernel void k(device float *x) {\n    x[0] = 1.0\n}\n"
    error = raised(devmod.CompileError, lambda: module_of(source)["k"])
    assert str(error) == (
        "metal device 0 (Double GPU) cannot build the metal source: program_source:3:15: error: expected ';' after expression"
    )
    assert error.log == "program_source:3:15: error: expected ';' after expression"


@pytest.mark.row("R30")
def test_no_source_reads_a_file_of_the_receiver(
    double: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []
    compile_text = double.compile
    monkeypatch.setattr(
        double,
        "compile",
        lambda device, text, options: texts.append(text) or compile_text(device, text, options),
    )
    kernel = "kernel void k(device float *x) {}\n"
    module_of(
        f'#include "/etc/passwd"\n#if 0\n#include <../x>\n#endif\n#include <metal_stdlib>\n{kernel}'.encode()
    )["k"]
    refused = (
        "#error devmod: a source payload is complete, and does not include a file of its receiver: "
    )
    assert texts == [
        f'{refused} "/etc/passwd"\n#if 0\n{refused} <../x>\n#endif\n#include <metal_stdlib>\n{kernel}'
    ]


def test_a_library_that_metal_refuses(double: Any) -> None:
    assert refusal(devmod.FormatError, module_of(b"MTLB not", "metallib").get_function, "k") == (
        "metal device 0 (Double GPU) does not support the metallib: Invalid library file. A library runs on the macOS that it was built for, "
        "and later; use the source (format 'metal') for others"
    )


def test_a_library_has_no_defines(double: Any) -> None:
    f = module_of(b"MTLB kernel void k(device float *x) {}", "metallib")["k"]
    assert refusal(devmod.LaunchError, f.specialize, N=1) == (
        "a metal function of format 'metallib' has no constant 'N' to specialize: its defines were fixed when it was built. Use the "
        "source (format 'metal'), or a function constant"
    )


def test_a_function_that_the_library_does_not_contain(double: Any) -> None:
    assert (
        refusal(
            devmod.FormatError,
            module_of(b"kernel void other(device float *x) {}").get_function,
            "k",
        )
        == "the metal library has no function 'k', which the payload's fmap names; it has: 'other'"
    )


def test_a_pipeline_that_metal_refuses(double: Any) -> None:
    double.refuse["pipeline"] = "Compute function exceeds available stack space"
    assert refusal(
        devmod.CompileError, module_of(b"kernel void k(device float *x) {}").get_function, "k"
    ) == (
        "metal device 0 (Double GPU) cannot create the pipeline of the metal function 'k': Compute function exceeds available stack space"
    )


def test_no_gpu(double: Any) -> None:
    double._devices = []
    assert refusal(devmod.DeviceNotFoundError, devmod.device, "metal") == (
        "no Metal device was found: macOS lists no GPU for this process, as in some virtual machines and remote sessions"
    )


def test_properties_of_a_device(double: Any) -> None:
    device = devmod.device("metal", 1)
    assert (device.name, device.vendor, device.driver_version, device.memory) == (
        "Double GPU",
        "Double",
        "a double of macOS",
        1 << 30,
    )
    assert dict(device.limits) == {
        "maxThreadsPerThreadgroup.width": 1024,
        "maxThreadsPerThreadgroup.height": 1024,
        "maxThreadsPerThreadgroup.depth": 64,
        "maxThreadgroupMemoryLength": 32768,
        "maxBufferLength": 1 << 28,
        "view_alignment": 32,
    }


@pytest.mark.row("R19", "R30")
def test_metal_is_not_called_before_the_first_get_function(double: Any) -> None:
    module = devmod.load_from_bytes("metal", adder().save_to_bytes())
    dict(module.functions), module.inspect_source(), module.save_to_bytes()
    assert double.calls == []
    module["add"]
    assert double.names() == ["devices", "properties", "properties", "compile", "pipeline"]
