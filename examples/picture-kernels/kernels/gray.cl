// The brightness of each pixel, 0 to 1, with the weights of ITU-R BT.709. A pixel is one uint, red in the lowest byte.
__kernel void gray(__global const uint *picture, __global float *brightness, int pixels)
{
    int i = get_global_id(0);
    if (i < pixels) {
        uint pixel = picture[i];
        float red = pixel & 255, green = (pixel >> 8) & 255, blue = (pixel >> 16) & 255;
        brightness[i] = (0.2126f * red + 0.7152f * green + 0.0722f * blue) / 255;
    }
}
