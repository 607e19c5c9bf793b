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

#define MOST_IMAGE (UINT64_C(1) << 31)

ImageKind image_kind(const void *image)
{
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (memcmp(image, ELFMAG, SELFMAG) == 0)
        return IMAGE_CUBIN;
    if (magic == FATBIN_MAGIC || magic == WRAPPER_MAGIC)
        return IMAGE_FATBIN;
    unsigned char first = *(const unsigned char *)image;
    return isprint(first) || isspace(first) ? IMAGE_PTX : IMAGE_UNKNOWN;
}

/* Copy memory that may not be there: an image has its size within, and a truncated one ends earlier. */
static bool copy_safely(void *target, const void *source, size_t size)
{
    struct iovec local = {target, size}, remote = {(void *)(uintptr_t)source, size};
    ssize_t count = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (count < 0 && errno == EPERM) { /* a sandbox may forbid it */
        memcpy(target, source, size);
        return true;
    }
    return count == (ssize_t)size;
}

/* Return the bytes of an ELF file from its headers, 0 if they are damaged. */
static size_t elf_size(const void *image)
{
    Elf64_Ehdr header;
    if (!copy_safely(&header, image, sizeof header) || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != CUDA_MACHINE)
        return 0;
    uint64_t sections = header.e_shoff + (uint64_t)header.e_shnum * sizeof(Elf64_Shdr);
    uint64_t segments = header.e_phoff + (uint64_t)header.e_phnum * sizeof(Elf64_Phdr);
    uint64_t result = sections > segments ? sections : segments;
    if (header.e_shoff > MOST_IMAGE || header.e_phoff > MOST_IMAGE || header.e_shentsize != sizeof(Elf64_Shdr))
        return 0;
    for (int i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;
        if (!copy_safely(&section, (const char *)image + header.e_shoff + (size_t)i * sizeof section, sizeof section))
            return 0;
        if (section.sh_type == SHT_NOBITS)
            continue;
        if (section.sh_offset > MOST_IMAGE || section.sh_size > MOST_IMAGE)
            return 0;
        if (section.sh_offset + section.sh_size > result)
            result = section.sh_offset + section.sh_size;
    }
    return result;
}

size_t image_size(const void *image)
{
    FatbinHeader header;
    switch (image_kind(image)) {
    case IMAGE_PTX: return strlen(image) + 1;
    case IMAGE_CUBIN: return elf_size(image);
    case IMAGE_FATBIN:
        return copy_safely(&header, image, sizeof header) && header.size < MOST_IMAGE ? header.header_size + header.size : 0;
    default: return 0;
    }
}

const void *image_of(const void *image)
{
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic == WRAPPER_MAGIC) /* {magic, version, data, …}: what a compiler puts beside the data */
        memcpy(&image, (const char *)image + 8, sizeof image);
    return image;
}

void *image_copy(const void *image, size_t *size)
{
    *size = image_size(image);
    char *copy = *size ? calloc(1, *size + 1) : NULL;
    if (copy && copy_safely(copy, image, *size))
        return copy;
    free(copy);
    return NULL;
}
