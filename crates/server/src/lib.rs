//! The service.
#![forbid(unsafe_code)]
