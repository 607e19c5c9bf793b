/* Fatbins: the member that fits a device. */
#include "cuda_standin.h"

#include <stdio.h>
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

enum {
    MEMBER_PTX = 1,
    MEMBER_CUBIN = 2,
    MEMBER_COMPRESSED = 1 << 13 | 1 << 15, /* by LZ4, by zstd */
    MEMBER_EXACT = 1 << 20,                /* sm_90a */
    MEMBER_FAMILY = 1 << 21,               /* sm_100f */
    LIST_BYTES = 512
};

bool takes_cubins(void) {
    return setting_number("skip_cubins", 0);
}

/* Return the place of a member among those that a device takes, -1 if it does not. */
static int member_rank(const FatbinMember *member, int arch) {
    int own = (int)member->arch;
    if (own > arch)
        return -1;
    if (member->flags & MEMBER_EXACT && own != arch)
        return -1;
    if (member->flags & MEMBER_FAMILY && own / 10 != arch / 10)
        return -1;
    if (member->kind == MEMBER_CUBIN && takes_cubins() && own / 10 == arch / 10)
        return 1000 + own;
    return member->kind == MEMBER_PTX ? own : -1;
}

/* Write the name of a member behind the others in a list. */
static void list_member(char list[LIST_BYTES], const FatbinMember *member) {
    size_t used = strlen(list);
    const char *suffix = "";
    if (member->flags & MEMBER_EXACT)
        suffix = "a";
    else if (member->flags & MEMBER_FAMILY)
        suffix = "f";
    snprintf(list + used, LIST_BYTES - used, "%s%s_%u%s", used ? ", " : "",
             member->kind == MEMBER_PTX ? "compute" : "sm", member->arch, suffix);
}

static CUresult without_ptx(const char *list, int arch) {
    return image_error(
        CUDA_ERROR_NO_BINARY_FOR_GPU,
        "the program has no PTX that the simulated GPU, sm_%d, takes: its fatbin has %s. Build it below `devmod simulate`, or "
        "with -gencode arch=compute_%d,code=compute_%d of nvcc (CMake: -DCMAKE_CUDA_ARCHITECTURES=%d)",
        arch, *list ? list : "nothing", arch, arch, arch);
}

/* Decompress a member, whose header is at `start`: the worker has readers of fatbins, with limits.
 * It gets a fatbin of this member alone. */
static CUresult decompress(const unsigned char *start, const FatbinMember *member, void **result,
                           size_t *size) {
    FatbinHeader header = {FATBIN_MAGIC, 1, sizeof header, member->header_size + member->size};
    Bytes request = {0}, response;
    put_u32(&request, WORKER_DECOMPRESS);
    put_u32(&request, (uint32_t)(sizeof header + header.size));
    put_raw(&request, &header, sizeof header);
    put_raw(&request, start, header.size);
    int code = worker_call(&request, &response);
    if (!code) {
        *size = response.size - response.position - sizeof(uint32_t);
        *result = get_text(&response);
    }
    bytes_free(&response);
    return code ? image_error((CUresult)code, "%s", worker_message()) : CUDA_SUCCESS;
}

static CUresult fatbin_member(const unsigned char *image, int arch, void **member, size_t *size) {
    FatbinHeader header;
    memcpy(&header, image, sizeof header);
    CHECK(header.magic == FATBIN_MAGIC && header.header_size >= sizeof header,
          CUDA_ERROR_INVALID_IMAGE);
    const unsigned char *data = image + header.header_size, *end = data + header.size, *best = NULL;
    int best_rank = -1;
    FatbinMember chosen = {0};
    char list[LIST_BYTES] = "";
    while ((size_t)(end - data) >= 64) {
        FatbinMember entry;
        memcpy(&entry, data, sizeof entry);
        CHECK(entry.header_size >= 64 &&
                  inside((size_t)(end - data), entry.header_size, entry.size),
              CUDA_ERROR_INVALID_IMAGE);
        list_member(list, &entry);
        int rank = member_rank(&entry, arch);
        if (rank > best_rank) {
            best_rank = rank;
            best = data;
            chosen = entry;
        }
        data += entry.header_size + entry.size;
    }
    if (!best)
        return without_ptx(list, arch);
    if (chosen.flags & MEMBER_COMPRESSED)
        return decompress(best, &chosen, member, size);
    *member = zeroed(chosen.size + 1);
    memcpy(*member, best + chosen.header_size, chosen.size);
    *size = chosen.size;
    return CUDA_SUCCESS;
}

/* Append a text to another one. */
static CUresult join(void **text, size_t *size, const void *part, size_t part_size) {
    char *joined = realloc(*text, *size + part_size + 2);
    CHECK(joined, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(joined + *size, part, part_size);
    *size += strnlen(joined + *size, part_size); /* without the zero at its end */
    joined[(*size)++] = '\n';
    joined[*size] = '\0';
    *text = joined;
    return CUDA_SUCCESS;
}

CUresult fatbin_image(const unsigned char *fatbin, int arch, void **image, size_t *size) {
    FatbinHeader header;
    memcpy(&header, fatbin, sizeof header);
    if (header.version != FATBIN_OF_PARTS)
        return fatbin_member(fatbin, arch, image, size);

    /* What nvlink joins as machine code is joined as PTX: the worker reads the texts as one. A part
     * of NVIDIA's library for device code has none, and the driver has its functions. */
    const unsigned char *part = fatbin + header.header_size, *end = part + header.size;
    CUresult result = CUDA_SUCCESS;
    *image = NULL;
    *size = 0;
    while (part < end) {
        void *text = NULL;
        size_t text_size;
        size_t room = (size_t)(end - part);
        CHECK(room >= sizeof header && image_kind(part) == IMAGE_FATBIN, CUDA_ERROR_INVALID_IMAGE);
        CHECK(image_size(part) && image_size(part) <= room, CUDA_ERROR_INVALID_IMAGE);
        result = fatbin_member(part, arch, &text, &text_size);
        if (!result)
            result = join(image, size, text, text_size);
        free(text);
        if (result && result != CUDA_ERROR_NO_BINARY_FOR_GPU)
            return result;
        part += image_size(part);
    }
    return *image ? CUDA_SUCCESS : result;
}
