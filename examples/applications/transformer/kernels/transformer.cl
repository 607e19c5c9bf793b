// A transformer block with weights in q4_0. A group has THREADS threads. In a kernel with a group for each row, the group goes on with
// the row that is as many rows later as there are groups.
#define THREADS 64
#define GROUP __attribute__((reqd_work_group_size(THREADS, 1, 1)))

// 32 weights: a number n from 0 to 15 is the weight scale * (n - 8). The low half of byte i is weight i, the high half is weight i + 16.
typedef struct {
    ushort scale; // the bits of a half: a kernel that only loads halves does not need cl_khr_fp16
    uchar numbers[16];
} Block;

float scale_of(const __global Block *block)
{
    return vload_half(0, (const __global half *)&block->scale);
}

// The sum of `value` over the threads of the group.
float sum_of_group(float value, __local float *scratch)
{
    const int thread = get_local_id(0);
    scratch[thread] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] += scratch[thread + stride];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float sum = scratch[0];
    barrier(CLK_LOCAL_MEM_FENCE); // all threads read it before one writes scratch again
    return sum;
}

// The maximum of `value` over the threads of the group.
float max_of_group(float value, __local float *scratch)
{
    const int thread = get_local_id(0);
    scratch[thread] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] = fmax(scratch[thread], scratch[thread + stride]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float highest = scratch[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return highest;
}

__kernel GROUP void embed(__global const void *table, __global const int *tokens, __global const int *position, __global float *x,
                          const int size)
{
    const int i = get_global_id(0);
    if (i >= size)
        return;
    const __global Block *block = (const __global Block *)table + tokens[position[0]] * (size / 32) + i / 32;
    const int byte = block->numbers[i % 16];
    x[i] = scale_of(block) * ((i % 32 < 16 ? byte & 15 : byte >> 4) - 8);
}

__kernel GROUP void rms_norm(__global const float *x, __global const float *weight, __global float *y, const int size, const float epsilon)
{
    __local float scratch[THREADS];
    float squares = 0.0f;
    for (int i = get_local_id(0); i < size; i += THREADS)
        squares += x[i] * x[i];
    const float scale = rsqrt(sum_of_group(squares, scratch) / size + epsilon);
    for (int i = get_local_id(0); i < size; i += THREADS)
        y[i] = x[i] * scale * weight[i];
}

__kernel GROUP void matvec_q4_0(__global const void *weights, __global const float *x, __global float *y, const int rows, const int columns)
{
    __local float scratch[THREADS];
    for (int row = get_group_id(0); row < rows; row += get_num_groups(0)) {
        const __global Block *blocks = (const __global Block *)weights + row * (columns / 32);
        float sum = 0.0f;
        // A thread takes four bytes, which are a quarter of a block.
        for (int i = get_local_id(0); i < columns / 8; i += THREADS) {
            const int block = i / 4, quarter = i % 4;
            const __global uchar *numbers = blocks[block].numbers + 4 * quarter;
            const __global float *low = x + 32 * block + 4 * quarter, *high = low + 16;
            float part = 0.0f;
            for (int k = 0; k < 4; k++)
                part += low[k] * ((numbers[k] & 15) - 8) + high[k] * ((numbers[k] >> 4) - 8);
            sum += scale_of(&blocks[block]) * part;
        }
        sum = sum_of_group(sum, scratch);
        if (get_local_id(0) == 0)
            y[row] = sum;
    }
}

__kernel GROUP void rope(__global float *x, __global const float *frequencies, __global const int *position, const int heads,
                         const int head_size)
{
    const int i = get_global_id(0);
    if (i >= heads * head_size / 2)
        return;
    const float angle = position[0] * frequencies[i % (head_size / 2)];
    const float c = cos(angle), s = sin(angle), a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * c - b * s;
    x[2 * i + 1] = a * s + b * c;
}

__kernel GROUP void store_cache(__global const float *key, __global const float *value, __global const int *position, __global float *keys,
                                __global float *values, const int size)
{
    const int i = get_global_id(0);
    if (i >= size)
        return;
    keys[position[0] * size + i] = key[i];
    values[position[0] * size + i] = value[i];
}

__kernel GROUP void attention_scores(__global const float *query, __global const float *keys, __global const int *position,
                                     __global float *scores, const int heads, const int kv_heads, const int head_size, const int context)
{
    for (int head = get_group_id(0); head < heads; head += get_num_groups(0)) {
        const __global float *q = query + head * head_size;
        for (int at = get_local_id(0); at <= position[0]; at += THREADS) {
            const __global float *k = keys + (at * kv_heads + head / (heads / kv_heads)) * head_size;
            float sum = 0.0f;
            for (int i = 0; i < head_size; i++)
                sum += q[i] * k[i];
            scores[head * context + at] = sum * rsqrt((float)head_size);
        }
    }
}

__kernel GROUP void softmax(__global float *scores, __global const int *position, const int rows, const int context)
{
    __local float scratch[THREADS];
    const int thread = get_local_id(0), count = position[0] + 1;
    for (int row = get_group_id(0); row < rows; row += get_num_groups(0)) {
        __global float *x = scores + row * context;
        float highest = -INFINITY;
        for (int i = thread; i < count; i += THREADS)
            highest = fmax(highest, x[i]);
        highest = max_of_group(highest, scratch);
        float sum = 0.0f;
        for (int i = thread; i < count; i += THREADS) {
            x[i] = exp(x[i] - highest);
            sum += x[i];
        }
        sum = sum_of_group(sum, scratch);
        for (int i = thread; i < count; i += THREADS)
            x[i] /= sum;
    }
}

__kernel GROUP void attention_values(__global const float *scores, __global const float *values, __global const int *position,
                                     __global float *y, const int heads, const int kv_heads, const int head_size, const int context)
{
    for (int head = get_group_id(0); head < heads; head += get_num_groups(0))
        for (int i = get_local_id(0); i < head_size; i += THREADS) {
            float sum = 0.0f;
            for (int at = 0; at <= position[0]; at++)
                sum += scores[head * context + at] * values[(at * kv_heads + head / (heads / kv_heads)) * head_size + i];
            y[head * head_size + i] = sum;
        }
}

__kernel GROUP void accumulate(__global float *x, __global const float *y, const int size)
{
    const int i = get_global_id(0);
    if (i < size)
        x[i] += y[i];
}

__kernel GROUP void swiglu(__global float *gate, __global const float *up, const int size)
{
    const int i = get_global_id(0);
    if (i < size)
        gate[i] = gate[i] / (1.0f + exp(-gate[i])) * up[i];
}

__kernel GROUP void next_token(__global const float *logits, __global int *tokens, __global int *position, const int size, const int prompt,
                               const int context)
{
    __local float scratch[THREADS];
    __local int places[THREADS];
    const int thread = get_local_id(0);

    // The first of the largest logits.
    float highest = logits[0];
    int place = 0;
    for (int i = thread; i < size; i += THREADS)
        if (logits[i] > highest) {
            highest = logits[i];
            place = i;
        }
    scratch[thread] = highest;
    places[thread] = place;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride) {
            const float other = scratch[thread + stride];
            if (other > scratch[thread] || (other == scratch[thread] && places[thread + stride] < places[thread])) {
                scratch[thread] = other;
                places[thread] = places[thread + stride];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (thread == 0) {
        const int next = position[0] + 1;
        if (next >= prompt && next < context)
            tokens[next] = places[0];
        position[0] = next;
    }
}
