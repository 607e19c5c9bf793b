"""Slang: translated for each kind, with the parameters as its author wrote them; imports,
instances, errors, and what Slang returns.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from build_project import built_failure
from each_case import check_texts, raised, refusal
from slang_kernels import BASICS, IMAGES, PARAMETERS

import devmod
from devmod import CompileError, ToolchainNotFoundError
from devmod_targets.authoring import _library
from devmod_targets.compilation import files_read
from devmod_targets.slang import _driver
from devmod_workbench._cli import main

pytestmark = pytest.mark.skipif(find_spec("slangpy") is None, reason="slangpy is not installed")
KINDS = ("vulkan", "webgpu", "metal")
HEAD = '[shader("compute")] [numthreads(8, 1, 1)]\n'


def kernel(parameters: str, body: str = "", name: str = "f") -> str:
    return f"{HEAD}void {name}(uint3 id : SV_DispatchThreadID, {parameters})\n{{\n{body}\n}}\n"


def compiled(source: Any, kind: str = "webgpu", **arguments: Any) -> devmod.Module:
    with_language = arguments if isinstance(source, Path) else {"language": "Slang", **arguments}
    return devmod.compile(source, kind, **with_language)


refused = partial(refusal, CompileError, compiled)


def signatures(source: str, kind: str, **arguments: Any) -> list[str]:
    return [repr(info) for info in compiled(source, kind, **arguments).functions.values()]


# -- the interface


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.row("R17")
def test_the_parameters_are_those_of_the_source(kind: str) -> None:
    assert signatures(BASICS, kind, name_expressions=["map<Square, 2>"]) == [
        "<FunctionInfo saxpy(x: float32* r, y: float32* rw, a: float32, n: uint32) block 64×1×1>",
        "<FunctionInfo total(x: float32* r, sums: float32* rw, n: uint32) block 64×1×1>",
        "<FunctionInfo map(y: float32* rw) block 32×1×1>",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_structs_constant_buffers_and_unused_parameters(kind: str) -> None:
    (info,) = compiled(PARAMETERS, kind).functions.values()
    assert info.interface is not None
    assert [(param.name, param.kind, param.access) for param in info.interface.params] == [
        ("scale", "scalar", ""),
        ("elements", "buffer", "rw"),
        ("constants", "scalar", ""),
        ("small", "scalar", ""),
        ("old_a", "scalar", ""),
        ("old_b", "scalar", ""),
        ("raw", "buffer", "rw"),
        ("s", "scalar", ""),
        ("s_out_", "buffer", "rw"),
        ("s_unused", "image", "r"),
        ("c", "scalar", ""),
        ("weights", "scalar", ""),
        ("counter", "buffer", "rw"),
        ("nowhere", "buffer", "r"),
        ("never", "scalar", ""),
    ]
    members = {
        param.name: [member.name for member in param.members]
        for param in info.interface.params
        if param.members
    }
    assert members == {
        "elements": ["p", "q", "w"],
        "constants": ["v", "k"],
        "small": ["one"],
        "s": ["a", "inner", "m"],
        "weights": [""],
    }
    assert [block.name for block in info.interface.blocks] == ["", "", "", "Legacy", ""]
    places = [param.at for param in info.interface.params if param.kind == "buffer"]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("kind", KINDS)
def test_images_and_samplers(kind: str) -> None:
    (info,) = compiled(IMAGES, kind).functions.values()
    assert info.interface is not None
    assert [(param.name, param.kind, param.type) for param in info.interface.params] == [
        ("source", "image", "2d"),
        ("nearest", "sampler", ""),
        ("exact", "image", "2d"),
        ("target", "image", "2d"),
        ("add", "scalar", "float32"),
    ]


def test_the_candidates_of_a_file_agree(tmp_path: Path) -> None:
    modules = [compiled(source, kind) for kind in KINDS for source in (BASICS,)]
    file = tmp_path / "k.devmod"
    devmod.save(devmod.bundle(*modules), file)
    assert repr(devmod.load(file).functions["saxpy"]) == repr(modules[0].functions["saxpy"])


def test_buffers_of_matrices_have_one_type() -> None:
    source = kernel(
        "uniform StructuredBuffer<float4x4> m, uniform RWStructuredBuffer<float> y",
        "y[id.x] = m[0][0][1] + y[0];",
    )
    modules = [compiled(source, kind) for kind in (*KINDS, "cuda -arch=compute_80")]
    assert list(devmod.bundle(*modules).functions) == ["f"]
    assert {repr(module.functions["f"]) for module in modules[:3]} == {
        "<FunctionInfo f(m: float32x4* r, y: float32* rw) block 8×1×1>"
    }


def test_elements_of_three_numbers_have_other_places_on_other_kinds() -> None:
    source = kernel("uniform RWStructuredBuffer<float3> y", "y[id.x] = y[0];")
    text = refusal(
        devmod.FormatError,
        devmod.bundle,
        compiled(source, "vulkan"),
        compiled(source, "cuda -arch=compute_80"),
    )
    assert [line.split() for line in text.splitlines()[2:]] == [
        ["y:", "float32x3*", "rw", "y:", "float32*", "rw", "<-", "differs"]
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_matrices_in_the_order_of_columns(kind: str, project: Path) -> None:
    parameters = "uniform float3x3 m, uniform RWStructuredBuffer<float> y"
    compiled("// not column_major\n" + kernel(parameters, "y[id.x] = m[0][1];"), kind)
    error = (
        "a matrix is column_major, which no argument of devmod can be: omit it, and use transpose()"
    )
    assert (
        refused(kernel(f"uniform column_major {parameters[8:]}", "y[id.x] = m[0][1];"), kind)
        == f"<text>:2: {error}"
    )
    (project / "beside.h").write_text("#define ONE 1\nstruct S { column_major float2x2 m; };\n")
    assert (
        refused(project / "k.slang", kind, include=[project / "lib"], defines={"MORE": 3})
        == f"beside.h:2: {error}"
    )


def test_places_do_not_depend_on_other_entry_points() -> None:
    alone = compiled(kernel("uniform RWStructuredBuffer<float> y, uniform float a", "y[id.x] = a;"))
    both = compiled(
        kernel("uniform RWStructuredBuffer<int> z, uniform int b", "z[id.x] = b;", "g")
        + alone_source()
    )
    assert alone.functions["f"] == both.functions["f"]
    assert alone.functions["f"].interface.params[0].at == both.functions["f"].interface.params[0].at  # type: ignore[union-attr]


def alone_source() -> str:
    return kernel("uniform RWStructuredBuffer<float> y, uniform float a", "y[id.x] = a;")


READ_BEFORE = """groupshared float t[8];
float first()
{
    float before = t[0];
    GroupMemoryBarrierWithGroupSync();
    return before;
}
[shader("compute")] [numthreads(8, 1, 1)] void f(uint3 id : SV_GroupThreadID, uniform RWStructuredBuffer<float> y)
{
    float own = y[id.x];
    AllMemoryBarrierWithGroupSync();
    y[7 - id.x] = own;
    t[id.x] = own;
    GroupMemoryBarrierWithGroupSync();
    y[id.x] = first();
}
"""


@pytest.mark.parametrize(
    ("target", "barrier"),
    [
        ("webgpu", "workgroupBarrier"),
        ("metal", "threadgroup_barrier"),
        ("cuda -format=cuda", "__syncthreads"),
    ],
)
def test_a_read_stays_before_its_barrier(target: str, barrier: str) -> None:
    """Slang would place it at the use of the variable."""
    module = compiled(READ_BEFORE, target)
    text = module.inspect_source(next(iter(module.source), "cuda"))
    order = re.findall(rf"\b(?:before|own)_\d+(?: : f32)? =|\b{barrier}\(", text)
    assert [each.partition("_")[0] for each in order if barrier not in each] == ["before", "own"]
    assert [each.startswith(barrier) for each in order] == [False, True, False, True, True]


@pytest.mark.parametrize("kind", KINDS)
def test_specialization_constants(kind: str) -> None:
    source = "[vk::constant_id(3)] const int count = 4;\n" + kernel(
        "uniform RWStructuredBuffer<int> y", "y[id.x] = count;"
    )
    (info,) = compiled(source, kind).functions.values()
    assert info.interface is not None
    constants = [(each["name"], each["id"]) for each in info.interface.extra["constants"]]
    assert constants == [("count", 3)]


def test_an_entry_point_named_main_has_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "blur.slang").write_text(
        kernel("uniform RWStructuredBuffer<int> y", "y[id.x] = 1;", "main")
    )
    for kind in KINDS:
        assert list(compiled(tmp_path / "blur.slang", kind)) == ["blur"]


# -- the files and the output


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "shapes.slang").write_text(
        "module shapes;\n__include part;\npublic float twice(float x) { return 2 * x; }\n"
    )
    (tmp_path / "lib" / "part.slang").write_text("implementing shapes;\n")
    (tmp_path / "beside.h").write_text("#define ONE 1\n")
    (tmp_path / "k.slang").write_text(
        'import shapes;\n#include "beside.h"\n'
        + kernel("uniform RWStructuredBuffer<float> y", "y[id.x] = twice(y[id.x]) + ONE + MORE;")
    )
    return tmp_path


def test_imports_and_includes(project: Path) -> None:
    module = compiled(project / "k.slang", include=[project / "lib"], defines={"MORE": 3})
    assert module.origin is not None
    assert sorted(module.origin.sources) == [
        "beside.h",
        "k.slang",
        "lib/part.slang",
        "lib/shapes.slang",
    ]
    assert module.origin.options == ("-DMORE=3",)
    files = files_read(module)
    assert files is not None
    assert sorted(os.path.relpath(path, project) for path in files) == [
        "beside.h",
        "k.slang",
        "lib/part.slang",
        "lib/shapes.slang",
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.row("R39")
def test_the_same_bytes_from_every_folder(kind: str, project: Path, tmp_path: Path) -> None:
    copy = tmp_path / "other" / "deep"
    copy.parent.mkdir()
    os.rename(project / "lib", tmp_path / "shared")
    first = compiled(
        project / "k.slang", kind, include=[tmp_path / "shared"], defines={"MORE": 3}
    ).save_to_bytes()
    copy.mkdir()
    for name in ("k.slang", "beside.h"):
        os.rename(project / name, copy / name)
    os.rename(tmp_path / "shared", copy / "lib")
    second = compiled(
        copy / "k.slang", kind, include=[copy / "lib"], defines={"MORE": 3}
    ).save_to_bytes()
    assert first == second
    assert str(tmp_path).encode() not in first


def test_a_file_outside_of_the_project_of_a_manifest(project: Path) -> None:
    outside = project / "lib" / "shapes.slang"
    source = project / "sub" / "k.slang"
    source.parent.mkdir()
    source.write_text(
        f'#include "{outside}"\n' + kernel("uniform RWStructuredBuffer<float> y", "y[0] = 1;")
    )
    message = built_failure(source, "webgpu")
    assert message.startswith("the Slang source k.slang includes the file ")
    assert message.endswith(
        'which is outside the project, the source\'s folder and the folders of include. To allow it, add its folder: include = ["../lib"]'
    )
    source.write_text(
        '#include "../beside.h"\n' + kernel("uniform RWStructuredBuffer<float> y", "y[0] = ONE;")
    )
    module = compiled(source)  # the user has named this file
    assert module.origin is not None
    assert list(module.origin.sources) == ["k.slang", "beside.h"]


def test_a_file_outside_of_the_project_with_errors(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither the error nor the log has a line of the file."""
    secret = tmp_path_factory.mktemp("outside") / "secret"
    secret.write_text("classified:x:0:0\n")
    (project / "link.h").symlink_to(secret)
    for name in (secret, "link.h"):
        (project / "k.slang").write_text(f'#include "{name}"\n')
        message = built_failure(project / "k.slang", "webgpu")
        assert "which is outside the project" in message
        assert "classified" not in message


