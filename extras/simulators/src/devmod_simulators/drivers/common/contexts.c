/* Contexts: the stack of each thread, limits, access to peers, the streams by their handles. */
#include "driver.h"

#include <stdlib.h>

static __thread Context *stack[CONTEXT_DEPTH];
static __thread int depth;

/* Forget the sticky failures, as a new process would: a test that left one does not spoil the next.
 */
void standin_forget_failures(void) {
    pthread_mutex_lock(&big_lock);
    for (int i = 0; i < DEVICES; i++) {
        devices[i].failed = 0;
        if (devices[i].primary)
            devices[i].primary->group.failed = devices[i].primary->group.unsupported = 0;
    }
    pthread_mutex_unlock(&big_lock);
}

/* The stack of contexts of this thread. Pushing and popping return whether there was room, or a
 * context. */
Context *stack_top(void) {
    return depth ? stack[depth - 1] : NULL;
}

/* Return the context of a handle; a stale one has its own code. */
int context_of(void *handle, Context **context) {
    CHECK(handle, CODE_INVALID_CONTEXT);
    *context = handle_get(HANDLE_CONTEXT, handle);
    CHECK(*context, CODE_INVALID_CONTEXT);
    CHECK((*context)->alive, CODE_CONTEXT_IS_DESTROYED);
    return CODE_SUCCESS;
}

/* Return the sticky failure of a context, for the process: 0 or a code. */
int context_sticky(Context *context) {
    Device *device = &devices[context->device];
    if (!device->failed)
        device->failed = context->group.failed;
    return device->failed;
}

/* The same for a query: the wait after it returns the failure of a launch too. */
int context_failure_left(Context *context) {
    int code = context_sticky(context);
    return code ? code : context->group.unsupported;
}

/* The same, or the failure of a launch alone, which only one wait returns. */
int context_failure(Context *context) {
    int code = context_failure_left(context);
    context->group.unsupported = 0;
    return code;
}

/* Run all work of a context. */
int context_run(Context *context) {
    group_run(&context->group);
    return context_failure(context);
}

void context_activate(Context *context) {
    context->alive = true;
    context->peers = 1u << context->device;
    context->cache = 0;
    context->group.device = context->device;
    context->group.failed = devices[context->device].failed;
    context->group.barrier = stream_make(&context->group, true);
    for (int i = 0; i < LIMITS; i++)
        context->limits[i] = 0;
    if (vendor.activated)
        vendor.activated(context);
}

/* Make a context that is not alive, let one begin, and end one: its work is done, its objects and
 * memory are gone, their handles are stale. */
Context *context_make(int device, bool primary) {
    Context *context = zeroed(sizeof *context);
    context->device = device;
    context->primary = primary;
    context->handle = handle_make(HANDLE_CONTEXT, context, NULL);
    return context;
}

static void drop_stream(void *stream) {
    stream_retire(stream);
}

void context_deactivate(Context *context) {
    group_run(&context->group);
    if (vendor.leaving)
        vendor.leaving(context);
    handle_drop_owner(HANDLE_MODULE, context, module_drop);
    handle_drop_owner(HANDLE_STREAM, context, drop_stream);
    handle_drop_owner(HANDLE_EVENT, context, NULL);
    handle_drop_owner(HANDLE_ARRAY, context, free);
    handle_drop_owner(HANDLE_MIPMAP, context, free);
    note_leaks(context);
    arena_free_owner(context);
    context_failure(context);
    context->group.streams = context->group.barrier = NULL;
    context->alive = false;
}

/* Return the primary context of a device, made with the first call. */
Context *context_primary(int device) {
    if (!devices[device].primary)
        devices[device].primary = context_make(device, true);
    return devices[device].primary;
}

bool stack_push(Context *context) {
    if (depth == CONTEXT_DEPTH)
        return false;
    stack[depth++] = context;
    return true;
}

bool stack_pop(Context **context) {
    if (!depth)
        return false;
    *context = stack[--depth];
    return true;
}

/* Replace the top; NULL pops it. */
void stack_replace(Context *context) {
    if (!context)
        depth -= depth > 0;
    else if (depth)
        stack[depth - 1] = context;
    else
        stack[depth++] = context;
}

/* Let the current context access another device's memory, or no longer. */
int context_enable_peer(int device) {
    Context *context = current_context();
    CHECK(device_valid(device) && device != context->device, CODE_INVALID_DEVICE);
    CHECK(setting_number("peers", 1), CODE_PEER_ACCESS_UNSUPPORTED);
    CHECK(!(context->peers >> device & 1), CODE_PEER_ACCESS_ALREADY_ENABLED);
    context->peers |= 1u << device;
    return CODE_SUCCESS;
}

int context_disable_peer(int device) {
    Context *context = current_context();
    CHECK(device != context->device && context->peers >> device & 1, CODE_PEER_ACCESS_NOT_ENABLED);
    context->peers &= ~(1u << device);
    return CODE_SUCCESS;
}

static Stream *thread_stream(Context *context) {
    for (Stream *stream = context->group.streams; stream; stream = stream->next)
        if (stream->of_thread && pthread_equal(stream->thread, pthread_self()))
            return stream;
    Stream *stream = stream_make(&context->group, true);
    stream->of_thread = true;
    stream->thread = pthread_self();
    return stream;
}

/* Return the stream of a handle. NULL, STREAM_LEGACY and STREAM_PER_THREAD are those of the current
 * context. */
int stream_of(void *handle, Stream **stream) {
    Context *context = current_context();
    if (!handle || handle == STREAM_LEGACY)
        *stream = context->group.barrier;
    else if (handle == STREAM_PER_THREAD)
        *stream = thread_stream(context);
    else
        *stream = handle_get(HANDLE_STREAM, handle);
    return *stream ? CODE_SUCCESS : CODE_INVALID_HANDLE;
}
