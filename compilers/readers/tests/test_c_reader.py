"""The reader in C (compilers/readers/c): it accepts and refuses the same files as Python, finds the
same candidates, and its example runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from random import Random
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from each_case import some

import devmod

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tools"))
from fuzzing import c_reader, seeds  # noqa: E402
from handmade import file_of, headed, row  # noqa: E402

pytestmark = [
    pytest.mark.row("R50"),
    pytest.mark.skipif(c_reader.compiler() is None, reason="no C compiler on PATH"),
]
FILES = some(sorted((ROOT / "tests/golden").glob("*/*.devmod")))


def test_what_only_a_later_reader_uses_is_counted_and_the_rest_is_used() -> None:
    expected = json.loads((ROOT / "tests/golden/later/expectations.json").read_text())["files"]
    for name, readers in expected.items():
        modules = readers["c"]
        data = (ROOT / "tests/golden/later" / name).read_bytes()
        c_reader.compare_bundle(data)
        unsupported = sum("error" in each for each in modules)
        sources = sum("sources" in each for each in modules)
        # In memory, and by ranges.
        assert c_reader.ask(data) == (0, 0, 2 * (unsupported + sources), ""), name


def test_one_constant(tmp_path: Path) -> None:
    """Other large constants are not read."""
    source = tmp_path / "one.c"
    source.write_text(ONE_CONSTANT)
    program = c_reader.build([source, c_reader.READER], *c_reader.SANITIZERS)
    path = ROOT / "tests/golden/v1/constants.devmod"

    def run(constant: str, most: int = 1 << 20) -> tuple[int, list[str]]:
        command = [str(program), str(path), "2", constant, str(most)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.split()

    for constant, values, most in (
        ("bias", ["8", "1", "2"], 2000),
        ("weights", ["4096", "0", "1"], 6000),
    ):
        result, (read, *found) = run(constant)
        assert (result, found) == (0, values)
        assert int(read) < most < path.stat().st_size
    assert run("other") == (5, ["error:", "the", "record", "2", "has", "no", "such", "constant"])
    # What the caller takes bounds a constant that is read alone.
    result, (_, *found) = run("weights", 4096)
    assert (result, found) == (0, ["4096", "0", "1"])
    assert run("weights", 4095) == (3, ["error:", "the", "module", "has", "4096", "bytes"])


def test_a_constant_whose_part_is_the_first_record(tmp_path: Path) -> None:
    """It is in a page before that of its module."""
    part = bytes.fromhex("0000803f00000040")
    stored = msgpack.packb({"w": [[2, 32, 1], [2], 0]}) + msgpack.packb({})
    loader = {"kind": "const_loader", "rank": 0, "functions": [], "parts": [0]}
    pages = [{"parts": [digest_of(part)]}, {"modules": [loader | digest_of(stored)]}]
    first, second = [msgpack.packb(page) for page in pages]
    rows = [row(first, 1, len(part)), row(second, 1, len(stored), 0, b"m")]
    blobs = part.ljust(64, b"\0") + stored
    (tmp_path / "k.devmod").write_bytes(
        headed({"candidates": 1, "pages": rows}, first + second, blobs)
    )
    source = tmp_path / "one.c"
    source.write_text(ONE_CONSTANT)
    program = c_reader.build([source, c_reader.READER], *c_reader.SANITIZERS)
    command = [str(program), str(tmp_path / "k.devmod"), "1", "w", "4096"]
    _, *found = subprocess.check_output(command, text=True).split()
    assert found == ["8", "1", "2"]


#: Print how many bytes are read for a constant of a module, its size and its first two values.
ONE_CONSTANT = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "devmod_reader.h"

static size_t total;

static int read_part(const void *context, uint64_t offset, void *into, size_t size) {
    FILE *file = (FILE *)context;
    total += size;
    return fseek(file, (long)offset, SEEK_SET) || fread(into, 1, size, file) != size;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 9;
    FILE *stream = fopen(argv[1], "rb");
    devmod_file *file;
    devmod_constant constant;
    float values[2];
    fseek(stream, 0, SEEK_END);
    int result = devmod_open(read_part, stream, (uint64_t)ftell(stream), &file);
    uint32_t number = (uint32_t)strtoul(argv[2], NULL, 10);
    uint64_t most = strtoul(argv[4], NULL, 10);
    if (!result)
        result = devmod_get_constant(file, number, argv[3], most, &constant);
    if (result)
        printf("error: %s\\n", devmod_error(file));
    else {
        memcpy(values, constant.data.data, sizeof values);
        printf("%zu %zu %g %g\\n", total, constant.data.size, values[0], values[1]);
    }
    devmod_close(file);
    fclose(stream);
    return result;
}
"""


