//! Standard normal variables from words of a keystream.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod f32;
mod f64;
mod tables;
mod tail;
#[cfg(test)]
mod tests;

pub use f32::normals_f32;
pub use f64::normals_f64;

/// Segments of this octave and beyond are rare: their words take more bits.
const RARE: u32 = 15;

/// Normals that share a test for rare words.
const BLOCK: usize = 64;

/// More random bits for the normal at a position of the slice.
type Tail<'a> = &'a mut dyn FnMut(usize) -> u128;

/// On the borders of cache lines.
#[repr(C, align(64))]
struct Aligned<T>(T);

/// Rows to columns.
#[cfg(target_arch = "x86_64")]
const fn columns<T: Copy, const WIDTH: usize, const COUNT: usize>(rows: &[[T; WIDTH]; 32]) -> [[T; 32]; COUNT] {
    let mut columns = [[rows[0][0]; 32]; COUNT];
    let mut place = 0;
    while place < 32 * COUNT {
        columns[place / 32][place % 32] = rows[place % 32][place / 32];
        place += 1;
    }
    columns
}
