"""Triton's JIT functions as a language of cuda and rocm, and by one call: with a stand-in for
Triton, and with Triton where it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from each_case import check_texts, error_of, refusal
from hatchling.builders.wheel import WheelBuilder
from tuned_maps import variant_values

import devmod
from devmod.interop import triton
from devmod_targets.build.build import build_manifest
from devmod_workbench._cli import main

STAND_IN = Path(__file__).parent / "standin_triton/site-packages"
HAS_TRITON = find_spec("triton") is not None
CUDA, PTX, ROCM = "cuda -arch=sm_90", "cuda -arch=compute_90", "rocm -arch=gfx1100"
ADD = "add(x: *fp32:16, y: *fp32, out: *fp32, n: i32)"
TYPES = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}
HELPERS = """
import triton
import triton.language as tl


@triton.jit
def total(x, y):
    return x + y
"""
KERNELS = """
import triton
import triton.language as tl
from helpers import total


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, total(tl.load(x + i, mask=inside), tl.load(y + i, mask=inside)), mask=inside)


@triton.jit
def wrong(x):
    undefined


def zero(arguments):
    pass


CONFIGS = [
    triton.Config({"BLOCK": 256}, num_warps=4),
    triton.Config({"BLOCK": 128}, num_warps=4),
    triton.Config({"BLOCK": 1024}, num_warps=8, num_stages=2),
]


