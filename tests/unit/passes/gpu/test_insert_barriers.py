"""Where barriers go. In the programs here, `|` marks where one is expected; it is no part of the text."""

from __future__ import annotations

import pytest

from tests.support.gpu_code.gpu_texts import launch_text, run_pass
from tiledsl.ir.core import Module, Op
from tiledsl.ir.gpu.gpu_ops import Barrier
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.gpu.sync.allocate_shared import AllocateShared
from tiledsl.passes.gpu.sync.insert_barriers import InsertBarriers
from tiledsl.support.errors import TileError

WRITE = "gpu.write(%s, %x, [%0]) {places = [0]}"
READ = "%y = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = spatial(32) * local(2)}"


def expect(marked: str, cluster: int = 1) -> None:
    """Barriers come where `marked` has lines `|` (`||` for a whole cluster), nowhere else, and none the second time."""
    lines = marked.splitlines()
    plain = "\n".join(line for line in lines if line.strip() not in ("|", "||"))
    meant = {"|": "gpu.barrier()", "||": "gpu.barrier() {scope = cluster}"}
    wanted = "\n".join(meant.get(line.strip(), line) for line in lines)
    result = run_pass(InsertBarriers(), launch_text(plain, cluster=cluster))
    assert print_module(result) == print_module(run_pass(None, launch_text(wanted, cluster=cluster)))
    again = run_pass(InsertBarriers(), print_module(result))
    assert print_module(again) == print_module(result)


def barriers(module: Module) -> list[Op]:
    return [op for op in module.walk() if isinstance(op, Barrier)]


def test_what_one_thread_wrote_another_reads() -> None:
    expect(f"{WRITE}\n|\n{READ}")


def test_what_is_read_is_overwritten() -> None:
    expect(f"{WRITE}\n|\n{READ}\n|\n{WRITE}")


def test_two_reads_need_none() -> None:
    expect(f"{WRITE}\n|\n{READ}\n{READ.replace('%y', '%z')}")


def test_a_thread_reads_what_it_wrote() -> None:
    same = "%y = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = spatial(64)}"
    expect(f"{WRITE}\n{same}\n{WRITE}")


def test_replicas_read_what_the_first_wrote() -> None:
    held = "local(64) * replicate(64)"
    expect(f"""
      %r = gpu.load(%a, [%m], []) {{axes = [0], shape = [64], layout = {held}}}
      gpu.write(%s, %r, [%0]) {{places = [0]}}
      |
      %y = gpu.read(%s, [%0]) {{places = [0], shape = [64], layout = {held}}}
    """)


def test_of_replicas_the_first_always_writes() -> None:
    expect("gpu.write(%s, %h, [%0]) {places = [0]}\ngpu.write(%s, %h, [%0]) {places = [0]}")
    expect("gpu.store(%b, [%m], %h, []) {axes = [0]}\ngpu.store(%b, [%m], %h, []) {axes = [0]}")


def test_one_that_is_there_is_enough() -> None:
    expect(f"{WRITE}\ngpu.barrier()\n{READ}")


def test_neighbours_become_one() -> None:
    text = launch_text(f"{WRITE}\ngpu.barrier()\ngpu.barrier() {{scope = cluster}}\n{READ}")
    (only,) = barriers(run_pass(InsertBarriers(), text))
    assert only.attributes["scope"] == "cluster"


def test_parts_that_do_not_overlap() -> None:
    write = "gpu.write(%s, %h, [%{0}]) {{places = [0]}}"
    read = "%{1} = gpu.read(%s, [%{0}]) {{places = [0], shape = [32], layout = replicate(2) * spatial(32)}}"
    expect(f"""
      {write.format("0")}
      {write.format("32")}
      |
      {read.format("0", "y")}
      {read.format("32", "z")}
    """)
    expect(f"{write.format('0')}\n{read.format('32', 'y')}\n|\n{write.format('32')}")


def test_an_offset_that_is_not_known_is_anywhere() -> None:
    expect("""
      gpu.write(%s, %h, [%m]) {places = [0]}
      |
      %y = gpu.read(%s, [%32]) {places = [0], shape = [32], layout = replicate(2) * spatial(32)}
    """)


