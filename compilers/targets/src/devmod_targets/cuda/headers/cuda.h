#pragma once
#include <stdint.h>
#define CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)
#define CU_TENSOR_MAP_NUM_QWORDS 16
typedef uint32_t cuuint32_t;
typedef unsigned long long cuuint64_t, CUdeviceptr, CUtexObject, CUsurfObject;
typedef struct __attribute__((aligned(128))) CUtensorMap_st { cuuint64_t opaque[CU_TENSOR_MAP_NUM_QWORDS]; } CUtensorMap;
