"""Releases that many processes compute together: the parts that `evertally.spark` and `evertally.beam` share."""
