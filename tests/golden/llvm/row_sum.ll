declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)
define i64 @phase0(ptr noalias %frame, ptr noalias %scratch, ptr noalias %state) nounwind {
entry:
  %t1 = getelementptr inbounds i64, ptr %frame, i64 5
  %t2 = load i64, ptr %t1
  %t3 = getelementptr inbounds i64, ptr %frame, i64 6
  %t4 = load i64, ptr %t3
  %t5 = load ptr, ptr %frame
  %t6 = getelementptr inbounds i64, ptr %frame, i64 2
  %t7 = load i64, ptr %t6
  %t8 = getelementptr inbounds i64, ptr %frame, i64 1
  %t9 = load ptr, ptr %t8
  %t10 = getelementptr inbounds i64, ptr %state, i64 2
  %t11 = getelementptr inbounds i64, ptr %state, i64 3
  %t12 = getelementptr inbounds i64, ptr %state, i64 1
  %t27 = alloca i64
  %t35 = getelementptr inbounds i8, ptr %scratch, i64 0
  %t39 = alloca i64
  %t42 = alloca <8 x float>
  %t43 = alloca <8 x float>
  %t44 = alloca <8 x float>
  %t45 = alloca <8 x float>
  %t52 = alloca i64
  %t90 = alloca i64
  %t132 = alloca i64
  %t158 = alloca i64
  %t171 = icmp eq ptr %scratch, null
  br i1 %t171, label %query, label %start
query:
  ret i64 64
start:
  %t13 = call i64 @llvm.smax.i64(i64 %t2, i64 0)
  %t14 = add nsw i64 %t13, 3
  %t15 = udiv i64 %t14, 4
  %t19 = load i64, ptr %t11
  br label %next16
next16:
  %t20 = atomicrmw add ptr %t12, i64 %t19 monotonic, align 8
  %t21 = icmp slt i64 %t20, %t15
  br i1 %t21, label %run17, label %finished18
run17:
  %t22 = add nsw i64 %t20, %t19
  %t23 = call i64 @llvm.smin.i64(i64 %t22, i64 %t15)
  store i64 %t20, ptr %t27
  br label %loop.head24
loop.head24:
  %t28 = load i64, ptr %t27
  %t29 = icmp slt i64 %t28, %t23
  br i1 %t29, label %loop.body25, label %loop.done26
loop.body25:
  %t30 = urem i64 %t28, %t15
  %t31 = udiv i64 %t28, %t15
  %t32 = mul nsw i64 %t30, 4
  %t33 = sub nsw i64 %t2, %t32
  %t34 = call i64 @llvm.smin.i64(i64 4, i64 %t33)
  store i64 0, ptr %t39
  br label %loop.head36
loop.head36:
  %t40 = load i64, ptr %t39
  %t41 = icmp slt i64 %t40, %t34
  br i1 %t41, label %loop.body37, label %loop.done38
loop.body37:
  %t46 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t47 = shufflevector <8 x float> %t46, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t47, ptr %t42
  store <8 x float> %t47, ptr %t43
  store <8 x float> %t47, ptr %t44
  store <8 x float> %t47, ptr %t45
  %t48 = and i64 %t4, -32
  store i64 0, ptr %t52
  br label %loop.head49
loop.head49:
  %t53 = load i64, ptr %t52
  %t54 = icmp slt i64 %t53, %t48
  br i1 %t54, label %loop.body50, label %loop.done51
loop.body50:
  %t55 = add nsw i64 %t53, 8
  %t56 = add nsw i64 %t53, 16
  %t57 = add nsw i64 %t53, 24
  %t58 = add nsw i64 %t40, %t32
  %t59 = mul nsw i64 %t58, %t7
  %t60 = add nsw i64 %t59, %t53
  %t61 = getelementptr inbounds i32, ptr %t5, i64 %t60
  %t62 = load <8 x float>, ptr %t61, align 4
  %t63 = load <8 x float>, ptr %t42
  %t64 = fadd <8 x float> %t63, %t62
  store <8 x float> %t64, ptr %t42
  %t65 = add nsw i64 %t40, %t32
  %t66 = mul nsw i64 %t65, %t7
  %t67 = add nsw i64 %t66, %t55
  %t68 = getelementptr inbounds i32, ptr %t5, i64 %t67
  %t69 = load <8 x float>, ptr %t68, align 4
  %t70 = load <8 x float>, ptr %t43
  %t71 = fadd <8 x float> %t70, %t69
  store <8 x float> %t71, ptr %t43
  %t72 = add nsw i64 %t40, %t32
  %t73 = mul nsw i64 %t72, %t7
  %t74 = add nsw i64 %t73, %t56
  %t75 = getelementptr inbounds i32, ptr %t5, i64 %t74
  %t76 = load <8 x float>, ptr %t75, align 4
  %t77 = load <8 x float>, ptr %t44
  %t78 = fadd <8 x float> %t77, %t76
  store <8 x float> %t78, ptr %t44
  %t79 = add nsw i64 %t40, %t32
  %t80 = mul nsw i64 %t79, %t7
  %t81 = add nsw i64 %t80, %t57
  %t82 = getelementptr inbounds i32, ptr %t5, i64 %t81
  %t83 = load <8 x float>, ptr %t82, align 4
  %t84 = load <8 x float>, ptr %t45
  %t85 = fadd <8 x float> %t84, %t83
  store <8 x float> %t85, ptr %t45
  %t86 = add nsw i64 %t53, 32
  store i64 %t86, ptr %t52
  br label %loop.head49
loop.done51:
  store i64 %t48, ptr %t90
  br label %loop.head87
loop.head87:
  %t91 = load i64, ptr %t90
  %t92 = icmp slt i64 %t91, %t4
  br i1 %t92, label %loop.body88, label %loop.done89
loop.body88:
  %t93 = sub nsw i64 %t4, %t91
  %t94 = insertelement <8 x i64> poison, i64 %t93, i64 0
  %t95 = shufflevector <8 x i64> %t94, <8 x i64> poison, <8 x i32> zeroinitializer
  %t96 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t95
  %t97 = add nsw i64 %t40, %t32
  %t98 = mul nsw i64 %t97, %t7
  %t99 = add nsw i64 %t98, %t91
  %t100 = getelementptr inbounds i32, ptr %t5, i64 %t99
  %t101 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t100, i32 4, <8 x i1> %t96, <8 x float> zeroinitializer)
  %t102 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t103 = shufflevector <8 x float> %t102, <8 x float> poison, <8 x i32> zeroinitializer
  %t104 = select <8 x i1> %t96, <8 x float> %t101, <8 x float> %t103
  %t105 = load <8 x float>, ptr %t42
  %t106 = fadd <8 x float> %t105, %t104
  store <8 x float> %t106, ptr %t42
  %t107 = add nsw i64 %t91, 8
  store i64 %t107, ptr %t90
  br label %loop.head87
