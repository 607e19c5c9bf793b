"""No result of the build cache is stale: what a build takes from the cache is what a compile gives
now.

The oracle is the same build without a cache.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from random_project import TARGETS, RandomProject

import devmod
from devmod_targets._included import IncludedNames
from devmod_targets.build.jobs import attempt
from devmod_targets.build.plan import Job
from devmod_targets.build.pool import Pool
from devmod_targets.build.result import BuildResult, Outcome

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="symbolic links need a privilege on Windows"),
    pytest.mark.filterwarnings("ignore"),  # the builds keep the warnings of the compilers
]
#: For each target: the source, what precedes the text with the includes, and the kernel.
LANGUAGES = {
    "opencl": ("k.cl", "", "kernel void k(global int *x) { x[0] = VALUE; }\n"),
    "metal": ("k.metal", "", "kernel void k(device int *x [[buffer(0)]]) { x[0] = VALUE; }\n"),
    "vulkan": (
        "k.comp",
        "#version 450\n#extension GL_GOOGLE_include_directive : require\n",
        "layout(local_size_x = 1) in;\nlayout(set = 0, binding = 0) buffer X { int x[]; };\nvoid main() { x[0] = VALUE; }\n",
    ),
    "webgpu": (
        "k.wgsl",
        "",
        "var<private> x: i32;\n@compute @workgroup_size(1) fn k() { x = VALUE; }\n",
    ),
    "cuda -arch=compute_80": (
        "k.cu",
        "",
        'extern "C" __global__ void k(int *x) { x[0] = VALUE; }\n',
    ),
    "rocm -arch=gfx1100": ("k.hip", "", 'extern "C" __global__ void k(int *x) { x[0] = VALUE; }\n'),
    "rocm -format=hip": ("k.hip", "", 'extern "C" __global__ void k(int *x) { x[0] = VALUE; }\n'),
    "hexagon -arch=v66": ("k.c", "", "void k(int *x) { x[0] = VALUE; }\n"),
}
#: The targets whose language has ``__has_include``, and those whose compiler searches the user's
#: folders.
PREPROCESSED = tuple(target for target in LANGUAGES if target not in ("vulkan", "webgpu"))
CLANG = ("hexagon -arch=v66", "rocm -arch=gfx1100")
#: With these seeds, a cache that looks for includes beside the target of a link gives a stale
#: result.
SEEDS = [
    *(("opencl", seed) for seed in range(10)),
    ("metal", 9),
    ("vulkan", 2),
    ("webgpu", 2),
    *((target, 9) for target in TARGETS if "cuda" in target),
]
SEEDS += [(target, 5) for target in CLANG]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))


def require_compiler(target: str) -> None:
    kind = target.partition(" ")[0]
    if kind == "vulkan" and not shutil.which("glslangValidator"):
        pytest.skip("glslang is not installed")
    if kind == "webgpu":
        return
    module = {"cuda": "cuda", "rocm": "ziglang", "hexagon": "ziglang"}.get(kind, "clang")
    if kind != "vulkan" and not find_spec(module):
        pytest.skip(f"{module} is not installed")


def write(folder: Path, files: Mapping[str, str | None]) -> None:
    """Write files: name to text. A text that begins with "->" is the target of a link; None removes
    the file.
    """
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if text is not None and text.startswith("->"):
            path.symlink_to(text.removeprefix("->"))
        elif text is not None and text.startswith("="):
            os.link(folder / text.removeprefix("="), path)
        elif text is not None:
            path.write_text(text)


def write_project(
    folder: Path, target: str, files: Mapping[str, str | None], settings: str = "", source: str = ""
) -> None:
    """Write a project. In the texts, KERNEL is the kernel of the target's language."""
    name, head, kernel = LANGUAGES[target]
    for each, text in files.items():
        is_link = text is not None and text.startswith(("->", "="))
        written = text and text.replace("HEAD", head).replace("KERNEL", name if is_link else kernel)
        write(folder, {each.replace("KERNEL", name): written})
    source = (source or "KERNEL").replace("KERNEL", name)
    (folder / "devmod.toml").write_text(
        f'output = "k.devmod"\ntargets = ["{target}"]\n[kernels.k]\nsources = ["{source}"]\n{settings}\n'
    )


