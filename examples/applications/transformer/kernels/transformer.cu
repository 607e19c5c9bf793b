// A transformer block with weights in q4_0, for CUDA and for HIP. A block has THREADS threads. In a kernel with a block for each row, the
// block goes on with the row that is as many rows later as there are blocks.
#ifdef __HIP__
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#else
#include <cuda_fp16.h>
#endif

#define THREADS 64
#define KERNEL extern "C" __global__ __launch_bounds__(THREADS) void

// 32 weights: a number n from 0 to 15 is the weight scale * (n - 8). The low half of byte i is weight i, the high half is weight i + 16.
struct Block {
    __half scale;
    unsigned char numbers[16];
};

// The sum of `value` over the threads of the block.
__device__ float sum_of_block(float value)
{
    __shared__ float scratch[THREADS];
    const int thread = threadIdx.x;
    scratch[thread] = value;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] += scratch[thread + stride];
        __syncthreads();
    }
    const float sum = scratch[0];
    __syncthreads(); // all threads read it before one writes scratch again
    return sum;
}

// The maximum of `value` over the threads of the block.
__device__ float max_of_block(float value)
{
    __shared__ float scratch[THREADS];
    const int thread = threadIdx.x;
    scratch[thread] = value;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride)
            scratch[thread] = fmaxf(scratch[thread], scratch[thread + stride]);
        __syncthreads();
    }
    const float highest = scratch[0];
    __syncthreads();
    return highest;
}

KERNEL embed(const void *table, const int *tokens, const int *position, float *x, const int size)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= size)
        return;
    const Block *block = (const Block *)table + tokens[position[0]] * (size / 32) + i / 32;
    const int byte = block->numbers[i % 16];
    x[i] = __half2float(block->scale) * ((i % 32 < 16 ? byte & 15 : byte >> 4) - 8);
}

KERNEL rms_norm(const float *x, const float *weight, float *y, const int size, const float epsilon)
{
    float squares = 0.0f;
    for (int i = threadIdx.x; i < size; i += THREADS)
        squares += x[i] * x[i];
    const float scale = rsqrtf(sum_of_block(squares) / size + epsilon);
    for (int i = threadIdx.x; i < size; i += THREADS)
        y[i] = x[i] * scale * weight[i];
}

KERNEL matvec_q4_0(const void *weights, const float *x, float *y, const int rows, const int columns)
{
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const Block *blocks = (const Block *)weights + row * (columns / 32);
        float sum = 0.0f;
        // A thread takes four bytes, which are a quarter of a block.
        for (int i = threadIdx.x; i < columns / 8; i += THREADS) {
            const int block = i / 4, quarter = i % 4;
            const unsigned char *numbers = blocks[block].numbers + 4 * quarter;
            const float *low = x + 32 * block + 4 * quarter, *high = low + 16;
            float part = 0.0f;
            for (int k = 0; k < 4; k++)
                part += low[k] * ((numbers[k] & 15) - 8) + high[k] * ((numbers[k] >> 4) - 8);
            sum += __half2float(blocks[block].scale) * part;
        }
        sum = sum_of_block(sum);
        if (threadIdx.x == 0)
            y[row] = sum;
    }
}

KERNEL rope(float *x, const float *frequencies, const int *position, const int heads, const int head_size)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= heads * head_size / 2)
        return;
    const float angle = position[0] * frequencies[i % (head_size / 2)];
    const float c = cosf(angle), s = sinf(angle), a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * c - b * s;
    x[2 * i + 1] = a * s + b * c;
}

KERNEL store_cache(const float *key, const float *value, const int *position, float *keys, float *values, const int size)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= size)
        return;
    keys[position[0] * size + i] = key[i];
    values[position[0] * size + i] = value[i];
}

KERNEL attention_scores(const float *query, const float *keys, const int *position, float *scores, const int heads, const int kv_heads,
                        const int head_size, const int context)
{
    for (int head = blockIdx.x; head < heads; head += gridDim.x) {
        const float *q = query + head * head_size;
        for (int at = threadIdx.x; at <= position[0]; at += THREADS) {
            const float *k = keys + (at * kv_heads + head / (heads / kv_heads)) * head_size;
            float sum = 0.0f;
            for (int i = 0; i < head_size; i++)
                sum += q[i] * k[i];
            scores[head * context + at] = sum * rsqrtf((float)head_size);
        }
    }
}

KERNEL softmax(float *scores, const int *position, const int rows, const int context)
{
    const int thread = threadIdx.x, count = position[0] + 1;
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        float *x = scores + row * context;
        float highest = -INFINITY;
        for (int i = thread; i < count; i += THREADS)
            highest = fmaxf(highest, x[i]);
        highest = max_of_block(highest);
        float sum = 0.0f;
        for (int i = thread; i < count; i += THREADS) {
            x[i] = expf(x[i] - highest);
            sum += x[i];
        }
        sum = sum_of_block(sum);
        for (int i = thread; i < count; i += THREADS)
            x[i] /= sum;
    }
}

KERNEL attention_values(const float *scores, const float *values, const int *position, float *y, const int heads, const int kv_heads,
                        const int head_size, const int context)
{
    for (int head = blockIdx.x; head < heads; head += gridDim.x)
        for (int i = threadIdx.x; i < head_size; i += THREADS) {
            float sum = 0.0f;
            for (int at = 0; at <= position[0]; at++)
                sum += scores[head * context + at] * values[(at * kv_heads + head / (heads / kv_heads)) * head_size + i];
            y[head * head_size + i] = sum;
        }
}

KERNEL accumulate(float *x, const float *y, const int size)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < size)
        x[i] += y[i];
}

KERNEL swiglu(float *gate, const float *up, const int size)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < size)
        gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

KERNEL next_token(const float *logits, int *tokens, int *position, const int size, const int prompt, const int context)
{
    __shared__ float scratch[THREADS];
    __shared__ int places[THREADS];
    const int thread = threadIdx.x;

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
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (thread < stride) {
            const float other = scratch[thread + stride];
            if (other > scratch[thread] || (other == scratch[thread] && places[thread + stride] < places[thread])) {
                scratch[thread] = other;
                places[thread] = places[thread + stride];
            }
        }
        __syncthreads();
    }
    if (thread == 0) {
        const int next = position[0] + 1;
        if (next >= prompt && next < context)
            tokens[next] = places[0];
        position[0] = next;
    }
}
