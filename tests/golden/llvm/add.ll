declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)
define i64 @phase0(ptr noalias %frame, ptr noalias %scratch, ptr noalias %state) nounwind {
entry:
  %t1 = getelementptr inbounds i64, ptr %frame, i64 6
  %t2 = load i64, ptr %t1
  %t3 = getelementptr inbounds i64, ptr %frame, i64 7
  %t4 = load i64, ptr %t3
  %t5 = load ptr, ptr %frame
  %t6 = getelementptr inbounds i64, ptr %frame, i64 1
  %t7 = load ptr, ptr %t6
  %t8 = getelementptr inbounds i64, ptr %frame, i64 2
  %t9 = load ptr, ptr %t8
  %t10 = getelementptr inbounds i64, ptr %state, i64 2
  %t11 = getelementptr inbounds i64, ptr %state, i64 3
  %t12 = getelementptr inbounds i64, ptr %state, i64 1
  %t29 = alloca i64
  %t39 = alloca i64
  %t85 = alloca i64
  %t105 = icmp eq ptr %scratch, null
  br i1 %t105, label %query, label %start
query:
  ret i64 0
start:
  %t14 = call i64 @llvm.smax.i64(i64 %t2, i64 0)
  %t15 = sub nsw i64 %t4, 1
  %t16 = add nsw i64 %t14, %t15
  %t17 = udiv i64 %t16, %t4
  %t21 = load i64, ptr %t11
  br label %next18
next18:
  %t22 = atomicrmw add ptr %t12, i64 %t21 monotonic, align 8
  %t23 = icmp slt i64 %t22, %t17
  br i1 %t23, label %run19, label %finished20
run19:
  %t24 = add nsw i64 %t22, %t21
  %t25 = call i64 @llvm.smin.i64(i64 %t24, i64 %t17)
  store i64 %t22, ptr %t29
  br label %loop.head26
loop.head26:
  %t30 = load i64, ptr %t29
  %t31 = icmp slt i64 %t30, %t25
  br i1 %t31, label %loop.body27, label %loop.done28
loop.body27:
  %t32 = mul nsw i64 %t30, %t4
  %t33 = sub nsw i64 %t2, %t32
  %t34 = call i64 @llvm.smin.i64(i64 %t4, i64 %t33)
  %t35 = and i64 %t34, -32
  store i64 0, ptr %t39
  br label %loop.head36
loop.head36:
  %t40 = load i64, ptr %t39
  %t41 = icmp slt i64 %t40, %t35
  br i1 %t41, label %loop.body37, label %loop.done38
loop.body37:
  %t42 = add nsw i64 %t40, 8
  %t43 = add nsw i64 %t40, 16
  %t44 = add nsw i64 %t40, 24
  %t45 = add nsw i64 %t40, %t32
  %t46 = getelementptr inbounds i32, ptr %t5, i64 %t45
  %t47 = load <8 x float>, ptr %t46, align 4
  %t48 = add nsw i64 %t40, %t32
  %t49 = getelementptr inbounds i32, ptr %t7, i64 %t48
  %t50 = load <8 x float>, ptr %t49, align 4
  %t51 = fadd <8 x float> %t47, %t50
  %t52 = add nsw i64 %t40, %t32
  %t53 = getelementptr inbounds i32, ptr %t9, i64 %t52
  store <8 x float> %t51, ptr %t53, align 4
  %t54 = add nsw i64 %t42, %t32
  %t55 = getelementptr inbounds i32, ptr %t5, i64 %t54
  %t56 = load <8 x float>, ptr %t55, align 4
  %t57 = add nsw i64 %t42, %t32
  %t58 = getelementptr inbounds i32, ptr %t7, i64 %t57
  %t59 = load <8 x float>, ptr %t58, align 4
  %t60 = fadd <8 x float> %t56, %t59
  %t61 = add nsw i64 %t42, %t32
  %t62 = getelementptr inbounds i32, ptr %t9, i64 %t61
  store <8 x float> %t60, ptr %t62, align 4
  %t63 = add nsw i64 %t43, %t32
  %t64 = getelementptr inbounds i32, ptr %t5, i64 %t63
  %t65 = load <8 x float>, ptr %t64, align 4
  %t66 = add nsw i64 %t43, %t32
  %t67 = getelementptr inbounds i32, ptr %t7, i64 %t66
  %t68 = load <8 x float>, ptr %t67, align 4
  %t69 = fadd <8 x float> %t65, %t68
  %t70 = add nsw i64 %t43, %t32
  %t71 = getelementptr inbounds i32, ptr %t9, i64 %t70
  store <8 x float> %t69, ptr %t71, align 4
  %t72 = add nsw i64 %t44, %t32
  %t73 = getelementptr inbounds i32, ptr %t5, i64 %t72
  %t74 = load <8 x float>, ptr %t73, align 4
  %t75 = add nsw i64 %t44, %t32
  %t76 = getelementptr inbounds i32, ptr %t7, i64 %t75
  %t77 = load <8 x float>, ptr %t76, align 4
  %t78 = fadd <8 x float> %t74, %t77
  %t79 = add nsw i64 %t44, %t32
  %t80 = getelementptr inbounds i32, ptr %t9, i64 %t79
  store <8 x float> %t78, ptr %t80, align 4
  %t81 = add nsw i64 %t40, 32
  store i64 %t81, ptr %t39
  br label %loop.head36
loop.done38:
  store i64 %t35, ptr %t85
  br label %loop.head82
loop.head82:
  %t86 = load i64, ptr %t85
  %t87 = icmp slt i64 %t86, %t34
  br i1 %t87, label %loop.body83, label %loop.done84
loop.body83:
  %t88 = sub nsw i64 %t34, %t86
  %t89 = call i64 @llvm.smin.i64(i64 %t88, i64 8)
  %t90 = trunc i64 %t89 to i32
  %t91 = insertelement <8 x i32> poison, i32 %t90, i64 0
  %t92 = shufflevector <8 x i32> %t91, <8 x i32> poison, <8 x i32> zeroinitializer
  %t93 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t92
  %t94 = add nsw i64 %t86, %t32
  %t95 = getelementptr inbounds i32, ptr %t5, i64 %t94
  %t96 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t95, i32 4, <8 x i1> %t93, <8 x float> zeroinitializer)
  %t97 = add nsw i64 %t86, %t32
  %t98 = getelementptr inbounds i32, ptr %t7, i64 %t97
  %t99 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t98, i32 4, <8 x i1> %t93, <8 x float> zeroinitializer)
  %t100 = fadd <8 x float> %t96, %t99
  %t101 = add nsw i64 %t86, %t32
  %t102 = getelementptr inbounds i32, ptr %t9, i64 %t101
  call void @llvm.masked.store.v8f32.p0(<8 x float> %t100, ptr %t102, i32 4, <8 x i1> %t93)
  %t103 = add nsw i64 %t86, 8
  store i64 %t103, ptr %t85
  br label %loop.head82
loop.done84:
  %t104 = add nsw i64 %t30, 1
  store i64 %t104, ptr %t29
  br label %loop.head26
loop.done28:
  br label %next18
finished20:
  br label %versions13
versions13:
  ret i64 0
}
