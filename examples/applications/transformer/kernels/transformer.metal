// A transformer block with weights in q4_0. A group has THREADS threads. In a kernel with a group for each row, the group goes on with
// the row that is as many rows later as there are groups.
#include <metal_stdlib>
using namespace metal;

#define THREADS 64

// 32 weights: a number n from 0 to 15 is the weight scale * (n - 8). The low half of byte i is weight i, the high half is weight i + 16.
struct Block {
    half scale;
    uchar numbers[16];
};

// The sum of `value` over the threads of the group.
static float sum_of_group(float value, threadgroup float *scratch, int index)
{
    scratch[index] = value;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (index < stride)
            scratch[index] += scratch[index + stride];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    const float sum = scratch[0];
    threadgroup_barrier(mem_flags::mem_threadgroup); // all threads read it before one writes scratch again
    return sum;
}

// The maximum of `value` over the threads of the group.
static float max_of_group(float value, threadgroup float *scratch, int index)
{
    scratch[index] = value;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (index < stride)
            scratch[index] = max(scratch[index], scratch[index + stride]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    const float highest = scratch[0];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return highest;
}

kernel void embed(device const void *table [[buffer(0)]], device const int *tokens [[buffer(1)]], device const int *position [[buffer(2)]],
                  device float *x [[buffer(3)]], constant int &size [[buffer(4)]], uint i [[thread_position_in_grid]])
{
    if (int(i) >= size)
        return;
    device const Block *block = (device const Block *)table + tokens[position[0]] * (size / 32) + i / 32;
    const int byte = block->numbers[i % 16];
    x[i] = (float)block->scale * ((i % 32 < 16 ? byte & 15 : byte >> 4) - 8);
}

kernel void rms_norm(device const float *x [[buffer(0)]], device const float *weight [[buffer(1)]], device float *y [[buffer(2)]],
                     constant int &size [[buffer(3)]], constant float &epsilon [[buffer(4)]], uint index [[thread_position_in_threadgroup]])
{
    threadgroup float scratch[THREADS];
    float squares = 0.0f;
    for (int i = index; i < size; i += THREADS)
        squares += x[i] * x[i];
    const float scale = rsqrt(sum_of_group(squares, scratch, index) / size + epsilon);
    for (int i = index; i < size; i += THREADS)
        y[i] = x[i] * scale * weight[i];
}

kernel void matvec_q4_0(device const void *weights [[buffer(0)]], device const float *x [[buffer(1)]], device float *y [[buffer(2)]],
                        constant int &rows [[buffer(3)]], constant int &columns [[buffer(4)]],
                        uint index [[thread_position_in_threadgroup]], uint group [[threadgroup_position_in_grid]],
                        uint groups [[threadgroups_per_grid]])
{
    threadgroup float scratch[THREADS];
    for (int row = group; row < rows; row += groups) {
        device const Block *blocks = (device const Block *)weights + row * (columns / 32);
        float sum = 0.0f;
        // A thread takes four bytes, which are a quarter of a block.
        for (int i = index; i < columns / 8; i += THREADS) {
            const int block = i / 4, quarter = i % 4;
            device const uchar *numbers = blocks[block].numbers + 4 * quarter;
            device const float *low = x + 32 * block + 4 * quarter, *high = low + 16;
            float part = 0.0f;
            for (int k = 0; k < 4; k++)
                part += low[k] * ((numbers[k] & 15) - 8) + high[k] * ((numbers[k] >> 4) - 8);
            sum += (float)blocks[block].scale * part;
        }
        sum = sum_of_group(sum, scratch, index);
        if (index == 0)
            y[row] = sum;
    }
}

kernel void rope(device float *x [[buffer(0)]], device const float *frequencies [[buffer(1)]], device const int *position [[buffer(2)]],
                 constant int &heads [[buffer(3)]], constant int &head_size [[buffer(4)]], uint i [[thread_position_in_grid]])
{
    if (int(i) >= heads * head_size / 2)
        return;
    const float angle = position[0] * frequencies[i % (head_size / 2)];
    const float c = precise::cos(angle), s = precise::sin(angle), a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * c - b * s;
    x[2 * i + 1] = a * s + b * c;
}

kernel void store_cache(device const float *key [[buffer(0)]], device const float *value [[buffer(1)]],
                        device const int *position [[buffer(2)]], device float *keys [[buffer(3)]], device float *values [[buffer(4)]],
                        constant int &size [[buffer(5)]], uint i [[thread_position_in_grid]])
{
    if (int(i) >= size)
        return;
    keys[position[0] * size + i] = key[i];
    values[position[0] * size + i] = value[i];
}

kernel void attention_scores(device const float *query [[buffer(0)]], device const float *keys [[buffer(1)]],
                             device const int *position [[buffer(2)]], device float *scores [[buffer(3)]],
                             constant int &heads [[buffer(4)]], constant int &kv_heads [[buffer(5)]], constant int &head_size [[buffer(6)]],
                             constant int &context [[buffer(7)]], uint index [[thread_position_in_threadgroup]],
                             uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]])
{
    for (int head = group; head < heads; head += groups) {
        device const float *q = query + head * head_size;
        for (int at = index; at <= position[0]; at += THREADS) {
            device const float *k = keys + (at * kv_heads + head / (heads / kv_heads)) * head_size;
            float sum = 0.0f;
            for (int i = 0; i < head_size; i++)
                sum += q[i] * k[i];
            scores[head * context + at] = sum * rsqrt((float)head_size);
        }
    }
}

