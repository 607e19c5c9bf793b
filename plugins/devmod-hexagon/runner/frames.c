/* Frames: four bytes of length (little-endian), then one array of msgpack. Only the forms that the
 * protocol uses are read and written. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner.h"

/* The largest reply is that to MAX_CALLS calls: a length, an array, three numbers and a bin. */
enum { BUFFER = 65536, MAX_REPLY = 4 + 5 + 3 * 9 + 5 + 8 * MAX_CALLS };

static uint8_t input[BUFFER], output[BUFFER];
static uint32_t input_start, input_end, output_size;
/* The unread bytes of the current frame. */
static uint32_t frame_left;

static void write_all(const void *data, size_t size) {
    const uint8_t *next = data;

    while (size) {
        ssize_t count = write(STDOUT_FILENO, next, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            _exit(0); /* the host has closed the connection */
        next += count;
        size -= (size_t)count;
    }
}

/* Read at least one byte to `out`. Return 0 at the end of the input. */
static uint32_t read_some(void *out, uint32_t size) {
    for (;;) {
        ssize_t count = read(STDIN_FILENO, out, size);
        if (count >= 0)
            return (uint32_t)count;
        if (errno != EINTR)
            return 0;
    }
}

static int take(void *out, uint32_t size) {
    uint8_t *next = out;

    while (size) {
        uint32_t count = input_end - input_start;
        if (count) {
            count = count < size ? count : size;
            memcpy(next, input + input_start, count);
            input_start += count;
        } else if (size >= BUFFER) {
            count = read_some(next, size); /* a large bin needs no buffer */
            if (!count)
                return 0;
        } else {
            input_start = 0;
            input_end = read_some(input, BUFFER);
            if (!input_end)
                return 0;
            continue;
        }
        next += count;
        size -= count;
    }
    return 1;
}

static void take_from_frame(void *out, uint32_t size) {
    if (size > frame_left)
        reply_last("protocol", "the frame is shorter than its contents");
    frame_left -= size;
    if (!take(out, size))
        _exit(0);
}

static uint64_t big_endian(uint32_t size) {
    uint8_t bytes[8];
    uint64_t value = 0;

    take_from_frame(bytes, size);
    for (uint32_t number = 0; number < size; number++)
        value = value << 8 | bytes[number];
    return value;
}

int frame_begin(void) {
    uint8_t head[4], first;

    if (frame_left)
        frame_skip();
    if (!take(head, sizeof head))
        return -1;
    frame_left =
        head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 24;
    take_from_frame(&first, 1);
    if ((first & 0xf0) == 0x90)
        return first & 0x0f;
    if (first == 0xdc)
        return (int)big_endian(2);
    if (first == 0xdd)
        return (int)(big_endian(4) & 0x7fffffff);
    reply_last("protocol", "expected an array");
}

uint64_t frame_unsigned(void) {
    uint8_t first;

    take_from_frame(&first, 1);
    if (first < 0x80)
        return first;
    if (first >= 0xcc && first <= 0xcf)
        return big_endian(1u << (first - 0xcc));
    reply_last("protocol", "expected an unsigned integer");
}

void frame_text(char out[MAX_NAME]) {
    uint8_t first;
    uint32_t size;

    take_from_frame(&first, 1);
    if ((first & 0xe0) == 0xa0)
        size = first & 0x1f;
    else if (first >= 0xd9 && first <= 0xdb)
        size = (uint32_t)big_endian(1u << (first - 0xd9));
    else
        reply_last("protocol", "expected a string");
    if (size >= MAX_NAME)
        reply_last("protocol", "expected a string of less than 1024 bytes");
    take_from_frame(out, size);
    out[size] = 0;
}

uint32_t frame_bin(void) {
    uint8_t first;
    uint32_t size;

    take_from_frame(&first, 1);
    if (first < 0xc4 || first > 0xc6)
        reply_last("protocol", "expected bytes");
    size = (uint32_t)big_endian(1u << (first - 0xc4));
    if (size > frame_left)
        reply_last("protocol", "the frame is shorter than its contents");
    return size;
}

void frame_bytes(void *out, uint32_t size) {
    take_from_frame(out, size);
}

const uint8_t *frame_window(uint32_t size) {
    return size <= frame_left && size <= input_end - input_start ? input + input_start : NULL;
}

void frame_drop(uint32_t size) {
    frame_left -= size;
    input_start += size;
}

void frame_skip(void) {
    uint8_t part[4096];

    while (frame_left)
        take_from_frame(part, frame_left < sizeof part ? frame_left : (uint32_t)sizeof part);
}

/* -- replies */

static void put(const void *data, uint32_t size) {
    memcpy(output + output_size, data, size);
    output_size += size;
}

static void put_number(uint8_t first, uint64_t value, uint32_t size) {
    uint8_t bytes[9];

    bytes[0] = first;
    for (uint32_t number = 0; number < size; number++)
        bytes[1 + number] = (uint8_t)(value >> 8 * (size - 1 - number));
    put(bytes, 1 + size);
}

/* The start of the reply in `output`. `reply_end` writes the length of the reply there. */
static uint32_t reply_start;

static void send_replies(void) {
    write_all(output, output_size);
    output_size = 0;
}

void reply_begin(uint32_t items) {
    if (BUFFER - output_size < MAX_REPLY)
        send_replies();
    reply_start = output_size;
    output_size += 4;
    put_number(0xdd, items, 4);
}

void reply_unsigned(uint64_t value) {
    put_number(0xcf, value, 8);
}

void reply_text(const char *text) {
    uint32_t size = (uint32_t)strnlen(text, MAX_NAME);

    put_number(0xdb, size, 4);
    put(text, size);
}

void reply_bin(const void *data, uint32_t size) {
    put_number(0xc6, size, 4);
    put(data, size);
}

void reply_end(void) {
    uint32_t length = output_size - reply_start - 4;

    for (uint32_t number = 0; number < 4; number++)
        output[reply_start + number] = (uint8_t)(length >> 8 * number);
    /* Several requests may be in the input buffer. One write sends the replies to all of them. */
    if (input_start == input_end)
        send_replies();
}

void reply_error(uint64_t id, const char *code, const char *format, ...) {
    char text[MAX_NAME];
    va_list values;

    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    frame_skip();
    reply_begin(4);
    reply_unsigned(id);
    reply_unsigned(1);
    reply_text(code);
    reply_text(text);
    reply_end();
}

/* The function runs in a signal handler too, so it uses neither the reply's buffer nor the standard
 * library's streams. */
void reply_last(const char *code, const char *text) {
    uint8_t frame[4 + 8 + 2 * MAX_NAME];
    uint32_t size = 4;
    const char *texts[] = {code, text};

    write_all(output, output_size);
    frame[size++] = 0x94;
    frame[size++] = 0;
    frame[size++] = 1;
    for (int number = 0; number < 2; number++) {
        uint32_t length = (uint32_t)strnlen(texts[number], MAX_NAME - 1);
        frame[size++] = 0xda;
        frame[size++] = (uint8_t)(length >> 8);
        frame[size++] = (uint8_t)length;
        memcpy(frame + size, texts[number], length);
        size += length;
    }
    for (uint32_t number = 0; number < 4; number++)
        frame[number] = (uint8_t)((size - 4) >> 8 * number);
    write_all(frame, size);
    _exit(1);
}
