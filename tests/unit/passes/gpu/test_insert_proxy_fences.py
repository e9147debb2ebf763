"""Where fences go, and the barriers of roles. In the programs here lines mark where one is expected:

`!` a proxy fence, `!!` one of global memory too, `|` a barrier of the block, `||` of the cluster, `1|` and the like the
named barrier of a role. They are no part of the text.
"""

from __future__ import annotations

from tests.support.gpu_code.gpu_texts import launch_text
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu.sync.insert_barriers import InsertBarriers
from tiledsl.passes.gpu.sync.insert_proxy_fences import InsertProxyFences
from tiledsl.passes.manager import PassContext

MEANT = {
    "!": "gpu.proxy_fence()",
    "!!": "gpu.proxy_fence() {scope = global}",
    "|": "gpu.barrier()",
    "||": "gpu.barrier() {scope = cluster}",
    "1|": "gpu.named_barrier() {id = 1, threads = 64}",
    "2|": "gpu.named_barrier() {id = 2, threads = 64}",
    "4|": "gpu.named_barrier() {id = 4, threads = 64}",
    "m|": "gpu.named_barrier() {id = 1, threads = 128}",
    "w|": "gpu.named_barrier() {id = 1, threads = 32}",
}
MBARRIERS = """
%full = gpu.mbarriers() {count = 1, arrivals = 1}
%empty = gpu.mbarriers() {count = 1, arrivals = 1}
"""
X = "%y = gpu.load(%a, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}"
WRITE = "gpu.write(%s, %x, [%0]) {places = [0]}"
MINE = WRITE.replace("%x", "%y")
READ = "%r = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = spatial(32) * local(2)}"
STORE = """gpu.tma_store(%b, [%m], %s, [%0]) {axes = [0], places = [0], shape = [64]}
gpu.bulk_commit()"""
EXPECT = "gpu.mbarrier_expect(%full, %0) {bytes = 256}"
LOAD = "gpu.tma_load(%a, [%m], %s, [%0], %full, %0) {axes = [0], places = [0], shape = [64]}"
DRAIN = "gpu.bulk_wait() {groups = 0}"
DRAIN_LINE = "\n" + DRAIN
FREE = "gpu.bulk_wait() {groups = 0, read = true}"


def role(body: str, first: int = 0, threads: int = 64) -> str:
    return f"gpu.role() {{first = {first}, threads = {threads}}} body() {{\n{body}\n}}"


def loop(body: str) -> str:
    return f"tile.for(%0, %M, %1, []) body(%i: i64) {{\n{body}\ntile.yield([])\n}}"


def expect(marked: str, *, cluster: int = 1, threads: int = 64) -> None:
    """Both passes put in what is marked, nothing else, and nothing the second time."""
    lines = marked.splitlines()
    plain = "\n".join(line for line in lines if line.strip() not in MEANT)
    wanted = "\n".join(MEANT.get(line.strip(), line) for line in lines)
    result = _synchronised(parse_module(launch_text(plain, cluster=cluster, threads=threads)))
    assert print_module(result) == print_module(parse_module(launch_text(wanted, cluster=cluster, threads=threads)))
    again = _synchronised(parse_module(print_module(result)))
    assert print_module(again) == print_module(result)


def _synchronised(module: Module) -> Module:
    for step in (InsertBarriers(), InsertProxyFences()):
        module = step.run(module, PassContext())
    return module


# All threads


def test_what_is_written_is_stored_by_tma() -> None:
    expect(f"{WRITE}\n!\n|\n{STORE}\n{DRAIN}")


def test_who_did_not_begin_the_store_does_not_know_that_it_is_over() -> None:
    expect(loop(f"{FREE}\n|\n{WRITE}\n!\n|\n{STORE}") + DRAIN)


def test_stores_one_after_the_other_are_of_one_thread() -> None:
    expect(loop(STORE) + DRAIN)


def test_a_fence_serves_all_that_was_written_before() -> None:
    other = "gpu.write(%t, %x, [%0, %0]) {places = [1]}"
    more = STORE.replace("%s, [%0]", "%t, [%0, %0]").replace("places = [0]", "places = [1]")
    expect(f"{WRITE}\n{other}\n!\n|\n{STORE}\n{more}\n{DRAIN}")


def test_the_last_barrier_is_the_one() -> None:
    """A fence after it would be told to nobody."""
    expect(f"{WRITE}\n!\n|\n{READ}\n{STORE}\n{DRAIN}")


def test_what_is_not_handed_over_needs_no_fence() -> None:
    expect(f"{WRITE}\n|\n{READ}")


