// c = a · b, in tiles that stay in the cache.
enum { TILE = 16 };

static int end_of(int start, int limit) { return start + TILE < limit ? start + TILE : limit; }

void matmul_tiled(const float *restrict a, const float *restrict b, float *restrict c, int m, int n, int k)
{
    for (int i = 0; i < m * n; i++)
        c[i] = 0;
    for (int top = 0; top < m; top += TILE)
        for (int depth = 0; depth < k; depth += TILE)
            for (int left = 0; left < n; left += TILE)
                for (int row = top; row < end_of(top, m); row++)
                    for (int inner = depth; inner < end_of(depth, k); inner++)
                        for (int column = left; column < end_of(left, n); column++)
                            c[row * n + column] += a[row * k + inner] * b[inner * n + column];
}
