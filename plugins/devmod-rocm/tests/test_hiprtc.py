"""HIP that is compiled at the receiver: by the stand-in for hiprtc, in a process of its own, with a
cache.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import check_error, run_in_threads
from each_case import refusal
from hip_modules import ADD, ADD_INFO, DIMENSIONS, code_object, create, error_of, loads

import devmod
from devmod import FunctionInfo, Interface, Param
from devmod.worker import Worker
from devmod_rocm import _hiprtc

__all__ = ["loads"]
SCALE = """//devmod: -O2 -DOFFSET=4
#include <hip/hip_runtime.h>
#ifndef FACTOR
#define FACTOR 3
#endif
extern "C" __global__ void scale(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= FACTOR + OFFSET; }
"""
INFO = {
    "scale": FunctionInfo(
        "scale", ["handle"], DIMENSIONS, (), Interface([Param("x", "buffer", "float32", "rw")])
    )
}


@pytest.fixture
def compilations(
    hiprtc: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[dict[str, Any]]:
    """The requests that processes of hiprtc got. The cache is empty."""
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    requests: list[dict[str, Any]] = []
    run = _hiprtc._run

    def watched(request: dict[str, Any], arch: str) -> dict[str, str]:
        requests.append(request)
        return run(request, arch)

    monkeypatch.setattr(_hiprtc, "_run", watched)
    return requests


def scaled(function: Any) -> list[float]:
    x = np.ones(4, "float32")
    function(x, grid=1, block=4)
    result: list[float] = x.tolist()
    return result


@pytest.mark.row("R30", "R32")
def test_the_first_function_compiles_once_for_all(
    emulator: Any, device: Any, compilations: list[dict[str, Any]]
) -> None:
    module = create(SCALE.encode(), INFO, "hip")
    saved = module.save_to_bytes()
    assert compilations == []
    functions = run_in_threads(lambda _: module["scale"], range(4))
    assert scaled(functions[0]) == [7] * 4
    assert [each["options"] for each in compilations] == [
        ["-O2", "-DOFFSET=4", "--offload-arch=gfx1100"]
    ]
    assert compilations[0]["text"] == SCALE
    assert module.save_to_bytes() == saved
    assert module.inspect_source() == SCALE


def test_the_result_is_cached_on_the_disk(
    device: Any, compilations: list[dict[str, Any]], loads: list[bytes]
) -> None:
    create(SCALE.encode(), INFO, "hip")["scale"]
    create(SCALE.encode(), INFO, "hip")["scale"]
    assert len(compilations) == 1
    assert len(loads) == 2
    assert loads[0] == loads[1]


def test_equal_sources_with_other_options_are_other_results(
    compilations: list[dict[str, Any]], tmp_path: Path
) -> None:
    for options in (["-DOFFSET=1"], ["-DOFFSET=2"], ["-DOFFSET=1"]):
        _hiprtc.compile_source(SCALE, options, "gfx1100", str(tmp_path / "libamdhip64.so"))
    assert [each["options"][0] for each in compilations] == ["-DOFFSET=1", "-DOFFSET=2"]


@pytest.mark.row("R31")
def test_specialize_sets_defines(
    emulator: Any, device: Any, compilations: list[dict[str, Any]]
) -> None:
    f = create(SCALE.encode(), INFO, "hip")["scale"]
    assert scaled(f.specialize(FACTOR=10)) == [14] * 4
    assert scaled(f.specialize(FACTOR=10)) == [14] * 4
    assert scaled(f) == [7] * 4
    assert len(compilations) == 2
    binary = create(code_object(ADD), ADD_INFO)["add"]
    check_error(
        devmod.LaunchError,
        lambda: binary.specialize(FACTOR=1),
        "a rocm function of format 'hsaco' cannot be specialized: its constants were fixed when it was built. Use the source (format 'hip')",
    )


def test_errors_of_the_source_are_raised_by_the_first_function(
    device: Any, compilations: list[dict[str, Any]]
) -> None:
    error = error_of(create(SCALE.replace("FACTOR +", "WRONG +").encode(), INFO, "hip"), "scale")
    assert type(error) is devmod.CompileError
    assert (
        str(error)
        == "the HIP source does not compile: kernel.hip:6:90: error: use of undeclared identifier 'WRONG'"
    )
    assert "comgr" not in error.log
    assert len(compilations) == 1


def test_an_option_that_names_a_file_is_refused(
    hiprtc: None, device: Any, compilations: list[dict[str, Any]]
) -> None:
    for option in (
        "-fplugin=x.so",
        "-save-temps",
        "-Wl,x",
        "-Xclang",
        "-MD",
        "--offload-arch=gfx90a",
    ):
        error = error_of(create(SCALE.replace("-O2", option).encode(), INFO, "hip"), "scale")
        assert type(error) is devmod.FormatError
        assert (
            str(error)
            == f"the rocm source has the build option {option!r}, which devmod-rocm does not pass to hiprtc"
        )
    assert compilations == []


@pytest.mark.row("R30")
def test_no_source_reads_a_file_of_the_receiver(
    device: Any, compilations: list[dict[str, Any]], tmp_path: Path
) -> None:
    path = tmp_path / "x.h"
    path.write_text("#define FACTOR 5\n")
    includes = (
        f'#include "{path}"',
        f"#if 1\n#include <{path}>\n#endif",
        "#include <stdint.h>",
        f'#define NAME "{path}"\n#include NAME',
    )
    text = "\n".join((*includes, SCALE.partition("\n")[2]))
    error = error_of(create(text.encode(), INFO, "hip"), "scale")
    assert isinstance(error, devmod.CompileError)
    refused = "devmod: a source payload is complete, and does not include a file of its receiver: "
    assert refused in str(error)
    for name in (f'"{path}"', f"<{path}>", "<stdint.h>", "NAME"):
        assert f"{refused} {name}\n" in error.log
    assembly = (
        f'extern "C" __global__ void scale(float *x) {{ asm volatile(".incbin \\"{path}\\""); }}'
    )
    assert str(error_of(create(assembly.encode(), INFO, "hip"), "scale")) == (
        "a rocm source may not read a file of its receiver, and this one has inline assembly with '.incbin', where a directive that reads a "
        "file may begin. Use assembly without it"
    )
    dead = f'#if 0\n#include "{path}"\n#endif\n'
    create((dead + SCALE.partition("\n")[2].replace("+ OFFSET", "")).encode(), INFO, "hip")["scale"]


def test_a_kernel_that_the_source_does_not_define(
    device: Any, compilations: list[dict[str, Any]]
) -> None:
    error = error_of(create(ADD.encode(), INFO, "hip"), "scale")
    assert type(error) is devmod.FormatError
    assert (
        str(error)
        == "the rocm payload of format 'hsaco' has no kernel 'scale', which its fmap names; it has: 'add'"
    )


# -- hiprtc that ends its process, hangs or is missing


def test_an_architecture_with_which_hiprtc_ends_its_process(hiprtc: None, tmp_path: Path) -> None:
    check_error(
        devmod.CompileError,
        lambda: _hiprtc.compile_source(SCALE, [], "gfx9999", str(tmp_path / "libamdhip64.so")),
        "the rocm source was not compiled for gfx9999: the process of hiprtc ends with signal 6. This hiprtc may not support gfx9999. Update "
        "ROCm, or compile on another machine: devmod.compile(source, 'rocm -arch=gfx9999')",
    )


def test_a_receiver_without_hiprtc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert refusal(
        devmod.ToolchainNotFoundError,
        _hiprtc.compile_source,
        SCALE,
        [],
        "gfx90a:xnack-",
        str(tmp_path / "libamdhip64.so.6"),
    ) == (
        "the rocm source cannot be compiled: libhiprtc.so.6: cannot open shared object file: No such file or directory. ROCm's compiler at "
        "run time, libhiprtc, is missing. AMD's package hip-runtime-amd contains it. A code object needs no compiler: "
        "devmod.compile(source, 'rocm -arch=gfx90a')"
    )


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (
            "time.sleep(1000)",
            "the rocm source was not compiled for gfx90a: hiprtc took longer than 0.5 seconds",
        ),
        (
            OSError(12, "Cannot allocate memory"),
            "the rocm source was not compiled: no process for hiprtc can be started: [Errno 12] Cannot allocate memory",
        ),
        (
            "os.kill(os.getpid(), 9)",
            "the rocm source was not compiled for gfx90a: the process of hiprtc ends with signal 9. Free memory and try again",
        ),
    ],
    ids=["hangs", "does not start", "was killed"],
)
def test_a_process_that_does_not_answer(
    failure: Any, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_hiprtc.py").write_text(f"import os, time\ndef main(request): {failure}\n")
    monkeypatch.syspath_prepend(tmp_path)

    def start(_: str, request: dict[str, Any], **options: Any) -> Worker:
        if isinstance(failure, OSError):
            raise failure
        return Worker("failing_hiprtc", request, **options)

    monkeypatch.setattr(_hiprtc, "Worker", start)
    monkeypatch.setattr(_hiprtc, "TIMEOUT", 0.5 if "sleep" in str(failure) else 600)
    check_error(
        devmod.CompileError,
        lambda: _hiprtc.compile_source(SCALE, [], "gfx90a", str(tmp_path / "libamdhip64.so")),
        text,
    )


def test_a_frozen_program_compiles_in_its_own_process(
    hiprtc: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_standins import libhiprtc

    monkeypatch.setattr("sys.frozen", True, raising=False)
    monkeypatch.setattr(_hiprtc, "_candidates", lambda path: [str(libhiprtc.build())])
    text = SCALE.replace("FACTOR +", "5 +")
    assert (
        _hiprtc.compile_source(text, ["-DOFFSET=1"], "gfx1100", str(tmp_path / "libamdhip64.so"))[
            :4
        ]
        == b"\x7fELF"
    )
