"""What reads IR text, made ready: its tables take longer to make than a program takes to read."""

from __future__ import annotations

from tiledsl.ir.text.parser import parse_module

READ = parse_module("func @nothing(%x: tensor<f32, [1]>) {\n  graph.return([%x])\n}\n")
