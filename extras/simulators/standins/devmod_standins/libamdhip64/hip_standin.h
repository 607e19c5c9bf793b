/* The stand-in HIP runtime: HIP's API over the files of common/. */
#ifndef HIP_STANDIN_H
#define HIP_STANDIN_H

#include "driver.h"
#include "hip_api.h"

/* The settings DEVMOD_STANDIN_… are listed in extras/simulators/README.md. */

/* ---- entry.c */

/* PARAMETERS_name and ARGUMENTS_name: the parameters of each function, and their names in
 * parentheses. A build writes it, of calls.md. */
#include "hip_parameters.h"

/* Define a function of the API: it takes the lock, counts the call, and notes its error. The body,
 * which follows, returns a code. It can be called without the lock as NAME_call. */
#define HIP(name, need) HIP_UNLESS(false, name, need)
/* A launch: it does nothing while launches are skipped. */
#define HIP_LAUNCH(name) HIP_UNLESS(skip_launches, name, CURRENT)
#define HIP_UNLESS(condition, name, need)                                                          \
    static int name##_call(PARAMETERS_##name);                                                     \
    hipError_t name(PARAMETERS_##name) {                                                           \
        if (condition)                                                                             \
            return CODE_SUCCESS;                                                                   \
        static Counter counter_;                                                                   \
        __attribute__((cleanup(leave))) Entry entry_ = {0};                                        \
        int code_ = enter(&entry_, &counter_, #name, (need));                                      \
        return note_error(code_ ? code_ : name##_call ARGUMENTS_##name);                           \
    }                                                                                              \
    static int name##_call(PARAMETERS_##name)
/* A function that is a call. */
#define HIP_FORWARD(name, need, call)                                                              \
    HIP(name, need) {                                                                              \
        return call;                                                                               \
    }

/* ---- device.c, target.c */

enum { TARGET_BYTES = 64, MAX_THREADS = 1024, SHARED_BYTES = 64 << 10 };

#endif
