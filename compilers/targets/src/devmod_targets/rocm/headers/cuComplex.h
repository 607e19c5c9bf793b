#pragma once
#include <hip/hip_complex.h>
#include <devmod_cuda_names.h>
