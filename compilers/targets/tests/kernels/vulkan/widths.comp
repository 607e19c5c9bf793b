#version 450
// Numbers of every width.
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_atomic_int64 : require
layout(local_size_x = 32) in;
layout(binding = 0) buffer Halves { float16_t halves[]; };
layout(binding = 1) buffer Bytes { uint8_t bytes[]; };
layout(binding = 2) buffer Signed { i8vec4 signeds[]; };
layout(binding = 3) buffer Shorts { u16vec2 shorts[]; };
layout(binding = 4) buffer Longs { int64_t longs[]; };
layout(binding = 5) buffer Doubles { dvec2 doubles[]; };
layout(binding = 6) buffer Tickets { uint64_t tickets; };
layout(push_constant) uniform Push { int64_t start; double scale; float16_t half_; uint8_t small; i16vec3 three; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    halves[i] = half_; bytes[i] = small; signeds[i] = i8vec4(1); shorts[i] = u16vec2(three.xy); longs[i] = start;
    doubles[i] = dvec2(scale); atomicAdd(tickets, 1ul);
}
