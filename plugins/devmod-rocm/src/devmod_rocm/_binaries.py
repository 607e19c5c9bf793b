"""The code objects of one payload, one for each device."""

from __future__ import annotations

from typing import NamedTuple

from devmod.backend import find_spec
from devmod.errors import (
    DeviceNotFoundError,
    DevmodError,
    FormatError,
    ToolchainNotFoundError,
    list_names,
)
from devmod_driver_api.api import DriverError
from devmod_driver_api.binaries import (
    DriverBinaries,
    LoadedBinary,
    load_error,
)
from devmod_readers.amdgpu import (
    CodeObjectKernel,
    check_code_object,
    find_kernels,
    read_code_object,
)
from devmod_readers.offload import is_container, read_images
from devmod_readers.options.rocm import is_supported
from devmod_rocm._calls import HIP
from devmod_runtime import source_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from devmod import Device
    from devmod.backend import Binary
    from devmod_rocm._device import RocmDevice


# -- Read code objects and check them before the driver is called (R40). A driver may crash on a
# damaged one.


_ELF = b"\x7fELF"
_AMDGPU = 224
#: The version of a code object by the ABI version of its ELF header (ELFABIVERSION_AMDGPU_HSA).
_VERSIONS = {0: 2, 1: 3, 2: 4, 3: 5, 4: 6}
_WHAT = "the rocm payload of format 'hsaco'"

#: By version of code objects, the first HIP whose compiler writes it, and that therefore loads it.
#: Older ones may load it too.
_LOADED_BY = {5: 60000000, 6: 70000000}
#: The errors for a code object that a driver does not support.
_REFUSALS = (
    "hipErrorNoBinaryForGpu",
    "hipErrorInvalidImage",
    "hipErrorInvalidKernelFile",
    "hipErrorSharedObjectInitFailed",
)


class CodeObject(NamedTuple):
    """A code object for one device: the bytes for the driver, its kernels by name, and its version,
    3 to 6.
    """

    data: bytes
    kernels: Mapping[str, CodeObjectKernel]
    version: int


def check_payload(fmt: str, code: Binary) -> None:
    """Check the start of a payload, and the text of a source. No device is needed.

    Raises
    ------
    FormatError
        No ROCm device supports the payload.
    """
    if fmt != "hsaco":
        source_text("rocm", f"the rocm payload of format {fmt!r}", code)
    elif not len(code):
        raise FormatError(f"{_WHAT} is empty", kind="rocm")
    elif bytes(code[:4]) != _ELF and not is_container(code):
        raise FormatError(
            f"{_WHAT} is neither a code object nor a container of code objects: expected {_ELF!r} or the magic of an offload bundle, of an "
            f"OffloadBinary or of a .kpack file at its start, got {bytes(code[:8])!r}",
            kind="rocm",
        )


def read_binary(code: Binary, device: Device, names: Collection[str]) -> CodeObject:
    """Return the code object of a payload for a device. A container may have one for each
    architecture.

    Parameters
    ----------
    code
        A code object, or a container of code objects.
    device
        The device.
    names
        The kernels that the code object must have.

    Raises
    ------
    FormatError
        The payload is damaged, or has no kernel of such a name.
    DeviceNotFoundError
        The device cannot run it.
    ToolchainNotFoundError
        A container is compressed, and the package that decompresses it is not installed.
    """
    check_payload("hsaco", code)
    data = bytes(_choose(code, device, names) if is_container(code) else code)
    version = _check_header(data)
    check_architecture(data, device)
    kernels = read_code_object(data)
    for name in names:
        if name not in kernels:
            raise FormatError(
                f"{_WHAT} has no kernel {name!r}, which its fmap names; it has: {list_names(kernels)}",
                kind="rocm",
            )
    check_code_object(data, [kernels[name].symbol for name in names])
    return CodeObject(data, kernels, version)


def check_architecture(code: bytes, device: Device) -> None:
    """Check that a device can run a code object.

    Raises
    ------
    DeviceNotFoundError
        It cannot.
    FormatError
        The architecture of the code object cannot be read.
    """
    spec: Any = find_spec("rocm")  # a program may have replaced it
    variant = spec.architecture("hsaco", code)
    if not variant:
        mach = int.from_bytes(code[48:52], "little") & 0xFF
        raise FormatError(
            f"the architecture of {_WHAT} is unknown: the number {mach:#x} in the flags of its ELF header",
            kind="rocm",
        )
    if spec.rank(variant, device.arch) is not None:
        return
    processor, _, actual = device.arch.partition(":")
    states = dict(_split(each) for each in actual.split(":") if each)
    name, *features = variant.split(":")
    if spec.rank(name, device.arch) is None:
        raise DeviceNotFoundError(
            f"{_WHAT} is a code object for {name}, which does not run on {device}, {processor}; compile it for rocm -arch={processor}",
            kind="rocm",
        )
    for feature in features:
        title, state = _split(feature)
        if states.get(title) != state:
            has = f"has {title}{states[title]}" if title in states else f"does not support {title}"
            raise DeviceNotFoundError(
                f"{_WHAT} is a code object for {variant}, and {device} {has}: it is {device.arch}; compile it for rocm -arch={name}, which "
                f"runs with {title} on and off",
                kind="rocm",
            )


