/* Cubins: the kernels of an ELF file with their parameters (.nv.info), and its globals. */
#include "cuda_standin.h"

#include <elf.h>
#include <string.h>

enum {
    CUBIN_ENTRY = 0x10,
    KPARAM_INFO = 0x17,
    MAX_THREADS = 0x05,
    REQNTID = 0x10,
    FORMAT_SIZED = 0x04
};

typedef struct {
    const unsigned char *image;
    size_t size;
    const Elf64_Shdr *sections;
    unsigned count;
    const char *names;
    size_t names_size;
} Elf;

static bool open_elf(Elf *elf, const unsigned char *image, size_t size) {
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    *elf = (Elf){.image = image, .size = size, .count = header->e_shnum};
    elf->sections = (const Elf64_Shdr *)(image + header->e_shoff);
    if (!inside(size, header->e_shoff, (uint64_t)elf->count * sizeof(Elf64_Shdr)) ||
        header->e_shstrndx >= elf->count)
        return false;
    for (unsigned i = 0; i < elf->count; i++)
        if (elf->sections[i].sh_type != SHT_NOBITS &&
            !inside(size, elf->sections[i].sh_offset, elf->sections[i].sh_size))
            return false;
    const Elf64_Shdr *names = &elf->sections[header->e_shstrndx];
    elf->names = (const char *)image + names->sh_offset;
    elf->names_size = names->sh_size;
    return elf->names_size && !elf->names[elf->names_size - 1];
}

static const char *section_name(const Elf *elf, unsigned index) {
    return index < elf->count && elf->sections[index].sh_name < elf->names_size
               ? elf->names + elf->sections[index].sh_name
               : "";
}

static const Elf64_Shdr *find_section(const Elf *elf, const char *prefix, const char *name) {
    for (unsigned i = 0; i < elf->count; i++) {
        const char *text = section_name(elf, i);
        if (strncmp(text, prefix, strlen(prefix)) == 0 && strcmp(text + strlen(prefix), name) == 0)
            return &elf->sections[i];
    }
    return NULL;
}

/* Take one parameter of .nv.info: number, offset and size. */
static void add_param(Kernel *kernel, const unsigned char *value) {
    uint16_t number, offset;
    uint32_t bits;
    memcpy(&number, value + 4, sizeof number);
    memcpy(&offset, value + 6, sizeof offset);
    memcpy(&bits, value + 8, sizeof bits);
    uint32_t size = bits >> 18;
    if (number >= kernel->param_count) {
        kernel->params = with_room(kernel->params, number, sizeof *kernel->params);
        memset(kernel->params + kernel->param_count, 0,
               (number + 1u - kernel->param_count) * sizeof *kernel->params);
        kernel->param_count = number + 1u;
    }
    kernel->params[number] = (Param){offset, size, NULL};
    if (offset + size > kernel->param_bytes)
        kernel->param_bytes = kernel->visible_bytes = offset + size;
}

/* Read the attributes of a kernel: records of format, attribute, and 16 bits that are the value or
 * the size of what follows. */
static bool read_info(const Elf *elf, const Elf64_Shdr *info, Kernel *kernel) {
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

static bool add_kernel(const Elf *elf, Module *module, const char *name) {
    module->kernels = with_room(module->kernels, module->kernel_count, sizeof *module->kernels);
    Kernel *kernel = &module->kernels[module->kernel_count++];
    *kernel = (Kernel){.name = strdup(name)};
    const Elf64_Shdr *info = find_section(elf, ".nv.info.", name),
                     *shared = find_section(elf, ".nv.shared.", name);
    kernel->shared = shared ? (uint32_t)shared->sh_size : 0;
    return !info || read_info(elf, info, kernel);
}

static void add_global(const Elf *elf, Module *module, const char *name, const Elf64_Sym *symbol) {
    const Elf64_Shdr *section = &elf->sections[symbol->st_shndx];
    const char *kind = section_name(elf, symbol->st_shndx);
    bool constant = strncmp(kind, ".nv.constant", 12) == 0;
    if (!constant && strncmp(kind, ".nv.global", 10) != 0)
        return;
    module->globals = with_room(module->globals, module->global_count, sizeof *module->globals);
    bool stored = section->sh_type != SHT_NOBITS &&
                  inside(section->sh_size, symbol->st_value, symbol->st_size);
    module->globals[module->global_count++] = (Global){
        .name = strdup(name),
        .size = symbol->st_size,
        .flags = constant,
        .initial = stored ? elf->image + section->sh_offset + symbol->st_value : NULL,
    };
}

CUresult cubin_read(const unsigned char *image, size_t size, Module *module) {
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
            else if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_shndx < elf.count &&
                     symbol->st_size)
                add_global(&elf, module, name, symbol);
        }
    }
    return CUDA_SUCCESS;
}
