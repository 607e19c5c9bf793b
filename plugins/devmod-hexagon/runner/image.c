/* Maps the segments of a shared object into memory that the host has reserved, resolves its imports
 * and applies its relocations.
 *
 * The file comes from a stranger: each offset is checked against the file, and each address against
 * the reserved memory.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runner.h"

enum { MACHINE = 164, PAGE = 4096 };
enum { R_NONE = 0, R_32 = 6, R_COPY = 32, R_GLOB_DAT = 33, R_JMP_SLOT = 34, R_RELATIVE = 35 };

struct image {
    uint8_t *base; /* the place of the file's address 0 */
    uint32_t span;
    const Elf32_Sym *symbols;
    uint32_t symbol_count;
    const char *names;
    uint32_t names_size;
};

typedef struct {
    uint32_t address[64]; /* by tag; the entries that the loader uses are below 64 */
    uint32_t gnu_hash;
} dynamic_table;

/* Return the memory at an address of the file; NULL if `size` bytes do not fit. */
static void *at(const image *loaded, uint32_t address, uint32_t size) {
    return address <= loaded->span && size <= loaded->span - address ? loaded->base + address
                                                                     : NULL;
}

static const char *symbol_name(const image *loaded, const Elf32_Sym *symbol) {
    if (symbol->st_name >= loaded->names_size)
        return "";
    const char *name = loaded->names + symbol->st_name;
    return memchr(name, 0, loaded->names_size - symbol->st_name) ? name : "";
}

static int copy_segments(image *loaded, const uint8_t *file, uint32_t size,
                         const Elf32_Phdr *segments, uint32_t count) {
    for (uint32_t number = 0; number < count; number++) {
        const Elf32_Phdr *segment = &segments[number];
        if (segment->p_type != PT_LOAD)
            continue;
        uint8_t *target = at(loaded, segment->p_vaddr, segment->p_memsz);
        if (!target || segment->p_filesz > segment->p_memsz || segment->p_offset > size ||
            segment->p_filesz > size - segment->p_offset)
            return 0;
        memcpy(target, file + segment->p_offset, segment->p_filesz);
        memset(target + segment->p_filesz, 0, segment->p_memsz - segment->p_filesz);
    }
    return 1;
}

/* Protect code: a kernel that writes to it faults. A page that also contains data stays writable.
 */
static void protect_segments(const image *loaded, const Elf32_Phdr *segments, uint32_t count) {
    for (uint32_t number = 0; number < count; number++) {
        const Elf32_Phdr *segment = &segments[number];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        uint32_t start = segment->p_vaddr / PAGE * PAGE,
                 end = (segment->p_vaddr + segment->p_memsz + PAGE - 1) / PAGE * PAGE;
        int flags = PROT_READ | PROT_EXEC;
        for (uint32_t other = 0; other < count; other++) {
            uint32_t from = segments[other].p_vaddr / PAGE * PAGE,
                     to = segments[other].p_vaddr + segments[other].p_memsz;
            if (segments[other].p_type == PT_LOAD && segments[other].p_flags & PF_W && from < end &&
                to > start)
                flags |= PROT_WRITE;
        }
        mprotect(loaded->base + start, end - start, flags);
    }
}

static uint32_t gnu_symbol_count(const image *loaded, uint32_t address) {
    const uint32_t *table = at(loaded, address, 16);
    if (!table)
        return 0;
    uint32_t buckets = table[0], first = table[1], filter = table[2], last = 0;
    if (buckets > loaded->span / 4 || filter > loaded->span / 4)
        return 0;
    uint32_t places = address + 16 + filter * 4, chains = places + buckets * 4;
    for (uint32_t number = 0; number < buckets; number++) {
        const uint32_t *bucket = at(loaded, places + number * 4, 4);
        if (!bucket)
            return 0;
        last = *bucket > last ? *bucket : last;
    }
    if (last < first)
        return first;
    for (;; last++) {
        const uint32_t *chain =
            last - first < loaded->span / 4 ? at(loaded, chains + (last - first) * 4, 4) : NULL;
        if (!chain)
            return 0;
        if (*chain & 1)
            return last + 1;
    }
}

