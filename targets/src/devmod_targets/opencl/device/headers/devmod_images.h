// Images of OpenCL C for NVIDIA's GPUs: texture and surface objects. An image is the address of its description, which devmod-cuda writes
// (_textures.py), and a sampler is a number with the bits CLK_….
typedef struct {
    ulong textures[32]; // by the bits of a sampler: 0 to 3, and the filter in bit 4
    ulong surface;
    uint width, height, depth, layers, channels, bytes, type, order; // bytes: those of a number
} devmod_image;
typedef const global devmod_image *devmod_image_ptr;

// A description does not change. Assembly that is not volatile is moved out of loops.
DEVMOD_DEVICE uint devmod_word(const global uint *at)
{
    uint result;
    __asm__("ld.global.nc.u32 %0, [%1];" : "=r"(result) : "l"(at));
    return result;
}
DEVMOD_DEVICE ulong devmod_object(const global ulong *at)
{
    ulong result;
    __asm__("ld.global.nc.u64 %0, [%1];" : "=l"(result) : "l"(at));
    return result;
}
#define DEVMOD_FIELD(image, name) devmod_word(&(image)->name)
DEVMOD_DEVICE ulong devmod_texture(devmod_image_ptr image, uint sampler)
{
    return devmod_object(&image->textures[(sampler & 15) | (sampler >> 1 & 16)]);
}
DEVMOD_DEVICE uint devmod_layer(float layer) { return (uint)m_fmax(m_rint(layer), 0.0f); }

// -- textures

#define DEVMOD_SAMPLE(geometry, place, result, letter, type, suffix)                                                                      \
    DEVMOD_DEVICE result devmod_sample_##geometry##_##type(ulong object, float x, float y, float z, uint layer)                           \
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
    DEVMOD_DEVICE uint4 devmod_load_##geometry(devmod_image_ptr image, int x, int y, int z)                                               \
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
    DEVMOD_DEVICE void devmod_store_##geometry(devmod_image_ptr image, int x, int y, int z, uint4 r)                                      \
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

DEVMOD_DEVICE uint devmod_bits(uint type, float value)
{
    switch (type) {
    case CLK_UNORM_INT8: return (uint)m_rint(m_fmin(m_fmax(value, 0.0f), 1.0f) * 255);
    case CLK_UNORM_INT16: return (uint)m_rint(m_fmin(m_fmax(value, 0.0f), 1.0f) * 65535);
    case CLK_SNORM_INT8: return (uint)(int)m_rint(m_fmin(m_fmax(value, -1.0f), 1.0f) * 127);
    case CLK_SNORM_INT16: return (uint)(int)m_rint(m_fmin(m_fmax(value, -1.0f), 1.0f) * 32767);
    case CLK_HALF_FLOAT: return as_ushort((half)value);
    default: return as_uint(value);
    }
}
DEVMOD_DEVICE uint devmod_int_bits(uint type, int value)
{
    int most = type == CLK_SIGNED_INT8 ? 127 : type == CLK_SIGNED_INT16 ? 32767 : INT_MAX;
    return value > most ? most : value < ~most ? ~most : value;
}
DEVMOD_DEVICE uint devmod_uint_bits(uint type, uint value)
{
    uint most = type == CLK_UNSIGNED_INT8 ? 255 : type == CLK_UNSIGNED_INT16 ? 65535 : UINT_MAX;
    return value > most ? most : value;
}
DEVMOD_DEVICE float devmod_float(uint type, uint bits)
{
    switch (type) {
    case CLK_UNORM_INT8: return bits / 255.0f;
    case CLK_UNORM_INT16: return bits / 65535.0f;
    case CLK_SNORM_INT8: return m_fmax((char)bits / 127.0f, -1.0f);
    case CLK_SNORM_INT16: return m_fmax((short)bits / 32767.0f, -1.0f);
    case CLK_HALF_FLOAT: return (float)as_half((ushort)bits);
    default: return as_float(bits);
    }
}
DEVMOD_DEVICE int devmod_int(uint type, uint bits)
{
    return type == CLK_SIGNED_INT8 ? (char)bits : type == CLK_SIGNED_INT16 ? (short)bits : (int)bits;
}
DEVMOD_DEVICE uint devmod_uint(uint type, uint bits) { return bits; }
DEVMOD_DEVICE uint4 devmod_packed(uint bytes, uint4 v)
{
    switch (bytes) {
    case 1: return (uint4)((v.x & 255) | (v.y & 255) << 8 | (v.z & 255) << 16 | v.w << 24, 0, 0, 0);
    case 2: return (uint4)((v.x & 65535) | v.y << 16, (v.z & 65535) | v.w << 16, 0, 0);
    default: return v;
    }
}
DEVMOD_DEVICE uint4 devmod_unpacked(uint bytes, uint4 v)
{
    switch (bytes) {
    case 1: return (uint4)(v.x & 255, v.x >> 8 & 255, v.x >> 16 & 255, v.x >> 24);
    case 2: return (uint4)(v.x & 65535, v.x >> 16, v.y & 65535, v.y >> 16);
    default: return v;
    }
}
