/* Images of modules: the checks of PTX's header, the kernels of a cubin (ELF, .nv.info), the members of a fatbin. */
#define _GNU_SOURCE
#include "cuda_standin.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CUDA_MACHINE = 190, CUBIN_ENTRY = 0x10, MOST_SECTIONS = 1 << 16 };
enum { KPARAM_INFO = 0x17, MAX_THREADS = 0x05, REQNTID = 0x10, FORMAT_SIZED = 0x04 };

#define MOST_IMAGE (UINT64_C(1) << 31)

typedef struct {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; /* of the members behind the header */
} FatbinHeader;

static const uint32_t FATBIN_MAGIC = 0xba55ed50, WRAPPER_MAGIC = 0x466243b1;

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

/* ---- PTX ------------------------------------------------------------------------------------------------------------------ */

/* Return the newest PTX that the driver takes, as major * 10 + minor. */
static int newest_ptx(void)
{
    static const int of_cuda_12[] = {80, 81, 82, 83, 84, 85, 85, 86, 87, 88};
    int version = driver_version(), major = version / 1000, minor = version % 1000 / 10;
    int result = major >= 13 ? 90 + minor : major == 12 && minor < 10 ? of_cuda_12[minor] : 70 + minor;
    return (int)setting_number("ptx_version", (uint64_t)result);
}

/* Return the text behind a directive at the start of a line, or NULL. Comments have none that matter: PTX's header is plain. */
static const char *directive(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        line += strspn(line, " \t\r");
        if (strncmp(line, name, length) == 0 && isspace((unsigned char)line[length]))
            return line + length + strspn(line + length, " \t");
    }
    return NULL;
}

