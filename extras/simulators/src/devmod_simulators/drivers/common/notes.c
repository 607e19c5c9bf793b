/* What checks need of the host's side, while the setting "sanitize" names some: notes that the
   worker reads with the next launch, in the order in which things happen, the lines of the program
   that allocates and frees, the reports that come back, and memory that is left. */
#include "driver.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Bytes notes, reports;
static int status_at_exit = -1;
static struct {
    const Stream *stream;
    uint64_t number;
} running;
static __thread char place[512]; /* the line of Python that calls this thread's function */

/* Return whether a check is on, or any for NULL. */
bool is_checked(const char *check) {
    const char *checks = setting("sanitize");
    return checks && (!check || strstr(checks, check));
}

/* CPython's functions, if this process has them. */
static struct {
    int (*ready)(void);
    int (*ensure)(void);
    void (*release)(int);
    void *(*frame)(void), *(*back)(void *), *(*code)(void *), *(*attribute)(void *, const char *);
    int (*line)(void *);
    const char *(*text)(void *);
    void (*drop)(void *);
} python;

static void find_python(void) {
    const struct {
        const char *name;
        void *function;
    } names[] = {
        {"Py_IsInitialized", &python.ready},
        {"PyGILState_Ensure", &python.ensure},
        {"PyGILState_Release", &python.release},
        {"PyEval_GetFrame", &python.frame},
        {"PyFrame_GetBack", &python.back},
        {"PyFrame_GetCode", &python.code},
        {"PyObject_GetAttrString", &python.attribute},
        {"PyFrame_GetLineNumber", &python.line},
        {"PyUnicode_AsUTF8", &python.text},
        {"Py_DecRef", &python.drop},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        *(void **)names[i].function = dlsym(RTLD_DEFAULT, names[i].name);
}

/* Whether a file is a library, and not the user's. */
static bool is_library(const char *file) {
    return strstr(file, "-packages/") || strstr(file, "/lib/python3") ||
           strstr(file, "/src/devmod") || file[0] == '<';
}

/* Note the line of Python that calls a function of the API. The caller holds no lock: another
 * thread may hold Python's and wait for ours. */
void note_place(const char *function) {
    place[0] = 0;
    if ((strncmp(function, "cuMem", 5) && strncmp(function, "cuLaunch", 8)) || !is_checked(NULL))
        return;
    if (!python.ready)
        find_python();
    if (!python.drop || !python.ready())
        return;
    int state = python.ensure();
    void *frame = python.frame();
    bool owned = false;
    while (frame) {
        void *code = python.code(frame),
             *name = code ? python.attribute(code, "co_filename") : NULL;
        const char *file = name ? python.text(name) : NULL;
        char here[256];
        size_t length = getcwd(here, sizeof here) ? strlen(here) : 0;
        bool found = file && !is_library(file);
        if (found) {
            bool below = length && strncmp(file, here, length) == 0 && file[length] == '/';
            snprintf(place, sizeof place, "%s:%d", below ? file + length + 1 : file,
                     python.line(frame));
        }
        if (name)
            python.drop(name);
        if (code)
            python.drop(code);
        void *next = found ? NULL : python.back(frame);
        if (owned)
            python.drop(frame);
        frame = next;
        owned = true;
    }
    python.release(state);
}

void note_allocated(Block *block) {
    if (!is_checked(NULL))
        return;
    block->place = strdup(place);
    put_u32(&notes, NOTE_ALLOCATED);
    put_u64(&notes, block->start);
    put_u64(&notes, block->size);
    put_u32(&notes, block->kind != BLOCK_DEVICE); /* the host may write to it, which nobody sees */
    put_bytes(&notes, place, strlen(place));
}

/* Return the line that frees a block, for the note when it is gone. */
const char *note_freeing(Block *block) {
    free(block->place);
    block->place = NULL; /* it is no leak */
    return is_checked(NULL) ? strdup(place) : NULL;
}

void note_freed(uint64_t start, const char *where) {
    if (!where)
        return;
    put_u32(&notes, NOTE_FREED);
    put_u64(&notes, start);
    put_bytes(&notes, where, strlen(where));
    free((char *)where);
}

/* Note that an operation waits for work of a stream, that it is queued there as `number`, that the
 * host knows the work up to `number` done, or that a queued operation has come after what it has
 * waited for since. */
void note_order(Note kind, const Stream *stream, uint64_t number, const Op *op) {
    if (!is_checked("race"))
        return;
    put_u32(&notes, kind);
    put_u64(&notes, (uintptr_t)stream);
    put_u64(&notes, number);
    put_u64(&notes, (uintptr_t)op);
    put_bytes(&notes, place, strlen(place));
}

/* Note which operation runs. */
void note_running(const Stream *stream, uint64_t number) {
    running.stream = stream;
    running.number = number;
}

/* Return the stream of the operation that runs, and set its number there. */
const Stream *running_stream(uint64_t *number) {
    *number = running.number;
    return running.stream;
}

static void put_running(Bytes *bytes) {
    put_u64(bytes, (uintptr_t)running.stream);
    put_u64(bytes, running.number);
}

/* Note that the operation that runs copies or fills rows. Addresses outside of the arena are the
 * host's own. */
void note_access(uint64_t address, size_t pitch, size_t width, size_t rows, uint64_t from,
                 size_t from_pitch) {
    if (!is_checked(NULL))
        return;
    put_u32(&notes, NOTE_ACCESS);
    put_running(&notes);
    put_u64(&notes, arena_contains(address) ? address : 0);
    put_u64(&notes, pitch);
    put_u64(&notes, width);
    put_u64(&notes, rows);
    put_u64(&notes, arena_contains(from) ? from : 0);
    put_u64(&notes, from_pitch);
}

static void note_status(int status, void *unused) {
    status_at_exit = status;
}

/* Append the checks and the notes to the request of a launch, if there are checks. */
bool put_checks(Bytes *request) {
    const char *checks = setting("sanitize");
    if (!checks)
        return false;
    static bool is_watched;
    if (!is_watched)
        is_watched = on_exit(note_status, NULL) == 0;
    put_bytes(request, checks, strlen(checks));
    put_bytes(request, notes.data, notes.size);
    put_running(request);
    notes.size = 0;
    return true;
}

/* Send the notes without a launch, and print the reports. */
void flush_notes(void) {
    Bytes request = {0}, response = {0};
    if (!worker_started() || !notes.size)
        return;
    put_u32(&request, WORKER_NOTES);
    if (put_checks(&request) && !worker_call(&request, &response))
        take_reports(&response);
    bytes_free(&request);
    bytes_free(&response);
}

/* Print a report, and keep what a program reads of it. */
static void note_report(const char *text, const char *json) {
    const char *path = setting("sanitize_log");
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    char *line = NULL;
    int length = asprintf(&line, "%s\n", json);
    if (file < 0) /* else who reads the log prints it */
        fprintf(stderr, "%s\n", text);
    if (length > 0) {
        put_raw(&reports, line, (size_t)length);
        if (file >= 0)
            (void)!write(file, line, (size_t)length);
    }
    if (file >= 0)
        close(file);
    free(line);
}

/* Print the reports in the response to it. */
void take_reports(Bytes *response) {
    uint32_t count = response->size - response->position >= 4 ? get_u32(response) : 0;
    while (count--) {
        char *text = get_text(response), *json = get_text(response);
        note_report(text, json);
        free(text);
        free(json);
    }
}

/* Return the reports so far, a line of JSON each, and forget them. */
const char *standin_sanitize_reports(void) {
    static char *answer;
    pthread_mutex_lock(&big_lock);
    free(answer);
    put_raw(&reports, "", 1);
    answer = (char *)reports.data;
    reports = (Bytes){0};
    pthread_mutex_unlock(&big_lock);
    return answer;
}

/* Tell the command above of a launch: make its file, and write to it once a launch has run to its
 * end. */
void note_launch(bool has_ended) {
    static char *noted;
    static bool noted_end;
    const char *path = setting("launched");
    if (!path || (noted && strcmp(noted, path) == 0 && (noted_end || !has_ended)))
        return;
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file >= 0) {
        if (has_ended)
            (void)!write(file, "\n", 1);
        close(file);
    }
    free(noted);
    noted = strdup(path);
    noted_end = has_ended;
}

