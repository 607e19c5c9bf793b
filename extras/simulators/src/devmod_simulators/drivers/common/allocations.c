/* Memory: device, pitched, managed, pinned and registered allocations. */
#include "driver.h"

#include <string.h>

enum { REGISTRATIONS = 256 };

static struct {
    const char *start;
    size_t size;
    uint64_t copy; /* the start of its mirror, or 0 */
} registered[REGISTRATIONS];

/* Return the most bytes that memory of a kind may take. */
uint64_t memory_limit(BlockKind kind) {
    if (kind == BLOCK_DEVICE)
        return device_memory();
    return setting_number("host_memory", UINT64_C(4) << 30);
}

/* Return the number of the registration that has some bytes, or -1. */
static int registration_of(uint64_t address, size_t size) {
    const char *pointer = (const char *)(uintptr_t)address;
    for (int i = 0; i < REGISTRATIONS; i++)
        if (registered[i].start && pointer >= registered[i].start && size <= registered[i].size &&
            (size_t)(pointer - registered[i].start) <= registered[i].size - size)
            return i;
    return -1;
}

/* Return whether the host pointer is registered, so that it is a device pointer too. */
bool is_registered(uint64_t address, size_t size) {
    return registration_of(address, size) >= 0;
}

/* Return whether [address, address + size) is host memory that the driver has pinned or registered.
 */
bool is_pinned(const void *address, size_t size) {
    return arena_block((uintptr_t)address, size) || is_registered((uintptr_t)address, size);
}

/* Check that a device pointer and size lie in one allocation. */
int check_range(uint64_t address, uint64_t size, const char *what) {
    Block *block = arena_block(address, size);
    if (!block && is_registered(address, size))
        return CODE_SUCCESS;
    if (!block) {
        explain("%s: %llu bytes at 0x%llx are not within one allocation", what,
                (unsigned long long)size, (unsigned long long)address);
        if (arena_contains(address))
            violation("%s: %llu bytes at 0x%llx are not within one allocation", what,
                      (unsigned long long)size, (unsigned long long)address);
        return CODE_INVALID_VALUE;
    }
    return CODE_SUCCESS;
}

int memory_allocate(BlockKind kind, uint64_t size, unsigned flags, uint64_t *address) {
    Context *context = current_context();
    Block *block;
    CHECK(size, CODE_INVALID_VALUE);
    TRY(refuse_in_capture());
    TRY(arena_allocate(kind, context->device, size, memory_limit(kind), context, &block));
    block->flags = flags;
    note_allocated(block);
    *address = block->start;
    return CODE_SUCCESS;
}

/* Return the block that starts at an address, if the program may free it, or NULL. */
Block *freeable_block(uint64_t address) {
    Block *block = arena_block(address, 1);
    bool is_start = block && block->start == address && !block->internal;
    return is_start && (!block->of_graph || block->claimed) ? block : NULL;
}

/* Free memory, after the pending work of the context unless the setting "frees_wait" is 0 and the
 * vendor documents no wait. */
int memory_release(uint64_t address, bool host) {
    Block *block = freeable_block(address);
    if (!block || (block->kind == BLOCK_HOST) != host) {
        violation("0x%llx is freed and is not the start of %s allocation",
                  (unsigned long long)address, host ? "a host" : "a device");
        return CODE_INVALID_VALUE;
    }
    int result = vendor.frees_wait || setting_number("frees_wait", 1) ? context_run(block->owner)
                                                                      : CODE_SUCCESS;
    block = arena_block(address, 1);
    block->claimed = false;
    note_freed(address, note_freeing(block));
    allocation_end(address);
    return result;
}

/* ---- mirrors: kernels run in a process of their own, which has not the registered memory, so a
 * block of the arena stands for it once its device address is asked for
 * ------------------------------------------------------------------------------------------------
 */

/* Return the mirror of a registration, or NULL. That of a context that ended is gone. */
static Block *mirror_of(int number) {
    Block *block = NULL;
    if (registered[number].start && registered[number].copy)
        block = arena_block(registered[number].copy, 1);
    return block && (const char *)block->mirror == registered[number].start ? block : NULL;
}

/* Set *result to the address by which kernels access pinned or registered memory. */
int memory_device_address(uint64_t address, uint64_t *result) {
    Context *context = current_context();
    *result = address;
    if (arena_block(address, 1))
        return CODE_SUCCESS;
    int number = registration_of(address, 1);
    CHECK(number >= 0, CODE_INVALID_VALUE);
    Block *block = mirror_of(number);
    if (!block) {
        TRY(arena_allocate(BLOCK_HOST, context->device, registered[number].size,
                           memory_limit(BLOCK_HOST), context, &block));
        block->internal = true;
        block->mirror = (unsigned char *)(uintptr_t)registered[number].start;
        registered[number].copy = block->start;
        note_allocated(block);
    }
    *result = block->start + (address - (uintptr_t)registered[number].start);
    return CODE_SUCCESS;
}

/* Give kernels the registered memory that has such an address, and take it back. */
void mirrors_copy(bool to_host) {
    for (int i = 0; i < REGISTRATIONS; i++) {
        const Block *block = mirror_of(i);
        if (block && to_host)
            memcpy(block->mirror, arena_view(block->start), block->size);
        else if (block)
            memcpy(arena_view(block->start), block->mirror, block->size);
    }
}

int memory_register(void *address, size_t size) {
    CHECK(address && size, CODE_INVALID_VALUE);
    CHECK(!is_pinned(address, 1), CODE_HOST_MEMORY_ALREADY_REGISTERED);
    for (int i = 0; i < REGISTRATIONS; i++) {
        if (registered[i].start)
            continue;
        registered[i].start = address;
        registered[i].size = size;
        registered[i].copy = 0;
        return CODE_SUCCESS;
    }
    return CODE_OUT_OF_MEMORY;
}

int memory_unregister(void *address) {
    for (int i = 0; i < REGISTRATIONS; i++) {
        if (!address || registered[i].start != address)
            continue;
        int result = context_run(current_context());
        Block *copy = mirror_of(i);
        if (copy) {
            note_freed(copy->start, note_freeing(copy));
            arena_free(copy->start);
        }
        registered[i].start = NULL;
        return result;
    }
    return CODE_HOST_MEMORY_NOT_REGISTERED;
}

int memory_info(size_t *free, size_t *total) {
    CHECK(free && total, CODE_INVALID_VALUE);
    uint64_t used = arena_used(current_context()->device);
    *total = device_memory();
    *free = *total > used ? *total - used : 0;
    return CODE_SUCCESS;
}
