// Atomics that libclc does not have: those of 64 bits, and those of OpenCL C 2.0 without an order or a scope. The functions of 2.0 have
// pointers to any address space. LLVM finds the space for accesses that are not volatile.

#define DEVMOD_ATOMIC(type, value)                                                                                                                     \
    value DEVMOD_OV atomic_load_explicit(volatile type *p, memory_order order, memory_scope scope)                                                     \
    {                                                                                                                                                  \
        return __opencl_atomic_load((type *)p, order, scope);                                                                                          \
    }                                                                                                                                                  \
    value DEVMOD_OV atomic_load_explicit(volatile type *p, memory_order order) { return __opencl_atomic_load((type *)p, order, memory_scope_device); } \
    value DEVMOD_OV atomic_load(volatile type *p) { return __opencl_atomic_load((type *)p, memory_order_seq_cst, memory_scope_device); }               \
    void DEVMOD_OV atomic_store_explicit(volatile type *p, value x, memory_order order, memory_scope scope)                                            \
    {                                                                                                                                                  \
        __opencl_atomic_store((type *)p, x, order, scope);                                                                                             \
    }                                                                                                                                                  \
    void DEVMOD_OV atomic_store_explicit(volatile type *p, value x, memory_order order)                                                                \
    {                                                                                                                                                  \
        __opencl_atomic_store((type *)p, x, order, memory_scope_device);                                                                               \
    }                                                                                                                                                  \
    void DEVMOD_OV atomic_store(volatile type *p, value x) { __opencl_atomic_store((type *)p, x, memory_order_seq_cst, memory_scope_device); }         \
    void DEVMOD_OV atomic_init(volatile type *p, value x) { __opencl_atomic_store((type *)p, x, memory_order_relaxed, memory_scope_device); }          \
    DEVMOD_FETCH(exchange, type, value, value)                                                                                                         \
    DEVMOD_COMPARE(strong, type, value)                                                                                                                \
    DEVMOD_COMPARE(weak, type, value)
#define DEVMOD_FETCH(name, type, value, operand)                                                                  \
    value DEVMOD_OV atomic_##name##_explicit(volatile type *p, operand x, memory_order order, memory_scope scope) \
    {                                                                                                             \
        return __opencl_atomic_##name((type *)p, x, order, scope);                                                \
    }                                                                                                             \
    value DEVMOD_OV atomic_##name##_explicit(volatile type *p, operand x, memory_order order)                     \
    {                                                                                                             \
        return __opencl_atomic_##name((type *)p, x, order, memory_scope_device);                                  \
    }                                                                                                             \
    value DEVMOD_OV atomic_##name(volatile type *p, operand x)                                                    \
    {                                                                                                             \
        return __opencl_atomic_##name((type *)p, x, memory_order_seq_cst, memory_scope_device);                   \
    }
// LLVM has no compare-and-exchange whose order is a variable, so the two orders are the strongest ones. The macro is for each space of
// the expected value.
#define DEVMOD_COMPARE(way, type, value)                                                                                                        \
    bool DEVMOD_OV atomic_compare_exchange_##way##_explicit(volatile type *p, value *expected, value x, memory_order success,                   \
                                                            memory_order failure, memory_scope scope)                                           \
    {                                                                                                                                           \
        return __opencl_atomic_compare_exchange_##way((type *)p, expected, x, memory_order_seq_cst, memory_order_seq_cst, scope);               \
    }                                                                                                                                           \
    bool DEVMOD_OV atomic_compare_exchange_##way##_explicit(volatile type *p, value *expected, value x, memory_order success,                   \
                                                            memory_order failure)                                                               \
    {                                                                                                                                           \
        return __opencl_atomic_compare_exchange_##way((type *)p, expected, x, memory_order_seq_cst, memory_order_seq_cst, memory_scope_device); \
    }                                                                                                                                           \
    bool DEVMOD_OV atomic_compare_exchange_##way(volatile type *p, value *expected, value x)                                                    \
    {                                                                                                                                           \
        return __opencl_atomic_compare_exchange_##way((type *)p, expected, x, memory_order_seq_cst, memory_order_seq_cst, memory_scope_device); \
    }
