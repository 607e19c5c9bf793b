#version 450
// Structs in buffers, as a particle system has them, and a uniform block of scalars and vectors.
layout(local_size_x = 64) in;
struct Particle { vec4 position; vec3 velocity; float age; uint colour; };
layout(std430, binding = 0) buffer Particles { Particle particles[]; };
layout(std430, binding = 1) readonly buffer Attractors { vec4 attractors[16]; };
layout(std140, binding = 2) uniform Frame { float dt; vec3 gravity; ivec2 size; bool wrap; } frame;
layout(std430, binding = 3) writeonly buffer Count { uint alive; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    vec3 force = frame.gravity;
    for (int k = 0; k < 16; k++) force += attractors[k].xyz - particles[i].position.xyz;
    particles[i].velocity += force * frame.dt;
    particles[i].position.xyz += particles[i].velocity * frame.dt;
    if (frame.wrap) particles[i].position.xy = mod(particles[i].position.xy, vec2(frame.size));
    if (i == 0) alive = 1;
}
