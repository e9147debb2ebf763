"""One case for each message of `support/catalogue/passes.py`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.gpu_code.gpu_texts import launch_text, run_pass
from tests.support.pass_runs import run_passes
from tiledsl import tile
from tiledsl.api.pages.audit import audited_machine
from tiledsl.cli.commands.opt import read_text
from tiledsl.ir.core import Block, Function, Module
from tiledsl.ir.dtypes import f32
from tiledsl.ir.tile_ops import Load, Return
from tiledsl.ir.types import TensorType, TileType
from tiledsl.passes.gpu.sync.allocate_shared import AllocateShared
from tiledsl.passes.gpu.sync.insert_barriers import InsertBarriers
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.manager import PassManager
from tiledsl.passes.pipeline_text import parse_pipeline
from tiledsl.passes.tile.place_levels import PlaceLevels
from tiledsl.support.catalogue.passes import ENTRIES
from tiledsl.support.errors import TileError
from tiledsl.support.location import Location

COPY = """
func @copy(%a: tensor<f32, [M]>, %b: tensor<f32, [N]>) facts [M % 16 == 0] {
  %M = tile.size() {value = M}
  tile.grid([%M]) {blocks = [auto]} body(%m: axis<m>) {
    %x = tile.load(%a, [%m])
    tile.store(%b, [%m], %x)
  }
  tile.return([])
}
"""
WINDOW = """
func @window(%a: tensor<f32, [M]>) {
  %x = tile.load(%a, [2:M])
  tile.print([%x])
  tile.return([])
}
"""


def scalar_with_level() -> object:
    body = Block([(TensorType(f32, ()), "a")])
    types = [TileType(f32, (), "shared")]
    body.append(Load(Location("kernel.py", 3), tensor=body.arguments[0], indices=(), types=types, result_names=["x"]))
    body.append(Return(Location("kernel.py", 4)))
    return PassManager([PlaceLevels()]).run(Module([Function("f", body, [], Location("kernel.py", 1))]))


STAGED = """
%n = tile.constant() {value = 0, dtype = i64}
%p = gpu.buffer() {shape = [4, 4096], dtype = f32, layout = rows(0, 1)}
%q = gpu.buffer() {shape = [1024], dtype = f32, layout = rows(0)}
gpu.copy(%b, [%m], [], %p, [%n, %n]) {axes = [0], places = [1], vector = 4, shape = [4096],
  layout = spatial(64) * local(64)}