def build(folder: Path, *, cache: bool | Path = True) -> tuple[str, object, BuildResult]:
    """Return the status of the job, the bytes of the output or the message of the failure, and the
    result.
    """
    output = folder.parent / "output.devmod"
    output.unlink(missing_ok=True)
    result = devmod.build(folder, output=output, cache=cache)
    (job,) = result.results
    return job.status, job.failure.message if job.failure else output.read_bytes(), result


def check_current(folder: Path) -> str:
    """Build with the cache and without, compare, and return the status of the job."""
    status, actual, _ = build(folder)
    _, expected, _ = build(folder, cache=False)
    assert actual == expected
    return status


VALUE_1, VALUE_2 = "#define VALUE 1\n", "#define VALUE 2\n"
CONFIG = 'HEAD#include "config.h"\nKERNEL'
TESTED = '#if __has_include("other.h")\n#include "other.h"\n#else\n#define VALUE 1\n#endif\nKERNEL'
#: Name: the targets, the files, the settings of the manifest, the source, and the change.
CASES: dict[str, tuple[Sequence[str], dict[str, str | None], str, str, dict[str, str | None]]] = {
    "a changed header": (
        TARGETS,
        {"KERNEL": CONFIG, "config.h": VALUE_1},
        "",
        "",
        {"config.h": VALUE_2},
    ),
    "a linked source": (
        TARGETS,
        {
            "shared/KERNEL": CONFIG,
            "kernels/config.h": VALUE_1,
            "kernels/KERNEL": "->../shared/KERNEL",
            "shared/config.h": VALUE_1,
        },
        "",
        "kernels/KERNEL",
        {"kernels/config.h": VALUE_2},
    ),
    "a linked header": (
        TARGETS,
        {
            "KERNEL": 'HEAD#include "inc/x.h"\nKERNEL',
            "far/x.h": '#include "config.h"\n',
            "inc/x.h": "->../far/x.h",
            "inc/config.h": VALUE_1,
        },
        "",
        "",
        {"inc/config.h": VALUE_2},
    ),
    "a link with another target": (
        TARGETS,
        {"KERNEL": CONFIG, "one.h": VALUE_1, "two.h": VALUE_2, "config.h": "->one.h"},
        "",
        "",
        {"config.h": "->two.h"},
    ),
    "the parent of a linked folder": (
        TARGETS,
        {
            "KERNEL": 'HEAD#include "link/../config.h"\nKERNEL',
            "far/deep/x.h": "",
            "link": "->far/deep",
            "config.h": VALUE_1,
            "far/config.h": VALUE_1,
        },
        "",
        "",
        {"far/config.h": VALUE_2},
    ),
    "a new header earlier in the order": (
        TARGETS,
        {"KERNEL": "HEAD#include <config.h>\nKERNEL", "two/config.h": VALUE_1, "one/x.h": ""},
        'include = ["one", "two"]',
        "",
        {"one/config.h": VALUE_2},
    ),
    "a new header beside the source": (
        TARGETS,
        {"KERNEL": CONFIG, "inc/config.h": VALUE_1},
        'include = ["inc"]',
        "",
        {"config.h": VALUE_2},
    ),
    "a new header beside the including file": (
        TARGETS,
        {
            "KERNEL": 'HEAD#include "sub/x.h"\nKERNEL',
            "sub/x.h": '#include "config.h"\n',
            "inc/config.h": VALUE_1,
        },
        'include = ["inc"]',
        "",
        {"sub/config.h": VALUE_2},
    ),
    "a removed header before another": (
        TARGETS,
        {"KERNEL": CONFIG, "config.h": VALUE_1, "inc/config.h": VALUE_2},
        'include = ["inc"]',
        "",
        {"config.h": None},
    ),
    "an imported file": (
        ("webgpu",),
        {"KERNEL": "#import config\nKERNEL", "shared/config.wgsl": VALUE_1},
        "",
        "",
        {"shared/config.wgsl": VALUE_2},
    ),
    "a new imported file": (
        ("webgpu",),
        {"KERNEL": "#import config\nKERNEL", "config.wgsl": VALUE_1, "shared/x.wgsl": ""},
        "",
        "",
        {"shared/config.wgsl": VALUE_2},
    ),
    "a header that is tested for": (PREPROCESSED, {"KERNEL": TESTED}, "", "", {"other.h": VALUE_2}),
    "a header that is tested for by a macro": (
        CLANG,
        {"KERNEL": '#define OTHER "other.h"\n' + TESTED.replace('"other.h"', "OTHER")},
        "",
        "",
        {"other.h": VALUE_2},
    ),
    "a header that a define names": (
        CLANG,
        {"KERNEL": "#include CONFIG\nKERNEL", "one.h": VALUE_1},
        "defines = { CONFIG = '\"one.h\"' }",
        "",
        {"one.h": VALUE_2},
    ),
    "a header that a macro with parameters names": (
        CLANG,
        {"KERNEL": "#define TEXT(x) #x\n#include TEXT(config.h)\nKERNEL", "config.h": VALUE_1},
        "",
        "",
        {"config.h": VALUE_2},
    ),
    "a test for a header by parameters": (
        (*CLANG, "opencl"),
        {"KERNEL": "#define HAS __has_include\n" + TESTED.replace("__has_include", "HAS")},
        "",
        "",
        {"other.h": VALUE_2},
    ),
    "a test for a header by joined parameters": (
        CLANG,
        {
            "KERNEL": "#define HAS_(a, b) a##b\n#define HAS HAS_(__has_incl, ude)\n"
            + TESTED.replace("__has_include", "HAS")
        },
        "",
        "",
        {"other.h": VALUE_2},
    ),
    "a test for a header by parameters outside of the text": (
        (*CLANG, "opencl"),
        {"KERNEL": TESTED.replace('__has_include("other.h")', "HAS")},
        "defines = { HAS = '__has_include(\"other.h\")' }",
        "",
        {"other.h": VALUE_2},
    ),
    "a test for a header by parameters in an option": (
        (*CLANG, "opencl"),
        {"KERNEL": TESTED.replace("__has_include", "HAS")},
        'options = ["-DHAS=__has_include"]',
        "",
        {"other.h": VALUE_2},
    ),
    "embedded data": (
        CLANG,
        {
            "KERNEL": 'static const char data[] = {\n#embed "data"\n};\n#define VALUE data[0]\nKERNEL',
            "data": "1",
        },
        "",
        "",
        {"data": "2"},
    ),
    "a header that shadows one of a header of the compiler": (
        CLANG,
        {
            "KERNEL": "#include <stddef.h>\n#ifndef VALUE\n#define VALUE 1\n#endif\nKERNEL",
            "inc/x.h": "",
        },
        'include = ["inc"]',
        "",
        {"inc/__stddef_size_t.h": VALUE_2},
    ),
    "a header that shadows one of devmod's first header": (
        ("rocm -arch=gfx1100",),
        {"KERNEL": "#ifndef VALUE\n#define VALUE 1\n#endif\nKERNEL", "inc/x.h": ""},
        'include = ["inc"]',
        "",
        {"inc/float.h": VALUE_2},
    ),
    "a copy in the place of a link": (
        TARGETS,
        {
            "KERNEL": 'HEAD#include "a.h"\n#include "b.h"\nKERNEL',
            "a.h": "#pragma once\n" + VALUE_1 + "#undef VALUE\n" + VALUE_2,
            "b.h": "=a.h",
        },
        "",
        "",
        {"b.h": "#pragma once\n#undef VALUE\n#define VALUE 3\n"},
    ),
}


