"""Hexagon: C, C++ and LLVM IR compile with the clang and lld of the wheel ziglang, to bytes that
depend on the inputs alone.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from backend_checks import check_error
from each_case import raised
from two_folders import origin_in_two_folders

import devmod
from devmod import FunctionInfo
from devmod_targets.authoring.zig import find_zig

pytestmark = pytest.mark.once  # what clang makes of a source
TARGET = "hexagon -arch=v66"
SOURCE = """
#include <math.h>
#include <stdint.h>
typedef struct { float factor; int32_t offsets[2]; struct { uint8_t first, second; } flags; } How;
enum Mode { ONE, TWO };
void apply(const float *__restrict x, double y[], How how, enum Mode mode, uint64_t n, _Bool on, int8_t *const state) { y[0] = x[0] * how.factor + mode + n + on + state[0]; }
static int helper(int x) { return x; }
int64_t total(const int16_t *x, void *any, How *hows) { return helper(x[0]); }
"""


@pytest.fixture(scope="module")
def saved() -> devmod.Module:
    """The module of SOURCE with the intermediate results of its compile."""
    return devmod.compile(SOURCE, TARGET, language="C", options=["-save-temps"])


def signatures(module: devmod.Module) -> list[str]:
    return [str(info) for info in module.functions.values()]


def test_signatures_come_from_the_source() -> None:
    module = devmod.compile(SOURCE, TARGET)  # in C, the first language of the kind
    assert signatures(module) == [
        "<FunctionInfo apply(x: float32* r, y: float64* rw, how: {factor: float32, offsets: int32[2], flags: {first: ui…, "
        "mode: uint8, n: uint64, on: bool, state: int8* rw)>",
        "<FunctionInfo total(x: int16* r, any: void* rw, hows: {factor: float32, offsets: int32[2], flags: {first: u…) -> int64>",
    ]
    assert (module.kind, module.format) == ("hexagon", "so")
    assert "apply:" in module.inspect_source("asm")
    assert list(module.source) == ["asm", "obj"]


HIDDEN = '__attribute__((visibility("hidden")))'


@pytest.mark.parametrize("language", ["C", "C++"])
def test_hidden_functions_are_functions_of_a_source_without_others(language: str) -> None:
    """As the macros of XNNPACK declare its kernels."""
    source = f"""
    #ifdef __cplusplus
    extern "C" {{
    #endif
    {HIDDEN} void scale(float *x, int n);
    {HIDDEN} float half(float x) {{ return x / 2; }}
    void scale(float *x, int n) {{ for (int i = 0; i < n; i++) x[i] = half(x[i]); }}
    static void local(float *x) {{}}
    void (*volatile at)(float *, int) = scale;
    #ifdef __cplusplus
    }}
    #endif
    """
    expected = [
        "<FunctionInfo half(x: float32) -> float32>",
        "<FunctionInfo scale(x: float32* rw, n: int32)>",
    ]
    assert sorted(signatures(devmod.compile(source, TARGET, language=language))) == expected
    visible = source.replace(HIDDEN, "")
    assert (
        sorted(
            signatures(
                devmod.compile(visible, TARGET, language=language, options=["-fvisibility=hidden"])
            )
        )
        == expected
    )


def test_hidden_functions_beside_others_must_be_declared() -> None:
    source = f"{HIDDEN} void inner(float **x) {{}}\nvoid outer(float *x) {{}}\n"
    assert signatures(devmod.compile(source, TARGET)) == ["<FunctionInfo outer(x: float32* rw)>"]
    assembly = str(devmod.compile(source, TARGET).source["asm"])
    fmap = {"inner": FunctionInfo("inner", ["handle"])}
    assert signatures(devmod.compile(assembly, TARGET, language="assembly", fmap=fmap)) == [
        "<FunctionInfo inner(handle)>"
    ]


def test_functions_that_devmod_cannot_call_are_omitted_beside_others() -> None:
    """As the sources of Halide's runtime return pointers to their callers."""
    source = "int *find(int *x) { return x; }\nvoid k(int *x) { find(x)[0] = 1; }\nvoid *next(void) { return 0; }\n"
    with pytest.warns(UserWarning, match=".") as warnings:
        module = devmod.compile(source, TARGET)
    assert signatures(module) == ["<FunctionInfo k(x: int32* rw)>"]
    error = (
        "<text>:1: the function 'find' returns 'int *', which devmod cannot pass; expected a number, a struct, or a pointer. Declare helper "
        "functions static"
    )
    assert [str(each.message) for each in warnings] == [f"the module omits find, next: {error}"]
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(source, TARGET, fmap={"find": FunctionInfo("find", ["handle"])}),
        error,
    )
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(source.replace("void k", "static void k"), TARGET),
        error,
    )


