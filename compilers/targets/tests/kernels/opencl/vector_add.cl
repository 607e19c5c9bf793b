// The plainest of all, with TVM's restrict and a prototype before the definition.
__kernel void vector_add(__global const float *restrict a, __global const float *restrict b, __global float *restrict c, const unsigned int n);
__kernel void vector_add(__global const float *restrict a, __global const float *restrict b, __global float *restrict c, const unsigned int n) {
  const size_t i = get_global_id(0);
  if (i < n) c[i] = a[i] + b[i];
}
