// Structs: by value, behind pointers, nested, packed, and through a typedef without a name.
typedef struct {
  float4 position;
  float4 velocity;
  float mass;
} particle_t;

struct __attribute__((packed)) settings {
  char mode;
  double dt;
  struct { int x, y; } cell[2];
};

union word { float f; uint bits; };

__kernel void advance(__global particle_t *particles, __constant struct settings *defaults, const struct settings now, union word seed, __global const union word *words) {
  particles[get_global_id(0)].position += particles[get_global_id(0)].velocity * (float)now.dt;
}
