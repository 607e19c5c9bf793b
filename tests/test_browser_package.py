"""The npm package and the wheel with the page: types, packed files, and a clean installation that
serves the page without npm.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import zipfile
from base64 import b64encode
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from each_case import some

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from browser_driver import JS, node, run_in_node  # noqa: E402

import npm_package  # noqa: E402
import release  # noqa: E402
from handmade import headed, row  # noqa: E402

WEB = JS.parent / "page"
PACKAGE = json.loads((JS / "package.json").read_text())
README = (JS / "README.md").read_text()


def run(*command: str, cwd: Path = JS) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def typescript(version: str = "") -> tuple[str, str]:
    compiler = JS / "node_modules" / f"typescript{version}" / "bin" / "tsc"
    if not compiler.exists():
        pytest.skip("typescript is not installed (make test-setup)")
    return node(), str(compiler)


def test_the_reader_and_the_checks_under_node() -> None:
    tests = sorted(map(str, (JS / "test").glob("*.test.js")))
    # `node --test` starts a process for each file, and reads its output.
    files = "".join(f"await import({each!r});" for each in tests)
    output = run(node(), "--input-type=module", "--eval", files)
    assert re.search(r"^. tests \d{3}$[\s\S]*^. fail 0$", output, re.MULTILINE), output


@pytest.mark.row("R21", "R50")
def test_the_reader_reads_a_tree_of_many_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    import devmod

    monkeypatch.setenv("DEVMOD_COMPILE_FORCE_FALLBACK", "1")
    modules = [
        devmod.create_with_fallback(
            "cuda", b"", "cubin", {f"f{number}": devmod.FunctionInfo("f", [])}
        )
        for number in range(512)
    ]
    files = [devmod.dumps(devmod.bundle(*modules))]
    modules[7].import_module(devmod.const_loader({"w": b"abc"}, {"init": ["w"]}))
    files.append(devmod.dumps(devmod.bundle(*modules)))
    body = """
    const { open } = await import("./index.js");
    const bundles = await Promise.all(argument.map(async (data) => (await open(Uint8Array.from(Buffer.from(data, "base64")))).readAll()));
    return bundles.map(({ roots }) => [roots.length, roots[7].imports.map(({ kind }) => kind)]);
    """
    assert run_in_node(body, [b64encode(data).decode() for data in files]) == [
        [512, []],
        [512, ["const_loader"]],
    ]


@pytest.mark.row("R21")
@pytest.mark.parametrize("records", [150_000, 2])
def test_the_reader_reads_a_page_of_many_records_and_a_module_of_many_imports(
    records: int, tmp_path: Path
) -> None:
    empty = {"kind": "npu", "size": 0, "sha256": hashlib.sha256(b"").digest()}
    modules = [{**empty, "rank": rank} for rank in range(records - 1)]
    imports = [*range(1, records)]
    if records == 2:
        imports *= 150_000
    page = msgpack.packb({"modules": [{"kind": "bundle", "imports": imports}, *modules]})
    head = {"candidates": records - 1, "roots": [0], "pages": [row(page, records, 0)]}
    (tmp_path / "k.devmod").write_bytes(headed(head, page))
    body = """
    const { open } = await import("./index.js");
    const { readFileSync } = await import("node:fs");
    const { modules, roots } = await open(readFileSync(argument));
    return [modules.length, roots[0].imports.length];
    """
    found = run_in_node(body, str(tmp_path / "k.devmod"))
    assert found == [records, len(imports)]


@pytest.mark.row("R21")
def test_a_file_with_programs_opens_and_its_kernels_are_found() -> None:
    import devmod

    source = "@group(0) @binding(0) var<storage, read_write> y: array<f32>; @compute @workgroup_size(64) fn fill() { y[0] = 1.0; }"
    module = devmod.program(
        "ones",
        devmod.compile(source, "webgpu"),
        inputs=["n: int32"],
        outputs=["y: float32[n]"],
        steps=["fill(y=y, threads=n)"],
    )
    body = """
    const { open } = await import("./index.js");
    const bundle = await open(Uint8Array.from(Buffer.from(argument, "base64")));
    const kinds = ["ones", "fill"].map((name) => bundle.find(name).kind);
    try {
      bundle.find("once");
    } catch (error) {
      return [bundle.roots.map(({ kind, functionNames, runs }) => [kind, functionNames, runs]), kinds, error.name, error.message];
    }
    """
    assert run_in_node(body, b64encode(devmod.dumps(module)).decode()) == [
        [["program", ["ones"], True], ["bundle", [], False]],
        ["program", "webgpu"],
        "FunctionNotFoundError",
        "the bundle in memory has no webgpu function 'once'; there is: 'ones', 'fill'",
    ]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of the npm package that `make release` packs and installs, and what it prints. It
    needs no index: the package is packed from a copy of the repository's files, checked, installed
    into an empty folder, compiled with, and run. The sources are checked in strict mode: their
    declarations are packed too.
    """
    typescript()
    if shutil.which("npm") is None or not (JS / "node_modules" / "esbuild").is_dir():
        pytest.skip(
            "npm or its esbuild is not installed (Debian and Ubuntu: apt-get install npm; make test-setup)"
        )
    folder = tmp_path_factory.mktemp("released")
    ignored = shutil.ignore_patterns("node_modules", "types", "dist", "*.tgz")
    shutil.copytree(JS, folder / "tree" / npm_package.PLACE, ignore=ignored)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out:
        for name, place in (("OUT", ""), ("TREE", "tree"), ("NPM", "npm")):
            patch.setattr(release, name, folder / place)
        patch.setattr(release, "REPOSITORY", "https://host/me/devmod")
        release.release_npm(release.version_of(ROOT / "core"))
    return folder / "npm-box" / "node_modules" / "devmod-webgpu", out.getvalue()


