@ - a test of the bounds | 4 32 | f100 100
__global__ void k(float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 1;
}
@ - a halo with a test | 1 64 | f64
__global__ void k(float *y) {
    int i = threadIdx.x;
    float s = i ? y[i - 1] : 0;
    __syncthreads();
    y[i] = s;
}
@ - one element more in shared memory | 1 64 | f64
__global__ void k(float *y) {
    __shared__ float s[65];
    int i = threadIdx.x;
    s[i + 1] = y[i];
    __syncthreads();
    y[i] = s[i + 1];
}
@ - dynamic shared memory of two arrays | 1 64 | f64 | shared=512
__global__ void k(float *y) {
    extern __shared__ float s[];
    float *t = s + 64;
    int i = threadIdx.x;
    s[i] = y[i];
    t[i] = 2;
    __syncthreads();
    y[i] = s[63 - i] + t[63 - i];
}
@ - an array of a thread | 1 32 | i32 3
__global__ void k(int *y, int n) {
    int a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int i = threadIdx.x;
    a[i & 7] = y[i];
    y[i] = a[(i + n) & 7];
}
@ - a constant array and a variable | 1 16 | f16
__constant__ float table[16];
__device__ float sums[16];
__global__ void k(float *y) {
    sums[threadIdx.x] = y[threadIdx.x] + table[threadIdx.x];
}
@ - four elements with a tail | 1 32 | f126 126
__global__ void k(float *y, int n) {
    int i = threadIdx.x * 4;
    if (i + 3 < n) *(float4 *)(y + i) = make_float4(0, 1, 2, 3);
    else
        for (; i < n; i++) y[i] = i;
}
@ - a pointer into the middle | 1 32 | f64
__global__ void k(float *y) {
    float *middle = y + 32;
    middle[-(int)threadIdx.x - 1] = middle[threadIdx.x];
}
@ - one of two arrays by a condition | 1 64 | f64 f64 1
__global__ void k(float *x, float *y, int which) {
    float *p = which ? x : y;
    p[threadIdx.x] += 1;
    float *q = threadIdx.x & 1 ? x : y;
    q[threadIdx.x] += 1;
}
@ - a masked load beyond the end | 1 64 | f60 f64 60
__global__ void k(const float *x, float *y, int n) {
    int i = threadIdx.x;
    float v = 0;
    asm volatile("{.reg .pred p; setp.lt.s32 p, %2, %3; @p ld.global.f32 %0, [%1];}" : "+f"(v) : "l"(x + i), "r"(i), "r"(n));
    y[i] = v;
}
@ - a null pointer that is not used | 1 32 | f32 p0
__global__ void k(float *y, float *optional) {
    if (optional) optional[threadIdx.x] = 1;
    y[threadIdx.x] = 2;
}
@ - a function that is not inlined | 1 32 | f32
__device__ __noinline__ float put(float *p, float v) {
    *p = v;
    return v + 1;
}
__global__ void k(float *y) {
    y[threadIdx.x] = put(y + threadIdx.x, 2);
}
@ - an index that is a difference of pointers | 1 32 | f64
__global__ void k(float *y) {
    float *end = y + 64, *p = y + threadIdx.x;
    long long n = end - p;
    y[64 - n] = n;
}
@ - memory of malloc | 1 32 | f32
__global__ void k(float *y) {
    float *p = (float *)malloc(16);
    p[threadIdx.x & 3] = y[threadIdx.x];
    y[threadIdx.x] = p[threadIdx.x & 3];
    free(p);
}
@ - a linked list in memory | 1 32 | z256
struct Node { long long next; int value; };
__global__ void k(Node *nodes) {
    int i = threadIdx.x;
    nodes[i].next = (long long)(nodes + i);
    Node *p = (Node *)nodes[i].next;
    p->value = i;
}
@ - aligned vectors | 1 16 | f128
__global__ void k(float *y) {
    *(float4 *)(y + 4 * threadIdx.x) = make_float4(0, 0, 0, 0);
    *(float2 *)(y + 64 + 2 * threadIdx.x) = make_float2(1, 1);
}
@ - bytes at any address | 1 64 | b64
__global__ void k(unsigned char *y) {
    y[threadIdx.x] += 3;
}
@ - a barrier | 1 128 | f128
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    s[i] = y[i];
    __syncthreads();
    y[i] = s[127 - i];
}
@ - two barriers in a loop | 1 128 | f128
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    float a = 0;
    for (int k = 0; k < 4; k++) {
        s[i] = y[i] + k;
        __syncthreads();
        a += s[(i + 37) & 127];
        __syncthreads();
    }
    y[i] = a;
}
@ - an atomic counter | 1 128 | z1
__global__ void k(int *y) {
    __shared__ int c;
    if (!threadIdx.x) c = 0;
    __syncthreads();
    atomicAdd(&c, threadIdx.x);
    __syncthreads();
    if (!threadIdx.x) *y = c;
}
@ - a counter that is read behind a barrier | 1 128 | z128
__global__ void k(int *y) {
    __shared__ int c;
    if (!threadIdx.x) c = 0;
    __syncthreads();
    atomicAdd(&c, 1);
    __syncthreads();
    y[threadIdx.x] = c;
}
@ - an exchange in a warp with __syncwarp | 1 32 | f32
__global__ void k(float *y) {
    __shared__ volatile float s[32];
    int i = threadIdx.x;
    s[i] = y[i];
    __syncwarp();
    y[i] = s[31 - i];
}
@ - a flag with one value | 1 128 | f128
__global__ void k(float *y) {
    __shared__ int flag;
    int i = threadIdx.x;
    if (!i) flag = 0;
    __syncthreads();
    if (y[i] > 50) flag = 1;
    __syncthreads();
    y[i] = flag;
}
@ - one value from two lines | 1 64 | f64
__global__ void k(float *y) {
    __shared__ int flag;
    int i = threadIdx.x;
    if (!i) flag = 0;
    __syncthreads();
    if (y[i] > 50) flag = 1;
    if (y[i] < 3) flag = 1;
    __syncthreads();
    y[i] = flag;
}
@ - a reduction with shuffles | 1 128 | f128
__global__ void k(float *y) {
    __shared__ float p[4];
    int i = threadIdx.x;
    float v = y[i];
    for (int s = 16; s; s >>= 1) v += __shfl_down_sync(~0u, v, s);
    if (!(i & 31)) p[i / 32] = v;
    __syncthreads();
    if (i < 32) {
        v = i < 4 ? p[i] : 0;
        for (int s = 2; s; s >>= 1) v += __shfl_down_sync(~0u, v, s);
        if (!i) y[0] = v;
    }
}
@ - two buffers in a loop | 2 128 | f256
__global__ void k(float *y) {
    __shared__ float s[2][128];
    int i = threadIdx.x, at = blockIdx.x * 128 + i;
    float a = 0;
    s[0][i] = y[at];
    for (int k = 0; k < 5; k++) {
        __syncthreads();
        a += s[k & 1][(i + 1) & 127];
        s[~k & 1][i] = a;
    }
    y[at] = a;
}
@ - a scan with barriers | 1 128 | f128
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    s[i] = y[i];
    for (int d = 1; d < 128; d *= 2) {
        __syncthreads();
        float t = i >= d ? s[i - d] : 0;
        __syncthreads();
        s[i] += t;
    }
    y[i] = s[i];
}
@ - an early exit before a barrier | 1 128 | f100 100
__global__ void k(float *y, int n) {
    __shared__ float s[128];
    int i = threadIdx.x;
    if (i >= n) return;
    s[i] = y[i];
    __syncthreads();
    y[i] = s[n - 1 - i];
}
@ - a warp in place with __syncwarp | 1 64 | f64
__global__ void k(float *y) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = y[i];
    __syncwarp();
    for (int d = 16; d; d >>= 1) {
        float t = s[(i & 32) | ((i + d) & 31)];
        __syncwarp();
        s[i] += t;
        __syncwarp();
    }
    y[i] = s[i];
}
@ - named barriers, producer and consumer | 1 64 | f64
__global__ void k(float *y) {
    __shared__ float s[32];
    int i = threadIdx.x;
    if (i < 32) {
        s[i] = y[i];
        asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        y[i] = s[i - 32];
    }
}
@ - named barriers of two pairs of warps | 1 128 | f128
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x, pair = i / 64;
    s[i] = y[i];
    asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
    y[i] = s[pair * 64 + 63 - i % 64];
}
@ race,volatile a reduction of a warp with volatile | 1 64 | f64
__global__ void k(float *y) {
    __shared__ volatile float s[64];
    int i = threadIdx.x;
    s[i] = y[i];
    __syncthreads();
    if (i < 32) {
        s[i] += s[i + 32];
        for (int d = 16; d; d >>= 1) s[i] += s[i + d];
    }
    if (!i) y[0] = s[0];
}
@ race,volatile an exchange in a warp with volatile | 1 32 | f32
__global__ void k(float *y) {
    __shared__ volatile float s[32];
    int i = threadIdx.x;
    s[i] = y[i];
    y[i] = s[31 - i];
}
@ - a producer and a consumer with mbarrier | 1 64 | f64
#include <cuda/barrier>
__global__ void k(float *y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> full;
    __shared__ float s[32];
    int i = threadIdx.x;
    if (i == 0) init(&full, 64);
    __syncthreads();
    if (i < 32) {
        s[i] = y[i];
        (void)full.arrive();
    } else {
        full.arrive_and_wait();
        y[i] = s[63 - i];
    }
}
@ - two barriers with phases | 1 64 | f64
#include <cuda/barrier>
__global__ void k(float *y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    __shared__ float s[64];
    int i = threadIdx.x;
    if (i == 0) init(&b, 64);
    __syncthreads();
    for (int k = 0; k < 3; k++) {
        s[i] = y[i] + k;
        b.arrive_and_wait();
        y[i] = s[63 - i];
        b.arrive_and_wait();
    }
}
@ - asynchronous copies | 1 64 | f64
#include <cuda_pipeline.h>
__global__ void k(float *y) {
    __shared__ float s[64];
    int i = threadIdx.x;
    __pipeline_memcpy_async(s + i, y + i, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[i] = s[63 - i];
}
@ - asynchronous copies in two stages | 1 64 | f256
#include <cuda_pipeline.h>
__global__ void k(float *y) {
    __shared__ __align__(16) float s[2][64];
    int i = threadIdx.x;
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
}
@ - groups of threads | 1 64 | f64
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(float *y) {
    __shared__ float s[64];
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    int i = block.thread_rank();
    s[i] = y[i];
    tile.sync();
    float v = s[i / 16 * 16 + 15 - tile.thread_rank()];
    for (int d = 8; d; d /= 2) v += tile.shfl_down(v, d);
    block.sync();
    y[i] = v;
}
@ - groups of the threads that are active | 1 64 | i64 z1
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(int *y, int *count) {
    if (y[threadIdx.x] % 3 == 0) {
        auto active = cg::coalesced_threads();
        int first;
        if (!active.thread_rank()) first = atomicAdd(count, active.size());
        y[threadIdx.x] = active.shfl(first, 0) + active.thread_rank();
    }
}
@ - a barrier of the grid | 4 32 | f128 | cooperative=1
#include <cooperative_groups.h>
__global__ void k(float *y) {
    auto grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    y[i] = i;
    grid.sync();
    float v = y[127 - i];
    grid.sync();
    y[i] = v;
}
@ - the last block | 4 32 | f128 z1 f4 f1
__global__ void k(float *x, unsigned *count, float *part, float *out) {
    __shared__ bool last;
    int i = blockIdx.x * 32 + threadIdx.x;
    float v = x[i];
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (!threadIdx.x) {
        part[blockIdx.x] = v;
        __threadfence();
        last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && !threadIdx.x) {
        float sum = 0;
        for (int k = 0; k < 4; k++) sum += part[k];
        *out = sum;
    }
}
@ - a lock | 2 32 | z1 z1
__global__ void k(int *lock, int *total) {
    if (threadIdx.x) return;
    while (atomicCAS(lock, 0, 1))
        ;
    __threadfence();
    *total += blockIdx.x + 1;
    __threadfence();
    atomicExch(lock, 0);
}
@ - a flag of another block | 2 32 | z1 f1 f32
__global__ void k(volatile int *flag, float *box, float *y) {
    if (blockIdx.x == 0 && !threadIdx.x) {
        *box = 7;
        __threadfence();
        *flag = 1;
    }
    if (blockIdx.x == 1 && !threadIdx.x) {
        while (!*flag)
            ;
        __threadfence();
        y[0] = *box;
    }
}
@ - a flag of another warp in shared memory | 1 64 | f64
__global__ void k(float *y) {
    __shared__ volatile int ready;
    __shared__ volatile float box;
    if (!threadIdx.x) ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        box = y[5];
        __threadfence_block();
        ready = 1;
    }
    if (threadIdx.x == 32) {
        while (!ready)
            ;
        y[32] = box;
    }
}
@ - atomics on one element | 4 64 | z1 f1
__global__ void k(int *count, float *sum) {
    atomicAdd(count, 1);
    atomicAdd(sum, 1.0f);
    atomicMax(count, 3);
}
@ - a histogram | 4 64 | i256 z16
__global__ void k(const int *x, int *bins) {
    __shared__ int h[16];
    if (threadIdx.x < 16) h[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&h[x[blockIdx.x * 64 + threadIdx.x] & 15], 1);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], h[threadIdx.x]);
}
@ - a queue | 2 64 | i128 z129
__global__ void k(const int *x, int *queue) {
    int v = x[blockIdx.x * 64 + threadIdx.x];
    if (v & 1) queue[1 + atomicAdd(queue, 1)] = v;
}
@ - an element of its own in each loop | 4 32 | f1000 1000
__global__ void k(float *y, int n) {
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += 128) y[i] = y[i] * 2 + 1;
}
@ - a stencil with two arrays | 4 64 | f256 f256
__global__ void k(const float *x, float *y) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i > 0 && i < 255) y[i] = x[i - 1] + x[i + 1];
}
@ - a transposed tile | 4,4 8,8 | f1024 f1024
__global__ void k(const float *x, float *y) {
    __shared__ float t[8][9];
    int c = blockIdx.x * 8 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    t[threadIdx.y][threadIdx.x] = x[r * 32 + c];
    __syncthreads();
    c = blockIdx.y * 8 + threadIdx.x, r = blockIdx.x * 8 + threadIdx.y;
    y[r * 32 + c] = t[threadIdx.x][threadIdx.y];
}
@ - halves of an array by two blocks | 2 32 | f64
__global__ void k(float *y) {
    int i = threadIdx.x;
    float *mine = y + blockIdx.x * 32;
    mine[i] = i;
    __syncthreads();
    float v = mine[31 - i];
    __syncthreads();
    mine[i] = v;
}
@ - bytes of a word by neighbours | 2 64 | b128
__global__ void k(unsigned char *y) {
    __shared__ unsigned char s[64];
    int i = threadIdx.x;
    s[i] = y[blockIdx.x * 64 + i];
    s[i] += 1;
    y[blockIdx.x * 64 + i] = s[i] * 2;
}
@ - half numbers by neighbours | 1 64 | b128
__global__ void k(unsigned short *y) {
    __shared__ unsigned short s[64];
    int i = threadIdx.x;
    s[i] = y[i];
    __syncthreads();
    y[i] = s[63 - i] + 1;
}
@ - one element that all threads read | 2 64 | f128
__global__ void k(float *y) {
    __shared__ float scale;
    if (!threadIdx.x) scale = 3;
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] *= scale;
}
@ - a reduction with barriers | 2 128 | f256
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    s[i] = y[blockIdx.x * 128 + i];
    __syncthreads();
    for (int d = 64; d; d >>= 1) {
        if (i < d) s[i] += s[i + d];
        __syncthreads();
    }
    if (!i) y[blockIdx.x * 128] = s[0];
}
@ - a reduction whose last warp has __syncwarp | 1 128 | f128
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    s[i] = y[i];
    __syncthreads();
    for (int d = 64; d >= 32; d >>= 1) {
        if (i < d) s[i] += s[i + d];
        __syncthreads();
    }
    if (i < 32)
        for (int d = 16; d; d >>= 1) {
            float v = s[i + d];
            __syncwarp();
            s[i] += v;
            __syncwarp();
        }
    if (!i) y[0] = s[0];
}
@ - a uniform branch with barriers | 1 64 | f64 5
__global__ void k(float *y, int n) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = y[i];
    if (n > 3) {
        __syncthreads();
        y[i] = s[63 - i];
    } else {
        __syncthreads();
        y[i] = 2;
    }
}
@ - a barrier in a loop of one length | 2 64 | f128 3
__global__ void k(float *y, int n) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = i;
    for (int k = 0; k < n + blockIdx.x; k++) {
        __syncthreads();
        float v = s[(i + 1) & 63];
        __syncthreads();
        s[i] = v;
    }
    y[blockIdx.x * 64 + i] = s[i];
}
@ - a shuffle before a branch | 1 32 | f32
__global__ void k(float *y) {
    int i = threadIdx.x;
    float v = y[i], o = __shfl_xor_sync(~0u, v, 1);
    if (i < 20) v += o;
    y[i] = v;
}
@ - a shuffle in a branch with its mask | 1 32 | f32
__global__ void k(float *y) {
    int i = threadIdx.x;
    float v = y[i];
    if (i < 16) v += __shfl_xor_sync(0xffff, v, 1);
    else v = v * 3 - y[i] * 2;
    y[i] = v;
}
@ - an early exit before a shuffle | 1 32 | f32 20
__global__ void k(float *y, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    float v = y[i];
    v += __shfl_xor_sync(~0u, v, 1);
    y[i] = v;
}
@ - an early exit with a store | 1 32 | f32 20 z32
__global__ void k(float *y, int n, int *left) {
    int i = threadIdx.x;
    if (i >= n) {
        left[i] = 1;
        return;
    }
    float v = y[i];
    v += __shfl_xor_sync(~0u, v, 1);
    y[i] = v;
}
@ - a vote of the lanes of a loop | 1 64 | i64
__global__ void k(int *y) {
    int i = threadIdx.x, v = y[i];
    while (__any_sync(~0u, v > 3)) v = v > 3 ? v / 2 : v;
    y[i] = v + __popc(__ballot_sync(~0u, v & 1));
}
@ - a leader of each warp | 1 96 | z96 z1
__global__ void k(int *y, int *count) {
    unsigned mask = __ballot_sync(~0u, threadIdx.x % 5 < 3);
    int base = 0;
    if (threadIdx.x % 32 == 0) base = atomicAdd(count, __popc(mask));
    base = __shfl_sync(~0u, base, 0);
    y[threadIdx.x] = base;
}
@ - a match and a reduction of a warp | 1 32 | i32
__global__ void k(int *y) {
    int v = y[threadIdx.x] % 4;
    unsigned peers = __match_any_sync(~0u, v);
    y[threadIdx.x] = __popc(peers) + __reduce_add_sync(~0u, v);
}
@ - a barrier with a vote | 1 64 | i64
__global__ void k(int *y) {
    int n = __syncthreads_count(y[threadIdx.x] > 9);
    int all = __syncthreads_and(n > 0);
    y[threadIdx.x] = n + all;
}
@ init,copies shared memory that is written before | 1 128 | f128
__global__ void k(float *y) {
    __shared__ float s[128];
    int i = threadIdx.x;
    s[i] = i < 100 ? y[i] : 0;
    __syncthreads();
    y[i] = s[i];
}
@ init,copies global memory that is written before | 1 128 | f128 n128
__global__ void k(float *y, float *z) {
    int i = threadIdx.x;
    z[i] = y[i];
    __syncthreads();
    y[i] = z[i];
}
@ - a padded struct | 1 32 | n64 n64
struct P { char tag; int value; };
__global__ void k(P *a, P *b) {
    a[threadIdx.x].tag = 'x';
    a[threadIdx.x].value = threadIdx.x;
    b[threadIdx.x] = a[threadIdx.x];
    if (b[threadIdx.x].tag == 'x') b[threadIdx.x].value++;
}
@ - a tile beyond the edge | 2,2 16,16 | f400 f400 20
__global__ void k(const float *x, float *y, int n) {
    __shared__ float t[16][16];
    int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
    if (c < n && r < n) t[threadIdx.y][threadIdx.x] = x[r * n + c];
    __syncthreads();
    float v = t[threadIdx.y][threadIdx.x] * 2;
    if (c < n && r < n) y[r * n + c] = v;
}
@ - a copy of memory that nothing wrote | 1 32 | n64 n64
__global__ void k(float2 *x, float2 *y) {
    y[threadIdx.x] = x[threadIdx.x];
}
@ - a bit of a word | 1 32 | n32 z32
__global__ void k(unsigned char *x, int *y) {
    x[threadIdx.x * 4] = 5;
    unsigned v = ((unsigned *)x)[threadIdx.x] & 255;
    y[threadIdx.x] = v + 1;
}
@ - the byte in the middle | 1 32 | n32 z32
__global__ void k(unsigned char *x, int *y) {
    x[threadIdx.x * 4 + 1] = 5;
    unsigned v = ((unsigned *)x)[threadIdx.x];
    y[threadIdx.x] = ((v >> 8) & 255) * 3;
}
@ - the chosen of two values | 1 32 | f32 n32
__global__ void k(float *y, float *z) {
    int i = threadIdx.x;
    if (i >= 16) z[i] = 2;
    float a = y[i], b = z[i];
    y[i] = (i < 16 ? a : b) + 1;
}
@ - an array of a thread that is written in a loop | 1 32 | f32 1
__global__ void k(float *y, int n) {
    float a[8];
    int i = threadIdx.x;
    for (int j = 0; j < 8; j++) a[(j + n) & 7] = y[i] + j;
    y[i] = a[(i + n) & 7] + 1;
}
@ - an atomic update of zeros | 1 32 | z8
__global__ void k(int *z) {
    atomicAdd(z + (threadIdx.x & 7), 1);
}
@ - an exchange with memory that nothing wrote | 1 32 | m32 z32
__global__ void k(int *z, int *y) {
    y[threadIdx.x] = 1;
    atomicExch(z + threadIdx.x, 3);
}
@ - a result through shared memory | 1 32 | n32 f32
__global__ void k(float *x, float *y) {
    __shared__ float s[32];
    int i = threadIdx.x;
    x[i] = y[i] * 2;
    s[i] = x[i];
    __syncthreads();
    y[i] = s[31 - i] + x[i];
}
@ - a function with a struct | 1 32 | f32
struct V { float a, b, c; };
__device__ __noinline__ V twice(V v) {
    return {v.a * 2, v.b * 2, v.c * 2};
}
__global__ void k(float *y) {
    V v = twice({y[threadIdx.x], 1, 2});
    y[threadIdx.x] = v.a + v.c;
}
@ - recursion | 1 32 | i32
__device__ __noinline__ int depth(int n) {
    int a[4];
    for (int i = 0; i < 4; i++) a[i & n | i] = i;
    return n <= 0 ? a[0] : depth(n - 1) + a[3];
}
__global__ void k(int *y) {
    y[threadIdx.x] = depth(y[threadIdx.x] % 5);
}
@ - half precision and a matrix product | 1 32 | b512 b512 f256
#include <mma.h>
using namespace nvcuda;
__global__ void k(half *a, half *b, float *c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    wmma::fill_fragment(z, 0.0f);
    wmma::load_matrix_sync(x, a, 16);
    wmma::load_matrix_sync(y, b, 16);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);
}
@ - printf | 1 2 | f2
#include <cstdio>
__global__ void k(float *y) {
    if (y[threadIdx.x] > 5) printf("%f\n", y[threadIdx.x]);
}
@ - a loop around a comparing exchange | 4 64 | f1
__global__ void k(float *sum) {
    int *bits = (int *)sum, old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(__int_as_float(assumed) + threadIdx.x));
    } while (old != assumed);
}
@ - a bulk copy with a barrier | 1 32 | f64
#include <cuda/barrier>
#include <cuda/ptx>
__global__ void k(float *y) {
    __shared__ alignas(16) float s[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    if (threadIdx.x == 0) {
        init(&b, 32);
        cuda::device::experimental::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    cuda::barrier<cuda::thread_scope_block>::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::memcpy_async(s, y, cuda::aligned_size_t<16>(256), b);
        token = b.arrive();
    } else {
        token = b.arrive();
    }
    b.wait(cuda::std::move(token));
    y[threadIdx.x] = s[63 - threadIdx.x] + 1;
}
@ - a tile that a warp stores | 1 32 | f256
#include <mma.h>
using namespace nvcuda;
__global__ void k(float *y) {
    __shared__ float t[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 2.0f);
    wmma::store_matrix_sync(t, c, 16, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += 32) y[i] = t[i] * 2;
}
