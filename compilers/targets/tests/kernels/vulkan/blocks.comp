#version 450
// Every sort of block: what flattens, what does not, several sets, unused bindings.
layout(local_size_x = 4, local_size_y = 2, local_size_z = 3) in;
struct Light { vec3 at; float power; };
layout(set = 1, binding = 0) buffer Out { float result[]; };
layout(set = 0, binding = 5) uniform Scene { mat4 view; Light lights[2]; float exposure; } scene;
layout(set = 0, binding = 4) readonly buffer Never { uint never[]; };
layout(set = 0, binding = 2) uniform Plain { vec2 a; float b; uvec4 c; } plain;
layout(set = 0, binding = 1) buffer Mixed { int count; float values[]; } mixed;
layout(set = 0, binding = 0) buffer Same { uint head; uint words[]; } same;
layout(set = 2, binding = 7) buffer Fixed { int n; float scale; } constants;
layout(push_constant) uniform Push { layout(offset = 16) vec3 origin; float radius; mat2 turn; int table[3]; };
void main() {
    result[0] = scene.exposure + plain.b + mixed.values[mixed.count] + float(same.words[same.head]) + constants.scale + origin.x + radius
        + turn[0][1] + float(table[1]) + scene.lights[1].power + scene.view[0][0];
}
