// Simulations with structs: bodies, a lattice with parameters by value, particles with options.
struct Body { float4 position; float3 velocity; float mass; };
struct Grid { int width, height; float spacing[2]; struct { float rate; bool periodic; } flow; };
enum class Mode : int { Bounce, Wrap };
typedef struct { unsigned long long seed; unsigned int step; Mode mode; } Options;

__constant__ float gravity[3] = {0, 0, -9.81f};
__device__ unsigned int collisions;

extern "C" __global__ void accelerate(const Body *__restrict__ bodies, float3 *forces, int count, float softening) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float3 sum = make_float3(gravity[0], gravity[1], gravity[2]);
  for (int j = 0; j < count; j++) {
    float x = bodies[j].position.x - bodies[i].position.x, y = bodies[j].position.y - bodies[i].position.y;
    float r = rsqrtf(x * x + y * y + softening);
    sum.x += x * r * r * r * bodies[j].mass;
    sum.y += y * r * r * r * bodies[j].mass;
  }
  forces[i] = sum;
}

extern "C" __global__ void diffuse(const double *in, double *out, const __grid_constant__ Grid grid, double dt) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= grid.width || y >= grid.height) return;
  int left = x ? x - 1 : grid.flow.periodic ? grid.width - 1 : 0;
  out[y * grid.width + x] = in[y * grid.width + x] + dt * grid.flow.rate * (in[y * grid.width + left] - in[y * grid.width + x]) / grid.spacing[0];
}

extern "C" __global__ void advance(Body *bodies, const float3 *forces, Options options, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  bodies[i].velocity.x += forces[i].x;
  bodies[i].position.x += bodies[i].velocity.x;
  if (options.mode == Mode::Bounce && bodies[i].position.x > 1) atomicAdd(&collisions, 1u);
}
