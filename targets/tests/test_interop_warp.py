"""The folders that Warp writes: a recorded one, changed ones, and a new one with Warp."""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmod
from devmod import Member, Param
from devmod_targets.interop import warp
from devmod_targets.interop.warp import read_kernels

FOLDER = Path(__file__).parent / "vectors/warp"
STEM = "wp_motion_eaab996"


def bounds(count: int) -> Param:
    offset = 8 if count < 3 else 16
    members = [
        Member("shape", "uint32", 0, shape=[count], strides=[4]),
        Member("size", "uint64", offset),
        Member("coord_mult", "uint64", offset + 8),
    ]
    return Param("dim", "scalar", f"uint8x{offset + 16}", align=8, members=members)


def array(name: str) -> Param:
    extents = [
        Member(each, "int32", 16 + 16 * number, shape=[4], strides=[4])
        for number, each in enumerate(("shape", "strides"))
    ]
    counts = [Member("ndim", "uint16", 48), Member("flags", "uint16", 50)]
    members = [Member("data", "uint64", 0), Member("grad", "uint64", 8), *extents, *counts]
    return Param(name, "scalar", "uint8x56", align=8, members=members)


def step(name: str) -> Param:
    members = [
        Member("gravity", "float32", 0, shape=[3], strides=[4]),
        Member("seconds", "float32", 12),
        Member("count", "uint16", 16),
    ]
    return Param(name, "scalar", "uint8x20", align=4, members=members)


def turn(name: str) -> Param:
    return Param(
        name,
        "scalar",
        "uint8x16",
        align=4,
        members=[Member("", "float32", 0, shape=[2, 2], strides=[8, 4])],
    )


def forward(prefix: str = "") -> list[Param]:
    names = [prefix + each for each in ("positions", "speeds", "step", "turn", "scale")]
    return [
        array(names[0]),
        array(names[1]),
        step(names[2]),
        turn(names[3]),
        Param(names[4], "scalar", "float32"),
    ]


@pytest.mark.row("R40")
def test_a_folder_is_a_bundle_of_its_architectures() -> None:
    module = warp.load(FOLDER)
    assert [(each.kind, each.format, list(each.functions)) for each in module.imports] == [
        ("cuda", fmt, ["fill", "move", "move_backward"]) for fmt in ("cubin", "ptx")
    ]
    assert [each.variant for each in devmod.loads(devmod.dumps(module)).imports] == [
        "sm_90",
        "compute_80:ptx9.4",
    ]
    assert module.imports[1].code == (FOLDER / f"{STEM}.sm80.ptx").read_bytes().rstrip(b"\0")
    assert module.imports[0].inspect_source("cuda") == (FOLDER / f"{STEM}.cu").read_text()


def test_the_interfaces_of_kernels() -> None:
    module = warp.load(FOLDER)
    for each in module.imports:
        interfaces = {name: info.interface for name, info in each.functions.items()}
        assert interfaces == {
            "fill": devmod.Interface([bounds(2), array("grid")], default_block=(256, 1, 1)),
            "move": devmod.Interface([bounds(1), *forward()], default_block=(256, 1, 1)),
            "move_backward": devmod.Interface(
                [bounds(1), *forward(), *forward("adj_")], default_block=(256, 1, 1)
            ),
        }
        assert each.functions["move"].name == "move_b33ddeae_cuda_kernel_forward"


def test_the_layouts_are_those_of_ctypes() -> None:
    class Bounds(ctypes.Structure):
        _fields_ = [
            ("shape", ctypes.c_uint32 * 3),
            ("size", ctypes.c_uint64),
            ("coord_mult", ctypes.c_uint64),
        ]

    (kernel,) = read_kernels('extern "C" __global__ void k(\n    wp::launch_bounds_t<3> dim)\n{\n')
    layout = kernel.params[0][1]
    assert layout is not None
    assert (layout.size, layout.align) == (ctypes.sizeof(Bounds), ctypes.alignment(Bounds))
    assert [member.offset for member in layout.members] == [
        getattr(Bounds, name).offset for name in ("shape", "size", "coord_mult")
    ]


def changed(folder: Path, *changes: tuple[str, str, str]) -> Path:
    """Return a copy of the recorded folder in which each change (suffix, old text, new text) was
    made in a file.
    """
    target = folder / "changed"
    shutil.copytree(FOLDER, target)
    for suffix, old, new in changes:
        file = target / f"{STEM}.{suffix}"
        data = file.read_bytes()
        assert old.encode() in data
        file.write_bytes(data.replace(old.encode(), new.encode()))
    return target


def test_shared_memory_fixes_the_block(tmp_path: Path) -> None:
    size = '"fill_0956082d_cuda_kernel_forward_smem_bytes": '
    folder = changed(
        tmp_path,
        ("meta", f"{size}0", f"{size}4096"),
        ("cu", "WP_TILE_BLOCK_DIM 256", "WP_TILE_BLOCK_DIM 64"),
    )
    interface = warp.load(folder).imports[0].functions["fill"].interface
    assert interface is not None
    assert (interface.block, interface.default_block, interface.shared_memory) == (
        (64, 1, 1),
        None,
        4096,
    )


def test_overloads_have_their_digests(tmp_path: Path) -> None:
    changes = [("fill_0956082d", "move_0956082d")]
    folder = changed(
        tmp_path,
        *((suffix, *change) for suffix in ("cu", "sm80.ptx", "sm90.cubin") for change in changes),
    )
    assert list(warp.load(folder).imports[0].functions) == [
        "move_0956082d",
        "move_b33ddeae",
        "move_backward",
    ]


