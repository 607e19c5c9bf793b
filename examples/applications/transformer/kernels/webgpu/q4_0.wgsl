// The blocks of q4_0 in the buffer WORDS. A block has 32 weights in 18 bytes: the scale, which is a half, then 16 bytes. A number n from
// 0 to 15 is the weight scale * (n - 8). The low half of byte i is weight i, the high half is weight i + 16.
// WGSL has no bytes in buffers, so a shader reads words of four bytes. Every other block begins in the middle of a word.

fn scale_of(block: i32) -> f32 {
    let at = u32(18 * block);
    return unpack2x16float(WORDS[at / 4] >> (8 * (at % 4))).x;
}

// The numbers of weights `4 * quarter` to `4 * quarter + 3` in the low halves of the bytes; 16 weights later in the high halves.
fn numbers_of(block: i32, quarter: i32) -> vec4u {
    let at = u32(18 * block + 2 + 4 * quarter);
    var word = WORDS[at / 4];
    if at % 4 != 0 {
        word = (word >> 16) | (WORDS[at / 4 + 1] << 16);
    }
    return (vec4u(word) >> vec4u(0, 8, 16, 24)) & vec4u(0xff);
}
