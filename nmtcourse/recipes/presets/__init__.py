"""Presets that need more than the core."""