#: `make test` has one case for every target, and the others for the first of their targets.
QUICK = [f"{case}-{targets[0]}" for case, (targets, *_) in CASES.items()]


@pytest.mark.once
@pytest.mark.volume_but(*QUICK)
@pytest.mark.row("R38")
@pytest.mark.parametrize(
    ("case", "target"),
    [(case, target) for case, (targets, *_) in CASES.items() for target in targets],
)
def test_a_change_is_compiled(tmp_path: Path, case: str, target: str) -> None:
    require_compiler(target)
    _, files, settings, source, change = CASES[case]
    folder = tmp_path / "p"
    write_project(folder, target, files, settings, source)
    first = build(folder)
    assert (first[0], check_current(folder)) == (
        "compiled",
        "compiled" if "parameters" in case else "cached",
    ), first[1]
    write_project(folder, target, change, settings, source)
    second = build(folder)
    assert (second[0], second[1] == first[1]) == ("compiled", False)
    check_current(folder)


@pytest.mark.once
@pytest.mark.volume_but("opencl", "webgpu")
@pytest.mark.parametrize("target", TARGETS)
def test_two_projects_with_one_cache_share_no_result_of_other_headers(
    tmp_path: Path, target: str
) -> None:
    require_compiler(target)
    results = []
    for name, value in (("a", VALUE_1), ("b", VALUE_2), ("c", VALUE_1)):
        files: dict[str, str | None] = {
            "shared/KERNEL": CONFIG,
            "kernels/KERNEL": "->../shared/KERNEL",
            "kernels/config.h": value,
        }
        write_project(tmp_path / name, target, files, source="kernels/KERNEL")
        status, data, _ = build(tmp_path / name)
        results.append((status, data))
    assert [status for status, _ in results] == ["compiled", "compiled", "cached"]
    assert results[0][1] == results[2][1] != results[1][1]


