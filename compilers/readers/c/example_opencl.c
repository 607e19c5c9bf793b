/* SPDX-License-Identifier: Apache-2.0 */
/* Launches one function of a .devmod file by OpenCL's C API: y = factor * x.
 *
 *     cc example_opencl.c devmod_reader.c -lOpenCL -o example_opencl
 *     ./example_opencl kernels.devmod scale
 *     ./example_opencl kernels.devmod scale '#devmod-head=2c26b4…'
 *
 * The file may be one of many functions: only the head, the pages of the name and one module are
 * read. With the digest of the head, which `devmod pin` prints, another file is refused. The types
 * and functions of OpenCL are declared here, as in its CL/cl.h, so the example needs no headers of
 * it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devmod_reader.h"

typedef struct cl_platform *cl_platform_id;
typedef struct cl_device *cl_device_id;
typedef struct cl_context_ *cl_context;
typedef struct cl_queue_ *cl_command_queue;
typedef struct cl_program_ *cl_program;
typedef struct cl_kernel_ *cl_kernel;
typedef struct cl_mem_ *cl_mem;
enum {
    CL_DEVICE_TYPE_ALL = -1,
    CL_MEM_READ_WRITE = 1,
    CL_MEM_COPY_HOST_PTR = 32,
    CL_DEVICE_NAME = 0x102B
};

int32_t clGetPlatformIDs(uint32_t, cl_platform_id *, uint32_t *);
int32_t clGetDeviceIDs(cl_platform_id, uint64_t, uint32_t, cl_device_id *, uint32_t *);
int32_t clGetDeviceInfo(cl_device_id, uint32_t, size_t, void *, size_t *);
cl_context clCreateContext(const intptr_t *, uint32_t, const cl_device_id *,
                           void (*)(const char *, const void *, size_t, void *), void *, int32_t *);
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, uint64_t, int32_t *);
cl_program clCreateProgramWithSource(cl_context, uint32_t, const char **, const size_t *,
                                     int32_t *);
int32_t clBuildProgram(cl_program, uint32_t, const cl_device_id *, const char *,
                       void (*)(cl_program, void *), void *);
cl_kernel clCreateKernel(cl_program, const char *, int32_t *);
cl_mem clCreateBuffer(cl_context, uint64_t, size_t, void *, int32_t *);
int32_t clSetKernelArg(cl_kernel, uint32_t, size_t, const void *);
int32_t clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, uint32_t, const size_t *,
                               const size_t *, const size_t *, uint32_t, const void *, void *);
int32_t clEnqueueReadBuffer(cl_command_queue, cl_mem, uint32_t, size_t, size_t, void *, uint32_t,
                            const void *, void *);

static int read_range(const void *context, uint64_t offset, void *into, size_t size) {
    FILE *stream = (FILE *)(uintptr_t)context;
    return fseek(stream, (long)offset, SEEK_SET) != 0 || fread(into, 1, size, stream) != size;
}

static void check(int is_good, const char *what) {
    if (is_good)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* Find the OpenCL C of a function: its code and the name of the kernel. */
static devmod_function find(devmod_file *file, const char *name, devmod_slice *code) {
    const devmod_candidate *candidates;
    size_t count;
    check(devmod_find(file, name, &candidates, &count) == DEVMOD_OK, devmod_error(file));
    for (size_t at = 0; at < count; at++) {
        const devmod_candidate *each = candidates + at;
        devmod_contents contents;
        if (!devmod_is(each, "opencl", NULL) || each->format.size != 2 ||
            memcmp(each->format.data, "cl", 2))
            continue;
        check(devmod_get_contents(file, each->number, 64 << 20, &contents) == DEVMOD_OK,
              devmod_error(file));
        *code = contents.codes[0];
        for (size_t place = 0; place < contents.function_count; place++)
            if (contents.functions[place].name.size == strlen(name) &&
                !memcmp(contents.functions[place].name.data, name, strlen(name))) {
                check(devmod_check_needs(file, contents.functions + place) == DEVMOD_OK,
                      devmod_error(file));
                return contents.functions[place];
            }
    }
    check(0, "the file has no OpenCL C with this function");
    abort();
}

int main(int argc, char **argv) {
    check(argc == 3 || argc == 4, "usage: example_opencl FILE FUNCTION [#devmod-head=DIGEST]");
    FILE *stream = fopen(argv[1], "rb");
    check(stream && !fseek(stream, 0, SEEK_END), "the file cannot be opened");
    devmod_file *file;
    uint64_t file_size = (uint64_t)ftell(stream);
    int result = devmod_open_pinned(read_range, stream, file_size, argv[3], &file);
    check(result == DEVMOD_OK, devmod_error(file)); /* argv[3] is NULL without a digest */
    devmod_slice code;
    devmod_function function = find(file, argv[2], &code);
    /* DLPack's codes: 3 is a handle, 2 is a float */
    check(function.type_count == 2 && function.types[0][0] == 3 && function.types[1][0] == 2 &&
              function.types[1][1] == 32,
          "the function takes other arguments than a buffer and a float");

    cl_platform_id platforms[16];
    cl_device_id device = NULL;
    uint32_t platform_count = 0;
    int32_t error = clGetPlatformIDs(16, platforms, &platform_count);
    for (uint32_t at = 0; !error && !device && at < platform_count && at < 16; at++)
        if (clGetDeviceIDs(platforms[at], (uint32_t)CL_DEVICE_TYPE_ALL, 1, &device, NULL))
            device = NULL;
    check(device != NULL, "there is no OpenCL device");
    char device_name[256] = "";
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof device_name - 1, device_name, NULL);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check(!error, "no context");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
    check(!error, "no queue");

    const char *text = (const char *)code.data;
    cl_program program = clCreateProgramWithSource(context, 1, &text, &code.size, &error);
    check(!error && !clBuildProgram(program, 1, &device, "", NULL, NULL),
          "the program cannot be built");
    char *symbol = calloc(function.symbol.size + 1, 1);
    check(symbol != NULL, "no memory");
    memcpy(symbol, function.symbol.data, function.symbol.size);
    cl_kernel kernel = clCreateKernel(program, symbol, &error);
    check(!error, "the program has no such kernel");
    free(symbol);

    float values[8] = {0, 1, 2, 3, 4, 5, 6, 7}, factor = 2.5f;
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof values,
                                   values, &error);
    size_t size = 8;
    check(!error && !clSetKernelArg(kernel, 0, sizeof buffer, &buffer) &&
              !clSetKernelArg(kernel, 1, sizeof factor, &factor),
          "no arguments");
    check(!clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, NULL, 0, NULL, NULL),
          "the kernel cannot be launched");
    check(!clEnqueueReadBuffer(queue, buffer, 1, 0, sizeof values, values, 0, NULL, NULL),
          "the result cannot be read");
    printf("%s:", device_name);
    for (int at = 0; at < 8; at++)
        printf(" %g", values[at]);
    printf("\n");
    devmod_close(file);
    fclose(stream);
    return 0; /* the objects of OpenCL end with the process */
}
