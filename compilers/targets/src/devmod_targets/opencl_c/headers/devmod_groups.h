// The functions of sub-groups and work-groups.

// -- a value of another lane, in parts of 32 bits

#define DEVMOD_LANE_32(type) \
    DEVMOD_INLINE type devmod_lane(type x, uint lane) { return as_##type(devmod_from_lane(as_int(x), lane)); }
#define DEVMOD_LANE_64(type)                                                                                 \
    DEVMOD_INLINE type devmod_lane(type x, uint lane)                                                        \
    {                                                                                                        \
        int2 words = as_int2(x);                                                                             \
        return as_##type((int2)(devmod_from_lane(words.x, lane), devmod_from_lane(words.y, lane)));          \
    }
#define DEVMOD_LANE_SMALL(type, whole) \
    DEVMOD_INLINE type devmod_lane(type x, uint lane) { return as_##type((whole)devmod_from_lane(as_##whole(x), lane)); }
DEVMOD_LANE_32(int)
DEVMOD_LANE_32(uint)
DEVMOD_LANE_32(float)
DEVMOD_LANE_64(long)
DEVMOD_LANE_64(ulong)
DEVMOD_LANE_64(double)
DEVMOD_LANE_SMALL(char, char)
DEVMOD_LANE_SMALL(uchar, uchar)
DEVMOD_LANE_SMALL(short, short)
DEVMOD_LANE_SMALL(ushort, ushort)
DEVMOD_LANE_SMALL(half, short)

#define DEVMOD_SHUFFLES(type)                                                                                                             \
    type DEVMOD_OV sub_group_broadcast(type x, uint lane) { return devmod_lane(x, lane); }                                                \
    type DEVMOD_OV sub_group_shuffle(type x, uint lane) { return devmod_lane(x, lane); }                                                  \
    type DEVMOD_OV sub_group_shuffle_xor(type x, uint mask) { return devmod_lane(x, get_sub_group_local_id() ^ mask); }                   \
    type DEVMOD_OV sub_group_shuffle_up(type x, uint delta) { return devmod_lane(x, get_sub_group_local_id() - delta); }                  \
    type DEVMOD_OV sub_group_shuffle_down(type x, uint delta) { return devmod_lane(x, get_sub_group_local_id() + delta); }
DEVMOD_SHUFFLES(char)
DEVMOD_SHUFFLES(uchar)
DEVMOD_SHUFFLES(short)
DEVMOD_SHUFFLES(ushort)

// -- the memory of the functions of a work-group: a value for each of the most threads of a block, which the processor's compiler declares

local ulong *devmod_values(void);

#define DEVMOD_PLUS(x, y) ((x) + (y))
// A scan of a sub-group has five steps. That of a work-group adds one value after the other, so that the order of a sum is fixed.
#define DEVMOD_REDUCE(type, name, combine, first)                                                                                         \
    type DEVMOD_OV sub_group_scan_inclusive_##name(type x)                                                                                \
    {                                                                                                                                     \
        uint own = get_sub_group_local_id();                                                                                              \
        for (uint step = 1; step < DEVMOD_LANES; step *= 2) {                                                                             \
            type other = devmod_lane(x, own - step);                                                                                      \
            if (own >= step)                                                                                                              \
                x = combine(other, x);                                                                                                    \
        }                                                                                                                                 \
        return x;                                                                                                                         \
    }                                                                                                                                     \
    type DEVMOD_OV sub_group_scan_exclusive_##name(type x)                                                                                \
    {                                                                                                                                     \
        uint own = get_sub_group_local_id();                                                                                              \
        type other = devmod_lane(sub_group_scan_inclusive_##name(x), own - 1);                                                            \
        return own ? other : (type)first;                                                                                                 \
    }                                                                                                                                     \
    type DEVMOD_OV sub_group_reduce_##name(type x)                                                                                        \
    {                                                                                                                                     \
        return devmod_lane(sub_group_scan_inclusive_##name(x), get_sub_group_size() - 1);                                                 \
    }                                                                                                                                     \
    type DEVMOD_OV work_group_scan_inclusive_##name(type x)                                                                               \
    {                                                                                                                                     \
        local type *values = (local type *)devmod_values();                                                                               \
        uint own = get_local_linear_id();                                                                                                 \
        values[own] = x;                                                                                                                  \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                                     \
        type result = values[0];                                                                                                          \
        for (uint each = 1; each <= own; each++)                                                                                          \
            result = combine(result, values[each]);                                                                                       \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                                     \
        return result;                                                                                                                    \
    }                                                                                                                                     \
    type DEVMOD_OV work_group_scan_exclusive_##name(type x)                                                                               \
    {                                                                                                                                     \
        local type *values = (local type *)devmod_values();                                                                               \
        uint own = get_local_linear_id();                                                                                                 \
        type result = work_group_scan_inclusive_##name(x);                                                                                \
        values[own] = result;                                                                                                             \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                                     \
        result = own ? values[own - 1] : (type)first;                                                                                     \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                                     \
        return result;                                                                                                                    \
    }                                                                                                                                     \
    type DEVMOD_OV work_group_reduce_##name(type x)                                                                                       \
    {                                                                                                                                     \
        return devmod_at(work_group_scan_inclusive_##name(x), devmod_threads() - 1);                                                      \
    }
#define DEVMOD_BROADCAST(type)                                                                                                            \
    DEVMOD_INLINE type devmod_at(type x, uint thread)                                                                                     \
    {                                                                                                                                     \
        local type *values = (local type *)devmod_values();                                                                               \
        values[get_local_linear_id()] = x;                                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                                     \
        type result = values[thread];                                                                                                     \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                                     \
        return result;                                                                                                                    \
    }                                                                                                                                     \
    type DEVMOD_OV work_group_broadcast(type x, size_t i) { return devmod_at(x, i); }                                                     \
    type DEVMOD_OV work_group_broadcast(type x, size_t i, size_t j) { return devmod_at(x, i + j * get_local_size(0)); }                   \
    type DEVMOD_OV work_group_broadcast(type x, size_t i, size_t j, size_t k)                                                             \
    {                                                                                                                                     \
        return devmod_at(x, i + (j + k * get_local_size(1)) * get_local_size(0));                                                         \
    }
#define DEVMOD_GROUPS(type, least, most)                                                                                                  \
    DEVMOD_SHUFFLES(type)                                                                                                                 \
    DEVMOD_BROADCAST(type)                                                                                                                \
    DEVMOD_REDUCE(type, add, DEVMOD_PLUS, 0)                                                                                              \
    DEVMOD_REDUCE(type, min, DEVMOD_LESS_##type, most)                                                                                    \
    DEVMOD_REDUCE(type, max, DEVMOD_MORE_##type, least)
#define DEVMOD_LESS_int min
#define DEVMOD_MORE_int max
#define DEVMOD_LESS_uint min
#define DEVMOD_MORE_uint max
#define DEVMOD_LESS_long min
#define DEVMOD_MORE_long max
#define DEVMOD_LESS_ulong min
#define DEVMOD_MORE_ulong max
#define DEVMOD_LESS_float fmin
#define DEVMOD_MORE_float fmax
#define DEVMOD_LESS_double fmin
#define DEVMOD_MORE_double fmax
#define DEVMOD_LESS_half(x, y) ((half)fmin((float)(x), (float)(y)))
#define DEVMOD_MORE_half(x, y) ((half)fmax((float)(x), (float)(y)))
DEVMOD_GROUPS(int, INT_MIN, INT_MAX)
DEVMOD_GROUPS(uint, 0, UINT_MAX)
DEVMOD_GROUPS(long, LONG_MIN, LONG_MAX)
DEVMOD_GROUPS(ulong, 0, ULONG_MAX)
DEVMOD_GROUPS(float, -INFINITY, INFINITY)
DEVMOD_GROUPS(double, -INFINITY, INFINITY)
DEVMOD_GROUPS(half, -INFINITY, INFINITY)
int DEVMOD_OV work_group_any(int x) { return work_group_reduce_max((int)(x != 0)); }
int DEVMOD_OV work_group_all(int x) { return work_group_reduce_min((int)(x != 0)); }
