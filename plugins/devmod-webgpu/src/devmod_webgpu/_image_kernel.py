"""Kernels with images and samplers, whose layouts may depend on the arguments of a call.

A layout says whether a texture is filtered, and whether a sampler filters. WebGPU allows no filter
of integers, and none of 32-bit floats without the feature float32-filterable. So a shader that may
read such an image with a sampler has several pipelines. Other shaders have one, with the layouts
that allow all images and samplers.
"""

from __future__ import annotations

from devmod.backend import Once
from devmod.errors import FormatError
from devmod_runtime import Image, Sampler
from devmod_webgpu import _driver
from devmod_webgpu._images import AdoptedImage
from devmod_webgpu._kernel import WebGPUKernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod_webgpu._bindings import Binding
    from devmod_webgpu._kernel import Built

_FILTERABLE = "float32-filterable"


class ImageKernel(WebGPUKernel):
    """The pipelines of a function with images or samplers on one device."""

    def _first_unfiltered(self) -> Sequence[int]:
        self._variants = Once()
        self._has_filterable = _FILTERABLE in self._device.features
        samplers = [each for each in self._images if each.type == "sampler"]
        textures = [each for each in self._images if each.type == "texture"]
        floats = [each for each in textures if each.is_float]
        #: The samplers and textures on which the layouts depend; empty for one pipeline.
        self._filtered: list[Binding] = []
        reads_integers = len(floats) < len(textures)
        if (samplers and reads_integers) or (floats and not self._has_filterable):
            self._filtered = samplers + floats
            return [each.argument for each in samplers]
        return []

    def _built(self, values: Any) -> Built:
        if not self._filtered:
            return self._default
        unfiltered = tuple(
            each.argument for each in self._filtered if not self._can_filter(values[each.argument])
        )
        return self._variants.get(unfiltered, lambda: self._build(unfiltered))

    def _can_filter(self, value: Image | Sampler) -> bool:
        if isinstance(value, Sampler):
            return value.filter != "nearest"
        return self._has_filterable or not value.format.endswith("32float")

    def check_images(self, images: Mapping[int, Image | Sampler]) -> tuple[int, str] | None:
        first: dict[Any, Binding] = {}
        for each in self._images:
            image = images[each.argument]
            if not isinstance(image, Image):
                continue
            if isinstance(image, AdoptedImage):
                problem = image.problem(is_storage=each.type == "storage_texture")
                if problem:
                    return each.argument, problem
            other = first.setdefault(image.memory, each)
            if other is not each and (each.writes or other.writes):
                return each.argument, (
                    f"and {self._label(other)} are the same image, and the shader writes to one of them. WebGPU forbids this in one "
                    "launch; pass a copy for one of them"
                )
        try:
            self._built(images)
        except FormatError as error:
            samplers = [each for each in self._filtered if each.type == "sampler"]
            filtering = [each for each in samplers if self._can_filter(images[each.argument])]
            if not filtering:
                raise
            reason = _driver.describe_error(error.__cause__ or error).rpartition("; ")[2]
            if not self._has_filterable:
                reason += f"; {self._device} lacks the feature {_FILTERABLE}"
            return (
                filtering[0].argument,
                f"filters, and the shader reads an image with it that cannot be filtered: {reason}",
            )
        return None

    def _owns(self, values: Sequence[Any]) -> bool:
        return super()._owns(values) and not any(
            isinstance(values[each.argument], AdoptedImage) for each in self._images
        )

    def _check_adopted(self, values: Sequence[Any], reason: str) -> None:
        for each in self._images:
            value = values[each.argument]
            if isinstance(value, Sampler):
                is_foreign = not value.filter
            else:
                is_foreign = isinstance(value, AdoptedImage)
            if is_foreign and (f"inding {each.number} " in f"{reason} " or len(self._images) == 1):
                raise self._invalid_argument(each, f"cannot be bound: {reason}")
