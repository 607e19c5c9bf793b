/* The report: violations and counts, as lines of text that tests read. */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *report_text;
static size_t report_size, report_capacity;

static pid_t process;

void (*report_more)(void);

/* Return the report: "name value" lines, then "violation text" lines. The text is valid until the
 * next call. */
const char *standin_report(void);
/* Forget the violations. */
void standin_forget(void);

static void report_add(const char *text) {
    size_t length = strlen(text);
    if (report_size + length + 1 > report_capacity) {
        report_capacity = (report_size + length + 1) * 2;
        report_text = realloc(report_text, report_capacity);
        if (!report_text)
            abort();
    }
    memcpy(report_text + report_size, text, length + 1);
    report_size += length;
}

void report_line(const char *name, long long value) {
    char line[128];
    snprintf(line, sizeof line, "%s %lld\n", name, value);
    report_add(line);
}

void report_text_line(const char *name, const char *text) {
    report_add(name);
    report_add(" ");
    report_add(text);
    report_add("\n");
}

const char *standin_report(void) {
    pthread_mutex_lock(&big_lock);
    report_size = 0;
    report_add("");
    for (int kind = 1; kind < HANDLE_KINDS; kind++)
        report_line(handle_kind_name(kind), (long long)handle_count(kind));
    for (int slice = 0; slice < ARENA_SLICES; slice++) {
        long long blocks = 0, bytes = 0;
        for (size_t i = 0; i < arena_count(slice); i++) {
            Block *block = arena_at(slice, i);
            blocks += !block->internal;
            bytes += block->internal ? 0 : (long long)block->size;
        }
        char name[32];
        if (!blocks)
            continue;
        snprintf(name, sizeof name, slice == ARENA_HOST ? "host-blocks" : "device-%d-blocks",
                 slice);
        report_line(name, blocks);
        snprintf(name, sizeof name, slice == ARENA_HOST ? "host-bytes" : "device-%d-bytes", slice);
        report_line(name, bytes);
    }
    report_line("worker", worker_started());
    if (report_more)
        report_more();
    report_add(violations());
    pthread_mutex_unlock(&big_lock);
    return report_text;
}

void standin_forget(void) {
    pthread_mutex_lock(&big_lock);
    violations_forget();
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
