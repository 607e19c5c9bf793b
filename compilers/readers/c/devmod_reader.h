/* SPDX-License-Identifier: Apache-2.0 */
/* A reader of .devmod files, version 1 of the format (docs/formats.md), in C11.
 *
 * It opens a file in memory or by a callback for ranges, lists its modules, finds the candidates of
 * a function, and returns a module's bytes with their digest checked. It reads the head and the
 * pages that it needs. What fits a device, and the launch, are the caller's.
 *
 * The input may come from strangers: each number is checked before it is used. A file must not
 * change while it is open. A file is used by one thread at a time. Slices stay valid until the file
 * is closed, those of a module's bytes until `devmod_forget`. Texts are UTF-8 without a zero at the
 * end. They may have a zero inside: `devmod_find` cannot take such a name.
 *
 * With DEVMOD_READER_ZSTD defined, the source needs zstd.h and libzstd, and reads compressed
 * modules.
 */
#ifndef DEVMOD_READER_H
#define DEVMOD_READER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes, or a text. */
typedef struct devmod_slice {
    const uint8_t *data;
    size_t size;
} devmod_slice;

/* Read `size` bytes at `offset` into `into`. Return 0, or another number if that fails. */
typedef int (*devmod_read)(const void *context, uint64_t offset, void *into, size_t size);

typedef struct devmod_file devmod_file;

/* A module of a file. `rank` is its position among the candidates, -1 for an import. `offset` and
 * `size` are those of its bytes in the file. A record with features that this reader does not know
 * has no bytes for it; version 1 has none. */
typedef struct devmod_module {
    devmod_slice kind, format, variant, origin; /* origin: msgpack, empty if there is none */
    const devmod_slice *functions, *features;
    const uint32_t *imports, *parts; /* parts: the numbers of the records of large constants */
    size_t function_count, feature_count, import_count, part_count;
    int64_t rank, sources; /* sources: the number of their record, -1 if there are none */
    uint64_t offset, size;
    int has_bytes, is_compressed, is_part; /* is_part: a part of constants, and no module */
    uint8_t sha256[32];
} devmod_module;

/* A candidate of a function. */
typedef struct devmod_candidate {
    int64_t rank;
    uint32_t number;
    devmod_slice kind, format, variant;
} devmod_candidate;

/* A constant of a module of the kind const_loader: its elements in C order, little-endian. */
typedef struct devmod_constant {
    devmod_slice name, data;
    uint32_t type[3];
    const uint64_t *shape;
    size_t shape_count;
} devmod_constant;

/* A function of a module's bytes. A type has DLPack's code, its bits and its lanes. */
typedef struct devmod_function {
    devmod_slice name, symbol;
    devmod_slice interface, tune; /* msgpack, empty if there is none; tune: the variants */
    const uint32_t (*types)[3];
    const devmod_slice *tags;
    size_t type_count, tag_count;
} devmod_function;

/* A constant of a variant, or an integer argument of a call. `type` is 'i' for an integer, 'b' for
 * a boolean (both in `integer`), 'f' for a float and 's' for a text. */
typedef struct devmod_value {
    devmod_slice name, text;
    char type;
    int64_t integer;
    double number;
} devmod_value;

/* A variant of a tuned function. `is_specialized`: the caller sets its constants, as definitions of
 * the source or in the driver. A grid or a block of 0 numbers is that of the call, as for other
 * functions. `interface` is the variant's own, empty if it has that of the function. */
typedef struct devmod_variant {
    devmod_value constants[16];
    size_t constant_count, grid_count, block_count;
    int is_specialized;
    int64_t grid[3], block[3];
    devmod_slice interface;
} devmod_variant;

/* The contents of a module's bytes. A kind with one payload has one code without a name; the others
 * have one for each shader. */
typedef struct devmod_contents {
    devmod_slice format;
    const devmod_function *functions;
    const devmod_slice *code_names, *codes;
    size_t function_count, code_count;
} devmod_contents;

/* The results of functions. `devmod_error` has the text. */
enum {
    DEVMOD_OK = 0,
    DEVMOD_INVALID = 1,
    DEVMOD_UNREADABLE = 2,
    DEVMOD_UNSUPPORTED = 3,
    DEVMOD_NO_MEMORY = 4,
    DEVMOD_NOT_FOUND = 5
};

