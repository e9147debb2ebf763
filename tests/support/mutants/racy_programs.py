"""Programs in text whose threads race."""

from __future__ import annotations

RACE = """
func @f(%x: tensor<f32, [32], unit=0>) {
  %one = tile.constant() {value = 1, dtype = i64}
  %zero = tile.constant() {value = 0, dtype = i64}
  gpu.launch([%one]) {blocks = [1], threads = 32, shared_bytes = 128} body(%p: i64) {
    %s = gpu.buffer() {shape = [32], dtype = f32, layout = rows(0), offset = 0}
    %t = gpu.load(%x, [%zero], []) {axes = [0], shape = [32], layout = spatial(32)}
    gpu.write(%s, %t, [%zero]) {places = [0]}
    %u = gpu.read(%s, [%zero]) {places = [0], shape = [32], layout = replicate(32) * local(32)}
  }
  tile.return([])
}
"""
"""Each thread writes its element to shared memory, and reads all of them without a barrier."""
