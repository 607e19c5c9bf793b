/* Arrays, mipmapped arrays, and the formats of their texels. */
#include "runtime.h"

struct cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w,
                                                             enum cudaChannelFormatKind f) {
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}

/* The driver's formats of channels of 8, 16 and 32 bits; 0 where there is none. */
static const CUarray_format formats[][3] = {
    [cudaChannelFormatKindSigned] = {CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16,
                                     CU_AD_FORMAT_SIGNED_INT32},
    [cudaChannelFormatKindUnsigned] = {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16,
                                       CU_AD_FORMAT_UNSIGNED_INT32},
    [cudaChannelFormatKindFloat] = {0, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT},
};

/* Bits, by the place in a row of the table. */
static const int widths[3] = {8, 16, 32};

cudaError_t runtime_format(const struct cudaChannelFormatDesc *form, CUarray_format *format,
                           unsigned *channels) {
    const int bits[4] = {form->x, form->y, form->z, form->w};
    CHECK((unsigned)form->f <= cudaChannelFormatKindFloat, cudaErrorInvalidChannelDescriptor);
    *channels = 0;
    for (int i = 0; i < 4 && bits[i]; i++) {
        CHECK(bits[i] == bits[0], cudaErrorInvalidChannelDescriptor);
        *channels += 1;
    }
    CHECK(*channels == 1 || *channels == 2 || *channels == 4, cudaErrorInvalidChannelDescriptor);
    *format = 0;
    for (int i = 0; i < 3; i++)
        if (widths[i] == bits[0])
            *format = formats[form->f][i];
    CHECK(*format, cudaErrorInvalidChannelDescriptor);
    return cudaSuccess;
}

/* Set a form to that of the driver's format. */
static cudaError_t form_of(CUarray_format format, unsigned channels,
                           struct cudaChannelFormatDesc *form) {
    for (int kind = 0; kind <= cudaChannelFormatKindFloat; kind++)
        for (int i = 0; i < 3; i++) {
            if (formats[kind][i] != format)
                continue;
            *form = (struct cudaChannelFormatDesc){.x = widths[i],
                                                   .f = (enum cudaChannelFormatKind)kind};
            if (channels > 1)
                form->y = widths[i];
            if (channels > 2)
                form->z = form->w = widths[i];
            return cudaSuccess;
        }
    return cudaErrorInvalidChannelDescriptor;
}

static cudaError_t take_form(const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                             unsigned flags, CUDA_ARRAY3D_DESCRIPTOR *form) {
    CHECK(desc, cudaErrorInvalidValue);
    *form = (CUDA_ARRAY3D_DESCRIPTOR){
        .Width = extent.width, .Height = extent.height, .Depth = extent.depth, .Flags = flags};
    return runtime_format(desc, &form->Format, &form->NumChannels);
}

API(cudaMalloc3DArray) {
    CUDA_ARRAY3D_DESCRIPTOR form;
    TRY(take_form(desc, extent, flags, &form));
    FINISH(cuArray3DCreate((CUarray *)array, &form));
}

API(cudaMallocMipmappedArray) {
    CUDA_ARRAY3D_DESCRIPTOR form;
    TRY(take_form(desc, extent, flags, &form));
    FINISH(cuMipmappedArrayCreate((CUmipmappedArray *)mipmappedArray, &form, numLevels));
}

API(cudaFreeMipmappedArray) {
    if (!mipmappedArray)
        return cudaSuccess;
    FINISH(cuMipmappedArrayDestroy((CUmipmappedArray)mipmappedArray));
}

ENTRY(cudaMallocArray) {
    return cudaMalloc3DArray(array, desc, (struct cudaExtent){width, height, 0}, flags);
}

API(cudaFreeArray) {
    if (!array)
        return cudaSuccess;
    FINISH(cuArrayDestroy((CUarray)array));
}

API(cudaArrayGetInfo) {
    CUDA_ARRAY3D_DESCRIPTOR form;
    TRY(cuArray3DGetDescriptor(&form, (CUarray)array));
    if (desc)
        TRY(form_of(form.Format, form.NumChannels, desc));
    if (extent)
        *extent = (struct cudaExtent){form.Width, form.Height, form.Depth};
    if (flags)
        *flags = form.Flags;
    return cudaSuccess;
}

ENTRY(cudaGetChannelDesc) {
    CHECK(desc, cudaErrorInvalidValue);
    return cudaArrayGetInfo(desc, NULL, NULL, (cudaArray_t)(uintptr_t)array);
}
