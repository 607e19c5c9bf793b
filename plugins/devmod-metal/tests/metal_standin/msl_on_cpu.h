// The part of the Metal shading language that the examples use, as C++ on the CPU, one threadgroup after the other. It checks the
// results of the examples; it does not show that they run on a GPU.
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS // C's alone: each of C++'s costs every kernel more than its own lines
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <type_traits>
#include <ucontext.h>

using uchar = unsigned char;
using uint = unsigned int;
using ulong = unsigned long;
using ushort = unsigned short;
using half = _Float16;
constexpr half operator""h(long double value) { return half(value); }
template <class T, int N> struct vec;
template <class T, int N> struct packed;
template <int... I> struct swizzle_of {};
// The members of a vector. Three take the memory of four. Packed ones have none to spare.
template <class T, int N, bool Packed> struct members;
template <class T> struct alignas(2 * sizeof(T)) members<T, 2, false> { T x, y; };
template <class T> struct alignas(4 * sizeof(T)) members<T, 3, false> { T x, y, z; };
template <class T> struct alignas(4 * sizeof(T)) members<T, 4, false> {
    union {
        struct { T x, y, z, w; };
        struct { T r, g, b, a; };
        vec<T, 3> rgb;
    };
};
template <class T> struct members<T, 2, true> { T x, y; };
template <class T> struct members<T, 3, true> { T x, y, z; };
template <class T> struct members<T, 4, true> { T x, y, z, w; };
// Some members, as on the left of an assignment: `v.zx = ` is `v.put(swizzle_of<2, 0>()) = ` here.
template <class V, int... I> struct Part {
    V &self;
    template <class U> void operator=(U value)
    {
        int i = 0;
        ((self[I] = value[i++]), ...);
    }
    template <class U> void operator+=(U value) { *this = self.get(swizzle_of<I...>()) + value; }
    template <class U> void operator-=(U value) { *this = self.get(swizzle_of<I...>()) - value; }
    template <class U> void operator*=(U value) { *this = self.get(swizzle_of<I...>()) * value; }
    template <class U> void operator/=(U value) { *this = self.get(swizzle_of<I...>()) / value; }
};
#define MEMBERS(name) \
    name() = default; \
    T &operator[](int i) { return (&this->x)[i]; } \
    const T &operator[](int i) const { return (&this->x)[i]; } \
    template <int... I> vec<T, sizeof...(I)> get(swizzle_of<I...>) const { return {(*this)[I]...}; } \
    template <int... I> Part<name, I...> put(swizzle_of<I...>) { return {*this}; } \
    template <class A, class B, class... Rest> name(A first, B second, Rest... rest) \
    { \
        int i = 0; \
        add(i, first), add(i, second), (add(i, rest), ...); \
    } \
    template <class U> void add(int &i, U value) { (*this)[i++] = T(value); } \
    template <class U, int M> void add(int &i, vec<U, M> value) { for (int k = 0; k < M; k++) (*this)[i++] = T(value[k]); } \
    template <class U, int M> void add(int &i, packed<U, M> value) { add(i, vec<U, M>(value)); }
#define VECTOR_OPERATOR(op, result) \
    friend vec<result, N> operator op(vec a, vec b) \
    { \
        vec<result, N> each; \
        for (int i = 0; i < N; i++) \
            each[i] = result(a[i] op b[i]); \
        return each; \
    }
