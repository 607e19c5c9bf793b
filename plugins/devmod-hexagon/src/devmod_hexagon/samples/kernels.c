#include <math.h>
#include <stdint.h>

typedef struct {
    float factor;
    int count;
} Scale;

int32_t table[4] = {2, 3, 5, 7};

void axpy(const float *x, float *y, float a, int n) {
    for (int i = 0; i < n; i++)
        y[i] += a * x[i];
}

void scale(double *x, Scale how) {
    for (int i = 0; i < how.count; i++)
        x[i] *= how.factor;
}

void softmax(const float *x, float *y, int rows, int columns) {
    for (int row = 0; row < rows; row++, x += columns, y += columns) {
        float most = x[0], sum = 0;
        for (int i = 1; i < columns; i++)
            most = fmaxf(most, x[i]);
        for (int i = 0; i < columns; i++)
            sum += y[i] = expf(x[i] - most);
        for (int i = 0; i < columns; i++)
            y[i] /= sum;
    }
}

void many(int64_t *out, int8_t a, int64_t b, float c, double d, uint16_t e, int f, int64_t g,
          _Bool h, int i, double j, uint8_t k) {
    out[0] = a + b + (int64_t)c + (int64_t)d + e + f;
    out[1] = g + h + i + (int64_t)j + k;
}

double mean(const float *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

int64_t raise(int32_t *x, int n) {
    int64_t most = x[0];
    for (int i = 0; i < n; i++) {
        x[i] += 1000;
        most = x[i] > most ? x[i] : most;
    }
    return most << 33;
}

void lookup(int32_t *x, int n) {
    for (int i = 0; i < n; i++)
        x[i] = table[x[i] & 3] / 2;
}
