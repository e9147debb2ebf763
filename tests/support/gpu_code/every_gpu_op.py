"""One example of every op of the GPU vocabulary, with all of its fields, in the very words of the printer.

`ASYNC` is a whole product of matrices, by roles and in clusters of two blocks; `WINDOWS` stores what windows of an image
see in one of their places. Both can be run.
"""

# ruff: noqa: E501 -- the printer does not break lines

from __future__ import annotations

GPU = """\
func @gpu(%x: tensor<bf16, [M, 16], unit=1>, %y: tensor<bf16, [16, N]>, %r: tensor<i64, [M]>, %fill: bf16, %s: f32) {
  %z = tile.empty() {shape = [M, N], dtype = f32} : tensor<f32, [M, N], unit=1>
  %M = tile.size() {value = M} : i64
  %N = tile.size() {value = N} : i64
  %zero = tile.constant() {value = 0, dtype = i64} : i64
  gpu.launch([%M, %N]) {blocks = [16, 8], threads = 32, raster = 4, resident = 2, shared_bytes = 2048} body(%m: i64, %n: i64) {
    %rows = tile.map([%M, %m]) {fn = sub} : i64
    %columns = tile.map([%N, %n]) {fn = sub} : i64
    %stages = gpu.buffer() {shape = [2, 16, 16], dtype = bf16, layout = rows(0, 1, 2, swizzle=(1, 4, 3)), offset = 0} : tile<bf16, [2, 16, 16], shared, rows(0, 1, 2, swizzle=(1, 4, 3))>
    %bs = gpu.buffer() {shape = [16, 8], dtype = bf16, layout = rows(0, 1, padding=8), offset = 1024} : tile<bf16, [16, 8], shared, rows(0, 1, padding=8)>
    gpu.copy(%x, [%m, %zero], [%rows], %stages, [%zero, %zero, %zero]) {axes = [0, 1], masked = [0], checked = [0], places = [1, 2], vector = 8, shape = [16, 16], layout = spatial(16, 2) * local(1, 8), apart = true}
    gpu.commit()
    %row = gpu.load(%r, [%m], [%rows], %zero) {axes = [0], masked = [0], checked = [0], vector = 2, ragged = true, shape = [16], layout = spatial(8) * replicate(4) * local(2)} : tile<i64, [16], register, spatial(8) * replicate(4) * local(2)>
    %bl = gpu.load(%y, [%zero, %n], [%columns], %fill) {axes = [0, 1], masked = [1], checked = [1], vector = 4, shape = [16, 8], layout = spatial(16, 2) * local(1, 4)} : tile<bf16, [16, 8], register, spatial(16, 2) * local(1, 4)>
    %run = gpu.load(%x, [%m, %zero], [%rows], %fill) {axes = [-1, 0], masked = [0], vector = 8, flat = true, shape = [256], layout = spatial(32) * local(8)} : tile<bf16, [256], register, spatial(32) * local(8)>
    %wide = tile.cast(%run) {dtype = f32} : tile<f32, [256], register, spatial(32) * local(8)>
    gpu.store(%z, [%m, %zero], %wide, [%rows]) {axes = [-1, 0], masked = [0], vector = 4, flat = true}
    %odd = gpu.load(%x, [%m, %zero], [%rows]) {axes = [0, 1], masked = [0], vector = 4, step = 2, phase = 1, shape = [16, 8], layout = spatial(16, 2) * local(1, 4)} : tile<bf16, [16, 8], register, spatial(16, 2) * local(1, 4)>
    %pairs = gpu.load(%x, [%m, %zero], [%rows]) {axes = [0, 1], masked = [0], vector = 4, repeat = 2, shape = [16, 8], layout = spatial(16, 2) * local(1, 4)} : tile<bf16, [16, 8], register, spatial(16, 2) * local(1, 4)>
    gpu.write(%bs, %bl, [%zero, %zero]) {places = [0, 1], vector = 4, block = 0}
    gpu.wait() {groups = 1}
    gpu.barrier()
    %a = gpu.read(%stages, [%zero, %zero, %zero]) {places = [1, 2], method = matrix, vector = 2, shape = [16, 16], layout = local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)} : tile<bf16, [16, 16], register, local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)>
    %b = gpu.read(%bs, [%zero, %zero]) {places = [0, 1], method = matrix-transposed, shape = [16, 8], layout = local(2, 1) * spatial(1, 8) * spatial(4, 1) * local(2, 1)} : tile<bf16, [16, 8], register, local(2, 1) * spatial(1, 8) * spatial(4, 1) * local(2, 1)>
    %padded = gpu.pad(%a, [%rows], %fill) {axes = [0]} : tile<bf16, [16, 16], register, local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)>
    %start = tile.broadcast(%s) {shape = [16, 8]} : tile<f32, [16, 8], register, local(2, 1) * spatial(8, 4) * local(1, 2)>
    %acc = gpu.mma(%padded, %b, %start) {instruction = m16n8k16_bf16_f32} : tile<f32, [16, 8], register, local(2, 1) * spatial(8, 4) * local(1, 2)>
    %narrow = tile.cast(%acc) {dtype = bf16} : tile<bf16, [16, 8], register, local(2, 1) * spatial(8, 4) * local(1, 2)>
    gpu.write(%bs, %narrow, [%zero, %zero]) {places = [0, 1], method = matrix, vector = 2}
    %even = gpu.slice(%acc) {starts = [0, 0], steps = [1, 2], layout = local(2, 1) * spatial(8, 4)} : tile<f32, [16, 4], register, local(2, 1) * spatial(8, 4)>
    %turns = gpu.interleave([%even, %even]) {axis = 1} : tile<f32, [16, 8], register, local(2, 1) * spatial(8, 4) * local(1, 2)>
    %half = gpu.slice(%acc) {starts = [8, 0], layout = spatial(8, 4) * local(1, 2)} : tile<f32, [8, 8], register, spatial(8, 4) * local(1, 2)>
    gpu.store(%z, [%m, %n], %acc, [%rows, %columns]) {axes = [0, 1], masked = [0, 1], checked = [0], vector = 2, ragged = true, alike = true}
  }
  gpu.launch([%M]) {blocks = [64], threads = 64, cluster = 2} body(%first: i64) {
    %count = gpu.arange() {layout = replicate(4) * spatial(16) * replicate(2) * local(4)} : tile<i64, [64], register, replicate(4) * spatial(16) * replicate(2) * local(4)>
    %left = tile.broadcast(%fill) {shape = [16, 64]} : tile<bf16, [16, 64], register, spatial(1, 4) * local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)>
    %right = tile.broadcast(%fill) {shape = [64, 8]} : tile<bf16, [64, 8], register, spatial(4, 8) * local(2, 1) * spatial(4, 1) * local(2, 1)>
    %parts = tile.broadcast(%s) {shape = [64, 8]} : tile<f32, [64, 8], register, spatial(4, 1) * local(2, 1) * spatial(8, 4) * local(1, 2)>
    %grouped = gpu.mma(%left, %right, %parts) {instruction = m16n8k16_bf16_f32, groups = 4} : tile<f32, [64, 8], register, spatial(4, 1) * local(2, 1) * spatial(8, 4) * local(1, 2)>
    %scratch = gpu.buffer() {shape = [64], dtype = u8, layout = rows(0)} : tile<u8, [64], shared, rows(0)>
    %small = tile.cast(%count) {dtype = i32} : tile<i32, [64], register, replicate(4) * spatial(16) * replicate(2) * local(4)>
    %table = gpu.buffer() {shape = [64], dtype = i32, layout = rows(0)} : tile<i32, [64], shared, rows(0)>
    gpu.combine(%table, %count, %small) {fn = add}
    %words = gpu.view(%scratch) {shape = [16, 2, 2], layout = rows(0, 1, 2)} : tile<u8, [16, 2, 2], shared, rows(0, 1, 2)>
    %one = gpu.read(%words, [%zero, %zero, %zero]) {places = [], shape = []} : u8
    %spread = gpu.convert(%count) {layout = replicate(8) * spatial(16) * local(4)} : tile<i64, [64], register, replicate(8) * spatial(16) * local(4)>
    %total = gpu.reduce([%spread], %scratch) {axes = [0], fn = add, keepdims = true} : tile<i64, [1], register, replicate(128) * local(1)>
    %least = gpu.reduce([%spread], %scratch) {axes = [0], fn = custom} : i64 combiner(%p: i64, %q: i64) {
      %less = tile.map([%p, %q]) {fn = minimum} : i64
      tile.yield([%less])
    }
    %sums = gpu.scan([%spread], %scratch) {axis = 0, fn = custom, reverse = true} : tile<i64, [64], register, replicate(8) * spatial(16) * local(4)>
        combiner(%p_1: i64, %q_1: i64) {
      %both = tile.map([%p_1, %q_1]) {fn = add} : i64
      tile.yield([%both])
    }
    %sorted = gpu.sort(%sums, %scratch) {axis = 0} : tile<i64, [64], register, replicate(8) * spatial(16) * local(4)>
    %before = gpu.atomic(%r, [%spread], %sorted, [%least]) {fn = add, axes = [-1], masked = [0], checked = [0]} : tile<i64, [64], register, replicate(8) * spatial(16) * local(4)>
    gpu.barrier() {scope = cluster}
  }
  tile.return([%z])
}
"""