def test_the_toolchain_is_in_the_origin() -> None:
    module = compiled(BASICS)
    assert module.origin is not None
    assert module.origin.toolchain.startswith("slangpy 0.")
    assert "(slang 20" in module.origin.toolchain


# -- errors


def test_errors_have_the_file_the_line_and_the_words_of_slang(project: Path) -> None:
    (project / "lib" / "shapes.slang").write_text(
        "module shapes;\npublic float twice(float x) { return missing(x); }\n"
    )
    error = raised(
        CompileError, compiled, project / "k.slang", include=[project / "lib"], defines={"MORE": 3}
    )
    assert str(error) == (
        "the Slang source does not compile: shapes.slang:2: error: undefined identifier 'missing'. (and 2 more in .log)"
    )
    assert "--> shapes.slang:2:" in error.log
    assert str(project) not in error.log
    assert "devmod-" not in error.log


GENERIC = """interface IOp { float f(float x); }
struct A : IOp { float f(float x) { return x; } }
""" + kernel(
    "uniform RWStructuredBuffer<float> y", "T t; y[id.x] = t.f(N);", "g<T : IOp, let N : int>"
)


def test_instances_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "g.slang", tmp_path / "g.devmod"
    source.write_text(GENERIC)
    command = ["compile", str(source), "-t", "vulkan", "-t", "webgpu", "-o", str(output)]
    assert main([*command, "--name-expression", "g<A, 1>", "--name-expression", "g<A, 2>"]) == 0
    assert list(devmod.load(output)) == ["g<A, 1>", "g<A, 2>"]
    assert main(command) == 1
    assert (
        "for a generic one, pass the instances: --name-expression 'scale<float>'"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("g", ": it is generic, and has no arguments"),
        ("g<A>", ""),
        ("g<A, 2, 3>", ": too many arguments to call"),
        ("g<int, 2>", ": type argument doesn't conform to interface"),
        ("g<B, 2>", ": undefined identifier"),
        ("h<A, 2>", ": undefined identifier"),
    ],
)
def test_wrong_generic_arguments(expression: str, reason: str) -> None:
    error = f"name_expressions= contains {expression!r}, which is no instance of an entry point of <text>{reason}"
    assert refused(GENERIC, name_expressions=["g<A, 1>", expression]) == error


