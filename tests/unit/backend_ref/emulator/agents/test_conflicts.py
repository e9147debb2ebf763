"""What is said of two accesses that nothing puts in an order, and which pairs are none."""

from __future__ import annotations

import numpy as np

from tests.support.gpu_code.emulated import fault, numbers, outcomes, shared, small
from tests.support.hopper.hopper_text import role

S = "%s = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 0}"
STAGES = "%r = gpu.buffer() {shape = [2, 2, 64], dtype = f32, layout = rows(0, 1, 2), offset = 256}"
FULL = "%full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 2048}"
LOAD = "%t = gpu.load(%x, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}\n"
KEEP = "gpu.store(%y, [%m], %t, []) {axes = [0]}\n"
BARRIER = "gpu.barrier()\n"
TWO = "layout = replicate(2) * spatial(32) * local(2)"
XY = "%x: tensor<f32, [M], unit=0>, %y: tensor<f32, [M], unit=0>"


def line(body: str, *, cluster: int = 1, block: int = 64, parameters: str = XY) -> str:
    return small(body, shared(S, STAGES, FULL), cluster=cluster, block=block, parameters=parameters)


def both(count: int = 64) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float32]], ...]:
    return numbers(count), numbers(count) * 0


def test_the_stage_is_named() -> None:
    write = "gpu.write(%r, %t, [%1, %0, %0]) {places = [2]}\n"
    read = (
        "%u = gpu.read(%r, [%1, %0, %0]) {places = [2], shape = [64], layout = local(2) * replicate(2) * spatial(32)}\n"
    )
    found = fault(line(LOAD + write + read), *both(), seed=None)
    assert found.message == (
        "race in program m = 0:64: `gpu.read` lets thread 0 read byte 640 of %r (stage 1), which thread 32 wrote in "
        "`gpu.write` with no barrier between"
    )


def test_the_block_is_named() -> None:
    wide = LOAD.replace("64", "128")
    write = "gpu.write(%s, %t, [%0]) {places = [0]}\n"
    read = "%u = gpu.read(%s, [%0]) {places = [0], shape = [128], layout = spatial(2) * local(2) * replicate(2) * "
    read += "spatial(32)}\n"
    found = fault(line(wide + write + read, cluster=2, block=128), *both(128), seed=None)
    assert "thread 0 of block 1 read byte 128 of %s of block 1, which thread 32 of block 1 wrote" in found.message


def test_programs_that_share_no_element() -> None:
    assert outcomes(line(LOAD + KEEP), *both(256)) == {""}


def test_one_program_reads_what_another_one_writes() -> None:
    body = LOAD.replace("[%m]", "[%0]").replace("%x", "%y") + KEEP
    assert "emulator-race-programs" in outcomes(line(body), *both(128))


def test_atomics_of_many_programs() -> None:
    index = "%i = gpu.arange() {layout = spatial(64)}\n"
    add = index + LOAD + "%old = gpu.atomic(%y, [%i], %t, []) {fn = add, axes = [-1]}\n"
    assert outcomes(line(add), *both(192)) == {""}
    assert "emulator-race-programs" in outcomes(line(add + LOAD.replace("%t", "%u").replace("[%m]", "[%0]").replace(
        "%x", "%y")), *both(192))  # fmt: skip


def test_tensors_between_threads_of_a_program() -> None:
    again = "%u = gpu.load(%y, [%m], []) {axes = [0], shape = [64], layout = local(2) * replicate(2) * spatial(32)}\n"
    assert outcomes(line(LOAD + KEEP + BARRIER + again), *both()) == {""}
    found = fault(line(LOAD + KEEP + again), *both(), seed=None)
    assert found.code == "emulator-race"
    assert "read %y[0], which thread 0 wrote in `gpu.store`" in found.message


# What is not told yet


def test_a_fence_of_shared_memory_says_nothing_of_tensors() -> None:
    body = LOAD + KEEP + "gpu.proxy_fence()\n" + BARRIER + "gpu.mbarrier_expect(%full, %0) {bytes = 256}\n"
    body += "gpu.tma_load(%y, [%m], %s, [%0], %full, %0) {axes = [0], places = [0], shape = [64]}\n"
    assert outcomes(line(body + "gpu.mbarrier_wait(%full, %0, %0)"), *both()) == {"emulator-proxy-fence"}


def test_copies_are_read_by_other_threads() -> None:
    body = LOAD.replace("layout = spatial(64)", TWO) + KEEP
    body += f"%u = gpu.load(%y, [%m], []) {{axes = [0], shape = [64], {TWO}}}\n"
    assert "emulator-race" in outcomes(line(body), *both())


def test_a_thread_that_arrives_speaks_for_itself() -> None:
    give = "%v = gpu.load(%x, [%m], []) {axes = [-1], shape = []}\ngpu.write(%s, %v, [%0]) {places = []}\n"
    give += "gpu.mbarrier_arrive(%full, %0) {by = role}"
    take = "gpu.mbarrier_wait(%full, %0, %0)\n%u = gpu.read(%s, [%0]) {places = [], shape = []}\n"
    take += "gpu.store(%y, [%m], %u, []) {axes = [-1]}"
    assert outcomes(line(role(0, 32, give) + "\n" + role(32, 32, take)), *both()) == {""}


def test_roles_meet_at_the_end_of_a_cluster() -> None:
    meet = "gpu.barrier() {scope = cluster}"
    body = role(0, 32, meet) + "\n" + role(32, 32, meet)
    assert outcomes(line(body, cluster=2, block=128), *both(128)) == {""}


def test_blocks_of_a_cluster_in_step() -> None:
    body = "%t = gpu.load(%x, [%m], []) {axes = [0], shape = [128], layout = spatial(128)}\n" + KEEP + BARRIER
    body += "%u = gpu.load(%y, [%m], []) {axes = [0], shape = [128], layout = local(2) * replicate(2) * spatial(32)}\n"
    body = body.replace("replicate(2) * spatial(32)}", "replicate(2) * spatial(64)}")
    assert outcomes(line(body, cluster=2, block=128), *both(128), seeds=(None,)) == {"emulator-race"}
