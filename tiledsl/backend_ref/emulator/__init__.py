"""The emulator: GPU IR executed thread by thread and byte by byte, and checked. See docs/emulator.md.

emulate ─> launches ─> scheduler ─> agents ─> ops: one file per kind of op
                           │           └────> shadow: who accessed which bytes, and whether in order
                           └─> meetings, mbarriers, flights: what agents wait for
"""
