"""`kernel.check` of a kernel in tile form: `checked_programs` has what is looked for, and how."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.api.programs.checked_programs import CheckedProgram, CheckReport, Recorder, refuse_device_arrays
from tiledsl.api.programs.specialisations import Specialisations
from tiledsl.runtime.calls.dispatch import Dispatcher, Variant
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.runtime.calls.specialise import ArgumentKey
from tiledsl.runtime.programs.interface import interface_of


def check_call(code: Specialisations, parameters: Parameters, args: Sequence[object], out: object) -> CheckReport:
    """Runs a kernel in tile form. `args` are in the order of `parameters`. Raises TileError as a call does."""
    refuse_device_arrays([*zip(parameters.names, args), *(("out", value) for value in as_tuple(out))])
    recorder = Recorder()

    def choose(keys: tuple[ArgumentKey, ...], device: int | None) -> Variant:
        del device
        function = code.lowered(keys).entry
        return Variant(interface_of(function), CheckedProgram(function, recorder))

    return recorder.report(Dispatcher(parameters, choose, lambda: 1).call(tuple(args), {}, out))
