void spin(unsigned *x, int n) {
    for (int i = 0; i < 8; i++)
        for (int round = 0; round < n; round++)
            x[i] = x[i] * 1664525u + 1013904223u;
}
