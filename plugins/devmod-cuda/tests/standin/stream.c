/* Streams: CUDA's rules over the queues of streams.c.
 *
 * A query makes progress: it runs one operation of the stream, and answers "not ready" if there was one. So a loop of queries ends, and a
 * single query does not hide a missing wait.
 */
#include "cuda_standin.h"

static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static Stream *thread_stream(Context *context)
{
    for (Stream *stream = context->group.streams; stream; stream = stream->next)
        if (stream->of_thread && pthread_equal(stream->thread, pthread_self()))
            return stream;
    Stream *stream = stream_make(&context->group, true);
    stream->of_thread = true;
    stream->thread = pthread_self();
    return stream;
}

CUresult stream_of(CUstream handle, Stream **stream)
{
    Context *context = current_context();
    if (!handle || handle == CU_STREAM_LEGACY)
        *stream = context->group.barrier;
    else if (handle == CU_STREAM_PER_THREAD)
        *stream = thread_stream(context);
    else
        *stream = handle_get(HANDLE_STREAM, handle);
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static Context *context_of_stream(Stream *stream)
{
    return (Context *)stream->group;
}

/* Return the next stream of the current context that captures, behind `stream` (NULL: the first), or NULL. */
static Stream *next_capturing(Stream *stream)
{
    Context *context = current_context();
    stream = stream ? stream->next : context ? context->group.streams : NULL;
    while (stream && !capture_active(stream))
        stream = stream->next;
    return stream;
}

CUresult refuse_in_capture(void)
{
    for (Stream *stream = next_capturing(NULL); stream; stream = next_capturing(stream)) {
        if (!capture_forbids(stream, thread_mode))
            continue;
        capture_invalidate(stream);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult refuse_context_wait(void)
{
    Stream *stream = next_capturing(NULL);
    if (!stream)
        return CUDA_SUCCESS;
    capture_invalidate(stream);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Return a stream that captures and that the legacy stream would wait for, or NULL. */
static Stream *blocking_capture(void)
{
    Stream *stream = next_capturing(NULL);
    while (stream && !stream->blocking)
        stream = next_capturing(stream);
    return stream;
}

CUresult submit(Stream *stream, Op *op)
{
    if (capture_active(stream))
        return capture_add(stream, op);
    Stream *capturing = stream == stream->group->barrier ? blocking_capture() : NULL;
    if (capturing) {
        capture_invalidate(capturing);
        op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    stream_add(stream, op);
    return CUDA_SUCCESS;
}

CUresult submit_and(Stream *stream, Op *op, bool wait)
{
    if (wait && capture_active(stream)) {
        capture_invalidate(stream);
        op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    TRY(submit(stream, op));
    if (!wait)
        return CUDA_SUCCESS;
    stream_run(stream, stream->last);
    return context_failure(context_of_stream(stream));
}

static CUresult create(CUstream *phStream, unsigned flags, int priority)
{
    CHECK(phStream && !(flags & ~(unsigned)CU_STREAM_NON_BLOCKING), CUDA_ERROR_INVALID_VALUE);
    Context *context = current_context();
    Stream *stream = stream_make(&context->group, !(flags & CU_STREAM_NON_BLOCKING));
    stream->flags = flags;
    stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    stream->handle = handle_make(HANDLE_STREAM, stream, context);
    *phStream = stream->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    ENTER(CURRENT);
    return create(phStream, Flags, 0);
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    ENTER(CURRENT);
    return create(phStream, flags, priority);
}

CUresult CUDAAPI cuStreamDestroy(CUstream hStream)
{
    ENTER(READY);
    Stream *stream = handle_get(HANDLE_STREAM, hStream);
    CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
    if (capture_active(stream))
        capture_invalidate(stream);
    handle_drop(HANDLE_STREAM, hStream);
    stream_retire(stream); /* its work goes on, as CUDA has it */
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream hStream)
{
    ENTER(CURRENT);
    Stream *stream;
    TRY(stream_of(hStream, &stream));
    if (capture_active(stream)) {
        capture_invalidate(stream);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream == stream->group->barrier) /* it waits for the blocking streams, with an operation that does nothing */
        for (Stream *other = stream->group->streams; other; other = other->next)
            if (other->blocking && other != stream)
                stream_run(other, other->last);
    stream_run(stream, stream->last);
    return context_failure(context_of_stream(stream));
}

CUresult CUDAAPI cuStreamQuery(CUstream hStream)
{
    ENTER(CURRENT);
    Stream *stream;
    TRY(stream_of(hStream, &stream));
    if (capture_active(stream)) {
        capture_invalidate(stream);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    bool done = stream_step(stream);
    TRY(context_failure(context_of_stream(stream)));
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    ENTER(CURRENT);
    Stream *stream;
    CHECK(flags, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetPriority(CUstream hStream, int *priority)
{
    ENTER(CURRENT);
    Stream *stream;
    CHECK(priority, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    ENTER(READY);
    Stream *stream;
    bool special = !hStream || hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD;
    CHECK(pctx, CUDA_ERROR_INVALID_VALUE);
    CHECK(!special || current_context(), CUDA_ERROR_INVALID_CONTEXT); /* these alone are the current context's */
    TRY(stream_of(hStream, &stream));
    *pctx = context_of_stream(stream)->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    ENTER(CURRENT);
    Stream *stream;
    CHECK(device, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    *device = context_of_stream(stream)->device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    ENTER(CURRENT);
    Stream *stream;
    CHECK(streamId, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    *streamId = (uintptr_t)stream;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER(ANY);
    CHECK(mode && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* ---- functions of the host in a stream ----------------------------------------------------------------------------------- */

typedef struct {
    CUhostFn function;
    void *data;
} HostCall;

static int run_host_call(Op *op)
{
    HostCall *call = (HostCall *)op->data;
    call_unlocked(call->function, call->data);
    return 0;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    ENTER(CURRENT);
    Stream *stream;
    CHECK(fn, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    Op *op = op_make("host function", run_host_call, NULL, sizeof(HostCall));
    *(HostCall *)op->data = (HostCall){fn, userData};
    return submit(stream, op);
}

typedef struct {
    CUstreamCallback function;
    CUstream stream;
    void *data;
} Callback;

static void call_back(void *data)
{
    Callback *callback = data;
    callback->function(callback->stream, CUDA_SUCCESS, callback->data);
}

static int run_callback(Op *op)
{
    call_unlocked(call_back, op->data);
    return 0;
}

CUresult CUDAAPI cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
    ENTER(CURRENT);
    Stream *stream;
    CHECK(callback && !flags, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_of(hStream, &stream));
    Op *op = op_make("callback", run_callback, NULL, sizeof(Callback));
    *(Callback *)op->data = (Callback){callback, hStream, userData};
    return submit(stream, op);
}
