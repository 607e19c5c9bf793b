/* Launches: the parameter block, the request to the worker, what a test reads of them, and the
 * memory that a kernel may access. */
#include "driver.h"

#include <string.h>

static uint64_t launches;
static Bytes last_launch;

volatile int skip_launches;

/* Return the last launch as text: name, parameter block in hexadecimal, dimensions, attributes. */
const char *standin_last_launch(void) {
    put_raw(&last_launch, "", 1);
    last_launch.size--;
    return (const char *)last_launch.data;
}

/* Return the number of launches. */
uint64_t standin_launches(void) {
    return launches;
}

/* Do nothing in a launch from now on, or launch again. Benchmarks measure what is above the driver
 * with it. */
void standin_skip_launches(int skip) {
    skip_launches = skip;
}

__attribute__((constructor)) static void read_skip(void) {
    skip_launches = (int)setting_number("skip_launches", 0);
}

static void note_three(const char *name, const uint32_t *numbers) {
    put_format(&last_launch, " %s=%u,%u,%u", name, numbers[0], numbers[1], numbers[2]);
}

static void note(const Launch *launch) {
    const Kernel *kernel = launch->function->kernel;
    launches++;
    last_launch.size = 0;
    put_format(&last_launch, "%s params=", kernel->name);
    for (uint32_t i = 0; i < kernel->visible_bytes; i++)
        put_format(&last_launch, "%02x", launch->params[i]);
    note_three("grid", launch->grid);
    note_three("block", launch->block);
    note_three("cluster", launch->cluster);
    note_three("preferred", launch->preferred);
    put_format(&last_launch, " shared=%u cooperative=%d programmatic=%d", launch->shared,
               launch->cooperative, launch->programmatic);
}

/* ---- running */

/* Append the ranges of memory that a kernel of a context may access to a request, or those that a
 * stream has yet to allocate. */
static void put_ranges(Bytes *request, const Context *context, bool live) {
    uint32_t count = 0;
    size_t place = request->size;
    put_u32(request, 0);
    for (int slice = 0; slice < ARENA_SLICES; slice++) {
        bool is_open = slice == ARENA_HOST;
        if (slice < ARENA_DEVICES)
            is_open = context->peers >> slice & 1;
        for (size_t i = 0; i < arena_count(slice); i++) {
            Block *block = arena_at(slice, i);
            bool is_shared = block->pool && block->pool->access >> context->device & 1;
            if (slice == ARENA_VIRTUAL)
                is_shared = block->accessed_by >> context->device & 1;
            if (block->live != live || !(is_open || is_shared))
                continue;
            put_u64(request, block->start);
            put_u64(request, block->size);
            count++;
        }
    }
    memcpy(request->data + place, &count, sizeof count);
}

static void put_three(Bytes *request, const uint32_t *numbers) {
    for (int i = 0; i < 3; i++)
        put_u32(request, numbers[i]);
}

/* Return what settings have: 8 for the interpreter alone, 16 for compiled code at once, 32 to show
 * what is interpreted. */
static uint32_t engine_flags(void) {
    uint32_t flags = setting_number("verbose", 0) ? 32 : 0;
    const char *name = setting("engine");
    if (name && strcmp(name, "interpreter") == 0)
        flags |= 8;
    if (name && strcmp(name, "compiled") == 0)
        flags |= 16;
    return flags;
}

/* The seconds that a kernel's threads may wait for others. At the end of the program nobody stores
 * what they may wait for, and who has started it waits for its end. */
static uint32_t seconds(bool is_last) {
    enum { LAST_SECONDS = 6 };
    uint32_t limit = (uint32_t)setting_number("kernel_seconds", 60);
    return is_last && limit > LAST_SECONDS ? LAST_SECONDS : limit;
}

