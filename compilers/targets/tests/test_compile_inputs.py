"""A compile reads its inputs alone: no file by a directive of assembly, by a variable of the
environment, or beside temporary files.
"""

from __future__ import annotations

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from backend_checks import check_error, run_python

import devmod
from devmod_targets.authoring.zig import find_zig

pytest.importorskip("ziglang", reason="ziglang is not installed")
pytestmark = [pytest.mark.row("R38"), pytest.mark.filterwarnings("ignore")]
HEXAGON, ROCM = "hexagon -arch=v66", "rocm -arch=gfx1100"
INFO = {"k": devmod.FunctionInfo("k", ["handle"])}
REST = "reads a file of the build machine, and equal sources give equal payloads; write the contents into the source"
#: Each reads the file FILE.
DIRECTIVES = {
    "a directive": '.incbin "FILE"',
    "an include": '.include "FILE"',
    "another case": '.iNcBiN "FILE"',
    "after a label": 'first: .incbin "FILE"',
    "a name in quotes": '".incbin" "FILE"',
    "a name that a macro puts together": '.macro put name\n.in\\name "FILE"\n.endm\nput cbin',
    "a name in a list": '.irp name,.incbin\n\\name "FILE"\n.endr',
}


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    """A file that assembly can include."""
    path = tmp_path / "blob.inc"
    path.write_text("\n")
    return path


@pytest.mark.parametrize("name", DIRECTIVES)
def test_assembly_reads_no_file(name: str, blob: Path) -> None:
    text = DIRECTIVES[name].replace("FILE", str(blob))
    line = 3 + text.count("\n") if "\\name" not in text else 6 if "put" in text else 3
    word = ".include" if "include" in text else ".incbin"
    for target in (HEXAGON, ROCM):
        check_error(
            devmod.CompileError,
            lambda target=target: devmod.compile(
                f"\n\n{text}\n", target, language="assembly", fmap=INFO
            ),
            f"<text>:{line}: the directive {word} {REST}",
        )


@pytest.mark.parametrize(
    ("language", "name"),
    [
        (language, name)
        for language in ("C", "C in a function", "C in two strings", "HIP", "LLVM IR")
        for name in DIRECTIVES
        # The assembler has the same guard after each language.
        if language == "C" or name in ("a directive", "a name that a macro puts together")
    ],
)
def test_inline_assembly_reads_no_file(name: str, language: str, blob: Path) -> None:
    text = quoted(DIRECTIVES[name].replace("FILE", str(blob)))
    source, target = {
        "C": (f'asm("{text}");\nvoid k(int *x) {{ x[0] = 1; }}', HEXAGON),
        "C in a function": (f'void k(int *x) {{ x[0] = 1; asm volatile("{text}"); }}', HEXAGON),
        "C in two strings": (
            f'asm("{text.replace("in", chr(105) + chr(34) + " " + chr(34) + chr(110), 1)}");\nvoid k(int *x) {{ x[0] = 1; }}',
            HEXAGON,
        ),
        "HIP": (f'__global__ void k(int *x) {{ x[0] = 1; asm volatile("{text}"); }}', ROCM),
        "LLVM IR": (
            f'target triple = "hexagon"\nmodule asm "{escaped(DIRECTIVES[name].replace("FILE", str(blob)))}"\n'
            "define void @k(ptr %x) {\n  ret void\n}\n",
            HEXAGON,
        ),
    }[language]
    word = ".include" if "include" in text else ".incbin"
    options = {"fmap": INFO} if language == "LLVM IR" else {}
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(source, target, language=language.partition(" in")[0], **options),  # type: ignore[arg-type]
        f"<text>: the directive {word} in its inline assembly {REST}",
    )


def escaped(text: str) -> str:
    """Return a text in a string of LLVM IR."""
    return "".join(
        character if character.isalnum() or character in " ./_-," else f"\\{ord(character):02X}"
        for character in text
    )


