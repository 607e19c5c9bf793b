// The part of the Metal shading language that the examples use, as C++ on the CPU, one threadgroup after the other. It checks the
// results of the examples; it does not show that they run on a GPU.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <ucontext.h>
#include <vector>

using uchar = unsigned char;
using uint = unsigned int;
using ulong = unsigned long;
struct uint2 { uint x, y; };
struct uint3 { uint x, y, z; operator uint() const { return x; } operator uint2() const { return {x, y}; } };
struct float4 {
    float x, y, z, w;
    float4() = default;
    float4(float all) : x(all), y(all), z(all), w(all) {}
    float4(float a, float b, float c, float d) : x(a), y(b), z(c), w(d) {}
    float4 &operator+=(float4 o) { x += o.x, y += o.y, z += o.z, w += o.w; return *this; }
};
inline float4 operator*(float s, float4 v) { return {s * v.x, s * v.y, s * v.z, s * v.w}; }
struct uint4 {
    uint x, y, z, w;
    explicit uint4(float4 v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
};
struct half { // a half in memory, which kernels convert to a float
    uint16_t bits;
    operator float() const
    {
        const int sign = bits >> 15 ? -1 : 1, exponent = bits >> 10 & 31, fraction = bits & 1023;
        if (exponent == 31)
            return sign * (fraction ? NAN : INFINITY);
        return sign * (exponent ? ldexpf(1024 + fraction, exponent - 25) : ldexpf(fraction, -24));
    }
};
inline float rsqrt(float v) { return 1 / sqrtf(v); }
inline float max(float a, float b) { return a > b ? a : b; }
inline int clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }
inline float clamp(float v, float low, float high) { return v < low ? low : v > high ? high : v; }
inline float4 clamp(float4 v, float low, float high) { return {clamp(v.x, low, high), clamp(v.y, low, high), clamp(v.z, low, high), clamp(v.w, low, high)}; }
inline float4 rint(float4 v) { return {rintf(v.x), rintf(v.y), rintf(v.z), rintf(v.w)}; }
namespace precise {
inline float cos(float v) { return cosf(v); }
inline float exp(float v) { return expf(v); }
inline float log2(float v) { return log2f(v); }
inline float sin(float v) { return sinf(v); }
}
namespace metal {}
namespace mem_flags { constexpr int mem_threadgroup = 0; }

struct Places {
    uint3 threadgroup_position_in_grid, thread_position_in_threadgroup, thread_position_in_grid, threadgroups_per_grid, threads_per_threadgroup,
        threads_per_grid;
};

inline Places place(const uint *grid, const uint *block, uint group, uint thread)
{
    const uint3 g{group % grid[0], group / grid[0] % grid[1], group / grid[0] / grid[1]};
    const uint3 t{thread % block[0], thread / block[0] % block[1], thread / block[0] / block[1]};
    return {g, t, {g.x * block[0] + t.x, g.y * block[1] + t.y, g.z * block[2] + t.z}, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},
            {grid[0] * block[0], grid[1] * block[1], grid[2] * block[2]}};
}

// For kernels without a barrier.
template <class F> void run_one_by_one(F kernel_of, const uint *grid, const uint *block)
{
    for (uint group = 0; group < grid[0] * grid[1] * grid[2]; group++)
        for (uint thread = 0; thread < block[0] * block[1] * block[2]; thread++)
            kernel_of(place(grid, block, group, thread));
}

// The threads of a threadgroup as coroutines of one thread of the CPU: each runs to its next barrier, then the next one runs.
// No thread may return while others wait at a barrier, as in Metal.
struct Coroutine {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(64 << 10);
    bool done = false;
};
inline std::vector<Coroutine> coroutines;
inline ucontext_t scheduler;
inline uint running;
inline std::function<void(uint)> body;
inline void threadgroup_barrier(int) { swapcontext(&coroutines[running].context, &scheduler); }
inline void run_coroutine()
{
    body(running);
    coroutines[running].done = true;
}

template <class F> void run_together(F kernel_of, const uint *grid, const uint *block)
{
    const uint count = block[0] * block[1] * block[2];
    coroutines = std::vector<Coroutine>(count);
    for (uint group = 0; group < grid[0] * grid[1] * grid[2]; group++) {
        body = [=](uint thread) { kernel_of(place(grid, block, group, thread)); };
        for (auto &each : coroutines) {
            each.done = false;
            getcontext(&each.context);
            each.context.uc_stack.ss_sp = each.stack.data();
            each.context.uc_stack.ss_size = each.stack.size();
            each.context.uc_link = &scheduler;
            makecontext(&each.context, run_coroutine, 0);
        }
        while (!coroutines[0].done) {
            for (running = 0; running < count; running++)
                swapcontext(&scheduler, &coroutines[running].context);
            for (auto &each : coroutines)
                if (each.done != coroutines[0].done)
                    abort(); // a barrier that some threads do not reach
        }
    }
}

#define kernel static
#define device
#define constant const
#define threadgroup static
