//! Matrices of doubles in NumPy's format, version 1.0 (`numpy.lib.format`): a header, then the entries in little-endian
//! order. Written here, because a library that also reads the format would bring 15 more packages.

use std::io::{self, Write};

/// The order of the entries in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Row by row.
    Rows,
    /// Column by column.
    Columns,
}

/// A matrix that is written entry by entry.
pub(super) struct MatrixWriter<W> {
    out: W,
    missing: u64,
}

impl<W: Write> MatrixWriter<W> {
    /// Writes the header of a matrix with these numbers of rows and columns.
    pub(super) fn new(mut out: W, [rows, columns]: [u64; 2], order: Order) -> io::Result<Self> {
        let fortran = if order == Order::Columns { "True" } else { "False" };
        let mut header = format!("{{'descr': '<f8', 'fortran_order': {fortran}, 'shape': ({rows}, {columns}), }}");
        // The entries begin at a multiple of 64 bytes: after magic number, version, length, header and a line break.
        while !(10 + header.len() + 1).is_multiple_of(64) {
            header.push(' ');
        }
        header.push('\n');
        out.write_all(b"\x93NUMPY\x01\x00")?;
        out.write_all(&(header.len() as u16).to_le_bytes())?; // fits: two numbers have at most 40 digits
        out.write_all(header.as_bytes())?;
        Ok(Self { out, missing: rows * columns }) // fits: the caller limits the number of entries to 2^36
    }

    /// Writes the next entry.
    ///
    /// # Panics
    /// If the matrix is complete.
    pub(super) fn push(&mut self, entry: f64) -> io::Result<()> {
        self.missing = self.missing.checked_sub(1).expect("no more entries than the shape has");
        self.out.write_all(&entry.to_le_bytes())
    }

    /// Ends the matrix.
    ///
    /// # Panics
    /// If entries are missing.
    pub(super) fn finish(self) {
        assert_eq!(self.missing, 0, "entries are missing");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that `numpy.save` writes (NumPy 2).
    #[test]
    fn the_header_is_that_of_numpy() {
        for (shape, order, dictionary) in [
            ([2, 3], Order::Rows, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"),
            ([1, 1 << 36], Order::Columns, "{'descr': '<f8', 'fortran_order': True, 'shape': (1, 68719476736), }"),
        ] {
            let mut bytes = Vec::new();
            MatrixWriter::new(&mut bytes, shape, order).unwrap();
            assert_eq!(bytes.len(), 128);
            assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
            assert_eq!(bytes[10..], *format!("{dictionary:<117}\n").as_bytes());
        }
        let mut bytes = Vec::new();
        let mut writer = MatrixWriter::new(&mut bytes, [1, 2], Order::Rows).unwrap();
        writer.push(1.0).unwrap();
        writer.push(-2.5).unwrap();
        writer.finish();
        assert_eq!(bytes[128..], [1.0f64.to_le_bytes(), (-2.5f64).to_le_bytes()].concat());
    }

    #[test]
    #[should_panic(expected = "entries are missing")]
    fn an_incomplete_matrix_is_a_fault() {
        MatrixWriter::new(Vec::new(), [2, 2], Order::Rows).unwrap().finish();
    }
}
