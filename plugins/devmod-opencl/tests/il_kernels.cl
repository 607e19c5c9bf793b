// Kernels that compute the same as source and as SPIR-V.
struct Wave { float height; int period; };
struct Mixed { char tag; double weight; short pair[2]; };
constant float weights[5] = {1, 4, 6, 4, 1};

kernel void axpy(global float *y, global const float *x, float a, int n) {
  size_t i = get_global_id(0);
  if (i < n) y[i] = a * x[i] + y[i];
}

kernel void ids(global int *out) {
  size_t width = get_global_size(0), height = get_global_size(1);
  size_t at = (get_global_id(2) * height + get_global_id(1)) * width + get_global_id(0);
  out[at * 4] = get_group_id(0) + 10 * get_group_id(1) + 100 * get_group_id(2);
  out[at * 4 + 1] = get_local_id(0) + 10 * get_local_id(1) + 100 * get_local_id(2);
  out[at * 4 + 2] = get_local_size(0) + 10 * get_local_size(1) + 100 * get_local_size(2);
  out[at * 4 + 3] = get_num_groups(0) + 10 * get_num_groups(1) + 100 * get_num_groups(2) + 1000 * get_global_offset(0) + 10000 * get_local_size(3);
}

kernel void histogram(global const uchar *values, global int *bins, int n) {
  local int own[16];
  if (get_local_id(0) < 16) own[get_local_id(0)] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) atomic_inc(&own[values[i] >> 4]);
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) < 16) atomic_add(&bins[get_local_id(0)], own[get_local_id(0)]);
}

kernel void matmul(global const float *a, global const float *b, global float *c, int n, local float *tile_a, local float *tile_b) {
  int x = get_global_id(0), y = get_global_id(1), i = get_local_id(0), j = get_local_id(1);
  float sum = 0;
  for (int start = 0; start < n; start += 8) {
    tile_a[j * 8 + i] = a[y * n + start + i];
    tile_b[j * 8 + i] = b[(start + j) * n + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 8; k++) sum = fma(tile_a[j * 8 + k], tile_b[k * 8 + i], sum);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[y * n + x] = sum;
}

kernel __attribute__((reqd_work_group_size(64, 1, 1))) void reduction(global const float *x, global float *sums, local float *part) {
  uint me = get_local_id(0);
  part[me] = x[get_global_id(0)];
  for (uint step = 32; step; step >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me < step) part[me] += part[me + step];
  }
  if (me == 0) sums[get_group_id(0)] = part[0];
}

float total(local float *values, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += values[i];
  return sum;
}

kernel void softmax(global const float *x, global float *y, int n, local float *row) {
  global const float *own = x + get_group_id(0) * n;
  float most = -INFINITY;
  for (int i = 0; i < n; i++) most = fmax(most, own[i]);
  for (int i = get_local_id(0); i < n; i += get_local_size(0)) row[i] = exp(own[i] - most);
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = total(row, n);
  for (int i = get_local_id(0); i < n; i += get_local_size(0)) y[get_group_id(0) * n + i] = row[i] / sum;
}

kernel void blur(global const uchar4 *image, global uchar4 *out, int width, int height) {
  int x = get_global_id(0), y = get_global_id(1);
  float4 sum = 0;
  for (int dy = -2; dy <= 2; dy++)
    for (int dx = -2; dx <= 2; dx++) {
      int2 at = clamp((int2)(x + dx, y + dy), (int2)(0), (int2)(width - 1, height - 1));
      sum += convert_float4(image[at.y * width + at.x]) * weights[dx + 2] * weights[dy + 2];
    }
  out[y * width + x] = convert_uchar4_sat_rte(sum / 256);
}

kernel void mandelbrot(global int *out, int width, float2 corner, float step, int most) {
  int x = get_global_id(0), y = get_global_id(1);
  float2 c = corner + step * convert_float2((int2)(x, y)), z = 0;
  int n = 0;
  while (n < most && dot(z, z) < 4) {
    z = (float2)(z.x * z.x - z.y * z.y, 2 * z.x * z.y) + c;
    n++;
  }
  out[y * width + x] = n;
}

kernel void three(global const float *x, global float *y, float3 shift, uchar3 bytes) {
  size_t i = get_global_id(0);
  float3 v = vload3(i, x);
  vstore3(cross(v, shift) + convert_float3(bytes), i, y);
}

kernel void structs(global struct Wave *waves, struct Wave added, struct Mixed mixed, global struct Mixed *out) {
  size_t i = get_global_id(0);
  waves[i].height += added.height * waves[i].period;
  waves[i].period -= added.period;
  out[i] = mixed;
  out[i].weight += i;
}

