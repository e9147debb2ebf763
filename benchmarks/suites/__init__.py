"""Suites that others wrote, run against the installed package."""
