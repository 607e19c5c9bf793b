/* SPDX-License-Identifier: Apache-2.0 */
/* See devmod_reader.h. The names of rules are those of docs/formats.md. */

#include "devmod_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef DEVMOD_READER_ZSTD
#include <zstd.h>
#endif

enum {
    HEADER = 48,
    NUMBER = 6,
    MAX_INDEX = 64 << 20,
    MAX_DEPTH = 64,
    MAX_BARE = 1024,
    MAX_NESTING = 32,
    MAX_DIMENSIONS = 64,
    MAX_SHIFT = 65535,
    MAX_ALIGN = 65536,
    PIECE = 1 << 20 /* the most bytes of a module that are read at once by ranges */
};
enum { FREE_UNPACKED = 1 << 20, MAX_RATIO = 256, MAX_REPEATS = 65536, FREE_VALUES = 1 << 20 };
#define MAX_SIZE (UINT64_MAX >> 1)

/* The arrays of a page: what its records are of. Attachments have no number. */
enum { MODULE, SOURCES, PART, ATTACHED };

/* Memory. That of a call is in one list, and is freed if the call fails. What outlives the call is
 * moved to the list of the index or of a record. */
struct block {
    struct block *next;
    max_align_t data[];
};

/* A constant. Its elements, or the position of its part, are from `start` to `end` in the stored
 * bytes. */
typedef struct constant {
    devmod_constant value;
    size_t start, end;
    int64_t part; /* the number of its part, -1 if it has none */
} constant;

typedef struct record {
    devmod_module module;
    int role;
    uint64_t shift, unpacked;
    uint8_t unpacked_sha256[32];
    const uint64_t *repeats; /* for each: the number of its numbers, then these */
    size_t repeat_count, number_count;
    devmod_slice stored, bytes; /* once they are read; stored: without repeats and parts */
    const constant *constants;
    size_t constant_count;
    const devmod_contents *contents; /* once they are read */
    struct block *own;               /* the memory of all these */
    devmod_slice function, tag;      /* of an attachment */
} record;

typedef struct other_name {
    devmod_slice name;
    const uint32_t *numbers; /* three for each: its number, its rank, a position in `variants` */
    size_t count;
} other_name;

typedef struct variant {
    devmod_slice kind, format, variant;
} variant;

typedef struct page {
    uint32_t first, count;
    uint64_t at, start,
        end; /* of the page in the file; of its records' bytes, from those of the first record on */
    size_t size, name_count, variant_count, attached_count;
    uint8_t sha256[32];
    devmod_slice name;
    int has_name, is_loaded;
    record *records, *attached;
    other_name *names;
    variant *variants;
} page;

struct devmod_file {
    devmod_read read;
    const void *context;
    uint64_t size, pages_end, start, beyond,
        candidates;               /* beyond: what is unpacked beyond MAX_RATIO */
    struct block *blocks, *index; /* of the call, and of the head and the pages */
    page *pages;
    size_t page_count, named_count, root_count, found_most, found_count,
        name_count; /* name_count: at least as many as the loaded pages say */
    uint32_t count;
    devmod_candidate *found; /* of the last look-up, with the name in the page */
    devmod_slice found_name;
    const uint32_t *roots;
    const uint8_t *tune; /* the last one whose rules were checked */
    int is_open, is_checked, code;
    char error[256];
#ifdef DEVMOD_READER_ZSTD
    ZSTD_DCtx *decoder; /* during a call */
#endif
    jmp_buf refused; /* where `fail` goes: to the function that the caller has called, which returns
                        `code` */
};

#define GUARD(file)                                                                                \
    if (setjmp((file)->refused))                                                                   \
    return (file)->code

/* Free the blocks of a list that are newer than `mark`. */
static void release(struct block **list, const struct block *mark) {
    while (*list != mark) {
        struct block *newest = *list;
        *list = newest->next;
        free(newest);
    }
}

/* Move the blocks of this call that are newer than `mark` to a list that outlives it. */
static void keep(devmod_file *file, const struct block *mark, struct block **list) {
    while (file->blocks != mark) {
        struct block *newest = file->blocks;
        file->blocks = newest->next;
        newest->next = *list;
        *list = newest;
    }
}

static void free_decoder(devmod_file *file) {
#ifdef DEVMOD_READER_ZSTD
    ZSTD_freeDCtx(file->decoder);
    file->decoder = NULL;
#else
    (void)file;
#endif
}

static _Noreturn void fail(devmod_file *file, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(file->error, sizeof file->error, format, arguments);
    va_end(arguments);
    file->code = code;
    release(&file->blocks, NULL);
    free_decoder(file);
    longjmp(file->refused, 1);
}

static void *allocate(devmod_file *file, uint64_t count, size_t each) {
    struct block *block = count > (SIZE_MAX - sizeof *block) / each
                              ? NULL
                              : calloc(1, sizeof *block + (size_t)count * each);
    if (!block)
        fail(file, DEVMOD_NO_MEMORY, "no memory");
    block->next = file->blocks;
    file->blocks = block;
    return block->data;
}

static uint64_t aligned(uint64_t offset) {
    return (offset + 63) / 64 * 64;
}

static int compare(devmod_slice one, devmod_slice other) {
    size_t size = one.size < other.size ? one.size : other.size;
    int result = size ? memcmp(one.data, other.data, size) : 0;
    return result ? result : (one.size > other.size) - (one.size < other.size);
}

static const devmod_slice NO_TEXT = {0};

static int compare_slices(const void *one, const void *other) {
    return compare(*(const devmod_slice *)one, *(const devmod_slice *)other);
}

static int compare_u64(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one,
             b = *(const uint64_t *)other; /* of a structure, its first member */
    return (a > b) - (a < b);
}

static int is_text(devmod_slice slice, const char *text) {
    return slice.size == strlen(text) && !memcmp(slice.data, text, slice.size);
}

/* -- SHA-256 (FIPS 180-4) */

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t value, int by) {
    return value >> by | value << (32 - by);
}

static void hash_block(uint32_t state[8], const uint8_t *data) {
    uint32_t w[64], s[8];
    for (int at = 0; at < 16; at++)
        w[at] = (uint32_t)data[4 * at] << 24 | (uint32_t)data[4 * at + 1] << 16 |
                (uint32_t)data[4 * at + 2] << 8 | data[4 * at + 3];
    for (int at = 16; at < 64; at++) {
        uint32_t a = w[at - 15], b = w[at - 2];
        w[at] = w[at - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) + w[at - 7] +
                (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int at = 0; at < 64; at++) {
        uint32_t one = s[7] + (rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25)) +
                       ((s[4] & s[5]) ^ (~s[4] & s[6])) + K[at] + w[at];
        uint32_t two = (rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22)) +
                       ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int at = 0; at < 8; at++)
        state[at] += s[at];
}

void devmod_sha256(const void *data, size_t size, uint8_t digest[32]) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *bytes = data;
    size_t left = size;
    for (; left >= 64; left -= 64, bytes += 64)
        hash_block(state, bytes);
    uint8_t last[128] = {0};
    if (left)
        memcpy(last, bytes, left);
    last[left] = 0x80;
    size_t end = left < 56 ? 64 : 128;
    for (int at = 0; at < 8; at++)
        last[end - 1 - at] = (uint8_t)((uint64_t)size * 8 >> 8 * at);
    hash_block(state, last);
    if (end == 128)
        hash_block(state, last + 64);
    for (int at = 0; at < 32; at++)
        digest[at] = (uint8_t)(state[at / 4] >> (24 - 8 * (at % 4)));
}

/* -- msgpack */

typedef struct reader {
    devmod_file *file;
    const char *what;
    const uint8_t *data;
    size_t size, at, room; /* room: how many arrays and maps the values of any type may have */
} reader;

typedef struct object {
    char type; /* s: string, b: binary, a: array, m: map, u: integer, v: another value, 0: no valid
                  framing, or an extension type */
    uint64_t value;
    devmod_slice bytes;
} object;

static reader reader_of(devmod_file *file, const char *what, devmod_slice data) {
    return (reader){file, what, data.data, data.size, 0, 1024 + data.size / 8};
}

static _Noreturn void bad(reader *r, const char *problem) {
    fail(r->file, DEVMOD_INVALID, "%s: %s, before byte %zu", r->what, problem, r->at);
}

/* Read one object; of an array or a map, the count. */
static object next(reader *r) {
    object o = {0};
    size_t width = 0;
    if (r->at >= r->size)
        return o;
    uint8_t mark = r->data[r->at++];
    if (mark < 0x80)
        return (object){.type = 'u', .value = mark};
    if (mark < 0x90)
        return (object){.type = 'm', .value = mark - 0x80};
    if (mark < 0xA0)
        return (object){.type = 'a', .value = mark - 0x90};
    if (mark >= 0xE0 || mark == 0xC0 || mark == 0xC2 || mark == 0xC3)
        return (object){.type = 'v'};
    if (mark < 0xC0)
        o.type = 's', o.value = mark - 0xA0;
    else if (mark >= 0xC4 && mark <= 0xC6)
        o.type = 'b', width = (size_t)1 << (mark - 0xC4);
    else if (mark == 0xCA || mark == 0xCB)
        o.type = 'v', width = mark == 0xCA ? 4 : 8;
    else if (mark >= 0xCC && mark <= 0xD3)
        o.type = 'u', width = (size_t)1 << mark % 4;
    else if (mark >= 0xD9 && mark <= 0xDB)
        o.type = 's', width = (size_t)1 << (mark - 0xD9);
    else if (mark >= 0xDC)
        o.type = mark < 0xDE ? 'a' : 'm', width = mark % 2 ? 4 : 2;
    if (width > r->size - r->at)
        return (object){0};
    for (size_t each = 0; each < width; each++)
        o.value = o.value << 8 | r->data[r->at++];
    if (mark >= 0xD0 && mark <= 0xD3 && o.value >> (8 * width - 1))
        o.type = 'v';
    if (o.type == 's' || o.type == 'b') {
        if (o.value > r->size - r->at)
            return (object){0};
        o.bytes = (devmod_slice){r->data + r->at, (size_t)o.value};
        r->at += o.bytes.size;
    }
    return o;
}

static object expect(reader *r, char type, const char *problem) {
    object o = next(r);
    if (o.type != type)
        bad(r, problem);
    if ((type == 'a' || type == 'm') && o.value << (type == 'm') > r->size - r->at)
        bad(r, "a count beyond the end");
    return o;
}

static uint64_t read_array(reader *r) {
    return expect(r, 'a', "expected an array").value;
}