ASYNC = """\
func @gemm(%x: tensor<bf16, [M, K], unit=1>, %w: tensor<bf16, [K, N], unit=1>, %y: tensor<bf16, [M, N], unit=1>) {
  %M = tile.size() {value = M} : i64
  %N = tile.size() {value = N} : i64
  %K = tile.size() {value = K} : i64
  %zero = tile.constant() {value = 0, dtype = i64} : i64
  %one = tile.constant() {value = 1, dtype = i64} : i64
  %two = tile.constant() {value = 2, dtype = i64} : i64
  %four = tile.constant() {value = 4, dtype = i64} : i64
  %depth = tile.constant() {value = 64, dtype = i64} : i64
  %rest = tile.constant() {value = 63, dtype = i64} : i64
  %nothing = tile.constant() {value = 0.0, dtype = f32} : f32
  %whole = tile.map([%K, %rest]) {fn = add} : i64
  %steps = tile.map([%whole, %depth]) {fn = floordiv} : i64
  %end = tile.map([%steps, %four]) {fn = add} : i64
  gpu.launch([%M, %N]) {blocks = [256, 128], threads = 384, cluster = 2, shared_bytes = 166024} body(%m: i64, %n: i64) {
    %a = gpu.buffer() {shape = [4, 128, 64], dtype = bf16, layout = rows(0, 1, 2, swizzle=(3, 4, 3)), offset = 0} : tile<bf16, [4, 128, 64], shared, rows(0, 1, 2, swizzle=(3, 4, 3))>
    %b = gpu.buffer() {shape = [4, 64, 128], dtype = bf16, layout = rows(0, 1, 2, swizzle=(3, 4, 3), panel=64), offset = 65536} : tile<bf16, [4, 64, 128], shared, rows(0, 1, 2, swizzle=(3, 4, 3), panel=64)>
    %c = gpu.buffer() {shape = [128, 128], dtype = bf16, layout = rows(0, 1, swizzle=(3, 4, 3), panel=64), offset = 131072} : tile<bf16, [128, 128], shared, rows(0, 1, swizzle=(3, 4, 3), panel=64)>
    %full = gpu.mbarriers() {count = 4, arrivals = 1, offset = 163840} : tile<u64, [4], shared, rows(0)>
    %empty = gpu.mbarriers() {count = 4, arrivals = 16, offset = 163872} : tile<u64, [4], shared, rows(0)>
    %parts = gpu.buffer() {shape = [2, 8, 32], dtype = f32, layout = rows(0, 1, 2), offset = 163968} : tile<f32, [2, 8, 32], shared, rows(0, 1, 2)>
    %came = gpu.mbarriers() {count = 1, arrivals = 1, offset = 166016} : tile<u64, [1], shared, rows(0)>
    gpu.barrier() {scope = cluster}
    gpu.role() {first = 0, threads = 32, registers = 40} body() {
      gpu.proxy_fence() {scope = global}
      gpu.named_barrier() {id = 2, threads = 288, action = arrive}
      tile.for(%zero, %steps, %one, []) body(%i: i64) {
        %at = tile.map([%i, %depth]) {fn = mul} : i64
        %stage = tile.map([%i, %four]) {fn = mod} : i64
        %round = tile.map([%i, %four]) {fn = floordiv} : i64
        %next = tile.map([%round, %one]) {fn = add} : i64
        %parity = tile.map([%next, %two]) {fn = mod} : i64
        gpu.mbarrier_wait(%empty, %stage, %parity)
        gpu.mbarrier_expect(%full, %stage) {bytes = 32768}
        gpu.tma_load(%x, [%m, %at], %a, [%stage, %zero, %zero], %full, %stage) {axes = [0, 1], places = [1, 2], shape = [256, 64]}
        gpu.tma_load(%w, [%at, %n], %b, [%stage, %zero, %zero], %full, %stage) {axes = [0, 1], places = [1, 2], shape = [64, 128], multicast = true}
      }
      tile.for(%steps, %end, %one, []) body(%i_1: i64) {
        %stage_1 = tile.map([%i_1, %four]) {fn = mod} : i64
        %round_1 = tile.map([%i_1, %four]) {fn = floordiv} : i64
        %next_1 = tile.map([%round_1, %one]) {fn = add} : i64
        %parity_1 = tile.map([%next_1, %two]) {fn = mod} : i64
        gpu.mbarrier_wait(%empty, %stage_1, %parity_1)
      }
    }
    gpu.role() {first = 128, threads = 256, registers = 232} body() {
      gpu.named_barrier() {id = 2, threads = 288}
      %start = tile.broadcast(%nothing) {shape = [256, 128]} : tile<f32, [256, 128], register, local(1, 16) * spatial(16, 1) * local(2, 1) * spatial(8, 4) * local(1, 2)>
      %acc = tile.for(%zero, %steps, %one, [%start]) : tile<f32, [256, 128], register, local(1, 16) * spatial(16, 1) * local(2, 1) * spatial(8, 4) * local(1, 2)>
          body(%i_2: i64, %sum: tile<f32, [256, 128], register, local(1, 16) * spatial(16, 1) * local(2, 1) * spatial(8, 4) * local(1, 2)>) {
        %stage_2 = tile.map([%i_2, %four]) {fn = mod} : i64
        %round_2 = tile.map([%i_2, %four]) {fn = floordiv} : i64
        %more = tile.map([%i_2, %zero]) {fn = gt} : bool
        %parity_2 = tile.map([%round_2, %two]) {fn = mod} : i64
        gpu.mbarrier_wait(%full, %stage_2, %parity_2)
        gpu.wgmma_fence()
        %flying = gpu.wgmma(%a, [%stage_2, %zero, %zero], %b, [%stage_2, %zero, %zero], %sum, %more) {depth = 64, a_axes = [1, 2], b_axes = [1, 2], instruction = m64n128k16_bf16_f32} : tile<f32, [256, 128], register, local(1, 16) * spatial(16, 1) * local(2, 1) * spatial(8, 4) * local(1, 2)>
        gpu.wgmma_commit()
        %landed = gpu.wgmma_wait([%flying]) {groups = 0} : tile<f32, [256, 128], register, local(1, 16) * spatial(16, 1) * local(2, 1) * spatial(8, 4) * local(1, 2)>
        gpu.mbarrier_arrive(%empty, %stage_2) {by = warp, scope = cluster}
        tile.yield([%landed])
      }
      %narrow = tile.cast(%acc) {dtype = bf16} : tile<bf16, [256, 128], register, local(1, 16) * spatial(16, 1) * local(2, 1) * spatial(8, 4) * local(1, 2)>
      gpu.write(%c, %narrow, [%zero, %zero]) {places = [0, 1], method = matrix, vector = 2}
      gpu.proxy_fence()
      gpu.named_barrier() {id = 1, threads = 256}
      gpu.turn() {id = 8, action = begin}
      gpu.turn() {id = 8, action = take}
      gpu.turn() {id = 8, action = pass}
      gpu.turn() {id = 8, action = end}
      gpu.tma_store(%y, [%m, %n], %c, [%zero, %zero]) {axes = [0, 1], places = [0, 1], shape = [256, 128], alike = true}
      gpu.bulk_commit()
      gpu.bulk_wait() {groups = 0, read = true}
      %sums = gpu.reuse(%a) {shape = [2, 16, 32], dtype = f32, layout = rows(0, 1, 2)} : tile<f32, [2, 16, 32], shared, rows(0, 1, 2)>
      gpu.mbarrier_expect(%came, %zero) {bytes = 2048}
      gpu.exchange(%sums, %parts, %came, %zero)
      gpu.mbarrier_wait(%came, %zero, %zero)
    }
  }
  tile.return([])
}
"""

