/* A libvulkan.so.1 that passes the shaders of a program to a function before another libvulkan does
 * its work. It has no headers of Vulkan. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef void (*Function)(void);
typedef Function (*GetFunction)(void *owner, const char *name);
typedef void (*Receive)(const void *code, size_t size);

/* VkShaderModuleCreateInfo. */
typedef struct ShaderInfo {
    int32_t type;
    const void *next;
    uint32_t flags;
    size_t size;
    const uint32_t *code;
} ShaderInfo;

typedef int32_t (*CreateShader)(void *device, const ShaderInfo *info, const void *allocator,
                                uint64_t *module);

static Receive receive;
static GetFunction instance_function, device_function;
static CreateShader create_shader;

/* Return 0 if the libvulkan at a path cannot be used. */
int devmod_start(const char *path, Receive function)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    receive = function;
    if (library)
        instance_function = (GetFunction)dlsym(library, "vkGetInstanceProcAddr");
    return instance_function != NULL;
}

static int32_t capture(void *device, const ShaderInfo *info, const void *allocator,
                       uint64_t *module)
{
    receive(info->code, info->size);
    return create_shader(device, info, allocator, module);
}

static Function get_device_function(void *device, const char *name)
{
    Function found = device_function(device, name);
    if (!found || strcmp(name, "vkCreateShaderModule") != 0)
        return found;
    create_shader = (CreateShader)found;
    return (Function)capture;
}

Function vkGetInstanceProcAddr(void *instance, const char *name)
{
    if (!strcmp(name, "vkGetInstanceProcAddr"))
        return (Function)vkGetInstanceProcAddr;
    Function found = instance_function(instance, name);
    if (!found || strcmp(name, "vkGetDeviceProcAddr") != 0)
        return found;
    device_function = (GetFunction)found;
    return (Function)get_device_function;
}
