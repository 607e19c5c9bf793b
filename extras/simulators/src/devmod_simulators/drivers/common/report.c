/* The report, as lines of text that tests read: "name value", then "violation text". */
#include "driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static Bytes report, violations;
static pid_t process;

void violation(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put_format(&violations, "violation %s\n", text);
}

static void report_blocks(int slice) {
    long long blocks = 0, bytes = 0;
    char owner[32] = "host";
    for (size_t i = 0; i < arena_count(slice); i++) {
        const Block *block = arena_at(slice, i);
        blocks += !block->internal;
        bytes += block->internal ? 0 : (long long)block->size;
    }
    if (!blocks)
        return;
    if (slice != ARENA_HOST)
        snprintf(owner, sizeof owner, "device-%d", slice);
    put_format(&report, "%s-blocks %lld\n%s-bytes %lld\n", owner, blocks, owner, bytes);
}

/* Return the report. The text is valid until the next call. */
const char *standin_report(void) {
    pthread_mutex_lock(&big_lock);
    report.size = 0;
    for (int kind = 1; kind < HANDLE_KINDS; kind++)
        put_format(&report, "%s %zu\n", handle_kind_name(kind), handle_count(kind));
    for (int slice = 0; slice < ARENA_SLICES; slice++)
        report_blocks(slice);
    put_format(&report, "worker %d\n", worker_started());
    report_process(&report);
    put_raw(&report, violations.data, violations.size);
    put_raw(&report, "", 1);
    pthread_mutex_unlock(&big_lock);
    return (const char *)report.data;
}

/* Forget the violations. */
void standin_forget(void) {
    pthread_mutex_lock(&big_lock);
    violations.size = 0;
    pthread_mutex_unlock(&big_lock);
}

__attribute__((constructor)) static void note_process(void) {
    process = getpid();
}

/* At the end of the process, write the report to the file that the setting "report" names. A forked
 * child writes none. */
__attribute__((destructor)) static void write_report(void) {
    const char *path = getpid() == process ? setting("report") : NULL;
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fputs(standin_report(), file);
    fclose(file);
}