#define DEVMOD_ATOMIC_INTEGER(type, value)                                                                                                \
    DEVMOD_ATOMIC(type, value)                                                                                                            \
    DEVMOD_FETCH(fetch_add, type, value, value)                                                                                           \
    DEVMOD_FETCH(fetch_sub, type, value, value)                                                                                           \
    DEVMOD_FETCH(fetch_and, type, value, value)                                                                                           \
    DEVMOD_FETCH(fetch_or, type, value, value)                                                                                            \
    DEVMOD_FETCH(fetch_xor, type, value, value)                                                                                           \
    DEVMOD_FETCH(fetch_min, type, value, value)                                                                                           \
    DEVMOD_FETCH(fetch_max, type, value, value)
DEVMOD_ATOMIC_INTEGER(atomic_int, int)
DEVMOD_ATOMIC_INTEGER(atomic_uint, uint)
DEVMOD_ATOMIC_INTEGER(atomic_long, long)
DEVMOD_ATOMIC_INTEGER(atomic_ulong, ulong)
DEVMOD_ATOMIC(atomic_float, float)
DEVMOD_ATOMIC(atomic_double, double)

#define DEVMOD_FLAG(suffix, parameters, order, scope)                                                                                     \
    bool DEVMOD_OV atomic_flag_test_and_set##suffix parameters { return __opencl_atomic_exchange(p, 1, order, scope); }                   \
    void DEVMOD_OV atomic_flag_clear##suffix parameters { __opencl_atomic_store(p, 0, order, scope); }
DEVMOD_FLAG(, (volatile atomic_flag *p), memory_order_seq_cst, memory_scope_device)
DEVMOD_FLAG(_explicit, (volatile atomic_flag *p, memory_order order), order, memory_scope_device)
DEVMOD_FLAG(_explicit, (volatile atomic_flag *p, memory_order order, memory_scope scope), order, scope)

// -- cl_khr_int64_base_atomics and cl_khr_int64_extended_atomics

#define DEVMOD_ATOM(name, operation, space, type)                                                                                         \
    type DEVMOD_OV atom_##name(volatile space type *p, type x)                                                                            \
    {                                                                                                                                     \
        return __opencl_atomic_##operation((volatile space atomic_##type *)p, x, memory_order_relaxed, memory_scope_device);              \
    }
#define DEVMOD_ATOMS(space, type)                                                                                                            \
    DEVMOD_ATOM(add, fetch_add, space, type)                                                                                                 \
    DEVMOD_ATOM(sub, fetch_sub, space, type)                                                                                                 \
    DEVMOD_ATOM(xchg, exchange, space, type)                                                                                                 \
    DEVMOD_ATOM(min, fetch_min, space, type)                                                                                                 \
    DEVMOD_ATOM(max, fetch_max, space, type)                                                                                                 \
    DEVMOD_ATOM(and, fetch_and, space, type)                                                                                                 \
    DEVMOD_ATOM(or, fetch_or, space, type)                                                                                                   \
    DEVMOD_ATOM(xor, fetch_xor, space, type)                                                                                                 \
    type DEVMOD_OV atom_inc(volatile space type *p) { return atom_add(p, (type)1); }                                                         \
    type DEVMOD_OV atom_dec(volatile space type *p) { return atom_sub(p, (type)1); }                                                         \
    type DEVMOD_OV atom_cmpxchg(volatile space type *p, type expected, type x)                                                               \
    {                                                                                                                                        \
        __opencl_atomic_compare_exchange_strong((volatile space atomic_##type *)p, &expected, x, memory_order_relaxed, memory_order_relaxed, \
                                                memory_scope_device);                                                                        \
        return expected;                                                                                                                     \
    }
DEVMOD_ATOMS(global, long)
DEVMOD_ATOMS(global, ulong)
DEVMOD_ATOMS(local, long)
DEVMOD_ATOMS(local, ulong)
