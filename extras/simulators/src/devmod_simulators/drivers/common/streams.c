/* Streams: queues whose work waits until something needs it.
 *
 * An operation runs when the program waits for it, and only after the operations that it depends
 * on: earlier ones of its stream, and what it waits for explicitly. Work of other streams does not
 * run on the way. So a program that forgets a wait reads old data, each time.
 */
#include "standin.h"

#include <stdlib.h>
#include <time.h>

pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
static uint64_t tickets, finished;
static __thread bool calling, stepping;
static bool calls_ended;
static int callers;

/* Return a new operation with `size` bytes of data, zeros. */
Op *op_make(const char *what, int (*run)(Op *), void (*drop)(Op *), size_t size) {
    Op *op = zeroed(sizeof *op + size);
    op->what = what;
    op->run = run;
    op->drop = drop;
    op->references = 1;
    op->size = size;
    return op;
}

/* End one use of an operation. */
void op_free(Op *op) {
    if (--op->references)
        return;
    if (op->drop)
        op->drop(op);
    free(op->waits);
    free(op);
}

/* Let `op` wait for the work of `stream` up to `number`. */
void op_wait(Op *op, Stream *stream, uint64_t number) {
    note_order(NOTE_WAITS, stream, number, op);
    if (stream->done >= number)
        return;
    op->waits = with_room(op->waits, (size_t)op->wait_count, sizeof *op->waits);
    op->waits[op->wait_count].stream = stream;
    op->waits[op->wait_count++].number = number;
}

Stream *stream_make(Group *group, bool blocking) {
    Stream *stream = zeroed(sizeof *stream);
    stream->group = group;
    stream->blocking = blocking;
    stream->next = group->streams;
    group->streams = stream;
    return stream;
}

/* Queue an operation. Return its number. */
uint64_t stream_add(Stream *stream, Op *op) {
    Group *group = stream->group;
    if (stream == group->barrier) {
        for (Stream *other = group->streams; other; other = other->next)
            if (other->blocking && other != stream)
                op_wait(op, other, other->last);
    } else if (stream->blocking && group->barrier) {
        op_wait(op, group->barrier, group->barrier->last);
    }
    op->number = ++stream->last;
    op->ticket = ++tickets;
    if (stream->tail)
        stream->tail->next = op;
    else
        stream->head = op;
    stream->tail = op;
    watch_queues();
    note_order(NOTE_QUEUED, stream, op->number, op);
    return op->number;
}

/* Take a destroyed stream without work out of its group. The structure stays: events and operations
 * may still name it. */
static void leave_group(Stream *stream) {
    Stream **place = &stream->group->streams;
    while (*place && *place != stream)
        place = &(*place)->next;
    if (*place)
        *place = stream->next;
}

/* Take the first operation out of its queue, as done. */
static void finish(Stream *stream) {
    Op *op = stream->head;
    stream->head = op->next;
    if (!stream->head)
        stream->tail = NULL;
    stream->done = op->number;
    finished++;
    op_free(op);
    if (stream->destroyed && !stream->head)
        leave_group(stream);
}

static bool is_ready(const Op *op) {
    for (int i = 0; i < op->wait_count; i++)
        if (op->waits[i].stream->done < op->waits[i].number)
            return false;
    return !op->is_ready || op->is_ready(op);
}

/* Return whether a stream has an operation that waits for nothing and that no thread runs. */
bool stream_is_ready(const Stream *stream) {
    return stream->head && !stream->running && is_ready(stream->head);
}

/* Return the number of operations that all streams have had, and that have run. */
uint64_t operations_queued(void) {
    return tickets;
}

uint64_t operations_done(void) {
    return finished;
}

/* Let something change memory: another stream of the group, or another thread of the program, which
 * gets the lock for a millisecond. */
static void wait_for_memory(const Stream *waiting) {
    for (Stream *stream = waiting->group->streams; stream; stream = stream->next)
        if (stream != waiting && stream_is_ready(stream)) {
            stream_run(stream, stream->done + 1);
            return;
        }
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&progress, &big_lock, &end);
}

/* Run a stream up to `number`, with what that depends on and nothing else. Return the sticky code
 * of the stream's group. */
int stream_run(Stream *stream, uint64_t number) {
    static __thread int depth;
    depth++;
    while (stream->done < number) {
        if (stream->running) { /* another thread runs it, or is in a function of the user */
            pthread_cond_wait(&progress, &big_lock);
            continue;
        }
        Op *op = stream->head;
        stream->running = true;
        for (int i = 0; i < op->wait_count; i++)
            stream_run(op->waits[i].stream, op->waits[i].number);
        while (op->is_ready && !stream->group->failed && !op->is_ready(op))
            wait_for_memory(stream);
        note_running(stream, op->number);
        int code = stream->group->failed ? 0 : op->run(op);
        stream->running = false;
        if (code == CODE_NOT_SUPPORTED)
            stream->group->unsupported = code;
        else if (code && !stream->group->failed)
            stream->group->failed = code;
        finish(stream);
        pthread_cond_broadcast(&progress);
    }
    if (!--depth && !stepping)
        note_order(NOTE_KNOWN, stream, number, NULL);
    return stream->group->failed;
}

/* Run one operation of a stream, with what it depends on: what a query advances. Return whether
 * everything was done before. */
bool stream_step(Stream *stream) {
    if (stream->done == stream->last) {
        note_order(NOTE_KNOWN, stream, stream->last, NULL);
        return true;
    }
    if (stream->running) /* by another thread */
        return false;
    if (stream->head && stream->head->is_ready && !stream->head->is_ready(stream->head))
        return false;
    stepping = true;
    stream_run(stream, stream->done + 1);
    stepping = false;
    return false;
}

/* Run everything of a group: the stream whose next operation is the youngest first, so that a
 * missing wait shows. */
int group_run(Group *group) {
    for (;;) {
        Stream *youngest = NULL;
        for (Stream *stream = group->streams; stream; stream = stream->next)
            if (stream->head && (!youngest || stream->head->ticket > youngest->head->ticket))
                youngest = stream;
        if (!youngest) {
            for (Stream *stream = group->streams; stream; stream = stream->next)
                note_order(NOTE_KNOWN, stream, stream->last, NULL);
            return group->failed;
        }
        stream_run(youngest, youngest->last);
    }
}

/* End a stream: it leaves its group when its work is done. */
void stream_retire(Stream *stream) {
    stream->destroyed = true;
    stream->handle = NULL;
    if (!stream->head)
        leave_group(stream);
}

/* Call a function of the user without the lock. The stream counts as running meanwhile. */
void call_unlocked(void (*function)(void *), void *data) {
    if (calls_ended)
        return;
    callers++;
    pthread_mutex_unlock(&big_lock);
    calling = true;
    function(data);
    calling = false;
    pthread_mutex_lock(&big_lock);
    callers--;
}

/* Call no function of the user from now on: the process ends. Return whether none is running in
 * another thread. */
bool end_calls(void) {
    calls_ended = true;
    return !callers;
}

bool calls_have_ended(void) {
    return calls_ended;
}

/* Return whether this thread is in such a call. */
bool in_call(void) {
    return calling;
}
