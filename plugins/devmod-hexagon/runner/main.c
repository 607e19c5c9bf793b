/* The loop of the runner. It reads requests from file 0 and writes replies to file 1
 * (README.md).
 *
 *     runner ARENA_BYTES FILE
 *
 * The arena is the memory of FILE, a descriptor that the host has opened. The host maps it too.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "runner.h"

enum { MAX_IMAGES = 4096 };

static uint8_t *arena;
static uint32_t arena_size;
static image *images[MAX_IMAGES];

int describe_address(uint32_t address, char *out, size_t size) {
    for (uint32_t number = 0; number < MAX_IMAGES; number++)
        if (images[number] && image_describe(images[number], address, out, size))
            return 1;
    snprintf(out, size, "0x%08x", (unsigned)address);
    return 0;
}

static uint64_t nanoseconds(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ["hello", id] -> [id, 0, address of the arena] */
static void do_hello(uint64_t id) {
    reply_begin(3);
    reply_unsigned(id);
    reply_unsigned(0);
    reply_unsigned((uint32_t)arena);
    reply_end();
}

/* ["load", id, address, span, file] -> [id, 0, number] */
static void do_load(uint64_t id) {
    char error[MAX_NAME];
    uint64_t offset = frame_unsigned() - (uint32_t)arena, span = frame_unsigned();
    uint32_t size = frame_bin(), number = 0;
    uint8_t *file;

    if (offset > arena_size || span > arena_size - offset) {
        reply_error(id, "range", "the module is not in the arena");
        return;
    }
    while (number < MAX_IMAGES && images[number])
        number++;
    file = number < MAX_IMAGES ? malloc(size ? size : 1) : NULL;
    if (!file) {
        reply_error(id, "memory", "the runner has no memory for a module of %u bytes",
                    (unsigned)size);
        return;
    }
    frame_bytes(file, size);
    images[number] = image_load(arena + offset, (uint32_t)span, file, size, error, sizeof error);
    free(file);
    if (!images[number]) {
        reply_error(id, strncmp(error, "unresolved ", 11) == 0 ? "unresolved" : "image", "%s",
                    error);
        return;
    }
    reply_begin(3);
    reply_unsigned(id);
    reply_unsigned(0);
    reply_unsigned(number);
    reply_end();
}

static image *image_number(uint64_t id, uint64_t number) {
    if (number < MAX_IMAGES && images[number])
        return images[number];
    reply_error(id, "image", "there is no module %llu", (unsigned long long)number);
    return NULL;
}

/* ["unload", id, number] -> [id, 0] */
static void do_unload(uint64_t id) {
    uint64_t number = frame_unsigned();
    image *loaded = image_number(id, number);

    if (!loaded)
        return;
    image_unload(loaded);
    images[number] = NULL;
    reply_begin(2);
    reply_unsigned(id);
    reply_unsigned(0);
    reply_end();
}

/* ["symbol", id, number, name] -> [id, 0, address, size]; the address is 0 if there is none */
static void do_symbol(uint64_t id) {
    char name[MAX_NAME];
    uint32_t size = 0, address;
    const image *loaded = image_number(id, frame_unsigned());

    if (!loaded)
        return;
    frame_text(name);
    address = image_symbol(loaded, name, &size);
    reply_begin(4);
    reply_unsigned(id);
    reply_unsigned(0);
    reply_unsigned(address);
    reply_unsigned(size);
    reply_end();
}

/* A call without a stack, as the host writes it: address (uint32), registers (bin), an empty stack
 * (bin). */
enum { PLAIN_CALL = 5 + 2 + 4 * REGISTERS + 5 };

/* Read a call without a stack. Return 0, and read nothing, if the next item is another one or is
 * not in the buffer yet. In an emulator, reading the parts one by one takes longer than a small
 * function. */
static int plain_call(uint32_t *address, uint32_t registers[REGISTERS]) {
    static const uint8_t no_stack[] = {0xc6, 0, 0, 0, 0};
    const uint8_t *item = frame_window(PLAIN_CALL);

    if (!item || item[0] != 0xce || item[5] != 0xc4 || item[6] != 4 * REGISTERS ||
        memcmp(item + PLAIN_CALL - 5, no_stack, 5) != 0)
        return 0;
    *address = (uint32_t)item[1] << 24 | (uint32_t)item[2] << 16 | (uint32_t)item[3] << 8 | item[4];
    item += 7;
    for (int number = 0; number < REGISTERS; number++, item += 4)
        registers[number] =
            item[0] | (uint32_t)item[1] << 8 | (uint32_t)item[2] << 16 | (uint32_t)item[3] << 24;
    frame_drop(PLAIN_CALL);
    return 1;
}

/* ["call", id, count, address, registers, stack, ...] -> [id, 0, nanoseconds, results of 8 bytes
 * each] */
static void do_call(uint64_t id) {
    static uint64_t results[MAX_CALLS];
    static uint32_t stack[MAX_STACK_WORDS];
    uint64_t count = frame_unsigned(), time = nanoseconds();

    if (count > MAX_CALLS)
        reply_last("protocol", "expected 4096 calls at most");
    for (uint32_t number = 0; number < count; number++) {
        uint32_t address, registers[REGISTERS], size;
        if (plain_call(&address, registers)) {
            results[number] = call_function(address, registers, stack, 0);
            continue;
        }
        address = (uint32_t)frame_unsigned();
        size = frame_bin();
        if (size != sizeof registers)
            reply_last("protocol", "expected 24 bytes of registers");
        frame_bytes(registers, size);
        size = frame_bin();
        if (size > sizeof stack || size % 8)
            reply_last("protocol", "expected a stack with an even number of words, 16384 at most");
        frame_bytes(stack, size);
        results[number] = call_function(address, registers, stack, size / 4);
    }
    time = nanoseconds() - time;
    reply_begin(4);
    reply_unsigned(id);
    reply_unsigned(0);
    reply_unsigned(time);
    reply_bin(results, (uint32_t)count * 8);
    reply_end();
}

/* ["clock", id] -> [id, 0, nanoseconds] */
static void do_clock(uint64_t id) {
    reply_begin(3);
    reply_unsigned(id);
    reply_unsigned(0);
    reply_unsigned(nanoseconds());
    reply_end();
}

typedef struct {
    const char *name;
    void (*run)(uint64_t id);
    int items;
} operation;

static const operation operations[] = {
    {"hello", do_hello, 2},   {"load", do_load, 5},   {"unload", do_unload, 3},
    {"symbol", do_symbol, 4}, {"clock", do_clock, 2},
};

static void answer(int items) {
    char name[MAX_NAME];
    uint64_t id;

    if (items < 2)
        reply_last("protocol", "expected a request with an operation and a number");
    frame_text(name);
    id = frame_unsigned();
    if (strcmp(name, "call") == 0 && items >= 3 && items % 3 == 0) {
        do_call(id);
        return;
    }
    for (size_t number = 0; number < sizeof operations / sizeof *operations; number++)
        if (strcmp(name, operations[number].name) == 0 && items == operations[number].items) {
            operations[number].run(id);
            return;
        }
    reply_error(id, "protocol", "unknown operation '%s' with %d items", name, items);
}

int main(int count, char **texts) {
    int items;

    if (count != 3)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    arena_size = strtoul(texts[1], NULL, 10);
    arena = mmap(NULL, arena_size, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(texts[2]), 0);
    if (arena == MAP_FAILED)
        reply_last("memory", "the arena cannot be mapped");
    fault_install();
    while ((items = frame_begin()) >= 0)
        answer(items);
    return 0;
}