static uint64_t read_map(reader *r) {
    return expect(r, 'm', "expected a map").value;
}

static devmod_slice read_bin(reader *r) {
    return expect(r, 'b', "expected a binary").bytes;
}

static uint64_t read_int(reader *r, uint64_t low, uint64_t high) {
    uint64_t value = expect(r, 'u', "expected an integer that is not negative").value;
    if (value < low || value > high)
        bad(r, "a number out of its range");
    return value;
}

/* Check that a string is UTF-8: no surrogates, no longer forms, nothing above U+10FFFF. */
static devmod_slice check_utf8(reader *r, devmod_slice s) {
    for (size_t at = 0; at < s.size;) {
        uint8_t lead = s.data[at++];
        if (lead < 0x80)
            continue;
        size_t more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        uint8_t low = lead == 0xE0   ? 0xA0
                      : lead == 0xF0 ? 0x90
                                     : 0x80,
                high = lead == 0xED   ? 0x9F
                       : lead == 0xF4 ? 0x8F
                                      : 0xBF;
        int is_valid = lead >= 0xC2 && lead <= 0xF4 && more <= s.size - at && s.data[at] >= low &&
                       s.data[at] <= high;
        for (size_t each = 1; is_valid && each < more; each++)
            is_valid = (s.data[at + each] & 0xC0) == 0x80;
        if (!is_valid)
            bad(r, "a string is not UTF-8");
        at += more;
    }
    return s;
}

static devmod_slice read_str(reader *r) {
    return check_utf8(r, expect(r, 's', "expected a string").bytes);
}

static void read_digest(reader *r, uint8_t digest[32]) {
    devmod_slice bytes = read_bin(r);
    if (bytes.size != 32)
        bad(r, "a SHA-256 of another size");
    memcpy(digest, bytes.data, 32);
}

static const uint32_t *read_numbers(reader *r, size_t *count) {
    uint32_t *made = allocate(r->file, *count = (size_t)read_array(r), sizeof *made);
    for (size_t at = 0; at < *count; at++)
        made[at] = (uint32_t)read_int(r, 0, UINT32_MAX);
    return made;
}

static const devmod_slice *read_texts(reader *r, size_t *count) {
    devmod_slice *made = allocate(r->file, *count = (size_t)read_array(r), sizeof *made);
    for (size_t at = 0; at < *count; at++)
        made[at] = read_str(r);
    return made;
}

/* Check that no text occurs twice. */
static void check_unique(reader *r, devmod_slice *keys, size_t count) {
    if (count > 1)
        qsort(keys, count, sizeof *keys, compare_slices);
    for (size_t at = 1; at < count; at++)
        if (!compare(keys[at - 1], keys[at]))
            bad(r, "a key is repeated");
}

/* Read an object of any type except an extension type. */
static void read_value(reader *r, int depth) {
    if (depth > MAX_NESTING)
        bad(r, "arrays and maps are nested too deep");
    object o = next(r);
    if (!o.type)
        bad(r, "expected an object");
    if (o.type == 's')
        check_utf8(r, o.bytes);
    if (o.type != 'a' && o.type != 'm')
        return;
    if (!r->room--)
        bad(r, "too many arrays and maps in values of any type");
    if (o.value << (o.type == 'm') > r->size - r->at)
        bad(r, "a count beyond the end");
    devmod_slice *keys = o.type == 'm' ? allocate(r->file, o.value, sizeof *keys) : NULL;
    for (size_t at = 0; at < o.value; at++) {
        if (keys)
            keys[at] = read_str(r);
        read_value(r, depth + 1);
    }
    if (keys)
        check_unique(r, keys, (size_t)o.value);
}

/* Read an object's framing. Return how many objects it has in all, or more than `most` once that is
 * clear; 0 if the framing is invalid. */
static uint64_t skip(reader *r, uint64_t most, size_t *containers) {
    uint64_t pending = 1, values = 1;
    while (pending--) {
        object o = next(r);
        if (!o.type)
            return 0;
        if (o.type != 'a' && o.type != 'm')
            continue;
        ++*containers;
        o.value <<= o.type == 'm';
        values += o.value;
        if (values > most)
            return values;
        pending += o.value;
        if (pending > r->size - r->at)
            return 0;
    }
    return values;
}

/* Read an object of any type whose contents are not checked. */
static devmod_slice read_opaque(reader *r) {
    size_t containers = 0, start = r->at;
    if (!skip(r, UINT64_MAX - 1, &containers) || containers > r->room)
        bad(r, "the framing of an object is invalid");
    r->room -= containers;
    return (devmod_slice){r->data + start, r->at - start};
}

/* -- the head */

/* Read a part of the file. The bytes up to the next part must be zero, and those behind a multiple
 * of 64; a page follows the page before. */
static devmod_slice load(devmod_file *file, uint64_t at, uint64_t size) {
    if (at > file->size || size > file->size - at || size > SIZE_MAX - 64)
        fail(file, DEVMOD_INVALID, "the file is cut short");
    uint64_t end = at + size, next = end, lead = 0;
    if (file->pages_end && end >= file->pages_end)
        next = aligned(end) < file->size ? aligned(end) : file->size;
    if (file->pages_end && at >= file->pages_end && size)
        lead = at % 64;
    at -= lead;
    const uint8_t *data = (const uint8_t *)file->context + at;
    if (file->read) {
        uint8_t *made = allocate(file, next - at, 1);
        if (next > at && file->read(file->context, at, made, (size_t)(next - at)))
            fail(file, DEVMOD_UNREADABLE, "the file cannot be read");
        data = made;
    }
    for (uint64_t each = 0; each < next - at; each++)
        if (data[each] && (each < lead || each >= lead + size))
            fail(file, DEVMOD_INVALID, "the bytes between two parts of the file are not zero");
    return (devmod_slice){data + lead, (size_t)size};
}

static int has_digest(devmod_slice bytes, const uint8_t digest[32]) {
    uint8_t found[32];
    devmod_sha256(bytes.data, bytes.size, found);
    return !memcmp(found, digest, 32);
}

static devmod_slice check_digest(devmod_file *file, devmod_slice bytes, const uint8_t digest[32],
                                 const char *what) {
    if (!has_digest(bytes, digest))
        fail(file, DEVMOD_INVALID, "%s is damaged: its SHA-256 is another one", what);
    return bytes;
}

static const page NONE = {.has_name = 1};

static void read_row(reader *r, page *row, const page *before) {
    uint64_t items = read_array(r), count = read_int(r, 0, UINT32_MAX),
             size = read_int(r, 1, MAX_INDEX), length = read_int(r, 0, MAX_SIZE);
    read_digest(r, row->sha256);
    if (items == 6 && before->has_name) {
        size_t kept = (size_t)read_int(r, 0, before->name.size);
        devmod_slice rest = read_bin(r);
        uint8_t *name = allocate(r->file, kept + rest.size, 1);
        if (kept)
            memcpy(name, before->name.data, kept);
        if (rest.size)
            memcpy(name + kept, rest.data, rest.size);
        row->name = (devmod_slice){name, kept + rest.size};
        row->has_name = 1;
        if (before == &NONE ? row->name.size > 0 : compare(row->name, before->name) <= 0)
            bad(r, "a first name of a page that is not behind that before");
    } else if (items != 4)
        bad(r, "expected an array of 4, or of 6 for a page with names, and those with names first");
    if (count > size)
        bad(r, "more records than bytes");
    row->first = before->first + before->count;
    row->count = (uint32_t)count;
    row->at = before == &NONE ? HEADER + r->size : before->at + before->size;
    row->size = (size_t)size;
    row->start = length ? aligned(before->end) : before->end;
    if (row->count > UINT32_MAX - row->first || length > MAX_SIZE - row->start - 64)
        bad(r, "more records or bytes than any file has");
    row->end = row->start + length;
}

/* Read the sections, of which no name is known. Return their sizes. */
static const uint64_t *read_sections(reader *r, size_t *count) {
    uint64_t *sizes = allocate(r->file, *count = (size_t)read_array(r), sizeof *sizes);
    devmod_slice *keys = allocate(r->file, *count, sizeof *keys);
    uint8_t digest[32];
    for (size_t at = 0; at < *count; at++) {
        if (read_array(r) != 3)
            bad(r, "expected an array of a name, a size and a SHA-256");
        keys[at] = read_str(r);
        sizes[at] = read_int(r, 0, MAX_SIZE);
        read_digest(r, digest);
    }
    check_unique(r, keys, *count);
    return sizes;
}

static void read_head(devmod_file *file, devmod_slice head) {
    reader r = reader_of(file, "the head", head);
    const uint64_t *sections = NULL;
    size_t section_count = 0;
    size_t pairs = (size_t)read_map(&r);
    devmod_slice *keys = allocate(file, pairs, sizeof *keys);
    uint64_t align = 64;
    file->candidates = UINT64_MAX;
    for (size_t at = 0; at < pairs; at++) {
        keys[at] = read_str(&r);
        if (is_text(keys[at], "candidates"))
            file->candidates = read_int(&r, 0, UINT32_MAX);
        else if (is_text(keys[at], "roots"))
            file->roots = read_numbers(&r, &file->root_count);
        else if (is_text(keys[at], "align"))
            align = read_int(&r, 64, MAX_ALIGN);
        else if (is_text(keys[at], "pages")) {
            file->pages =
                allocate(file, file->page_count = (size_t)read_array(&r), sizeof *file->pages);
            for (size_t row = 0; row < file->page_count; row++)
                read_row(&r, file->pages + row, row ? file->pages + row - 1 : &NONE);
        } else if (is_text(keys[at], "sections"))
            sections = read_sections(&r, &section_count);
        else
            read_value(&r, 0);
    }
    check_unique(&r, keys, pairs);
    if (r.at != r.size || file->candidates > UINT32_MAX || !file->page_count ||
        !(file->roots ? file->root_count : file->candidates))
        bad(&r, "bytes behind the head, or no candidates, roots or pages in it");
    if (align & (align - 1))
        bad(&r, "an alignment that is no power of two");
    for (size_t row = 0; row < file->page_count; row++)
        file->named_count += (size_t)file->pages[row].has_name;
    const page *last = file->pages + file->page_count - 1;
    file->count = last->first + last->count;
    file->pages_end = last->at + last->size;
    file->start = (file->pages_end + align - 1) / align * align;
    uint64_t end = file->start + last->end;
    for (size_t at = 0; at < section_count; at++)
        if (sections[at])
            end = sections[at] <= MAX_SIZE - 64 - end ? aligned(end) + sections[at] : MAX_SIZE - 64;
    if (file->size != end)
        fail(file, DEVMOD_INVALID, "the file has another size than its index describes");
    devmod_slice *roots = allocate(file, file->root_count, sizeof *roots);
    for (size_t at = 0; at < file->root_count; at++)
        roots[at] = (devmod_slice){(const uint8_t *)(file->roots + at), sizeof *file->roots};
    check_unique(&r, roots, file->root_count);
}

