#pragma once
#include <hip/devmod_hip.h>
#include <cuda_fp16.h>
