"""OpenCL C for Vulkan by clspv: the program, the wheel pyclspv, and what neither can compile."""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from each_case import check_each, refusal, some

import devmod
from devmod import Interface, Local
from devmod_readers.spirv import read_module, relax_atomics
from devmod_targets.authoring import _process

pytestmark = pytest.mark.skipif(find_spec("clang") is None, reason="libclang is not installed")
needs_wheel = pytest.mark.skipif(
    find_spec("pyclspv") is None,
    reason="pyclspv is not installed: it has wheels for Linux on x86-64 alone",
)
#: clspv's SPIR-V of kernels.cl, and how it was made.
FOLDER = Path(__file__).parents[3] / "plugins" / "devmod-vulkan" / "tests" / "clspv"
KERNELS = FOLDER / "kernels.cl"
EXAMPLES = Path(__file__).parents[3] / "examples" / "opencl"
GET_PROGRAM = "get clspv itself (https://github.com/google/clspv), and put it into PATH or name it by DEVMOD_CLSPV"
ADVICE = "Leave out statements until it compiles, to find the one that clspv does not support"
#: A program that does what clspv does for kernels.cl.
PROGRAM = f"""#!{sys.executable}
import os, shutil, sys, time
if "--version" in sys.argv:
    print("clspv version 16.0.1")
    sys.exit()
print(*sys.argv[1:], file=open({{log!r}}, "w"))
text = open("source.cl").read()
if "CRASH" in text:
    os.kill(os.getpid(), 11)
if "HANG" in text:
    time.sleep(600)
if "REFUSE" in text:
    sys.exit("source.cl:2:5: error: pointers to pointers are not supported")
print("source.cl:1:1: warning: unknown pragma", file=sys.stderr)
shutil.copy({str(FOLDER / "kernels.spv")!r}, sys.argv[-1])
"""


def refused(
    source: str | Path, *, error: type[Exception] = devmod.CompileError, **given: Any
) -> str:
    return refusal(error, devmod.compile, source, "vulkan", language="OpenCL C", **given)


def kernel_of(source: str, kind: str = "vulkan", **given: Any) -> Interface:
    interface = devmod.compile(source, kind, language="OpenCL C", **given).functions["k"].interface
    assert interface
    return interface


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in of clspv that DEVMOD_CLSPV names. Its arguments are in the file beside it."""
    path = tmp_path / "tools" / "clspv-16"
    path.parent.mkdir()
    path.write_text(PROGRAM.format(log=str(path) + ".log"))
    path.chmod(0o755)
    monkeypatch.setenv("DEVMOD_CLSPV", str(path))
    return path


@pytest.fixture
def _nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide clspv and pyclspv, as if neither were installed."""
    monkeypatch.delenv("DEVMOD_CLSPV", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "pyclspv", None)
    monkeypatch.setattr("devmod_targets.vulkan._clspv.find_spec", lambda _: None)


# -- the signature


@pytest.mark.row("R38")
def test_the_signature_is_that_of_opencl_with_the_places_of_clspv(program: Path) -> None:
    of_opencl = devmod.compile(FOLDER / "kernels.cl", "opencl").functions
    of_vulkan = devmod.compile(FOLDER / "kernels.cl", "vulkan").functions
    assert list(of_vulkan) == list(of_opencl)
    for name, info in of_vulkan.items():
        interface = of_opencl[name].interface
        own = info.interface
        assert interface
        assert own
        assert info.arg_types == of_opencl[name].arg_types
        assert own.block == interface.block
        assert own.default_block == interface.default_block
        assert own.open_block == interface.open_block
        plain = [each.replace(at=None, format="", sample="") for each in own.params]
        assert plain == [each.replace(sample="") for each in interface.params]


@needs_wheel
def test_one_bundle_of_both_kinds_has_one_signature(tmp_path: Path) -> None:
    for source in some(sorted(EXAMPLES.glob("*.cl"))):
        modules = [devmod.compile(source, kind) for kind in ("opencl", "vulkan")]
        devmod.bundle(*modules)
        assert list(modules[0].functions) == list(modules[1].functions)
    local = {"scratch": Local(per_thread=4)}
    module = devmod.compile(EXAMPLES / "reduction.cl", "vulkan", local=local)
    interface = module.functions["sum"].interface
    assert interface
    assert interface.params[3].default == Local(per_thread=4)
    assert interface.default_block == (128, 1, 1)


