/* Targets: gfx1100, gfx90a:sramecc+:xnack-, gfx11-generic. */
#include "hip_standin.h"

#include <stdlib.h>
#include <string.h>

/* The processors of each generic target: those whose names begin so. */
static const struct {
    const char *generic, *prefixes[8];
} generics[] = {
    {"gfx9-generic", {"gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"}},
    {"gfx9-4-generic", {"gfx94", "gfx950"}},
    {"gfx10-1-generic", {"gfx101"}},
    {"gfx10-3-generic", {"gfx103"}},
    {"gfx11-generic", {"gfx110", "gfx115"}},
    {"gfx12-generic", {"gfx120"}},
};

static bool same_processor(const char *image, size_t image_length, const char *device,
                           size_t device_length) {
    if (image_length == device_length && strncmp(image, device, image_length) == 0)
        return true;
    for (size_t i = 0; i < sizeof generics / sizeof generics[0]; i++) {
        if (strlen(generics[i].generic) != image_length ||
            strncmp(generics[i].generic, image, image_length) != 0)
            continue;
        for (int j = 0; generics[i].prefixes[j]; j++)
            if (strncmp(generics[i].prefixes[j], device, strlen(generics[i].prefixes[j])) == 0)
                return true;
    }
    return false;
}

/* Return the sign behind a feature of a target, or 0. */
static char sign_of(const char *target, const char *feature) {
    for (const char *place = strchr(target, ':'); place; place = strchr(place + 1, ':'))
        if (strncmp(place + 1, feature, strlen(feature)) == 0)
            return place[1 + strlen(feature)];
    return 0;
}

/* Return whether a code object for a target runs on a device: same processor, or a generic one of
 * it; features that do not differ. */
bool target_fits(const char *image, const char *device) {
    static const char *const features[] = {"sramecc", "xnack"};
    if (!same_processor(image, strcspn(image, ":"), device, strcspn(device, ":")))
        return false;
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        char wanted = sign_of(image, features[i]), own = sign_of(device, features[i]);
        if (wanted && wanted != own)
            return false;
    }
    return true;
}

/* Return the major and the minor version, and the number of lanes, of a target. The last two
 * characters of a processor are its minor version and its stepping. */
int target_major(const char *target) {
    size_t length = strcspn(target, ":");
    char digits[8] = "";
    if (length > 5 && length < 5 + sizeof digits)
        memcpy(digits, target + 3, length - 5);
    return atoi(digits);
}

int target_minor(const char *target) {
    char digit[2] = {target[strcspn(target, ":") - 2], 0};
    return (int)strtol(digit, NULL, 16);
}

int target_lanes(const char *target) {
    return target_major(target) >= 10 ? 32 : 64;
}
