"""The files of a compile, found by the text of the source."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from devmod_targets.build.closure import Closure, SourceTree, SystemHeaders, closure_of


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
    assert names(closure(tmp_path, "inc"), tmp_path) == {
        "k.cl",
        "a.h",
        "inc/b.h",
        "sub/c.h",
        "sub/d.h",
    }


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
        folder = write(
            tmp_path / name, k_cl='#include "a.h"\n#include "b.h"', a_h="int a;", inc__b_h="int b;"
        )
        (folder / f"{name}.txt").write_text(name)
        digests.add(closure(folder, "inc").digest)
    assert len(digests) == 1


def test_a_file_that_moves_to_another_include_folder_keeps_its_place_in_the_order(
    tmp_path: Path,
) -> None:
    """The first folder with a file of the name counts, so a new file in an earlier folder is
    another input.
    """
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
        '#inc??/\nlude "a.h"',
        f'#/*{"x" * 200}*/include "a.h"',
        f'#include /*{"x" * 200}*/ "a.h"',
        '#\u00a0include\u2003"a.h"',
        '#\0include "a.h"',
        '#if __has_include\u00a0("a.h")\n#endif',
        '#if SECOND(__has_include(<b), __has_include("a.h")) > 0\n#endif',
        '#define H "b.h"\n#define\u00a0H "a.h"\n#include H',
    ],
)
def test_every_spelling_of_an_include_is_found(tmp_path: Path, line: str) -> None:
    write(tmp_path, k_cl=f"int x;\n{line}\nint y;\n", a_h="", sub__x_h="")
    assert "a.h" in names(closure(tmp_path, "."), tmp_path)
    (tmp_path / "k.cl").write_bytes((tmp_path / "k.cl").read_bytes().replace(b"\n", b"\r\n"))
    assert "a.h" in names(closure(tmp_path, "."), tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        '#define H "a.h"\n#include H',
        '#define H "a.h" // the first\n#define H "b.h"\n#if __has_include(H)\n#endif',
        '#define OTHER "a.h"\n#define H OTHER\n%:include H /* a */',
        '#define H \\\n OTHER\n#define OTHER /**/ "a.h"\n#include \\\nH // a',
        '#include "names.h"\n#ifdef H\n#include H\n#endif',
    ],
)
def test_a_macro_that_is_a_name_in_quotes_is_followed(tmp_path: Path, lines: str) -> None:
    write(tmp_path, k_cl=lines + "\n", names_h='#define H "a.h"\n', a_h="", c_h="")
    result = closure(tmp_path)
    assert "a.h" in names(result, tmp_path)
    assert "c.h" not in names(result, tmp_path)
    write(tmp_path, a_h="int a;")
    changed = closure(tmp_path).digest
    (tmp_path / "a.h").unlink()
    assert len({"", result.digest, changed, closure(tmp_path).digest}) == 4


def test_a_macro_may_be_defined_outside_of_the_text(tmp_path: Path) -> None:
    write(tmp_path, k_cl="#include H\n", a_h="", b_h="")
    results = [
        closure_of(str(tmp_path / "k.cl"), (), SourceTree(), definitions=(f'H "{name}.h"', "N 3"))
        for name in ("a", "b", "c")
    ]
    assert [names(each, tmp_path) - {"k.cl"} for each in results] == [{"a.h"}, {"b.h"}, set()]
    assert len({"", *(each.digest for each in results)}) == 4


@pytest.mark.parametrize(
    "lines",
    [
        "#include H",
        "#define H <a.h>\n#include H",
        '#define H "a" ".h"\n#include H',
        "#include NAME(a.h)",
        "#define HAS(x) __has_include(x)\n#if HAS(<a.h>)\n#endif",
        f"#include <{'./' * 300}a.h>",
        f"__has_include/*{'x' * 200}*/(H)",
        # the operator by another name
        '#define HAS __has_include\n#if HAS("a.h")\n#endif',
        '#define HAS __has_embed\n#if HAS("a.h")\n#endif',
        '#define SAME(x) x\n#if SAME(__has_include)("a.h")\n#endif',
        '#define SAME(x) x\n#if SAME(defined(__has_include)("a.h"))\n#endif',
        '#define JOIN(a, b) a##b\n#if JOIN(__has_, include)("a.h")\n#endif',
        '#define JOIN(a, b) a #??= b\n#if JOIN(__has_incl, ude)("a.h")\n#endif',
        '#define JOIN(a, b) a %:%: b\n#if JOIN(_, _has_embed)("a.h")\n#endif',
        "/**//**/#define HAS(H) __has_include(H)\n#define H <a.h>\n",
        '#define HAS(H) \'"\' + /*\n#if*/ __has_include(H)\n#define H "b.h"\n',
        # what is a comment depends on the language and its standard
        '#define R\nchar *s = R"(";\n#define HAS __has_include\nchar *t = ")";',
        "#define HAS 0 //**/ 1 + __has_include",
        "#define HAS 0'2\"' + __has_include //\"",
        "#warning /*\n#define HAS __has_include\n/* */",
        "#if __has_include(</*>)\n#define HAS __has_include\n#endif\n/* */",
        "// what??/\n#define HAS __has_include",
        "// a\r#define HAS __has_include\n",
        # other definitions of the macro
        '#if 0\n#define __FILE__ "b.h"\n#endif\n#line 1 "a.h"\n#include __FILE__',
        f'#define H "b.h"\n#define /*{"x" * 200}*/H "a.h"\n#include H',
        # names that depend on the standard, and pragmas that look for a file
        '#if __has_include("a??/.h")\n#endif',
        '#define H "a??/.h"\n#include H',
        '#pragma GCC dependency "a.h"',
        '_Pragma("clang dependency \\"a.h\\"")',
        "#pragma clang module build a",
        '#pragma include_alias("b.h", "a.h")',
    ],
)
def test_another_way_to_name_a_file_makes_the_files_unknown(tmp_path: Path, lines: str) -> None:
    write(tmp_path, k_cl=lines + "\n", a_h="")
    assert closure(tmp_path).digest == ""


@pytest.mark.parametrize(
    "definition",
    ['HAS __has_include("a.h")', "HAS __has_include", "START __has_", "HAS(H) __has_include(H)"],
)
def test_an_operator_outside_of_the_text_makes_the_files_unknown(
    tmp_path: Path, definition: str
) -> None:
    write(tmp_path, k_cl="#if HAS\n#endif\n")
    assert (
        closure_of(str(tmp_path / "k.cl"), (), SourceTree(), definitions=("N 3", definition)).digest
        == ""
    )


@pytest.mark.parametrize(
    "lines",
    [
        '#ifdef __has_include\n#if __has_include("a.h")\n#endif\n#endif  // __has_include',
        "#if defined(__has_include) && __has_include(<a.h>)\n#endif",
        "#  ifndef __has_include\n#elif !defined __has_embed\n#endif",
        '#define H "a.h"\n#if __has_include(H)\n#endif',
        "/* An #include or __has_include\n * in a comment. */\nint x;  // and #include",
    ],
)
def test_a_plain_use_of_the_operator_is_known(tmp_path: Path, lines: str) -> None:
    write(tmp_path, k_cl=lines + "\n")
    assert closure(tmp_path).digest != ""


@pytest.mark.parametrize("line", ["#include H", "#include NAME(a.h)"])
def test_macros_do_not_matter_for_the_digest_if_devmod_embeds_the_includes(
    tmp_path: Path, line: str
) -> None:
    """The compile reports the file."""
    write(tmp_path, k_cl=line + "\n")
    result = closure_of(str(tmp_path / "k.cl"), (), SourceTree(), embedded=True)
    assert result.digest != ""


@pytest.mark.parametrize("end", ["", " // a", " /* /* */ */", "\f", "\u2028"])
def test_an_import_of_wgsl_may_be_of_two_files(tmp_path: Path, end: str) -> None:
    write(tmp_path, k_cl=f"#import tile{end}\n")
    missing = closure_of(str(tmp_path / "k.cl"), (), SourceTree(), embedded=True).missing
    assert {os.path.relpath(path, tmp_path) for path in missing} >= {
        "tile.wgsl",
        os.path.join("shared", "tile.wgsl"),
    }


@pytest.mark.parametrize(
    "piece",
    [
        "#/*",
        "#include <",
        '#include "',
        "# include /*",
        "__has_include/*",
        "%: /**/",
        "#include ",
        "__has_include(",
        "/* #/**/",
        "#if __has_include(H ",
    ],
)
@pytest.mark.parametrize("end", ["", pytest.param(" */", marks=pytest.mark.volume)])
def test_a_hostile_text_takes_linear_time(tmp_path: Path, piece: str, end: str) -> None:
    """No half megabyte of a repeated piece makes the reader search the rest of the text for each
    piece, which would take hours.
    """
    write(tmp_path, k_cl="// include\n" + piece * (500_000 // len(piece)) + end)
    assert "k.cl" in names(closure(tmp_path), tmp_path)


@pytest.mark.parametrize(
    "line", ["// an #include in a comment", '/* #include */ "text"', '"#include"']
)
def test_the_word_in_a_comment_or_a_string_is_no_include_by_a_macro(
    tmp_path: Path, line: str
) -> None:
    write(tmp_path, k_cl=line + "\n", a_h="")
    assert names(closure(tmp_path), tmp_path) == {"k.cl"}


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


def test_a_closure_is_not_current_after_a_missing_file_has_appeared(tmp_path: Path) -> None:
    write(tmp_path, k_cl="#include <a.h>\n", two__a_h="", one__x_h="")
    result = closure(tmp_path, "one", "two")
    assert result.is_current
    write(tmp_path, one__a_h="")
    assert not result.is_current


def test_a_change_that_restores_size_and_time_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, k_cl="int a;") / "k.cl"
    result = closure(tmp_path)
    about = path.stat()
    path.write_text("int b;")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert not result.is_current or path.stat().st_ctime_ns == about.st_ctime_ns


def test_a_missing_source_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        closure(tmp_path)
    (tmp_path / "k.cl").mkdir()
    with pytest.raises(IsADirectoryError):
        closure(tmp_path)


def test_binary_sources_have_no_includes(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_bytes(b'\x03\x02\x23\x07#include "a.h"\n#include X\n')
    (tmp_path / "a.h").touch()
    assert names(closure(tmp_path), tmp_path) == {"k.cl"}


def test_a_zero_byte_does_not_hide_the_includes(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_bytes(b'// \0\n#include "a.h"\n')
    (tmp_path / "a.h").touch()
    assert names(closure(tmp_path), tmp_path) == {"a.h", "k.cl"}


def test_a_name_with_a_zero_byte_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_bytes(b'#include "a\0/b.h"\n#include "a\0.h"\n#include "c.h"\n')
    (tmp_path / "c.h").touch()
    assert names(closure(tmp_path), tmp_path) == {"c.h", "k.cl"}


def test_a_file_that_the_compiler_read_is_known_by_its_path_and_its_contents(
    tmp_path: Path,
) -> None:
    write(tmp_path, k_cl='#include "a.h"\n', a_h="\ufeffint a;", b_h="int b;", sub__x_h="")
    result = closure(tmp_path)
    digest = {
        name: sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("k.cl", "a.h", "b.h")
    }
    without_mark = sha256(b"int a;").hexdigest()
    assert result.unknown_file({}) == ""
    assert (
        result.unknown_file(
            {
                str(tmp_path / "k.cl"): digest["k.cl"],
                str(tmp_path / "sub" / ".." / "a.h"): digest["a.h"],
            }
        )
        == ""
    )
    assert result.unknown_file({str(tmp_path / "a.h"): without_mark}) == ""
    for name, read in (
        ("a.h", digest["b.h"]),
        ("a.h", ""),
        ("b.h", digest["b.h"]),
        ("b.h", digest["a.h"]),
    ):
        assert result.unknown_file({str(tmp_path / name): read}) == str(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")
def test_an_include_that_names_a_pipe_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, k_cl='#if __has_include("p.h")\n#endif\n')
    before = closure(tmp_path)
    os.mkfifo(tmp_path / "p.h")
    assert not before.is_current
    with pytest.raises(OSError, match=r"p\.h', which is neither a regular file nor a folder"):
        closure(tmp_path)


# -- links: a compiler looks beside the name by which it opened a file

links = pytest.mark.skipif(os.name != "posix", reason="symbolic links need a privilege on Windows")


@links
def test_a_linked_source_includes_files_beside_the_link(tmp_path: Path) -> None:
    write(tmp_path, far__real_cl='#include "a.h"\n', far__a_h="", a_h="")
    (tmp_path / "k.cl").symlink_to("far/real.cl")
    assert names(closure(tmp_path), tmp_path) == {"k.cl", "a.h"}


@links
def test_a_linked_header_includes_files_beside_the_link(tmp_path: Path) -> None:
    write(tmp_path, k_cl='#include "sub/a.h"\n', far__a_h='#include "b.h"\n', sub__b_h="")
    (tmp_path / "sub" / "a.h").symlink_to("../far/a.h")
    assert names(closure(tmp_path), tmp_path) == {"k.cl", "sub/a.h", "sub/b.h"}


@links
def test_the_parent_of_a_linked_folder_is_that_of_its_target(tmp_path: Path) -> None:
    write(tmp_path, k_cl='#include "link/../a.h"\n', a_h="", far__deep__b_h="", far__a_h="")
    (tmp_path / "link").symlink_to("far/deep")
    result = closure(tmp_path)
    assert names(result, tmp_path) == {"k.cl", "far/a.h"}
    assert result.is_linked


def test_the_parent_of_a_missing_folder_has_no_files(tmp_path: Path) -> None:
    """The system does not open ``missing/../a.h``, so the folder's later creation is another
    input.
    """
    write(tmp_path, k_cl='#include "sub/../a.h"\n', a_h="")
    before = closure(tmp_path)
    (tmp_path / "sub").mkdir()
    after = closure(tmp_path)
    if os.name == "posix":
        assert [names(each, tmp_path) for each in (before, after)] == [{"k.cl"}, {"k.cl", "a.h"}]
        assert before.digest != after.digest


@pytest.mark.parametrize("link", ["symbolic", "hard"])
@links
def test_a_link_to_a_file_is_another_input_than_its_copy(tmp_path: Path, link: str) -> None:
    """``#pragma once`` counts for a file with all its names, and not for a copy."""
    write(tmp_path, k_cl='#include "a.h"\n#include "b.h"\n', a_h="int a;", b_h="int a;")
    copy = closure(tmp_path).digest
    (tmp_path / "b.h").unlink()
    if link == "hard":
        os.link(tmp_path / "a.h", tmp_path / "b.h")
    else:
        (tmp_path / "b.h").symlink_to("a.h")
    assert closure(tmp_path).digest != copy


