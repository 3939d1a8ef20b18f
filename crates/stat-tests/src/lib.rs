//! Shared statistics for the tests in `tests/`.