/* Compare the digest of the head with the one at the end of the file's address. */
static void check_address(devmod_file *file, const uint8_t digest[32], const char *address) {
    static const char DIGITS[] = "0123456789abcdef", KEY[] = "#devmod-head=";
    const char *key = strstr(address, KEY);
    if (key)
        address = key + sizeof KEY - 1;
    if (strlen(address) != 64 || strspn(address, DIGITS) != 64)
        fail(file, DEVMOD_INVALID, "the address has no SHA-256 of 64 lower-case digits");
    for (int at = 0; at < 64; at++)
        if (address[at] != DIGITS[digest[at / 2] >> (at % 2 ? 0 : 4) & 15])
            fail(file, DEVMOD_INVALID, "it is another file: its head has not the SHA-256 %s",
                 address);
}

int devmod_open(devmod_read read, const void *context, uint64_t size, devmod_file **file) {
    return devmod_open_pinned(read, context, size, NULL, file);
}

int devmod_open_pinned(devmod_read read, const void *context, uint64_t size, const char *address,
                       devmod_file **file) {
    devmod_file *made = *file = calloc(1, sizeof **file);
    if (!made)
        return DEVMOD_NO_MEMORY;
    made->read = read, made->context = context, made->size = size;
    GUARD(made);
    if (size < HEADER)
        fail(made, DEVMOD_INVALID, "it is no .devmod file, or is cut short");
    const uint8_t *data = load(made, 0, HEADER).data;
    if (memcmp(data,
               "\x89"
               "devmod\n",
               8))
        fail(made, DEVMOD_INVALID, "it is no .devmod file: it does not begin with the magic bytes");
    uint32_t number = data[8] | data[9] << 8 | data[10] << 16 | (uint32_t)data[11] << 24;
    uint32_t length = data[12] | data[13] << 8 | data[14] << 16 | (uint32_t)data[15] << 24;
    if (number > NUMBER)
        fail(made, DEVMOD_UNSUPPORTED,
             "it is in version %u of the format; this reader reads version 1", number - NUMBER + 1);
    if (number < NUMBER)
        fail(made, DEVMOD_UNSUPPORTED,
             "it is a development file, from before version 1: build it again");
    if (length > MAX_INDEX)
        fail(made, DEVMOD_INVALID, "its head has %u bytes; the limit is %u", length, MAX_INDEX);
    if (address)
        check_address(made, data + 16, address);
    read_head(made, check_digest(made, load(made, HEADER, length), data + 16, "the head"));
    keep(made, NULL, &made->index);
    made->is_open = 1;
    return made->page_count == 1 || (made->roots ? made->root_count : made->candidates) == 1
               ? devmod_check_all(made)
               : DEVMOD_OK;
}

const char *devmod_error(const devmod_file *file) {
    return file ? file->error : "no memory";
}

uint32_t devmod_record_count(const devmod_file *file) {
    return file->count;
}

/* -- the pages */

static int is_kind(devmod_slice kind) {
    int is_valid = kind.size && kind.size <= 32;
    for (size_t at = 0; is_valid && at < kind.size; at++)
        is_valid =
            memchr("abcdefghijklmnopqrstuvwxyz_0123456789", kind.data[at], at ? 37 : 26) != NULL;
    return is_valid;
}

static void read_repeats(reader *r, record *made) {
    uint64_t *all = NULL;
    size_t start = r->at;
    for (int is_counted = 0; is_counted < 2; is_counted++) {
        size_t count = 0;
        r->at = start;
        made->repeat_count = (size_t)read_array(r);
        for (size_t each = 0; each < made->repeat_count; each++) {
            uint64_t numbers = read_array(r);
            if (all)
                all[count] = numbers;
            for (count++; numbers; numbers--, count++) {
                uint64_t number = read_int(r, 0, MAX_SIZE);
                if (all)
                    all[count] = number;
            }
        }
        if (!all)
            all = allocate(r->file, count, sizeof *all);
        made->number_count = count;
    }
    made->repeats = all;
}

static void read_record(reader *r, int role, record *made) {
    static const char *const KEYS[] = {"size", "sha256",  "zstd",    "features",  "shift",
                                       "kind", "imports", "format",  "functions", "variant",
                                       "rank", "origin",  "repeats", "sources",   "parts"};
    /* Sources, parts and attachments have the first five. */
    enum { SIZE, SHA256, ZSTD, FEATURES, SHIFT, KIND, IMPORTS, FORMAT, FUNCTIONS };
    enum { VARIANT = FUNCTIONS + 1, RANK, ORIGIN, REPEATS, SOURCES_NUMBER, PARTS, ALL };
    enum { LOCATION = 1 << SIZE | 1 << SHA256, OF_BYTES = 31 | 7 << REPEATS };
    enum { FUNCTION = 1 << ALL, TAG = FUNCTION << 1 };
    devmod_module *m = &made->module;
    unsigned found = 0;
    size_t pairs = (size_t)read_map(r);
    devmod_slice *keys = allocate(r->file, pairs, sizeof *keys);
    made->role = role;
    m->rank = m->sources = -1;
    m->is_part = role == PART;
    for (size_t at = 0; at < pairs; at++) {
        int key = 0, most = role == MODULE ? ALL : SHIFT + 1;
        keys[at] = read_str(r);
        while (key < most && !is_text(keys[at], KEYS[key]))
            key++;
        if (key < most)
            found |= 1u << key;
        else
            key = ALL;
        if (key == SIZE)
            m->size = read_int(r, 0, MAX_SIZE);
        else if (key == SHA256)
            read_digest(r, m->sha256);
        else if (key == ZSTD) {
            if (read_array(r) != 2)
                bad(r, "expected an array of a size and a SHA-256");
            made->unpacked = read_int(r, 0, MAX_SIZE);
            read_digest(r, made->unpacked_sha256);
            m->is_compressed = 1;
        } else if (key == FEATURES)
            m->features = read_texts(r, &m->feature_count);
        else if (key == KIND)
            m->kind = read_str(r);
        else if (key == IMPORTS)
            m->imports = read_numbers(r, &m->import_count);
        else if (key == FORMAT)
            m->format = read_str(r);
        else if (key == FUNCTIONS)
            m->functions = read_texts(r, &m->function_count);
        else if (key == VARIANT)
            m->variant = read_str(r);
        else if (key == RANK)
            m->rank = (int64_t)read_int(r, 0, UINT32_MAX);
        else if (key == ORIGIN)
            m->origin = read_opaque(r);
        else if (key == REPEATS)
            read_repeats(r, made);
        else if (key == SOURCES_NUMBER)
            m->sources = (int64_t)read_int(r, 0, UINT32_MAX);
        else if (key == SHIFT)
            made->shift = read_int(r, 0, MAX_SHIFT);
        else if (key == PARTS)
            m->parts = read_numbers(r, &m->part_count);
        else if (role == ATTACHED && is_text(keys[at], "function"))
            made->function = read_str(r), found |= FUNCTION;
        else if (role == ATTACHED && is_text(keys[at], "tag"))
            made->tag = read_str(r), found |= TAG;
        else
            read_value(r, 0);
    }
    check_unique(r, keys, pairs);
    r->file->name_count += m->function_count;
    m->has_bytes = role != MODULE || !(is_text(m->kind, "bundle") || is_text(m->kind, "_lib"));
    if (role == MODULE && m->has_bytes && !is_kind(m->kind))
        bad(r, "no kind, or one of another form");
    if (m->has_bytes ? (found & LOCATION) != LOCATION : (found & OF_BYTES) != 0)
        bad(r, "a size and a sha256 of a node, or none of another module");
    if (m->part_count && !m->feature_count && !is_text(m->kind, "const_loader"))
        bad(r, "parts of a module that has no constants and no features");
    if (role == ATTACHED && (~found & (FUNCTION | TAG)))
        bad(r, "an attachment without a function or a tag");
}

/* Check that the bytes of a record unpack to an allowed size, and its repeats. */
static void check_blob(reader *r, const record *made) {
    uint64_t size = made->module.size, stored = made->module.is_compressed ? made->unpacked : size,
             total = stored, end = 0;
    if (made->module.feature_count)
        return;
    if (made->module.is_compressed && size < (made->unpacked + MAX_RATIO - 1) / MAX_RATIO) {
        uint64_t beyond = made->unpacked - size * MAX_RATIO;
        if (beyond > FREE_UNPACKED - r->file->beyond)
            bad(r, "bytes unpack to more than the limit");
        r->file->beyond += beyond;
    }
    const uint64_t *at = made->repeats;
    uint64_t *sorted = allocate(r->file, made->number_count, sizeof *sorted);
    size_t count = 0;
    int is_valid = 1;
    for (size_t each = 0; is_valid && each < made->repeat_count; each++, at += at[0] + 1) {
        is_valid =
            at[0] >= 3 && at[1] >= end && at[1] <= stored && at[2] > 0 && at[2] <= stored - at[1];
        if (is_valid)
            end = at[1] + at[2];
        for (uint64_t place = 3; is_valid && place <= at[0]; place++) {
            is_valid = at[place] >= (place > 3 ? at[place - 1] : end) && at[place] <= stored &&
                       at[2] <= MAX_SIZE - total;
            total += is_valid ? at[2] : 0;
            sorted[count++] = at[place];
        }
    }
    if (count > 1)
        qsort(sorted, count, sizeof *sorted, compare_u64);
    for (size_t each = 1; each < count; each++)
        is_valid = is_valid && sorted[each - 1] != sorted[each];
    if (!is_valid || (made->repeat_count && total > size * MAX_REPEATS))
        bad(r, "repeats that are not in order, not within the bytes, or too many");
}

