"""Backbones, their weights, and the classifier built on them."""