def _split(feature: str) -> tuple[str, str]:
    return feature[:-1], feature[-1]


def _choose(code: Binary, device: Device, names: Collection[str]) -> memoryview:
    """Return the best code object of a container for a device. Among equal ones, one with all
    kernels.

    Raises
    ------
    DeviceNotFoundError
        There is none.
    FormatError
        The container cannot be read, or has no code object.
    """
    try:
        objects = [each for each in read_images(code) if each.fmt == "hsaco"]
    except ToolchainNotFoundError as error:
        raise ToolchainNotFoundError(f"{_WHAT} cannot be read: {error}", kind="rocm") from error
    except FormatError as error:
        raise FormatError(f"{_WHAT} cannot be read: {error}", kind="rocm") from error
    spec: Any = find_spec("rocm")
    variants = [spec.architecture("hsaco", each.data) for each in objects]
    ranks = [(spec.rank(variant, device.arch) if variant else None) for variant in variants]
    best = max((number for number in ranks if number is not None), default=None)
    if best is None:
        listed = list_names(
            dict.fromkeys(variant or "an unknown architecture" for variant in variants)
        )
        processor = device.arch.partition(":")[0]
        if not objects:
            raise FormatError(f"{_WHAT} is a container without a code object", kind="rocm")
        raise DeviceNotFoundError(
            f"{_WHAT} has code objects for {listed}, and none of them runs on {device}, {device.arch}; compile it for rocm "
            f"-arch={processor}",
            kind="rocm",
        )
    # Several translation units have a code object each for one architecture.
    fitting = [each.data for each, number in zip(objects, ranks, strict=True) if number == best]
    return next((data for data in fitting if find_kernels(data, names) == {*names}), fitting[0])


def _check_header(code: bytes) -> int:
    """Return the version of a code object. Check its ELF header and the extents of its sections and
    segments.
    """
    if len(code) < 64:
        raise FormatError(
            f"{_WHAT} is truncated: it has {len(code)} bytes; an ELF header has 64", kind="rocm"
        )
    machine = int.from_bytes(code[18:20], "little")
    abi = code[7]
    abi_version = code[8]
    if code[4:6] != b"\2\1" or machine != _AMDGPU:
        raise FormatError(
            f"{_WHAT} is not a code object: expected a 64-bit little-endian ELF file for the machine {_AMDGPU} (AMD GPU), got the machine "
            f"{machine}",
            kind="rocm",
        )
    if abi != 64:
        raise FormatError(
            f"{_WHAT} is for the OS ABI {abi}; expected 64 (HSA), for which -target amdgcn-amd-amdhsa compiles",
            kind="rocm",
        )
    version = _VERSIONS.get(abi_version, 0)
    if version < 3:
        actual = (
            f"version {version}" if version else f"an unknown version (ABI version {abi_version})"
        )
        raise FormatError(
            f"{_WHAT} is a code object of {actual}; expected version 3, 4, 5 or 6", kind="rocm"
        )
    return version


class RocmBinaries(DriverBinaries):
    """The code objects of one payload and set of constants, one for each device. The parameters are
    those of the base class.
    """

    kind = "rocm"
    source_format = "hip"
    compiler = "hiprtc"
    check_payload = staticmethod(check_payload)
    is_option = staticmethod(is_supported)

    def with_constants(self, constants: Mapping[str, object]) -> RocmBinaries:
        return RocmBinaries(self.fmt, self.code, self.names, constants)

    def compile_source(self, arch: str) -> tuple[str, bytes]:
        from devmod_rocm._device import loaded_library
        from devmod_rocm._hiprtc import compile_source

        return "hsaco", compile_source(self.text, self.options, arch, loaded_library())

    def load(self, device: RocmDevice) -> LoadedBinary:
        code_object = read_binary(self.compiled(device.arch)[1], device, self.names)
        try:
            return LoadedBinary(device, code_object.data, code_object.kernels)
        except DriverError as error:
            raise _refusal(device, code_object, error) from error


def _refusal(device: RocmDevice, code_object: CodeObject, error: DriverError) -> DevmodError:
    """Return the error for a code object that the driver refuses."""
    result = load_error(device, "hsaco", error)
    version = device.driver.version
    if error.name in _REFUSALS and version < _LOADED_BY.get(code_object.version, 0):
        result.add_note(
            f"it is a code object of version {code_object.version}, and the driver is that of HIP {HIP.version_text(version)}, which "
            f"may not load this version. Update ROCm, or compile for rocm -arch={device.arch.partition(':')[0]} with "
            f"options=['-mcode-object-version={code_object.version - 1}']"
        )
    return result
