#ifndef TILE_H
#define TILE_H
#ifndef TILE
#define TILE 8
#endif
float tile_scale() { return float(TILE); }
#endif
