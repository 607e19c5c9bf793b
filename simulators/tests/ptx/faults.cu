@ bounds off by one | 4 32 | f100 100 | out of bounds (write) ; block (3, 0, 0), thread (4, 0, 0): 4 bytes at y[100]; y is float32[100] of argument 1 ('y'), allocated at app.py:1
__global__ void k(float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        y[i] = 1;  //!
}
@ bounds read before the start | 1 64 | f64 | out of bounds (read) ; thread (0, 0, 0): 4 bytes at y[-1]
__global__ void k(float *y) {
    int i = threadIdx.x;
    float s = y[i - 1];  //!
    __syncthreads();
    y[i] = s;
}
@ bounds a shared array and its neighbour | 1 64 | f64 | out of bounds (write) ; thread (63, 0, 0): 4 bytes at s[64]; s is float32[64] in shared memory
__global__ void k(float *y) {
    __shared__ float s[64], t[64];
    int i = threadIdx.x;
    t[i] = 0;
    s[i + 1] = y[i];  //!
    __syncthreads();
    y[i] = s[63 - i | 1] + t[i];
}
@ bounds dynamic shared memory | 1 64 | f64 | shared=128 ; out of bounds (write) ; thread (32, 0, 0): 4 bytes at s[32]; s is float32[32] in shared memory ; 31 more threads
__global__ void k(float *y) {
    extern __shared__ float s[];
    int i = threadIdx.x;
    s[i] = y[i];  //!
    __syncthreads();
    y[i] = s[31 - i % 32];
}
@ bounds a row too many of a tile | 1 16,16 | f256 | out of bounds (write) ; thread (0, 15, 0): 4 bytes at s[255]; s is float32[255] in shared memory
__global__ void k(float *y) {
    __shared__ float s[15][17];
    s[threadIdx.y][threadIdx.x] = y[threadIdx.y * 16 + threadIdx.x];  //!
    __syncthreads();
    y[threadIdx.y * 16 + threadIdx.x] = s[14 - threadIdx.y % 15][threadIdx.x];
}
@ bounds an array of a thread | 1 32 | i32 3 | out of bounds (write) ; thread (8, 0, 0): 4 bytes at byte 32 of 32 bytes of local memory
__global__ void k(int *y, int n) {
    int a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int i = threadIdx.x;
    a[i == 8 ? 8 : i & 7] = y[i];  //!
    y[i] = a[(i + n) & 7];
}
@ bounds a constant array | 1 32 | f32 | out of bounds (read) ; thread (16, 0, 0): 4 bytes at table[16]; table is float32[16] in global memory
__constant__ float table[16];
__device__ float other[64];
__global__ void k(float *y) {
    y[threadIdx.x] = table[threadIdx.x];  //!
}
@ bounds a variable of the module | 1 32 | f32 | out of bounds (write) ; thread (20, 0, 0): 4 bytes at sums[20]; sums is float32[20] in global memory
__device__ float sums[20];
__global__ void k(float *y) {
    sums[threadIdx.x] = y[threadIdx.x];  //!
}
@ bounds a field of a struct | 1 32 | f120 | out of bounds (read) ; thread (30, 0, 0): 4 bytes at p[122]
struct P { float x, y, z, w; };
__global__ void k(P *p) {
    float v = p[threadIdx.x].z;  //!
    __syncthreads();
    if (threadIdx.x < 30) p[threadIdx.x].w = v;
}
@ bounds the tail of four elements a thread | 1 32 | f126 | out of bounds (write) ; thread (31, 0, 0): 16 bytes at y[124]; y is
__global__ void k(float4 *y) {
    y[threadIdx.x] = make_float4(1, 2, 3, 4);  //!
}
@ bounds elements of eight bytes | 1 32 | f60 | out of bounds (write) ; thread (30, 0, 0): 8 bytes at y[30]; y is float64[30]
__global__ void k(double *y) {
    y[threadIdx.x] = 1.5;  //!
}
@ bounds rows and columns exchanged | 1 8,4 | f20 4 5 | out of bounds (write) ; thread (5, 0, 0): 4 bytes at y[20]
__global__ void k(float *y, int rows, int columns) {
    int x = threadIdx.x, row = threadIdx.y;
    if (x < columns + 1 && row < rows)
        y[x * rows + row] = 1;  //!
}
@ bounds a jump into another array | 1 32 | f64 f64 | out of bounds (write) ; thread (3, 0, 0): 4 bytes at x[131]; x is float32[64] of argument 1 ('x')
__global__ void k(float *x, float *y) {
    int i = threadIdx.x;
    x[i == 3 ? 131 : i] = y[i];  //!
}
@ bounds an atomic update | 1 32 | z16 | out of bounds (atomic) ; thread (16, 0, 0): 4 bytes at bins[16]; bins is int32[16]
__global__ void k(int *bins) {
    atomicAdd(bins + threadIdx.x, 1);  //!
}
@ bounds bytes | 2 64 | b100 | out of bounds (write) ; block (1, 0, 0), thread (36, 0, 0): 1 byte at y[100]; y is uint8[100]
__global__ void k(unsigned char *y) {
    y[blockIdx.x * 64 + threadIdx.x] = 3;  //!
}
@ bounds a loop with one step too many | 1 8 | f64 8 | out of bounds (atomic) ; thread (7, 0, 0): 4 bytes at y[64]
__global__ void k(float *y, int n) {
    for (int i = 0; i <= n; i++)
        if (threadIdx.x * n + i < 60 || threadIdx.x == 7) atomicAdd(&y[threadIdx.x * n + i], 1.0f);  //!
}
@ bounds a null pointer | 1 32 | f32 p0 | out of bounds (write) ; thread (5, 0, 0): 4 bytes at
__global__ void k(float *y, int *p) {
    if (threadIdx.x == 5) *p = 3;  //!
    y[threadIdx.x] = 1;
}
@ bounds a function that is not inlined | 1 32 | f30 | out of bounds (write) ; thread (30, 0, 0): 4 bytes at y[30]
__device__ __noinline__ void put(float *p, float v) {
    *p = v;  //!
}
__global__ void k(float *y) {
    put(y + threadIdx.x, 2);
}
@ bounds an asynchronous copy | 1 32 | f31 f32 | out of bounds (read) ; thread (31, 0, 0): 1 byte at x[31]
#include <cuda_pipeline.h>
__global__ void k(float *x, float *y) {
    __shared__ float s[32];
    __pipeline_memcpy_async(s + threadIdx.x, x + threadIdx.x, 4);  //~
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[threadIdx.x] = s[31 - threadIdx.x];
}
@ bounds a wrong stride | 2 16 | f32 | out of bounds (write) ; block (1, 0, 0), thread (15, 0, 0): 4 bytes at y[32]
__global__ void k(float *y) {
    int i = blockIdx.x * 17 + threadIdx.x;
    y[i] = i;  //!
}
@ bounds far away | 1 32 | f32 1 | out of bounds (write) ; thread (2, 0, 0): 4 bytes at y[100000002]
__global__ void k(float *y, int far) {
    y[threadIdx.x + (threadIdx.x == 2 ? 100000000 * far : 0)] = 1;  //!
}
@ bounds the second of two arrays of a struct | 1 32 | f32 f24 | out of bounds (read) ; thread (24, 0, 0): 4 bytes at
__global__ void k(float *y, float *x) {
    float v = x[threadIdx.x];  //!
    y[threadIdx.x] = v;
}
@ align four elements | 1 16 | f128 | misaligned (write) ; thread (1, 0, 0): 16 bytes at y[2] ; is no multiple of 16 ; 7 more threads
__global__ void k(float *y) {
    int i = threadIdx.x;
    *(float4 *)(y + 2 * i) = make_float4(0, 0, 0, 0);  //!
}
@ align a number in bytes | 1 16 | b128 | misaligned (read) ; thread (1, 0, 0): 4 bytes at
__global__ void k(unsigned char *y) {
    int v = *(int *)(y + 5 * threadIdx.x);  //!
    __syncthreads();
    y[threadIdx.x] = v;
}
@ align shared memory | 1 8 | f32 | misaligned (write) ; thread (0, 0, 0): 8 bytes at s[1]
__global__ void k(float *y) {
    __shared__ __align__(16) float s[32];
    *(float2 *)(s + 2 * threadIdx.x + 1) = make_float2(1, 2);  //!
    __syncthreads();
    y[threadIdx.x] = s[(2 * threadIdx.x + 5) % 16 + 1];
}
@ align an atomic update | 1 4 | z32 | misaligned (atomic) ; thread (1, 0, 0): 8 bytes at
__global__ void k(char *y) {
    atomicAdd((unsigned long long *)(y + 12 * threadIdx.x), 1ull);  //!
}
@ free a read | 1 32 | f32 F32 | use after free (read) ; thread (0, 0, 0): 4 bytes at x[0]; x was float32[32] of argument 2 ('x'), allocated at app.py:2, freed at app.py:102
__global__ void k(float *y, float *x) {
    y[threadIdx.x] = x[threadIdx.x];  //!
}
@ free a write | 1 32 | F32 | use after free (write) ; y was float32[32] ; freed at app.py:101 ; 31 more threads
__global__ void k(float *y) {
    y[threadIdx.x] = 1;  //!
}
@ free an atomic update | 1 4 | F1 | use after free (atomic) ; 4 bytes at y[0]
__global__ void k(float *y) {
    atomicAdd(y, 1.0f);  //!
}
@ race a missing barrier | 1 128 | f128 | race (read and write) ; thread (0, 0, 0): s[127]; block (0, 0, 0), thread (127, 0, 0) writes it at kernel.cu:4
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    s[i] = y[i];
    y[i] = s[127 - i];  //!
}
@ race a missing second barrier in a loop | 1 128 | f128 | race (write and read) ; s[0]; block (0, 0, 0), thread (91, 0, 0) reads it at kernel.cu:8
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    float a = 0;
    for (int k = 0; k < 4; k++) {
        s[i] = y[i] + k;  //!
        __syncthreads();
        a += s[(i + 37) & 127];
    }
    y[i] = a;
}
@ race a counter without atomic | 1 128 | z1 | race ( ; c[0]
__global__ void k(int *y) {
    __shared__ int c;
    if (!threadIdx.x) c = 0;
    __syncthreads();
    c += threadIdx.x;  //!
    __syncthreads();
    if (!threadIdx.x) *y = c;
}
@ race atomic against plain read | 1 128 | z128 | race (read and write) ; c[0]
__global__ void k(int *y) {
    __shared__ int c;
    if (!threadIdx.x) c = 0;
    __syncthreads();
    atomicAdd(&c, 1);
    y[threadIdx.x] = c;  //!
}
@ race an exchange in a warp | 1 32 | f32 | race (read and write) ; thread (0, 0, 0): s[31]
__global__ void k(float *y) {
    __shared__ volatile float s[32];
    int i = threadIdx.x;
    s[i] = y[i];
    y[i] = s[31 - i];  //!
}
@ race a flag of different values | 1 128 | f128 | race (write and write) ; flag[0]
__global__ void k(float *y) {
    __shared__ int flag;
    int i = threadIdx.x;
    if (!i) flag = 0;
    __syncthreads();
    if (y[i] > 50) flag = i;  //!
    __syncthreads();
    y[i] = flag;
}
@ race a stencil in place | 1 64 | f64 | race ( ; s[
__global__ void k(float *y) {
    __shared__ float s[66];
    int i = threadIdx.x;
    s[i + 1] = y[i];
    if (i < 2) s[i * 65] = 0;
    __syncthreads();
    s[i + 1] = s[i] + s[i + 2];  //!
    __syncthreads();
    y[i] = s[i + 1];
}
@ race a transposed tile | 1 16,16 | f256 | race (read and write) ; t[
__global__ void k(float *y) {
    __shared__ float t[16][17];
    int x = threadIdx.x, r = threadIdx.y;
    t[r][x] = y[r * 16 + x];
    y[r * 16 + x] = t[x][r];  //!
}
@ race a reduction without its last barriers | 1 128 | f128 | race ( ; s[
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    s[i] = y[i];
    __syncthreads();
    for (int d = 64; d; d >>= 1) {
        if (i < d) s[i] += s[i + d];  //!
        if (d > 32) __syncthreads();
    }
    if (!i) y[0] = s[0];
}
@ race two barriers with different numbers | 1 64 | f64 | race ( ; s[0]
__global__ void k(float *y) {
    __shared__ float s[32];
    int i = threadIdx.x;
    if (i < 32) {
        s[i] = y[i];  //!
        asm volatile("bar.sync 1, 32;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 32;" ::: "memory");
        y[i] = s[i - 32];  //!
    }
}
@ race a scan in place | 1 128 | f128 | race ( ; s[
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    s[i] = y[i];
    for (int d = 1; d < 128; d *= 2) {
        __syncthreads();
        float t = i >= d ? s[i - d] : 0;
        s[i] += t;  //!
    }
    y[i] = s[i];
}
@ race a slot of two warps | 1 64 | f64 | race (write and write) ; s[0]
__global__ void k(float *y) {
    __shared__ float s[32];
    int i = threadIdx.x;
    s[i & 31] = y[i];  //!
    __syncthreads();
    y[i] = s[i & 31];
}
@ race a histogram | 1 128 | i128 | race ( ; h[
__global__ void k(int *y) {
    __shared__ int h[16];
    int i = threadIdx.x;
    if (i < 16) h[i] = 0;
    __syncthreads();
    h[y[i] & 15]++;  //!
    __syncthreads();
    if (i < 16) y[i] = h[i];
}
@ race a producer without a barrier | 1 64 | f64 | race ( ; s[0]
__global__ void k(float *y) {
    __shared__ float s[32];
    int i = threadIdx.x;
    if (i < 32) s[i] = y[i];  //!
    else y[i] = s[i - 32];  //!
}
@ race four elements and one | 1 32 | f128 | race ( ; s[
__global__ void k(float *y) {
    __shared__ __align__(16) float s[128];
    int i = threadIdx.x;
    *(float4 *)(s + 4 * i) = *(float4 *)(y + 4 * i);
    y[i] = s[i];  //!
}
@ race the leader writes again | 1 64 | f64 | race (write and read) ; thread (0, 0, 0): total[0]
__global__ void k(float *y) {
    __shared__ float total;
    for (int k = 0; k < 2; k++) {
        if (!threadIdx.x) total = y[k];  //!
        __syncthreads();
        y[threadIdx.x + 0] += total;
    }
}
@ race bytes of a word | 1 64 | b64 | race (read and write) ; s[
__global__ void k(unsigned char *y) {
    __shared__ unsigned char s[64];
    int i = threadIdx.x;
    s[i] = y[i];
    y[i] = s[i ^ 1];  //!
}
@ race a synchronized half of a warp | 1 32 | f32 | race (read and write) ; thread (16, 0, 0): s[0]
__global__ void k(float *y) {
    __shared__ float s[32];
    int i = threadIdx.x;
    s[i] = y[i];
    if (i < 16) __syncwarp(0xffff);
    else y[i] = s[i - 16];  //!
}
@ race dynamic shared memory | 1 64 | f64 | shared=256 ; race (read and write) ; s[63]
__global__ void k(float *y) {
    extern __shared__ float s[];
    s[threadIdx.x] = y[threadIdx.x];
    y[threadIdx.x] = s[63 - threadIdx.x];  //!
}
@ race an atomic and a plain store | 1 64 | z64 | race (write and write) ; c[0]
__global__ void k(int *y) {
    __shared__ int c;
    if (!threadIdx.x) c = 0;
    __syncthreads();
    atomicAdd(&c, y[threadIdx.x]);
    if (threadIdx.x == 40) c = 7;  //!
    __syncthreads();
    y[threadIdx.x] = c;
}
@ race a stencil in place in global memory | 4 64 | f256 | race ( ; y[
__global__ void k(float *y) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i > 0 && i < 255) y[i] = y[i - 1] + y[i + 1];  //!
}
@ race a histogram in global memory | 4 64 | i256 z16 | race ( ; bins[
__global__ void k(const int *x, int *bins) {
    bins[x[blockIdx.x * 64 + threadIdx.x] & 15] += 1;  //!
}
@ race blocks that write one element | 4 32 | f32 | race (write and write) ; y[0]
__global__ void k(float *y) {
    if (!threadIdx.x) y[0] = blockIdx.x;  //!
}
@ race the result of another block | 2 32 | f64 | race (read and write) ; y[
__global__ void k(float *y) {
    int i = blockIdx.x * 32 + threadIdx.x;
    y[i] = i;
    y[63 - i] += y[(i + 32) % 64];  //!
}
@ race a sum without atomic | 2 32 | f64 f1 | race ( ; sum[0]
__global__ void k(float *x, float *sum) {
    *sum += x[blockIdx.x * 32 + threadIdx.x];  //!
}
@ race a queue without atomic | 1 64 | i64 z65 | race ( ; queue[0]
__global__ void k(int *x, int *queue) {
    if (x[threadIdx.x] & 1) {
        int place = queue[0];
        queue[0] = place + 1;  //!
        queue[1 + (place & 63)] = threadIdx.x;
    }
}
@ race a scatter with collisions | 1 64 | i64 f64 | race (write and write) ; y[
__global__ void k(int *to, float *y) {
    y[to[threadIdx.x] / 2] = threadIdx.x;  //!
}
@ race a matrix transposed in place | 1 8,8 | f64 | race ( ; y[
__global__ void k(float *y) {
    int a = threadIdx.y * 8 + threadIdx.x, b = threadIdx.x * 8 + threadIdx.y;
    float v = y[a];
    y[b] = v;  //!
}
@ race a result that threads of a block exchange in global memory | 1 64 | f64 | race (read and write) ; y[
__global__ void k(float *y) {
    int i = threadIdx.x;
    y[i] = i;
    float v = y[63 - i];  //!
    __syncthreads();
    y[i] = v;
}
@ race the last block without atomic | 4 32 | f128 z1 f4 | race ( ; part[
__global__ void k(float *x, int *count, float *part) {
    if (!threadIdx.x) part[blockIdx.x] = x[blockIdx.x * 32];
    if (!threadIdx.x && blockIdx.x == 3) x[0] = part[0] + part[1] + part[2];  //!
}
@ sync a barrier in a branch of threads | 1 64 | f64 | divergent barrier ; threads wait at kernel.cu
__global__ void k(float *y) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = y[i];
    if (i < 40) {
        __syncthreads();  //~
        y[i] = s[39 - i];
    } else {
        __syncthreads();  //~
        y[i] = 2;
    }
}
@ sync a barrier in a loop of different lengths | 1 64 | f64 | divergent barrier
__global__ void k(float *y) {
    int i = threadIdx.x;
    for (int k = 0; k < (i < 32 ? 2 : 3); k++) {
        y[i] += k;
        __syncthreads();  //~
    }
    y[i] *= 2;
    __syncthreads();  //~
    y[i] += 1;
}
@ sync a shuffle in a branch | 1 32 | f32 | absent lanes ; thread (0, 0, 0): its mask 0xffffffff names lane 31, which is absent ; 19 more threads
__global__ void k(float *y) {
    int i = threadIdx.x;
    float v = y[i];
    if (i < 20) {
        v += __shfl_xor_sync(~0u, v, 1);  //!
        v *= v;
    } else {
        v = v * 3 - 1;
        if (v > 40) v -= y[i + 0] * 2;
    }
    y[i] = v;
}
@ sync a ballot in a branch | 1 32 | i32 | deadlock ; 16 wait at kernel.cu:4 ; 16 wait at kernel.cu:5
__global__ void k(int *y) {
    int i = threadIdx.x, v = y[i];
    if (i & 1) v = v * 7 % 5 + y[i ^ 1];
    else v = __ballot_sync(~0u, v > 3);  //!
    __syncwarp();
    y[i] = v;
}
@ sync a barrier that too few threads reach | 1 64 | f64 | deadlock ; waits for threads that never come: 64 wait at kernel.cu:2
__global__ void k(float *y) {
    asm volatile("bar.sync 1, 96;" ::: "memory");  //!
    y[threadIdx.x] = 1;
}
@ sync two warps at two barriers | 1 64 | f64 | deadlock ; 32 wait at
__global__ void k(float *y) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;" ::: "memory");  //~
    else asm volatile("bar.sync 2, 64;" ::: "memory");  //~
    y[threadIdx.x] = 1;
}
@ init,copies a copy of shared memory | 1 128 | f128 | uninitialised (copy) ; thread (100, 0, 0): depends on s[100], which nothing wrote ; 27 more threads
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    if (i < 100) s[i] = y[i];
    __syncthreads();
    y[i] = s[i];  //!
}
@ init,copies a copy of global memory | 1 128 | f128 n128 | uninitialised (copy) ; thread (100, 0, 0): depends on z[100]
__global__ void k(float *y, float *z) {
    int i = threadIdx.x;
    if (i < 100) z[i] = y[i];
    __syncthreads();
    y[i] = z[i];  //!
}
@ init a branch | 1 32 | f32 n32 | uninitialised (branch) ; depends on z[0] ; 31 more threads
__global__ void k(float *y, float *z) {
    if (z[threadIdx.x] > 3)  //!
        y[threadIdx.x] = sinf(y[threadIdx.x]);
}
@ init an address | 1 32 | f32 m32 | uninitialised (address) ; depends on z[0]
__global__ void k(float *y, int *z) {
    y[z[threadIdx.x] & 31] = 1;  //!
}
@ init an index that another array holds | 1 32 | i32 | uninitialised (address) ; depends on s[0], which nothing wrote
__global__ void k(int *x) {
    __shared__ int t[32], s[32];
    t[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = t[s[threadIdx.x] & 31];  //!
}
@ init a shuffle | 1 32 | i32 m32 | uninitialised (shuffle) ; depends on z[0]
__global__ void k(int *y, int *z) {
    y[threadIdx.x] = __shfl_xor_sync(~0u, z[threadIdx.x], 1);  //!
}
@ init a result that is stored | 1 128 | f128 | uninitialised (stored result) ; thread (100, 0, 0): depends on s[100]
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    if (i < 100) s[i] = y[i];
    __syncthreads();
    y[i] = s[i] * 2;  //!
}
@ init an atomic update | 1 32 | m8 | uninitialised (atomic) ; updates z[0], which nothing wrote
__global__ void k(int *z) {
    atomicAdd(z + (threadIdx.x & 7), 1);  //!
}
@ init a counter in shared memory | 1 32 | z1 | uninitialised (atomic) ; updates c[0]
__global__ void k(int *y) {
    __shared__ int c;
    atomicAdd(&c, 1);  //!
    __syncthreads();
    if (!threadIdx.x) *y = c;
}
@ init an array of a thread | 1 32 | f32 1 | uninitialised ( ; local memory, which nothing wrote
__global__ void k(float *y, int n) {
    float a[8];
    int i = threadIdx.x;
    for (int j = 0; j < 8; j++)
        if (j != 5) a[(j + n) & 7] = y[i] + j;
    y[i] = a[(i + n) & 7] + 1;  //!
}
@ init a sum over the tail of a tile | 1 32 | f32 20 | uninitialised ( ; depends on s[
__global__ void k(float *y, int n) {
    __shared__ float s[32];
    int i = threadIdx.x;
    if (i < n) s[i] = y[i];
    __syncthreads();
    float a = 0;
    for (int j = 0; j < 32; j++) a += s[j];
    y[i] = a;  //!
}
@ init the end of a loop | 1 32 | f32 m1 | uninitialised (branch) ; depends on n[0]
__global__ void k(float *y, int *n) {
    float a = 0;
    for (int j = 0; j < *n; j++)  //!
        a += sinf(y[j & 31]);
    y[threadIdx.x] = a;
}
@ init the chosen of two values | 1 32 | f32 n32 | uninitialised (stored result) ; thread (16, 0, 0): depends on z[16] ; 15 more threads
__global__ void k(float *y, float *z) {
    int i = threadIdx.x;
    float a = y[i], b = z[i];
    y[i] = (i < 16 ? a : b) + 1;  //!
}
@ init through a function | 1 32 | f32 n32 | uninitialised (stored result) ; depends on
__device__ __noinline__ float half_of(float v) {
    return v / 2;
}
__global__ void k(float *y, float *z) {
    y[threadIdx.x] = half_of(z[threadIdx.x]) + 1;  //!
}
