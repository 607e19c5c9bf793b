/* Violations: uses of the API that have no defined result with a real driver. The report has them.
 */
#include "standin.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char text[16384];

void violation(const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)snprintf(text + used, sizeof text - used, "violation ");
    if (used < sizeof text)
        vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    used = strlen(text);
    if (used + 1 < sizeof text)
        memcpy(text + used, "\n", 2);
}

const char *violations(void) {
    return text;
}

void violations_forget(void) {
    text[0] = 0;
}
