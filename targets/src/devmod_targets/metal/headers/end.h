// The rest of the namespace metal, which _prelude.py opens.
template <class T, int C, int R> struct matrix {
  vec<T, R> columns[C];
  template <class... A> constexpr matrix(A...) : columns{} {}
  template <class I> vec<T, R> &operator[](I);
  template <class I> const vec<T, R> &operator[](I) const;
  template <class A> friend vec<T, R> operator*(matrix, A);
};
template <class T, int R, int C> struct simdgroup_matrix {
  template <class... A> simdgroup_matrix(A...);
  T __devmod_data[R * C / 32];
  vec<T, 2> &thread_elements();
};
template <class T, int R, int C> simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T);
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
enum memory_order { memory_order_relaxed, memory_order_acquire, memory_order_release, memory_order_acq_rel, memory_order_seq_cst };
enum thread_scope { thread_scope_thread, thread_scope_threadgroup, thread_scope_device, thread_scope_simdgroup };
enum class mem_flags {
  mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4, mem_threadgroup_imageblock = 8, mem_object_data = 16
};
constexpr mem_flags operator|(mem_flags a, mem_flags) { return a; }
constexpr mem_flags operator&(mem_flags a, mem_flags) { return a; }
template <class T> struct atomic { T __devmod_value; };
template <class T> struct _atomic { T __devmod_value; };
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<ulong> atomic_ulong;
typedef atomic<bool> atomic_bool;
typedef atomic<float> atomic_float;
struct sampler { template <class... A> constexpr sampler(A...) {} };
template <class T> struct initializer_list { const T *begin() const; const T *end() const; size_t size() const; };
struct max_anisotropy { constexpr max_anisotropy(int) {} };
struct lod_clamp { constexpr lod_clamp(float, float) {} };
struct level { level(float); }; struct bias { bias(float); }; struct gradient2d { template <class A> gradient2d(A, A); };
template <class T, size_t N> struct array {
  T __devmod_data[N];
  T &operator[](size_t); const T &operator[](size_t) const; constexpr size_t size() const { return N; }
  T *begin(); T *end();
};
template <class T> struct array_ref { T &operator[](size_t); size_t size() const; };
template <class T> struct array_view : array_ref<T> {};
template <class A, class B> struct pair { A first; B second; };
struct simd_vote {
  typedef ulong vote_t; template <class... A> simd_vote(A...); explicit operator ulong() const; bool all() const; bool any() const;
};
typedef simd_vote quad_vote;
struct acceleration_structure {}; struct command_buffer {}; struct render_command {}; struct compute_command {};
template <class T> struct visible_function_table { template <class I> T *operator[](I) const; };
template <class T, T V> struct integral_constant {
  static constexpr T value = V; typedef T value_type; typedef integral_constant type; constexpr operator T() const { return V; }
};
template <bool V> using bool_constant = integral_constant<bool, V>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;
template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class... A> using void_t = void;
template <class...> struct conjunction : true_type {};
template <class A, class... B> struct conjunction<A, B...> : bool_constant<A::value && conjunction<B...>::value> {};
template <class...> struct disjunction : false_type {};
template <class A, class... B> struct disjunction<A, B...> : bool_constant<A::value || disjunction<B...>::value> {};
template <class... A> using _disjunction = disjunction<A...>;
template <class A> struct negation : bool_constant<!A::value> {};
template <class... A> constexpr bool disjunction_v = disjunction<A...>::value;
template <class... A> constexpr bool conjunction_v = conjunction<A...>::value;
template <class T> struct remove_const { typedef T type; };
template <class T> struct remove_const<const T> { typedef T type; };
template <class T> struct remove_volatile { typedef T type; };
template <class T> struct remove_volatile<volatile T> { typedef T type; };
template <class T> struct remove_cv { typedef typename remove_const<typename remove_volatile<T>::type>::type type; };
template <class T> struct remove_reference { typedef __remove_reference_t(T) type; };
template <class T> struct remove_pointer { typedef __remove_pointer(T) type; };
template <class T> struct add_const { typedef const T type; };
template <class T> struct decay { typedef __decay(T) type; };
template <class T> struct make_unsigned { typedef __make_unsigned(T) type; };
template <class T> struct make_signed { typedef __make_signed(T) type; };
template <class T> struct underlying_type { typedef __underlying_type(T) type; };
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_reference_t = __remove_reference_t(T);
template <class T> struct remove_addrspace { typedef T type; };
template <class T> using remove_addrspace_t = typename remove_addrspace<T>::type;
template <class T> using remove_pointer_t = __remove_pointer(T);
template <class T> using decay_t = __decay(T);
template <class T> using make_unsigned_t = __make_unsigned(T);
template <class T> using make_signed_t = __make_signed(T);
template <class T> struct make_scalar { typedef T type; };
template <class T, int N> struct make_scalar<T __attribute__((ext_vector_type(N)))> { typedef T type; };
template <class T> using make_scalar_t = typename make_scalar<T>::type;
#define __devmod_trait(name, ...) \
  template <class T> struct name : bool_constant<__VA_ARGS__> {}; \
  template <class T> constexpr bool name##_v = name<T>::value;
