#pragma once
#include <hip/devmod_hip.h>
#include <math_constants.h>
