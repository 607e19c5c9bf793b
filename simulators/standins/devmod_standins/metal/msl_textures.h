// Textures and samplers of the Metal shading language on the CPU. Filters are computed with
// float32; a GPU has fewer bits for its weights.

// One of the 37 formats of devmod's images. cpu.py has the same fields, and `format` is the place
// in its list of formats.
struct TextureData {
    char *data;
    uint width, height, depth, layers, format, channels, bgra;
};
enum {
    UNORM8,
    SNORM8,
    UINT8,
    SINT8,
    UNORM16,
    SNORM16,
    UINT16,
    SINT16,
    FLOAT16,
    UINT32,
    SINT32,
    FLOAT32
};

// unistd.h has a function of this name.
enum class access { sample, read, write, read_write };
enum class coord { normalized, pixel };
enum class filter { nearest, linear };
enum class address { clamp_to_zero, clamp_to_edge, repeat, mirrored_repeat, clamp_to_border };
// A level of detail. Images have one.
struct level {
    explicit level(float) {}
};
struct sampler {
    coord unit = coord::normalized;
    filter how = filter::nearest;
    address outside = address::clamp_to_edge;
    constexpr void set(coord value) {
        unit = value;
    }
    constexpr void set(filter value) {
        how = value;
    }
    constexpr void set(address value) {
        outside = value;
    }
    template <class... A> constexpr sampler(A... options) {
        (set(options), ...);
    }
    // The index of a texel in a dimension of n texels; -1 for one that is zero.
    int texel(int i, int n) const {
        const int turn = outside == address::mirrored_repeat ? 2 * n : n,
                  rest = (i % turn + turn) % turn;
        if (outside == address::clamp_to_edge)
            return i < 0 ? 0 : i < n ? i : n - 1;
        if (outside == address::clamp_to_zero || outside == address::clamp_to_border)
            return i < 0 || i >= n ? -1 : i;
        return rest < n ? rest : turn - 1 - rest;
    }
};

template <class T> T one_channel(const TextureData &t, const char *at, uint channel) {
    switch (t.format) {
    case UNORM8:
        return T(((const uint8_t *)at)[channel] / 255.0f);
    case SNORM8:
        return T(fmaxf(((const int8_t *)at)[channel] / 127.0f, -1));
    case UINT8:
        return T(((const uint8_t *)at)[channel]);
    case SINT8:
        return T(((const int8_t *)at)[channel]);
    case UNORM16:
        return T(((const uint16_t *)at)[channel] / 65535.0f);
    case SNORM16:
        return T(fmaxf(((const int16_t *)at)[channel] / 32767.0f, -1));
    case UINT16:
        return T(((const uint16_t *)at)[channel]);
    case SINT16:
        return T(((const int16_t *)at)[channel]);
    case FLOAT16:
        return T(float(((const _Float16 *)at)[channel]));
    case UINT32:
        return T(((const uint32_t *)at)[channel]);
    case SINT32:
        return T(((const int32_t *)at)[channel]);
    default:
        return T(((const float *)at)[channel]);
    }
}

template <class T> void set_channel(const TextureData &t, char *at, uint channel, T value) {
    const float f = float(value), unit = f > 0 ? fminf(f, 1) : 0,
                both = f > -1   ? fminf(f, 1)
                       : f != f ? 0
                                : -1;
    switch (t.format) {
    case UNORM8:
        ((uint8_t *)at)[channel] = uint8_t(rintf(unit * 255));
        break;
    case SNORM8:
        ((int8_t *)at)[channel] = int8_t(rintf(both * 127));
        break;
    case UINT8:
        ((uint8_t *)at)[channel] = uint8_t(value < T(255) ? value : T(255));
        break;
    case SINT8:
        ((int8_t *)at)[channel] = int8_t(clamp(int(value), -128, 127));
        break;
    case UNORM16:
        ((uint16_t *)at)[channel] = uint16_t(rintf(unit * 65535));
        break;
    case SNORM16:
        ((int16_t *)at)[channel] = int16_t(rintf(both * 32767));
        break;
    case UINT16:
        ((uint16_t *)at)[channel] = uint16_t(value < T(65535) ? value : T(65535));
        break;
    case SINT16:
        ((int16_t *)at)[channel] = int16_t(clamp(int(value), -32768, 32767));
        break;
    case FLOAT16:
        ((_Float16 *)at)[channel] = _Float16(f);
        break;
    case UINT32:
        ((uint32_t *)at)[channel] = uint32_t(value);
        break;
    case SINT32:
        ((int32_t *)at)[channel] = int32_t(value);
        break;
    default:
        ((float *)at)[channel] = f;
    }
}

