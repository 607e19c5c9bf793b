/* The header of PTX, against the device and the driver. */
#include "cuda_standin.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return the newest PTX that the driver takes, as major * 10 + minor. */
static int newest_ptx(void) {
    static const int of_cuda_12[] = {80, 81, 82, 83, 84, 85, 85, 86, 87, 88};
    int version = driver_version(), major = version / 1000, minor = version % 1000 / 10;
    int result = major >= 13                 ? 90 + minor
                 : major == 12 && minor < 10 ? of_cuda_12[minor]
                                             : 70 + minor;
    return (int)setting_number("ptx_version", (uint64_t)result);
}

/* Return the text behind a directive at the start of a line, or NULL. Comments have none that
 * matter: PTX's header is plain. */
static const char *directive(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        line += strspn(line, " \t\r");
        if (strncmp(line, name, length) == 0 && isspace((unsigned char)line[length]))
            return line + length + strspn(line + length, " \t");
    }
    return NULL;
}

CUresult ptx_check(const char *text, int arch) {
    const char *version = directive(text, ".version"), *target = directive(text, ".target"),
               *size = directive(text, ".address_size");
    int major = 0, minor = 0, wanted = 0, end = 0;
    if (!version || sscanf(version, "%d.%d", &major, &minor) != 2 || !target ||
        sscanf(target, "sm_%d%n", &wanted, &end) != 1)
        return image_error(CUDA_ERROR_INVALID_PTX,
                           "the text has no .version and .target: it is not PTX");
    if (major * 10 + minor > newest_ptx()) {
        int line = 1;
        for (const char *place = text; place < version; place++)
            line += *place == '\n';
        return image_error(
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
            "ptxas application ptx input, line %d; fatal   : Unsupported .version %d.%d; current version is '%d.%d'\n",
            line, major, minor, newest_ptx() / 10, newest_ptx() % 10);
    }
    bool exact = target[end] == 'a', family = target[end] == 'f';
    if (wanted > arch || (exact && wanted != arch) || (family && wanted / 10 != arch / 10))
        return image_error(exact || family ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_PTX,
                           "the PTX is for %.*s, the device is sm_%d",
                           (int)strcspn(target, " \t\r\n,"), target, arch);
    if (!size || atoi(size) != 64)
        return image_error(CUDA_ERROR_INVALID_PTX, "expected .address_size 64");
    return CUDA_SUCCESS;
}
