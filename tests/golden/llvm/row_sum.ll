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
  %t28 = alloca i64
  %t34 = getelementptr inbounds i8, ptr %scratch, i64 0
  %t40 = alloca i64
  %t46 = alloca <8 x float>
  %t47 = alloca <8 x float>
  %t50 = alloca <8 x float>
  %t51 = alloca <8 x float>
  %t54 = alloca <8 x float>
  %t55 = alloca <8 x float>
  %t58 = alloca <8 x float>
  %t59 = alloca <8 x float>
  %t66 = alloca i64
  %t130 = alloca i64
  %t236 = alloca i64
  %t239 = alloca <8 x float>
  %t240 = alloca <8 x float>
  %t247 = alloca i64
  %t269 = alloca i64
  %t307 = alloca i64
  %t333 = alloca i64
  %t348 = icmp eq ptr %scratch, null
  br i1 %t348, label %query, label %start
query:
  ret i64 64
start:
  %t14 = call i64 @llvm.smax.i64(i64 %t2, i64 0)
  %t15 = add nsw i64 %t14, 3
  %t16 = udiv i64 %t15, 4
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
  %t31 = mul nsw i64 %t29, 4
  %t32 = sub nsw i64 %t2, %t31
  %t33 = call i64 @llvm.smin.i64(i64 4, i64 %t32)
  %t35 = udiv i64 %t33, 4
  %t36 = mul nsw i64 %t35, 4
  store i64 0, ptr %t40
  br label %loop.head37
loop.head37:
  %t41 = load i64, ptr %t40
  %t42 = icmp slt i64 %t41, %t36
  br i1 %t42, label %loop.body38, label %loop.done39
loop.body38:
  %t43 = add nsw i64 %t41, 1
  %t44 = add nsw i64 %t41, 2
  %t45 = add nsw i64 %t41, 3
  %t48 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t49 = shufflevector <8 x float> %t48, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t49, ptr %t46
  store <8 x float> %t49, ptr %t47
  %t52 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t53 = shufflevector <8 x float> %t52, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t53, ptr %t50
  store <8 x float> %t53, ptr %t51
  %t56 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t57 = shufflevector <8 x float> %t56, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t57, ptr %t54
  store <8 x float> %t57, ptr %t55
  %t60 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t61 = shufflevector <8 x float> %t60, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t61, ptr %t58
  store <8 x float> %t61, ptr %t59
  %t62 = and i64 %t4, -16
  store i64 0, ptr %t66
  br label %loop.head63
loop.head63:
  %t67 = load i64, ptr %t66
  %t68 = icmp slt i64 %t67, %t62
  br i1 %t68, label %loop.body64, label %loop.done65