@pytest.fixture
def packed(released: tuple[Path, str]) -> Path:
    """The package in `node_modules` of a user."""
    return released[0]


@pytest.mark.once
def test_a_release_packs_and_uses_the_npm_package(released: tuple[Path, str]) -> None:
    package, used = released[1].splitlines()
    size = re.fullmatch(r" +(\d+\.\d) kB  devmod-webgpu-[\d.a-z-]+\.tgz", package)
    assert size is not None
    assert float(size[1]) <= 80
    assert used == "  npm install, a program of TypeScript under --strict, and one under node"


GOOD = """
import {
  ArgumentError, image, imageFrom, open, sampler,
  type Arguments, type Bundle, type Image, type KernelFunction, type LaunchOptions, type ProgramFunction, type Sampler, type Struct,
} from "devmod-webgpu";
type Scale = { x: Float32Array; factor: number; n: number };
export async function use(file: File, device: GPUDevice, buffer: GPUBuffer): Promise<string> {
  const bundle: Bundle = await open(file);
  const f: KernelFunction = await bundle.getFunction("scale", { device });
  const how: LaunchOptions = { grid: [4, 2] };
  const light: Struct = { position: [0, 1, 2], colour: { r: 1, g: 1, b: 1 }, weights: new Float32Array(4) };
  const named: Arguments = { x: new Float32Array(4), light, mask: 3n };
  try {
    await f.run([new Float32Array(4), 2.5, 3n, [1, 2, 3], { buffer, offset: 256 }, light], how);
    await f.run(named, { threads: [1000, 20], block: [16, 16] });
  } catch (error) {
    if (error instanceof ArgumentError) return error.argument;
  }
  const scale = await bundle.getFunction<Scale>("scale");
  await scale.run({ x: new Float32Array(4), factor: 2, n: 4 }, { threads: 4 });
  const byRecord = await bundle.getFunction<{ x: Float32Array; p: { factor: number; n: number } | ArrayBuffer }>("scale");
  await byRecord.run({ x: new Float32Array(4), p: { factor: 2, n: 4 } }, { threads: 4 });
  await byRecord.run({ x: new Float32Array(4), p: new ArrayBuffer(8) }, { threads: 4 });
  await f.run({ x: buffer, p: { factor: 2, shift: [0, 0, 1] }, q: new Uint32Array(4) }, { threads: 4 });
  await (await scale.specialize({ TILE: 8 })).run({ x: new Float32Array(4), factor: 2, n: 4 }, { threads: 4 });
  const src: Image = await imageFrom(await createImageBitmap(file), { format: "rgba16float" });
  const dst = await image([64, 64, 4], "r32float", { device });
  const s: Sampler = await sampler({ filter: "linear", address: "mirror" });
  await f.run({ src, s, dst, texture: dst.handle, view: dst.handle.createView(), gpu: s.handle }, how);
  await dst.copyFrom(new Float32Array(64 * 64 * 4));
  const numbers = (await dst.read()) as Float32Array;
  const first: number = numbers[0] ?? dst.shape[0] ?? dst.layers;
  const resize = await bundle.getFunction<{ src: Image; s: Sampler; dst: Image; first: number }>("resize");
  await resize.run({ src, s, dst, first }, { threads: src.shape });
  src.destroy();
  const blocks: number = scale.launchConfig({ threads: 1000 }).grid[0];
  const launch = await (await f.specialize({ TILE: 16 })).bind({ x: buffer }, { grid: blocks });
  launch.launch();
  await launch.done();
  const program = await bundle.getFunction<ProgramFunction>("digits");
  const { y } = await program(new Float32Array(4), { rows: 2, state: await program.state() });
  (await program.bind(buffer, { y: buffer })).launch();
  const [module] = bundle.modules;
  const param = (await module?.functions())?.get("scale")?.interface?.params[0];
  return module?.origin?.target ?? param?.members[0]?.name ?? String(f.block?.[0]);
}
"""


