// Softmax of each row of x. A hexagon function is one call, so the loop over the rows is in it.
#include <math.h>

void softmax(const float *x, float *y, int columns, int rows)
{
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