kernel void conversions(global const float *x, global int *out, global half *halves) {
  size_t i = get_global_id(0);
  float v = x[i];
  global int *o = out + 16 * i;
  o[0] = convert_int_rte(v); o[1] = convert_int_rtz(v); o[2] = convert_int_rtp(v); o[3] = convert_int_rtn(v);
  o[4] = convert_uchar_sat(v); o[5] = convert_char_sat_rte(v); o[6] = convert_short_sat(v * 10000); o[7] = convert_ushort_sat(v * 10000);
  o[8] = as_int(v); o[9] = convert_uint_sat(v); o[10] = as_uchar4(v).z; o[11] = convert_int_sat(v * 1e9f);
  o[12] = convert_uchar_sat((int)v); o[13] = convert_char_sat((uint)convert_uint_sat(v)); o[14] = as_int(convert_float_rtp(convert_int(v * 1e7f))); o[15] = as_int(convert_float_rtz(0xfffffffful));
  vstore_half(v, i, halves);
}

kernel void vectors(global const int4 *a, global const int4 *b, global int4 *out) {
  size_t i = get_global_id(0);
  global int4 *o = out + 12 * i;
  o[0] = select(a[i], b[i], a[i] > b[i]);
  o[1] = shuffle(a[i], (uint4)(3, 2, 1, 0));
  o[2] = shuffle2(a[i], b[i], (uint4)(0, 4, 1, 5));
  o[3] = max(a[i], 3) + min(b[i], (int4)(5));
  o[4] = convert_int4(abs(a[i])) + convert_int4(abs_diff(a[i], b[i]));
  o[5] = a[i].wzyx * b[i].s0123;
  o[6] = bitselect(a[i], b[i], (int4)(0xff00ff));
  o[7] = rotate(a[i], (int4)(5)) ^ popcount(b[i]);
  o[8] = mul_hi(a[i] << 20, b[i] << 20) + mad24(a[i], b[i], (int4)(1));
  o[9] = clz(a[i]) + hadd(a[i], b[i]) + rhadd(a[i], b[i]);
  o[10] = (int4)(any(a[i] < 0), all(a[i] < b[i]), isequal((float)a[i].x, (float)b[i].x), (int)upsample((short)a[i].x, (ushort)b[i].x));
  o[11] = add_sat(a[i] << 28, b[i] << 28) ^ sub_sat(a[i] << 28, b[i] << 28);
}

kernel void atomics(global int *cells, global uint *most, int value) {
  int i = get_global_id(0);
  atomic_add(&cells[0], i); atomic_sub(&cells[1], value); atomic_min(&cells[2], -i); atomic_max(&cells[3], i);
  atomic_and(&cells[4], ~(1 << (i & 7))); atomic_or(&cells[5], 1 << (i & 15)); atomic_xor(&cells[6], i); atomic_dec(&cells[7]);
  atomic_max(&most[0], (uint)i * 0x10000000u);
  int old = cells[8], seen;
  do { seen = old; old = atomic_cmpxchg(&cells[8], seen, seen + value); } while (old != seen);
}

kernel void copies(global const float *x, global float *y, local float *own) {
  event_t loaded = async_work_group_copy(own, x + get_group_id(0) * 32, 32, 0);
  wait_group_events(1, &loaded);
  float v = own[31 - get_local_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  own[get_local_id(0)] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  event_t stored = async_work_group_copy(y + get_group_id(0) * 32, own, 32, 0);
  wait_group_events(1, &stored);
}

kernel void pointers(global const float *x, global float *out, global int *parts) {
  size_t i = get_global_id(0);
  float whole, cosine;
  int exponent, quotient;
  global float *o = out + 8 * i;
  o[0] = fract(x[i], &whole); o[1] = whole;
  o[2] = modf(x[i], &whole); o[3] = whole;
  o[4] = sincos(x[i], &cosine); o[5] = cosine;
  o[6] = frexp(x[i], &exponent); o[7] = remquo(x[i], 0.75f, &quotient);
  parts[2 * i] = exponent; parts[2 * i + 1] = quotient;
}

kernel void longs(global const long *a, global const ulong *b, global long *out) {
  size_t i = get_global_id(0);
  out[i * 6] = a[i] * 3 / 7; out[i * 6 + 1] = mul_hi(a[i], (long)b[i]); out[i * 6 + 2] = clz(b[i]);
  out[i * 6 + 3] = abs_diff(a[i], (long)5); out[i * 6 + 4] = (long)rotate(b[i], (ulong)13); out[i * 6 + 5] = max(a[i], -3l) % 11;
}
