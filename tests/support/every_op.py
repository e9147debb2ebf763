"""One example of every declared op, with all of its fields, in the very words of the printer."""

from __future__ import annotations

TILE = """\
func @tile(%x: tensor<f32, [M, N], unit=1>, %h: tensor<i32, [N]>, %s: f32, %flag: bool, %seed: u64) facts [M % 4 == 0] {
  %one = tile.constant() {value = 1, dtype = i64} : i64
  %M = tile.size() {value = M} : i64
  %N = tile.size() {value = N} : i64
  %y = tile.empty(%s) {shape = [M, N], dtype = f32} : tensor<f32, [M, N], unit=1>
  %z = tile.empty() {shape = [2 * M + 1], dtype = bf16, scratch = true} : tensor<bf16, [2 * M + 1], unit=0>
  tile.print([%M, %s]) {text = "M and \\"s\\""}
  tile.assert(%flag) {text = "flag"}
  tile.grid([%M, %N]) {blocks = [auto, upto(16, 4)]} body(%m: axis<m>, %n: axis<n>) {
    %i = tile.index(%m) : tile<i64, [m]>
    %first = tile.start(%m) : i64
    %count = tile.extent(%m) : i64
    %next = tile.shift(%m, %one) : axis<m>
    %a = tile.load(%x, [%next, 0:min(4, N)], %s) {in_bounds = [1]} : tile<f32, [m, min(4, N)]>
    %b = tile.load(%x, [%i, :]) : tile<f32, [m, N]>
    %t = tile.load(%x, [%m, %n]) {in_bounds = [0, 1]} : tile<f32, [m, n]>
    %negative = tile.map([%t]) {fn = neg} : tile<f32, [m, n]>
    %half = tile.cast(%t) {dtype = f16} : tile<f16, [m, n]>
    %column = tile.reshape(%i) {shape = [m, 1]} : tile<i64, [m, 1]>
    %wide = tile.broadcast(%column) {shape = [m, n]} : tile<i64, [m, n]>
    %turned = tile.transpose(%t) {permutation = [1, 0]} : tile<f32, [n, m]>
    %sides = tile.stack([%t, %negative]) {axis = 1} : tile<f32, [m, 2, n]>
    %part = tile.extract(%b, [:, 0:min(2, N)]) : tile<f32, [m, min(2, N)]>
    %places = tile.arange() {extent = N} : tile<i64, [N]>
    %dot = tile.dot(%turned, %b) {dtype = f32, precision = tf32} : tile<f32, [n, N]>
    %more = tile.dot(%turned, %b, %dot) {dtype = f32} : tile<f32, [n, N]>
    %top = tile.reduce([%b]) {axes = [1], fn = max, keepdims = true} : tile<f32, [m, 1]>
    %sum, %sums = tile.reduce([%b, %b]) {axes = [1], fn = custom} : tile<f32, [m]>, tile<f32, [m]>
        combiner(%p: f32, %q: f32, %u: f32, %v: f32) {
      %pu = tile.map([%p, %u]) {fn = add} : f32
      %qv = tile.map([%q, %v]) {fn = maximum} : f32
      tile.yield([%pu, %qv])
    }
    %running = tile.scan([%b]) {axis = 1, fn = add, reverse = true} : tile<f32, [m, N]>
    %ordered = tile.sort(%wide) {axis = 1} : tile<i64, [m, n]>
    %noise = tile.random(%seed, %wide) {fn = uniform} : tile<f32, [m, n]>
    %ones = tile.cast(%places) {dtype = i32} : tile<i32, [N]>
    %before = tile.atomic(%h, [:], %ones) {fn = add, in_bounds = [0]} : tile<i32, [N]>
    %total = tile.range(%one, %N, [%s]) {blocks = [64], num_stages = 3} : f32 body(%k: axis<k>, %carried: f32) {
      tile.yield([%carried])
    }
    %product = tile.for(%one, %N, %one, [%s]) : f32 body(%j: i64, %carried_1: f32) {
      tile.yield([%carried_1])
    }
    %last = tile.while([%one]) : i64 condition(%c: i64) {
      tile.yield([%flag])
    } body(%d: i64) {
      tile.yield([%d])
    }
    %chosen = tile.if(%flag) {rare = true} : f32 then() {
      tile.yield([%total])
    } otherwise() {
      tile.yield([%product])
    }
    tile.store(%y, [%m, %n], %noise) {in_bounds = [0, 1]}
  }
  tile.return([%y, %z])
}
"""

