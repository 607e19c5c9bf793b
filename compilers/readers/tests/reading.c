/* Prints what the reader in C reads of each file on standard input, as one line of JSON for
 * tools/fuzzing/differential.py: a u32 with the size, little-endian, and the bytes of the file.
 * Texts and bytes are in hexadecimal. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devmod_reader.h"

enum { MOST = 1 << 26, POSITIONS = 4 };

/* The integer arguments of a call, and the constants that are read. */
#define NAMED(text, value) {.name = {(const uint8_t *)text, sizeof text - 1}, .integer = value}
static const devmod_value ARGUMENTS[] = {NAMED("n", 1000), NAMED("m", 5)};
static const char *const CONSTANTS[] = {"c", "d"};

static void print_bytes(devmod_slice bytes) {
    putchar('"');
    for (size_t at = 0; at < bytes.size; at++)
        printf("%02x", bytes.data[at]);
    putchar('"');
}

static void print_texts(const char *key, const devmod_slice *texts, size_t count) {
    printf(", \"%s\": [", key);
    for (size_t at = 0; at < count; at++) {
        printf(at ? ", " : "");
        print_bytes(texts[at]);
    }
    putchar(']');
}

static void print_text(const char *key, devmod_slice text) {
    printf(", \"%s\": ", key);
    print_bytes(text);
}

static void print_numbers(const char *key, const uint32_t *numbers, size_t count) {
    printf(", \"%s\": [", key);
    for (size_t at = 0; at < count; at++)
        printf("%s%u", at ? ", " : "", (unsigned)numbers[at]);
    putchar(']');
}

static void print_sizes(const char *key, const int64_t *sizes, size_t count) {
    printf(", \"%s\": [", key);
    for (size_t at = 0; at < count; at++)
        printf("%s%lld", at ? ", " : "", (long long)sizes[at]);
    putchar(']');
}

/* Print the first variants of a function. One that is refused is a number. */
static void print_variants(devmod_file *file, const devmod_function *function) {
    printf(", \"variants\": [");
    for (size_t position = 0; position < POSITIONS; position++) {
        devmod_variant variant;
        int result = devmod_get_variant(file, function, position, ARGUMENTS, 2, &variant);
        if (result == DEVMOD_NOT_FOUND)
            break;
        printf(position ? ", " : "");
        if (result) {
            printf("%d", result);
            continue;
        }
        printf("{\"specialized\": %s, \"constants\": [", variant.is_specialized ? "true" : "false");
        for (size_t at = 0; at < variant.constant_count; at++) {
            const devmod_value *value = variant.constants + at;
            printf("%s[", at ? ", " : "");
            print_bytes(value->name);
            printf(", \"%c\", ", value->type);
            if (value->type == 's')
                print_bytes(value->text);
            else if (value->type == 'f')
                printf("%.17g", value->number);
            else
                printf("%lld", (long long)value->integer);
            putchar(']');
        }
        putchar(']');
        print_sizes("grid", variant.grid, variant.grid_count);
        print_sizes("block", variant.block, variant.block_count);
        putchar('}');
    }
    putchar(']');
}

static void print_functions(devmod_file *file, const devmod_contents *contents) {
    print_text("fmt", contents->format);
    print_texts("codes", contents->codes, contents->code_count);
    printf(", \"infos\": [");
    for (size_t at = 0; at < contents->function_count; at++) {
        const devmod_function *function = contents->functions + at;
        printf("%s{\"needs\": %d", at ? ", " : "", devmod_check_needs(file, function));
        print_text("symbol", function->symbol);
        print_texts("tags", function->tags, function->tag_count);
        print_numbers("types", function->types[0], 3 * function->type_count);
        print_variants(file, function);
        putchar('}');
    }
    putchar(']');
}

static int print_constants(devmod_file *file, uint32_t number) {
    int result = 0;
    printf(", \"constants\": {");
    for (int at = 0, count = 0; at < 2; at++) {
        devmod_constant constant;
        result = devmod_get_constant(file, number, CONSTANTS[at], MOST, &constant);
        if (result == DEVMOD_INVALID)
            break;
        if (result)
            continue;
        printf("%s\"%s\": {\"name\": \"%s\"", count++ ? ", " : "", CONSTANTS[at], CONSTANTS[at]);
        print_numbers("type", constant.type, 3);
        print_sizes("shape", (const int64_t *)constant.shape, constant.shape_count);
        print_text("data", constant.data);
        putchar('}');
    }
    putchar('}');
    return result == DEVMOD_INVALID ? result : 0;
}

/* Print a record. Return the first result that is no success. */
static int print_record(devmod_file *file, uint32_t number) {
    devmod_module m;
    devmod_slice bytes = {0};
    devmod_contents contents;
    int result = devmod_get_module(file, number, &m), is_read;
    if (result)
        return result;
    printf("%s{\"number\": %u", number ? ", " : "", (unsigned)number);
    print_text("kind", m.kind);
    print_text("format", m.format);
    print_text("variant", m.variant);
    print_texts("functions", m.functions, m.function_count);
    print_texts("features", m.features, m.feature_count);
    print_numbers("imports", m.imports, m.import_count);
    print_numbers("parts", m.parts, m.part_count);
    printf(", \"rank\": %lld, \"sources\": %lld", (long long)m.rank, (long long)m.sources);
    if (m.has_bytes)
        printf(", \"size\": %llu", (unsigned long long)m.size);
    is_read = m.has_bytes && m.kind.size;
    if (is_read)
        result = devmod_get_bytes(file, number, MOST, &bytes);
    is_read = is_read && !result;
    if (is_read)
        print_text("bytes", bytes);
    if (is_read && m.kind.size == 12 && !memcmp(m.kind.data, "const_loader", 12)) {
        result = print_constants(file, number);
    } else if (is_read && !(result = devmod_get_contents(file, number, MOST, &contents))) {
        print_functions(file, &contents);
    }
    if (result == DEVMOD_UNSUPPORTED)
        result = 0;
    putchar('}');
    return result;
}

int main(void) {
    uint8_t head[4];
    while (fread(head, 1, 4, stdin) == 4) {
        size_t size = head[0] | head[1] << 8 | head[2] << 16 | (size_t)head[3] << 24;
        uint8_t *data = malloc(size ? size : 1); /* the sanitizer knows its end */
        devmod_file *file;
        if (!data || fread(data, 1, size, stdin) != size)
            return 1;
        int result = devmod_open(NULL, data, size, &file);
        if (!result)
            result = devmod_check_all(file);
        printf("{\"records\": [");
        for (uint32_t number = 0; !result && number < devmod_record_count(file); number++)
            result = print_record(file, number);
        printf("], \"result\": %d, \"refused\": ", result);
        const char *error = result ? devmod_error(file) : "";
        print_bytes((devmod_slice){(const uint8_t *)error, strlen(error)});
        printf("}\n");
        fflush(stdout);
        devmod_close(file);
        free(data);
    }
    return 0;
}
