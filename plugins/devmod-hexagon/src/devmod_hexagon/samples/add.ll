; LLVM IR has no names and no element types: its functions are called by the declared types alone.
target triple = "hexagon-unknown-none-elf"

define void @add(ptr %x, ptr %y, i32 %n) {
entry:
  %some = icmp sgt i32 %n, 0
  br i1 %some, label %loop, label %end
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr i32, ptr %x, i32 %i
  %to = getelementptr i32, ptr %y, i32 %i
  %a = load i32, ptr %from
  %b = load i32, ptr %to
  %sum = add i32 %a, %b
  store i32 %sum, ptr %to
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