def test_the_words_in_comments_and_strings_are_no_directives() -> None:
    source = 'asm("// .incbin \\"x\\"\\n.section .note\\n.ascii \\".include \\\\\\"x\\\\\\"\\"\\n.text");\nvoid k(int *x) { x[0] = 1; }'
    assert list(devmod.compile(source, HEXAGON, language="C")) == ["k"]


@pytest.mark.parametrize("directive", [".purgem .incbin", ".PurgeM .incbin", ".macros_off"])
def test_a_directive_that_removes_the_guard_makes_the_files_unknown(
    tmp_path: Path, directive: str
) -> None:
    """`devmod build` does not cache such a result."""
    from devmod_targets.build.jobs import attempt
    from devmod_targets.build.plan import Job

    (tmp_path / "k.c").write_text(f'asm("{directive}");\nvoid k(int *x) {{ x[0] = 1; }}')
    outcome = attempt(Job("k", str(tmp_path), "k.c", HEXAGON))
    assert (outcome.files or {}).get("a file that assembly names") == ""


@pytest.mark.parametrize(
    ("source", "target", "language", "text"),
    [
        (
            'void k(int *x) {\n  int v;\n  asm volatile("bad %0" : "=r"(v));\n}',
            HEXAGON,
            "C",
            "<text>:3:16: error: unrecognized instruction",
        ),
        (
            '__global__ void k(int *x) {\n  int v;\n  asm volatile("v_bad %0, 1" : "=v"(v));\n}',
            ROCM,
            "HIP",
            "<text>:3:16: error: invalid instruction",
        ),
    ],
)
def test_an_error_in_inline_assembly_has_the_line_of_the_source(
    source: str, target: str, language: str, text: str
) -> None:
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(source, target, language=language),
        f"the {language} source does not compile: {text}",
    )


def test_a_pragma_makes_the_linker_read_no_library(tmp_path: Path) -> None:
    library = tmp_path / "other.a"
    library.write_text("no library")
    source = f'#pragma comment(lib, "{library}")\nvoid k(int *x) {{ x[0] = 1; }}'
    assert list(devmod.compile(source, HEXAGON, language="C")) == ["k"]


@pytest.mark.parametrize(
    ("macro", "target", "language"),
    [
        ("__DATE__", HEXAGON, "C"),
        ("__TIME__", HEXAGON, "C"),
        ("__TIMESTAMP__", HEXAGON, "C"),
        ("__DATE__", ROCM, "HIP"),
    ],
)
def test_the_time_of_the_build_is_no_input(macro: str, target: str, language: str) -> None:
    kernel = "__global__ void" if language == "HIP" else "void"
    source = f"{kernel} k(int *x) {{ x[0] = {macro}[x[1]]; }}"
    column = source.index(macro) + 1
    text = f"<text>:1:{column}: error: expansion of date or time macro is not reproducible [-Werror,-Wdate-time]"
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(source, target, language=language),
        f"the {language} source does not compile: {text}",
    )


def test_variables_of_compilers_do_not_matter(tmp_path: Path) -> None:
    """The signatures are those of a machine without the variables, on which clang would find
    headers.
    """
    kernels = {
        "k.cl": ("kernel void k(global T *x) { x[0] = 1; }", "opencl"),
        "k.metal": ("kernel void k(device T *x [[buffer(0)]]) { x[0] = 1; }", "metal"),
        "k.c": ("void k(T *x) { x[0] = 1; }", HEXAGON),
        "k.hip": ("__global__ void k(T *x) { x[0] = 1; }", ROCM),
        "k.cu": ('extern "C" __global__ void k(T *x) { x[0] = 1; }', "cuda -arch=compute_80"),
    }
    if find_spec("cuda") is None:  # NVRTC is not installed
        del kernels["k.cu"]
    headers = tmp_path / "headers"
    headers.mkdir()
    (headers / "types.h").write_text("")
    variables = dict.fromkeys(("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"), str(headers))
    paths = {}
    for name, (kernel, target) in kernels.items():
        path = tmp_path / name
        path.write_text(
            f"#if __has_include(<types.h>)\ntypedef int T;\n#else\ntypedef float T;\n#endif\n{kernel}\n"
        )
        paths[str(path)] = target
    program = (
        f"import devmod, os, pathlib\nfor path, target in {paths!r}.items():\n"
        "    module = devmod.compile(pathlib.Path(path), target)\n"
        "    print(module.functions['k'].interface.params[0].dtype)\n"
        f"print(*map(os.environ.get, {tuple(variables)!r}))"
    )
    types = ["float32"] * len(kernels)
    assert run_python(program, **variables).split() == [*types, *variables.values()]


