// Compiled by clang 22 of the wheel ziglang 0.17, once with -O2 (clang-O2.ptx) and once with -O0 (clang-O0.ptx):
// clang -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -S
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))

struct Pair {
    int a;
    double b;
};

__device__ int offsets[4] = {5, 6, 7, 8};

__device__ __attribute__((noinline)) double sum(double x, Pair p) {
    double s = 0;
    for (int i = 0; i < p.a; i++) s += x * i + p.b;
    return s;
}

extern "C" __global__ void k(float *o, const float *x, int n, Pair p) {
    __shared__ float s[64];
    int i = __nvvm_read_ptx_sreg_tid_x(), table[8];
    s[i] = x[i];
    __nvvm_bar_sync(0);
    float v = s[63 - i];
    for (int j = 0; j < 8; j++) table[(j * i) % 8] = j + n;
    for (int j = 0; j < i % 5; j++) v = v * 1.5f + __builtin_sqrtf(v);
    Pair q = {i % 3, p.b};
    float r = v + table[i % 8] + sum(v, q) + (i % 7 == 3 ? v * v : 0) + offsets[i % 4];
    switch (i % 6) {
        case 0: r += 1; break;
        case 1: r *= 2; break;
        case 2: r -= 7; break;
        case 4: r = -r; break;
        case 5: r += x[i]; break;
    }
    o[i] = r;
}
