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
using ushort = unsigned short;
using half = _Float16;
// The operators of a vector, for each member.
#define VECTOR_OPERATOR(name, op, ...) \
    friend name operator op(name a, name b) { return {__VA_ARGS__}; } \
    name &operator op##=(name other) { return *this = *this op other; }
template <class T> struct vec2 {
    T x, y;
    vec2() = default;
    T &operator[](int i) { return (&x)[i]; }
    T operator[](int i) const { return (&x)[i]; }
    vec2(T all) : x(all), y(all) {}
    vec2(T a, T b) : x(a), y(b) {}
    template <class U> explicit vec2(vec2<U> o) : x(T(o.x)), y(T(o.y)) {}
    VECTOR_OPERATOR(vec2, +, T(a.x + b.x), T(a.y + b.y))
    VECTOR_OPERATOR(vec2, -, T(a.x - b.x), T(a.y - b.y))
    VECTOR_OPERATOR(vec2, *, T(a.x * b.x), T(a.y * b.y))
    VECTOR_OPERATOR(vec2, /, T(a.x / b.x), T(a.y / b.y))
};
// Three members take the memory of four. Packed vectors have none to spare.
template <class T> struct alignas(4 * sizeof(T)) vec3 {
    union {
        struct { T x, y, z; };
        vec2<T> xy;
    };
    vec3() = default;
    T &operator[](int i) { return (&x)[i]; }
    T operator[](int i) const { return (&x)[i]; }
    vec3(T all) : vec3(all, all, all) {}
    vec3(T a, T b, T c) { x = a, y = b, z = c; }
    vec3(vec2<T> v, T c) : vec3(v.x, v.y, c) {}
    template <class U> explicit vec3(vec3<U> o) : vec3(T(o.x), T(o.y), T(o.z)) {}
    VECTOR_OPERATOR(vec3, +, T(a.x + b.x), T(a.y + b.y), T(a.z + b.z))
    VECTOR_OPERATOR(vec3, -, T(a.x - b.x), T(a.y - b.y), T(a.z - b.z))
    VECTOR_OPERATOR(vec3, *, T(a.x * b.x), T(a.y * b.y), T(a.z * b.z))
    VECTOR_OPERATOR(vec3, /, T(a.x / b.x), T(a.y / b.y), T(a.z / b.z))
};
template <class T> struct vec4 {
    union {
        struct { T x, y, z, w; };
        struct { T r, g, b, a; };
        vec3<T> xyz, rgb;
    };
    vec4() = default;
    T &operator[](int i) { return (&x)[i]; }
    T operator[](int i) const { return (&x)[i]; }
    vec4(T all) : vec4(all, all, all, all) {}
    vec4(T a, T b, T c, T d) { x = a, y = b, z = c, w = d; }
    vec4(vec3<T> v, T d) : vec4(v.x, v.y, v.z, d) {}
    template <class U> explicit vec4(vec4<U> o) : vec4(T(o.x), T(o.y), T(o.z), T(o.w)) {}
    VECTOR_OPERATOR(vec4, +, T(a.x + b.x), T(a.y + b.y), T(a.z + b.z), T(a.w + b.w))
    VECTOR_OPERATOR(vec4, -, T(a.x - b.x), T(a.y - b.y), T(a.z - b.z), T(a.w - b.w))
    VECTOR_OPERATOR(vec4, *, T(a.x * b.x), T(a.y * b.y), T(a.z * b.z), T(a.w * b.w))
    VECTOR_OPERATOR(vec4, /, T(a.x / b.x), T(a.y / b.y), T(a.z / b.z), T(a.w / b.w))
};
#define VECTORS(T) using T##2 = vec2<T>; using T##3 = vec3<T>; using T##4 = vec4<T>;
VECTORS(float) VECTORS(half) VECTORS(int) VECTORS(uint) VECTORS(short) VECTORS(ushort)
template <class T, int N> struct packed {
    T each[N];
    operator vec2<T>() const requires(N == 2) { return {each[0], each[1]}; }
    operator vec3<T>() const requires(N == 3) { return {each[0], each[1], each[2]}; }
    packed() = default;
    explicit packed(vec4<T> v) requires(N == 4) : each{v.x, v.y, v.z, v.w} {}
    T &operator[](int i) { return each[i]; }
    const T &operator[](int i) const { return each[i]; }
    operator vec4<T>() const requires(N == 4) { return {each[0], each[1], each[2], each[3]}; }
};
using packed_float2 = packed<float, 2>;
using packed_float3 = packed<float, 3>;
using packed_float4 = packed<float, 4>;
using packed_uint3 = packed<uint, 3>;
template <class T, int N> struct vec_of;
template <class T> struct vec_of<T, 2> { using type = vec2<T>; };
template <class T> struct vec_of<T, 3> { using type = vec3<T>; };
template <class T> struct vec_of<T, 4> { using type = vec4<T>; };
template <class T, int N> using vec = typename vec_of<T, N>::type;
template <class T, int N> struct array {
    T each[N];
    T &operator[](int i) { return each[i]; }
    const T &operator[](int i) const { return each[i]; }
};
template <class T, int Columns, int Rows> using matrix = array<vec<T, Rows>, Columns>;
template <class To, class From> To as_type(From value) { return __builtin_bit_cast(To, value); }
// A position converts to what a kernel declares.
struct Position {
    uint x, y, z;
    operator uint() const { return x; }
    operator uint2() const { return {x, y}; }
    operator uint3() const { return {x, y, z}; }
};
inline uint4 operator&(uint4 a, uint4 b) { return {a.x & b.x, a.y & b.y, a.z & b.z, a.w & b.w}; }
inline float rsqrt(float v) { return 1 / sqrtf(v); }
inline float max(float a, float b) { return a > b ? a : b; }
inline float min(float a, float b) { return a < b ? a : b; }
inline float3 min(float3 a, float b) { return {min(a.x, b), min(a.y, b), min(a.z, b)}; }
inline float dot(float3 a, float3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline int clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }
inline float clamp(float v, float low, float high) { return v < low ? low : v > high ? high : v; }
inline float4 clamp(float4 v, float4 low, float4 high) { return {clamp(v.x, low.x, high.x), clamp(v.y, low.y, high.y), clamp(v.z, low.z, high.z), clamp(v.w, low.w, high.w)}; }
inline float4 rint(float4 v) { return {rintf(v.x), rintf(v.y), rintf(v.z), rintf(v.w)}; }
inline float4 round(float4 v) { return {roundf(v.x), roundf(v.y), roundf(v.z), roundf(v.w)}; }
namespace precise {
inline float cos(float v) { return cosf(v); }
inline float exp(float v) { return expf(v); }
inline float log2(float v) { return log2f(v); }
inline float sin(float v) { return sinf(v); }
}
namespace metal {}
#include "msl_textures.h"
namespace mem_flags { constexpr int mem_threadgroup = 0; }
// One thread of the CPU runs all threads, so a plain number is an atomic one.
using atomic_uint = uint;
template <class T> using atomic = T;
enum { memory_order_relaxed };
inline void atomic_store_explicit(uint *at, uint value, int) { *at = value; }
inline uint atomic_load_explicit(const uint *at, int) { return *at; }
inline uint atomic_fetch_add_explicit(uint *at, uint value, int)
{
    const uint before = *at;
    *at += value;
    return before;
}

struct Places {
    Position threadgroup_position_in_grid, thread_position_in_threadgroup, thread_position_in_grid, threadgroups_per_grid, threads_per_threadgroup,
        threads_per_grid;
    uint thread_index_in_threadgroup;
};

inline Places place(const uint *grid, const uint *block, uint group, uint thread)
{
    const Position g{group % grid[0], group / grid[0] % grid[1], group / grid[0] / grid[1]};
    const Position t{thread % block[0], thread / block[0] % block[1], thread / block[0] / block[1]};
    return {g, t, {g.x * block[0] + t.x, g.y * block[1] + t.y, g.z * block[2] + t.z}, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},
            {grid[0] * block[0], grid[1] * block[1], grid[2] * block[2]}, thread};
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
#define thread
#define constant const
#define threadgroup static