kernel void softmax(device float *scores [[buffer(0)]], device const int *position [[buffer(1)]], constant int &rows [[buffer(2)]],
                    constant int &context [[buffer(3)]], uint index [[thread_position_in_threadgroup]],
                    uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]])
{
    threadgroup float scratch[THREADS];
    const int count = position[0] + 1;
    for (int row = group; row < rows; row += groups) {
        device float *x = scores + row * context;
        float highest = -INFINITY;
        for (int i = index; i < count; i += THREADS)
            highest = max(highest, x[i]);
        highest = max_of_group(highest, scratch, index);
        float sum = 0.0f;
        for (int i = index; i < count; i += THREADS) {
            x[i] = precise::exp(x[i] - highest);
            sum += x[i];
        }
        sum = sum_of_group(sum, scratch, index);
        for (int i = index; i < count; i += THREADS)
            x[i] /= sum;
    }
}

kernel void attention_values(device const float *scores [[buffer(0)]], device const float *values [[buffer(1)]],
                             device const int *position [[buffer(2)]], device float *y [[buffer(3)]], constant int &heads [[buffer(4)]],
                             constant int &kv_heads [[buffer(5)]], constant int &head_size [[buffer(6)]],
                             constant int &context [[buffer(7)]], uint index [[thread_position_in_threadgroup]],
                             uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]])
{
    for (int head = group; head < heads; head += groups)
        for (int i = index; i < head_size; i += THREADS) {
            float sum = 0.0f;
            for (int at = 0; at <= position[0]; at++)
                sum += scores[head * context + at] * values[(at * kv_heads + head / (heads / kv_heads)) * head_size + i];
            y[head * head_size + i] = sum;
        }
}

kernel void accumulate(device float *x [[buffer(0)]], device const float *y [[buffer(1)]], constant int &size [[buffer(2)]],
                       uint i [[thread_position_in_grid]])
{
    if (int(i) < size)
        x[i] += y[i];
}

kernel void swiglu(device float *gate [[buffer(0)]], device const float *up [[buffer(1)]], constant int &size [[buffer(2)]],
                   uint i [[thread_position_in_grid]])
{
    if (int(i) < size)
        gate[i] = gate[i] / (1.0f + precise::exp(-gate[i])) * up[i];
}

kernel void next_token(device const float *logits [[buffer(0)]], device int *tokens [[buffer(1)]], device int *position [[buffer(2)]],
                       constant int &size [[buffer(3)]], constant int &prompt [[buffer(4)]], constant int &context [[buffer(5)]],
                       uint index [[thread_position_in_threadgroup]])
{
    threadgroup float scratch[THREADS];
    threadgroup int places[THREADS];

    // The first of the largest logits.
    float highest = logits[0];
    int place = 0;
    for (int i = index; i < size; i += THREADS)
        if (logits[i] > highest) {
            highest = logits[i];
            place = i;
        }
    scratch[index] = highest;
    places[index] = place;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (index < stride) {
            const float other = scratch[index + stride];
            if (other > scratch[index] || (other == scratch[index] && places[index + stride] < places[index])) {
                scratch[index] = other;
                places[index] = places[index + stride];
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (index == 0) {
        const int next = position[0] + 1;
        if (next >= prompt && next < context)
            tokens[next] = places[0];
        position[0] = next;
    }
}
