"""Pipelines: a shader on one device with its layouts and descriptor sets, and the recording of its
launches.
"""

from __future__ import annotations

from devmod.backend import DiskCache
from devmod.errors import CompileError, FormatError
from devmod_runtime import Pool, block_packer
from devmod_vulkan._driver import array, error_name, ffi, make, vk
from devmod_vulkan._memory import Memory
from devmod_vulkan._shader import Shader, bytes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from devmod import Device, Interface, Sampler
    from devmod_vulkan._logical import Logical, Recorder


STORAGE = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
UNIFORM = vk.VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER
STORAGE_IMAGE = vk.VK_DESCRIPTOR_TYPE_STORAGE_IMAGE
SAMPLED_IMAGE = vk.VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE
SAMPLER = vk.VK_DESCRIPTOR_TYPE_SAMPLER
COMBINED = vk.VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER
_TYPES = {"image": SAMPLED_IMAGE, "sampler": SAMPLER, "combined": COMBINED}
_BLOCKS = {"buffer": STORAGE, "uniform": UNIFORM}
#: Of clspv's masks of samplers: the bit of the filter, and the modes of the addresses that do not
#: clamp, by their number.
_LINEAR = 0x20
_ADDRESSES = {2: "border", 3: "repeat", 4: "mirror"}
_GENERAL = vk.VK_IMAGE_LAYOUT_GENERAL

_STAGE = vk.VK_SHADER_STAGE_COMPUTE_BIT
#: The number of launches that descriptor sets are allocated for: first a few, then more.
_FEW = 4
_MANY = 64
_FORM = "pipeline cache"
_PIPELINES = DiskCache("vulkan")

_COMPUTE = vk.VK_PIPELINE_BIND_POINT_COMPUTE


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
    images : list of ((int, int), int, int)
        For each place of an image or a sampler that the shader uses: the numbers of the image and
        of the sampler; -1 for none.
    uniforms : list of (str, int, int, (int, int))
        For each uniform buffer, and each storage buffer that the launch fills: whether its content
        is a "block", an "argument", or the "data" of the shader; the number of either; its size;
        its (set, binding).
    data : list of bytes
        The data of the shader.
    literals : dict
        The mask of each sampler that the source has in place of an argument, by its number in
        `images`, which is below -1.
    addresses : list of int
        The number of each argument that is an address.
    push : int
        The number of the block of push constants; -1 for none.
    push_size : int
        Its size in bytes, rounded up to a multiple of 4 as Vulkan requires.
    """

    def __init__(self, shader: Shader) -> None:
        interface = shader.interface
        self.buffers: list[tuple[int, tuple[int, int]]] = []
        self.uniforms: list[tuple[str, int, int, tuple[int, int]]] = []
        self.data: list[bytes] = []
        self.literals: dict[int, int] = {}
        self.bindings: dict[tuple[int, int], int] = {}
        self.images: list[tuple[tuple[int, int], int, int]] = []
        self.addresses = [
            number
            for number, param in enumerate(interface.params)
            if param.kind == "scalar" and param.type == "handle"
        ]
        self.push = -1
        self.push_size = 0
        opaque = self._place_arguments(shader)
        # An image that the shader does not use has no descriptor, whose type would be unknown.
        for at, resource in shader.images.items():
            kind = _TYPES[resource.kind]
            if resource.storage:
                kind = STORAGE_IMAGE
            self._place(shader, at, kind)
            sampler = opaque.get((at, "sampler"), -1)
            if shader.launch is not None and at in shader.launch.samplers:
                sampler = -2 - len(self.literals)
                self.literals[sampler] = shader.launch.samplers[at]
            self.images.append((at, opaque.get((at, "image"), -1), sampler))
        self._place_blocks(shader)
        self.sets = max((number for number, _ in self.bindings), default=-1) + 1

    def _place_arguments(self, shader: Shader) -> dict[tuple[Any, str], int]:
        """Set the places of buffers and uniforms. Return the numbers of images and samplers."""
        opaque: dict[tuple[Any, str], int] = {}
        for number, param in enumerate(shader.interface.params):
            if param.at is None:
                continue  # clspv gives no place to what the kernel does not use
            if param.kind == "buffer":
                self.buffers.append((number, self._place(shader, param.at, STORAGE)))
            elif param.kind == "uniform":
                place = self._place(shader, param.at, UNIFORM)
                self.uniforms.append(("argument", number, bytes_of(param.type), place))
            elif (
                param.kind in ("image", "sampler")
                and opaque.setdefault((param.at, param.kind), number) != number
            ):
                raise self._error(shader, param.at, "which another argument uses")
        return opaque

    def _place_blocks(self, shader: Shader) -> None:
        """Set the places of the blocks of scalars, and of the data of the shader."""
        kinds = {each.at: each.kind for each in shader.reflected.resources}
        for number, block in enumerate(shader.interface.blocks):
            if block.at == "push":
                self.push = number
                self.push_size = -(-block.size // 4) * 4
            else:
                place = self._place(shader, block.at, _BLOCKS[kinds.get(block.at, "uniform")])
                self.uniforms.append(("block", number, block.size, place))
        if shader.launch is None:
            return
        for at, (kind, data) in shader.launch.data.items():
            if at in kinds:
                place = self._place(shader, at, _BLOCKS[kind])
                self.uniforms.append(("data", len(self.data), len(data), place))
                self.data.append(data)

    def samplers(self, device: Device) -> dict[int, Sampler]:
        """Return the samplers of `literals`."""
        return {number: _literal(device, mask) for number, mask in self.literals.items()}

    def _place(self, shader: Shader, at: Any, kind: int) -> tuple[int, int]:
        if at in self.bindings:
            raise self._error(shader, at, "which another argument uses")
        if not isinstance(at, tuple) or max(at) > 0xFFFF:
            raise self._error(shader, at, "expected (set, binding)")
        self.bindings[at] = kind
        return at

    def _error(self, shader: Shader, at: Any, problem: str) -> FormatError:
        return FormatError(
            f"the interface of the vulkan function {shader.name!r} places an argument at {at!r}, {problem}",
            kind="vulkan",
            function=shader.name,
        )


def _literal(device: Device, mask: int) -> Sampler:
    """Return the sampler of a mask of clspv's."""
    filter_ = "nearest"
    if mask & _LINEAR:
        filter_ = "linear"
    address = _ADDRESSES.get(mask >> 1 & 7, "clamp")
    return device.sampler(filter=filter_, address=address, normalized=bool(mask & 1))


