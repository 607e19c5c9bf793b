typedef float Four __attribute__((ext_vector_type(4)));
namespace filters {
enum class Mode : short { ONE };
struct Pair { float x, y; };
struct Base { int n; };
struct Derived : Base { int m; };
template <class T> T at(const T *p, int n) { return p[n]; }
template float at<float>(const float *, int);
void scale(const Pair &pair, Four four, Mode mode, bool on, char c, unsigned char *const bytes, Pair by_value, const Pair *const *none) {}
void scale(long long l, double d) {}
void derived(Derived d) {}
}
struct __attribute__((packed)) Packed { char a; int b; };
struct Nested { Packed parts[3]; float matrix[2][5]; union { int i; float f; } either; void *pointer; };
struct Bits { int low : 4, high : 4; };
struct Unknown;
struct alignas(16) Aligned { int n; };
extern "C" {
int total(volatile const int *p) { return *p; }
void structs(Packed packed, Nested nested, Bits bits, Aligned aligned, Unknown *unknown, int grid[4]) {}
void odd(_Complex float z) {}
}
