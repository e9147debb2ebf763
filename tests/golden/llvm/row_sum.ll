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
  %t234 = alloca i64
  %t237 = alloca <8 x float>
  %t238 = alloca <8 x float>
  %t245 = alloca i64
  %t267 = alloca i64
  %t303 = alloca i64
  %t329 = alloca i64
  %t342 = icmp eq ptr %scratch, null
  br i1 %t342, label %query, label %start
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
  %t134 = insertelement <8 x i64> poison, i64 %t133, i64 0
  %t135 = shufflevector <8 x i64> %t134, <8 x i64> poison, <8 x i32> zeroinitializer
  %t136 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t135
  %t137 = add nsw i64 %t41, %t31
  %t138 = mul nsw i64 %t137, %t7
  %t139 = add nsw i64 %t138, %t131
  %t140 = getelementptr inbounds i32, ptr %t5, i64 %t139
  %t141 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t140, i32 4, <8 x i1> %t136, <8 x float> zeroinitializer)
  %t142 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t143 = shufflevector <8 x float> %t142, <8 x float> poison, <8 x i32> zeroinitializer
  %t144 = select <8 x i1> %t136, <8 x float> %t141, <8 x float> %t143
  %t145 = load <8 x float>, ptr %t46
  %t146 = fadd <8 x float> %t145, %t144
  store <8 x float> %t146, ptr %t46
  %t147 = add nsw i64 %t43, %t31
  %t148 = mul nsw i64 %t147, %t7
  %t149 = add nsw i64 %t148, %t131
  %t150 = getelementptr inbounds i32, ptr %t5, i64 %t149
  %t151 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t150, i32 4, <8 x i1> %t136, <8 x float> zeroinitializer)
  %t152 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t153 = shufflevector <8 x float> %t152, <8 x float> poison, <8 x i32> zeroinitializer
  %t154 = select <8 x i1> %t136, <8 x float> %t151, <8 x float> %t153
  %t155 = load <8 x float>, ptr %t50
  %t156 = fadd <8 x float> %t155, %t154
  store <8 x float> %t156, ptr %t50
  %t157 = add nsw i64 %t44, %t31
  %t158 = mul nsw i64 %t157, %t7
  %t159 = add nsw i64 %t158, %t131
  %t160 = getelementptr inbounds i32, ptr %t5, i64 %t159
  %t161 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t160, i32 4, <8 x i1> %t136, <8 x float> zeroinitializer)
  %t162 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t163 = shufflevector <8 x float> %t162, <8 x float> poison, <8 x i32> zeroinitializer
  %t164 = select <8 x i1> %t136, <8 x float> %t161, <8 x float> %t163
  %t165 = load <8 x float>, ptr %t54
  %t166 = fadd <8 x float> %t165, %t164
  store <8 x float> %t166, ptr %t54
  %t167 = add nsw i64 %t45, %t31
  %t168 = mul nsw i64 %t167, %t7
  %t169 = add nsw i64 %t168, %t131
  %t170 = getelementptr inbounds i32, ptr %t5, i64 %t169
  %t171 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t170, i32 4, <8 x i1> %t136, <8 x float> zeroinitializer)
  %t172 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t173 = shufflevector <8 x float> %t172, <8 x float> poison, <8 x i32> zeroinitializer
  %t174 = select <8 x i1> %t136, <8 x float> %t171, <8 x float> %t173
  %t175 = load <8 x float>, ptr %t58
  %t176 = fadd <8 x float> %t175, %t174
  store <8 x float> %t176, ptr %t58
  %t177 = add nsw i64 %t131, 8
  store i64 %t177, ptr %t130
  br label %loop.head127