static int read_dynamic(image *loaded, const Elf32_Phdr *segments, uint32_t count,
                        dynamic_table *table) {
    memset(table, 0, sizeof *table);
    for (uint32_t number = 0; number < count; number++) {
        if (segments[number].p_type != PT_DYNAMIC)
            continue;
        const Elf32_Dyn *entries = at(loaded, segments[number].p_vaddr, segments[number].p_memsz);
        if (!entries || segments[number].p_vaddr % 4)
            return 0;
        for (uint32_t entry = 0;
             entry < segments[number].p_memsz / sizeof *entries && entries[entry].d_tag != DT_NULL;
             entry++) {
            if (entries[entry].d_tag >= 0 && entries[entry].d_tag < 64)
                table->address[entries[entry].d_tag] = entries[entry].d_un.d_val;
            else if (entries[entry].d_tag == 0x6ffffef5)
                table->gnu_hash = entries[entry].d_un.d_val;
        }
    }
    const uint32_t *hash = table->address[DT_HASH] ? at(loaded, table->address[DT_HASH], 8) : NULL;
    loaded->symbol_count = hash              ? hash[1]
                           : table->gnu_hash ? gnu_symbol_count(loaded, table->gnu_hash)
                                             : 0;
    if (loaded->symbol_count > loaded->span / sizeof(Elf32_Sym))
        return 0;
    loaded->symbols =
        at(loaded, table->address[DT_SYMTAB], loaded->symbol_count * (uint32_t)sizeof(Elf32_Sym));
    loaded->names_size = table->address[DT_STRSZ];
    loaded->names = at(loaded, table->address[DT_STRTAB], loaded->names_size);
    return loaded->symbols && loaded->names && table->address[DT_SYMTAB] % 4 == 0;
}

/* Return whether the symbol has a value. If it has none, add its name to `missing`. */
static int resolve(const image *loaded, uint32_t number, uint32_t *value, char *missing,
                   size_t missing_size) {
    const Elf32_Sym *symbol = &loaded->symbols[number];
    const char *name = symbol_name(loaded, symbol);

    *value = 0;
    if (number == 0)
        return 1;
    if (symbol->st_shndx != SHN_UNDEF) {
        *value = symbol->st_shndx == SHN_ABS ? symbol->st_value
                                             : (uint32_t)loaded->base + symbol->st_value;
        return 1;
    }
    *value = export_address(name);
    if (*value || ELF32_ST_BIND(symbol->st_info) == STB_WEAK)
        return 1;
    size_t used = strlen(missing);
    if (used + strlen(name) + 3 < missing_size)
        snprintf(missing + used, missing_size - used, "%s%s", used ? ", " : "", name);
    return 0;
}

static int relocate(const image *loaded, uint32_t address, uint32_t size, char *error,
                    size_t error_size) {
    char missing[MAX_NAME / 2] = "";
    const Elf32_Rela *entries = at(loaded, address, size);

    if (!entries || address % 4) {
        snprintf(error, error_size, "its relocations are outside the file");
        return 0;
    }
    for (uint32_t number = 0; number < size / sizeof *entries; number++) {
        uint32_t type = ELF32_R_TYPE(entries[number].r_info),
                 symbol = ELF32_R_SYM(entries[number].r_info), value = 0;
        uint8_t *place = at(loaded, entries[number].r_offset, 4);
        if (!place || symbol >= (loaded->symbol_count ? loaded->symbol_count : 1)) {
            snprintf(error, error_size, "a relocation is outside the file");
            return 0;
        }
        if (type == R_NONE)
            continue;
        if (type == R_RELATIVE)
            value = (uint32_t)loaded->base;
        else if (type != R_32 && type != R_GLOB_DAT && type != R_JMP_SLOT) {
            snprintf(error, error_size, "it has a relocation of type %u, which is not supported",
                     (unsigned)type);
            return 0;
        } else if (!resolve(loaded, symbol, &value, missing, sizeof missing))
            continue;
        value += (uint32_t)entries[number].r_addend;
        memcpy(place, &value, sizeof value);
    }
    if (*missing)
        snprintf(error, error_size, "unresolved %s", missing);
    return !*missing;
}

