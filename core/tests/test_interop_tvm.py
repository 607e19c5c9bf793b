"""TVM's bytes in and out, on files that TVM wrote (vectors/tvm) and on bytes made by hand."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from each_case import raised, refusal
from stored import Raw
from support import KINDS, sample

import devmod
from devmod.interop import tvm

pytestmark = pytest.mark.once  # the bytes of TVM's files

VECTORS = Path(__file__).parent / "vectors" / "tvm"
BLOBS = sorted(path.name for path in VECTORS.glob("*.tvmimports"))


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return u64(len(data)) + data


def blob(rows: list[int], children: list[int], *modules: bytes, size: int | None = None) -> bytes:
    body = u64(len(rows), *rows) + u64(len(children), *children) + b"".join(modules)
    return u64(len(body) if size is None else size) + body


FMAP = (
    u64(1)
    + text("f")
    + text("f")
    + u64(2)
    + b"\x03\x40\x01\x00\x00\x20\x01\x00"
    + u64(1)
    + text("blockIdx.x")
    + u64(2)
    + bytes(8)
)
OPENCL = text("cl") + FMAP + text("// Function: f\ncode\n")


def module_of(
    kind: str,
    interface: devmod.Interface | None = None,
    types: list[str] | None = None,
    tags: list[str] | None = None,
    *,
    fmt: str = "",
    code: Any = None,
    symbol: str = "f",
) -> devmod.Module:
    own, own_format, _ = sample(kind)
    if code is None:
        code = (
            {"f": b"shader"}
            if isinstance(own, dict)
            else b"// Function: f\nkernel\n"
            if kind == "opencl"
            else own
        )
    fmt = fmt or own_format
    info = devmod.FunctionInfo(
        symbol,
        ["handle"] if types is None else types,
        ["blockIdx.x"] if tags is None else tags,
        (),
        interface,
    )
    return devmod.create_with_fallback(kind, code, fmt, {"f": info})


# -- what TVM wrote


def test_all_vectors_are_present() -> None:
    assert len(BLOBS) == 10
    assert (VECTORS / "vadd.opencl.so").exists()


@pytest.mark.row("R19", "R21", "R24")
@pytest.mark.parametrize("name", BLOBS)
def test_tvms_bytes_are_dumped_unchanged_also_after_saving(name: str) -> None:
    data = (VECTORS / name).read_bytes()
    root = tvm.load_imports(data)
    assert root.kind == "_lib"
    assert tvm.dump_imports(root) == data
    saved = devmod.dumps(root)
    assert tvm.dump_imports(devmod.loads(saved)) == data
    for module in root.imports:
        bytes_of_it = tvm.dump_module_bytes(module)
        assert bytes_of_it in data
        again = tvm.load_module_bytes(module.kind, bytearray(bytes_of_it))
        assert tvm.dump_module_bytes(again) == bytes_of_it
        assert again.save_to_bytes() == module.save_to_bytes() != bytes_of_it
        assert type(module).__name__ not in ("FallbackModule",)


@pytest.mark.row("R17", "R24")
@pytest.mark.parametrize("name", [name for name in BLOBS if name.startswith(("vadd.", "matmul."))])
def test_modules_from_tvm_are_stored_modules_of_their_kind(name: str) -> None:
    program, kind, _ = name.split(".")
    (module,) = tvm.load_imports((VECTORS / name).read_bytes()).imports
    assert module.kind == kind
    ((key, info),) = module.functions.items()
    assert key == info.name == f"{program}_kernel"
    assert info.arg_types == ("handle",) * 3
    assert info.interface is None
    axes = (
        ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
        if program == "matmul"
        else ("blockIdx.x", "threadIdx.x")
    )
    writes = ("paramWriteAccess:[0,0,1]",) if kind == "webgpu" else ()
    assert info.launch_param_tags == axes + writes
    assert info.arg_extra_tags == (() if kind == "webgpu" else (0, 0, 0))
    assert (
        module.format == {"cuda": "cuda", "opencl": "cl", "metal": "metal", "webgpu": "wgsl"}[kind]
    )
    assert f"{program}_kernel" in module.inspect_source()
    remade = devmod.create_with_fallback(kind, module.code, module.format, module.functions)
    assert remade.save_to_bytes() == module.save_to_bytes()
    assert tvm.dump_module_bytes(remade) == tvm.dump_module_bytes(module)


@pytest.mark.row("R20")
def test_constants_from_tvm() -> None:
    root = tvm.load_imports((VECTORS / "vadd_const.opencl+const_loader.tvmimports").read_bytes())
    constants, opencl = root.imports
    assert (constants.kind, opencl.kind) == ("const_loader", "opencl")
    w, b = constants.get_function("__init__")()
    np.testing.assert_array_equal(w.numpy(), np.arange(6, dtype=np.float32).reshape(2, 3))
    assert (b.dtype, b.shape) == ("int32", (3,))
    assert len(root.get_function("__init__", query_imports=True)()) == 2
    made = devmod.const_loader({"w": w, "b": b}, {"__init__": ["w", "b"]})
    assert made.save_to_bytes() == constants.save_to_bytes()
    assert tvm.dump_module_bytes(made) == tvm.dump_module_bytes(constants)


@pytest.mark.row("R19", "R20")
def test_constants_of_two_modules_stay_two_in_a_file() -> None:
    """Bytes of TVM have no digest by which they could be compared."""
    stored = []
    for value in (1, 2):
        made = devmod.const_loader({"w": np.full(3, value, "float32")}, {f"init_{value}": ["w"]})
        stored.append(tvm.load_module_bytes("const_loader", tvm.dump_module_bytes(made)))
    root = devmod.loads(devmod.dumps(devmod.bundle(*stored, mixed=True)))
    found = [root.get_function(f"init_{value}")()[0].numpy().tolist() for value in (1, 2)]
    assert found == [[1, 1, 1], [2, 2, 2]]


def test_a_library_is_read_and_not_executed(tmp_path: Path) -> None:
    root = tvm.load_library(VECTORS / "vadd.opencl.so")
    assert tvm.dump_imports(root) == (VECTORS / "vadd.opencl.tvmimports").read_bytes()
    script = f"""
