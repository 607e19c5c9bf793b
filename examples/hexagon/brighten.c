// Add a constant to each byte of a picture, at most 255, 128 bytes at a time by HVX. The rest is done one by one.
#include <hexagon_types.h>
#include <hexagon_protos.h>

enum { VECTOR = 128 };

void brighten(const unsigned char *picture, unsigned char *brighter, unsigned char amount, int size)
{
    HVX_Vector more = Q6_V_vsplat_R(amount * 0x01010101);
    int i = 0;

    for (; i + VECTOR <= size; i += VECTOR)
        *(HVX_Vector *)(brighter + i) = Q6_Vub_vadd_VubVub_sat(*(const HVX_Vector *)(picture + i), more);
    for (; i < size; i++)
        brighter[i] = picture[i] + amount < 255 ? picture[i] + amount : 255;
}
