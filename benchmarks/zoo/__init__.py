"""Formulas of the field, in families: what plans are judged by, audited without a GPU and measured with one."""
