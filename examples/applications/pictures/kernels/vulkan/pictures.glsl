// The part that the five kernels share. A picture is an image of rgba8; a sampler2D is an image with its sampler, and a call takes both:
// `source` and `source_sampler`. Coordinates are from 0 to 1, and the centre of texel (x, y) is at ((x + 0.5) / width, (y + 0.5) / height).

vec4 texel(sampler2D source, int x, int y, int width, int height)
{
    return textureLod(source, vec2((x + 0.5) / width, (y + 0.5) / height), 0);
}

float luminance(vec4 color)
{
    return dot(color.rgb, vec3(0.2126, 0.7152, 0.0722));
}
