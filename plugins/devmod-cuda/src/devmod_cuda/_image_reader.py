"""Read images (PTX, cubins, fatbins) and check them before the driver is called (R40). A driver may crash on a damaged image."""

from __future__ import annotations

from devmod.backend import find_spec
from devmod.errors import FormatError, list_names
from devmod_readers.elf import find_damage
from devmod_readers.nvidia import KernelEntry, fatbin_members, index_cubin, read_ptx
from devmod_runtime import source_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from devmod_cuda._device import CudaDevice

#: The start of each binary format, and its name in messages.
_MAGIC = {"cubin": (b"\x7fELF", "an ELF file"), "fatbin": (b"\x50\xed\x55\xba", "a CUDA fatbin")}


class Image:
    """An image for one device.

    Attributes
    ----------
    fmt, data
        The format, and the bytes for the driver. PTX ends with a zero byte.
    kernels : Mapping or None
        The kernels that `names` requested, by symbol; None if the image is compressed and only the driver can read it.
    """

    __slots__ = ("data", "fmt", "kernels")

    def __init__(self, fmt: str, data: bytes, kernels: Mapping[str, KernelEntry] | None) -> None:
        self.fmt, self.data, self.kernels = fmt, data, kernels


def check_payload(fmt: str, code: bytes | memoryview) -> None:
    """Check the start of a payload, and the text of PTX and of a source. No device is needed.

    Raises
    ------
    FormatError
        No CUDA device supports the payload.
    """
    what = f"the cuda payload of format {fmt!r}"
    if fmt in _MAGIC:
        magic, title = _MAGIC[fmt]
        if not len(code):
            raise FormatError(f"{what} is empty", kind="cuda")
        if bytes(code[: len(magic)]) != magic:
            raise FormatError(f"{what} is not {title}: expected {magic!r} at its start, got {bytes(code[:8])!r}", kind="cuda")
    else:
        source_text("cuda", what, _text_of(code) if fmt == "ptx" else code)


def read_image(fmt: str, code: bytes | memoryview, device: CudaDevice, names: Collection[str]) -> Image:
    """Check an image against a device, and read the kernels `names` of it.

    Raises
    ------
    FormatError
        The image is damaged, the device cannot run it, or it has no kernel of such a name.
    """
    check_payload(fmt, code)
    check_architecture(fmt, code, device)
    if fmt == "ptx":
        text = _text_of(code)
        kernels: Mapping[str, KernelEntry] | None = read_ptx(str(text, "utf-8"))
        data = bytes(text) + b"\0"
    elif fmt == "cubin":
        _check_elf(code)
        data = bytes(code)
        kernels = index_cubin(data)
    else:
        kernels, data = _read_fatbin(code, device), bytes(code)
    if kernels is not None:
        for name in names:
            if name not in kernels:
                raise FormatError(
                    f"the cuda payload of format {fmt!r} has no kernel {name!r}, which its fmap names; it has: {list_names(kernels)}",
                    kind="cuda",
                )
    return Image(fmt, data, kernels)


def check_architecture(fmt: str, code: bytes | memoryview, device: CudaDevice) -> None:
    """Check that a device can run an image.

    Raises
    ------
    FormatError
        It cannot, or the architecture of the image cannot be read.
    """
    architecture, rank = _rules()
    variant, what = architecture(fmt, code), f"the cuda payload of format {fmt!r}"
    if not variant:
        expected = {
            "ptx": "expected the directives .version and .target at its start",
            "cubin": "expected an ELF file for the machine 190 (CUDA)",
            "fatbin": "expected an entry of PTX or of a cubin",
        }[fmt]
        raise FormatError(f"the architecture of {what} cannot be read: {expected}", kind="cuda")
    if rank(variant, device.arch) is not None:
        return
    # Whether the device could run it with any driver: the variants without the versions of PTX.
    parts = [part.partition(":ptx") for part in variant.split(",")]
    newer = [(name, version) for name, mark, version in parts if mark and rank(name, device.arch) is not None]
    if newer:
        version, supported = newer[0][1], device.arch.partition(":ptx")[2]
        raise FormatError(
            f"{what} is PTX {version}, and the driver of {device} supports PTX up to {supported}. Update the driver, or compile for that "
            f"version; a cubin (cuda -arch={_plain(device.arch)}) needs no newer driver",
            kind="cuda",
        )
    names = [name for name, _, _ in parts]
    advice = f"compile it for cuda -arch={_plain(device.arch)}"
    if fmt == "fatbin":
        raise FormatError(
            f"{what} has code for {', '.join(names)}, and none of it runs on {device}, {_plain(device.arch)}; {advice}", kind="cuda"
        )
    title = "PTX for" if fmt == "ptx" else "a cubin for"
    raise FormatError(f"{what} is {title} {names[0]}, which does not run on {device}, {_plain(device.arch)}; {advice}", kind="cuda")


def _rules() -> tuple[Callable[[str, bytes | memoryview], str], Callable[[str, str], int | None]]:
    spec = find_spec("cuda")
    assert spec is not None
    assert spec.architecture is not None
    assert spec.rank is not None
    return spec.architecture, spec.rank


def _plain(arch: str) -> str:
    return arch.partition(":")[0]


def _text_of(code: bytes | memoryview) -> bytes:
    """Return PTX without the zero bytes that end it."""
    return bytes(code).rstrip(b"\0")


def _read_fatbin(code: bytes | memoryview, device: CudaDevice) -> Mapping[str, KernelEntry] | None:
    """Return the kernels of the member that the device runs; None if it is compressed."""
    architecture, rank = _rules()
    best, best_rank = None, -1
    for member in fatbin_members(code):
        fmt = member.kind
        if fmt not in ("ptx", "cubin"):
            continue
        variant = architecture(fmt, member.data)
        member_rank = rank(variant, device.arch) if variant else None
        if member_rank is not None and member_rank > best_rank:
            best, best_rank = member, member_rank
    if best is None:
        return None
    if best.kind == "ptx":
        return read_ptx(str(_text_of(best.data), "utf-8", "replace"))
    _check_elf(best.data)
    return index_cubin(best.data)


def _check_elf(code: bytes | memoryview) -> None:
    """Check that each section and each segment of a cubin is inside the file.

    Raises
    ------
    FormatError
        One is not: the file is truncated or damaged.
    """
    problem = find_damage(code)
    if problem:
        raise FormatError(f"the cubin is truncated or damaged: {problem}", kind="cuda")
