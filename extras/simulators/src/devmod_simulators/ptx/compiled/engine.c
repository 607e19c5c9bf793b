/* What all kernels of the compiled engine share: the scheduler of warps, barriers, operations of a
 * warp, and accesses to memory that are not in a row. LLVM's code calls these by pointers. */
#include <fenv.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WARP = 32,
    CHUNK = 8,
    BARRIERS = 16,
    WINDOW_SHIFT = 44,
    PATIENCE = 32,
    LONG_PATIENCE = 16,
    STALLED = 8,
    BUDGET = 4096,
    PIECE = 1 << 16 /* bytes of memory that are kept at once */
};
#define SLICE 50000000 /* nanoseconds after which a launch returns to Python */
enum { GLOBAL, SHARED, LOCAL, PARAM, GENERIC };
enum { LOAD, STORE, ATOMIC };
enum { DONE, YIELDED, FAULT, PAUSED };
enum { NO_FAULT, OUTSIDE, MISALIGNED, TRAP, BAD_TABLE, DEADLOCK, NO_MEMORY, ASSERTION };
#define HEAP (1ull << 47)
#define WINDOW(number) ((1ull << 48) + ((uint64_t)(number) << WINDOW_SHIFT))

/* The range that an access to memory has met last. `places` is the number of offsets in it that a
 * lane may have: none at first. */
typedef struct {
    uint64_t start, places;
} Window;

typedef struct {
    uint32_t kind, space, width, count, alignment, operation;
} Site;

/* The addresses that an instruction may access in a space, with checks. */
typedef struct {
    uint64_t start, end;
} Limit;

/* Memory as it was before the launch wrote to it. */
typedef struct Kept {
    struct Kept *next;
    uint8_t *place;
    size_t size;
    uint8_t data[];
} Kept;

/* What a launch with checks has written to. Of each range: the number of its first piece, and how
 * many of its pieces are not kept. */
typedef struct {
    uint64_t lock;
    const uint64_t *first;
    uint64_t *left;
    uint8_t *is_kept;
    Kept *kept;
} Undo;

/* A unit of instructions in which lanes wait: for a barrier by its number, or (-1) for others of
 * their warp; -2 is bar.warp.sync. */
typedef struct {
    int32_t number;
    uint32_t unit, next;
} Wait;

typedef struct Context Context;
typedef struct Block Block;

typedef struct {
    uint32_t alive, now, fuel, last;
    Block *block;
    uint8_t *local;
    uint32_t member[WARP];
    uint32_t thread[3][WARP];
    uint32_t number, pauses, ready, unused; /* ready: units with lanes */
    /* The units with lanes, the lanes of each, those that wait there, registers, scratch. */
    uint64_t rest[];
} Warp;

typedef struct {
    uint32_t arrived, expected, count, last_count, last_arrived;
} Barrier;

struct Block {
    uint64_t number;
    uint32_t alive, rounds, is_active, first;
    uint8_t *shared;
    Barrier barriers[BARRIERS];
    uint8_t *warps, *local, *memory;
};

/* A kernel's own numbers. Offsets are those in a warp. */
typedef struct {
    int32_t (*run)(Context *, Warp *, uint32_t);
    uint32_t units, words, set, lanes, waiting, registers, warp_bytes, clears;
    uint32_t frame, wait_count, site_count, can_wait;
    const Wait *waits;
    const Site *sites;
} Kernel;

struct Context {
    void *functions[24];
    void *loops[5], *loop_data[5]; /* NumPy's, of sin and its kin */
    const Kernel *kernel;
    uint64_t delta;                /* from an address of global memory to one of this process */
    const uint64_t *starts, *ends; /* of ranges that a kernel may access, in order */
    uint64_t range_count;
    uint8_t *heap;
    uint64_t heap_size;
    uint8_t *parameters;
    uint64_t parameters_size;
    const uint64_t *symbols;
    uint32_t *numbers; /* special registers that all threads have */
    uint8_t *shared;   /* of the block that runs */
    uint64_t shared_size, shared_readable;
    uint64_t budget; /* passes of loops until a look at the clock */
    uint64_t *next;  /* the first block that no thread has taken */
    uint64_t blocks;
    Window *windows;
    const Limit *limits; /* with checks: of each access to global, shared and local memory */
    Undo *undo;          /* with checks */
    uint32_t grid[3], size[3], place[3], threads;
    uint64_t began, until;
    Block **slots; /* the blocks that have begun and not ended */
    uint32_t count, room, rounds, waits, most, unused;
    uint32_t fault, fault_site, fault_space, fault_lane, fault_unit, fault_count;
    uint64_t fault_address, fault_block, fault_values[4];
};

/* Most warps are whole, and not every processor counts bits. */
static uint32_t count_of(uint32_t lanes) {
    return lanes == ~0u ? WARP : (uint32_t)__builtin_popcount(lanes);
}
static uint32_t *lanes_of(Context *c, Warp *w) {
    return (uint32_t *)((uint8_t *)w + c->kernel->lanes);
}
static uint32_t *waiting_of(Context *c, Warp *w) {
    return (uint32_t *)((uint8_t *)w + c->kernel->waiting);
}
static uint64_t *set_of(Context *c, Warp *w) {
    return (uint64_t *)((uint8_t *)w + c->kernel->set);
}
static Warp *warp_of(Context *c, Block *b, uint32_t number) {
    return (Warp *)(b->warps + (size_t)number * c->kernel->warp_bytes);
}
static uint32_t warps_of(Context *c) {
    return (c->threads + WARP - 1) / WARP;
}

static void make_ready(Context *c, Warp *w, uint32_t unit, uint32_t lanes) {
    w->ready += !lanes_of(c, w)[unit];
    lanes_of(c, w)[unit] |= lanes;
    set_of(c, w)[unit / 64] |= 1ull << unit % 64;
}

