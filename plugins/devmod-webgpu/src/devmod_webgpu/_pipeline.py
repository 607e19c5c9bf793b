"""Shader modules and pipelines. The process that tries a shader first builds pipelines in the same
way.
"""

from __future__ import annotations

import re

from devmod.errors import CompileError
from devmod_webgpu import _driver
from devmod_webgpu._driver import launch_error, wgpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod_webgpu._device import WebGPUDevice

    #: For each group, of each binding: its number, the member of the layout, and the options.
    Groups = Sequence[Sequence[tuple[int, str, Mapping[str, Any]]]]


def compile_shader(device: WebGPUDevice, text: str, entry: str) -> Any:
    """Return wgpu's shader module of a text. Messages name it `entry`.

    Raises
    ------
    CompileError
        naga rejects the text.
    """
    try:
        return make_shader(device.gpu, text)
    except _driver.Error as error:
        if _driver.is_lost(error):
            raise launch_error("a shader cannot be compiled", device, error) from error
        from devmod_wgsl import naga_message

        raise CompileError(
            f"{device.name} cannot build the webgpu source: {naga_message(str(error), f'{entry}.wgsl', text)}",
            kind="webgpu",
            function=entry,
            log=str(error),
        ) from error


def make_shader(gpu: Any, text: str) -> Any:
    """Return the shader module of a text.

    Raises
    ------
    wgpu.GPUError
        naga rejects the text.
    """
    try:
        return gpu.create_shader_module(code=text)
    except _driver.Error as error:
        # naga 29 has the operations of subgroups, and refuses the directive.
        plain = text
        if "`subgroups` enable-extension is not yet supported" in str(error):
            plain = _without_subgroups(text)
        if plain == text:
            raise
        return gpu.create_shader_module(code=plain)


def _without_subgroups(text: str) -> str:
    """Return a text whose directives do not enable subgroups. Every other character keeps its
    place.
    """

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"\S", " ", match[0])

    def shorten(match: re.Match[str]) -> str:
        names = re.sub(r"\bsubgroups\b\s*,?", blank, match[1])
        if not names.strip():
            return blank(match)
        return f"enable{names};"

    return re.sub(r"\benable\b([\w\s,]*);", shorten, text)


def build_pipeline(
    gpu: Any, shader: Any, entry: str, groups: Groups, constants: Mapping[str, bool | int | float]
) -> tuple[list[Any], Any]:
    """Return the layouts of the groups, and the pipeline.

    Raises
    ------
    wgpu.GPUError
        The device rejects the shader.
    OverflowError, UnicodeError
        cffi cannot convert a name or a number.
    """
    layouts = []
    for bindings in groups:
        entries = [_entry(*binding) for binding in bindings]
        layouts.append(gpu.create_bind_group_layout(entries=entries))
    layout = gpu.create_pipeline_layout(bind_group_layouts=layouts)
    stage = {
        "module": shader,
        "entry_point": entry,
        "constants": {name: float(value) for name, value in constants.items()},
    }
    return layouts, gpu.create_compute_pipeline(layout=layout, compute=stage)


def _entry(number: int, member: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"binding": number, "visibility": wgpu.ShaderStage.COMPUTE, member: options}
