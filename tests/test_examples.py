"""The examples have one signature on every kind, and examples/README.md has their calls."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tuned_maps import variant_values

import devmod
from devmod_targets.build.build import build_manifest
from devmod_workbench._cli import main

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples" / "demo"))

from build import ONE_SOURCE, SOURCES, compile_kind, compile_one_source  # noqa: E402
from cases import CASES, SMALL_CASES  # noqa: E402

#: The functions of the examples, with the types of their arguments. Buffers of vectors have the
#: base type of the scalar ones.
SIGNATURES = {
    "softmax": "x: float32*, y: float32*, columns: int32",
    "sum": "x: float32*, partial: float32*, n: int32",
    "matmul_tiled": "a: float32*, b: float32*, c: float32*, m: int32, n: int32, k: int32",
    "blur_rows": "picture: uint32*, between: float32*, weights: float32*, radius: int32, width: int32, height: int32",
    "blur_columns": "between: float32*, blurred: uint32*, weights: float32*, radius: int32, width: int32, height: int32",
    "resize": "source: image, source_sampler: sampler, result: image, width: int32, height: int32",
    "mandelbrot": "escape: float32*, width: int32, height: int32, left: float32, top: float32, pixel: float32, steps: int32",
}


@functools.cache
def functions(kind: str) -> dict[str, devmod.FunctionInfo]:
    """Return the functions of the examples of a kind, without TVM's."""
    try:
        made = compile_kind(ROOT, kind)
    except devmod.ToolchainNotFoundError as error:
        pytest.skip(str(error))
    return {
        key: info
        for name, module in made
        if name != "TVM's matmul"
        for key, info in module.functions.items()
    }


@pytest.mark.row("R12", "R37")
@pytest.mark.parametrize("kind", SOURCES)
def test_an_example_has_the_same_signature_and_a_block_on_each_kind(kind: str) -> None:
    found = functions(kind)
    for name, info in found.items():
        interface = info.interface
        assert interface is not None
        params = [each for each in interface.params if each.default is None]
        texts = [
            f"{each.name}: {each.kind if each.kind in ('image', 'sampler') else each.type.partition('x')[0]}{'*' if each.kind == 'buffer' else ''}"
            for each in params
        ]
        # Metal has an order of its own for images and values, so calls of `resize` are by name.
        assert texts == SIGNATURES[name].split(", ") or (
            kind == "metal" and sorted(texts) == sorted(SIGNATURES[name].split(", "))
        )
        # A call needs no block.
        assert interface.open_block or interface.block or interface.default_block, name
    assert set(found) == set(SIGNATURES) - ({"resize"} if kind == "rocm" else set())


@pytest.mark.row("R37", "R58")
def test_each_example_in_opencl_c_is_one_function_of_four_kinds() -> None:
    targets = ONE_SOURCE["OpenCL C"]
    try:
        made = [compile_one_source(ROOT, "OpenCL C", target) for target in targets]
    except devmod.ToolchainNotFoundError as error:
        pytest.skip(str(error))
    module = devmod.bundle(*(each for modules in made for _, each in modules))
    kinds: dict[str, list[str]] = {}
    for each in module.imports:
        for name in each.functions:
            kinds.setdefault(name, []).append(each.kind)
    on_all = ["opencl", "vulkan", "cuda", "rocm"]
    assert kinds == dict.fromkeys(SIGNATURES, on_all) | {"resize": on_all[:3]}


def test_the_calls_of_the_readme_have_the_names_of_the_kernels() -> None:
    table = (ROOT / "examples" / "README.md").read_text().partition("## The calls\n")[2]
    calls = [
        ast.parse(text.replace("…", "...")).body[0].value
        for text in re.findall(r"`(\w+\(\w+=.*?\))`", table)
    ]  # type: ignore[attr-defined]
    seen = set()
    for call in calls:
        if call.func.id in SIGNATURES:  # others are compile(…)
            names = [keyword.arg for keyword in call.keywords]
            assert names[:-1] == re.findall(r"(\w+):", SIGNATURES[call.func.id])
            assert names[-1] in ("grid", "threads")
            seen.add(call.func.id)
    assert seen == set(SIGNATURES) - {"blur_columns"}


def test_each_kernel_of_the_examples_has_a_case_of_the_demo() -> None:
    called = {name for _, names in CASES.values() for name in names}
    assert called - {"matmul_kernel"} == set(SIGNATURES)  # TVM's is no example
    assert set(CASES) - {"TVM's matmul"} == set(SMALL_CASES)


