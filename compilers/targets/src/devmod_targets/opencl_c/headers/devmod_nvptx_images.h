// Images of OpenCL C for NVIDIA's GPUs: texture and surface objects. An image is the address of its description, which devmod-cuda writes
// (_textures.py), and a sampler is a number with the bits CLK_….
typedef struct {
    ulong textures[32]; // by the bits of a sampler: 0 to 3, and the filter in bit 4
    ulong surface;
    uint width, height, depth, layers, channels, bytes, type, order; // bytes: those of a number
} devmod_image;
typedef const global devmod_image *devmod_image_ptr;

// A description does not change. Assembly that is not volatile is moved out of loops.
DEVMOD_INLINE uint devmod_word(const global uint *at)
{
    uint result;
    __asm__("ld.global.nc.u32 %0, [%1];" : "=r"(result) : "l"(at));
    return result;
}
DEVMOD_INLINE ulong devmod_object(const global ulong *at)
{
    ulong result;
    __asm__("ld.global.nc.u64 %0, [%1];" : "=l"(result) : "l"(at));
    return result;
}
#define DEVMOD_FIELD(image, name) devmod_word(&(image)->name)
DEVMOD_INLINE ulong devmod_texture(devmod_image_ptr image, uint sampler)
{
    return devmod_object(&image->textures[(sampler & 15) | (sampler >> 1 & 16)]);
}
DEVMOD_INLINE uint devmod_layer(float layer) { return (uint)fmax(rint(layer), 0.0f); }

// -- textures

#define DEVMOD_SAMPLE(geometry, place, result, letter, type, suffix)                                                                      \
    DEVMOD_INLINE result devmod_sample_##geometry##_##type(ulong object, float x, float y, float z, uint layer)                           \
    {                                                                                                                                     \
        result r;                                                                                                                         \
        __asm__("tex." #geometry ".v4." suffix ".f32 {%[r], %[g], %[b], %[a]}, [%[object], " place "];"                                   \
                : [r] "=" letter(r.x), [g] "=" letter(r.y), [b] "=" letter(r.z), [a] "=" letter(r.w)                                      \
                : [object] "l"(object), [x] "f"(x), [y] "f"(y), [z] "f"(z), [layer] "r"(layer));                                          \
        return r;                                                                                                                         \
    }
#define DEVMOD_SAMPLES(geometry, place)                                                                                                   \
    DEVMOD_SAMPLE(geometry, place, float4, "f", float, "f32")                                                                             \
    DEVMOD_SAMPLE(geometry, place, int4, "r", int, "s32")                                                                                 \
    DEVMOD_SAMPLE(geometry, place, uint4, "r", uint, "u32")
DEVMOD_SAMPLES(1d, "{%[x]}")
DEVMOD_SAMPLES(2d, "{%[x], %[y]}")
DEVMOD_SAMPLES(3d, "{%[x], %[y], %[z], %[z]}")
DEVMOD_SAMPLES(a1d, "{%[layer], %[x]}")
DEVMOD_SAMPLES(a2d, "{%[layer], %[x], %[y], %[y]}")

// -- surfaces. A texel is up to four words. What is outside is read as zeros, and not written.

