// In the namespace std of <utility>.
template <class T> __host__ __device__ inline void swap(T &a, T &b) { T c(a); a = b; b = c; }
template <class T> __host__ __device__ T &&declval() noexcept;