def test_outside_of_the_loop() -> None:
    expect(f"{WRITE}\n!\n|\n{loop(STORE)}\n{DRAIN}")


def test_in_a_branch() -> None:
    body = f"{WRITE}\n!\n|\n{STORE}\n{DRAIN}\ntile.yield([])"
    expect(f"tile.if(%c) then() {{\n{body}\n}} otherwise() {{\ntile.yield([])\n}}")


def test_a_fence_after_the_barrier_is_too_late() -> None:
    late = "gpu.proxy_fence() {scope = global}"
    expect(f"{WRITE}\n!\ngpu.barrier()\n{late}\n{STORE}\n{DRAIN}")


def test_copies_are_fenced_when_they_have_come() -> None:
    copy = """gpu.copy(%a, [%m], [], %s, [%0]) {axes = [0], places = [0], vector = 4, shape = [64],
      layout = spatial(16) * replicate(4) * local(4)}"""
    expect(f"{copy}\ngpu.commit()\ngpu.wait() {{groups = 0}}\n!\n|\n{STORE}\n{DRAIN}")


def test_tensors_need_a_fence_of_global_memory() -> None:
    expect(f"""
      |
      gpu.store(%a, [%m], %x, []) {{axes = [0]}}
      {MBARRIERS}
      !!
      |
      {EXPECT}
      {LOAD}
    """)


def test_stores_of_another_tensor_need_none() -> None:
    expect(f"gpu.store(%b, [%m], %x, []) {{axes = [0]}}\n{MBARRIERS}\n|\n{EXPECT}\n{LOAD}")


def test_what_tma_stored_is_loaded_after_the_wait_and_a_barrier() -> None:
    load = "%l = gpu.load(%b, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}"
    expect(f"{STORE}\n{DRAIN}\n|\n{load}")


# Roles


def test_a_role_has_a_barrier_of_its_own() -> None:
    other = f"""{X}
      gpu.write(%t, %y, [%0, %0]) {{places = [1]}}
      2|
      %r = gpu.read(%t, [%0, %0]) {{places = [1], shape = [64], layout = spatial(32) * local(2)}}"""
    expect(role(f"{X}\n{MINE}\n1|\n{READ}") + "\n" + role(other, 64), threads=128)


def test_numbers_that_are_taken() -> None:
    """1 to 3 are of several roles."""
    turns = "\n".join(f"gpu.named_barrier() {{id = {number}, threads = 128}}" for number in (1, 2, 3))
    expect(role(f"{turns}\n{X}\n{MINE}\n4|\n{READ}") + "\n" + role(turns, 64), threads=128)


def test_a_number_that_the_role_has_already() -> None:
    own = "gpu.named_barrier() {id = 1, threads = 64}"
    expect(role(f"{own}\n{X}\n{MINE}\n1|\n{READ}"))


def test_a_barrier_for_several_roles_is_one_for_each() -> None:
    both = "gpu.named_barrier() {id = 1, threads = 128}"
    expect(role(f"{X}\n{MINE}\n{both}\n{READ}") + "\n" + role(both, 64), threads=128)


def test_an_arrival_at_a_named_barrier_waits_for_nobody() -> None:
    tell = "gpu.named_barrier() {id = 1, threads = 128, action = arrive}"
    meet = "gpu.named_barrier() {id = 1, threads = 128}"
    expect(role(f"{X}\n{MINE}\n{tell}\n2|\n{READ}") + "\n" + role(meet, 64), threads=128)


def test_a_warp_alone_has_one_too() -> None:
    body = """%y = gpu.load(%a, [%m], []) {axes = [0], shape = [64], layout = spatial(32) * local(2)}
    gpu.write(%s, %y, [%0]) {places = [0]}
    w|
    %r = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = local(2) * spatial(32)}"""
    expect(role(body, threads=32))


def test_before_the_roles() -> None:
    expect(f"{WRITE}\n|\n{role(READ)}")
    expect(f"{WRITE}\n|\n{role('gpu.wgmma_fence()')}\n{role(READ, 64)}", threads=128)
    expect(f"{WRITE}\n!\n|\n{role(STORE + DRAIN_LINE)}")


def test_mbarriers_are_ready_after_a_barrier() -> None:
    wait = "gpu.mbarrier_wait(%full, %0, %0)"
    expect(f"{MBARRIERS}\n|\n{role(wait)}")
    expect(f"{MBARRIERS}\n|\n{role(wait)}", cluster=2)
    everywhere = "gpu.mbarrier_arrive(%full, %0) {by = role, scope = cluster}"
    expect(f"{MBARRIERS}\n||\n{role(everywhere)}", cluster=2)
    multicast = LOAD.replace("shape = [64]", "shape = [64], multicast = true")
    expect(f"{MBARRIERS}\n||\n{role(multicast)}", cluster=2)


