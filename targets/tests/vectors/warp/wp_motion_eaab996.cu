#define WP_NO_BFLOAT16

#define WP_TILE_BLOCK_DIM 256
#define WP_NO_CRT
#include "builtin.h"
#include "deterministic.h"

// Map wp.breakpoint() to a device brkpt at the call site so cuda-gdb attributes the stop to the generated .cu line
#if defined(__CUDACC__) && !defined(_MSC_VER)
#define __debugbreak() __brkpt()
#endif

#define builtin_tid1d() wp::tid(_idx, dim)
#define builtin_tid2d(x, y) wp::tid(x, y, _idx, dim)
#define builtin_tid3d(x, y, z) wp::tid(x, y, z, _idx, dim)
#define builtin_tid4d(x, y, z, w) wp::tid(x, y, z, w, _idx, dim)

#define builtin_block_dim() wp::block_dim()

// CUDA Thread Block Cluster shape declaration. Expands to __cluster_dims__
// only on devices that support clusters (compute capability 9.0+); otherwise
// expands to nothing so the same source compiles cleanly for any target arch.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900)
#define WP_CLUSTER_DIMS(x, y, z) __cluster_dims__(x, y, z)
#else
#define WP_CLUSTER_DIMS(x, y, z)
#endif

// Maximum registers per thread. __maxnreg__ was added in CUDA Toolkit 12.4;
// older toolkits ignore the opt-in so the same source remains compilable.
#if defined(__CUDACC_VER_MAJOR__) && (__CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 4))
#define WP_MAXNREG(n) __maxnreg__(n)
#else
#define WP_MAXNREG(n)
#endif

// Allow PTXAS to spill registers into shared memory. CUDA Toolkit 13.0
// introduced the pragma, which is unavailable in device-debug compilation.
#if defined(__CUDACC_VER_MAJOR__) && (__CUDACC_VER_MAJOR__ >= 13) && !defined(_DEBUG)
#define WP_ENABLE_SMEM_SPILLING() asm volatile(".pragma \"enable_smem_spilling\";");
#else
#define WP_ENABLE_SMEM_SPILLING()
#endif


// avoid namespacing of float type for casting to float type, this is to avoid wp::float(x), which is not valid in C++
#define float(x) cast_float(x)
#define adj_float(x, adj_x, adj_ret) adj_cast_float(x, adj_x, adj_ret)

#define int(x) cast_int(x)
#define adj_int(x, adj_x, adj_ret) adj_cast_int(x, adj_x, adj_ret)


struct Step_c8a22e75
{
    wp::vec_t<3, wp::float32> gravity;
    wp::float32 seconds;
    wp::uint16 count;


    Step_c8a22e75() = default;
    CUDA_CALLABLE Step_c8a22e75(wp::vec_t<3, wp::float32> const& gravity,
    wp::float32 const& seconds = {},
    wp::uint16 const& count = {})
        : gravity{gravity}
        , seconds{seconds}
        , count{count}

    {
    }

    CUDA_CALLABLE Step_c8a22e75& operator += (const Step_c8a22e75& rhs)
    {    gravity += rhs.gravity;
    seconds += rhs.seconds;

        return *this;}

};

static CUDA_CALLABLE void adj_Step_c8a22e75(wp::vec_t<3, wp::float32> const&,
    wp::float32 const&,
    wp::uint16 const&,
    wp::vec_t<3, wp::float32> & adj_gravity,
    wp::float32 & adj_seconds,
    wp::uint16 & adj_count,
    Step_c8a22e75 & adj_ret)
{
    adj_gravity += adj_ret.gravity;
    adj_seconds += adj_ret.seconds;
    adj_count += adj_ret.count;
}

// Required when compiling adjoints.
CUDA_CALLABLE Step_c8a22e75 add(const Step_c8a22e75& a, const Step_c8a22e75& b)
{
    return Step_c8a22e75();
}

CUDA_CALLABLE void adj_atomic_add(Step_c8a22e75* p, Step_c8a22e75 t)
{
    wp::adj_atomic_add(&p->gravity, t.gravity);
    wp::adj_atomic_add(&p->seconds, t.seconds);
    wp::adj_atomic_add(&p->count, t.count);
}