def test_a_view_is_all_of_its_buffer() -> None:
    expect(f"""
      %v = gpu.view(%s) {{shape = [2, 32], layout = rows(0, 1)}}
      {WRITE}
      |
      %y = gpu.read(%v, [%0, %0]) {{places = [0, 1], shape = [1, 32], layout = replicate(2) * spatial(1, 32)}}
    """)


def test_a_loop_that_only_reads() -> None:
    """The barrier stands before the loop."""
    expect(f"""
      {WRITE}
      |
      tile.for(%0, %M, %1, []) body(%i: i64) {{
        {READ}
        tile.yield([])
      }}
    """)


def test_a_loop_that_writes_and_reads() -> None:
    expect(f"""
      tile.for(%0, %M, %1, []) body(%i: i64) {{
        |
        {WRITE}
        |
        {READ}
        tile.yield([])
      }}
    """)


def test_a_loop_that_reads_and_writes_the_next() -> None:
    """The one inside the loop serves its first iteration too."""
    expect(f"""
      {WRITE}
      tile.for(%0, %M, %1, []) body(%i: i64) {{
        |
        {READ}
        |
        {WRITE}
        tile.yield([])
      }}
    """)


STORE = "gpu.store(%b, [{0}], %x, []) {{axes = [0]}}"


def in_loop(body: str, step: str = "%1", name: str = "%i") -> str:
    return f"tile.for(%0, %M, {step}, []) body({name}: i64) {{\n{body}\ntile.yield([])\n}}"


def test_what_a_thread_alone_touches_may_be_another_s_in_the_next_iteration() -> None:
    load = "%y = gpu.load(%b, [{0}], []) {{axes = [0], shape = [64], layout = spatial(64)}}"
    expect(f"{load.format('%m')}\n{STORE.format('%m')}")
    expect(in_loop(f"|\n{load.format('%i')}\n{STORE.format('%i')}"))
    expect(in_loop(f"{load.format('%i')}\n{STORE.format('%i')}", "%64"))


def test_blocks_of_a_tensor_one_after_the_other() -> None:
    expect(in_loop(STORE.format("%i"), "%64"))
    expect(in_loop("|\n" + STORE.format("%i"), "%32"))
    expect(in_loop("|\n" + STORE.format("%i"), "%M"))
    number = "%j = tile.map([%i, {0}]) {{fn = mul}}\n%k = tile.map([%m, %j]) {{fn = {1}}}\n"
    for fn in ("add", "sub"):
        expect(in_loop(number.format("%64", fn) + STORE.format("%k")))
        expect(in_loop(number.format("%32", fn) + "|\n" + STORE.format("%k")))
        expect(in_loop(number.format("%m", fn) + "|\n" + STORE.format("%k")))


def test_two_stores_apart() -> None:
    far, near = ("%k = tile.map([%m, %64]) {fn = add}\n", "%k = tile.map([%m, %32]) {fn = sub}\n")
    expect(far + STORE.format("%m") + "\n" + STORE.format("%k"))
    expect(far + STORE.format("%k") + "\n" + STORE.format("%m"))
    expect(near + STORE.format("%m") + "\n|\n" + STORE.format("%k"))


def test_blocks_in_loops_in_loops() -> None:
    """The inner loop begins anew for each turn of the outer one."""
    expect(in_loop(in_loop("|\n" + STORE.format("%j"), "%64", "%j"), "%64"))
    both = "%k = tile.map([%i, %j]) {fn = add}\n"
    expect(in_loop(in_loop(both + "|\n" + STORE.format("%k"), "%64", "%j"), "%64"))
    expect(in_loop(in_loop(STORE.format("%i"), "%64", "%j"), "%64"))


def test_a_branch_that_writes() -> None:
    expect(f"""
      {WRITE}
      |
      {READ}
      |
      tile.if(%c) then() {{
        {WRITE}
        tile.yield([])
      }} otherwise() {{
        tile.yield([])
      }}
      |
      {READ.replace("%y", "%z")}
    """)


def test_a_branch_that_exchanges() -> None:
    expect(f"""
      tile.if(%c) then() {{
        {WRITE}
        |
        {READ}
        tile.yield([])
      }} otherwise() {{
        tile.yield([])
      }}
    """)