static void settle(void *context) {
    if (((Context *)context)->alive)
        context_run(context);
}

/* Run all work that waits, so that its checks are done. */
void standin_settle(void) {
    pthread_mutex_lock(&big_lock);
    if (!process_forked()) { /* the worker is that of the parent */
        handle_each(HANDLE_CONTEXT, settle);
        flush_notes();
    }
    pthread_mutex_unlock(&big_lock);
}

/* Report the memory of an owner, or all, that the program did not free. */
void note_leaks(const void *owner) {
    for (int slice = 0; slice < ARENA_SLICES && is_checked("leak"); slice++)
        for (size_t i = 0; i < arena_count(slice); i++) {
            Block *block = arena_at(slice, i);
            if (!block->place || block->kind == BLOCK_HOST || (owner && block->owner != owner))
                continue;
            char text[768], json[1700], escaped[1024], *to = escaped;
            for (const char *from = block->place; *from && to < escaped + 1000; from++) {
                if (*from == '"' || *from == '\\')
                    *to++ = '\\';
                if ((unsigned char)*from < ' ')
                    to += sprintf(to, "\\u%04x", (unsigned)*from);
                else
                    *to++ = *from;
            }
            *to = 0;
            bool known = block->place[0];
            snprintf(text, sizeof text, "leak: %llu bytes%s%s", (unsigned long long)block->size,
                     known ? ", allocated at " : "", block->place);
            snprintf(
                json, sizeof json,
                "{\"check\": \"leak\", \"kind\": \"leak\", \"text\": \"leak: %llu bytes%s%s\"}",
                (unsigned long long)block->size, known ? ", allocated at " : "", escaped);
            note_report(text, json);
            block->place = NULL; /* once */
        }
}

__attribute__((destructor)) static void find_leaks(void) {
    if (process_forked())
        return;
    if (!end_calls())
        flush_notes();
    else if (is_checked(NULL)) /* else what waits ends with the process, as with the real driver */
        standin_settle();
    note_leaks(NULL);
}

/* A program with reports ends with the status that the command above it has set, so that ctest and
 * make see which one it was. */
__attribute__((destructor(101))) static void end_with_reports(void) {
    int status = (int)setting_number("sanitize_status", 0);
    if (process_forked() || status_at_exit != 0 || !reports.size || !status)
        return;
    fflush(NULL);
    _exit(status);
}