def test_files_of_several_pages() -> None:
    for data in seeds.lookups():
        assert c_reader.ask(data) == (0, 0, 0, "")


@pytest.mark.parametrize("name", ["tree", "shared"])
def test_bytes_beyond_what_the_caller_takes(name: str) -> None:
    """With repeats, and without. Bytes that were read before are refused too."""
    data = (ROOT / f"tests/golden/v1/{name}.devmod").read_bytes()
    modules = [each for each in devmod.loads(data).imports if each.kind != "bundle"]
    for number, module in enumerate(modules):
        saved = module.save_to_bytes()
        refusal = (3, f"the module has {len(saved)} bytes")
        for most in ([len(saved) - 1, len(saved)], [len(saved), len(saved) - 1]):
            with c_reader.File(data) as file:
                found = {each: file.get_bytes(number, each) for each in most}
            assert found == {len(saved): (0, saved), len(saved) - 1: refusal}


def record(number: int, **more: Any) -> dict[str, Any]:
    digest = hashlib.sha256(b"ab").digest()
    return {"kind": "npu", "functions": [f"f{number}"], "size": 2, "sha256": digest, **more}


NAMES = [f"f{number}" for number in range(3000)]
#: Pages, each with many of one thing.
INDEXES: dict[str, dict[str, Any]] = {
    "repeats": {
        "modules": [record(at, repeats=[[0, 1, 1], [1, 1, 2]]) for at in range(500)],
    },
    "modules": {"modules": [record(at) for at in range(500)]},
    "functions": {"modules": [record(0, functions=NAMES)]},
    "imports": {"modules": [record(0, imports=[1] * 30_000), record(1)]},
    "unknown keys": {"modules": [record(0)], "later": dict.fromkeys(NAMES)},
    "nodes": {"modules": [record(0), *[{"kind": "bundle", "imports": [0]}] * 500]},
}


@pytest.mark.parametrize("name", INDEXES)
def test_the_memory_of_an_index_is_linear(name: str) -> None:
    """`ask` compares it with the size of the file."""
    modules = INDEXES[name]["modules"]
    count = sum("size" in each for each in modules)
    roots = [0] if name == "imports" else [*range(len(modules))]
    data = file_of({"roots": roots, **INDEXES[name]}, (b"ab".ljust(64, b"\0") * count)[:-62])
    assert c_reader.ask(data) == (0, 0, 0, "")


def test_words_for_other_files() -> None:
    good = FILES[-1].read_bytes()
    assert (
        c_reader.ask(b"safetensors" * 10)[3]
        == "it is no .devmod file: it does not begin with the magic bytes"
    )
    for number in (b"\4", b"\5"):
        assert (
            c_reader.ask(good[:8] + number + good[9:])[3]
            == "it is a development file, from before version 1: build it again"
        )
    assert (
        c_reader.ask(good[:8] + b"\7" + good[9:])[3]
        == "it is in version 2 of the format; this reader reads version 1"
    )
    assert c_reader.ask(good[:-1])[3] == "the file has another size than its index describes"


