#ifndef TILE_H
#define TILE_H
#ifndef TILE
#define TILE 8
#endif
#define WORK_GROUP __attribute__((reqd_work_group_size(TILE, TILE, 1)))
#endif