@needs_wheel
@pytest.mark.row("R38")
def test_the_origin_and_the_bytes_depend_on_the_source_alone() -> None:
    one, two = (devmod.compile(EXAMPLES / "softmax.cl", "vulkan") for _ in range(2))
    assert devmod.dumps(one) == devmod.dumps(two)
    assert one.origin
    assert one.origin.toolchain.startswith("pyclspv ")
    assert ", libclang " in one.origin.toolchain


@needs_wheel
@pytest.mark.skipif(not shutil.which("spirv-opt"), reason="spirv-tools is not installed")
@pytest.mark.parametrize("level", ["-O", "-Os"])
def test_an_optimized_kernel_keeps_what_its_launch_sets(level: str) -> None:
    module = devmod.compile(FOLDER / "kernels.cl", "vulkan", options=[level])
    plain = devmod.compile(FOLDER / "kernels.cl", "vulkan")
    assert module.functions == plain.functions
    assert module.code != plain.code  # type: ignore[attr-defined]


# -- the program


def test_the_program_gets_the_options_and_pyclspv_the_text(program: Path) -> None:
    options = ["-cl-std=CL2.0", "--pod-ubo", "-w"]
    module = devmod.compile(FOLDER / "kernels.cl", "vulkan", options=options, defines={"N": 4})
    assert Path(f"{program}.log").read_text() == (
        "-cl-std=CL2.0 --pod-ubo --spv-version=1.4 -cl-kernel-arg-info -long-vector -inline-entry-points source.cl -o compiled.spv\n"
    )
    assert module.origin
    assert module.origin.toolchain.startswith("clspv 16.0.1, libclang ")
    assert module.origin.options == ("-cl-std=CL2.0", "--pod-ubo", "-w", "-DN=4")
    assert refused(FOLDER / "kernels.cl", options=["-samplermap=x"]) == (
        "the vulkan option '-samplermap=x' is not supported: expected an option of OpenCL such as -cl-std=CL2.0, or one of clspv for the "
        "code such as -inline-entry-points"
    )


@needs_wheel
def test_pyclspv_takes_defines_and_the_same_options() -> None:
    kernel_of(
        "#ifdef VULKAN\nkernel void k(global int *x) { x[0] = N; }\n#endif\n", defines={"N": 4}
    )
    newer = "float g(float *p) { return *p; }\nkernel void k(global float *x) { x[1] = g(x); }"
    options = ["-cl-std=CL2.0", "-w"]
    module = devmod.compile(newer, "vulkan", language="OpenCL C", options=options)
    assert module.origin
    assert module.origin.options == tuple(options)
    for arch, minor in (("", 4), ("vulkan1.0", 0), ("vulkan1.1", 3), ("spirv1.6", 6)):
        module = devmod.compile(
            EXAMPLES / "softmax.cl", f"vulkan -arch={arch}".removesuffix(" -arch=")
        )
        assert module.code["softmax"][12:][5] == minor  # type: ignore[attr-defined]


@needs_wheel
def test_doubles_vectors_of_eight_a_table_of_constants_and_a_null_pointer() -> None:
    source = """
constant int T[64] = {1, 2, 3};
int f(global int *p) { return p == 0 ? 1 : p[2]; }
kernel void k(global double *x, global int *y, int8 v, int i) {
    constant int *p = T + i;
    x[0] *= p[1] + v.s7 + f(i ? y : 0);
}
"""
    interface = kernel_of(source)
    assert [each.type for each in interface.params] == ["float64", "int32", "int32x8", "int32"]
    assert interface.needs == ("fp64", "launch_constants")


