/* Images of Slang's CUDA text. An image is the address of its description, which devmod-cuda writes (_textures.py), and the bits of the only
 * sampler of the entry point: Slang's text does not have the sampler of a read.
 */
namespace slang {
struct Description {
    uint64_t textures[32]; // by the bits of a sampler: 0 to 3, and the filter in bit 4
    uint64_t surface;
    uint width, height, depth, layers, channels, bytes, type, order;
};
struct Picture {
    const Description *description;
    uint sampler;
    /* Slang's text takes the address of a texel for parts of it and for atomics. */
    template <class Place> SLANG_DEVICE Vector<uint, 4> *operator[](Place) const
    {
        static_assert(sizeof(Place) == 0, "an image takes whole texels, and has no atomics: read and write t[place] as a whole");
        return nullptr;
    }
};
using CUtexObject = Picture;
using CUsurfObject = Picture;
using SamplerState = uint64_t;
/* The last argument of the functions of surfaces, whose places are those of texels. */
struct Texels {};

template <class T> struct Channels { using Number = T; static constexpr int count = 1; };
template <class T, int N> struct Channels<Vector<T, N>> { using Number = T; static constexpr int count = N; };
template <class T, class Number> SLANG_INLINE T picture_value(const Number (&values)[4])
{
    T result;
    for (int i = 0; i < Channels<T>::count; i++)
        ((Number *)&result)[i] = values[i];
    return result;
}
#define SLANG_TEXTURE(Number, letter, suffix)                                                                             \
    SLANG_INLINE void picture_read(uint64_t texture, float x, float y, Number (&v)[4])                                    \
    {                                                                                                                     \
        asm("tex.2d.v4." suffix ".f32 {%0, %1, %2, %3}, [%4, {%5, %6}];"                                                  \
            : "=" letter(v[0]), "=" letter(v[1]), "=" letter(v[2]), "=" letter(v[3])                                      \
            : "l"(texture), "f"(x), "f"(y));                                                                              \
    }
SLANG_TEXTURE(float, "f", "f32")
SLANG_TEXTURE(int, "r", "s32")
SLANG_TEXTURE(uint, "r", "u32")
template <class T> SLANG_INLINE T picture_texture(Picture picture, uint texture, float x, float y)
{
    typename Channels<T>::Number values[4];
    picture_read(picture.description->textures[texture], x, y, values);
    if (picture.description->channels < 4)
        values[3] = 1;
    return picture_value<T>(values);
}
/* There are no mip levels. */
template <class T> SLANG_INLINE T tex2DLod(Picture picture, float x, float y, float)
{
    static_assert(typename Channels<T>::Number(0.5f) != 0, "a texture of integers has no samples: use Load");
    return picture_texture<T>(picture, (picture.sampler & 15) | (picture.sampler >> 1 & 16), x, y);
}
/* Through CLK_ADDRESS_CLAMP and CLK_FILTER_NEAREST, in texels: zeros outside. */
template <class T> SLANG_INLINE T tex2Dfetch_int(Picture picture, int x, int y, int)
{
    return picture_texture<T>(picture, 4, x + 0.5f, y + 0.5f);
}
SLANG_INLINE void picture_size(Picture picture, uint &width, uint &height)
{
    width = picture.description->width;
    height = picture.description->height;
}
SLANG_INLINE bool picture_has(Picture picture, int64_t x, int64_t y)
{
    return x >= 0 && x < picture.description->width && y >= 0 && y < picture.description->height;
}
template <class T> SLANG_INLINE T surf2Dread(Picture picture, int64_t x, int64_t y, Texels)
{
    uint v[4] = {0, 0, 0, 0};
    if (picture_has(picture, x, y)) {
        uint64_t s = picture.description->surface;
        int at = (int)x * (int)sizeof(T), row = (int)y;
        if constexpr (sizeof(T) == 4)
            asm volatile("suld.b.2d.b32.zero {%0}, [%1, {%2, %3}];" : "=r"(v[0]) : "l"(s), "r"(at), "r"(row) : "memory");
        else if constexpr (sizeof(T) == 8)
            asm volatile("suld.b.2d.v2.b32.zero {%0, %1}, [%2, {%3, %4}];" : "=r"(v[0]), "=r"(v[1]) : "l"(s), "r"(at), "r"(row) : "memory");
        else
            asm volatile("suld.b.2d.v4.b32.zero {%0, %1, %2, %3}, [%4, {%5, %6}];"
                         : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "l"(s), "r"(at), "r"(row) : "memory");
    }
    T result;
    memcpy(&result, v, sizeof(T));
    return result;
}
template <class T> SLANG_INLINE void surf2Dwrite(T value, Picture picture, int64_t x, int64_t y, Texels)
{
    if (!picture_has(picture, x, y))
        return;
    uint v[4];
    memcpy(v, &value, sizeof(T));
    uint64_t s = picture.description->surface;
    int at = (int)x * (int)sizeof(T), row = (int)y;
    if constexpr (sizeof(T) == 4)
        asm volatile("sust.b.2d.b32.zero [%0, {%1, %2}], {%3};" : : "l"(s), "r"(at), "r"(row), "r"(v[0]) : "memory");
    else if constexpr (sizeof(T) == 8)
        asm volatile("sust.b.2d.v2.b32.zero [%0, {%1, %2}], {%3, %4};" : : "l"(s), "r"(at), "r"(row), "r"(v[0]), "r"(v[1]) : "memory");
    else
        asm volatile("sust.b.2d.v4.b32.zero [%0, {%1, %2}], {%3, %4, %5, %6};"
                     : : "l"(s), "r"(at), "r"(row), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
}
}
