/* The program that runs Hexagon kernels on the device. The files:
 *
 *   main.c     the loop that executes requests (README.md has the protocol)
 *   frames.c   length-prefixed msgpack in and out
 *   image.c    maps a shared object into memory and applies its relocations
 *   exports.c  the functions that a shared object may import
 *   cpp.c      the functions of C++'s runtime library
 *   call.c     calls an address with the registers and the stack of the Hexagon C ABI
 *   fault.c    reports a signal to the host before the process ends
 */
#ifndef DEVMOD_RUNNER_H
#define DEVMOD_RUNNER_H

#include <stddef.h>
#include <stdint.h>

enum { REGISTERS = 6, MAX_NAME = 1024, MAX_STACK_WORDS = 16384, MAX_CALLS = 4096 };

/* -- frames.c. A read past the end of the frame, or of another type, ends the process with a
 * "protocol" error. */

/* Read the head of the next frame. Return the number of items in its array; -1 at the end of the
 * input. */
int frame_begin(void);
uint64_t frame_unsigned(void);
/* Read a string of at most MAX_NAME - 1 bytes. */
void frame_text(char out[MAX_NAME]);
/* Return the size of a bin, whose bytes `frame_bytes` then reads. */
uint32_t frame_bin(void);
void frame_bytes(void *out, uint32_t size);
/* Return the next bytes of the frame without reading them; NULL if they are not in the buffer yet.
 * `frame_drop` skips them. */
const uint8_t *frame_window(uint32_t size);
void frame_drop(uint32_t size);
/* Skip the unread bytes of the frame. */
void frame_skip(void);

void reply_begin(uint32_t items);
void reply_unsigned(uint64_t value);
void reply_text(const char *text);
void reply_bin(const void *data, uint32_t size);
void reply_end(void);
/* Send [id, 1, code, text]. The runner continues. */
void reply_error(uint64_t id, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Send [0, 1, code, text] and end the process. Only async-signal-safe functions are called. */
void reply_last(const char *code, const char *text) __attribute__((noreturn));

/* -- image.c */

typedef struct image image;
/* Load a file into the `span` bytes at `base`. Return the image with its relocations applied; NULL
 * with the reason in `error`. */
image *image_load(uint8_t *base, uint32_t span, const uint8_t *file, uint32_t size, char *error,
                  size_t error_size);
void image_unload(image *loaded);
/* Return the address of a defined symbol, and store its size in `size`; 0 if there is none. */
uint32_t image_symbol(const image *loaded, const char *name, uint32_t *size);
/* Write the nearest function before an address as "name+offset"; return 0 if the address is
 * outside. */
int image_describe(const image *loaded, uint32_t address, char *out, size_t size);

/* -- exports.c */

/* Return the address of a function that shared objects may import; 0 if there is none. */
uint32_t export_address(const char *name);

/* -- cpp.c */

/* operator new. It ends the process if there is no memory, because a kernel has no exceptions. */
void *cpp_new(size_t size);
/* What libc++'s headers call in the place of an exception, with one message for %s. There it is
 * variadic. Kernels pass variadic arguments on the stack, and functions for musl expect them in
 * registers, so this one has six others before. */
void cpp_fail(const char *format, int r1, int r2, int r3, int r4, int r5, const char *message)
    __attribute__((noreturn));
/* __cxa_atexit: the destructors of static objects are not called. */
int cpp_at_exit(void (*destroy)(void *), void *object, void *module);

/* -- call.c */

/* Call `function` with r0 to r5 and an even number of stack words. Return r1:0. */
uint64_t call_function(uint32_t function, const uint32_t registers[REGISTERS],
                       const uint32_t *stack, uint32_t words);

/* -- fault.c */

void fault_install(void);
/* What kernels call for a failed assert, as musl declares it, and for abort. */
void fail_assertion(const char *condition, const char *file, int line, const char *function)
    __attribute__((noreturn));
void fail_abort(void) __attribute__((noreturn));
/* Write the place of an address, such as "saxpy+12", and return whether a module has it. The
 * function is in main.c, which has the list of images. */
int describe_address(uint32_t address, char *out, size_t size);

#endif
