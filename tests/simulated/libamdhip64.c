/* What Triton's driver of AMD looks up, for a launch that runs nothing. */

#include <stdint.h>
#include <string.h>

static int succeed(void) {
    return 0;
}

static int get_attribute(int *value, int attribute, void *function) {
    *value = 1024;
    return 0;
}

static int get_properties(void *properties, int device) {
    return 0;
}

int hipDriverGetVersion(int *version) {
    *version = 60443483;
    return 0;
}

int hipGetProcAddress(const char *name, void **function, int version, uint64_t flags, int *status) {
    *function = (void *)succeed;
    if (strstr(name, "FuncGetAttribute"))
        *function = (void *)get_attribute;
    if (strstr(name, "DeviceProperties"))
        *function = (void *)get_properties;
    return 0;
}
