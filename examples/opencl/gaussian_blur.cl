// A Gaussian blur of an RGB picture, 8 bits a channel. A Gaussian is separable: blurring along the rows and then
// along the columns costs 2 · (2 · radius + 1) reads a pixel instead of (2 · radius + 1)². Between the two the picture
// is kept in floats. `weights` holds the 2 · radius + 1 weights, which sum to one. Beyond its edges the picture goes on
// with the pixel at the edge.
#define CHANNELS 3

__kernel void blur_rows(__global const uchar *picture, __global float *between, __constant float *weights,
                        const int radius, const int width, const int height)
{
    const int x = get_global_id(0);
    const int y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    for (int channel = 0; channel < CHANNELS; channel++) {
        float sum = 0.0f;
        for (int i = -radius; i <= radius; i++)
            sum += weights[i + radius] * picture[(y * width + clamp(x + i, 0, width - 1)) * CHANNELS + channel];
        between[(y * width + x) * CHANNELS + channel] = sum;
    }
}

__kernel void blur_columns(__global const float *between, __global uchar *blurred, __constant float *weights,
                           const int radius, const int width, const int height)
{
    const int x = get_global_id(0);
    const int y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    for (int channel = 0; channel < CHANNELS; channel++) {
        float sum = 0.0f;
        for (int i = -radius; i <= radius; i++)
            sum += weights[i + radius] * between[(clamp(y + i, 0, height - 1) * width + x) * CHANNELS + channel];
        blurred[(y * width + x) * CHANNELS + channel] = convert_uchar_sat_rte(sum);
    }
}
