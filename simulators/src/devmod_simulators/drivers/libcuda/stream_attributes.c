/* What a stream is: its number, its device, and attributes, which are hints. */
#include "cuda_standin.h"

#include <stdlib.h>
#include <string.h>

WITH_STREAM(cuStreamGetId, GIVE(streamId, (uintptr_t)stream))

WITH_STREAM(cuStreamGetDevice, GIVE(device, context_of_stream(stream)->device))

/* The attributes that streams have. */
static const CUstreamAttrID known[] = {
    CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
    CU_LAUNCH_ATTRIBUTE_PRIORITY, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
    CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN};
enum { KNOWN = sizeof known / sizeof known[0] };

/* Set *value to the place of an attribute of a stream. */
static CUresult attribute_of(CUstream handle, CUstreamAttrID attribute, Stream **stream,
                             CUstreamAttrValue **value) {
    TRY(stream_of(handle, stream));
    if (!(*stream)->attributes)
        (*stream)->attributes = zeroed(KNOWN * sizeof **value);
    for (int i = 0; i < KNOWN; i++) {
        if (known[i] != attribute)
            continue;
        *value = (CUstreamAttrValue *)(*stream)->attributes + i;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

API_IF(value, cuStreamSetAttribute, CURRENT) {
    Stream *stream;
    CUstreamAttrValue *own;
    TRY(attribute_of(hStream, attr, &stream, &own));
    *own = *value;
    if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        stream->priority = value->priority;
    return CUDA_SUCCESS;
}

API_IF(value_out, cuStreamGetAttribute, CURRENT) {
    Stream *stream;
    CUstreamAttrValue *own;
    TRY(attribute_of(hStream, attr, &stream, &own));
    *value_out = *own;
    if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value_out->priority = stream->priority;
    return CUDA_SUCCESS;
}

API(cuStreamCopyAttributes, CURRENT) {
    Stream *to;
    Stream *from;
    CUstreamAttrValue *to_value;
    CUstreamAttrValue *from_value;
    TRY(attribute_of(dst, known[0], &to, &to_value));
    TRY(attribute_of(src, known[0], &from, &from_value));
    memcpy(to_value, from_value, KNOWN * sizeof *to_value);
    to->priority = from->priority;
    return CUDA_SUCCESS;
}
