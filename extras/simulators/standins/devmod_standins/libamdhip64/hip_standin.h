/* The stand-in HIP runtime: HIP's API over the files of common/. */
#ifndef HIP_STANDIN_H
#define HIP_STANDIN_H

#include "driver.h"
#include "hip_api.h"

/* The settings DEVMOD_STANDIN_… are listed in extras/simulators/README.md. */

/* ---- entry.c */

/* Note a code as the last error of this thread, and return it. */
hipError_t note_error(int code);

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

/* Return the version of HIP: 10,000,000 for each major one and 100,000 for each minor one. */
int hip_version(void);
/* Return whether the version of HIP is at least a major one. */
bool hip_since(int major);

/* ---- context.c */

/* Return the context of a device: there is one, which begins with the first call. */
Context *device_context(int device);
/* Return the current context: that of device 0 before hipSetDevice. */
Context *hip_current(void);

/* ---- device.c, target.c */

enum { TARGET_BYTES = 64, MAX_THREADS = 1024, SHARED_BYTES = 64 << 10 };

/* Write the target of a device, such as gfx90a:sramecc+:xnack-. */
void device_target(int device, char target[TARGET_BYTES]);
int device_attribute(int device, int attribute);
void device_name(int device, char *name, size_t size);
/* Return whether a code object for a target runs on a device: same processor, or a generic one of
 * it; features that do not differ. */
bool target_fits(const char *image, const char *device);
/* Return the major and the minor version, and the number of lanes, of a target. */
int target_major(const char *target);
int target_minor(const char *target);
int target_lanes(const char *target);

/* ---- function.c, launch.c */

int function_of(hipFunction_t handle, Function **function);
/* Return how many blocks of a launch are resident on one multiprocessor. */
uint64_t resident_blocks(const Function *function, uint64_t threads, uint64_t shared);
/* Return the value of a hidden argument. One that the emulated kernels do not use, such as the
 * buffer of printf, is null. */
uint64_t hidden_value(const Launch *launch, const char *kind);
void launch_failed(int code, const char *kernel);

#endif