#define DEVMOD_SURFACE(geometry, place)                                                                                                   \
    DEVMOD_INLINE uint4 devmod_load_##geometry(devmod_image_ptr image, int x, int y, int z)                                               \
    {                                                                                                                                     \
        ulong s = devmod_object(&image->surface);                                                                                         \
        uint size = DEVMOD_FIELD(image, channels) * DEVMOD_FIELD(image, bytes);                                                           \
        uint4 r = 0;                                                                                                                      \
        ushort h = 0;                                                                                                                     \
        x *= size;                                                                                                                        \
        DEVMOD_LOAD(geometry, place, 1, ".b8", "{%[h]}", [h] "=h"(h), r.x = h & 255)                                                      \
        DEVMOD_LOAD(geometry, place, 2, ".b16", "{%[h]}", [h] "=h"(h), r.x = h)                                                           \
        DEVMOD_LOAD(geometry, place, 4, ".b32", "{%[a]}", [a] "=r"(r.x), )                                                                \
        DEVMOD_LOAD(geometry, place, 8, ".v2.b32", "{%[a], %[b]}", DEVMOD_TWO("=", r), )                                                  \
        DEVMOD_LOAD(geometry, place, 16, ".v4.b32", "{%[a], %[b], %[c], %[d]}", DEVMOD_FOUR("=", r), )                                    \
        return r;                                                                                                                         \
    }                                                                                                                                     \
    DEVMOD_INLINE void devmod_store_##geometry(devmod_image_ptr image, int x, int y, int z, uint4 r)                                      \
    {                                                                                                                                     \
        ulong s = devmod_object(&image->surface);                                                                                         \
        uint size = DEVMOD_FIELD(image, channels) * DEVMOD_FIELD(image, bytes);                                                           \
        x *= size;                                                                                                                        \
        DEVMOD_STORE(geometry, place, 1, ".b8", "{%[h]}", [h] "h"((ushort)r.x))                                                           \
        DEVMOD_STORE(geometry, place, 2, ".b16", "{%[h]}", [h] "h"((ushort)r.x))                                                          \
        DEVMOD_STORE(geometry, place, 4, ".b32", "{%[a]}", [a] "r"(r.x))                                                                  \
        DEVMOD_STORE(geometry, place, 8, ".v2.b32", "{%[a], %[b]}", DEVMOD_TWO("", r))                                                    \
        DEVMOD_STORE(geometry, place, 16, ".v4.b32", "{%[a], %[b], %[c], %[d]}", DEVMOD_FOUR("", r))                                      \
    }
