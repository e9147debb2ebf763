"""Processes of a Ray cluster that run plans (`pip install tiledsl[ray]`): they measure, and who searches writes."""

from __future__ import annotations

import pickle
from typing import Any

import ray

from tiledsl.autotune.measuring.host import Fleet, Lost
from tiledsl.autotune.measuring.messages import PLACES
from tiledsl.autotune.measuring.worker import Worker


class _Measurer:
    """The actor."""

    def __init__(self) -> None:
        self._worker = Worker(bytearray(PLACES))

    def answer(self, request: bytes) -> bytes:
        return pickle.dumps(self._worker.answer(pickle.loads(request)), protocol=5)


class RayHost:
    """One actor; a request that it does not answer in time costs the actor."""

    def __init__(self, options: dict[str, Any]) -> None:
        """`options`: of the actor, as `num_cpus` and `num_gpus`."""
        library: Any = ray
        self._ray = library
        self._actor: Any = library.remote(**options)(_Measurer).remote()
        self._request: Any = None

    def send(self, request: object) -> None:
        """As `Host.send`."""
        self._request = self._actor.answer.remote(pickle.dumps(request, protocol=5))

    def answer(self, seconds: float) -> Any:
        """As `Host.answer`. Time until there is an actor counts."""
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(self._request, timeout=seconds)
        except errors.GetTimeoutError:
            raise Lost(True, f"it took longer than {seconds:.3g} s") from None
        except errors.RayError as error:  # the actor is gone, or something was raised in it
            raise Lost(False, f"the actor is lost: {str(error).strip().splitlines()[-1]}") from None
        return pickle.loads(answer)

    def place(self) -> int:
        """Not known: what an actor knew is gone with it."""
        return 0

    def end(self) -> None:
        """As `Host.end`."""
        self._ray.kill(self._actor, no_restart=True)


def ray_fleet(size: int, **options: Any) -> Fleet:
    """So many actors at once, with these options (`num_gpus=1`), of the cluster that Ray is connected to.

    Machines have to be of the kind of the one that searches: others refuse.
    """
    return Fleet(size, lambda: RayHost({"max_restarts": 0, **options}))