def test_a_while_loop() -> None:
    expect(f"""
      {WRITE}
      %n = tile.while([%M]) condition(%p: i64) {{
        |
        %q = gpu.read(%s, [%0]) {{places = [], shape = []}}
        %more = tile.map([%q, %half]) {{fn = lt}}
        tile.yield([%more])
      }} body(%r: i64) {{
        |
        {WRITE}
        tile.yield([%r])
      }}
    """)


COPY = """gpu.copy(%b, [%m], [], %t, [{stage}, %0]) {{axes = [0], places = [1], vector = 4, shape = [64],
  layout = spatial(16) * replicate(4) * local(4)}}"""
GET = "%g = gpu.read(%t, [{stage}, %0]) {{places = [1], shape = [64], layout = spatial(64)}}"


def test_a_copy_is_read_after_wait_and_barrier() -> None:
    expect(f"""
      {COPY.format(stage="%0")}
      gpu.commit()
      gpu.wait() {{groups = 0}}
      |
      {GET.format(stage="%0")}
    """)


def test_a_copy_overwrites_what_was_read() -> None:
    expect(f"""
      gpu.write(%t, %x, [%0, %0]) {{places = [1]}}
      {GET.format(stage="%m")}
      |
      {COPY.format(stage="%0")}
      gpu.commit()
    """)


def test_a_thread_meets_only_itself_in_whichever_stage() -> None:
    put = "gpu.write(%t, %x, [{0}, {1}]) {{places = [1]}}"
    expect(f"{put.format('%0', '%0')}\n{GET.format(stage='%m')}")
    expect(f"{put.format('%0', '%m')}\n|\n{GET.format(stage='%m')}")
    expect(in_loop(f"{put.format('%i', '%0')}\n{GET.format(stage='%i')}"))
    across = GET.format(stage="%0").replace("places = [1], shape = [64]", "places = [0], shape = [64]")
    expect(f"{put.format('%0', '%0')}\n|\n{across}")


def test_each_wait_lets_more_copies_be_read() -> None:
    """After a wait that leaves some under way, the next one needs a barrier again."""
    expect(f"""
      {COPY.format(stage="%0")}
      gpu.commit()
      {COPY.format(stage="%1")}
      gpu.commit()
      gpu.wait() {{groups = 1}}
      |
      {GET.format(stage="%0")}
      gpu.wait() {{groups = 0}}
      |
      {GET.replace("%g", "%h1").format(stage="%1")}
    """)


@pytest.mark.parametrize("guarded", [False, True])
def test_a_pipelined_loop_has_one_barrier(guarded: bool) -> None:
    begin = f"{COPY.format(stage='%next')}"
    if guarded:
        begin = f"tile.if(%c) then() {{\n{begin}\ntile.yield([])\n}} otherwise() {{\ntile.yield([])\n}}"
    expect(f"""
      {COPY.format(stage="%0")}
      gpu.commit()
      {COPY.format(stage="%1")}
      gpu.commit()
      tile.for(%0, %M, %1, []) body(%i: i64) {{
        %two = tile.map([%i, %1]) {{fn = add}}
        %next = tile.map([%two, %1]) {{fn = add}}
        gpu.wait() {{groups = 1}}
        |
        {begin}
        gpu.commit()
        {GET.format(stage="%i")}
        tile.yield([])
      }}
      gpu.wait() {{groups = 0}}
    """)


def test_a_loop_that_copies_after_reading_needs_two() -> None:
    expect(f"""
      {COPY.format(stage="%0")}
      gpu.commit()
      tile.for(%0, %M, %1, []) body(%i: i64) {{
        gpu.wait() {{groups = 0}}
        |
        {GET.format(stage="%i")}
        |
        {COPY.format(stage="%m")}
        gpu.commit()
        tile.yield([])
      }}
    """)


REDUCE = "%w{0} = gpu.reduce([%x], %bytes) {{axes = [0], fn = add}}"


def test_folds_use_their_scratch_memory_in_turn() -> None:
    expect(f"{REDUCE.format(1)}\n|\n{REDUCE.format(2)}")


def test_the_barrier_of_a_fold_serves_others() -> None:
    expect(f"{WRITE}\n{REDUCE.format(1)}\n{READ}")