def test_compressed_bytes() -> None:
    options = c_reader.zstd()
    if not options:
        pytest.skip("libzstd is neither in the system nor in the wheel of Pillow")
    code = b"// " + b"kernel " * 20_000
    data = devmod.dumps(
        devmod.create_with_fallback(
            "opencl", code, "cl", {"f": devmod.FunctionInfo("f", ["handle"])}
        ),
        compress="zstd",
    )
    assert c_reader.ask(data) == (0, 0, 2, "")  # in memory, and by ranges
    assert c_reader.ask(data, *options) == (0, 0, 0, "")
    for bad in FILES:
        if bad.stem.startswith(
            (
                "compressed-bytes-that-are",
                "compressed-to",
                "compressed-with-a-byte",
                "compressed-with-a-window",
            )
        ):
            assert (
                c_reader.ask(bad.read_bytes(), *options)[3]
                == "compressed bytes do not unpack to those of the index"
            ), bad.name


def test_a_copy_of_a_large_module_takes_little_other_memory() -> None:
    """`ask` bounds it by a piece of the file, in memory and by ranges."""
    options = c_reader.zstd()
    if not options:
        pytest.skip("libzstd is neither in the system nor in the wheel of Pillow")
    random = Random(1)
    code = b"".join([random.randbytes(1000) + bytes(1000) for _ in range(1500)])
    functions = {"f": devmod.FunctionInfo("f", ["handle"])}
    module = devmod.create_with_fallback("opencl", code, "il", functions)
    for compress in ("zstd", None):
        data = devmod.dumps(module, compress=compress)
        assert len(data) > 1.25 * c_reader.PIECE
        assert c_reader.ask(data, *options) == (0, 0, 0, "")


def test_a_buffer_of_another_size() -> None:
    data = (ROOT / "tests/golden/v1/shared.devmod").read_bytes()
    with c_reader.File(data) as file:
        _, expected = file.get_bytes(0, 1 << 20)
        size = len(expected)
        assert file.copy_bytes(0, size) == (0, expected)
        assert file.copy_bytes(0, size - 1) == (3, f"the module has {size} bytes")
        other = (3, "the module has another size than the buffer")
        assert file.copy_bytes(0, size + 1) == other


def test_constants_whose_positions_are_longer_than_their_parts() -> None:
    """A position may have any form of an integer."""
    constants = msgpack.packb({"w": [[2, 32, 1], [0], 0]})
    stored = constants[:-1] + b"\xcf" + bytes(8) + b"\x80"
    joined = msgpack.packb({"w": [[2, 32, 1], [0], b""]}) + b"\x80"
    assert len(joined) < len(stored)
    loader = {"kind": "const_loader", "parts": [1], **digest_of(stored)}
    data = file_of({"modules": [loader], "parts": [digest_of(b"")]}, stored)
    assert devmod.loads(data).save_to_bytes() == joined
    c_reader.compare_bundle(data)
    with c_reader.File(data) as file:
        assert file.copy_bytes(0, len(joined)) == (0, joined)
        other = (3, "the module has another size than the buffer")
        assert file.copy_bytes(0, len(joined) + 1) == other


def digest_of(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).digest()}


def test_the_address_by_digest() -> None:
    """It is compared before anything of the head is read."""
    data = FILES[-1].read_bytes()
    digest = data[16:48].hex()
    other = hashlib.sha256(b"").hexdigest()
    damaged = data[:48] + b"\xc1" + data[49:]
    no_digest = "the address has no SHA-256 of 64 lower-case digits"
    expected = [
        (data, digest, ""),
        (data, f"#devmod-head={digest}", ""),
        (data, f"https://host/k.devmod#devmod-head={digest}", ""),
        (damaged, digest, "the head is damaged: its SHA-256 is another one"),
        (damaged, other, f"it is another file: its head has not the SHA-256 {other}"),
        (data, digest[:-1], no_digest),
        (data, digest + "0", no_digest),
        (data, digest.upper(), no_digest),
        (data, "https://host/k.devmod", no_digest),
        (data, "", no_digest),
    ]
    for content, address, problem in expected:
        assert c_reader.open_pinned(content, address) == problem, address


