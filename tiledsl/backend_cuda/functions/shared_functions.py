"""Device functions that read and write shared memory, up to 16 bytes at once, through pointers."""

from __future__ import annotations

from tiledsl.backend_cuda.functions.memory_functions import REGISTER_TYPES, vector_name
from tiledsl.backend_cuda.functions.preamble import define

_FIELDS = "xyzw"
_VECTOR_TYPES = {"unsigned": "uint", "int": "int", "float": "float", "double": "double", "long long": "longlong",
                 "unsigned long long": "ulonglong"}  # fmt: skip

for _type, (_, _letter, _bits) in REGISTER_TYPES.items():
    for _count in (1, 2, 4):
        if _count * _bits > 128:
            continue
        _whole = _type if _count == 1 else f"{_VECTOR_TYPES[_type]}{_count}"
        _name = vector_name(_type, _count)
        _parts = [""] if _count == 1 else [f".{field}" for field in _FIELDS[:_count]]
        _reads = " ".join(f"to[{i}] = whole{part};" for i, part in enumerate(_parts))
        _writes = " ".join(f"whole{part} = from[{i}];" for i, part in enumerate(_parts))
        define(
            f"read_shared_{_name}",
            f"{_count * _bits // 8} bytes of shared memory",
            f"void read_shared_{_name}({_type}* to, const void* from) {{\n"
            f"    const {_whole} whole = *reinterpret_cast<const {_whole}*>(from);\n    {_reads}\n}}",
        )
        define(
            f"write_shared_{_name}",
            f"{_count * _bits // 8} bytes to shared memory",
            f"void write_shared_{_name}(void* to, const {_type}* from) {{\n"
            f"    {_whole} whole;\n    {_writes}\n    *reinterpret_cast<{_whole}*>(to) = whole;\n}}",
        )
for _bits, _type in ((16, "unsigned short"), (8, "unsigned char")):
    define(
        f"read_shared_bits{_bits}",
        f"{_bits} bits of shared memory",
        f"unsigned read_shared_bits{_bits}(const void* from) {{\n"
        f"    return *reinterpret_cast<const {_type}*>(from);\n}}",
    )
    define(
        f"write_shared_bits{_bits}",
        f"{_bits} bits to shared memory",
        f"void write_shared_bits{_bits}(void* to, unsigned bits) {{\n"
        f"    *reinterpret_cast<{_type}*>(to) = ({_type})bits;\n}}",
    )
