// In the namespace std of <limits>. NVRTC writes static members of classes that are no templates to the PTX of every program.
template <class T, int kind> struct __devmod_limits { static constexpr bool is_specialized = false; };
template <class T> struct __devmod_limits<T, 1> {
  static constexpr bool is_specialized = true, is_integer = true, is_exact = true, has_infinity = false, has_quiet_NaN = false;
  static constexpr bool is_signed = (T)(-1) < (T)(0);
  static constexpr int radix = 2, digits = is_same<T, bool>::value ? 1 : (int)sizeof(T) * 8 - is_signed;
  __host__ __device__ static constexpr T max() noexcept { return is_signed ? (T)((1ULL << digits) - 1) : (T)(-1); }
  __host__ __device__ static constexpr T min() noexcept { return is_signed ? (T)(-max() - 1) : (T)0; }
  __host__ __device__ static constexpr T lowest() noexcept { return min(); }
  __host__ __device__ static constexpr T epsilon() noexcept { return 0; }
  __host__ __device__ static constexpr T infinity() noexcept { return 0; }
  __host__ __device__ static constexpr T quiet_NaN() noexcept { return 0; }
  __host__ __device__ static constexpr T denorm_min() noexcept { return 0; }
};
template <class T> struct __devmod_limits<T, 2> {
  static constexpr bool is_specialized = true, is_integer = false, is_exact = false, has_infinity = true, has_quiet_NaN = true;
  static constexpr bool is_signed = true, wide = sizeof(T) == 8;
  static constexpr int radix = 2, digits = wide ? DBL_MANT_DIG : FLT_MANT_DIG;
  __host__ __device__ static constexpr T max() noexcept { return wide ? (T)DBL_MAX : FLT_MAX; }
  __host__ __device__ static constexpr T min() noexcept { return wide ? (T)DBL_MIN : FLT_MIN; }
  __host__ __device__ static constexpr T lowest() noexcept { return -max(); }
  __host__ __device__ static constexpr T epsilon() noexcept { return wide ? (T)DBL_EPSILON : FLT_EPSILON; }
  __host__ __device__ static constexpr T infinity() noexcept { return __builtin_bit_cast(float, 0x7f800000); }
  __host__ __device__ static constexpr T quiet_NaN() noexcept { return __builtin_bit_cast(float, 0x7fc00000); }
  __host__ __device__ static constexpr T denorm_min() noexcept { return wide ? (T)DBL_TRUE_MIN : FLT_TRUE_MIN; }
};
template <class T> struct numeric_limits : __devmod_limits<T, is_integral<T>::value ? 1 : is_floating_point<T>::value ? 2 : 0> {};
