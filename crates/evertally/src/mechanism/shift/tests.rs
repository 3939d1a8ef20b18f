//! The explicit shift.
