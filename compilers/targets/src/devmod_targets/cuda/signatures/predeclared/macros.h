#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __EDG__ 1
#define __NVCC_DIAG_PRAGMA_SUPPORT__ 1
#define __CUDA_RUNTIME_H__
#define __STDC_HOSTED__ 1
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((device))
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __block_size__(...)
#define __maxnreg__(...)
#define __nv_pure__
#define __forceinline__ inline
#define __inline_hint__
#define __specialization_static static
#define __device_builtin__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __location__(a) __attribute__((a))
#define NULL 0

typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef long clock_t;
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