@pytest.mark.parametrize(("source", "target"), [("k.c", HEXAGON), ("k.hip", ROCM)])
def test_no_header_is_found_beside_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, target: str
) -> None:
    """clang looks beside the copy of the source first, and other users write to the folder of
    temporary files.
    """
    folder = tmp_path / "project" / "a" / "b"
    folder.mkdir(parents=True)
    temporary = tmp_path / "tmp" / "user"
    temporary.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    kernel = "__global__ void" if source == "k.hip" else "void"
    (folder / source).write_text(
        f'#include "../common.h"\n#include "../../config.h"\n{kernel} k(T *x) {{ x[0] = VALUE; }}\n'
    )
    (folder.parent / "common.h").write_text("typedef int T;\n")
    (folder.parent.parent / "config.h").write_text("#define VALUE 1\n")
    for place in (temporary, temporary.parent):
        (place / "common.h").write_text("#error a file of another user\n")
        (place / "config.h").write_text("#error a file of another user\n")
    assert list(devmod.compile(folder / source, target)) == ["k"]


@pytest.mark.parametrize(("source", "target"), [("k.c", HEXAGON), ("k.hip", ROCM)])
def test_embedded_data_is_found_beside_the_source_and_in_the_include_folders(
    tmp_path: Path, source: str, target: str
) -> None:
    kernel = "__global__ void" if source == "k.hip" else "void"
    text = 'static const char near[] = {\n#embed "near.bin"\n}, far[] = {\n#embed <far.bin>\n};\n'
    text += f"{kernel} k(int *x) {{ x[0] = near[0] * 1000 + far[0]; }}\n"
    (tmp_path / "inc").mkdir()
    (tmp_path / source).write_text(text)
    (tmp_path / "near.bin").write_bytes(b"\x05")
    (tmp_path / "inc" / "far.bin").write_bytes(b"\x07")
    module = devmod.compile(tmp_path / source, target, include=[tmp_path / "inc"])
    assert "5007" in str(module.source["asm"]) or "0x138f" in str(module.source["asm"])
    assert module.origin is not None
    assert sorted(module.origin.sources) == ["far.bin", source, "near.bin"]
    (tmp_path / "near.bin").unlink()
    language = "HIP" if source == "k.hip" else "C"

    def error() -> object:
        return devmod.compile(tmp_path / source, target, include=[tmp_path / "inc"])

    check_error(
        devmod.CompileError,
        error,
        f"the {language} source does not compile: {source}:2:8: fatal error: 'near.bin' file not found",
    )


@pytest.mark.skipif(os.name != "posix", reason="the programs are scripts")
def test_the_default_options_of_an_installed_clang_are_not_read(tmp_path: Path) -> None:
    """Distributions put them into files such as /etc/clang/clang.cfg."""
    zig = find_zig(kind="hexagon")
    for name in ("clang", "ld.lld"):
        program = tmp_path / name
        program.write_text(
            f'#!/bin/sh\necho "$1" >> {tmp_path}/{name}.log\n'
            f'[ "$1" = -print-resource-dir ] && exec echo "{Path(zig).parent / "lib"}"\nexec "{zig}" {name} "$@"\n'
        )
        program.chmod(0o755)
    devmod.compile(
        "void k(int *x) { x[0] = 1; }",
        HEXAGON,
        language="C",
        options=[f"-toolchain={tmp_path / 'clang'}"],
    )
    assert set((tmp_path / "clang.log").read_text().split()) == {
        "-print-resource-dir",
        "--version",
        "--no-default-config",
    }
