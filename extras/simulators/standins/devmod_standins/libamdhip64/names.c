/* The names and the texts of HIP's errors. A text is the name, in words since HIP 6. */
#include "hip_standin.h"

#include <ctype.h>
#include <string.h>

static const struct {
    int code;
    const char *name;
} names[] = {
#include "errors.h" /* a build writes it, of errors.txt */
};

enum { COUNT = sizeof names / sizeof names[0] };

static int place_of(int code) {
    for (int i = 0; i < COUNT; i++)
        if (names[i].code == code)
            return i;
    return -1;
}

/* Return the words of a name: hipErrorOutOfMemory is "out of memory". */
static const char *words(int place) {
    static char texts[COUNT][64];
    const char *name = names[place].code ? names[place].name + strlen("hipError") : "NoError";
    char text[64];
    size_t length = 0;
    for (; *name && length + 2 < sizeof text; name++) {
        if (isupper((unsigned char)*name) && length && !isupper((unsigned char)name[-1]))
            text[length++] = ' ';
        text[length++] = (char)tolower((unsigned char)*name);
    }
    text[length] = 0;
    memcpy(texts[place], text,
           sizeof text); /* the same bytes each time, so threads do not matter */
    return texts[place];
}

const char *hipGetErrorName(hipError_t error) {
    int place = place_of(error);
    return place < 0 ? "hipErrorUnknown" : names[place].name;
}

const char *hipGetErrorString(hipError_t error) {
    int place = place_of(error);
    if (!hip_since(6))
        return hipGetErrorName(error);
    return words(place < 0 ? place_of(CODE_UNKNOWN) : place);
}
