"""Pipelines: a shader with its layouts on one device, and descriptor sets for its launches."""

from __future__ import annotations

from devmod.backend import DiskCache
from devmod.errors import CompileError
from devmod_runtime import Pool
from devmod_vulkan._driver import array, error_name, ffi, make, vk
from devmod_vulkan._places import STORAGE, UNIFORM, Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod_vulkan._logical import Logical
    from devmod_vulkan._shader import Shader

_STAGE = vk.VK_SHADER_STAGE_COMPUTE_BIT
#: The number of launches that descriptor sets are allocated for: first a few, then more.
_FEW, _MANY = 4, 64
_FORM = "pipeline cache"
_PIPELINES = DiskCache("vulkan")


class Pipeline:
    """A shader on one device, with constants set.

    Parameters
    ----------
    shader
        The shader. `check_device` must have accepted it.
    logical
        The open device.
    constants
        The number and the bytes of each constant that is set.

    Raises
    ------
    CompileError
        The driver rejects it.
    """

    def __init__(self, shader: Shader, logical: Logical, constants: Sequence[tuple[int, bytes]]) -> None:
        self.logical = logical
        self.places = places = Places(shader)
        self.name = shader.name
        #: The handles that are destroyed when this object is collected.
        self._owned: list[tuple[str, Any]] = []
        self._token = logical.lend_pipeline(self, self._owned)
        self._sets = Pool()
        self._set_count = 0
        self._sizes = {kind: sum(each == kind for each in places.bindings.values()) for kind in (STORAGE, UNIFORM)}
        self._set_layouts = [self._set_layout(number) for number in range(places.sets)]
        push = make("VkPushConstantRange", stageFlags=_STAGE, size=places.push_size)
        info = make(
            "VkPipelineLayoutCreateInfo",
            setLayoutCount=places.sets,
            pSetLayouts=array("VkDescriptorSetLayout", self._set_layouts),
            pushConstantRangeCount=int(places.push_size > 0),
            pPushConstantRanges=push,
        )
        self.layout = self._own("vkCreatePipelineLayout", "VkPipelineLayout", info)
        self.handle = self._build(shader, constants)

    def _own(self, function: str, kind: str, info: Any) -> Any:
        handle = self.logical.create_owned(function, kind, info)
        self._owned.append((function.replace("Create", "Destroy"), handle))
        return handle

    def _set_layout(self, number: int) -> Any:
        bindings = [
            make("VkDescriptorSetLayoutBinding", binding=binding, descriptorType=kind, descriptorCount=1, stageFlags=_STAGE)
            for (set_, binding), kind in self.places.bindings.items()
            if set_ == number
        ]
        items = array("VkDescriptorSetLayoutBinding", bindings)
        info = make("VkDescriptorSetLayoutCreateInfo", bindingCount=len(bindings), pBindings=items)
        return self._own("vkCreateDescriptorSetLayout", "VkDescriptorSetLayout", info)

    def _build(self, shader: Shader, constants: Sequence[tuple[int, bytes]]) -> Any:
        logical, calls = self.logical, self.logical.calls
        words = ffi.new("uint32_t[]", len(shader.words) // 4)
        ffi.memmove(words, shader.words, len(shader.words))
        module = logical.create(
            "vkCreateShaderModule", "VkShaderModule", make("VkShaderModuleCreateInfo", codeSize=len(shader.words), pCode=words)
        )
        key = _PIPELINES.key(_FORM, logical.physical.identity, shader.words, shader.entry, repr(constants))
        cache, known = self._cache(key)
        try:
            stage = make(
                "VkPipelineShaderStageCreateInfo",
                stage=_STAGE,
                module=module,
                pName=ffi.new("char[]", shader.entry.encode()),
                pSpecializationInfo=_specialization(constants),
            )
            info = make("VkComputePipelineCreateInfo", stage=stage[0], layout=self.layout, basePipelineIndex=-1)
            out = ffi.new("VkPipeline *")
            code = calls.vkCreateComputePipelines(logical.handle, cache, 1, info, ffi.NULL, out)
            if code < 0:
                raise CompileError(
                    f"{logical.device} cannot build the shader of the vulkan function {shader.name!r}: vkCreateComputePipelines failed "
                    f"with {error_name(code)}",
                    kind="vulkan",
                    function=shader.name,
                )
            self._owned.append(("vkDestroyPipeline", logical.own("vkDestroyPipeline", out[0])))
            logical.check(0, "")
            self._store(key, cache, known)
        finally:
            calls.vkDestroyShaderModule(logical.handle, module, ffi.NULL)
            if cache != ffi.NULL:
                calls.vkDestroyPipelineCache(logical.handle, cache, ffi.NULL)
        return out[0]

    def _cache(self, key: str) -> tuple[Any, bytes]:
        """Return a VkPipelineCache and its initial bytes, which are those of the disk cache if their header fits. It is NULL on failure."""
        logical = self.logical
        known = _PIPELINES.read(key) or b""
        if known[:32] != logical.physical.cache_header:
            known = b""  # from another driver, though the key is right: some drivers crash on such data
        data = ffi.new("char[]", max(len(known), 1))
        ffi.memmove(data, known, len(known))
        out = ffi.new("VkPipelineCache *")
        info = make("VkPipelineCacheCreateInfo", initialDataSize=len(known), pInitialData=data)
        code = logical.calls.vkCreatePipelineCache(logical.handle, info, ffi.NULL, out)
        return (out[0] if code == 0 else ffi.NULL), known

    def _store(self, key: str, cache: Any, old_data: bytes) -> None:
        logical = self.logical
        size = ffi.new("size_t *")
        if cache == ffi.NULL or logical.calls.vkGetPipelineCacheData(logical.handle, cache, size, ffi.NULL):
            return
        data = ffi.new("char[]", size[0])
        if logical.calls.vkGetPipelineCacheData(logical.handle, cache, size, data) == 0:
            new = bytes(ffi.buffer(data, size[0]))
            if new != old_data:
                _PIPELINES.write(key, new)

    # -- descriptor sets

    def lend_sets(self, user: object) -> tuple[Any, object]:
        """Return an array of descriptor sets for one launch, and a token. `user` must reference the token while it uses the sets."""
        try:
            sets = self._sets.take()
        except IndexError:
            sets, *others = self._make_sets(_MANY if self._set_count else _FEW)
            self._set_count += 1 + len(others)
            self._sets.add(others)
        return sets, self._sets.lend(user, sets)

    def _make_sets(self, number: int) -> list[Any]:
        sizes = [make("VkDescriptorPoolSize", type=kind, descriptorCount=count * number) for kind, count in self._sizes.items() if count]
        sets = self.places.sets
        info = make(
            "VkDescriptorPoolCreateInfo",
            maxSets=number * sets,
            poolSizeCount=len(sizes),
            pPoolSizes=array("VkDescriptorPoolSize", sizes),
        )
        pool = self._own("vkCreateDescriptorPool", "VkDescriptorPool", info)
        out = ffi.new("VkDescriptorSet[]", number * sets)
        info = make(
            "VkDescriptorSetAllocateInfo",
            descriptorPool=pool,
            descriptorSetCount=number * sets,
            pSetLayouts=array("VkDescriptorSetLayout", self._set_layouts * number),
        )
        self.logical.check(self.logical.calls.vkAllocateDescriptorSets(self.logical.handle, info, out), "cannot allocate descriptor sets")
        return [array("VkDescriptorSet", [out[start + each] for each in range(sets)]) for start in range(0, number * sets, sets)]


def _specialization(constants: Sequence[tuple[int, bytes]]) -> Any:
    if not constants:
        return ffi.NULL
    entries, data = [], b""
    for number, value in constants:
        entries.append(make("VkSpecializationMapEntry", constantID=number, offset=len(data), size=len(value)))
        data += value
    return make(
        "VkSpecializationInfo",
        mapEntryCount=len(entries),
        pMapEntries=array("VkSpecializationMapEntry", entries),
        dataSize=len(data),
        pData=ffi.new("char[]", data),
    )
