"""Variants as JSON, for the disk; their machine code stands beside it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tiledsl.backend_cuda.build.cubin import Cubin, KernelResources
from tiledsl.backend_cuda.build.variant import Variant
from tiledsl.backend_cuda.frame.kernel_code import (
    Assertion,
    CudaSource,
    KernelCode,
    KernelParameter,
    ScratchCode,
    TensorMapCode,
)
from tiledsl.ir.symbolic import dim_from_text
from tiledsl.passes.gpu.plan import GridPlan, LibraryPlan, Plan
from tiledsl.passes.library.library_product import product_from_json, product_to_json
from tiledsl.passes.manager import Remark
from tiledsl.runtime.programs.variant_report import TileReport
from tiledsl.support.location import Location


def variant_to_json(variant: Variant) -> dict[str, Any]:
    """All of a variant but its code. Of the places of remarks the lines."""
    return {
        "plan": plan_to_json(variant.plan),
        **program_to_json(variant.program),
        "arch": variant.machine_code.arch,
        "log": variant.machine_code.log,
        "resources": [asdict(kernel) for kernel in variant.machine_code.kernels],
        "ir": variant.ir,
        "notes": variant.notes,
        "remarks": [[r.pass_name, r.location.file, r.location.line, r.text] for r in variant.remarks],
        "tiles": [asdict(tile) for tile in variant.tiles],
        "product": None if variant.product is None else product_to_json(variant.product),
    }


def variant_from_json(described: dict[str, Any], code: bytes) -> Variant:
    """The inverse of `variant_to_json`, with the machine code."""
    resources = tuple(KernelResources(**fields) for fields in described["resources"])
    cubin = Cubin(code, described["arch"], described["log"], resources)
    source = program_from_json(described)
    notes = tuple(described["notes"])
    remarks = tuple(Remark(name, Location(file, line), text) for name, file, line, text in described["remarks"])
    tiles = tuple(TileReport(**tile) for tile in described["tiles"])
    product = None if described["product"] is None else product_from_json(described["product"])
    return Variant(plan_from_json(described["plan"]), source, cubin, described["ir"], notes, remarks, tiles, product)


def program_to_json(source: CudaSource) -> dict[str, Any]:
    """The text of a program and how it is launched."""
    return {
        "text": source.text,
        "kernels": [_kernel_to_json(kernel) for kernel in source.kernels],
        "assertions": [[a.text, a.location.file, a.location.line, a.location.column] for a in source.assertions],
        "maps": [_map_to_json(map_) for map_ in source.maps],
        "scratch": [{"shape": [str(dim) for dim in one.shape], "dtype": one.dtype} for one in source.scratch],
    }


def program_from_json(described: dict[str, Any]) -> CudaSource:
    """The inverse of `program_to_json`."""
    kernels = tuple(_kernel_from_json(kernel) for kernel in described["kernels"])
    assertions = tuple(Assertion(text, Location(*place)) for text, *place in described["assertions"])
    maps = tuple(_map_from_json(map_) for map_ in described["maps"])
    scratch = tuple(
        ScratchCode(tuple(dim_from_text(dim) for dim in one["shape"]), one["dtype"]) for one in described["scratch"]
    )
    return CudaSource(described["text"], kernels, assertions, maps, scratch)


def plan_to_json(plan: Plan) -> dict[str, Any]:
    return asdict(plan)


def plan_from_json(described: dict[str, Any]) -> Plan:
    """The inverse of `plan_to_json`: lists become tuples again."""
    grids = tuple(_grid_from_json(**grid) for grid in described["grids"])
    pairs: dict[str, Any] = {
        name: tuple((key, value) for key, value in described[name])
        for name in ("blocks", "capacities", "sizes", "divisors")
    }
    numbers = {name: tuple(described[name]) for name in ("alignment", "parts", "packed", "steps", "turned")}
    call = described["library"]
    library = None if call is None else LibraryPlan(call["version"], tuple(call["algorithm"]), call["workspace"])
    flags = {name: described[name] for name in ("chained", "forwarded")}
    return Plan(grids, **flags, **numbers, **pairs, library=library)


def _grid_from_json(*, warps: list[int], copied: list[int], lines: list[int], **others: Any) -> GridPlan:
    rows, columns = warps
    return GridPlan(warps=(rows, columns), copied=tuple(copied), lines=tuple(lines), **others)


def _map_to_json(code: TensorMapCode) -> dict[str, Any]:
    return {**asdict(code), "shape": [str(dim) for dim in code.shape]}


def _map_from_json(described: dict[str, Any]) -> TensorMapCode:
    shape = tuple(dim_from_text(dim) for dim in described["shape"])
    return TensorMapCode(
        tensor=described["tensor"],
        name=described["name"],
        dtype=described["dtype"],
        shape=shape,
        axes=tuple(described["axes"]),
        box=tuple(described["box"]),
        swizzle=described["swizzle"],
        windows=tuple(map(tuple, described["windows"])),
    )


def _kernel_to_json(kernel: KernelCode) -> dict[str, Any]:
    return {**asdict(kernel), "programs": None if kernel.programs is None else str(kernel.programs)}


def _kernel_from_json(described: dict[str, Any]) -> KernelCode:
    programs = described["programs"]
    return KernelCode(
        name=described["name"],
        programs=None if programs is None else dim_from_text(programs),
        threads=described["threads"],
        cluster=described["cluster"],
        shared_bytes=described["shared_bytes"],
        parameters=tuple(KernelParameter(**parameter) for parameter in described["parameters"]),
        overlaps=described["overlaps"],
        waits_first=described["waits_first"],
    )