CUresult ptx_check(const char *text, int arch, char *log, size_t log_size)
{
    const char *version = directive(text, ".version"), *target = directive(text, ".target"), *size = directive(text, ".address_size");
    int major = 0, minor = 0, wanted = 0, end = 0;
    if (!version || sscanf(version, "%d.%d", &major, &minor) != 2 || !target || sscanf(target, "sm_%d%n", &wanted, &end) != 1) {
        snprintf(log, log_size, "the text has no .version and .target: it is not PTX");
        return CUDA_ERROR_INVALID_PTX;
    }
    if (major * 10 + minor > newest_ptx()) {
        snprintf(log, log_size, "Unsupported .version %d.%d; current version is '%d.%d'", major, minor, newest_ptx() / 10, newest_ptx() % 10);
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    bool exact = target[end] == 'a', family = target[end] == 'f';
    if (wanted > arch || (exact && wanted != arch) || (family && wanted / 10 != arch / 10)) {
        snprintf(log, log_size, "the PTX is for %.*s, the device is sm_%d", (int)strcspn(target, " \t\r\n,"), target, arch);
        return exact || family ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_PTX;
    }
    if (!size || atoi(size) != 64) {
        snprintf(log, log_size, "expected .address_size 64");
        return CUDA_ERROR_INVALID_PTX;
    }
    return CUDA_SUCCESS;
}

/* ---- cubins ----------------------------------------------------------------------------------------------------------------- */

typedef struct {
    const unsigned char *image;
    size_t size;
    const Elf64_Shdr *sections;
    unsigned count;
    const char *names;
    size_t names_size;
} Elf;

static bool inside(size_t size, uint64_t offset, uint64_t length)
{
    return offset <= size && length <= size - offset;
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

static bool open_elf(Elf *elf, const unsigned char *image, size_t size)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    *elf = (Elf){.image = image, .size = size, .count = header->e_shnum};
    elf->sections = (const Elf64_Shdr *)(image + header->e_shoff);
    if (!inside(size, header->e_shoff, (uint64_t)elf->count * sizeof(Elf64_Shdr)) || header->e_shstrndx >= elf->count)
        return false;
    for (unsigned i = 0; i < elf->count; i++)
        if (elf->sections[i].sh_type != SHT_NOBITS && !inside(size, elf->sections[i].sh_offset, elf->sections[i].sh_size))
            return false;
    const Elf64_Shdr *names = &elf->sections[header->e_shstrndx];
    elf->names = (const char *)image + names->sh_offset;
    elf->names_size = names->sh_size;
    return elf->names_size && !elf->names[elf->names_size - 1];
}

static const char *section_name(const Elf *elf, unsigned index)
{
    return index < elf->count && elf->sections[index].sh_name < elf->names_size ? elf->names + elf->sections[index].sh_name : "";
}

static const Elf64_Shdr *find_section(const Elf *elf, const char *prefix, const char *name)
{
    for (unsigned i = 0; i < elf->count; i++) {
        const char *text = section_name(elf, i);
        if (strncmp(text, prefix, strlen(prefix)) == 0 && strcmp(text + strlen(prefix), name) == 0)
            return &elf->sections[i];
    }
    return NULL;
}

/* Take one parameter of .nv.info: number, offset and size. */
static void add_param(Kernel *kernel, const unsigned char *value)
{
    uint16_t number, offset;
    uint32_t bits;
    memcpy(&number, value + 4, sizeof number);
    memcpy(&offset, value + 6, sizeof offset);
    memcpy(&bits, value + 8, sizeof bits);
    uint32_t size = bits >> 18;
    if (number >= kernel->param_count) {
        kernel->params = realloc(kernel->params, (number + 1u) * sizeof *kernel->params);
        if (!kernel->params)
            abort();
        memset(kernel->params + kernel->param_count, 0, (number + 1u - kernel->param_count) * sizeof *kernel->params);
        kernel->param_count = number + 1u;
    }
    kernel->params[number] = (Param){offset, size};
    if (offset + size > kernel->param_bytes)
        kernel->param_bytes = offset + size;
}

/* Read the attributes of a kernel: records of format, attribute, and 16 bits that are the value or the size of what follows. */
static bool read_info(const Elf *elf, const Elf64_Shdr *info, Kernel *kernel)
{
    const unsigned char *data = elf->image + info->sh_offset, *end = data + info->sh_size;
    while (end - data >= 4) {
        uint16_t size;
        memcpy(&size, data + 2, sizeof size);
        const unsigned char *value = data + 4;
        unsigned format = data[0], kind = data[1];
        size = format == FORMAT_SIZED ? size : 0;
        if (end - value < size)
            return false;
        if (kind == KPARAM_INFO && size == 12)
            add_param(kernel, value);
        else if (kind == REQNTID && size == 12)
            memcpy(kernel->block, value, 12);
        else if (kind == MAX_THREADS && size == 12) {
            uint32_t most[3];
            memcpy(most, value, 12);
            kernel->max_threads = most[0] * most[1] * most[2];
        }
        data = value + size;
    }
    return data == end;
}

static bool add_kernel(const Elf *elf, Module *module, const char *name)
{
    module->kernels = realloc(module->kernels, (module->kernel_count + 1) * sizeof *module->kernels);
    if (!module->kernels)
        abort();
    Kernel *kernel = &module->kernels[module->kernel_count++];
    *kernel = (Kernel){.name = strdup(name)};
    const Elf64_Shdr *info = find_section(elf, ".nv.info.", name), *shared = find_section(elf, ".nv.shared.", name);
    kernel->shared = shared ? (uint32_t)shared->sh_size : 0;
    return !info || read_info(elf, info, kernel);
}

static void add_global(const Elf *elf, Module *module, const char *name, const Elf64_Sym *symbol)
{
    const Elf64_Shdr *section = &elf->sections[symbol->st_shndx];
    const char *kind = section_name(elf, symbol->st_shndx);
    bool constant = strncmp(kind, ".nv.constant", 12) == 0;
    if (!constant && strncmp(kind, ".nv.global", 10) != 0)
        return;
    module->globals = realloc(module->globals, (module->global_count + 1) * sizeof *module->globals);
    if (!module->globals)
        abort();
    bool stored = section->sh_type != SHT_NOBITS && inside(section->sh_size, symbol->st_value, symbol->st_size);
    module->globals[module->global_count++] = (Global){
        .name = strdup(name), .size = symbol->st_size, .flags = constant,
        .initial = stored ? elf->image + section->sh_offset + symbol->st_value : NULL,
    };
}

CUresult cubin_read(const unsigned char *image, size_t size, Module *module)
{
    Elf elf;
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    CHECK(size && open_elf(&elf, image, size), CUDA_ERROR_INVALID_IMAGE);
    /* The newer of NVIDIA's layouts of e_flags has the architecture in bits 8 to 15. */
    int low = (int)(header->e_flags & 0xff), high = (int)(header->e_flags >> 8 & 0xff);
    module->arch = high >= 50 ? high : low;
    for (unsigned i = 0; i < elf.count; i++) {
        const Elf64_Shdr *table = &elf.sections[i];
        if (table->sh_type != SHT_SYMTAB || table->sh_link >= elf.count)
            continue;
        const char *strings = (const char *)image + elf.sections[table->sh_link].sh_offset;
        size_t strings_size = elf.sections[table->sh_link].sh_size;
        const Elf64_Sym *symbols = (const Elf64_Sym *)(image + table->sh_offset);
        CHECK(strings_size && !strings[strings_size - 1], CUDA_ERROR_INVALID_IMAGE);
        for (size_t j = 0; j < table->sh_size / sizeof *symbols; j++) {
            const Elf64_Sym *symbol = &symbols[j];
            CHECK(symbol->st_name < strings_size, CUDA_ERROR_INVALID_IMAGE);
            const char *name = strings + symbol->st_name;
            if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_other & CUBIN_ENTRY)
                CHECK(add_kernel(&elf, module, name), CUDA_ERROR_INVALID_IMAGE);
            else if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_shndx < elf.count && symbol->st_size)
                add_global(&elf, module, name, symbol);
        }
    }
    return CUDA_SUCCESS;
}

