#pragma once
#ifdef DEVMOD_COMPLETE
#ifdef DEVMOD_STANDARD_LIBRARY /* HIP's own header includes these */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#endif
#include <hip/hip_runtime_api.h>
#else
#include <devmod_hip.h>
#endif