def errors_of(program: str, folder: Path, version: str = "", types: str = "") -> list[str]:
    """Compile a TypeScript program with a version of the compiler, and return its lines with
    errors. An error in the declarations of the package is none of them, and fails the test.
    """
    (folder / "program.ts").write_text(program)
    options = [
        "--noEmit",
        "--skipDefaultLibCheck",  # those of the package are checked
        "--strict",
        "--module",
        "nodenext",
        "--target",
        "es2022",
        "--lib",
        "es2022,dom",
        "--types",
        types,
    ]
    command = [*typescript(version), *options, "program.ts"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    numbers = {
        int(line)
        for line in re.findall(r"^program\.ts\((\d+),\d+\): error TS", done.stdout, re.MULTILINE)
    }
    assert done.stdout.count("error TS") == len(numbers), done.stdout
    return [program.splitlines()[number - 1].strip() for number in sorted(numbers)]


def test_the_packed_types_take_the_code_of_users_and_refuse_wrong_calls(packed: Path) -> None:
    wrong = [
        "await bundle.getFunction(7);",
        "await f.run({ x: new Float32Array(4) }, { grid: '1' });",
        "await f.run({ x: new Float32Array(4) }, { grid: 1, threads: 64 });",
        "await f.run({ x: new Float32Array(4) }, { thread: 64 });",
        "await f.run({ x: 'one' }, { grid: 1 });",
        "await f.run({ x: { a: 'one' } }, { grid: 1 });",
        "await f.run('x', { grid: 1 });",
        "await scale.run({ x: new Float32Array(4), factor: 2 }, { threads: 4 });",
        "await scale.run({ x: new Float32Array(4), factor: 2, n: 4, m: 5 }, { threads: 4 });",
        "await scale.run({ x: [1, 2], factor: 2, n: 4 }, { threads: 4 });",
        "await scale.bind({ x: new Float32Array(4), factor: 2, N: 4 }, { grid: 4 });",
        "await byRecord.run({ x: new Float32Array(4), p: { factor: 2 } }, { threads: 4 });",
        "await byRecord.run({ x: new Float32Array(4), factor: 2, n: 4 }, { threads: 4 });",
        "await resize.run({ src: s, s, dst, first: 1 }, { threads: 4 });",
        "await resize.run({ src, s: 'linear', dst, first: 1 }, { threads: 4 });",
        "await image([4, 4]);",
        "await image([4, 4], 'r8unorm', { layer: 1 });",
        "await imageFrom([1, 2], { width: 2, height: 1 });",
        "await sampler({ filter: 'cubic' });",
        "await sampler({ address: 'border' });",
        "scale.launchConfig({ threads: 4 }).grid = 3;",
        "f.block = [1, 1, 1];",
        "await f(1);",
        "program.bind(1).launch();",
    ]
    end = "  const [module] = bundle.modules;\n"
    assert end in GOOD
    folder = packed.parent.parent / "commonjs"
    folder.mkdir()
    (folder / "package.json").write_text("{}")
    assert (
        errors_of(GOOD.replace(end, "".join(f"{line}\n" for line in wrong) + end), folder) == wrong
    )


def test_an_older_typescript_takes_the_types_with_what_the_page_names(packed: Path) -> None:
    """TypeScript 5 has no types of WebGPU."""
    folder = packed.parent.parent
    types = folder / "node_modules" / "@webgpu"
    types.symlink_to(JS / "node_modules" / "@webgpu")
    assert "With 5.7 to 5.9, which lack WebGPU, run `npm install -D @webgpu/types`" in README
    assert errors_of(GOOD, folder, "-5.7", "@webgpu/types") == []
    types.unlink()


#: What an editor shows of a type: the text of the comment before it.
DECLARED = re.compile(
    r"(/\*\*(?:(?!\*/)[\s\S])*\*/\n)?^export (?:declare )?(?:type|class|function|let) (\w+)", re.M
)
#: A public member of a class.
MEMBER = re.compile(r"(\*/\n)?^    (?!private|static|#|constructor)(?:get )?(\w+)[(<:?]", re.M)


def test_the_packed_types_have_their_comments(packed: Path) -> None:
    index = (packed / "types" / "index.d.ts").read_text()
    public = re.findall(r"export (?:type )?\{ ([^}]*?),? \}", index)
    names = {name for line in public for name in line.split(", ")}
    texts = "".join(path.read_text() for path in (packed / "types").glob("*.d.ts"))
    found = {name: comment for comment, name in DECLARED.findall(texts) if name in names}
    assert found.keys() == names
    assert [name for name, comment in found.items() if not comment] == []
    classes = re.findall(r"^export declare class (\w+).*\{\n((?:    .*\n)*)", texts, re.M)
    bare = [
        f"{name}.{member}"
        for name, body in classes
        if name in names
        for comment, member in MEMBER.findall(body)
        if not comment
    ]
    assert bare == []


def test_the_package_has_no_dependency_and_no_build_step() -> None:
    assert "dependencies" not in PACKAGE
    for path in some((JS / "src").glob("*.js")):
        for name in re.findall(r'^(?!//).*from "([^"]+)"', path.read_text(), re.MULTILINE):
            assert (path.parent / name).is_file(), f"{path.name} imports {name}"
    for path in some(WEB.glob("*.js")):
        for name in re.findall(r'from "\./([^"]+)"', path.read_text()):
            place = (
                JS / "src" / Path(name).name if name.startswith("devmod-webgpu/") else WEB / name
            )
            assert place.is_file(), f"{path.name} imports {name}"


def test_the_version_is_that_of_the_distributions() -> None:
    import devmod
    from npm_package import npm_version  # tools/npm_package.py

    assert PACKAGE["version"] == npm_version(devmod.__version__)


def test_no_lock_file_and_no_address_of_a_registry() -> None:
    assert "package-lock=false" in (JS / ".npmrc").read_text()
    assert not (JS / "package-lock.json").exists()
    assert "registry" not in (JS / "package.json").read_text()


def test_the_page_requests_only_its_own_server() -> None:
    page = (WEB / "index.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
    )
    for path in [*some(WEB.glob("*.*")), *some((JS / "src").glob("*.js"))]:
        text = path.read_text()
        assert set(re.findall(r"https?://[\w./-]+", text)) <= {"http://www.w3.org/2000/svg"}, (
            path.name
        )
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function(",
            'style="',
            " onclick=",
        ):
            assert word not in text, f"{path.name} has {word}"


def test_npm_packs_one_module_its_types_and_the_license(packed: Path) -> None:
    names = {path.relative_to(packed).as_posix() for path in packed.rglob("*") if path.is_file()}
    assert {"package.json", "README.md", "LICENSE", "dist/index.js", "types/index.d.ts"} <= names
    assert all(
        name == "dist/index.js" or name.startswith("types/") or "/" not in name for name in names
    )
    imported = re.findall(
        r'["\']\./(\w+)\.js["\']',
        "".join(path.read_text() for path in (packed / "types").iterdir()),
    )
    assert {f"types/{name}.d.ts" for name in imported} | {"types/index.d.ts"} == {
        name for name in names if name.startswith("types/")
    }
    body = f"return Object.keys(await import({str(packed / 'dist' / 'index.js')!r})).sort();"
    assert run_in_node(body) == run_in_node(
        'return Object.keys(await import("./index.js")).sort();'
    )


# -- the wheel


def parts() -> set[str]:
    """Return the names of the page's files in a wheel."""
    made = {path.name for path in WEB.iterdir() if path.suffix in (".html", ".css", ".js", ".svg")}
    return made | {f"devmod-webgpu/{path.name}" for path in (JS / "src").iterdir()}


def page_files(names: list[str]) -> set[str]:
    return {name.partition("_view/_web/")[2] for name in names if "_view/_web/" in name}


def test_the_wheel_has_the_page(wheels: Any) -> None:
    with zipfile.ZipFile(wheels["devmod-workbench"]) as archive:
        assert page_files(archive.namelist()) == parts()
        assert (
            sum(each.compress_size for each in archive.infolist() if "/_web/" in each.filename)
            < 175_000
        )
    with zipfile.ZipFile(wheels["devmod-core"]) as archive:
        assert not [name for name in archive.namelist() if name.endswith((".html", ".js", ".css"))]


def test_the_wheel_of_the_source_distribution_has_it_too(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path)]
    run(*build, "--target", "sdist", cwd=ROOT / "workbench")
    release.unpack(next(tmp_path.glob("*.tar.gz")), tmp_path / "there")
    [folder] = (tmp_path / "there").iterdir()
    run(*build, "--target", "wheel", cwd=folder)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        assert page_files(archive.namelist()) == parts()


