//@ buffers
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Sizes { int n; float scale; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) y[i] = y[i] + scale * x[i]; }

//@ lengths
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) buffer V { vec3 v[]; };
layout(binding = 2) buffer M { uint head; uint pad; mat2 m[]; };
layout(binding = 3) buffer Y { int y[]; };
void main() { uint i = gl_GlobalInvocationID.x; y[i] = int(i) < x.length() ? 1000 * v.length() + x.length() : m.length(); }

//@ integers
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { int a[]; };
layout(binding = 1) buffer B { int b[]; };
layout(binding = 2) buffer U { uint u[]; };
layout(binding = 3) buffer Y { int y[]; };
layout(binding = 4) buffer Z { uint z[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    int p = a[i], q = b[i] | 1;
    uint r = u[i], s = uint(q) >> 20 | 1u;
    int o = int(i) * 4, w = int(i) * 4;
    if (o + 3 >= y.length()) return;
    y[o] = p / q + (p & 0xffff) % 7 - q * 3;
    y[o + 1] = (p >> 3) ^ (q << 5) & ~p | -q;
    y[o + 2] = abs(p) + sign(q) + min(p, q) - max(p, 5) + clamp(p, -100, 1000);
    y[o + 3] = bitfieldExtract(p, 5, 9) + bitfieldInsert(p, q, 3, 11) + findMSB(p) + findLSB(p) + bitCount(p);
    z[w] = r / s + r % s - r * 3u;
    z[w + 1] = (r >> 3) ^ (s << 5) & ~r;
    z[w + 2] = min(r, s) - max(r, 5u) + bitfieldExtract(r, 5, 9) + uint(findMSB(r)) + bitfieldReverse(r);
    uint low, high, carry, borrow;
    umulExtended(r, s * 77777u, high, low);
    uint sum = uaddCarry(r, 0xf0000000u, carry);
    uint less = usubBorrow(r, s * 99999u, borrow);
    z[w + 3] = low ^ high + carry * 7u + sum + less + borrow * 13u;
}

//@ comparisons
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { int a[]; };
layout(binding = 1) buffer B { uint b[]; };
layout(binding = 2) buffer X { float x[]; };
layout(binding = 3) buffer Y { int y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    int p = a[i], q = a[(i + 1) % 256], r = 0;
    uint u = b[i], v = b[(i + 7) % 256];
    float f = x[i], g = x[(i + 3) % 256];
    if (i % 5 == 0) f = 0.0 / (g - g);
    bvec4 some = bvec4(p < q, u <= v, f > g, f != g);
    r = int(p < q) + 2 * int(p <= q) + 4 * int(p > q) + 8 * int(p >= q) + 16 * int(p == q) + 32 * int(p != q);
    r += 64 * (int(u < v) + 2 * int(u <= v) + 4 * int(u > v) + 8 * int(u >= v));
    r += 1024 * (int(f < g) + 2 * int(f <= g) + 4 * int(f > g) + 8 * int(f >= g) + 16 * int(f == g) + 32 * int(f != g));
    r += 65536 * (int(any(some)) + 2 * int(all(some)) + 4 * int(some.x ^^ some.y) + 8 * int(some.z && !some.w || some.x));
    r += 1048576 * (int(isnan(f)) + 2 * int(isinf(uintBitsToFloat(0x7f800000u | (u & 0x80000000u)))) + 4 * int(any(lessThan(ivec3(p, q, 3), ivec3(q, p, 4)))));
    bvec2 picked = mix(bvec2(some.x, true), bvec2(false, some.y), bvec2(some.z, some.w));
    y[i] = r + (picked.x ? 1 << 26 : 0) + (picked.y ? 1 << 27 : 0) + (some.x == some.y ? 1 << 28 : 0);
}

//@ functions_of_floats 4e-4
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    float a = x[i], b = abs(x[(i + 5) % 256]) + 0.25;
    float r[40];
    int k = 0;
    r[k++] = sin(a); r[k++] = cos(a); r[k++] = tan(a * 0.3); r[k++] = asin(clamp(a, -1, 1)); r[k++] = acos(clamp(a, -0.9, 0.9));
    r[k++] = atan(a * 3); r[k++] = atan(a, b); r[k++] = atan(b, -a); r[k++] = sinh(a); r[k++] = cosh(a);
    r[k++] = tanh(a); r[k++] = asinh(a); r[k++] = acosh(b + 1); r[k++] = atanh(clamp(a, -0.9, 0.9)); r[k++] = pow(b, a);
    r[k++] = exp(a); r[k++] = log(b); r[k++] = exp2(a); r[k++] = log2(b); r[k++] = sqrt(b);
    r[k++] = inversesqrt(b); r[k++] = abs(a) + sign(a); r[k++] = floor(a * 7); r[k++] = ceil(a * 7); r[k++] = trunc(a * 7);
    r[k++] = roundEven(a * 7); r[k++] = fract(a * 7); r[k++] = mod(a * 7, b); r[k++] = min(a, b) * max(a, 0.5); r[k++] = clamp(a, -0.5, 0.25);
    r[k++] = mix(a, b, 0.3); r[k++] = step(a, b); r[k++] = smoothstep(-1, 2, a); r[k++] = fma(a, b, 0.5); r[k++] = radians(a);
    r[k++] = degrees(a); r[k++] = ldexp(a, int(i % 9) - 4); int e; r[k++] = frexp(a * 1000, e) + float(e); float w; r[k++] = modf(a * 9, w) + w * 2; r[k++] = a / b - a * b;
    if (i * 40 + 39 < y.length()) for (k = 0; k < 40; k++) y[i * 40 + k] = r[k];
}

