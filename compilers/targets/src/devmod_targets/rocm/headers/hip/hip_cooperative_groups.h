/* Cooperative groups: the block, tiles of a wave, the lanes that are active, and the grid, whose barrier is in ROCm's device library. */
#pragma once
#include <devmod_hip.h>
#include <devmod_hip_complete.h>

extern "C" __device__ void __ockl_grid_sync(void);
extern "C" __device__ int __ockl_grid_is_valid(void);

namespace cooperative_groups {

class grid_group {
public:
    static __device__ __forceinline__ unsigned long long size() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z * blockDim.x * blockDim.y * blockDim.z; }
    static __device__ __forceinline__ unsigned long long num_threads() { return size(); }
    static __device__ __forceinline__ unsigned num_blocks() { return gridDim.x * gridDim.y * gridDim.z; }
    static __device__ __forceinline__ unsigned block_rank() { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
    static __device__ __forceinline__ dim3 group_dim() { return gridDim; }
    static __device__ __forceinline__ unsigned long long thread_rank()
    {
        return (unsigned long long)block_rank() * (blockDim.x * blockDim.y * blockDim.z) + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    }
    static __device__ __forceinline__ bool is_valid() { return __ockl_grid_is_valid() != 0; }
    static __device__ __forceinline__ void sync() { __ockl_grid_sync(); }
};
devmod_function grid_group this_grid() { return {}; }

class thread_block;
class devmod_lanes;

/* Any group, as the parameter of a function. */
class thread_group {
    unsigned long lanes; /* 0 is the block */

public:
    __device__ __forceinline__ thread_group(const thread_block &) : lanes(0) {}
    __device__ __forceinline__ thread_group(const devmod_lanes &part);
    __device__ __forceinline__ unsigned size() const;
    __device__ __forceinline__ unsigned num_threads() const { return size(); }
    __device__ __forceinline__ unsigned thread_rank() const;
    __device__ __forceinline__ bool is_valid() const { return true; }
    __device__ __forceinline__ void sync() const;
};

class thread_block {
public:
    static __device__ __forceinline__ unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    static __device__ __forceinline__ unsigned num_threads() { return size(); }
    static __device__ __forceinline__ unsigned thread_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
    static __device__ __forceinline__ dim3 group_index() { return blockIdx; }
    static __device__ __forceinline__ dim3 thread_index() { return threadIdx; }
    static __device__ __forceinline__ dim3 group_dim() { return blockDim; }
    static __device__ __forceinline__ dim3 dim_threads() { return blockDim; }
    static __device__ __forceinline__ bool is_valid() { return true; }
    static __device__ __forceinline__ void sync() { __syncthreads(); }
};
devmod_function thread_block this_thread_block() { return {}; }

/* What tiles and subsets of a wave have in common: the bits of their lanes. */
class devmod_lanes {
    friend thread_group;

protected:
    unsigned long lanes;
    __device__ __forceinline__ explicit devmod_lanes(unsigned long lanes) : lanes(lanes) {}

public:
    __device__ __forceinline__ unsigned size() const { return __builtin_popcountl(lanes); }
    __device__ __forceinline__ unsigned num_threads() const { return size(); }
    __device__ __forceinline__ unsigned thread_rank() const { return __builtin_popcountl(lanes & ((1ul << __lane_id()) - 1)); }
    __device__ __forceinline__ bool is_valid() const { return true; }
    __device__ __forceinline__ void sync() const { __syncwarp(); }
    __device__ __forceinline__ int any(int predicate) const { return (__ballot(predicate) & lanes) != 0; }
    __device__ __forceinline__ int all(int predicate) const { return (__ballot(!predicate) & lanes) == 0; }
};

__device__ __forceinline__ thread_group::thread_group(const devmod_lanes &part) : lanes(part.lanes) {}
__device__ __forceinline__ unsigned thread_group::size() const { return lanes ? devmod_lanes(lanes).size() : thread_block::size(); }
__device__ __forceinline__ unsigned thread_group::thread_rank() const { return lanes ? devmod_lanes(lanes).thread_rank() : thread_block::thread_rank(); }
__device__ __forceinline__ void thread_group::sync() const
{
    if (lanes)
        devmod_lanes(lanes).sync();
    else
        thread_block::sync();
}

/* The threads of one wave that reach coalesced_threads together. */
class coalesced_group : public devmod_lanes {
    __device__ __forceinline__ int lane_of(int rank) const
    {
        unsigned long rest = lanes;
        for (int i = 0; i < rank; i++)
            rest &= rest - 1;
        return rest ? __builtin_ctzl(rest) : (int)__lane_id();
    }
    /* Bit i is that of the thread with rank i. */
    __device__ __forceinline__ devmod_mask by_rank(unsigned long chosen) const
    {
        unsigned long result = 0;
        int rank = 0;
        for (unsigned long rest = lanes; rest; rest &= rest - 1, rank++)
            result |= (chosen >> __builtin_ctzl(rest) & 1) << rank;
        return result;
    }

public:
    __device__ __forceinline__ coalesced_group() : devmod_lanes(__ballot(1)) {}
    __device__ __forceinline__ unsigned meta_group_rank() const { return 0; }
    __device__ __forceinline__ unsigned meta_group_size() const { return 1; }
    template <class T> __device__ __forceinline__ T shfl(T value, int rank) const { return devmod_shuffle(value, lane_of(rank)); }
    template <class T> __device__ __forceinline__ T shfl_up(T value, unsigned delta) const
    {
        unsigned rank = thread_rank();
        return devmod_shuffle(value, rank < delta ? (int)__lane_id() : lane_of(rank - delta));
    }
    template <class T> __device__ __forceinline__ T shfl_down(T value, unsigned delta) const
    {
        unsigned rank = thread_rank() + delta;
        return devmod_shuffle(value, rank < size() ? lane_of(rank) : (int)__lane_id());
    }
    __device__ __forceinline__ devmod_mask ballot(int predicate) const { return by_rank(__ballot(predicate) & lanes); }
    template <class T> __device__ __forceinline__ devmod_mask match_any(T value) const { return by_rank(__match_any(value) & lanes); }
};
devmod_function coalesced_group coalesced_threads() { return {}; }

template <unsigned Size, class Parent> class thread_block_tile;
/* The group that a tile is a part of: the block, or a larger tile. */
template <class Parent> struct devmod_parent {
    static __device__ __forceinline__ unsigned size() { return thread_block::size(); }
    static __device__ __forceinline__ unsigned thread_rank() { return thread_block::thread_rank(); }
};
template <unsigned Size, class Parent> struct devmod_parent<thread_block_tile<Size, Parent>> {
    static __device__ __forceinline__ unsigned size() { return Size; }
    static __device__ __forceinline__ unsigned thread_rank() { return __lane_id() & (Size - 1); }
};

/* A power of two of neighboring threads, in one wave. A tile of the type without a parent has the numbers of the tile that it is made from. */
template <unsigned Size, class Parent = void> class thread_block_tile : public devmod_lanes {
    static_assert(
        Size && (Size & (Size - 1)) == 0 && Size <= DEVMOD_WARP, "the size of a tile is a power of two up to the number of lanes of a wave"
    );
    static constexpr unsigned long ones = Size == 64 ? ~0ul : (1ul << (Size & 63)) - 1;
    unsigned rank, count;

public:
    __device__ __forceinline__ thread_block_tile() : devmod_lanes(ones << (__lane_id() & ~(Size - 1)))
    {
        rank = devmod_parent<Parent>::thread_rank() / Size;
        count = (devmod_parent<Parent>::size() + Size - 1) / Size;
    }
    template <class Other> __device__ __forceinline__ thread_block_tile(const thread_block_tile<Size, Other> &tile) : thread_block_tile()
    {
        rank = tile.meta_group_rank();
        count = tile.meta_group_size();
    }
    static constexpr __device__ __forceinline__ unsigned size() { return Size; }
    static constexpr __device__ __forceinline__ unsigned num_threads() { return Size; }
    __device__ __forceinline__ unsigned thread_rank() const { return __lane_id() & (Size - 1); }
    __device__ __forceinline__ unsigned meta_group_rank() const { return rank; }
    __device__ __forceinline__ unsigned meta_group_size() const { return count; }
    template <class T> __device__ __forceinline__ T shfl(T value, int rank) const { return __shfl(value, rank, Size); }
    template <class T> __device__ __forceinline__ T shfl_up(T value, unsigned delta) const { return __shfl_up(value, delta, Size); }
    template <class T> __device__ __forceinline__ T shfl_down(T value, unsigned delta) const { return __shfl_down(value, delta, Size); }
    template <class T> __device__ __forceinline__ T shfl_xor(T value, unsigned mask) const { return __shfl_xor(value, mask, Size); }
    __device__ __forceinline__ devmod_mask ballot(int predicate) const { return from_wave(__ballot(predicate)); }
    template <class T> __device__ __forceinline__ devmod_mask match_any(T value) const { return from_wave(__match_any(value)); }

private:
    __device__ __forceinline__ devmod_mask from_wave(unsigned long chosen) const { return chosen >> (__lane_id() & ~(Size - 1)) & ones; }
};
template <unsigned Size, class Parent> devmod_function thread_block_tile<Size, Parent> tiled_partition(const Parent &) { return {}; }

template <class Group> devmod_function void sync(const Group &group) { group.sync(); }

/* -- what CUDA's reduce.h has */

#define DEVMOD_GROUP_OPERATION(name, expression)                                                                 \
    template <class T = void> struct name {                                                                      \
        __device__ __forceinline__ T operator()(T a, T b) const { return expression; }                           \
    };
DEVMOD_GROUP_OPERATION(plus, a + b)
DEVMOD_GROUP_OPERATION(less, a < b ? a : b)
DEVMOD_GROUP_OPERATION(greater, a > b ? a : b)
DEVMOD_GROUP_OPERATION(bit_and, a & b)
DEVMOD_GROUP_OPERATION(bit_or, a | b)
DEVMOD_GROUP_OPERATION(bit_xor, a ^ b)
template <unsigned Size, class Parent, class T, class F>
devmod_function T reduce(const thread_block_tile<Size, Parent> &tile, T value, F operation)
{
    for (unsigned mask = Size / 2; mask; mask /= 2)
        value = operation(value, tile.shfl_xor(value, mask));
    return value;
}

} // namespace cooperative_groups
