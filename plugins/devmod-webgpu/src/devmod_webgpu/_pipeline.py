"""Building of pipelines, shared by this process and by the process that tries a shader first."""

from __future__ import annotations

from devmod_webgpu._driver import wgpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    #: The bindings of each group: number, buffer type, minimum size.
    Groups = Sequence[Sequence[tuple[int, str, int]]]


def build_pipeline(gpu: Any, shader: Any, entry: str, groups: Groups, constants: Mapping[str, bool | int | float]) -> tuple[list[Any], Any]:
    """Return the layouts of the groups, and the pipeline.

    Raises
    ------
    wgpu.GPUError
        The device rejects the shader.
    OverflowError, UnicodeError
        cffi cannot convert a name or a number.
    """
    layouts = [gpu.create_bind_group_layout(entries=[_entry(*binding) for binding in bindings]) for bindings in groups]
    layout = gpu.create_pipeline_layout(bind_group_layouts=layouts)
    stage = {"module": shader, "entry_point": entry, "constants": {name: float(value) for name, value in constants.items()}}
    return layouts, gpu.create_compute_pipeline(layout=layout, compute=stage)


def _entry(number: int, buffer_type: str, least: int) -> dict[str, Any]:
    buffer = {"type": buffer_type, "min_binding_size": least}
    return {"binding": number, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": buffer}
