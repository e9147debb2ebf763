from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.gpu_code.every_gpu_op import ASYNC
from tests.support.gpu_code.gpu_texts import launch_text, run_pass
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import u8
from tiledsl.ir.gpu.async_ops import Mbarriers
from tiledsl.ir.gpu.gpu_ops import Buffer, Launch
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.passes.gpu.sync.allocate_shared import AllocateShared, Need, format_bytes, needs_of, place, total_bytes
from tiledsl.support.location import BUILTIN


def launch_of(module: Module) -> Launch:
    (launch,) = (op for op in module.walk() if isinstance(op, Launch))
    return launch


def offsets(body: str, *, cluster: int = 1, limit: int = 0) -> dict[str, int]:
    """The offset of each buffer that `body` defines, in a program in which nothing else is in shared memory."""
    text = launch_text(body, cluster=cluster)
    for unused in ("%s", "%t", "%bytes"):
        text = "\n".join(line for line in text.splitlines() if not line.strip().startswith(f"{unused} = gpu.buffer"))
    module = run_pass(AllocateShared(limit), text)
    return {op.result.name: op.offset for op in module.walk() if isinstance(op, Buffer)}


def buffer(name: str, size: int, layout: str = "rows(0)", shape: str = "") -> str:
    return f"%{name} = gpu.buffer() {{shape = [{shape or size}], dtype = f32, layout = {layout}}}\n"


SIZE = 2048
"""Bytes of the buffers here: so many that sharing memory is worth a barrier."""


def use(name: str) -> str:
    return f"gpu.write(%{name}, %x, [%0]) {{places = [0]}}\n"


def loop(body: str) -> str:
    return f"tile.for(%0, %M, %1, []) body(%i: i64) {{\n{body}\ntile.yield([])\n}}\n"


def copy(name: str) -> str:
    return (
        f"gpu.copy(%b, [%m], [], %{name}, [%0]) {{axes = [0], places = [0], vector = 1, shape = [64], "
        "layout = spatial(64)}\n"
    )


WAIT = "gpu.wait() {groups = 0}\n"
P, Q = buffer("p", 512), buffer("q", 512)


def test_buffers_used_one_after_the_other_share() -> None:
    assert offsets(P + Q + use("p") + use("q")) == {"p": 0, "q": 0}


def test_buffers_used_together_do_not() -> None:
    assert offsets(P + Q + use("p") + use("q") + use("p")) == {"p": 0, "q": SIZE}


def test_a_loop_keeps_what_is_defined_outside() -> None:
    assert offsets(P + Q + loop(use("p") + use("q"))) == {"p": 0, "q": SIZE}
    assert offsets(loop(P + Q + use("p") + use("q"))) == {"p": 0, "q": 0}
    assert offsets(P + loop(Q + use("p") + use("q"))) == {"p": 0, "q": SIZE}
    assert offsets(P + Q + loop(use("p")) + use("q")) == {"p": 0, "q": 0}


def test_a_view_uses_its_buffer() -> None:
    view = "%v = gpu.view(%p) {shape = [512], layout = rows(0)}\n"
    assert offsets(P + Q + use("p") + view + use("q") + use("v")) == {"p": 0, "q": SIZE}
    assert offsets(P + Q + use("p") + view + use("q")) == {"p": 0, "q": 0}


def test_copies_keep_a_buffer_until_they_are_waited_for() -> None:
    assert offsets(P + Q + copy("p") + use("q")) == {"p": 0, "q": SIZE}
    assert offsets(P + Q + copy("p") + WAIT + use("q")) == {"p": 0, "q": 0}
    assert offsets(P + Q + copy("p") + "gpu.wait() {groups = 1}\n" + use("q")) == {"p": 0, "q": SIZE}


def test_a_wait_before_the_copy_in_a_loop_is_of_no_use() -> None:
    assert offsets(P + Q + loop(WAIT + copy("p")) + use("q")) == {"p": 0, "q": SIZE}
    assert offsets(P + Q + loop(copy("p") + WAIT) + use("q")) == {"p": 0, "q": 0}
    assert offsets(P + Q + loop(WAIT + copy("p")) + WAIT + use("q")) == {"p": 0, "q": 0}


def test_a_wait_that_may_not_happen_is_of_no_use() -> None:
    branch = f"tile.if(%c) then() {{\n{WAIT}\ntile.yield([])\n}} otherwise() {{\ntile.yield([])\n}}\n"
    assert offsets(P + Q + copy("p") + branch + use("q")) == {"p": 0, "q": SIZE}


def test_a_copy_that_outlives_its_iteration() -> None:
    """The buffer is one of the loop's body, but it is filled while the next iteration begins."""
    assert offsets(loop(P + Q + use("q") + copy("p")) + WAIT) == {"p": 0, "q": SIZE}
    assert offsets(loop(P + Q + use("q") + copy("p") + WAIT)) == {"p": 0, "q": 0}


def test_small_buffers_share_only_for_want_of_room() -> None:
    small = buffer("p", 64) + buffer("q", 64) + use("p") + use("q")
    assert offsets(small) == {"p": 0, "q": 256}
    assert offsets(small, limit=300) == {"p": 0, "q": 0}