//@ vectors 2e-5
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { vec4 x[]; };
layout(binding = 1) buffer Y { vec4 y[]; };
layout(binding = 2) buffer P { uvec4 p[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    vec4 a = x[i], b = x[(i + 9) % 256];
    vec3 n = normalize(a.xyz + 0.5), c = cross(a.xyz, b.zyx);
    vec4 r = a.wzyx * b.xxyy + vec4(c, dot(a, b));
    r.y += length(a) * distance(a, b);
    r.zx = reflect(a.xy, n.xy) + refract(n.xz, n.zy, 0.7);
    r[i % 4] += 2.0;
    r.w += r[(i / 4) % 4] + faceforward(n, a.xyz, b.xyz).y;
    y[i] = r;
    p[i].x = packHalf2x16(a.xy) ^ packUnorm4x8(b) ^ packSnorm2x16(a.zw);
    p[i].y = packSnorm4x8(a) + packUnorm2x16(b.xy);
    p[i].zw = floatBitsToUint(unpackHalf2x16(p[i].x & 0x3bff3bffu) + unpackUnorm2x16(p[i].y) + unpackSnorm4x8(p[i].x).xy + unpackUnorm4x8(p[i].y).zw + unpackSnorm2x16(p[i].y)) >> 8;
}

//@ matrices 2e-4
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { mat3x2 a[]; };
layout(binding = 1, row_major) buffer B { mat3 b[]; };
layout(binding = 2) buffer C { mat4 c[]; };
layout(binding = 3, row_major) buffer D { mat2x3 d[]; };
layout(binding = 4) buffer Y { float y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= 16) return;
    mat3 q = b[i] + mat3(2.5);
    mat4 r = inverse(c[i] + mat4(6.0));
    d[i] = transpose(a[i]) * 0.5;
    d[i][1].z += 3.0;
    b[i][2][i % 3] = 9.0;
    vec3 v = q * vec3(1, 2, 3) + vec3(1, 2, 3) * q;
    mat3 s = q * outerProduct(v, vec3(0.1, 0.2, -0.3));
    y[i * 9] = determinant(q); y[i * 9 + 1] = determinant(c[i]); y[i * 9 + 2] = r[1][2]; y[i * 9 + 3] = r[3].x;
    y[i * 9 + 4] = v.x + v.y * v.z; y[i * 9 + 5] = s[2][1]; y[i * 9 + 6] = (a[i] * v).y; y[i * 9 + 7] = determinant(matrixCompMult(mat2(1, 2, 3, 5), mat2(v.x, 1, 2, v.y)));
    y[i * 9 + 8] = inverse(q)[0][2];
}

