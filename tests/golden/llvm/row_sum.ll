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
  %t41 = alloca i64
  %t47 = alloca <8 x float>
  %t48 = alloca <8 x float>
  %t51 = alloca <8 x float>
  %t52 = alloca <8 x float>
  %t55 = alloca <8 x float>
  %t56 = alloca <8 x float>
  %t59 = alloca <8 x float>
  %t60 = alloca <8 x float>
  %t67 = alloca i64
  %t131 = alloca i64
  %t243 = alloca i64
  %t246 = alloca <8 x float>
  %t247 = alloca <8 x float>
  %t254 = alloca i64
  %t276 = alloca i64
  %t314 = alloca i64
  %t340 = alloca i64
  %t353 = icmp eq ptr %scratch, null
  br i1 %t353, label %query, label %start
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
  %t36 = udiv i64 %t34, 4
  %t37 = mul nsw i64 %t36, 4
  store i64 0, ptr %t41
  br label %loop.head38
loop.head38:
  %t42 = load i64, ptr %t41
  %t43 = icmp slt i64 %t42, %t37
  br i1 %t43, label %loop.body39, label %loop.done40
loop.body39:
  %t44 = add nsw i64 %t42, 1
  %t45 = add nsw i64 %t42, 2
  %t46 = add nsw i64 %t42, 3
  %t49 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t50 = shufflevector <8 x float> %t49, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t50, ptr %t47
  store <8 x float> %t50, ptr %t48
  %t53 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t54 = shufflevector <8 x float> %t53, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t54, ptr %t51
  store <8 x float> %t54, ptr %t52
  %t57 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t58 = shufflevector <8 x float> %t57, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t58, ptr %t55
  store <8 x float> %t58, ptr %t56
  %t61 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t62 = shufflevector <8 x float> %t61, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t62, ptr %t59
  store <8 x float> %t62, ptr %t60
  %t63 = and i64 %t4, -16
  store i64 0, ptr %t67
  br label %loop.head64
loop.head64:
  %t68 = load i64, ptr %t67
  %t69 = icmp slt i64 %t68, %t63
  br i1 %t69, label %loop.body65, label %loop.done66
loop.body65:
  %t70 = add nsw i64 %t68, 8
  %t71 = add nsw i64 %t42, %t32
  %t72 = mul nsw i64 %t71, %t7
  %t73 = add nsw i64 %t72, %t68
  %t74 = getelementptr inbounds i32, ptr %t5, i64 %t73
  %t75 = load <8 x float>, ptr %t74, align 4
  %t76 = load <8 x float>, ptr %t47
  %t77 = fadd <8 x float> %t76, %t75
  store <8 x float> %t77, ptr %t47
  %t78 = add nsw i64 %t42, %t32
  %t79 = mul nsw i64 %t78, %t7
  %t80 = add nsw i64 %t79, %t70
  %t81 = getelementptr inbounds i32, ptr %t5, i64 %t80
  %t82 = load <8 x float>, ptr %t81, align 4
  %t83 = load <8 x float>, ptr %t48
  %t84 = fadd <8 x float> %t83, %t82
  store <8 x float> %t84, ptr %t48
  %t85 = add nsw i64 %t44, %t32
  %t86 = mul nsw i64 %t85, %t7
  %t87 = add nsw i64 %t86, %t68
  %t88 = getelementptr inbounds i32, ptr %t5, i64 %t87
  %t89 = load <8 x float>, ptr %t88, align 4
  %t90 = load <8 x float>, ptr %t51
  %t91 = fadd <8 x float> %t90, %t89
  store <8 x float> %t91, ptr %t51
  %t92 = add nsw i64 %t44, %t32
  %t93 = mul nsw i64 %t92, %t7
  %t94 = add nsw i64 %t93, %t70
  %t95 = getelementptr inbounds i32, ptr %t5, i64 %t94
  %t96 = load <8 x float>, ptr %t95, align 4
  %t97 = load <8 x float>, ptr %t52
  %t98 = fadd <8 x float> %t97, %t96
  store <8 x float> %t98, ptr %t52
  %t99 = add nsw i64 %t45, %t32
  %t100 = mul nsw i64 %t99, %t7
  %t101 = add nsw i64 %t100, %t68
  %t102 = getelementptr inbounds i32, ptr %t5, i64 %t101
  %t103 = load <8 x float>, ptr %t102, align 4
  %t104 = load <8 x float>, ptr %t55
  %t105 = fadd <8 x float> %t104, %t103
  store <8 x float> %t105, ptr %t55
  %t106 = add nsw i64 %t45, %t32
  %t107 = mul nsw i64 %t106, %t7
  %t108 = add nsw i64 %t107, %t70
  %t109 = getelementptr inbounds i32, ptr %t5, i64 %t108
  %t110 = load <8 x float>, ptr %t109, align 4
  %t111 = load <8 x float>, ptr %t56
  %t112 = fadd <8 x float> %t111, %t110
  store <8 x float> %t112, ptr %t56
  %t113 = add nsw i64 %t46, %t32
  %t114 = mul nsw i64 %t113, %t7
  %t115 = add nsw i64 %t114, %t68
  %t116 = getelementptr inbounds i32, ptr %t5, i64 %t115
  %t117 = load <8 x float>, ptr %t116, align 4
  %t118 = load <8 x float>, ptr %t59
  %t119 = fadd <8 x float> %t118, %t117
  store <8 x float> %t119, ptr %t59
  %t120 = add nsw i64 %t46, %t32
  %t121 = mul nsw i64 %t120, %t7
  %t122 = add nsw i64 %t121, %t70
  %t123 = getelementptr inbounds i32, ptr %t5, i64 %t122
  %t124 = load <8 x float>, ptr %t123, align 4
  %t125 = load <8 x float>, ptr %t60
  %t126 = fadd <8 x float> %t125, %t124
  store <8 x float> %t126, ptr %t60
  %t127 = add nsw i64 %t68, 16
  store i64 %t127, ptr %t67
  br label %loop.head64