static int fail(Context *c, Warp *w, uint32_t what, uint32_t site, uint32_t lane) {
    c->fault = what;
    c->fault_site = site;
    c->fault_lane = w->number * WARP + lane;
    c->fault_block = w->block->number;
    return 1;
}

/* Memory */

static int has(const Limit *limit, uint64_t address, uint32_t size) {
    return address >= limit->start && address <= limit->end && limit->end - address >= size;
}

static void set_window(Window *window, Limit range, const Limit *limit, uint32_t size) {
    if (limit) {
        range.start = range.start > limit->start ? range.start : limit->start;
        range.end = range.end < limit->end ? range.end : limit->end;
    }
    *window = (Window){range.start, range.end - range.start - size + 1};
}

/* Keep the pieces of a range that an instruction writes to. Then a window may have these, or the
 * range if all of it is kept. */
static int keep(Context *c, uint64_t number, uint64_t address, uint32_t size, Limit *range) {
    Undo *undo = c->undo;
    uint64_t start = range->start, end = range->end;
    uint64_t first = (address - start) / PIECE, last = (address - start + size - 1) / PIECE;
    uint8_t *is_kept = undo->is_kept + undo->first[number];
    for (uint64_t k = first; k <= last; k++) {
        if (__atomic_load_n(&is_kept[k], __ATOMIC_ACQUIRE))
            continue;
        uint64_t at = start + k * PIECE;
        size_t room = end - at < PIECE ? end - at : PIECE;
        Kept *kept = malloc(sizeof *kept + room);
        if (!kept)
            return 0;
        while (__atomic_exchange_n(&undo->lock, 1, __ATOMIC_ACQUIRE))
            sched_yield();
        if (is_kept[k]) {
            free(kept);
        } else {
            *kept = (Kept){undo->kept, (uint8_t *)(at + c->delta), room};
            memcpy(kept->data, kept->place, room);
            undo->kept = kept;
            __atomic_fetch_sub(&undo->left[number], 1, __ATOMIC_RELEASE);
            __atomic_store_n(&is_kept[k], 1, __ATOMIC_RELEASE);
        }
        __atomic_store_n(&undo->lock, 0, __ATOMIC_RELEASE);
    }
    if (__atomic_load_n(&undo->left[number], __ATOMIC_ACQUIRE)) {
        range->start = start + first * PIECE;
        range->end =
            end - range->start < (last - first + 1) * PIECE ? end : start + (last + 1) * PIECE;
    }
    return 1;
}

/* Forget what is kept, after it has been written back. */
void engine_forget(Undo *undo, int restores) {
    for (Kept *each = undo->kept, *next; each; each = next) {
        next = each->next;
        if (restores)
            memcpy(each->place, each->data, each->size);
        free(each);
    }
    undo->kept = NULL;
}

static uint8_t *in_global(Context *c, uint64_t address, uint32_t size, uint32_t kind,
                          Window *window, const Limit *limit) {
    uint64_t low = 0, high = c->range_count;
    if (address >= HEAP) {
        uint64_t offset = address - HEAP;
        if (c->undo || !c->heap || offset < 16 || offset > c->heap_size ||
            c->heap_size - offset < size)
            return NULL;
        return c->heap + offset;
    }
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (c->starts[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || address + size > c->ends[low - 1])
        return NULL;
    Limit range = {c->starts[low - 1], c->ends[low - 1]};
    if (c->undo && kind != LOAD && !keep(c, low - 1, address, size, &range))
        return NULL;
    if (window)
        set_window(window, range, limit, size);
    return (uint8_t *)(address + c->delta);
}

static uint8_t *find(Context *c, Warp *w, uint32_t number, uint64_t address, uint32_t lane) {
    const Site *s = &c->kernel->sites[number];
    uint32_t space = s->space, size = s->width * s->count;
    Window *window = &c->windows[number];
    uint8_t *found = NULL;
    uint64_t room = 0;
    if (space == GENERIC) {
        uint64_t which = (address >> WINDOW_SHIFT) - (WINDOW(0) >> WINDOW_SHIFT);
        space = which < 3 ? SHARED + (uint32_t)which : GLOBAL;
        if (space != GLOBAL) {
            address -= WINDOW(which);
            window = NULL;
        }
    }
    const Limit *limit = c->limits && space < PARAM ? &c->limits[number * PARAM + space] : NULL;
    if (!(address & (s->alignment - 1)) && (!limit || has(limit, address, size))) {
        if (space == GLOBAL) {
            found = in_global(c, address, size, s->kind, window, limit);
        } else {
            uint8_t *start = c->parameters;
            room = c->parameters_size;
            if (space == SHARED) {
                room = s->kind == LOAD ? c->shared_readable : c->shared_size;
                start = c->shared;
            } else if (space == LOCAL) {
                room = c->kernel->frame;
                start = w->local + (size_t)lane * ((room + 15) / 16 * 16);
            }
            if (address <= room && room - address >= size) {
                found = start + address;
                if (window && space == SHARED)
                    set_window(window, (Limit){0, room}, limit, size);
            }
        }
    }
    if (!found) {
        c->fault_space = space;
        c->fault_address = address;
        fail(c, w, address & (s->alignment - 1) ? MISALIGNED : OUTSIDE, number, lane);
    }
    return found;
}

/* Where a thread's memory is at an address of any space. */
const uint8_t *engine_find(Context *c, Warp *w, uint32_t site, uint64_t address, uint32_t lane) {
    return find(c, w, site, address, lane);
}

static inline uint8_t *locate(Context *c, Warp *w, uint32_t number, uint64_t address,
                              uint32_t lane) {
    const Site *s = &c->kernel->sites[number];
    const Window *window = &c->windows[number];
    if (address - window->start >= window->places || address & (s->alignment - 1))
        return find(c, w, number, address, lane);
    return s->space == SHARED ? c->shared + address : (uint8_t *)(address + c->delta);
}

#define EACH(i, mask)                                                                              \
    for (uint32_t rest_ = (mask), i; rest_ && (i = (uint32_t)__builtin_ctz(rest_), 1);             \
         rest_ &= rest_ - 1)

/* A copy whose size the compiler knows is one instruction. */
static inline void move(uint8_t *to, const uint8_t *from, uint32_t width) {
    switch (width) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, 8);
    }
}

