"""Shader modules and the names of their constants."""

from __future__ import annotations

from devmod.errors import CompileError
from devmod_readers.wgsl import naga_message
from devmod_webgpu import _driver
from devmod_webgpu._driver import launch_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devmod_webgpu._device import WebGPUDevice


def key_of(constant: Any) -> str:
    """Return the name under which WebGPU sets a constant."""
    return constant.name if constant.id is None else str(constant.id)


def compile_shader(device: WebGPUDevice, text: str, entry: str) -> Any:
    """Return wgpu's shader module of a text. Messages name it `entry`.

    Raises
    ------
    CompileError
        naga rejects the text.
    """
    try:
        return device.gpu.create_shader_module(code=text)
    except _driver.Error as error:
        if _driver.is_lost(error):
            raise launch_error("a shader cannot be compiled", device, error) from error
        raise CompileError(
            f"{device.name} cannot build the webgpu source: {naga_message(str(error), f'{entry}.wgsl')}",
            kind="webgpu",
            function=entry,
            log=str(error),
        ) from error
