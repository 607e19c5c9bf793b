// The sum of x, which the call returns. Blocks of 1024 keep the rounding error small.
float sum(const float *x, int n)
{
    float total = 0;

    for (int start = 0; start < n; start += 1024) {
        float part = 0;
        for (int i = start; i < n && i < start + 1024; i++)
            part += x[i];
        total += part;
    }
    return total;
}