GRAPH = """\
func @graph(%x: tensor<f32, [M, N], unit=1>, %y: tensor<f32, [N, K]>, %i: tensor<i64, [K]>) {
  %scale = graph.constant() {value = 0.5, dtype = f32} : tensor<f32, []>
  %N = graph.size() {value = N} : tensor<i64, []>
  %rows = graph.iota() {shape = [M, N], axis = 0} : tensor<i64, [M, N]>
  %scaled = graph.map([%x, %scale]) {fn = mul} : tensor<f32, [M, N]>
  %narrow = graph.cast(%scaled) {dtype = bf16} : tensor<bf16, [M, N]>
  %top = graph.reduce(%x) {axes = [1], fn = max, keepdims = true} : tensor<f32, [M, 1]>
  %xy = graph.contract(%x, %y) {axes = "m n, n k -> k m", dtype = f32, precision = tf32} : tensor<f32, [K, M]>
  %planes = graph.broadcast(%narrow) {shape = [3, M, N]} : tensor<bf16, [3, M, N]>
  %xx = graph.contract(%planes, %planes, %x, %x) {axes = "p m n, q k n -> m k", dtype = f32, precision = planes} \
: tensor<f32, [M, M]>
  %turned = graph.transpose(%xy) {permutation = [1, 0]} : tensor<f32, [M, K]>
  %flat = graph.reshape(%turned) {shape = [K * M]} : tensor<f32, [K * M]>
  %tops = graph.broadcast(%top) {shape = [M, N]} : tensor<f32, [M, N]>
  %even = graph.slice(%tops) {starts = [0, 0], stops = [M, 2 * (N // 2)], steps = [1, 2]} : tensor<f32, [M, N // 2]>
  %padded = graph.pad(%even) {low = [0, 1], high = [M, 0], value = -inf} : tensor<f32, [2 * M, (N // 2) + 1]>
  %twice = graph.concat([%padded, %padded]) {axis = 0} : tensor<f32, [4 * M, (N // 2) + 1]>
  %turns = graph.interleave([%padded, %padded]) {axis = 1} : tensor<f32, [2 * M, 2 * (N // 2) + 2]>
  %windows = graph.window(%x) {axes = [1], sizes = [3], strides = [1], dilations = [2]} : tensor<f32, [M, N - 4, 3]>
  %taken = graph.gather(%y, %i) {axis = 0} : tensor<f32, [K, K]>
  %running = graph.scan(%x) {axis = 1, fn = add, reverse = true} : tensor<f32, [M, N]>
  %drawn = graph.random(%N, %rows) {fn = uniform} : tensor<f32, [M, N]>
  %called = graph.call([%x]) {callee = other} : tensor<f32, [M, N]>
  %either = graph.serial([%called], [%x]) {callee = other, on_gpus = true} : tensor<f32, [M, N]>
  %last, %stacked = graph.loop([%scale], [%x], [%N]) {callee = step, count = M, reverse = true} \
: tensor<f32, []>, tensor<f32, [M, N]>
  graph.return([%narrow, %flat, %twice, %windows, %taken, %either, %rows, %N, %running, %drawn, %last, %stacked])
}

func @other(%x: tensor<f32, [A, B]>) {
  tile.return([%x])
}

func @step(%c: tensor<f32, []>, %row: tensor<f32, [N]>, %n: tensor<i64, []>) {
  %next = graph.map([%c, %c]) {fn = mul} : tensor<f32, []>
  graph.return([%next, %row])
}
"""