/* The page that would have a name, or that has the record of a number. */
static page *page_with(devmod_file *file, const devmod_slice *name, uint64_t number) {
    size_t low = 0, high = name ? file->named_count : file->page_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (name ? compare(file->pages[middle].name, *name) <= 0
                 : file->pages[middle].first <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? file->pages + low - 1 : NULL;
}

static _Noreturn void disagree(devmod_file *file) {
    fail(file, DEVMOD_INVALID, "two parts of the index describe a candidate in different ways");
}

static size_t load_records(reader *r, int role, const page *p, record *into) {
    size_t count = (size_t)read_array(r);
    if (count > p->count)
        bad(r, "more records than the head says");
    for (size_t at = 0; at < count; at++)
        read_record(r, role, into + at);
    return count;
}

static int compare_pairs(const void *one, const void *other) {
    const devmod_slice *a = one, *b = other;
    int result = compare(a[0], b[0]);
    return result ? result : compare(a[1], b[1]);
}

/* Read the attachments of a page. None is used. */
static void load_attached(reader *r, page *p) {
    p->attached_count = (size_t)read_array(r);
    p->attached = allocate(r->file, p->attached_count, sizeof *p->attached);
    devmod_slice(*keys)[2] = allocate(r->file, p->attached_count, sizeof *keys);
    for (size_t at = 0; at < p->attached_count; at++) {
        read_record(r, ATTACHED, p->attached + at);
        keys[at][0] = p->attached[at].function;
        keys[at][1] = p->attached[at].tag;
        if (page_with(r->file, keys[at], 0) != p)
            bad(r, "an attachment in another page than its function");
    }
    qsort(keys, p->attached_count, sizeof *keys, compare_pairs);
    for (size_t at = 1; at < p->attached_count; at++)
        if (!compare_pairs(keys[at - 1], keys[at]))
            bad(r, "two attachments of one function and tag");
}

static void load_names(reader *r, page *p) {
    p->name_count = (size_t)read_array(r);
    p->names = allocate(r->file, p->name_count, sizeof *p->names);
    devmod_slice *keys = allocate(r->file, p->name_count, sizeof *keys);
    for (size_t at = 0; at < p->name_count; at++) {
        if (read_array(r) != 2)
            bad(r, "expected an array of a name and numbers");
        p->names[at].name = keys[at] = read_str(r);
        p->names[at].numbers = read_numbers(r, &p->names[at].count);
        if (p->names[at].count % 3)
            bad(r, "expected three numbers for each candidate of a name");
        p->names[at].count /= 3;
        r->file->name_count += p->names[at].count;
    }
    check_unique(r, keys, p->name_count);
}

static void load_variants(reader *r, page *p) {
    p->variant_count = (size_t)read_array(r);
    p->variants = allocate(r->file, p->variant_count, sizeof *p->variants);
    for (size_t at = 0; at < p->variant_count; at++) {
        if (read_array(r) != 3)
            bad(r, "expected an array of a kind, a format and a variant");
        p->variants[at].kind = read_str(r);
        p->variants[at].format = read_str(r);
        p->variants[at].variant = read_str(r);
    }
}

/* Return what a page says of a candidate of another one. */
static devmod_candidate candidate_of(const page *p, const other_name *name, size_t at) {
    const uint32_t *numbers = name->numbers + 3 * at;
    const variant *found = p->variants + numbers[2];
    return (devmod_candidate){numbers[1], numbers[0], found->kind, found->format, found->variant};
}

/* Check that a page has one of the names of each of its candidates, and its further names, and that
 * it has the variants of these. */
static void check_place(reader *r, const page *p) {
    for (size_t at = 0; at < p->count; at++) {
        const devmod_module *m = &p->records[at].module;
        size_t each = 0;
        while (each < m->function_count && page_with(r->file, m->functions + each, 0) != p)
            each++;
        if (m->rank >= 0 && m->function_count && each == m->function_count)
            disagree(r->file);
    }
    for (size_t at = 0; at < p->name_count; at++) {
        if (page_with(r->file, &p->names[at].name, 0) != p)
            disagree(r->file);
        for (size_t each = 0; each < p->names[at].count; each++)
            if (p->names[at].numbers[3 * each + 2] >= p->variant_count)
                bad(r, "a position of a variant that the page has not");
    }
}

static void load_page(devmod_file *file, page *p) {
    if (p->is_loaded)
        return;
    const struct block *mark = file->blocks;
    devmod_slice bytes = load(file, p->at, p->size);
    reader r =
        reader_of(file, "a page", check_digest(file, bytes, p->sha256, "a page of the index"));
    static const char *const KEYS[] = {"modules", "sources", "parts"};
    size_t counts[3] = {0}, pairs = (size_t)read_map(&r);
    devmod_slice *keys = allocate(file, pairs, sizeof *keys);
    p->records = allocate(file, 3 * (uint64_t)p->count, sizeof *p->records);
    p->name_count = p->variant_count = p->attached_count = 0;
    for (size_t at = 0; at < pairs; at++) {
        keys[at] = read_str(&r);
        int role = 0;
        while (role < ATTACHED && !is_text(keys[at], KEYS[role]))
            role++;
        if (role < ATTACHED)
            counts[role] = load_records(&r, role, p, p->records + (size_t)role * p->count);
        else if (is_text(keys[at], "attached"))
            load_attached(&r, p);
        else if (is_text(keys[at], "names"))
            load_names(&r, p);
        else if (is_text(keys[at], "variants"))
            load_variants(&r, p);
        else
            read_value(&r, 0);
    }
    check_unique(&r, keys, pairs);
    if (r.at != r.size || counts[0] + counts[1] + counts[2] != p->count)
        bad(&r, "bytes behind the page, or another number of records than the head says");
    memmove(p->records + counts[0], p->records + p->count, counts[1] * sizeof *p->records);
    memmove(p->records + counts[0] + counts[1], p->records + 2 * (size_t)p->count,
            counts[2] * sizeof *p->records);
    uint64_t end = p->start;
    for (size_t at = 0; at < p->count + p->attached_count; at++) {
        record *made = at < p->count ? p->records + at : p->attached + (at - p->count);
        devmod_module *m = &made->module;
        if (!m->has_bytes)
            continue;
        uint64_t begin = m->size ? aligned(end) + made->shift : 0;
        if (m->size && (begin > p->end || m->size > p->end - begin))
            bad(&r, "records of more bytes than the head says");
        check_blob(&r, made);
        m->offset = file->start + begin;
        if (m->size)
            end = begin + m->size;
    }
    if (end != p->end)
        bad(&r, "records of fewer bytes than the head says");
    if (file->page_count > 1 || !p->has_name || p->name_count)
        check_place(&r, p);
    p->is_loaded = 1;
    keep(file, mark, &file->index);
}

static record *get_record(devmod_file *file, uint64_t number) {
    if (number >= file->count)
        fail(file, DEVMOD_NOT_FOUND, "there is no record of the number %llu",
             (unsigned long long)number);
    page *p = page_with(file, NULL, number);
    load_page(file, p);
    return p->records + (number - p->first);
}

/* Return a record that another one names. */
static record *get_named(devmod_file *file, uint64_t number, int role) {
    record *made = number < file->count ? get_record(file, number) : NULL;
    if (!made || made->role != role)
        fail(file, DEVMOD_INVALID, "the index has no such record: %llu",
             (unsigned long long)number);
    return made;
}

static int has_function(const devmod_module *m, devmod_slice name) {
    size_t each = 0;
    while (each < m->function_count && compare(m->functions[each], name))
        each++;
    return each < m->function_count;
}

/* Compare the record of a candidate with what the page of a name says of it. */
static void check_candidate(devmod_file *file, const devmod_candidate *said, devmod_slice name) {
    const devmod_module *m = &get_record(file, said->number)->module;
    if (m->rank != said->rank || compare(m->kind, said->kind) || compare(m->format, said->format) ||
        compare(m->variant, said->variant) || !has_function(m, name))
        disagree(file);
}

/* Return a record for the caller, who may have it from a look-up. */
static record *get_found(devmod_file *file, uint32_t number) {
    for (size_t at = 0; !file->is_checked && at < file->found_count; at++)
        if (file->found[at].number == number)
            check_candidate(file, file->found + at, file->found_name);
    return get_record(file, number);
}

int devmod_get_module(devmod_file *file, uint32_t number, devmod_module *module) {
    GUARD(file);
    *module = get_found(file, number)->module;
    return DEVMOD_OK;
}

int devmod_is(const devmod_candidate *candidate, const char *kind, const char *variant) {
    return is_text(candidate->kind, kind) && (!variant || is_text(candidate->variant, variant));
}

int devmod_find(devmod_file *file, const char *function, const devmod_candidate **candidates,
                size_t *count) {
    GUARD(file);
    devmod_slice name = {(const uint8_t *)function, strlen(function)};
    page *p = page_with(file, &name, 0);
    const other_name *others = NULL;
    *count = file->found_count = 0;
    if (!p)
        return DEVMOD_OK;
    load_page(file, p);
    for (size_t at = 0; at < p->name_count && !others; at++)
        if (!compare(p->names[at].name, name))
            others = p->names + at;
    size_t most = p->count + (others ? others->count : 0), found = 0;
    if (most > file->found_most) { /* twice as many, so that the blocks of all calls have at most
                                      twice the memory of the last ones */
        file->found = allocate(file, 2 * most, sizeof *file->found);
        file->found_most = 2 * most;
        keep(file, NULL, &file->index);
    }
    for (size_t at = 0; at < p->count; at++) {
        const devmod_module *m = &p->records[at].module;
        if (m->rank >= 0 && has_function(m, name))
            file->found[found++] = (devmod_candidate){m->rank, p->first + (uint32_t)at, m->kind,
                                                      m->format, m->variant};
    }
    for (size_t at = 0; others && at < others->count; at++) {
        devmod_candidate said = candidate_of(p, others, at);
        if (said.number >= file->count || said.number - p->first < p->count)
            disagree(file);
        if (page_with(file, NULL, said.number)->is_loaded)
            check_candidate(file, &said, others->name);
        file->found[found++] = said;
    }
    if (found > 1)
        qsort(file->found, found, sizeof *file->found, compare_u64);
    for (size_t at = 1; at < found; at++)
        if (file->found[at - 1].rank == file->found[at].rank)
            disagree(file);
    file->found_name = others ? others->name : name;
    file->found_count = others ? found : 0; /* others are records of the page */
    *candidates = file->found;
    *count = found;
    return DEVMOD_OK;
}

/* -- the whole index */

/* Return the height of the tree below a record, in modules; `marks` are of those on the path. */
static uint8_t measure(devmod_file *file, uint8_t *heights, uint8_t *marks, uint32_t number,
                       int depth) {
    const devmod_module *m = &get_named(file, number, MODULE)->module;
    if (marks[number])
        fail(file, DEVMOD_INVALID, "module %u imports itself, directly or through others", number);
    if (!heights[number] && depth < MAX_DEPTH) {
        uint8_t most = 0;
        marks[number] = 1;
        for (size_t at = 0; at < m->import_count; at++) {
            uint8_t each = measure(file, heights, marks, m->imports[at], depth + 1);
            if (each > most)
                most = each;
        }
        marks[number] = 0;
        heights[number] = most + 1;
    }
    if (!heights[number] || depth + heights[number] > MAX_DEPTH)
        fail(file, DEVMOD_INVALID, "module %u is more than %d imports deep", number, MAX_DEPTH);
    return heights[number];
}

/* Walk the candidates of a root. A bundle is at most MAX_DEPTH bundles deep, as `measure` has
 * checked. */
static uint32_t walk(devmod_file *file, uint8_t *marks, uint32_t *order, uint32_t found,
                     uint32_t number) {
    const devmod_module *m = &get_record(file, number)->module;
    if (marks[number])
        return found;
    marks[number] = 1;
    if (!is_text(m->kind, "bundle"))
        order[found++] = number;
    else
        for (size_t at = 0; at < m->import_count; at++)
            found = walk(file, marks, order, found, m->imports[at]);
    return found;
}

typedef struct owner {
    devmod_slice name;
    uint32_t number;
    int is_said; /* by the page that has the name; else it is the record's */
} owner;

static int compare_owners(const void *one, const void *other) {
    const owner *a = one, *b = other;
    int result = compare(a->name, b->name);
    return result                   ? result
           : a->number != b->number ? (a->number > b->number) - (a->number < b->number)
                                    : b->is_said - a->is_said;
}

/* Check that the names of candidates of other pages are those that these candidates have. */
static void check_names(devmod_file *file) {
    owner *all = allocate(file, file->name_count, sizeof *all);
    size_t count = 0;
    for (const page *p = file->pages; p < file->pages + file->page_count; p++) {
        for (size_t at = 0; at < p->name_count; at++) {
            if (!p->names[at].count)
                disagree(file);
            for (size_t each = 0; each < p->names[at].count; each++) {
                devmod_candidate said = candidate_of(p, p->names + at, each);
                if (said.number >= file->count)
                    disagree(file);
                check_candidate(file, &said, p->names[at].name);
                all[count++] = (owner){p->names[at].name, said.number, 1};
            }
        }
        for (size_t at = 0; at < p->count; at++) {
            const devmod_module *m = &p->records[at].module;
            for (size_t each = 0; m->rank >= 0 && each < m->function_count; each++)
                if (page_with(file, m->functions + each, 0) != p)
                    all[count++] = (owner){m->functions[each], p->first + (uint32_t)at, 0};
        }
    }
    if (count > 1)
        qsort(all, count, sizeof *all, compare_owners);
    for (size_t at = 0, is_same, is_last; at < count;
         at++) { /* each owner is said once, and has the name once or more */
        is_same =
            at && all[at - 1].number == all[at].number && !compare(all[at - 1].name, all[at].name);
        is_last = at + 1 == count || all[at + 1].number != all[at].number ||
                  compare(all[at + 1].name, all[at].name);
        if (all[at].is_said ? is_same || is_last : !is_same)
            disagree(file);
    }
}

int devmod_check_all(devmod_file *file) {
    GUARD(file);
    uint64_t bare = 0, others = 0, ranked = 0;
    if (file->is_checked)
        return DEVMOD_OK;
    for (size_t row = 0; row < file->page_count; row++) {
        load_page(file, file->pages + row);
        for (size_t at = 0; at < file->pages[row].count; at++) {
            const devmod_module *m = &file->pages[row].records[at].module;
            bare += !m->has_bytes;
            others += m->kind.size && m->has_bytes;
            ranked += m->rank >= 0;
        }
    }
    if (bare > others + MAX_BARE)
        fail(file, DEVMOD_INVALID, "too many nodes without bytes");
    if (ranked != file->candidates)
        disagree(file);
    uint32_t *order = allocate(file, file->count, sizeof *order),
             *by_rank = allocate(file, ranked + 1, sizeof *by_rank), found = 0;
    uint8_t *height = allocate(file, file->count, 1), *marks = allocate(file, file->count, 1);
    memset(by_rank, 0xFF, (size_t)ranked * sizeof *by_rank);
    for (uint32_t number = 0; number < file->count; number++) {
        const devmod_module *m = &get_record(file, number)->module;
        if (m->rank >= 0 && ((uint64_t)m->rank >= ranked || by_rank[m->rank] != UINT32_MAX))
            disagree(file);
        if (m->rank >= 0)
            by_rank[m->rank] = number;
        if (m->sources >= 0)
            get_named(file, (uint64_t)m->sources, SOURCES), height[m->sources] = 1;
        for (size_t at = 0; at < m->part_count; at++)
            get_named(file, m->parts[at], PART), height[m->parts[at]] = 1;
    }
    const uint32_t *roots = file->roots ? file->roots : by_rank;
    size_t count = file->roots ? file->root_count : (size_t)ranked;
    for (size_t at = 0; at < count; at++)
        measure(file, height, marks, roots[at], 0);
    for (size_t at = 0; at < count; at++)
        found = walk(file, marks, order, found, roots[at]);
    if (found != ranked || memcmp(order, by_rank, (size_t)ranked * sizeof *by_rank))
        disagree(file);
    for (uint32_t number = 0; number < file->count; number++)
        if (!height[number])
            fail(file, DEVMOD_INVALID, "nothing has the record %u", number);
    check_names(file);
    release(&file->blocks, NULL);
    file->is_checked = 1;
    return DEVMOD_OK;
}

/* -- a module's bytes */

/* The size of a record's bytes without its repeats and parts. */
static uint64_t stored_size(const record *made) {
    return made->module.is_compressed ? made->unpacked : made->module.size;
}

static void check_most(devmod_file *file, uint64_t size, uint64_t most) {
    if (size > most)
        fail(file, DEVMOD_UNSUPPORTED, "the module has %llu bytes", (unsigned long long)size);
}

/* Return a record whose bytes this reader reads. */
static record *get_readable(devmod_file *file, uint32_t number) {
    record *made = get_record(file, number);
    const devmod_module *m = &made->module;
    if (!m->has_bytes)
        fail(file, DEVMOD_NOT_FOUND, "the record %u has no bytes", number);
    if (m->feature_count)
        fail(file, DEVMOD_UNSUPPORTED, "the record %u needs '%.*s', which a newer reader reads",
             number, (int)(m->features->size < 64 ? m->features->size : 64),
             (const char *)m->features->data);
    return made;
}

/* Load the next piece of a record's bytes; all of them if the file is in memory. */
static devmod_slice load_piece(devmod_file *file, const devmod_module *m, uint64_t done) {
    uint64_t at = m->offset + done, left = m->size - done, most = PIECE - at % PIECE;
    return load(file, at, file->read && left > most ? most : left);
}

static void unpack(devmod_file *file, const record *made, uint8_t *into) {
#ifdef DEVMOD_READER_ZSTD
    /* zstd's ZSTD_d_stableOutBuffer, which is experimental: zstd reads what it has written from
     * this buffer. A library without it takes a window of its own. */
    enum { STABLE_OUTPUT = 1001 };
    const devmod_module *m = &made->module;
    const struct block *mark = file->blocks;
    int window = 10;
    while (window < 27 && made->unpacked >> window)
        window++;
    ZSTD_DCtx *decoder = file->decoder = ZSTD_createDCtx();
    if (!decoder || ZSTD_isError(ZSTD_DCtx_setParameter(decoder, ZSTD_d_windowLogMax, window)))
        fail(file, DEVMOD_NO_MEMORY, "no memory");
    ZSTD_DCtx_setParameter(decoder, STABLE_OUTPUT, 1);
    ZSTD_outBuffer out = {into, (size_t)made->unpacked, 0};
    uint64_t done = 0;
    size_t left = 1;
    int is_taken = 1;
    while (is_taken && left && !ZSTD_isError(left) && done < m->size) {
        devmod_slice piece = load_piece(file, m, done);
        ZSTD_inBuffer in = {piece.data, piece.size, 0};
        size_t before;
        do {
            before = in.pos + out.pos;
            left = ZSTD_decompressStream(decoder, &out, &in);
        } while (left && !ZSTD_isError(left) && in.pos + out.pos != before);
        is_taken = in.pos == in.size;
        done += in.pos;
        release(&file->blocks, mark);
    }
    free_decoder(file);
    devmod_slice result = {into, out.pos};
    if (left || done != m->size || out.pos != made->unpacked ||
        !has_digest(result, made->unpacked_sha256))
        fail(file, DEVMOD_INVALID, "compressed bytes do not unpack to those of the index");
    reader r = reader_of(file, "a module's bytes", result);
    uint64_t most = FREE_VALUES + m->size, used = 0;
    size_t containers = 0;
    for (int each = 0; each < 3 && out.pos > most && made->role != PART; each++) {
        uint64_t values = skip(&r, most - used, &containers);
        if (!values || values > most - used)
            fail(file, DEVMOD_INVALID, "compressed bytes unpack to too many objects");
        used += values;
    }
#else
    (void)made, (void)into;
    fail(file, DEVMOD_UNSUPPORTED,
         "the bytes are compressed with zstd, and this reader was built without it");
#endif
}

/* Read a record's bytes without its repeats and parts into a buffer of their size. */
static void read_stored(devmod_file *file, const record *made, uint8_t *into) {
    const devmod_module *m = &made->module;
    const struct block *mark = file->blocks;
    if (made->stored.data) {
        memcpy(into, made->stored.data, made->stored.size);
        return;
    }
    if (m->is_compressed) {
        unpack(file, made, into);
        return;
    }
    for (uint64_t done = 0; done < m->size;) {
        devmod_slice piece = load_piece(file, m, done);
        memcpy(into + done, piece.data, piece.size);
        done += piece.size;
        release(&file->blocks, mark);
    }
    check_digest(file, (devmod_slice){into, (size_t)m->size}, m->sha256, "a module");
}

/* Return the bytes of a record without its repeats and parts, which the record keeps. */
static devmod_slice get_stored(devmod_file *file, uint32_t number, uint64_t most) {
    record *made = get_readable(file, number);
    const devmod_module *m = &made->module;
    check_most(file, stored_size(made), most);
    if (made->stored.data)
        return made->stored;
    if (!file->read && !m->is_compressed) {
        devmod_slice bytes = load(file, m->offset, m->size);
        return made->stored = check_digest(file, bytes, m->sha256, "a module");
    }
    const struct block *mark = file->blocks;
    uint8_t *into = allocate(file, stored_size(made), 1);
    read_stored(file, made, into);
    keep(file, mark, &made->own);
    return made->stored = (devmod_slice){into, (size_t)stored_size(made)};
}

/* -- constants */

/* Return the bytes of an array; UINT64_MAX if no file has so many. */
static uint64_t array_size(const devmod_constant *c) {
    const uint32_t *type = c->type;
    int is_byte = (type[0] == 3 && !type[1]) || (type[0] == 1 && type[1] == 1 && type[2] == 1);
    uint64_t bits = (uint64_t)(is_byte ? 8 : type[1]) * type[2];
    for (size_t at = 0; at < c->shape_count; at++)
        if (!c->shape[at])
            return 0;
    for (size_t at = 0; at < c->shape_count && bits; at++) {
        if (c->shape[at] > MAX_SIZE / bits)
            return UINT64_MAX;
        bits *= c->shape[at];
    }
    return (bits + 7) / 8;
}

static void read_type(reader *r, uint32_t type[3]) {
    if (read_array(r) != 3)
        bad(r, "expected an array of 3 for a type");
    for (int part = 0; part < 3; part++)
        type[part] = (uint32_t)read_int(r, 0, part == 2 ? 65535 : 255);
}

static void read_constant(reader *r, const record *made, constant *c) {
    const devmod_module *m = &made->module;
    if (read_array(r) != 3)
        bad(r, "expected an array of 3 for a constant");
    read_type(r, c->value.type);
    c->value.shape_count = (size_t)read_array(r);
    if (c->value.shape_count > MAX_DIMENSIONS)
        bad(r, "more dimensions than the limit");
    uint64_t *shape = allocate(r->file, c->value.shape_count, sizeof *shape);
    for (size_t at = 0; at < c->value.shape_count; at++)
        shape[at] = read_int(r, 0, MAX_SIZE);
    c->value.shape = shape;
    c->part = -1;
    c->start = r->at;
    int is_bin = r->at < r->size && r->data[r->at] >= 0xC4 && r->data[r->at] <= 0xC6;
    uint64_t expected = array_size(&c->value), size = expected;
    if (m->part_count && !is_bin) {
        c->part = m->parts[read_int(r, 0, m->part_count - 1)];
        const record *part = get_named(r->file, (uint64_t)c->part, PART);
        if (!part->module.feature_count)
            size = part->module.is_compressed ? part->unpacked : part->module.size;
    } else {
        c->value.data = read_bin(r);
        size = c->value.data.size;
    }
    c->end = r->at;
    if (size != expected)
        bad(r, "the elements of a constant have another size than its shape");
}

/* Read the constants of a module, and check its symbols. No part is read. */
static void read_constants(devmod_file *file, uint32_t number, uint64_t most) {
    record *made = get_record(file, number);
    const devmod_module *m = &made->module;
    reader r = reader_of(file, "a module's constants", get_stored(file, number, most));
    const struct block *mark = file->blocks;
    if (made->constants)
        return;
    size_t count = (size_t)read_map(&r);
    constant *constants = allocate(file, count, sizeof *constants);
    devmod_slice *names = allocate(file, count, sizeof *names);
    for (size_t at = 0; at < count; at++) {
        names[at] = constants[at].value.name = read_str(&r);
        read_constant(&r, made, constants + at);
    }
    check_unique(&r, names, count);
    size_t symbols = (size_t)read_map(&r);
    devmod_slice *keys = allocate(file, symbols, sizeof *keys);
    for (size_t at = 0; at < symbols; at++) {
        keys[at] = read_str(&r);
        if (at >= m->function_count || compare(keys[at], m->functions[at]))
            bad(&r, "other symbols than the functions of the index");
        for (uint64_t left = read_array(&r); left; left--) {
            devmod_slice name = read_str(&r);
            if (!bsearch(&name, names, count, sizeof name, compare_slices))
                bad(&r, "a symbol of a constant that is not there");
        }
    }
    check_unique(&r, keys, symbols);
    if (r.at != r.size || symbols != m->function_count)
        bad(&r, "bytes behind the last field, or too few symbols");
    made->constants = constants;
    made->constant_count = count;
    keep(file, mark, &made->own);
}

/* Write the bytes of a module of constants, with those of its parts. */
static void join(devmod_file *file, const record *made, uint8_t *into) {
    size_t before = 0;
    for (size_t at = 0; at < made->constant_count; at++) {
        const constant *c = made->constants + at;
        if (c->part < 0)
            continue;
        const record *part = get_record(file, (uint64_t)c->part);
        uint64_t size = stored_size(part);
        memcpy(into, made->stored.data + before, c->start - before);
        into += c->start - before;
        before = c->end;
        int width = size < 256 ? 1 : size < 65536 ? 2 : 4;
        *into++ = (uint8_t)(0xC4 + width / 2);
        while (width--)
            *into++ = (uint8_t)(size >> 8 * width);
        read_stored(file, part, into);
        into += size;
    }
    memcpy(into, made->stored.data + before, made->stored.size - before);
}

int devmod_get_constant(devmod_file *file, uint32_t number, const char *name, uint64_t most,
                        devmod_constant *result) {
    GUARD(file);
    const record *made = get_found(file, number);
    if (!is_text(made->module.kind, "const_loader"))
        fail(file, DEVMOD_NOT_FOUND, "the record %u has no constants", number);
    read_constants(file, number, most);
    for (size_t at = 0; at < made->constant_count; at++) {
        const constant *c = made->constants + at;
        if (!is_text(c->value.name, name))
            continue;
        *result = c->value;
        if (c->part >= 0)
            result->data = get_stored(file, (uint32_t)c->part, most);
        return DEVMOD_OK;
    }
    fail(file, DEVMOD_NOT_FOUND, "the record %u has no such constant", number);
}

/* -- whole bytes */

typedef struct insertion {
    uint64_t position, start, size;
} insertion;

/* Insert the repeats of a module into its stored bytes, which are at the end of the buffer. */
static void expand(devmod_file *file, const record *made, uint8_t *into, const uint8_t *stored) {
    uint64_t before = 0, count = 0, size = 0;
    const uint64_t *at = made->repeats;
    for (size_t each = 0; each < made->repeat_count; each++, at += at[0] + 1)
        size += at[2], count += at[0] - 2;
    insertion *inserted = allocate(file, count + 1, sizeof *inserted), *behind = inserted;
    uint8_t *ranges = allocate(file, size, 1); /* the move below overwrites them */
    at = made->repeats;
    size = 0;
    for (size_t each = 0; each < made->repeat_count; each++, at += at[0] + 1) {
        memcpy(ranges + size, stored + at[1], (size_t)at[2]);
        for (uint64_t place = 3; place <= at[0]; place++)
            *behind++ = (insertion){at[place], size, at[2]};
        size += at[2];
    }
    qsort(inserted, (size_t)count, sizeof *inserted, compare_u64);
    inserted[count] = (insertion){stored_size(made), 0, 0};
    for (insertion *each = inserted; each <= behind; each++) {
        memmove(into, stored + before, (size_t)(each->position - before));
        into += each->position - before;
        before = each->position;
        memcpy(into, ranges + each->start, (size_t)each->size);
        into += each->size;
    }
}

/* Return the size of a record's bytes, with its repeats and parts. */
static uint64_t get_size(devmod_file *file, uint32_t number, uint64_t most) {
    const record *made = get_readable(file, number);
    uint64_t total = stored_size(made);
    if (made->module.part_count && made->repeat_count)
        fail(file, DEVMOD_INVALID, "repeats of a module that has no shaders");
    if (made->module.part_count)
        read_constants(file, number, most);
    for (size_t at = 0; made->module.part_count && at < made->constant_count; at++) {
        const constant *c = made->constants + at;
        if (c->part < 0)
            continue;
        uint64_t size = stored_size(get_readable(file, (uint32_t)c->part));
        if (size > UINT32_MAX)
            fail(file, DEVMOD_UNSUPPORTED, "a constant has 4 GiB or more");
        total += size + (size < 256 ? 2 : size < 65536 ? 3 : 5) - (c->end - c->start);
    }
    const uint64_t *at = made->repeats;
    for (size_t each = 0; each < made->repeat_count; each++, at += at[0] + 1)
        total += at[2] * (at[0] - 2);
    check_most(file, total, most);
    return total;
}

/* Write the bytes of a record into a buffer of their size. */
static void write_bytes(devmod_file *file, const record *made, uint8_t *into, uint64_t size) {
    const struct block *mark = file->blocks;
    if (made->module.part_count) {
        join(file, made, into);
        return;
    }
    uint8_t *stored = into + (size - stored_size(made));
    read_stored(file, made, stored);
    if (made->repeat_count)
        expand(file, made, into, stored);
    release(&file->blocks, mark);
}

static devmod_slice get_bytes(devmod_file *file, uint32_t number, uint64_t most) {
    record *made = get_record(file, number);
    uint64_t size = get_size(file, number, most);
    if (made->bytes.data)
        return made->bytes;
    if (!made->module.part_count && !made->repeat_count)
        return made->bytes = get_stored(file, number, most);
    const struct block *mark = file->blocks;
    uint8_t *into = allocate(file, size, 1);
    write_bytes(file, made, into, size);
    keep(file, mark, &made->own);
    return made->bytes = (devmod_slice){into, (size_t)size};
}

int devmod_get_size(devmod_file *file, uint32_t number, uint64_t most, uint64_t *size) {
    GUARD(file);
    get_found(file, number);
    *size = get_size(file, number, most);
    return DEVMOD_OK;
}

int devmod_copy_bytes(devmod_file *file, uint32_t number, void *into, size_t size) {
    GUARD(file);
    const record *made = get_found(file, number);
    uint64_t most = size;
    /* Constants are read to find their parts. A position may take more bytes than a small part. */
    if (made->module.part_count && stored_size(made) > most)
        most = stored_size(made);
    if (get_size(file, number, most) != size)
        fail(file, DEVMOD_UNSUPPORTED, "the module has another size than the buffer");
    write_bytes(file, made, into, size);
    return DEVMOD_OK;
}

/* Free what a record has besides the index. Return the record, NULL if it was never read. */
static const record *forget(devmod_file *file, uint64_t number) {
    page *p = number < file->count ? page_with(file, NULL, number) : NULL;
    if (!p || !p->is_loaded)
        return NULL;
    record *made = p->records + (number - p->first);
    release(&made->own, NULL);
    made->stored = made->bytes = (devmod_slice){0};
    made->constants = NULL;
    made->contents = NULL;
    file->tune = NULL;
    return made;
}

void devmod_close(devmod_file *file) {
    if (!file)
        return;
    for (uint32_t number = 0; file->is_open && number < file->count; number++)
        forget(file, number);
    release(&file->index, NULL);
    free(file);
}

void devmod_forget(devmod_file *file, uint32_t number) {
    const record *made = forget(file, number);
    for (size_t at = 0; made && at < made->module.part_count; at++)
        forget(file, made->module.parts[at]);
}

int devmod_get_bytes(devmod_file *file, uint32_t number, uint64_t most, devmod_slice *bytes) {
    GUARD(file);
    get_found(file, number);
    *bytes = get_bytes(file, number, most);
    return DEVMOD_OK;
}

/* -- the contents of a module's bytes */

static void read_scalar(reader *r, devmod_value *value);

static void read_function(reader *r, devmod_function *function) {
    uint64_t items = read_array(r);
    if (items < 4 || items > 6)
        bad(r, "expected an array of 4 to 6 for a function");
    function->symbol = read_str(r);
    uint32_t (*types)[3] =
        allocate(r->file, function->type_count = (size_t)read_array(r), sizeof *types);
    for (size_t at = 0; at < function->type_count; at++) {
        read_type(r, types[at]);
    }
    function->types = (const uint32_t (*)[3])types;
    function->tags = read_texts(r, &function->tag_count);
    for (uint64_t left = read_array(r); left; left--) {
        devmod_value extra;
        read_scalar(r, &extra);
        if (extra.type != 'i' || extra.integer < INT32_MIN || extra.integer > INT32_MAX)
            bad(r, "an extra tag that is no integer of 32 bits");
    }
    if (items > 4)
        function->interface = read_opaque(r);
    if (items < 6)
        return;
    size_t room = r->room; /* a `tune` has a limit of its own */
    r->room = SIZE_MAX;
    function->tune = read_opaque(r);
    if (SIZE_MAX - r->room > function->tune.size / 4)
        bad(r, "too many arrays and maps in the variants of a function");
    r->room = room;
}

/* Check that each inserted range is a whole shader, and that an earlier shader is the range. */
static void check_shaders(reader *r, const record *made, const devmod_contents *read) {
    uint64_t count = 0, next = 0, added = 0;
    size_t stored = 0;
    const uint64_t *at = made->repeats;
    for (size_t each = 0; each < made->repeat_count; each++, at += at[0] + 1)
        count += at[0] - 2;
    insertion *inserted = allocate(r->file, count, sizeof *inserted),
              *shaders = allocate(r->file, read->code_count, sizeof *shaders);
    at = made->repeats;
    for (size_t each = 0; each < made->repeat_count; each++, at += at[0] + 1)
        for (uint64_t place = 3; place <= at[0]; place++)
            inserted[next++] = (insertion){at[place], at[1], at[2]};
    qsort(inserted, (size_t)count, sizeof *inserted, compare_u64);
    next = 0;
    for (size_t each = 0; each < read->code_count; each++) {
        uint64_t start = (uint64_t)(read->codes[each].data - r->data) - added,
                 size = read->codes[each].size;
        if (next == count || inserted[next].position != start) {
            shaders[stored++] = (insertion){start, 0, size};
            continue;
        }
        const insertion *first =
            bsearch(&inserted[next].start, shaders, stored, sizeof *shaders, compare_u64);
        if (!first || first->size != size || inserted[next].size != size)
            bad(r, "a repeat that is no earlier shader");
        added += size;
        next++;
    }
    if (next < count)
        bad(r, "a repeat where no shader is");
}

int devmod_get_contents(devmod_file *file, uint32_t number, uint64_t most,
                        devmod_contents *contents) {
    static const char *const KINDS[] = {"cuda",  "rocm",   "opencl", "hexagon",
                                        "metal", "vulkan", "webgpu", "program"};
    GUARD(file);
    record *made = get_found(file, number);
    const devmod_module *m = &made->module;
    int kind = 0;
    while (kind < 8 && !is_text(m->kind, KINDS[kind]))
        kind++;
    if (kind == 8)
        fail(file, DEVMOD_UNSUPPORTED, "the contents of its kind are unknown");
    reader r = reader_of(file, "a module's bytes", get_bytes(file, number, most));
    if (made->contents) {
        *contents = *made->contents;
        return DEVMOD_OK;
    }
    devmod_contents *read = allocate(file, 1, sizeof *read);
    *read = (devmod_contents){.format = {(const uint8_t *)"wgsl", 4}, .code_count = 1};
    if (kind != 6)
        read->format = read_str(&r);
    read->function_count = (size_t)read_map(&r);
    devmod_function *functions = allocate(file, read->function_count, sizeof *functions);
    devmod_slice *keys = allocate(file, read->function_count, sizeof *keys);
    for (size_t at = 0; at < read->function_count; at++) {
        keys[at] = functions[at].name = read_str(&r);
        if (at >= m->function_count || compare(functions[at].name, m->functions[at]))
            bad(&r, "other functions than those of the index");
        read_function(&r, functions + at);
    }
    check_unique(&r, keys, read->function_count);
    if (kind > 3)
        read->code_count = (size_t)read_map(&r);
    devmod_slice *names = allocate(file, read->code_count, sizeof *names),
                 *codes = allocate(file, read->code_count, sizeof *codes);
    keys = allocate(file, read->code_count, sizeof *keys);
    for (size_t at = 0; at < read->code_count; at++) {
        if (kind > 3)
            keys[at] = names[at] = read_str(&r);
        codes[at] = read_bin(&r);
    }
    check_unique(&r, keys, read->code_count);
    if (r.at != r.size || read->function_count != m->function_count)
        bad(&r, "bytes behind the last field, or too few functions");
    int is_tvm = is_text(read->format, "vulkan"); /* TVM's name of spv */
    if (is_tvm ? !is_text(m->format, "spv") : compare(read->format, m->format))
        bad(&r, "another format than that of the index");
    read->functions = functions;
    read->code_names = names;
    read->codes = codes;
    if (made->repeat_count && kind <= 3)
        bad(&r, "repeats, which only shaders have");
    if (made->repeat_count)
        check_shaders(&r, made, read);
    made->contents = read;
    keep(file, NULL, &made->own);
    *contents = *read;
    return DEVMOD_OK;
}

/* -- needs, and variants of tuned functions */

enum { MAX_CONSTANTS = 16, MAX_VARIANTS = 1024, MAX_OPERANDS = 16, MAX_EXPRESSION = 16 };

/* The integers by name with which expressions are evaluated. */
typedef struct scope {
    const devmod_value *constants, *arguments;
    size_t constant_count, argument_count;
    int is_check; /* of the names alone; no expression has a value */
} scope;

/* Return a reader of a map, with the depth of its values, its texts and its keys checked. */
static reader open_map(devmod_file *file, const char *what, devmod_slice map) {
    reader r = reader_of(file, what, map), result;
    r.room = SIZE_MAX; /* the framing was checked */
    result = r;
    read_value(&r, 0);
    return result;
}

/* Go to the value of a key of a map. Return 0 if it is missing. */
static int find_key(reader map, const char *key, reader *found) {
    *found = map; /* an error names it, also of an empty map */
    for (uint64_t left = read_map(&map); left; left--) {
        int is_key = is_text(read_str(&map), key);
        *found = map;
        if (is_key)
            return 1;
        read_value(&map, 0);
    }
    return 0;
}

/* Go to the value of a key of a map. Return 0 if it is missing or nil. */
static int seek(reader map, const char *key, reader *found) {
    return find_key(map, key, found) && found->at < found->size && found->data[found->at] != 0xC0;
}

int devmod_check_needs(devmod_file *file, const devmod_function *function) {
    static const char *const NEEDS[] = {
        "fp16",          "fp64",   "int64_atomics",   "subgroups",
        "subgroup_size", "images", "image_writes_3d", "launch_constants",
        "processor",     "tuned",  "repeat",
    };
    enum { COUNT = sizeof NEEDS / sizeof *NEEDS };
    GUARD(file);
    if (!function->interface.size)
        return DEVMOD_OK;
    reader map = open_map(file, "an interface", function->interface), r;
    size_t count = 0;
    const devmod_slice *need = find_key(map, "needs", &r) ? read_texts(&r, &count) : NULL;
    for (; count; count--, need++) {
        int at = 0;
        while (at < COUNT && !is_text(*need, NEEDS[at]))
            at++;
        if (at == COUNT)
            fail(file, DEVMOD_UNSUPPORTED, "the function needs '%.*s', which this reader lacks",
                 (int)(need->size < 64 ? need->size : 64), (const char *)need->data);
    }
    if (find_key(map, "tune", &r))
        bad(&r, "variants in the interface of a function");
    release(&file->blocks, NULL);
    return DEVMOD_OK;
}

/* Read a number, a boolean or a text. */
static void read_scalar(reader *r, devmod_value *value) {
    uint8_t mark = r->at < r->size ? r->data[r->at] : 0xC1;
    object o = next(r);
    value->type = 'i';
    value->integer = (int64_t)o.value;
    if (!o.type) {
        bad(r, "expected an object");
    } else if (o.type == 's') {
        value->type = 's';
        value->text = check_utf8(r, o.bytes);
    } else if (o.type == 'u') {
        if (o.value > MAX_SIZE)
            bad(r, "an integer of more than 64 bits");
    } else if (mark == 0xC2 || mark == 0xC3) {
        value->type = 'b';
        value->integer = mark & 1;
    } else if (mark >= 0xE0) {
        value->integer = (int64_t)mark - 256;
    } else if (mark >= 0xD0 && mark <= 0xD2) {
        value->integer = (int64_t)(o.value | UINT64_MAX << (8 << (mark - 0xD0)));
    } else if (mark == 0xCA || mark == 0xCB) {
        uint32_t bits = (uint32_t)o.value;
        float single;
        memcpy(&single, &bits, sizeof single);
        memcpy(&value->number, &o.value, sizeof value->number);
        value->type = 'f';
        value->number = mark == 0xCA ? (double)single : value->number;
        if (value->number - value->number != 0)
            bad(r, "a constant that is not finite");
    } else if (mark != 0xD3) {
        bad(r, "a constant of another type");
    }
}

/* Apply an operator. Return 0 if the result needs more than 64 bits, or does not exist. */
static int apply(char name, int64_t one, int64_t other, int64_t *result) {
    if (name == '+' || name == '-') {
        uint64_t sum = (uint64_t)one + (name == '+' ? (uint64_t)other : 0 - (uint64_t)other);
        *result = (int64_t)sum;
        int may_overflow = ((one < 0) == (other < 0)) == (name == '+');
        return !may_overflow || (*result < 0) == (one < 0);
    }
    if (name == '*') {
        uint64_t a = one < 0 ? 0 - (uint64_t)one : (uint64_t)one,
                 b = other < 0 ? 0 - (uint64_t)other : (uint64_t)other;
        int is_negative = (one < 0) != (other < 0);
        if (a && b > (MAX_SIZE + (uint64_t)is_negative) / a)
            return 0;
        *result = (int64_t)(is_negative ? 0 - a * b : a * b);
        return 1;
    }
    if (name == 'm' || name == 'M') { /* min, max */
        *result = (one < other) == (name == 'm') ? one : other;
        return 1;
    }
    if (!other || (one == INT64_MIN && other == -1 && name != '%'))
        return 0;
    int64_t rest = other == -1 ? 0 : one % other, is_below = rest && (rest < 0) != (other < 0);
    *result = rest + is_below * other;
    if (name != '%')
        *result = one / other - is_below + (name == 'c' && rest);
    return 1;
}

static char read_operator(reader *r) {
    static const char *const NAMES[] = {"+", "-", "*", "//", "%", "min", "max", "ceildiv"};
    devmod_slice name = read_str(r);
    for (int at = 0; at < 8; at++)
        if (is_text(name, NAMES[at]))
            return "+-*/%mMc"[at];
    bad(r, "an unknown operator");
}

static int64_t look_up(reader *r, const scope *names, devmod_slice name) {
    for (size_t at = 0; at < names->constant_count; at++) {
        if (compare(names->constants[at].name, name))
            continue;
        if (names->constants[at].type != 'i')
            bad(r, "a constant in an expression that is no integer");
        return names->constants[at].integer;
    }
    for (size_t at = 0; at < names->argument_count; at++)
        if (!compare(names->arguments[at].name, name))
            return names->arguments[at].integer;
    bad(r, "an unknown name in an expression");
}

static int64_t evaluate(reader *r, const scope *names, int depth) {
    devmod_value leaf = {0};
    uint8_t mark = r->at < r->size ? r->data[r->at] : 0;
    if ((mark & 0xF0) != 0x90 && mark != 0xDC && mark != 0xDD) {
        read_scalar(r, &leaf);
        if (leaf.type != 'i' && leaf.type != 's')
            bad(r, "an expression of another type");
        return leaf.type == 'i' ? leaf.integer : look_up(r, names, leaf.text);
    }
    uint64_t count = read_array(r);
    char name = count ? read_operator(r) : 0;
    uint64_t most = name == 'm' || name == 'M' ? MAX_OPERANDS : 2;
    if (count < 3 || count > most + 1 || depth >= MAX_EXPRESSION)
        bad(r, "an expression with another number of operands, or too deep");
    int64_t value = evaluate(r, names, depth + 1);
    for (uint64_t left = count - 2; left; left--)
        if (!apply(name, value, evaluate(r, names, depth + 1), &value) && !names->is_check)
            bad(r, "an expression divides by zero, or needs more than 64 bits");
    return value;
}

/* Read the numbers of a grid or a block, by the variant or else by the function. */
static size_t read_dims(reader variant, reader tune, const char *key, const scope *names,
                        int64_t least, int64_t dims[3]) {
    reader r;
    if (!seek(variant, key, &r) && !seek(tune, key, &r))
        return 0;
    uint64_t count = read_array(&r);
    if (!count || count > 3)
        bad(&r, "expected one to three expressions");
    for (uint64_t at = 0; at < count; at++)
        if ((dims[at] = evaluate(&r, names, 0)) < least && !names->is_check)
            bad(&r, "a grid or a block of too few");
    return (size_t)count;
}

/* Whether two values are equal: numbers by their values, of which a boolean is 0 or 1. */
static int is_equal(const devmod_value *one, const devmod_value *other) {
    if (one->type == 's' || other->type == 's')
        return one->type == other->type && !compare(one->text, other->text);
    if (one->type != 'f' && other->type != 'f')
        return one->integer == other->integer;
    if (one->type == other->type)
        return one->number == other->number;
    double number = one->type == 'f' ? one->number : other->number;
    int64_t integer = one->type == 'f' ? other->integer : one->integer;
    return number >= -0x1p63 && number < 0x1p63 && (int64_t)number == integer &&
           (double)integer == number;
}

static const devmod_slice *read_identifiers(reader *r, size_t *count) {
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    devmod_slice sorted[MAX_CONSTANTS];
    const devmod_slice *names = read_texts(r, count);
    if (*count > MAX_CONSTANTS)
        bad(r, "more than 16 names");
    for (size_t at = 0; at < *count; at++) {
        sorted[at] = names[at];
        if (!names[at].size)
            bad(r, "a name that is no identifier");
        for (size_t each = 0; each < names[at].size; each++)
            if (names[at].data[each] < 0x80 /* others count as letters */ &&
                !memchr(LETTERS, names[at].data[each], each ? 63 : 53))
                bad(r, "a name that is no identifier");
    }
    check_unique(r, sorted, *count);
    return names;
}

/* Read the arguments that are one integer each, without their values. */
static void read_arguments(devmod_file *file, devmod_slice interface, scope *into) {
    reader r, field;
    if (!interface.size || !find_key(open_map(file, "an interface", interface), "params", &r))
        return;
    uint64_t left = read_array(&r);
    devmod_value *made = allocate(file, left, sizeof *made);
    into->arguments = made;
    for (; left; left--) {
        reader param = r;
        read_value(&r, 0);
        devmod_slice kind = find_key(param, "kind", &field) ? read_str(&field) : NO_TEXT,
                     type = find_key(param, "type", &field) ? read_str(&field) : NO_TEXT;
        size_t end = type.size;
        while (end && type.data[end - 1] >= '0' && type.data[end - 1] <= '9')
            end--;
        type.size = end < type.size ? end : 0;
        if (!is_text(kind, "scalar") || (!is_text(type, "int") && !is_text(type, "uint")) ||
            (find_key(param, "members", &field) && read_array(&field)))
            continue;
        made->type = 'i';
        made->name = find_key(param, "name", &field) ? read_str(&field) : NO_TEXT;
        made++, into->argument_count++;
    }
}

/* Read the values of a variant. */
static void read_values(reader variant, const devmod_slice *names, size_t count,
                        devmod_value *values) {
    reader r;
    if (!find_key(variant, "values", &r) || read_array(&r) != count)
        bad(&r, "expected a value for each constant");
    for (size_t at = 0; at < count; at++) {
        values[at].name = names[at];
        read_scalar(&r, values + at);
    }
}

/* Go to the first variant. Return how many there are. */
static uint64_t find_variants(reader tune, reader *r) {
    uint64_t count = find_key(tune, "variants", r) ? read_array(r) : 0;
    if (!count || count > MAX_VARIANTS)
        bad(&tune, "expected 1 to 1024 variants");
    return count;
}

/* Check the rules of all variants of a function. */
static void check_tune(devmod_file *file, reader tune, devmod_slice interface) {
    reader r, each;
    size_t count, sizes = 0, grids = 0;
    int64_t dims[3];
    scope all = {.is_check = 1}, alone = all;
    const devmod_slice *size,
        *names = find_key(tune, "constants", &r) ? read_identifiers(&r, &count) : NULL;
    if (!names || !count)
        bad(&tune, "expected constants");
    read_arguments(file, interface, &all);
    size = find_key(tune, "sizes", &r) ? read_identifiers(&r, &sizes) : NULL;
    for (; sizes; sizes--, size++)
        look_up(&r, &all, *size);

    uint64_t variants = find_variants(tune, &each);
    devmod_value *values = allocate(file, variants * count, sizeof *values), *own = values,
                 *constants = allocate(file, count, sizeof *constants);
    for (r = each; own < values + variants * count; own += count) {
        read_values(r, names, count, own);
        read_value(&r, 0);
        for (size_t at = 0; at < count; at++)
            if (own == values || own[at].type != 'i')
                constants[at] = own[at];
        for (const devmod_value *other = values; other < own; other += count) {
            size_t same = 0;
            while (same < count && is_equal(own + same, other + same))
                same++;
            if (same == count)
                bad(&r, "two variants with equal values");
        }
    }

    all.constants = alone.constants = constants;
    all.constant_count = alone.constant_count = count;
    read_dims(tune, tune, "grid", &all, 0, dims);
    read_dims(tune, tune, "block", &alone, 1, dims);
    for (uint64_t left = variants; left; left--) {
        grids += read_dims(each, tune, "grid", &all, 0, dims) > 0;
        read_dims(each, tune, "block", &alone, 1, dims);
        read_value(&each, 0);
    }
    if (grids && grids != variants)
        bad(&each, "some variants have a grid, and others have none");
}

int devmod_get_variant(devmod_file *file, const devmod_function *function, size_t position,
                       const devmod_value *arguments, size_t argument_count,
                       devmod_variant *variant) {
    if (setjmp(file->refused)) {
        /* Variants of a form that this reader does not know have a need that it does not know. */
        if (file->code == DEVMOD_INVALID)
            devmod_check_needs(file, function);
        return file->code;
    }
    if (!function->tune.size)
        fail(file, DEVMOD_NOT_FOUND, "the function is not tuned");
    reader tune = open_map(file, "a tuned function", function->tune), r, own;
    size_t count;
    if (file->tune != function->tune.data)
        check_tune(file, tune, function->interface);
    file->tune = function->tune.data;
    find_key(tune, "constants", &r);
    const devmod_slice *names = read_texts(&r, &count);
    uint64_t variants = find_variants(tune, &own);
    if (position >= variants)
        fail(file, DEVMOD_NOT_FOUND, "the function has %u variants", (unsigned)variants);
    for (size_t at = 0; at < position; at++)
        read_value(&own, 0);
    *variant = (devmod_variant){0};
    read_values(own, names, count, variant->constants);
    scope all = {variant->constants, arguments, count, argument_count, 0}, alone = all;
    alone.argument_count = 0;
    variant->constant_count = count;
    variant->is_specialized = seek(tune, "specialized", &r) && r.data[r.at] == 0xC3;
    variant->grid_count = read_dims(own, tune, "grid", &all, 0, variant->grid);
    variant->block_count = read_dims(own, tune, "block", &alone, 1, variant->block);
    if (seek(own, "interface", &r)) {
        size_t start = r.at;
        read_value(&r, 0);
        variant->interface = (devmod_slice){r.data + start, r.at - start};
    }
    release(&file->blocks, NULL);
    return DEVMOD_OK;
}