C_HEADERS = "assert ctype errno float inttypes limits math memory stdarg stdbool stddef stdint stdio stdlib string time"
CPP_HEADERS = (
    "algorithm array bit cassert cctype cerrno cfloat cinttypes climits cmath complex cstdarg cstddef cstdint cstdio cstdlib cstring ctime "
    "initializer_list iomanip iostream limits memory new numeric ostream span string tuple type_traits utility vector"
)


def test_the_standard_headers_of_c() -> None:
    """Code for debugging compiles. A runner that has no printf refuses the module by name."""
    source = (
        "".join(f"#include <{name}.h>\n" for name in C_HEADERS.split())
        + """
    static int order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
    void k(int *x, size_t n, uint8_t *y, int64_t z)
    {
        assert(n != 0 && y != NULL);
        qsort(x, n, sizeof *x, order);
        memset(y, abs(x[0]) + (int)strlen("four"), n);
        if (isnan(sqrt(x[0] + FLT_MAX * M_PI))) fprintf(stderr, "%zu %" PRId64 "\\n", n, z);
    }
    """
    )
    assert signatures(devmod.compile(source, TARGET, options=["-Wall", "-Werror"])) == [
        "<FunctionInfo k(x: int32* rw, n: uint32, y: uint8* rw, z: int64)>"
    ]


@pytest.mark.volume  # a compile of 33 headers
def test_the_standard_headers_of_cpp() -> None:
    source = (
        "".join(f"#include <{name}>\n" for name in CPP_HEADERS.split())
        + """
    struct Window { std::array<float, 4> weights; std::uint16_t n; };
    extern "C" void k(const Window &window, std::complex<float> *z, std::size_t n)
    {
        std::vector<float> values(n, std::numeric_limits<float>::max());
        z[0] = *std::min_element(values.begin(), values.end()) + std::sqrt(window.weights[0]);
        if (n == 0) std::cout << std::setprecision(3) << n << std::endl;
    }
    """
    )
    assert signatures(devmod.compile(source, TARGET, language="C++")) == [
        "<FunctionInfo k(window: {weights: {__elems_: float32[4]}, n: uint16}* r, z: {__re_: float32, __im_: float32}* rw, n: uint32)>"
    ]


@pytest.mark.volume
def test_functions_of_the_cpp_library_are_no_functions_of_the_module() -> None:
    source = """
    #include <algorithm>
    #include <sstream>
    extern "C" void k(float *x, int n)
    {
        std::ostringstream stream;
        stream << n;
        std::stable_sort(x, x + n);
        x[0] = stream.str().size();
    }
    """
    options = ["-O0", "-fvisibility=hidden"]
    assert signatures(devmod.compile(source, TARGET, language="C++", options=options)) == [
        "<FunctionInfo k(x: float32* rw, n: int32)>"
    ]


def test_an_error_in_a_standard_header_has_no_folder() -> None:
    source = (
        '#include <array>\nextern "C" int k() { std::array<int, 2> x{}; return std::get<2>(x); }'
    )
    error = raised(devmod.CompileError, devmod.compile, source, TARGET, language="C++")
    assert re.match(
        r"the C\+\+ source does not compile: array:\d+:\d+: error: static assertion failed",
        str(error),
    )
    assert "/lib/" not in error.log


