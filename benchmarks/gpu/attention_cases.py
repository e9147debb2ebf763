"""The attentions that are measured: sizes, what is asked of them, their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TOKENS = 16384
"""In all the sequences of a case together, or a little fewer."""
WIDTH = 2048
"""Heads times their dimension."""
LEAST = 0.93
"""Of FlashAttention-3, of each case that has a bar."""
GEOMEAN = 1.00
"""Of FlashAttention-3, of them all."""
MOST_SCORES = 1 << 28
"""Scores in float64 that the reference has at a time."""


@dataclass(frozen=True)
class AttentionCase:
    """softmax(q k.T / sqrt(dim)) v, over so many queries and as many keys; causal: a query sees no later key."""

    dim: int
    length: int
    causal: bool
    dtype: str = "bf16"
    group: int = 1
    """How many heads of queries share one of keys and values."""
    barred: bool = True

    @property
    def name(self) -> str:
        shared = f" {self.group} share" if self.group > 1 else ""
        return f"attention {self.dtype} d{self.dim} {self.length}{shared}{' causal' if self.causal else ''}"

    @property
    def batch(self) -> int:
        return max(1, TOKENS // self.length)

    @property
    def heads(self) -> int:
        """Of the queries of one sequence."""
        return WIDTH // self.dim

    @property
    def operations(self) -> float:
        """Those of the two products; of causal attention half, as everybody counts them."""
        return 4.0 * self.length**2 * self.dim * self.heads * self.batch / (2 if self.causal else 1)

    @property
    def bar(self) -> float | None:
        return LEAST if self.barred else None


CASES = [
    *(
        AttentionCase(dim, length, causal)
        for dim in (64, 128, 256)
        for length in (1024, 4096, 16384)
        for causal in (False, True)
    ),
    AttentionCase(128, 4096, False, dtype="f16", barred=False),
    AttentionCase(128, 4096, True, dtype="f16", barred=False),
    AttentionCase(128, 4096, False, group=4, barred=False),
    AttentionCase(128, 4096, True, group=4, barred=False),
    AttentionCase(128, 1000, True, barred=False),
    AttentionCase(128, 4095, False, barred=False),
]


@dataclass(frozen=True)
class Heads:
    """Random q[H, S, D], k and v[H / group, S, D], heads of all sequences; and the result in float64."""

    q: Any
    k: Any
    v: Any
    expected: Any

    def by_sequence(self, case: AttentionCase, *, tokens_first: bool) -> list[Any]:
        """q, k, v as [batch, heads, S, D]; with `tokens_first` copies in the order [batch, S, heads, D]."""
        shape = case.batch, -1, case.length, case.dim
        whole = [x.view(*shape) for x in (self.q, self.k, self.v)]
        return [x.transpose(1, 2).contiguous() for x in whole] if tokens_first else whole

    def expected_by_sequence(self, case: AttentionCase, *, tokens_first: bool) -> Any:
        whole = self.expected.view(case.batch, case.heads, case.length, case.dim)
        return whole.transpose(1, 2) if tokens_first else whole


def draw(torch: Any, case: AttentionCase, device: str = "cuda") -> Heads:
    """Values of a case."""
    random = torch.Generator(device=device).manual_seed(0)
    dtype = torch.float16 if case.dtype == "f16" else torch.bfloat16
    heads = case.batch * case.heads
    q, k, v = (
        torch.randn((count, case.length, case.dim), device=device, generator=random).to(dtype)
        for count in (heads, heads // case.group, heads // case.group)
    )
    return Heads(q, k, v, reference(torch, q, k, v, causal=case.causal))


def reference(torch: Any, q: Any, k: Any, v: Any, *, causal: bool, most: int = MOST_SCORES) -> Any:
    """The result in float64, some heads at a time."""
    heads, queries, dim = q.shape
    keys, group = k.shape[1], heads // k.shape[0]
    out = torch.empty((heads, queries, dim), dtype=torch.float64, device=q.device)
    hidden = None
    if causal:
        hidden = torch.ones((queries, keys), dtype=torch.bool, device=q.device).triu(1 + keys - queries)
    step = max(1, most // (queries * keys))
    for first in range(0, heads, step):
        chosen = torch.arange(first, min(first + step, heads), device=q.device)
        scores = torch.matmul(q[chosen].double() * dim**-0.5, k[chosen // group].double().mT)
        if hidden is not None:
            scores.masked_fill_(hidden, float("-inf"))
        out[chosen] = torch.matmul(torch.softmax(scores, -1), v[chosen // group].double())
    return out
