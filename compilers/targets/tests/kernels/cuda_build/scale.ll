; Multiply n numbers by a factor.
source_filename = "scale.cu"
target triple = "nvptx64-nvidia-cuda"

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()

define ptx_kernel void @scale(ptr addrspace(1) noalias readonly %x, ptr addrspace(1) %y, float %by, i32 noundef %n, <2 x float> %bias) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %inside = icmp slt i32 %t, %n
  br i1 %inside, label %body, label %end
body:
  %i = sext i32 %t to i64
  %from = getelementptr float, ptr addrspace(1) %x, i64 %i
  %to = getelementptr float, ptr addrspace(1) %y, i64 %i
  %v = load float, ptr addrspace(1) %from
  %w = fmul float %v, %by
  %b = extractelement <2 x float> %bias, i32 0
  %z = fadd float %w, %b
  store float %z, ptr addrspace(1) %to
  br label %end
end:
  ret void
}
