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
  %t36 = getelementptr inbounds i8, ptr %scratch, i64 0
  %t42 = alloca i64
  %t48 = alloca <8 x float>
  %t49 = alloca <8 x float>
  %t52 = alloca <8 x float>
  %t53 = alloca <8 x float>
  %t56 = alloca <8 x float>
  %t57 = alloca <8 x float>
  %t60 = alloca <8 x float>
  %t61 = alloca <8 x float>
  %t68 = alloca i64
  %t132 = alloca i64
  %t236 = alloca i64
  %t239 = alloca <8 x float>
  %t240 = alloca <8 x float>
  %t247 = alloca i64
  %t269 = alloca i64
  %t305 = alloca i64
  %t331 = alloca i64
  %t344 = icmp eq ptr %scratch, null
  br i1 %t344, label %query, label %start
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
  %t31 = urem i64 %t29, %t16
  %t32 = udiv i64 %t29, %t16
  %t33 = mul nsw i64 %t31, 4
  %t34 = sub nsw i64 %t2, %t33
  %t35 = call i64 @llvm.smin.i64(i64 4, i64 %t34)
  %t37 = udiv i64 %t35, 4
  %t38 = mul nsw i64 %t37, 4
  store i64 0, ptr %t42
  br label %loop.head39
loop.head39:
  %t43 = load i64, ptr %t42
  %t44 = icmp slt i64 %t43, %t38
  br i1 %t44, label %loop.body40, label %loop.done41
loop.body40:
  %t45 = add nsw i64 %t43, 1
  %t46 = add nsw i64 %t43, 2
  %t47 = add nsw i64 %t43, 3
  %t50 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t51 = shufflevector <8 x float> %t50, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t51, ptr %t48
  store <8 x float> %t51, ptr %t49
  %t54 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t55 = shufflevector <8 x float> %t54, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t55, ptr %t52
  store <8 x float> %t55, ptr %t53
  %t58 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t59 = shufflevector <8 x float> %t58, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t59, ptr %t56
  store <8 x float> %t59, ptr %t57
  %t62 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t63 = shufflevector <8 x float> %t62, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t63, ptr %t60
  store <8 x float> %t63, ptr %t61
  %t64 = and i64 %t4, -16
  store i64 0, ptr %t68
  br label %loop.head65
loop.head65:
  %t69 = load i64, ptr %t68
  %t70 = icmp slt i64 %t69, %t64
  br i1 %t70, label %loop.body66, label %loop.done67
