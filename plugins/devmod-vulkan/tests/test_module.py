"""The Vulkan module: use without a driver, and parsing, building, caching and refusing of
shaders.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backend_checks import run_in_threads
from each_case import check_texts, refusal
from vulkan_kernels import ADD, SLOW, TWICE, adder, compiled, fresh, packed, shader, words

import devmod
from devmod import Block, FunctionInfo, Interface, Param

MAGIC = (0x07230203).to_bytes(4, "little")
START = "the SPIR-V of the vulkan function 'k' "
DAMAGED = (
    "the shader of the vulkan function 'k' is damaged: expected a flag of 4 bytes, a number of words in 8 bytes and that many words of "
    "4 bytes, got the number "
)


def python(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


#: Prints the device's name with a loader that refuses the extension for portability drivers.
OLD_LOADER = """
import devmod
from devmod_vulkan import _driver

class Lib:
    def vkCreateInstance(self, info, *others):
        return _driver.vk.VK_ERROR_EXTENSION_NOT_PRESENT if info.enabledExtensionCount else lib.vkCreateInstance(info, *others)

    def __getattr__(self, name):
        return getattr(lib, name)

lib, _driver.lib = _driver.lib, Lib()
print(devmod.device("vulkan").name)
"""


def test_a_loader_without_the_extension_for_portability(device: Any) -> None:
    assert python(OLD_LOADER) == f"{device.name}\n"


def add_info(name: str = "main", **changes: Any) -> FunctionInfo:
    """Return the FunctionInfo that the compiler finds for `add`, written by hand."""
    params = [
        Param(each, "buffer", "float32", access, (0, number))
        for number, (each, access) in enumerate(zip("abc", "rrw", strict=True))
    ]
    arguments = {"blocks": [Block("push", 4)], "block": (64, 1, 1), **changes}
    return FunctionInfo(
        name,
        ["handle"] * 3 + ["int32"],
        (),
        (),
        Interface([*params, Param("n", "scalar", "int32", at=(0, 0))], **arguments),
    )


def create(value: bytes, info: FunctionInfo | None = None) -> devmod.Module:
    return devmod.create("vulkan", {"k": value}, "spv", {"k": info or add_info()})


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if the driver is opened."""
    monkeypatch.setitem(sys.modules, "devmod_vulkan._driver", None)
    for name in (
        "_device",
        "_launch",
        "_pipeline",
        "_record",
        "_physical",
        "_logical",
        "_memory",
        "_copy",
        "_stream",
        "_wait",
    ):
        monkeypatch.delitem(sys.modules, f"devmod_vulkan.{name}", raising=False)


# -- before any driver


def run_add(function: Any, n: int = 64) -> None:
    a, b, c = np.arange(n, dtype="float32"), np.ones(n, "float32"), np.zeros(n, "float32")
    function(a, b, c, n, grid=-(-n // 64))
    np.testing.assert_array_equal(c, a + b)


# -- invalid shaders


@pytest.mark.row("R15", "R40")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            b"",
            DAMAGED + "0 and 0 bytes in all",
        ),
        (
            packed(MAGIC * 5)[:-1],
            DAMAGED + "5 and 31 bytes in all",
        ),
        (
            bytes(4) + (2**63).to_bytes(8, "little"),
            DAMAGED + f"{2**63} and 12 bytes in all",
        ),
        (packed(b""), START + "begins with 0x00000000; expected SPIR-V's magic number 0x07230203"),
        (packed(MAGIC), START + "is truncated: it has 4 bytes; expected at least 20"),
        (
            packed(MAGIC[::-1] * 5),
            START + "is big-endian; expected little-endian words. Swap the bytes of each word",
        ),
        (
            packed(MAGIC + bytes([0, 9, 1, 0]) + bytes(12)),
            START + "has version 1.9; this devmod supports versions up to 1.6",
        ),
        (packed(MAGIC + bytes([0, 3, 1, 0]) + bytes(12)), START + "has no entry point"),
        (
            packed(MAGIC + bytes([0, 3, 1, 0]) + bytes(12) + (9 << 16 | 17).to_bytes(4, "little")),
            START
            + "is truncated or damaged: the instruction at word 5 has a length of 9 words, but only 1 words remain",
        ),
    ],
)
def test_invalid_payloads_are_refused_before_any_driver_is_opened(
    value: bytes, text: str, no_driver: None
) -> None:
    module = create(value)
    # Wrapping refuses nothing.
    assert devmod.load_from_bytes("vulkan", module.save_to_bytes()).format == "spv"
    assert refusal(devmod.FormatError, module.get_function, "k") == text


def test_truncated_shaders_are_refused_before_any_driver_is_opened(no_driver: None) -> None:
    whole = words(ADD)
    for end in range(0, len(whole), 4):
        with pytest.raises(devmod.FormatError):
            create(packed(whole[:end]))["k"]


