/* Settings: environment variables, which a test of the same process can set by function. */
#include "standin.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETTINGS = 64 };

static struct {
    char name[32];
    char *value;
} settings[SETTINGS];

/* Set a setting; NULL removes it, so that the environment counts again. Return whether there was
 * room. */
int standin_set(const char *name, const char *value) {
    pthread_mutex_lock(&big_lock);
    int result = 0;
    for (int i = 0; i < SETTINGS && !result; i++) {
        if (settings[i].name[0] && strcmp(settings[i].name, name) != 0)
            continue;
        snprintf(settings[i].name, sizeof settings[i].name, "%s", name);
        free(settings[i].value);
        settings[i].value = value ? strdup(value) : NULL;
        result = 1;
    }
    pthread_mutex_unlock(&big_lock);
    return result;
}

/* Return the setting `name` as text: set_setting's value, else the environment variable
 * DEVMOD_STANDIN_<NAME>, else NULL. */
const char *setting(const char *name) {
    for (int i = 0; i < SETTINGS && settings[i].name[0]; i++)
        if (strcmp(settings[i].name, name) == 0 && settings[i].value)
            return settings[i].value[0] ? settings[i].value : NULL;
    char variable[64] = "DEVMOD_STANDIN_";
    size_t length = strlen(variable);
    for (; *name && length + 1 < sizeof variable; name++)
        variable[length++] = (char)toupper((unsigned char)*name);
    variable[length] = 0;
    const char *value = getenv(variable);
    return value && value[0] ? value : NULL;
}

/* Return the setting `name` as a number (decimal, or hexadecimal with 0x), or `fallback` without
 * one. */
uint64_t setting_number(const char *name, uint64_t fallback) {
    const char *value = setting(name);
    return value ? strtoull(value, NULL, 0) : fallback;
}
