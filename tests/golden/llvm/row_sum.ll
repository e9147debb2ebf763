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
  %t235 = alloca i64
  %t238 = alloca <8 x float>
  %t239 = alloca <8 x float>
  %t246 = alloca i64
  %t268 = alloca i64
  %t304 = alloca i64
  %t330 = alloca i64
  %t343 = icmp eq ptr %scratch, null
  br i1 %t343, label %query, label %start
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
  %t188 = extractelement <2 x float> %t187, i64 0
  %t189 = extractelement <2 x float> %t187, i64 1
  %t190 = fadd float %t188, %t189
  %t191 = getelementptr inbounds i32, ptr %t35, i64 %t42
  store float %t190, ptr %t191, align 4
  %t192 = load <8 x float>, ptr %t51
  %t193 = load <8 x float>, ptr %t52
  %t194 = fadd <8 x float> %t192, %t193
  %t195 = shufflevector <8 x float> %t194, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t196 = shufflevector <8 x float> %t194, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t197 = fadd <4 x float> %t195, %t196
  %t198 = shufflevector <4 x float> %t197, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t199 = shufflevector <4 x float> %t197, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t200 = fadd <2 x float> %t198, %t199
  %t201 = extractelement <2 x float> %t200, i64 0
  %t202 = extractelement <2 x float> %t200, i64 1
  %t203 = fadd float %t201, %t202
  %t204 = getelementptr inbounds i32, ptr %t35, i64 %t44
  store float %t203, ptr %t204, align 4
  %t205 = load <8 x float>, ptr %t55
  %t206 = load <8 x float>, ptr %t56
  %t207 = fadd <8 x float> %t205, %t206
  %t208 = shufflevector <8 x float> %t207, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t209 = shufflevector <8 x float> %t207, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t210 = fadd <4 x float> %t208, %t209
  %t211 = shufflevector <4 x float> %t210, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t212 = shufflevector <4 x float> %t210, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t213 = fadd <2 x float> %t211, %t212
  %t214 = extractelement <2 x float> %t213, i64 0
  %t215 = extractelement <2 x float> %t213, i64 1
  %t216 = fadd float %t214, %t215
  %t217 = getelementptr inbounds i32, ptr %t35, i64 %t45
  store float %t216, ptr %t217, align 4
  %t218 = load <8 x float>, ptr %t59
  %t219 = load <8 x float>, ptr %t60
  %t220 = fadd <8 x float> %t218, %t219
  %t221 = shufflevector <8 x float> %t220, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t222 = shufflevector <8 x float> %t220, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t223 = fadd <4 x float> %t221, %t222
  %t224 = shufflevector <4 x float> %t223, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t225 = shufflevector <4 x float> %t223, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t226 = fadd <2 x float> %t224, %t225
  %t227 = extractelement <2 x float> %t226, i64 0
  %t228 = extractelement <2 x float> %t226, i64 1
  %t229 = fadd float %t227, %t228
  %t230 = getelementptr inbounds i32, ptr %t35, i64 %t46
  store float %t229, ptr %t230, align 4
  %t231 = add nsw i64 %t42, 4
  store i64 %t231, ptr %t41
  br label %loop.head38
loop.done40:
  store i64 %t37, ptr %t235
  br label %loop.head232
loop.head232:
  %t236 = load i64, ptr %t235
  %t237 = icmp slt i64 %t236, %t34
  br i1 %t237, label %loop.body233, label %loop.done234
loop.body233:
  %t240 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t241 = shufflevector <8 x float> %t240, <8 x float> poison, <8 x i32> zeroinitializer
  store <8 x float> %t241, ptr %t238
  store <8 x float> %t241, ptr %t239
  %t242 = and i64 %t4, -16
  store i64 0, ptr %t246
  br label %loop.head243
loop.head243:
  %t247 = load i64, ptr %t246
  %t248 = icmp slt i64 %t247, %t242
  br i1 %t248, label %loop.body244, label %loop.done245
loop.body244:
  %t249 = add nsw i64 %t247, 8
  %t250 = add nsw i64 %t236, %t32
  %t251 = mul nsw i64 %t250, %t7
  %t252 = add nsw i64 %t251, %t247
  %t253 = getelementptr inbounds i32, ptr %t5, i64 %t252
  %t254 = load <8 x float>, ptr %t253, align 4
  %t255 = load <8 x float>, ptr %t238
  %t256 = fadd <8 x float> %t255, %t254
  store <8 x float> %t256, ptr %t238
  %t257 = add nsw i64 %t236, %t32
  %t258 = mul nsw i64 %t257, %t7
  %t259 = add nsw i64 %t258, %t249
  %t260 = getelementptr inbounds i32, ptr %t5, i64 %t259
  %t261 = load <8 x float>, ptr %t260, align 4
  %t262 = load <8 x float>, ptr %t239
  %t263 = fadd <8 x float> %t262, %t261
  store <8 x float> %t263, ptr %t239
  %t264 = add nsw i64 %t247, 16
  store i64 %t264, ptr %t246
  br label %loop.head243
loop.done245:
  store i64 %t242, ptr %t268
  br label %loop.head265
loop.head265:
  %t269 = load i64, ptr %t268
  %t270 = icmp slt i64 %t269, %t4
  br i1 %t270, label %loop.body266, label %loop.done267
