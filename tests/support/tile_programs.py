"""TILE programs as text, and running text in the reference executor."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from tiledsl.backend_ref.arguments import Argument
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.backend_ref.execution import BlockChooser
from tiledsl.ir.core import Op
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.types import BlockSize


def run(
    text: str,
    *arguments: Argument,
    block: int | None = None,
    order: random.Random | None = None,
    output: Callable[[str], None] = print,
) -> tuple[npt.NDArray[Any], ...]:
    """Runs the first function of `text`; `block` is the size of every block that is `auto`."""
    entry = parse_module(text).entry
    return execute(entry, arguments, blocks=None if block is None else _always(block), order=order, output=output)


def _always(block: int) -> BlockChooser:
    def choose(op: Op, axis: int, size: BlockSize) -> int:
        del op, axis, size
        return block

    return choose


GEMM = """
func @gemm(%a: tensor<f32, [M, K], unit=1>, %b: tensor<f32, [K, N], unit=1>) {
  %c = tile.empty() {shape = [M, N], dtype = f32}
  %M = tile.size() {value = M}
  %N = tile.size() {value = N}
  tile.grid([%M, %N]) {blocks = [auto, auto]} body(%m: axis<m>, %n: axis<n>) {
    %zero = tile.constant() {value = 0.0, dtype = f32}
    %acc = tile.broadcast(%zero) {shape = [m, n]}
    %start = tile.constant() {value = 0, dtype = i64}
    %K = tile.size() {value = K}
    %total = tile.range(%start, %K, [%acc]) {blocks = [auto]} body(%k: axis<k>, %partial: tile<f32, [m, n]>) {
      %at = tile.load(%a, [%m, %k])
      %bt = tile.load(%b, [%k, %n])
      %next = tile.dot(%at, %bt, %partial) {dtype = f32}
      tile.yield([%next])
    }
    tile.store(%c, [%m, %n], %total)
  }
  tile.return([%c])
}
"""

SOFTMAX = """
func @softmax(%x: tensor<f32, [M, N], unit=1>) {
  %y = tile.empty() {shape = [M, N], dtype = f32}
  %M = tile.size() {value = M}
  tile.grid([%M]) {blocks = [auto]} body(%m: axis<m>) {
    %row = tile.load(%x, [%m, :])
    %top = tile.reduce([%row]) {axes = [1], fn = max, keepdims = true}
    %tops = tile.broadcast(%top) {shape = [m, N]}
    %lowered = tile.map([%row, %tops]) {fn = sub}
    %e = tile.map([%lowered]) {fn = exp}
    %sum = tile.reduce([%e]) {axes = [1], fn = add, keepdims = true}
    %sums = tile.broadcast(%sum) {shape = [m, N]}
    %result = tile.map([%e, %sums]) {fn = div}
    tile.store(%y, [%m, :], %result)
  }
  tile.return([%y])
}
"""

# One row per program; the row is streamed twice, in blocks.
LAYER_NORM = """
func @layer_norm(%x: tensor<f16, [M, N], unit=1>, %weight: tensor<f32, [N]>, %bias: tensor<f32, [N]>, %eps: f32) {
  %y = tile.empty() {shape = [M, N], dtype = f16}
  %M = tile.size() {value = M}
  tile.grid([%M]) {blocks = [1]} body(%i: i64) {
    %zero = tile.constant() {value = 0.0, dtype = f32}
    %start = tile.constant() {value = 0, dtype = i64}
    %N = tile.size() {value = N}
    %count = tile.cast(%N) {dtype = f32}
    %sum, %squares = tile.range(%start, %N, [%zero, %zero]) {blocks = [auto]} body(%n: axis<n>, %s: f32, %q: f32) {
      %part = tile.load(%x, [%i, %n])
      %wide = tile.cast(%part) {dtype = f32}
      %ds = tile.reduce([%wide]) {axes = [0], fn = add}
      %square = tile.map([%wide, %wide]) {fn = mul}
      %dq = tile.reduce([%square]) {axes = [0], fn = add}
      %s1 = tile.map([%s, %ds]) {fn = add}
      %q1 = tile.map([%q, %dq]) {fn = add}
      tile.yield([%s1, %q1])
    }
    %mean = tile.map([%sum, %count]) {fn = div}
    %moment = tile.map([%squares, %count]) {fn = div}
    %mean2 = tile.map([%mean, %mean]) {fn = mul}
    %variance = tile.map([%moment, %mean2]) {fn = sub}
    %guarded = tile.map([%variance, %eps]) {fn = add}
    %scale = tile.map([%guarded]) {fn = rsqrt}
    tile.range(%start, %N, []) {blocks = [auto]} body(%k: axis<k>) {
      %part = tile.load(%x, [%i, %k])
      %w = tile.load(%weight, [%k])
      %b = tile.load(%bias, [%k])
      %wide = tile.cast(%part) {dtype = f32}
      %centred = tile.map([%wide, %mean]) {fn = sub}
      %unit = tile.map([%centred, %scale]) {fn = mul}
      %result = tile.map([%unit, %w, %b]) {fn = fma}
      %narrow = tile.cast(%result) {dtype = f16}
      tile.store(%y, [%i, %k], %narrow)
      tile.yield([])
    }
  }
  tile.return([%y])
}
"""

# The online softmax: the running maximum, sum and output of a block of queries are rescaled at each block of keys.
ATTENTION = """
func @attention(%q: tensor<f32, [H, Q, D]>, %k: tensor<f32, [H, S, D]>, %v: tensor<f32, [H, S, D]>,
                %scale: f32, %causal: bool) {
  %o = tile.empty() {shape = [H, Q, D], dtype = f32}
  %H = tile.size() {value = H}
  %Q = tile.size() {value = Q}
  %S = tile.size() {value = S}
  tile.grid([%H, %Q]) {blocks = [1, auto]} body(%h: i64, %m: axis<m>) {
    %qt = tile.load(%q, [%h, %m, :])
    %low = tile.constant() {value = -inf, dtype = f32}
    %zero = tile.constant() {value = 0.0, dtype = f32}
    %top = tile.broadcast(%low) {shape = [m, 1]}
    %sum = tile.broadcast(%zero) {shape = [m, 1]}
    %acc = tile.broadcast(%zero) {shape = [m, D]}
    %start = tile.constant() {value = 0, dtype = i64}
    %top_s, %sum_s, %acc_s = tile.range(%start, %S, [%top, %sum, %acc]) {blocks = [auto]}
        body(%n: axis<n>, %t: tile<f32, [m, 1]>, %l: tile<f32, [m, 1]>, %a: tile<f32, [m, D]>) {
      %kt = tile.load(%k, [%h, %n, :])
      %vt = tile.load(%v, [%h, %n, :])
      %k_t = tile.transpose(%kt) {permutation = [1, 0]}
      %s = tile.dot(%qt, %k_t) {dtype = f32}
      %scaled = tile.map([%s, %scale]) {fn = mul}
      %i = tile.index(%m)
      %i_column = tile.reshape(%i) {shape = [m, 1]}
      %i_all = tile.broadcast(%i_column) {shape = [m, n]}
      %j = tile.index(%n)
      %j_all = tile.broadcast(%j) {shape = [m, n]}
      %past = tile.map([%j_all, %i_all]) {fn = le}
      %full = tile.map([%causal]) {fn = not}
      %seen = tile.map([%past, %full]) {fn = or}
      %masked = tile.map([%seen, %scaled, %low]) {fn = where}
      %high = tile.reduce([%masked]) {axes = [1], fn = max, keepdims = true}
      %t1 = tile.map([%t, %high]) {fn = maximum}
      %drop = tile.map([%t, %t1]) {fn = sub}
      %decay = tile.map([%drop]) {fn = exp}
      %t_all = tile.broadcast(%t1) {shape = [m, n]}
      %lowered = tile.map([%masked, %t_all]) {fn = sub}
      %p = tile.map([%lowered]) {fn = exp}
      %dl = tile.reduce([%p]) {axes = [1], fn = add, keepdims = true}
      %l1 = tile.map([%l, %decay, %dl]) {fn = fma}
      %decays = tile.broadcast(%decay) {shape = [m, D]}
      %a_old = tile.map([%a, %decays]) {fn = mul}
      %a1 = tile.dot(%p, %vt, %a_old) {dtype = f32}
      tile.yield([%t1, %l1, %a1])
    }
    %sums = tile.broadcast(%sum_s) {shape = [m, D]}
    %result = tile.map([%acc_s, %sums]) {fn = div}
    tile.store(%o, [%h, %m, :], %result)
  }
  tile.return([%o])
}
"""

RANDOM = """
func @random(%seed: i64, %like: tensor<f32, [M, N]>) {
  %u = tile.empty() {shape = [M, N], dtype = f32}
  %M = tile.size() {value = M}
  %N = tile.size() {value = N}
  tile.grid([%M, %N]) {blocks = [auto, auto]} body(%m: axis<m>, %n: axis<n>) {
    %i = tile.index(%m)
    %column = tile.reshape(%i) {shape = [m, 1]}
    %i_all = tile.broadcast(%column) {shape = [m, n]}
    %j = tile.index(%n)
    %j_all = tile.broadcast(%j) {shape = [m, n]}
    %row = tile.map([%i_all, %N]) {fn = mul}
    %offsets = tile.map([%row, %j_all]) {fn = add}
    %x = tile.random(%seed, %offsets) {fn = normal}
    tile.store(%u, [%m, %n], %x)
  }
  tile.return([%u])
}
"""
