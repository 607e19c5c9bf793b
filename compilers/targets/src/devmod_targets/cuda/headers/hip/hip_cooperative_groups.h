#pragma once
#include <hip/devmod_hip.h>
#include <cooperative_groups.h>