extern "C" __global__ void fill_0956082d_cuda_kernel_forward(
    wp::launch_bounds_t<2> dim,
    wp::array_t<wp::int32> var_grid)
{
    wp::tile_shared_storage_t tile_mem;

    for (size_t _idx = static_cast<size_t>(blockDim.x) * static_cast<size_t>(blockIdx.x) + static_cast<size_t>(threadIdx.x);
         _idx < dim.size;
         _idx += static_cast<size_t>(blockDim.x) * static_cast<size_t>(gridDim.x))
    {
            // reset shared memory allocator
        wp::tile_shared_storage_t::init();

        //---------
        // primal vars
        wp::int32 var_0;
        wp::int32 var_1;
        const wp::int32 var_2 = 100;
        wp::int32 var_3;
        wp::int32 var_4;
        //---------
        // forward
        // def fill(grid: wp.array2d(dtype=wp.int32)):                                            <L 26>
        // i, j = wp.tid()                                                                        <L 28>
        builtin_tid2d(var_0, var_1);
        // grid[i, j] = i * 100 + j                                                               <L 29>
        var_3 = wp::mul(var_0, var_2);
        var_4 = wp::add(var_3, var_1);
        wp::array_store(var_grid, var_0, var_1, var_4);
    }
}



extern "C" __global__ void move_b33ddeae_cuda_kernel_forward(
    wp::launch_bounds_t<1> dim,
    wp::array_t<wp::vec_t<3, wp::float32>> var_positions,
    wp::array_t<wp::vec_t<3, wp::float32>> var_speeds,
    Step_c8a22e75 var_step,
    wp::mat_t<2, 2, wp::float32> var_turn,
    wp::float32 var_scale)
{
    wp::tile_shared_storage_t tile_mem;

    for (size_t _idx = static_cast<size_t>(blockDim.x) * static_cast<size_t>(blockIdx.x) + static_cast<size_t>(threadIdx.x);
         _idx < dim.size;
         _idx += static_cast<size_t>(blockDim.x) * static_cast<size_t>(gridDim.x))
    {
            // reset shared memory allocator
        wp::tile_shared_storage_t::init();

        //---------
        // primal vars
        wp::int32 var_0;
        wp::uint16* var_1;
        wp::int32 var_2;
        wp::uint16 var_3;
        bool var_4;
        wp::vec_t<3, wp::float32>* var_5;
        wp::vec_t<3, wp::float32>* var_6;
        wp::float32* var_7;
        wp::vec_t<3, wp::float32> var_8;
        wp::vec_t<3, wp::float32> var_9;
        wp::float32 var_10;
        wp::vec_t<3, wp::float32> var_11;
        wp::vec_t<3, wp::float32> var_12;
        const wp::int32 var_13 = 0;
        wp::float32 var_14;
        const wp::int32 var_15 = 1;
        wp::float32 var_16;
        wp::vec_t<2, wp::float32> var_17;
        wp::vec_t<2, wp::float32> var_18;
        wp::vec_t<3, wp::float32>* var_19;
        const wp::int32 var_20 = 0;
        wp::float32 var_21;
        const wp::int32 var_22 = 1;
        wp::float32 var_23;
        const wp::int32 var_24 = 2;
        wp::float32 var_25;
        wp::vec_t<3, wp::float32> var_26;
        wp::float32* var_27;
        wp::float32 var_28;
        wp::float32 var_29;
        wp::vec_t<3, wp::float32> var_30;
        wp::vec_t<3, wp::float32> var_31;
        wp::vec_t<3, wp::float32> var_32;
        //---------
        // forward
        // def move(positions: wp.array(dtype=wp.vec3), speeds: wp.array(dtype=wp.vec3), step: Step, turn: wp.mat22, scale: float):       <L 16>
        // i = wp.tid()                                                                           <L 18>
        var_0 = builtin_tid1d();
        // if i < int(step.count):                                                                <L 19>
        var_1 = &((var_step).count);
        var_3 = wp::load(var_1);
        var_2 = wp::int(var_3);
        var_4 = (var_0 < var_2);
        if (var_4) {
            // speed = speeds[i] + step.gravity * step.seconds                                    <L 20>
            var_5 = wp::address(var_speeds, var_0);
            var_6 = &((var_step).gravity);
            var_7 = &((var_step).seconds);
            var_9 = wp::load(var_6);
            var_10 = wp::load(var_7);
            var_8 = wp::mul(var_9, var_10);
            var_12 = wp::load(var_5);
            var_11 = wp::add(var_12, var_8);
            // shift = turn * wp.vec2(speed[0], speed[1])                                         <L 21>
            var_14 = wp::extract(var_11, var_13);
            var_16 = wp::extract(var_11, var_15);
            var_17 = wp::vec_t<2, wp::float32>(var_14, var_16);
            var_18 = wp::mul(var_turn, var_17);
            // positions[i] = positions[i] + wp.vec3(shift[0], shift[1], speed[2]) * (step.seconds * scale)       <L 22>
            var_19 = wp::address(var_positions, var_0);
            var_21 = wp::extract(var_18, var_20);
            var_23 = wp::extract(var_18, var_22);
            var_25 = wp::extract(var_11, var_24);
            var_26 = wp::vec_t<3, wp::float32>(var_21, var_23, var_25);
            var_27 = &((var_step).seconds);
            var_29 = wp::load(var_27);
            var_28 = wp::mul(var_29, var_scale);
            var_30 = wp::mul(var_26, var_28);
            var_32 = wp::load(var_19);
            var_31 = wp::add(var_32, var_30);
            wp::array_store(var_positions, var_0, var_31);
        }
    }
}



