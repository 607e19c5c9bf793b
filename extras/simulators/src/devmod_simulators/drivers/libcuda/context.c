/* Contexts: the stack of each thread, limits, access to peers. */
#include "cuda_standin.h"

API_IF(pctx, cuCtxCreate, READY) {
    CHECK(device_valid(dev), CUDA_ERROR_INVALID_DEVICE);
    CHECK(!devices[dev].failed, (CUresult)devices[dev].failed);
    Context *context = context_make(dev, false);
    context_activate(context);
    CHECK(stack_push(context), CUDA_ERROR_OPERATING_SYSTEM);
    *pctx = context->handle;
    return CUDA_SUCCESS;
}

API(cuCtxDestroy, READY) {
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
FORWARD_IF(!flags, cuCtxAttach, CURRENT, GIVE(pctx, current_context()->handle))

WITH(cuCtxDetach, READY, Context *context, context_of(ctx, &context), CUDA_SUCCESS)

WITH(cuCtxPushCurrent, READY, Context *context, context_of(ctx, &context),
     stack_push(context) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM)

API(cuCtxPopCurrent, READY) {
    Context *context;
    CHECK(stack_pop(&context), CUDA_ERROR_INVALID_CONTEXT);
    if (pctx)
        *pctx = context->handle;
    return CUDA_SUCCESS;
}

API(cuCtxSetCurrent, READY) {
    Context *context = NULL;
    if (ctx)
        TRY(context_of(ctx, &context));
    stack_replace(context);
    return CUDA_SUCCESS;
}

ANSWER(cuCtxGetCurrent, READY, pctx, current_context() ? current_context()->handle : NULL)

API_IF(device, cuCtxGetDevice, READY) {
    CHECK(current_context(), CUDA_ERROR_INVALID_CONTEXT);
    *device = current_context()->device;
    return CUDA_SUCCESS;
}

FORWARD(cuCtxSynchronize, CURRENT, context_synchronize())

API(cuCtxSetLimit, CURRENT) {
    CHECK((int)limit >= 0 && limit < CU_LIMIT_MAX, CUDA_ERROR_UNSUPPORTED_LIMIT);
    current_context()->limits[limit] = value;
    return CUDA_SUCCESS;
}

API_IF(pvalue, cuCtxGetLimit, CURRENT) {
    CHECK((int)limit >= 0 && limit < CU_LIMIT_MAX, CUDA_ERROR_UNSUPPORTED_LIMIT);
    *pvalue = current_context()->limits[limit];
    return CUDA_SUCCESS;
}

/* A context that was destroyed is an error of this function, not a misuse of the API. */
API_IF(ctxId, cuCtxGetId, READY) {
    Context *context = ctx ? handle_peek(HANDLE_CONTEXT, ctx) : current_context();
    CHECK(context, ctx ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT);
    *ctxId = (uintptr_t)context; /* the structure stays */
    return CUDA_SUCCESS;
}

ANSWER(cuCtxGetCacheConfig, CURRENT, pconfig, current_context()->cache)

FORWARD(cuCtxSetCacheConfig, CURRENT, (current_context()->cache = config, CUDA_SUCCESS))

API_IF(version, cuCtxGetApiVersion, READY) {
    Context *context = current_context();
    if (ctx)
        TRY(context_of(ctx, &context));
    CHECK(context, CUDA_ERROR_INVALID_CONTEXT);
    *version = 3020;
    return CUDA_SUCCESS;
}

API(cuCtxGetStreamPriorityRange, CURRENT) {
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}

WITH(cuCtxEnablePeerAccess, CURRENT, Context *peer, context_of(peerContext, &peer),
     Flags ? CUDA_ERROR_INVALID_VALUE : context_enable_peer(peer->device))

WITH(cuCtxDisablePeerAccess, CURRENT, Context *peer, context_of(peerContext, &peer),
     context_disable_peer(peer->device))

/* No profiler is there to start. */
FORWARD_AS(cuProfilerStart, CURRENT, CUDA_SUCCESS, void)
FORWARD_AS(cuProfilerStop, CURRENT, CUDA_SUCCESS, void)
