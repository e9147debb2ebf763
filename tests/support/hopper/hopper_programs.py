"""Correct programs for Hopper, written by hand as GPU IR: with them the emulator is tried, whole and with mistakes."""

from __future__ import annotations

from functools import cache

from tests.support.hopper.hopper_attention import attention_programs
from tests.support.hopper.hopper_copies import copy_programs
from tests.support.hopper.hopper_gemms import gemm_programs
from tests.support.hopper.hopper_text import HopperProgram


@cache
def hopper_programs() -> tuple[HopperProgram, ...]:
    """All of them, in an order that stays."""
    return (*copy_programs(), *gemm_programs(), *attention_programs())


@cache
def wrapping_programs() -> tuple[HopperProgram, ...]:
    """Those in which every stage is used again: a mistake in them has the time to do harm."""
    return tuple(program for program in hopper_programs() if program.wraps)
