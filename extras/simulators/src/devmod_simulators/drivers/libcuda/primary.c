/* Primary contexts: one for each device, with the count of those who retain it. */
#include "cuda_standin.h"

API_IF(pctx, cuDevicePrimaryCtxRetain, READY) {
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    Device *device = &devices[dev];
    CHECK(!device->failed, (CUresult)device->failed);
    if (!context_primary(dev)->references++)
        context_activate(device->primary);
    *pctx = device->primary->handle;
    return CUDA_SUCCESS;
}

API(cuDevicePrimaryCtxRelease, READY) {
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    Context *context = devices[dev].primary;
    if (!context || !context->references) {
        violation("cuDevicePrimaryCtxRelease without cuDevicePrimaryCtxRetain");
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!--context->references)
        context_deactivate(context);
    return CUDA_SUCCESS;
}

API_IF(flags &&active, cuDevicePrimaryCtxGetState, READY) {
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    Context *context = devices[dev].primary;
    *flags = 0;
    *active = context && context->references;
    return CUDA_SUCCESS;
}

API(cuDevicePrimaryCtxReset, READY) {
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    Context *context = devices[dev].primary;
    if (context && context->alive) {
        context_deactivate(context);
        context_activate(context);
    }
    return CUDA_SUCCESS;
}