def all_intrinsics() -> str:
    """Return functions that use each intrinsic of clang's headers that the core has, on arguments
    in memory.
    """
    folder = Path(find_zig(kind="hexagon")).parent / "lib" / "include"
    names = (
        "hexagon_types.h",
        "hexagon_protos.h",
        "hvx_hexagon_protos.h",
        "hexagon_circ_brev_intrinsics.h",
    )
    lines = [f"#include <{name}>" for name in names]
    lines += [
        "typedef union { int R; long long P; float sf; double df; HVX_Vector V; HVX_VectorPair W; HVX_VectorPred Q; } Any;"
    ]
    members = {
        "Byte": "R",
        "Word32": "R",
        "UWord32": "R",
        "Word64": "P",
        "UWord64": "P",
        "Float32": "sf",
        "Float64": "df",
    }
    members |= {"HVX_Vector": "V", "HVX_VectorPair": "W", "HVX_VectorPred": "Q"}
    prototype = re.compile(r"C Intrinsic Prototype: (\w+) (Q6_\w+)\((.*)\)")
    for result, name, parameters in prototype.findall(
        "".join(folder.joinpath(each).read_text() for each in names[1:3])
    ):
        # A parameter such as Iu5 is a constant.
        arguments = [
            "0"
            if re.search(r"\bI\w+$", each)
            else f"(void *)&x[{place}]"
            if "*" in each or "Address" in each
            else f"x[{place}].{members[each.split()[0]]}"
            for place, each in enumerate(filter(None, map(str.strip, parameters.split(","))), 1)
        ]
        call = f"{name}({', '.join(arguments)})"
        place = "" if result == "void" else f"x[0].{members[result]} = "
        lines.append(f"#ifdef {name}\nvoid use_{name}(Any *x) {{ {place}{call}; }}\n#endif")
    return "\n".join(lines)


#: The intrinsics that clang 21 and later versions have for a core.
INTRINSICS = {
    "v60": 1181,
    "v62": 1228,
    "v65": 1268,
    "v66": 1272,
    "v67": 1272,
    "v68": 1311,
    "v69": 1316,
    "v71": 1316,
}
INTRINSICS |= {"v73": 1320, "v75": 1320, "v79": 1322}


@pytest.mark.volume_but("v79")
@pytest.mark.parametrize("arch", INTRINSICS)
def test_every_intrinsic_of_a_core_compiles(arch: str) -> None:
    options = [
        "-O0",
        f"-mhvx={arch}",
        "-mhvx-length=128b",
        *(["-mhvx-ieee-fp"] if arch >= "v68" else []),
    ]
    module = devmod.compile(all_intrinsics(), f"hexagon -arch={arch}", options=options)
    assert len(module.functions) >= INTRINSICS[arch]


def test_names_come_from_the_declaration_that_has_them() -> None:
    source = "void second(float *, int);\nvoid first(int *x) {}\nvoid second(float *x, int n) {}\nvoid first(int *);\nvoid third(int) {}\n"
    assert signatures(devmod.compile(source, TARGET, language="C++")) == [
        "<FunctionInfo _Z6secondPfi(x: float32* rw, n: int32)>",
        "<FunctionInfo _Z5firstPi(x: int32* rw)>",
        "<FunctionInfo _Z5thirdi(int32)>",
    ]


def test_cpp_functions_have_qualified_names() -> None:
    source = """
    namespace filters { template <class T> T square(T x) { return x * x; } void blur(float *x, int n) { x[0] = square(x[n]); } }
    extern "C" void plain(float &x) { x = 1; }
    inline void hidden(float *x) { x[0] = 2; }
    namespace { void local(float *x) { x[0] = 3; } }
    void use(float *x) { hidden(x); local(x); }
    """
    module = devmod.compile(source, TARGET, language="C++")
    assert {name: info.name for name, info in module.functions.items()} == {
        "filters::blur": "_ZN7filters4blurEPfi",
        "plain": "plain",
        "use": "_Z3usePf",
    }


def test_name_expressions_instantiate_templates() -> None:
    source = """
    namespace filters { template <class T> T at(const T *x, int n) { return x[n]; } }
    template <class T> void fill(T *x, int n) { x[n] = 1; }
    template void fill<short>(short *, int);
    void twice(int *x) {} void twice(float *x) {}
    """
    module = devmod.compile(source, TARGET, language="C++", name_expressions=["filters::at<float>"])
    assert [f"{name} {info}" for name, info in module.functions.items()] == [
        "twice(int*) <FunctionInfo _Z5twicePi(x: int32* rw)>",
        "twice(float*) <FunctionInfo _Z5twicePf(x: float32* rw)>",
        "fill<short> <FunctionInfo _Z4fillIsEvPT_i(x: int16* rw, n: int32)>",
        "filters::at<float> <FunctionInfo _ZN7filters2atIfEET_PKS1_i(x: float32* r, n: int32) -> float32>",
    ]


