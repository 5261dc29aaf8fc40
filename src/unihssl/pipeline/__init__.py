"""A run from its two sources to a measured model: the steps that `fit` and `unihssl train` share."""