def check_sizes(
    device: Device, name: str, interface: Interface, places: Places, values: Sequence[Any]
) -> None:
    """Raise LaunchError if an array exceeds the device's maxStorageBufferRange."""
    most = device.limits["maxStorageBufferRange"]
    for number, _ in places.buffers:
        if values[number].nbytes > most:
            own_name = interface.params[number].name
            label = f"argument {number + 1}{own_name and f' {own_name!r}'}"
            problem = f"its maxStorageBufferRange is {most}, but {label} has {values[number].nbytes} bytes"
            raise device.invalid_launch(name, problem, own_name or str(number + 1))


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
    block
        The block of threads, for a shader of clspv, which may get it in push constants.

    Raises
    ------
    CompileError
        The driver rejects it.
    """

    def __init__(
        self,
        shader: Shader,
        logical: Logical,
        constants: Sequence[tuple[int, bytes]],
        block: tuple[int, int, int] = (1, 1, 1),
    ) -> None:
        self.logical = logical
        self.places = places = Places(shader)
        self.name = shader.name
        self._interface = shader.interface
        self.most_bytes = logical.physical.limits["maxStorageBufferRange"]
        self.pack = None
        if shader.interface.blocks:
            self.pack = block_packer(shader.interface)
        align = logical.physical.alignment
        #: For each uniform buffer: its content as in `Places.uniforms`, the offset in the launch's
        #: uniform memory, the size.
        self.uniforms: list[tuple[str, int, int, int]] = []
        self.uniform_bytes = 0
        for source, number, size, _ in places.uniforms:
            self.uniforms.append((source, number, self.uniform_bytes, size))
            self.uniform_bytes += -(-max(size, 1) // align) * align
        self.literals = places.samplers(logical.device)
        self._block = block
        #: The numbers in the push constants that depend on the launch.
        self.pushed: Sequence[tuple[int, int, str]] = ()
        if shader.launch is not None:
            self.pushed = shader.launch.pushed
        #: The handles that are destroyed when this object is collected.
        self._owned: list[tuple[str, Any]] = []
        self._token = logical.lend_handles(self, self._owned)
        self._sets = Pool()
        self._set_count = 0
        types = [*places.bindings.values()]
        self._sizes = {kind: types.count(kind) for kind in {*types}}
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

    def check_sizes(self, values: Sequence[Any]) -> None:
        """Raise LaunchError if an array exceeds the device's maxStorageBufferRange."""
        check_sizes(self.logical.device, self.name, self._interface, self.places, values)

    def _set_layout(self, number: int) -> Any:
        bindings = [
            make(
                "VkDescriptorSetLayoutBinding",
                binding=binding,
                descriptorType=kind,
                descriptorCount=1,
                stageFlags=_STAGE,
            )
            for (set_, binding), kind in self.places.bindings.items()
            if set_ == number
        ]
        items = array("VkDescriptorSetLayoutBinding", bindings)
        info = make("VkDescriptorSetLayoutCreateInfo", bindingCount=len(bindings), pBindings=items)
        return self._own("vkCreateDescriptorSetLayout", "VkDescriptorSetLayout", info)

    def _build(self, shader: Shader, constants: Sequence[tuple[int, bytes]]) -> Any:
        logical = self.logical
        calls = logical.calls
        code = shader.words
        # Mesa's CPU device waits for the block at a fence of memory, and ends threads that take
        # more turns of a loop than others. All memory is ordered at its atomic instructions.
        if logical.physical.name.startswith("llvmpipe"):
            code = shader.words_with_atomic_fences
        words = ffi.new("uint32_t[]", len(code) // 4)
        ffi.memmove(words, code, len(code))
        module = logical.create(
            "vkCreateShaderModule",
            "VkShaderModule",
            make("VkShaderModuleCreateInfo", codeSize=len(code), pCode=words),
        )
        subgroup = shader.interface.subgroup
        size = str(subgroup or "")
        key = _PIPELINES.key(
            _FORM, logical.physical.identity, code, shader.entry, repr(constants), size
        )
        cache, known = self._cache(key)
        try:
            subgroup_size = ffi.NULL
            if subgroup:
                subgroup_size = make(
                    "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo",
                    requiredSubgroupSize=subgroup,
                )
            stage = make(
                "VkPipelineShaderStageCreateInfo",
                pNext=subgroup_size,
                stage=_STAGE,
                module=module,
                pName=ffi.new("char[]", shader.entry.encode()),
                pSpecializationInfo=_specialization(constants),
            )
            info = make(
                "VkComputePipelineCreateInfo",
                stage=stage[0],
                layout=self.layout,
                basePipelineIndex=-1,
            )
            out = ffi.new("VkPipeline *")
            status = calls.vkCreateComputePipelines(logical.handle, cache, 1, info, ffi.NULL, out)
            if status < 0:
                raise CompileError(
                    f"{logical.device} cannot build the shader of the vulkan function {shader.name!r}: vkCreateComputePipelines failed "
                    f"with {error_name(status)}",
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
        """Return a VkPipelineCache and its initial bytes, which are those of the disk cache if
        their header fits. It is NULL on failure.
        """
        logical = self.logical
        known = _PIPELINES.read(key) or b""
        if known[:32] != logical.physical.cache_header:
            # From another driver, though the key is right: some drivers crash on such data.
            known = b""
        data = ffi.new("char[]", max(len(known), 1))
        ffi.memmove(data, known, len(known))
        out = ffi.new("VkPipelineCache *")
        info = make("VkPipelineCacheCreateInfo", initialDataSize=len(known), pInitialData=data)
        code = logical.calls.vkCreatePipelineCache(logical.handle, info, ffi.NULL, out)
        if code:
            return ffi.NULL, known
        return out[0], known

    def _store(self, key: str, cache: Any, old_data: bytes) -> None:
        logical = self.logical
        size = ffi.new("size_t *")
        if cache == ffi.NULL or logical.calls.vkGetPipelineCacheData(
            logical.handle, cache, size, ffi.NULL
        ):
            return
        data = ffi.new("char[]", size[0])
        if logical.calls.vkGetPipelineCacheData(logical.handle, cache, size, data) == 0:
            new = bytes(ffi.buffer(data, size[0]))
            if new != old_data:
                _PIPELINES.write(key, new)

    def push(self, data: bytes, grid: tuple[int, int, int]) -> bytes:
        """Return push constants with the numbers that depend on the launch."""
        threads = [blocks * size for blocks, size in zip(grid, self._block, strict=True)]
        numbers = {"zero": (0, 0, 0), "block": self._block, "threads": threads, "grid": grid}
        result = bytearray(data)
        for offset, size, name in self.pushed:
            words = b"".join((each & 0xFFFFFFFF).to_bytes(4, "little") for each in numbers[name])
            result[offset : offset + size] = words[:size].ljust(size, b"\0")
        return bytes(result)

    # -- descriptor sets

    def lend_sets(self, user: object) -> tuple[Any, object]:
        """Return an array of descriptor sets for one launch, and a token. `user` must reference the
        token while it uses the sets.
        """
        try:
            sets = self._sets.take()
        except IndexError:
            number = _FEW
            if self._set_count:
                number = _MANY
            sets, *others = self._make_sets(number)
            self._set_count += 1 + len(others)
            self._sets.add(others)
        return sets, self._sets.lend(user, sets)

    def _make_sets(self, number: int) -> list[Any]:
        sizes = [
            make("VkDescriptorPoolSize", type=kind, descriptorCount=count * number)
            for kind, count in self._sizes.items()
        ]
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
        self.logical.check(
            self.logical.calls.vkAllocateDescriptorSets(self.logical.handle, info, out),
            "cannot allocate descriptor sets",
        )
        return [
            array("VkDescriptorSet", [out[start + each] for each in range(sets)])
            for start in range(0, number * sets, sets)
        ]


def _specialization(constants: Sequence[tuple[int, bytes]]) -> Any:
    if not constants:
        return ffi.NULL
    entries = []
    data = b""
    for number, value in constants:
        entries.append(
            make("VkSpecializationMapEntry", constantID=number, offset=len(data), size=len(value))
        )
        data += value
    return make(
        "VkSpecializationInfo",
        mapEntryCount=len(entries),
        pMapEntries=array("VkSpecializationMapEntry", entries),
        dataSize=len(data),
        pData=ffi.new("char[]", data),
    )


# -- Launches: descriptor sets, the memory of uniform blocks, and a command buffer. A batch has one
# command buffer for its launches.


class Launchable:
    """A launch that can be recorded repeatedly, and submitted.

    Attributes
    ----------
    handle
        The VkCommandBuffer of `record`; None before its first call.
    """

    __slots__ = (
        "__weakref__",
        "_grid",
        "_image_infos",
        "_infos",
        "_pipeline",
        "_push",
        "_recorder",
        "_sets",
        "_token",
        "_uniforms",
        "_writes",
        "handle",
        "info",
        "stream_number",
    )

    def __init__(self, pipeline: Pipeline) -> None:
        self._sets: Any = None
        self._pipeline = pipeline
        places = pipeline.places
        self._recorder: Recorder | None = None
        self.handle: Any = None
        #: The VkSubmitInfo for the stream of that number. It does not reference the stream, which
        #: references this until it is done.
        self.info: Any = None
        self.stream_number = -1
        self._uniforms: Memory | None = None
        if pipeline.uniforms:
            self._uniforms = pipeline.logical.staging.allocate(pipeline.uniform_bytes)
        number = len(places.bindings)
        if not number:
            return
        self._sets, self._token = pipeline.lend_sets(self)
        self._image_infos = ffi.new("VkDescriptorImageInfo[]", len(places.images))
        self._infos = ffi.new("VkDescriptorBufferInfo[]", number)
        targets = [(at, vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER) for _, at in places.buffers]
        targets += [(at, places.bindings[at]) for *_, at in places.uniforms]
        writes = [
            self._write(at, kind, pBufferInfo=self._infos + index)
            for index, (at, kind) in enumerate(targets)
        ]
        for index, (at, _, sampler) in enumerate(places.images):
            if sampler in pipeline.literals:
                self._image_infos[index].sampler = pipeline.literals[sampler].handle
            writes.append(
                self._write(at, places.bindings[at], pImageInfo=self._image_infos + index)
            )
            self._image_infos[index].imageLayout = _GENERAL
        self._writes = array("VkWriteDescriptorSet", writes)
        for index, (*_, offset, size) in enumerate(pipeline.uniforms, len(places.buffers)):
            assert self._uniforms is not None
            entry = self._infos[index]
            entry.buffer = self._uniforms.buffer
            entry.offset = self._uniforms.offset + offset
            # Mesa's CPU device reads whole words, and gets 0 for one that is not all in the range.
            entry.range = -(-size // 4) * 4

    def _write(self, at: tuple[int, int], kind: int, **info: Any) -> Any:
        """Return the VkWriteDescriptorSet of a binding."""
        set_, binding = at
        return make(
            "VkWriteDescriptorSet",
            dstSet=self._sets[set_],
            dstBinding=binding,
            descriptorCount=1,
            descriptorType=kind,
            **info,
        )

    def record(self, begin: Any, grid: tuple[int, int, int], values: Sequence[Any]) -> None:
        """Set the grid and the arguments as `write` does, and record the launch into the command
        buffer `handle`.

        Parameters
        ----------
        begin
            `ONE_TIME` or `REUSABLE`.
        grid, values
            Those of `write`.

        Raises
        ------
        LaunchError
            An array exceeds the device's maxStorageBufferRange, or the driver fails.
        """
        self.write(grid, values)
        logical = self._pipeline.logical
        if self._recorder is None:
            self._recorder = logical.commands.recorder()
            self.handle = self._recorder.handle
        self._recorder.record(logical, begin, (self.dispatch,))

    def write(self, grid: tuple[int, int, int], values: Sequence[Any]) -> None:
        """Set the grid and the arguments of `dispatch`. No earlier recording may be pending.

        Parameters
        ----------
        grid
            The number of blocks in x, y and z.
        values
            The arguments.

        Raises
        ------
        LaunchError
            An array exceeds the device's maxStorageBufferRange.
        """
        pipeline = self._pipeline
        places = pipeline.places
        logical = pipeline.logical
        logical.check_open()
        for index, (number, _) in enumerate(places.buffers):
            memory = values[number]
            if memory.nbytes > pipeline.most_bytes:
                pipeline.check_sizes(values)
            memory.used = True
            entry = self._infos[index]
            entry.buffer = memory.buffer
            entry.offset = memory.offset
            entry.range = memory.nbytes
        for index, (_, image, sampler) in enumerate(places.images):
            entry = self._image_infos[index]
            if image >= 0:
                entry.imageView = values[image].handle.view
            if sampler >= 0:
                entry.sampler = values[sampler].handle
        if places.addresses:
            values = [*values]  # the submission keeps the memory in the caller's
            for number in places.addresses:
                if type(values[number]) is Memory:
                    values[number] = values[number].take_address().to_bytes(8, "little")
        blocks: Sequence[bytes] = ()
        if pipeline.pack is not None:
            blocks = pipeline.pack(values)
        if self._uniforms is not None:
            self._fill(self._uniforms, {"block": blocks, "data": places.data, "argument": values})
        if self._sets is not None:
            logical.calls.vkUpdateDescriptorSets(
                logical.handle, len(places.bindings), self._writes, 0, ffi.NULL
            )
        self._grid = grid
        self._push = b""
        if places.push >= 0:
            self._push = blocks[places.push].ljust(places.push_size, b"\0")
            if pipeline.pushed:
                self._push = pipeline.push(self._push, grid)

    def _fill(self, memory: Memory, contents: Mapping[str, Sequence[Any]]) -> None:
        """Write the content of the uniform buffers."""
        for source, number, offset, size in self._pipeline.uniforms:
            data = contents[source][number]
            place = ffi.cast("char *", memory.address + offset)
            ffi.memmove(place, data, min(size, len(data)))

    def dispatch(self, handle: Any) -> None:
        """Record the commands of the launch into a VkCommandBuffer."""
        pipeline = self._pipeline
        places = pipeline.places
        calls = pipeline.logical.calls
        calls.vkCmdBindPipeline(handle, _COMPUTE, pipeline.handle)
        if self._sets is not None:
            calls.vkCmdBindDescriptorSets(
                handle, _COMPUTE, pipeline.layout, 0, places.sets, self._sets, 0, ffi.NULL
            )
        if places.push >= 0:
            calls.vkCmdPushConstants(
                handle, pipeline.layout, _STAGE, 0, places.push_size, ffi.from_buffer(self._push)
            )
        calls.vkCmdDispatch(handle, *self._grid)
