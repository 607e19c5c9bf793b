/* The attributes of cuLaunchKernelEx. */
#include "cuda_standin.h"

#include <string.h>

CUresult take_attributes(Launch *launch, const CUlaunchAttribute *attributes, unsigned count) {
    CHECK(attributes || !count, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; i++) {
        const CUlaunchAttributeValue *value = &attributes[i].value;
        switch (attributes[i].id) {
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            break;
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            launch->priority = value->priority;
            break;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            launch->cooperative = value->cooperative != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            memcpy(launch->cluster, &value->clusterDim, sizeof launch->cluster);
            CHECK(launch->cluster[0] && launch->cluster[1] && launch->cluster[2],
                  CUDA_ERROR_INVALID_VALUE);
            break;
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
            memcpy(launch->preferred, &value->preferredClusterDim, sizeof launch->preferred);
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            launch->programmatic = value->programmaticStreamSerializationAllowed != 0;
            break;
#if CUDA_VERSION >= 13050 /* headers of CUDA 13.0 lack it */
        case CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE:
            launch->non_portable = value->portableClusterSizeMode ==
                                   CU_LAUNCH_PORTABLE_CLUSTER_MODE_ALLOW_NON_PORTABLE;
            break;
#endif
        default:
            explain("the stand-in driver does not know the launch attribute %d",
                    (int)attributes[i].id);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}
