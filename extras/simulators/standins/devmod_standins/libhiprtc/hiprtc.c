// A stand-in for libhiprtc, for tests: it has hiprtc's functions, and another program compiles.
//
// DEVMOD_STANDIN_HIPRTC has the program and its arguments, separated by the character 31. It gets
// the name of a folder and the options, reads `source` there, and writes `code` or `log`. Its exit
// status is 0, or 1 for a source with errors. After any other end this library aborts, as the real
// one does for an architecture that it does not know.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_INPUT = 3, COMPILATION = 6, MOST_ARGUMENTS = 256 };

typedef struct {
    char *source, *code, *log;
    size_t code_size, log_size;
} Program;

static char *path_of(const char *folder, const char *name) {
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        abort();
    return path;
}

// Returns the bytes of a file with a zero behind them, and removes it. A file that is missing is
// empty.
static char *take_file(const char *folder, const char *name, size_t *size) {
    char *path = path_of(folder, name), *data;
    FILE *file = fopen(path, "rb"), *copy = open_memstream(&data, size);
    for (int byte; file && (byte = fgetc(file)) != EOF;)
        fputc(byte, copy);
    fclose(copy);
    if (file)
        fclose(file);
    unlink(path);
    free(path);
    return data;
}

const char *hiprtcGetErrorString(int result) {
    return result == SUCCESS       ? "HIPRTC_SUCCESS"
           : result == COMPILATION ? "HIPRTC_ERROR_COMPILATION"
                                   : "HIPRTC_ERROR_INVALID_INPUT";
}

int hiprtcVersion(int *major, int *minor) {
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

int hiprtcCreateProgram(Program **program, const char *source, const char *name, int headers,
                        const char **texts, const char **names) {
    *program = calloc(1, sizeof **program);
    (*program)->source = strdup(source);
    return SUCCESS;
}

int hiprtcDestroyProgram(Program **program) {
    free((*program)->source), free((*program)->code), free((*program)->log), free(*program);
    *program = NULL;
    return SUCCESS;
}

int hiprtcCompileProgram(Program *program, int count, const char **options) {
    const char *command = getenv("DEVMOD_STANDIN_HIPRTC");
    char folder[] = "/tmp/devmod-hiprtc-XXXXXX", *words = strdup(command ? command : ""),
         *arguments[MOST_ARGUMENTS];
    int used = 0, status;
    if (!mkdtemp(folder) || count > MOST_ARGUMENTS / 2)
        return INVALID_INPUT;
    char *path = path_of(folder, "source");
    FILE *file = fopen(path, "wb");
    fwrite(program->source, 1, strlen(program->source), file);
    fclose(file);
    for (char *word = strtok(words, "\x1f"); word && used < MOST_ARGUMENTS / 4;
         word = strtok(NULL, "\x1f"))
        arguments[used++] = word;
    arguments[used++] = folder;
    for (int i = 0; i < count; i++)
        arguments[used++] = (char *)options[i];
    arguments[used] = NULL;
    pid_t child = fork();
    if (!child) {
        execvp(arguments[0], arguments);
        _exit(127);
    }
    waitpid(child, &status, 0);
    unlink(path);
    program->code = take_file(folder, "code", &program->code_size);
    program->log = take_file(folder, "log", &program->log_size);
    rmdir(folder);
    free(path), free(words);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
        abort();
    return WEXITSTATUS(status) ? COMPILATION : SUCCESS;
}

int hiprtcGetProgramLogSize(Program *program, size_t *size) {
    *size = program->log_size + 1;
    return SUCCESS;
}

int hiprtcGetProgramLog(Program *program, char *log) {
    memcpy(log, program->log, program->log_size + 1);
    return SUCCESS;
}

int hiprtcGetCodeSize(Program *program, size_t *size) {
    *size = program->code_size;
    return SUCCESS;
}

int hiprtcGetCode(Program *program, char *code) {
    memcpy(code, program->code, program->code_size);
    return SUCCESS;
}