/* Open a file that `read` reads, or with NULL for it, `size` bytes at `context`, which must stay.
 * `*file` must be closed, also after an error; it is NULL if there is no memory. */
int devmod_open(devmod_read read, const void *context, uint64_t size, devmod_file **file);

/* The same for a file whose address ends in `#devmod-head=` and the SHA-256 of its head, in 64
 * lower-case hexadecimal digits. `address` is all of it, or the digits alone. Another file is
 * DEVMOD_INVALID, before its head is read. It is a digest of the whole file, which is checked as
 * far as it is read. `devmod pin FILE` prints it. */
int devmod_open_pinned(devmod_read read, const void *context, uint64_t size, const char *address,
                       devmod_file **file);
void devmod_close(devmod_file *file);

/* The text of the last error of a file. */
const char *devmod_error(const devmod_file *file);

/* Read and check the whole index. The other functions read the pages that they need. */
int devmod_check_all(devmod_file *file);

/* The number of records; those of sources are no modules. The candidates are the records of the
 * ranks 0, 1, 2, ... */
uint32_t devmod_record_count(const devmod_file *file);
int devmod_get_module(devmod_file *file, uint32_t number, devmod_module *module);

/* Find the candidates that have a function, in their order, until the next call. The page of the
 * function alone is read. None is DEVMOD_OK with a count of 0. */
int devmod_find(devmod_file *file, const char *function, const devmod_candidate **candidates,
                size_t *count);

/* Whether a candidate is of a kind and, unless it is NULL, of an architecture, such as "sm_90". */
int devmod_is(const devmod_candidate *candidate, const char *kind, const char *variant);

/* Return a module's bytes, with their digest checked; decompressed, and with their repeats and
 * parts, if they are at most `most`. Of the record of a part, those of the constant alone. */
int devmod_get_bytes(devmod_file *file, uint32_t number, uint64_t most, devmod_slice *bytes);

/* The same for large modules: the size of the bytes, and these in a buffer of exactly this size,
 * which has no meaning after an error. They are read in pieces, and the file keeps no copy. */
int devmod_get_size(devmod_file *file, uint32_t number, uint64_t most, uint64_t *size);
int devmod_copy_bytes(devmod_file *file, uint32_t number, void *into, size_t size);

/* Free the bytes and the contents of a module and of its parts, with all slices of them. A later
 * call reads them again. The index stays. */
void devmod_forget(devmod_file *file, uint32_t number);

/* Return the contents of the bytes of a module of a known kind with functions; DEVMOD_UNSUPPORTED
 * for others. */
int devmod_get_contents(devmod_file *file, uint32_t number, uint64_t most,
                        devmod_contents *contents);

/* Check `needs` in the interface of a function before its use. DEVMOD_UNSUPPORTED if this reader
 * does not know one of them: use the function only if the device has the need. Its interface may
 * then have values that version 1 has not. The rest of an interface is the caller's to check. */
int devmod_check_needs(devmod_file *file, const devmod_function *function);

/* Return the variant of a tuned function at a position, with its grid for the integer arguments of
 * a call; DEVMOD_NOT_FOUND if the function is not tuned, or has no such variant. The rules of all
 * variants are checked. Take the first one that fits the device: a variant with an interface of its
 * own has the needs of that one, which devmod_check_needs checks in a copy of the function. Tuning
 * records are not read. */
int devmod_get_variant(devmod_file *file, const devmod_function *function, size_t position,
                       const devmod_value *arguments, size_t argument_count,
                       devmod_variant *variant);

/* Return a constant of a module, with its digest checked; DEVMOD_NOT_FOUND if it has none of that
 * name. Other large constants are not read. */
int devmod_get_constant(devmod_file *file, uint32_t number, const char *name, uint64_t most,
                        devmod_constant *constant);

/* The SHA-256 of bytes. */
void devmod_sha256(const void *data, size_t size, uint8_t digest[32]);

#ifdef __cplusplus
}
#endif

#endif