loop.done129:
  %t178 = load <8 x float>, ptr %t46
  %t179 = load <8 x float>, ptr %t47
  %t180 = fadd <8 x float> %t178, %t179
  %t181 = shufflevector <8 x float> %t180, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t182 = shufflevector <8 x float> %t180, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t183 = fadd <4 x float> %t181, %t182
  %t184 = shufflevector <4 x float> %t183, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t185 = shufflevector <4 x float> %t183, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t186 = fadd <2 x float> %t184, %t185
  %t187 = extractelement <2 x float> %t186, i64 0
  %t188 = extractelement <2 x float> %t186, i64 1
  %t189 = fadd float %t187, %t188
  %t190 = getelementptr inbounds i32, ptr %t34, i64 %t41
  store float %t189, ptr %t190, align 4
  %t191 = load <8 x float>, ptr %t50
  %t192 = load <8 x float>, ptr %t51
  %t193 = fadd <8 x float> %t191, %t192
  %t194 = shufflevector <8 x float> %t193, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t195 = shufflevector <8 x float> %t193, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t196 = fadd <4 x float> %t194, %t195
  %t197 = shufflevector <4 x float> %t196, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t198 = shufflevector <4 x float> %t196, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t199 = fadd <2 x float> %t197, %t198
  %t200 = extractelement <2 x float> %t199, i64 0
  %t201 = extractelement <2 x float> %t199, i64 1
  %t202 = fadd float %t200, %t201
  %t203 = getelementptr inbounds i32, ptr %t34, i64 %t43
  store float %t202, ptr %t203, align 4
  %t204 = load <8 x float>, ptr %t54
  %t205 = load <8 x float>, ptr %t55
  %t206 = fadd <8 x float> %t204, %t205
  %t207 = shufflevector <8 x float> %t206, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t208 = shufflevector <8 x float> %t206, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t209 = fadd <4 x float> %t207, %t208
  %t210 = shufflevector <4 x float> %t209, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t211 = shufflevector <4 x float> %t209, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t212 = fadd <2 x float> %t210, %t211
  %t213 = extractelement <2 x float> %t212, i64 0
  %t214 = extractelement <2 x float> %t212, i64 1
  %t215 = fadd float %t213, %t214
  %t216 = getelementptr inbounds i32, ptr %t34, i64 %t44
  store float %t215, ptr %t216, align 4
  %t217 = load <8 x float>, ptr %t58
  %t218 = load <8 x float>, ptr %t59
  %t219 = fadd <8 x float> %t217, %t218
  %t220 = shufflevector <8 x float> %t219, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t221 = shufflevector <8 x float> %t219, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t222 = fadd <4 x float> %t220, %t221
  %t223 = shufflevector <4 x float> %t222, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t224 = shufflevector <4 x float> %t222, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t225 = fadd <2 x float> %t223, %t224
  %t226 = extractelement <2 x float> %t225, i64 0
  %t227 = extractelement <2 x float> %t225, i64 1
  %t228 = fadd float %t226, %t227
  %t229 = getelementptr inbounds i32, ptr %t34, i64 %t45
  store float %t228, ptr %t229, align 4
  %t230 = add nsw i64 %t41, 4
  store i64 %t230, ptr %t40
  br label %loop.head37
loop.done39:
  store i64 %t36, ptr %t234
  br label %loop.head231
loop.head231:
  %t235 = load i64, ptr %t234
  %t236 = icmp slt i64 %t235, %t33
  br i1 %t236, label %loop.body232, label %loop.done233
loop.body232:
  %t239 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t240 = shufflevector <8 x float> %t239, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t240, ptr %t237
  store <8 x float> %t240, ptr %t238
  %t241 = and i64 %t4, -16
  store i64 0, ptr %t245
  br label %loop.head242
loop.head242:
  %t246 = load i64, ptr %t245
  %t247 = icmp slt i64 %t246, %t241
  br i1 %t247, label %loop.body243, label %loop.done244
loop.body243:
  %t248 = add nsw i64 %t246, 8
  %t249 = add nsw i64 %t235, %t31
  %t250 = mul nsw i64 %t249, %t7
  %t251 = add nsw i64 %t250, %t246
  %t252 = getelementptr inbounds i32, ptr %t5, i64 %t251
  %t253 = load <8 x float>, ptr %t252, align 4
  %t254 = load <8 x float>, ptr %t237
  %t255 = fadd <8 x float> %t254, %t253
  store <8 x float> %t255, ptr %t237
  %t256 = add nsw i64 %t235, %t31
  %t257 = mul nsw i64 %t256, %t7
  %t258 = add nsw i64 %t257, %t248
  %t259 = getelementptr inbounds i32, ptr %t5, i64 %t258
  %t260 = load <8 x float>, ptr %t259, align 4
  %t261 = load <8 x float>, ptr %t238
  %t262 = fadd <8 x float> %t261, %t260
  store <8 x float> %t262, ptr %t238
  %t263 = add nsw i64 %t246, 16
  store i64 %t263, ptr %t245
  br label %loop.head242
loop.done244:
  store i64 %t241, ptr %t267
  br label %loop.head264
loop.head264:
  %t268 = load i64, ptr %t267
  %t269 = icmp slt i64 %t268, %t4
  br i1 %t269, label %loop.body265, label %loop.done266
