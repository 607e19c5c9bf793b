// A transformer block with weights in q4_0, for a DSP. A call has no grid: the loops over rows and elements are in the functions.
#include <math.h>

// 32 weights: a number n from 0 to 15 is the weight scale * (n - 8). The low half of byte i is weight i, the high half is weight i + 16.
typedef struct {
    __fp16 scale;
    unsigned char numbers[16];
} Block;

void embed(const void *table, const int *tokens, const int *position, float *x, int size)
{
    const Block *blocks = (const Block *)table + tokens[position[0]] * (size / 32);

    for (int i = 0; i < size; i++) {
        const int byte = blocks[i / 32].numbers[i % 16];
        x[i] = (float)blocks[i / 32].scale * ((i % 32 < 16 ? byte & 15 : byte >> 4) - 8);
    }
}

void rms_norm(const float *x, const float *weight, float *y, int size, float epsilon)
{
    float squares = 0;
    for (int i = 0; i < size; i++)
        squares += x[i] * x[i];
    const float scale = 1 / sqrtf(squares / size + epsilon);
    for (int i = 0; i < size; i++)
        y[i] = x[i] * scale * weight[i];
}

void matvec_q4_0(const void *weights, const float *x, float *y, int rows, int columns)
{
    const Block *block = weights;

    for (int row = 0; row < rows; row++) {
        float sum = 0;
        for (int i = 0; i < columns; i += 32, block++) {
            float part = 0;
            for (int k = 0; k < 16; k++)
                part += x[i + k] * ((block->numbers[k] & 15) - 8) + x[i + k + 16] * ((block->numbers[k] >> 4) - 8);
            sum += (float)block->scale * part;
        }
        y[row] = sum;
    }
}

void rope(float *x, const float *frequencies, const int *position, int heads, int head_size)
{
    for (int i = 0; i < heads * head_size / 2; i++) {
        const float angle = position[0] * frequencies[i % (head_size / 2)];
        const float c = cosf(angle), s = sinf(angle), a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * c - b * s;
        x[2 * i + 1] = a * s + b * c;
    }
}

void store_cache(const float *key, const float *value, const int *position, float *keys, float *values, int size)
{
    for (int i = 0; i < size; i++) {
        keys[position[0] * size + i] = key[i];
        values[position[0] * size + i] = value[i];
    }
}

void attention_scores(const float *query, const float *keys, const int *position, float *scores, int heads, int kv_heads, int head_size,
                      int context)
{
    const float scale = 1 / sqrtf(head_size);

    for (int head = 0; head < heads; head++)
        for (int at = 0; at <= position[0]; at++) {
            const float *k = keys + (at * kv_heads + head / (heads / kv_heads)) * head_size;
            float sum = 0;
            for (int i = 0; i < head_size; i++)
                sum += query[head * head_size + i] * k[i];
            scores[head * context + at] = sum * scale;
        }
}

void softmax(float *scores, const int *position, int rows, int context)
{
    const int count = position[0] + 1;

    for (int row = 0; row < rows; row++, scores += context) {
        float highest = scores[0], sum = 0;
        for (int i = 1; i < count; i++)
            highest = fmaxf(highest, scores[i]);
        for (int i = 0; i < count; i++)
            sum += scores[i] = expf(scores[i] - highest);
        for (int i = 0; i < count; i++)
            scores[i] /= sum;
    }
}

void attention_values(const float *scores, const float *values, const int *position, float *y, int heads, int kv_heads, int head_size,
                      int context)
{
    for (int head = 0; head < heads; head++)
        for (int i = 0; i < head_size; i++) {
            float sum = 0;
            for (int at = 0; at <= position[0]; at++)
                sum += scores[head * context + at] * values[(at * kv_heads + head / (heads / kv_heads)) * head_size + i];
            y[head * head_size + i] = sum;
        }
}

void accumulate(float *x, const float *y, int size)
{
    for (int i = 0; i < size; i++)
        x[i] += y[i];
}

void swiglu(float *gate, const float *up, int size)
{
    for (int i = 0; i < size; i++)
        gate[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

void next_token(const float *logits, int *tokens, int *position, int size, int prompt, int context)
{
    const int next = position[0] + 1;
    int best = 0;

    for (int i = 1; i < size; i++) // the first of the largest logits
        if (logits[i] > logits[best])
            best = i;
    if (next >= prompt && next < context)
        tokens[next] = best;
    position[0] = next;
}