def test_a_fold_without_a_scratch_buffer_has_no_barrier() -> None:
    expect(f"{WRITE}\n{REDUCE.format(1).replace(', %bytes', '')}\n|\n{READ}")


def test_folds_across_a_cluster_take_turns_with_their_scratch_memory() -> None:
    across = "%w{0} = gpu.reduce([%two], %bytes) {{axes = [0], fn = add}}"
    load = "%two = gpu.load(%a, [%m], []) {axes = [0], shape = [128], layout = spatial(128)}"
    expect(f"{load}\n{across.format(1)}\n{across.format(2)}", cluster=2)


def test_a_fold_within_each_block_of_a_cluster() -> None:
    inside = "%w{0} = gpu.reduce([%two], %bytes) {{axes = [0], fn = add}}"
    load = "%two = gpu.load(%a, [%m], []) {axes = [0], shape = [64], layout = replicate(2) * spatial(64)}"
    expect(f"{load}\n{inside.format(1)}\n|\n{inside.format(2)}", cluster=2)


def test_blocks_of_a_cluster_write_to_each_other() -> None:
    load = "%two = gpu.load(%a, [%m], []) {axes = [0], shape = [128], layout = spatial(128)}"
    write = "gpu.write(%s, %two, [%0]) {{places = [0], block = {0}}}"
    read = "%l = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = replicate(2) * spatial(64)}"
    expect(f"{load}\n{write.format(0)}\n{write.format(1)}\n||\n{read}", cluster=2)
    expect(f"{load}\n{write.format(0)}\n||\n{write.format(0)}", cluster=2)


MEETING = """%came = gpu.mbarriers() {{count = 1, arrivals = {arrivals}}}
gpu.barrier() {{scope = cluster}}
gpu.role() {{first = 0, threads = 64}} body() {{
  %two = gpu.load(%a, [%m], []) {{axes = [0], shape = [128], layout = spatial(128)}}
  gpu.write(%s, %two, [%0]) {{places = [0], block = 1}}
  gpu.mbarrier_arrive(%came, %0) {{by = {by}, scope = cluster}}
  gpu.mbarrier_wait(%came, %0, %0)
  %l = gpu.read(%s, [%0]) {{places = [0], shape = [64], layout = replicate(2) * spatial(64)}}
  tile.yield([])
}}"""


def test_roles_of_a_cluster_meet_at_an_mbarrier_of_each_block() -> None:
    expect(MEETING.format(arrivals=4, by="warp"), cluster=2)
    expect(MEETING.format(arrivals=128, by="thread"), cluster=2)
    for arrivals, by in ((8, "warp"), (2, "role")):
        with pytest.raises(TileError, match="other blocks"):
            run_pass(InsertBarriers(), launch_text(MEETING.format(arrivals=arrivals, by=by), cluster=2))


def test_stored_and_loaded() -> None:
    load = "%l = gpu.load(%b, [%0], []) {axes = [0], shape = [64], layout = spatial(64)}"
    expect(f"gpu.store(%b, [%m], %x, []) {{axes = [0]}}\n|\n{load}")
    expect(f"gpu.store(%b, [%m], %x, []) {{axes = [0]}}\n||\n{load}", cluster=2)
    expect(f"gpu.store(%b, [%0], %x, []) {{axes = [0]}}\n{load}")
    expect(f"gpu.store(%b, [%m], %x, []) {{axes = [0]}}\n{load.replace('%b', '%a')}")


def test_atomics_do_not_wait_for_each_other() -> None:
    add = "%{0} = gpu.atomic(%b, [%m], %x, []) {{fn = add, axes = [0]}}"
    load = "%l = gpu.load(%b, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}"
    expect(f"{add.format('p')}\n{add.format('q')}\n|\n{load}")


def test_buffers_that_share_memory() -> None:
    more = "{shape = [640], dtype = f32, layout = rows(0)}"
    use = "gpu.write(%{0}, %x, [%0]) {{places = [0]}}"
    body = f"%p = gpu.buffer() {more}\n%q = gpu.buffer() {more}\n{use.format('p')}\n{use.format('q')}"
    apart = run_pass(InsertBarriers(), launch_text(body))
    assert not barriers(apart)
    text = print_module(run_pass(AllocateShared(), launch_text(body)))
    assert len(barriers(run_pass(InsertBarriers(), text))) == 1
