/* Images of modules: their kinds, and a copy of an image that has its size within. */
#include "cuda_standin.h"

#include <ctype.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { CUDA_MACHINE = 190 };

/* The first bytes of a fatbin; its members follow. */
typedef struct {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; /* of the members */
} FatbinHeader;

#define FATBIN_MAGIC 0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u

/* Return the bytes of a fatbin, 0 if it is damaged or another image. */
static size_t fatbin_size(const void *image) {
    FatbinHeader header;
    bool is_fatbin = copy_safely(&header, image, sizeof header) && header.magic == FATBIN_MAGIC;
    return is_fatbin && header.size < MOST_IMAGE ? header.header_size + header.size : 0;
}

/* Return the bytes of an image, which it has within, 0 if it is damaged. */
static size_t image_size(const void *image) {
    uint32_t magic;
    unsigned char first = *(const unsigned char *)image;
    memcpy(&magic, image, sizeof magic);
    if (memcmp(image, ELFMAG, SELFMAG) == 0)
        return elf_size(image, CUDA_MACHINE);
    if (magic == FATBIN_MAGIC)
        return fatbin_size(image);
    return isprint(first) || isspace(first) ? strlen(image) + 1 : 0;
}

/* What a compiler puts beside a fatbin. */
typedef struct {
    uint32_t magic, version; /* version 2: nvlink has made a program of several fatbins */
    const void *data;
    const void *const *parts; /* of version 2, with NULL at their end */
} Wrapper;

/* Return whether an image is a program of nvlink, whose parts are loaded: the program itself is
 * machine code. */
static bool has_parts(const Wrapper *wrapper) {
    return wrapper->magic == WRAPPER_MAGIC && wrapper->version == 2 && wrapper->parts &&
           wrapper->parts[0] && !takes_cubins();
}

/* Return the parts of a program of nvlink, fatbins that follow each other. */
static char *copy_parts(const Wrapper *wrapper, size_t *size) {
    *size = 0;
    for (const void *const *part = wrapper->parts; *part; part++) {
        size_t bytes = fatbin_size(*part);
        if (!bytes)
            return NULL;
        *size += bytes;
    }
    char *copy = zeroed(*size), *to = copy;
    for (const void *const *part = wrapper->parts; *part; part++) {
        memcpy(to, *part, fatbin_size(*part));
        to += fatbin_size(*part);
    }
    return copy;
}

/* Return a copy of an image, or of what a wrapper has, and set *size, or NULL if it is damaged or
 * not all of it is there. */
void *image_copy(const void *image, size_t *size) {
    Wrapper wrapper = {0};
    memcpy(&wrapper.magic, image, sizeof wrapper.magic);
    if (wrapper.magic == WRAPPER_MAGIC) {
        memcpy(&wrapper, image, sizeof wrapper);
        if (has_parts(&wrapper))
            return copy_parts(&wrapper, size);
        image = wrapper.data;
    }
    *size = image_size(image);
    char *copy = *size ? calloc(1, *size + 1) : NULL;
    if (copy && copy_safely(copy, image, *size))
        return copy;
    free(copy);
    return NULL;
}
