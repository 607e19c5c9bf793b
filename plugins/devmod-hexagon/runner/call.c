/* A call by the Hexagon C ABI: six words in r0 to r5, the others on the stack, the result in r1:0.
 * The host decides the places. */
#include "runner.h"

uint64_t devmod_call(uint32_t function, const uint32_t *registers, const uint32_t *stack,
                     uint32_t words);

__asm__(".text\n"
        ".p2align 4\n"
        ".globl devmod_call\n"
        ".type devmod_call,@function\n"
        "devmod_call:\n"
        "  { allocframe(#16) }\n"
        "  { memd(r29+#0) = r17:16 }\n"
        "  { r16 = r0 }\n"
        "  { r17 = r1 }\n"
        "  { r4 = asl(r3,#2) }\n"
        "  { r29 = sub(r29,r4) }\n"
        "  { r5 = r29 }\n"
        "  { p0 = cmp.eq(r3,#0) }\n"
        "  { if (p0) jump .Lregisters }\n"
        ".Lcopy:\n"
        "  { r6 = memw(r2++#4) }\n"
        "  { memw(r5++#4) = r6 }\n"
        "  { r3 = add(r3,#-1) }\n"
        "  { p0 = cmp.gt(r3,#0) }\n"
        "  { if (p0) jump .Lcopy }\n"
        ".Lregisters:\n"
        "  { r1:0 = memd(r17+#0) }\n"
        "  { r3:2 = memd(r17+#8) }\n"
        "  { r5:4 = memd(r17+#16) }\n"
        "  { callr r16 }\n"
        "  { r29 = add(r30,#-16) }\n"
        "  { r17:16 = memd(r29+#0) }\n"
        "  { dealloc_return }\n"
        ".size devmod_call, .-devmod_call\n");

uint64_t call_function(uint32_t function, const uint32_t registers[REGISTERS],
                       const uint32_t *stack, uint32_t words) {
    _Alignas(8) uint32_t aligned[REGISTERS];

    for (int number = 0; number < REGISTERS; number++)
        aligned[number] = registers[number];
    return devmod_call(function, aligned, stack, words);
}