#define VECTOR_ASSIGNMENT(op) VECTOR_OPERATOR(op, T) vec &operator op##=(vec other) { return *this = *this op other; }
template <class T, int N> struct vec : members<T, N, false> {
    MEMBERS(vec)
    vec(T all) { for (int i = 0; i < N; i++) (*this)[i] = all; }
    template <class U> explicit vec(vec<U, N> o) { for (int i = 0; i < N; i++) (*this)[i] = T(o[i]); }
    VECTOR_ASSIGNMENT(+) VECTOR_ASSIGNMENT(-) VECTOR_ASSIGNMENT(*) VECTOR_ASSIGNMENT(/) VECTOR_ASSIGNMENT(%)
    VECTOR_ASSIGNMENT(&) VECTOR_ASSIGNMENT(|) VECTOR_ASSIGNMENT(^) VECTOR_ASSIGNMENT(<<) VECTOR_ASSIGNMENT(>>)
    VECTOR_OPERATOR(<, bool) VECTOR_OPERATOR(>, bool) VECTOR_OPERATOR(<=, bool) VECTOR_OPERATOR(>=, bool)
    VECTOR_OPERATOR(==, bool) VECTOR_OPERATOR(!=, bool) VECTOR_OPERATOR(&&, bool) VECTOR_OPERATOR(||, bool)
    vec operator-() const { return vec(T(0)) - *this; }
    vec<bool, N> operator!() const { return *this == vec(T(0)); }
    vec operator~() const { return *this ^ vec(T(-1)); }
};
template <class T> using vec2 = vec<T, 2>;
template <class T> using vec3 = vec<T, 3>;
template <class T> using vec4 = vec<T, 4>;
template <class T, int N> struct packed : members<T, N, true> {
    MEMBERS(packed)
    packed(vec<T, N> v) { for (int i = 0; i < N; i++) (*this)[i] = v[i]; }
    operator vec<T, N>() const
    {
        vec<T, N> v;
        for (int i = 0; i < N; i++)
            v[i] = (*this)[i];
        return v;
    }
};
#define VECTORS(T) \
    using T##2 = vec<T, 2>; using T##3 = vec<T, 3>; using T##4 = vec<T, 4>; \
    using packed_##T##2 = packed<T, 2>; using packed_##T##3 = packed<T, 3>; using packed_##T##4 = packed<T, 4>;
VECTORS(float) VECTORS(half) VECTORS(int) VECTORS(uint) VECTORS(short) VECTORS(ushort) VECTORS(bool)
template <class T, int N> struct array {
    T each[N];
    T &operator[](int i) { return each[i]; }
    const T &operator[](int i) const { return each[i]; }
};
template <class T, int Columns, int Rows> struct matrix {
    vec<T, Rows> each[Columns];
    matrix() = default;
    // Of all numbers, or of the columns.
    template <class A, class B, class... Rest> matrix(A first, B second, Rest... rest)
    {
        int i = 0;
        add(i, first), add(i, second), (add(i, rest), ...);
    }
    void add(int &i, T value) { each[i / Rows][i % Rows] = value, i++; }
    void add(int &i, vec<T, Rows> column) { each[i / Rows] = column, i += Rows; }
    vec<T, Rows> &operator[](int i) { return each[i]; }
    const vec<T, Rows> &operator[](int i) const { return each[i]; }
    friend matrix operator+(matrix a, const matrix &b)
    {
        for (int i = 0; i < Columns; i++)
            a[i] += b[i];
        return a;
    }
    friend matrix operator-(matrix a, const matrix &b)
    {
        for (int i = 0; i < Columns; i++)
            a[i] -= b[i];
        return a;
    }
    friend vec<T, Rows> operator*(const matrix &a, vec<T, Columns> v)
    {
        vec<T, Rows> sum = a[0] * v[0];
        for (int i = 1; i < Columns; i++)
            sum += a[i] * v[i];
        return sum;
    }
    friend vec<T, Columns> operator*(vec<T, Rows> v, const matrix &a)
    {
        vec<T, Columns> result;
        for (int i = 0; i < Columns; i++)
            result[i] = dot(v, a[i]);
        return result;
    }
    template <int M> friend matrix<T, M, Rows> operator*(const matrix &a, const matrix<T, M, Columns> &b)
    {
        matrix<T, M, Rows> result;
        for (int i = 0; i < M; i++)
            result[i] = a * b[i];
        return result;
    }
};
template <class T, int N> T dot(vec<T, N> a, vec<T, N> b)
{
    T sum = a[0] * b[0];
    for (int i = 1; i < N; i++)
        sum += a[i] * b[i];
    return sum;
}
inline bool all(bool v) { return v; }
inline bool any(bool v) { return v; }
template <int N> bool all(vec<bool, N> v)
{
    bool result = true;
    for (int i = 0; i < N; i++)
        result = result && v[i];
    return result;
}
template <int N> bool any(vec<bool, N> v) { return !all(!v); }
template <class T, int N> vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> is_b)
{
    for (int i = 0; i < N; i++)
        a[i] = is_b[i] ? b[i] : a[i];
    return a;
}
template <class T> T select(T a, T b, bool is_b) { return is_b ? b : a; }
template <class To, class From> To as_type(From value) { return __builtin_bit_cast(To, value); }
// A position converts to what a kernel declares.
struct Position {
    uint x, y, z;
    operator uint() const { return x; }
    operator uint2() const { return {x, y}; }
    operator uint3() const { return {x, y, z}; }
};
inline float rsqrt(float v) { return 1 / sqrtf(v); }
template <class T> T max(T a, T b) { return a > b ? a : b; }
template <class T> T min(T a, T b) { return a < b ? a : b; }
inline float3 min(float3 a, float b) { return {min(a.x, b), min(a.y, b), min(a.z, b)}; }
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
// No thread may return while others wait at a barrier, as in Metal. The threads of a SIMD-group wait for each other alone.
enum class ThreadState { running, barrier, shuffle, done };
struct Coroutine {
    ucontext_t context;
    char stack[64 << 10];
    ThreadState state;
    char shuffled[16]; // the value that other threads of the SIMD-group read
};
constexpr uint simd_size = 32;
inline Coroutine *coroutines;
inline uint coroutine_count;
inline ucontext_t scheduler;
inline uint running;
inline void (*body)(const void *work, uint thread);
inline const void *body_work;
inline void wait_in(ThreadState state)
{
    coroutines[running].state = state;
    swapcontext(&coroutines[running].context, &scheduler);
}
inline void threadgroup_barrier(int) { wait_in(ThreadState::barrier); }
template <class T> T simd_shuffle(T value, uint lane)
{
    const uint from = running / simd_size * simd_size + lane;
    memcpy(coroutines[running].shuffled, &value, sizeof value);
    wait_in(ThreadState::shuffle);
    if (lane < simd_size && from < coroutine_count) // Metal leaves the value of another lane undefined
        memcpy(&value, coroutines[from].shuffled, sizeof value);
    wait_in(ThreadState::shuffle);
    return value;
}
template <class T> T simd_shuffle_down(T value, uint delta) { return simd_shuffle(value, running % simd_size + delta); }
inline void run_coroutine()
{
    body(body_work, running);
    coroutines[running].state = ThreadState::done;
}
// Let the threads from `first` to `last` run on if they all are in one state; return whether they are.
inline bool release(ThreadState state, uint first, uint last)
{
    for (uint i = first; i < last; i++)
        if (coroutines[i].state != state)
            return false;
    for (uint i = first; i < last; i++)
        coroutines[i].state = ThreadState::running;
    return true;
}

