"""`devmod.compile` of binaries that other compilers made: PTX, cubins and fatbins."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from each_case import check_texts, raised, refusal

import devmod
from devmod import FunctionInfo
from devmod_readers.nvidia import fatbin_members, read_cubin
from devmod_targets.cuda import _wheels
from devmod_targets.cuda.nvrtc import compile_program

pytestmark = pytest.mark.once  # bytes of NVIDIA's formats

VECTORS = Path(__file__).parent / "vectors"
FATBIN = Path(__file__).parents[3] / "compilers/readers/tests/vectors/offload/images.fatbin"
FILL = (
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry fill(.param .u64 out, .param .f32 value, .param .u32 n) .maxntid 256 { ret; }\n"
)
INFO = {"fill": FunctionInfo("fill", ("handle", "float32", "uint32"))}
ADD = {"add": FunctionInfo("add", ("handle", "handle", "handle", "int32", "handle", "handle"))}
GUESSES = (
    "Some of these types are guesses by size: correct them first. 8 bytes are a pointer ('handle'), 'int64', 'uint64' or 'float64', 4 "
    "bytes 'int32', 'uint32' or 'float32'"
)


def nvjitlink() -> str:
    """Return the version of the wheel that assembles PTX; "" if it is not installed."""
    try:
        return version("nvidia-nvjitlink")
    except PackageNotFoundError:
        return ""


needs_nvjitlink = pytest.mark.skipif(not nvjitlink(), reason="needs the wheel nvidia-nvjitlink")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "fill.ptx").write_text(FILL)
    return tmp_path / "fill.ptx"


def refused(
    source: object,
    target: str = "cuda",
    error: type[devmod.DevmodError] = devmod.CompileError,
    **arguments: object,
) -> str:
    return refusal(error, devmod.compile, source, target, **arguments)


@pytest.mark.parametrize(
    "target",
    [
        "cuda",
        "cuda -format=ptx",
        "cuda -arch=compute_80",
        "cuda -arch=compute_90",
        "cuda -arch=sm_90 -format=ptx",
    ],
)
def test_ptx_is_stored_as_it_is(path: Path, target: str) -> None:
    module = devmod.compile(path, target, fmap=INFO)
    assert (module.kind, module.format, bytes(module.code)) == ("cuda", "ptx", FILL.encode())  # type: ignore[attr-defined]
    info = module.functions["fill"]
    assert info.arg_types == ("handle", "float32", "uint32")
    assert info.interface is not None
    assert (str(info.interface), info.interface.extra) == (
        "<Interface (void* rw, float32, uint32)>",
        {"max_threads": 256},
    )
    assert module.origin == devmod.Origin(
        target, "", [], {"fill.ptx": hashlib.sha256(FILL.encode()).hexdigest()}
    )
    assert devmod.loads(devmod.dumps(module)).functions == module.functions


@pytest.mark.parametrize(
    ("target", "memory"),
    [
        ("cuda -arch=compute_80", 1024),
        ("cuda -arch=sm_90", 1024),
        ("cuda -format=cuda", None),  # the receiver may compile it for another architecture
        ("cuda -arch=sm_80,sm_90 -format=fatbin", None),
    ],
)
def test_static_shared_memory_is_in_the_interface(target: str, memory: int | None) -> None:
    source = 'extern "C" __global__ void k(float *y) { __shared__ float t[256]; t[threadIdx.x] = y[0]; __syncthreads(); y[1] = t[1]; }'
    interface = devmod.compile(source, target).functions["k"].interface
    assert interface is not None
    assert interface.extra.get("workgroup_memory") == memory


def test_ptx_as_text_and_as_bytes() -> None:
    for source, language in (
        (FILL, "PTX"),
        (FILL, "ptx"),
        (FILL.encode(), None),
        (FILL.encode() + b"\0", None),
        (FILL.encode(), "PTX"),
    ):
        module = devmod.compile(source, "cuda", language=language, fmap=INFO)
        assert bytes(module.code) == FILL.encode()  # type: ignore[attr-defined]
    text = f"// a comment\n/* and another */\n{FILL}"
    expected = (
        "<text> is PTX and no CUDA C++: pass its language, as in devmod.compile(…, language='PTX')"
    )
    assert refused(text, "cuda -arch=sm_90", fmap=INFO) == expected
    assert refused(text, fmap=INFO) == (
        "the target 'cuda' names no architecture. Name those of the devices: 'cuda -arch=sm_80,sm_90,compute_90'. Or keep the source, which "
        "the receiver compiles: 'cuda -format=cuda'. PTX, cubin, fatbin need none: pass the language, as in devmod.compile(…, language='PTX')"
    )
    assert refused(text, "cuda -arch=sm_90") == expected


def test_the_error_without_types_contains_a_declaration(path: Path) -> None:
    message = refused(path)
    assert message == (
        "the PTX fill.ptx does not contain the types of all arguments: the kernel 'fill' takes (.u64, .f32, .u32). Declare the kernels that "
        f"you call: fmap={{'fill': devmod.FunctionInfo('fill', ('handle', 'float32', 'int32'))}}. {GUESSES}"
    )
    fmap = eval(message.partition("fmap=")[2].partition(". Some")[0], {"devmod": devmod})
    assert devmod.compile(path, "cuda", fmap=fmap).functions["fill"].arg_types == (
        "handle",
        "float32",
        "int32",
    )


def test_pointers_that_ptx_marks_need_no_declaration() -> None:
    module = devmod.compile(VECTORS / "triton/softmax.cuda.ptx", "cuda")
    info = module.functions["softmax"]
    assert (
        str(info.interface)
        == "<Interface (void* rw, void* rw, int32, int32, void* rw, void* rw) block 128×1×1>"
    )
    assert info.launch_param_tags[-1] == "tirx.use_dyn_shared_memory"


def test_mangled_names_contain_the_types() -> None:
    text = """
    struct Pair { float a; double b; };
    namespace ns { __global__ void scale(float *out, const double *in, unsigned n, Pair pair, long long shift) { out[n] = in[shift] * pair.b; } }
    template <class T> __global__ void fill(T *out, T value) { *out = value; }
    template __global__ void fill<int>(int *, int);
    __global__ void over(char *x) { *x = 1; }
    __global__ void over(char *x, float) { *x = 2; }
    """
    program = compile_program(text, "k.cu", ["-arch=sm_80"])
    for binary, fmt in ((program.ptx, "ptx"), (program.cubin, "cubin")):
        module = devmod.compile(binary, "cuda")
        assert module.format == fmt
        assert {name: str(info.interface) for name, info in module.functions.items()} == {
            "ns::scale": "<Interface (float32* rw, float64* r, uint32, uint8x16, int64)>",
            "fill<int>": "<Interface (int32* rw, int32)>",
            "over(char*)": "<Interface (int8* rw)>",
            "over(char*, float)": "<Interface (int8* rw, float32)>",
        }
    module = devmod.compile(
        program.cubin, "cuda", fmap={"s": FunctionInfo("_ZN2ns5scaleEPfPKdj4Pairx", ())}
    )
    assert {name: str(info.interface) for name, info in module.functions.items()} == {
        "s": "<Interface (float32* rw, float64* r, uint32, uint8x16, int64)>"
    }


def test_cubins_and_fatbins_are_stored_as_they_are() -> None:
    cubin, fatbin = VECTORS / "triton/add.cuda.cubin", FATBIN
    for path, target, fmt in (
        (cubin, "cuda", "cubin"),
        (cubin, "cuda -arch=sm_90a", "cubin"),
        (fatbin, "cuda", "fatbin"),
        (fatbin, "cuda -arch=sm_90a,compute_90a -format=fatbin", "fatbin"),
    ):
        module = devmod.compile(path, target, fmap=ADD)
        assert (module.format, bytes(module.code)) == (fmt, path.read_bytes())  # type: ignore[attr-defined]
        assert module.functions["add"].interface.block == (128, 1, 1)  # type: ignore[union-attr]
        assert bytes(devmod.compile(path.read_bytes(), target, fmap=ADD).code) == path.read_bytes()  # type: ignore[attr-defined]
    # The PTX in it marks the pointers.
    assert devmod.compile(fatbin, "cuda").functions["add"].arg_types == ADD["add"].arg_types
    assert refused(cubin) == (
        "the cubin add.cuda.cubin does not contain the types of all arguments: the kernel 'add' takes (8 bytes, 8 bytes, 8 bytes, 4 bytes, "
        "8 bytes, 8 bytes). Declare the kernels that you call: fmap={'add': devmod.FunctionInfo('add', ('handle', 'handle', 'handle', "
        "'int32', 'handle', 'handle'))}. "
        f"{GUESSES}"
    )


def test_a_declaration_selects_the_kernels() -> None:
    second = FILL + FILL[FILL.index(".visible") :].replace("fill", "other")
    module = devmod.compile(
        second,
        "cuda",
        language="PTX",
        fmap={"f": FunctionInfo("fill", ("handle", "float32", "int32"))},
    )
    assert {name: info.name for name, info in module.functions.items()} == {"f": "fill"}


def test_a_declaration_that_contradicts_the_binary(path: Path) -> None:
    check_texts(
        {
            "the declared fmap has 1 arguments for the cuda function 'fill'; its binary has 3": {
                "fill": FunctionInfo("fill", ("handle",))
            },
            "the PTX fill.ptx is not stored: the declared arguments of the cuda kernel 'fill' are not those of its image: expected 3 "
            "arguments (.u64 (8 bytes), .f32 (4 bytes), .u32 (4 bytes)), got 3 (handle (8 bytes), float64 (8 bytes), int32 (4 bytes))": {
                "fill": FunctionInfo("fill", ("handle", "float64", "int32"))
            },
            "the declared fmap maps 'f' to the kernel 'fil', which is missing in the PTX fill.ptx. Its kernels: 'fill'": {
                "f": FunctionInfo("fil", ())
            },
        },
        lambda fmap: refused(path, fmap=fmap),
    )


FORMS = "'cuda' stores the PTX, 'cuda -arch=sm_90' makes a cubin, and 'cuda -arch=sm_90,compute_90 -format=fatbin' joins both"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        *(
            (target, f"the PTX fill.ptx cannot become a payload of the target '{target}': {FORMS}")
            for target in (
                "cuda -format=cuda",
                "cuda -format=cubin",
                "cuda -format=fatbin",
                "cuda -arch=compute_80 -format=cubin",
            )
        ),
        (
            "cuda -arch=compute_75",
            "the PTX fill.ptx is for compute_80:ptx8.0, which does not run on compute_75",
        ),
        (
            "cuda -fast=1",
            "the target 'cuda -fast=1' has the option -fast; expected -format=cuda, -format=ptx, -format=cubin, -format=fatbin or -compiler=nvcc",
        ),
    ],
)
def test_a_target_that_does_not_fit_the_ptx(path: Path, target: str, expected: str) -> None:
    assert refused(path, target, fmap=INFO) == expected


def test_a_target_that_does_not_fit_a_binary() -> None:
    cubin, fatbin = VECTORS / "triton/add.cuda.cubin", FATBIN
    assert refused(cubin, "cuda -arch=sm_80", fmap=ADD) == (
        "the cubin add.cuda.cubin is for sm_90a, and is stored as it is: the target is 'cuda', not 'cuda -arch=sm_80'"
    )
    assert refused(fatbin, "cuda -format=ptx", fmap=ADD) == (
        "the fatbin images.fatbin is for sm_90a, compute_90a, and is stored as it is: the target is 'cuda', not 'cuda -format=ptx'"
    )
    assert refused(cubin, fmap=ADD, options=["-lineinfo"]) == (
        "options=, defines=, include= and name_expressions= are for sources; the cubin add.cuda.cubin is stored as it is"
    )


def test_damaged_binaries(tmp_path: Path) -> None:
    cubin, fatbin = (VECTORS / "triton/add.cuda.cubin").read_bytes(), FATBIN.read_bytes()
    assert refused(cubin[:1000], fmap=ADD) == (
        "the cubin <bytes> is not stored: the cubin is invalid: its table of sections is outside of the file"
    )
    assert refused(fatbin[:1000], fmap=ADD) == (
        "the fatbin <bytes> is not stored: the CUDA fatbin is invalid: its header at byte 0 has "
        f"{len(fatbin) - 16} bytes of members, and the file ends at byte 1000"
    )
    assert (
        refused(FILL[:-4], language="PTX")
        == "the PTX <text> is not stored: the PTX is invalid at line 4: '{' has no matching '}'"
    )
    for text in ("", "no PTX", b"no PTX"):
        assert (
            refused(text, language="PTX")
            == "the PTX <text> is invalid: expected the directives .version and .target with an architecture"
        )
    assert refused(FILL[: FILL.index(".visible")], language="PTX") == "the PTX <text> has no kernel"
    (tmp_path / "k.cubin").write_bytes((VECTORS / "triton/add.hip.hsaco").read_bytes())
    assert (
        refused(tmp_path / "k.cubin")
        == "the cubin k.cubin is not stored: the cubin is invalid: its machine is 224; expected 190 (CUDA)"
    )


@needs_nvjitlink
def test_ptx_is_assembled(path: Path) -> None:
    module = devmod.compile(path, "cuda -arch=sm_80", fmap=INFO)
    assert module.format == "cubin"
    assert read_cubin(module.code)["fill"].max_threads == 256  # type: ignore[attr-defined]
    assert module.inspect_source("ptx") == FILL
    assert module.origin.toolchain == f"nvjitlink {nvjitlink()}"  # type: ignore[union-attr]
    variants = devmod.loads(
        devmod.dumps(devmod.compile(path, "cuda -arch=sm_80,sm_90,compute_80", fmap=INFO))
    )
    assert [each.variant for each in variants.imports] == ["sm_80", "sm_90", "compute_80:ptx8.0"]  # type: ignore[attr-defined]
    fatbin = devmod.compile(path, "cuda -arch=sm_90,compute_90 -format=fatbin", fmap=INFO)
    assert [(member.kind, member.arch) for member in fatbin_members(fatbin.code)] == [  # type: ignore[attr-defined]
        ("cubin", "sm_90"),
        ("ptx", "compute_80:ptx8.0"),
    ]


@needs_nvjitlink
def test_ptx_that_cannot_be_assembled(path: Path) -> None:
    path.write_text(FILL.replace("ret;", "\nfoo.u32 %r1;\nret;"))
    error = raised(devmod.CompileError, devmod.compile, path, "cuda -arch=sm_80", fmap=INFO)
    assert str(error).startswith("the PTX source does not compile: fill.ptx:5: error: ")
    assert "line 5" in error.log
    path.write_text(FILL)
    assert refused(path, "cuda -arch=sm_75", fmap=INFO) == (
        "the PTX source does not compile: ptxas: error: SM version specified by .target is higher than default SM version assumed"
    )
    assert refused(path, "cuda -arch=sm_999", fmap=INFO) == (
        "the PTX fill.ptx cannot be assembled for sm_999: nvJitLink does not support this architecture"
    )


def test_the_error_without_nvjitlink(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_wheels, "library", lambda *_: "")
    assert refused(path, "cuda -arch=sm_80", devmod.ToolchainNotFoundError, fmap=INFO) == (
        "the PTX fill.ptx cannot be assembled to a cubin here: the library nvJitLink (the wheel nvidia-nvjitlink) is not installed. To add "
        "it: pip install nvidia-nvjitlink. Or name an architecture compute_: the PTX is then stored as it is, and the driver assembles it"
    )


def test_binaries_of_a_fatbin_with_different_kernels() -> None:
    pytest.importorskip("cuda.bindings.nvfatbin")
    from devmod_targets.cuda._binary import join

    one, other = FILL.encode(), FILL.replace("fill", "other").replace("sm_80", "sm_90").encode()
    data, _ = join([("compute_80", one), ("compute_90", other)], "k")
    assert refused(data, fmap=INFO) == (
        "the binary for compute_90:ptx8.0 in the fatbin <bytes> has no kernel 'fill', which another binary has. Declare the kernels that all "
        "binaries have in fmap=, or load the binaries as variants: devmod.interop.offload.load(path, fmap)"
    )