static int32_t load(Context *c, Warp *w, uint32_t site, uint32_t mask, uint32_t first,
                    const uint64_t *address, uint8_t *out) {
    const Site *s = &c->kernel->sites[site];
    EACH(i, mask) {
        const uint8_t *from = locate(c, w, site, address[i], first + i);
        if (!from)
            return 1;
        for (uint32_t k = 0; k < s->count; k++)
            move(out + (k * CHUNK + i) * s->width, from + k * s->width, s->width);
    }
    return 0;
}

static int32_t store(Context *c, Warp *w, uint32_t site, uint32_t mask, uint32_t first,
                     const uint64_t *address, const uint8_t *values) {
    const Site *s = &c->kernel->sites[site];
    EACH(i, mask) {
        uint8_t *to = locate(c, w, site, address[i], first + i);
        if (!to)
            return 1;
        for (uint32_t k = 0; k < s->count; k++)
            move(to + k * s->width, values + (k * CHUNK + i) * s->width, s->width);
    }
    return 0;
}

/* Copy bytes of global memory to shared memory, with zeros behind them. The next site has the reads
 * of the bytes. */
static int32_t copy(Context *c, Warp *w, uint32_t site, uint32_t mask, uint32_t first,
                    const uint64_t *target, const uint64_t *source, const uint32_t *lengths) {
    const Site *s = &c->kernel->sites[site];
    uint32_t size = s->width * s->count;
    uint8_t *to[CHUNK];
    EACH(i, mask) {
        if (!(to[i] = locate(c, w, site, target[i], first + i)))
            return 1;
        memset(to[i], 0, size);
    }
    EACH(i, mask)
    for (uint32_t k = 0; k < size && k < lengths[i]; k++) {
        const uint8_t *from = locate(c, w, site + 1, source[i] + k, first + i);
        if (!from)
            return 1;
        to[i][k] = *from;
    }
    return 0;
}

enum { ADD, MIN, MAX, AND, OR, XOR, EXCH, INC, DEC, CAS, KINDS };
enum { UNSIGNED, SIGNED, FLOAT };

#define INTEGER(name, T)                                                                           \
    static inline T name(uint32_t operation, T old, T value, T other) {                            \
        switch (operation) {                                                                       \
        case ADD:                                                                                  \
            return (T)((uint64_t)old + (uint64_t)value);                                           \
        case MIN:                                                                                  \
            return old < value ? old : value;                                                      \
        case MAX:                                                                                  \
            return old > value ? old : value;                                                      \
        case AND:                                                                                  \
            return old & value;                                                                    \
        case OR:                                                                                   \
            return old | value;                                                                    \
        case XOR:                                                                                  \
            return old ^ value;                                                                    \
        case EXCH:                                                                                 \
            return value;                                                                          \
        case INC:                                                                                  \
            return old >= value ? 0 : old + 1;                                                     \
        case DEC:                                                                                  \
            return old == 0 || old > value ? value : old - 1;                                      \
        default:                                                                                   \
            return old == value ? other : old;                                                     \
        }                                                                                          \
    }
INTEGER(change_u16, uint16_t)
INTEGER(change_u32, uint32_t)
INTEGER(change_u64, uint64_t)
INTEGER(change_s32, int32_t)
INTEGER(change_s64, int64_t)
#define SUM(operation, old, value, other) ((void)(other), (old) + (value))

static int32_t atomic(Context *c, Warp *w, uint32_t site, uint32_t mask, uint32_t first,
                      const uint64_t *address, const uint8_t *values, const uint8_t *others,
                      uint8_t *out) {
    const Site *s = &c->kernel->sites[site];
    uint32_t operation = s->operation % KINDS, kind = s->operation / KINDS;
#define CHANGE(T, function)                                                                        \
    EACH(i, mask) {                                                                                \
        uint8_t *at = locate(c, w, site, address[i], first + i);                                   \
        T old, value, other;                                                                       \
        if (!at)                                                                                   \
            return 1;                                                                              \
        memcpy(&old, at, sizeof(T));                                                               \
        memcpy(&value, values + i * sizeof(T), sizeof(T));                                         \
        memcpy(&other, others + i * sizeof(T), sizeof(T));                                         \
        value = function(operation, old, value, other);                                            \
        memcpy(at, &value, sizeof(T));                                                             \
        memcpy(out + i * sizeof(T), &old, sizeof(T));                                              \
    }
    if (kind == FLOAT && s->width == 4)
        CHANGE(float, SUM)
    else if (kind == FLOAT)
        CHANGE(double, SUM)
    else if (s->width == 2)
        CHANGE(uint16_t, change_u16)
    else if (s->width == 4 && kind == SIGNED)
        CHANGE(int32_t, change_s32)
    else if (s->width == 4 && operation == ADD)
        CHANGE(uint32_t, SUM)
    else if (s->width == 4)
        CHANGE(uint32_t, change_u32)
    else if (kind == SIGNED)
        CHANGE(int64_t, change_s64)
    else
        CHANGE(uint64_t, change_u64)
    return 0;
}

/* Barriers, and lanes that wait */

