@ bounds off by one / a test of the bounds | 4 32 | float *y = f100, int n = 100 | out of bounds (write) ; block (3, 0, 0), thread (4, 0, 0): 4 bytes at y[100]; y is float32[100] of argument 1 ('y'), allocated at app.py:1
    if (at <= n)  //wrong
    if (at < n)  //right
        y[at] = 1;  //!
@ bounds read before the start / a halo with a test | 1 64 | float *y = f64 | out of bounds (read) ; thread (0, 0, 0): 4 bytes at y[-1]
    float s = y[i - 1];  //wrong!
    float s = i ? y[i - 1] : 0;  //right
    __syncthreads();
    y[i] = s;
@ bounds a shared array and its neighbour / one element more in shared memory | 1 64 | float *y = f64 | out of bounds (write) ; thread (63, 0, 0): 4 bytes at s[64]; s is float32[64] in shared memory
    __shared__ float s[64], t[64];  //wrong
    __shared__ float s[65], t[64];  //right
    t[i] = 0;
    s[i + 1] = y[i];  //!
    __syncthreads();
    y[i] = s[63 - i | 1] + t[i];
@ bounds before the first shared array | 1 64 | float *y = f64, int n = -1 | out of bounds (read) ; thread (0, 0, 0): 4 bytes at s[-1]; s is float32[64] in shared memory
    __shared__ float s[64];
    s[i] = y[i];
    __syncthreads();
    y[i] = s[i + n];  //!
@ bounds dynamic shared memory | 1 64 | float *y = f64 | shared=128 ; out of bounds (write) ; thread (32, 0, 0): 4 bytes at s[32]; s is float32[32] in shared memory ; 31 more threads
    extern __shared__ float s[];
    s[i] = y[i];  //!
    __syncthreads();
    y[i] = s[31 - i % 32];
@ bounds a row too many of a tile | 1 16,16 | float *y = f256 | out of bounds (write) ; thread (0, 15, 0): 4 bytes at s[255]; s is float32[255] in shared memory
    __shared__ float s[15][17];
    s[threadIdx.y][i] = y[threadIdx.y * 16 + i];  //!
    __syncthreads();
    y[threadIdx.y * 16 + i] = s[14 - threadIdx.y % 15][i];
@ bounds an array of a thread / an array of a thread | 1 32 | int *y = i32, int n = 3 | out of bounds (write) ; thread (8, 0, 0): 4 bytes at byte 32 of 32 bytes of local memory
    int a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    a[i == 8 ? 8 : i & 7] = y[i];  //wrong!
    a[i & 7] = y[i];  //right
    y[i] = a[(i + n) & 7];
@ bounds a constant array / a constant array and a variable | 1 32 | float *y = f32 | out of bounds (read) ; thread (16, 0, 0): 4 bytes at table[16]; table is float32[16] in global memory
__constant__ float table[16];  //wrong
__constant__ float table[32];  //right
__device__ float other[64];
    other[i] = y[i] + table[i];  //!
@ bounds a variable of the module | 1 32 | float *y = f32 | out of bounds (write) ; thread (20, 0, 0): 4 bytes at sums[20]; sums is float32[20] in global memory
__device__ float sums[20];
    sums[i] = y[i];  //!
@ bounds a field of a struct | 1 32 | P *p = f120 | out of bounds (read) ; thread (30, 0, 0): 4 bytes at p[122]
struct P { float x, y, z, w; };
    float v = p[i].z;  //!
    __syncthreads();
    if (i < 30) p[i].w = v;
@ bounds the tail of four elements a thread / four elements with a tail | 1 32 | float *y = f126, int n = 126 | out of bounds (write) ; thread (31, 0, 0): 16 bytes at y[124]; y is
    int first = i * 4;
    if (first + 3 < n)  //right
        *(float4 *)(y + first) = make_float4(0, 1, 2, 3);  //!
    else  //right
        for (; first < n; first++) y[first] = first;  //right
@ bounds elements of eight bytes | 1 32 | double *y = f60 | out of bounds (write) ; thread (30, 0, 0): 8 bytes at y[30]; y is float64[30]
    y[i] = 1.5;  //!
@ bounds rows and columns exchanged | 1 8,4 | float *y = f20, int rows = 4, int columns = 5 | out of bounds (write) ; thread (5, 0, 0): 4 bytes at y[20]
    if (i < columns + 1 && threadIdx.y < rows) y[i * rows + threadIdx.y] = 1;  //!
@ bounds a jump into another array | 1 32 | float *x = f64, float *y = f64 | out of bounds (write) ; thread (3, 0, 0): 4 bytes at x[131]; x is float32[64] of argument 1 ('x')
    x[i == 3 ? 131 : i] = y[i];  //!
@ bounds an atomic update | 1 32 | int *bins = z16 | out of bounds (atomic) ; thread (16, 0, 0): 4 bytes at bins[16]; bins is int32[16]
    atomicAdd(bins + i, 1);  //!
@ bounds bytes | 2 64 | unsigned char *y = b100 | out of bounds (write) ; block (1, 0, 0), thread (36, 0, 0): 1 byte at y[100]; y is uint8[100]
    y[at] = 3;  //!
@ bounds a loop with one step too many | 1 8 | float *y = f64, int n = 8 | out of bounds (atomic) ; thread (7, 0, 0): 4 bytes at y[64]
    for (int k = 0; k <= n; k++)
        if (i * n + k < 60 || i == 7) atomicAdd(&y[i * n + k], 1.0f);  //!
@ bounds a null pointer / a null pointer that is not used | 1 32 | float *y = f32, int *p = p0 | out of bounds (write) ; thread (5, 0, 0): 4 bytes at
    if (i == 5) *p = 3;  //wrong!
    if (p) *p = 3;  //right
    y[i] = 1;
@ bounds a function that is not inlined / a function that is not inlined | 1 32 | float *y = f30 | out of bounds (write) ; thread (30, 0, 0): 4 bytes at y[30]
__device__ __noinline__ float put(float *p, float v) { return *p = v; }  //!
    if (i < 30)  //right
        y[i] = put(y + i, 2) + 1;
@ bounds an asynchronous copy / asynchronous copies | 1 32 | float *x = f31, float *y = f32 | out of bounds (read) ; thread (31, 0, 0): 1 byte at x[31]
#include <cuda_pipeline.h>
    __shared__ float s[32];
    if (i < 31)  //right
        __pipeline_memcpy_async(s + i, x + i, 4);  //~
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[i] = s[31 - i];
@ bounds a wrong stride | 2 16 | float *y = f32 | out of bounds (write) ; block (1, 0, 0), thread (15, 0, 0): 4 bytes at y[32]
    y[blockIdx.x * 17 + i] = i;  //!
@ bounds far away | 1 32 | float *y = f32, int far = 1 | out of bounds (write) ; thread (2, 0, 0): 4 bytes at y[100000002]
    y[i + (i == 2 ? 100000000 * far : 0)] = 1;  //!
@ bounds the second of two arrays of a struct | 1 32 | float *y = f32, float *x = f24 | out of bounds (read) ; thread (24, 0, 0): 4 bytes at
    y[i] = x[i];  //!
