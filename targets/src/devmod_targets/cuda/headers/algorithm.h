// In the namespace std of <algorithm>.
template <class T> __host__ __device__ constexpr const T &min(const T &a, const T &b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T &max(const T &a, const T &b) { return a < b ? b : a; }
template <class T> __host__ __device__ constexpr const T &clamp(const T &x, const T &low, const T &high) {
  return x < low ? low : high < x ? high : x;
}