def test_memory_of_folds_across_a_cluster_is_not_shared() -> None:
    fold = "%w = gpu.reduce([%x], %f) {axes = [0], fn = add}\n"
    body = "%f = gpu.buffer() {shape = [2048], dtype = u8, layout = rows(0)}\n" + P + use("p") + fold
    assert offsets(body) == {"f": 0, "p": 0}
    assert offsets(body, cluster=2) == {"f": 0, "p": SIZE}


def test_alignment() -> None:
    swizzled = buffer("w", 0, "rows(0, 1, swizzle=(3, 4, 3))", "32, 32")
    read = "%y{0} = gpu.read(%w, [%0, %0]) {{places = [1], shape = [32], layout = replicate(2) * spatial(32)}}\n"
    large = buffer("z", 1100)
    found = offsets(swizzled + large + use("z") + read.format(1) + use("z"))
    assert found == {"z": 0, "w": 5120}


def test_the_launch_says_how_much() -> None:
    module = run_pass(AllocateShared(), launch_text(P + Q + use("p") + use("s") + use("p")))
    assert launch_of(module).shared_bytes == SIZE + 256


def test_what_goes_on_by_itself_shares_no_memory() -> None:
    text = ASYNC.replace("shared_bytes = 166024", "shared_bytes = 0")
    for offset in (0, 65536, 131072, 163840, 163872, 163968, 166016):
        text = text.replace(f", offset = {offset}", "")
    module = run_pass(AllocateShared(), text)
    found = {op.result.name: op.offset for op in module.walk() if isinstance(op, (Buffer, Mbarriers))}
    large = {"a": 0, "b": 65536, "c": 131072, "parts": 163840}
    assert found == {**large, "full": 165888, "empty": 165920, "came": 165952}
    assert launch_of(module).shared_bytes == 165960
    stages = {need.buffer.result.name: need.stages for need in needs_of(launch_of(module))}
    assert stages == {"a": 4, "b": 4, "c": 1, "parts": 1, "full": 1, "empty": 1, "came": 1}


def test_mbarriers_are_needed_all_the_time_and_copies_by_tma_are_aligned() -> None:
    # of two buffers used one after the other, the one that TMA stores keeps its memory
    barriers = "%full = gpu.mbarriers() {count = 3, arrivals = 1}\n"
    store = "gpu.tma_store(%b, [%m], %q, [%0]) {axes = [0], places = [0], shape = [512]}\n"
    text = launch_text(buffer("odd", 513) + P + Q + barriers + use("odd") + use("p") + use("q") + store
                       + "gpu.mbarrier_arrive(%full, %0)\n")  # fmt: skip
    module = run_pass(AllocateShared(), text)
    places = {
        op.result.name: (op.offset, op.offset + 4 * op.shape[0]) for op in module.walk() if isinstance(op, Buffer)
    }
    (mine,) = (op.offset for op in module.walk() if isinstance(op, Mbarriers))
    assert mine % 8 == 0
    assert all(stop <= mine or mine + 24 <= start for start, stop in places.values())
    start, stop = places.pop("q")
    assert start % 128 == 0
    assert all(stop <= other or end <= start for other, end in places.values())
    assert places["p"][0] == places["odd"][0]


@given(
    spans=st.lists(
        st.tuples(st.integers(1, 5000), st.sampled_from([16, 128, 1024]), st.integers(0, 20), st.integers(0, 20)),
        min_size=1,
        max_size=8,
    )
)
def test_no_two_that_meet_overlap(spans: list[tuple[int, int, int, int]]) -> None:
    one = Buffer(BUILTIN, shape=(1,), dtype=u8, layout=SharedLayout((0,)))
    needs = [Need(one, size, alignment, min(a, b), max(a, b)) for size, alignment, a, b in spans]
    places = place(needs)
    for i, (first, start) in enumerate(zip(needs, places)):
        assert start % first.alignment == 0
        for second, other in list(zip(needs, places))[:i]:
            if first.meets(second):
                assert start + first.bytes <= other or other + second.bytes <= start
    assert total_bytes(needs, places) <= sum(need.bytes + need.alignment for need in needs)


def test_stages() -> None:
    stage = (
        "gpu.copy(%b, [%m], [], %t, [%1, %0]) {axes = [0], places = [1], vector = 1, shape = [64], "
        "layout = spatial(64)}\n"
    )
    needs = {
        need.buffer.result.name: need for need in needs_of(launch_of(run_pass(None, launch_text(stage + use("s")))))
    }
    assert needs["t"].stages == 3
    assert needs["s"].stages == 1


def test_bytes_as_text() -> None:
    assert [format_bytes(count) for count in (96, 16384, 12800, 232448)] == [
        "96 bytes",
        "16 KiB",
        "12.5 KiB",
        "227 KiB",
    ]


def test_what_nothing_uses_takes_nothing() -> None:
    assert launch_of(run_pass(AllocateShared(), launch_text(""))).shared_bytes == 0