loop.done66:
  store i64 %t63, ptr %t131
  br label %loop.head128
loop.head128:
  %t132 = load i64, ptr %t131
  %t133 = icmp slt i64 %t132, %t4
  br i1 %t133, label %loop.body129, label %loop.done130
loop.body129:
  %t134 = sub nsw i64 %t4, %t132
  %t135 = insertelement <8 x i64> poison, i64 %t134, i64 0
  %t136 = shufflevector <8 x i64> %t135, <8 x i64> poison, <8 x i32> zeroinitializer
  %t137 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t136
  %t138 = add nsw i64 %t42, %t32
  %t139 = mul nsw i64 %t138, %t7
  %t140 = add nsw i64 %t139, %t132
  %t141 = getelementptr inbounds i32, ptr %t5, i64 %t140
  %t142 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t141, i32 4, <8 x i1> %t137, <8 x float> zeroinitializer)
  %t143 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t144 = shufflevector <8 x float> %t143, <8 x float> poison, <8 x i32> zeroinitializer
  %t145 = select <8 x i1> %t137, <8 x float> %t142, <8 x float> %t144
  %t146 = load <8 x float>, ptr %t47
  %t147 = fadd <8 x float> %t146, %t145
  store <8 x float> %t147, ptr %t47
  %t148 = add nsw i64 %t44, %t32
  %t149 = mul nsw i64 %t148, %t7
  %t150 = add nsw i64 %t149, %t132
  %t151 = getelementptr inbounds i32, ptr %t5, i64 %t150
  %t152 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t151, i32 4, <8 x i1> %t137, <8 x float> zeroinitializer)
  %t153 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t154 = shufflevector <8 x float> %t153, <8 x float> poison, <8 x i32> zeroinitializer
  %t155 = select <8 x i1> %t137, <8 x float> %t152, <8 x float> %t154
  %t156 = load <8 x float>, ptr %t51
  %t157 = fadd <8 x float> %t156, %t155
  store <8 x float> %t157, ptr %t51
  %t158 = add nsw i64 %t45, %t32
  %t159 = mul nsw i64 %t158, %t7
  %t160 = add nsw i64 %t159, %t132
  %t161 = getelementptr inbounds i32, ptr %t5, i64 %t160
  %t162 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t161, i32 4, <8 x i1> %t137, <8 x float> zeroinitializer)
  %t163 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t164 = shufflevector <8 x float> %t163, <8 x float> poison, <8 x i32> zeroinitializer
  %t165 = select <8 x i1> %t137, <8 x float> %t162, <8 x float> %t164
  %t166 = load <8 x float>, ptr %t55
  %t167 = fadd <8 x float> %t166, %t165
  store <8 x float> %t167, ptr %t55
  %t168 = add nsw i64 %t46, %t32
  %t169 = mul nsw i64 %t168, %t7
  %t170 = add nsw i64 %t169, %t132
  %t171 = getelementptr inbounds i32, ptr %t5, i64 %t170
  %t172 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t171, i32 4, <8 x i1> %t137, <8 x float> zeroinitializer)
  %t173 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t174 = shufflevector <8 x float> %t173, <8 x float> poison, <8 x i32> zeroinitializer
  %t175 = select <8 x i1> %t137, <8 x float> %t172, <8 x float> %t174
  %t176 = load <8 x float>, ptr %t59
  %t177 = fadd <8 x float> %t176, %t175
  store <8 x float> %t177, ptr %t59
  %t178 = add nsw i64 %t132, 8
  store i64 %t178, ptr %t131
  br label %loop.head128
