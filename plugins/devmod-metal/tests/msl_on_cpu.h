// The part of the Metal shading language that the examples use, as C++ on the CPU: one thread for each thread of a threadgroup, one
// threadgroup after the other. It checks the results of the examples; it does not show that they run on a GPU.
#include <barrier>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

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
inline float max(float a, float b) { return a > b ? a : b; }
inline int clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }
inline float clamp(float v, float low, float high) { return v < low ? low : v > high ? high : v; }
inline float4 clamp(float4 v, float low, float high) { return {clamp(v.x, low, high), clamp(v.y, low, high), clamp(v.z, low, high), clamp(v.w, low, high)}; }
inline float4 rint(float4 v) { return {rintf(v.x), rintf(v.y), rintf(v.z), rintf(v.w)}; }
namespace precise {
inline float exp(float v) { return expf(v); }
inline float log2(float v) { return log2f(v); }
}
namespace metal {}
namespace mem_flags { constexpr int mem_threadgroup = 0; }
inline std::barrier<> *all_threads;
inline void threadgroup_barrier(int) { all_threads->arrive_and_wait(); }

struct Places { uint3 threadgroup_position_in_grid, thread_position_in_threadgroup, thread_position_in_grid, threadgroups_per_grid; };

template <class F> void run(F kernel_of, const uint *grid, const uint *block)
{
    for (uint gz = 0; gz < grid[2]; gz++)
        for (uint gy = 0; gy < grid[1]; gy++)
            for (uint gx = 0; gx < grid[0]; gx++) {
                std::barrier<> barrier(block[0] * block[1] * block[2]);
                all_threads = &barrier;
                std::vector<std::thread> threads;
                for (uint z = 0; z < block[2]; z++)
                    for (uint y = 0; y < block[1]; y++)
                        for (uint x = 0; x < block[0]; x++)
                            threads.emplace_back([=] {
                                kernel_of(Places{{gx, gy, gz}, {x, y, z}, {gx * block[0] + x, gy * block[1] + y, gz * block[2] + z}, {grid[0], grid[1], grid[2]}});
                                all_threads->arrive_and_drop();  // the barrier does not wait for a thread that has returned
                            });
                for (auto &thread : threads)
                    thread.join();
            }
}

#define kernel static
#define device
#define constant const
#define threadgroup static
