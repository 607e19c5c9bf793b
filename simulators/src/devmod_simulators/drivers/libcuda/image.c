/* Images of modules: their kinds, and a copy of an image that has its size within. */
#define _GNU_SOURCE
#include "cuda_standin.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

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

const void *image_of(const void *image) {
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic ==
        WRAPPER_MAGIC) /* {magic, version, data, …}: what a compiler puts beside the data */
        memcpy(&image, (const char *)image + 8, sizeof image);
    return image;
}

void *image_copy(const void *image, size_t *size) {
    *size = image_size(image);
    char *copy = *size ? calloc(1, *size + 1) : NULL;
    if (copy && copy_safely(copy, image, *size))
        return copy;
    free(copy);
    return NULL;
}