def test_an_invalid_name_expression() -> None:
    error = "name_expressions= contains 'g<\"'; expected an entry point, or an instance such as 'scale<float>'"
    assert refused(GENERIC, name_expressions=['g<"']) == error


def test_each_error() -> None:
    check_texts(
        {
            "the Slang source does not compile: <text>:4: error: Slang cannot translate it to wgsl: 'double' type emitted": (
                kernel(
                    "uniform RWStructuredBuffer<float> y",
                    "double d = y[id.x];\n    y[id.x] = float(d * 3.0l);",
                ),
                "webgpu",
            ),
            "the Slang source does not compile: <text>:1: error: InterlockedAdd is not available for wgsl": (
                "void add(RWStructuredBuffer<uint> y) { InterlockedAdd(y[0], 1); }\n"
                + kernel("uniform RWStructuredBuffer<uint> y", "add(y);"),
                "webgpu",
            ),
            "the Slang source does not compile: <text>:2: error: function 'f' already has a body": (
                "void f() {}\nvoid f() {}\n" + kernel("uniform RWStructuredBuffer<float> y"),
                "vulkan",
            ),
            "the Slang source does not compile: <text>:1: error: cannot open file 'nothere.slang'": (
                "import nothere;\n" + kernel("uniform RWStructuredBuffer<float> y"),
                "webgpu",
            ),
            'the Slang source <text> has no entry point: mark a function with [shader("compute")] and [numthreads(x, y, z)]; for a generic '
            "one, pass the instances: name_expressions=['scale<float>']": (
                "float helper() { return 1; }",
                "vulkan",
            ),
            "the Slang source <text> has two entry points named 'f'": (
                kernel("uniform RWStructuredBuffer<float> y")
                + kernel("uniform RWStructuredBuffer<int> z"),
                "metal",
            ),
            "the Slang function 'f' cannot be translated to WGSL: its argument 'y' is or contains an address, which an argument cannot have "
            "there: use a StructuredBuffer or a RWStructuredBuffer": (
                kernel("uniform float *y", "y[id.x] = 1;"),
                "webgpu",
            ),
            "the Slang function 'f' cannot be translated to MSL: its argument 'y' is or contains an address, which an argument cannot have "
            "there: use a StructuredBuffer or a RWStructuredBuffer": (
                kernel("uniform float *y", "y[id.x] = 1;"),
                "metal",
            ),
            "the Slang function 'f' cannot be translated to WGSL: its argument 'y' is or contains a float64, which it lacks": (
                kernel("uniform RWStructuredBuffer<double> y", "y[id.x] = 1;"),
                "webgpu",
            ),
            "the Slang function 'f' cannot be translated to WGSL: its argument 'on' is or contains a bool, which a uniform cannot have "
            "there: use a uint": (
                kernel(
                    "uniform RWStructuredBuffer<float> y, uniform bool on", "if (on) y[id.x] = 1;"
                ),
                "webgpu",
            ),
            "the Slang function 'f' cannot be translated to MSL: its argument 'p.y' is in a ParameterBlock, which is an argument buffer "
            "there: use a parameter of its own": (
                "struct P { RWStructuredBuffer<float> y; }\nParameterBlock<P> p;\n"
                + kernel("uniform float a", "p.y[id.x] = a;"),
                "metal",
            ),
            "the Slang function 'f' takes 'p', a ParameterBlock of an entry point, which is no argument of devmod: declare it outside of "
            "the function": (
                "struct P { RWStructuredBuffer<float> y; }\n"
                + kernel("ParameterBlock<P> p, uniform float a", "p.y[id.x] = a;"),
                "vulkan",
            ),
            "the Slang function 'f' takes 'y', an array of resources, which is no argument of devmod: declare each one": (
                kernel("uniform RWStructuredBuffer<float> y[3]", "y[id.x][0] = 1;"),
                "vulkan",
            ),
            "the Slang function 'f' cannot be translated to WGSL: it loads an array from a ByteAddressBuffer, for which Slang returns an "
            "invalid text: load each element": (
                kernel(
                    "uniform RWByteAddressBuffer y, uniform uint n",
                    "float4 v[2] = y.Load<float4[2]>(0); y.Store(32, v[n]);",
                ),
                "webgpu",
            ),
            "the Slang function 'f' cannot be translated to MSL: it loads an array from a ByteAddressBuffer, for which Slang returns an "
            "invalid text: load each element": (
                kernel(
                    "uniform RWByteAddressBuffer y, uniform uint n",
                    "float4 v[2] = y.Load<float4[2]>(0); y.Store(32, v[n]);",
                ),
                "metal",
            ),
            "the Slang function 'f' takes 'y', a texel buffer, which is no argument of devmod: use a StructuredBuffer": (
                kernel("uniform RWBuffer<float> y", "y[id.x] = 1;"),
                "vulkan",
            ),
            "the Slang function 'f' takes 'y', a cube texture, which is no argument of devmod: use a Texture2DArray of six layers": (
                kernel(
                    "uniform TextureCube<float4> y, uniform RWStructuredBuffer<float> z",
                    "z[0] = 1;",
                ),
                "webgpu",
            ),
            "the Slang function 'f' has two arguments named 'a_b': rename one of the parameters": (
                "struct P { RWStructuredBuffer<float> b; }\n"
                + kernel("uniform P a, uniform RWStructuredBuffer<float> a_b", "a.b[0] = a_b[0];"),
                "vulkan",
            ),
        },
        lambda case: refused(*case),
    )


