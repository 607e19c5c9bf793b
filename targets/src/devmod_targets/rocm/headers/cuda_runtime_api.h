/* CUDA's functions for the host: those of HIP, which accept any arguments. devmod_cuda_names.h defines the names that HIP has too. */
#pragma once
#include <hip/hip_runtime_api.h>
#include <devmod_cuda_names.h>

#define cudaDeviceProp hipDeviceProp_t
#define cudaError hipError_t
#define cudaFuncCache hipFuncCache_t
#define cudaHostAllocDefault hipHostMallocDefault
#define cudaHostAllocMapped hipHostMallocMapped
#define cudaHostAllocPortable hipHostMallocPortable
#define cudaHostAllocWriteCombined hipHostMallocWriteCombined
#define CUDART_VERSION 12000