@pytest.mark.row("R13")
@pytest.mark.row("R26")
def test_sources_are_kept_and_bytes_are_never_text(saved: devmod.Module) -> None:
    asm, ir, obj, bc = (saved.source[key] for key in ("asm", "ir", "obj", "bc"))
    assert isinstance(asm, str)
    assert isinstance(ir, str)
    assert isinstance(obj, bytes)
    assert isinstance(bc, bytes)
    assert "void @apply(" in ir
    assert (obj[:4], bc[:4]) == (b"\x7fELF", b"BC\xc0\xde")
    shown = {key: saved.inspect_source(key) for key in ("", "asm", "s", "ir", "ll", "obj", "bc")}
    assert shown == {"": asm, "asm": asm, "s": asm, "ir": ir, "ll": ir, "obj": "", "bc": ""}
    plain = devmod.compile(SOURCE, TARGET, language="C")
    assert (plain.save_to_bytes(), plain.origin) == (saved.save_to_bytes(), saved.origin)
    assert list(plain.source) == ["asm", "obj"]


LANGUAGES = {
    "LLVM IR": ("ir", ["ir", "asm", "obj"]),
    "LLVM bitcode": ("bc", ["bc", "asm", "obj"]),
    "assembly": ("asm", ["asm", "obj"]),
}


@pytest.mark.parametrize("language", [*LANGUAGES, "object"])
def test_every_language_gives_the_same_shared_object(language: str, saved: devmod.Module) -> None:
    key, keys = LANGUAGES.get(language, ("obj", ["obj"]))
    other = devmod.compile(saved.source[key], TARGET, language=language, fmap=saved.functions)
    assert (other.save_to_bytes(), list(other.source)) == (saved.save_to_bytes(), keys)
    name = "<bytes>" if isinstance(saved.source[key], bytes) else "<text>"
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(saved.source[key], TARGET, language=language),
        f"the signatures of {name} are unknown: {language} has no types of arguments. Declare the functions: devmod.compile(..., "
        "fmap={name: devmod.FunctionInfo(name, arg_types)}) for apply, total",
    )
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(
            saved.source[key],
            TARGET,
            language=language,
            fmap={"k": FunctionInfo("other", ["handle"])},
        ),
        f"the declared fmap names the hexagon function 'other', which {name} does not export. It exports apply, total",
    )


@pytest.mark.row("R38")
def test_the_bytes_depend_on_the_inputs_alone(tmp_path: Path) -> None:
    files = {
        "k.c": '#include "near.h"\n#include <sub/far.h>\nvoid k(int *x) { x[0] = NEAR + FAR + N; x[1] = sizeof __FILE__ + sizeof far_name; }\n',
        "near.h": "#define NEAR 1\n",
        "include/sub/far.h": "#define FAR 2\nstatic const char far_name[] = __FILE__;\n",
    }
    assert (
        origin_in_two_folders(tmp_path, TARGET, files)
        == "['k.c', 'near.h', 'sub/far.h'] ('-DN=3',)"
    )