def test_roles_are_ordered_by_what_is_there() -> None:
    expect(role(f"{X}\n{MINE}") + "\n" + role(READ, 64), threads=128)


def refilled(body: str) -> str:
    """A role that does `body` with what another one loads, again and again."""
    fill = f"gpu.mbarrier_wait(%empty, %0, %1)\n{EXPECT}\n{LOAD}"
    return f"{MBARRIERS}\n|\n{role(loop(body))}\n{role(loop(fill), 64, 32)}"


def test_what_was_read_is_fenced_before_it_is_given_back() -> None:
    body = "gpu.mbarrier_wait(%full, %0, %0)\n" + READ + "\n!\ngpu.mbarrier_arrive(%empty, %0) {by = thread}"
    expect(refilled(body), threads=96)


def test_one_thread_gives_back_what_all_have_read() -> None:
    body = "gpu.mbarrier_wait(%full, %0, %0)\n" + READ + "\n!\n1|\ngpu.mbarrier_arrive(%empty, %0) {by = role}"
    expect(refilled(body), threads=96)


def test_arrivals_that_no_one_who_loads_hears_of() -> None:
    body = "gpu.mbarrier_wait(%full, %0, %0)\n" + READ + "\ngpu.mbarrier_arrive(%full, %0) {by = thread}"
    expect(refilled(body), threads=96)


def test_arrivals_that_are_heard_of_by_way_of_another_role() -> None:
    tell = "gpu.mbarrier_arrive(%{0}, %0) {{by = warp}}"
    wait = "gpu.mbarrier_wait(%{0}, %0, %0)"
    reads = role(f"{READ}\n!\n{tell.format('full')}")
    passes_on = role(f"{wait.format('full')}\n{tell.format('empty')}", 64, 32)
    loads = role(f"{wait.format('empty')}\n{LOAD}", 96, 32)
    expect(f"{MBARRIERS}\n|\n{reads}\n{passes_on}\n{loads}", threads=128)


# Products of warpgroups


def product(body: str) -> str:
    """A role of a warpgroup that multiplies what is in %as by what is in %bs."""
    return f"""
      %as = gpu.buffer() {{shape = [64, 64], dtype = bf16, layout = rows(0, 1, swizzle=(3, 4, 3))}}
      %bs = gpu.buffer() {{shape = [64, 64], dtype = bf16, layout = rows(0, 1, swizzle=(3, 4, 3))}}
      gpu.role() {{first = 0, threads = 128}} body() {{
        %zero = tile.constant() {{value = 0.0, dtype = f32}}
        %acc = tile.broadcast(%zero) {{shape = [64, 64]}} : tile<f32, [64, 64], register, {ACCUMULATOR}>
        %left = tile.cast(%acc) {{dtype = bf16}} : tile<bf16, [64, 64], register, {ACCUMULATOR}>
        {body}
      }}
    """


ACCUMULATOR = "spatial(4, 1) * local(1, 8) * local(2, 1) * spatial(8, 4) * local(1, 2)"
PUT = "gpu.write(%as, %left, [%0, %0]) {places = [0, 1], method = matrix}"
MULTIPLY = """gpu.wgmma_fence()
%sum = gpu.wgmma(%as, [%0, %0], %bs, [%0, %0], %acc)
  {depth = 64, a_axes = [0, 1], b_axes = [1, 0], instruction = m64n64k16_bf16_f32}
gpu.wgmma_commit()"""
LANDED = "%done = gpu.wgmma_wait([%sum]) {groups = 0}"


def test_an_operand_that_was_written() -> None:
    """The barrier comes before the registers are fenced."""
    expect(product(f"{PUT}\n!\nm|\n{MULTIPLY}\n{LANDED}"), threads=128)


def test_an_operand_is_overwritten_when_all_warps_have_read_it() -> None:
    expect(product(f"{MULTIPLY}\n{LANDED}\nm|\n{PUT}"), threads=128)


def test_an_operand_is_written_and_multiplied_in_turn() -> None:
    expect(product(loop(f"m|\n{PUT}\n!\nm|\n{MULTIPLY}\n{LANDED}")), threads=128)


def test_what_was_loaded_and_multiplied_needs_nothing() -> None:
    expect(product(loop(f"{MULTIPLY}\n{LANDED}")), threads=128)
