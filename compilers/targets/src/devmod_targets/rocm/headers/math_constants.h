#pragma once
#include <hip/hip_math_constants.h>
#include <devmod_cuda_names.h>