@pytest.mark.once
@pytest.mark.volume_but("opencl-0")
@pytest.mark.row("R38")
@pytest.mark.parametrize(("target", "seed"), SEEDS)
def test_a_build_with_the_cache_gives_what_a_build_without_it_gives(
    tmp_path: Path, target: str, seed: int
) -> None:
    require_compiler(target)
    project = RandomProject(tmp_path / "p", target, seed)
    steps = []
    for _ in range(12):
        status, actual, _ = build(tmp_path / "p")
        _, expected, _ = build(tmp_path / "p", cache=False)
        assert actual == expected, (status, steps)
        steps.append(project.change())


# -- the files that the compiler lists


@pytest.mark.once
@pytest.mark.volume_but("opencl", "vulkan", "webgpu", "cuda -arch=compute_80", "hexagon -arch=v66")
@pytest.mark.parametrize("target", LANGUAGES)
def test_a_file_that_the_text_does_not_name_is_found_in_the_list_of_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """A reader of the text that finds no include at all does not lead to a stale result."""
    require_compiler(target)
    write_project(tmp_path / "p", target, {"KERNEL": CONFIG, "config.h": VALUE_1})
    monkeypatch.setattr("devmod_targets.build.closure.included_names", lambda _: IncludedNames())
    source = LANGUAGES[target][0]
    header = tmp_path / "p" / "config.h"
    note = f"{source} is not cached: its compiler read {header}, which is not among the includes that devmod found in the text"
    for _ in range(2):
        status, _, result = build(tmp_path / "p")
        assert (status, result.reports[-1:]) == (
            "compiled",
            (note,),
        )  # another note says that naga is not installed
    write(tmp_path / "p", {"config.h": VALUE_2})
    assert check_current(tmp_path / "p") == "compiled"