loop.done130:
  %t179 = load <8 x float>, ptr %t47
  %t180 = load <8 x float>, ptr %t48
  %t181 = fadd <8 x float> %t179, %t180
  %t182 = shufflevector <8 x float> %t181, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t183 = shufflevector <8 x float> %t181, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t184 = fadd <4 x float> %t182, %t183
  %t185 = shufflevector <4 x float> %t184, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t186 = shufflevector <4 x float> %t184, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t187 = fadd <2 x float> %t185, %t186
  %t188 = shufflevector <2 x float> %t187, <2 x float> poison, <1 x i32> <i32 0>
  %t189 = shufflevector <2 x float> %t187, <2 x float> poison, <1 x i32> <i32 1>
  %t190 = extractelement <2 x float> %t187, i64 0
  %t191 = extractelement <2 x float> %t187, i64 1
  %t192 = fadd float %t190, %t191
  %t193 = getelementptr inbounds i32, ptr %t35, i64 %t42
  store float %t192, ptr %t193, align 4
  %t194 = load <8 x float>, ptr %t51
  %t195 = load <8 x float>, ptr %t52
  %t196 = fadd <8 x float> %t194, %t195
  %t197 = shufflevector <8 x float> %t196, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t198 = shufflevector <8 x float> %t196, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t199 = fadd <4 x float> %t197, %t198
  %t200 = shufflevector <4 x float> %t199, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t201 = shufflevector <4 x float> %t199, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t202 = fadd <2 x float> %t200, %t201
  %t203 = shufflevector <2 x float> %t202, <2 x float> poison, <1 x i32> <i32 0>
  %t204 = shufflevector <2 x float> %t202, <2 x float> poison, <1 x i32> <i32 1>
  %t205 = extractelement <2 x float> %t202, i64 0
  %t206 = extractelement <2 x float> %t202, i64 1
  %t207 = fadd float %t205, %t206
  %t208 = getelementptr inbounds i32, ptr %t35, i64 %t44
  store float %t207, ptr %t208, align 4
  %t209 = load <8 x float>, ptr %t55
  %t210 = load <8 x float>, ptr %t56
  %t211 = fadd <8 x float> %t209, %t210
  %t212 = shufflevector <8 x float> %t211, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t213 = shufflevector <8 x float> %t211, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t214 = fadd <4 x float> %t212, %t213
  %t215 = shufflevector <4 x float> %t214, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t216 = shufflevector <4 x float> %t214, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t217 = fadd <2 x float> %t215, %t216
  %t218 = shufflevector <2 x float> %t217, <2 x float> poison, <1 x i32> <i32 0>
  %t219 = shufflevector <2 x float> %t217, <2 x float> poison, <1 x i32> <i32 1>
  %t220 = extractelement <2 x float> %t217, i64 0
  %t221 = extractelement <2 x float> %t217, i64 1
  %t222 = fadd float %t220, %t221
  %t223 = getelementptr inbounds i32, ptr %t35, i64 %t45
  store float %t222, ptr %t223, align 4
  %t224 = load <8 x float>, ptr %t59
  %t225 = load <8 x float>, ptr %t60
  %t226 = fadd <8 x float> %t224, %t225
  %t227 = shufflevector <8 x float> %t226, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t228 = shufflevector <8 x float> %t226, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t229 = fadd <4 x float> %t227, %t228
  %t230 = shufflevector <4 x float> %t229, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t231 = shufflevector <4 x float> %t229, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t232 = fadd <2 x float> %t230, %t231
  %t233 = shufflevector <2 x float> %t232, <2 x float> poison, <1 x i32> <i32 0>
  %t234 = shufflevector <2 x float> %t232, <2 x float> poison, <1 x i32> <i32 1>
  %t235 = extractelement <2 x float> %t232, i64 0
  %t236 = extractelement <2 x float> %t232, i64 1
  %t237 = fadd float %t235, %t236
  %t238 = getelementptr inbounds i32, ptr %t35, i64 %t46
  store float %t237, ptr %t238, align 4
  %t239 = add nsw i64 %t42, 4
  store i64 %t239, ptr %t41
  br label %loop.head38