static int run_launch(Op *op) {
    const Launch *launch = (const Launch *)op->data;
    const Function *function = launch->function;
    worker_wait();
    if (handle_peek(HANDLE_FUNCTION, launch->handle) != function) {
        violation("a launch runs after its module was unloaded");
        return CODE_INVALID_HANDLE;
    }
    const Module *module = function->module;
    if (!module->is_executed)
        return 0; /* a cubin: the setting "skip_cubins" has loaded it */
    if (module->worker_generation != worker_generation()) {
        explain("%s: the worker that had its module has ended", function->kernel->name);
        return CODE_UNKNOWN;
    }
    bool is_last = calls_have_ended();
    Bytes request = {0}, response;
    put_u32(&request, WORKER_LAUNCH);
    put_u32(&request, module->worker_number);
    put_u32(&request, function->index);
    put_three(&request, launch->grid);
    put_three(&request, launch->block);
    put_three(&request, launch->cluster);
    put_u32(&request, launch->shared);
    put_u32(&request, (launch->cooperative ? 1u : 0) | (launch->programmatic ? 2u : 0) |
                          (is_checked(NULL) ? 4u : 0) | (is_last ? 64u : 0) | engine_flags());
    put_u32(&request, seconds(is_last));
    put_bytes(&request, launch->params, function->kernel->param_bytes);
    put_ranges(&request, module->context, true);
    put_ranges(&request, module->context, false);
    bool checked = put_checks(&request);
    mirrors_copy(false);
    int code = worker_call(&request, &response);
    mirrors_copy(true);
    if (checked)
        take_reports(&response);
    if (!code)
        note_launch(true);
    bytes_free(&response);
    if (code)
        vendor.launch_failed(code, function->kernel->name);
    return code;
}

/* ---- parameters */

/* Take the visible parameters as a block, of the entries of `extra`. */
static int take_block(Launch *launch, void **extra) {
    enum { POINTER = 1, SIZE = 2 }; /* HIP has CUDA's numbers, but for the end */
    const Kernel *kernel = launch->function->kernel;
    const void *entries[3] = {NULL, NULL, NULL};
    for (int i = 0; extra[i] != vendor.extra_end; i += 2) {
        uintptr_t entry = (uintptr_t)extra[i];
        CHECK(i < 4 && extra[i + 1] && (entry == POINTER || entry == SIZE), CODE_INVALID_VALUE);
        entries[entry] = extra[i + 1];
    }
    CHECK(entries[POINTER] && entries[SIZE], CODE_INVALID_VALUE);
    size_t size = *(const size_t *)entries[SIZE];
    if (size < kernel->visible_bytes || size > (kernel->param_bytes + 15) / 16 * 16) {
        explain("%s: the parameter block has %zu bytes; expected %u", kernel->name, size,
                kernel->visible_bytes);
        return CODE_INVALID_VALUE;
    }
    memcpy(launch->params, entries[POINTER], kernel->visible_bytes);
    return CODE_SUCCESS;
}

/* Fill the parameter block: from the addresses of parameters or from `extra`, and what is hidden
 * from the launch. */
int launch_fill(Launch *launch, void **params, void **extra) {
    const Kernel *kernel = launch->function->kernel;
    uint32_t number = 0;
    CHECK(!(params && extra), CODE_INVALID_VALUE);
    if (extra)
        TRY(take_block(launch, extra));
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const Param *param = &kernel->params[i];
        if (param_is_hidden(param)) {
            uint64_t value = vendor.hidden_value(launch, param->kind);
            memcpy(launch->params + param->offset, &value,
                   param->size < sizeof value ? param->size : sizeof value);
        } else if (!extra) {
            CHECK(params && params[number], CODE_INVALID_VALUE);
            memcpy(launch->params + param->offset, params[number++], param->size);
        }
    }
    return CODE_SUCCESS;
}

/* Make the operation of a launch, without its parameters. */
Op *launch_make(const Launch *launch) {
    const Kernel *kernel = launch->function->kernel;
    size_t bytes = (kernel->param_bytes + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
    size_t list = kernel->param_count * sizeof(void *);
    Op *op = op_make("launch", run_launch, NULL, sizeof(Launch) + bytes + list);
    Launch *made = (Launch *)op->data;
    *made = *launch;
    made->param_list = (void **)(made->params + bytes);
    for (uint32_t i = 0; i < kernel->param_count; i++)
        made->param_list[i] = made->params + kernel->params[i].offset;
    return op;
}

/* Note what a test reads of a launch, and queue it. */
int launch_submit(Op *op, Stream *stream) {
    note((const Launch *)op->data);
    note_launch(!is_checked(NULL)); /* with checks, it counts once it has run to its end */
    return submit(stream, op);
}
