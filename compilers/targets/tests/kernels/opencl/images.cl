const sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;

__kernel void blur(__read_only image2d_t in, __write_only image2d_t out, sampler_t how, __constant float *weights, int radius) {
  const int2 at = (int2)(get_global_id(0), get_global_id(1));
  float4 sum = 0;
  for (int dx = -radius; dx <= radius; ++dx) sum += weights[dx + radius] * read_imagef(in, nearest, at + (int2)(dx, 0));
  write_imagef(out, at, sum);
}

__kernel void slice(image3d_t volume, image2d_array_t layers, __global uint4 *histogram) {
  histogram[0] = read_imageui(volume, nearest, (int4)(0)) + read_imageui(layers, nearest, (int4)(0));
}
