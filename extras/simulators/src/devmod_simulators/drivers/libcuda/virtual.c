/* Virtual memory: ranges of addresses, memory of devices, and the maps of one to the other.
 *
 * Memory has its bytes behind the addresses that it is mapped to, and elsewhere while it is not
 * mapped. So it can be mapped to one range at a time. Maps next to each other with the same access
 * are one allocation for all else, as for a device.
 */
#include "cuda_standin.h"

#include <stdlib.h>
#include <string.h>

#define GRANULARITY (UINT64_C(2) << 20)

typedef struct {
    CUmemAllocationProp properties;
    uint64_t size;
    void *handle;            /* NULL once it is released as often as it was given */
    unsigned references;     /* of the program */
    unsigned char *contents; /* while it is not mapped; NULL for new memory */
    bool mapped;
} Physical;

typedef struct {
    uint64_t start;
    Physical *memory;
    unsigned access; /* a bit for each device */
} Map;

typedef struct Range {
    struct Range *next; /* by address */
    uint64_t start, size;
    Map *maps; /* by address */
    size_t count;
} Range;

static Range *ranges;

static Range *range_of(uint64_t start, uint64_t size) {
    for (Range *range = ranges; range; range = range->next)
        if (start >= range->start && inside(range->size, start - range->start, size))
            return range;
    return NULL;
}

static Map *map_at(uint64_t address) {
    Range *range = range_of(address, 1);
    for (size_t i = 0; range && i < range->count; i++)
        if (address >= range->maps[i].start &&
            address - range->maps[i].start < range->maps[i].memory->size)
            return &range->maps[i];
    return NULL;
}

