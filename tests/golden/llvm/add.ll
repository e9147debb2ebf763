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
  %t41 = alloca i64
  %t87 = alloca i64
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
  %t32 = urem i64 %t30, %t17
  %t33 = udiv i64 %t30, %t17
  %t34 = mul nsw i64 %t32, %t4
  %t35 = sub nsw i64 %t2, %t34
  %t36 = call i64 @llvm.smin.i64(i64 %t4, i64 %t35)
  %t37 = and i64 %t36, -32
  store i64 0, ptr %t41
  br label %loop.head38
loop.head38:
  %t42 = load i64, ptr %t41
  %t43 = icmp slt i64 %t42, %t37
  br i1 %t43, label %loop.body39, label %loop.done40
loop.body39:
  %t44 = add nsw i64 %t42, 8
  %t45 = add nsw i64 %t42, 16
  %t46 = add nsw i64 %t42, 24
  %t47 = add nsw i64 %t42, %t34
  %t48 = getelementptr inbounds i32, ptr %t5, i64 %t47
  %t49 = load <8 x float>, ptr %t48, align 4
  %t50 = add nsw i64 %t42, %t34
  %t51 = getelementptr inbounds i32, ptr %t7, i64 %t50
  %t52 = load <8 x float>, ptr %t51, align 4
  %t53 = fadd <8 x float> %t49, %t52
  %t54 = add nsw i64 %t42, %t34
  %t55 = getelementptr inbounds i32, ptr %t9, i64 %t54
  store <8 x float> %t53, ptr %t55, align 4
  %t56 = add nsw i64 %t44, %t34
  %t57 = getelementptr inbounds i32, ptr %t5, i64 %t56
  %t58 = load <8 x float>, ptr %t57, align 4
  %t59 = add nsw i64 %t44, %t34
  %t60 = getelementptr inbounds i32, ptr %t7, i64 %t59
  %t61 = load <8 x float>, ptr %t60, align 4
  %t62 = fadd <8 x float> %t58, %t61
  %t63 = add nsw i64 %t44, %t34
  %t64 = getelementptr inbounds i32, ptr %t9, i64 %t63
  store <8 x float> %t62, ptr %t64, align 4
  %t65 = add nsw i64 %t45, %t34
  %t66 = getelementptr inbounds i32, ptr %t5, i64 %t65
  %t67 = load <8 x float>, ptr %t66, align 4
  %t68 = add nsw i64 %t45, %t34
  %t69 = getelementptr inbounds i32, ptr %t7, i64 %t68
  %t70 = load <8 x float>, ptr %t69, align 4
  %t71 = fadd <8 x float> %t67, %t70
  %t72 = add nsw i64 %t45, %t34
  %t73 = getelementptr inbounds i32, ptr %t9, i64 %t72
  store <8 x float> %t71, ptr %t73, align 4
  %t74 = add nsw i64 %t46, %t34
  %t75 = getelementptr inbounds i32, ptr %t5, i64 %t74
  %t76 = load <8 x float>, ptr %t75, align 4
  %t77 = add nsw i64 %t46, %t34
  %t78 = getelementptr inbounds i32, ptr %t7, i64 %t77
  %t79 = load <8 x float>, ptr %t78, align 4
  %t80 = fadd <8 x float> %t76, %t79
  %t81 = add nsw i64 %t46, %t34
  %t82 = getelementptr inbounds i32, ptr %t9, i64 %t81
  store <8 x float> %t80, ptr %t82, align 4
  %t83 = add nsw i64 %t42, 32
  store i64 %t83, ptr %t41
  br label %loop.head38
loop.done40:
  store i64 %t37, ptr %t87
  br label %loop.head84
loop.head84:
  %t88 = load i64, ptr %t87
  %t89 = icmp slt i64 %t88, %t36
  br i1 %t89, label %loop.body85, label %loop.done86
loop.body85:
  %t90 = sub nsw i64 %t36, %t88
  %t91 = insertelement <8 x i64> poison, i64 %t90, i64 0
  %t92 = shufflevector <8 x i64> %t91, <8 x i64> poison, <8 x i32> zeroinitializer
  %t93 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t92
  %t94 = add nsw i64 %t88, %t34
  %t95 = getelementptr inbounds i32, ptr %t5, i64 %t94
  %t96 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t95, i32 4, <8 x i1> %t93, <8 x float> zeroinitializer)
  %t97 = add nsw i64 %t88, %t34
  %t98 = getelementptr inbounds i32, ptr %t7, i64 %t97
  %t99 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t98, i32 4, <8 x i1> %t93, <8 x float> zeroinitializer)
  %t100 = fadd <8 x float> %t96, %t99
  %t101 = add nsw i64 %t88, %t34
  %t102 = getelementptr inbounds i32, ptr %t9, i64 %t101
  call void @llvm.masked.store.v8f32.p0(<8 x float> %t100, ptr %t102, i32 4, <8 x i1> %t93)
  %t103 = add nsw i64 %t88, 8
  store i64 %t103, ptr %t87
  br label %loop.head84
loop.done86:
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
