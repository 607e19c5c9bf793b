/* Functions of HIP that CUDA does not have: the arithmetic of vectors, and fields of bits. */
#pragma once

#define DEVMOD_ARITHMETIC(name, symbol)                                                                          \
    devmod_both name##2 operator symbol(name##2 a, name##2 b) { return name##2{a.x symbol b.x, a.y symbol b.y}; } \
    devmod_both name##3 operator symbol(name##3 a, name##3 b) { return name##3{a.x symbol b.x, a.y symbol b.y, a.z symbol b.z}; } \
    devmod_both name##4 operator symbol(name##4 a, name##4 b) { return name##4{a.x symbol b.x, a.y symbol b.y, a.z symbol b.z, a.w symbol b.w}; } \
    devmod_both name##2 operator symbol(name##2 a, name b) { return name##2{a.x symbol b, a.y symbol b}; }       \
    devmod_both name##3 operator symbol(name##3 a, name b) { return name##3{a.x symbol b, a.y symbol b, a.z symbol b}; } \
    devmod_both name##4 operator symbol(name##4 a, name b) { return name##4{a.x symbol b, a.y symbol b, a.z symbol b, a.w symbol b}; } \
    devmod_both name##2 operator symbol(name a, name##2 b) { return name##2{a symbol b.x, a symbol b.y}; }       \
    devmod_both name##3 operator symbol(name a, name##3 b) { return name##3{a symbol b.x, a symbol b.y, a symbol b.z}; } \
    devmod_both name##4 operator symbol(name a, name##4 b) { return name##4{a symbol b.x, a symbol b.y, a symbol b.z, a symbol b.w}; } \
    devmod_both name##2 &operator symbol##=(name##2 &a, name##2 b) { a.x symbol##= b.x; a.y symbol##= b.y; return a; } \
    devmod_both name##3 &operator symbol##=(name##3 &a, name##3 b) { a.x symbol##= b.x; a.y symbol##= b.y; a.z symbol##= b.z; return a; } \
    devmod_both name##4 &operator symbol##=(name##4 &a, name##4 b) { a.x symbol##= b.x; a.y symbol##= b.y; a.z symbol##= b.z; a.w symbol##= b.w; return a; }
DEVMOD_ARITHMETIC(float, +)
DEVMOD_ARITHMETIC(float, -)
DEVMOD_ARITHMETIC(float, *)
DEVMOD_ARITHMETIC(float, /)
DEVMOD_ARITHMETIC(double, +)
DEVMOD_ARITHMETIC(double, -)
DEVMOD_ARITHMETIC(double, *)
DEVMOD_ARITHMETIC(double, /)
DEVMOD_ARITHMETIC(int, +)
DEVMOD_ARITHMETIC(int, -)
DEVMOD_ARITHMETIC(int, *)

/* Fields of bits. Those of HIP have 1 to 31 (63) bits. */
#define DEVMOD_BITS(type, bits)                                                                                  \
    devmod_function type __bitextract_u##bits(type x, unsigned offset, unsigned width)                           \
    {                                                                                                            \
        return x >> (offset & (bits - 1)) & (((type)1 << (width & (bits - 1))) - 1);                             \
    }                                                                                                            \
    devmod_function type __bitinsert_u##bits(type x, type field, unsigned offset, unsigned width)                \
    {                                                                                                            \
        type mask = (((type)1 << (width & (bits - 1))) - 1) << (offset & (bits - 1));                            \
        return (x & ~mask) | (field << (offset & (bits - 1)) & mask);                                            \
    }
DEVMOD_BITS(unsigned, 32)
DEVMOD_BITS(unsigned long long, 64)
