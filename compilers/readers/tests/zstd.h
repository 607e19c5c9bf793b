/* The part of zstd's interface that the reader in C uses. Its numbers are fixed since zstd 1.4. */
#include <stddef.h>

typedef struct ZSTD_DCtx_s ZSTD_DCtx;
typedef struct {
    const void *src;
    size_t size, pos;
} ZSTD_inBuffer;
typedef struct {
    void *dst;
    size_t size, pos;
} ZSTD_outBuffer;
enum { ZSTD_d_windowLogMax = 100 };

ZSTD_DCtx *ZSTD_createDCtx(void);
size_t ZSTD_freeDCtx(ZSTD_DCtx *);
size_t ZSTD_DCtx_setParameter(ZSTD_DCtx *, int, int);
size_t ZSTD_decompressStream(ZSTD_DCtx *, ZSTD_outBuffer *, ZSTD_inBuffer *);
unsigned ZSTD_isError(size_t);
