#pragma once
#include <hip/hip_fp16.h>

typedef __half __nv_half, nv_half;
typedef __half2 __nv_half2, nv_half2;
