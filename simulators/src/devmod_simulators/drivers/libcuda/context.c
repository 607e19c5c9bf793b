/* Contexts: the stack of each thread, limits, access to peers. */
#include "cuda_standin.h"

CUresult CUDAAPI cuCtxCreate(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
                             unsigned int flags, CUdevice dev) {
    ENTER(READY);
    (void)ctxCreateParams, (void)flags;
    CHECK(pctx, CUDA_ERROR_INVALID_VALUE);
    CHECK(dev >= 0 && dev < DEVICES && devices[dev].exists, CUDA_ERROR_INVALID_DEVICE);
    CHECK(!devices[dev].failed, (CUresult)devices[dev].failed);
    Context *context = context_make(dev, false);
    context_activate(context);
    CHECK(stack_push(context), CUDA_ERROR_OPERATING_SYSTEM);
    *pctx = context->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDestroy(CUcontext ctx) {
    ENTER(READY);
    Context *context;
    TRY(context_of(ctx, &context));
    CHECK(!context->primary, CUDA_ERROR_INVALID_CONTEXT);
    context_deactivate(context);
    handle_drop(HANDLE_CONTEXT, ctx);
    if (current_context() == context)
        stack_pop(&context);
    return CUDA_SUCCESS;
}

/* The form of drivers older than CUDA 12.5, which cuda.h does not declare. */
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev) {
    return cuCtxCreate(pctx, NULL, flags, dev);
}

/* pycuda counts its own references to a context that it made, through these. */
CUresult CUDAAPI cuCtxAttach(CUcontext *pctx, unsigned int flags) {
    ENTER(CURRENT);
    CHECK(pctx && !flags, CUDA_ERROR_INVALID_VALUE);
    *pctx = current_context()->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDetach(CUcontext ctx) {
    ENTER(READY);
    Context *context;
    return context_of(ctx, &context);
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx) {
    ENTER(READY);
    Context *context;
    TRY(context_of(ctx, &context));
    CHECK(stack_push(context), CUDA_ERROR_OPERATING_SYSTEM);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *pctx) {
    ENTER(READY);
    Context *context;
    CHECK(stack_pop(&context), CUDA_ERROR_INVALID_CONTEXT);
    if (pctx)
        *pctx = context->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx) {
    ENTER(READY);
    Context *context = NULL;
    if (ctx)
        TRY(context_of(ctx, &context));
    stack_replace(context);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx) {
    ENTER(READY);
    CHECK(pctx, CUDA_ERROR_INVALID_VALUE);
    *pctx = current_context() ? current_context()->handle : NULL;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
    ENTER(READY);
    CHECK(device, CUDA_ERROR_INVALID_VALUE);
    CHECK(current_context(), CUDA_ERROR_INVALID_CONTEXT);
    *device = current_context()->device;
    return CUDA_SUCCESS;
}

FORWARD(cuCtxSynchronize, CURRENT, context_synchronize())

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
    ENTER(CURRENT);
    CHECK((int)limit >= 0 && limit < CU_LIMIT_MAX, CUDA_ERROR_UNSUPPORTED_LIMIT);
    current_context()->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetLimit(size_t *pvalue, CUlimit limit) {
    ENTER(CURRENT);
    CHECK(pvalue, CUDA_ERROR_INVALID_VALUE);
    CHECK((int)limit >= 0 && limit < CU_LIMIT_MAX, CUDA_ERROR_UNSUPPORTED_LIMIT);
    *pvalue = current_context()->limits[limit];
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *pconfig) {
    ENTER(CURRENT);
    CHECK(pconfig, CUDA_ERROR_INVALID_VALUE);
    *pconfig = current_context()->cache;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config) {
    ENTER(CURRENT);
    current_context()->cache = config;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int *version) {
    ENTER(READY);
    Context *context = current_context();
    CHECK(version, CUDA_ERROR_INVALID_VALUE);
    if (ctx)
        TRY(context_of(ctx, &context));
    CHECK(context, CUDA_ERROR_INVALID_CONTEXT);
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
    ENTER(CURRENT);
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
    ENTER(CURRENT);
    Context *peer;
    CHECK(!Flags, CUDA_ERROR_INVALID_VALUE);
    TRY(context_of(peerContext, &peer));
    return context_enable_peer(peer->device);
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext) {
    ENTER(CURRENT);
    Context *peer;
    TRY(context_of(peerContext, &peer));
    return context_disable_peer(peer->device);
}

/* No profiler is there to start. */
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);
FORWARD_AS(cuProfilerStart, CURRENT, CUDA_SUCCESS, void)
FORWARD_AS(cuProfilerStop, CURRENT, CUDA_SUCCESS, void)
