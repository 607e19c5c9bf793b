/* The arena: one memfd that the worker maps as well. Each device and the host have a slice of its
 * addresses.
 *
 * A process can access the addresses of pinned and managed memory; those of device memory are
 * reserved, so that a dereference of a device pointer faults as on hardware. The stand-in has a
 * second mapping (the view) for its own copies. Addresses are not reused before a slice is through,
 * with a gap between blocks, so that an access to freed memory or beyond a block is detected.
 */
#include "standin.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ALIGNMENT = 512, GAP = 4096, PATTERN_BYTES = 4 << 20, PATTERN = 0xa5 };
enum { LARGE = 1 << 20, PAGE = 2 << 20 };

typedef struct {
    Block *blocks; /* sorted by start */
    size_t count;
    uint64_t cursor, used;
} Slice;

static Slice slices[ARENA_SLICES];
static int fd = -1;
static uint64_t base;
static unsigned char *view;
static uint64_t block_number;

/* Return the bytes of the arena, of all slices. */
uint64_t arena_size(void) {
    return SLICE_BYTES * ARENA_SLICES;
}

/* Return the descriptor of the memfd. */
int arena_fd(void) {
    return fd;
}

/* Return the address of the arena. */
uint64_t arena_base(void) {
    return base;
}

/* Reserve addresses for the arena, low ones: another stand-in driver of the process may have the
 * first, a sanitizer's shadow the next. */
static bool reserve(void) {
    for (base = UINT64_C(7) << 40; base < UINT64_C(64) << 40; base += UINT64_C(1) << 40)
        if (mmap((void *)(uintptr_t)base, arena_size(), PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
                 0) != MAP_FAILED)
            return true;
    return false;
}

