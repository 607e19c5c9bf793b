#version 450
// Specialization constants of every type, and a workgroup that they size.
layout(local_size_x_id = 0, local_size_y = 4, local_size_z_id = 2) in;
layout(constant_id = 10) const int RADIUS = 3;
layout(constant_id = 11) const uint BINS = 256u;
layout(constant_id = 12) const float SCALE = 0.5;
layout(constant_id = 13) const bool EXACT = true;
layout(constant_id = 14) const double LARGE = 1e100;
layout(binding = 0) buffer Y { float y[]; };
shared float tile[BINS + 2 * RADIUS];
void main() {
    tile[gl_LocalInvocationIndex % (BINS + 2 * RADIUS)] = SCALE;
    barrier();
    y[gl_GlobalInvocationID.x] = tile[0] + (EXACT ? 1.0 : float(LARGE));
}
