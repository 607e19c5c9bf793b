// A name that OpenCL C 2.0 took for itself, as older programs have it, and bits of everything.
typedef int atomic_int;

inline void exchange(__global uint *keys, __global atomic_int *values, uint one, uint other, bool ascending) {
  if ((keys[one] > keys[other]) == ascending) {
    uint key = keys[one]; keys[one] = keys[other]; keys[other] = key;
    atomic_int value = values[one]; values[one] = values[other]; values[other] = value;
  }
}

__kernel void bitonic(__global uint *keys, __global atomic_int *values, const uint stage, const uint pass, const uint direction) {
  const uint i = get_global_id(0), distance = 1u << (stage - pass);
  const uint left = (i % distance) + (i / distance) * 2 * distance;
  exchange(keys, values, left, left + distance, ((i >> stage) & 1) == direction);
}
