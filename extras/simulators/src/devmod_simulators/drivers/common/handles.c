/* Handles: a kind, a generation and an index. A handle that was destroyed, or belongs elsewhere, is
 * detected. */
#include "standin.h"

#include <stdlib.h>

typedef struct {
    void *object, *owner;
    uint32_t generation;
    int kind; /* 0: free */
} Slot;

enum { MARK = 0x5d }; /* the top byte of each handle: no address of a process has it */

static Slot *slots;
static size_t slot_count;
static size_t counts[HANDLE_KINDS];

const char *handle_kind_name(int kind) {
    static const char *const names[HANDLE_KINDS] = {
        [HANDLE_CONTEXT] = "contexts",
        [HANDLE_MODULE] = "modules",
        [HANDLE_FUNCTION] = "functions",
        [HANDLE_STREAM] = "streams",
        [HANDLE_EVENT] = "events",
        [HANDLE_GRAPH] = "graphs",
        [HANDLE_GRAPH_NODE] = "graph-nodes",
        [HANDLE_GRAPH_EXEC] = "executable-graphs",
        [HANDLE_POOL] = "pools",
        [HANDLE_LIBRARY] = "libraries",
        [HANDLE_KERNEL] = "kernels",
        [HANDLE_ARRAY] = "arrays",
        [HANDLE_USER_OBJECT] = "user-objects",
        [HANDLE_MIPMAP] = "mipmapped-arrays",
        [HANDLE_PHYSICAL] = "memory-handles",
    };
    return kind > 0 && kind < HANDLE_KINDS ? names[kind] : "unknown handles";
}

/* Return a new handle of `kind` for `object`. It is not an address, so that dereferencing it
 * faults. */
void *handle_make(int kind, void *object, void *owner) {
    size_t index = 0;
    while (index < slot_count && slots[index].kind)
        index++;
    if (index == slot_count) {
        slots = with_room(slots, slot_count, sizeof *slots);
        slots[slot_count++] = (Slot){0};
    }
    Slot *slot = &slots[index];
    *slot = (Slot){object, owner, (slot->generation + 1) & 0xffff, kind};
    counts[kind]++;
    return (void *)(uintptr_t)((uint64_t)MARK << 56 | (uint64_t)kind << 48 |
                               (uint64_t)slot->generation << 32 | index);
}

static Slot *slot_of(int kind, const void *handle) {
    uint64_t value = (uintptr_t)handle;
    size_t index = value & 0xffffffff;
    if (value >> 56 != MARK || (int)(value >> 48 & 0xff) != kind || index >= slot_count)
        return NULL;
    Slot *slot = &slots[index];
    return slot->kind == kind && slot->generation == (value >> 32 & 0xffff) ? slot : NULL;
}

/* Return the object of a handle, or NULL. Nothing is noted. */
void *handle_peek(int kind, const void *handle) {
    Slot *slot = slot_of(kind, handle);
    return slot ? slot->object : NULL;
}

/* Return the object of a handle. NULL, and a violation, for one that is stale, of another kind, or
 * no handle. NULL alone for NULL. */
void *handle_get(int kind, const void *handle) {
    Slot *slot = slot_of(kind, handle);
    if (slot)
        return slot->object;
    uint64_t value = (uintptr_t)handle;
    if (!handle)
        return NULL;
    if (value >> 56 != MARK)
        violation("%p is not a handle; expected one of the %s", handle, handle_kind_name(kind));
    else if ((int)(value >> 48 & 0xff) != kind)
        violation("%p is a handle of the %s; expected one of the %s", handle,
                  handle_kind_name(value >> 48 & 0xff), handle_kind_name(kind));
    else
        violation("%p is the handle of a destroyed object of the %s", handle,
                  handle_kind_name(kind));
    return NULL;
}

/* Make a handle stale. */
void handle_drop(int kind, const void *handle) {
    Slot *slot = slot_of(kind, handle);
    if (!slot)
        return;
    slot->kind = 0;
    counts[kind]--;
}

/* Call `drop(object)` for each live handle of a kind and an owner, and make the handle stale. */
void handle_drop_owner(int kind, void *owner, void (*drop)(void *object)) {
    for (size_t i = 0; i < slot_count; i++) {
        if (slots[i].kind != kind || slots[i].owner != owner)
            continue;
        void *object = slots[i].object;
        slots[i].kind = 0;
        counts[kind]--;
        if (drop)
            drop(object);
    }
}

/* Call a function with each object of a kind. */
void handle_each(int kind, void (*act)(void *object)) {
    for (size_t i = 0; i < slot_count; i++)
        if (slots[i].kind == kind)
            act(slots[i].object);
}

/* Return the number of live handles of a kind. */
size_t handle_count(int kind) {
    return counts[kind];
}