# -- headers of the compiler, whose own includes find the user's files


def test_a_file_that_shadows_a_header_of_a_header_of_the_compiler_changes_the_digest(
    tmp_path: Path,
) -> None:
    write(tmp_path, k_cl="#include <math.h>\n", inc__x_h="", clang__limits_h="", clang__float_h="")
    system = SystemHeaders(
        [str(tmp_path / "virtual"), str(tmp_path / "clang")],
        {
            str(tmp_path / "virtual" / "first.h"): "#include <float.h>\n",
            str(tmp_path / "virtual" / "math.h"): "#include <limits.h>\n",
        },
        ["first.h"],
    )

    def digest() -> str:
        return closure_of(
            str(tmp_path / "k.cl"), [str(tmp_path / "inc")], SourceTree(), system
        ).digest

    results = {digest()}
    for name in ("limits", "float", "first"):
        write(tmp_path, **{f"inc__{name}_h": f"// {name}"})
        results.add(digest())
    assert len(results) == 4
    write(tmp_path, clang__limits_h="// another version")
    result = closure_of(str(tmp_path / "k.cl"), [str(tmp_path / "inc")], SourceTree(), system)
    assert names(result, tmp_path) == {
        "k.cl",
        "inc/limits.h",
        "inc/float.h",
        "inc/first.h",
    }  # those of the compiler are not the user's


def test_names_in_headers_of_the_compiler_are_never_a_part_of_an_include(tmp_path: Path) -> None:
    """libc++ has names such as ``__h``, which ``##`` could complete to ``__has_include``. A result
    of such a source is cached too.
    """
    write(tmp_path, k_cl="#include <map.h>\n", clang__map_h="int __h;\n")
    system = SystemHeaders([str(tmp_path / "clang")])
    assert closure_of(str(tmp_path / "k.cl"), [], SourceTree(), system).digest
    assert not closure_of(str(tmp_path / "k.cl"), [str(tmp_path / "clang")], SourceTree()).digest
