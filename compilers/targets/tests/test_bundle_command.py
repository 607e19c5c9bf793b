"""`devmod bundle` and `devmod inspect --source`, in this process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alone import core_alone as core_alone
from command_line import call as run

import devmod

INFO = {"f": devmod.FunctionInfo("f", ["handle"])}
CUDA = "__global__ void f() {}\n" * 30


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[devmod.Module]:
    """The modules of the files a.devmod (two candidates, with sources) and b.devmod (one)."""
    monkeypatch.chdir(tmp_path)
    modules = [
        devmod.create_with_fallback(
            "cuda", b"\x7fELF" + bytes(300 * number), "cubin", INFO, {"cuda": CUDA}
        )
        for number in (1, 2)
    ]
    modules.append(
        devmod.create_with_fallback("opencl", b"kernel void f(global int *x) {}", "cl", INFO)
    )
    devmod.save(devmod.bundle(*modules[:2]), "a.devmod", with_sources=True)
    devmod.save(modules[2], "b.devmod")
    return modules


def test_files_are_joined_in_their_order(
    capsys: pytest.CaptureFixture[str], files: list[devmod.Module]
) -> None:
    code, out, err = run(capsys, "bundle", "b.devmod", "a.devmod", "-o", "c.devmod")
    size = Path("c.devmod").stat().st_size
    assert (code, out, err) == (
        0,
        f"c.devmod: {size / 1000:.1f} kB, 3 candidates (opencl, cuda)\n",
        "",
    )
    joined = devmod.load("c.devmod").imports
    assert [each.save_to_bytes() for each in joined] == [
        files[number].save_to_bytes() for number in (2, 0, 1)
    ]
    assert [dict(each.source) for each in joined] == [{}, {"cuda": CUDA}, {"cuda": CUDA}]


def test_one_file_is_written_again(
    capsys: pytest.CaptureFixture[str], files: list[devmod.Module]
) -> None:
    before = Path("a.devmod").read_bytes()
    assert run(capsys, "bundle", "a.devmod", "-o", "a.devmod", "-q") == (0, "", "")
    assert Path("a.devmod").read_bytes() == before
    assert run(capsys, "bundle", "b.devmod", "-o", "c.devmod")[1].endswith(
        ", 1 candidate (opencl)\n"
    )
    assert Path("c.devmod").read_bytes() == Path("b.devmod").read_bytes()


def test_the_records_of_several_machines_are_joined(
    capsys: pytest.CaptureFixture[str], files: list[devmod.Module]
) -> None:
    h100 = devmod.TuningRecord("f", "cuda", "", "H100")
    l4 = h100.replace(device="L4")
    for name, record in {"a": h100, "c": l4}.items():
        module = devmod.load("a.devmod")
        module.tuning_records = [record]
        devmod.save(module, f"{name}.devmod")
    _, out, _ = run(capsys, "bundle", "a.devmod", "b.devmod", "c.devmod", "-o", "d.devmod")
    assert ", 3 candidates (cuda, opencl)\n" in out
    joined = devmod.load("d.devmod")
    assert joined.tuning_records == (h100, l4)
    assert [each.save_to_bytes() for each in joined.imports] == [
        each.save_to_bytes() for each in files
    ]

    # Modules that differ below an import are not equal.
    for name in ("one", "two"):
        module = devmod.create_with_fallback("cuda", b"\x7fELF", "cubin", INFO)
        module.import_module(
            devmod.create_with_fallback("opencl", f"// {name}".encode(), "cl", {name: INFO["f"]})
        )
        module.tuning_records = [h100]
        devmod.save(module, f"{name}.devmod")
    shutil.copy("one.devmod", "three.devmod")
    run(capsys, "bundle", "one.devmod", "two.devmod", "three.devmod", "-o", "d.devmod")
    assert len(devmod.load("d.devmod").imports) == 2


def test_signatures_are_not_those_of_the_new_file(
    capsys: pytest.CaptureFixture[str], files: list[devmod.Module]
) -> None:
    Path("a.devmod.sig").touch()
    out = run(capsys, "bundle", "b.devmod", "a.devmod", "-o", "c.devmod")[1]
    assert out.splitlines()[1:] == [
        "The signatures in a.devmod.sig are not of this file. Sign it with: devmod sign"
    ]


def test_a_file_is_compressed_and_decompressed(
    capsys: pytest.CaptureFixture[str], files: list[devmod.Module]
) -> None:
    before = Path("a.devmod").read_bytes()
    assert run(capsys, "bundle", "a.devmod", "-o", "c.devmod", "--compress", "zstd:19")[0] == 0
    assert len(Path("c.devmod").read_bytes()) < len(before) // 2
    assert run(capsys, "bundle", "c.devmod", "-o", "d.devmod")[0] == 0
    assert Path("d.devmod").read_bytes() == Path("c.devmod").read_bytes()
    assert run(capsys, "bundle", "c.devmod", "-o", "d.devmod", "--compress", "none")[0] == 0
    assert Path("d.devmod").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["a.devmod", "nope.devmod", "-o", "c.devmod"],
            1,
            "devmod: error: nope.devmod: No such file or directory\n",
        ),
        (["a.devmod", "-o", "no/c.devmod"], 1, "/no/: No such file or directory\n"),
        (
            ["a.devmod", "-o", "-"],
            1,
            "devmod: error: the output '-' is standard output, to which `devmod compile` alone writes. Give the name of a file\n",
        ),
        (["-o", "c.devmod"], 2, "Missing argument 'FILE...'"),
        (["a.devmod"], 2, "Missing option '-o' / '--output'"),
        (
            ["a.devmod", "-o", "c.devmod", "--compress", "gzip"],
            1,
            "devmod: error: compress: expected 'zstd', 'zstd:LEVEL' with a level from 1 to 22, or 'none', got 'gzip'\n",
        ),
        (
            ["a.devmod", "text.devmod", "-o", "c.devmod"],
            1,
            "devmod: error: 'text.devmod' is not a bundle: it does not begin with the magic bytes of a .devmod file\n",
        ),
    ],
)
def test_mistakes_leave_no_file(
    capsys: pytest.CaptureFixture[str],
    files: list[devmod.Module],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    Path("text.devmod").write_text("text")
    before = sorted(path.name for path in Path().iterdir())
    found, out, err = run(capsys, "bundle", *arguments)
    assert (found, out) == (code, "")
    assert err.endswith(message) if code == 1 else message in err
    assert sorted(path.name for path in Path().iterdir()) == before


def test_a_file_is_given_once(
    capsys: pytest.CaptureFixture[str], files: list[devmod.Module]
) -> None:
    Path("link.devmod").symlink_to("a.devmod")
    for again in ("a.devmod", str(Path("a.devmod").resolve()), "link.devmod"):
        code, out, err = run(capsys, "bundle", "a.devmod", "b.devmod", again, "-o", "c.devmod")
        assert (code, out) == (2, "")
        assert err.endswith(f"devmod: error: {again} is given twice\n")
        assert not Path("c.devmod").exists()
    Path("copy.devmod").write_bytes(Path("b.devmod").read_bytes())  # another file
    assert run(capsys, "bundle", "b.devmod", "copy.devmod", "-o", "c.devmod", "-q") == (0, "", "")


def test_candidates_that_take_different_arguments_need_the_option_mixed(
    capsys: pytest.CaptureFixture[str], files: list[devmod.Module]
) -> None:
    for name, kind in (("x", "int32"), ("y", "float32")):
        param = devmod.Param("n", "scalar", kind)
        info = {"g": devmod.FunctionInfo("g", [kind], interface=devmod.Interface([param]))}
        devmod.save(
            devmod.create_with_fallback("cuda", b"\x7fELF", "cubin", info), f"{name}.devmod"
        )
    code, _, err = run(capsys, "bundle", "x.devmod", "y.devmod", "-o", "c.devmod")
    assert code == 1
    assert err.startswith(
        "devmod: error: the candidates of the bundle take different arguments in the function 'g'."
    )
    assert run(capsys, "bundle", "x.devmod", "y.devmod", "-o", "c.devmod", "--mixed", "-q") == (
        0,
        "",
        "",
    )


def opencl(text: bytes, names: str = "f", **interface: Any) -> devmod.Module:
    infos = {
        name: devmod.FunctionInfo(
            name, ["handle"], interface=devmod.Interface([PARAM], **interface)
        )
        for name in names
    }
    return devmod.create_with_fallback("opencl", text, "cl", infos)


def webgpu(**shaders: bytes) -> devmod.Module:
    return devmod.create_with_fallback(
        "webgpu",
        shaders,
        "wgsl",
        {name: devmod.FunctionInfo("main", ["handle"]) for name in shaders},
    )


def program(kernels: devmod.Module, threads: int) -> devmod.Module:
    return devmod.program(
        "p", kernels, updates=["x: int32[n]"], steps=[f"f(x=x, threads={threads})"]
    )


PARAM = devmod.Param("x", "buffer", "int32", "rw")
ANY = {"open_block": True}
CUBINS = [
    devmod.create_with_fallback("cuda", bytes.fromhex(code), "cubin", INFO)
    for code in ("7f454c46", "7f454c4600")
]


@pytest.mark.row("R12")
@pytest.mark.parametrize(
    ("first", "second", "hidden"),
    [
        (opencl(b"1"), opencl(b"2"), "'f' for opencl"),
        (opencl(b"1", "ef"), opencl(b"2", "fg"), "'f' for opencl"),
        (
            devmod.bundle(webgpu(f=b"1"), opencl(b"1")),
            devmod.bundle(webgpu(f=b"1"), opencl(b"2")),
            "'f' for opencl",
        ),
        (webgpu(f=b"1", g=b"2"), webgpu(f=b"1", g=b"3"), "'g' for webgpu"),
        (CUBINS[0], CUBINS[1], "'f' for cuda"),
        (program(opencl(b"1", **ANY), 1), program(opencl(b"1", **ANY), 2), "'p' for program"),
        (opencl(b"1"), opencl(b"1"), ""),
        (opencl(b"1", "ef"), opencl(b"2", "g"), ""),
        (opencl(b"1", needs=["fp64"]), opencl(b"2"), ""),  # a device without fp64 takes the second
        (webgpu(f=b"1"), webgpu(f=b"1", g=b"2"), ""),
        (
            CUBINS[0],
            devmod.create_with_fallback("cuda", b".version 7.0\n.target sm_80\n", "ptx", INFO),
            "",
        ),
    ],
)
def test_files_with_different_kernels_of_one_name_need_the_option_prefer_first(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: devmod.Module,
    second: devmod.Module,
    hidden: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    devmod.save(first, "x.devmod")
    devmod.save(second, "y.devmod")
    arguments = ["bundle", "x.devmod", "y.devmod", "-o", "c.devmod", "-q"]
    code, out, err = run(capsys, *arguments)
    if hidden:
        error = f"devmod: error: x.devmod and y.devmod have different kernels {hidden}, and a call would use the first; rename one, or pass --prefer-first\n"
        assert (code, out, err.partition("\n\n")[2], Path("c.devmod").exists()) == (
            2,
            "",
            error,
            False,
        )
        code, out, err = run(capsys, *arguments, "--prefer-first")
    assert (code, out, err) == (0, "", "")
    # One file may have both, and is written again.
    assert run(capsys, "bundle", "c.devmod", "-o", "d.devmod", "-q") == (0, "", "")


@pytest.mark.row("R12")
@pytest.mark.parametrize(
    ("first", "second", "kernels"),
    [
        ({"block": (64, 1, 1)}, {"block": (8, 8, 1)}, "'f', 'g'"),
        ({"default_block": (64, 1, 1)}, {"default_block": (8, 8, 1)}, "'f', 'g'"),
        ({"block": (64, 1, 1)}, {"default_block": (8, 8, 1)}, "'f', 'g'"),
        ({"block": (64, 1, 1)}, {"block": (64, 1, 1), "needs": ["fp64"]}, ""),
        ({"block": (64, 1, 1)}, {"open_block": True}, ""),
    ],
)
def test_a_kernel_that_another_block_hides_is_named(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: dict[str, Any],
    second: dict[str, Any],
    kernels: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    devmod.save(opencl(b"1", "fg", **first), "x.devmod")
    devmod.save(opencl(b"1", "fgh", **second), "y.devmod")
    join = ("bundle", "x.devmod", "y.devmod", "-o", "c.devmod")
    note = (
        f"devmod: note: x.devmod and y.devmod have {kernels} for opencl with blocks of (64, 1, 1) and of (8, 8, 1) threads. "
        "Where both fit a device, a call uses that of x.devmod\n"
    )
    assert run(capsys, *join)[::2] == (0, note if kernels else "")
    assert run(capsys, *join, "--prefer-first")[::2] == (0, "")
    shutil.copy("x.devmod", "z.devmod")
    assert run(capsys, "bundle", "x.devmod", "z.devmod", "-o", "c.devmod")[::2] == (0, "")


def test_inspect_shows_the_sources(
    capsys: pytest.CaptureFixture[str], files: list[devmod.Module]
) -> None:
    run(capsys, "bundle", "a.devmod", "b.devmod", "-o", "c.devmod")
    assert "source" not in run(capsys, "inspect", "c.devmod")[1]
    code, out, _ = run(capsys, "inspect", "c.devmod", "--source")
    assert code == 0
    assert out.count("    source cuda:\n      | __global__ void f() {}\n") == 1
    assert out.count("    source cuda:\n      of the cuda cubin module above\n") == 1
    assert "    source cl:\n      | kernel void f(global int *x) {}\n" in out
    listing = devmod.create_with_fallback("hexagon", b"\x7fELF", "so", INFO, {"bc": b"BC\xc0\xde"})
    devmod.save(listing, "h.devmod", with_sources=True)
    assert (
        "\n  source bc:\n    4 B of binary\n" in run(capsys, "inspect", "h.devmod", "--source")[1]
    )
    described = json.loads(run(capsys, "inspect", "c.devmod", "--source", "--json")[1])["module"]
    assert [each["source"] for each in described["imports"]] == [
        {"cuda": CUDA},
        {"cuda": 1},
        {"cl": "kernel void f(global int *x) {}"},
    ]


def test_inspect_shows_what_is_compressed(
    capsys: pytest.CaptureFixture[str], files: list[devmod.Module]
) -> None:
    run(capsys, "bundle", "a.devmod", "-o", "c.devmod", "--compress", "zstd")
    text = run(capsys, "inspect", "c.devmod", "--verify")[1]
    origin = devmod.load("c.devmod").imports[0].origin
    assert origin is not None
    described = json.loads(run(capsys, "inspect", "c.devmod", "--json")[1])["module"]["imports"][0]
    assert (
        f"cuda cubin, {described['bytes']} B ({described['stored']} B in the file) — runtime"
        in text
    )
    assert f"    compressed by {origin.extra['compression']}\n" in text
    assert "Digests compared: 2; all match." in text
    assert "from " not in text


JOIN = """
import sys
from devmod_workbench._cli import main
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
assert main(["bundle", "-q", *sys.argv[1:3], "-o", "small.devmod"]) == 0
before = peak()
assert main(["bundle", "-q", *sys.argv[3:5], "-o", "large.devmod"]) == int(sys.argv[5])
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="VmHWM is Linux's")
def test_files_are_joined_in_pieces(files: list[devmod.Module]) -> None:
    shutil.copy("b.devmod", "b2.devmod")
    for name, function in {"c": "f", "d": "g"}.items():  # kernels of one name are compared
        info = {function: INFO["f"]}
        module = devmod.create_with_fallback("cuda", bytes(1 << 20) * 64, "cubin", info)
        devmod.save(module, f"{name}.devmod")
    names = ("b.devmod", "b2.devmod", "c.devmod", "d.devmod", "0")
    done = subprocess.run(
        [sys.executable, "-c", JOIN, *names],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) < 32  # of 128 MiB
    joined = devmod.load("large.devmod").imports
    assert [each.save_to_bytes() for each in joined] == [
        devmod.load(f"{name}.devmod").save_to_bytes() for name in ("c", "d")
    ]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="VmHWM is Linux's")
@pytest.mark.parametrize(
    ("last", "functions", "code", "most"),
    [
        # MiB of the 128 that both have. Equal bytes have one digest, so none is read.
        (b"same", ("f",), 0, 32),
        # Bytes with another function, and the same kernel; then another kernel.
        (b"same", ("f", "g"), 0, 96),
        (b"else", ("f",), 2, 96),
    ],
)
def test_large_kernels_of_one_name_are_compared_one_at_a_time(
    last: bytes, functions: tuple[str, ...], code: int, most: int, files: list[devmod.Module]
) -> None:
    shutil.copy("b.devmod", "b2.devmod")
    for name, end, own in (("c", b"same", ("f",)), ("d", last, functions)):
        info = dict.fromkeys(own, INFO["f"])
        module = devmod.create_with_fallback("cuda", bytes(1 << 20) * 64 + end, "cubin", info)
        devmod.save(module, f"{name}.devmod")
    names = ("b.devmod", "b2.devmod", "c.devmod", "d.devmod", str(code))
    done = subprocess.run(
        [sys.executable, "-c", JOIN, *names],
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) < most