// A texture of D dimensions. `z` is the layer of an array.
template <class T, int D> struct Texture {
    const TextureData *self;
    Texture() = default;
    Texture(const void *data) : self((const TextureData *)data) {}

    char *place(int x, int y, int z) const {
        static const int BYTES[] = {1, 1, 1, 1, 2, 2, 2, 2, 2, 4, 4, 4};
        const uint planes = self->depth * (self->layers ? self->layers : 1);
        if (uint(x) >= self->width || uint(y) >= self->height || uint(z) >= planes)
            return nullptr;
        return self->data + ((size_t(z) * self->height + y) * self->width + x) * self->channels *
                                BYTES[self->format];
    }
    vec4<T> get(int x, int y, int z) const {
        T value[4] = {0, 0, 0, T(self->channels < 4)}; // also that of clamp_to_zero
        if (const char *at = place(x, y, z))
            for (uint channel = 0; channel < self->channels; channel++)
                value[self->bgra && channel < 3 ? 2 - channel : channel] =
                    one_channel<T>(*self, at, channel);
        return {value[0], value[1], value[2], value[3]};
    }
    void put(vec4<T> v, int x, int y, int z) const {
        const T value[4] = {v.x, v.y, v.z, v.w};
        if (char *at = place(x, y, z))
            for (uint channel = 0; channel < self->channels; channel++)
                set_channel(*self, at, channel,
                            value[self->bgra && channel < 3 ? 2 - channel : channel]);
    }
    vec4<T> filtered(sampler s, float x, float y, float z, int layer) const {
        const float places[3] = {x, y, z};
        const uint sizes[3] = {self->width, self->height, self->depth};
        const bool linear = s.how == filter::linear;
        int first[3] = {0, 0, layer};
        float weight[3] = {0, 0, 0};
        for (int d = 0; d < D; d++) {
            const float at =
                places[d] * (s.unit == coord::normalized ? sizes[d] : 1) - (linear ? 0.5f : 0);
            first[d] = int(floorf(at));
            weight[d] = linear ? at - floorf(at) : 0;
        }
        vec4<float> sum(0);
        vec4<T> nearest;
        for (int corner = 0; corner < 1 << (linear ? D : 0); corner++) {
            int at[3] = {0, 0, layer};
            float part = 1;
            for (int d = 0; d < D; d++) {
                const int far = corner >> d & 1;
                at[d] = s.texel(first[d] + far, sizes[d]);
                part *= far ? weight[d] : 1 - weight[d];
            }
            nearest = get(at[0], at[1], at[2]);
            sum += part * vec4<float>(nearest);
        }
        return linear ? vec4<T>(sum) : nearest;
    }
    uint get_width(uint = 0) const {
        return self->width;
    }
    uint get_height(uint = 0) const {
        return self->height;
    }
    uint get_depth(uint = 0) const {
        return self->depth;
    }
    uint get_array_size() const {
        return self->layers;
    }
};

template <class T, enum access = access::sample> struct texture1d : Texture<T, 1> {
    using Texture<T, 1>::Texture;
    vec4<T> read(uint x, uint = 0) const {
        return this->get(x, 0, 0);
    }
    void write(vec4<T> v, uint x) const {
        this->put(v, x, 0, 0);
    }
    vec4<T> sample(sampler s, float x, level = level(0)) const {
        return this->filtered(s, x, 0, 0, 0);
    }
};
template <class T, enum access = access::sample> struct texture1d_array : Texture<T, 1> {
    using Texture<T, 1>::Texture;
    vec4<T> read(uint x, uint layer) const {
        return this->get(x, 0, layer);
    }
    void write(vec4<T> v, uint x, uint layer) const {
        this->put(v, x, 0, layer);
    }
    vec4<T> sample(sampler s, float x, uint layer, level = level(0)) const {
        return this->filtered(s, x, 0, 0, layer);
    }
};
template <class T, enum access = access::sample> struct texture2d : Texture<T, 2> {
    using Texture<T, 2>::Texture;
    vec4<T> read(uint2 at, uint = 0) const {
        return this->get(at.x, at.y, 0);
    }
    void write(vec4<T> v, uint2 at) const {
        this->put(v, at.x, at.y, 0);
    }
    vec4<T> sample(sampler s, float2 at, level = level(0)) const {
        return this->filtered(s, at.x, at.y, 0, 0);
    }
};
template <class T, enum access = access::sample> struct texture2d_array : Texture<T, 2> {
    using Texture<T, 2>::Texture;
    vec4<T> read(uint2 at, uint layer) const {
        return this->get(at.x, at.y, layer);
    }
    void write(vec4<T> v, uint2 at, uint layer) const {
        this->put(v, at.x, at.y, layer);
    }
    vec4<T> sample(sampler s, float2 at, uint layer, level = level(0)) const {
        return this->filtered(s, at.x, at.y, 0, layer);
    }
};
template <class T, enum access = access::sample> struct texture3d : Texture<T, 3> {
    using Texture<T, 3>::Texture;
    vec4<T> read(uint3 at, uint = 0) const {
        return this->get(at.x, at.y, at.z);
    }
    void write(vec4<T> v, uint3 at) const {
        this->put(v, at.x, at.y, at.z);
    }
    vec4<T> sample(sampler s, float3 at, level = level(0)) const {
        return this->filtered(s, at.x, at.y, at.z, 0);
    }
};
