/* What each function of the API does first: the lock, the state of the process, faults on demand,
 * the count of its calls. */
#include "driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ready, forked, ended, tried;
static Counter *counters;
static char reason[4096];
static __thread const char *call; /* the function of the API that this thread is in */

void explain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    for (char *mark = reason; *mark; mark++)
        if (*mark == '\n')
            *mark = ' ';
}

static struct {
    int code;
    char *text;
} failure;

/* Note why a kernel failed with a code. */
void explain_failure(int code, const char *kernel, const char *message) {
    explain("%s: %s", kernel, message);
    failure.code = code;
    failure.text = strdup(reason); /* not freed: programs keep the text of an error */
}

/* Return why a kernel failed, if its failure is the latest with this code, or NULL. The text stays.
 */
const char *failure_reason(int code) {
    return code && code == failure.code ? failure.text : NULL;
}

/* Return the name of the function of the API that this thread is in. */
const char *current_call(void) {
    return call;
}

/* Compare an exported name with a public one: cuMemAlloc_v2 is cuMemAlloc. */
static bool same_name(const char *exported, const char *name) {
    size_t length = strlen(name);
    if (strncmp(exported, name, length) != 0)
        return false;
    return !exported[length] || (exported[length] == '_' && exported[length + 1] == 'v');
}

/* Return how often a function of the API was called, by its name without a version. */
uint64_t standin_calls(const char *name) {
    uint64_t result = 0;
    pthread_mutex_lock(&big_lock);
    for (Counter *counter = counters; counter; counter = counter->next)
        if (same_name(counter->name, name))
            result += counter->calls;
    pthread_mutex_unlock(&big_lock);
    return result;
}

/* The setting "fail": "cuMemAlloc=2,cuLaunchKernel=700@3"; @3 means the third call alone. Return
 * the code for this call, or 0. */
static int fault(const char *name, uint64_t call) {
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
            return atoi(equals + 1);
    }
    return CODE_SUCCESS;
}

int enter(Entry *entry, Counter *counter, const char *name, Need need) {
    if (in_call()) {
        violation("%s is called within a host function of a stream", name);
        return CODE_NOT_PERMITTED;
    }
    note_place(name);
    pthread_mutex_lock(&big_lock);
    entry->locked = true;
    call = name;
    note_call();
    if (!counter->name) {
        *counter = (Counter){name, 0, counters};
        counters = counter;
    }
    counter->calls++;
    if (failure.code == CODE_NOT_SUPPORTED) /* functions of the API return it too */
        failure.code = 0;
    int code = fault(name, counter->calls);
    if (code)
        return code;
    if (need == ANY)
        return CODE_SUCCESS;
    if (ended || setting_number("deinitialized", 0))
        return CODE_DEINITIALIZED;
    if (vendor.initializes_itself && !ready) {
        int result = process_initialize();
        CHECK(!result, result == CODE_NO_DEVICE ? vendor.without_device : result);
    }
    if (forked || !ready)
        return CODE_NOT_INITIALIZED;
    if (need == READY)
        return CODE_SUCCESS;
    Context *context = current_context();
    CHECK(context, CODE_INVALID_CONTEXT);
    CHECK(context->alive, CODE_CONTEXT_IS_DESTROYED);
    return context_sticky(context);
}

void leave(Entry *entry) {
    if (entry->locked)
        pthread_mutex_unlock(&big_lock);
}

static void note_fork(void) {
    forked = ready;
    pthread_mutex_init(&big_lock, NULL);
}

/* Append the state of the process to the report. */
void report_process(Bytes *report) {
    put_format(report, "reason %s\nready %d\n", reason, ready);
    for (int i = 0; i < DEVICES; i++)
        if (devices[i].failed)
            put_format(report, "failed %d\n", devices[i].failed);
}

/* Return whether this process is the fork of one that was initialized. */
bool process_forked(void) {
    return forked;
}

/* Return whether process_initialize was called, with or without success. */
bool process_was_initialized(void) {
    return tried;
}

/* Initialize the driver. */
int process_initialize(void) {
    tried = true;
    CHECK(!forked, CODE_NOT_INITIALIZED);
    CHECK(device_count(), CODE_NO_DEVICE);
    if (ready)
        return CODE_SUCCESS;
    if (!arena_open()) {
        explain_failure(
            CODE_OPERATING_SYSTEM, "the simulated GPU cannot start",
            "the memory of its devices cannot be reserved: a limit of this process forbids it (ulimit -v, ulimit -f)");
        fprintf(stderr, "devmod-simulators: %s\n", reason);
        return CODE_OPERATING_SYSTEM;
    }
    devices_open();
    pthread_atfork(NULL, NULL, note_fork);
    ready = true;
    return CODE_SUCCESS;
}

/* The driver is gone before the last objects of an interpreter: a call then has an answer of its
 * own, as with the real one. */
__attribute__((destructor)) static void end(void) {
    ended = true;
}