loop.done40:
  store i64 %t37, ptr %t243
  br label %loop.head240
loop.head240:
  %t244 = load i64, ptr %t243
  %t245 = icmp slt i64 %t244, %t34
  br i1 %t245, label %loop.body241, label %loop.done242
loop.body241:
  %t248 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t249 = shufflevector <8 x float> %t248, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t249, ptr %t246
  store <8 x float> %t249, ptr %t247
  %t250 = and i64 %t4, -16
  store i64 0, ptr %t254
  br label %loop.head251
loop.head251:
  %t255 = load i64, ptr %t254
  %t256 = icmp slt i64 %t255, %t250
  br i1 %t256, label %loop.body252, label %loop.done253
loop.body252:
  %t257 = add nsw i64 %t255, 8
  %t258 = add nsw i64 %t244, %t32
  %t259 = mul nsw i64 %t258, %t7
  %t260 = add nsw i64 %t259, %t255
  %t261 = getelementptr inbounds i32, ptr %t5, i64 %t260
  %t262 = load <8 x float>, ptr %t261, align 4
  %t263 = load <8 x float>, ptr %t246
  %t264 = fadd <8 x float> %t263, %t262
  store <8 x float> %t264, ptr %t246
  %t265 = add nsw i64 %t244, %t32
  %t266 = mul nsw i64 %t265, %t7
  %t267 = add nsw i64 %t266, %t257
  %t268 = getelementptr inbounds i32, ptr %t5, i64 %t267
  %t269 = load <8 x float>, ptr %t268, align 4
  %t270 = load <8 x float>, ptr %t247
  %t271 = fadd <8 x float> %t270, %t269
  store <8 x float> %t271, ptr %t247
  %t272 = add nsw i64 %t255, 16
  store i64 %t272, ptr %t254
  br label %loop.head251
loop.done253:
  store i64 %t250, ptr %t276
  br label %loop.head273
loop.head273:
  %t277 = load i64, ptr %t276
  %t278 = icmp slt i64 %t277, %t4
  br i1 %t278, label %loop.body274, label %loop.done275
loop.body274:
  %t279 = sub nsw i64 %t4, %t277
  %t280 = insertelement <8 x i64> poison, i64 %t279, i64 0
  %t281 = shufflevector <8 x i64> %t280, <8 x i64> poison, <8 x i32> zeroinitializer
  %t282 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t281
  %t283 = add nsw i64 %t244, %t32
  %t284 = mul nsw i64 %t283, %t7
  %t285 = add nsw i64 %t284, %t277
  %t286 = getelementptr inbounds i32, ptr %t5, i64 %t285
  %t287 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t286, i32 4, <8 x i1> %t282, <8 x float> zeroinitializer)
  %t288 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t289 = shufflevector <8 x float> %t288, <8 x float> poison, <8 x i32> zeroinitializer
  %t290 = select <8 x i1> %t282, <8 x float> %t287, <8 x float> %t289
  %t291 = load <8 x float>, ptr %t246
  %t292 = fadd <8 x float> %t291, %t290
  store <8 x float> %t292, ptr %t246
  %t293 = add nsw i64 %t277, 8
  store i64 %t293, ptr %t276
  br label %loop.head273