def module_bytes(functions: dict[str, Any], fmt: str = "cl") -> bytes:
    return b"".join(map(msgpack.packb, (fmt, functions, b"x")))


def file_with(functions: dict[str, Any], fmt: str = "cl", **more: Any) -> bytes:
    """Return a file with an OpenCL module, whose record has the format cl."""
    code = module_bytes(functions, fmt)
    digest = hashlib.sha256(code).digest()
    row = {"kind": "opencl", "format": "cl", "functions": [*functions], **more}
    return file_of({"modules": [row | {"size": len(code), "sha256": digest}]}, code)


def function_with(**interface: Any) -> list[Any]:
    return ["f", [], [], [], interface]


#: A value in 32 arrays.
NESTED: Any = 1
for _ in range(32):
    NESTED = [NESTED]
#: Functions, each with the result and the error of a check of its needs.
FUNCTIONS: dict[str, tuple[list[Any], str]] = {
    "plain": (["f", [], [], []], "0"),
    "known": (function_with(needs=["fp16", "launch_constants", "repeat", "tuned"]), "0"),
    "newer": (
        function_with(params=[{"name": "x", "kind": "later"}], needs=["fp16", "later"]),
        "3 the function needs 'later', which this reader lacks",
    ),
    "newer with 63 letters": (
        function_with(needs=["x" * 63]),
        f"3 the function needs '{'x' * 63}', which this reader lacks",
    ),
    "newer with a long name": (
        function_with(needs=["x" * 70]),
        f"3 the function needs '{'x' * 64}', which this reader lacks",
    ),
    "newer with variants": (
        function_with(tune={}, needs=["later"]),
        "3 the function needs 'later', which this reader lacks",
    ),
    "variants in the interface": (
        function_with(tune={}),
        "1 an interface: variants in the interface of a function, before byte 6",
    ),
    "no list": (
        function_with(needs="fp16"),
        "1 an interface: expected an array, before byte 12",
    ),
    "nested": (
        function_with(later=NESTED, needs=["later"]),
        "1 an interface: arrays and maps are nested too deep, before byte 39",
    ),
    "last": (function_with(), "0"),
}


def test_a_function_with_a_need_that_the_reader_lacks(tmp_path: Path) -> None:
    """The others are used: the module's contents are returned."""
    data = file_with({name: function for name, (function, _) in FUNCTIONS.items()})
    found = [line.strip() for line in printed_contents(data, tmp_path)]
    assert found == [f"{name}: {result}" for name, (_, result) in FUNCTIONS.items()]


def test_the_format_of_a_record_is_that_of_its_bytes(tmp_path: Path) -> None:
    functions = {"f": ["f", [], [], []]}
    assert printed_contents(file_with(functions), tmp_path) == ["f: 0 "]
    (line,) = printed_contents(file_with(functions, "il"), tmp_path)
    assert line.startswith("error: a module's bytes: another format than that of the index")


def test_the_limit_on_variants_is_their_own(tmp_path: Path) -> None:
    """An interface has the limit of its module."""
    few = {"f": [*function_with(later=[[]] * 2000), {"later": [[]] * 2}]}
    tune = {"later": [[]] * 2000, "text": "x" * 6100}
    many = {"f": [*function_with(), tune], "g": function_with(later=[[]] * 1000)}
    more = {"f": [*function_with(), {"later": [[]] * 2000, "text": "x" * 5900}]}
    assert printed_contents(file_with(many), tmp_path) == ["f: 0 ", "g: 0 "]
    for functions in (few, more):
        (line,) = printed_contents(file_with(functions), tmp_path)
        assert line.startswith("error: a module's bytes: ")


