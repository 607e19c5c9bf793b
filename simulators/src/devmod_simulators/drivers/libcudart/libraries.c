/* Libraries: images that a program loads by itself. */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>

/* The driver ignores options of the compiler: it interprets PTX. */
static CUresult load(cudaLibrary_t *library, const void *code) {
    return cuLibraryLoadData((CUlibrary *)library, code, NULL, NULL, 0, NULL, NULL, 0);
}

cudaError_t CUDARTAPI cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                                          enum cudaJitOption *jitOptions, void **jitOptionsValues,
                                          unsigned int numJitOptions,
                                          enum cudaLibraryOption *libraryOptions,
                                          void **libraryOptionValues,
                                          unsigned int numLibraryOptions) {
    (void)jitOptions, (void)jitOptionsValues, (void)numJitOptions, (void)libraryOptions;
    (void)libraryOptionValues, (void)numLibraryOptions;
    ENTER();
    FINISH(load(library, code));
}

/* Return the contents of a file with a zero behind it, or NULL. The caller frees it. */
static char *read_file(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file)
        return NULL;
    char *contents = NULL;
    if (!fseek(file, 0, SEEK_END) && ftell(file) >= 0) {
        size_t size = (size_t)ftell(file);
        contents = calloc(1, size + 1);
        rewind(file);
        if (contents && fread(contents, 1, size, file) != size) {
            free(contents);
            contents = NULL;
        }
    }
    fclose(file);
    return contents;
}

cudaError_t CUDARTAPI cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *fileName,
                                              enum cudaJitOption *jitOptions,
                                              void **jitOptionsValues, unsigned int numJitOptions,
                                              enum cudaLibraryOption *libraryOptions,
                                              void **libraryOptionValues,
                                              unsigned int numLibraryOptions) {
    (void)jitOptions, (void)jitOptionsValues, (void)numJitOptions, (void)libraryOptions;
    (void)libraryOptionValues, (void)numLibraryOptions;
    ENTER();
    CHECK(library && fileName, cudaErrorInvalidValue);
    char *image = read_file(fileName);
    CHECK(image, cudaErrorFileNotFound);
    CUresult result = load(library, image);
    free(image);
    FINISH(result);
}

FORWARD(cudaLibraryUnload, cuLibraryUnload((CUlibrary)library), cudaLibrary_t library)
FORWARD(cudaLibraryGetKernel, cuLibraryGetKernel((CUkernel *)pKernel, (CUlibrary)library, name),
        cudaKernel_t *pKernel, cudaLibrary_t library, const char *name)
FORWARD(cudaLibraryGetGlobal,
        cuLibraryGetGlobal((CUdeviceptr *)dptr, bytes, (CUlibrary)library, name), void **dptr,
        size_t *bytes, cudaLibrary_t library, const char *name)
FORWARD(cudaLibraryGetManaged,
        cuLibraryGetManaged((CUdeviceptr *)dptr, bytes, (CUlibrary)library, name), void **dptr,
        size_t *bytes, cudaLibrary_t library, const char *name)
FORWARD(cudaLibraryGetKernelCount, cuLibraryGetKernelCount(count, (CUlibrary)lib),
        unsigned int *count, cudaLibrary_t lib)
FORWARD(cudaLibraryEnumerateKernels,
        cuLibraryEnumerateKernels((CUkernel *)kernels, numKernels, (CUlibrary)lib),
        cudaKernel_t *kernels, unsigned int numKernels, cudaLibrary_t lib)
