/* Arrays, texture objects and surface objects.
 *
 * The texels of an array are in rows without gaps. A texture or surface object is the address of a
 * descriptor in the device's memory, whose layout the interpreter knows (ptx/ops_texture.py). Those
 * of a mipmapped array's levels follow each other. A cube map is an array of six layers, its faces.
 */
#include "cuda_standin.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    char magic[8];
    uint64_t array, address, width, height, depth, pitch; /* of a row in bytes */
    uint32_t dimensions, layered, format, channels, modes[3], filter, flags;
    uint32_t levels,
        level_filter;        /* of a mipmapped array: they and what follows are in the first */
    float bias, least, most; /* of the level that an instruction names */
} ImageDescriptor;

static unsigned format_bytes(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static bool fits(int device, const CUDA_ARRAY3D_DESCRIPTOR *form) {
    /* The limits of an array follow each other: its dimensions, and its layers. */
    static const CUdevice_attribute plain[] = {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH,
                                               CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH};
    static const CUdevice_attribute layered[] = {
        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH,
        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH};
    bool has_layers = form->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    CUdevice_attribute limit = (has_layers ? layered : plain)[form->Height > 0];
    const size_t extent[3] = {form->Width, form->Height, form->Depth};
    if (form->Depth && !has_layers)
        limit = CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH;
    for (int i = 0; i < 3; i++)
        if (extent[i] && extent[i] > (size_t)device_attribute(device, limit++))
            return false;
    return true;
}

/* A cube has six square faces, and several cubes are layers. */
static bool is_cube(const CUDA_ARRAY3D_DESCRIPTOR *form) {
    bool has_faces =
        form->Flags & CUDA_ARRAY3D_LAYERED ? form->Depth && form->Depth % 6 == 0 : form->Depth == 6;
    return has_faces && form->Width == form->Height;
}

CUresult array_make(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *form) {
    CHECK(pHandle && form && form->Width, CUDA_ERROR_INVALID_VALUE);
    unsigned element = format_bytes(form->Format);
    bool has_layers = form->Flags & CUDA_ARRAY3D_LAYERED;
    unsigned known = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP;
    CHECK(element && (form->NumChannels == 1 || form->NumChannels == 2 || form->NumChannels == 4),
          CUDA_ERROR_INVALID_VALUE);
    CHECK(!(form->Flags & ~known), CUDA_ERROR_INVALID_VALUE);
    CHECK(!(form->Flags & CUDA_ARRAY3D_CUBEMAP) || is_cube(form), CUDA_ERROR_INVALID_VALUE);
    CHECK(has_layers ? form->Depth > 0 : form->Height || !form->Depth, CUDA_ERROR_INVALID_VALUE);
    CHECK(fits(current_context()->device, form), CUDA_ERROR_INVALID_VALUE);
    Array array = {.form = *form,
                   .pitch = form->Width * element * form->NumChannels,
                   .height = form->Height ? form->Height : 1,
                   .depth = form->Depth ? form->Depth : 1};
    TRY(memory_allocate(BLOCK_DEVICE, array.pitch * array.height * array.depth, 0, &array.address));
    Array *kept = zeroed(sizeof *kept);
    *kept = array;
    memset(arena_view(array.address), 0xa5,
           array.pitch * array.height * array.depth); /* the real driver does not clear it */
    *pHandle = handle_make(HANDLE_ARRAY, kept, current_context());
    return CUDA_SUCCESS;
}

FORWARD(cuArray3DCreate, CURRENT, array_make(pHandle, pAllocateArray))

CUresult array_drop(CUarray handle) {
    Array *array = handle_get(HANDLE_ARRAY, handle);
    CHECK(array, CUDA_ERROR_INVALID_HANDLE);
    if (array->objects)
        violation("an array is destroyed, and %u textures and surfaces use it", array->objects);
    TRY(memory_release(array->address, false));
    handle_drop(HANDLE_ARRAY, handle);
    free(array);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR *form, CUarray hArray) {
    CHECK(hArray, CUDA_ERROR_INVALID_HANDLE); /* as NVIDIA's library does, also before cuInit */
    ENTER(CURRENT);
    Array *array = handle_get(HANDLE_ARRAY, hArray);
    CHECK(array, CUDA_ERROR_INVALID_HANDLE);
    CHECK(form, CUDA_ERROR_INVALID_VALUE);
    *form = array->form;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArrayDestroy(CUarray hArray) {
    CHECK(hArray || !process_was_initialized(),
          CUDA_ERROR_INVALID_HANDLE); /* as above, but not before cuInit */
    ENTER(CURRENT);
    Array *array = handle_get(HANDLE_ARRAY, hArray);
    CHECK(array && !array->of_mipmap, CUDA_ERROR_INVALID_HANDLE);
    TRY(refuse_in_capture());
    return array_drop(hArray);
}

/* Set the side of a copy that is an array. `at` and `extent` count bytes, rows and planes. */
CUresult array_side(Side *side, CUarray handle, const size_t at[3], const size_t extent[3]) {
    Array *array = handle_get(HANDLE_ARRAY, handle);
    CHECK(array, CUDA_ERROR_INVALID_HANDLE);
    const size_t own[3] = {array->pitch, array->height, array->depth};
    for (int i = 0; i < 3; i++)
        CHECK(inside(own[i], at[i], extent[i]), CUDA_ERROR_INVALID_VALUE);
    size_t slice = array->pitch * array->height;
    *side =
        (Side){array->address + at[2] * slice + at[1] * array->pitch + at[0], array->pitch, slice};
    return CUDA_SUCCESS;
}

/* ---- what an object reads: its part of the descriptor */

static CUresult take_array(CUarray handle, ImageDescriptor *descriptor) {
    Array *array = handle_get(HANDLE_ARRAY, handle);
    CHECK(array, CUDA_ERROR_INVALID_HANDLE);
    descriptor->array = (uintptr_t)handle;
    descriptor->address = array->address;
    descriptor->width = array->form.Width;
    descriptor->height = array->height;
    descriptor->depth = array->depth;
    descriptor->pitch = array->pitch;
    descriptor->layered = array->form.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    descriptor->dimensions = 1;
    if (array->form.Height)
        descriptor->dimensions = 2;
    if (array->form.Depth && !descriptor->layered)
        descriptor->dimensions = 3;
    descriptor->format = array->form.Format;
    descriptor->channels = array->form.NumChannels;
    return CUDA_SUCCESS;
}

static CUresult take_mipmap(CUmipmappedArray handle, ImageDescriptor *descriptor) {
    const Mipmap *mipmap = handle_get(HANDLE_MIPMAP, handle);
    CHECK(mipmap, CUDA_ERROR_INVALID_HANDLE);
    descriptor->levels = mipmap->count;
    return take_array(mipmap->levels[0], descriptor);
}

/* Memory of a device has the attributes' alignment and sizes. */
static CUresult take_memory(CUdeviceptr address, size_t size, CUarray_format format,
                            unsigned channels, ImageDescriptor *descriptor) {
    int device = current_context()->device;
    unsigned alignment = (unsigned)device_attribute(device, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    CHECK(format_bytes(format) && (channels == 1 || channels == 2 || channels == 4),
          CUDA_ERROR_INVALID_VALUE);
    CHECK(address && address % alignment == 0, CUDA_ERROR_INVALID_VALUE);
    TRY(check_range(address, size, "texture"));
    descriptor->address = address;
    descriptor->format = format;
    descriptor->channels = channels;
    descriptor->height = descriptor->depth = 1;
    return CUDA_SUCCESS;
}

static CUresult take_linear(const CUDA_RESOURCE_DESC *resource, ImageDescriptor *descriptor) {
    CUarray_format format = resource->res.linear.format;
    unsigned channels = resource->res.linear.numChannels;
    size_t size = resource->res.linear.sizeInBytes;
    int most = device_attribute(current_context()->device,
                                CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
    TRY(take_memory(resource->res.linear.devPtr, size, format, channels, descriptor));
    descriptor->dimensions = 1;
    descriptor->pitch = size;
    descriptor->width = size / (format_bytes(format) * channels);
    CHECK(descriptor->width && descriptor->width <= (size_t)most, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult take_pitched(const CUDA_RESOURCE_DESC *resource, ImageDescriptor *descriptor) {
    int device = current_context()->device;
    int step = device_attribute(device, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
    size_t width = resource->res.pitch2D.width;
    size_t height = resource->res.pitch2D.height;
    size_t pitch = resource->res.pitch2D.pitchInBytes;
    unsigned channels = resource->res.pitch2D.numChannels;
    size_t row = width * channels * format_bytes(resource->res.pitch2D.format);
    const CUdevice_attribute limits[3] = {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH,
                                          CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT,
                                          CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH};
    const size_t sizes[3] = {width, height, pitch};
    for (int i = 0; i < 3; i++)
        CHECK(sizes[i] && sizes[i] <= (size_t)device_attribute(device, limits[i]),
              CUDA_ERROR_INVALID_VALUE);
    CHECK(row <= pitch && pitch % (unsigned)step == 0, CUDA_ERROR_INVALID_VALUE);
    TRY(take_memory(resource->res.pitch2D.devPtr, (height - 1) * pitch + row,
                    resource->res.pitch2D.format, channels, descriptor));
    descriptor->dimensions = 2;
    descriptor->pitch = pitch;
    descriptor->width = width;
    descriptor->height = height;
    return CUDA_SUCCESS;
}

static CUresult take_resource(const CUDA_RESOURCE_DESC *resource, ImageDescriptor *descriptor) {
    CHECK(resource && !resource->flags, CUDA_ERROR_INVALID_VALUE);
    switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return take_array(resource->res.array.hArray, descriptor);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return take_mipmap(resource->res.mipmap.hMipmappedArray, descriptor);
    case CU_RESOURCE_TYPE_LINEAR:
        return take_linear(resource, descriptor);
    case CU_RESOURCE_TYPE_PITCH2D:
        return take_pitched(resource, descriptor);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* Write the descriptors of the other levels of a mipmapped array. */
static void describe_levels(const ImageDescriptor *first, const Mipmap *mipmap, uint64_t address) {
    for (unsigned i = 1; i < first->levels; i++) {
        ImageDescriptor level = *first;
        take_array(mipmap->levels[i], &level);
        memcpy(arena_view(address + i * sizeof level), &level, sizeof level);
    }
}

/* Write a descriptor to the device's memory, and set *object to its address. `mipmap` may be NULL.
 */
static CUresult describe(const char *magic, ImageDescriptor *descriptor, const Mipmap *mipmap,
                         CUtexObject *object) {
    uint64_t address;
    CHECK(object, CUDA_ERROR_INVALID_VALUE);
    strcpy(descriptor->magic, magic);
    size_t count = mipmap ? mipmap->count : 1;
    TRY(memory_allocate(BLOCK_DEVICE, count * sizeof *descriptor, 0, &address));
    memcpy(arena_view(address), descriptor, sizeof *descriptor);
    if (mipmap)
        describe_levels(descriptor, mipmap, address);
    Array *array = handle_peek(HANDLE_ARRAY, (void *)(uintptr_t)descriptor->array);
    if (array)
        array->objects++;
    *object = address;
    return CUDA_SUCCESS;
}

static CUresult forget(const char *magic, uint64_t object) {
    Block *block = arena_block(object, sizeof(ImageDescriptor));
    bool known = block && block->start == object &&
                 !strcmp(((ImageDescriptor *)arena_view(object))->magic, magic);
    if (!known)
        violation("0x%llx is destroyed and is no %s object", (unsigned long long)object, magic);
    CHECK(known, CUDA_ERROR_INVALID_VALUE);
    Array *array = handle_peek(HANDLE_ARRAY,
                               (void *)(uintptr_t)((ImageDescriptor *)arena_view(object))->array);
    if (array)
        array->objects--;
    return memory_release(object, false);
}

/* Set how a texture reads: whole numbers as they are, filters, and coordinates outside. */
static CUresult take_texture(const CUDA_TEXTURE_DESC *texture, ImageDescriptor *descriptor) {
    unsigned known = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES;
    unsigned format = descriptor->format;
    bool whole = format == CU_AD_FORMAT_UNSIGNED_INT32 || format == CU_AD_FORMAT_SIGNED_INT32;
    bool is_float = format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT;
    if (!is_float && texture->flags & CU_TRSF_READ_AS_INTEGER)
        whole = true;
    CHECK((unsigned)texture->filterMode <= CU_TR_FILTER_MODE_LINEAR, CUDA_ERROR_INVALID_VALUE);
    CHECK(!(texture->flags & ~known), CUDA_ERROR_INVALID_VALUE);
    CHECK(!whole || texture->filterMode == CU_TR_FILTER_MODE_POINT, CUDA_ERROR_INVALID_VALUE);
    CHECK((unsigned)texture->mipmapFilterMode <= CU_TR_FILTER_MODE_LINEAR,
          CUDA_ERROR_INVALID_VALUE);
    descriptor->filter = texture->filterMode;
    descriptor->level_filter = texture->mipmapFilterMode;
    descriptor->bias = texture->mipmapLevelBias;
    descriptor->least = texture->minMipmapLevelClamp;
    descriptor->most = texture->maxMipmapLevelClamp;
    descriptor->flags = (texture->flags & ~(unsigned)CU_TRSF_READ_AS_INTEGER) | whole;
    for (int i = 0; i < 3; i++) {
        CHECK((unsigned)texture->addressMode[i] <= CU_TR_ADDRESS_MODE_BORDER,
              CUDA_ERROR_INVALID_VALUE);
        CHECK(texture->flags & CU_TRSF_NORMALIZED_COORDINATES ||
                  texture->addressMode[i] == CU_TR_ADDRESS_MODE_CLAMP ||
                  texture->addressMode[i] == CU_TR_ADDRESS_MODE_BORDER,
              CUDA_ERROR_INVALID_VALUE); /* the real driver clamps; a test wants to know */
        descriptor->modes[i] = texture->addressMode[i];
    }
    return CUDA_SUCCESS;
}

API_IF(pTexDesc, cuTexObjectCreate, CURRENT) {
    ImageDescriptor descriptor = {0};
    CHECK(!pResViewDesc, CUDA_ERROR_NOT_SUPPORTED);
    TRY(take_resource(pResDesc, &descriptor));
    TRY(take_texture(pTexDesc, &descriptor));
    if (pResDesc->resType == CU_RESOURCE_TYPE_LINEAR) /* a read outside gives zeros */
        descriptor.modes[0] = CU_TR_ADDRESS_MODE_BORDER;
    const Mipmap *mipmap = NULL;
    if (pResDesc->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        mipmap = handle_get(HANDLE_MIPMAP, pResDesc->res.mipmap.hMipmappedArray);
    return describe("texture", &descriptor, mipmap, pTexObject);
}

API_IF((pResDesc && pResDesc->resType == CU_RESOURCE_TYPE_ARRAY), cuSurfObjectCreate, CURRENT) {
    ImageDescriptor descriptor = {0};
    TRY(take_resource(pResDesc, &descriptor));
    Array *array = handle_get(HANDLE_ARRAY, pResDesc->res.array.hArray);
    CHECK(array->form.Flags & CUDA_ARRAY3D_SURFACE_LDST, CUDA_ERROR_INVALID_VALUE);
    return describe("surface", &descriptor, NULL, pSurfObject);
}

FORWARD(cuTexObjectDestroy, CURRENT, forget("texture", texObject))
FORWARD(cuSurfObjectDestroy, CURRENT, forget("surface", surfObject))
