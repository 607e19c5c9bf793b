/* The functions of C++'s runtime library that kernels import. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"

void *cpp_new(size_t size) {
    char text[MAX_NAME];
    void *memory = malloc(size ? size : 1);

    if (memory)
        return memory;
    snprintf(text, sizeof text, "operator new has no memory for %u bytes", (unsigned)size);
    reply_last("fault", text);
}

void cpp_fail(const char *format, int r1, int r2, int r3, int r4, int r5, const char *message) {
    char text[MAX_NAME];
    const char *place = strstr(format, "%s");

    (void)r1, (void)r2, (void)r3, (void)r4, (void)r5;
    if (place)
        snprintf(text, sizeof text, "%.*s%s%s", (int)(place - format), format, message, place + 2);
    else
        snprintf(text, sizeof text, "%s", format);
    reply_last("fault", text);
}

int cpp_at_exit(void (*destroy)(void *), void *object, void *module) {
    (void)destroy, (void)object, (void)module;
    return 0;
}