import devmod
devmod.interop.tvm.load_library({str(VECTORS / "vadd.opencl.so")!r})
with open("/proc/self/maps") as file:
    print([line.split()[1] for line in file if "vadd" in line and "x" in line.split()[1]])
"""
    if os.path.exists("/proc/self/maps"):
        assert (
            subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, check=True
            ).stdout
            == "[]\n"
        )


@pytest.mark.row("R25")
def test_the_host_library_names_the_import_with_a_function() -> None:
    root = tvm.load_imports((VECTORS / "vadd.opencl.tvmimports").read_bytes())
    assert (root.kind, dict(root.functions), root.property_mask) == ("_lib", {}, 2)
    assert refusal(devmod.FunctionNotFoundError, root.get_function, "vadd_kernel") == (
        "the _lib module has no function 'vadd_kernel'; it has: none. Its opencl import has it: "
        "get_function('vadd_kernel', query_imports=True)"
    )
    assert (
        refusal(devmod.FunctionNotFoundError, root.get_function, "x", query_imports=True)
        == "the _lib module has no function 'x'; it has: none"
    )
    assert (
        refusal(devmod.FormatError, root.save_to_bytes)
        == "a module of kind '_lib' cannot be saved to bytes"
    )


# -- all kinds


def test_the_layout_of_a_modules_bytes() -> None:
    module = tvm.load_module_bytes("opencl", OPENCL)
    assert module.functions == {
        "f": devmod.FunctionInfo("f", ["handle", "int32"], ["blockIdx.x"], [0, 0])
    }
    assert (module.format, module.code) == ("cl", b"// Function: f\ncode\n")
    remade = devmod.create_with_fallback("opencl", module.code, "cl", module.functions)
    assert tvm.dump_module_bytes(remade) == OPENCL


@pytest.mark.row("R15", "R17")
def test_the_layout_of_a_vulkan_modules_bytes() -> None:
    shader = struct.pack("<IQ2I", 1, 2, 0x07230203, 0x00010300)
    data = text("vulkan") + FMAP + u64(1) + text("f") + text(shader)
    module = tvm.load_module_bytes("vulkan", data)
    assert (module.format, module.code) == ("spv", {"f": shader})
    assert (
        tvm.dump_module_bytes(
            devmod.create_with_fallback("vulkan", {"f": shader}, "vulkan", module.functions)
        )
        == data
    )


@pytest.mark.row("R17", "R19")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_round_trips(kind: str) -> None:
    made = module_of(kind)
    found = tvm.load_module_bytes(kind, tvm.dump_module_bytes(made))
    assert (found.kind, found.format, found.functions, found.code) == (
        kind,
        made.format,
        made.functions,
        made.code,
    )
    assert found.save_to_bytes() == made.save_to_bytes()


@pytest.mark.row("R14", "R19")
def test_a_vulkan_module_of_tvm_is_spv_and_is_saved_unchanged() -> None:
    shader = struct.pack("<IQ2I", 0, 2, 0x07230203, 0x00010300)
    stored = tvm.load_module_bytes(
        "vulkan", text("vulkan") + FMAP + u64(1) + text("f") + text(shader)
    )
    data = tvm.dump_module_bytes(stored)
    wire = stored.save_to_bytes()
    assert wire.startswith(b"\xa6vulkan")
    made = devmod.create_with_fallback("vulkan", {"f": shader}, "vulkan", stored.functions)
    again = devmod.loads(devmod.dumps(stored))
    for module in (stored, again, made):
        assert (module.format, module.save_to_bytes()) == ("spv", wire)
    assert devmod.dumps(again) == devmod.dumps(stored) == devmod.dumps(made)
    assert tvm.dump_module_bytes(again) == tvm.dump_module_bytes(made) == data


def test_a_rocm_module_has_tvms_kind_hip() -> None:
    data = tvm.dump_imports(devmod.loads(devmod.dumps(module_of("rocm"))))
    assert text("hip") + text(tvm.dump_module_bytes(module_of("rocm"))) in data
    found = tvm.load_imports(data)
    assert (found.kind, tvm.dump_imports(found)) == ("rocm", data)


SOURCE = b"__kernel void f(__global float *x) {}\n__kernel void g(__global float *x) {}"


def test_opencl_c_gets_a_part_for_each_function() -> None:
    info = {name: devmod.FunctionInfo(name, ["handle"], ["blockIdx.x"]) for name in "fg"}
    made = devmod.create_with_fallback("opencl", SOURCE, "cl", info)
    data = tvm.dump_module_bytes(made)
    found = tvm.load_module_bytes("opencl", data)
    part = b"#ifndef DEVMOD_WHOLE_SOURCE\n#define DEVMOD_WHOLE_SOURCE\n" + SOURCE + b"\n#endif\n"
    assert found.code == b"// Function: f\n" + part + b"// Function: g\n" + part
    one = devmod.create_with_fallback("opencl", SOURCE, "cl", {"f": info["f"]})
    assert (
        tvm.load_module_bytes("opencl", tvm.dump_module_bytes(one)).code
        == b"// Function: f\n" + SOURCE + b"\n"
    )
    # It has its parts already.
    assert tvm.dump_module_bytes(devmod.loads(devmod.dumps(found))) == data
    assert made.code == SOURCE


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            lambda: module_of("opencl", code=b"//devmod: -cl-std=CL2.0\n" + SOURCE),
            "TVM cannot run the opencl module: it is built with the options '-cl-std=CL2.0', and TVM builds OpenCL C without options",
        ),
        (
            lambda: devmod.create_with_fallback("opencl", SOURCE, "cl", {}),
            "TVM cannot run the opencl module: it has no function",
        ),
        (
            lambda: module_of("opencl", code=b"// Function: g\n" + SOURCE),
            "TVM cannot run the opencl module: its source has the lines '// Function: ' of 'g', and its functions are 'f'",
        ),
        (
            lambda: module_of("opencl", fmt="clbin"),
            "TVM cannot run the opencl module: its format is 'clbin', and TVM's runtime takes cl, xclbin, awsxclbin, aocx",
        ),
        (
            lambda: module_of("rocm", fmt="hip"),
            "TVM cannot run the rocm module: its format is 'hip', and TVM's runtime takes hsaco",
        ),
        (
            lambda: module_of("metal", code={"g": b""}),
            "TVM cannot run the metal module: it has no shader under the name of its function 'f'; it has those of 'g'",
        ),
        (
            lambda: module_of("cuda", symbol="_Z1fPf"),
            "TVM cannot call the cuda function 'f': its symbol is '_Z1fPf', and TVM asks the driver for 'f'; give the function the name "
            "of its symbol",
        ),
    ],
)
def test_a_module_that_tvm_cannot_run_is_refused(
    made: Callable[[], devmod.Module], said: str
) -> None:
    for dump in (tvm.dump_module_bytes, tvm.dump_imports):
        assert refusal(devmod.FormatError, dump, made()) == said


def test_a_plugins_own_module_is_dumped_from_its_bytes() -> None:
    made = module_of("cuda")
    assert tvm.dump_module_bytes(Raw("cuda", made.save_to_bytes())) == tvm.dump_module_bytes(made)


def test_an_alias_of_a_kind_keeps_its_name_in_tvms_bytes() -> None:
    body = text("hsaco") + FMAP + text("code")
    data = blob([0, 1, 1], [1], text("_lib"), text("hip") + text(body))
    root = tvm.load_imports(data)
    assert root.imports[0].kind == "rocm"
    assert tvm.dump_imports(root) == data


def test_a_new_tree_is_packed_importers_first() -> None:
    root, left, right, shared = (module_of(kind) for kind in ("opencl", "cuda", "rocm", "metal"))
    for importer, imported in ((root, left), (root, right), (left, shared), (right, shared)):
        importer.import_module(imported)
    data = tvm.dump_imports(root)
    assert data[8:].startswith(u64(5, 0, 2, 3, 4, 4) + u64(4, 1, 2, 3, 3) + text("opencl"))
    found = tvm.load_imports(data)
    assert found.imports[0].imports[0] is found.imports[1].imports[0]
    assert tvm.dump_imports(found) == data


def test_a_loaded_tree_keeps_its_order_until_it_changes() -> None:
    modules = [text(kind) + text(OPENCL) for kind in ("opencl",) * 3]
    data = blob([0, 1, 1, 2], [2, 1], *modules)  # 0 imports 2, which imports 1
    root = tvm.load_imports(data)
    assert tvm.dump_imports(root) == data
    assert tvm.dump_imports(root.imports[0]) == blob([0, 1, 1], [1], *modules[:2])
    root.import_module(module_of("cuda"))
    assert tvm.load_imports(tvm.dump_imports(root)).imports[1].kind == "cuda"


def test_a_module_of_an_unknown_kind_keeps_its_place_and_bytes() -> None:
    data = blob(
        [0, 1, 2, 2],
        [1, 2],
        text("_lib"),
        text("relax.VMExecutable") + text(b"\x01\x02"),
        text("opencl") + text(OPENCL),
    )
    root = tvm.load_imports(data)
    (foreign,) = root.imports
    assert (foreign.kind, foreign.property_mask, foreign.imports[0].kind) == (
        "relax.VMExecutable",
        0,
        "opencl",
    )
    assert tvm.dump_imports(root) == data
    assert (
        refusal(devmod.FunctionNotFoundError, foreign.get_function, "main")
        == "the 'relax.VMExecutable' module has no function 'main'; it has: none"
    )
    assert repr(foreign) == "<ForeignModule relax.VMExecutable: no functions>"
    for save in (
        devmod.dumps,
        lambda module: devmod.save(module, "k.devmod"),
        lambda module: module.imports[0].write_to_file("k.so"),
    ):
        assert refusal(devmod.FormatError, save, root) == (
            "TVM's 'relax.VMExecutable' module cannot be saved in devmod's format: only TVM can run it. Save the modules that it imports "
            "(.imports), or write the bytes of devmod.interop.tvm.dump_imports(module) for TVM"
        )
    assert devmod.loads(devmod.dumps(foreign.imports[0])).kind == "opencl"
    foreign = tvm.load_imports(blob([0, 0], [], text("llvm") + text(b"")))
    assert refusal(devmod.FormatError, devmod.dumps, foreign).startswith(
        "TVM's 'llvm' module cannot be saved in devmod's format: only TVM can run it. "
    )


def test_load_from_file_of_a_library_names_load_library(tmp_path: Path) -> None:
    path = tmp_path / "vadd.so"
    path.write_bytes((VECTORS / "vadd.opencl.so").read_bytes())
    message = refusal(devmod.FormatError, devmod.load_from_file, path)
    text = f"{str(path)!r} is a library that TVM exported, not a payload; devmod.interop.tvm.load_library({str(path)!r}) reads its modules"
    assert message == text
    path.write_bytes(
        path.read_bytes().replace(b"__tvm_ffi__library_bin", b"__another_library_bin_")
    )
    with pytest.raises(devmod.NotRegisteredError, match="is a shared object for x86_64; "):
        devmod.load_from_file(path)


def test_a_bundle_or_another_backends_kind_cannot_be_dumped() -> None:
    for module, kind in ((devmod.bundle(module_of("cuda")), "bundle"), (Raw("npu", b""), "npu")):
        for dump in (tvm.dump_module_bytes, tvm.dump_imports):
            assert (
                refusal(devmod.FormatError, dump, module)
                == f"TVM does not support the kind {kind!r}; for a bundle, dump a candidate"
            )


# -- functions that TVM could not call

P, B = devmod.Param, devmod.Block
Interface = devmod.Interface


@pytest.mark.parametrize(
    ("kind", "interface", "types"),
    [
        (
            "opencl",
            Interface([P("n", "scalar", "int32"), P("x", "buffer", "float32", "rw")]),
            ["int32", "handle"],
        ),
        ("cuda", Interface([P("x", "buffer", access="rw")], block=(64, 1, 1)), ["handle"]),
        (
            "metal",
            Interface(
                [P("x", "buffer", at=0), P("y", "buffer", at=1), P("n", "scalar", at=(0, 0))],
                [B(2, 8)],
            ),
            ["handle", "handle", "int32"],
        ),
        (
            "vulkan",
            Interface(
                [
                    P("x", "buffer", at=(0, 0)),
                    *(P(n, "scalar", at=(0, 8 * i)) for i, n in enumerate("ab")),
                ],
                [B("push", 16)],
            ),
            ["handle", "int32", "float32"],
        ),
        (
            "vulkan",
            Interface([P("x", "buffer", at=(0, 0)), P("n", "scalar", at=(0, 0))], [B((0, 1), 8)]),
            ["handle", "int32"],
        ),
    ],
)
def test_an_interface_equal_to_tvms_rules_is_omitted(
    kind: str, interface: devmod.Interface, types: list[str]
) -> None:
    with_interface, without = module_of(kind, interface, types), module_of(kind, None, types)
    assert tvm.dump_module_bytes(with_interface) == tvm.dump_module_bytes(without)
    assert with_interface.save_to_bytes() != without.save_to_bytes()


def test_a_webgpu_interface_of_tvm() -> None:
    tags = ["blockIdx.x", "paramWriteAccess:[0,1]"]
    params = [
        P("x", "buffer", at=(0, 0)),
        P("y", "buffer", at=(0, 1)),
        P("n", "scalar", at=(0, 0)),
        P("m", "scalar", at=(0, 4)),
    ]
    made = module_of(
        "webgpu", Interface(params, [B((0, 2), 12)]), ["handle", "handle", "int32", "float32"], tags
    )
    assert tvm.load_module_bytes("webgpu", tvm.dump_module_bytes(made)).functions[
        "f"
    ].launch_param_tags == tuple(tags)


EXPECTED_TAGS = (
    "expected blockIdx, threadIdx, clusterCtaIdx, preferredClusterCtaIdx with .x, .y or .z, or one of tirx.use_cooperative_launch, "
    "tirx.use_dyn_shared_memory, tirx.use_programtic_dependent_launch, tirx.use_required_block_dimension, paramWriteAccess:[…]"
)


@pytest.mark.parametrize(
    ("kind", "interface", "types", "tags", "said"),
    [
        (
            "cuda",
            None,
            ["handle"],
            ["gridIdx.x"],
            f"its launch tag 'gridIdx.x' is unknown; {EXPECTED_TAGS}",
        ),
        (
            "cuda",
            None,
            ["handle"],
            ["paramWriteAccess:[1]"],
            "its launch tag 'paramWriteAccess:[1]' is one of webgpu modules",
        ),
        (
            "cuda",
            None,
            [],
            ["tirx.use_dyn_shared_memory", "blockIdx.x"],
            "its launch tag 'tirx.use_dyn_shared_memory' is not the last",
        ),
        (
            "opencl",
            None,
            ["handle", "float16"],
            [],
            "its argument 1 is a float16; TVM passes buffers and int64, int32, uint32, float64, float32",
        ),
        (
            "opencl",
            Interface([P("s", "scalar", "uint8x12", align=4)]),
            ["uint8x12"],
            [],
            "its argument 0 is a uint8x12; TVM passes buffers and int64, int32, uint32, float64, float32",
        ),
        (
            "metal",
            None,
            ["int32", "handle"],
            [],
            "its argument 1 is a buffer after the scalar argument 0; TVM expects buffers first in a metal function",
        ),
        (
            "opencl",
            Interface([P("t", "local")]),
            ["handle"],
            [],
            "its argument 't' is of the kind local; TVM supports buffers and scalars",
        ),
        (
            "opencl",
            Interface([P("i", "image")]),
            ["handle"],
            [],
            "its argument 'i' is of the kind image; TVM supports buffers and scalars",
        ),
        (
            "cuda",
            Interface([P("x", "buffer", pack=("ptr:handle", "count:int64"))]),
            ["handle", "int64"],
            [],
            "its argument 'x' is several values of the kernel; TVM passes the address of an array alone",
        ),
        (
            "cuda",
            Interface([P("x", "buffer", at=3)]),
            ["handle"],
            [],
            "its argument 'x' has the place 3; TVM supports arguments in order alone",
        ),
        (
            "hexagon",
            Interface([P("x", "buffer")]),
            ["handle"],
            [],
            "it takes its arguments like a C function, and TVM uses its packed calling convention",
        ),
        (
            "metal",
            Interface([P("x", "buffer", at=1)]),
            ["handle"],
            [],
            "its buffer 'x' is at 1; TVM binds it at 0",
        ),
        (
            "vulkan",
            Interface([P("x", "buffer", at=(1, 0))]),
            ["handle"],
            [],
            "its buffer 'x' is at (1, 0); TVM binds it at 0",
        ),
        (
            "vulkan",
            Interface([P("n", "scalar", at=(0, 0)), P("m", "scalar", at=(0, 4))], [B("push", 8)]),
            ["int32", "int32"],
            [],
            "its scalar 'm' is at (0, 4); TVM writes it to byte 8 of the only block",
        ),
        (
            "vulkan",
            Interface([P("n", "scalar", at=(0, 0))], [B((0, 3), 8)]),
            ["int32"],
            [],
            "its scalars are not at the place to which TVM writes them, push or (0, 0)",
        ),
        (
            "metal",
            Interface([P("n", "scalar", at=(0, 0))], [B(1, 8)]),
            ["int32"],
            [],
            "its scalars are not at the place to which TVM writes them, 0",
        ),
        (
            "webgpu",
            Interface([P("x", "buffer", at=(0, 0))]),
            ["handle"],
            [],
            "it has no launch tag paramWriteAccess for its 1 buffers",
        ),
        (
            "webgpu",
            Interface([P("n", "scalar", at=(0, 8))], [B((0, 0), 12)]),
            ["int32"],
            ["paramWriteAccess:[]"],
            "its scalar 'n' is at (0, 8); TVM writes it to byte 0 of the only block",
        ),
    ],
)
def test_a_function_that_tvm_cannot_call_is_refused(
    kind: str, interface: Any, types: list[str], tags: list[str], said: str
) -> None:
    made = module_of(kind, interface, types, tags)
    for dump in (tvm.dump_module_bytes, tvm.dump_imports):
        error = raised(devmod.FormatError, dump, made)
        assert str(error) == f"TVM cannot call the {kind} function 'f': {said}"
        assert (error.kind, error.function) == (kind, "f")


# -- bad input


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (
            "opencl",
            u64(2**63),
            "fmt: expected 9223372036854775808 bytes, and 0 are left, at byte 8",
        ),
        (
            "opencl",
            text("cl") + u64(2**60),
            "fmap: a count of 1152921504606846976, and 0 bytes are left, at byte 10",
        ),
        ("const_loader", u64(2) + text("a") * 2, "names: the key 'a' is repeated, at byte 17"),
    ],
)
def test_the_errors_of_invalid_module_bytes_have_the_place(
    kind: str, data: bytes, said: str
) -> None:
    assert (
        refusal(devmod.FormatError, tvm.load_module_bytes, kind, data)
        == f"TVM's bytes of the {kind} module: {said}"
    )


MAGIC = 0xDD5E40F096B4A13F


def constants(
    device: int = 1,
    ndim: int = 1,
    dtype: bytes = b"\x02\x20\x01\x00",
    shape: tuple[int, ...] = (1,),
    size: int = 4,
) -> bytes:
    tensor = (
        u64(MAGIC, 0)
        + struct.pack("<iii", device, 0, ndim)
        + dtype
        + struct.pack(f"<{len(shape)}q", *shape)
        + u64(size)
        + b"0000"
    )
    return u64(1) + text("a") + u64(1) + tensor + u64(1) + text("i") + u64(1) + u64(1) + text("a")


def test_constants_made_by_hand_are_read() -> None:
    module = tvm.load_module_bytes("const_loader", constants())
    assert tvm.dump_module_bytes(module) == constants()
    assert tvm.dump_module_bytes(devmod.loads(devmod.dumps(module))) == constants()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ndim": 2**31 - 1}, "2147483647 dimensions, expected 0 to 64"),
        ({"size": 2**62}, "4611686018427387904 bytes for float32 of shape (1,), which takes 4"),
    ],
)
def test_the_errors_of_invalid_constants(changes: dict[str, Any], said: str) -> None:
    assert (
        refusal(devmod.FormatError, tvm.load_module_bytes, "const_loader", constants(**changes))
        == f"TVM's bytes of the const_loader module: constant 'a': {said}, at byte 25"
    )


LIB = text("_lib")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (blob([0], []), "children: there is no module, at byte 8"),
        (
            blob([0, 1], [], LIB),
            "children: the row pointers do not rise from 0 to the number of children, at byte 8",
        ),
        (
            blob([1, 1], [0], LIB),
            "children: the row pointers do not rise from 0 to the number of children, at byte 8",
        ),
        (blob([0, 0], [], LIB, b"!"), "1 more bytes follow the last field, at byte 52"),
        (blob([0, 1, 1], [1], LIB), "module 1: expected 8 bytes, and 0 are left, at byte 68"),
    ],
)
def test_the_errors_of_an_invalid_imports_blob_have_the_place(data: bytes, said: str) -> None:
    assert refusal(devmod.FormatError, tvm.load_imports, data) == f"the imports blob: {said}"


@pytest.mark.parametrize(("rows", "children"), [([0, 1, 2, 3], [1, 2, 1])])
def test_a_cycle_is_refused(rows: list[int], children: list[int]) -> None:
    assert (
        refusal(
            devmod.FormatError, tvm.load_imports, blob(rows, children, *[LIB] * (len(rows) - 1))
        )
        == "the _lib module imports itself, directly or through others: a file is a tree"
    )


def test_a_very_deep_tree_is_read_without_recursion() -> None:
    depth = 20_000
    data = blob([*range(depth), depth - 1], list(range(1, depth)), *[LIB] * depth)
    root = tvm.load_imports(data)
    assert tvm.dump_imports(root) == data
    with pytest.raises(devmod.FunctionNotFoundError):
        root.get_function("f", query_imports=True)
    assert (
        refusal(devmod.FormatError, devmod.dumps, root)
        == "the index of the bundle to be saved: module 64 is more than 64 imports deep"
    )


@pytest.mark.parametrize("kind", ["llvm", "relax.VMExecutable", "", "x" * 200, "no\nkind"])
def test_load_module_bytes_refuses_an_unknown_kind(kind: str) -> None:
    text = refusal(devmod.FormatError, tvm.load_module_bytes, kind, b"")
    shown = repr(kind) if len(kind) < 100 else f"'{'x' * 100}'… (200 characters)"
    assert text == f"a module of the kind {shown} is not supported"


@pytest.mark.parametrize(
    "load", [tvm.load_imports, lambda data: tvm.load_module_bytes("cuda", data)]
)
def test_an_object_without_a_buffer_is_an_argument_error(load: Callable[[Any], Any]) -> None:
    with pytest.raises(
        devmod.ArgumentError,
        match=r"^load_\w+\((kind, )?data\): data is bytes or another buffer, not str(\. load_library\(path\) takes a path)?$",
    ):
        load("text")


# -- libraries


def test_the_functions_need_devmod_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name="devmod_readers")

    monkeypatch.setattr("importlib.import_module", missing)
    (tmp_path / "k.so").write_bytes(b"\x7fELF")
    module = devmod.create_with_fallback(
        "cuda", b"// ptx", "ptx", {"k": devmod.FunctionInfo("k", ())}
    )
    calls: list[Callable[[], object]] = [
        lambda: tvm.load_library(tmp_path / "k.so"),
        lambda: tvm.load_imports((VECTORS / "matmul.cuda.tvmimports").read_bytes()),
        lambda: tvm.dump_module_bytes(module),
    ]
    for call in calls:
        assert refusal(devmod.ToolchainNotFoundError, call) == (
            "devmod.interop.tvm cannot be used here: devmod-readers is not installed. To add it: pip install devmod-readers"
        )


def test_files_that_are_not_tvms_libraries(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tvm.load_library(tmp_path / "missing.so")
    with pytest.raises(IsADirectoryError):
        tvm.load_library(tmp_path)
    path = tmp_path / "k.so"
    for data in (b"", b"MZ" + bytes(100)):
        path.write_bytes(data)
        assert (
            refusal(devmod.FormatError, tvm.load_library, path)
            == f"{str(path)!r} is not an ELF shared library: it does not begin with the ELF magic bytes"
        )
    library = (VECTORS / "vadd.opencl.so").read_bytes()
    path.write_bytes(library.replace(b"__tvm_ffi__library_bin\0", b"__tvm_ffi__library_bim\0"))
    assert refusal(devmod.FormatError, tvm.load_library, path) == (
        f"{str(path)!r} has no symbol '__tvm_ffi__library_bin': TVM did not export it, or it has no device modules"
    )


def test_a_library_cut_short_or_damaged_is_a_format_error(tmp_path: Path) -> None:
    library = (VECTORS / "vadd.opencl.so").read_bytes()
    path = tmp_path / "k.so"
    good = tvm.dump_imports(tvm.load_library(VECTORS / "vadd.opencl.so"))
    outcomes, said = set(), []
    for size in (*range(4, 64, 7), *range(64, len(library), 997)):
        path.write_bytes(library[:size])
        with pytest.raises(devmod.FormatError):
            tvm.load_library(path)
    for at in (*range(4, 64), *range(64, len(library), 61)):
        damaged = bytearray(library)
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        try:
            outcomes.add(tvm.dump_imports(tvm.load_library(path)) == good)
        except devmod.FormatError as error:
            said.append(str(error))
    assert True in outcomes
    assert said
    assert all(each.startswith(repr(str(path))) for each in said)
