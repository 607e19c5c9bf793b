#pragma once
#include <hip/hip_bf16.h>

typedef __hip_bfloat16 __nv_bfloat16, nv_bfloat16;
typedef __hip_bfloat162 __nv_bfloat162, nv_bfloat162;
