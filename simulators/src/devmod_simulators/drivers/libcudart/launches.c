/* Launches of kernels and host functions. */
#include "runtime.h"

FORWARD(cudaLaunchHostFunc, cuLaunchHostFunc(STREAM(stream), fn, userData), cudaStream_t stream,
        cudaHostFn_t fn, void *userData)
