#pragma once
#include <hip/devmod_hip.h>
#include <cuComplex.h>
