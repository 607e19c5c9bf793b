/* What each function of the API does first is in common/process.c: this is what it needs of CUDA.
 */
#include "cuda_standin.h"

#include <stdio.h>
#include <string.h>

static const char *const variables[] = {"CUDA_VISIBLE_DEVICES", NULL};

static void activated(Context *context) {
    context->limits[CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
}

static void launch_failed(int code, const char *kernel) {
    explain_failure(code, kernel, worker_message());
    fprintf(stderr, "devmod-simulators: %s: %s\n", kernel, worker_message());
}

const Vendor vendor = {.visible = variables,
                       .current = stack_top,
                       .activated = activated,
                       .leaving = libraries_leave,
                       .extra_end = CU_LAUNCH_PARAM_END,
                       .launch_failed = launch_failed};

FORWARD_IF(!Flags, cuInit, ANY, process_initialize())

ANSWER(cuDriverGetVersion, ANY, driverVersion, driver_version())

/* NVRTC and nvJitLink ask for a private table of the driver, and go on without. The CUDA runtime
 * asks for others, and ends. */
CUresult CUDAAPI cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
    static const char compilers[4] = {(char)0xda, (char)0x91, 0x51, (char)0xd3};
    static bool told;
    ENTER(ANY);
    CHECK(ppExportTable && pExportTableId, CUDA_ERROR_INVALID_VALUE);
    *ppExportTable = NULL;
    if (!told && memcmp(pExportTableId->bytes, compilers, sizeof compilers) != 0)
        told = fprintf(
            stderr,
            "devmod-simulators: the program uses NVIDIA's CUDA runtime, which needs private functions of NVIDIA's driver. The "
            "simulated GPU has the functions of cuda.h, and a CUDA runtime of its own: build a program of nvcc below `devmod "
            "simulate`, or with --cudart shared (CMake: -DCMAKE_CUDA_RUNTIME_LIBRARY=Shared). PyTorch, CuPy and Warp do not run "
            "on it\n");
    return CUDA_ERROR_INVALID_VALUE;
}
