/* Work that runs without a call: a program may wait for a host function by a condition variable, or
 * read memory until a kernel has written there. A driver runs queued work by itself, and the
 * program expects it.
 *
 * A thread runs what is queued once the program has made no call for a while, and once nothing has
 * run for long, whatever the program calls. It lives while work is queued, so most forks copy a
 * process of one thread.
 */
#include "driver.h"

#include <sched.h>
#include <signal.h>
#include <time.h>

enum { TICKS = 3, TICKS_WITH_CALLS = 10 * TICKS };

static bool watched;
static volatile bool ended_process;
static uint64_t calls;
static __thread bool in_background;

/* Note that the program has made a call. */
void note_call(void) {
    calls++;
}

/* Return whether this thread is the one that does so. */
bool runs_in_background(void) {
    return in_background;
}

static Stream *youngest;

static void choose_stream(void *context) {
    for (Stream *stream = ((Context *)context)->group.streams; stream; stream = stream->next)
        if (stream_is_ready(stream) && (!youngest || stream->head->ticket > youngest->head->ticket))
            youngest = stream;
}

/* Run what is queued, an operation at a time, until the program makes a call. */
static void run_queued(void) {
    uint64_t before = calls;
    while (calls == before && !ended_process) {
        youngest = NULL;
        handle_each(HANDLE_CONTEXT, choose_stream);
        if (!youngest)
            return;
        stream_step(youngest);
        pthread_mutex_unlock(&big_lock); /* a thread that waits for it makes its call */
        sched_yield();
        pthread_mutex_lock(&big_lock);
    }
}

static void *watch(void *milliseconds) {
    long tick = (long)(uintptr_t)milliseconds * 1000000 / TICKS;
    const struct timespec pause = {tick / 1000000000, tick % 1000000000};
    uint64_t latest_call = 0, latest_run = 0;
    int without_call = 0, without_run = 0;
    in_background = true;
    for (;;) {
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&big_lock);
        uint64_t run = operations_done();
        if (ended_process || operations_queued() == run)
            break;
        without_call = calls == latest_call ? without_call + 1 : 0;
        without_run = run == latest_run ? without_run + 1 : 0;
        if (without_call >= TICKS || without_run >= TICKS_WITH_CALLS) {
            run_queued();
            without_run = 0;
        }
        latest_call = calls;
        latest_run = operations_done();
        pthread_mutex_unlock(&big_lock);
    }
    watched = false;
    pthread_mutex_unlock(&big_lock);
    return NULL;
}

/* Run what is queued after a while without calls. */
void watch_queues(void) {
    uint64_t milliseconds = setting_number("idle_ms", 300);
    if (watched || !milliseconds || ended_process)
        return;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all); /* signals are for the program's threads */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    watched = !pthread_create(&thread, NULL, watch, (void *)(uintptr_t)milliseconds);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (watched)
        pthread_detach(thread);
}

__attribute__((destructor)) static void end_watch(void) {
    ended_process = true;
}
