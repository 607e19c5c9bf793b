"""Pipelines: a shader with its layouts on one device, and the descriptor sets of its launches."""

from __future__ import annotations

from collections import deque
from hashlib import sha256

from devmod.backend import Kept
from devmod.errors import CompileError, FormatError, LaunchError
from devmod.targets.vulkan.architecture import capability_name
from devmod_vulkan import _features
from devmod_vulkan._driver import array, error_name, ffi, make, vk
from devmod_vulkan._shader import bytes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from devmod_vulkan._device import VulkanDevice
    from devmod_vulkan._logical import Logical
    from devmod_vulkan._shader import Shader

_STORAGE = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
_UNIFORM = vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
_STAGE = vk.VK_SHADER_STAGE_COMPUTE_BIT
#: Descriptor sets are made for so many launches at a time: first a few, then more.
_FEW, _MANY = 4, 64
_FORM = "pipeline cache"


def check_device(
    shader: Shader, device: VulkanDevice, block: tuple[int, int, int] | None, constants: Sequence[tuple[int, bytes]] = ()
) -> None:
    """Refuse what the device cannot run, before its driver sees it.

    Parameters
    ----------
    shader, device
        Which, and where.
    block
        The threads of a block, where that is known.
    constants
        The number of each constant that is set, and its bytes.

    Raises
    ------
    FormatError
        It is newer than the device, or needs a capability that the device lacks.
    LaunchError
        It needs more than a limit of the device.
    """
    physical = device.physical
    newest = _features.newest_spirv(physical.version)
    start = f"the SPIR-V of the vulkan function {shader.name!r}"
    if shader.version > newest:
        raise FormatError(
            f"{start} is of version {_dotted(shader.version)}, and {device}, which has Vulkan {_dotted(physical.version)}, takes none "
            f"newer than {_dotted(newest)}; compile it for that",
            kind="vulkan",
            function=shader.name,
        )
    for capability in shader.capabilities:
        if not _features.has(capability, physical.features):
            raise FormatError(
                f"{start} needs the capability {capability_name(capability)}, {_features.lacking(capability)}; {device} does not have it",
                kind="vulkan",
                function=shader.name,
            )
    limits = physical.limits

    def over(limit: str, asked: str) -> LaunchError:
        return LaunchError(
            f"the vulkan function {shader.name!r} cannot run on {device}: its {limit} is {limits[limit]}, and the shader {asked}",
            kind="vulkan",
            function=shader.name,
        )

    for axis, threads in enumerate(block or ()):
        if threads > limits[f"maxComputeWorkGroupSize[{axis}]"]:
            raise over(f"maxComputeWorkGroupSize[{axis}]", f"is built for blocks of {block} threads")
    if block and block[0] * block[1] * block[2] > limits["maxComputeWorkGroupInvocations"]:
        raise over("maxComputeWorkGroupInvocations", f"is built for blocks of {block}, which are {block[0] * block[1] * block[2]} threads")
    shared = shader.shared_bytes(dict(constants))
    if shared > limits["maxComputeSharedMemorySize"]:
        raise over("maxComputeSharedMemorySize", f"has {shared} bytes of shared memory")
    places = Places(shader)
    if places.push_size > limits["maxPushConstantsSize"]:
        raise over("maxPushConstantsSize", f"takes {places.push_size} bytes of push constants")
    if places.sets > limits["maxBoundDescriptorSets"]:
        raise over("maxBoundDescriptorSets", f"uses the set {places.sets - 1}")
    for kind, limit in ((_STORAGE, "maxPerStageDescriptorStorageBuffers"), (_UNIFORM, "maxPerStageDescriptorUniformBuffers")):
        number = sum(each == kind for each in places.bindings.values())
        if number > limits[limit]:
            raise over(limit, f"takes {number} of them")
    for _, size, _ in places.uniforms:
        if size > limits["maxUniformBufferRange"]:
            raise over("maxUniformBufferRange", f"takes a uniform block of {size} bytes")


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


