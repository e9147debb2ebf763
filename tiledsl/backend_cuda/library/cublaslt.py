"""cuBLASLt by ctypes: the few of its functions that a product takes. Numbers are those of its header `cublasLt.h`.

Matrices lie column by column. D = act(op(A) op(B) + bias), with sums in f32; C is D, and is not read (beta is 0).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from tiledsl.passes.gpu.plan import LibraryPlan
from tiledsl.passes.library.library_product import MatmulCall, NoLibraryCallError
from tiledsl.support.when_dropped import when_dropped

WORKSPACE = 32 << 20
"""Bytes that an algorithm may take at most beside its tensors."""
ALGORITHM_WORDS = 8
COMPUTE_32F = 68
DATA_TYPES = {"f32": 0, "f16": 2, "bf16": 14}
TRANSPOSED = 1
DESC_TRANSA, DESC_TRANSB, DESC_EPILOGUE, DESC_BIAS_POINTER, DESC_BIAS_DATA_TYPE = 3, 4, 7, 8, 26
LAYOUT_BATCH_COUNT, LAYOUT_BATCH_OFFSET = 5, 6
PREFERENCE_WORKSPACE, PREFERENCE_REDUCTIONS, PREFERENCE_ALIGNMENT_A = 1, 3, 5
REDUCTION_COMPUTE_TYPE = 2
"""Parts of sums are kept in f32, and added up in order by another kernel. Not allowed are: in place, which rounds each
part to the result's dtype, and in the result's dtype."""
EPILOGUES = {"": 1, "relu": 2, "gelu": 32}
EPILOGUE_BIAS = 4
DEFAULT_WITH_BIAS = 4
"""Without an activation, that a bias is added is all of the epilogue."""


class HeuristicResult(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`"""

    _fields_ = [
        ("algorithm", ctypes.c_uint64 * ALGORITHM_WORDS),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


_POINTER, _INT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
_SET = (_POINTER, _INT, _POINTER, _SIZE)
_PROTOTYPES: dict[str, Sequence[Any]] = {
    "cublasLtCreate": (_POINTER,),
    "cublasLtMatmulDescCreate": (_POINTER, _INT, _INT),
    "cublasLtMatmulDescSetAttribute": _SET,
    "cublasLtMatmulDescDestroy": (_POINTER,),
    "cublasLtMatrixLayoutCreate": (_POINTER, _INT, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64),
    "cublasLtMatrixLayoutSetAttribute": _SET,
    "cublasLtMatrixLayoutDestroy": (_POINTER,),
    "cublasLtMatmulPreferenceCreate": (_POINTER,),
    "cublasLtMatmulPreferenceSetAttribute": _SET,
    "cublasLtMatmulPreferenceDestroy": (_POINTER,),
    "cublasLtMatmulAlgoGetHeuristic": (*(_POINTER,) * 7, _INT, _POINTER, _POINTER),
    "cublasLtMatmulAlgoCheck": (_POINTER,) * 8,
    "cublasLtMatmul": (*(_POINTER,) * 14, _SIZE, _POINTER),
}


class CublasLt:
    """The library, as `Library` has it."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        """Raises AttributeError where it does not have all functions."""
        loaded.cublasLtGetVersion.restype = _SIZE
        loaded.cublasLtGetStatusName.restype = ctypes.c_char_p
        for name, types in _PROTOTYPES.items():
            getattr(loaded, name).argtypes = types
        self.functions = loaded
        self.version = int(loaded.cublasLtGetVersion())
        self._handles: dict[int, int] = {}
        self._lock = threading.Lock()

    def algorithms(self, call: MatmulCall, alignment: Sequence[int], count: int, device: int) -> list[LibraryPlan]:
        """As `Library.algorithms`."""
        described = Description(self, call, alignment[3] if call.bias >= 0 else 0)
        preference = self.created("cublasLtMatmulPreferenceCreate")
        results = (HeuristicResult * count)()
        found = ctypes.c_int(0)
        try:
            self._prefer(preference, PREFERENCE_WORKSPACE, ctypes.c_uint64(WORKSPACE))
            self._prefer(preference, PREFERENCE_REDUCTIONS, ctypes.c_uint32(REDUCTION_COMPUTE_TYPE))
            for place, known in enumerate((*alignment[:2], alignment[2], alignment[2])):  # A, B, C, D
                self._prefer(preference, PREFERENCE_ALIGNMENT_A + place, ctypes.c_uint32(known))
            self.call(
                "cublasLtMatmulAlgoGetHeuristic", self.handle(device), *described.words, preference, count,
                ctypes.addressof(results), ctypes.addressof(found),
            )  # fmt: skip
        finally:
            self.functions.cublasLtMatmulPreferenceDestroy(preference)
        good = [one for one in results[: found.value] if one.state == 0 and one.workspace <= WORKSPACE]
        plans = [LibraryPlan(self.version, tuple(one.algorithm), int(one.workspace)) for one in good]
        return list(dict.fromkeys(plans))

    def ready(self, call: MatmulCall, plan: LibraryPlan, device: int) -> Matmul:
        """As `Library.ready`."""
        return Matmul(self, Description(self, call, 16), plan, self.handle(device))

    def handle(self, device: int) -> int:
        """The library's handle for the current context; one for each device, for as long as the process runs."""
        with self._lock:
            if device not in self._handles:
                self._handles[device] = self.created("cublasLtCreate")
            return self._handles[device]

    def created(self, name: str, *arguments: object) -> int:
        """What a function makes, whose first parameter is where that goes."""
        made = ctypes.c_void_p()
        self.call(name, ctypes.addressof(made), *arguments)
        return made.value or 0

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function. Raises NoLibraryCallError for a status that is no success."""
        status = getattr(self.functions, name)(*arguments)
        if status != 0:
            raise NoLibraryCallError(f"{name} gives {self.status(status)}")

    def status(self, number: int) -> str:
        """`CUBLAS_STATUS_NOT_SUPPORTED`"""
        return (self.functions.cublasLtGetStatusName(number) or str(number).encode()).decode()

    def _prefer(self, preference: int, attribute: int, value: Any) -> None:
        self.call(
            "cublasLtMatmulPreferenceSetAttribute", preference, attribute, ctypes.addressof(value), ctypes.sizeof(value)
        )


class Description:
    """The descriptors of a call, which go with it. `bias`: where its bias is, as far as alignment counts."""

    def __init__(self, library: CublasLt, call: MatmulCall, bias: int) -> None:
        self._library = library
        self._made: list[tuple[str, int]] = []
        when_dropped(self, _destroyed, library.functions, self._made)
        data, made = DATA_TYPES[call.dtype], DATA_TYPES[call.out_dtype]
        self.operation = self._new("MatmulDesc", COMPUTE_32F, DATA_TYPES["f32"])
        for attribute, turned in zip((DESC_TRANSA, DESC_TRANSB), call.turned):
            self.operation_is(attribute, ctypes.c_int32(TRANSPOSED if turned else 0))
        epilogue = EPILOGUES[call.activation]
        if call.bias >= 0:
            epilogue = epilogue | EPILOGUE_BIAS if call.activation else DEFAULT_WITH_BIAS
            self.operation_is(DESC_BIAS_DATA_TYPE, ctypes.c_int32(made))
            self.operation_is(DESC_BIAS_POINTER, ctypes.c_uint64(bias))
        self.operation_is(DESC_EPILOGUE, ctypes.c_uint32(epilogue))
        shapes = [(call.rows, call.sums), (call.sums, call.columns), (call.rows, call.columns)]
        layouts: list[int] = []
        for (rows, columns), turned, line, step, dtype in zip(
            shapes, (*call.turned, False), call.lines, call.steps, (data, data, made)
        ):
            stored = (columns, rows) if turned else (rows, columns)
            layout = self._new("MatrixLayout", dtype, *stored, line)
            if call.batches > 1:
                self._lies(layout, LAYOUT_BATCH_COUNT, ctypes.c_int32(call.batches))
                self._lies(layout, LAYOUT_BATCH_OFFSET, ctypes.c_int64(step))
            layouts.append(layout)
        self.layouts = (*layouts, layouts[2])
        """Of A, B, C and D: C, which is not read, lies as D."""

    @property
    def words(self) -> tuple[int, ...]:
        """As functions take them, one after the other."""
        return (self.operation, *self.layouts)

    def operation_is(self, attribute: int, value: Any) -> None:
        """Sets an attribute of the operation."""
        name = "cublasLtMatmulDescSetAttribute"
        self._library.call(name, self.operation, attribute, ctypes.addressof(value), ctypes.sizeof(value))

    def _lies(self, layout: int, attribute: int, value: Any) -> None:
        name = "cublasLtMatrixLayoutSetAttribute"
        self._library.call(name, layout, attribute, ctypes.addressof(value), ctypes.sizeof(value))

    def _new(self, kind: str, *arguments: object) -> int:
        made = self._library.created(f"cublasLt{kind}Create", *arguments)
        self._made.append((f"cublasLt{kind}Destroy", made))
        return made


def _destroyed(functions: Any, made: list[tuple[str, int]]) -> None:
    for name, descriptor in made:
        getattr(functions, name)(descriptor)


class Matmul:
    """A call by an algorithm, as `ReadyCall`."""

    def __init__(self, library: CublasLt, described: Description, plan: LibraryPlan, handle: int) -> None:
        """Raises NoLibraryCallError where the library does not have the algorithm for the call."""
        self._library = library
        self._described = described
        self._handle = handle
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        self._algorithm = (ctypes.c_uint64 * ALGORITHM_WORDS)(*plan.algorithm)
        self._workspace = plan.workspace
        self._bias = 0
        self._lock = threading.Lock()
        """Where a bias lies stands in the descriptor, which calls share."""
        result = HeuristicResult()
        library.call(
            "cublasLtMatmulAlgoCheck", handle, *described.words, ctypes.addressof(self._algorithm),
            ctypes.addressof(result),
        )  # fmt: skip
        if result.workspace > plan.workspace:
            raise NoLibraryCallError(f"the algorithm takes {result.workspace} bytes, and not {plan.workspace}")
        self._alpha, self._beta = ctypes.addressof(self._one), ctypes.addressof(self._zero)
        self._by = ctypes.addressof(self._algorithm)
        self._matmul = library.functions.cublasLtMatmul

    def __call__(self, addresses: Sequence[int], workspace: int, stream: int) -> None:
        """As `ReadyCall`."""
        if not addresses[3]:
            status = self._launched(addresses, workspace, stream)
        else:
            with self._lock:
                if addresses[3] != self._bias:
                    self._described.operation_is(DESC_BIAS_POINTER, ctypes.c_uint64(addresses[3]))
                    self._bias = addresses[3]
                status = self._launched(addresses, workspace, stream)
        if status != 0:
            raise NoLibraryCallError(f"cublasLtMatmul gives {self._library.status(status)}")

    def _launched(self, addresses: Sequence[int], workspace: int, stream: int) -> int:
        first, second, out, _ = addresses
        operation, a, b, c, d = self._described.words
        return self._matmul(
            self._handle, operation, self._alpha, first, a, second, b, self._beta, out, c, out, d, self._by, workspace,
            self._workspace, stream,
        )  # fmt: skip
