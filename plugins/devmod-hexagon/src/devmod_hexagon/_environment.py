"""The environment variables of devmod-hexagon, each with what it does. docs/plugins.md has the same rows."""

from __future__ import annotations

VARIABLES = {
    "DEVMOD_HEXAGON_ADDRESS": "the addresses of runners that listen on TCP, as `host:port`, separated by commas; without it, each device "
    "is an emulator on this machine; read once, when the devices are listed",
    "DEVMOD_HEXAGON_ARCH": "the architecture of the devices, such as `v66`; without it, the newest that the emulator runs; read once, when "
    "the devices are listed",
    "DEVMOD_HEXAGON_DEVICES": "the number of emulated devices (default `1`); read once, when the devices are listed",
    "DEVMOD_HEXAGON_MEMORY": "the memory of each device in bytes (default `1073741824`); read when a runner starts",
    "DEVMOD_HEXAGON_QEMU": "the path of the emulator (default: `qemu-hexagon` in `PATH`); read once, when the devices are listed",
    "DEVMOD_HEXAGON_SECRET": "the secret that runners on TCP expect; read when a connection opens",
    "DEVMOD_HEXAGON_TIMEOUT": "the seconds after which a kernel that does not end is stopped (default: no limit); read at each wait",
}