static int release(Context *c, Block *b, int32_t number) {
    Barrier *barrier = &b->barriers[number];
    uint32_t arrived = barrier->arrived, expected = barrier->expected;
    if (!arrived)
        return 0;
    if (expected ? (arrived + WARP - 1) / WARP * WARP < expected : arrived < b->alive)
        return 0;
    barrier->last_count = barrier->count;
    barrier->last_arrived = arrived;
    barrier->arrived = barrier->expected = barrier->count = 0;
    for (uint32_t k = 0; k < c->kernel->wait_count; k++) {
        const Wait *wait = &c->kernel->waits[k];
        if (wait->number != number)
            continue;
        for (uint32_t n = 0; n < warps_of(c); n++) {
            Warp *w = warp_of(c, b, n);
            uint32_t lanes = waiting_of(c, w)[wait->unit];
            if (lanes) {
                waiting_of(c, w)[wait->unit] = 0;
                make_ready(c, w, wait->next, lanes);
            }
        }
    }
    return 1;
}

static int release_all(Context *c, Block *b) {
    int any = 0;
    for (int32_t number = 0; number < BARRIERS; number++)
        any |= release(c, b, number);
    return any;
}

static int32_t arrive(Context *c, Warp *w, uint32_t lanes, uint32_t index, const uint32_t *threads,
                      uint32_t holds, uint32_t only) {
    const Wait *wait = &c->kernel->waits[index];
    Barrier *barrier = &w->block->barriers[wait->number];
    uint32_t expected = threads[__builtin_ctz(lanes)];
    barrier->arrived += count_of(lanes);
    barrier->count += count_of(holds & lanes);
    if (expected)
        barrier->expected = expected;
    if (only)
        make_ready(c, w, wait->next, lanes);
    else
        waiting_of(c, w)[wait->unit] |= lanes;
    release(c, w->block, wait->number);
    return 0;
}

/* The result of a barrier's reduction: 0 popc, 1 or, 2 and. */
static uint32_t reduced(Context *c, Warp *w, uint32_t number, uint32_t how) {
    const Barrier *barrier = &w->block->barriers[number];
    uint32_t results[] = {barrier->last_count, barrier->last_count > 0,
                          barrier->last_count == barrier->last_arrived};
    return results[how];
}

/* Return the lanes that need not wait for others of their warp. */
static uint32_t gather(Context *c, Warp *w, uint32_t lanes, uint32_t unit,
                       const uint32_t *members) {
    uint32_t *waiting = &waiting_of(c, w)[unit];
    uint32_t here, rest = 0;
    EACH(i, lanes)
    w->member[i] = members[i];
    here = *waiting | lanes;
    if (here != w->alive)
        EACH(i, here)
    if (w->member[i] & w->alive & ~here)
        rest |= 1u << i;
    *waiting = rest;
    return here & ~rest;
}

static void leave(Context *c, Warp *w, uint32_t lanes) {
    w->alive &= ~lanes;
    w->block->alive -= count_of(lanes);
    if (c->kernel->wait_count)
        release_all(c, w->block);
}

/* Let lanes go on that wait in a unit and whose members have all come, or are gone. */
static int let_go(Context *c, Warp *w, uint32_t unit, uint32_t next, uint32_t here) {
    uint32_t *waiting = &waiting_of(c, w)[unit], ready = 0;
    EACH(i, *waiting)
    if (!(w->member[i] & w->alive & ~here))
        ready |= 1u << i;
    if (!ready)
        return 0;
    *waiting &= ~ready;
    make_ready(c, w, next, ready);
    return 1;
}

/* Let lanes try again that wait for others of their warp; or those at different bar.warp.sync that
 * are complete together. */
static int resume(Context *c, Block *b) {
    const Kernel *kernel = c->kernel;
    int any = 0;
    for (uint32_t n = 0; n < warps_of(c); n++) {
        Warp *w = warp_of(c, b, n);
        uint32_t together = 0;
        for (const Wait *wait = kernel->waits; wait < kernel->waits + kernel->wait_count; wait++) {
            if (wait->number < 0)
                any |= let_go(c, w, wait->unit, wait->unit, waiting_of(c, w)[wait->unit]);
            if (wait->number == -2)
                together |= waiting_of(c, w)[wait->unit];
        }
        if (any || !together)
            continue;
        for (const Wait *wait = kernel->waits; wait < kernel->waits + kernel->wait_count; wait++)
            if (wait->number == -2)
                any |= let_go(c, w, wait->unit, wait->next, together);
    }
    return any;
}

static int32_t table(Context *c, Warp *w, uint32_t lanes, const uint32_t *index,
                     const uint32_t *targets, uint32_t count, uint32_t unit) {
    uint32_t most = 0;
    EACH(i, lanes)
    most = index[i] > most ? index[i] : most;
    EACH(i, lanes) {
        if (most >= count) {
            c->fault_address = most;
            c->fault_unit = unit;
            return fail(c, w, BAD_TABLE, 0, i);
        }
        make_ready(c, w, targets[index[i]], 1u << i);
    }
    return 0;
}

static int32_t trap(Context *c, Warp *w, uint32_t lanes, uint32_t unit) {
    c->fault_unit = unit;
    return fail(c, w, TRAP, 0, (uint32_t)__builtin_ctz(lanes));
}

/* __assertfail, with its first four arguments. */
static int32_t assertion(Context *c, Warp *w, uint32_t mask, uint32_t first, uint32_t unit,
                         const uint64_t *values) {
    uint32_t lane = (uint32_t)__builtin_ctz(mask);
    for (int k = 0; k < 4; k++)
        c->fault_values[k] = values[k * CHUNK + lane];
    c->fault_unit = unit;
    return fail(c, w, ASSERTION, 0, first + lane);
}

/* Operations of a warp. Modes: those of WARP in warp.py */

