"""The table of GPUs, and how an architecture is named."""

import pytest

from tiledsl.passes.gpu_machine import GPU_MACHINES, gpu_machine, machine_of_capability
from tiledsl.support.errors import TileUnsupportedError
from tiledsl.support.location import Location


def test_the_hopper_table() -> None:
    machine = gpu_machine("sm_90")
    assert (machine.name, machine.capability, machine.multiprocessors) == ("sm_90", 90, 132)
    assert machine.shared_bytes_per_block == 232448  # what a driver reports as the opt-in maximum
    assert machine.shared_bytes_per_multiprocessor == 233472
    assert (machine.max_cluster, machine.registers, machine.max_threads_per_block) == (8, 65536, 1024)


@pytest.mark.parametrize(("name", "kibibytes"), [("sm_80", 163), ("sm_86", 99), ("sm_89", 99), ("sm_100", 227)])
def test_shared_memory(name: str, kibibytes: int) -> None:
    assert gpu_machine(name).shared_bytes_per_block == kibibytes << 10


def test_names_tell_capabilities_in_rising_order() -> None:
    capabilities = [machine.capability for machine in GPU_MACHINES.values()]
    assert capabilities == sorted(capabilities)
    assert all(machine.name == name == f"sm_{machine.capability}" for name, machine in GPU_MACHINES.items())


@pytest.mark.parametrize("name", ["sm_90a", "sm_100a", "sm_100f", "sm_120a"])
def test_a_letter_means_no_other_machine(name: str) -> None:
    assert gpu_machine(name) is gpu_machine(name[:-1])


def test_features_by_architecture() -> None:
    def having(feature: str) -> list[str]:
        return [name for name, machine in GPU_MACHINES.items() if getattr(machine, feature)]

    assert having("has_async_copy") == list(GPU_MACHINES)
    # As text, "sm_100" < "sm_90".
    assert having("has_clusters") == ["sm_90", "sm_100", "sm_103", "sm_120", "sm_121"]
    assert [gpu_machine(name).max_cluster for name in ("sm_80", "sm_90", "sm_120")] == [1, 8, 8]


@pytest.mark.parametrize(("capability", "name"), [(80, "sm_80"), (87, "sm_86"), (88, "sm_86"), (90, "sm_90")])
def test_a_device_runs_code_of_its_generation(capability: int, name: str) -> None:
    assert machine_of_capability(capability).name == name


def test_a_missing_architecture_names_the_one_to_take() -> None:
    with pytest.raises(TileUnsupportedError, match="compile for `sm_86`"):
        gpu_machine("sm_87")


@pytest.mark.parametrize("capability", [75, 101, 110])
def test_a_device_that_no_code_runs_on(capability: int) -> None:
    with pytest.raises(TileUnsupportedError, match=f"sm_{capability}"):
        machine_of_capability(capability)


@pytest.mark.parametrize("name", ["sm_101", "sm_110", "sm_200", "hopper", "sm90", "sm_90x", "sm_", ""])
def test_an_unknown_name_lists_the_known(name: str) -> None:
    with pytest.raises(TileUnsupportedError, match="choose one of `sm_80`, `sm_86`"):
        gpu_machine(name)


@pytest.mark.parametrize("name", ["sm_75", "sm_70a"])
def test_too_old(name: str) -> None:
    here = Location("kernel.py", 4)
    with pytest.raises(TileUnsupportedError, match="older than `sm_80`") as info:
        gpu_machine(name, here)
    assert info.value.location == here