class Places:
    """Where a launch's values go.

    Attributes
    ----------
    bindings : dict
        (set, binding) to the type of descriptor.
    sets : int
        How many sets there are: one more than the highest number.
    buffers : list of (int, (int, int))
        The number of each argument that is a buffer, and its (set, binding).
    uniforms : list of (int, int, (int, int))
        Uniform buffers: the number of the argument that is its content, or -1 - the number of the block; its size; its (set, binding).
    push : int
        The number of the block of push constants; -1 where there is none.
    push_size : int
        Its bytes, as Vulkan wants them: a multiple of 4.
    """

    def __init__(self, shader: Shader) -> None:
        interface = shader.interface
        self.buffers: list[tuple[int, tuple[int, int]]] = []
        self.uniforms: list[tuple[int, int, tuple[int, int]]] = []
        self.bindings: dict[tuple[int, int], int] = {}
        self.push, self.push_size = -1, 0
        for number, param in enumerate(interface.params):
            if param.kind in ("buffer", "uniform"):
                at = self._place(shader, param.at, _STORAGE if param.kind == "buffer" else _UNIFORM)
                if param.kind == "buffer":
                    self.buffers.append((number, at))
                else:
                    self.uniforms.append((number, bytes_of(param.type), at))
        for number, block in enumerate(interface.blocks):
            if block.at == "push":
                self.push, self.push_size = number, -(-block.size // 4) * 4
            else:
                self.uniforms.append((-1 - number, block.size, self._place(shader, block.at, _UNIFORM)))
        self.sets = max((number for number, _ in self.bindings), default=-1) + 1

    def _place(self, shader: Shader, at: Any, kind: int) -> tuple[int, int]:
        if not isinstance(at, tuple) or max(at) > 0xFFFF or at in self.bindings:
            what = "which another argument has" if at in self.bindings else "which is no (set, binding)"
            raise FormatError(
                f"the interface of the vulkan function {shader.name!r} places an argument at {at!r}, {what}",
                kind="vulkan",
                function=shader.name,
            )
        self.bindings[at] = kind
        return at


class Pipeline:
    """A shader on one device, with constants set.

    Parameters
    ----------
    shader
        The shader, which `check_device` has let pass.
    logical
        The open device.
    constants
        The number of each constant that is set, and its bytes.

    Raises
    ------
    CompileError
        The driver refuses it.
    """

    def __init__(self, shader: Shader, logical: Logical, constants: Sequence[tuple[int, bytes]]) -> None:
        self.logical = logical
        self.places = places = Places(shader)
        self.name = shader.name
        self._owned: list[tuple[str, Any]] = []
        self._free: deque[Any] = deque()
        self._made = 0
        self._sizes = {kind: sum(each == kind for each in places.bindings.values()) for kind in (_STORAGE, _UNIFORM)}
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

    def __del__(self) -> None:
        for function, handle in reversed(getattr(self, "_owned", ())):
            self.logical.destroy(function, handle)

    def _own(self, function: str, kind: str, info: Any) -> Any:
        made = self.logical.owned(function, kind, info)
        self._owned.append((function.replace("Create", "Destroy"), made))
        return made

    def _set_layout(self, number: int) -> Any:
        bindings = [
            make("VkDescriptorSetLayoutBinding", binding=binding, descriptorType=kind, descriptorCount=1, stageFlags=_STAGE)
            for (set_, binding), kind in self.places.bindings.items()
            if set_ == number
        ]
        listed = array("VkDescriptorSetLayoutBinding", bindings)
        info = make("VkDescriptorSetLayoutCreateInfo", bindingCount=len(bindings), pBindings=listed)
        return self._own("vkCreateDescriptorSetLayout", "VkDescriptorSetLayout", info)

    def _build(self, shader: Shader, constants: Sequence[tuple[int, bytes]]) -> Any:
        logical, calls = self.logical, self.logical.calls
        words = ffi.new("uint32_t[]", len(shader.words) // 4)
        ffi.memmove(words, shader.words, len(shader.words))
        module = logical.created(
            "vkCreateShaderModule", "VkShaderModule", make("VkShaderModuleCreateInfo", codeSize=len(shader.words), pCode=words)
        )
        kept = Kept("vulkan", _FORM, logical.physical.identity, sha256(shader.words).hexdigest(), shader.entry, repr(constants))
        cache, known = self._cache(kept)
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
                    f"{logical.device} cannot build the shader of the vulkan function {shader.name!r} ({error_name(code)})",
                    kind="vulkan",
                    function=shader.name,
                )
            self._owned.append(("vkDestroyPipeline", logical.own("vkDestroyPipeline", out[0])))
            logical.check(0, "")
            self._keep(kept, cache, known)
        finally:
            calls.vkDestroyShaderModule(logical.handle, module, ffi.NULL)
            if cache != ffi.NULL:
                calls.vkDestroyPipelineCache(logical.handle, cache, ffi.NULL)
        return out[0]

    def _cache(self, kept: Kept) -> tuple[Any, bytes]:
        """A pipeline cache of Vulkan's with what was kept, where that is this device's; NULL where there is none."""
        logical = self.logical
        known = kept.read()
        if known[:32] != logical.physical.cache_header:
            known = b""  # another driver's, though the name is right: drivers have been seen to crash on such data
        data = ffi.new("char[]", max(len(known), 1))
        ffi.memmove(data, known, len(known))
        out = ffi.new("VkPipelineCache *")
        info = make("VkPipelineCacheCreateInfo", initialDataSize=len(known), pInitialData=data)
        code = logical.calls.vkCreatePipelineCache(logical.handle, info, ffi.NULL, out)
        return (out[0] if code == 0 else ffi.NULL), known

    def _keep(self, kept: Kept, cache: Any, known: bytes) -> None:
        logical = self.logical
        size = ffi.new("size_t *")
        if cache == ffi.NULL or logical.calls.vkGetPipelineCacheData(logical.handle, cache, size, ffi.NULL):
            return
        data = ffi.new("char[]", size[0])
        if logical.calls.vkGetPipelineCacheData(logical.handle, cache, size, data) == 0:
            made = bytes(ffi.buffer(data, size[0]))
            if made != known:
                kept.write(made)

    # -- descriptor sets

    def take_sets(self) -> Any:
        """Descriptor sets for one launch, an array of all; `give_sets` takes them back."""
        try:
            return self._free.popleft()
        except IndexError:
            made = self._make_sets(_MANY if self._made else _FEW)
            self._made += len(made)
            self._free.extend(made[1:])
            return made[0]

    def give_sets(self, sets: Any) -> None:
        """Take back what `take_sets` gave; nothing that uses it may be under way."""
        self._free.append(sets)

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
        wanted = make(
            "VkDescriptorSetAllocateInfo",
            descriptorPool=pool,
            descriptorSetCount=number * sets,
            pSetLayouts=array("VkDescriptorSetLayout", self._set_layouts * number),
        )
        self.logical.check(self.logical.calls.vkAllocateDescriptorSets(self.logical.handle, wanted, out), "gives no descriptor sets")
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
