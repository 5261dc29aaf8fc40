"""Grids of runs, and the tables and figures made from them."""