loop.done89:
  %t108 = load <8 x float>, ptr %t42
  %t109 = load <8 x float>, ptr %t43
  %t110 = load <8 x float>, ptr %t44
  %t111 = load <8 x float>, ptr %t45
  %t112 = fadd <8 x float> %t108, %t109
  %t113 = fadd <8 x float> %t110, %t111
  %t114 = fadd <8 x float> %t112, %t113
  %t115 = shufflevector <8 x float> %t114, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t116 = shufflevector <8 x float> %t114, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t117 = fadd <4 x float> %t115, %t116
  %t118 = shufflevector <4 x float> %t117, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t119 = shufflevector <4 x float> %t117, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t120 = fadd <2 x float> %t118, %t119
  %t121 = shufflevector <2 x float> %t120, <2 x float> poison, <1 x i32> <i32 0>
  %t122 = shufflevector <2 x float> %t120, <2 x float> poison, <1 x i32> <i32 1>
  %t123 = extractelement <2 x float> %t120, i64 0
  %t124 = extractelement <2 x float> %t120, i64 1
  %t125 = fadd float %t123, %t124
  %t126 = getelementptr inbounds i32, ptr %t35, i64 %t40
  store float %t125, ptr %t126, align 4
  %t127 = add nsw i64 %t40, 1
  store i64 %t127, ptr %t39
  br label %loop.head36
loop.done38:
  %t128 = and i64 %t34, -32
  store i64 0, ptr %t132
  br label %loop.head129
loop.head129:
  %t133 = load i64, ptr %t132
  %t134 = icmp slt i64 %t133, %t128
  br i1 %t134, label %loop.body130, label %loop.done131
loop.body130:
  %t135 = add nsw i64 %t133, 8
  %t136 = add nsw i64 %t133, 16
  %t137 = add nsw i64 %t133, 24
  %t138 = getelementptr inbounds i32, ptr %t35, i64 %t133
  %t139 = load <8 x float>, ptr %t138, align 4
  %t140 = add nsw i64 %t133, %t32
  %t141 = getelementptr inbounds i32, ptr %t9, i64 %t140
  store <8 x float> %t139, ptr %t141, align 4
  %t142 = getelementptr inbounds i32, ptr %t35, i64 %t135
  %t143 = load <8 x float>, ptr %t142, align 4
  %t144 = add nsw i64 %t135, %t32
  %t145 = getelementptr inbounds i32, ptr %t9, i64 %t144
  store <8 x float> %t143, ptr %t145, align 4
  %t146 = getelementptr inbounds i32, ptr %t35, i64 %t136
  %t147 = load <8 x float>, ptr %t146, align 4
  %t148 = add nsw i64 %t136, %t32
  %t149 = getelementptr inbounds i32, ptr %t9, i64 %t148
  store <8 x float> %t147, ptr %t149, align 4
  %t150 = getelementptr inbounds i32, ptr %t35, i64 %t137
  %t151 = load <8 x float>, ptr %t150, align 4
  %t152 = add nsw i64 %t137, %t32
  %t153 = getelementptr inbounds i32, ptr %t9, i64 %t152
  store <8 x float> %t151, ptr %t153, align 4
  %t154 = add nsw i64 %t133, 32
  store i64 %t154, ptr %t132
  br label %loop.head129
loop.done131:
  store i64 %t128, ptr %t158
  br label %loop.head155
loop.head155:
  %t159 = load i64, ptr %t158
  %t160 = icmp slt i64 %t159, %t34
  br i1 %t160, label %loop.body156, label %loop.done157
loop.body156:
  %t161 = sub nsw i64 %t34, %t159
  %t162 = insertelement <8 x i64> poison, i64 %t161, i64 0
  %t163 = shufflevector <8 x i64> %t162, <8 x i64> poison, <8 x i32> zeroinitializer
  %t164 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t163
  %t165 = getelementptr inbounds i32, ptr %t35, i64 %t159
  %t166 = load <8 x float>, ptr %t165, align 4
  %t167 = add nsw i64 %t159, %t32
  %t168 = getelementptr inbounds i32, ptr %t9, i64 %t167
  call void @llvm.masked.store.v8f32.p0(<8 x float> %t166, ptr %t168, i32 4, <8 x i1> %t164)
  %t169 = add nsw i64 %t159, 8
  store i64 %t169, ptr %t158
  br label %loop.head155
loop.done157:
  %t170 = add nsw i64 %t28, 1
  store i64 %t170, ptr %t27
  br label %loop.head24
loop.done26:
  br label %next16
finished18:
  ret i64 0
}
