"""The files of a compile, found by the text of the source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devmod_targets.build.closure import Closure, SourceTree, closure_of


def closure(folder: Path, *include: str) -> Closure:
    return closure_of(str(folder / "k.cl"), [str(folder / each) for each in include], SourceTree())


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_h", ".h").replace("_cl", ".cl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(result: Closure, folder: Path) -> set[str]:
    return {os.path.relpath(path, folder.resolve()) for path in result.files}


def test_includes_of_includes_belong_to_the_source(tmp_path: Path) -> None:
    write(
        tmp_path,
        k_cl='#include "a.h"\n#include <b.h>\n',
        a_h='#include "sub/c.h"\n',
        inc__b_h="",
        sub__c_h='#include "d.h"',
        sub__d_h="",
        other_h="",
    )
    assert names(closure(tmp_path, "inc"), tmp_path) == {"k.cl", "a.h", "inc/b.h", "sub/c.h", "sub/d.h"}


@pytest.mark.parametrize("changed", ["k.cl", "a.h", "sub/c.h"])
def test_a_change_of_any_of_the_files_changes_the_digest(tmp_path: Path, changed: str) -> None:
    write(tmp_path, k_cl='#include "a.h"\n', a_h='#include "sub/c.h"\n', sub__c_h="")
    before = closure(tmp_path).digest
    with open(tmp_path / changed, "a") as file:
        file.write("// more\n")
    assert closure(tmp_path).digest != before


def test_the_digest_does_not_depend_on_the_folder_and_on_other_files(tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "another place"):
        folder = write(tmp_path / name, k_cl='#include "a.h"\n#include "b.h"', a_h="int a;", inc__b_h="int b;")
        (folder / f"{name}.txt").write_text(name)
        digests.add(closure(folder, "inc").digest)
    assert len(digests) == 1


def test_a_file_that_moves_to_another_include_folder_keeps_its_place_in_the_order(tmp_path: Path) -> None:
    """The first folder with a file of the name counts, so a new file in an earlier folder is another input."""
    write(tmp_path, k_cl='#include "a.h"\n', one__x_h="", two__a_h="int a;")
    before = closure(tmp_path, "one", "two").digest
    write(tmp_path, one__a_h="int other;")
    assert closure(tmp_path, "one", "two").digest != before


@pytest.mark.skipif(os.name != "posix", reason="symbolic links need a privilege on Windows")
def test_another_name_of_a_file_that_is_included_already_changes_the_digest(tmp_path: Path) -> None:
    write(tmp_path, k_cl='#include "a.h"\n#include "b.h"\n', a_h="int a;")
    before = closure(tmp_path).digest
    (tmp_path / "b.h").symlink_to("a.h")
    assert closure(tmp_path).digest != before


def test_a_missing_file_that_appears_changes_the_digest(tmp_path: Path) -> None:
    write(tmp_path, k_cl='#ifdef X\n#include "a.h"\n#endif\n')
    before = closure(tmp_path)
    write(tmp_path, a_h="")
    assert closure(tmp_path).digest != before.digest
    assert names(before, tmp_path) == {"k.cl"}


@pytest.mark.parametrize(
    "line",
    [
        '#include "a.h"',
        '  #  include\t"a.h"',
        "#include <a.h>",
        '/* c */ # /* c */ include /* c */ "a.h"',
        '#inc\\\nlude "a.h"',
        '%:include "a.h"',
        '??=include "a.h"',
        '#import "a.h"',
        '#include_next "a.h"',
        '#embed "a.h"',
        '#if __has_include("a.h")\n#endif',
        "#if __has_include( <a.h> )\n#endif",
        '#include "./sub/../a.h"',
    ],
)
def test_every_spelling_of_an_include_is_found(tmp_path: Path, line: str) -> None:
    write(tmp_path, k_cl=f"int x;\n{line}\nint y;\n", a_h="", sub__x_h="")
    assert "a.h" in names(closure(tmp_path, "."), tmp_path)
    (tmp_path / "k.cl").write_bytes((tmp_path / "k.cl").read_bytes().replace(b"\n", b"\r\n"))
    assert "a.h" in names(closure(tmp_path, "."), tmp_path)


@pytest.mark.parametrize("line", ["#define H <a.h>\n#include H", "#if __has_include(H)\n#endif", "%:include H", "#include NAME(a.h)"])
def test_an_include_by_a_macro_reads_all_files_of_the_folders(tmp_path: Path, line: str) -> None:
    write(tmp_path, k_cl=line + "\n", inc__a_h="", inc__deep__b_h="", git__x_h="")
    (tmp_path / "old.devmod").write_bytes(b"output")
    result = closure(tmp_path, "inc")
    assert names(result, tmp_path) == {"k.cl", "inc/a.h", "inc/deep/b.h", "git/x.h"}
    (tmp_path / "old.devmod").write_bytes(b"another output")
    assert closure(tmp_path, "inc").digest == result.digest
    write(tmp_path, inc__deep__b_h="int b;")
    assert closure(tmp_path, "inc").digest != result.digest


@pytest.mark.parametrize(
    "line",
    [
        f'#/*{"x" * 200}*/include "a.h"',
        f'#include /*{"x" * 200}*/ "a.h"',
        f"#include <{'./' * 300}a.h>",
        f"__has_include/*{'x' * 200}*/(H)",
    ],
)
def test_long_comments_and_names_read_all_files_of_the_folders(tmp_path: Path, line: str) -> None:
    write(tmp_path, k_cl=line + "\n", a_h="", b_h="")
    assert names(closure(tmp_path), tmp_path) == {"k.cl", "a.h", "b.h"}


@pytest.mark.parametrize("piece", ["#/*", "#include <", '#include "', "# include /*", "__has_include/*", "%: /**/", "#include "])
@pytest.mark.parametrize("end", ["", " */"])
def test_a_hostile_text_takes_linear_time(tmp_path: Path, piece: str, end: str) -> None:
    """No megabyte of a repeated piece makes the reader search the rest of the text for each piece, which would take hours."""
    write(tmp_path, k_cl="// include\n" + piece * (1_000_000 // len(piece)) + end)
    assert "k.cl" in names(closure(tmp_path), tmp_path)


@pytest.mark.parametrize("line", ["// an #include in a comment", '/* #include */ "text"', '"#include"'])
def test_the_word_in_a_comment_or_a_string_is_no_include_by_a_macro(tmp_path: Path, line: str) -> None:
    write(tmp_path, k_cl=line + "\n", a_h="")
    assert names(closure(tmp_path), tmp_path) == {"k.cl"}


def test_a_file_of_the_assembler_makes_the_inputs_unknown(tmp_path: Path) -> None:
    write(tmp_path, k_cl='asm(".incbin \\"data.bin\\"");\n')
    assert closure(tmp_path).digest == ""


def test_too_many_files_make_the_inputs_unknown(tmp_path: Path) -> None:
    write(tmp_path, k_cl="#include H\n")
    (tmp_path / "many").mkdir()
    for number in range(4100):
        (tmp_path / "many" / str(number)).touch()
    assert closure(tmp_path).digest == ""


def test_files_that_include_each_other_end(tmp_path: Path) -> None:
    write(tmp_path, k_cl='#include "a.h"\n', a_h='#include "k.cl"\n#include "a.h"\n')
    assert names(closure(tmp_path), tmp_path) == {"k.cl", "a.h"}


def test_a_closure_is_current_until_one_of_its_files_changes(tmp_path: Path) -> None:
    write(tmp_path, k_cl='#include "a.h"\n', a_h="")
    result = closure(tmp_path)
    assert result.is_current
    (tmp_path / "a.h").write_text("int a;")
    assert not result.is_current
    (tmp_path / "a.h").unlink()
    assert not result.is_current


def test_a_missing_source_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        closure(tmp_path)
    (tmp_path / "k.cl").mkdir()
    with pytest.raises(IsADirectoryError):
        closure(tmp_path)


def test_binary_sources_have_no_includes(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_bytes(b'\0\1#include "a.h"\n#include X\n')
    (tmp_path / "a.h").touch()
    assert names(closure(tmp_path), tmp_path) == {"k.cl"}
