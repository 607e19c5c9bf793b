#pragma once
#include <hip/hip_runtime.h>
#ifdef DEVMOD_COMPLETE
#include <cuda_runtime_api.h>
#endif