def test_the_list_of_libclang_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """libclang reads the signatures. It is another version than the compiler, and may take another
    branch.
    """
    require_compiler("hexagon -arch=v66")
    text = '#if __clang_major__ < 20\n#include "types.h"\n#else\ntypedef int T;\n#endif\nvoid k(T *x) { x[0] = 1; }\n'
    write_project(
        tmp_path / "p", "hexagon -arch=v66", {"KERNEL": text, "types.h": "typedef int T;\n"}
    )
    monkeypatch.setattr("devmod_targets.build.closure.included_names", lambda _: IncludedNames())
    _, _, result = build(tmp_path / "p")
    assert [f"read {tmp_path / 'p' / 'types.h'}" in each for each in result.reports] == [True]


def test_a_build_without_a_cache_has_no_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path / "p", "opencl", {"KERNEL": CONFIG, "config.h": VALUE_1})
    monkeypatch.setattr("devmod_targets.build.closure.included_names", lambda _: IncludedNames())
    assert build(tmp_path / "p", cache=False)[2].reports == ()


@pytest.mark.parametrize(
    ("include", "read"),
    [
        (
            "#if __has_include(<../../../../../../../../config.h>)\n#endif\n",
            "../../../../../../../../config.h",
        ),
        (
            '#define HAS __has_include\n#if HAS("/devmod.invalid/config.h")\n#endif\n',
            "a file that a macro names",
        ),
        (
            '#define JOIN(a, b) a##b\n#if JOIN(__has_, include)("/devmod.invalid/config.h")\n#endif\n',
            "a file that a macro names",
        ),
        (
            "#define DIR /tmp\n#define FILE(x) <DIR/x>\n#if __has_include(FILE(config.h))\n#endif\n",
            "a file that a macro names",
        ),
    ],
)
def test_a_name_that_leads_nvrtc_to_an_unknown_file_is_not_cached(
    tmp_path: Path, include: str, read: str
) -> None:
    """NVRTC lists no files."""
    target = "cuda -arch=compute_80"
    require_compiler(target)
    write_project(tmp_path / "p", target, {"KERNEL": include + VALUE_1 + "KERNEL"})
    status, _, result = build(tmp_path / "p")
    note = f"k.cu is not cached: its compiler may read {read}, which is not among the includes that devmod found in the text"
    assert (status, result.reports) == ("compiled", (note,))
    assert check_current(tmp_path / "p") == "compiled"


@pytest.mark.parametrize(
    "include",
    [
        "// #include <../../../config.h>\n",
        "#ifdef NEVER\n#define HEADER(x) <cuda/std/x>\n#include HEADER(cassert)\n#endif\n#define LOG(...) log(__VA_ARGS__)\n",
    ],
)
def test_a_name_that_leads_nvrtc_to_its_own_headers_is_cached(tmp_path: Path, include: str) -> None:
    target = "cuda -arch=compute_80"
    require_compiler(target)
    write_project(tmp_path / "p", target, {"KERNEL": include + VALUE_1 + "KERNEL"})
    build(tmp_path / "p")
    assert check_current(tmp_path / "p") == "cached"


def test_an_option_in_the_first_line_leads_nvrtc_to_a_file_too(tmp_path: Path) -> None:
    target = "cuda -arch=compute_80"
    require_compiler(target)
    first = '//devmod: -DCONFIG="/devmod.invalid/config.h"\n#if __has_include(CONFIG)\n#endif\n'
    write_project(tmp_path / "p", target, {"KERNEL": first + VALUE_1 + "KERNEL"})
    status, _, result = build(tmp_path / "p")
    note = "k.cu is not cached: its compiler may read a file that a macro names, which is not among the includes that devmod found in the text"
    assert (status, result.reports) == ("compiled", (note,))