def test_each_end_of_the_program_is_an_error_with_the_name(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(word: str) -> str:
        file = tmp_path / "k.cl"
        file.write_text(f"// {word}\nkernel void k(global int *x) {{ x[0] = 1; }}\n")
        return refused(file)

    assert of("CRASH") == (
        f"k.cl:2: error: the kernel 'k': {program} cannot compile k.cl: it was ended by the signal 11. {ADVICE}"
    )
    assert of("REFUSE") == (
        "the OpenCL C source does not compile: k.cl:2:5: error: pointers to pointers are not supported"
    )
    assert of("") == "k.cl:2: clspv returned no kernel 'k'"
    monkeypatch.setattr(_process, "TIMEOUT", 2)
    assert of("HANG") == f"{program} was stopped: it exceeded the time limit of 2 seconds"


#: The end of a program that is not clspv, and the error.
WRONG = {
    "it ends at once": ("sys.exit()", "{not_compiled}it printed no reason (exit status 0)"),
    "it fails with a file": (
        "open('compiled.spv', 'wb').write(spirv); sys.exit(2)",
        "{not_compiled}it printed no reason (exit status 2)",
    ),
    "it makes a folder": (
        "import os; os.mkdir('compiled.spv')",
        "{not_compiled}it printed no reason (exit status 0)",
    ),
    "it prints a page without an end": (
        "print('usage', 'x' * 1_000_000)",
        f"{{not_compiled}}usage {'x' * 494}",
    ),
    "it prints bytes": (
        "sys.stdout.buffer.write(bytes([255, 254, 65]))",
        "{not_compiled}\ufffd\ufffdA",
    ),
    "it writes a text": (
        "open('compiled.spv', 'w').write('hello world!')",
        "<text>:1: error: the kernel 'k': the SPIR-V of <text> begins with 0x6c6c6568; expected SPIR-V's magic number 0x07230203",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_program_that_is_not_clspv_is_an_error(case: str, program: Path) -> None:
    end, expected = WRONG[case]
    spirv = (FOLDER / "kernels.spv").read_bytes()
    program.write_text(
        f"#!{sys.executable}\nimport sys\nspirv = {spirv!r}\nif len(sys.argv) > 2: {end}\n"
    )
    not_compiled = "<text>:1: error: the kernel 'k': clspv cannot compile <text>: "
    assert refused("kernel void k() {}") == expected.format(not_compiled=not_compiled)


@needs_wheel
def test_a_named_file_that_is_no_program_is_an_error(program: Path, tmp_path: Path) -> None:
    program.write_bytes(b"no program")
    assert refused("kernel void k() {}") == f"{program} cannot be run: Exec format error"
    program.chmod(0o644)
    expected = f"cannot compile the OpenCL C source <text>: DEVMOD_CLSPV={program} is not a program"
    assert refused("kernel void k() {}", error=devmod.ToolchainNotFoundError) == expected
    options = ["--compiler=pyclspv"]
    assert devmod.compile("kernel void k() {}", "vulkan", language="OpenCL C", options=options)


#: A program with the code and the options of clspv: it calls the library of pyclspv.
WRAPPER = f"""#!{sys.executable}
import sys
sys.path[:] = {sys.path!r}
from devmod_targets.vulkan._clspv_process import load
if "--version" in sys.argv:
    sys.exit("clspv version 16.0.1")
*options, source, _, out = sys.argv[1:]
status, code, log = load({{}})({{"options": " ".join(options)}}, open(source, "rb").read())
sys.stderr.buffer.write(log)
if status:
    sys.exit(status)
open(out, "wb").write(code)
"""


@needs_wheel
def test_a_program_that_is_clspv_compiles_the_same(program: Path) -> None:
    program.write_text(WRAPPER)
    for name in ("softmax", "reduction"):
        of_program = devmod.compile(EXAMPLES / f"{name}.cl", "vulkan")
        of_wheel = devmod.compile(EXAMPLES / f"{name}.cl", "vulkan", options=["--compiler=pyclspv"])
        assert of_program.code == of_wheel.code  # type: ignore[attr-defined]
        assert of_program.origin
        assert of_program.origin.toolchain.startswith("clspv 16.0.1, libclang ")
    helper = "float g(constant float *c) { return c[1]; }\nkernel void k(global float *x, constant float *c) { x[0] = g(c); }"
    assert refused(helper, options=["-constant-args-ubo"], defines={"N": 1}) == (
        "the OpenCL C source does not compile: <text>:2:32: error: clspv restriction: to satisfy UBO ArrayStride restrictions, element size "
        "must be a multiple of array alignment"
    )


@needs_wheel
def test_a_crash_of_pyclspv_is_an_error_with_the_name() -> None:
    assert refused("kernel void k(global int *x) { for (;;); }") == (
        f"<text>:1: error: the kernel 'k': pyclspv {version('pyclspv')} cannot compile <text>: its process ends with signal 11. {ADVICE}. "
        f"Or {GET_PROGRAM}"
    )
    assert devmod.compile(EXAMPLES / "softmax.cl", "vulkan")  # the next one works


@pytest.mark.usefixtures("_nothing")
def test_the_error_without_clspv_has_both_ways() -> None:
    error = devmod.ToolchainNotFoundError
    text = refused("kernel void k() {}", error=error)
    assert text.startswith(
        "cannot compile the OpenCL C source <text> for vulkan: clspv is not installed"
    )
    assert "devmod-core[build-vulkan-opencl]" in text
    assert text.endswith(f"pyclspv has wheels for Linux on x86-64 alone; elsewhere, {GET_PROGRAM}")
    assert refused("kernel void k() {}", options=["--compiler=glslc"]) == (
        "the vulkan option '--compiler=glslc' is invalid for OpenCL C; expected clspv or pyclspv"
    )


# -- what clspv cannot do

POINTERS = "clspv cannot compare or subtract pointers. Compare the indices"
JUMP = "clspv compiles a jump into a loop to wrong code. Move the label before the loop, or use branches"
USE_FLOAT = "Use float (-cl-single-precision-constant for constants), or a function of your own"
REFUSED = {
    "equal pointers": ("if (x == y) x[0] = 1;", f"k.cl:4:6: error: {POINTERS}"),
    "a loop over pointers": (
        "for (global float *p = x; p < x + n; p++) *p = 1;",
        f"k.cl:4:28: error: {POINTERS}",
    ),
    "a difference": ("n = x - y;", f"k.cl:4:6: error: {POINTERS}"),
    "printf": (
        'printf("%d", n);',
        "k.cl:4:2: error: printf has no output on Vulkan. Put it under #ifndef VULKAN, or write the values to an array",
    ),
    "a sine of a double": (
        "x[0] = sin((double)n) + fabs(x[1]);",
        f"k.cl:4:9: error: clspv compiles sin() of double to wrong code. {USE_FLOAT}",
    ),
    "a power of vectors of doubles": (
        "x[0] = pow((double2)(n), 2.0).x;",
        f"k.cl:4:9: error: clspv compiles pow() of double to wrong code. {USE_FLOAT}",
    ),
    "a product and a sum that saturate": (
        "const int4 v = n; n = mad_sat(v, v, v).x;",
        "k.cl:4:24: error: clspv compiles mad_sat() of int and long to wrong code. Use a function of your own",
    ),
    "a conversion to double": (
        "x[0] = convert_double2_rte((int2)(n)).x;",
        "k.cl:4:9: error: clspv crashes on convert_double2_rte(). Write a cast to double",
    ),
    "a label of a switch in a loop": (
        "switch (n & 1) { case 0: do { x[n] = 1; case 1: n--; } while (n > 0); }",
        f"k.cl:4:42: error: {JUMP}",
    ),
    "a jump into a loop": (
        "if (n & 1) goto in; while (n > 3) { x[n] = 1; in: n--; }",
        f"k.cl:4:13: error: {JUMP}",
    ),
    "a jump into a loop of jumps": (
        "if (n & 1) goto in; again: x[n] = 1; in: n--; if (n > 3) goto again;",
        f"k.cl:4:13: error: {JUMP}",
    ),
    "recursion": (
        "x[0] = f(n);",
        "k.cl:1: error: the function 'f' calls itself, and OpenCL C has no recursion: use a loop",
    ),
    "an unknown name": (
        "x[0] = z;",
        "the OpenCL C source does not compile: k.cl:4:9: error: use of undeclared identifier 'z'",
    ),
}
BEGIN = """int f(int n) { return RECURSE; }
#define UNUSED 1
kernel void k(global float *x, global float *y, int n) {
"""


@pytest.mark.parametrize("case", REFUSED)
def test_what_clspv_cannot_compile_is_refused_with_the_line(
    case: str, program: Path, tmp_path: Path
) -> None:
    statement, expected = REFUSED[case]
    recurse = "n < 2 ? n : f(n - 1)" if case == "recursion" else "n"
    file = tmp_path / "k.cl"
    file.write_text(BEGIN.replace("RECURSE", recurse) + f" {statement}\n}}\n")
    assert refused(file) == expected


@needs_wheel
def test_an_exchange_of_floats_that_are_equal_is_refused_with_the_line() -> None:
    source = """kernel void k(volatile global atomic_TYPE *x, TYPE y) {
 TYPE old = atomic_load(x);
 while (!atomic_compare_exchange_weak(x, &old, old + y)) ;
}"""
    options = ["-cl-std=CL2.0"]
    for type_ in ("int", "uint"):
        text = source.replace("TYPE", type_)
        devmod.compile(text, "vulkan", language="OpenCL C", options=options)
    text = source.replace("TYPE", "float")
    assert refusal(
        devmod.CompileError, devmod.compile, text, "vulkan", language="OpenCL C", options=options
    ) == (
        "<text>:3:10: error: clspv crashes on atomic_compare_exchange_weak() of atomic_float. Use atomic_uint, as_uint() and as_float()"
    )


LOST_TURNS = (
    "<text>:1: error: the kernel 'k': clspv compiles a loop in a loop to wrong code, in which the inner loop does not repeat. End the "
    "inner loop by its own condition, and test after it whether the outer one ends"
)


@needs_wheel
def test_a_loop_in_a_loop_whose_turns_clspv_loses_is_refused() -> None:
    """The kernel computed 1 in the place of 53."""
    inner = "r += x[i]; if (x[i] == 3) break; i += 3; if (r >= 50) STOP"
    source = f"kernel void k(global const int *x, global int *y) {{ int i = 0, r = 0; for (;;) {{ i++; BEGIN for (;;) {{ {inner} }} END }} end: y[0] = r; }}"
    for begin, stop, end, is_lost in (
        ("", "goto end;", "", True),
        ("int done = 0;", "{ done = 1; break; }", "if (done) break;", False),
        ("", "break;", "if (r >= 50) break;", False),
    ):
        text = source.replace("BEGIN", begin).replace("STOP", stop).replace("END", end)
        if is_lost:
            refuse = refusal(
                devmod.CompileError, devmod.compile, text, "vulkan", language="OpenCL C"
            )
            assert refuse == LOST_TURNS
        else:
            devmod.compile(text, "vulkan", language="OpenCL C", options=["-w"])


#: Jumps that clspv compiles to what the source says.
JUMPS = (
    "switch (n & 3) { case 0: if (x[0] > 0) { n += 1; case 1: n += 2; } break; case 2: { n = 4; default: n++; } }",
    "if (n & 1) goto in; if (x[0] > 0) { n += 1; in: n += 2; }",
    "for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) if (x[i + j] > 1) goto out; out: n++;",
    "again: n += 3; if (n < 9) goto again;",
    "one: n += 3; two: n += 1; if (n < 7) goto one; if (n < 20) goto two;",
    "for (int i = 0; i < 4; i++) { switch (n & 3) { case 0: continue; case 1: n++; default: break; } n++; }",
)


@needs_wheel
@pytest.mark.parametrize(
    "declaration",
    ["extern inline", "inline extern", "extern __attribute__((always_inline)) __inline__"],
)
def test_inline_functions_that_are_extern_are_compiled(declaration: str) -> None:
    """clspv's process ended with a signal."""
    source = f"""#define INLINE /* extern inline */ {declaration}
extern constant float one[1];
constant float one[1] = {{1}};
{declaration} float f(float x) {{ return x + one[0]; }}
INLINE float g(float x) {{ return x * 2; }}
kernel void k(global float *x) {{ x[0] = f(g(x[0])); }}
kernel void other(global float *x) {{ x[1] = f(x[0]); }}"""
    module = devmod.compile(source, "vulkan", language="OpenCL C")
    assert module.functions.keys() == {"k", "other"}


@needs_wheel
def test_other_jumps_are_compiled() -> None:
    kernels = [
        f"kernel void k{number}(global int *x, int n) {{ {statements} x[0] = n; }}\n"
        for number, statements in enumerate(JUMPS)
    ]
    module = devmod.compile("".join(kernels), "vulkan", language="OpenCL C")
    assert len(module.functions) == len(JUMPS)


#: The functions of doubles that clspv compiles to wrong code, by their calls.
WRONG_DOUBLES = {
    "{}(x)": "acos acospi asin asinh asinpi atan atanh atanpi cbrt cos cosh cospi degrees erf erfc fabs ilogb lgamma logb radians round "
    "sin sinh sinpi tan tanh tanpi tgamma",
    "{}(x, y)": "atan2 atan2pi copysign fmod hypot maxmag minmag nextafter pow powr remainder",
    "{}(x, n)": "pown rootn",
    "{}(x, &y)": "modf sincos",
    "{}(x, &n)": "frexp lgamma_r",
    "{}(x, y, &n)": "remquo",
}
RIGHT_DOUBLES = {
    "{}(x)": "ceil exp exp10 exp2 expm1 floor log log10 log1p log2 rint rsqrt sign sqrt trunc",
    "{}(x, y)": "fdim fmax fmin max min step",
    "{}(x, n)": "ldexp",
    "{}(x, y, y)": "clamp fma mad mix smoothstep",
}


def calls_of(functions: dict[str, str], type_: str) -> dict[str, str]:
    """Return a program with a call of each function, by name. It has two lines before the call."""
    programs = {}
    for form, names in functions.items():
        for name in names.split():
            begin = f"kernel void k(global {type_} *a, int n) {{\n {type_} x = a[0], y = a[1];\n"
            programs[name] = f"{begin} a[0] = {form.format(name)};\n}}\n"
    return programs


def test_each_function_of_doubles_that_clspv_compiles_wrongly_is_refused(program: Path) -> None:
    programs = calls_of(WRONG_DOUBLES, "double")
    assert len(programs) == 46

    def check(name: str) -> None:
        problem = f"clspv compiles {name}() of double to wrong code. {USE_FLOAT}"
        assert refused(programs[name]) == f"<text>:3:9: error: {problem}"

    check_each(programs, check)


def test_the_other_functions_of_doubles_and_those_of_floats_are_compiled(program: Path) -> None:
    bodies = [
        *calls_of(RIGHT_DOUBLES, "double").values(),
        *calls_of(WRONG_DOUBLES, "float").values(),
        *calls_of(RIGHT_DOUBLES, "float").values(),
    ]
    source = []
    for number, body in enumerate(bodies):
        source.append(body.replace("kernel void k(", f"void f{number}("))
    assert devmod.compile(
        "\n".join(source) + KERNELS.read_text(), "vulkan", language="OpenCL C", defines={"N": 4}
    )


@pytest.mark.parametrize("lanes", ["", "2", "16"])
def test_a_sum_that_saturates_is_refused_of_signed_numbers_of_32_and_64_bits(
    program: Path, lanes: str
) -> None:
    form = "kernel void k(global {0} *x) {{ x[0] = mad_sat(x[0], x[1], x[2]); }}\n"
    for name in ("int", "long"):
        assert refused(form.format(name + lanes)) == (
            "<text>:1:{}: error: clspv compiles mad_sat() of int and long to wrong code. Use a function of your own"
        ).format(form.format(name + lanes).index("mad_sat") + 1)
    others = ("char", "uchar", "short", "ushort", "uint", "ulong")
    source = ""
    for name in others:
        source += form.format(name + lanes).replace("kernel void k", f"void {name}_")
    assert devmod.compile(
        source + KERNELS.read_text(), "vulkan", language="OpenCL C", defines={"N": 4}
    )


@pytest.mark.parametrize(
    ("standard", "is_generic"),
    [("CL1.2", False), ("CL2.0", True), ("CLC++", True), ("CLC++1.0", True), ("CLC++2021", True)],
)
def test_entry_points_are_inlined_where_pointers_are_generic(
    program: Path, standard: str, is_generic: bool
) -> None:
    devmod.compile(KERNELS, "vulkan", options=[f"-cl-std={standard}"], defines={"N": 4})
    options = Path(f"{program}.log").read_text().split()
    assert options.count("-inline-entry-points") == is_generic


def test_a_variable_of_the_program_is_refused_with_the_line(program: Path) -> None:
    source = (
        "constant int c = 1;\nglobal int count = 5;\nkernel void k(global int *x) { x[c] = count; }"
    )
    assert refused(source, options=["-cl-std=CL2.0"]) == (
        "<text>:2:12: error: Vulkan has no variables of the program, which keep their values. Make 'count' an argument"
    )


@needs_wheel
def test_what_clspv_may_fail_on_without_a_reason_is_named() -> None:
    pointers = "kernel void k(global int *x, global int *y) {\n global int *p[2] = {x, y};\n p[x[0]][1] = 2;\n}"
    text = refused(pointers)
    assert text.startswith(
        f"<text>:1: error: the kernel 'k': pyclspv {version('pyclspv')} cannot compile <text>: its process ends with "
    )
    assert text.endswith(". Possible causes: <text>:2:14: p, an array of pointers; use branches")
    cast = """kernel void k(global float *x) {
 float old;
 do
  old = x[0];
 while (atomic_cmpxchg((volatile global uint *)x, as_uint(old), as_uint(old + 1.0f)) != as_uint(old));
}"""
    text = refused(cast)
    assert text.startswith("<text>:5: error: clspv compiles this to invalid SPIR-V (Atomic")
    assert text.endswith(
        ". Possible causes: <text>:5:9: atomic_cmpxchg() with a pointer that is cast; declare the array as integers, and use as_float()"
    )


@needs_wheel
def test_size_t_in_memory_has_the_size_that_clspv_gives_it() -> None:
    source = """typedef struct { size_t n; float f; } S;
kernel void k(global size_t *x, global const S *s, global ptrdiff_t *d) { x[0] = s[0].n + d[0]; }"""
    types = [each.type for each in kernel_of(source, "opencl").params]
    assert types == ["uint64", "uint8x16", "int64"]
    assert [each.type for each in kernel_of(source).params] == ["uint32", "uint8x8", "int32"]


@needs_wheel
def test_atomic_functions_have_an_order_of_memory_from_opencl_2_on() -> None:
    source = "kernel void k(global int *x) { x[1] = atomic_cmpxchg(x, 0, atomic_inc(x + 2)); }"
    for options, ordered in (([], False), (["-cl-std=CL1.2"], False), (["-cl-std=CL2.0"], True)):
        module = devmod.compile(source, "vulkan", language="OpenCL C", options=options)
        code = module.code["k"]  # type: ignore[attr-defined]
        code = read_module(code[code.index(b"\x03\x02\x23\x07") :])
        words = code.words[:]
        relax_atomics(code)
        assert (code.words != words) == ordered


def test_a_line_of_an_include_has_the_name_of_its_file(program: Path, tmp_path: Path) -> None:
    (tmp_path / "part.h").write_text(
        "\nvoid g(global int *x, global int *y) { if (x != y) x[0] = 1; }\n"
    )
    (tmp_path / "k.cl").write_text('#include "part.h"\nkernel void k(global int *x) { g(x, x); }\n')
    assert refused(tmp_path / "k.cl") == f"part.h:2:44: error: {POINTERS}"


def test_pointers_that_are_null_or_assigned_are_taken(program: Path, tmp_path: Path) -> None:
    body = "global int *p = x; p = y; if (p != 0 && y) p[0] = 1; if (p == NULL) return; p += 1, p = p + 1;"
    (tmp_path / "k.cl").write_text(f"kernel void k(global int *x, global int *y) {{ {body} }}\n")
    # The source passes; the stand-in returns the kernels of another one.
    assert refused(tmp_path / "k.cl") == "k.cl:1: clspv returned no kernel 'k'"


@needs_wheel
def test_errors_of_clspv_itself() -> None:
    channels = (
        "kernel void k(read_only image2d_t i, global int *x) { x[0] = get_image_channel_order(i); }"
    )
    assert refused(channels) == (
        "<text>:1: error: the kernel 'k': the SPIR-V of <text> has the kernel 'k', which asks for the channels of an image (get_image_channel_order, "
        "get_image_channel_data_type), which devmod does not pass"
    )
    pointer = "float g(float *p) { return *p; }\nkernel void k(global float *x, local float *l) { x[1] = g(l); }"
    assert refused(pointer) == (
        "the OpenCL C source does not compile: <text>:2:59: error: passing '__local float *__private' to parameter of type "
        "'__private float *' changes address space of pointer"
    )


def test_a_source_without_kernels(program: Path) -> None:
    assert refused("int f(void) { return 1; }") == (
        "the OpenCL C source <text> has no kernel: mark a function with __kernel"
    )


@needs_wheel
def test_a_manifest_makes_both_kinds_of_one_source(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "reduction.cl", tmp_path)
    (tmp_path / "devmod.toml").write_text(
        'output = "k.devmod"\ntargets = ["opencl", "vulkan"]\n[kernels.k]\nsources = ["reduction.cl"]\n'
    )
    result = devmod.build(tmp_path / "devmod.toml")
    assert not result.failures
    bundle = devmod.load(tmp_path / "k.devmod")
    assert sorted(each.kind for each in bundle.imports) == ["opencl", "vulkan"]
