"""One example of every op of the GPU vocabulary, with all of its fields, in the very words of the printer."""

# ruff: noqa: E501 -- the printer does not break lines

from __future__ import annotations

GPU = """\
func @gpu(%x: tensor<bf16, [M, 16], unit=1>, %y: tensor<bf16, [16, N]>, %r: tensor<i64, [M]>, %fill: bf16, %s: f32) {
  %z = tile.empty() {shape = [M, N], dtype = f32} : tensor<f32, [M, N], unit=1>
  %M = tile.size() {value = M} : i64
  %N = tile.size() {value = N} : i64
  %zero = tile.constant() {value = 0, dtype = i64} : i64
  gpu.launch([%M, %N]) {blocks = [16, 8], threads = 32, raster = 4, shared_bytes = 2048} body(%m: i64, %n: i64) {
    %rows = tile.map([%M, %m]) {fn = sub} : i64
    %columns = tile.map([%N, %n]) {fn = sub} : i64
    %stages = gpu.buffer() {shape = [2, 16, 16], dtype = bf16, layout = rows(0, 1, 2, swizzle=(1, 4, 3)), offset = 0} : tile<bf16, [2, 16, 16], shared, rows(0, 1, 2, swizzle=(1, 4, 3))>
    %bs = gpu.buffer() {shape = [16, 8], dtype = bf16, layout = rows(0, 1, padding=8), offset = 1024} : tile<bf16, [16, 8], shared, rows(0, 1, padding=8)>
    gpu.copy(%x, [%m, %zero], [%rows], %stages, [%zero, %zero, %zero]) {axes = [0, 1], masked = [0], checked = [0], places = [1, 2], vector = 8, shape = [16, 16], layout = spatial(16, 2) * local(1, 8), apart = true}
    gpu.commit()
    %row = gpu.load(%r, [%m], [%rows], %zero) {axes = [0], masked = [0], checked = [0], vector = 2, shape = [16], layout = spatial(8) * replicate(4) * local(2)} : tile<i64, [16], register, spatial(8) * replicate(4) * local(2)>
    %bl = gpu.load(%y, [%zero, %n], [%columns], %fill) {axes = [0, 1], masked = [1], checked = [1], vector = 4, shape = [16, 8], layout = spatial(16, 2) * local(1, 4)} : tile<bf16, [16, 8], register, spatial(16, 2) * local(1, 4)>
    gpu.write(%bs, %bl, [%zero, %zero]) {places = [0, 1], vector = 4}
    gpu.wait() {groups = 1}
    gpu.barrier()
    %a = gpu.read(%stages, [%zero, %zero, %zero]) {places = [1, 2], method = matrix, vector = 2, shape = [16, 16], layout = local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)} : tile<bf16, [16, 16], register, local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)>
    %b = gpu.read(%bs, [%zero, %zero]) {places = [0, 1], method = matrix-transposed, shape = [16, 8], layout = local(2, 1) * spatial(1, 8) * spatial(4, 1) * local(2, 1)} : tile<bf16, [16, 8], register, local(2, 1) * spatial(1, 8) * spatial(4, 1) * local(2, 1)>
    %padded = gpu.pad(%a, [%rows], %fill) {axes = [0]} : tile<bf16, [16, 16], register, local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)>
    %start = tile.broadcast(%s) {shape = [16, 8]} : tile<f32, [16, 8], register, local(2, 1) * spatial(8, 4) * local(1, 2)>
    %acc = gpu.mma(%padded, %b, %start) {instruction = m16n8k16_bf16_f32} : tile<f32, [16, 8], register, local(2, 1) * spatial(8, 4) * local(1, 2)>
    %narrow = tile.cast(%acc) {dtype = bf16} : tile<bf16, [16, 8], register, local(2, 1) * spatial(8, 4) * local(1, 2)>
    gpu.write(%bs, %narrow, [%zero, %zero]) {places = [0, 1], method = matrix, vector = 2}
    %half = gpu.slice(%acc) {starts = [8, 0], layout = spatial(8, 4) * local(1, 2)} : tile<f32, [8, 8], register, spatial(8, 4) * local(1, 2)>
    gpu.store(%z, [%m, %n], %acc, [%rows, %columns]) {axes = [0, 1], masked = [0, 1], checked = [0], vector = 2}
  }
  gpu.launch([%M]) {blocks = [64], threads = 64, cluster = 2} body(%first: i64) {
    %count = gpu.arange() {layout = replicate(4) * spatial(16) * replicate(2) * local(4)} : tile<i64, [64], register, replicate(4) * spatial(16) * replicate(2) * local(4)>
    %scratch = gpu.buffer() {shape = [64], dtype = u8, layout = rows(0)} : tile<u8, [64], shared, rows(0)>
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
    %before = gpu.atomic(%r, [%spread], %sums, [%least]) {fn = add, axes = [-1], masked = [0], checked = [0]} : tile<i64, [64], register, replicate(8) * spatial(16) * local(4)>
    gpu.barrier() {scope = cluster}
  }
  tile.return([%z])
}
"""