/* ---- fatbins ---------------------------------------------------------------------------------------------------------------- */

typedef struct {
    uint16_t kind, version; /* kind 1: PTX, 2: cubin */
    uint32_t header_size;
    uint64_t size;
    uint32_t compressed_size, unknown, arch32, arch;
    uint32_t name_offset, name_size;
    uint64_t flags, unknown2, plain_size;
} FatbinMember;

enum { MEMBER_PTX = 1, MEMBER_CUBIN = 2, MEMBER_COMPRESSED = 0x2000 | 0x8000 };

CUresult fatbin_member(const unsigned char *image, int arch, void **member, size_t *size)
{
    FatbinHeader header;
    memcpy(&header, image, sizeof header);
    CHECK(header.magic == FATBIN_MAGIC && header.header_size >= sizeof header, CUDA_ERROR_INVALID_IMAGE);
    const unsigned char *data = image + header.header_size, *end = data + header.size, *best = NULL;
    int best_rank = -1;
    FatbinMember chosen = {0};
    while ((size_t)(end - data) >= 64) {
        FatbinMember entry;
        memcpy(&entry, data, sizeof entry);
        CHECK(entry.header_size >= 64 && inside((size_t)(end - data), entry.header_size, entry.size), CUDA_ERROR_INVALID_IMAGE);
        int own = (int)entry.arch, rank = -1;
        if (entry.kind == MEMBER_CUBIN && own / 10 == arch / 10 && own <= arch)
            rank = 1000 + own;
        else if (entry.kind == MEMBER_PTX && own <= arch)
            rank = own;
        if (rank > best_rank) {
            best_rank = rank;
            best = data + entry.header_size;
            chosen = entry;
        }
        data += entry.header_size + entry.size;
    }
    CHECK(best, CUDA_ERROR_NO_BINARY_FOR_GPU);
    if (chosen.flags & MEMBER_COMPRESSED) {
        explain("the fatbin's member for sm_%u is compressed; the stand-in driver reads plain members alone", chosen.arch);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    unsigned char *copy = calloc(1, chosen.size + 1);
    CHECK(copy, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(copy, best, chosen.size);
    *member = copy;
    *size = chosen.size;
    return CUDA_SUCCESS;
}
