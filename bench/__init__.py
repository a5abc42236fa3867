"""Measurements. Each answers a question in its first line, as ratios within one run: these machines are shared."""
