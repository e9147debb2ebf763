"""Measured plans: what is found by running, where the model of a machine may err. docs/search.md has the design."""

from tiledsl.autotune.candidates.rules import Facts, forget_rule, rule

__all__ = ["Facts", "forget_rule", "rule"]