template <class F> void run_together(F kernel_of, const uint *grid, const uint *block)
{
    const uint count = block[0] * block[1] * block[2];
    coroutines = (Coroutine *)calloc(coroutine_count = count, sizeof(Coroutine));
    for (uint group = 0; group < grid[0] * grid[1] * grid[2]; group++) {
        const auto work = [&](uint thread) { kernel_of(place(grid, block, group, thread)); };
        body_work = &work;
        body = [](const void *at, uint thread) { (*(const decltype(work) *)at)(thread); };
        for (uint i = 0; i < count; i++) {
            Coroutine &each = coroutines[i];
            each.state = ThreadState::running;
            getcontext(&each.context);
            each.context.uc_stack.ss_sp = each.stack;
            each.context.uc_stack.ss_size = sizeof each.stack;
            each.context.uc_link = &scheduler;
            makecontext(&each.context, run_coroutine, 0);
        }
        while (!release(ThreadState::done, 0, count)) {
            bool waits_for_ever = true;
            for (running = 0; running < count; running++)
                if (coroutines[running].state == ThreadState::running) {
                    waits_for_ever = false;
                    swapcontext(&scheduler, &coroutines[running].context);
                }
            if (waits_for_ever)
                abort(); // a barrier that some threads do not reach
            release(ThreadState::barrier, 0, count);
            for (uint first = 0; first < count; first += simd_size)
                release(ThreadState::shuffle, first, first + simd_size < count ? first + simd_size : count);
        }
    }
    free(coroutines);
}

#define kernel static
#define device
#define thread
#define constant const
#define threadgroup static