@ align four elements / aligned vectors | 1 16 | float *y = f128 | misaligned (write) ; thread (1, 0, 0): 16 bytes at y[2] ; is no multiple of 16 ; 7 more threads
    *(float4 *)(y + 2 * i) = make_float4(0, 0, 0, 0);  //wrong!
    *(float4 *)(y + 4 * i) = make_float4(0, 0, 0, 0);  //right
    *(float2 *)(y + 64 + 2 * i) = make_float2(1, 1);
@ align a number in bytes / bytes at any address | 1 16 | unsigned char *y = b128 | misaligned (read) ; thread (1, 0, 0): 4 bytes at
    int v = *(int *)(y + 5 * i);  //wrong!
    int v = y[5 * i];  //right
    __syncthreads();
    y[i] = v;
@ align shared memory | 1 8 | float *y = f32 | misaligned (write) ; thread (0, 0, 0): 8 bytes at s[1]
    __shared__ __align__(16) float s[32];
    *(float2 *)(s + 2 * i + 1) = make_float2(1, 2);  //!
    __syncthreads();
    y[i] = s[(2 * i + 5) % 16 + 1];
@ align an atomic update | 1 4 | char *y = z32 | misaligned (atomic) ; thread (1, 0, 0): 8 bytes at
    atomicAdd((unsigned long long *)(y + 12 * i), 1ull);  //!
@ free a read | 1 32 | float *y = f32, float *x = F32 | use after free (read) ; thread (0, 0, 0): 4 bytes at x[0]; x was float32[32] of argument 2 ('x'), allocated at app.py:2, freed at app.py:102
    y[i] = x[i];  //!
@ free a write | 1 32 | float *y = F32 | use after free (write) ; y was float32[32] ; freed at app.py:101 ; 31 more threads
    y[i] = 1;  //!
@ free an atomic update | 1 4 | float *y = F1 | use after free (atomic) ; 4 bytes at y[0]
    atomicAdd(y, 1.0f);  //!
@ race a missing barrier / a barrier | 1 128 | float *y = f128 | race (read and write) ; thread (0, 0, 0): s[127]; block (0, 0, 0), thread (127, 0, 0) writes it at kernel.cu:3
    __shared__ float s[128];
    s[i] = y[i];
    __syncthreads();  //right
    y[i] = s[127 - i];  //!
@ race a missing second barrier in a loop / two barriers in a loop | 1 128 | float *y = f128 | race (write and read) ; s[0]; block (0, 0, 0), thread (91, 0, 0) reads it at kernel.cu:7
    __shared__ float s[128];
    float a = 0;
    for (int k = 0; k < 4; k++) {
        s[i] = y[i] + k;  //!
        __syncthreads();
        a += s[(i + 37) & 127];
        __syncthreads();  //right
    }
    y[i] = a;