def test_damaged_shaders_raise_only_devmod_errors(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shader with one changed word raises a DevmodError, or is read as another valid shader. The
    driver is not called.
    """
    from devmod_vulkan import _pipeline

    monkeypatch.setattr(
        _pipeline,
        "Pipeline",
        lambda *_: (_ for _ in ()).throw(devmod.CompileError("the driver's turn")),
    )
    whole = np.frombuffer(words(ADD), "uint32")
    rng = np.random.default_rng(4)
    for _ in range(400):
        changed = whole.copy()
        changed[rng.integers(len(whole))] = rng.choice(
            [0, 1, 7, 2**16, 2**31, 2**32 - 1, rng.integers(2**32)]
        )
        with pytest.raises(devmod.DevmodError):
            create(packed(changed.tobytes()))["k"]


@pytest.mark.row("R12")
@pytest.mark.parametrize(
    ("info", "text"),
    [
        (
            add_info("other"),
            START
            + "has no compute entry point 'other', which the payload's fmap names; it has: 'main'",
        ),
        (
            add_info(block=(32, 1, 1)),
            START
            + "is built for blocks of (64, 1, 1) threads, but the payload's fmap gives (32, 1, 1)",
        ),
        (
            add_info(blocks=[Block((0, 3), 4)]),
            START + "has 4 bytes of push constants, but the payload's fmap gives 0",
        ),
        (
            FunctionInfo("main", ["handle", "handle", "int32"]),
            START
            + "has a buffer at (set 0, binding 2), 'c', but the payload's fmap has nothing there",
        ),
        (
            FunctionInfo("main", ["handle"] * 3),
            START + "has 4 bytes of push constants, but the payload's fmap gives 0",
        ),
    ],
)
def test_a_payload_whose_fmap_differs_from_its_shader(
    info: FunctionInfo, text: str, no_driver: None
) -> None:
    assert refusal(devmod.FormatError, create(shader(ADD), info).get_function, "k") == text


def add_info_with(*others: Param, blocks: Any = None) -> FunctionInfo:
    """Return `add_info()` with other arguments after its buffers, and other blocks."""
    info = add_info()
    assert info.interface is not None
    params = [*info.interface.params[:3], *others]
    types = [each.type if each.kind == "scalar" else "handle" for each in params]
    return FunctionInfo(
        "main", types, (), (), Interface(params, blocks or info.interface.blocks, (64, 1, 1))
    )


def test_an_interface_that_would_lose_a_value(no_driver: None) -> None:
    check_texts(
        {
            "places argument 4 at (1, 0), outside of its 1 blocks": add_info_with(
                Param("n", "scalar", "int32", at=(1, 0))
            ),
            "places argument 4 at 0, outside of its 1 blocks": add_info_with(
                Param("n", "scalar", "int32", at=0)
            ),
            "places argument 4 at byte 4 of a block of 4 bytes": add_info_with(
                Param("n", "scalar", "int32", at=(0, 4))
            ),
            "has two blocks of push constants": add_info_with(
                Param("n", "scalar", "int32", at=(0, 0)), blocks=[Block("push", 4)] * 2
            ),
            "has a block of no bytes at (0, 7)": add_info_with(
                Param("n", "scalar", "int32", at=(0, 0)),
                blocks=[Block("push", 4), Block((0, 7), 0)],
            ),
            "gives the uniform argument 4 the type 'float32x4', expected uint8xN": add_info_with(
                Param("u", "uniform", "float32x4", at=(0, 7)),
                Param("n", "scalar", "int32", at=(0, 0)),
            ),
        },
        lambda info: refusal(devmod.FormatError, create(shader(ADD), info).get_function, "k"),
        start="the interface of the vulkan function 'k' ",
    )


N = Param("n", "scalar", "int32", at=(0, 0))


@pytest.mark.parametrize(
    ("limit", "info", "usage"),
    [
        (
            "maxUniformBufferRange",
            lambda most: add_info_with(N, blocks=[Block("push", 4), Block((0, 7), most + 16)]),
            lambda most: f"uses a uniform block of {most + 16} bytes",
        ),
        (
            "maxBoundDescriptorSets",
            lambda most: add_info_with(Param("d", "buffer", at=(most, 0)), N),
            lambda most: f"uses {most + 1}",
        ),
        (
            "maxPerStageDescriptorStorageBuffers",
            lambda most: add_info_with(
                *(Param("d", "buffer", at=(0, 3 + each)) for each in range(most)), N
            ),
            lambda most: f"uses {most + 3}",
        ),
        (
            "maxPerStageDescriptorUniformBuffers",
            lambda most: add_info_with(
                *(Param("u", "uniform", "uint8x16", at=(0, 3 + each)) for each in range(most + 1)),
                N,
            ),
            lambda most: f"uses {most + 1}",
        ),
    ],
)
def test_bindings_beyond_a_limit(
    limit: str, info: Any, usage: Any, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that no test can exceed, such as 1,000,000 bindings, is lowered."""
    most = min(device.limits[limit], 64)
    monkeypatch.setitem(device.limits, limit, most)
    assert (
        refusal(devmod.DeviceNotFoundError, create(shader(ADD), info(most)).get_function, "k")
        == f"the vulkan function 'k' cannot run on {device}: its {limit} is {most}, but the kernel {usage(most)}"
    )


@pytest.mark.parametrize("dtype", ["int32x4", "complex128"])
def test_without_an_interface_scalars_are_single_numbers(dtype: str, no_driver: None) -> None:
    assert refusal(
        devmod.FormatError,
        create(shader(ADD), FunctionInfo("main", ["handle"] * 3 + [dtype])).get_function,
        "k",
    ) == (
        f"the payload of the vulkan function 'k' gives no place for argument 4 of type {dtype}. Without a place, expected a single number "
        "of at most 8 bytes; compile the function with an interface"
    )


SIZED = """
#version 450
layout(local_size_x_id = 1, local_size_y_id = 2) in;
layout(constant_id = 5) const int TIMES = 2;
layout(binding = 0) buffer X { float x[]; };
void main() { x[gl_GlobalInvocationID.x] *= TIMES; }
""".strip()


@pytest.mark.parametrize(
    ("constants", "block_constants", "given", "text"),
    [
        (
            [{"name": "T", "id": 5, "type": "int64"}],
            None,
            {"T": 1},
            "has the constant 5 of type int32, but the payload's fmap gives int64",
        ),
        (
            [{"name": "T", "type": "int32"}],
            None,
            {"T": 1},
            "identifies its constants by number, but the payload's fmap gives no number for 'T'",
        ),
        ([{"name": "X", "id": 1, "type": "uint32"}], None, {"X": 32}, ""),
        (
            [{"name": "X", "id": 1, "type": "uint32"}, {"name": "Y", "id": 2, "type": "uint32"}],
            [1, 0, -1],
            {"X": 32},
            "",
        ),
        ([{"name": "X", "id": 1, "type": "uint32"}], [0, -1, -1], {"X": 32}, ""),
        ([{"name": "T", "id": 5, "type": "int32"}], [-1, -1, -1], {"T": 3}, ""),
        (
            [{"name": "T", "id": 99, "type": "int64"}],
            None,
            {"T": 3},
            "",
        ),  # a missing constant is ignored
    ],
)
def test_constants_that_differ_from_those_of_the_shader(
    constants: Any, block_constants: Any, given: Any, text: str, device: Any
) -> None:
    extra = {"constants": constants} | (
        {"block_constants": block_constants} if block_constants else {}
    )
    info = FunctionInfo(
        "main",
        ["handle"],
        (),
        (),
        Interface([Param("x", "buffer", "float32", "rw", (0, 0))], (), (1, 1, 1), extra),
    )
    f = create(shader(SIZED), info)["k"]
    if not text:
        x = np.ones(32, "float32")
        f = f.specialize(**given)
        assert f.block == (given.get("X", 1), 1, 1)  # from the shader
        f(x, grid=1)
        assert x[0] == given.get("T" if constants[0]["id"] == 5 else "", 2)
        return
    assert refusal(devmod.FormatError, f.specialize, **given) == START + text


def test_a_block_from_constants_is_compared_with_the_shader(no_driver: None) -> None:
    assert (
        refusal(
            devmod.FormatError,
            create(
                shader(SIZED),
                FunctionInfo(
                    "main",
                    ["handle"],
                    (),
                    (),
                    Interface([Param("x", "buffer", at=(0, 0))], (), (64, 1, 1)),
                ),
            ).get_function,
            "k",
        )
        == START
        + "is built for blocks of (1, 1, 1) threads, but the payload's fmap gives (64, 1, 1)"
    )


def test_the_size_of_nested_structs_is_computed_in_linear_time(device: Any) -> None:
    """Fifteen nested structs with a thousand members each: visiting every member would take
    forever.
    """
    whole = np.frombuffer(words(TWICE), "<u4").tolist()
    starts = [5]
    while starts[-1] < len(whole):
        starts.append(starts[-1] + (whole[starts[-1]] >> 16))
    function = next(at for at in starts if whole[at] & 0xFFFF == 54)
    label = next(at for at in starts if whole[at] & 0xFFFF == 248)
    inner = next(whole[at + 1] for at in starts if whole[at] & 0xFFFF == 22)
    new, types = whole[3], []
    for _ in range(15):
        types += [1002 << 16 | 30, new, *[inner] * 1000]
        inner, new = new, new + 1
    types += [4 << 16 | 32, new, 4, inner, 4 << 16 | 59, new, new + 1, 4]
    load = [4 << 16 | 61, inner, new + 2, new + 1]
    made_ = [
        *whole[:3],
        new + 3,
        *whole[4:function],
        *types,
        *whole[function : label + 2],
        *load,
        *whole[label + 2 :],
    ]
    with pytest.raises(
        devmod.DeviceNotFoundError,
        match=rf"its maxComputeSharedMemorySize is \d+, but the kernel uses {1 << 53} bytes of shared memory",
    ):
        create(packed(np.array(made_, "<u4").tobytes()), FunctionInfo("main", ["handle"]))["k"]


def test_a_uniform_that_is_too_small(no_driver: None) -> None:
    source = """
        #version 450
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer X { float x[]; };
        layout(binding = 1) uniform U { int n; float a; };
        void main() { x[n] = a; }
    """
    params = [Param("x", "buffer", at=(0, 0)), Param("n", "scalar", "int32", at=(0, 0))]
    info = FunctionInfo("main", ["handle", "int32"], (), (), Interface(params, [Block((0, 1), 4)]))
    assert (
        refusal(devmod.FormatError, create(shader(source), info).get_function, "k")
        == START
        + "has a uniform of 8 bytes at (set 0, binding 1), 'U', but the payload's fmap gives 4"
    )


def test_a_uniform_where_a_buffer_is(no_driver: None) -> None:
    params = [
        Param("a", "buffer", at=(0, 0)),
        Param("b", "buffer", at=(0, 2)),
        Param("n", "scalar", "int32", at=(1, 0)),
    ]
    info = FunctionInfo(
        "main",
        ["handle", "handle", "int32"],
        (),
        (),
        Interface(params, [Block((0, 1), 4), Block("push", 4)], (64, 1, 1)),
    )
    assert (
        refusal(devmod.FormatError, create(shader(ADD), info).get_function, "k")
        == START
        + "has a buffer at (set 0, binding 1), 'b', but the payload's fmap has uniform there"
    )


def test_two_arguments_at_one_place(device: Any) -> None:
    info = add_info()
    assert info.interface is not None
    params = [
        *info.interface.params[:3],
        Param("d", "buffer", "float32", "r", (0, 1)),
        info.interface.params[3],
    ]
    twice = FunctionInfo(
        "main",
        ["handle"] * 4 + ["int32"],
        (),
        (),
        Interface(params, [Block("push", 4)], (64, 1, 1)),
    )
    assert (
        refusal(devmod.FormatError, create(shader(ADD), twice).get_function, "k")
        == "the interface of the vulkan function 'k' places an argument at (0, 1), which another argument uses"
    )


def test_a_function_without_a_shader(no_driver: None) -> None:
    module = devmod.create("vulkan", {"j": shader(ADD)}, "spv", {"k": add_info()})
    assert (
        refusal(devmod.FormatError, module.get_function, "k")
        == "the vulkan module has no shader for its function 'k'; it has those of 'j'"
    )


# -- shaders that a device does not support


@pytest.mark.row("R40")
def test_a_capability_that_the_device_lacks(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test removes a feature from the device's properties."""
    source = """
        #version 450
        layout(local_size_x = 1) in;
        layout(binding = 0) buffer X { double x[]; };
        void main() { x[0] *= 2; }
    """
    monkeypatch.setattr(
        device.physical, "features", device.physical.features - {"10.shaderFloat64"}
    )
    assert refusal(devmod.DeviceNotFoundError, fresh(source).get_function, "k") == (
        START
        + f"needs the capability Float64, which {device} does not support (missing feature: shaderFloat64)"
    )


@pytest.mark.row("R40")
def test_an_unknown_capability(device: Any) -> None:
    spirv = words(ADD)
    unknown = (2 << 16 | 17).to_bytes(4, "little") + (4999).to_bytes(4, "little")
    assert refusal(
        devmod.DeviceNotFoundError,
        create(packed(spirv[:20] + unknown + spirv[20:])).get_function,
        "k",
    ) == (
        START
        + f"needs the capability 4999, which {device} does not support (devmod-vulkan does not support it)"
    )


@pytest.mark.row("R40")
def test_a_spirv_version_newer_than_the_device_supports(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test changes the version in the device's properties."""
    monkeypatch.setattr(device.physical, "version", (1, 2))
    assert refusal(
        devmod.DeviceNotFoundError, fresh(ADD, "k", "vulkan -arch=spirv1.6").get_function, "k"
    ) == (
        START
        + f"has version 1.6, but {device} (Vulkan 1.2) supports at most 1.5. Compile it for that version: -t 'vulkan -arch=spirv1.5'"
    )
    run_add(fresh(ADD, "k", "vulkan -arch=spirv1.5")["k"])


# -- building


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, device: Any) -> list[str]:
    """The functions whose pipelines are built, in order."""
    from devmod_vulkan import _pipeline

    seen: list[str] = []
    real = _pipeline.Pipeline

    class Watched(real):  # type: ignore[misc, valid-type]
        def __init__(self, shader: Any, *others: Any) -> None:
            seen.append(shader.name)
            super().__init__(shader, *others)

    monkeypatch.setattr(_pipeline, "Pipeline", Watched)
    return seen


@pytest.mark.row("R30", "R33")
def test_only_requested_functions_are_built_and_once(builds: list[str]) -> None:
    module = adder()
    assert builds == []
    run_add(module["add"])
    module["add"]
    assert builds == ["add"]
    module["add"].specialize(SCALE=2).open()
    module["add"].specialize(SCALE=2).open()
    assert builds == ["add", "add"]
    same = devmod.create(
        "vulkan", {"k": shader(ADD), "l": shader(ADD)}, "spv", {"k": add_info(), "l": add_info()}
    )
    run_add(same["k"])
    run_add(same["l"])
    assert builds == ["add", "add", "k"]


@pytest.mark.row("R32")
def test_a_failed_pipeline_is_a_compile_error(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A double that fails replaces vkCreateComputePipelines."""
    monkeypatch.setitem(vars(device.logical.calls), "vkCreateComputePipelines", lambda *_: -13)
    module = create(shader(ADD))
    assert refusal(devmod.CompileError, module.get_function, "k") == (
        f"{device} cannot build the shader of the vulkan function 'k': vkCreateComputePipelines failed with VK_ERROR_UNKNOWN"
    )
    monkeypatch.undo()
    run_add(module["k"])


def cache_files(folder: Path) -> list[Path]:
    return sorted((folder / "vulkan").iterdir()) if (folder / "vulkan").exists() else []


def test_pipelines_are_cached_on_disk_and_damaged_files_are_ignored(
    device: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from devmod_vulkan import _pipeline

    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path))
    given: list[bytes] = []
    real = _pipeline.Pipeline._cache

    def cache(self: Any, key: Any) -> tuple[Any, bytes]:
        result = real(self, key)
        given.append(result[1])
        return result

    monkeypatch.setattr(_pipeline.Pipeline, "_cache", cache)
    run_add(fresh(ADD, "add")["add"])
    (entry,) = cache_files(tmp_path)
    assert entry.stat().st_mode & 0o077 == 0
    whole = entry.read_bytes()
    run_add(fresh(ADD, "add")["add"])
    assert given[0] == b""
    assert given[1][:32] == device.physical.cache_header
    assert whole.endswith(given[1])
    for damaged in (
        b"",
        whole[:40],
        whole[:-1],
        whole[:60] + bytes([whole[60] ^ 1]) + whole[61:],
        whole + b"x",
    ):
        entry.write_bytes(damaged)
        run_add(fresh(ADD, "add")["add"])
        assert given[-1] == b""
        assert entry.read_bytes()[:46] == whole[:46]
    # Other users can write to the folder: the file is ignored.
    entry.parent.chmod(0o770)
    run_add(fresh(ADD, "add")["add"])
    assert given[-1] == b""
    entry.parent.chmod(0o700)
    run_add(fresh(ADD, "add")["add"])
    assert given[-1] != b""
    # An intact file of another device is ignored.
    header = device.physical.cache_header
    monkeypatch.setattr(device.physical, "cache_header", header[:8] + bytes(8) + header[16:])
    run_add(fresh(ADD, "add")["add"])
    assert given[-1] == b""
    assert [each.name for each in cache_files(tmp_path)] == [entry.name]


def test_processes_use_the_cache_concurrently(device: Any, tmp_path: Path) -> None:
    program = f"""
import numpy as np, devmod
code = bytes.fromhex({shader(TWICE).hex()!r})
for _ in range(10):
    x = np.ones(4, "float32")
    devmod.create("vulkan", {{"k": code}}, "spv", {{"k": devmod.FunctionInfo("main", ["handle"])}})["k"](x, grid=1)
    assert x.tolist() == [2] * 4
    import shutil
    shutil.rmtree({str(tmp_path / "vulkan")!r}, ignore_errors=True)
"""
    environment = {**os.environ, "DEVMOD_CACHE_DIR": str(tmp_path), "DEVMOD_VULKAN_VALIDATE": ""}
    running = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [each.communicate(timeout=600)[1] for each in running] == [b""] * 2
    assert [each.returncode for each in running] == [0] * 2


def test_without_a_cache_folder_the_shader_is_built(
    device: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("DEVMOD_CACHE_DIR", str(tmp_path / "file"))
    run_add(fresh(ADD, "add")["add"])


# -- memory


def test_arrays_are_pieces_of_blocks(device: Any) -> None:
    """Four threads create and delete arrays of all sizes in any order.

    No array overlaps another.
    """

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        alive: list[tuple[int, Any]] = []
        for turn in range(75):
            value = 1000 * seed + turn  # no other array has it
            alive.append(
                (
                    value,
                    device.from_numpy(
                        np.full(rng.choice([1, 3, 64, 1000, 70_000, 2_000_000]), value, "uint32")
                    ),
                )
            )
            while len(alive) > rng.integers(1, 12):
                wanted, array = alive.pop(rng.integers(len(alive)))
                assert (array.numpy() == wanted).all()

    before = pieces(device)
    assert run_in_threads(work, range(4)) == [None] * 4
    device.synchronize()
    device.empty(1, "uint8")  # an allocation first frees the pieces of collected arrays
    assert pieces(device) == before
    assert len(device.logical.local.blocks) <= 2 + before


def pieces(device: Any) -> int:
    """Return the bytes in use in all blocks, in units of the alignment."""
    import gc

    gc.collect()
    device.empty(1, "uint8")
    taken = sum(
        block.size - sum(size for _, size in block.free) for block in device.logical.local.blocks
    )
    return int(taken // device.physical.alignment)


def test_one_empty_block_is_reused_and_large_blocks_are_freed(device: Any) -> None:
    from devmod_vulkan._logical import Heap

    heap = Heap(device.logical, device.logical.local._kind, mapped=False)
    first = heap.allocate(1000)
    (block,) = heap.blocks
    del first
    for _ in range(3):
        heap.allocate(1000)  # collected at once
    assert heap.blocks == [block]
    large = heap.allocate(block.size)
    larger = heap.allocate(block.size + 1)
    assert [each.size for each in heap.blocks][1:] == [larger._block.size]
    del larger, large
    heap.allocate(1000)  # an allocation first frees the pieces of collected arrays
    assert heap.blocks == [block]
    heap.close()


def test_free_pieces_merge_with_their_neighbours() -> None:
    from devmod_vulkan._memory import Block, Memory

    block, ended = Block(1024), []
    pieces: list[Memory | None] = [block.take(256, 200, ended.append) for _ in range(4)]
    assert [each.offset for each in pieces if each is not None] == [0, 256, 512, 768]
    assert (block.take(1, 1, ended.append), block.free) == (None, [])
    for number in (1, 3, 2):
        pieces[number] = None
        block.put(ended.pop())
    assert block.free == [(256, 768)]
    pieces[0] = None
    block.put(ended.pop())
    assert (block.empty, block.free) == (True, [(0, 1024)])


def test_the_list_of_free_pieces_is_rebuilt_from_the_leases() -> None:
    from devmod_vulkan._memory import Block, Memory

    block = Block(1024)
    pieces: list[Memory | None] = [block.take(256, 200, [].append) for _ in range(4)]
    pieces[0] = pieces[2] = None  # without a call of `put`
    block.free = [(512, 512)]  # inconsistent, as after an interrupt
    block.rebuild()
    assert block.free == [(0, 256), (512, 256)]


@pytest.mark.parametrize("nbytes", [1, 5, (8 << 20) + 1, 20_000_003])
def test_copies_of_every_size(nbytes: int, device: Any) -> None:
    values: Any = np.resize(np.arange(251, dtype="uint8"), nbytes)
    array = device.from_numpy(values)
    np.testing.assert_array_equal(array.numpy(), values)
    device.write(array.memory, memoryview(values[::-1].copy()), device.default_stream)
    np.testing.assert_array_equal(array.numpy(), values[::-1])


# -- missing drivers


def test_the_error_without_a_device_has_the_install_command(tmp_path: Path) -> None:
    output = python(
        "import devmod\ntry: devmod.device('vulkan')\nexcept devmod.DeviceNotFoundError as error: print(error)",
        VK_ICD_FILENAMES=str(tmp_path / "none.json"),
        VK_DRIVER_FILES=str(tmp_path / "none.json"),
    )
    start, _, end = output.rstrip().partition(": ")
    assert start == "no Vulkan device was found"
    assert end.partition(". ")[2] == (
        "Install the driver of the GPU, or one that runs on the CPU (Debian and Ubuntu: apt install mesa-vulkan-drivers); `vulkaninfo "
        "--summary` lists what the loader sees"
    )


def test_devmod_vulkan_device_selects_the_first_device(device: Any) -> None:
    program = "import devmod\ntry: print(devmod.device('vulkan').name)\nexcept devmod.DeviceNotFoundError as error: print(error)"
    assert (
        python(program, DEVMOD_VULKAN_DEVICE=device.name[:6].upper())
        .strip()
        .startswith(device.name[:6])
    )
    assert python(program, DEVMOD_VULKAN_DEVICE="no such device").startswith(
        "DEVMOD_VULKAN_DEVICE is 'no such device': expected the number"
    )


def test_gpus_come_before_cpus(device: Any) -> None:
    from devmod_vulkan._device import preferred_first
    from devmod_vulkan._physical import physical_devices

    found = physical_devices()
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    other: Any = type("Other", (), {"name": "Some GPU"})()
    monkey = pytest.MonkeyPatch()
    for value, first in (("", found[0]), ("some gpu", other), ("1", other), ("0", found[0])):
        monkey.setenv("DEVMOD_VULKAN_DEVICE", value)
        listed = preferred_first([found[0], other])
        assert (listed[0], len(listed)) == (first, 2)
    for value in ("97", "99999999999999999999", "no such device"):
        monkey.setenv("DEVMOD_VULKAN_DEVICE", value)
        assert refusal(devmod.DeviceNotFoundError, preferred_first, [found[0], other]) == (
            f"DEVMOD_VULKAN_DEVICE is {value!r}: expected the number of a Vulkan device, or a part of its name. Devices: 0 {found[0].name}; "
            "1 Some GPU"
        )
    monkey.undo()


# -- shutdown and the validation layers

LEAVING = """
import atexit, sys, threading
def after_shutdown():  # registered first, so called last: the device is closed
    messages = []
    for ask in (lambda: f(arrays[0], grid=16), launches[0], launches[0].time, arrays[0].numpy, device.synchronize, device.stream,
                event.synchronize, lambda: event.elapsed(event), streams[0].record, streams[0].synchronize,
                lambda: device.from_numpy(np.ones(4)), lambda: f(np.ones(64, "float32"), grid=1),
                lambda: f.bind(arrays[0], grid=1), lambda: module["l"], image.numpy, lambda: image.copy_from(np.ones((4, 4), "float32")),
                lambda: device.image(4, "r32float"), device.sampler, lambda: device.sampler(filter="linear"),
                lambda: device.image_problem("rg8sint", "r")):
        try: ask(); messages.append("nothing")
        except devmod.LaunchError as error: messages.append(str(error))
    if {*messages} != {f"{device} is closed: the interpreter is shutting down"}: print(messages)
atexit.register(after_shutdown)
import numpy as np, devmod
code = bytes.fromhex(CODE)
info = devmod.FunctionInfo("main", ["handle"])
module = devmod.create("vulkan", {"k": code, "l": code}, "spv", {"k": info, "l": devmod.FunctionInfo("main", ["handle", "int32"])})
f = module["k"]
device = devmod.device("vulkan")
arrays = [device.from_numpy(np.ones(64, "float32")) for _ in range(4)]
streams = [device.stream() for _ in range(3)]
launches = [f.bind(array, grid=16, stream=stream) for array in arrays for stream in streams]
for launch in launches: launch()
f(arrays[0], grid=16)
f.specialize()(arrays[0], grid=16)
event = streams[0].record()
streams[1].wait(event)
image, sampler = device.image((4, 4), "r32float"), device.sampler()
entry = [launches, arrays, event]
entry.append(entry)
class Late:
    def __del__(self): self.entry.clear()
late = Late(); late.entry = entry
def forever():
    while True:
        try: launches[0]()
        except devmod.LaunchError: break
threading.Thread(target=forever, daemon=True).start()
batch = streams[2].batch(); batch.__enter__()
launches[2]()
atexit.register(lambda: f(arrays[0], grid=16))
"""


@pytest.mark.parametrize("validate", ["", pytest.param("1", marks=pytest.mark.volume)])
def test_nothing_needs_to_be_closed_at_interpreter_shutdown(validate: str, device: Any) -> None:
    needs_layers(validate)
    for _ in range(2):
        assert (
            python(
                LEAVING.replace("CODE", repr(shader(TWICE).hex())), DEVMOD_VULKAN_VALIDATE=validate
            )
            == ""
        )


WAITING = """
import threading, time
import devmod
code = bytes.fromhex(CODE)
f = devmod.create("vulkan", {"k": code}, "spv", {"k": devmod.FunctionInfo("main", ["handle", "int32"])})["k"]
device = devmod.device("vulkan")
streams = [device.stream() for _ in range(4)]
queued = threading.Barrier(5)
def wait(stream):
    f(device.zeros(64, "uint32"), 65000, grid=64, stream=stream)
    queued.wait()
    try: stream.synchronize()
    except devmod.LaunchError: pass
for stream in streams: threading.Thread(target=wait, args=(stream,), daemon=True).start()
queued.wait()
time.sleep(0.01)  # most of the threads are in a call of the driver now
"""


@pytest.mark.parametrize("validate", ["", pytest.param("1", marks=pytest.mark.volume)])
def test_a_daemon_thread_may_wait_for_the_device_at_interpreter_shutdown(
    validate: str, device: Any
) -> None:
    needs_layers(validate)
    for _ in range(2):
        assert (
            python(
                WAITING.replace("CODE", repr(shader(SLOW).hex())), DEVMOD_VULKAN_VALIDATE=validate
            )
            == ""
        )


USING = """
import threading
import numpy as np, devmod
code = bytes.fromhex(CODE)
f = devmod.create("vulkan", {"k": code}, "spv", {"k": devmod.FunctionInfo("main", ["handle"])})["k"]
device = devmod.device("vulkan")
started = threading.Semaphore(0)
def use():
    while True:
        f(np.ones(64, "float32"), grid=1)
        array = device.from_numpy(np.ones(64, "float32"))
        f(array, grid=1, stream=device.stream())
        array.numpy()
        started.release()
for _ in range(3): threading.Thread(target=use, daemon=True).start()
for _ in range(30): started.acquire()
"""


def test_the_end_of_a_daemon_thread_at_interpreter_shutdown_is_silent(device: Any) -> None:
    for _ in range(2):
        assert python(USING.replace("CODE", repr(shader(TWICE).hex()))) == ""


@cache
def problem_of_layers() -> str:
    program = "import devmod\ntry: devmod.device('vulkan'); print()\nexcept devmod.DeviceNotFoundError as error: print(error)"
    return python(program, DEVMOD_VULKAN_VALIDATE="1").strip()


def needs_layers(validate: str) -> None:
    if validate and problem_of_layers():
        pytest.skip(problem_of_layers())


@pytest.mark.parametrize(
    ("staging", "names"),
    [
        ("", "order or results_of_its_body"),
        pytest.param(
            "",
            "batch or views or copy or copies or read or written or empty",
            marks=pytest.mark.volume,
        ),
        pytest.param("1", "", marks=pytest.mark.volume),
    ],
)
def test_the_launches_are_clean_under_the_validation_layers(
    staging: str, names: str, device: Any
) -> None:
    """Run test_launch.py, test_arrays.py and test_batches.py again with staged copies, and without
    staging the tests of batches and copies.
    """
    needs_layers("1")
    environment = {
        **os.environ,
        "DEVMOD_VULKAN_VALIDATE": "1",
        "TEST_VULKAN_STAGING": staging,
        "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT",
    }
    tests = [
        str(Path(__file__).with_name(name))
        for name in ("test_launch.py", "test_arrays.py", "test_batches.py")
    ]
    tests += ["-k", names] if names else []
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, timeout=6000
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-3000:]


def test_messages_of_the_layers_are_errors(device: Any) -> None:
    """The test replaces vkCmdDispatch by a call over the limits."""
    needs_layers("1")
    program = f"""
import numpy as np, devmod
f = devmod.create("vulkan", {{"k": bytes.fromhex({shader(TWICE).hex()!r})}}, "spv", {{"k": devmod.FunctionInfo("main", ["handle"])}})["k"]
device = devmod.device("vulkan")
x = device.from_numpy(np.ones(4, "float32"))
calls = device.logical.calls
real = calls.vkCmdDispatch
calls.vkCmdDispatch = lambda handle, *grid: real(handle, 2**31, 1, 1)
try: f(x, grid=1)
except devmod.LaunchError as error: print(error)
calls.vkCmdDispatch = real
f(x, grid=1)
print(x.numpy().tolist())
"""
    first, second = python(program, DEVMOD_VULKAN_VALIDATE="1").strip().rsplit("\n", 1)
    assert first.startswith(f"the Vulkan validation layers report errors in calls to {device}: ")
    assert "vkCmdDispatch" in first
    assert second == "[2.0, 2.0, 2.0, 2.0]"


PRINTING = """
import devmod
source = '''#version 450
#extension GL_EXT_debug_printf : require
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { int x[]; };
void main() { debugPrintfEXT("x[%d] is %d", gl_GlobalInvocationID.x, x[gl_GlobalInvocationID.x]); }
'''
device = devmod.device("vulkan")
for _ in range(8):
    devmod.compile(source, "vulkan", name="k")["k"].on(device)(device.zeros(64, "int32"), grid=1)
    device.synchronize()
"""


def test_the_layers_print_what_a_shader_prints(device: Any) -> None:
    """The command of docs/vulkan.md. The text of each kernel is there although its
    pipeline is destroyed after the wait. A warning of the layers that their buffer of text is full
    is no error of the program.
    """
    needs_layers("1")
    printed = python(
        PRINTING,
        DEVMOD_VULKAN_VALIDATE="1",
        VK_LAYER_ENABLES="VK_VALIDATION_FEATURE_ENABLE_DEBUG_PRINTF_EXT",
        DEBUG_PRINTF_TO_STDOUT="1",
        VK_LAYER_PRINTF_TO_STDOUT="1",
        PYTHONWARNINGS="ignore",
    )
    assert printed.count("x[1] is 0") == 8


def test_validation_without_the_layers(device: Any, tmp_path: Path) -> None:
    output = python(
        "import devmod\ntry: devmod.device('vulkan')\nexcept devmod.DeviceNotFoundError as error: print(error)",
        DEVMOD_VULKAN_VALIDATE="1",
        VK_LAYER_PATH=str(tmp_path),
    )
    assert output.strip() == (
        "DEVMOD_VULKAN_VALIDATE is set, but the Vulkan loader does not have the layer VK_LAYER_KHRONOS_validation. Install it (Debian and Ubuntu: apt "
        "install vulkan-validationlayers), or unset the variable"
    )


def test_the_array_of_an_enumeration_lives_while_its_structures_are_read() -> None:
    import weakref

    from devmod_vulkan._driver import enumerate_all, ffi

    arrays: list[weakref.ref[Any]] = []

    def enumerate_two(count: Any, items: Any) -> int:
        count[0] = 2
        if items != ffi.NULL:
            arrays.append(weakref.ref(items))
            items[0].extensionName, items[1].extensionName = b"first", b"second"
        return 0

    def read(item: Any) -> tuple[bytes, bool]:
        return ffi.string(item.extensionName), arrays[0]() is not None

    assert enumerate_all(enumerate_two, "VkExtensionProperties", read=read) == [
        (b"first", True),
        (b"second", True),
    ]


@pytest.mark.row("R33")
def test_functions_of_one_shader_have_their_own_blocks_and_devices(
    device: Any, builds: list[str]
) -> None:
    from devmod_vulkan._device import VulkanDevice

    code = packed(
        words(
            "#version 450\nlayout(local_size_x = 1) in; layout(push_constant) uniform P { int a; }; layout(binding = 1) uniform U { int b; };"
            "layout(binding = 0) buffer X { int x[]; }; void main() { x[0] = 10 * a + b; }"
        )
    )
    params = [
        Param("x", "buffer", "int32", "rw", (0, 0)),
        *(Param(name, "scalar", "int32", at=(at, 0)) for at, name in enumerate("ab")),
    ]
    blocks = [Block("push", 4), Block((0, 1), 4)]
    infos = {
        name: FunctionInfo(
            "main",
            ["handle", "int32", "int32"],
            (),
            (),
            Interface(params, blocks=each, block=(1, 1, 1)),
        )
        for name, each in (("one", blocks), ("two", blocks[::-1]))
    }
    module = devmod.create("vulkan", dict.fromkeys(infos, code), "spv", infos)
    others = [VulkanDevice(device.physical, 9), device]
    functions = [(each, name, module[name].on(each)) for each in others for name in infos]
    assert builds == ["one", "one", "two", "two"]
    for each, name, function in functions:
        x = each.zeros(1, "int32")
        function(x, 1, 2, grid=1)
        assert x.numpy() == (12 if name == "one" else 21)


@pytest.mark.parametrize("moved", ["scalars", "buffers"])
def test_functions_of_one_shader_have_their_own_places(device: Any, moved: str) -> None:
    """The order of a function's arguments is its interface's. Equal shaders share a pipeline if the
    places are equal too.
    """
    code = packed(
        words(
            "#version 450\nlayout(local_size_x = 1) in; layout(push_constant) uniform P { int a; int unused; int b; };"
            "layout(binding = 0) buffer X { int x[]; }; layout(binding = 1) buffer Y { int y[]; };"
            "void main() { x[0] = 10 * a + b; y[0] = -x[0]; }"
        )
    )

    def info(first: int, second: int, number: int) -> FunctionInfo:
        params = [
            Param(name, "buffer", "int32", "rw", (0, at))
            for name, at in (("x", number), ("y", 1 - number))
        ]
        params += [
            Param(name, "scalar", "int32", at=(0, at)) for name, at in (("a", first), ("b", second))
        ]
        return FunctionInfo(
            "main",
            ["handle", "handle", "int32", "int32"],
            (),
            (),
            Interface(params, blocks=[Block("push", 12)], block=(1, 1, 1)),
        )

    other = info(8, 0, 0) if moved == "scalars" else info(0, 8, 1)
    module = devmod.create(
        "vulkan", {"one": code, "two": code}, "spv", {"one": info(0, 8, 0), "two": other}
    )
    results = {}
    for name in ("one", "two"):
        x, y = device.zeros(1, "int32"), device.zeros(1, "int32")
        module[name](x, y, 1, 2, grid=1)
        results[name] = (int(x.numpy()[0]), int(y.numpy()[0]))
    assert results == {"one": (12, -12), "two": (21, -21) if moved == "scalars" else (-12, 12)}


BFLOAT16 = """#version 450
#extension GL_EXT_bfloat16 : require
layout(local_size_x = 8) in;
layout(binding = 0) readonly buffer X { bfloat16_t x[]; };
layout(binding = 1) buffer Y { float y[]; };
void main() { uint i = gl_GlobalInvocationID.x; y[i] = float(x[i]); }
"""


@pytest.mark.row("R40")
def test_bfloat16_is_a_capability_with_a_name_and_a_feature(device: Any) -> None:
    f = compiled(BFLOAT16, "k")
    if "bfloat16.shaderBFloat16Type" in device.physical.features:
        y = np.zeros(8, "float32")
        f["k"](np.arange(8).astype(pytest.importorskip("ml_dtypes").bfloat16), y, grid=1)
        assert y.tolist() == [*range(8)]
        return
    assert refusal(devmod.DeviceNotFoundError, f.get_function, "k") == (
        START
        + f"needs the capability BFloat16TypeKHR, which {device} does not support (missing feature: shaderBFloat16Type)"
    )


def test_a_device_with_bfloat16(device: Any) -> None:
    """A driver that has the extension. The package `vulkan` lacks its structure, so the test sets
    and reads its words.
    """
    from devmod_vulkan._driver import ffi, instance, vk
    from devmod_vulkan._physical import Physical

    calls = instance().calls

    def words_of(chain: Any) -> Any:
        """Return the structure in the chain as words: sType and pNext, then the features."""
        each = ffi.cast("VkBaseOutStructure *", chain)
        while each.sType != 1000141000:
            each = each.pNext
        return ffi.cast("uint32_t *", each)

    class Newer:
        def __getattr__(self, name: str) -> Any:
            return getattr(calls, name)

        def vkGetPhysicalDeviceFeatures2(self, handle: Any, chain: Any) -> None:
            calls.vkGetPhysicalDeviceFeatures2(handle, chain)
            words_of(chain)[4:7] = [1, 0, 1]

        def vkEnumerateDeviceExtensionProperties(
            self, handle: Any, layer: Any, count: Any, out: Any
        ) -> int:
            code = calls.vkEnumerateDeviceExtensionProperties(handle, layer, count, out)
            if out:
                out[0].extensionName = b"VK_KHR_shader_bfloat16"
            return int(code)

    physical = Physical(device.physical.handle, Newer(), vk.VK_MAKE_VERSION(1, 3, 0))
    assert physical.features & {
        f"bfloat16.shaderBFloat16{name}" for name in ("Type", "DotProduct", "CooperativeMatrix")
    } == {
        "bfloat16.shaderBFloat16Type",
        "bfloat16.shaderBFloat16CooperativeMatrix",
    }
    assert "BFloat16TypeKHR+BFloat16CooperativeMatrixKHR" in physical.arch
    assert "VK_KHR_shader_bfloat16" in physical.needed_extensions
    chain = physical.feature_chain(physical.features)  # with which the device is opened
    assert list(words_of(chain["10"])[4:7]) == [1, 0, 1]
