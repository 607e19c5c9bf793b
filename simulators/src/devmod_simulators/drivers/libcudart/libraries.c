/* Libraries: images that a program loads by itself. */
#include "runtime.h"

/* Options have the driver's numbers. */
FORWARD(cudaLibraryLoadData,
        cuLibraryLoadData((CUlibrary *)library, code, (void *)jitOptions, jitOptionsValues,
                          numJitOptions, (void *)libraryOptions, libraryOptionValues,
                          numLibraryOptions))
FORWARD(cudaLibraryLoadFromFile,
        cuLibraryLoadFromFile((CUlibrary *)library, fileName, (void *)jitOptions, jitOptionsValues,
                              numJitOptions, (void *)libraryOptions, libraryOptionValues,
                              numLibraryOptions))
FORWARD(cudaLibraryUnload, cuLibraryUnload((CUlibrary)library))
FORWARD(cudaLibraryGetKernel, cuLibraryGetKernel((CUkernel *)pKernel, (CUlibrary)library, name))
FORWARD(cudaLibraryGetGlobal,
        cuLibraryGetGlobal((CUdeviceptr *)dptr, bytes, (CUlibrary)library, name))
FORWARD(cudaLibraryGetManaged,
        cuLibraryGetManaged((CUdeviceptr *)dptr, bytes, (CUlibrary)library, name))
FORWARD(cudaLibraryGetKernelCount, cuLibraryGetKernelCount(count, (CUlibrary)lib))
FORWARD(cudaLibraryEnumerateKernels,
        cuLibraryEnumerateKernels((CUkernel *)kernels, numKernels, (CUlibrary)lib))
