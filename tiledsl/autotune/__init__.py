"""Measured plans: what is found by running, where the model of a machine may err. docs/search.md has the design."""
