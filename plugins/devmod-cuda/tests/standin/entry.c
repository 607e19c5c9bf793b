/* What each function of the API does first: the lock, the state of the process, faults on demand, the count of its calls. */
#include "cuda_standin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const Codes codes = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_UNKNOWN,
                     CUDA_ERROR_NOT_SUPPORTED};

static bool ready, forked, ended;
static Counter *counters;
static char reason[4096];
static __thread const char *call; /* the function of the API that this thread is in */

/* Return how often a function of the API was called, by its name without _v2. */
uint64_t standin_calls(const char *name);

void explain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    for (char *mark = reason; *mark; mark++)
        if (*mark == '\n')
            *mark = ' ';
}

const char *current_call(void)
{
    return call;
}

/* Compare an exported name with a public one: cuMemAlloc_v2 is cuMemAlloc. */
static bool same_name(const char *exported, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(exported, name, length) != 0)
        return false;
    return !exported[length] || (exported[length] == '_' && exported[length + 1] == 'v');
}

uint64_t standin_calls(const char *name)
{
    uint64_t result = 0;
    pthread_mutex_lock(&big_lock);
    for (Counter *counter = counters; counter; counter = counter->next)
        if (same_name(counter->name, name))
            result += counter->calls;
    pthread_mutex_unlock(&big_lock);
    return result;
}

/* The setting "fail": "cuMemAlloc=2,cuLaunchKernel=700@3"; @3 means the third call alone. Return the code for this call, or 0. */
static CUresult fault(const char *name, uint64_t call)
{
    const char *list = setting("fail");
    char item[128];
    while (list && *list) {
        size_t length = strcspn(list, ",");
        snprintf(item, sizeof item, "%.*s", (int)length, list);
        list += length + (list[length] == ',');
        char *equals = strchr(item, '='), *at = equals ? strchr(equals, '@') : NULL;
        if (!equals)
            continue;
        *equals = 0;
        if (same_name(name, item) && (!at || strtoull(at + 1, NULL, 10) == call))
            return (CUresult)atoi(equals + 1);
    }
    return CUDA_SUCCESS;
}

CUresult enter(Entry *entry, Counter *counter, const char *name, Need need)
{
    if (in_call()) {
        violation("%s is called within a host function of a stream", name);
        return CUDA_ERROR_NOT_PERMITTED;
    }
    pthread_mutex_lock(&big_lock);
    entry->locked = true;
    call = name;
    if (!counter->name) {
        *counter = (Counter){name, 0, counters};
        counters = counter;
    }
    counter->calls++;
    CUresult code = fault(name, counter->calls);
    if (code)
        return code;
    if (need == ANY)
        return CUDA_SUCCESS;
    if (ended || setting_number("deinitialized", 0))
        return CUDA_ERROR_DEINITIALIZED;
    if (forked || !ready)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (need == READY)
        return CUDA_SUCCESS;
    Context *context = current_context();
    CHECK(context, CUDA_ERROR_INVALID_CONTEXT);
    CHECK(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return context_failure(context);
}

void leave(Entry *entry)
{
    if (entry->locked)
        pthread_mutex_unlock(&big_lock);
}

static void note_fork(void)
{
    forked = ready;
    pthread_mutex_init(&big_lock, NULL);
}

static void report_calls(void)
{
    report_text_line("reason", reason);
    report_line("ready", ready);
    for (int i = 0; i < DEVICES; i++)
        if (devices[i].failed)
            report_line("failed", devices[i].failed);
}

CUresult CUDAAPI cuInit(unsigned int Flags)
{
    ENTER(ANY);
    CHECK(!forked, CUDA_ERROR_NOT_INITIALIZED);
    CHECK(!Flags, CUDA_ERROR_INVALID_VALUE);
    CHECK(device_count(), CUDA_ERROR_NO_DEVICE);
    if (ready)
        return CUDA_SUCCESS;
    if (!arena_open()) {
        explain("the arena could not be mapped");
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    devices_open();
    pthread_atfork(NULL, NULL, note_fork);
    report_more = report_calls;
    ready = true;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int *driverVersion)
{
    ENTER(ANY);
    CHECK(driverVersion, CUDA_ERROR_INVALID_VALUE);
    *driverVersion = driver_version();
    return CUDA_SUCCESS;
}

/* NVRTC and others ask for private tables of the driver. An error makes them go on without. */
CUresult CUDAAPI cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    ENTER(ANY);
    CHECK(ppExportTable && pExportTableId, CUDA_ERROR_INVALID_VALUE);
    *ppExportTable = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

/* The driver is gone before the last objects of an interpreter: a call then has an answer of its own, as with the real one. */
__attribute__((destructor)) static void end(void)
{
    ended = true;
}