@triton.autotune(CONFIGS, key=["n", "x"])
@triton.jit
def tuned(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.autotune([*CONFIGS, triton.Config({"BLOCK": 64}, pre_hook=zero)], key=[])
@triton.jit
def hooked(x, BLOCK: tl.constexpr):
    tl.store(x, BLOCK)
"""
MANIFEST = f"""
targets = ["{CUDA}", "{PTX}", "{ROCM}"]

[kernels.add]
sources = ["kernels.py"]
name_expressions = ["{ADD}"]
defines = {{ BLOCK = 256 }}

[kernels.add.target.rocm]
options = ["num_warps=8"]
"""


def forget(*packages: str) -> None:
    """Remove the modules of the tests, and packages, from the imported ones."""
    for name in [
        each for each in sys.modules if each.partition(".")[0] in ("kernels", "helpers", *packages)
    ]:
        del sys.modules[name]


@pytest.fixture(params=["stand-in", "installed"])
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder with kernels, where Triton or its stand-in can be imported."""
    if request.param == "installed":
        pytest.importorskip("triton", reason="needs triton, a wheel of 286 MB")
    elif HAS_TRITON:
        pytest.skip("Triton itself is installed")
    else:
        forget("triton")
        monkeypatch.syspath_prepend(str(STAND_IN))
        paths = [str(STAND_IN), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    source = tmp_path / "source"
    source.mkdir()
    (source / "kernels.py").write_text(KERNELS)
    (source / "helpers.py").write_text(HELPERS)
    yield source
    forget(*(["triton"] if request.param == "stand-in" else []))


def compiled(
    folder: Path, target: str = CUDA, expression: str = ADD, **arguments: Any
) -> devmod.Module:
    settings = {
        "defines": {"BLOCK": 256},
        "name_expressions": [expression] if expression else [],
    } | arguments
    return devmod.compile(folder / "kernels.py", target, **settings)


@pytest.mark.parametrize(
    ("target", "kind", "fmt"),
    [(CUDA, "cuda", "cubin"), (PTX, "cuda", "ptx"), (ROCM, "rocm", "hsaco")],
)
def test_a_function_of_a_file(folder: Path, target: str, kind: str, fmt: str) -> None:
    before = set(sys.modules), list(sys.path)
    module = compiled(folder, target, options=["num_warps=4"])
    assert (module.kind, module.format, list(module.functions)) == (kind, fmt, ["add"])
    info = module.functions["add"]
    assert info.interface is not None
    assert [param.name for param in info.interface.params] == [
        "x",
        "y",
        "out",
        "n",
        "global_scratch",
        "profile_scratch",
    ]
    assert (info.arg_types[:4], info.interface.block) == (
        ("handle", "handle", "handle", "int32"),
        (128, 1, 1),
    )
    assert module.origin is not None
    digests = {
        name: sha256((folder / name).read_bytes()).hexdigest()
        for name in ("kernels.py", "helpers.py")
    }
    assert (module.origin.target, module.origin.sources) == (target, digests)
    assert module.origin.options == ("num_warps=4", "-DBLOCK=256", ADD)
    assert module.origin.toolchain.startswith("triton ")
    assert "helpers" not in set(sys.modules) - before[0]
    assert sys.path == before[1]


def test_the_variables_of_triton_do_not_change_the_result(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = [
        *(
            "TRITON_OVERRIDE_ARCH",
            "AMDGCN_USE_BUFFER_OPS",
            "NVPTX_ENABLE_DUMP",
            "MLIR_ENABLE_DUMP",
            "DISABLE_PTXAS_OPT",
            "DISABLE_LLVM_OPT",
        ),
        *(
            "PTXAS_OPTIONS",
            "USE_IR_LOC",
            "LLVM_PASS_PLUGIN_PATH",
            "LLVM_IR_ENABLE_DUMP",
            "DISABLE_MMA_V3",
            "ALLOW_LHS_TMEM_LAYOUT_CONVERSION",
        ),
    ]
    expected = devmod.dumps(compiled(folder))
    seen: dict[str, str] = {}
    library: Any = sys.modules["triton"]
    compile_with_triton = library.compile

    def compile_recorded(*args: Any, **keywords: Any) -> Any:
        seen.update(os.environ)
        return compile_with_triton(*args, **keywords)

    monkeypatch.setattr(library, "compile", compile_recorded)
    for name in (*variables, "DISABLE_OWN_THINGS"):
        monkeypatch.setenv(name, "1")
    assert devmod.dumps(compiled(folder)) == expected
    assert seen["DISABLE_OWN_THINGS"] == "1"
    assert [name for name in variables if name in seen] == []
    assert all(os.environ[name] == "1" for name in variables)


def test_another_name_for_a_function(folder: Path) -> None:
    module = compiled(folder, expression=f"wide = {ADD}")
    assert {name: info.name for name, info in module.functions.items()} == {"wide": "add"}


@pytest.mark.filterwarnings("ignore")  # Triton's own
def test_one_call_for_a_function(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    import kernels

    module = triton.compile(
        kernels.add,
        TYPES,
        ["cuda -arch=sm_90,compute_90", ROCM],
        constants={"BLOCK": 256},
        num_warps=4,
    )
    assert [(each.kind, each.format) for each in module.imports] == [
        ("cuda", "cubin"),
        ("cuda", "ptx"),
        ("rocm", "hsaco"),
    ]
    assert (
        triton.compile(kernels.add, TYPES, devmod.Target.parse(ROCM), constants={"BLOCK": 256}).kind
        == "rocm"
    )


def test_a_manifest(folder: Path, tmp_path: Path) -> None:
    (folder / "devmod.toml").write_text(MANIFEST)
    cache = tmp_path / "cache"
    result = build_manifest(folder, cache=cache, allow_python=True)
    assert [(str(each.job), each.status) for each in result.results] == [
        (f"kernels.py for {target}", "compiled") for target in (CUDA, PTX, ROCM)
    ], [each.failure for each in result.results]
    functions = [
        module.functions["add"] for module in devmod.load(folder / "kernels.devmod").imports
    ]
    assert [info.interface.block for info in functions] == [(128, 1, 1), (128, 1, 1), (256, 1, 1)]  # type: ignore[union-attr]
    assert [
        each.status for each in build_manifest(folder, cache=cache, allow_python=True).results
    ] == ["cached"] * 3
    (folder / "helpers.py").write_text(HELPERS + "# changed\n")
    assert [
        each.status for each in build_manifest(folder, cache=cache, allow_python=True).results
    ] == ["compiled"] * 3


REFUSAL = (
    "is a Python file, and its compile for cuda executes it. A manifest may come from a stranger, so look at the file, and then allow it: "
    "devmod build --allow-python, or devmod.build(allow_python=True)"
)


@pytest.fixture
def executed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that appears when the source of the manifest in the current folder is executed. It was
    executed once, for the cache.
    """
    path = folder / "executed"
    (folder / "kernels.py").write_text(f"open({str(path)!r}, 'w').close()\n{KERNELS}")
    (folder / "devmod.toml").write_text(MANIFEST)
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(folder / "cache"))
    monkeypatch.chdir(folder)
    assert main(["build", "-q", "--allow-python"]) == 0
    path.unlink()
    return path


@pytest.mark.parametrize(
    ("name", "source"),
    [
        pytest.param("kernels.py", '"kernels.py"', marks=pytest.mark.volume),
        ("kernels.PY", '"kernels.PY"'),
        pytest.param(
            "kernels.txt", '{ path = "kernels.txt", language = "Triton" }', marks=pytest.mark.volume
        ),
        ("kernels.cu", '{ path = "kernels.cu", language = "py" }'),
    ],
)
def test_a_build_executes_a_source_only_if_it_is_allowed(
    folder: Path, executed: Path, name: str, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "kernels.py").rename(folder / name)
    (folder / "devmod.toml").write_text(MANIFEST.replace('"kernels.py"', source))
    message = f"devmod.toml is not built: {name!r} of the kernel 'add' {REFUSAL}"
    for options in ([], ["--no-cache"], ["-t", "cuda"]):
        assert main(["build", *options]) == 1
        assert capsys.readouterr() == ("", f"devmod: error: {message}\n")
    assert refusal(devmod.FormatError, devmod.build) == message
    assert main(["build", "-q", "--plan"]) == 0
    assert not executed.exists()
    assert main(["build", "-q", "--no-cache", "--allow-python"]) == 0
    assert executed.exists()


def test_a_build_without_the_python_source_needs_no_leave(folder: Path, executed: Path) -> None:
    """Neither does `devmod compile`: the user names the file."""
    (folder / "fill.cl").write_text("kernel void fill(global float *x) { x[0] = 1; }\n")
    (folder / "python.cl").symlink_to("kernels.py")
    text = MANIFEST.replace("targets = [", 'targets = ["opencl", ').replace(
        "[kernels.add]", '[kernels.add]\nskip = ["opencl"]'
    )
    kernel = '\n[kernels.fill]\nsources = ["fill.cl"]\n'
    (folder / "devmod.toml").write_text(f'{text}{kernel}skip = ["cuda", "rocm"]\n')
    assert main(["build", "-q", "-t", "opencl"]) == 0
    (folder / "devmod.toml").write_text(
        f'targets = ["opencl"]\n{kernel.replace("fill.cl", "python.cl")}'
    )
    assert main(["build", "-q"]) == 1  # it is compiled as OpenCL C, and is none
    assert not executed.exists()
    assert main(["init", "-q", "--force", "-t", "opencl"]) == 0
    assert "kernels.py" not in (folder / "devmod.toml").read_text()
    assert not executed.exists()
    assert (
        main(
            [
                "compile",
                "-q",
                "kernels.py",
                "-t",
                CUDA,
                "--name-expression",
                ADD,
                "-D",
                "BLOCK=256",
                "-o",
                "k.devmod",
            ]
        )
        == 0
    )
    assert executed.exists()


def test_a_build_of_a_wheel_executes_a_source(folder: Path, executed: Path) -> None:
    """Whoever builds a project's wheel runs the project's code."""
    (folder / "devmod.toml").unlink()
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").touch()
    tables = MANIFEST.replace("[kernels", "[tool.devmod.kernels")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n[project]\nname = "pkg"\nversion = "1"\n'
        f'[tool.hatch.build.hooks.devmod]\n[tool.devmod]\noutput = "pkg/k.devmod"\n{tables}'
    )
    assert main(["build", "-q", "--no-cache"]) == 1
    assert not executed.exists()
    next(WheelBuilder(str(folder)).build(directory=str(folder / "dist"), versions=["standard"]))
    assert (folder / "pkg" / "k.devmod").exists()


def test_a_file_that_the_text_does_not_name_is_not_cached(folder: Path, tmp_path: Path) -> None:
    (folder / "devmod.toml").write_text(
        MANIFEST.replace(f'"{PTX}", "{ROCM}"', "").replace(
            "[kernels.add.target.rocm]\noptions", "#"
        )
    )
    hidden = KERNELS.replace(
        "from helpers import total",
        "import importlib\ntotal = importlib.import_module('help' + 'ers').total",
    )
    (folder / "kernels.py").write_text(hidden)
    result = build_manifest(folder, cache=tmp_path / "cache", allow_python=True)
    assert result.results[0].reports == (
        f"kernels.py is not cached: its compiler read {folder / 'helpers.py'}, which is not among the includes that devmod found in the text",
    )


def test_equal_sources_give_equal_bytes_in_each_folder(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "another"
    folder.rename(other)
    first = devmod.dumps(compiled(other))
    other.rename(folder)
    assert devmod.dumps(compiled(folder)) == first


def test_a_mistake_is_an_error(folder: Path) -> None:
    check_texts(
        {
            "a Triton source is compiled for one function, with the types of its arguments: name_expressions=['add(x: *fp32, out: *fp32, n: "
            "i32)']; got none": {"expression": ""},
            "name_expressions= has 'add(x)'; expected a function with the types of its arguments, as in name_expressions=['add(x: *fp32, "
            "out: *fp32, n: i32)']": {"expression": "add(x)"},
            "kernels.py has no function 'sub'; its Triton functions are 'total', 'add', 'wrong', 'tuned', 'hooked'": {
                "expression": "sub(x: i32)"
            },
            "the Triton function 'add' has no parameter 'z'; its parameters are 'x', 'y', 'out', 'n', 'BLOCK'": {
                "expression": "add(x: *fp32, y: *fp32, z: i32)"
            },
            """the parameter 'y' of the Triton function 'add' has no type, such as "*fp32" or "i32\"""": {
                "expression": "add(x: *fp32)"
            },
            "the parameter 'BLOCK' of the Triton function 'add' has no value: it is a tl.constexpr": {
                "defines": {}
            },
            "the type '*fp32:8' of 'x' has the hint '8'; expected :16 (a multiple of 16) or :1 (the value 1)": {
                "expression": ADD.replace(":16", ":8")
            },
            f"the Triton function 'add' does not compile for {CUDA}: the Triton kernel 'add' has the argument 'n' of type 'i33', which is "
            "not supported": {"expression": ADD.replace("i32", "i33")},
            "Triton has no option 'num_warp' for cuda. Did you mean 'num_warps'?": {
                "options": ["num_warp=8"]
            },
            "the option '-O3' is none of Triton's; expected options such as num_warps=8 or num_stages=3": {
                "options": ["-O3"]
            },
            "the target 'cuda -arch=sm_90 -format=fatbin' has an option that Triton's kernels do not have; expected -format=cubin or -format=ptx": {
                "target": "cuda -arch=sm_90 -format=fatbin"
            },
            "the target 'rocm -arch=gfx90a:xnack-' names no processor of Triton; expected a name such as gfx942 or gfx1100": {
                "target": "rocm -arch=gfx90a:xnack-"
            },
            "the target 'cuda' names no architecture. Name those of the devices: 'cuda -arch=sm_80,sm_90,compute_90'. PTX, cubin, fatbin "
            "need none": {"target": "cuda"},
            f"the Triton function 'wrong' does not compile for {CUDA}: kernels.py:16: NameError('undefined is not defined')": {
                "expression": "wrong(x: i32)",
                "defines": {},
            },
        },
        lambda changes: refusal(devmod.CompileError, compiled, folder, **changes),
    )


def test_an_exception_of_the_file_has_its_place(folder: Path) -> None:
    (folder / "helpers.py").write_text("import triton\nimport no_such_package\n")
    assert (
        refusal(devmod.CompileError, compiled, folder)
        == "helpers.py:2: ModuleNotFoundError: No module named 'no_such_package'"
    )
    (folder / "kernels.py").write_text("import sys\n\nsys.exit(3)\n")
    assert refusal(devmod.CompileError, compiled, folder) == "kernels.py:3: SystemExit: 3"
    (folder / "kernels.py").write_text("import triton\ndef f(:\n")
    with pytest.raises(devmod.CompileError, match=r"^kernels\.py:2: SyntaxError: "):
        compiled(folder)


def test_a_text_is_no_triton_source(folder: Path) -> None:
    with pytest.raises(devmod.CompileError, match="a Triton source is a file, which Triton reads"):
        devmod.compile(KERNELS, CUDA, language="Triton", name_expressions=[ADD])


def test_another_function_is_an_error(folder: Path) -> None:
    assert (
        refusal(devmod.CompileError, triton.compile, len, {}, CUDA)
        == "expected a function with @triton.jit, got builtin_function_or_method"
    )
    assert (
        refusal(devmod.CompileError, triton.compile, len, {}, "opencl")
        == "Triton compiles for cuda and rocm, and not for the target 'opencl'"
    )


def test_a_missing_triton_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    (tmp_path / "kernels.py").write_text(KERNELS)
    assert (
        refusal(devmod.ToolchainNotFoundError, compiled, tmp_path)
        == "Triton functions cannot be compiled here: Triton is not installed. To add it: pip install triton"
    )


# -- configurations


GRID = "ceildiv(n, BLOCK)"
TUNED = ADD.replace("add", "tuned")
CONFIGURATIONS = [(256, 4, 3), (128, 4, 3), (1024, 8, 2)]


@pytest.mark.parametrize("target", [CUDA, ROCM])
def test_the_configurations_of_a_function_are_its_variants(folder: Path, target: str) -> None:
    module = compiled(folder, target, TUNED, defines=None, grid=GRID)
    assert variant_values(module, "tuned") == CONFIGURATIONS
    blocks = []
    for each in module.imports:
        interface = each.functions["tuned"].interface
        tune = interface.extra["tune"]
        assert tune["constants"] == ["BLOCK", "num_warps", "num_stages"]
        assert (tune["sizes"], tune["grid"]) == (["n"], [["ceildiv", "n", "BLOCK"]])
        assert "specialized" not in tune
        blocks.append(interface.block)
    assert (blocks[0], blocks[-1]) == ((128, 1, 1), (256, 1, 1))


def test_constants_of_the_caller_replace_the_configurations(folder: Path) -> None:
    module = compiled(folder, CUDA, TUNED, options=["num_warps=8"])
    assert variant_values(module, "tuned") == []
    assert module.functions["tuned"].interface.block == (256, 1, 1)

    tune = {"BLOCK": [64, 128], "num_warps": [2, 4]}
    constraints = ["BLOCK == 32 * num_warps"]
    module = compiled(
        folder, CUDA, TUNED, defines=None, tune=tune, constraints=constraints, grid=GRID
    )
    assert variant_values(module, "tuned") == [(64, 2), (128, 4)]


@pytest.mark.filterwarnings("ignore")  # Triton's own
def test_one_call_for_a_function_with_configurations(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    import kernels

    module = triton.compile(kernels.tuned, TYPES, [CUDA, ROCM], grid=GRID, sizes=["n"])
    assert {each.kind for each in module.imports} == {"cuda", "rocm"}
    assert variant_values(module, "tuned") == CONFIGURATIONS * 2
    constants = {"BLOCK": 256}
    error = error_of(triton.compile, kernels.add, TYPES, CUDA, constants=constants, grid="n")
    assert str(error) == (
        "grid= and sizes= are for a function with variants: those of @triton.autotune, whose constants the call does not give"
    )


def test_a_configuration_that_a_file_cannot_have_is_an_error(folder: Path) -> None:
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "the Triton function 'hooked' has the pre_hook 'zero', which a file of kernels cannot have. Remove it, or set the constants": (
            "hooked(x: *fp32)",
            {},
        ),
        "the variants have different values of 'BLOCK', and no grid: pass grid=, such as grid='ceildiv(n, BLOCK)'": (
            TUNED,
            {},
        ),
        "grid= is for a tuned function: pass tune= too": (
            ADD,
            {"defines": {"BLOCK": 256}, "grid": "n"},
        ),
    }
    for message, (name, arguments) in cases.items():
        error = error_of(compiled, folder, CUDA, name, **{"defines": None, **arguments})
        assert str(error).endswith(message)