def test_a_type_that_devmod_does_not_read_has_the_size_of_the_binary(tmp_path: Path) -> None:
    folder = changed(
        tmp_path, ("cu", "wp::array_t<wp::int32> var_grid)", "wp::other_t<wp::int32> var_grid)")
    )
    for each in warp.load(folder).imports:
        interface = each.functions["fill"].interface
        assert interface is not None
        assert interface.params[1] == Param("grid", "scalar", "uint8x56", align=8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("cu", "    wp::float32 var_scale)\n", "    wp::float64 var_scale)\n"),
            "'wp_motion_eaab996.sm90.cubin' does not fit its source: the parameter 'scale' of the kernel 'move_b33ddeae_cuda_kernel_forward' has 4 "
            "bytes; expected 8. devmod reads the layout of Warp 1.19",
        ),
        (
            ("cu", ",\n    wp::array_t<wp::int32> var_grid)", ")"),
            "'wp_motion_eaab996.sm90.cubin' does not fit its source: the kernel 'fill_0956082d_cuda_kernel_forward' has 2 parameters; expected 1",
        ),
        (
            ("cu", "fill_0956082d_cuda_kernel_forward(", "paint_0956082d_cuda_kernel_forward("),
            "'wp_motion_eaab996.sm90.cubin' has no kernel 'paint_0956082d_cuda_kernel_forward', which the source has; it has: "
            "'move_b33ddeae_cuda_kernel_backward', 'move_b33ddeae_cuda_kernel_forward', 'fill_0956082d_cuda_kernel_forward'",
        ),
        (
            ("meta", "{", "["),
            "'wp_motion_eaab996.meta' is damaged: it is not JSON (Expecting ',' delimiter: line 1 column 48 (char 47))",
        ),
        (
            ("meta", ": 0", ": -1"),
            "'wp_motion_eaab996.meta' is damaged: expected a map with the sizes of shared memory",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_an_error(
    change: tuple[str, str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(devmod.FormatError) as caught:
        warp.load(changed(tmp_path, change))
    assert str(caught.value) == message


def test_the_choice_of_a_module(tmp_path: Path) -> None:
    with pytest.raises(devmod.FormatError) as caught:
        warp.load(tmp_path)
    assert str(caught.value) == (
        f"the folder {str(tmp_path)!r} has 0 modules of Warp: none; expected files such as k.sm90.cubin"
    )
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    (tmp_path / "wp_other.sm90.cubin").write_bytes(b"")
    with pytest.raises(devmod.FormatError) as caught:
        warp.load(tmp_path)
    assert str(caught.value) == (
        f"the folder {str(tmp_path)!r} has 2 modules of Warp: 'wp_motion_eaab996', 'wp_other'; pass name= to choose one"
    )
    with pytest.raises(devmod.FormatError) as caught:
        warp.load(tmp_path, "wp_third")
    assert str(caught.value) == (
        f"the folder {str(tmp_path)!r} has 2 modules of Warp: 'wp_motion_eaab996', 'wp_other'; expected the module 'wp_third'"
    )
    assert warp.load(tmp_path, STEM).kind == "bundle"


class OnDevice:
    def __init__(self, host: np.ndarray[Any, Any]) -> None:
        self.__cuda_array_interface__ = host.__array_interface__


def test_an_array_argument_has_the_address_and_the_extents() -> None:
    host = np.zeros((6, 5, 3), np.float32)
    argument = warp.array(OnDevice(host), ndim=2)
    extents = {"shape": [6, 5, 0, 0], "strides": [60, 12, 0, 0], "ndim": 2, "flags": 0}
    assert argument == {"data": host.ctypes.data, "grad": 0, **extents}
    assert warp.array(OnDevice(host[::2, :, 1]))["strides"] == [120, 12, 0, 0]
    assert warp.bounds((6, 5)) == {"shape": [6, 5], "size": 30, "coord_mult": 1}
    assert warp.bounds(7) == {"shape": [7], "size": 7, "coord_mult": 1}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: warp.array([1]),
            "warp.array(array): expected an array with __cuda_array_interface__, got list",
        ),
        (
            lambda: warp.array(OnDevice(np.zeros((2, 3))), ndim=3),
            "warp.array(array, ndim): expected 1 to 2 dimensions, got 3 for the shape (2, 3)",
        ),
        (
            lambda: warp.bounds(()),
            "warp.bounds(shape): expected an int of 1 or more, or up to four, got ()",
        ),
        (
            lambda: warp.bounds(0),
            "warp.bounds(shape): expected an int of 1 or more, or up to four, got 0",
        ),
    ],
)
def test_invalid_arguments(call: Any, message: str) -> None:
    with pytest.raises(devmod.ArgumentError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.filterwarnings("ignore")  # Warp's own
def test_the_installed_warp_writes_a_folder_like_the_recorded_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wp = pytest.importorskip("warp", reason="needs warp-lang, a wheel of over 100 MB")
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "kernels/warp"))
    monkeypatch.delitem(sys.modules, "motion", raising=False)
    import motion

    wp.compile_aot_module(
        wp.get_module(motion.__name__), arch=80, module_dir=str(tmp_path / "module"), use_ptx=True
    )
    module, recorded = warp.load(tmp_path / "module"), warp.load(FOLDER)
    assert {name: info.interface for name, info in module.functions.items()} == {
        name: info.interface for name, info in recorded.functions.items()
    }
