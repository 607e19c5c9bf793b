/* The forms of functions for programs whose default stream is one for each thread (nvcc
 * --default-stream per-thread). */
#include <cuda.h> /* before the next line, which would rename the driver's functions too */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "runtime.h"
#include "prototypes.h"

#include "copies.c"
#include "entry_points.c"
#include "fills.c"
#include "launches.c"
#include "stream_work.c"
