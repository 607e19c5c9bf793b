/* What a stream is: its number, its device, and attributes, which are hints. */
#include "cuda_standin.h"

#include <string.h>

WITH_STREAM(cuStreamGetId, GIVE(streamId, (uintptr_t)stream))

WITH_STREAM(cuStreamGetDevice, GIVE(device, context_of_stream(stream)->device))

/* The attributes that streams have. */
static const bool known[] = {
    [CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW] = true,
    [CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY] = true,
    [CU_LAUNCH_ATTRIBUTE_PRIORITY] = true,
    [CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP] = true,
    [CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN] = true,
};
enum { ATTRIBUTES = sizeof known / sizeof known[0] };

/* Set *values to the attributes of a stream, by their numbers. */
static CUresult attributes_of(CUstream handle, Stream **stream, CUstreamAttrValue **values) {
    TRY(stream_of(handle, stream));
    if (!(*stream)->attributes)
        (*stream)->attributes = zeroed(ATTRIBUTES * sizeof **values);
    *values = (*stream)->attributes;
    (*values)[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority = (*stream)->priority;
    return CUDA_SUCCESS;
}

API_IF(value && (unsigned)attr < ATTRIBUTES && known[attr], cuStreamSetAttribute, CURRENT) {
    Stream *stream;
    CUstreamAttrValue *values;
    TRY(attributes_of(hStream, &stream, &values));
    values[attr] = *value;
    stream->priority = values[CU_LAUNCH_ATTRIBUTE_PRIORITY].priority;
    return CUDA_SUCCESS;
}

API_IF(value_out && (unsigned)attr < ATTRIBUTES && known[attr], cuStreamGetAttribute, CURRENT) {
    Stream *stream;
    CUstreamAttrValue *values;
    TRY(attributes_of(hStream, &stream, &values));
    *value_out = values[attr];
    return CUDA_SUCCESS;
}

API(cuStreamCopyAttributes, CURRENT) {
    Stream *to, *from;
    CUstreamAttrValue *to_values, *from_values;
    TRY(attributes_of(dst, &to, &to_values));
    TRY(attributes_of(src, &from, &from_values));
    memcpy(to_values, from_values, ATTRIBUTES * sizeof *to_values);
    to->priority = from->priority;
    return CUDA_SUCCESS;
}
