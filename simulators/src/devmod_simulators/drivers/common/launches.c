/* Launches: what a test reads of them, and the memory that a kernel may access. */
#include "driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static uint64_t launches;
static char last_launch[8192];

volatile int skip_launches;

/* Return the last launch as text: name, dimensions, attributes and the parameter block in
 * hexadecimal. */
const char *standin_last_launch(void) {
    return last_launch;
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

void note_launch(const void *block, size_t size, const char *format, ...) {
    launches++;
    va_list arguments;
    va_start(arguments, format);
    size_t length = (size_t)vsnprintf(last_launch, sizeof last_launch, format, arguments);
    va_end(arguments);
    if (length < sizeof last_launch)
        length += (size_t)snprintf(last_launch + length, sizeof last_launch - length, " params=");
    for (size_t i = 0; i < size && length + 3 < sizeof last_launch; i++)
        length += (size_t)snprintf(last_launch + length, sizeof last_launch - length, "%02x",
                                   ((const unsigned char *)block)[i]);
}

void put_ranges(Bytes *request, const Context *context, bool live) {
    size_t place, count = 0;
    put_u32(request, 0);
    place = request->size - 4;
    for (int slice = 0; slice < ARENA_SLICES; slice++) {
        bool is_open = slice == ARENA_HOST || context->peers >> slice & 1;
        for (size_t i = 0; i < arena_count(slice); i++) {
            Block *block = arena_at(slice, i);
            bool is_shared = block->pool && block->pool->access >> context->device & 1;
            if (block->live != live || !(is_open || is_shared))
                continue;
            put_u64(request, block->start);
            put_u64(request, block->size);
            count++;
        }
    }
    uint32_t number = (uint32_t)count;
    memcpy(request->data + place, &number, sizeof number);
}