static uint32_t shuffle(Warp *w, uint32_t lanes, uint32_t mode, const uint32_t *value,
                        const uint32_t *selector, const uint32_t *packed, uint32_t *out) {
    uint32_t valid = 0, old[WARP];
    memcpy(old, value, sizeof old);
    EACH(i, lanes) {
        int32_t lane = (int32_t)i, operand = selector[i] & 31, clamp = packed[i] & 31,
                segment = packed[i] >> 8 & 31;
        int32_t first = lane & segment, limit = first | (clamp & ~segment), source;
        switch (mode) {
        case 0:
            source = lane - operand;
            break;
        case 1:
            source = lane + operand;
            break;
        case 2:
            source = lane ^ operand;
            break;
        default:
            source = first | (operand & ~segment);
        }
        if (mode ? source <= limit : source >= limit)
            valid |= 1u << i;
        else
            source = lane;
        out[i] = lanes >> source & 1 ? old[source] : 0;
    }
    return valid;
}

/* 0 ballot, 1 any, 2 all, 3 uni: the bits of the predicate, or (0) those in out. */
static uint32_t vote(Warp *w, uint32_t lanes, uint32_t mode, uint32_t flags,
                     const uint32_t *members, uint32_t *out) {
    uint32_t result = 0;
    EACH(i, lanes) {
        uint32_t holds = flags & lanes & members[i], here = lanes & members[i];
        uint32_t answers[] = {0, holds != 0, holds == here, holds == here || !holds};
        out[i] = holds;
        result |= answers[mode] << i;
    }
    return result;
}

static uint32_t match(Warp *w, uint32_t lanes, uint32_t all, const uint64_t *value,
                      const uint32_t *members, uint32_t *out) {
    uint32_t result = 0;
    EACH(i, lanes) {
        uint32_t equal = 0, here = lanes & members[i];
        for (uint32_t k = 0; k < WARP; k++)
            equal |= (uint32_t)(lanes >> k & 1 && value[k] == value[i]) << k;
        equal &= here;
        result |= (uint32_t)(equal == here) << i;
        out[i] = all && equal != here ? 0 : equal;
    }
    return result;
}

static uint32_t reduce(Warp *w, uint32_t lanes, uint32_t how, const uint32_t *value,
                       const uint32_t *members, uint32_t *out) {
    uint32_t operation = how % KINDS, is_signed = how / KINDS;
    EACH(i, lanes) {
        uint32_t total = 0, begun = 0;
        for (uint32_t k = 0; k < WARP; k++) {
            if (!(lanes >> k & 1) || members[k] != members[i])
                continue;
            if (!begun)
                total = value[k];
            else if (is_signed)
                total = (uint32_t)change_s32(operation, (int32_t)total, (int32_t)value[k], 0);
            else
                total = change_u32(operation, total, value[k], 0);
            begun = 1;
        }
        out[i] = total;
    }
    return 0;
}

static uint32_t elect(Warp *w, uint32_t lanes, uint32_t mode, const uint32_t *members,
                      uint32_t *out) {
    uint32_t result = 0;
    EACH(i, lanes) {
        uint32_t here = lanes & members[i], leader = here ? (uint32_t)__builtin_ctz(here) : 32;
        out[i] = leader;
        result |= (uint32_t)(leader == i) << i;
    }
    return result;
}

/* Arithmetic that is rounded in a direction, by the processor */

enum {
    R_ADD,
    R_SUB,
    R_MUL,
    R_DIV,
    R_FMA,
    R_SQRT,
    R_NARROW,
    R_FROM_S32,
    R_FROM_U32,
    R_FROM_S64,
    R_FROM_U64
};

#define ROUNDED(name, T, root, fused)                                                              \
    static void name(uint32_t operation, const T *a, const T *b, const T *c, T *out) {             \
        for (int i = 0; i < CHUNK; i++) {                                                          \
            volatile T x = a[i], y = b[i], z = c[i], result = 0;                                   \
            switch (operation) {                                                                   \
            case R_ADD:                                                                            \
                result = x + y;                                                                    \
                break;                                                                             \
            case R_SUB:                                                                            \
                result = x - y;                                                                    \
                break;                                                                             \
            case R_MUL:                                                                            \
                result = x * y;                                                                    \
                break;                                                                             \
            case R_DIV:                                                                            \
                result = x / y;                                                                    \
                break;                                                                             \
            case R_FMA:                                                                            \
                result = fused(x, y, z);                                                           \
                break;                                                                             \
            default:                                                                               \
                result = root(x);                                                                  \
            }                                                                                      \
            out[i] = result;                                                                       \
        }                                                                                          \
    }
ROUNDED(rounded_32, float, sqrtf, fmaf)
ROUNDED(rounded_64, double, sqrt, fma)

/* mode: 1 toward zero, 2 down, 3 up; width: the bytes of the result. */
static void rounded(uint32_t operation, uint32_t mode, uint32_t width, const void *a, const void *b,
                    const void *c, void *out) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    int before = fegetround();
    fesetround(modes[mode]);
    if (operation < R_NARROW && width == 4) {
        rounded_32(operation, a, b, c, out);
    } else if (operation < R_NARROW) {
        rounded_64(operation, a, b, c, out);
    } else {
        for (int i = 0; i < CHUNK; i++) {
            volatile float narrow = 0;
            volatile double wide = 0;
#define CONVERT(T)                                                                                 \
    do {                                                                                           \
        volatile T value = ((const T *)a)[i];                                                      \
        if (width == 4)                                                                            \
            narrow = (float)value;                                                                 \
        else                                                                                       \
            wide = (double)value;                                                                  \
    } while (0)
            switch (operation) {
            case R_NARROW:
                CONVERT(double);
                break;
            case R_FROM_S32:
                CONVERT(int32_t);
                break;
            case R_FROM_U32:
                CONVERT(uint32_t);
                break;
            case R_FROM_S64:
                CONVERT(int64_t);
                break;
            default:
                CONVERT(uint64_t);
            }
            if (width == 4)
                ((float *)out)[i] = narrow;
            else
                ((double *)out)[i] = wide;
        }
    }
    fesetround(before);
}