loop.done275:
  %t294 = load <8 x float>, ptr %t246
  %t295 = load <8 x float>, ptr %t247
  %t296 = fadd <8 x float> %t294, %t295
  %t297 = shufflevector <8 x float> %t296, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t298 = shufflevector <8 x float> %t296, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t299 = fadd <4 x float> %t297, %t298
  %t300 = shufflevector <4 x float> %t299, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t301 = shufflevector <4 x float> %t299, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t302 = fadd <2 x float> %t300, %t301
  %t303 = shufflevector <2 x float> %t302, <2 x float> poison, <1 x i32> <i32 0>
  %t304 = shufflevector <2 x float> %t302, <2 x float> poison, <1 x i32> <i32 1>
  %t305 = extractelement <2 x float> %t302, i64 0
  %t306 = extractelement <2 x float> %t302, i64 1
  %t307 = fadd float %t305, %t306
  %t308 = getelementptr inbounds i32, ptr %t35, i64 %t244
  store float %t307, ptr %t308, align 4
  %t309 = add nsw i64 %t244, 1
  store i64 %t309, ptr %t243
  br label %loop.head240
loop.done242:
  %t310 = and i64 %t34, -32
  store i64 0, ptr %t314
  br label %loop.head311
loop.head311:
  %t315 = load i64, ptr %t314
  %t316 = icmp slt i64 %t315, %t310
  br i1 %t316, label %loop.body312, label %loop.done313
loop.body312:
  %t317 = add nsw i64 %t315, 8
  %t318 = add nsw i64 %t315, 16
  %t319 = add nsw i64 %t315, 24
  %t320 = getelementptr inbounds i32, ptr %t35, i64 %t315
  %t321 = load <8 x float>, ptr %t320, align 4
  %t322 = add nsw i64 %t315, %t32
  %t323 = getelementptr inbounds i32, ptr %t9, i64 %t322
  store <8 x float> %t321, ptr %t323, align 4
  %t324 = getelementptr inbounds i32, ptr %t35, i64 %t317
  %t325 = load <8 x float>, ptr %t324, align 4
  %t326 = add nsw i64 %t317, %t32
  %t327 = getelementptr inbounds i32, ptr %t9, i64 %t326
  store <8 x float> %t325, ptr %t327, align 4
  %t328 = getelementptr inbounds i32, ptr %t35, i64 %t318
  %t329 = load <8 x float>, ptr %t328, align 4
  %t330 = add nsw i64 %t318, %t32
  %t331 = getelementptr inbounds i32, ptr %t9, i64 %t330
  store <8 x float> %t329, ptr %t331, align 4
  %t332 = getelementptr inbounds i32, ptr %t35, i64 %t319
  %t333 = load <8 x float>, ptr %t332, align 4
  %t334 = add nsw i64 %t319, %t32
  %t335 = getelementptr inbounds i32, ptr %t9, i64 %t334
  store <8 x float> %t333, ptr %t335, align 4
  %t336 = add nsw i64 %t315, 32
  store i64 %t336, ptr %t314
  br label %loop.head311
loop.done313:
  store i64 %t310, ptr %t340
  br label %loop.head337
loop.head337:
  %t341 = load i64, ptr %t340
  %t342 = icmp slt i64 %t341, %t34
  br i1 %t342, label %loop.body338, label %loop.done339
loop.body338:
  %t343 = sub nsw i64 %t34, %t341
  %t344 = insertelement <8 x i64> poison, i64 %t343, i64 0
  %t345 = shufflevector <8 x i64> %t344, <8 x i64> poison, <8 x i32> zeroinitializer
  %t346 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t345
  %t347 = getelementptr inbounds i32, ptr %t35, i64 %t341
  %t348 = load <8 x float>, ptr %t347, align 4
  %t349 = add nsw i64 %t341, %t32
  %t350 = getelementptr inbounds i32, ptr %t9, i64 %t349
  call void @llvm.masked.store.v8f32.p0(<8 x float> %t348, ptr %t350, i32 4, <8 x i1> %t346)
  %t351 = add nsw i64 %t341, 8
  store i64 %t351, ptr %t340
  br label %loop.head337
loop.done339:
  %t352 = add nsw i64 %t28, 1
  store i64 %t352, ptr %t27
  br label %loop.head24
loop.done26:
  br label %next16
finished18:
  ret i64 0
}
