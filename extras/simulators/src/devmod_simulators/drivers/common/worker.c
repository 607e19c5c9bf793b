/* The worker: the interpreter's process and its two pipes (protocol.md). */
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 32, MOST_BYTES = 1 << 30 };

static pid_t worker;
static int requests = -1, responses = -1;
static uint32_t generation;
static bool executes_alone; /* a kernel, while other threads have the lock */
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;

static void grow(Bytes *bytes, size_t size) {
    if (bytes->size + size > bytes->capacity) {
        bytes->capacity = (bytes->size + size) * 2;
        bytes->data = realloc(bytes->data, bytes->capacity);
        if (!bytes->data)
            abort();
    }
}

void put_raw(Bytes *bytes, const void *data, size_t size) {
    grow(bytes, size);
    if (size)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

void put_format(Bytes *bytes, const char *format, ...) {
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        abort();
    put_raw(bytes, text, (size_t)length);
    free(text);
}

void put_u32(Bytes *bytes, uint32_t value) {
    put_raw(bytes, &value, sizeof value);
}

void put_u64(Bytes *bytes, uint64_t value) {
    put_raw(bytes, &value, sizeof value);
}

/* Append bytes, with their length before them. */
void put_bytes(Bytes *bytes, const void *data, size_t size) {
    put_u32(bytes, (uint32_t)size);
    put_raw(bytes, data, size);
}

static bool get(Bytes *bytes, void *data, size_t size) {
    if (bytes->size - bytes->position < size) {
        bytes->short_read = true;
        memset(data, 0, size);
        return false;
    }
    memcpy(data, bytes->data + bytes->position, size);
    bytes->position += size;
    return true;
}

uint32_t get_u32(Bytes *bytes) {
    uint32_t value;
    get(bytes, &value, sizeof value);
    return value;
}

uint64_t get_u64(Bytes *bytes) {
    uint64_t value;
    get(bytes, &value, sizeof value);
    return value;
}

/* The caller frees it. */
char *get_text(Bytes *bytes) {
    size_t size = get_u32(bytes);
    if (size > bytes->size - bytes->position) {
        bytes->short_read = true;
        size = 0;
    }
    char *text = zeroed(size + 1);
    if (size)
        get(bytes, text, size);
    return text;
}

void bytes_free(Bytes *bytes) {
    free(bytes->data);
    *bytes = (Bytes){0};
}

/* Start a command (arguments separated by 0x1f) with the arena's address and size behind it. Return
 * 0 or errno. */
static int start(const char *command) {
    char address[32], size[32], *copy = strdup(command), *rest = copy,
                                *arguments[MOST_ARGUMENTS + 3];
    int count = 0, to_worker[2], from_worker[2];
    while (count < MOST_ARGUMENTS && rest)
        arguments[count++] = strsep(&rest, "\x1f");
    snprintf(address, sizeof address, "%llu", (unsigned long long)arena_base());
    snprintf(size, sizeof size, "%llu", (unsigned long long)arena_size());
    arguments[count++] = address;
    arguments[count++] = size;
    arguments[count] = NULL;
    if (pipe2(to_worker, O_CLOEXEC) || pipe2(from_worker, O_CLOEXEC))
        return errno;
    /* Descriptors above those of the worker, so that one dup2 does not close the source of the
     * next. */
    int sources[3] = {fcntl(to_worker[0], F_DUPFD_CLOEXEC, 64),
                      fcntl(from_worker[1], F_DUPFD_CLOEXEC, 64),
                      fcntl(arena_fd(), F_DUPFD_CLOEXEC, 64)};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&actions, sources[i], 3 + i);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    int code = posix_spawnp(&worker, arguments[0], &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(to_worker[0]);
    close(from_worker[1]);
    for (int i = 0; i < 3; i++)
        close(sources[i]);
    requests = to_worker[1];
    responses = from_worker[0];
    free(copy);
    if (code)
        worker = 0;
    return code;
}

/* Write without SIGPIPE: a worker that has ended is an error to report. */
static bool write_all(const void *data, size_t size) {
    const char *bytes = data;
    sigset_t pipe_signal, before;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    bool result = true;
    while (size && result) {
        ssize_t count = write(requests, bytes, size);
        if (count < 0 && errno == EINTR)
            continue;
        result = count > 0;
        bytes += count > 0 ? count : 0;
        size -= count > 0 ? (size_t)count : 0;
    }
    if (!result && errno == EPIPE)
        sigtimedwait(&pipe_signal, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

static bool read_all(void *data, size_t size) {
    char *bytes = data;
    while (size) {
        ssize_t count = read(responses, bytes, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        bytes += count;
        size -= (size_t)count;
    }
    return true;
}

static char *message;

static int no_answer(const char *text, const char *detail) {
    free(message);
    if (asprintf(&message, "%s%s", text, detail) < 0)
        abort();
    return CODE_UNKNOWN;
}

/* Wait until the worker executes no kernel of a thread that lets others have the lock meanwhile. */
void worker_wait(void) {
    while (executes_alone)
        pthread_cond_wait(&answered, &big_lock);
}

/* Read the size of the response. In the background other threads have the lock until it is there:
 * the kernel may wait for what they do. Reports of checks need the order of all calls. */
static bool read_size(uint32_t *size) {
    if (!runs_in_background() || setting("sanitize"))
        return read_all(size, sizeof *size);
    executes_alone = true;
    pthread_mutex_unlock(&big_lock);
    bool result = read_all(size, sizeof *size);
    pthread_mutex_lock(&big_lock);
    executes_alone = false;
    pthread_cond_broadcast(&answered);
    return result;
}

static int call_worker(const Bytes *request, Bytes *response) {
    if (!worker) {
        const char *command = setting("worker");
        if (!command)
            return no_answer("DEVMOD_STANDIN_WORKER is not set: no worker can run kernels", "");
        int code = start(command);
        if (code)
            return no_answer("the worker did not start: ", strerror(code));
    }
    uint32_t size = (uint32_t)request->size;
    if (!write_all(&size, sizeof size) || !write_all(request->data, request->size) ||
        !read_size(&size) || size > MOST_BYTES)
        return no_answer("the worker has ended; its standard error has the reason", "");
    response->data = zeroed(size);
    response->size = response->capacity = size;
    if (!read_all(response->data, size))
        return no_answer("the worker has ended within a response", "");
    int status = (int)get_u32(response);
    free(message);
    message = get_text(response);
    return response->short_read ? no_answer("the response of the worker is too short", "") : status;
}

/* Send a request (its first field is the operation), which is freed, and read the response into
 * *response, behind status and message, unless it is NULL. Return the status. The worker is started
 * if it is not there. */
int worker_call(Bytes *request, Bytes *response) {
    Bytes unread = {0};
    if (response)
        *response = (Bytes){0};
    worker_wait();
    int code = call_worker(request, response ? response : &unread);
    bytes_free(request);
    bytes_free(&unread);
    return code;
}

/* Return why the last call failed. */
const char *worker_message(void) {
    return message;
}

/* Return whether the worker has been started. */
bool worker_started(void) {
    return worker != 0;
}

/* Wait for a worker that ends by itself, or has ended. The next call starts another one, which
 * knows no module. */
void worker_end(void) {
    if (!worker)
        return;
    close(requests);
    close(responses);
    while (waitpid(worker, NULL, 0) < 0 && errno == EINTR)
        ;
    worker = 0;
    generation++;
}

/* Return the number of the current worker, or of the next one, from 0. */
uint32_t worker_generation(void) {
    return generation;
}

/* The worker ends at the end of its requests; nothing waits for it, but no zombie stays. */
__attribute__((destructor(101))) static void stop_worker(void) {
    if (!worker)
        return;
    close(requests);
    close(responses);
    waitpid(worker, NULL, WNOHANG);
}
