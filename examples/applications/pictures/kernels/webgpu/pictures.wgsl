// The part that the kernels share. A picture is an image of rgba8unorm; the sampler reads the texel at the edge beyond it.
// Coordinates are from 0 to 1, and the centre of texel (x, y) is at ((x + 0.5) / width, (y + 0.5) / height).
@group(0) @binding(0) var source: texture_2d<f32>;
@group(0) @binding(1) var source_sampler: sampler;

fn texel(at: vec2i, width: i32, height: i32) -> vec4f {
    return textureSampleLevel(source, source_sampler, (vec2f(at) + 0.5) / vec2f(f32(width), f32(height)), 0);
}

fn luminance(color: vec4f) -> f32 {
    return dot(color.rgb, vec3f(0.2126, 0.7152, 0.0722));
}