def test_a_double_inside_of_a_function() -> None:
    source = kernel(
        "uniform RWStructuredBuffer<float> y", "double x = y[id.x]; y[id.x] = float(x * x);"
    )
    assert refused(source).startswith("the Slang source does not compile: ")
    assert "double" in refused(source)


def test_a_kind_that_slang_cannot_reach(tmp_path: Path) -> None:
    kinds = ", ".join(
        kind
        for kind in devmod.targets.KINDS
        if "slang" in getattr(devmod.backend.find_spec(kind), "languages", ())
    )
    text = f"Slang cannot be translated for opencl: it reaches {kinds}. For opencl, write the kernel in OpenCL C"
    (tmp_path / "k.slang").write_text(BASICS)
    assert refused(tmp_path / "k.slang", "opencl") == text
    assert refused(BASICS, "opencl") == text


@pytest.mark.parametrize(
    ("options", "defines", "error"),
    [
        (
            ["-O2", "-target"],
            {},
            "the webgpu target accepts no options but -DNAME=VALUE, got '-target'",
        ),
        (
            ["-matrix-layout-column-major"],
            {},
            "the option '-matrix-layout-column-major' is not supported: matrices of arguments have rows. Omit it, and use transpose()",
        ),
        (
            [],
            {"F(x)": "x"},
            "the define 'F(x)' has parameters, which Slang's -D does not take: write a #define in the source",
        ),
    ],
)
def test_options_and_defines(options: list[str], defines: dict[str, str], error: str) -> None:
    message = refused(BASICS, options=options, defines=defines)
    assert message.endswith(error)


