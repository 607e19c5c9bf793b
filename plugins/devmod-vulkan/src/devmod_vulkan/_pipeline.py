"""Pipelines: a shader with its layouts on one device, and descriptor sets for its launches."""

from __future__ import annotations

from devmod.backend import DiskCache, Pool
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
#: The number of launches that descriptor sets are allocated for: first a few, then more.
_FEW, _MANY = 4, 64
_FORM = "pipeline cache"
_PIPELINES = DiskCache("vulkan")


def check_device(
    shader: Shader, device: VulkanDevice, block: tuple[int, int, int] | None, constants: Sequence[tuple[int, bytes]] = ()
) -> None:
    """Check that the device can run a shader, before the driver receives it.

    Parameters
    ----------
    shader, device
        The shader and the device.
    block
        The block size, if it is known.
    constants
        The number and the bytes of each constant that is set.

    Raises
    ------
    FormatError
        The device does not support the shader's SPIR-V version or one of its capabilities.
    LaunchError
        The shader exceeds a limit of the device.
    """
    physical = device.physical
    newest = _features.newest_spirv(physical.version)
    start = f"the SPIR-V of the vulkan function {shader.name!r}"
    if shader.version > newest:
        raise FormatError(
            f"{start} has version {_dotted(shader.version)}, but {device} (Vulkan {_dotted(physical.version)}) supports at most "
            f"{_dotted(newest)}. Compile it for that version: -t 'vulkan -arch=spirv{_dotted(newest)}'",
            kind="vulkan",
            function=shader.name,
        )
    for capability in shader.capabilities:
        if not _features.has(capability, physical.features):
            raise FormatError(
                f"{start} needs the capability {capability_name(capability)}, which {device} does not support "
                f"({_features.missing_feature(capability)})",
                kind="vulkan",
                function=shader.name,
            )
    limits = physical.limits

    def over_limit(limit: str, usage: str) -> LaunchError:
        return LaunchError(
            f"the vulkan function {shader.name!r} cannot run on {device}: its {limit} is {limits[limit]}, but the shader {usage}",
            kind="vulkan",
            function=shader.name,
        )

    for axis, threads in enumerate(block or ()):
        if threads > limits[f"maxComputeWorkGroupSize[{axis}]"]:
            raise over_limit(f"maxComputeWorkGroupSize[{axis}]", f"is built for blocks of {block} threads")
    if block and block[0] * block[1] * block[2] > limits["maxComputeWorkGroupInvocations"]:
        raise over_limit("maxComputeWorkGroupInvocations", f"is built for blocks of {block}, {block[0] * block[1] * block[2]} threads")
    shared = shader.shared_bytes(dict(constants))
    if shared > limits["maxComputeSharedMemorySize"]:
        raise over_limit("maxComputeSharedMemorySize", f"uses {shared} bytes of shared memory")
    places = Places(shader)
    if places.push_size > limits["maxPushConstantsSize"]:
        raise over_limit("maxPushConstantsSize", f"uses {places.push_size} bytes of push constants")
    if places.sets > limits["maxBoundDescriptorSets"]:
        raise over_limit("maxBoundDescriptorSets", f"uses descriptor set {places.sets - 1}")
    for kind, limit in ((_STORAGE, "maxPerStageDescriptorStorageBuffers"), (_UNIFORM, "maxPerStageDescriptorUniformBuffers")):
        number = sum(each == kind for each in places.bindings.values())
        if number > limits[limit]:
            raise over_limit(limit, f"uses {number}")
    for _, size, _ in places.uniforms:
        if size > limits["maxUniformBufferRange"]:
            raise over_limit("maxUniformBufferRange", f"uses a uniform block of {size} bytes")


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


class Places:
    """The places of a launch's arguments: descriptor sets, uniform buffers, push constants.

    Attributes
    ----------
    bindings : dict
        The descriptor type of each (set, binding).
    sets : int
        The number of sets: one more than the highest set number.
    buffers : list of (int, (int, int))
        The number and the (set, binding) of each buffer argument.
    uniforms : list of (int, int, (int, int))
        For each uniform buffer: the number of the argument with its content, or -1 minus the number of the block; its size; its
        (set, binding).
    push : int
        The number of the block of push constants; -1 for none.
    push_size : int
        Its size in bytes, rounded up to a multiple of 4 as Vulkan requires.
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
            problem = "which another argument uses" if at in self.bindings else "expected (set, binding)"
            raise FormatError(
                f"the interface of the vulkan function {shader.name!r} places an argument at {at!r}, {problem}",
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
        listed = array("VkDescriptorSetLayoutBinding", bindings)
        info = make("VkDescriptorSetLayoutCreateInfo", bindingCount=len(bindings), pBindings=listed)
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

    def _store(self, key: str, cache: Any, known: bytes) -> None:
        logical = self.logical
        size = ffi.new("size_t *")
        if cache == ffi.NULL or logical.calls.vkGetPipelineCacheData(logical.handle, cache, size, ffi.NULL):
            return
        data = ffi.new("char[]", size[0])
        if logical.calls.vkGetPipelineCacheData(logical.handle, cache, size, data) == 0:
            new = bytes(ffi.buffer(data, size[0]))
            if new != known:
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
