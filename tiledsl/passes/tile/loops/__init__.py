"""Passes over loops: what they carry, add up, have in common with their neighbours, and how they are cut or joined."""