/* NumPy's function for a chunk: the interpreter has the same bits. */
static void approximate(Context *c, uint32_t which, const float *values, float *out) {
    typedef void Loop(char **, const intptr_t *, const intptr_t *, void *);
    char *arrays[] = {(char *)values, (char *)out};
    intptr_t count = CHUNK, strides[] = {sizeof(float), sizeof(float)};
    Loop *loop;
    memcpy(&loop, &c->loops[which], sizeof loop);
    loop(arrays, &count, strides, c->loop_data[which]);
}

/* Where a processor does not convert halves, LLVM calls these functions by the names of compilers'
 * libraries. They have halves in the low bits of the register of a float. */

float engine_float_of_half(float half) {
    uint32_t bits, size;
    float result;
    memcpy(&bits, &half, sizeof bits);
    size = bits & 0x7fff;
    if (size < 0x400) {
        result = (float)size * 0x1p-24f;
        memcpy(&size, &result, sizeof size);
    } else {
        size = (size << 13) + (size < 0x7c00 ? 0x38000000 : 0x70000000);
    }
    bits = (bits & 0x8000) << 16 | size;
    memcpy(&result, &bits, sizeof result);
    return result;
}

float engine_half_of_float(float value) {
    uint32_t bits, size;
    float result = fabsf(value);
    memcpy(&bits, &value, sizeof bits);
    size = bits & 0x7fffffff;
    if (size > 0x7f800000) {
        size = 0x7e00;
    } else if (size >= 0x477ff000) {
        size = 0x7c00; /* 65520, which rounds to infinity */
    } else if (size < 0x38800000) {
        result += 0.5f; /* the distance of floats there is that of subnormal halves */
        memcpy(&size, &result, sizeof size);
        size -= 0x3f000000;
    } else {
        size = (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
    }
    bits = (bits >> 16 & 0x8000) | size;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* Products of matrices. The elements of an operand: their kind (ELEMENTS in context.py), the
 * registers of a lane, its elements, the places of the registers in a warp, and the places of the
 * elements of each lane in the matrix. */

enum { F16, BF16, TF32, F32, E4M3, E5M2, F64, S8, U8, S32 };
enum { MOST_ELEMENTS = 1024 };

typedef struct {
    const uint32_t *registers, *places;
    uint32_t kind, elements, size;
} Fragment;

static const uint32_t *fragment_of(const uint32_t *table, Fragment *f) {
    static const uint32_t sizes[] = {2, 2, 4, 4, 1, 1, 8, 1, 1, 4};
    f->kind = table[0];
    f->elements = table[2];
    f->size = sizes[f->kind];
    f->registers = table + 3;
    f->places = f->registers + table[1];
    return f->places + WARP * f->elements;
}

static uint8_t *element_of(const Fragment *f, Warp *w, uint32_t lane, uint32_t number) {
    uint32_t width = f->kind == F64 ? 8 : 4, byte = number * f->size;
    return (uint8_t *)w + f->registers[byte / width] + lane * width + byte % width;
}

static float float_of_bits(uint32_t bits) {
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

static float float_at(const uint8_t *at, uint32_t kind) {
    uint16_t half = at[0];
    uint32_t word;
    switch (kind) {
    case E4M3:
        word = half & 0x7f;
        if (word == 0x7f)
            return NAN;
        return (half & 0x80 ? -1.0f : 1.0f) *
               (word < 8 ? (float)word * 0x1p-9f
                         : float_of_bits((word << 20) + ((127u - 7u) << 23)));
    case E5M2:
        return engine_float_of_half(float_of_bits((uint32_t)half << 8));
    case F16:
        memcpy(&half, at, sizeof half);
        return engine_float_of_half(float_of_bits(half));
    case BF16:
        memcpy(&half, at, sizeof half);
        return float_of_bits((uint32_t)half << 16);
    default:
        memcpy(&word, at, sizeof word);
        return float_of_bits(kind == TF32 ? word & 0xffffe000 : word);
    }
}

static double double_at(const uint8_t *at, uint32_t kind) {
    double result;
    (void)kind;
    memcpy(&result, at, sizeof result);
    return result;
}

static int64_t integer_at(const uint8_t *at, uint32_t kind) {
    int32_t word;
    if (kind != S32)
        return kind == S8 ? (int8_t)*at : *at;
    memcpy(&word, at, sizeof word);
    return word;
}

static void put_float(uint8_t *at, float value, uint32_t kind, uint32_t clamps) {
    (void)clamps;
    if (kind == F16) {
        uint32_t bits, wide;
        float half = engine_half_of_float(value);
        memcpy(&bits, &half, sizeof bits);
        memcpy(&wide, &value, sizeof wide);
        if (value != value)
            bits |= wide >> 13 & 0x3ff;
        memcpy(at, &bits, 2);
    } else {
        memcpy(at, &value, sizeof value);
    }
}

static void put_double(uint8_t *at, double value, uint32_t kind, uint32_t clamps) {
    (void)kind, (void)clamps;
    memcpy(at, &value, sizeof value);
}

static void put_integer(uint8_t *at, int64_t value, uint32_t kind, uint32_t clamps) {
    (void)kind;
    if (clamps)
        value = value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value;
    memcpy(at, &value, 4);
}

/* The sums begin with the first product, and have the order of the interpreter. */
#define PRODUCT(name, T, get, put)                                                                 \
    static void name(Warp *w, uint32_t lanes, const uint32_t *table, const Fragment *f) {          \
        T matrices[4][MOST_ELEMENTS], *a = matrices[0], *b = matrices[1], *c = matrices[2],        \
                                      *d = matrices[3];                                            \
        uint32_t m = table[0], n = table[1], k = table[2];                                         \
        memset(matrices, 0, sizeof matrices);                                                      \
        for (int o = 0; o < 3; o++)                                                                \
            EACH(i, lanes)                                                                         \
        for (uint32_t e = 0; e < f[o].elements; e++)                                               \
            matrices[o][f[o].places[i * f[o].elements + e]] =                                      \
                get(element_of(&f[o], w, i, e), f[o].kind);                                        \
        for (uint32_t i = 0; i < m; i++) {                                                         \
            for (uint32_t j = 0; j < n; j++)                                                       \
                d[i * n + j] = a[i * k] * b[j];                                                    \
            for (uint32_t l = 1; l < k; l++)                                                       \
                for (uint32_t j = 0; j < n; j++)                                                   \
                    d[i * n + j] += a[i * k + l] * b[l * n + j];                                   \
            for (uint32_t j = 0; j < n; j++)                                                       \
                d[i * n + j] += c[i * n + j];                                                      \
        }                                                                                          \
        EACH(i, lanes)                                                                             \
        for (uint32_t e = 0; e < f[3].elements; e++)                                               \
            put(element_of(&f[3], w, i, e), d[f[3].places[i * f[3].elements + e]], f[3].kind,      \
                table[3]);                                                                         \
    }
PRODUCT(product_of_floats, float, float_at, put_float)
PRODUCT(product_of_doubles, double, double_at, put_double)
PRODUCT(product_of_integers, int64_t, integer_at, put_integer)

/* The table: m, n, k, whether the results are clamped, and the operands a, b, c and d. */
static void product(Warp *w, uint32_t lanes, const uint32_t *table) {
    Fragment f[4];
    const uint32_t *next = table + 4;
    for (int o = 0; o < 4; o++)
        next = fragment_of(next, &f[o]);
    if (f[0].kind == F64)
        product_of_doubles(w, lanes, table, f);
    else if (f[0].kind > F64)
        product_of_integers(w, lanes, table, f);
    else
        product_of_floats(w, lanes, table, f);
}

/* ldmatrix and stmatrix: the table has the places of their registers in a warp. */
static int32_t matrix(Context *c, Warp *w, uint32_t lanes, uint32_t site, uint32_t count,
                      const uint64_t *address, const uint32_t *table) {
    const Site *s = &c->kernel->sites[site];
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t part = 0; part < 4 / s->width; part++)
            EACH(i, lanes) {
                uint32_t row = s->width == 4 ? i / 4 : i % 4 * 2 + part;
                uint32_t column = s->width == 4 ? i % 4 * 4 : i / 4 * 2;
                uint32_t from = 8 * k + row;
                uint8_t *value = (uint8_t *)w + table[k] + 4 * i + part * s->width;
                uint8_t *at =
                    locate(c, w, site, (lanes >> from & 1 ? address[from] : 0) + column, i);
                if (!at)
                    return 1;
                if (s->kind == LOAD)
                    memcpy(value, at, s->width);
                else
                    memcpy(at, value, s->width);
            }
    return 0;
}

static uint64_t nanoseconds(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t clock_of(Context *c, uint32_t which) {
    return which ? nanoseconds(CLOCK_REALTIME) : nanoseconds(CLOCK_MONOTONIC) - c->began;
}

/* The scheduler */

static int make_block(Context *c, Block *b) {
    const Kernel *kernel = c->kernel;
    uint32_t warps = warps_of(c);
    size_t stride = ((size_t)kernel->frame + 15) / 16 * 16;
    size_t of_warps = (size_t)warps * kernel->warp_bytes,
           of_shared = (c->shared_readable + 255) / 128 * 128;
    size_t all = of_warps + of_shared + stride * WARP * warps + 256;
    memset(b, 0, sizeof *b);
    if (!(b->memory = calloc(1, all)))
        return 0;
    b->warps = (uint8_t *)(((uintptr_t)b->memory + 127) / 128 * 128);
    b->shared = b->warps + of_warps;
    b->local = b->shared + of_shared;
    uint32_t x = 0, y = 0, z = 0;
    for (uint32_t n = 0; n < warps; n++) {
        Warp *w = warp_of(c, b, n);
        w->block = b;
        w->number = n;
        w->local = b->local + stride * WARP * n;
        for (uint32_t i = 0; i < WARP; i++) {
            w->thread[0][i] = x;
            w->thread[1][i] = y;
            w->thread[2][i] = z;
            if (++x == c->size[0]) {
                x = 0;
                if (++y == c->size[1]) {
                    y = 0;
                    z++;
                }
            }
        }
    }
    return 1;
}

static int start_block(Context *c, Block *b) {
    const Kernel *kernel = c->kernel;
    uint64_t number = __atomic_fetch_add(c->next, 1, __ATOMIC_RELAXED);
    uint32_t warps = warps_of(c);
    b->is_active = number < c->blocks;
    if (!b->is_active)
        return 0;
    b->number = number;
    b->alive = c->threads;
    b->rounds = b->first = 0;
    memset(b->shared, 0, c->shared_readable);
    memset(b->barriers, 0, sizeof b->barriers);
    if (kernel->frame)
        memset(b->local, 0, ((size_t)kernel->frame + 15) / 16 * 16 * WARP * warps);
    for (uint32_t n = 0; n < warps; n++) {
        Warp *w = warp_of(c, b, n);
        uint32_t left = c->threads - n * WARP;
        if (kernel->clears)
            memset((uint8_t *)w + kernel->registers, 0, kernel->warp_bytes - kernel->registers);
        w->alive = left >= WARP ? ~0u : (1u << left) - 1;
        w->fuel = PATIENCE;
        w->last = w->pauses = 0;
        make_ready(c, w, 0, w->alive);
    }
    return 1;
}

/* The unit that has lanes and comes next behind the last one that gave up; else the first. */
static int32_t pick(Context *c, Warp *w) {
    const uint64_t *set = set_of(c, w);
    uint32_t words = c->kernel->words, last = w->last % (64 * words), from = last / 64;
    uint64_t part = set[from] & ~0ull << last % 64;
    for (uint32_t k = 0; k <= words; k++) {
        if (part)
            return (int32_t)((from + k) % words * 64 + (uint32_t)__builtin_ctzll(part));
        part = set[(from + k + 1) % words];
    }
    return -1;
}

/* Run all warps of a block once. PAUSED: the slice of time is over. A loop of many passes may wait
 * without an atomic or a volatile load: others get a turn after LONG_PATIENCE budgets of passes. */
static int run_round(Context *c, Block *b) {
    uint32_t warps = warps_of(c);
    int moved = 0, waits = b->first != 0;
    c->shared = b->shared;
    c->place[0] = (uint32_t)(b->number % c->grid[0]);
    c->place[1] = (uint32_t)(b->number / c->grid[0] % c->grid[1]);
    c->place[2] = (uint32_t)(b->number / c->grid[0] / c->grid[1]);
    c->numbers[0] = (uint32_t)(b->number % 132);
    for (uint32_t n = b->first; n < warps; n++) {
        Warp *w = warp_of(c, b, n);
        int32_t unit;
        while ((unit = pick(c, w)) >= 0) {
            int32_t state = c->kernel->run(c, w, (uint32_t)unit);
            if (state == FAULT)
                return FAULT;
            int gives_up = state == YIELDED || (state == PAUSED && ++w->pauses >= LONG_PATIENCE);
            w->fuel = PATIENCE;
            if (state == PAUSED || (state == YIELDED && !(++c->rounds & 63))) {
                c->budget = BUDGET;
                if (nanoseconds(CLOCK_MONOTONIC) > c->until) {
                    fail(c, w, NO_FAULT, 0, (uint32_t)__builtin_ctz(w->alive));
                    c->fault_unit = w->last;
                    c->waits = state == YIELDED;
                    if (gives_up) {
                        w->last++;
                        w->pauses = 0;
                        b->first = (n + 1) % warps;
                    }
                    return PAUSED;
                }
            }
            if (gives_up) {
                w->last++; /* pick looks for lanes behind these */
                waits = 1;
            } else {
                w->last = 0;
                moved |= state != PAUSED;
            }
            if (gives_up || state != PAUSED) {
                w->pauses = 0;
                break;
            }
        }
    }
    b->first = 0;
    if (moved)
        b->rounds = 0;
    else if (waits)
        b->rounds++;
    else if (b->alive && !release_all(c, b) && !resume(c, b)) {
        Warp *first = NULL;
        for (uint32_t n = warps_of(c); n--;)
            if (warp_of(c, b, n)->alive)
                first = warp_of(c, b, n);
        c->fault_count = b->alive;
        fail(c, first, DEADLOCK, 0, (uint32_t)__builtin_ctz(first->alive));
        return FAULT;
    }
    return waits && !moved ? YIELDED : DONE;
}

/* Begin one more block beside the others. */
static int add_block(Context *c) {
    Block *b = malloc(sizeof *b);
    if (c->count == c->room) {
        Block **more = realloc(c->slots, (2 * c->room + 1) * sizeof *more);
        if (more) {
            c->slots = more;
            c->room = 2 * c->room + 1;
        }
    }
    if (!b || c->count == c->room || !make_block(c, b)) {
        free(b);
        return 0;
    }
    c->slots[c->count++] = b;
    start_block(c, b);
    return 1;
}

/* End all blocks. */
void engine_free(Context *c) {
    for (uint32_t k = 0; k < c->count; k++) {
        free(c->slots[k]->memory);
        free(c->slots[k]);
    }
    free(c->slots);
    c->slots = NULL;
    c->count = c->room = 0;
}

/* Run blocks until there are none, or for a slice of time. Where blocks wait for others for long,
 * more of them begin. */
int32_t engine_run(Context *c) {
    uint32_t active, began = 0;
    c->until = nanoseconds(CLOCK_MONOTONIC) + SLICE;
    c->budget = BUDGET;
    c->waits = 0;
    if (!c->count) {
        c->began = nanoseconds(CLOCK_MONOTONIC);
        for (uint32_t k = 0; k < c->kernel->site_count; k++)
            c->windows[k] = (Window){0, 0};
        if (!add_block(c)) {
            c->fault = NO_MEMORY;
            return FAULT;
        }
    }
    do {
        int stalled = 1;
        active = 0;
        for (uint32_t k = 0; k < c->count; k++) {
            Block *b = c->slots[k];
            while (b->is_active) {
                int result = run_round(c, b);
                if (result == FAULT || result == PAUSED)
                    return result;
                if (!b->alive && start_block(c, b) && !(++began & 63) &&
                    nanoseconds(CLOCK_MONOTONIC) > c->until)
                    return PAUSED;
                if (result == YIELDED && b->rounds >= STALLED)
                    break;
            }
            active += b->is_active;
            if (b->is_active && b->rounds < STALLED)
                stalled = 0;
        }
        if (active && stalled && *c->next < c->blocks && c->count < c->most)
            add_block(c);
    } while (active);
    engine_free(c);
    return DONE;
}

/* The functions that LLVM's code calls, in the order of FUNCTIONS in context.py. A launch has
 * its own print. */
void *engine_functions[] = {
    load,  store,  atomic, arrive,  reduced,  gather,      leave,     table, trap,    shuffle, vote,
    match, reduce, elect,  rounded, clock_of, approximate, assertion, copy,  product, matrix,  NULL,
};
