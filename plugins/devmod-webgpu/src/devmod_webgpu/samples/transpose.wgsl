override TILE: u32 = 4;
struct Size { width: u32, height: u32 }
@group(0) @binding(0) var<storage, read> source: array<f32>;
@group(0) @binding(1) var<storage, read_write> turned: array<f32>;
@group(1) @binding(0) var<uniform> size: Size;
var<workgroup> tile: array<array<f32, 16>, 16>;

@compute @workgroup_size(TILE, TILE)
fn transpose(@builtin(workgroup_id) block: vec3u, @builtin(local_invocation_id) thread: vec3u) {
  let corner = block.xy * TILE;
  let from_ = corner + thread.xy;
  if all(from_ < vec2u(size.width, size.height)) { tile[thread.y][thread.x] = source[from_.y * size.width + from_.x]; }
  workgroupBarrier();
  let to = corner + thread.yx;
  if all(to < vec2u(size.width, size.height)) { turned[to.x * size.height + to.y] = tile[thread.x][thread.y]; }
}