static void run_constructors(const image *loaded, const dynamic_table *table) {
    const uint32_t *functions =
        at(loaded, table->address[DT_INIT_ARRAY], table->address[DT_INIT_ARRAYSZ]);

    if (!table->address[DT_INIT_ARRAY] || !functions)
        return;
    for (uint32_t number = 0; number < table->address[DT_INIT_ARRAYSZ] / 4; number++) {
        static const uint32_t registers[REGISTERS];
        call_function(functions[number], registers, NULL, 0);
    }
}

image *image_load(uint8_t *base, uint32_t span, const uint8_t *file, uint32_t size, char *error,
                  size_t error_size) {
    const Elf32_Ehdr *header = (const void *)file;
    dynamic_table table;
    image *loaded = calloc(1, sizeof *loaded);

    if (!loaded) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    loaded->base = base;
    loaded->span = span;
    snprintf(error, error_size, "it is not a shared object for Hexagon, or it is damaged");
    if (size < sizeof *header || memcmp(file, ELFMAG, SELFMAG) || file[EI_CLASS] != ELFCLASS32 ||
        file[EI_DATA] != ELFDATA2LSB || header->e_machine != MACHINE || header->e_type != ET_DYN ||
        header->e_phentsize != sizeof(Elf32_Phdr) || header->e_phoff % 4 ||
        header->e_phoff > size || header->e_phnum > (size - header->e_phoff) / sizeof(Elf32_Phdr))
        goto failed;
    const Elf32_Phdr *segments = (const void *)(file + header->e_phoff);
    if (!copy_segments(loaded, file, size, segments, header->e_phnum) ||
        !read_dynamic(loaded, segments, header->e_phnum, &table))
        goto failed;
    if (!relocate(loaded, table.address[DT_RELA], table.address[DT_RELASZ], error, error_size) ||
        !relocate(loaded, table.address[DT_JMPREL], table.address[DT_PLTRELSZ], error, error_size))
        goto failed;
    protect_segments(loaded, segments, header->e_phnum);
    run_constructors(loaded, &table);
    return loaded;
failed:
    image_unload(loaded);
    return NULL;
}

void image_unload(image *loaded) {
    mprotect(loaded->base, loaded->span, PROT_READ | PROT_WRITE);
    free(loaded);
}

uint32_t image_symbol(const image *loaded, const char *name, uint32_t *size) {
    for (uint32_t number = 1; number < loaded->symbol_count; number++) {
        const Elf32_Sym *symbol = &loaded->symbols[number];
        if (symbol->st_shndx == SHN_UNDEF || strcmp(symbol_name(loaded, symbol), name) != 0)
            continue;
        if (!at(loaded, symbol->st_value, symbol->st_size))
            return 0;
        *size = symbol->st_size;
        return (uint32_t)loaded->base + symbol->st_value;
    }
    return 0;
}

int image_describe(const image *loaded, uint32_t address, char *out, size_t size) {
    uint32_t offset = address - (uint32_t)loaded->base, nearest = 0;
    const char *name = NULL;

    if (offset >= loaded->span)
        return 0;
    for (uint32_t number = 1; number < loaded->symbol_count; number++) {
        const Elf32_Sym *symbol = &loaded->symbols[number];
        if (symbol->st_shndx == SHN_UNDEF || symbol->st_value > offset ||
            (name && symbol->st_value < nearest))
            continue;
        nearest = symbol->st_value;
        name = symbol_name(loaded, symbol);
    }
    snprintf(out, size, "%s+%u", name ? name : "the module", (unsigned)(offset - nearest));
    return 1;
}
