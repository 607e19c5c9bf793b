#pragma once
__host__ __device__ constexpr int padded(int width) { return width + 1; }
