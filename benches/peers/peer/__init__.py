"""The programs that are compared, one file each."""