@pytest.mark.row("R42")
def test_the_origin_names_the_toolchain() -> None:
    origin = devmod.compile(SOURCE, TARGET, language="C", options=["-O3"]).origin
    assert origin is not None
    assert origin.target == TARGET
    assert origin.toolchain.startswith("clang ")
    assert " (ziglang " in origin.toolchain
    assert origin.options == ("-O3",)
    assert origin.sources == {"<text>": hashlib.sha256(SOURCE.encode()).hexdigest()}


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "a mistake": (
        {"source": "void k(int *x) { x[0] = nonsense; }"},
        "the C source does not compile: <text>:1:25: error: use of undeclared identifier 'nonsense'",
    ),
    "no architecture": (
        {"target": "hexagon"},
        "the target 'hexagon' names no architecture. Name those of the devices: 'hexagon -arch=v68'",
    ),
    "an unknown architecture": (
        {"target": "hexagon -arch=v64"},
        "the target 'hexagon -arch=v64' has the unknown architecture 'v64'; expected one of v5, v55, v60, v62, v65, v66, v67, v67t, v68, v69, v71, "
        "v71t, v73, v75, v79, v81",
    ),
    "no function": (
        {"source": "static int k;"},
        "the C source <text> defines no function that is not static",
    ),
    "a header of the host": (
        {"source": "#include <gnu/libc-version.h>\nvoid k(int *x) {}"},
        "the C source does not compile: <text>:1:10: fatal error: 'gnu/libc-version.h' file not found",
    ),
    "a result that registers do not hold": (
        {
            "source": "typedef struct { int a, b, c; } T;\nT k(int *x) { T t = {1, 2, 3}; return t; }"
        },
        "<text>:2: the function 'k' returns 'T', which devmod cannot pass; expected a number, a struct, or a pointer. Declare helper "
        "functions static",
    ),
    "a complex number": (
        {"source": "void k(int n, _Complex float z) {}"},
        "<text>:1: the function 'k' takes '_Complex float' as argument 2 'z', which devmod cannot pass; expected a number, a struct, or a pointer. "
        "Declare helper functions static",
    ),
    "an option for files": (
        {"options": ["-save-temps=obj"]},
        "the hexagon option '-save-temps=obj' is not supported: devmod sets the architecture, the files, the headers and the kind of output itself",
    ),
    "assembly that reads a file": (
        {"source": '.text\nfirst: .incbin "/etc/hostname"\n', "language": "assembly"},
        "<text>:2: the directive .incbin reads a file of the build machine, and equal sources give equal payloads; write the contents into "
        "the source",
    ),
    "name expressions": (
        {"name_expressions": ["k<int>"]},
        "name_expressions= is not supported for C, which has no templates",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_a_remedy(name: str) -> None:
    arguments, text = ERRORS[name]
    call = {"source": "void k(int *x) { x[0] = 1; }", "target": TARGET, "language": "C"} | arguments
    check_error(
        devmod.CompileError,
        lambda: devmod.compile(call.pop("source"), call.pop("target"), **call),
        text,
    )


@pytest.mark.volume
def test_every_architecture_compiles() -> None:
    from devmod_targets.hexagon.compile import ARCHS

    for arch in ARCHS:
        module = devmod.compile(
            "void k(int *x) { x[0] = 1; }", f"hexagon -arch={arch}", language="C"
        )
        assert module.functions["k"].name == "k"


def test_a_named_clang_replaces_that_of_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from devmod_targets.authoring.zig import find_zig

    zig = find_zig(kind="hexagon")
    for name in ("clang-99", "ld.lld-99"):
        program = tmp_path / name
        # The wheel's clang does not print its resource folder, so the script does.
        program.write_text(
            f'#!/bin/sh\n[ "$1" = -print-resource-dir ] && exec echo "{Path(zig).parent / "lib"}"\n'
            f'exec "{zig}" {name.removesuffix("-99")} "$@"\n'
        )
        program.chmod(0o755)
    expected = devmod.dumps(devmod.compile(SOURCE, TARGET, language="C"))
    module = devmod.compile(
        SOURCE, TARGET, language="C", options=[f"-toolchain={tmp_path / 'clang-99'}"]
    )
    assert module.save_to_bytes() == devmod.loads(expected).save_to_bytes()
    with monkeypatch.context() as context:
        context.chdir(tmp_path)
        relative = devmod.compile(SOURCE, TARGET, language="C", options=["-toolchain=./clang-99"])
    assert relative.save_to_bytes() == module.save_to_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["clang-99", "ld.lld-99"]
    assert module.origin is not None
    assert re.fullmatch(
        r"clang [\d.]+, headers of ziglang [\d.]+, libclang [\d.]+", module.origin.toolchain
    )
    assert str(tmp_path) not in repr(module.origin)
    monkeypatch.setenv("DEVMOD_CLANG", str(tmp_path / "missing"))
    check_error(
        devmod.ToolchainNotFoundError,
        lambda: devmod.compile(SOURCE, TARGET, language="C"),
        f"cannot compile the C source: DEVMOD_CLANG={tmp_path / 'missing'} is not a program",
    )
    (tmp_path / "ld.lld-99").unlink()
    monkeypatch.setenv("DEVMOD_CLANG", str(tmp_path / "clang-99"))
    monkeypatch.setenv("PATH", str(tmp_path))
    check_error(
        devmod.ToolchainNotFoundError,
        lambda: devmod.compile(SOURCE, TARGET, language="C"),
        f"cannot compile the C source: DEVMOD_CLANG={tmp_path / 'clang-99'} has no ld.lld beside it; install lld of the same version",
    )