#define DEVMOD_TWO(way, r) [a] way "r"(r.x), [b] way "r"(r.y)
#define DEVMOD_FOUR(way, r) DEVMOD_TWO(way, r), [c] way "r"(r.z), [d] way "r"(r.w)
#define DEVMOD_PLACE [s] "l"(s), [x] "r"(x), [y] "r"(y), [z] "r"(z)
#define DEVMOD_LOAD(geometry, place, nbytes, suffix, words, outputs, then)                                                                \
    if (size == nbytes) {                                                                                                                 \
        __asm__ volatile("suld.b." #geometry suffix ".zero " words ", [%[s], " place "];" : outputs : DEVMOD_PLACE : "memory");           \
        then;                                                                                                                             \
    }
#define DEVMOD_STORE(geometry, place, nbytes, suffix, words, ...)                                                                         \
    if (size == nbytes)                                                                                                                   \
        __asm__ volatile("sust.b." #geometry suffix ".zero [%[s], " place "], " words ";" : : DEVMOD_PLACE, __VA_ARGS__ : "memory");
DEVMOD_SURFACE(1d, "{%[x]}")
DEVMOD_SURFACE(2d, "{%[x], %[y]}")
DEVMOD_SURFACE(3d, "{%[x], %[y], %[z], %[z]}")
DEVMOD_SURFACE(a1d, "{%[y], %[x]}")
DEVMOD_SURFACE(a2d, "{%[z], %[x], %[y], %[y]}")

// -- the numbers of a texel

DEVMOD_INLINE uint devmod_bits(uint type, float value)
{
    switch (type) {
    case CLK_UNORM_INT8: return (uint)rint(fmin(fmax(value, 0.0f), 1.0f) * 255);
    case CLK_UNORM_INT16: return (uint)rint(fmin(fmax(value, 0.0f), 1.0f) * 65535);
    case CLK_SNORM_INT8: return (uint)(int)rint(fmin(fmax(value, -1.0f), 1.0f) * 127);
    case CLK_SNORM_INT16: return (uint)(int)rint(fmin(fmax(value, -1.0f), 1.0f) * 32767);
    case CLK_HALF_FLOAT: return as_ushort((half)value);
    default: return as_uint(value);
    }
}
DEVMOD_INLINE uint devmod_int_bits(uint type, int value)
{
    int most = type == CLK_SIGNED_INT8 ? 127 : type == CLK_SIGNED_INT16 ? 32767 : INT_MAX;
    return value > most ? most : value < ~most ? ~most : value;
}
DEVMOD_INLINE uint devmod_uint_bits(uint type, uint value)
{
    uint most = type == CLK_UNSIGNED_INT8 ? 255 : type == CLK_UNSIGNED_INT16 ? 65535 : UINT_MAX;
    return value > most ? most : value;
}
DEVMOD_INLINE float devmod_float(uint type, uint bits)
{
    switch (type) {
    case CLK_UNORM_INT8: return bits / 255.0f;
    case CLK_UNORM_INT16: return bits / 65535.0f;
    case CLK_SNORM_INT8: return fmax((char)bits / 127.0f, -1.0f);
    case CLK_SNORM_INT16: return fmax((short)bits / 32767.0f, -1.0f);
    case CLK_HALF_FLOAT: return (float)as_half((ushort)bits);
    default: return as_float(bits);
    }
}
DEVMOD_INLINE int devmod_int(uint type, uint bits)
{
    return type == CLK_SIGNED_INT8 ? (char)bits : type == CLK_SIGNED_INT16 ? (short)bits : (int)bits;
}
DEVMOD_INLINE uint devmod_uint(uint type, uint bits) { return bits; }
DEVMOD_INLINE uint4 devmod_packed(uint bytes, uint4 v)
{
    switch (bytes) {
    case 1: return (uint4)((v.x & 255) | (v.y & 255) << 8 | (v.z & 255) << 16 | v.w << 24, 0, 0, 0);
    case 2: return (uint4)((v.x & 65535) | v.y << 16, (v.z & 65535) | v.w << 16, 0, 0);
    default: return v;
    }
}
DEVMOD_INLINE uint4 devmod_unpacked(uint bytes, uint4 v)
{
    switch (bytes) {
    case 1: return (uint4)(v.x & 255, v.x >> 8 & 255, v.x >> 16 & 255, v.x >> 24);
    case 2: return (uint4)(v.x & 65535, v.x >> 16, v.y & 65535, v.y >> 16);
    default: return v;
    }
}

// -- the functions of OpenCL C, by the mangled names of their images. An image without an alpha channel has the alpha 1, also outside.

#define DEVMOD_ALPHA(v) (DEVMOD_FIELD(image, channels) < 4 ? 1 : (v))
// The bits of the sampler of a read without one: CLK_ADDRESS_CLAMP_TO_EDGE, nearest, in texels.
#define DEVMOD_NO_SAMPLER 2
#define DEVMOD_SAMPLED(result, number, geometry, sampler, ...)                                                                             \
    number##4 v = devmod_sample_##geometry##_##number(devmod_texture(image, sampler), __VA_ARGS__);                                    \
    return (result)(v.x, v.y, v.z, DEVMOD_ALPHA(v.w));
// `begin` is the mangled name up to the image, and `code` the suffix of the function: f, h, i or ui.
#define DEVMOD_READ(begin, code, result, number, geometry, mangled, whole, whole_code, real, real_code)                             \
    result devmod_read_##geometry##_##code##_real(devmod_image_ptr image, constant void *sampler, real p)                                 \
        __asm__(begin mangled "_ro11ocl_sampler" real_code);                                                                              \
    result devmod_read_##geometry##_##code##_real(devmod_image_ptr image, constant void *sampler, real p)                                 \
    {                                                                                                                                     \
        DEVMOD_SAMPLED(result, number, geometry, (uint)(size_t)sampler, DEVMOD_REAL_##geometry)                                           \
    }                                                                                                                                     \
    result devmod_read_##geometry##_##code##_whole(devmod_image_ptr image, constant void *sampler, whole p)                               \
        __asm__(begin mangled "_ro11ocl_sampler" whole_code);                                                                             \
    result devmod_read_##geometry##_##code##_whole(devmod_image_ptr image, constant void *sampler, whole p)                               \
    {                                                                                                                                     \
        DEVMOD_SAMPLED(result, number, geometry, (uint)(size_t)sampler, DEVMOD_WHOLE_##geometry)                                          \
    }                                                                                                                                     \
    result devmod_read_##geometry##_##code##_plain(devmod_image_ptr image, whole p) __asm__(begin mangled "_ro" whole_code);              \
    result devmod_read_##geometry##_##code##_plain(devmod_image_ptr image, whole p)                                                       \
    {                                                                                                                                     \
        DEVMOD_SAMPLED(result, number, geometry, DEVMOD_NO_SAMPLER, DEVMOD_WHOLE_##geometry)                                              \
    }                                                                                                                                     \
    result devmod_load_##geometry##_##code(devmod_image_ptr image, whole p) __asm__(begin mangled "_rw" whole_code);                      \
    result devmod_load_##geometry##_##code(devmod_image_ptr image, whole p)                                                               \
    {                                                                                                                                     \
        uint type = DEVMOD_FIELD(image, type), channels = DEVMOD_FIELD(image, channels);                                                  \
        uint4 v = devmod_unpacked(DEVMOD_FIELD(image, bytes), devmod_load_##geometry(image, DEVMOD_TEXEL_##geometry));                    \
        return (result)(devmod_##number(type, v.x), channels > 1 ? devmod_##number(type, v.y) : 0,                                        \
                        channels > 2 ? devmod_##number(type, v.z) : 0, DEVMOD_ALPHA(devmod_##number(type, v.w)));                         \
    }
#define DEVMOD_STORED(begin, code, value, bits, geometry, mangled, whole, end, access)                                                    \
    void devmod_store_##geometry##_##code##_##access(devmod_image_ptr image, whole p, value v)                                            \
        __asm__(begin mangled "_" #access end);                                                                                           \
    void devmod_store_##geometry##_##code##_##access(devmod_image_ptr image, whole p, value v)                                            \
    {                                                                                                                                     \
        uint type = DEVMOD_FIELD(image, type);                                                                                            \
        uint4 words = (uint4)(bits(type, v.x), bits(type, v.y), bits(type, v.z), bits(type, v.w));                                        \
        devmod_store_##geometry(image, DEVMOD_TEXEL_##geometry, devmod_packed(DEVMOD_FIELD(image, bytes), words));                        \
    }
#define DEVMOD_WRITE(begin, code, value, bits, geometry, mangled, whole, end)                                                             \
    DEVMOD_STORED(begin, code, value, bits, geometry, mangled, whole, end, wo)                                                            \
    DEVMOD_STORED(begin, code, value, bits, geometry, mangled, whole, end, rw)
// The place of a texel for a texture by real numbers and by whole ones, and for a surface, whose layer is behind the other numbers.
#define DEVMOD_MIDDLE(each) ((float)(each) + 0.5f)
#define DEVMOD_FIRST(each) ((uint)((each) < 0 ? 0 : (each)))
#define DEVMOD_REAL_1d p, 0, 0, 0
#define DEVMOD_REAL_2d p.x, p.y, 0, 0
#define DEVMOD_REAL_3d p.x, p.y, p.z, 0
#define DEVMOD_REAL_a1d p.x, 0, 0, devmod_layer(p.y)
#define DEVMOD_REAL_a2d p.x, p.y, 0, devmod_layer(p.z)
#define DEVMOD_WHOLE_1d DEVMOD_MIDDLE(p), 0, 0, 0
#define DEVMOD_WHOLE_2d DEVMOD_MIDDLE(p.x), DEVMOD_MIDDLE(p.y), 0, 0
#define DEVMOD_WHOLE_3d DEVMOD_MIDDLE(p.x), DEVMOD_MIDDLE(p.y), DEVMOD_MIDDLE(p.z), 0
#define DEVMOD_WHOLE_a1d DEVMOD_MIDDLE(p.x), 0, 0, DEVMOD_FIRST(p.y)
#define DEVMOD_WHOLE_a2d DEVMOD_MIDDLE(p.x), DEVMOD_MIDDLE(p.y), 0, DEVMOD_FIRST(p.z)
#define DEVMOD_TEXEL_1d p, 0, 0
#define DEVMOD_TEXEL_2d p.x, p.y, 0
#define DEVMOD_TEXEL_3d p.x, p.y, p.z
#define DEVMOD_TEXEL_a1d p.x, p.y, 0
#define DEVMOD_TEXEL_a2d p.x, p.y, p.z
#define DEVMOD_SIZE(result, name, begin, geometry, mangled, value)                                                                        \
    result devmod_##name##_##geometry##_ro(devmod_image_ptr image) __asm__(begin mangled "_ro");                                          \
    result devmod_##name##_##geometry##_ro(devmod_image_ptr image) { return value; }                                                      \
    result devmod_##name##_##geometry##_wo(devmod_image_ptr image) __asm__(begin mangled "_wo");                                          \
    result devmod_##name##_##geometry##_wo(devmod_image_ptr image) { return value; }                                                      \
    result devmod_##name##_##geometry##_rw(devmod_image_ptr image) __asm__(begin mangled "_rw");                                          \
    result devmod_##name##_##geometry##_rw(devmod_image_ptr image) { return value; }
#define DEVMOD_WIDTH DEVMOD_FIELD(image, width)
#define DEVMOD_HEIGHT DEVMOD_FIELD(image, height)
#define DEVMOD_DEPTH DEVMOD_FIELD(image, depth)
// `again` is the mangled int4 behind the coordinate: a second int4 is a repetition.
#define DEVMOD_IMAGE(geometry, mangled, whole, whole_code, real, real_code, again)                                                        \
    DEVMOD_READ("_Z11read_imagef", f, float4, float, geometry, mangled, whole, whole_code, real, real_code)                         \
    DEVMOD_READ("_Z11read_imageh", h, half4, float, geometry, mangled, whole, whole_code, real, real_code)                          \
    DEVMOD_READ("_Z11read_imagei", i, int4, int, geometry, mangled, whole, whole_code, real, real_code)                             \
    DEVMOD_READ("_Z12read_imageui", ui, uint4, uint, geometry, mangled, whole, whole_code, real, real_code)                         \
    DEVMOD_WRITE("_Z12write_imagef", f, float4, devmod_bits, geometry, mangled, whole, whole_code "Dv4_f")                                \
    DEVMOD_WRITE("_Z12write_imageh", h, half4, devmod_bits, geometry, mangled, whole, whole_code "Dv4_Dh")                                \
    DEVMOD_WRITE("_Z12write_imagei", i, int4, devmod_int_bits, geometry, mangled, whole, whole_code again)                                \
    DEVMOD_WRITE("_Z13write_imageui", ui, uint4, devmod_uint_bits, geometry, mangled, whole, whole_code "Dv4_j")                          \
    DEVMOD_SIZE(int, width, "_Z15get_image_width", geometry, mangled, DEVMOD_WIDTH)                                                       \
    DEVMOD_SIZE(int, type, "_Z27get_image_channel_data_type", geometry, mangled, DEVMOD_FIELD(image, type))                               \
    DEVMOD_SIZE(int, order, "_Z23get_image_channel_order", geometry, mangled, DEVMOD_FIELD(image, order))
#define DEVMOD_LAYERS(geometry, mangled) DEVMOD_SIZE(size_t, layers, "_Z20get_image_array_size", geometry, mangled, DEVMOD_FIELD(image, layers))
#define DEVMOD_HIGH(geometry, mangled) DEVMOD_SIZE(int, height, "_Z16get_image_height", geometry, mangled, DEVMOD_HEIGHT)
#define DEVMOD_FLAT(geometry, mangled)                                                                                                    \
    DEVMOD_HIGH(geometry, mangled)                                                                                                        \
    DEVMOD_SIZE(int2, dim, "_Z13get_image_dim", geometry, mangled, ((int2)(DEVMOD_WIDTH, DEVMOD_HEIGHT)))
DEVMOD_IMAGE(1d, "14ocl_image1d", int, "i", float, "f", "Dv4_i")
DEVMOD_IMAGE(2d, "14ocl_image2d", int2, "Dv2_i", float2, "Dv2_f", "Dv4_i")
DEVMOD_IMAGE(3d, "14ocl_image3d", int4, "Dv4_i", float4, "Dv4_f", "S0_")
DEVMOD_IMAGE(a1d, "20ocl_image1d_array", int2, "Dv2_i", float2, "Dv2_f", "Dv4_i")
DEVMOD_IMAGE(a2d, "20ocl_image2d_array", int4, "Dv4_i", float4, "Dv4_f", "S0_")
DEVMOD_FLAT(2d, "14ocl_image2d")
DEVMOD_FLAT(a2d, "20ocl_image2d_array")
DEVMOD_HIGH(3d, "14ocl_image3d")
DEVMOD_SIZE(int, depth, "_Z15get_image_depth", 3d, "14ocl_image3d", DEVMOD_DEPTH)
DEVMOD_SIZE(int4, dim, "_Z13get_image_dim", 3d, "14ocl_image3d", ((int4)(DEVMOD_WIDTH, DEVMOD_HEIGHT, DEVMOD_DEPTH, 0)))
DEVMOD_LAYERS(a1d, "20ocl_image1d_array")
DEVMOD_LAYERS(a2d, "20ocl_image2d_array")
