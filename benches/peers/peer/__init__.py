"""The compared programs, one file each."""