static CUresult check_properties(const CUmemAllocationProp *prop) {
    CHECK(prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    CHECK(prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    CHECK(device_valid(prop->location.id), CUDA_ERROR_INVALID_DEVICE);
    return CUDA_SUCCESS;
}

API_IF((ptr && size && size % GRANULARITY == 0 && !(alignment & (alignment - 1)) && !flags),
       cuMemAddressReserve, READY) {
    uint64_t first = arena_base() + SLICE_BYTES * ARENA_VIRTUAL + GRANULARITY;
    uint64_t end = first - GRANULARITY + SLICE_BYTES, step = GRANULARITY;
    if (alignment > step)
        step = alignment;
    uint64_t start = (first + step - 1) / step * step;
    Range **place = &ranges;
    /* A range follows the one before with a gap, which shows accesses beyond it. */
    while (*place && (*place)->start < start + size + GRANULARITY) {
        start = ((*place)->start + (*place)->size + GRANULARITY + step - 1) / step * step;
        place = &(*place)->next;
    }
    CHECK(start < end && size <= end - start, CUDA_ERROR_OUT_OF_MEMORY);
    Range *range = zeroed(sizeof *range);
    *range = (Range){.next = *place, .start = start, .size = size};
    *place = range;
    *ptr = start;
    return CUDA_SUCCESS;
}

API(cuMemAddressFree, READY) {
    for (Range **place = &ranges; *place; place = &(*place)->next) {
        Range *range = *place;
        if (range->start != ptr || range->size != size || range->count)
            continue;
        *place = range->next;
        free(range->maps);
        free(range);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

API_IF((granularity && option <= CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
       cuMemGetAllocationGranularity, READY) {
    TRY(check_properties(prop));
    *granularity = GRANULARITY;
    return CUDA_SUCCESS;
}

API_IF((handle && size && size % GRANULARITY == 0 && !flags), cuMemCreate, READY) {
    TRY(check_properties(prop));
    if (prop->requestedHandleTypes) {
        explain("the simulated GPU does not export memory to other processes");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    CHECK(arena_charge(prop->location.id, size, device_memory()), CUDA_ERROR_OUT_OF_MEMORY);
    Physical *memory = zeroed(sizeof *memory);
    *memory = (Physical){.properties = *prop, .size = size, .references = 1};
    memory->handle = handle_make(HANDLE_PHYSICAL, memory, NULL);
    *handle = (uintptr_t)memory->handle;
    return CUDA_SUCCESS;
}

static Physical *memory_of(CUmemGenericAllocationHandle handle) {
    return handle_get(HANDLE_PHYSICAL, (void *)(uintptr_t)handle);
}

static void drop_unused(Physical *memory) {
    if (memory->references || memory->mapped)
        return;
    arena_discharge(memory->properties.location.id, memory->size);
    free(memory->contents);
    free(memory);
}

API(cuMemRelease, READY) {
    Physical *memory = memory_of(handle);
    CHECK(memory, CUDA_ERROR_INVALID_VALUE);
    if (!--memory->references) {
        handle_drop(HANDLE_PHYSICAL, memory->handle);
        memory->handle = NULL;
    }
    drop_unused(memory);
    return CUDA_SUCCESS;
}

API_IF(prop, cuMemGetAllocationPropertiesFromHandle, READY) {
    Physical *memory = memory_of(handle);
    CHECK(memory, CUDA_ERROR_INVALID_VALUE);
    *prop = memory->properties;
    return CUDA_SUCCESS;
}

API_IF(handle, cuMemRetainAllocationHandle, READY) {
    Map *map = map_at((uintptr_t)addr);
    CHECK(map, CUDA_ERROR_INVALID_VALUE);
    Physical *memory = map->memory;
    if (!memory->references++)
        memory->handle = handle_make(HANDLE_PHYSICAL, memory, NULL);
    *handle = (uintptr_t)memory->handle;
    return CUDA_SUCCESS;
}

/* Make the blocks of a range anew: one for maps next to each other with the same access. */
static void place_blocks(const Range *range) {
    for (size_t i = arena_count(ARENA_VIRTUAL); i-- > 0;) {
        Block *block = arena_at(ARENA_VIRTUAL, i);
        if (block->start < range->start || block->start >= range->start + range->size)
            continue;
        uint64_t start = block->start;
        note_freed(start, note_freeing(block));
        arena_unplace(start);
    }
    for (size_t i = 0, next; i < range->count; i = next) {
        const Map *map = &range->maps[i];
        uint64_t end = map->start + map->memory->size;
        for (next = i + 1; next < range->count && range->maps[next].start == end &&
                           range->maps[next].access == map->access;
             next++)
            end += range->maps[next].memory->size;
        if (!map->access)
            continue;
        Block *block =
            arena_place(map->start, end - map->start, map->memory->properties.location.id);
        block->accessed_by = map->access;
        note_allocated(block);
    }
}

API_IF((size && !offset && !flags && ptr % GRANULARITY == 0), cuMemMap, READY) {
    Physical *memory = memory_of(handle);
    Range *range = range_of(ptr, size);
    CHECK(memory && range && size == memory->size, CUDA_ERROR_INVALID_VALUE);
    if (memory->mapped) {
        explain("the simulated GPU maps memory to one range of addresses at a time");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    size_t index = 0;
    while (index < range->count && range->maps[index].start < ptr)
        index++;
    const Map *before = index ? &range->maps[index - 1] : NULL;
    CHECK(!before || before->start + before->memory->size <= ptr, CUDA_ERROR_INVALID_VALUE);
    CHECK(index == range->count || ptr + size <= range->maps[index].start,
          CUDA_ERROR_INVALID_VALUE);
    range->maps = with_room(range->maps, range->count, sizeof *range->maps);
    memmove(range->maps + index + 1, range->maps + index,
            (range->count - index) * sizeof *range->maps);
    range->maps[index] = (Map){ptr, memory, 0};
    range->count++;
    memory->mapped = true;
    if (memory->contents)
        memcpy(arena_view(ptr), memory->contents, size);
    else
        arena_renew(&(Block){.start = ptr, .size = size});
    free(memory->contents);
    memory->contents = NULL;
    return CUDA_SUCCESS;
}

static void run_work(void *context) {
    if (((Context *)context)->alive)
        context_run(context);
}

static void end_map(const Map *map) {
    Physical *memory = map->memory;
    memory->mapped = false;
    if (memory->references) {
        memory->contents = malloc(memory->size);
        if (memory->contents)
            memcpy(memory->contents, arena_view(map->start), memory->size);
    }
    arena_clear(map->start, memory->size);
    drop_unused(memory);
}

/* Set the numbers of the maps that a part of a range has, if it has no others and no holes. */
static CUresult maps_of(const Range *range, uint64_t start, uint64_t size, size_t *first,
                        size_t *last) {
    CHECK(range, CUDA_ERROR_INVALID_VALUE);
    for (*first = 0; *first < range->count && range->maps[*first].start < start;)
        ++*first;
    uint64_t end = start;
    for (*last = *first;
         *last < range->count && range->maps[*last].start == end && end < start + size;)
        end += range->maps[(*last)++].memory->size;
    CHECK(end == start + size, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

API_IF(size, cuMemUnmap, READY) {
    Range *range = range_of(ptr, size);
    size_t first, last;
    TRY(maps_of(range, ptr, size, &first, &last));
    handle_each(HANDLE_CONTEXT, run_work);
    for (size_t i = first; i < last; i++)
        end_map(&range->maps[i]);
    memmove(range->maps + first, range->maps + last, (range->count - last) * sizeof *range->maps);
    range->count -= last - first;
    place_blocks(range);
    return CUDA_SUCCESS;
}

API_IF((size && desc && count), cuMemSetAccess, READY) {
    Range *range = range_of(ptr, size);
    size_t first, last;
    TRY(maps_of(range, ptr, size, &first, &last));
    for (size_t i = 0; i < count; i++) {
        CHECK(desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
        CHECK(device_valid(desc[i].location.id), CUDA_ERROR_INVALID_DEVICE);
        CHECK(desc[i].flags <= CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CUDA_ERROR_INVALID_VALUE);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = first; j < last; j++) {
            unsigned bit = 1u << desc[i].location.id;
            range->maps[j].access &= ~bit;
            if (desc[i].flags)
                range->maps[j].access |= bit;
        }
    place_blocks(range);
    return CUDA_SUCCESS;
}

API_IF((flags && location), cuMemGetAccess, READY) {
    const Map *map = map_at(ptr);
    CHECK(map && location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_valid(location->id), CUDA_ERROR_INVALID_DEVICE);
    *flags = map->access >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                             : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}
