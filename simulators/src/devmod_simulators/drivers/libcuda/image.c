/* Images of modules: their kinds, and a copy of an image that has its size within. */
#include "cuda_standin.h"

#include <ctype.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { CUDA_MACHINE = 190 };

ImageKind image_kind(const void *image) {
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (memcmp(image, ELFMAG, SELFMAG) == 0)
        return IMAGE_CUBIN;
    if (magic == FATBIN_MAGIC || magic == WRAPPER_MAGIC)
        return IMAGE_FATBIN;
    unsigned char first = *(const unsigned char *)image;
    return isprint(first) || isspace(first) ? IMAGE_PTX : IMAGE_UNKNOWN;
}

size_t image_size(const void *image) {
    FatbinHeader header;
    switch (image_kind(image)) {
    case IMAGE_PTX:
        return strlen(image) + 1;
    case IMAGE_CUBIN:
        return elf_size(image, CUDA_MACHINE);
    case IMAGE_FATBIN:
        return copy_safely(&header, image, sizeof header) && header.size < MOST_IMAGE
                   ? header.header_size + header.size
                   : 0;
    default:
        return 0;
    }
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

/* Return a fatbin with the parts of a program of nvlink. */
static char *copy_parts(const Wrapper *wrapper, size_t *size) {
    FatbinHeader header = {FATBIN_MAGIC, FATBIN_OF_PARTS, sizeof header, 0};
    for (const void *const *part = wrapper->parts; *part; part++) {
        size_t bytes = image_kind(*part) == IMAGE_FATBIN ? image_size(*part) : 0;
        if (!bytes)
            return NULL;
        header.size += bytes;
    }
    *size = sizeof header + header.size;
    char *copy = calloc(1, *size + 1), *to = copy;
    if (!copy)
        return NULL;
    memcpy(to, &header, sizeof header);
    to += sizeof header;
    for (const void *const *part = wrapper->parts; *part; part++) {
        memcpy(to, *part, image_size(*part));
        to += image_size(*part);
    }
    return copy;
}

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
