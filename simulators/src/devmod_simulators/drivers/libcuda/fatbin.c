/* Fatbins: the member that fits a device. */
#include "cuda_standin.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    uint16_t kind, version; /* kind 1: PTX, 2: cubin */
    uint32_t header_size;
    uint64_t size;
    uint32_t compressed_size, unknown, arch32, arch;
    uint32_t name_offset, name_size;
    uint64_t flags, unknown2, plain_size;
} FatbinMember;

enum { MEMBER_PTX = 1, MEMBER_CUBIN = 2, MEMBER_COMPRESSED = 0x2000 | 0x8000 };

bool takes_cubins(void) {
    return setting_number("skip_cubins", 0);
}

CUresult fatbin_member(const unsigned char *image, int arch, void **member, size_t *size) {
    FatbinHeader header;
    memcpy(&header, image, sizeof header);
    CHECK(header.magic == FATBIN_MAGIC && header.header_size >= sizeof header,
          CUDA_ERROR_INVALID_IMAGE);
    const unsigned char *data = image + header.header_size, *end = data + header.size, *best = NULL;
    int best_rank = -1;
    FatbinMember chosen = {0};
    while ((size_t)(end - data) >= 64) {
        FatbinMember entry;
        memcpy(&entry, data, sizeof entry);
        CHECK(entry.header_size >= 64 &&
                  inside((size_t)(end - data), entry.header_size, entry.size),
              CUDA_ERROR_INVALID_IMAGE);
        int own = (int)entry.arch, rank = -1;
        if (entry.kind == MEMBER_CUBIN && takes_cubins() && own / 10 == arch / 10 && own <= arch)
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
        explain(
            "the fatbin's member for sm_%u is compressed; the stand-in driver reads plain members alone",
            chosen.arch);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    unsigned char *copy = calloc(1, chosen.size + 1);
    CHECK(copy, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(copy, best, chosen.size);
    *member = copy;
    *size = chosen.size;
    return CUDA_SUCCESS;
}
