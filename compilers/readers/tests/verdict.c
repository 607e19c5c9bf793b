/* Says of each file on standard input whether the reader in C accepts it: a u32 with the size,
 * little-endian, and its bytes. The answer is a line: the result for the file in memory, that for
 * the file by ranges, how many modules are not supported, the most memory that the reader took for
 * the index, the most that it took to copy a module into a buffer, the memory that a second use
 * added, and the error. */

#undef calloc /* the reader's are those below */
#undef free

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devmod_reader.h"

typedef struct part {
    const uint8_t *data;
    size_t size;
} part;

static size_t held, most_held, most_copying;

void *counted_calloc(size_t count, size_t size) {
    max_align_t *made = count > SIZE_MAX / 2 / size ? NULL : calloc(1, sizeof *made + count * size);
    if (!made)
        return NULL;
    *(size_t *)made = count * size;
    held += count * size;
    if (held > most_held)
        most_held = held;
    return made + 1;
}

void counted_free(void *block) {
    if (!block)
        return;
    max_align_t *made = (max_align_t *)block - 1;
    held -= *(size_t *)made;
    free(made);
}

static int read_part(const void *context, uint64_t offset, void *into, size_t size) {
    const part *file = context;
    if (offset > file->size || size > file->size - offset)
        return 1;
    memcpy(into, file->data + offset, size);
    return 0;
}

/* Use the contents of a module. */
static void use_contents(devmod_file *file, uint32_t number, uint64_t most) {
    devmod_contents contents;
    devmod_variant variant;
    if (devmod_get_contents(file, number, most, &contents))
        return;
    for (size_t at = 0; at < contents.function_count; at++) {
        devmod_check_needs(file, contents.functions + at);
        devmod_get_variant(file, contents.functions + at, 0, NULL, 0, &variant);
    }
}

/* Use the bytes of a record. What the reader keeps of them is freed at the end. */
static int use_bytes(devmod_file *file, uint32_t number, const devmod_module *module) {
    enum { MOST = 1 << 26 };
    size_t before = held;
    uint64_t size;
    devmod_slice bytes;
    int result = devmod_get_size(file, number, MOST, &size);
    if (result)
        return result;
    uint8_t *copy = malloc(size ? (size_t)size : 1);
    most_held = held;
    result = devmod_copy_bytes(file, number, copy, (size_t)size);
    if (most_held - before > most_copying)
        most_copying = most_held - before;
    if (devmod_get_bytes(file, number, MOST, &bytes) != result ||
        (!result && (bytes.size != size || memcmp(bytes.data, copy, (size_t)size))))
        result = 98;
    free(copy);
    if (!result && module->kind.size) {
        use_contents(file, number, MOST);
        size_t once = held;
        use_contents(file, number, MOST);
        if (held != once)
            result = 96;
    }
    devmod_forget(file, number);
    return held == before || result == 96 ? result : 97;
}

/* Use all of a file. Return the first result that is no success, except that of what this reader
 * does not support, which it counts. */
static int use(devmod_file *file, int *unsupported) {
    int result = devmod_check_all(file);
    for (uint32_t number = 0; !result && number < devmod_record_count(file); number++) {
        devmod_module module;
        if ((result = devmod_get_module(file, number, &module)))
            break;
        for (size_t at = 0; at < module.function_count && !result && module.rank >= 0; at++) {
            char *name = calloc(module.functions[at].size + 1, 1);
            const devmod_candidate *candidates;
            size_t count, found = 0;
            memcpy(name, module.functions[at].data, module.functions[at].size);
            int is_whole = strlen(name) == module.functions[at].size;
            result = devmod_find(file, name, &candidates, &count);
            for (size_t each = 0; each < count; each++)
                found += candidates[each].number == number;
            if (!result && is_whole && found != 1)
                result = 99;
            free(name);
        }
        if (!result && module.has_bytes && !module.is_part) {
            result = use_bytes(file, number, &module);
            if (result == DEVMOD_UNSUPPORTED)
                result = 0, ++*unsupported;
        }
    }
    return result;
}

int main(void) {
    uint8_t head[4];
    while (fread(head, 1, 4, stdin) == 4) {
        size_t size = head[0] | head[1] << 8 | head[2] << 16 | (size_t)head[3] << 24;
        uint8_t *data = malloc(size ? size : 1); /* the sanitizer knows its end */
        if (!data || fread(data, 1, size, stdin) != size)
            return 1;
        devmod_file *files[2];
        part whole = {data, size};
        int results[2], unsupported = 0;
        size_t index = 0, copying = 0, added = 0;
        for (int form = 0; form < 2; form++) {
            held = most_held = most_copying = 0;
            results[form] = form ? devmod_open(read_part, &whole, size, files + 1)
                                 : devmod_open(NULL, data, size, files);
            if (results[form])
                continue;
            devmod_check_all(files[form]);
            if (most_held > index)
                index = most_held;
            results[form] = use(files[form], &unsupported);
            size_t before = held;
            use(files[form], &(int){0});
            added += held - before;
            if (most_copying > copying)
                copying = most_copying;
        }
        printf("%d %d %d %zu %zu %zu %s\n", results[0], results[1], unsupported, index, copying,
               added, results[0] ? devmod_error(files[0]) : "");
        fflush(stdout);
        devmod_close(files[0]);
        devmod_close(files[1]);
        free(data);
    }
    return 0;
}