__devmod_trait(is_integral, __is_integral(T))
__devmod_trait(is_floating_point, __is_floating_point(T) || __is_same(T, half) || __is_same(T, bfloat))
__devmod_trait(is_arithmetic, __is_arithmetic(T) || __is_same(T, half) || __is_same(T, bfloat))
__devmod_trait(is_signed, __is_signed(T))
__devmod_trait(is_unsigned, __is_unsigned(T))
__devmod_trait(is_void, __is_void(T))
__devmod_trait(is_const, __is_const(T))
__devmod_trait(is_pointer, __is_pointer(T))
__devmod_trait(is_reference, __is_reference(T))
__devmod_trait(is_enum, __is_enum(T))
__devmod_trait(is_class, __is_class(T))
__devmod_trait(is_scalar, __is_scalar(T))
__devmod_trait(is_array, __is_array(T))
__devmod_trait(is_trivial, __is_trivial(T))
__devmod_trait(is_vector, false)
template <class A, class B> struct is_convertible : bool_constant<__is_convertible(A, B)> {};
template <class A, class B> constexpr bool is_convertible_v = __is_convertible(A, B);
template <class A, class B> struct is_base_of : bool_constant<__is_base_of(A, B)> {};
template <class A, class B> constexpr bool is_base_of_v = __is_base_of(A, B);
template <class A, class... B> constexpr bool is_constructible_v = __is_constructible(A, B...);
template <class T> T declval();
template <class T, T... I> struct integer_sequence {};
template <size_t... I> using index_sequence = integer_sequence<size_t, I...>;
template <class T, T N> using make_integer_sequence = __make_integer_seq<integer_sequence, T, N>;
template <size_t N> using make_index_sequence = make_integer_sequence<size_t, N>;
template <class T> struct _numeric_limits_impl {
  static constexpr bool is_signed = true, is_integer = true, has_infinity = true, is_specialized = true;
  static constexpr int digits = 24, digits10 = 6, max_exponent = 128, min_exponent = -125, radix = 2;
  static constexpr T min() { return T(); } static constexpr T max() { return T(); } static constexpr T lowest() { return T(); }
  static constexpr T epsilon() { return T(); } static constexpr T infinity() { return T(); }
  static constexpr T quiet_NaN() { return T(); } static constexpr T signaling_NaN() { return T(); }
  static constexpr T denorm_min() { return T(); } static constexpr T round_error() { return T(); }
};
template <class T> struct numeric_limits : _numeric_limits_impl<T> {};
template <class T> T &&move(T &); template <class T> void swap(T &, T &);
template <class T> struct imageblock {};
struct r8unorm {}; struct os_log {
  template <class... A> constexpr os_log(A...) {}
  template <class... A> void log(A...) const; template <class... A> void log_debug(A...) const;
  template <class... A> void log_info(A...) const;
  template <class... A> void log_error(A...) const; template <class... A> void log_fault(A...) const;
};
extern os_log os_log_default;
template <class T> using uniform = T;
template <class T> struct vec_elements : integral_constant<int, 1> {};
template <class T, int N> struct vec_elements<T __attribute__((ext_vector_type(N)))> : integral_constant<int, N> {};
struct execution_thread {}; struct execution_simdgroup {}; template <int N> struct execution_simdgroups {};
template <class T, class E, class... A> struct tensor { template <class... B> tensor(B...); template <class... B> tensor slice(B...); };
template <class T, size_t... N> struct extents { template <class... A> extents(A...); };
template <class T, size_t N> struct dextents { template <class... A> dextents(A...); };
struct tensor_handle {}; struct tensor_inline {}; struct tensor_offset {};
namespace raytracing {}
namespace fast { using namespace metal; }
namespace precise { using namespace metal; }
}
namespace simd { using namespace metal; }
namespace mpp { namespace tensor_ops {
struct matmul2d_descriptor {
  enum class mode { multiply, multiply_accumulate }; template <class... A> constexpr matmul2d_descriptor(A...) {}
};
template <auto, class S> struct matmul2d {
  template <class A, class B, class C, class... D> auto get_left_input_cooperative_tensor() { return metal::array<A, 8>(); }
  template <class A, class B, class C, class... D> auto get_right_input_cooperative_tensor() { return metal::array<B, 8>(); }
  template <class A, class B, class C, class... D> auto get_destination_cooperative_tensor() { return metal::array<C, 8>(); }
  template <class... A> void run(A &&...);
};
} }
#define M_E_F 2.71828183
#define M_E_H 2.71828183
#define M_LOG2E_F 1.44269504
#define M_LOG2E_H 1.44269504
#define M_LOG10E_F 0.434294482
#define M_LOG10E_H 0.434294482
#define M_LN2_F 0.693147181
#define M_LN2_H 0.693147181
#define M_LN10_F 2.30258509
#define M_LN10_H 2.30258509
#define M_PI_F 3.14159265
#define M_PI_H 3.14159265
#define M_PI_2_F 1.57079633
#define M_PI_2_H 1.57079633
#define M_PI_4_F 0.785398163
#define M_PI_4_H 0.785398163
#define M_1_PI_F 0.318309886
#define M_1_PI_H 0.318309886
#define M_2_PI_F 0.636619772
#define M_2_PI_H 0.636619772
#define M_2_SQRTPI_F 1.12837917
#define M_2_SQRTPI_H 1.12837917
#define M_SQRT2_F 1.41421356
#define M_SQRT2_H 1.41421356
#define M_SQRT1_2_F 0.707106781
#define M_SQRT1_2_H 0.707106781
