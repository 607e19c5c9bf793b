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

// Calls a function with a value of a format's type, and with the number that stands for 1: 0 for
// whole numbers, -1 for floats.
template <class F> auto with_format(uint format, F call) {
    switch (format) {
    case UNORM8:
        return call(uint8_t(), 255);
    case SNORM8:
        return call(int8_t(), 127);
    case UINT8:
        return call(uint8_t(), 0);
    case SINT8:
        return call(int8_t(), 0);
    case UNORM16:
        return call(uint16_t(), 65535);
    case SNORM16:
        return call(int16_t(), 32767);
    case UINT16:
        return call(uint16_t(), 0);
    case SINT16:
        return call(int16_t(), 0);
    case FLOAT16:
        return call(_Float16(), -1);
    case UINT32:
        return call(uint32_t(), 0);
    case SINT32:
        return call(int32_t(), 0);
    default:
        return call(float(), -1);
    }
}

template <class T> T one_channel(const TextureData &t, const char *at, uint channel) {
    return with_format(t.format, [=](auto type, int one) {
        const auto value = ((const decltype(type) *)at)[channel];
        if (one > 0)
            return T(fmaxf(float(value) / one, -1));
        return one < 0 ? T(float(value)) : T(value);
    });
}

// The nearest value of a type of whole numbers.
template <class S> S saturated(double value) {
    const double values = ldexp(1, 8 * sizeof(S)), least = S(-1) < S(0) ? -values / 2 : 0,
                 most = least + values - 1;
    return S(value < least ? least : value > most ? most : value);
}

template <class T> void set_channel(const TextureData &t, char *at, uint channel, T value) {
    with_format(t.format, [=](auto type, int one) {
        using S = decltype(type);
        const float f = float(value), least = S(-1) < S(0) ? -1 : 0;
        S &target = ((S *)at)[channel];
        if (one < 0)
            target = S(f);
        else if (one > 0)
            target = f != f ? S(0) : S(rintf(fminf(fmaxf(f, least), 1) * one));
        else
            target = saturated<S>(double(value));
    });
}

// The coordinates of D dimensions are a number or a vector; others are 0.
template <class T> T part(T coordinate, int d) {
    return d ? 0 : coordinate;
}
template <class T, int N> T part(vec<T, N> coordinates, int d) {
    return d < N ? coordinates[d] : 0;
}
template <class T, int D> using coordinates = std::conditional_t<D == 1, T, vec<T, D>>;

// A texture of D dimensions. `z` is the layer of an array. Images have one level of detail.
template <class T, int D> struct Texture {
    const TextureData *self;
    Texture() = default;
    Texture(const void *data) : self((const TextureData *)data) {}

    char *place(int x, int y, int z) const {
        const uint planes = self->depth * (self->layers ? self->layers : 1);
        if (uint(x) >= self->width || uint(y) >= self->height || uint(z) >= planes)
            return nullptr;
        const auto bytes = with_format(self->format, [](auto type, int) { return sizeof type; });
        return self->data +
               ((size_t(z) * self->height + y) * self->width + x) * self->channels * bytes;
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
    vec4<T> read(coordinates<uint, D> at, uint layer = 0) const {
        return get(part(at, 0), part(at, 1), D == 3 ? part(at, 2) : layer);
    }
    void write(vec4<T> v, coordinates<uint, D> at, uint layer = 0) const {
        put(v, part(at, 0), part(at, 1), D == 3 ? part(at, 2) : layer);
    }
    vec4<T> sample(sampler s, coordinates<float, D> at, level = level(0)) const {
        return sample(s, at, 0);
    }
    vec4<T> sample(sampler s, coordinates<float, D> place, uint layer, level = level(0)) const {
        const uint sizes[3] = {self->width, self->height, self->depth};
        const bool linear = s.how == filter::linear;
        int first[3] = {0, 0, int(layer)};
        float weight[3] = {0, 0, 0};
        for (int d = 0; d < D; d++) {
            const float at =
                part(place, d) * (s.unit == coord::normalized ? sizes[d] : 1) - (linear ? 0.5f : 0);
            first[d] = int(floorf(at));
            weight[d] = linear ? at - floorf(at) : 0;
        }
        vec4<float> sum(0);
        vec4<T> nearest;
        for (int corner = 0; corner < 1 << (linear ? D : 0); corner++) {
            int at[3] = {0, 0, int(layer)};
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

template <class T, enum access = access::sample> using texture1d = Texture<T, 1>;
template <class T, enum access = access::sample> using texture1d_array = Texture<T, 1>;
template <class T, enum access = access::sample> using texture2d = Texture<T, 2>;
template <class T, enum access = access::sample> using texture2d_array = Texture<T, 2>;
template <class T, enum access = access::sample> using texture3d = Texture<T, 3>;
