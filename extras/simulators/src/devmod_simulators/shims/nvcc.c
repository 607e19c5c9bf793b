/* nvcc, whatever path a build calls it by, begins as the script `nvcc` beside this file, which adds
   options and calls it. LD_PRELOAD loads this library. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void begin_as_script(int count, char **arguments) {
    char program[PATH_MAX];
    const char *script = getenv("DEVMOD_STANDIN_NVCC");
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (!script || !*script || length < 0)
        return;
    program[length] = '\0';
    if (strcmp(basename(program), "nvcc") != 0)
        return;

    /* The script becomes nvcc without a new process. */
    const char *caller = getenv("DEVMOD_STANDIN_NVCC_CALLER");
    if (caller && atol(caller) == getpid())
        return;

    char **words = calloc((size_t)count + 3, sizeof *words);
    if (!words)
        return;
    words[0] = (char *)"sh";
    words[1] = (char *)script;
    words[2] = program;
    for (int i = 1; i < count; i++)
        words[i + 2] = arguments[i];
    execv("/bin/sh", words);
    perror("devmod-simulators: /bin/sh, which calls nvcc, cannot be started");
    free(words);
}