gpu.write(%q, %x, [%n]) {places = [0]}
"""


def reshaped_in_clusters() -> object:
    """Half a row lies in another block than its other half."""
    text = """
      func @f(%x: tensor<f32, [M, 32768], unit=1>) {
        %out = tile.empty() {shape = [M, 2, 16384], dtype = f32}
        %M = tile.size() {value = M}
        tile.grid([%M]) {blocks = [1]} body(%m: axis<m>) {
          %row = tile.load(%x, [%m, :])
          %halves = tile.reshape(%row) {shape = [m, 2, 16384]}
          tile.store(%out, [%m, :, :], %halves)
        }
        tile.return([%out])
      }"""
    plan = "m=1, 256 threads x 8"
    return run_passes(f'infer-shapes,place-levels,apply-plan{{plan="{plan}"}},lower-to-gpu{{plan="{plan}"}}', text)


@tile.kernel
def many_products(a: tile.Tensor, b: tile.Tensor) -> tile.Tensor:
    """A block of batches for each program."""
    B, M, _ = a.shape
    B, _, N = b.shape
    out = tile.empty((B, M, N), a.dtype)
    for batch in tile.grid(B, block=512):
        out[batch, :, :] = tile.dot(a[batch, :, :], b[batch, :, :])
    return out


REREAD = """
%y = gpu.load(%a, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}
gpu.store(%b, [%m], %y, []) {axes = [0]}
%z = gpu.load(%b, [%32], []) {axes = [0], shape = [64], layout = spatial(64)}
"""
ALL_NUMBERS = "\n".join(f"gpu.named_barrier() {{id = {number}, threads = 96}}" for number in range(1, 16))
EXCHANGE = """
%y = gpu.load(%a, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}
gpu.write(%s, %y, [%0]) {places = [0]}
%z = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = spatial(32) * local(2)}
"""


def in_role(body: str) -> str:
    return f"gpu.role() {{first = 0, threads = 64}} body() {{\n{body}\n}}"


CASES: dict[str, Callable[[], object]] = {
    "pass-unknown": lambda: parse_pipeline("cse,canonicalize"),
    "pass-option-unknown": lambda: parse_pipeline("infer-tiling{arc=cpu}"),
    "pass-option-value": lambda: parse_pipeline("infer-shapes{M=1.5}"),
    "pass-option-twice": lambda: parse_pipeline("infer-shapes{M=16,M=32}"),
    "pass-option-missing": lambda: parse_pipeline("cse,apply-plan"),
    "pass-text": lambda: parse_pipeline("cse dce"),
    "pass-form": lambda: run_passes("cse,infer-tiling", COPY),
    "pass-size-unknown": lambda: run_passes("infer-shapes{K=16}", COPY),
    "pass-size-contradiction": lambda: run_passes("infer-shapes{M=40}", COPY),
    "pass-size-negative": lambda: run_passes("infer-shapes{M=1}", WINDOW),
    "machine-unknown": lambda: run_passes("place-levels,infer-tiling{arch=avx3}", COPY),
    "plan-incomplete": lambda: run_passes('place-levels,lower-to-gpu{plan="64 threads"}', COPY),
    "plan-cluster": reshaped_in_clusters,
    "plan-batches": lambda: many_products.compile(*[tile.spec((512, 32, 32), tile.f16)] * 2, arch="sm_90").cubin,
    "plan-specialised": lambda: run_passes(
        'place-levels,apply-plan{plan="m=16, 128 threads, cooperative"},'
        'lower-to-gpu{plan="m=16, 128 threads, cooperative"}',
        COPY,
    ),
    "audit-target": lambda: audited_machine("softmax", "reference"),
    "gpu-unknown": lambda: gpu_machine("sm_87", Location("kernel.py", 2)),
    "gpu-too-old": lambda: gpu_machine("sm_75", Location("kernel.py", 2)),
    "opt-file": lambda: read_text("no/such/file.tir"),
    "pass-level-scalar": scalar_with_level,
    "shared-too-much": lambda: run_pass(AllocateShared(limit=60000, arch="sm_80"), launch_text(STAGED)),
    "barrier-cluster-role": lambda: run_pass(InsertBarriers(), launch_text(in_role(REREAD), cluster=2)),
    "barrier-numbers": lambda: run_pass(InsertBarriers(), launch_text(in_role(ALL_NUMBERS + EXCHANGE), threads=128)),
}
MESSAGES: dict[str, str] = {
    "pass-unknown": "there is no pass `canonicalize`",
    "pass-option-unknown": "the pass `infer-tiling` has no option `arc`",
    "pass-option-value": "option `M` of the pass `infer-shapes` must be a number or another size, not `1.5`",
    "pass-option-twice": "option `M` of the pass `infer-shapes` is given twice",
    "pass-option-missing": "the pass `apply-plan` needs the option `plan`",
    "pass-text": "expected `,` or `{`, found `dce`",
    "pass-form": "the pass `infer-tiling` needs the form `tile-placed`, but finds `tile`",
    "pass-size-unknown": "@copy has no size `K`",
    "pass-size-contradiction": "@copy promises M % 16 == 0, but M is 40",
    "pass-size-negative": "with M = 1, %x would have the shape [-1]",
    "machine-unknown": "there is no machine table `avx3`",
    "plan-incomplete": "the plan says nothing of the size of block `m`",
    "plan-cluster": (
        "a row of 32768 elements is too long for one block of threads, and a reshape cannot be shared out over several"
    ),
    "plan-batches": "`tile.dot` of 512 matrices at once keeps 16384 sums in each thread, which has registers for 256",
    "plan-specialised": (
        "this grid cannot be shared out among threads that load and threads that multiply, because it multiplies no"
        " matrices"
    ),
    "audit-target": "`softmax` cannot be audited for `reference`: times are predicted for GPUs and the CPU",
    "gpu-unknown": "there is no GPU architecture `sm_87` here",
    "gpu-too-old": "the GPU architecture `sm_75` is older than `sm_80`, the first that code is made for",
    "opt-file": "cannot read `no/such/file.tir`: No such file or directory",
    "pass-level-scalar": "%x is a scalar, it cannot be at level `shared`",
    "shared-too-much": "this takes 68 KiB of shared memory, a block has 58.59 KiB on sm_80",
    "barrier-cluster-role": (
        "`gpu.load` needs what other blocks of the cluster did by `gpu.store`, but stands in a role, which cannot wait"
        " for them"
    ),
    "barrier-numbers": "this role needs a barrier of its own, but all 15 numbers are taken",
}
FIXES: dict[str, str] = {
    "pass-unknown": "did you mean `canonicalise`?",
    "pass-option-unknown": "did you mean `arch`?",
    "pass-option-value": "write `M=128`",
    "pass-option-missing": 'write `apply-plan{plan="m=4, 128 threads"}`',
    "pass-form": "run `place-levels` before it",
    "pass-size-unknown": "its sizes: M, N",
    "pass-size-contradiction": "give a multiple of 16",
    "machine-unknown": "did you mean `avx2`?",
    "plan-incomplete": "put `m=16` into the plan, and run `apply-plan` with it",
    "gpu-unknown": "compile for `sm_86`, whose code runs there too",
    "gpu-too-old": 'compile for `arch="cpu"`, or run on a newer GPU',
    "shared-too-much": "`num_stages=3` fits",
}
WITHOUT_LOCATION = {"opt-file", "audit-target"}


def test_every_message_has_a_case() -> None:
    assert set(CASES) == set(ENTRIES) == set(MESSAGES)


@pytest.mark.parametrize("code", CASES)
def test_message(code: str) -> None:
    with pytest.raises(TileError) as caught:
        CASES[code]()
    error = caught.value
    assert error.code == code
    assert type(error) is ENTRIES[code].kind
    assert error.message == MESSAGES[code]
    assert error.fix == FIXES.get(code, error.fix)
    assert error.fix
    assert (error.location is None) == (code in WITHOUT_LOCATION)


def test_a_plan_without_a_grid() -> None:
    with pytest.raises(TileError) as caught:
        run_passes('place-levels,apply-plan{plan="m=16"},lower-to-gpu{plan="m=16"}', COPY)
    assert caught.value.message == "the plan says nothing of the threads of this grid"


def test_carets_stand_under_the_word() -> None:
    with pytest.raises(TileError) as caught:
        parse_pipeline("cse,canonicalize,dce")
    assert str(caught.value).splitlines()[1:4] == [
        "<pipeline>:1:5: TileSyntaxError: there is no pass `canonicalize`",
        "    1 | cse,canonicalize,dce",
        "      |     ^^^^^^^^^^^^",
    ]