def test_options_of_slang_are_in_the_origin() -> None:
    module = compiled(BASICS, options=["-O3", "-fp-mode=fast"])
    assert module.origin is not None
    assert module.origin.options == ("-O3", "-fp-mode=fast")


def test_a_crash_of_slang_is_an_error_of_one_source() -> None:
    source = "struct T { float a() { return 1; } }\ninterface I {}\n" + kernel(
        "uniform RWStructuredBuffer<float> y", "y[0] = 1;"
    ).replace("void f(", "void each<O : I>(")
    message = refused(source, name_expressions=["each<T>"])
    if "does not compile" not in message:  # a later Slang may have fixed it
        assert "cannot process <text>: its process ends with signal " in message
    compiled(BASICS)


# -- the two ways to run Slang


@pytest.mark.once
@pytest.mark.row("R38")
@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        (("generic", "error"), KINDS[:2]),
        pytest.param(("basics", "parameters", "images", "error"), KINDS, marks=pytest.mark.volume),
    ],
)
def test_the_bytes_do_not_depend_on_the_sources_before(
    names: tuple[str, ...], kinds: tuple[str, ...]
) -> None:
    """One process of Slang's library translates all sources, so errors and other targets come
    between them.
    """
    sources = {
        "basics": BASICS,
        "parameters": PARAMETERS,
        "images": IMAGES,
        "generic": GENERIC,
        "error": "void f( {",
    }
    requests = [(name, kind) for name in names for kind in kinds]
    given = {"generic": {"name_expressions": ["g<A, 1>"]}}

    def results(order: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes | str]:
        made: dict[tuple[str, str], bytes | str] = {}
        for name, kind in order:
            try:
                made[name, kind] = devmod.dumps(
                    compiled(sources[name], kind, **given.get(name, {}))
                )
            except CompileError as error:
                made[name, kind] = str(error)
        return made

    def alone(request: tuple[str, str]) -> dict[tuple[str, str], bytes | str]:
        _library.IDLE.end()
        return results([request])

    expected = {key: value for request in requests for key, value in alone(request).items()}
    assert sum(isinstance(each, bytes) for each in expected.values()) == (len(names) - 1) * len(
        kinds
    )
    _library.IDLE.end()
    assert results(requests) == expected
    assert results(reversed(requests)) == expected


