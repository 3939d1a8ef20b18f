//! Tests of sketches.