loop.body266:
  %t271 = sub nsw i64 %t4, %t269
  %t272 = insertelement <8 x i64> poison, i64 %t271, i64 0
  %t273 = shufflevector <8 x i64> %t272, <8 x i64> poison, <8 x i32> zeroinitializer
  %t274 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t273
  %t275 = add nsw i64 %t236, %t32
  %t276 = mul nsw i64 %t275, %t7
  %t277 = add nsw i64 %t276, %t269
  %t278 = getelementptr inbounds i32, ptr %t5, i64 %t277
  %t279 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %t278, i32 4, <8 x i1> %t274, <8 x float> zeroinitializer)
  %t280 = insertelement <8 x float> poison, float 0x0000000000000000, i64 0
  %t281 = shufflevector <8 x float> %t280, <8 x float> poison, <8 x i32> zeroinitializer
  %t282 = select <8 x i1> %t274, <8 x float> %t279, <8 x float> %t281
  %t283 = load <8 x float>, ptr %t238
  %t284 = fadd <8 x float> %t283, %t282
  store <8 x float> %t284, ptr %t238
  %t285 = add nsw i64 %t269, 8
  store i64 %t285, ptr %t268
  br label %loop.head265
loop.done267:
  %t286 = load <8 x float>, ptr %t238
  %t287 = load <8 x float>, ptr %t239
  %t288 = fadd <8 x float> %t286, %t287
  %t289 = shufflevector <8 x float> %t288, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %t290 = shufflevector <8 x float> %t288, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %t291 = fadd <4 x float> %t289, %t290
  %t292 = shufflevector <4 x float> %t291, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %t293 = shufflevector <4 x float> %t291, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %t294 = fadd <2 x float> %t292, %t293
  %t295 = extractelement <2 x float> %t294, i64 0
  %t296 = extractelement <2 x float> %t294, i64 1
  %t297 = fadd float %t295, %t296
  %t298 = getelementptr inbounds i32, ptr %t35, i64 %t236
  store float %t297, ptr %t298, align 4
  %t299 = add nsw i64 %t236, 1
  store i64 %t299, ptr %t235
  br label %loop.head232
loop.done234:
  %t300 = and i64 %t34, -32
  store i64 0, ptr %t304
  br label %loop.head301
loop.head301:
  %t305 = load i64, ptr %t304
  %t306 = icmp slt i64 %t305, %t300
  br i1 %t306, label %loop.body302, label %loop.done303
loop.body302:
  %t307 = add nsw i64 %t305, 8
  %t308 = add nsw i64 %t305, 16
  %t309 = add nsw i64 %t305, 24
  %t310 = getelementptr inbounds i32, ptr %t35, i64 %t305
  %t311 = load <8 x float>, ptr %t310, align 4
  %t312 = add nsw i64 %t305, %t32
  %t313 = getelementptr inbounds i32, ptr %t9, i64 %t312
  store <8 x float> %t311, ptr %t313, align 4
  %t314 = getelementptr inbounds i32, ptr %t35, i64 %t307
  %t315 = load <8 x float>, ptr %t314, align 4
  %t316 = add nsw i64 %t307, %t32
  %t317 = getelementptr inbounds i32, ptr %t9, i64 %t316
  store <8 x float> %t315, ptr %t317, align 4
  %t318 = getelementptr inbounds i32, ptr %t35, i64 %t308
  %t319 = load <8 x float>, ptr %t318, align 4
  %t320 = add nsw i64 %t308, %t32
  %t321 = getelementptr inbounds i32, ptr %t9, i64 %t320
  store <8 x float> %t319, ptr %t321, align 4
  %t322 = getelementptr inbounds i32, ptr %t35, i64 %t309
  %t323 = load <8 x float>, ptr %t322, align 4
  %t324 = add nsw i64 %t309, %t32
  %t325 = getelementptr inbounds i32, ptr %t9, i64 %t324
  store <8 x float> %t323, ptr %t325, align 4
  %t326 = add nsw i64 %t305, 32
  store i64 %t326, ptr %t304
  br label %loop.head301
loop.done303:
  store i64 %t300, ptr %t330
  br label %loop.head327
loop.head327:
  %t331 = load i64, ptr %t330
  %t332 = icmp slt i64 %t331, %t34
  br i1 %t332, label %loop.body328, label %loop.done329
loop.body328:
  %t333 = sub nsw i64 %t34, %t331
  %t334 = insertelement <8 x i64> poison, i64 %t333, i64 0
  %t335 = shufflevector <8 x i64> %t334, <8 x i64> poison, <8 x i32> zeroinitializer
  %t336 = icmp ult <8 x i64> <i64 0, i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7>, %t335
  %t337 = getelementptr inbounds i32, ptr %t35, i64 %t331
  %t338 = load <8 x float>, ptr %t337, align 4
  %t339 = add nsw i64 %t331, %t32
  %t340 = getelementptr inbounds i32, ptr %t9, i64 %t339
  call void @llvm.masked.store.v8f32.p0(<8 x float> %t338, ptr %t340, i32 4, <8 x i1> %t336)
  %t341 = add nsw i64 %t331, 8
  store i64 %t341, ptr %t330
  br label %loop.head327
loop.done329:
  %t342 = add nsw i64 %t28, 1
  store i64 %t342, ptr %t27
  br label %loop.head24
loop.done26:
  br label %next16
finished18:
  ret i64 0
}
