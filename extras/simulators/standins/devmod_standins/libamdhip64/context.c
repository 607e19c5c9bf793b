/* The current device of each thread. A context is the state of one device: HIP has deprecated the
 * functions that know contexts. */
#include "hip_standin.h"

/* Return the context of a device: there is one, which begins with the first call. */
Context *device_context(int device) {
    Context *context = context_primary(device);
    if (!context->alive)
        context_activate(context);
    return context;
}

/* Return the current context: that of device 0 before hipSetDevice. */
Context *hip_current(void) {
    Context *top = stack_top();
    return top ? device_context(top->device) : device_valid(0) ? device_context(0) : NULL;
}

HIP(hipSetDevice, READY) {
    CHECK(device_valid(deviceId), CODE_INVALID_DEVICE);
    stack_replace(device_context(deviceId));
    return CODE_SUCCESS;
}

HIP_FORWARD(hipGetDevice, READY, GIVE(deviceId, current_context()->device))
HIP_FORWARD(hipDeviceSynchronize, CURRENT, context_synchronize())

HIP(hipDeviceEnablePeerAccess, CURRENT) {
    CHECK(!flags, CODE_INVALID_VALUE);
    return context_enable_peer(peerDeviceId);
}

/* ---- contexts */

HIP(hipDevicePrimaryCtxRetain, READY) {
    CHECK(pctx, CODE_INVALID_VALUE);
    CHECK(device_valid(dev), CODE_INVALID_DEVICE);
    CHECK(!devices[dev].failed, devices[dev].failed);
    *pctx = device_context(dev)->handle;
    return CODE_SUCCESS;
}

HIP_FORWARD(hipCtxGetCurrent, READY, GIVE(ctx, current_context()->handle))