def test_what_is_passed_on_as_msgpack(tmp_path: Path) -> None:
    """The origin, the interface and the variants of a function, and the interface of a variant."""
    interface = {"later": [1, {"a": None}]}
    own = {"needs": ["fp16"], "params": []}
    variants = [{"values": [3]}, {"values": [4], "interface": own}]
    tune = {"constants": ["N"], "variants": variants, "other": 7}
    functions = {"f": [*function_with(**interface), tune], "g": function_with()}
    data = file_with(functions, origin={"target": "opencl", "later": [2]})
    assert printed_contents(data, tmp_path, OPAQUE) == [
        msgpack.packb({"target": "opencl", "later": [2]}).hex(),
        f"{msgpack.packb(interface).hex()} {msgpack.packb(tune).hex()} 0 0 {msgpack.packb(own).hex()}",
        "80  5 5 ",
    ]


@pytest.mark.parametrize(
    ("name", "result"),
    [
        *[(name, 0) for name in ("a", "Zz", "_", "a9", "a0", "é", "\u0400", "z_Z")],
        *[(name, 1) for name in ("", "0", "9a", "a-", "a b", "a[", "`", "a{", "@")],
    ],
)
def test_the_name_of_a_constant_of_variants(name: str, result: int, tmp_path: Path) -> None:
    tune = {"constants": [name], "variants": [{"values": [3]}, {"values": [4]}]}
    data = file_with({"f": [*function_with(), tune]})
    (_, line) = printed_contents(data, tmp_path, OPAQUE)
    assert line.split()[2:] == [str(result)] * 2


@pytest.mark.parametrize(("length", "shown"), [(63, 63), (64, 64), (70, 64)])
def test_a_feature_that_the_reader_lacks(length: int, shown: int) -> None:
    record = {**digest_of(b"x"), "kind": "npu", "features": ["y" * length]}
    with c_reader.File(file_of({"modules": [record]}, b"x")) as file:
        assert file.get_bytes(0, 99) == (
            3,
            f"the record 0 needs '{'y' * shown}', which a newer reader reads",
        )


#: Print the origin of the first module of a file, and for each function what is not read, and the
#: results and the last interface of its first two variants.
OPAQUE = """
#include <stdio.h>
#include "devmod_reader.h"

static void print(devmod_slice bytes, const char *end) {
    for (size_t at = 0; at < bytes.size; at++)
        printf("%02x", bytes.data[at]);
    printf("%s", end);
}

int main(int argc, char **argv) {
    static char data[1 << 16];
    FILE *stream = fopen(argv[argc - 1], "rb");
    size_t size = fread(data, 1, sizeof data, stream);
    fclose(stream);
    devmod_file *file;
    devmod_module module;
    devmod_contents contents;
    if (devmod_open(NULL, data, size, &file) || devmod_get_module(file, 0, &module) ||
        devmod_get_contents(file, 0, 1 << 16, &contents))
        return 1;
    print(module.origin, "\\n");
    for (size_t at = 0; at < contents.function_count; at++) {
        const devmod_function *function = contents.functions + at;
        devmod_variant variant = {0};
        print(function->interface, " ");
        print(function->tune, " ");
        for (size_t position = 0; position < 2; position++)
            printf("%d ", devmod_get_variant(file, function, position, NULL, 0, &variant));
        print(variant.interface, "\\n");
    }
    devmod_close(file);
    return 0;
}
"""


def printed_contents(data: bytes, folder: Path, program_text: str = "") -> list[str]:
    """Return what a program prints for a file, by default CONTENTS."""
    source = folder / "contents.c"
    source.write_text(program_text or CONTENTS)
    program = c_reader.build([source, c_reader.READER], *c_reader.SANITIZERS)
    (folder / "k.devmod").write_bytes(data)
    command = [str(program), str(folder / "k.devmod")]
    return subprocess.check_output(command, text=True).splitlines()