loop.body64:
  %t69 = add nsw i64 %t67, 8
  %t70 = add nsw i64 %t41, %t31
  %t71 = mul nsw i64 %t70, %t7
  %t72 = add nsw i64 %t71, %t67
  %t73 = getelementptr inbounds i32, ptr %t5, i64 %t72
  %t74 = load <8 x float>, ptr %t73, align 4
  %t75 = load <8 x float>, ptr %t46
  %t76 = fadd <8 x float> %t75, %t74
  store <8 x float> %t76, ptr %t46
  %t77 = add nsw i64 %t41, %t31
  %t78 = mul nsw i64 %t77, %t7
  %t79 = add nsw i64 %t78, %t69
  %t80 = getelementptr inbounds i32, ptr %t5, i64 %t79
  %t81 = load <8 x float>, ptr %t80, align 4
  %t82 = load <8 x float>, ptr %t47
  %t83 = fadd <8 x float> %t82, %t81
  store <8 x float> %t83, ptr %t47
  %t84 = add nsw i64 %t43, %t31
  %t85 = mul nsw i64 %t84, %t7
  %t86 = add nsw i64 %t85, %t67
  %t87 = getelementptr inbounds i32, ptr %t5, i64 %t86
  %t88 = load <8 x float>, ptr %t87, align 4
  %t89 = load <8 x float>, ptr %t50
  %t90 = fadd <8 x float> %t89, %t88
  store <8 x float> %t90, ptr %t50
  %t91 = add nsw i64 %t43, %t31
  %t92 = mul nsw i64 %t91, %t7
  %t93 = add nsw i64 %t92, %t69
  %t94 = getelementptr inbounds i32, ptr %t5, i64 %t93
  %t95 = load <8 x float>, ptr %t94, align 4
  %t96 = load <8 x float>, ptr %t51
  %t97 = fadd <8 x float> %t96, %t95
  store <8 x float> %t97, ptr %t51
  %t98 = add nsw i64 %t44, %t31
  %t99 = mul nsw i64 %t98, %t7
  %t100 = add nsw i64 %t99, %t67
  %t101 = getelementptr inbounds i32, ptr %t5, i64 %t100
  %t102 = load <8 x float>, ptr %t101, align 4
  %t103 = load <8 x float>, ptr %t54
  %t104 = fadd <8 x float> %t103, %t102
  store <8 x float> %t104, ptr %t54
  %t105 = add nsw i64 %t44, %t31
  %t106 = mul nsw i64 %t105, %t7
  %t107 = add nsw i64 %t106, %t69
  %t108 = getelementptr inbounds i32, ptr %t5, i64 %t107
  %t109 = load <8 x float>, ptr %t108, align 4
  %t110 = load <8 x float>, ptr %t55
  %t111 = fadd <8 x float> %t110, %t109
  store <8 x float> %t111, ptr %t55
  %t112 = add nsw i64 %t45, %t31
  %t113 = mul nsw i64 %t112, %t7
  %t114 = add nsw i64 %t113, %t67
  %t115 = getelementptr inbounds i32, ptr %t5, i64 %t114
  %t116 = load <8 x float>, ptr %t115, align 4
  %t117 = load <8 x float>, ptr %t58
  %t118 = fadd <8 x float> %t117, %t116
  store <8 x float> %t118, ptr %t58
  %t119 = add nsw i64 %t45, %t31
  %t120 = mul nsw i64 %t119, %t7
  %t121 = add nsw i64 %t120, %t69
  %t122 = getelementptr inbounds i32, ptr %t5, i64 %t121
  %t123 = load <8 x float>, ptr %t122, align 4
  %t124 = load <8 x float>, ptr %t59
  %t125 = fadd <8 x float> %t124, %t123
  store <8 x float> %t125, ptr %t59
  %t126 = add nsw i64 %t67, 16
  store i64 %t126, ptr %t66
  br label %loop.head63
loop.done65:
  store i64 %t62, ptr %t130
  br label %loop.head127
loop.head127:
  %t131 = load i64, ptr %t130
  %t132 = icmp slt i64 %t131, %t4
  br i1 %t132, label %loop.body128, label %loop.done129