@pytest.mark.once
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="/proc has the memory of a process"
)
def test_the_process_of_slang_frees_the_memory_of_a_request() -> None:
    _library.IDLE.end()

    def memory_after(count: int) -> int:
        """Return the memory in KiB of the process."""
        for _ in range(count):
            compiled(BASICS)
        ((_, process),) = _library.IDLE._workers
        lines = Path(f"/proc/{process.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    before = memory_after(5)
    assert memory_after(12) - before < 10 << 10  # each request takes 1.3 MiB


def test_the_wheel_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "find_library", lambda *_: "")
    assert refusal(ToolchainNotFoundError, compiled, BASICS) == (
        'cannot compile the Slang source <text>: slangpy is not installed. To add it: pip install "devmod-core[build-slang]". '
        "slangpy has wheels for Linux with glibc 2.34 or newer, Windows, and macOS on arm64"
    )


# -- what Slang returns is that of a stranger


def altered(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Change the reflection that the library returns."""
    run = _driver._run

    def changed(*args: Any) -> Any:
        status, about, programs, log = run(*args)
        result = []
        for reflection, code in programs:
            data = json.loads(reflection)
            new = change(data)
            result.append((new if isinstance(new, bytes) else json.dumps(data).encode(), code))
        return status, about, result, log

    monkeypatch.setattr(_driver, "_run", changed)


SOURCE = kernel(
    "uniform RWStructuredBuffer<float> y, uniform float a, uniform float b[2]",
    "y[id.x] = a * b[1];",
)


def parameter(data: Any, number: int) -> Any:
    return data["entryPoints"][0]["parameters"][number]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda _: b"[", "expected a map with a list of entry points"),
        (lambda _: b"[" * 100_000, "expected a map with a list of entry points"),
        (
            lambda data: data.update(entryPoints=[1]),
            "expected entry points with a name and a list of parameters",
        ),
        (lambda data: data.update(parameters=[1]), "expected a parameter, got int"),
        (
            lambda data: data.update(entryPoints=data["entryPoints"] * 300),
            "expected a map with a list of entry points",
        ),
        (
            lambda data: parameter(data, 1).update(name="a b"),
            "expected a parameter's name, got 'a b'",
        ),
        (
            lambda data: parameter(data, 1).update(name="id", binding=[]),
            "expected a binding, got list",
        ),
        (
            lambda data: parameter(data, 2)["binding"].update(offset=-1),
            "expected a binding with a kind and numbers, got ",
        ),
        (
            lambda data: parameter(data, 2)["binding"].update(offset=1 << 40),
            "expected a binding with a kind and numbers, got ",
        ),
        (
            lambda data: parameter(data, 3)["type"].update(elementCount=1 << 70),
            "the shape of the member '' is invalid: ",
        ),
        (lambda data: parameter(data, 1).update(type=None), "expected a type, got NoneType"),
        (
            lambda data: data["entryPoints"][0].update(threadGroupSize=[8, 1]),
            "expected three numbers of threads, got [8, 1]",
        ),
    ],
)
def test_a_reflection_that_is_not_valid(
    change: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered(monkeypatch, change)
    assert refused(SOURCE).startswith(f"Slang's reflection of <text> cannot be read: {problem}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        lambda data: parameter(data, 1).update(name="z"),
        lambda data: data["entryPoints"][0]["parameters"].pop(1),
        lambda data: parameter(data, 2)["binding"].update(offset=400),
        lambda data: parameter(data, 1)["type"].update(kind="samplerState"),
        lambda data: parameter(data, 1)["binding"].update(index=7),
    ],
)
def test_a_reflection_that_disagrees_with_the_code(
    kind: str, change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered(monkeypatch, change)
    language = {"vulkan": "SPIR-V", "webgpu": "WGSL", "metal": "MSL"}[kind]
    assert refused(SOURCE, kind).startswith(
        f"Slang's reflection of the function 'f' of <text> and its {language} disagree: "
    )


@pytest.mark.parametrize("kind", ["vulkan", "webgpu"])  # MSL has no block of threads
def test_another_block_of_threads_than_that_of_the_code(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered(monkeypatch, lambda data: data["entryPoints"][0].update(threadGroupSize=[16, 1, 1]))
    assert refused(SOURCE, kind).endswith(
        "disagree: the code has blocks of (8, 1, 1) threads, expected (16, 1, 1)"
    )


def test_code_that_is_not_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    run = _driver._run

    def changed(*args: Any) -> Any:
        status, about, programs, log = run(*args)
        return (
            status,
            about,
            [(reflection, code.replace(b"f32", b"f33")) for reflection, code in programs],
            log,
        )

    monkeypatch.setattr(_driver, "_run", changed)
    assert refused(SOURCE).startswith("the Slang function 'f' of <text> has no valid WGSL: ")