def test_the_readme_has_each_folder_of_the_examples() -> None:
    readme = (ROOT / "examples" / "README.md").read_text()
    folders = [*ROOT.glob("examples/*/"), *ROOT.glob("examples/applications/*/")]
    names = {path.relative_to(ROOT / "examples").as_posix() for path in folders}
    names -= {"applications"} | {name for name in names if name.startswith((".", "__"))}
    assert [name for name in sorted(names) if f"`{name}/" not in readme] == []


FOLDERS = sorted(path.name for path in (ROOT / "examples").iterdir() if path.name in SOURCES)


@pytest.fixture
def build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Return a function that writes a manifest for folders of the examples, if there is none, and
    builds it.
    """
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "cache"))
    project = tmp_path / "project"

    def run(*folders: str) -> tuple[int, str]:
        if not project.exists():
            for folder in folders:
                shutil.copytree(ROOT / "examples" / folder, project / folder)
            assert main(["init", str(project)]) == 0
        capfd.readouterr()
        return main(["build", str(project)]), capfd.readouterr().err

    return run


@pytest.mark.volume_but("opencl", "vulkan")
@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_builds_with_the_manifest_of_init(
    folder: str, build: Callable[..., tuple[int, str]]
) -> None:
    functions(folder)  # skips the test without a compiler
    assert build(folder)[0] == 0


@pytest.mark.volume
def test_the_folder_of_a_kind_that_init_does_not_guess(
    build: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    pytest.importorskip("ziglang", reason="needs the compiler of Hexagon")
    shutil.copytree(ROOT / "examples" / "hexagon", tmp_path / "project")
    assert main(["init", str(tmp_path / "project"), "-t", "hexagon -arch=v66"]) == 0
    manifest = tmp_path / "project" / "devmod.toml"
    manifest.write_text(
        manifest.read_text().replace(
            "[kernels.brighten]\n", '[kernels.brighten]\noptions = ["-mhvx=v66"]\n'
        )
    )
    assert build()[0] == 0


def test_the_examples_of_two_kinds_build_with_the_line_that_the_error_and_the_manifest_of_init_name(
    build: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    status, text = build("opencl", "webgpu")
    assert (status, text.splitlines()[-7:]) == (
        1,
        [
            "devmod: error: the candidates of the bundle take different arguments in the function 'sum'. Give them the same names and types, "
            "or use mixed = true and call each by its own signature:",
            "  opencl/cl               webgpu/wgsl",
            "  x: float32* r           x: float32* r",
            "  partial: float32* rw    partial: float32* rw",
            "  n: int32                n: int32",
            "  scratch: local float32  -                     <- differs",
            "Or give parameters of local memory a default size, and calls omit them: [kernels.reduction.target.opencl] "
            'local = { scratch = "4/thread" }',
        ],
    )
    manifest = tmp_path / "project" / "devmod.toml"
    comment = "# [kernels.reduction.target.opencl]  # a default size, so that one call fits every target\n# local ="
    assert comment in manifest.read_text()
    manifest.write_text(
        manifest.read_text().replace(
            comment, comment.replace("# [", "[").replace("# local", "local")
        )
    )
    assert build()[0] == 0


@pytest.mark.parametrize("kind", ["opencl", "webgpu", "cuda"])
def test_each_variant_of_a_tuned_example_computes_the_same(kind: str, tmp_path: Path) -> None:
    result = build_manifest(
        ROOT / "examples" / "tuned",
        targets=[kind],
        output=tmp_path / "tuned.devmod",
        workers=1,
        cache=False,
    )
    if any(each.error == "ToolchainNotFoundError" for each in result.failures):
        pytest.skip(result.failures[0].message)
    result.raise_for_failures()
    module = devmod.load(result.output)
    for name, count in {"product": 6, "row_sums": 8}.items():
        assert len(variant_values(module, name)) == count
    try:
        product: Any = module["product"]
        row_sums: Any = module["row_sums"]
    except (devmod.DeviceNotFoundError, devmod.RuntimeNotLinkedError) as error:
        pytest.skip(str(error))

    random = np.random.default_rng(1)
    a = random.random((70, 45), np.float32)
    b = random.random((45, 33), np.float32)
    for constants in product.variants:
        c = np.zeros((70, 33), np.float32)
        product.specialize(**constants)(a, b, c, 70, 33, 45)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    for constants in row_sums.variants:
        sums = np.zeros(70, np.float32)
        row_sums.specialize(**constants)(a, sums, 70, 45)
        np.testing.assert_allclose(sums, a.sum(1), rtol=1e-4)
