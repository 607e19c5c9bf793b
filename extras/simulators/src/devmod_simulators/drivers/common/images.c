/* Images of modules: an ELF file in memory, whose size is only within it, and files. */
#include "driver.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Copy memory that may not be there: an image has its size within, and a truncated one ends
 * earlier. */
bool copy_safely(void *target, const void *source, size_t size) {
    struct iovec local = {target, size}, remote = {(void *)(uintptr_t)source, size};
    ssize_t count = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (count < 0 &&
        (errno == EPERM || errno == ENOSYS)) { /* a sandbox may forbid it, and qemu-user lacks it */
        memcpy(target, source, size);
        return true;
    }
    return count == (ssize_t)size;
}

/* Return the bytes of an ELF file for a machine from its headers, 0 if they are damaged. */
size_t elf_size(const void *image, int machine) {
    Elf64_Ehdr header;
    if (!copy_safely(&header, image, sizeof header) || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != machine)
        return 0;
    uint64_t sections = header.e_shoff + (uint64_t)header.e_shnum * sizeof(Elf64_Shdr);
    uint64_t segments = header.e_phoff + (uint64_t)header.e_phnum * sizeof(Elf64_Phdr);
    uint64_t result = sections > segments ? sections : segments;
    if (header.e_shoff > MOST_IMAGE || header.e_phoff > MOST_IMAGE ||
        header.e_shentsize != sizeof(Elf64_Shdr))
        return 0;
    for (int i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;
        if (!copy_safely(&section,
                         (const char *)image + header.e_shoff + (size_t)i * sizeof section,
                         sizeof section))
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

/* Return the contents of a file with a zero behind it, or NULL. The caller frees it. */
char *file_contents(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *contents = calloc(1, (size_t)size + 1);
    if (contents && fread(contents, 1, (size_t)size, file) != (size_t)size) {
        free(contents);
        contents = NULL;
    }
    fclose(file);
    return contents;
}
