// The blocks of q4_0 in the buffer WORDS. A block has 32 weights in 18 bytes: the scale, which is a half, then 16 bytes. A number n from
// 0 to 15 is the weight scale * (n - 8). The low half of byte i is weight i, the high half is weight i + 16.
// A shader needs no feature of the device to read words of four bytes. Every other block begins in the middle of a word.

float scale_of(uint block)
{
    const uint at = 18 * block;
    return unpackHalf2x16(WORDS[at / 4] >> 8 * (at % 4)).x;
}

// The numbers of weights `4 * quarter` to `4 * quarter + 3` in the low halves of the bytes; 16 weights later in the high halves.
uvec4 numbers_of(uint block, uint quarter)
{
    const uint at = 18 * block + 2 + 4 * quarter;
    const uint word = at % 4 == 0 ? WORDS[at / 4] : WORDS[at / 4] >> 16 | WORDS[at / 4 + 1] << 16;
    return uvec4(word, word >> 8, word >> 16, word >> 24) & 0xffu;
}
