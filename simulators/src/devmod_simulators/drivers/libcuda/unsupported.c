/* Functions that pycuda links and the stand-in does not have: texture references, arrays of two
 * dimensions, IPC, the linker. */

#include "driver.h"

/* Each takes and ignores what its callers pass; cuda.h is not included, for these are not its
 * prototypes. */
#define UNSUPPORTED(name)                                                                          \
    int name(void);                                                                                \
    int name(void) {                                                                               \
        ENTER(READY);                                                                              \
        return CODE_NOT_SUPPORTED;                                                                 \
    }

UNSUPPORTED(cuArrayCreate_v2)
UNSUPPORTED(cuArrayGetDescriptor_v2)
UNSUPPORTED(cuCtxGetSharedMemConfig)
UNSUPPORTED(cuCtxSetSharedMemConfig)
UNSUPPORTED(cuIpcCloseMemHandle)
UNSUPPORTED(cuIpcGetEventHandle)
UNSUPPORTED(cuIpcGetMemHandle)
UNSUPPORTED(cuIpcOpenEventHandle)
UNSUPPORTED(cuIpcOpenMemHandle)
UNSUPPORTED(cuIpcOpenMemHandle_v2)
UNSUPPORTED(cuLinkAddData_v2)
UNSUPPORTED(cuLinkAddFile_v2)
UNSUPPORTED(cuLinkComplete)
UNSUPPORTED(cuLinkCreate_v2)
UNSUPPORTED(cuLinkDestroy)
UNSUPPORTED(cuMemcpy3DPeer)
UNSUPPORTED(cuMemcpy3DPeerAsync)
UNSUPPORTED(cuMemcpyAtoA_v2)
UNSUPPORTED(cuMemcpyAtoD_v2)
UNSUPPORTED(cuMemcpyAtoH_v2)
UNSUPPORTED(cuMemcpyDtoA_v2)
UNSUPPORTED(cuMemcpyHtoA_v2)
UNSUPPORTED(cuModuleGetSurfRef)
UNSUPPORTED(cuModuleGetTexRef)
UNSUPPORTED(cuParamSetTexRef)
UNSUPPORTED(cuSurfRefGetArray)
UNSUPPORTED(cuSurfRefSetArray)
UNSUPPORTED(cuTexRefCreate)
UNSUPPORTED(cuTexRefDestroy)
UNSUPPORTED(cuTexRefGetAddressMode)
UNSUPPORTED(cuTexRefGetAddress_v2)
UNSUPPORTED(cuTexRefGetArray)
UNSUPPORTED(cuTexRefGetFilterMode)
UNSUPPORTED(cuTexRefGetFlags)
UNSUPPORTED(cuTexRefGetFormat)
UNSUPPORTED(cuTexRefSetAddress2D_v3)
UNSUPPORTED(cuTexRefSetAddressMode)
UNSUPPORTED(cuTexRefSetAddress_v2)
UNSUPPORTED(cuTexRefSetArray)
UNSUPPORTED(cuTexRefSetFilterMode)
UNSUPPORTED(cuTexRefSetFlags)
UNSUPPORTED(cuTexRefSetFormat)

/* NVIDIA's library has no other answer to it, also before cuInit. */
int cuProfilerInitialize(void);
int cuProfilerInitialize(void) {
    return CODE_NOT_SUPPORTED;
}
