/* Where a program asks NVRTC or nvJitLink for a cubin, it gets PTX, which the stand-in driver
   executes.

   LD_PRELOAD loads this library. Programs find the functions of both by dlsym, in whatever folder
   their libraries are: the answer for those below is a function of this file, which calls the real
   one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *Find(void *library, const char *name);

/* A program of NVRTC, with the text behind its PTX, or a link of nvJitLink: LTO-IR is joined by the
 * library itself, and its PTX here with the other texts. */
typedef struct Object {
    struct Object *next;
    void *handle;
    char *text;
    bool joins;         /* whether the library has inputs, which are LTO-IR */
    unsigned registers; /* the most that a thread may have, or 0 */
    char arch[8];       /* such as 90a */
} Object;

enum { JIT_LINK_INTERNAL = 6, JIT_LINK_PTX = 2, JIT_LINK_LTOIR = 3, MOST_OPTIONS = 256 };

static void *nvrtc, *nvjitlink; /* what dlopen has returned */
static Object *objects;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static Find *real_dlsym(void) {
    static Find *real;
    if (!real && !(real = (Find *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5")))
        real = (Find *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17"); /* the oldest of aarch64 */
    return real;
}

/* Call the library's own function. */
#define REAL(name, ...) ((int (*)(__VA_ARGS__))real_dlsym()(nvjitlink, name))
#define NVRTC(name, ...) ((int (*)(__VA_ARGS__))real_dlsym()(nvrtc, name))

static void add_object(Object *object) {
    pthread_mutex_lock(&lock);
    object->next = objects;
    objects = object;
    pthread_mutex_unlock(&lock);
}

/* Return the place of an object in the list; the caller has the lock. */
static Object **place_of(void *handle) {
    Object **place = &objects;
    while (*place && (*place)->handle != handle)
        place = &(*place)->next;
    return place;
}

static Object *object_of(void *handle) {
    pthread_mutex_lock(&lock);
    Object *object = *place_of(handle);
    pthread_mutex_unlock(&lock);
    return object;
}

/* NVRTC. An architecture sm_90 becomes compute_90: ptxas has no work then. The lines of the source
 * go into the PTX. */

static int compile_program(void *program, int count, const char *const *options) {
    const char *changed[MOST_OPTIONS];
    char *made = NULL;
    bool lines = false;
    int total = count;
    if (count < 0 || count + 1 >= MOST_OPTIONS)
        return NVRTC("nvrtcCompileProgram", void *, int, const char *const *)(program, count,
                                                                              options);
    for (int i = 0; i < count; i++) {
        const char *arch = strstr(options[i], "sm_");
        bool is_arch = arch && (arch == options[i] || strstr(options[i], "arch=sm_") == arch - 5);
        changed[i] = options[i];
        lines |= !strcmp(options[i], "-G") || !strcmp(options[i], "--device-debug") ||
                 strstr(options[i], "line");
        if (is_arch && !made &&
            asprintf(&made, "%.*scompute_%s", (int)(arch - options[i]), options[i], arch + 3) > 0)
            changed[i] = made;
    }
    if ((made || getenv("DEVMOD_STANDIN_SANITIZE")) && !lines)
        changed[total++] = "-lineinfo";
    int result =
        NVRTC("nvrtcCompileProgram", void *, int, const char *const *)(program, total, changed);
    free(made);
    return result;
}

/* With checks, the PTX ends with the source, whose lines reports show: the file's name and each
 * line are comments. */
static int create_program(void **program, const char *text, const char *name, int count,
                          const char *const *headers, const char *const *names) {
    size_t size;
    int result =
        NVRTC("nvrtcCreateProgram", void **, const char *, const char *, int, const char *const *,
              const char *const *)(program, text, name, count, headers, names);
    Object *object =
        !result && text && getenv("DEVMOD_STANDIN_SANITIZE") ? calloc(1, sizeof *object) : NULL;
    FILE *file = object ? open_memstream(&object->text, &size) : NULL;
    if (!file)
        return result;
    const char *base = name && strrchr(name, '/') ? strrchr(name, '/') + 1
                       : name && name[0]          ? name
                                                  : "default_program";
    fprintf(file, "\n//| %s:\n", base);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        fprintf(file, "//| %.*s\n", (int)strcspn(line, "\n"), line);
    fclose(file);
    object->handle = *program;
    add_object(object);
    return result;
}

static const char *source_of(void *program) {
    const Object *object = object_of(program);
    return object ? object->text : "";
}

static int get_ptx_size(void *program, size_t *size) {
    int result = NVRTC("nvrtcGetPTXSize", void *, size_t *)(program, size);
    *size += result ? 0 : strlen(source_of(program));
    return result;
}

static int get_ptx(void *program, char *ptx) {
    int result = NVRTC("nvrtcGetPTX", void *, char *)(program, ptx);
    if (!result)
        strcat(ptx, source_of(program));
    return result;
}

/* nvJitLink */

static int link_create(void **handle, unsigned count, const char **options) {
    const char *changed[MOST_OPTIONS] = {"-lto", "-ptx"};
    Object *link = calloc(1, sizeof *link);
    unsigned total = 2, registers = 0;
    char arch[8] = "";
    for (unsigned i = 0; i < count && total < MOST_OPTIONS; i++) {
        sscanf(options[i], "-maxrregcount=%u", &registers);
        sscanf(options[i], "-arch=sm_%7s", arch);
        if (strcmp(options[i], "-ptx") && strcmp(options[i], "-lto"))
            changed[total++] = options[i];
    }
    int result =
        link ? REAL("nvJitLinkCreate", void **, unsigned, const char **)(handle, total, changed)
             : JIT_LINK_INTERNAL;
    if (!link)
        return result;
    *link = (Object){.handle = *handle, .registers = registers};
    memcpy(link->arch, arch, sizeof arch);
    add_object(link);
    return result;
}

static int link_destroy(void **handle) {
    pthread_mutex_lock(&lock);
    Object **place = place_of(*handle), *link = *place;
    if (link) {
        *place = link->next;
        free(link->text);
        free(link);
    }
    pthread_mutex_unlock(&lock);
    return REAL("nvJitLinkDestroy", void **)(handle);
}

static int link_add_data(void *handle, int type, const void *data, size_t size, const char *name) {
    Object *link = object_of(handle);
    if (name && strstr(name, "cudadevrt")) /* its functions are the driver's */
        return 0;
    if (!link || type != JIT_LINK_PTX) {
        if (link)
            link->joins = true;
        return REAL("nvJitLinkAddData", void *, int, const void *, size_t,
                    const char *)(handle, type, data, size, name);
    }
    char *copy = strndup(data, size), *body = copy, *joined = NULL;
    if (copy && link->text && (body = strstr(copy, ".address_size"))) /* one head for all */
        body = strchr(body, '\n');
    char limit[48] = ""; /* the driver's estimate of registers takes it */
    if (link->registers && !link->text)
        snprintf(limit, sizeof limit, ".pragma \"maxrregcount %u\";\n", link->registers);
    if (!body || asprintf(&joined, "%s%s\n%s", link->text ? link->text : "", body, limit) < 0)
        joined = NULL;
    free(copy);
    if (!joined)
        return JIT_LINK_INTERNAL;
    free(link->text);
    link->text = joined;
    return 0;
}

static int link_add_file(void *handle, int type, const char *path) {
    Object *link = object_of(handle);
    if (strstr(path, "cudadevrt"))
        return 0;
    if (link)
        link->joins = true;
    return REAL("nvJitLinkAddFile", void *, int, const char *)(handle, type, path);
}

/* PTX may call functions of LTO-IR, which the library drops unless its inputs use them. So it gets
 * a kernel that has their addresses. */
#define KEEPER "devmod_keeps"
#define DECLARATION ".extern .func"

/* Write each function that PTX declares and that is not the driver's, in a form of printf. */
static void write_called(FILE *file, const char *ptx, const char *form) {
    static const char *const own = " vprintf malloc free __assertfail ";
    for (const char *at = strstr(ptx, DECLARATION); at; at = strstr(at, DECLARATION)) {
        char name[256];
        at += sizeof DECLARATION - 1;
        at += strspn(at, " \t\r\n");
        const char *end = strchr(at, ')');
        if (*at == '(' && end) /* the result */
            at = end + 1;
        if (sscanf(at, " %253[A-Za-z0-9_]", name + 1) != 1)
            continue;
        name[0] = ' ';
        strcat(name, " ");
        if (!strstr(own, name))
            fprintf(file, form, name);
    }
}

/* Return LTO-IR of a source, which the caller frees, or NULL. */
static void *compile_lto(const char *source, const char *const *options, int count, size_t *size) {
    void *program;
    void *image = NULL;
    if (NVRTC("nvrtcCreateProgram", void **, const char *, const char *, int, void *,
              void *)(&program, source, KEEPER, 0, NULL, NULL))
        return NULL;
    int result =
        NVRTC("nvrtcCompileProgram", void *, int, const char *const *)(program, count, options);
    if (!result)
        result = NVRTC("nvrtcGetLTOIRSize", void *, size_t *)(program, size);
    if (!result)
        image = malloc(*size);
    if (image)
        NVRTC("nvrtcGetLTOIR", void *, void *)(program, image);
    NVRTC("nvrtcDestroyProgram", void **)(&program);
    return image;
}

static void keep_called(const Object *link) {
    char *source;
    char arch[32];
    size_t size;
    if (!real_dlsym()(nvrtc, "nvrtcGetLTOIR")) /* the program has not loaded it */
        return;
    FILE *file = open_memstream(&source, &size);
    if (!file)
        return;
    write_called(file, link->text, "extern \"C\" __device__ void %s();\n");
    fprintf(file, "extern \"C\" __global__ void " KEEPER "(void **p) {\n");
    write_called(file, link->text, "*p++ = (void *)%s;\n");
    fprintf(file, "}\n");
    fclose(file);
    snprintf(arch, sizeof arch, "-arch=compute_%s", link->arch);
    const char *options[] = {arch, "-dlto", "-rdc=true"};
    void *image = compile_lto(source, options, 3, &size);
    if (image)
        REAL("nvJitLinkAddData", void *, int, const void *, size_t,
             const char *)(link->handle, JIT_LINK_LTOIR, image, size, KEEPER);
    free(image);
    free(source);
}

/* Remove the kernel from PTX. */
static void remove_keeper(char *ptx) {
    char *start = strstr(ptx, ".visible .entry " KEEPER);
    char *end = start ? strstr(start, "\n}") : NULL;
    if (end)
        memset(start, ' ', (size_t)(end + 2 - start));
}

static int link_complete(void *handle) {
    Object *link = object_of(handle);
    size_t size = 0;
    if (link && link->joins && link->text && strstr(link->text, DECLARATION))
        keep_called(link);
    int result = !link || link->joins ? REAL("nvJitLinkComplete", void *)(handle) : 0;
    if (result || !link || !link->joins)
        return result;
    result = REAL("nvJitLinkGetLinkedPtxSize", void *, size_t *)(handle, &size);
    char *text = calloc(size + 1, 1);
    if (text && !result)
        result = REAL("nvJitLinkGetLinkedPtx", void *, char *)(handle, text);
    if (text && !result)
        remove_keeper(text);
    if (text && !result)
        result = link_add_data(handle, JIT_LINK_PTX, text, size, "");
    free(text);
    return result;
}

static int link_size(void *handle, size_t *size) {
    Object *link = object_of(handle);
    *size = link && link->text ? strlen(link->text) + 1 : 0;
    return *size ? 0 : JIT_LINK_INTERNAL;
}

static int link_text(void *handle, char *text) {
    Object *link = object_of(handle);
    return link && link->text && strcpy(text, link->text) ? 0 : JIT_LINK_INTERNAL;
}

static const struct {
    const char *name;
    void *function;
} replaced[] = {
    {"nvrtcCompileProgram", compile_program}, {"nvrtcCreateProgram", create_program},
    {"nvrtcGetCUBINSize", get_ptx_size},      {"nvrtcGetCUBIN", get_ptx},
    {"nvrtcGetPTXSize", get_ptx_size},        {"nvrtcGetPTX", get_ptx},
    {"nvJitLinkCreate", link_create},         {"nvJitLinkDestroy", link_destroy},
    {"nvJitLinkAddData", link_add_data},      {"nvJitLinkAddFile", link_add_file},
    {"nvJitLinkComplete", link_complete},     {"nvJitLinkGetLinkedCubinSize", link_size},
    {"nvJitLinkGetLinkedCubin", link_text},   {"nvJitLinkGetLinkedPtxSize", link_size},
    {"nvJitLinkGetLinkedPtx", link_text},
};

/* Return the function of this file for a name of NVIDIA's, or NULL. */
static void *replacement(void *library, const char *name) {
    for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
        if (!strcmp(name, replaced[i].name) && real_dlsym()(library, name)) {
            *(name[2] == 'r' ? &nvrtc : &nvjitlink) = library;
            return replaced[i].function;
        }
    return NULL;
}

/* The real dlsym asks for its caller (RTLD_NEXT), so it is jumped to: it must see the caller of
 * this function. */
#if defined(__clang__)
#define JUMP __attribute__((musttail))
#else
#define JUMP
__attribute__((optimize("O2")))
#endif
void *dlsym(void *restrict library, const char *restrict name) {
    void *function = strncmp(name, "nv", 2) ? NULL : replacement(library, name);
    if (function)
        return function;
    JUMP return real_dlsym()(library, name);
}