loop.body66:
  %t71 = add nsw i64 %t69, 8
  %t72 = add nsw i64 %t43, %t33
  %t73 = mul nsw i64 %t72, %t7
  %t74 = add nsw i64 %t73, %t69
  %t75 = getelementptr inbounds i32, ptr %t5, i64 %t74
  %t76 = load <8 x float>, ptr %t75, align 4
  %t77 = load <8 x float>, ptr %t48
  %t78 = fadd <8 x float> %t77, %t76
  store <8 x float> %t78, ptr %t48
  %t79 = add nsw i64 %t43, %t33
  %t80 = mul nsw i64 %t79, %t7
  %t81 = add nsw i64 %t80, %t71
  %t82 = getelementptr inbounds i32, ptr %t5, i64 %t81
  %t83 = load <8 x float>, ptr %t82, align 4
  %t84 = load <8 x float>, ptr %t49
  %t85 = fadd <8 x float> %t84, %t83
  store <8 x float> %t85, ptr %t49
  %t86 = add nsw i64 %t45, %t33
  %t87 = mul nsw i64 %t86, %t7
  %t88 = add nsw i64 %t87, %t69
  %t89 = getelementptr inbounds i32, ptr %t5, i64 %t88
  %t90 = load <8 x float>, ptr %t89, align 4
  %t91 = load <8 x float>, ptr %t52
  %t92 = fadd <8 x float> %t91, %t90
  store <8 x float> %t92, ptr %t52
  %t93 = add nsw i64 %t45, %t33
  %t94 = mul nsw i64 %t93, %t7
  %t95 = add nsw i64 %t94, %t71
  %t96 = getelementptr inbounds i32, ptr %t5, i64 %t95
  %t97 = load <8 x float>, ptr %t96, align 4
  %t98 = load <8 x float>, ptr %t53
  %t99 = fadd <8 x float> %t98, %t97
  store <8 x float> %t99, ptr %t53
  %t100 = add nsw i64 %t46, %t33
  %t101 = mul nsw i64 %t100, %t7
  %t102 = add nsw i64 %t101, %t69
  %t103 = getelementptr inbounds i32, ptr %t5, i64 %t102
  %t104 = load <8 x float>, ptr %t103, align 4
  %t105 = load <8 x float>, ptr %t56
  %t106 = fadd <8 x float> %t105, %t104
  store <8 x float> %t106, ptr %t56
  %t107 = add nsw i64 %t46, %t33
  %t108 = mul nsw i64 %t107, %t7
  %t109 = add nsw i64 %t108, %t71
  %t110 = getelementptr inbounds i32, ptr %t5, i64 %t109
  %t111 = load <8 x float>, ptr %t110, align 4
  %t112 = load <8 x float>, ptr %t57
  %t113 = fadd <8 x float> %t112, %t111
  store <8 x float> %t113, ptr %t57
  %t114 = add nsw i64 %t47, %t33
  %t115 = mul nsw i64 %t114, %t7
  %t116 = add nsw i64 %t115, %t69
  %t117 = getelementptr inbounds i32, ptr %t5, i64 %t116
  %t118 = load <8 x float>, ptr %t117, align 4
  %t119 = load <8 x float>, ptr %t60
  %t120 = fadd <8 x float> %t119, %t118
  store <8 x float> %t120, ptr %t60
  %t121 = add nsw i64 %t47, %t33
  %t122 = mul nsw i64 %t121, %t7
  %t123 = add nsw i64 %t122, %t71
  %t124 = getelementptr inbounds i32, ptr %t5, i64 %t123
  %t125 = load <8 x float>, ptr %t124, align 4
  %t126 = load <8 x float>, ptr %t61
  %t127 = fadd <8 x float> %t126, %t125
  store <8 x float> %t127, ptr %t61
  %t128 = add nsw i64 %t69, 16
  store i64 %t128, ptr %t68
  br label %loop.head65
loop.done67:
  store i64 %t64, ptr %t132
  br label %loop.head129
loop.head129:
  %t133 = load i64, ptr %t132
  %t134 = icmp slt i64 %t133, %t4
  br i1 %t134, label %loop.body130, label %loop.done131
loop.body130:
  %t135 = sub nsw i64 %t4, %t133
  %t136 = insertelement <8 x i64> poison, i64 %t135, i64 0
  %t137 = shufflevector <8 x i64> %t136, <8 x i64> poison, <8 x i32> zeroinitializer
  %t138 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t137
  %t139 = add nsw i64 %t43, %t33
  %t140 = mul nsw i64 %t139, %t7
  %t141 = add nsw i64 %t140, %t133
  %t142 = getelementptr inbounds i32, ptr %t5, i64 %t141
  %t143 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t142, i32 4, <8 x i1> %t138, <8 x float> zeroinitializer)
  %t144 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t145 = shufflevector <8 x float> %t144, <8 x float> poison, <8 x i32> zeroinitializer
  %t146 = select <8 x i1> %t138, <8 x float> %t143, <8 x float> %t145
  %t147 = load <8 x float>, ptr %t48
  %t148 = fadd <8 x float> %t147, %t146
  store <8 x float> %t148, ptr %t48
  %t149 = add nsw i64 %t45, %t33
  %t150 = mul nsw i64 %t149, %t7
  %t151 = add nsw i64 %t150, %t133
  %t152 = getelementptr inbounds i32, ptr %t5, i64 %t151
  %t153 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t152, i32 4, <8 x i1> %t138, <8 x float> zeroinitializer)
  %t154 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t155 = shufflevector <8 x float> %t154, <8 x float> poison, <8 x i32> zeroinitializer
  %t156 = select <8 x i1> %t138, <8 x float> %t153, <8 x float> %t155
  %t157 = load <8 x float>, ptr %t52
  %t158 = fadd <8 x float> %t157, %t156
  store <8 x float> %t158, ptr %t52
  %t159 = add nsw i64 %t46, %t33
  %t160 = mul nsw i64 %t159, %t7
  %t161 = add nsw i64 %t160, %t133
  %t162 = getelementptr inbounds i32, ptr %t5, i64 %t161
  %t163 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t162, i32 4, <8 x i1> %t138, <8 x float> zeroinitializer)
  %t164 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t165 = shufflevector <8 x float> %t164, <8 x float> poison, <8 x i32> zeroinitializer
  %t166 = select <8 x i1> %t138, <8 x float> %t163, <8 x float> %t165
  %t167 = load <8 x float>, ptr %t56
  %t168 = fadd <8 x float> %t167, %t166
  store <8 x float> %t168, ptr %t56
  %t169 = add nsw i64 %t47, %t33
  %t170 = mul nsw i64 %t169, %t7
  %t171 = add nsw i64 %t170, %t133
  %t172 = getelementptr inbounds i32, ptr %t5, i64 %t171
  %t173 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t172, i32 4, <8 x i1> %t138, <8 x float> zeroinitializer)
  %t174 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t175 = shufflevector <8 x float> %t174, <8 x float> poison, <8 x i32> zeroinitializer
  %t176 = select <8 x i1> %t138, <8 x float> %t173, <8 x float> %t175
  %t177 = load <8 x float>, ptr %t60
  %t178 = fadd <8 x float> %t177, %t176
  store <8 x float> %t178, ptr %t60
  %t179 = add nsw i64 %t133, 8
  store i64 %t179, ptr %t132
  br label %loop.head129
