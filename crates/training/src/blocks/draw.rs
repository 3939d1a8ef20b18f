//! The function that draws innovations.

/// Draws innovations: fills a slice with those of one node, the number of its step counted from 0, for the coordinates
/// from `first` on. It must be a pure function of node and coordinate.
///
/// The slice covers whole groups of 32 (`f32`) or 16 (`f64`) coordinates, aligned to their numbers and at most 256 or
/// 128 of them, aligned to that; so it may extend a little beyond the requested range.
pub(super) type Draw<'a, F> = dyn Fn(u64, u64, &mut [F]) + Sync + 'a;