#: Print the functions of the first module of a file, each with the check of its needs.
CONTENTS = """
#include <stdio.h>
#include "devmod_reader.h"

int main(int argc, char **argv) {
    static char data[1 << 16];
    FILE *stream = fopen(argv[argc - 1], "rb");
    size_t size = fread(data, 1, sizeof data, stream);
    fclose(stream);
    devmod_file *file;
    devmod_contents contents;
    if (devmod_open(NULL, data, size, &file) || devmod_get_contents(file, 0, 1 << 16, &contents)) {
        printf("error: %s\\n", devmod_error(file));
        devmod_close(file);
        return 0;
    }
    for (size_t at = 0; at < contents.function_count; at++) {
        const devmod_function *function = contents.functions + at;
        int result = devmod_check_needs(file, function);
        printf("%.*s: %d %s\\n", (int)function->name.size, (const char *)function->name.data, result,
               result ? devmod_error(file) : "");
    }
    devmod_close(file);
    return 0;
}
"""


SOURCE = (
    b"__kernel void twice(__global float *x, float factor) { x[get_global_id(0)] *= factor; }\n"
)
INTEL = [each.parent for each in [Path(sys.prefix, "lib", "libintelocl.so")] if each.exists()]
POCL = [each.parent for each in Path(sysconfig.get_path("platlib")).glob("pyopencl*/**/libpocl*")]
#: Runs a program's main. devmod first gives PoCL a name of the processor (DEVMOD_OPENCL_POCL_CPU),
#: for this process alone, and pyopencl sets the variable that its libOpenCL reads without a check.
RUN = """
import ctypes, os, sys, devmod
devmod.load(sys.argv[2])["scale"]
sys.exit(ctypes.CDLL(sys.argv[1]).main(len(sys.argv) - 1, (ctypes.c_char_p * len(sys.argv))(*map(os.fsencode, sys.argv[1:]))))
"""


@pytest.mark.parametrize(
    "folders", [pytest.param(INTEL, id="intel"), pytest.param(POCL, id="pocl")]
)
def test_the_example(folders: list[Path], tmp_path: Path) -> None:
    functions = {"scale": devmod.FunctionInfo("twice", ["handle", "float32"])}
    module = devmod.create_with_fallback("opencl", SOURCE, "cl", functions)
    other = devmod.create_with_fallback("cuda", b"cubin", "cubin", functions)
    devmod.save(devmod.bundle(other, module), tmp_path / "kernels.devmod")
    sources = [c_reader.FOLDER / "example_opencl.c", c_reader.READER]
    if not folders:
        for source in sources:
            c_reader.build([source], "-c")
        pytest.skip("this driver of OpenCL is not in this environment")
    library = str(sorted(folders[0].glob("libOpenCL*.so.1*"))[0])
    options = [
        library,
        f"-Wl,--allow-shlib-undefined,-rpath,{folders[0]}",
        *(["-shared", "-fPIC"] if folders is POCL else []),
    ]
    program = c_reader.build(sources, *options)
    intel = {
        "OCL_ICD_FILENAMES": str(folders[0] / "libintelocl.so"),
        "LD_LIBRARY_PATH": str(folders[0]),
    }
    alone = {
        "DEVMOD_OPENCL_POCL_CPU": "1",
        "OCL_ICD_VENDORS": str(tmp_path),
        "DEVMOD_DEVICE": "",
    }  # without Intel's
    environment = os.environ | (intel if folders is INTEL else alone)
    environment.pop("DEVMOD_PLUGINS_ALLOW", None)
    digest = (tmp_path / "kernels.devmod").read_bytes()[16:48].hex()
    other = "0" * 64
    values = ["0", "2.5", "5", "7.5", "10", "12.5", "15", "17.5"]
    refusal = f"it is another file: its head has not the SHA-256 {other}\n"
    for arguments, result in [
        (["scale"], (0, values, "")),
        (["scale", f"#devmod-head={digest}"], (0, values, "")),
        (["scale", f"#devmod-head={other}"], (1, [], refusal)),
        (["absent"], (1, [], "the file has no OpenCL C with this function\n")),
    ]:
        command = [
            *([sys.executable, "-c", RUN] if folders is POCL else []),
            str(program),
            str(tmp_path / "kernels.devmod"),
            *arguments,
        ]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.partition(":")[2].split(), done.stderr) == result
