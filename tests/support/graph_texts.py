"""Lowered graphs, as text: what modules are made from."""

from __future__ import annotations

LINEAR = """
func @model(%x: tensor<f32, [5, 8]>, %w: tensor<f32, [8, 6]>, %b: tensor<f32, [6]>) {
  %h = graph.call([%x, %w, %b]) {callee = linear} : tensor<f32, [5, 6]>
  graph.return([%h])
}
func @linear(%x: tensor<f32, [M, K], unit=1>, %w: tensor<f32, [K, N], unit=1>, %b: tensor<f32, [N], unit=0>) {
  %y = tile.empty() {shape = [M, N], dtype = f32}
  %M = tile.size() {value = M}
  %N = tile.size() {value = N}
  tile.grid([%M, %N]) {blocks = [auto, auto]} body(%m: axis<m>, %n: axis<n>) {
    %zero = tile.constant() {value = 0.0, dtype = f32}
    %none = tile.broadcast(%zero) {shape = [m, n]}
    %start = tile.constant() {value = 0, dtype = i64}
    %K = tile.size() {value = K}
    %sum = tile.range(%start, %K, [%none]) {blocks = [auto]} : tile<f32, [m, n]>
        body(%k: axis<k>, %acc: tile<f32, [m, n]>) {
      %xt = tile.load(%x, [%m, %k])
      %wt = tile.load(%w, [%k, %n])
      %next = tile.dot(%xt, %wt, %acc) {dtype = f32}
      tile.yield([%next])
    }
    %bt = tile.load(%b, [%n])
    %bias = tile.broadcast(%bt) {shape = [m, n]}
    %out = tile.map([%sum, %bias]) {fn = add}
    tile.store(%y, [%m, %n], %out)
  }
  tile.return([%y])
}
"""
"""x @ w + b"""

CALLEES = """
func @double(%x: tensor<f32, [A, B]>) {
  %y = tile.empty() {shape = [B, A], dtype = f32}
  %A = tile.size() {value = A}
  %B = tile.size() {value = B}
  tile.grid([%A, %B]) {blocks = [auto, 1]} body(%a: axis<a>, %b: i64) {
    %t = tile.load(%x, [%a, %b])
    %r = tile.map([%t, %t]) {fn = add}
    tile.store(%y, [%b, %a], %r)
  }
  tile.return([%y])
}
func @add(%x: tensor<f32, [A, B]>, %z: tensor<f32, [A, B]>) {
  %y = tile.empty() {shape = [A, B], dtype = f32}
  %A = tile.size() {value = A}
  %B = tile.size() {value = B}
  tile.grid([%A, %B]) {blocks = [auto, auto]} body(%a: axis<a>, %b: axis<b>) {
    %t = tile.load(%x, [%a, %b])
    %u = tile.load(%z, [%a, %b])
    %r = tile.map([%t, %u]) {fn = add}
    tile.store(%y, [%a, %b], %r)
  }
  tile.return([%y])
}
func @shift(%x: tensor<f32, [A, B], unit=1>, %by: f32) {
  %y = tile.empty() {shape = [A, B], dtype = f32}
  %A = tile.size() {value = A}
  %B = tile.size() {value = B}
  tile.grid([%A, %B]) {blocks = [auto, auto]} body(%a: axis<a>, %b: axis<b>) {
    %t = tile.load(%x, [%a, %b])
    %s = tile.broadcast(%by) {shape = [a, b]}
    %r = tile.map([%t, %s]) {fn = add}
    tile.store(%y, [%a, %b], %r)
  }
  tile.return([%y])
}
func @parts(%x: tensor<f32, [A, B]>, %limit: tensor<f32, []>) {
  %high = tile.empty() {shape = [A, B], dtype = f32}
  %beside = tile.empty() {shape = [A, B], dtype = f32}
  %low = tile.empty() {shape = [A, B], dtype = f32}
  %A = tile.size() {value = A}
  %B = tile.size() {value = B}
  tile.grid([%A, %B]) {blocks = [auto, auto]} body(%a: axis<a>, %b: axis<b>) {
    %t = tile.load(%x, [%a, %b])
    %limit_1 = tile.load(%limit, [])
    %s = tile.broadcast(%limit_1) {shape = [a, b]}
    %h = tile.map([%t, %s]) {fn = maximum}
    %l = tile.map([%t, %s]) {fn = minimum}
    tile.store(%high, [%a, %b], %h)
    tile.store(%beside, [%a, %b], %s)
    tile.store(%low, [%a, %b], %l)
  }
  tile.return([%low, %high])
}
func @accumulate(%total: tensor<f32, [A, B]>, %x: tensor<f32, [A, B]>) {
  %A = tile.size() {value = A}
  %B = tile.size() {value = B}
  tile.grid([%A, %B]) {blocks = [auto, auto]} body(%a: axis<a>, %b: axis<b>) {
    %t = tile.load(%total, [%a, %b])
    %u = tile.load(%x, [%a, %b])
    %r = tile.map([%t, %u]) {fn = add}
    tile.store(%total, [%a, %b], %r)
  }
  tile.return([%total])
}
"""
"""Tile programs that graphs call: a transpose, a sum, one that takes a number and contiguous rows, one that gives two
tensors (in another order than it makes them), and one that writes to its parameter."""

VIEWS = (
    """
func @model(%x: tensor<f32, [4, 6]>, %y: tensor<f32, [6, 4]>) {
  %t = graph.transpose(%y) {permutation = [1, 0]}
  %sum = graph.call([%x, %t]) {callee = add} : tensor<f32, [4, 6]>
  %cut = graph.slice(%sum) {starts = [1, 0], stops = [4, 6], steps = [2, 1]}
  %two = graph.constant() {value = 2.0, dtype = f32}
  %far = graph.call([%cut, %two]) {callee = shift} : tensor<f32, [2, 6]>
  %flat = graph.reshape(%far) {shape = [12]}
  %row = graph.slice(%sum) {starts = [0, 0], stops = [1, 6], steps = [1, 1]}
  %rows = graph.broadcast(%row) {shape = [2, 6]}
  %low, %high = graph.call([%rows, %two]) {callee = parts} : tensor<f32, [2, 6]>, tensor<f32, [2, 6]>
  %more = graph.call([%far, %high]) {callee = accumulate} : tensor<f32, [2, 6]>
  graph.return([%flat, %low, %more, %x, %t, %flat])
}
"""
    + CALLEES
)
"""Views of inputs and of what is in between; outputs that are views, inputs, and one twice."""
