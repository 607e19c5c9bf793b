/* The current device of each thread. A context is the state of one device: HIP has deprecated the functions that know contexts. */
#include "hip_standin.h"

Context *device_context(int device)
{
    Context *context = context_primary(device);
    if (!context->alive) {
        context->references = 1;
        context_activate(context);
    }
    return context;
}

Context *hip_current(void)
{
    Context *top = stack_top();
    return top ? device_context(top->device) : device_valid(0) ? device_context(0) : NULL;
}

HIP(hipSetDevice, READY, (int deviceId), (deviceId))
{
    CHECK(device_valid(deviceId), CODE_INVALID_DEVICE);
    stack_replace(device_context(deviceId));
    return CODE_SUCCESS;
}

HIP(hipGetDevice, READY, (int *deviceId), (deviceId))
{
    CHECK(deviceId, CODE_INVALID_VALUE);
    *deviceId = current_context()->device;
    return CODE_SUCCESS;
}

HIP(hipDeviceSynchronize, CURRENT, (void), ())
{
    return context_synchronize();
}

HIP(hipDeviceReset, CURRENT, (void), ())
{
    Context *context = current_context();
    context_deactivate(context);
    context_activate(context);
    return CODE_SUCCESS;
}

HIP(hipSetDeviceFlags, READY, (unsigned flags), (flags))
{
    current_context()->flags = flags;
    return CODE_SUCCESS;
}

HIP(hipGetDeviceFlags, READY, (unsigned *flags), (flags))
{
    CHECK(flags, CODE_INVALID_VALUE);
    *flags = current_context()->flags;
    return CODE_SUCCESS;
}

HIP(hipDeviceGetLimit, CURRENT, (size_t *pValue, int limit), (pValue, limit))
{
    CHECK(pValue, CODE_INVALID_VALUE);
    CHECK(limit >= 0 && limit < hipLimits, CODE_UNSUPPORTED_LIMIT);
    *pValue = current_context()->limits[limit];
    return CODE_SUCCESS;
}

HIP(hipDeviceSetLimit, CURRENT, (int limit, size_t value), (limit, value))
{
    CHECK(limit >= 0 && limit < hipLimits, CODE_UNSUPPORTED_LIMIT);
    current_context()->limits[limit] = value;
    return CODE_SUCCESS;
}

HIP(hipDeviceGetCacheConfig, CURRENT, (int *cacheConfig), (cacheConfig))
{
    CHECK(cacheConfig, CODE_INVALID_VALUE);
    *cacheConfig = current_context()->cache;
    return CODE_SUCCESS;
}

HIP(hipDeviceSetCacheConfig, CURRENT, (int cacheConfig), (cacheConfig))
{
    current_context()->cache = cacheConfig;
    return CODE_SUCCESS;
}

HIP(hipDeviceGetStreamPriorityRange, CURRENT, (int *leastPriority, int *greatestPriority), (leastPriority, greatestPriority))
{
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return CODE_SUCCESS;
}

HIP(hipDeviceCanAccessPeer, READY, (int *canAccessPeer, int deviceId, int peerDeviceId), (canAccessPeer, deviceId, peerDeviceId))
{
    CHECK(canAccessPeer, CODE_INVALID_VALUE);
    CHECK(device_valid(deviceId) && device_valid(peerDeviceId), CODE_INVALID_DEVICE);
    *canAccessPeer = deviceId != peerDeviceId && setting_number("peers", 1);
    return CODE_SUCCESS;
}

HIP(hipDeviceEnablePeerAccess, CURRENT, (int peerDeviceId, unsigned flags), (peerDeviceId, flags))
{
    CHECK(!flags, CODE_INVALID_VALUE);
    return context_enable_peer(peerDeviceId);
}

HIP(hipDeviceDisablePeerAccess, CURRENT, (int peerDeviceId), (peerDeviceId))
{
    CHECK(device_valid(peerDeviceId), CODE_INVALID_DEVICE);
    return context_disable_peer(peerDeviceId);
}

/* ---- contexts -------------------------------------------------------------------------------------------------------------- */

HIP(hipDevicePrimaryCtxRetain, READY, (hipCtx_t *pctx, int dev), (pctx, dev))
{
    CHECK(pctx, CODE_INVALID_VALUE);
    CHECK(device_valid(dev), CODE_INVALID_DEVICE);
    CHECK(!devices[dev].failed, devices[dev].failed);
    *pctx = device_context(dev)->handle;
    return CODE_SUCCESS;
}

/* A device has its context until the process ends, as in HIP. */
HIP(hipDevicePrimaryCtxRelease, READY, (int dev), (dev))
{
    CHECK(device_valid(dev), CODE_INVALID_DEVICE);
    return CODE_SUCCESS;
}

HIP(hipDevicePrimaryCtxReset, READY, (int dev), (dev))
{
    CHECK(device_valid(dev), CODE_INVALID_DEVICE);
    context_deactivate(device_context(dev));
    context_activate(device_context(dev));
    return CODE_SUCCESS;
}

HIP(hipDevicePrimaryCtxSetFlags, READY, (int dev, unsigned flags), (dev, flags))
{
    CHECK(device_valid(dev), CODE_INVALID_DEVICE);
    devices[dev].primary_flags = flags;
    return CODE_SUCCESS;
}

HIP(hipDevicePrimaryCtxGetState, READY, (int dev, unsigned *flags, int *active), (dev, flags, active))
{
    CHECK(flags && active, CODE_INVALID_VALUE);
    CHECK(device_valid(dev), CODE_INVALID_DEVICE);
    *flags = devices[dev].primary_flags;
    *active = devices[dev].primary && devices[dev].primary->alive;
    return CODE_SUCCESS;
}

HIP(hipCtxSetCurrent, READY, (hipCtx_t ctx), (ctx))
{
    Context *context = NULL;
    if (ctx)
        TRY(context_of(ctx, &context));
    stack_replace(context);
    return CODE_SUCCESS;
}

HIP(hipCtxGetCurrent, READY, (hipCtx_t *ctx), (ctx))
{
    CHECK(ctx, CODE_INVALID_VALUE);
    *ctx = current_context()->handle;
    return CODE_SUCCESS;
}

HIP(hipCtxPushCurrent, READY, (hipCtx_t ctx), (ctx))
{
    Context *context;
    TRY(context_of(ctx, &context));
    CHECK(stack_push(context), CODE_OPERATING_SYSTEM);
    return CODE_SUCCESS;
}

HIP(hipCtxPopCurrent, READY, (hipCtx_t *ctx), (ctx))
{
    Context *context;
    CHECK(stack_pop(&context), CODE_INVALID_CONTEXT);
    if (ctx)
        *ctx = context->handle;
    return CODE_SUCCESS;
}

HIP(hipCtxGetDevice, READY, (int *device), (device))
{
    CHECK(device, CODE_INVALID_VALUE);
    *device = current_context()->device;
    return CODE_SUCCESS;
}

HIP(hipCtxSynchronize, CURRENT, (void), ())
{
    return context_synchronize();
}
