#pragma once
typedef struct {
  uint m, n, k;
} shape_t;
#define INDEX(row, column, width) ((row) * (width) + (column))
