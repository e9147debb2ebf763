"""Which steps may run once, before all calls."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir.dtypes import f32
from tiledsl.ir.strided_views import whole
from tiledsl.runtime.programs.constant_steps import MOST_GROWTH, SMALL_BYTES, constant_steps, split_constant_steps
from tiledsl.runtime.programs.schedule import Buffer, Operand, Role, Schedule, Step

ROLES: dict[str, Role] = {"x": "input", "w": "constant", "v": "constant", "y": "output"}


def schedule(*steps: tuple[str, str], sizes: dict[str, int] | None = None) -> Schedule:
    """Of steps `("what it reads", "what it writes")`: buffers have names of one letter."""
    names = sorted({letter for step in steps for letters in step for letter in letters} | {"x", "w", "v", "y"})
    length = dict.fromkeys(names, 4) | (sizes or {})
    buffers = tuple(Buffer(name, ROLES.get(name, "inner"), f32, (length[name],)) for name in names)
    number = {name: n for n, name in enumerate(names)}

    def step(read: str, written: str) -> Step:
        tensors = tuple(Operand(number[name], whole((length[name],))) for name in read + written)
        places = tuple(range(len(read), len(tensors)))
        return Step("step", 0, tensors, places, (), {}, 0, 0)

    made = tuple(step(*one) for one in steps)
    return Schedule("model", buffers, (number["x"],), (number["v"], number["w"]), (number["y"],), made)


def found(one: Schedule, fixed: str = "vw") -> list[int]:
    return sorted(constant_steps(one, [n for n, b in enumerate(one.buffers) if b.name in fixed]))


def names(one: Schedule, numbers: Sequence[int]) -> str:
    return "".join(one.buffers[number].name for number in numbers)


def test_steps_that_follow_from_weights() -> None:
    whole_one = schedule(("w", "a"), ("av", "b"), ("xb", "c"), ("ac", "y"))
    assert found(whole_one) == [0, 1]
    assert found(whole_one, "w") == [0]
    assert found(whole_one, "v") == []
    split = split_constant_steps(whole_one, whole_one.constants)
    assert split is not None
    assert names(whole_one, split.kept) == "ab"
    assert names(whole_one, split.first.constants) == "vw"
    assert (names(whole_one, split.rest.constants), len(split.rest.steps)) == ("ab", 2)
    assert [b.role for b in split.rest.buffers if b.name in "ab"] == ["constant"] * 2
    assert split_constant_steps(whole_one, ()) is None


def test_results_of_the_module_are_made_at_each_call() -> None:
    assert found(schedule(("w", "y"), ("w", "a"))) == [1]


def test_memory_that_other_steps_write_is_not_fixed() -> None:
    assert found(schedule(("w", "a"), ("x", "a"), ("a", "y"))) == []
    assert found(schedule(("w", "a"), ("a", "b"), ("x", "b"), ("ab", "y"))) == [0]


def test_memory_that_is_written_again_after_it_was_read() -> None:
    assert found(schedule(("w", "a"), ("xa", "y"), ("v", "a"), ("xa", "y"))) == []
    assert found(schedule(("w", "a"), ("v", "a"), ("xa", "y"))) == [0, 1]


def test_what_grows_much_is_left() -> None:
    large = SMALL_BYTES
    assert found(schedule(("w", "a"), ("xa", "y"), sizes={"a": large, "w": 4})) == []
    assert found(schedule(("w", "a"), ("xa", "y"), sizes={"a": large, "w": large // MOST_GROWTH})) == [0]
