/* Mipmapped arrays: an array for each level, each half as large as the one before. */
#include "cuda_standin.h"

#include <stdlib.h>

/* Return the levels of an array down to one texel. Layers do not become fewer. */
static unsigned level_count(const CUDA_ARRAY3D_DESCRIPTOR *form) {
    size_t largest = form->Width > form->Height ? form->Width : form->Height;
    if (!(form->Flags & CUDA_ARRAY3D_LAYERED) && form->Depth > largest)
        largest = form->Depth;
    unsigned count = 0;
    for (; largest; largest /= 2)
        count++;
    return count < MOST_LEVELS ? count : MOST_LEVELS;
}

static size_t half(size_t size) {
    return size > 1 ? size / 2 : size;
}

static CUresult drop_levels(Mipmap *mipmap) {
    for (unsigned i = 0; i < mipmap->count; i++)
        TRY(array_drop(mipmap->levels[i]));
    free(mipmap);
    return CUDA_SUCCESS;
}

API_IF((pHandle && pMipmappedArrayDesc), cuMipmappedArrayCreate, CURRENT) {
    CUDA_ARRAY3D_DESCRIPTOR form = *pMipmappedArrayDesc;
    unsigned most = level_count(&form);
    unsigned levels = numMipmapLevels < most ? numMipmapLevels : most; /* CUDA clamps it */
    Mipmap *mipmap = zeroed(sizeof *mipmap);
    for (unsigned i = 0; i < (levels ? levels : 1); i++) {
        CUresult code = array_make(&mipmap->levels[i], &form);
        if (code) {
            drop_levels(mipmap);
            return code;
        }
        ((Array *)handle_get(HANDLE_ARRAY, mipmap->levels[i]))->of_mipmap = true;
        mipmap->count++;
        form.Width = half(form.Width);
        form.Height = half(form.Height);
        if (!(form.Flags & CUDA_ARRAY3D_LAYERED))
            form.Depth = half(form.Depth);
    }
    *pHandle = handle_make(HANDLE_MIPMAP, mipmap, current_context());
    return CUDA_SUCCESS;
}

API(cuMipmappedArrayGetLevel, CURRENT) {
    const Mipmap *mipmap = handle_get(HANDLE_MIPMAP, hMipmappedArray);
    CHECK(mipmap, CUDA_ERROR_INVALID_HANDLE);
    CHECK(pLevelArray && level < mipmap->count, CUDA_ERROR_INVALID_VALUE);
    *pLevelArray = mipmap->levels[level];
    return CUDA_SUCCESS;
}

API(cuMipmappedArrayDestroy, CURRENT) {
    Mipmap *mipmap = handle_get(HANDLE_MIPMAP, hMipmappedArray);
    CHECK(mipmap, CUDA_ERROR_INVALID_HANDLE);
    TRY(refuse_in_capture());
    handle_drop(HANDLE_MIPMAP, hMipmappedArray);
    return drop_levels(mipmap);
}
