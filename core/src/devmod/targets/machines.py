"""The machines of shared objects, by the headers of their ELF files (`devmod._util.elf`)."""

from __future__ import annotations

from devmod._util.elf import AMDGPU, CUDA, ELF_MAGIC, HEXAGON

#: The number of bytes that `machine_name` needs.
MACHINE_END = 20
#: The names of machines, as the format ``so_<machine>`` has them.
_MACHINES = {
    3: "x86",
    40: "arm",
    62: "x86_64",
    HEXAGON: "hexagon",
    183: "aarch64",
    CUDA: "cuda",
    AMDGPU: "amdgpu",
    243: "riscv",
    247: "bpf",
}


def machine_name(data: bytes | memoryview) -> str:
    """Return the name of an ELF file's machine, or its number in decimal; "" if the bytes do not
    begin with an ELF header.
    """
    if len(data) < MACHINE_END or bytes(data[:4]) != ELF_MAGIC or data[5] not in (1, 2):
        return ""
    if data[5] == 1:
        machine = int.from_bytes(data[18:20], "little")
    else:
        machine = int.from_bytes(data[18:20], "big")
    return _MACHINES.get(machine, str(machine))