loop.body128:
  %t133 = sub nsw i64 %t4, %t131
  %t134 = call i64 @llvm.smin.i64(i64 %t133, i64 8)
  %t135 = trunc i64 %t134 to i32
  %t136 = insertelement <8 x i32> poison, i32 %t135, i64 0
  %t137 = shufflevector <8 x i32> %t136, <8 x i32> poison, <8 x i32> zeroinitializer
  %t138 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t137
  %t139 = add nsw i64 %t41, %t31
  %t140 = mul nsw i64 %t139, %t7
  %t141 = add nsw i64 %t140, %t131
  %t142 = getelementptr inbounds i32, ptr %t5, i64 %t141
  %t143 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t142, i32 4, <8 x i1> %t138, <8 x float> zeroinitializer)
  %t144 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t145 = shufflevector <8 x float> %t144, <8 x float> poison, <8 x i32> zeroinitializer
  %t146 = select <8 x i1> %t138, <8 x float> %t143, <8 x float> %t145
  %t147 = load <8 x float>, ptr %t46
  %t148 = fadd <8 x float> %t147, %t146
  store <8 x float> %t148, ptr %t46
  %t149 = add nsw i64 %t43, %t31
  %t150 = mul nsw i64 %t149, %t7
  %t151 = add nsw i64 %t150, %t131
  %t152 = getelementptr inbounds i32, ptr %t5, i64 %t151
  %t153 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t152, i32 4, <8 x i1> %t138, <8 x float> zeroinitializer)
  %t154 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t155 = shufflevector <8 x float> %t154, <8 x float> poison, <8 x i32> zeroinitializer
  %t156 = select <8 x i1> %t138, <8 x float> %t153, <8 x float> %t155
  %t157 = load <8 x float>, ptr %t50
  %t158 = fadd <8 x float> %t157, %t156
  store <8 x float> %t158, ptr %t50
  %t159 = add nsw i64 %t44, %t31
  %t160 = mul nsw i64 %t159, %t7
  %t161 = add nsw i64 %t160, %t131
  %t162 = getelementptr inbounds i32, ptr %t5, i64 %t161
  %t163 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t162, i32 4, <8 x i1> %t138, <8 x float> zeroinitializer)
  %t164 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t165 = shufflevector <8 x float> %t164, <8 x float> poison, <8 x i32> zeroinitializer
  %t166 = select <8 x i1> %t138, <8 x float> %t163, <8 x float> %t165
  %t167 = load <8 x float>, ptr %t54
  %t168 = fadd <8 x float> %t167, %t166
  store <8 x float> %t168, ptr %t54
  %t169 = add nsw i64 %t45, %t31
  %t170 = mul nsw i64 %t169, %t7
  %t171 = add nsw i64 %t170, %t131
  %t172 = getelementptr inbounds i32, ptr %t5, i64 %t171
  %t173 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t172, i32 4, <8 x i1> %t138, <8 x float> zeroinitializer)
  %t174 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t175 = shufflevector <8 x float> %t174, <8 x float> poison, <8 x i32> zeroinitializer
  %t176 = select <8 x i1> %t138, <8 x float> %t173, <8 x float> %t175
  %t177 = load <8 x float>, ptr %t58
  %t178 = fadd <8 x float> %t177, %t176
  store <8 x float> %t178, ptr %t58
  %t179 = add nsw i64 %t131, 8
  store i64 %t179, ptr %t130
  br label %loop.head127
loop.done129:
  %t180 = load <8 x float>, ptr %t46
  %t181 = load <8 x float>, ptr %t47
  %t182 = fadd <8 x float> %t180, %t181
  %t183 = shufflevector <8 x float> %t182, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t184 = shufflevector <8 x float> %t182, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t185 = fadd <4 x float> %t183, %t184
  %t186 = shufflevector <4 x float> %t185, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t187 = shufflevector <4 x float> %t185, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t188 = fadd <2 x float> %t186, %t187
  %t189 = extractelement <2 x float> %t188, i64 0
  %t190 = extractelement <2 x float> %t188, i64 1
  %t191 = fadd float %t189, %t190
  %t192 = getelementptr inbounds i32, ptr %t34, i64 %t41
  store float %t191, ptr %t192, align 4
  %t193 = load <8 x float>, ptr %t50
  %t194 = load <8 x float>, ptr %t51
  %t195 = fadd <8 x float> %t193, %t194
  %t196 = shufflevector <8 x float> %t195, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t197 = shufflevector <8 x float> %t195, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t198 = fadd <4 x float> %t196, %t197
  %t199 = shufflevector <4 x float> %t198, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t200 = shufflevector <4 x float> %t198, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t201 = fadd <2 x float> %t199, %t200
  %t202 = extractelement <2 x float> %t201, i64 0
  %t203 = extractelement <2 x float> %t201, i64 1
  %t204 = fadd float %t202, %t203
  %t205 = getelementptr inbounds i32, ptr %t34, i64 %t43
  store float %t204, ptr %t205, align 4
  %t206 = load <8 x float>, ptr %t54
  %t207 = load <8 x float>, ptr %t55
  %t208 = fadd <8 x float> %t206, %t207
  %t209 = shufflevector <8 x float> %t208, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t210 = shufflevector <8 x float> %t208, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t211 = fadd <4 x float> %t209, %t210
  %t212 = shufflevector <4 x float> %t211, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t213 = shufflevector <4 x float> %t211, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t214 = fadd <2 x float> %t212, %t213
  %t215 = extractelement <2 x float> %t214, i64 0
  %t216 = extractelement <2 x float> %t214, i64 1
  %t217 = fadd float %t215, %t216
  %t218 = getelementptr inbounds i32, ptr %t34, i64 %t44
  store float %t217, ptr %t218, align 4
  %t219 = load <8 x float>, ptr %t58
  %t220 = load <8 x float>, ptr %t59
  %t221 = fadd <8 x float> %t219, %t220
  %t222 = shufflevector <8 x float> %t221, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t223 = shufflevector <8 x float> %t221, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t224 = fadd <4 x float> %t222, %t223
  %t225 = shufflevector <4 x float> %t224, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t226 = shufflevector <4 x float> %t224, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t227 = fadd <2 x float> %t225, %t226
  %t228 = extractelement <2 x float> %t227, i64 0
  %t229 = extractelement <2 x float> %t227, i64 1
  %t230 = fadd float %t228, %t229
  %t231 = getelementptr inbounds i32, ptr %t34, i64 %t45
  store float %t230, ptr %t231, align 4
  %t232 = add nsw i64 %t41, 4
  store i64 %t232, ptr %t40
  br label %loop.head37
