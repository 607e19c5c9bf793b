// Local memory as an argument, one kernel a type from a macro, and a helper.
#ifndef WG
#define WG 256
#endif

static void halve(local float *scratch, uint from) {
  for (uint step = from / 2; step > 0; step >>= 1) {
    if (get_local_id(0) < step) scratch[get_local_id(0)] += scratch[get_local_id(0) + step];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void reduce(global const float *in, global float *out, local float *scratch, int n) {
  const int i = get_global_id(0);
  scratch[get_local_id(0)] = i < n ? in[i] : 0.0f;
  barrier(CLK_LOCAL_MEM_FENCE);
  halve(scratch, WG);
  if (get_local_id(0) == 0) out[get_group_id(0)] = scratch[0];
}

#define FILL(type)                                                     \
  kernel void fill_##type(global type *out, type value, ulong count) { \
    if (get_global_id(0) < count) out[get_global_id(0)] = value;       \
  }
FILL(float)
FILL(uchar)
FILL(int4)