extern "C" __global__ void move_b33ddeae_cuda_kernel_backward(
    wp::launch_bounds_t<1> dim,
    wp::array_t<wp::vec_t<3, wp::float32>> var_positions,
    wp::array_t<wp::vec_t<3, wp::float32>> var_speeds,
    Step_c8a22e75 var_step,
    wp::mat_t<2, 2, wp::float32> var_turn,
    wp::float32 var_scale,
    wp::array_t<wp::vec_t<3, wp::float32>> adj_positions,
    wp::array_t<wp::vec_t<3, wp::float32>> adj_speeds,
    Step_c8a22e75 adj_step,
    wp::mat_t<2, 2, wp::float32> adj_turn,
    wp::float32 adj_scale)
{
    wp::tile_shared_storage_t tile_mem;

    for (size_t _idx = static_cast<size_t>(blockDim.x) * static_cast<size_t>(blockIdx.x) + static_cast<size_t>(threadIdx.x);
         _idx < dim.size;
         _idx += static_cast<size_t>(blockDim.x) * static_cast<size_t>(gridDim.x))
    {
            // reset shared memory allocator
        wp::tile_shared_storage_t::init();

        //---------
        // primal vars
        wp::int32 var_0;
        wp::uint16* var_1;
        wp::int32 var_2;
        wp::uint16 var_3;
        bool var_4;
        wp::vec_t<3, wp::float32>* var_5;
        wp::vec_t<3, wp::float32>* var_6;
        wp::float32* var_7;
        wp::vec_t<3, wp::float32> var_8;
        wp::vec_t<3, wp::float32> var_9;
        wp::float32 var_10;
        wp::vec_t<3, wp::float32> var_11;
        wp::vec_t<3, wp::float32> var_12;
        const wp::int32 var_13 = 0;
        wp::float32 var_14;
        const wp::int32 var_15 = 1;
        wp::float32 var_16;
        wp::vec_t<2, wp::float32> var_17;
        wp::vec_t<2, wp::float32> var_18;
        wp::vec_t<3, wp::float32>* var_19;
        const wp::int32 var_20 = 0;
        wp::float32 var_21;
        const wp::int32 var_22 = 1;
        wp::float32 var_23;
        const wp::int32 var_24 = 2;
        wp::float32 var_25;
        wp::vec_t<3, wp::float32> var_26;
        wp::float32* var_27;
        wp::float32 var_28;
        wp::float32 var_29;
        wp::vec_t<3, wp::float32> var_30;
        wp::vec_t<3, wp::float32> var_31;
        wp::vec_t<3, wp::float32> var_32;
        //---------
        // dual vars
        wp::int32 adj_0 = {};
        wp::uint16 adj_1 = {};
        wp::int32 adj_2 = {};
        wp::uint16 adj_3 = {};
        bool adj_4 = {};
        wp::vec_t<3, wp::float32> adj_5 = {};
        wp::vec_t<3, wp::float32> adj_6 = {};
        wp::float32 adj_7 = {};
        wp::vec_t<3, wp::float32> adj_8 = {};
        wp::vec_t<3, wp::float32> adj_9 = {};
        wp::float32 adj_10 = {};
        wp::vec_t<3, wp::float32> adj_11 = {};
        wp::vec_t<3, wp::float32> adj_12 = {};
        wp::int32 adj_13 = {};
        wp::float32 adj_14 = {};
        wp::int32 adj_15 = {};
        wp::float32 adj_16 = {};
        wp::vec_t<2, wp::float32> adj_17 = {};
        wp::vec_t<2, wp::float32> adj_18 = {};
        wp::vec_t<3, wp::float32> adj_19 = {};
        wp::int32 adj_20 = {};
        wp::float32 adj_21 = {};
        wp::int32 adj_22 = {};
        wp::float32 adj_23 = {};
        wp::int32 adj_24 = {};
        wp::float32 adj_25 = {};
        wp::vec_t<3, wp::float32> adj_26 = {};
        wp::float32 adj_27 = {};
        wp::float32 adj_28 = {};
        wp::float32 adj_29 = {};
        wp::vec_t<3, wp::float32> adj_30 = {};
        wp::vec_t<3, wp::float32> adj_31 = {};
        wp::vec_t<3, wp::float32> adj_32 = {};
        //---------
        // forward
        // def move(positions: wp.array(dtype=wp.vec3), speeds: wp.array(dtype=wp.vec3), step: Step, turn: wp.mat22, scale: float):       <L 16>
        // i = wp.tid()                                                                           <L 18>
        var_0 = builtin_tid1d();
        // if i < int(step.count):                                                                <L 19>
        var_1 = &((var_step).count);
        var_3 = wp::load(var_1);
        var_2 = wp::int(var_3);
        var_4 = (var_0 < var_2);
        if (var_4) {
            // speed = speeds[i] + step.gravity * step.seconds                                    <L 20>
            var_5 = wp::address(var_speeds, var_0);
            var_6 = &((var_step).gravity);
            var_7 = &((var_step).seconds);
            var_9 = wp::load(var_6);
            var_10 = wp::load(var_7);
            var_8 = wp::mul(var_9, var_10);
            var_12 = wp::load(var_5);
            var_11 = wp::add(var_12, var_8);
            // shift = turn * wp.vec2(speed[0], speed[1])                                         <L 21>
            var_14 = wp::extract(var_11, var_13);
            var_16 = wp::extract(var_11, var_15);
            var_17 = wp::vec_t<2, wp::float32>(var_14, var_16);
            var_18 = wp::mul(var_turn, var_17);
            // positions[i] = positions[i] + wp.vec3(shift[0], shift[1], speed[2]) * (step.seconds * scale)       <L 22>
            var_19 = wp::address(var_positions, var_0);
            var_21 = wp::extract(var_18, var_20);
            var_23 = wp::extract(var_18, var_22);
            var_25 = wp::extract(var_11, var_24);
            var_26 = wp::vec_t<3, wp::float32>(var_21, var_23, var_25);
            var_27 = &((var_step).seconds);
            var_29 = wp::load(var_27);
            var_28 = wp::mul(var_29, var_scale);
            var_30 = wp::mul(var_26, var_28);
            var_32 = wp::load(var_19);
            var_31 = wp::add(var_32, var_30);
            // wp::array_store(var_positions, var_0, var_31);
        }
        //---------
        // reverse
        if (var_4) {
            wp::adj_array_store(var_positions, var_0, var_31, adj_positions, adj_0, adj_31);
            wp::adj_add(var_32, var_30, adj_19, adj_30, adj_31);
            wp::adj_mul(var_26, var_28, adj_26, adj_28, adj_30);
            wp::adj_mul(var_29, var_scale, adj_27, adj_scale, adj_28);
            adj_step.seconds += adj_27;
            wp::adj_vec_t(var_21, var_23, var_25, adj_21, adj_23, adj_25, adj_26);
            wp::adj_extract(var_11, var_24, adj_11, adj_24, adj_25);
            wp::adj_extract(var_18, var_22, adj_18, adj_22, adj_23);
            wp::adj_extract(var_18, var_20, adj_18, adj_20, adj_21);
            wp::adj_address(var_positions, var_0, adj_positions, adj_0, adj_19);
            // adj: positions[i] = positions[i] + wp.vec3(shift[0], shift[1], speed[2]) * (step.seconds * scale)  <L 22>
            wp::adj_mul(var_turn, var_17, adj_turn, adj_17, adj_18);
            wp::adj_vec_t(var_14, var_16, adj_14, adj_16, adj_17);
            wp::adj_extract(var_11, var_15, adj_11, adj_15, adj_16);
            wp::adj_extract(var_11, var_13, adj_11, adj_13, adj_14);
            // adj: shift = turn * wp.vec2(speed[0], speed[1])                                    <L 21>
            wp::adj_add(var_12, var_8, adj_5, adj_8, adj_11);
            wp::adj_mul(var_9, var_10, adj_6, adj_7, adj_8);
            adj_step.seconds += adj_7;
            adj_step.gravity += adj_6;
            wp::adj_address(var_speeds, var_0, adj_speeds, adj_0, adj_5);
            // adj: speed = speeds[i] + step.gravity * step.seconds                               <L 20>
        }
        adj_step.count = adj_1;
        // adj: if i < int(step.count):                                                           <L 19>
        // adj: i = wp.tid()                                                                      <L 18>
        // adj: def move(positions: wp.array(dtype=wp.vec3), speeds: wp.array(dtype=wp.vec3), step: Step, turn: wp.mat22, scale: float):  <L 16>
        continue;
    }
}

