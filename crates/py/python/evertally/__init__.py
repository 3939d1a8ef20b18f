"""Differentially private continual release."""

from ._evertally import __version__

__all__ = ["__version__"]