loop.done39:
  store i64 %t36, ptr %t236
  br label %loop.head233
loop.head233:
  %t237 = load i64, ptr %t236
  %t238 = icmp slt i64 %t237, %t33
  br i1 %t238, label %loop.body234, label %loop.done235
loop.body234:
  %t241 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t242 = shufflevector <8 x float> %t241, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t242, ptr %t239
  store <8 x float> %t242, ptr %t240
  %t243 = and i64 %t4, -16
  store i64 0, ptr %t247
  br label %loop.head244
loop.head244:
  %t248 = load i64, ptr %t247
  %t249 = icmp slt i64 %t248, %t243
  br i1 %t249, label %loop.body245, label %loop.done246
loop.body245:
  %t250 = add nsw i64 %t248, 8
  %t251 = add nsw i64 %t237, %t31
  %t252 = mul nsw i64 %t251, %t7
  %t253 = add nsw i64 %t252, %t248
  %t254 = getelementptr inbounds i32, ptr %t5, i64 %t253
  %t255 = load <8 x float>, ptr %t254, align 4
  %t256 = load <8 x float>, ptr %t239
  %t257 = fadd <8 x float> %t256, %t255
  store <8 x float> %t257, ptr %t239
  %t258 = add nsw i64 %t237, %t31
  %t259 = mul nsw i64 %t258, %t7
  %t260 = add nsw i64 %t259, %t250
  %t261 = getelementptr inbounds i32, ptr %t5, i64 %t260
  %t262 = load <8 x float>, ptr %t261, align 4
  %t263 = load <8 x float>, ptr %t240
  %t264 = fadd <8 x float> %t263, %t262
  store <8 x float> %t264, ptr %t240
  %t265 = add nsw i64 %t248, 16
  store i64 %t265, ptr %t247
  br label %loop.head244
loop.done246:
  store i64 %t243, ptr %t269
  br label %loop.head266
loop.head266:
  %t270 = load i64, ptr %t269
  %t271 = icmp slt i64 %t270, %t4
  br i1 %t271, label %loop.body267, label %loop.done268
loop.body267:
  %t272 = sub nsw i64 %t4, %t270
  %t273 = call i64 @llvm.smin.i64(i64 %t272, i64 8)
  %t274 = trunc i64 %t273 to i32
  %t275 = insertelement <8 x i32> poison, i32 %t274, i64 0
  %t276 = shufflevector <8 x i32> %t275, <8 x i32> poison, <8 x i32> zeroinitializer
  %t277 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t276
  %t278 = add nsw i64 %t237, %t31
  %t279 = mul nsw i64 %t278, %t7
  %t280 = add nsw i64 %t279, %t270
  %t281 = getelementptr inbounds i32, ptr %t5, i64 %t280
  %t282 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t281, i32 4, <8 x i1> %t277, <8 x float> zeroinitializer)
  %t283 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t284 = shufflevector <8 x float> %t283, <8 x float> poison, <8 x i32> zeroinitializer
  %t285 = select <8 x i1> %t277, <8 x float> %t282, <8 x float> %t284
  %t286 = load <8 x float>, ptr %t239
  %t287 = fadd <8 x float> %t286, %t285
  store <8 x float> %t287, ptr %t239
  %t288 = add nsw i64 %t270, 8
  store i64 %t288, ptr %t269
  br label %loop.head266
