/* What each function of the API does first: the driver is initialized, and the thread has a
 * context. */
#include "runtime.h"

#include <pthread.h>

enum { MOST_DEVICES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MOST_DEVICES];
static __thread int chosen; /* by cudaSetDevice */

cudaError_t runtime_start(void) {
    return (cudaError_t)cuInit(0);
}

cudaError_t runtime_device(int *device) {
    CUcontext context = NULL;
    TRY(runtime_start());
    TRY(cuCtxGetCurrent(&context));
    if (context)
        return (cudaError_t)cuCtxGetDevice(device);
    *device = chosen;
    return cudaSuccess;
}

/* Make the primary context of a device current. This library retains it once, and keeps it. */
static CUresult use_primary(int device) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!primary[device])
        result = cuDevicePrimaryCtxRetain(&primary[device], device);
    CUcontext context = primary[device];
    pthread_mutex_unlock(&lock);
    return result ? result : cuCtxSetCurrent(context);
}

cudaError_t runtime_enter(void) {
    CUcontext context = NULL;
    TRY(runtime_start());
    TRY(cuCtxGetCurrent(&context));
    if (context)
        return cudaSuccess;
    return (cudaError_t)use_primary(chosen);
}