def test_a_header_that_was_found_when_a_pragma_looked_for_it(tmp_path: Path) -> None:
    target = "rocm -arch=gfx1100"
    require_compiler(target)
    write_project(
        tmp_path / "p",
        target,
        {"KERNEL": '#pragma GCC dependency "a.h"\n' + VALUE_1 + "KERNEL", "a.h": ""},
    )
    assert build(tmp_path / "p")[0] == "compiled"
    write(tmp_path / "p", {"a.h": None})
    assert check_current(tmp_path / "p") == "failed"


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("target", ["rocm -arch=gfx1100", "opencl"])
def test_a_pipe_in_the_place_of_a_header_is_an_error(
    tmp_path: Path, target: str, cache: bool
) -> None:
    """A compiler would wait for its other end."""
    require_compiler(target)
    write_project(tmp_path / "p", target, {"KERNEL": TESTED})
    assert build(tmp_path / "p")[0] == "compiled"
    os.mkfifo(tmp_path / "p" / "other.h")
    status, message, _ = build(tmp_path / "p", cache=cache)
    path = str(tmp_path.resolve() / "p" / "other.h")
    text = f"{LANGUAGES[target][0]}: an include names {path!r}, which is neither a regular file nor a folder"
    assert (status, message) == ("failed", text)


# -- compilers of other distributions


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """A compiler that reads a file beside the source, which the text does not name."""
    import sys
    from types import ModuleType

    from devmod_targets.authoring import CompileRequest, Payload

    module = ModuleType("toy_compiler")

    def define(
        files: Callable[[CompileRequest], dict[str, str] | None],
        sources: Mapping[str, str] | None = None,
    ) -> None:
        def compile_toy(request: CompileRequest) -> Payload:
            info = {"k": devmod.FunctionInfo("k", [])}
            origin = devmod.Origin("toy", "toycc 1", (), sources or {})
            return Payload("toy", request.text.encode(), "toy", info, None, origin, files(request))

        module.compile = compile_toy  # type: ignore[attr-defined]

    module.toolchain_key = lambda target, options: "toycc 1"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy_compiler", module)
    spec = devmod.TargetSpec(
        "toy",
        title="Toy",
        distribution="devmod-toy",
        formats=["toy"],
        languages={"toy": "Toy"},
        compiler="toy_compiler:compile",
    )
    devmod.register("devmod.targets", "toy", spec)
    yield define
    devmod.register("devmod.targets", "toy", None, replace=True)


def toy_build(folder: Path) -> tuple[str, tuple[str, ...]]:
    write(
        folder,
        {
            "k.toy": "kernel k",
            "devmod.toml": 'output = "k.devmod"\ntargets = ["toy"]\n[kernels.k]\nsources = ["k.toy"]\n',
        },
    )
    status, _, result = build(folder)
    return status, result.reports


def test_a_compiler_that_lists_its_files_is_cached(
    tmp_path: Path, toy: Callable[..., None]
) -> None:
    toy(lambda _: {})
    assert [toy_build(tmp_path / "p") for _ in range(2)] == [("compiled", ()), ("cached", ())]


def test_a_compiler_that_does_not_list_its_files_is_not_cached(
    tmp_path: Path, toy: Callable[..., None]
) -> None:
    toy(lambda _: None)
    note = "k.toy is not cached: its compiler does not list the files that it reads (Payload.files)"
    assert [toy_build(tmp_path / "p") for _ in range(2)] == [("compiled", (note,))] * 2


def test_an_origin_with_another_source_is_not_cached(
    tmp_path: Path, toy: Callable[..., None]
) -> None:
    toy(lambda _: {}, {"prelude": "0" * 64})
    note = "k.toy is not cached: its compiler read a source in its origin, which is not among the includes that devmod found in the text"
    assert [toy_build(tmp_path / "p") for _ in range(2)] == [("compiled", (note,))] * 2


# -- changes during the compile


class Editing(Pool):
    """Changes files before and after the compile."""

    before: Callable[[], object] = staticmethod(lambda: None)
    after: Callable[[], object] = staticmethod(lambda: None)

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        for number, job in enumerate(jobs):
            type(self).before()
            outcome = self._task(job)
            type(self).after()
            yield number, outcome


