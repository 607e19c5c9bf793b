"""The check of devmod-hexagon for `devmod.doctor`: the emulator."""

from __future__ import annotations

import os

from pluggy import HookimplMarker

from devmod.backend import find_program
from devmod_hexagon._emulator import emulator_name
from devmod_runtime import Attempt, driver_row


@HookimplMarker("devmod")
def devmod_doctor() -> list[tuple[str, str, str]]:
    """Return where the emulator was looked for."""
    name = emulator_name()
    found = find_program(name)
    if found:
        return [driver_row([Attempt(found, found)])]
    places = (
        [name]
        if os.path.dirname(name)
        else [os.path.join(folder, name) for folder in os.get_exec_path()]
    )
    return [driver_row(map(Attempt, map(os.path.abspath, places)))]
