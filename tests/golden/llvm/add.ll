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
  %t28 = alloca i64
  %t40 = alloca i64
  %t86 = alloca i64
  %t104 = icmp eq ptr %scratch, null
  br i1 %t104, label %query, label %start
query:
  ret i64 0
start:
  %t13 = call i64 @llvm.smax.i64(i64 %t2, i64 0)
  %t14 = sub nsw i64 %t4, 1
  %t15 = add nsw i64 %t13, %t14
  %t16 = udiv i64 %t15, %t4
  %t20 = load i64, ptr %t11
  br label %next17
next17:
  %t21 = atomicrmw add ptr %t12, i64 %t20 monotonic, align 8
  %t22 = icmp slt i64 %t21, %t16
  br i1 %t22, label %run18, label %finished19
run18:
  %t23 = add nsw i64 %t21, %t20
  %t24 = call i64 @llvm.smin.i64(i64 %t23, i64 %t16)
  store i64 %t21, ptr %t28
  br label %loop.head25
loop.head25:
  %t29 = load i64, ptr %t28
  %t30 = icmp slt i64 %t29, %t24
  br i1 %t30, label %loop.body26, label %loop.done27
loop.body26:
  %t31 = urem i64 %t29, %t16
  %t32 = udiv i64 %t29, %t16
  %t33 = mul nsw i64 %t31, %t4
  %t34 = sub nsw i64 %t2, %t33
  %t35 = call i64 @llvm.smin.i64(i64 %t4, i64 %t34)
  %t36 = and i64 %t35, -32
  store i64 0, ptr %t40
  br label %loop.head37
loop.head37:
  %t41 = load i64, ptr %t40
  %t42 = icmp slt i64 %t41, %t36
  br i1 %t42, label %loop.body38, label %loop.done39
loop.body38:
  %t43 = add nsw i64 %t41, 8
  %t44 = add nsw i64 %t41, 16
  %t45 = add nsw i64 %t41, 24
  %t46 = add nsw i64 %t41, %t33
  %t47 = getelementptr inbounds i32, ptr %t5, i64 %t46
  %t48 = load <8 x float>, ptr %t47, align 4
  %t49 = add nsw i64 %t41, %t33
  %t50 = getelementptr inbounds i32, ptr %t7, i64 %t49
  %t51 = load <8 x float>, ptr %t50, align 4
  %t52 = fadd <8 x float> %t48, %t51
  %t53 = add nsw i64 %t41, %t33
  %t54 = getelementptr inbounds i32, ptr %t9, i64 %t53
  store <8 x float> %t52, ptr %t54, align 4
  %t55 = add nsw i64 %t43, %t33
  %t56 = getelementptr inbounds i32, ptr %t5, i64 %t55
  %t57 = load <8 x float>, ptr %t56, align 4
  %t58 = add nsw i64 %t43, %t33
  %t59 = getelementptr inbounds i32, ptr %t7, i64 %t58
  %t60 = load <8 x float>, ptr %t59, align 4
  %t61 = fadd <8 x float> %t57, %t60
  %t62 = add nsw i64 %t43, %t33
  %t63 = getelementptr inbounds i32, ptr %t9, i64 %t62
  store <8 x float> %t61, ptr %t63, align 4
  %t64 = add nsw i64 %t44, %t33
  %t65 = getelementptr inbounds i32, ptr %t5, i64 %t64
  %t66 = load <8 x float>, ptr %t65, align 4
  %t67 = add nsw i64 %t44, %t33
  %t68 = getelementptr inbounds i32, ptr %t7, i64 %t67
  %t69 = load <8 x float>, ptr %t68, align 4
  %t70 = fadd <8 x float> %t66, %t69
  %t71 = add nsw i64 %t44, %t33
  %t72 = getelementptr inbounds i32, ptr %t9, i64 %t71
  store <8 x float> %t70, ptr %t72, align 4
  %t73 = add nsw i64 %t45, %t33
  %t74 = getelementptr inbounds i32, ptr %t5, i64 %t73
  %t75 = load <8 x float>, ptr %t74, align 4
  %t76 = add nsw i64 %t45, %t33
  %t77 = getelementptr inbounds i32, ptr %t7, i64 %t76
  %t78 = load <8 x float>, ptr %t77, align 4
  %t79 = fadd <8 x float> %t75, %t78
  %t80 = add nsw i64 %t45, %t33
  %t81 = getelementptr inbounds i32, ptr %t9, i64 %t80
  store <8 x float> %t79, ptr %t81, align 4
  %t82 = add nsw i64 %t41, 32
  store i64 %t82, ptr %t40
  br label %loop.head37
loop.done39:
  store i64 %t36, ptr %t86
  br label %loop.head83
loop.head83:
  %t87 = load i64, ptr %t86
  %t88 = icmp slt i64 %t87, %t35
  br i1 %t88, label %loop.body84, label %loop.done85
loop.body84:
  %t89 = sub nsw i64 %t35, %t87
  %t90 = insertelement <8 x i64> poison, i64 %t89, i64 0
  %t91 = shufflevector <8 x i64> %t90, <8 x i64> poison, <8 x i32> zeroinitializer
  %t92 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t91
  %t93 = add nsw i64 %t87, %t33
  %t94 = getelementptr inbounds i32, ptr %t5, i64 %t93
  %t95 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t94, i32 4, <8 x i1> %t92, <8 x float> zeroinitializer)
  %t96 = add nsw i64 %t87, %t33
  %t97 = getelementptr inbounds i32, ptr %t7, i64 %t96
  %t98 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t97, i32 4, <8 x i1> %t92, <8 x float> zeroinitializer)
  %t99 = fadd <8 x float> %t95, %t98
  %t100 = add nsw i64 %t87, %t33
  %t101 = getelementptr inbounds i32, ptr %t9, i64 %t100
  call void @llvm.masked.store.v8f32.p0(<8 x float> %t99, ptr %t101, i32 4, <8 x i1> %t92)
  %t102 = add nsw i64 %t87, 8
  store i64 %t102, ptr %t86
  br label %loop.head83
loop.done85:
  %t103 = add nsw i64 %t29, 1
  store i64 %t103, ptr %t28
  br label %loop.head25
loop.done27:
  br label %next17
finished19:
  ret i64 0
}