//@ layouts
struct Inner { vec3 v; float f; ivec2 k; };
struct Outer { float one; Inner inner[3]; mat2 m; };
layout(local_size_x = 8) in;
layout(binding = 0, std430) buffer A { Outer a[]; };
layout(binding = 1, std140) buffer B { float head; Inner inner[2]; float tail[]; };
layout(binding = 2, std140) uniform U { float first; vec3 second; ivec2 third; };
layout(binding = 3, std140) uniform W { Inner w[2]; mat3 m; float values[5]; };
layout(push_constant) uniform P { vec3 p; float q; mat2 r; Inner s; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    Outer o = a[i];
    o.one += o.inner[1].v.y + o.inner[2].f * first + second.z;
    o.inner[i % 3].k += third + s.k.yx;
    o.m[1] *= r[0] + p.yz * q;
    a[i + 8] = o;
    tail[i] = inner[i % 2].v.z + w[i % 2].v.y * m[i % 3][1] + values[(i * 3) % 5] + head;
    inner[1].k.y = w[1].k.x;
}

//@ loops_and_switches
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { int a[]; };
layout(binding = 1) buffer Y { int y[]; };
int collatz(int n) { int steps = 0; while (true) { if (n <= 1) return steps; if (n % 2 == 0) n /= 2; else n = 3 * n + 1; steps++; if (steps > 50) break; } return -steps; }
void twice(inout int value, out int old, in int by) { old = value; value *= by; }
void main() {
    uint i = gl_GlobalInvocationID.x;
    int p = abs(a[i]) % 100, r = 0;
    switch (p % 7) {
    case 0: r = 1; break;
    case 1: r = 2;
    case 2: r += 3; break;
    case 5: for (int j = 0; j < p; j++) { if (j == 3) continue; if (j > 20) break; r += j * j; } break;
    default: do { r += p; p /= 2; } while (p > 0);
    }
    for (int j = 0; j < 3; j++) for (int k = j; k < 5; k++) { if ((j ^ k) == int(i % 4)) break; r += 10 * j + k; }
    int old = 0;
    if (i % 3 == 1) twice(r, old, 5);
    y[i] = r + 1000 * collatz(p + int(i)) + old * 7 + (i > 20 && r > 5 || p == 3 ? 1 : 0);
}

//@ arrays
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { int a[]; };
layout(binding = 1) buffer Y { int y[]; };
const int table[5] = int[](3, 1, 4, 1, 5);
int counter = 3;
int values[4];
struct Pair { int key; float value[3]; };
void bump(inout int some[4], uint at) { some[at] += 100; counter++; }
void main() {
    uint i = gl_GlobalInvocationID.x;
    int own[4] = int[](1, 2, 3, int(i));
    Pair pair = Pair(7, float[](1.5, 2.5, 3.5));
    pair.value[i % 3] *= 2.0;
    own[i % 4] += table[i % 5] + a[i];
    bump(own, (i + 1) % 4);
    for (int j = 0; j < 4; j++) values[j] = own[3 - j] * counter;
    Pair other = pair;
    other.key += values[i % 4];
    y[i] = own[0] + 3 * own[1] + 7 * own[2] + 11 * own[3] + values[(i * 7) % 4] + other.key + int(other.value[(i + 1) % 3]);
}

//@ shared_memory
layout(local_size_x = 16, local_size_y = 4) in;
layout(binding = 0) buffer A { float a[]; };
layout(binding = 1) buffer Y { float y[]; };
shared float tile[4][17];
shared vec3 other[4];
shared struct { int count; bool flag; } state;
void main() {
    uvec2 t = gl_LocalInvocationID.xy;
    if (gl_LocalInvocationIndex == 0) { state.count = 0; state.flag = gl_WorkGroupID.x % 2 == 1; }
    tile[t.y][t.x] = a[gl_WorkGroupID.x * 64 + gl_LocalInvocationIndex];
    if (t.x == 3) other[t.y] = vec3(t, 5);
    barrier();
    atomicAdd(state.count, int(t.x));
    memoryBarrierShared();
    barrier();
    y[gl_WorkGroupID.x * 64 + gl_LocalInvocationIndex] = tile[3 - t.y][15 - t.x] + other[t.y].z * float(state.count) + (state.flag ? 0.5 : 0.25);
}

