"""What others do for attention: FlashAttention-3 and -2, cuDNN, Triton, TileLang. Each may be absent or fail.

Where a peer can be asked in several ways, it is, and its fastest answer counts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.gpu.attention_cases import AttentionCase, Heads
from benchmarks.gpu.peers.common import Call, Peers

FA3, CUDNN, FA2, TRITON, TILELANG = "FA3", "cuDNN", "FA2", "Triton", "TileLang"
WAYS = {
    FA3: ("FA3", "FA3 heads first"),
    CUDNN: ("cuDNN", "cuDNN tokens first"),
    FA2: ("FA2",),
    TRITON: ("Triton",),
    TILELANG: ("TileLang",),
}
"""By peer, the names of the ways to ask it. Those in the order of memory that it prefers come first."""
MODULES = {FA3: "flash_attn_interface", TRITON: "triton", TILELANG: "tilelang"}
"""What must be importable for a peer. cuDNN and FA2 come with PyTorch."""


def prepare(torch: Any, case: AttentionCase, heads: Heads, peers: Peers) -> dict[str, Call]:
    """The ways to ask peers that are there and right, by name."""
    ready: dict[str, Call] = {}
    for tokens_first in (False, True):
        calls: dict[str, Callable[[], Call]] = {}
        q, k, v = heads.by_sequence(case, tokens_first=tokens_first)
        if tokens_first:
            calls["FA3"] = partial(flash3, q, k, v, case.causal)
            for name, backend in (("cuDNN tokens first", "CUDNN_ATTENTION"), ("FA2", "FLASH_ATTENTION")):
                calls[name] = partial(sdpa_tokens_first, torch, backend, q, k, v, case)
        else:
            calls["FA3 heads first"] = partial(flash3_heads_first, q, k, v, case.causal)
            calls["cuDNN"] = partial(sdpa, torch, "CUDNN_ATTENTION", q, k, v, case)
        expected = heads.expected_by_sequence(case, tokens_first=tokens_first)
        ready |= peers.prepare(case.name, calls, expected)
    for name, module in (
        (TRITON, "benchmarks.gpu.peers.triton_attention"),
        (TILELANG, "benchmarks.gpu.peers.tilelang_attention"),
    ):
        ready |= peers.prepare(case.name, {name: by_module(name, module, heads, case.causal)}, heads.expected)
    return ready


def needed(name: str, module: str | None = None) -> Any:
    """The module that a peer needs, or `module`, which is built on it. Raises whatever its import raises."""
    found = importlib.import_module(MODULES[name])
    return importlib.import_module(module) if module else found


def by_module(name: str, module: str, heads: Heads, causal: bool) -> Callable[[], Call]:
    """Makes the call of a kernel of ours for a peer, on the tensors that tiledsl gets."""
    return lambda: needed(name, module).attention(heads.q, heads.k, heads.v, causal)


def flash3(q: Any, k: Any, v: Any, causal: bool) -> Call:
    """For q, k, v[batch, S, heads, D]."""
    function = needed(FA3).flash_attn_func
    return lambda: function(q, k, v, causal=causal)


def flash3_heads_first(q: Any, k: Any, v: Any, causal: bool) -> Call:
    """For q, k, v[batch, heads, S, D]."""
    call = flash3(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), causal)
    return lambda: call().transpose(1, 2)


def sdpa(torch: Any, backend: str, q: Any, k: Any, v: Any, case: AttentionCase) -> Call:
    """By PyTorch, with one of its back ends and no other, for q, k, v[batch, heads, S, D]."""
    attention = torch.nn.attention
    chosen = getattr(attention.SDPBackend, backend)
    function = torch.nn.functional.scaled_dot_product_attention
    grouped = {"enable_gqa": True} if case.group > 1 else {}

    def call() -> Any:
        with attention.sdpa_kernel(chosen):
            return function(q, k, v, is_causal=case.causal, **grouped)

    return call


def sdpa_tokens_first(torch: Any, backend: str, q: Any, k: Any, v: Any, case: AttentionCase) -> Call:
    """The same for q, k, v[batch, S, heads, D]."""
    call = sdpa(torch, backend, q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), case)
    return lambda: call().transpose(1, 2)
