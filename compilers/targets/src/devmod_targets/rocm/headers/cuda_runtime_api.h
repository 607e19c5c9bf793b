/* CUDA's functions for the host: those of HIP, which accept any arguments. */
#pragma once
#include <hip/hip_runtime_api.h>
#include <devmod_cuda_names.h>

#define cudaError hipError_t
#define CUDART_VERSION 12000
