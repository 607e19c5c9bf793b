// Conditions decide what there is: BINS from the caller, and a second kernel only where it is asked for.
#if !defined(BINS)
#error "BINS is the number of bins"
#endif

__kernel void histogram(__global const uchar4 *pixels, __global uint *bins, __local uint *own, const uint count) {
  for (uint i = get_local_id(0); i < BINS; i += get_local_size(0)) own[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_global_id(0) < count) atomic_inc(&own[pixels[get_global_id(0)].x % BINS]);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = get_local_id(0); i < BINS; i += get_local_size(0)) atomic_add(&bins[i], own[i]);
}

#ifdef WITH_CLEAR
__kernel void clear(__global uint *bins) { bins[get_global_id(0)] = 0; }
#else
__kernel void clear_slowly(__global uint *bins, uint value) { bins[get_global_id(0)] = value; }
#endif
