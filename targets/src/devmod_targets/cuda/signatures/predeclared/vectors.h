struct __attribute__((aligned(1))) char1 {
    signed char x;
};
struct __attribute__((aligned(2))) char2 {
    signed char x, y;
};
struct __attribute__((aligned(1))) char3 {
    signed char x, y, z;
};
struct __attribute__((aligned(4))) char4 {
    signed char x, y, z, w;
};
struct __attribute__((aligned(1))) uchar1 {
    unsigned char x;
};
struct __attribute__((aligned(2))) uchar2 {
    unsigned char x, y;
};
struct __attribute__((aligned(1))) uchar3 {
    unsigned char x, y, z;
};
struct __attribute__((aligned(4))) uchar4 {
    unsigned char x, y, z, w;
};
struct __attribute__((aligned(2))) short1 {
    short x;
};
struct __attribute__((aligned(4))) short2 {
    short x, y;
};
struct __attribute__((aligned(2))) short3 {
    short x, y, z;
};
struct __attribute__((aligned(8))) short4 {
    short x, y, z, w;
};
struct __attribute__((aligned(2))) ushort1 {
    unsigned short x;
};
struct __attribute__((aligned(4))) ushort2 {
    unsigned short x, y;
};
struct __attribute__((aligned(2))) ushort3 {
    unsigned short x, y, z;
};
struct __attribute__((aligned(8))) ushort4 {
    unsigned short x, y, z, w;
};
struct __attribute__((aligned(4))) int1 {
    int x;
};
struct __attribute__((aligned(8))) int2 {
    int x, y;
};
struct __attribute__((aligned(4))) int3 {
    int x, y, z;
};
struct __attribute__((aligned(16))) int4 {
    int x, y, z, w;
};
struct __attribute__((aligned(4))) uint1 {
    unsigned int x;
};
struct __attribute__((aligned(8))) uint2 {
    unsigned int x, y;
};
struct __attribute__((aligned(4))) uint3 {
    unsigned int x, y, z;
};
struct __attribute__((aligned(16))) uint4 {
    unsigned int x, y, z, w;
};
struct __attribute__((aligned(8))) long1 {
    long x;
};
struct __attribute__((aligned(16))) long2 {
    long x, y;
};
struct __attribute__((aligned(8))) long3 {
    long x, y, z;
};
struct __attribute__((aligned(16))) long4 {
    long x, y, z, w;
};
struct __attribute__((aligned(16))) long4_16a {
    long x, y, z, w;
};
struct __attribute__((aligned(32))) long4_32a {
    long x, y, z, w;
};
struct __attribute__((aligned(8))) ulong1 {
    unsigned long x;
};
struct __attribute__((aligned(16))) ulong2 {
    unsigned long x, y;
};
struct __attribute__((aligned(8))) ulong3 {
    unsigned long x, y, z;
};
struct __attribute__((aligned(16))) ulong4 {
    unsigned long x, y, z, w;
};
struct __attribute__((aligned(16))) ulong4_16a {
    unsigned long x, y, z, w;
};
struct __attribute__((aligned(32))) ulong4_32a {
    unsigned long x, y, z, w;
};
struct __attribute__((aligned(8))) longlong1 {
    long long x;
};
struct __attribute__((aligned(16))) longlong2 {
    long long x, y;
};
struct __attribute__((aligned(8))) longlong3 {
    long long x, y, z;
};
struct __attribute__((aligned(16))) longlong4 {
    long long x, y, z, w;
};
struct __attribute__((aligned(16))) longlong4_16a {
    long long x, y, z, w;
};
struct __attribute__((aligned(32))) longlong4_32a {
    long long x, y, z, w;
};
struct __attribute__((aligned(8))) ulonglong1 {
    unsigned long long x;
};
struct __attribute__((aligned(16))) ulonglong2 {
    unsigned long long x, y;
};
struct __attribute__((aligned(8))) ulonglong3 {
    unsigned long long x, y, z;
};
struct __attribute__((aligned(16))) ulonglong4 {
    unsigned long long x, y, z, w;
};
struct __attribute__((aligned(16))) ulonglong4_16a {
    unsigned long long x, y, z, w;
};
struct __attribute__((aligned(32))) ulonglong4_32a {
    unsigned long long x, y, z, w;
};
struct __attribute__((aligned(4))) float1 {
    float x;
};
struct __attribute__((aligned(8))) float2 {
    float x, y;
};
struct __attribute__((aligned(4))) float3 {
    float x, y, z;
};
struct __attribute__((aligned(16))) float4 {
    float x, y, z, w;
};
struct __attribute__((aligned(8))) double1 {
    double x;
};
struct __attribute__((aligned(16))) double2 {
    double x, y;
};
struct __attribute__((aligned(8))) double3 {
    double x, y, z;
};
struct __attribute__((aligned(16))) double4 {
    double x, y, z, w;
};
struct __attribute__((aligned(16))) double4_16a {
    double x, y, z, w;
};
struct __attribute__((aligned(32))) double4_32a {
    double x, y, z, w;
};
struct __attribute__((aligned(4))) dim3 {
    unsigned int x, y, z;
    __device__ constexpr dim3(unsigned int a = 1, unsigned int b = 1, unsigned int c = 1)
        : x(a), y(b), z(c) {}
};
