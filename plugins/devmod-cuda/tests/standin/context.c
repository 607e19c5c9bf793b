/* Contexts: the stack of each thread, limits, access to peers. */
#include "cuda_standin.h"

#include <stdlib.h>

static __thread Context *stack[CONTEXT_DEPTH];
static __thread int depth;
static unsigned long long ids;

/* Forget the sticky failures, as a new process would: a test that left one does not spoil the next. */
void standin_forget_failures(void);

void standin_forget_failures(void)
{
    pthread_mutex_lock(&big_lock);
    for (int i = 0; i < DEVICES; i++) {
        devices[i].failed = 0;
        if (devices[i].primary)
            devices[i].primary->group.failed = 0;
    }
    pthread_mutex_unlock(&big_lock);
}

Context *current_context(void)
{
    return depth ? stack[depth - 1] : NULL;
}

CUresult context_of(CUcontext handle, Context **context)
{
    CHECK(handle, CUDA_ERROR_INVALID_CONTEXT);
    *context = handle_get(HANDLE_CONTEXT, handle);
    CHECK(*context, CUDA_ERROR_INVALID_CONTEXT);
    CHECK((*context)->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return CUDA_SUCCESS;
}

CUresult context_failure(Context *context)
{
    Device *device = &devices[context->device];
    if (!device->failed)
        device->failed = context->group.failed;
    return (CUresult)device->failed;
}

CUresult context_run(Context *context)
{
    group_run(&context->group);
    return context_failure(context);
}

void context_activate(Context *context)
{
    context->alive = true;
    context->id = ++ids;
    context->peers = 1u << context->device;
    context->cache = CU_FUNC_CACHE_PREFER_NONE;
    context->group.device = context->device;
    context->group.failed = devices[context->device].failed;
    context->group.barrier = stream_make(&context->group, true);
    for (int i = 0; i < LIMITS; i++)
        context->limits[i] = 0;
    context->limits[CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
}

Context *context_make(int device, bool primary)
{
    Context *context = calloc(1, sizeof *context);
    if (!context)
        abort();
    context->device = device;
    context->primary = primary;
    context->handle = handle_make(HANDLE_CONTEXT, context, NULL);
    return context;
}

static void drop_stream(void *stream)
{
    stream_retire(stream);
}

void context_deactivate(Context *context)
{
    group_run(&context->group);
    handle_drop_owner(HANDLE_MODULE, context, module_drop);
    handle_drop_owner(HANDLE_STREAM, context, drop_stream);
    handle_drop_owner(HANDLE_EVENT, context, NULL);
    arena_free_owner(context);
    context_failure(context);
    context->group.streams = context->group.barrier = NULL;
    context->alive = false;
}

CUresult CUDAAPI cuCtxCreate(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
    ENTER(READY);
    (void)ctxCreateParams;
    CHECK(pctx, CUDA_ERROR_INVALID_VALUE);
    CHECK(dev >= 0 && dev < DEVICES && devices[dev].exists, CUDA_ERROR_INVALID_DEVICE);
    CHECK(!devices[dev].failed, (CUresult)devices[dev].failed);
    CHECK(depth < CONTEXT_DEPTH, CUDA_ERROR_OPERATING_SYSTEM);
    Context *context = context_make(dev, false);
    context->flags = flags;
    context_activate(context);
    stack[depth++] = context;
    *pctx = context->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDestroy(CUcontext ctx)
{
    ENTER(READY);
    Context *context;
    TRY(context_of(ctx, &context));
    CHECK(!context->primary, CUDA_ERROR_INVALID_CONTEXT);
    context_deactivate(context);
    handle_drop(HANDLE_CONTEXT, ctx);
    if (current_context() == context)
        depth--;
    return CUDA_SUCCESS;
}

/* pycuda counts its own references to a context that it made, through these. */
CUresult CUDAAPI cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
    ENTER(CURRENT);
    CHECK(pctx && !flags, CUDA_ERROR_INVALID_VALUE);
    *pctx = current_context()->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDetach(CUcontext ctx)
{
    ENTER(READY);
    Context *context;
    return context_of(ctx, &context);
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx)
{
    ENTER(READY);
    Context *context;
    TRY(context_of(ctx, &context));
    CHECK(depth < CONTEXT_DEPTH, CUDA_ERROR_OPERATING_SYSTEM);
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *pctx)
{
    ENTER(READY);
    CHECK(depth, CUDA_ERROR_INVALID_CONTEXT);
    Context *context = stack[--depth];
    if (pctx)
        *pctx = context->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx)
{
    ENTER(READY);
    Context *context = NULL;
    if (ctx)
        TRY(context_of(ctx, &context));
    if (!context)
        depth -= depth > 0;
    else if (depth)
        stack[depth - 1] = context;
    else
        stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *pctx)
{
    ENTER(READY);
    CHECK(pctx, CUDA_ERROR_INVALID_VALUE);
    *pctx = current_context() ? current_context()->handle : NULL;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
    ENTER(READY);
    CHECK(device, CUDA_ERROR_INVALID_VALUE);
    CHECK(current_context(), CUDA_ERROR_INVALID_CONTEXT);
    *device = current_context()->device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags)
{
    ENTER(CURRENT);
    CHECK(flags, CUDA_ERROR_INVALID_VALUE);
    *flags = current_context()->flags;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    ENTER(READY);
    Context *context = current_context();
    CHECK(ctxId, CUDA_ERROR_INVALID_VALUE);
    if (ctx)
        TRY(context_of(ctx, &context));
    CHECK(context, CUDA_ERROR_INVALID_CONTEXT);
    *ctxId = context->id;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
    ENTER(CURRENT);
    TRY(refuse_context_wait());
    return context_run(current_context());
}

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value)
{
    ENTER(CURRENT);
    CHECK((int)limit >= 0 && (int)limit < LIMITS, CUDA_ERROR_UNSUPPORTED_LIMIT);
    current_context()->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    ENTER(CURRENT);
    CHECK(pvalue, CUDA_ERROR_INVALID_VALUE);
    CHECK((int)limit >= 0 && (int)limit < LIMITS, CUDA_ERROR_UNSUPPORTED_LIMIT);
    *pvalue = current_context()->limits[limit];
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
    ENTER(CURRENT);
    CHECK(pconfig, CUDA_ERROR_INVALID_VALUE);
    *pconfig = current_context()->cache;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config)
{
    ENTER(CURRENT);
    current_context()->cache = config;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    ENTER(READY);
    Context *context = current_context();
    CHECK(version, CUDA_ERROR_INVALID_VALUE);
    if (ctx)
        TRY(context_of(ctx, &context));
    CHECK(context, CUDA_ERROR_INVALID_CONTEXT);
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    ENTER(CURRENT);
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    ENTER(CURRENT);
    Context *context = current_context(), *peer;
    CHECK(!Flags, CUDA_ERROR_INVALID_VALUE);
    TRY(context_of(peerContext, &peer));
    CHECK(peer->device != context->device, CUDA_ERROR_INVALID_DEVICE);
    CHECK(setting_number("peers", 1), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    CHECK(!(context->peers >> peer->device & 1), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    context->peers |= 1u << peer->device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peerContext)
{
    ENTER(CURRENT);
    Context *context = current_context(), *peer;
    TRY(context_of(peerContext, &peer));
    CHECK(peer->device != context->device && context->peers >> peer->device & 1, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    context->peers &= ~(1u << peer->device);
    return CUDA_SUCCESS;
}
