/* What each function of the API does first: the driver is initialized, and the thread has a
 * context. */
#include "runtime.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MOST_DEVICES];
static atomic_bool started;
static __thread int chosen; /* the device of cudaSetDevice */

/* Initialize the driver. */
cudaError_t runtime_start(void) {
    int version;
    if (started)
        return cudaSuccess;
    TRY(cuInit(0));
    TRY(cuDriverGetVersion(&version));
    CHECK(version / 1000 >= RUNTIME_MAJOR, cudaErrorInsufficientDriver);
    started = true;
    return cudaSuccess;
}

/* Set *device to that of the thread, which need not have a context. */
cudaError_t runtime_device(int *device) {
    CUcontext context;
    CHECK(device, cudaErrorInvalidValue);
    TRY(runtime_start());
    TRY(cuCtxGetCurrent(&context));
    *device = chosen;
    if (context)
        TRY(cuCtxGetDevice(device));
    return cudaSuccess;
}

/* Make the primary context of a device, if there is none yet, and set *context to it, if it is not
 * NULL. Each is retained once and kept, as by NVIDIA's library. */
cudaError_t runtime_primary(int device, CUcontext *context) {
    CUresult result = CUDA_SUCCESS;
    CHECK(device >= 0 && device < MOST_DEVICES, cudaErrorInvalidDevice);
    pthread_mutex_lock(&lock);
    if (!primary[device])
        result = cuDevicePrimaryCtxRetain(&primary[device], device);
    if (context)
        *context = primary[device];
    pthread_mutex_unlock(&lock);
    return (cudaError_t)result;
}

/* Let the thread have a device, and its primary context. */
cudaError_t runtime_choose(int device) {
    CUcontext context;
    TRY(runtime_start());
    TRY(runtime_primary(device, &context));
    TRY(cuCtxSetCurrent(context));
    chosen = device;
    return cudaSuccess;
}

/* Initialize the driver, and let the thread have a current context: that of the program, else the
 * primary context of the thread's device. */
cudaError_t runtime_enter(void) {
    CUcontext context;
    TRY(runtime_start());
    TRY(cuCtxGetCurrent(&context));
    if (!context)
        TRY(runtime_choose(chosen));
    return runtime_place_managed();
}