@pytest.mark.parametrize("target", ["opencl", "hexagon -arch=v66"])
@pytest.mark.parametrize(
    "edit", ["a changed header", "a header that changes and changes back", "a new header"]
)
def test_an_edit_during_the_compile_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, edit: str
) -> None:
    require_compiler(target)
    folder = tmp_path / "p"
    write_project(folder, target, {"KERNEL": CONFIG, "inc/config.h": VALUE_1}, 'include = ["inc"]')
    header = folder / "inc" / "config.h"
    about = header.stat()

    def set_value(text: str) -> None:
        header.write_text(text)
        os.utime(header, ns=(about.st_atime_ns, about.st_mtime_ns))

    pool = type("Pool", (Editing,), {})
    pool.before = staticmethod(
        lambda: (
            write(folder, {"config.h": VALUE_2}) if edit == "a new header" else set_value(VALUE_2)
        )
    )
    if "back" in edit:
        pool.after = staticmethod(lambda: set_value(VALUE_1))
    monkeypatch.setattr("devmod_targets.build.pool.Pool", pool)
    build(folder)
    monkeypatch.setattr("devmod_targets.build.pool.Pool", Pool)
    write(folder, {"config.h": None, "inc/config.h": VALUE_1})
    assert check_current(folder) == "compiled"


# -- a job on another machine


def test_the_files_of_a_job_are_the_same_on_a_worker(tmp_path: Path) -> None:
    """Links to one file are links there too: ``#pragma once`` counts for a file with all its
    names.
    """
    from devmod_targets.build import plan_of, read_manifest
    from devmod_targets.build.build import job_closure
    from devmod_targets.build.closure import SourceTree
    from devmod_targets.build.jobs import pack_files

    target = "hexagon -arch=v66"
    require_compiler(target)
    files: dict[str, str | None] = {
        "shared/KERNEL": '#include "a.h"\n#include "b.h"\n#include <sub/c.h>\nKERNEL',
        "kernels/KERNEL": "->../shared/KERNEL",
        "kernels/a.h": "#pragma once\nstatic int once = 1;\n" + VALUE_1,
        "kernels/b.h": "->a.h",
        "inc/sub/c.h": "=kernels/a.h",
    }
    write_project(
        tmp_path / "p",
        target,
        {name: text for name, text in files.items() if text},
        'include = ["inc"]',
        "kernels/KERNEL",
    )
    (job,) = plan_of(read_manifest(tmp_path / "p")).jobs
    closure = job_closure(job, SourceTree())
    local = attempt(job)
    remote = attempt(*pack_files(job, closure))
    assert local.data, local.log
    assert (remote.data, remote.files) == (local.data, local.files)
    assert closure.unknown_file(local.files or {"none": ""}) == ""


def test_a_worker_stays_inside_the_project_of_the_manifest_too(tmp_path: Path) -> None:
    """The files travel with the job, also one that no include may read."""
    from devmod_targets.build import plan_of, read_manifest
    from devmod_targets.build.build import job_closure
    from devmod_targets.build.closure import SourceTree
    from devmod_targets.build.jobs import pack_files

    (tmp_path / "p" / "src").mkdir(parents=True)
    (tmp_path / "p" / "a.h").write_text("#define A 1\n")
    (tmp_path / "secret.h").write_text("#define A 2\n")
    source = tmp_path / "p" / "src" / "k.cl"
    (tmp_path / "p" / "devmod.toml").write_text(
        'output = "k.devmod"\ntargets = ["opencl"]\n[kernels.k]\nsources = ["src/k.cl"]\n'
    )
    for name, is_inside in (("../a.h", True), ("../../secret.h", False)):
        source.write_text(f'#include "{name}"\nkernel void k(global int *x) {{ x[0] = A; }}\n')
        (job,) = plan_of(read_manifest(tmp_path / "p")).jobs
        local, remote = attempt(job), attempt(*pack_files(job, job_closure(job, SourceTree())))
        assert bool(local.data) is is_inside
        assert remote.data == local.data
        assert is_inside or all(
            each.message.endswith('include = [".."]') for each in (local, remote)
        )
