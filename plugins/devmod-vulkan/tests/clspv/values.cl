// Numbers of 8 and of 64 bits, which not each device has.

typedef struct {
    float scale;
    float3 shift;
    int steps[2];
} Options;

kernel void values(global float *x, const Options options, const char c, const long l, const uchar4 u, const float3 v)
{
    x[0] = options.scale + options.steps[1];
    x[1] = options.shift.z + v.z;
    x[2] = c;
    x[3] = l;
    x[4] = u.w;
}
