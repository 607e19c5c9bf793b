/* The names and the texts of CUDA's errors, and the functions by name. */
#include "cuda_standin.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
#include "errors.h" /* a build writes it, of errors.txt */
};

enum { COUNT = sizeof errors / sizeof errors[0] };

static CUresult find(CUresult error, const char **result, bool is_text) {
    CHECK(result, CUDA_ERROR_INVALID_VALUE); /* NVIDIA's library ends the process */
    *result = NULL;
    for (int i = 0; i < COUNT && !*result; i++)
        if (errors[i].code == error)
            *result = is_text ? errors[i].text : errors[i].name;
    return *result ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **pStr) {
    return find(error, pStr, false);
}

/* The text of a kernel's failure has the reason: most programs show nothing else of it. */
CUresult CUDAAPI cuGetErrorString(CUresult error, const char **pStr) {
    static const char *latest;
    static char *text;
    TRY(find(error, pStr, true));
    pthread_mutex_lock(&big_lock);
    const char *reason = failure_reason((int)error);
    if (reason && reason != latest && asprintf(&text, "%s: %s", *pStr, reason) > 0)
        latest = reason;
    if (reason && reason == latest)
        *pStr = text;
    pthread_mutex_unlock(&big_lock);
    return CUDA_SUCCESS;
}

/* The version of CUDA in which cuGetProcAddress first returns a function, for those that are newer
 * than 10.2. */
static const struct {
    const char *name;
    int version;
} since[] = {
#include "first_versions.h" /* a build writes it, from NVIDIA's header */
};

static int first_version(const char *name) {
    for (size_t i = 0; i < sizeof since / sizeof since[0]; i++)
        if (strcmp(since[i].name, name) == 0)
            return since[i].version;
    return 0;
}

/* Return whether a name ends with a version or a default stream, as in cuMemAlloc_v2 and
 * cuMemcpy_ptds: such names are those of the library, and not of the API. */
static bool has_form(const char *symbol) {
    const char *end = strrchr(symbol, '_');
    if (!end)
        return false;
    if (strcmp(end, "_ptsz") == 0 || strcmp(end, "_ptds") == 0)
        return true;
    return end[1] == 'v' && isdigit((unsigned char)end[2]) && !end[3];
}

/* The functions of alone/unsupported.c. */
extern const char __start_unsupported[], __stop_unsupported[];

static bool is_missing(void *function) {
    return (const char *)function >= __start_unsupported &&
           (const char *)function < __stop_unsupported;
}

/* Each function that this library exports is found, first what it has, the newest form that the
   version asked for and the driver have. As in NVIDIA's library a missing function is no error:
   *pfn is NULL, and the status has the reason. It calls what this library has of a newer driver
   unknown. */
CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *symbolStatus) {
    static void *self;
    CHECK(symbol && pfn, CUDA_ERROR_INVALID_VALUE); /* NVIDIA's library ends the process */
    /* The forms for a default stream of each thread are those of the legacy one: tests name their
     * streams. */
    CHECK(flags <= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, CUDA_ERROR_INVALID_VALUE);
    if (!self) {
        Dl_info info;
        if (dladdr((void *)cuGetProcAddress, &info))
            self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *pfn = NULL;
    for (int number = 7; number >= 0 && self && !*pfn && !has_form(symbol); number--) {
        int form = number % 4 + 1;
        char name[128];
        snprintf(name, sizeof name, form > 1 ? "%s_v%d" : "%s", symbol, form);
        void *function = strncmp(symbol, "cu", 2) == 0 ? dlsym(self, name) : NULL;
        if (!function || first_version(name) > driver_version() ||
            is_missing(function) != (number < 4))
            continue;
        if (first_version(name) > cudaVersion)
            status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        else
            *pfn = function;
    }
    if (*pfn)
        status = CU_GET_PROC_ADDRESS_SUCCESS;
    if (symbolStatus)
        *symbolStatus = status;
    return CUDA_SUCCESS;
}

/* Programs that were built before CUDA 12, and libraries that look the name up, call the form
 * without a status: a missing function is an error. */
#undef cuGetProcAddress
CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
                                  cuuint64_t flags) {
    TRY(cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, NULL));
    return *pfn ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