SERVE = """
import subprocess, sys, threading, urllib.request
process = subprocess.Popen([sys.executable, "-u", "-m", "devmod", "view", sys.argv[1], "--no-open"], stdout=subprocess.PIPE, text=True)
guard = threading.Timer(60, process.kill)
guard.start()
try:
    address = process.stdout.readline().split()[-1].partition("?")[0]
    for name in ("", "page.js", "devmod-webgpu/index.js", "devmod-webgpu/msgpack.js", "file/k.devmod"):
        with urllib.request.urlopen(address + name, timeout=300) as answer:
            print(name, answer.status, len(answer.read()))
finally:
    guard.cancel()
    process.terminate()
    process.wait()
    process.stdout.close()
"""


def test_a_clean_installation_serves_the_page_without_npm(
    environment: Callable[..., Any], wheels: Any, tmp_path: Path
) -> None:
    file = tmp_path / "k.devmod"
    shutil.copyfile(ROOT / "tests" / "golden" / "v1" / "tree.devmod", file)
    box = environment(wheels.direct("devmod-core"))
    output = box.run("-m", "devmod", "view", str(file), "--no-open", code=1)
    assert output == (
        "devmod: error: the program devmod: devmod-workbench is not installed. To add it: pip install devmod-workbench\n"
    )
    box.install(wheels.direct("devmod-core"), wheels.direct("devmod-workbench"))
    found = {
        line.split()[0] if line[0] != " " else "": line.split()[-1]
        for line in box.run("-c", SERVE, str(file), env={"PATH": ""}).splitlines()
    }
    assert found["file/k.devmod"] == str(file.stat().st_size)
    assert found["page.js"] == str((WEB / "page.js").stat().st_size)
    assert found["devmod-webgpu/index.js"] == str((JS / "src" / "index.js").stat().st_size)
    # `devmod view` does not list runtimes, so it does not import wgpu.
    checked = "import sys; from devmod_workbench._view.page import page; page(); print(sorted(set(sys.modules) & {'wgpu', 'numpy', 'devmod_webgpu'}))"
    assert box.run("-c", checked) == "[]\n"