@ race a counter without atomic / an atomic counter | 1 128 | int *y = z1 | race ( ; c[0]
    __shared__ int c;
    if (!i) c = 0;
    __syncthreads();
    c += i;  //wrong!
    atomicAdd(&c, i);  //right
    __syncthreads();
    if (!i) *y = c;
@ race atomic against plain read / a counter that is read behind a barrier | 1 128 | int *y = z128 | race (read and write) ; c[0]
    __shared__ int c;
    if (!i) c = 0;
    __syncthreads();
    atomicAdd(&c, 1);
    __syncthreads();  //right
    y[i] = c;  //!
@ race an exchange in a warp / an exchange in a warp with __syncwarp | 1 32 | float *y = f32 | race (read and write) ; thread (0, 0, 0): s[31]
    __shared__ volatile float s[32];
    s[i] = y[i];
    __syncwarp();  //right
    y[i] = s[31 - i];  //!
@ race a flag of different values / a flag with one value | 1 128 | float *y = f128 | race (write and write) ; flag[0]
    __shared__ int flag;
    if (!i) flag = 0;
    __syncthreads();
    if (y[i] > 50) flag = i;  //wrong!
    if (y[i] > 50) flag = 1;  //right
    __syncthreads();
    y[i] = flag;
@ race a stencil in place | 1 64 | float *y = f64 | race ( ; s[
    __shared__ float s[66];
    s[i + 1] = y[i];
    if (i < 2) s[i * 65] = 0;
    __syncthreads();
    s[i + 1] = s[i] + s[i + 2];  //!
    __syncthreads();
    y[i] = s[i + 1];
@ race a transposed tile / a transposed tile | 4,4 8,8 | const float *x = f1024, float *y = f1024 | race (read and write) ; t[
    __shared__ float t[8][9];
    int c = blockIdx.x * 8 + i, r = blockIdx.y * 8 + threadIdx.y;
    t[threadIdx.y][i] = x[r * 32 + c];
    __syncthreads();  //right
    c = blockIdx.y * 8 + i, r = blockIdx.x * 8 + threadIdx.y;
    y[r * 32 + c] = t[i][threadIdx.y];  //!
@ race a reduction without its last barriers / a reduction with barriers | 2 128 | float *y = f256 | race ( ; s[
    __shared__ float s[128];
    s[i] = y[at];
    __syncthreads();
    for (int d = 64; d; d >>= 1) {
        if (i < d) s[i] += s[i + d];  //!
        if (d > 32)  //wrong
            __syncthreads();
    }
    if (!i) y[at] = s[0];
@ race two barriers with different numbers / named barriers, producer and consumer | 1 64 | float *y = f64 | race ( ; s[0]
    __shared__ float s[32];
    if (i < 32) {
        s[i] = y[i];  //!
        asm volatile("bar.sync 1, 32;" ::: "memory");  //wrong
        asm volatile("bar.arrive 1, 64;" ::: "memory");  //right
    } else {
        asm volatile("bar.sync 2, 32;" ::: "memory");  //wrong
        asm volatile("bar.sync 1, 64;" ::: "memory");  //right
        y[i] = s[i - 32];  //!
    }
@ race a scan in place / a scan with barriers | 1 128 | float *y = f128 | race ( ; s[
    __shared__ float s[128];
    s[i] = y[i];
    for (int d = 1; d < 128; d *= 2) {
        __syncthreads();
        float t = i >= d ? s[i - d] : 0;
        __syncthreads();  //right
        s[i] += t;  //!
    }
    y[i] = s[i];
@ race a slot of two warps | 1 64 | float *y = f64 | race (write and write) ; s[0]
    __shared__ float s[32];
    s[i & 31] = y[i];  //!
    __syncthreads();
    y[i] = s[i & 31];
@ race a histogram / a histogram | 4 64 | const int *x = i256, int *bins = z16 | race ( ; h[
    __shared__ int h[16];
    if (i < 16) h[i] = 0;
    __syncthreads();
    h[x[at] & 15]++;  //wrong!
    atomicAdd(&h[x[at] & 15], 1);  //right
    __syncthreads();
    if (i < 16) atomicAdd(&bins[i], h[i]);
@ race a producer without a barrier | 1 64 | float *y = f64 | race ( ; s[0]
    __shared__ float s[32];
    if (i < 32) s[i] = y[i];  //!
    else y[i] = s[i - 32];  //!
@ race four elements and one | 1 32 | float *y = f128 | race ( ; s[
    __shared__ __align__(16) float s[128];
    *(float4 *)(s + 4 * i) = *(float4 *)(y + 4 * i);
    y[i] = s[i];  //!
@ race the leader writes again | 1 64 | float *y = f64 | race (write and read) ; thread (0, 0, 0): total[0]
    __shared__ float total;
    for (int k = 0; k < 2; k++) {
        if (!i) total = y[k];  //!
        __syncthreads();
        y[i + 0] += total;
    }
@ race bytes of a word / bytes of a word by neighbours | 2 64 | unsigned char *y = b128 | race (read and write) ; s[
    __shared__ unsigned char s[64];
    s[i] = y[at];
    s[i] += 1;
    y[at] = s[i ^ 1];  //wrong!
    y[at] = s[i] * 2;  //right
@ race a synchronized half of a warp | 1 32 | float *y = f32 | race (read and write) ; thread (16, 0, 0): s[0]
    __shared__ float s[32];
    s[i] = y[i];
    if (i < 16) __syncwarp(0xffff);
    else y[i] = s[i - 16];  //!
@ race dynamic shared memory / dynamic shared memory of two arrays | 1 64 | float *y = f64 | shared=512 ; race (read and write) ; s[63]
    extern __shared__ float s[];
    float *t = s + 64;
    s[i] = y[i];
    t[i] = 2;
    __syncthreads();  //right
    y[i] = s[63 - i] + t[63 - i];  //!
@ race an atomic and a plain store | 1 64 | int *y = z64 | race (write and write) ; c[0]
    __shared__ int c;
    if (!i) c = 0;
    __syncthreads();
    atomicAdd(&c, y[i]);
    if (i == 40) c = 7;  //!
    __syncthreads();
    y[i] = c;
@ race a stencil in place in global memory / a stencil with two arrays | 4 64 | const float *x = f256, float *y = f256 | race ( ; y[
    if (at > 0 && at < 255) y[at] = y[at - 1] + y[at + 1];  //wrong!
    if (at > 0 && at < 255) y[at] = x[at - 1] + x[at + 1];  //right
@ race a histogram in global memory | 4 64 | const int *x = i256, int *bins = z16 | race ( ; bins[
    bins[x[at] & 15] += 1;  //!
@ race blocks that write one element | 4 32 | float *y = f32 | race (write and write) ; y[0]
    if (!i) y[0] = blockIdx.x;  //!
@ race the result of another block | 2 32 | float *y = f64 | race (read and write) ; y[
    y[at] = at;
    y[63 - at] += y[(at + 32) % 64];  //!
@ race a sum without atomic / atomics on one element | 4 64 | int *count = z1, float *sum = f1 | race ( ; sum[0]
    atomicAdd(count, 1);
    *sum += i;  //wrong!
    atomicAdd(sum, 1.0f);  //right
    atomicMax(count, 3);
@ race a queue without atomic / a queue | 2 64 | const int *x = i128, int *queue = z129 | race ( ; queue[0]
    if (x[at] & 1) {
        int place = queue[0];  //wrong
        queue[0] = place + 1;  //wrong!
        int place = atomicAdd(queue, 1);  //right
        queue[1 + (place & 127)] = i;
    }
@ race a scatter with collisions | 1 64 | int *to = i64, float *y = f64 | race (write and write) ; y[
    y[to[i] / 2] = i;  //!
@ race a matrix transposed in place | 1 8,8 | float *y = f64 | race ( ; y[
    float v = y[threadIdx.y * 8 + i];
    y[i * 8 + threadIdx.y] = v;  //!
@ race a result that threads of a block exchange in global memory / halves of an array by two blocks | 2 64 | float *y = f128 | race (read and write) ; y[
    float *mine = y + blockIdx.x * 64;
    mine[i] = i;
    __syncthreads();  //right
    float v = mine[63 - i];  //!
    __syncthreads();
    mine[i] = v;
@ race the last block without atomic / the last block | 4 32 | float *x = f128, unsigned *count = z1, float *part = f4, float *out = f1 | race ( ; part[
    __shared__ bool last;
    float v = x[at];
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (!i) {
        part[blockIdx.x] = v;
        __threadfence();
        last = blockIdx.x == 3;  //wrong
        last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;  //right
    }
    __syncthreads();
    if (last && !i) {
        float sum = 0;
        for (int k = 0; k < 4; k++) sum += part[k];  //!
        *out = sum;
    }
@ sync a barrier in a branch of threads / a uniform branch with barriers | 1 64 | float *y = f64, int n = 5 | divergent barrier ; threads wait at kernel.cu
    __shared__ float s[64];
    s[i] = y[i];
    if (i < 40) {  //wrong
    if (n > 3) {  //right
        __syncthreads();  //~
        y[i] = s[39 - i & 63];
    } else {
        __syncthreads();  //~
        y[i] = 2;
    }
@ sync a barrier in a loop of different lengths / a barrier in a loop of one length | 2 64 | float *y = f128, int n = 3 | divergent barrier
    __shared__ float s[64];
    s[i] = i;
    for (int k = 0; k < (i < 32 ? 2 : 3); k++) {  //wrong
    for (int k = 0; k < n + blockIdx.x; k++) {  //right
        __syncthreads();  //~
        float v = s[(i + 1) & 63];
        __syncthreads();  //~
        s[i] = v;
    }
    __syncthreads();  //~
    y[at] = s[i];
@ sync a shuffle in a branch / a shuffle in a branch with its mask | 1 32 | float *y = f32 | absent lanes ; thread (0, 0, 0): its mask 0xffffffff names lane 31, which is absent ; 19 more threads
    float v = y[i];
    if (i < 20) {
        v += __shfl_xor_sync(~0u, v, 1);  //wrong!
        v += __shfl_xor_sync(0xfffff, v, 1);  //right
        v *= v;
    } else {
        v = v * 3 - 1;
        if (v > 40) v -= y[i + 0] * 2;
    }
    y[i] = v;
@ sync a ballot in a branch | 1 32 | int *y = i32 | deadlock ; 16 wait at kernel.cu:4 ; 16 wait at kernel.cu:5
    int v = y[i];
    if (i & 1) v = v * 7 % 5 + y[i ^ 1];
    else v = __ballot_sync(~0u, v > 3);  //!
    __syncwarp();
    y[i] = v;
@ sync a barrier that too few threads reach | 1 64 | float *y = f64 | deadlock ; waits for threads that never come: 64 wait at kernel.cu:2
    asm volatile("bar.sync 1, 96;" ::: "memory");  //!
    y[i] = 1;
@ sync two warps at two barriers | 1 64 | float *y = f64 | deadlock ; 32 wait at
    if (i < 32) asm volatile("bar.sync 1, 64;" ::: "memory");  //~
    else asm volatile("bar.sync 2, 64;" ::: "memory");  //~
    y[i] = 1;
@ init,copies a copy of shared memory / shared memory that is written before | 1 128 | float *y = f128 | uninitialised (copy) ; thread (100, 0, 0): depends on s[100], which nothing wrote ; 27 more threads
    __shared__ float s[128];
    if (i < 100) s[i] = y[i];  //wrong
    s[i] = i < 100 ? y[i] : 0;  //right
    __syncthreads();
    y[i] = s[i];  //!
@ init,copies a copy of global memory / global memory that is written before | 1 128 | float *y = f128, float *z = n128 | uninitialised (copy) ; thread (100, 0, 0): depends on z[100]
    if (i < 100)  //wrong
        z[i] = y[i];
    __syncthreads();
    y[i] = z[i];  //!
@ init a branch | 1 32 | float *y = f32, float *z = n32 | uninitialised (branch) ; depends on z[0] ; 31 more threads
    if (z[i] > 3)  //!
        y[i] = sinf(y[i]);
@ init an address | 1 32 | float *y = f32, int *z = m32 | uninitialised (address) ; depends on z[0]
    y[z[i] & 31] = 1;  //!
@ init an index that another array holds | 1 32 | int *x = i32 | uninitialised (address) ; depends on s[0], which nothing wrote
    __shared__ int t[32], s[32];
    t[i] = x[i];
    __syncthreads();
    x[i] = t[s[i] & 31];  //!
@ init a shuffle | 1 32 | int *y = i32, int *z = m32 | uninitialised (shuffle) ; depends on z[0]
    y[i] = __shfl_xor_sync(~0u, z[i], 1);  //!
@ init a result that is stored | 1 128 | float *y = f128 | uninitialised (stored result) ; thread (100, 0, 0): depends on s[100]
    __shared__ float s[128];
    if (i < 100) s[i] = y[i];
    __syncthreads();
    y[i] = s[i] * 2;  //!
@ init a double that is stored / a copy by bytes | 1 32 | int *y = z32, int *z = m32 | uninitialised (stored result) ; thread (0, 0, 0): depends on z[0] ; 31 more threads
    y[i] = z[i] * 2;  //wrong!
    y[i] = z[i] << 8;  //right
@ / a field of bits | 1 32 | unsigned *x = m32, int *y = z32
    unsigned char *bytes = (unsigned char *)(x + i);
    bytes[0] = i;
    y[i] = (x[i] >> 3) & 31;
@ init an atomic update | 1 32 | int *z = m8 | uninitialised (atomic) ; updates z[0], which nothing wrote
    atomicAdd(z + (i & 7), 1);  //!
@ init a counter in shared memory | 1 32 | int *y = z1 | uninitialised (atomic) ; updates c[0]
    __shared__ int c;
    atomicAdd(&c, 1);  //!
    __syncthreads();
    if (!i) *y = c;
@ init a sum of a tile in an atomic / a sum of a tile in an atomic | 1 32 | float *y = f32 | uninitialised (atomic) ; thread (20, 0, 0): depends on s[20], which nothing wrote ; 11 more threads
    __shared__ float s[32];
    if (i < 20) s[i] = y[i];  //wrong
    s[i] = i < 20 ? y[i] : 0;  //right
    __syncthreads();
    atomicAdd(y, s[i] * 2);  //!
@ init a value that is exchanged / a copy that is exchanged | 1 32 | int *y = i32, int *z = m32 | uninitialised (stored result) ; thread (0, 0, 0): depends on z[0] ; 31 more threads
    atomicExch(y + i, z[i] * 3);  //wrong!
    atomicExch(y + i, z[i]);  //right
@ init the value with which memory is compared | 1 32 | int *y = i32, int *z = m32 | uninitialised (atomic) ; depends on z[0]
    atomicCAS(y + i, z[i], 1);  //!
@ init an array of a thread / an array of a thread that is written in a loop | 1 32 | float *y = f32, int n = 1 | uninitialised ( ; local memory, which nothing wrote
    float a[8];
    for (int j = 0; j < 8; j++)
        if (j != 5)  //wrong
            a[(j + n) & 7] = y[i] + j;
    y[i] = a[(i + n) & 7] + 1;  //!
@ init a sum over the tail of a tile | 1 32 | float *y = f32, int n = 20 | uninitialised ( ; depends on s[
    __shared__ float s[32];
    if (i < n) s[i] = y[i];
    __syncthreads();
    float a = 0;
    for (int j = 0; j < 32; j++) a += s[j];
    y[i] = a;  //!
@ init the end of a loop | 1 32 | float *y = f32, int *n = m1 | uninitialised (branch) ; depends on n[0]
    float a = 0;
    for (int j = 0; j < *n; j++)  //!
        a += sinf(y[j & 31]);
    y[i] = a;
@ init the chosen of two values / the chosen of two values | 1 32 | float *y = f32, float *z = n32 | uninitialised (stored result) ; thread (16, 0, 0): depends on z[16] ; 15 more threads
    if (i >= 16) z[i] = 2;  //right
    float a = y[i], b = z[i];
    y[i] = (i < 16 ? a : b) + 1;  //!
@ init through a function | 1 32 | float *y = f32, float *z = n32 | uninitialised (stored result) ; depends on
__device__ __noinline__ float half_of(float v) { return v / 2; }
    y[i] = half_of(z[i]) + 1;  //!
@ / a pointer into the middle | 1 32 | float *y = f64
    float *middle = y + 32;
    middle[-i - 1] = middle[i];
@ / one of two arrays by a condition | 1 64 | float *x = f64, float *y = f64, int which = 1
    float *p = which ? x : y, *q = i & 1 ? x : y;
    p[i] += 1;
    q[i] += 1;
@ / a masked load beyond the end | 1 64 | const float *x = f60, float *y = f64, int n = 60
    float v = 0;
    asm volatile("{.reg .pred p; setp.lt.s32 p, %2, %3; @p ld.global.f32 %0, [%1];}" : "+f"(v) : "l"(x + i), "r"(i), "r"(n));
    y[i] = v;
@ / an index that is a difference of pointers | 1 32 | float *y = f64
    float *end = y + 64, *p = y + i;
    long long n = end - p;
    y[64 - n] = n;
@ / memory of malloc | 1 32 | float *y = f32
    float *p = (float *)malloc(16);
    p[i & 3] = y[i];
    y[i] = p[i & 3];
    free(p);
@ / a linked list in memory | 1 32 | Node *nodes = z256
struct Node { long long next; int value; };
    nodes[i].next = (long long)(nodes + i);
    Node *p = (Node *)nodes[i].next;
    p->value = i;
@ / a counter that an atomic load reads | 1 128 | int *y = z128
    __shared__ int c;
    if (!i) c = 0;
    __syncthreads();
    atomicAdd(&c, 1);
    int v;
    asm volatile("ld.relaxed.cta.s32 %0, [%1];" : "=r"(v) : "l"(&c) : "memory");
    y[i] = v;
@ / one value from two lines | 1 64 | float *y = f64
    __shared__ int flag;
    if (!i) flag = 0;
    __syncthreads();
    if (y[i] > 50) flag = 1;
    if (y[i] < 3) flag = 1;
    __syncthreads();
    y[i] = flag;
@ / a reduction with shuffles | 1 128 | float *y = f128
    __shared__ float p[4];
    float v = y[i];
    for (int s = 16; s; s >>= 1) v += __shfl_down_sync(~0u, v, s);
    if (!(i & 31)) p[i / 32] = v;
    __syncthreads();
    if (i < 32) {
        v = i < 4 ? p[i] : 0;
        for (int s = 2; s; s >>= 1) v += __shfl_down_sync(~0u, v, s);
        if (!i) y[0] = v;
    }
@ / two buffers in a loop | 2 128 | float *y = f256
    __shared__ float s[2][128];
    float a = 0;
    s[0][i] = y[at];
    for (int k = 0; k < 5; k++) {
        __syncthreads();
        a += s[k & 1][(i + 1) & 127];
        s[~k & 1][i] = a;
    }
    y[at] = a;
@ / an early exit before a barrier | 1 128 | float *y = f100, int n = 100
    __shared__ float s[128];
    if (i >= n) return;
    s[i] = y[i];
    __syncthreads();
    y[i] = s[n - 1 - i];
@ / a warp in place with __syncwarp | 1 64 | float *y = f64
    __shared__ float s[64];
    s[i] = y[i];
    __syncwarp();
    for (int d = 16; d; d >>= 1) {
        float t = s[(i & 32) | ((i + d) & 31)];
        __syncwarp();
        s[i] += t;
        __syncwarp();
    }
    y[i] = s[i];
@ / named barriers of two pairs of warps | 1 128 | float *y = f128
    __shared__ float s[128];
    s[i] = y[i];
    asm volatile("bar.sync %0, 64;" ::"r"(i / 64 + 1) : "memory");
    y[i] = s[i / 64 * 64 + 63 - i % 64];
@ race,volatile / a reduction of a warp with volatile | 1 64 | float *y = f64
    __shared__ volatile float s[64];
    s[i] = y[i];
    __syncthreads();
    if (i < 32) {
        s[i] += s[i + 32];
        for (int d = 16; d; d >>= 1) s[i] += s[i + d];
    }
    if (!i) y[0] = s[0];
@ race,volatile / an exchange in a warp with volatile | 1 32 | float *y = f32
    __shared__ volatile float s[32];
    s[i] = y[i];
    y[i] = s[31 - i];
@ / a producer and a consumer with mbarrier | 1 64 | float *y = f64
#include <cuda/barrier>
    __shared__ cuda::barrier<cuda::thread_scope_block> full;
    __shared__ float s[32];
    if (i == 0) init(&full, 64);
    __syncthreads();
    if (i < 32) {
        s[i] = y[i];
        (void)full.arrive();
    } else {
        full.arrive_and_wait();
        y[i] = s[63 - i];
    }
@ / two barriers with phases | 1 64 | float *y = f64
#include <cuda/barrier>
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    __shared__ float s[64];
    if (i == 0) init(&b, 64);
    __syncthreads();
    for (int k = 0; k < 3; k++) {
        s[i] = y[i] + k;
        b.arrive_and_wait();
        y[i] = s[63 - i];
        b.arrive_and_wait();
    }
@ / asynchronous copies in two stages | 1 64 | float *y = f256
#include <cuda_pipeline.h>
    __shared__ __align__(16) float s[2][64];
    float a = 0;
    __pipeline_memcpy_async(&s[0][i], y + i, 4);
    __pipeline_commit();
    for (int k = 0; k < 4; k++) {
        if (k < 3) __pipeline_memcpy_async(&s[~k & 1][i], y + 64 * (k + 1) + i, 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        a += s[k & 1][63 - i];
        __syncthreads();
    }
    y[i] = a;
@ / groups of threads | 1 64 | float *y = f64
#include <cooperative_groups.h>
    __shared__ float s[64];
    auto block = cooperative_groups::this_thread_block();
    auto tile = cooperative_groups::tiled_partition<16>(block);
    s[i] = y[i];
    tile.sync();
    float v = s[i / 16 * 16 + 15 - tile.thread_rank()];
    for (int d = 8; d; d /= 2) v += tile.shfl_down(v, d);
    block.sync();
    y[i] = v;
@ / groups of the threads that are active | 1 64 | int *y = i64, int *count = z1
#include <cooperative_groups.h>
    if (y[i] % 3 == 0) {
        auto active = cooperative_groups::coalesced_threads();
        int first;
        if (!active.thread_rank()) first = atomicAdd(count, active.size());
        y[i] = active.shfl(first, 0) + active.thread_rank();
    }
@ / a barrier of the grid | 4 32 | float *y = f128 | cooperative=1
#include <cooperative_groups.h>
    auto grid = cooperative_groups::this_grid();
    y[at] = at;
    grid.sync();
    float v = y[127 - at];
    grid.sync();
    y[at] = v;
@ / a lock | 2 32 | int *lock = z1, int *total = z1
    if (i) return;
    while (atomicCAS(lock, 0, 1))
        ;
    __threadfence();
    *total += blockIdx.x + 1;
    __threadfence();
    atomicExch(lock, 0);
@ / a flag of another block | 2 32 | volatile int *flag = z1, float *box = f1, float *y = f32
    if (at == 0) {
        *box = 7;
        __threadfence();
        *flag = 1;
    } else if (at == 32) {
        while (!*flag)
            ;
        __threadfence();
        y[0] = *box;
    }
@ / a flag of another warp in shared memory | 1 64 | float *y = f64
    __shared__ volatile int ready;
    __shared__ volatile float box;
    if (!i) ready = 0;
    __syncthreads();
    if (i == 0) {
        box = y[5];
        __threadfence_block();
        ready = 1;
    } else if (i == 32) {
        while (!ready)
            ;
        y[32] = box;
    }
@ / an element of its own in each loop | 4 32 | float *y = f1000, int n = 1000
    for (; at < n; at += 128) y[at] = y[at] * 2 + 1;
@ / half numbers by neighbours | 1 64 | unsigned short *y = b128
    __shared__ unsigned short s[64];
    s[i] = y[i];
    __syncthreads();
    y[i] = s[63 - i] + 1;
@ / one element that all threads read | 2 64 | float *y = f128
    __shared__ float scale;
    if (!i) scale = 3;
    __syncthreads();
    y[at] *= scale;
@ / a reduction whose last warp has __syncwarp | 1 128 | float *y = f128
    __shared__ float s[128];
    s[i] = y[i];
    __syncthreads();
    for (int d = 64; d >= 32; d >>= 1) {
        if (i < d) s[i] += s[i + d];
        __syncthreads();
    }
    for (int d = 16; d && i < 32; d >>= 1) {
        float v = s[i + d];
        __syncwarp();
        s[i] += v;
        __syncwarp();
    }
    if (!i) y[0] = s[0];
@ / a shuffle before a branch | 1 32 | float *y = f32
    float v = y[i], o = __shfl_xor_sync(~0u, v, 1);
    if (i < 20) v += o;
    y[i] = v;
@ / an early exit before a shuffle | 1 32 | float *y = f32, int n = 20
    if (i >= n) return;
    float v = y[i];
    y[i] = v + __shfl_xor_sync(~0u, v, 1);
@ / an early exit with a store | 1 32 | float *y = f32, int n = 20, int *left = z32
    if (i >= n) {
        left[i] = 1;
        return;
    }
    float v = y[i];
    y[i] = v + __shfl_xor_sync(~0u, v, 1);
@ / a vote of the lanes of a loop | 1 64 | int *y = i64
    int v = y[i];
    while (__any_sync(~0u, v > 3)) v = v > 3 ? v / 2 : v;
    y[i] = v + __popc(__ballot_sync(~0u, v & 1));
@ / a leader of each warp | 1 96 | int *y = z96, int *count = z1
    unsigned mask = __ballot_sync(~0u, i % 5 < 3);
    int base = 0;
    if (i % 32 == 0) base = atomicAdd(count, __popc(mask));
    y[i] = __shfl_sync(~0u, base, 0);
@ / a match and a reduction of a warp | 1 32 | int *y = i32
    int v = y[i] % 4;
    y[i] = __popc(__match_any_sync(~0u, v)) + __reduce_add_sync(~0u, v);
@ / a barrier with a vote | 1 64 | int *y = i64
    int n = __syncthreads_count(y[i] > 9);
    y[i] = n + __syncthreads_and(n > 0);
@ / a padded struct | 1 32 | P *a = n64, P *b = n64
struct P { char tag; int value; };
    a[i].tag = 'x';
    a[i].value = i;
    b[i] = a[i];
    if (b[i].tag == 'x') b[i].value++;
@ / a tile beyond the edge | 2,2 16,16 | const float *x = f400, float *y = f400, int n = 20
    __shared__ float t[16][16];
    int r = blockIdx.y * 16 + threadIdx.y;
    if (at < n && r < n) t[threadIdx.y][i] = x[r * n + at];
    __syncthreads();
    float v = t[threadIdx.y][i] * 2;
    if (at < n && r < n) y[r * n + at] = v;
@ / a copy of memory that nothing wrote | 1 32 | float2 *x = n64, float2 *y = n64
    y[i] = x[i];
@ / a bit of a word | 1 32 | unsigned char *x = n32, int *y = z32
    x[i * 4] = 5;
    y[i] = (((unsigned *)x)[i] & 255) + 1;
@ / the byte in the middle | 1 32 | unsigned char *x = n32, int *y = z32
    x[i * 4 + 1] = 5;
    y[i] = ((((unsigned *)x)[i] >> 8) & 255) * 3;
@ / an atomic update of zeros | 1 32 | int *z = z8
    atomicAdd(z + (i & 7), 1);
@ / an exchange with memory that nothing wrote | 1 32 | int *z = m32, int *y = z32
    y[i] = 1;
    atomicExch(z + i, 3);
@ / a result through shared memory | 1 32 | float *x = n32, float *y = f32
    __shared__ float s[32];
    x[i] = y[i] * 2;
    s[i] = x[i];
    __syncthreads();
    y[i] = s[31 - i] + x[i];
@ / a function with a struct | 1 32 | float *y = f32
struct V { float a, b, c; };
__device__ __noinline__ V twice(V v) { return {v.a * 2, v.b * 2, v.c * 2}; }
    V v = twice({y[i], 1, 2});
    y[i] = v.a + v.c;
@ / recursion | 1 32 | int *y = i32
__device__ __noinline__ int depth(int n) {
    int a[4];
    for (int i = 0; i < 4; i++) a[i & n | i] = i;
    return n <= 0 ? a[0] : depth(n - 1) + a[3];
}
    y[i] = depth(y[i] % 5);
@ / half precision and a matrix product | 1 32 | half *a = b512, half *b = b512, float *c = f256
#include <mma.h>
using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    wmma::fill_fragment(z, 0.0f);
    wmma::load_matrix_sync(x, a, 16);
    wmma::load_matrix_sync(y, b, 16);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);
@ / printf | 1 2 | float *y = f2
#include <cstdio>
    if (y[i] > 5) printf("%f\n", y[i]);
@ / a loop around a comparing exchange | 4 64 | float *sum = f1
    int *bits = (int *)sum, old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(__int_as_float(assumed) + i));
    } while (old != assumed);
@ / a bulk copy with a barrier | 1 32 | float *y = f64
#include <cuda/barrier>
#include <cuda/ptx>
    __shared__ alignas(16) float s[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    if (i == 0) {
        init(&b, 32);
        cuda::device::experimental::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    if (i == 0) cuda::memcpy_async(s, y, cuda::aligned_size_t<16>(256), b);
    b.wait(b.arrive());
    y[i] = s[63 - i] + 1;
@ / a tile that a warp stores | 1 32 | float *y = f256
#include <mma.h>
using namespace nvcuda;
    __shared__ float t[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 2.0f);
    wmma::store_matrix_sync(t, c, 16, wmma::mem_row_major);
    __syncthreads();
    for (; i < 256; i += 32) y[i] = t[i] * 2;
@ bounds a read of one element more than dynamic shared memory has / seven elements that a load of four widens | 1 32 | int *y = i7 | shared=28 ; out of bounds (read) ; thread (0, 0, 0): 4 bytes at s[7]; s is uint32[7] in shared memory
    extern __shared__ int s[];
    if (i < 7) s[i] = y[i];
    __syncthreads();
    if (i == 0) {
        int a = 0;
        for (int k = 0; k < 7; k++) a += s[k];  //right
        int *end = s + 7;  //wrong
        asm volatile("" : "+l"(end));  //wrong
        a = *end;  //wrong!
        y[0] = a;
    }
@ bounds four elements of a row of three / three elements of four | 1 2 | float *y = f7 | out of bounds (read) ; thread (1, 0, 0): 16 bytes at y[4]; y is float32[7]
    float4 v = *(float4 *)(y + 4 * i);  //!
    __syncthreads();
    y[i] = v.x + v.y + v.z
        + v.w  //wrong
        ;
@ bounds a number that is used as a pointer | 1 32 | float *y = f32, float *p = p100000000000 | out of bounds (write) ; thread (5, 0, 0): 4 bytes at 0x174876e800; no allocation is near it
    if (i == 5) p[0] = y[i];  //~
@ align an address that is misaligned and beyond the end | 1 16 | float *y = f32 | misaligned (write) ; thread (15, 0, 0): 8 bytes at y[31]; y is float32[32] ; is no multiple of 8, and out of bounds
    if (i == 15) *(float2 *)(y + 31) = make_float2(1, 2);  //!
@ init a value that was computed and stored before | 1 32 | float *y = f32, float *z = n32 | uninitialised (branch) ; depends on s[0], whose value was computed from memory that nothing wrote
    __shared__ float s[32];
    s[i] = z[i] * 2 + 1;
    __syncthreads();
    if (s[31 - i & 0] > 3) y[i] = sinf(y[i]);  //!
@ init a copy | 1 32 | int *y = i32, int *z = m32 | uninitialised (branch) ; depends on s[31], which has a copy of memory that nothing wrote
    __shared__ int s[32];
    s[i] = z[i];
    __syncthreads();
    if (s[31 - i] > 3) y[i] = y[i] * 7 % 5;  //!
@ init the second of two memories | 1 32 | int *y = i32, int *z = m32 | uninitialised (branch) ; depends on z[0], which nothing wrote
    __shared__ int s[64];
    s[i] = y[i];
    if (i > 15) s[i + 32] = y[i];
    __syncthreads();
    int v = i < 16 ? z[i] : s[47 - i];
    if ((v ^ s[i + 32]) == 77) y[i] = y[i] * 7 % 5;  //~
@ race the last of two elements / a vector of two elements and its reader | 1 32 | float *y = f64 | race (read and write) ; thread (0, 0, 0): s[3]; block (0, 0, 0), thread (1, 0, 0) writes it
    __shared__ __align__(8) float s[64];
    *(float2 *)(s + 2 * i) = *(float2 *)(y + 2 * i);
    __syncwarp();  //right
    y[i] = s[2 * (i ^ 1) + 1];  //!
@ race the last of four elements / a vector of four elements and its writer | 1 32 | float *y = f128 | race (read and write) ; thread (0, 0, 0): s[7]; block (0, 0, 0), thread (1, 0, 0) writes it
    __shared__ __align__(16) float s[128];
    s[4 * i] = s[4 * i + 1] = s[4 * i + 2] = 1;
    __syncwarp();
    s[4 * i + 3] = y[i];
    __syncwarp();  //right
    float4 v = *(float4 *)(s + 4 * (i ^ 1));  //!
    y[i] = v.x + v.y + v.z + v.w;
@ sync threads that exit complete a barrier, NVIDIA's sample divergent_threads / a loop whose last round is whole | 1 64 | int *data = i1024, int *sum = z1, int size = 1008 | divergent barrier ; thread (0, 0, 0): waits here while 16 threads of the block exit that passed it by ; 47 more threads
    __shared__ int smem[64];
    smem[i] = 0;
    __syncthreads();
    for (int b = 0; b < 16; ++b) {
        const int offset = 64 * b + i;
        if (offset < size) {  //wrong
        if (offset < size + 16) {  //right
            smem[i] += data[offset];
            __syncthreads();  //~
        }
    }
    if (i == 0) {
        *sum = 0;
        for (int k = 0; k < 48; ++k) *sum += smem[k];
    }
@ sync,race a lane that its mask does not name, NVIDIA's sample illegal_syncwarp / a mask that a ballot has made | 1 32 | int *sum = z1 | lane outside of its mask ; thread (16, 0, 0): its mask 0xffff does not name its own lane, 16
    __shared__ int smem[32];
    unsigned mask = __ballot_sync(0xffffffff, i < 16);
    if (i <= 16) {  //wrong
    if (i < 16) {  //right
        smem[i] = i;
        __syncwarp(mask);  //~
        if (i == 3)  //right
        {
            *sum = 0;
            for (int k = 0; k < 16; ++k) *sum += smem[k];
        }
    }
    __syncthreads();
@ sync a shuffle with the mask of others / a shuffle with the mask of the branch | 1 32 | int *y = i32 | lane outside of its mask ; thread (8, 0, 0): its mask 0xff does not name its own lane, 8 ; 7 more threads
    if (i < 16) {
        int v = y[i];
        v += __shfl_xor_sync(0xff, v, 1);  //wrong!
        v += __shfl_xor_sync(0xffff, v, 1);  //right
        y[i] = v;
    }
@ sync a reduction with its barrier in the branch | 1 128 | float *y = f128 | divergent barrier
    __shared__ float s[128];
    s[i] = y[i];
    __syncthreads();
    for (int d = 64; d; d >>= 1) {
        if (i < d) {
            s[i] += s[i + d];
            __syncthreads();  //!
        }
    }
    if (!i) y[0] = s[0];
@ race a read between the arrival and the wait / a read behind the wait | 1 64 | float *y = f64 | race (read and write) ; thread (0, 0, 0): s[63]; block (0, 0, 0), thread (63, 0, 0) writes it at kernel.cu:7
#include <cuda_awbarrier_primitives.h>
    __shared__ __mbarrier_t b;
    __shared__ float s[64];
    if (i == 0) __mbarrier_init(&b, 64);
    __syncthreads();
    s[i] = y[i];
    auto token = __mbarrier_arrive(&b);
    float v = s[63 - i];  //wrong!
    while (!__mbarrier_test_wait(&b, token));
    float v = s[63 - i];  //right
    y[i] = v;
@ race a write before the readers have arrived / a write behind the wait for the readers | 1 64 | float *y = f64 | race (write and read) ; s[0]
#include <cuda/barrier>
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    __shared__ float s[64];
    if (i == 0) init(&b, 64);
    s[i] = y[i];
    __syncthreads();
    float v = s[63 - i];
    auto token = b.arrive();
    b.wait(std::move(token));  //right
    s[i] = v;  //!
    b.wait(std::move(token));  //wrong
    y[i] = s[i];
@ / early exits with work of their own before a barrier | 1 128 | float *y = f128, int n = 100
    __shared__ float s[128];
    if (i >= n) {
        y[i] = 0;
        return;
    }
    s[i] = y[i];
    __syncthreads();
    y[i] = s[n - 1 - i];
@ / a loop that threads leave by return | 1 128 | float *y = f128
    __shared__ float s[128];
    s[i] = y[i];
    __syncthreads();
    for (int d = 64; d; d >>= 1) {
        if (i >= 2 * d) return;
        if (i < d) s[i] += s[i + d];
        __syncthreads();
    }
    y[0] = s[0];
@ / a warp that produces exits, and others go on | 1 96 | float *y = f96
    __shared__ float s[32];
    if (i < 32) {
        s[i] = y[i];
        asm volatile("bar.arrive 1, 96;" ::: "memory");
        return;
    }
    asm volatile("bar.sync 1, 96;" ::: "memory");
    float v = s[i & 31];
    __syncthreads();
    y[i] = v;
@ / bulk copies that an mbarrier waits for | 1 64 | float *y = f256
#include <cuda/barrier>
#include <cuda/ptx>
namespace ptx = cuda::ptx;
    __shared__ __align__(16) float s[2][64];
    __shared__ unsigned long long b[2];
    if (i == 0) {
        ptx::mbarrier_init(b, 1);
        ptx::mbarrier_init(b + 1, 1);
    }
    __syncthreads();
    float a = 0;
    for (int k = 0; k < 4; k++) {
        if (i == 0) {
            ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, b + (k & 1), 256);
            ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s[k & 1], y + 64 * k, 256, b + (k & 1));
        }
        while (!ptx::mbarrier_try_wait_parity(b + (k & 1), k / 2));
        a += s[k & 1][63 - i];
        __syncthreads();
    }
    y[i] = a;
@ / a ring of full and empty barriers | 1 64 | float *y = f256
#include <cuda/barrier>
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ barrier full[2], empty[2];
    __shared__ float s[2][32];
    if (i < 2) {
        init(&full[i], 64);
        init(&empty[i], 64);
    }
    __syncthreads();
    float a = 0;
    if (i < 32) {
        for (int k = 0; k < 6; k++) {
            empty[k & 1].arrive_and_wait();
            s[k & 1][i] = y[i] + k;
            (void)full[k & 1].arrive();
        }
    } else {
        (void)empty[0].arrive();
        (void)empty[1].arrive();
        for (int k = 0; k < 6; k++) {
            full[k & 1].arrive_and_wait();
            a += s[k & 1][63 - i];
            if (k < 4) (void)empty[k & 1].arrive();
        }
        y[i] = a;
    }
@ race a barrier of a cluster that nothing waits for / a barrier of a cluster | 2 32 | float *y = f64 | cluster=2 ; race ( ; s[
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>
namespace ptx = cuda::ptx;
    __shared__ float s[32];
    __shared__ unsigned long long b;
    auto cluster = cooperative_groups::this_cluster();
    unsigned other = cluster.num_blocks() - 1 - cluster.block_rank();
    if (i == 0) ptx::mbarrier_init(&b, 32);
    cluster.sync();
    cluster.map_shared_rank(s, other)[i] = y[at];
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, cluster.map_shared_rank(&b, other));
    while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cluster, &b, 0));  //right
    float v = s[31 - i];  //!
    y[at] = v;
    cluster.sync();
@ race a read behind another arrival / a read behind the wait for another warp | 1 64 | float *y = f64 | race (read and write) ; thread (32, 0, 0): s[0]; block (0, 0, 0), thread (0, 0, 0) writes it
#include <cuda_awbarrier_primitives.h>
    __shared__ __mbarrier_t b;
    __shared__ float s[32];
    if (i == 0) __mbarrier_init(&b, 64);
    __syncthreads();
    if (i >= 32) {
        auto token = __mbarrier_arrive(&b);
        while (!__mbarrier_test_wait(&b, token));  //right
        y[i] = s[i - 32];  //!
        while (!__mbarrier_test_wait(&b, token));  //wrong
    } else {
        s[i] = y[i];
        (void)__mbarrier_arrive(&b);
    }
@ init a sum with a shuffle from an absent lane / a sum with shuffles from lanes that are there | 1 20 | float *y = f20 | value of an absent lane (stored result) ; thread (0, 0, 0): depends on lane ; which is absent from the shuffle at kernel.cu:4  v += __shfl_down_sync
    float v = y[i];
    for (int d = 16; d; d /= 2)
        v += __shfl_down_sync(0xfffff, v, d);  //wrong
    for (int d = 16; d; d /= 2) {  //right
        float other = __shfl_down_sync(0xfffff, v, d);  //right
        if (i + d < 20) v += other;  //right
    }  //right
    if (!i) y[0] = v;  //!
@ init a shuffle from a lane that its mask does not name / a shuffle in the halves of a warp | 1 32 | float *y = f32 | value of an absent lane (stored result) ; thread (0, 0, 0): depends on lane 16, which is absent
    float v = y[i];
    unsigned mask = i < 16 ? 0xffff : 0xffff0000;
    v = __shfl_xor_sync(mask, v, 16);  //wrong
    v = __shfl_xor_sync(mask, v, 8);  //right
    y[i] = v;  //!
@ init a shuffle from a lane that has left | 1 32 | int *y = i32 | value of an absent lane (branch) ; depends on lane 31, which is absent from the shuffle
    if (i == 31) return;
    int v = __shfl_sync(0x7fffffff, y[i], 31);
    if (v > 3)  //!
        y[i] = sinf(y[i]);
@ / shuffles whose values of absent lanes nothing uses | 1 20 | float *y = f20
    float v = y[i];
    v += __shfl_down_sync(0xfffff, v, 4);
    float other = __shfl_sync(0xfffff, v, i + 1, 4);
    if (i < 16) y[i] = v + other;
@ / a scan of a part of a warp | 1 20 | int *y = i20
    int v = y[i];
    for (int d = 1; d < 20; d *= 2) {
        int other = __shfl_up_sync(0xfffff, v, d);
        if (i >= d) v += other;
    }
    y[i] = v;
@ race a copy in flight / a copy that its thread has waited for | 1 64 | float *y = f64 | copy in flight (read) ; thread (0, 0, 0): s[63]; block (0, 0, 0), thread (63, 0, 0) copies to it at kernel.cu:4 ; and has not waited for the copy (cp.async.wait_group)
#include <cuda_pipeline.h>
    __shared__ float s[64];
    __pipeline_memcpy_async(s + i, y + i, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);  //right
    __syncthreads();
    y[i] = s[63 - i];  //!
@ race a copy of its own thread in flight / a copy of its own thread | 1 32 | int4 *y = n128 | copy in flight (read) ; thread (0, 0, 0): s[2]; block (0, 0, 0), thread (0, 0, 0) copies to it
#include <cuda_pipeline.h>
    __shared__ int4 s[32];
    y[i] = make_int4(i, i, i, i);
    __pipeline_memcpy_async(s + i, y + i, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);  //right
    y[i].x = s[i].z + 1;  //!
@ race a store to a copy in flight / a store behind a copy | 1 32 | float *y = f32 | copy in flight (write) ; thread (0, 0, 0): s[0]
#include <cuda_pipeline.h>
    __shared__ float s[32];
    __pipeline_memcpy_async(s + i, y + i, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);  //right
    s[i] = 3;  //!
    __pipeline_wait_prior(0);
    y[i] = s[i];
@ race two stages of which one may be in flight too many / two stages | 1 64 | float *y = f256 | copy in flight (read) ; thread (0, 0, 0): s[63]
#include <cuda_pipeline.h>
    __shared__ float s[2][64];
    float a = 0;
    __pipeline_memcpy_async(&s[0][i], y + i, 4);
    __pipeline_commit();
    for (int k = 0; k < 4; k++) {
        if (k < 3) __pipeline_memcpy_async(&s[k + 1 & 1][i], y + 64 * (k + 1) + i, 4);
        __pipeline_commit();
        __pipeline_wait_prior(2);  //wrong
        __pipeline_wait_prior(1);  //right
        __syncthreads();
        a += s[k & 1][63 - i];  //!
        __syncthreads();
    }
    y[i] = a;
@ race a wait behind the barrier / a wait before the barrier | 1 64 | float *y = f64 | race (read and write) ; thread (0, 0, 0): s[63]; block (0, 0, 0), thread (63, 0, 0) writes it
#include <cuda_pipeline.h>
    __shared__ float s[64];
    __pipeline_memcpy_async(s + i, y + i, 4);
    __pipeline_commit();
    __syncthreads();  //wrong
    __pipeline_wait_prior(0);
    __syncthreads();  //right
    y[i] = s[63 - i];  //!
@ / a copy that fills with zeros, and one that an mbarrier waits for | 1 64 | float *y = f64, int n = 40
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline.h>
    __shared__ float s[64];
    __shared__ __mbarrier_t b;
    if (i == 0) __mbarrier_init(&b, 64);
    __syncthreads();
    __pipeline_memcpy_async(s + i, y + i, 4, i < n ? 0 : 4);
    __pipeline_arrive_on(&b);
    auto token = __mbarrier_arrive(&b);
    while (!__mbarrier_test_wait(&b, token));
    y[i] = s[63 - i];
@ / copies of a group of threads | 1 64 | float *y = f64
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
    __shared__ __align__(16) float s[64];
    auto group = cooperative_groups::this_thread_block();
    cooperative_groups::memcpy_async(group, s, y, sizeof s);
    cooperative_groups::wait(group);
    y[i] = s[63 - i];
