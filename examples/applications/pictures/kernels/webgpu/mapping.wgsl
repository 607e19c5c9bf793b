// Return the part of the texels that are as dark as each level, or darker: a running sum, in one block.
struct Size { texels: i32 }
@group(0) @binding(0) var<storage, read> counts: array<u32, 256>;
@group(0) @binding(1) var<storage, read_write> table: array<f32, 256>;
@group(0) @binding(2) var<uniform> size: Size;
var<workgroup> sums: array<u32, 256>;

@compute @workgroup_size(256)
fn mapping(@builtin(local_invocation_index) level: u32) {
    sums[level] = counts[level];
    workgroupBarrier();
    for (var distance = 1u; distance < 256u; distance *= 2u) {
        var other = 0u;
        if level >= distance {
            other = sums[level - distance];
        }
        workgroupBarrier();
        sums[level] += other;
        workgroupBarrier();
    }
    table[level] = f32(sums[level]) / f32(size.texels);
}