loop.done131:
  %t180 = load <8 x float>, ptr %t48
  %t181 = load <8 x float>, ptr %t49
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
  %t192 = getelementptr inbounds i32, ptr %t36, i64 %t43
  store float %t191, ptr %t192, align 4
  %t193 = load <8 x float>, ptr %t52
  %t194 = load <8 x float>, ptr %t53
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
  %t205 = getelementptr inbounds i32, ptr %t36, i64 %t45
  store float %t204, ptr %t205, align 4
  %t206 = load <8 x float>, ptr %t56
  %t207 = load <8 x float>, ptr %t57
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
  %t218 = getelementptr inbounds i32, ptr %t36, i64 %t46
  store float %t217, ptr %t218, align 4
  %t219 = load <8 x float>, ptr %t60
  %t220 = load <8 x float>, ptr %t61
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
  %t231 = getelementptr inbounds i32, ptr %t36, i64 %t47
  store float %t230, ptr %t231, align 4
  %t232 = add nsw i64 %t43, 4
  store i64 %t232, ptr %t42
  br label %loop.head39
loop.done41:
  store i64 %t38, ptr %t236
  br label %loop.head233
loop.head233:
  %t237 = load i64, ptr %t236
  %t238 = icmp slt i64 %t237, %t35
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
  %t251 = add nsw i64 %t237, %t33
  %t252 = mul nsw i64 %t251, %t7
  %t253 = add nsw i64 %t252, %t248
  %t254 = getelementptr inbounds i32, ptr %t5, i64 %t253
  %t255 = load <8 x float>, ptr %t254, align 4
  %t256 = load <8 x float>, ptr %t239
  %t257 = fadd <8 x float> %t256, %t255
  store <8 x float> %t257, ptr %t239
  %t258 = add nsw i64 %t237, %t33
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
  %t273 = insertelement <8 x i64> poison, i64 %t272, i64 0
  %t274 = shufflevector <8 x i64> %t273, <8 x i64> poison, <8 x i32> zeroinitializer
  %t275 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t274
  %t276 = add nsw i64 %t237, %t33
  %t277 = mul nsw i64 %t276, %t7
  %t278 = add nsw i64 %t277, %t270
  %t279 = getelementptr inbounds i32, ptr %t5, i64 %t278
  %t280 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t279, i32 4, <8 x i1> %t275, <8 x float> zeroinitializer)
  %t281 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t282 = shufflevector <8 x float> %t281, <8 x float> poison, <8 x i32> zeroinitializer
  %t283 = select <8 x i1> %t275, <8 x float> %t280, <8 x float> %t282
  %t284 = load <8 x float>, ptr %t239
  %t285 = fadd <8 x float> %t284, %t283
  store <8 x float> %t285, ptr %t239
  %t286 = add nsw i64 %t270, 8
  store i64 %t286, ptr %t269
  br label %loop.head266
