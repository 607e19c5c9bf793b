/* What each function of the API does first is in common/process.c: this is what it needs of CUDA. */
#include "cuda_standin.h"

static const char *const visible[] = {"CUDA_VISIBLE_DEVICES", NULL};

static void activated(Context *context)
{
    context->limits[CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
}

const Vendor vendor = {.visible = visible, .current = stack_top, .activated = activated, .drop_module = module_drop};

CUresult CUDAAPI cuInit(unsigned int Flags)
{
    ENTER(ANY);
    CHECK(!Flags, CUDA_ERROR_INVALID_VALUE);
    return process_initialize();
}

CUresult CUDAAPI cuDriverGetVersion(int *driverVersion)
{
    ENTER(ANY);
    CHECK(driverVersion, CUDA_ERROR_INVALID_VALUE);
    *driverVersion = driver_version();
    return CUDA_SUCCESS;
}

/* NVRTC and others ask for private tables of the driver. An error makes them go on without. */
CUresult CUDAAPI cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    ENTER(ANY);
    CHECK(ppExportTable && pExportTableId, CUDA_ERROR_INVALID_VALUE);
    *ppExportTable = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

