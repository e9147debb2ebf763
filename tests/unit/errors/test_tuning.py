"""One case for each message of `support/catalogue/tuning.py`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.fakes.fake_driver import fake_driver
from tests.support.fakes.fake_library import FakeLibrary, fake_library
from tests.support.fakes.fake_runner import FakeRunner, task_of
from tiledsl import tile
from tiledsl.autotune.measuring.runner import Checked
from tiledsl.autotune.records.database import Database, Writer
from tiledsl.autotune.searching.search import Searches
from tiledsl.autotune.searching.task import Budget
from tiledsl.backend_cuda.library.library_kernels import BoundLibrary
from tiledsl.passes.gpu.plan import LibraryPlan
from tiledsl.passes.library.library_product import LibraryProduct
from tiledsl.support.catalogue.tuning import ENTRIES
from tiledsl.support.errors import TileError
from tiledsl.support.location import BUILTIN


def in_a_folder(act: Callable[[Path], object]) -> object:
    with tempfile.TemporaryDirectory() as folder:
        return act(Path(folder))


def with_a_file(act: Callable[[Path], object]) -> object:
    """Acts on a file that stands where a folder is expected."""

    def made(folder: Path) -> object:
        (folder / "file").write_text("no folder", encoding="utf-8")
        return act(folder / "file")

    return in_a_folder(made)


@tile.kernel
def doubled(x: tile.Tensor) -> tile.Tensor:
    y = tile.empty(x.shape, x.dtype)
    for n in tile.grid(x.shape[0]):
        y[n] = x[n] * 2
    return y


X: Any = np.ones(100, np.float32)


def tuned_by(folder: Path) -> None:
    with tiledsl.tuned(folder):
        pass


def with_tuning_off() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEDSL_TUNING", "off")
        return doubled.tune(X)


def on_an_unknown_device() -> object:
    graph = tiledsl.trace(tile.relu, tile.spec((8,), tile.f32))
    return in_a_folder(lambda folder: tiledsl.fuse(graph).build("sm_90", tuning=folder, device="NVIDIA Z1"))


def by_the_reference() -> object:
    graph = tiledsl.trace(tile.relu, tile.spec((8,), tile.f32))
    return tiledsl.tune(tiledsl.fuse(graph).build("reference"))


def product_of_rows(x: Any, w: Any) -> Any:
    return x @ w.T


def with_libraries() -> object:
    with fake_driver(), fake_library(None):
        graph = tiledsl.trace(product_of_rows, tile.spec((16, 32), tile.f16), tile.spec((8, 32), tile.f16))
        return in_a_folder(lambda folder: tiledsl.tune(graph, arch="sm_90", database=folder, libraries=True))


def by_a_library_that_fails() -> object:
    product = LibraryProduct(
        0, 1, 2, (("m", "k"), ("n", "k"), ("m", "n")), (("m", 16), ("n", 8), ("k", 32)), "f16", "f16"
    )
    plan = LibraryPlan(131000, (66, 0), 0)
    with fake_driver(), fake_library(FakeLibrary(failing="cublasLtMatmul gives CUBLAS_STATUS_EXECUTION_FAILED")):
        bound = BoundLibrary(product, plan, ((32, 1), (32, 1), (8, 1)), 0, ("product", BUILTIN), None)
        return bound((0, 0, 0), (), 0)


def searched(checked: Checked) -> object:
    """A search whose pick comes to that."""

    def act(folder: Path) -> object:
        with Writer(Database(folder)) as writer:
            return Searches(writer).run(task_of(["a"]), FakeRunner({}, {"pick": checked}), Budget())

    return in_a_folder(act)


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "tuning-unwritable": (lambda: with_a_file(lambda file: Writer(Database(file / "db"))), "Not a directory"),
    "tuning-unreadable": (lambda: with_a_file(lambda file: Database(file).refresh()), "name a folder"),
    "tuning-absent": (lambda: in_a_folder(lambda folder: tuned_by(folder / "none")), "there is no database in"),
    "tuning-nowhere": (with_tuning_off, "pass `database=` with a folder"),
    "library-missing": (with_libraries, "install one with `pip install tiledsl[library]`"),
    "library-call": (
        by_a_library_that_fails,
        "a call of cuBLASLt in the place of `product` failed: cublasLtMatmul gives",
    ),
    "tuning-device": (on_an_unknown_device, "nothing was measured on a device `NVIDIA Z1`"),
    "tuning-budget": (lambda: in_a_folder(lambda f: doubled.tune(X, seconds=0, database=f)), "of seconds 0 cannot try"),
    "tuning-nothing": (lambda: tiledsl.tune(7), "a int cannot be tuned"),
    "tuning-target": (by_the_reference, "cannot be tuned for `reference`: nothing is chosen there"),
    "tuning-pick-wrong": (lambda: searched(Checked("wrong", "`y` differs")), "other results than the reference"),
    "tuning-pick-fails": (lambda: searched(Checked("timeout", "it took longer than 20 s")), "it ended in `timeout`"),
}


@pytest.mark.parametrize("code", CASES)
def test_message(code: str) -> None:
    act, text = CASES[code]
    with pytest.raises(TileError) as caught:
        act()
    assert caught.value.code == code
    assert text in str(caught.value)


def test_every_entry_has_a_case() -> None:
    assert ENTRIES.keys() == CASES.keys()