WINDOWS = """\
func @windows(%x: tensor<f16, [N, 5, 6, 64], unit=3>, %y: tensor<f16, [M, 64], unit=1>, %row: i64, %column: i64) {
  %M = tile.size() {value = M} : i64
  %zero = tile.constant() {value = 0, dtype = i64} : i64
  gpu.launch([%M]) {blocks = [64], threads = 32, shared_bytes = 8200} body(%m: i64) {
    %box = gpu.buffer() {shape = [64, 64], dtype = f16, layout = rows(0, 1, swizzle=(3, 4, 3)), offset = 0} : tile<f16, [64, 64], shared, rows(0, 1, swizzle=(3, 4, 3))>
    %full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 8192} : tile<u64, [1], shared, rows(0)>
    gpu.barrier()
    gpu.role() {first = 0, threads = 32} body() {
      %images = tile.constant() {value = 9, dtype = i64} : i64
      %three = tile.constant() {value = 3, dtype = i64} : i64
      %two = tile.constant() {value = 2, dtype = i64} : i64
      %one = tile.constant() {value = 1, dtype = i64} : i64
      %image = tile.map([%m, %images]) {fn = floordiv} : i64
      %lines = tile.map([%m, %three]) {fn = floordiv} : i64
      %line = tile.map([%lines, %three]) {fn = mod} : i64
      %place = tile.map([%m, %three]) {fn = mod} : i64
      %down = tile.map([%line, %two]) {fn = mul} : i64
      %across = tile.map([%place, %two]) {fn = mul} : i64
      %top = tile.map([%down, %one]) {fn = sub} : i64
      %left = tile.map([%across, %one]) {fn = sub} : i64
      gpu.mbarrier_expect(%full, %zero) {bytes = 8192}
      gpu.tma_windows(%x, [%image, %top, %left, %zero], %box, [%zero, %zero], %full, %zero, [%row, %column]) {axes = [-1, -1, 0, 1], places = [0, 1], shape = [64, 64], multicast = true, pixels = [0, 1, 2], positions = [3, 3], strides = [2, 2], lows = [-1, -1]}
      gpu.mbarrier_wait(%full, %zero, %zero)
      gpu.tma_store(%y, [%m, %zero], %box, [%zero, %zero]) {axes = [0, 1], places = [0, 1], shape = [64, 64]}
      gpu.bulk_commit()
      gpu.bulk_wait() {groups = 0}
    }
  }
  tile.return([])
}
"""
