#pragma once
#include <shape.h>
template <class T, int N> struct Tile { T at[N][padded(N)]; };