static bool map_memory(void) {
    struct rlimit files; /* beyond it, ftruncate ends the process with a signal */
    if (getrlimit(RLIMIT_FSIZE, &files) || files.rlim_cur < arena_size())
        return false;
    fd = memfd_create("devmod-standin", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)arena_size()) || !reserve())
        return false;
    void *devices = mmap((void *)(uintptr_t)base, SLICE_BYTES * ARENA_DEVICES, PROT_NONE,
                         MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
    void *host = mmap((void *)(uintptr_t)(base + SLICE_BYTES * ARENA_HOST), SLICE_BYTES,
                      PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
                      (off_t)(SLICE_BYTES * ARENA_HOST));
    view = mmap(NULL, arena_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    for (int i = 0; i < ARENA_SLICES; i++)
        slices[i].cursor = base + SLICE_BYTES * (unsigned)i + GAP;
    return devices != MAP_FAILED && host != MAP_FAILED && view != MAP_FAILED;
}

/* Make the memfd and the mappings. Return whether it worked. */
bool arena_open(void) {
    static bool tried, mapped;
    if (!tried)
        mapped = map_memory();
    tried = true;
    return mapped;
}

/* Return whether an address lies in the arena at all. */
bool arena_contains(uint64_t address) {
    return address >= base && address < base + arena_size();
}

/* Return the stand-in's own view of the memory at `address`: the address itself cannot be accessed
 * by the process for device memory. */
void *arena_view(uint64_t address) {
    return view + (address - base);
}

static Slice *slice_of(uint64_t address) {
    return arena_contains(address) ? &slices[(address - base) / SLICE_BYTES] : NULL;
}

/* Return the index of the first block of a slice that starts behind `address`. */
static size_t index_behind(const Slice *slice, uint64_t address) {
    size_t low = 0, high = slice->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (slice->blocks[middle].start > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Return the block that contains [address, address + size), or NULL. The pointer is valid until the
 * next call that changes blocks. */
Block *arena_block(uint64_t address, uint64_t size) {
    Slice *slice = slice_of(address);
    size_t index = slice ? index_behind(slice, address) : 0;
    if (!index)
        return NULL;
    Block *block = &slice->blocks[index - 1];
    uint64_t offset = address - block->start;
    return offset < block->size && size <= block->size - offset ? block : NULL;
}

static uint64_t aligned(uint64_t value, uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

static uint64_t rounded(uint64_t size) {
    return aligned(size, ALIGNMENT);
}

/* Return the alignment of a block. NVIDIA's driver gives large ones pages of their own, which
 * programs rely on. */
static uint64_t alignment_of(uint64_t size) {
    return size < LARGE ? ALIGNMENT : PAGE;
}

/* Return an address behind `from` with `size` free bytes and gaps at both ends, or 0. */
static uint64_t free_address(const Slice *slice, uint64_t end, uint64_t from, uint64_t size) {
    for (size_t i = index_behind(slice, from);; i++) {
        if (i && slice->blocks[i - 1].start + slice->blocks[i - 1].size + GAP > from)
            from = slice->blocks[i - 1].start + slice->blocks[i - 1].size + GAP;
        from = aligned(from, alignment_of(size));
        uint64_t next = i < slice->count ? slice->blocks[i].start : end;
        if (from + size + GAP <= next)
            return from;
        if (i >= slice->count)
            return 0;
    }
}

static Block *insert_block(Slice *slice, uint64_t start, uint64_t size) {
    slice->blocks = with_room(slice->blocks, slice->count, sizeof *slice->blocks);
    size_t index = index_behind(slice, start);
    memmove(slice->blocks + index + 1, slice->blocks + index,
            (slice->count - index) * sizeof *slice->blocks);
    slice->blocks[index] = (Block){.start = start,
                                   .size = size,
                                   .number = ++block_number,
                                   .live = true,
                                   .preferred = -2,
                                   .prefetched = -2};
    slice->count++;
    return &slice->blocks[index];
}

/* Allocate `size` bytes of a device (kind device or managed) or of the host, and set *block. Return
 * 0 or a code. */
int arena_allocate(BlockKind kind, int device, uint64_t size, uint64_t limit, void *owner,
                   Block **block) {
    int number = kind == BLOCK_DEVICE ? device : ARENA_HOST;
    Slice *slice = &slices[number];
    uint64_t start = base + SLICE_BYTES * (unsigned)number + GAP, end = start - GAP + SLICE_BYTES;
    uint64_t used = slices[number].used;
    if (size > SLICE_BYTES / 2 || rounded(size) > limit || used > limit - rounded(size))
        return CODE_OUT_OF_MEMORY;
    uint64_t address = free_address(slice, end, slice->cursor, size);
    if (!address)
        address = free_address(slice, end, start, size);
    if (!address)
        return CODE_OUT_OF_MEMORY;
    *block = insert_block(slice, address, size);
    (*block)->kind = kind;
    (*block)->device = device;
    (*block)->owner = owner;
    slice->used += rounded(size);
    slice->cursor = address + size + GAP;
    arena_renew(*block);
    return 0;
}

/* Begin a block of mapped memory at an address in ARENA_VIRTUAL, and end one: the memory behind it
 * stays. */
Block *arena_place(uint64_t start, uint64_t size, int device) {
    Block *block = insert_block(&slices[ARENA_VIRTUAL], start, size);
    block->device = device;
    block->internal = true;
    return block;
}

/* Take or give back bytes of a device without addresses. Return whether it has them. */
bool arena_charge(int device, uint64_t size, uint64_t limit) {
    if (size > limit || slices[device].used > limit - size)
        return false;
    slices[device].used += size;
    return true;
}

void arena_discharge(int device, uint64_t size) {
    slices[device].used -= size;
}

/* Give a block the contents of new memory, which are not defined. A pattern shows a read before the
 * first write; zeros would hide it. */
void arena_renew(const Block *block) {
    uint64_t size = block->size < PATTERN_BYTES ? block->size : PATTERN_BYTES;
    memset(arena_view(block->start), PATTERN, size);
}

/* Make the memory behind a range zeros that take no room. */
void arena_clear(uint64_t start, uint64_t size) {
    uint64_t first = (start - base) / 4096 * 4096,
             last = (start - base + size + 4095) / 4096 * 4096;
    /* The gap keeps other blocks out of these pages. */
    (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first,
                     (off_t)(last - first));
}

static void take_out(Slice *slice, size_t index) {
    slice->count--;
    memmove(slice->blocks + index, slice->blocks + index + 1,
            (slice->count - index) * sizeof *slice->blocks);
}

static void remove_block(Slice *slice, size_t index) {
    Block block = slice->blocks[index];
    arena_clear(block.start, block.size);
    slice->used -= rounded(block.size);
    take_out(slice, index);
}

void arena_unplace(uint64_t start) {
    Slice *slice = &slices[ARENA_VIRTUAL];
    size_t index = index_behind(slice, start);
    if (index && slice->blocks[index - 1].start == start)
        take_out(slice, index - 1);
}

/* Free the block that starts at `start`; the memory behind it is gone. Return whether there is one.
 */
bool arena_free(uint64_t start) {
    Slice *slice = slice_of(start);
    size_t index = slice ? index_behind(slice, start) : 0;
    if (!index || slice->blocks[index - 1].start != start)
        return false;
    remove_block(slice, index - 1);
    return true;
}

/* Free all blocks of an owner. */
void arena_free_owner(void *owner) {
    for (int i = 0; i < ARENA_SLICES; i++)
        for (size_t j = slices[i].count; j-- > 0;)
            if (slices[i].blocks[j].owner == owner)
                remove_block(&slices[i], j);
}

/* Return the bytes that a device's blocks (or the host's, ARENA_HOST) take. */
uint64_t arena_used(int slice) {
    return slices[slice].used;
}

/* Return the number of blocks in a slice, and one of them. */
size_t arena_count(int slice) {
    return slices[slice].count;
}

Block *arena_at(int slice, size_t index) {
    return &slices[slice].blocks[index];
}
