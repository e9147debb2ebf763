"""Where in a model an op comes from: the node that is being imported stands in for the user's lines."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType

from tiledsl.frontend.trace.trace_places import Places
from tiledsl.support.location import Location


class NodePlaces(Places):
    """The place of the node under way, for whatever its formula records. Names are the model's, not those of frames."""

    def __init__(self, place: Location) -> None:
        super().__init__(NodePlaces.__init__.__code__)
        self.place = place

    def frames(self) -> Iterator[FrameType]:
        return iter(())

    def here(self) -> Location | None:
        return self.place

    def called(self) -> Location | None:
        return self.place