loop.body265:
  %t270 = sub nsw i64 %t4, %t268
  %t271 = insertelement <8 x i64> poison, i64 %t270, i64 0
  %t272 = shufflevector <8 x i64> %t271, <8 x i64> poison, <8 x i32> zeroinitializer
  %t273 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t272
  %t274 = add nsw i64 %t235, %t31
  %t275 = mul nsw i64 %t274, %t7
  %t276 = add nsw i64 %t275, %t268
  %t277 = getelementptr inbounds i32, ptr %t5, i64 %t276
  %t278 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t277, i32 4, <8 x i1> %t273, <8 x float> zeroinitializer)
  %t279 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t280 = shufflevector <8 x float> %t279, <8 x float> poison, <8 x i32> zeroinitializer
  %t281 = select <8 x i1> %t273, <8 x float> %t278, <8 x float> %t280
  %t282 = load <8 x float>, ptr %t237
  %t283 = fadd <8 x float> %t282, %t281
  store <8 x float> %t283, ptr %t237
  %t284 = add nsw i64 %t268, 8
  store i64 %t284, ptr %t267
  br label %loop.head264
loop.done266:
  %t285 = load <8 x float>, ptr %t237
  %t286 = load <8 x float>, ptr %t238
  %t287 = fadd <8 x float> %t285, %t286
  %t288 = shufflevector <8 x float> %t287, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t289 = shufflevector <8 x float> %t287, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t290 = fadd <4 x float> %t288, %t289
  %t291 = shufflevector <4 x float> %t290, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t292 = shufflevector <4 x float> %t290, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t293 = fadd <2 x float> %t291, %t292
  %t294 = extractelement <2 x float> %t293, i64 0
  %t295 = extractelement <2 x float> %t293, i64 1
  %t296 = fadd float %t294, %t295
  %t297 = getelementptr inbounds i32, ptr %t34, i64 %t235
  store float %t296, ptr %t297, align 4
  %t298 = add nsw i64 %t235, 1
  store i64 %t298, ptr %t234
  br label %loop.head231
loop.done233:
  %t299 = and i64 %t33, -32
  store i64 0, ptr %t303
  br label %loop.head300
loop.head300:
  %t304 = load i64, ptr %t303
  %t305 = icmp slt i64 %t304, %t299
  br i1 %t305, label %loop.body301, label %loop.done302
loop.body301:
  %t306 = add nsw i64 %t304, 8
  %t307 = add nsw i64 %t304, 16
  %t308 = add nsw i64 %t304, 24
  %t309 = getelementptr inbounds i32, ptr %t34, i64 %t304
  %t310 = load <8 x float>, ptr %t309, align 4
  %t311 = add nsw i64 %t304, %t31
  %t312 = getelementptr inbounds i32, ptr %t9, i64 %t311
  store <8 x float> %t310, ptr %t312, align 4
  %t313 = getelementptr inbounds i32, ptr %t34, i64 %t306
  %t314 = load <8 x float>, ptr %t313, align 4
  %t315 = add nsw i64 %t306, %t31
  %t316 = getelementptr inbounds i32, ptr %t9, i64 %t315
  store <8 x float> %t314, ptr %t316, align 4
  %t317 = getelementptr inbounds i32, ptr %t34, i64 %t307
  %t318 = load <8 x float>, ptr %t317, align 4
  %t319 = add nsw i64 %t307, %t31
  %t320 = getelementptr inbounds i32, ptr %t9, i64 %t319
  store <8 x float> %t318, ptr %t320, align 4
  %t321 = getelementptr inbounds i32, ptr %t34, i64 %t308
  %t322 = load <8 x float>, ptr %t321, align 4
  %t323 = add nsw i64 %t308, %t31
  %t324 = getelementptr inbounds i32, ptr %t9, i64 %t323
  store <8 x float> %t322, ptr %t324, align 4
  %t325 = add nsw i64 %t304, 32
  store i64 %t325, ptr %t303
  br label %loop.head300
loop.done302:
  store i64 %t299, ptr %t329
  br label %loop.head326
loop.head326:
  %t330 = load i64, ptr %t329
  %t331 = icmp slt i64 %t330, %t33
  br i1 %t331, label %loop.body327, label %loop.done328
loop.body327:
  %t332 = sub nsw i64 %t33, %t330
  %t333 = insertelement <8 x i64> poison, i64 %t332, i64 0
  %t334 = shufflevector <8 x i64> %t333, <8 x i64> poison, <8 x i32> zeroinitializer
  %t335 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t334
  %t336 = getelementptr inbounds i32, ptr %t34, i64 %t330
  %t337 = load <8 x float>, ptr %t336, align 4
  %t338 = add nsw i64 %t330, %t31
  %t339 = getelementptr inbounds i32, ptr %t9, i64 %t338
  call void @llvm.masked.store.v8f32.p0(<8 x float> %t337, ptr %t339, i32 4, <8 x i1> %t335)
  %t340 = add nsw i64 %t330, 8
  store i64 %t340, ptr %t329
  br label %loop.head326
loop.done328:
  %t341 = add nsw i64 %t29, 1
  store i64 %t341, ptr %t28
  br label %loop.head25
loop.done27:
  br label %next17
finished19:
  br label %versions13
versions13:
  ret i64 0
}
