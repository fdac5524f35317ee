"""Leaf room: how code is compiled, threaded and kept numerically stable."""