//@ atomics
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { int a[]; };
layout(binding = 1) buffer C { int c[]; };
layout(binding = 2) buffer U { uint u[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    int p = a[i];
    atomicAdd(c[0], p); atomicMin(c[1], p); atomicMax(c[2], p); atomicAnd(c[3], p | 0xff); atomicOr(c[4], p & 0xff00ff); atomicXor(c[5], p);
    atomicMin(u[0], uint(p)); atomicMax(u[1], uint(p));
    atomicCompSwap(c[6 + i % 10], a[255 - i], 5);
    if (i < 200) u[20 + i] = uint(atomicExchange(c[20 + i], p)) + atomicAdd(u[2 + i % 2], 0u);
    atomicAdd(c[9], -7);
}

//@ narrow_integers
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { int8_t a[]; };
layout(binding = 1) buffer B { uint16_t b[]; };
layout(binding = 2) buffer C { int64_t c[]; };
layout(binding = 3) buffer Y { int16_t y[]; };
layout(binding = 4) buffer Z { uint64_t z[]; };
layout(binding = 5) buffer W { uint8_t w[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    int8_t p = a[i];
    uint16_t q = b[i];
    int64_t r = c[i];
    y[i] = int16_t(p * p) - int16_t(q) / int16_t(3) + int16_t(p >> 2us) + int16_t(q & 255us) % int16_t(5) - int16_t(p < int8_t(-3) ? 100 : 7);
    z[i] = uint64_t(r) / uint64_t(q + 1us) + uint64_t(int64_t(p)) * 3ul + uint64_t(r >> 7) + (uint64_t(r) >> (i % 64)) + uint64_t(abs(r) % 1000l) + uint64_t(min(r, int64_t(p)));
    w[i] = uint8_t(q + uint16_t(p)) + (uint8_t(p) >> uint8_t(2)) * uint8_t(3) + uint8_t(~p) + uint8_t(float(p) * 0.4 + 60.0);
}

//@ halves_and_doubles 1e-3
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 64) in;
layout(binding = 0) buffer A { float16_t a[]; };
layout(binding = 1) buffer B { double b[]; };
layout(binding = 2) buffer Y { f16vec4 y[]; };
layout(binding = 3) buffer Z { double z[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    float16_t p = a[i], q = a[(i + 1) % 256] + 3.0hf;
    y[i] = f16vec4(p * q - p / q, sqrt(abs(p)) + max(p, -p), float16_t(int(p * 9.0hf)), p < q ? sin(p) : floor(q));
    double r = b[i];
    z[i] = r * r / (abs(r) + 0.5lf) + floor(r * 3.0lf) - sqrt(abs(r)) + double(p) + double(float(r)) + double(int(r * 100.0lf)) + mix(r, 2.0lf, 0.25lf) + length(dvec3(r, 1.0lf, 2.0lf));
}

//@ conversions 1e-6
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) buffer A { int a[]; };
layout(binding = 2) buffer Y { float y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    float f = x[i] * 1000.0;
    int p = a[i];
    uint u = uint(abs(f)) + uint(p);
    y[i] = float(int(f)) + float(u % 1000u) + float((p & 0xffff) % 100) + intBitsToFloat(floatBitsToInt(f) ^ 1) + float(f > 3.0) + uintBitsToFloat(u & 0x3fffffffu) + float(bool(p & 1));
}

//@ specialization
layout(constant_id = 3) const int FACTOR = 5;
layout(constant_id = 4) const float SHIFT = 0.5;
layout(constant_id = 5) const bool NEGATE = true;
const int SIZE = FACTOR * 2 + 1;
layout(local_size_x_id = 6) in;
layout(binding = 0) buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
shared float some[SIZE];
void main() {
    uint i = gl_LocalInvocationID.x;
    if (i < SIZE) some[i] = x[i] + SHIFT;
    barrier();
    float r = some[(i * FACTOR) % SIZE];
    y[i] = (NEGATE ? -r : r) * float(SIZE / 3) + float(gl_WorkGroupSize.x);
}

//@ built_ins
layout(local_size_x = 4, local_size_y = 3, local_size_z = 2) in;
layout(binding = 0) buffer Y { uint y[]; };
void main() {
    uint row = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
    uint at = row * 24 + gl_LocalInvocationIndex;
    uvec3 g = gl_GlobalInvocationID, l = gl_LocalInvocationID;
    if (at < y.length()) y[at] = g.x + 100 * g.y + 10000 * g.z + l[at % 3] * 1000000 + gl_WorkGroupSize.y;
}

//@ addresses
#extension GL_EXT_buffer_reference : require
layout(buffer_reference) buffer Node;
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Node { vec4 value; Node next; int k[3]; };
layout(local_size_x = 4) in;
layout(binding = 0) buffer Y { vec4 y[]; };
layout(push_constant) uniform P { Node first; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    y[i] = first.value * float(first.k[i % 3]);
    first.k[0] = 77;
}