loop.done268:
  %t289 = load <8 x float>, ptr %t239
  %t290 = load <8 x float>, ptr %t240
  %t291 = fadd <8 x float> %t289, %t290
  %t292 = shufflevector <8 x float> %t291, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t293 = shufflevector <8 x float> %t291, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t294 = fadd <4 x float> %t292, %t293
  %t295 = shufflevector <4 x float> %t294, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t296 = shufflevector <4 x float> %t294, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t297 = fadd <2 x float> %t295, %t296
  %t298 = extractelement <2 x float> %t297, i64 0
  %t299 = extractelement <2 x float> %t297, i64 1
  %t300 = fadd float %t298, %t299
  %t301 = getelementptr inbounds i32, ptr %t34, i64 %t237
  store float %t300, ptr %t301, align 4
  %t302 = add nsw i64 %t237, 1
  store i64 %t302, ptr %t236
  br label %loop.head233
loop.done235:
  %t303 = and i64 %t33, -32
  store i64 0, ptr %t307
  br label %loop.head304
loop.head304:
  %t308 = load i64, ptr %t307
  %t309 = icmp slt i64 %t308, %t303
  br i1 %t309, label %loop.body305, label %loop.done306
loop.body305:
  %t310 = add nsw i64 %t308, 8
  %t311 = add nsw i64 %t308, 16
  %t312 = add nsw i64 %t308, 24
  %t313 = getelementptr inbounds i32, ptr %t34, i64 %t308
  %t314 = load <8 x float>, ptr %t313, align 4
  %t315 = add nsw i64 %t308, %t31
  %t316 = getelementptr inbounds i32, ptr %t9, i64 %t315
  store <8 x float> %t314, ptr %t316, align 4
  %t317 = getelementptr inbounds i32, ptr %t34, i64 %t310
  %t318 = load <8 x float>, ptr %t317, align 4
  %t319 = add nsw i64 %t310, %t31
  %t320 = getelementptr inbounds i32, ptr %t9, i64 %t319
  store <8 x float> %t318, ptr %t320, align 4
  %t321 = getelementptr inbounds i32, ptr %t34, i64 %t311
  %t322 = load <8 x float>, ptr %t321, align 4
  %t323 = add nsw i64 %t311, %t31
  %t324 = getelementptr inbounds i32, ptr %t9, i64 %t323
  store <8 x float> %t322, ptr %t324, align 4
  %t325 = getelementptr inbounds i32, ptr %t34, i64 %t312
  %t326 = load <8 x float>, ptr %t325, align 4
  %t327 = add nsw i64 %t312, %t31
  %t328 = getelementptr inbounds i32, ptr %t9, i64 %t327
  store <8 x float> %t326, ptr %t328, align 4
  %t329 = add nsw i64 %t308, 32
  store i64 %t329, ptr %t307
  br label %loop.head304
loop.done306:
  store i64 %t303, ptr %t333
  br label %loop.head330
loop.head330:
  %t334 = load i64, ptr %t333
  %t335 = icmp slt i64 %t334, %t33
  br i1 %t335, label %loop.body331, label %loop.done332
loop.body331:
  %t336 = sub nsw i64 %t33, %t334
  %t337 = call i64 @llvm.smin.i64(i64 %t336, i64 8)
  %t338 = trunc i64 %t337 to i32
  %t339 = insertelement <8 x i32> poison, i32 %t338, i64 0
  %t340 = shufflevector <8 x i32> %t339, <8 x i32> poison, <8 x i32> zeroinitializer
  %t341 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %t340
  %t342 = getelementptr inbounds i32, ptr %t34, i64 %t334
  %t343 = load <8 x float>, ptr %t342, align 4
  %t344 = add nsw i64 %t334, %t31
  %t345 = getelementptr inbounds i32, ptr %t9, i64 %t344
  call void @llvm.masked.store.v8f32.p0(<8 x float> %t343, ptr %t345, i32 4, <8 x i1> %t341)
  %t346 = add nsw i64 %t334, 8
  store i64 %t346, ptr %t333
  br label %loop.head330
loop.done332:
  %t347 = add nsw i64 %t29, 1
  store i64 %t347, ptr %t28
  br label %loop.head25
loop.done27:
  br label %next17
finished19:
  br label %versions13
versions13:
  ret i64 0
}
