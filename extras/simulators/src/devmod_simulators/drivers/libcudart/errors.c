/* Errors: the last one of each thread, names and texts. */
#include "runtime.h"

#include <stdio.h>

static __thread cudaError_t last;

/* Return whether an error has ended the context: each later call returns it. */
static bool is_sticky(cudaError_t error) {
    CUfunc_cache unused;
    return error && cuCtxGetCacheConfig(&unused) == (CUresult)error;
}

/* Keep an error as the last one of the thread, and return it. By CUDA's programming guide,
 * cudaErrorNotReady is none. */
cudaError_t runtime_note(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady && !is_sticky(last))
        last = error;
    return error;
}

/* Write that a function is missing to standard error, once, and return cudaErrorNotSupported. */
int runtime_missing(const char *name, bool *told) {
    if (!*told)
        fprintf(stderr, "devmod-simulators: the simulated CUDA runtime does not have %s\n", name);
    *told = true;
    return runtime_note(cudaErrorNotSupported);
}

ENTRY(cudaGetLastError) {
    cudaError_t error = last;
    if (!is_sticky(error))
        last = cudaSuccess;
    return error;
}

ENTRY(cudaPeekAtLastError) {
    return last;
}

/* An error without a text has the driver's. */
static const struct {
    cudaError_t code;
    const char *name, *text;
} errors[] = {
#include "errors.h" /* a build writes it, of NVIDIA's header and errors.txt */
};

enum { ERRORS = sizeof errors / sizeof errors[0] };

static const char unknown[] = "unrecognized error code";

const char *CUDARTAPI cudaGetErrorName(cudaError_t error) {
    for (int i = 0; i < ERRORS; i++)
        if (errors[i].code == error)
            return errors[i].name;
    return unknown;
}

/* The driver's text of a kernel's failure has the reason. */
const char *CUDARTAPI cudaGetErrorString(cudaError_t error) {
    const char *text = unknown;
    for (int i = 0; i < ERRORS; i++) {
        if (errors[i].code != error)
            continue;
        if (errors[i].text)
            return errors[i].text;
        cuGetErrorString((CUresult)error, &text);
    }
    return text;
}