loop.done268:
  %t287 = load <8 x float>, ptr %t239
  %t288 = load <8 x float>, ptr %t240
  %t289 = fadd <8 x float> %t287, %t288
  %t290 = shufflevector <8 x float> %t289, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t291 = shufflevector <8 x float> %t289, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t292 = fadd <4 x float> %t290, %t291
  %t293 = shufflevector <4 x float> %t292, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t294 = shufflevector <4 x float> %t292, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t295 = fadd <2 x float> %t293, %t294
  %t296 = extractelement <2 x float> %t295, i64 0
  %t297 = extractelement <2 x float> %t295, i64 1
  %t298 = fadd float %t296, %t297
  %t299 = getelementptr inbounds i32, ptr %t36, i64 %t237
  store float %t298, ptr %t299, align 4
  %t300 = add nsw i64 %t237, 1
  store i64 %t300, ptr %t236
  br label %loop.head233
loop.done235:
  %t301 = and i64 %t35, -32
  store i64 0, ptr %t305
  br label %loop.head302
loop.head302:
  %t306 = load i64, ptr %t305
  %t307 = icmp slt i64 %t306, %t301
  br i1 %t307, label %loop.body303, label %loop.done304
loop.body303:
  %t308 = add nsw i64 %t306, 8
  %t309 = add nsw i64 %t306, 16
  %t310 = add nsw i64 %t306, 24
  %t311 = getelementptr inbounds i32, ptr %t36, i64 %t306
  %t312 = load <8 x float>, ptr %t311, align 4
  %t313 = add nsw i64 %t306, %t33
  %t314 = getelementptr inbounds i32, ptr %t9, i64 %t313
  store <8 x float> %t312, ptr %t314, align 4
  %t315 = getelementptr inbounds i32, ptr %t36, i64 %t308
  %t316 = load <8 x float>, ptr %t315, align 4
  %t317 = add nsw i64 %t308, %t33
  %t318 = getelementptr inbounds i32, ptr %t9, i64 %t317
  store <8 x float> %t316, ptr %t318, align 4
  %t319 = getelementptr inbounds i32, ptr %t36, i64 %t309
  %t320 = load <8 x float>, ptr %t319, align 4
  %t321 = add nsw i64 %t309, %t33
  %t322 = getelementptr inbounds i32, ptr %t9, i64 %t321
  store <8 x float> %t320, ptr %t322, align 4
  %t323 = getelementptr inbounds i32, ptr %t36, i64 %t310
  %t324 = load <8 x float>, ptr %t323, align 4
  %t325 = add nsw i64 %t310, %t33
  %t326 = getelementptr inbounds i32, ptr %t9, i64 %t325
  store <8 x float> %t324, ptr %t326, align 4
  %t327 = add nsw i64 %t306, 32
  store i64 %t327, ptr %t305
  br label %loop.head302
loop.done304:
  store i64 %t301, ptr %t331
  br label %loop.head328
loop.head328:
  %t332 = load i64, ptr %t331
  %t333 = icmp slt i64 %t332, %t35
  br i1 %t333, label %loop.body329, label %loop.done330
loop.body329:
  %t334 = sub nsw i64 %t35, %t332
  %t335 = insertelement <8 x i64> poison, i64 %t334, i64 0
  %t336 = shufflevector <8 x i64> %t335, <8 x i64> poison, <8 x i32> zeroinitializer
  %t337 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t336
  %t338 = getelementptr inbounds i32, ptr %t36, i64 %t332
  %t339 = load <8 x float>, ptr %t338, align 4
  %t340 = add nsw i64 %t332, %t33
  %t341 = getelementptr inbounds i32, ptr %t9, i64 %t340
  call void @llvm.masked.store.v8f32.p0(<8 x float> %t339, ptr %t341, i32 4, <8 x i1> %t337)
  %t342 = add nsw i64 %t332, 8
  store i64 %t342, ptr %t331
  br label %loop.head328
loop.done330:
  %t343 = add nsw i64 %t29, 1
  store i64 %t343, ptr %t28
  br label %loop.head25
loop.done27:
  br label %next17
finished19:
  br label %versions13
versions13:
  ret i64 0
}
