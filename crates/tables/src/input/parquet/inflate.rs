//! Decompresses a page into exactly the number of bytes that its header declares.
//!
//! The Parquet library allocates memory for any output of some of these codecs.

use parquet::basic::Compression;
use std::io::Read;

/// Decompresses pages of a column.
pub(super) struct Inflate {
    codec: Compression,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

/// The first byte of a Brotli stream with a window of up to 1 GiB, which no Parquet writer produces.
const LARGE_BROTLI_WINDOW: u8 = 0x11;

impl Inflate {
    pub(super) fn new(codec: Compression) -> Self {
        Inflate { codec, zstd: None }
    }

    /// Whether pages are compressed at all.
    pub(super) fn is_needed(&self) -> bool {
        self.codec != Compression::UNCOMPRESSED
    }

    /// Appends exactly this number of bytes.
    ///
    /// # Errors
    /// A reason, if the output has another length.
    pub(super) fn append(&mut self, from: &[u8], bytes: usize, to: &mut Vec<u8>) -> Result<(), String> {
        let (start, whole) = (to.len(), to.len() + bytes);
        to.reserve_exact(bytes);
        let mut in_place = |decompress: &mut dyn FnMut(&mut [u8]) -> Result<usize, String>| {
            to.resize(whole, 0);
            decompress(&mut to[start..]).and_then(|made| exactly(made, bytes))
        };
        match self.codec {
            Compression::SNAPPY => {
                in_place(&mut |to| snap::raw::Decoder::new().decompress(from, to).map_err(|e| e.to_string()))
            }
            Compression::LZ4_RAW => in_place(&mut |to| lz4_block(from, to)),
            Compression::LZ4 => {
                in_place(&mut |to| lz4_hadoop(from, to).or_else(|_| lz4_block(from, to))).or_else(|_| {
                    to.truncate(start);
                    read_exactly(lz4_flex::frame::FrameDecoder::new(from), bytes, to)
                })
            }
            Compression::ZSTD(_) => {
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    none => none.insert(zstd::bulk::Decompressor::new().map_err(|e| e.to_string())?),
                };
                in_place(&mut |to| zstd.decompress_to_buffer(from, to).map_err(|e| e.to_string()))
            }
            Compression::GZIP(_) => read_exactly(flate2::read::MultiGzDecoder::new(from), bytes, to),
            Compression::BROTLI(_) => {
                if from.first().is_some_and(|first| first & 0x7f == LARGE_BROTLI_WINDOW) {
                    return Err("a Brotli window of more than 16 MiB".into());
                }
                read_exactly(brotli_decompressor::Decompressor::new(from, 4096), bytes, to)
            }
            other => Err(format!("compressed with {other}, which is not supported")),
        }
    }
}

fn read_exactly(from: impl Read, bytes: usize, to: &mut Vec<u8>) -> Result<(), String> {
    let made = from.take(bytes as u64 + 1).read_to_end(to).map_err(|e| e.to_string())?;
    exactly(made, bytes)
}

fn exactly(made: usize, bytes: usize) -> Result<(), String> {
    if made == bytes { Ok(()) } else { Err("its decompressed size differs from its header".into()) }
}

fn lz4_block(from: &[u8], to: &mut [u8]) -> Result<usize, String> {
    lz4_flex::block::decompress_into(from, to).map_err(|e| e.to_string())
}

/// The Hadoop framing: for each block its decompressed and compressed size (big-endian), then its bytes.
fn lz4_hadoop(mut from: &[u8], to: &mut [u8]) -> Result<usize, String> {
    let mut made = 0;
    while !from.is_empty() {
        let size =
            |at: usize| from.get(at..at + 4).map(|size| u32::from_be_bytes(size.try_into().expect("four")) as usize);
        let (Some(plain), Some(packed)) = (size(0), size(4)) else { return Err("cut".into()) };
        let end = packed.checked_add(8).ok_or("cut")?;
        let block = from.get(8..end).ok_or("cut")?;
        let room = plain.checked_add(made).and_then(|end| to.get_mut(made..end)).ok_or("too long")?;
        made += lz4_block(block, room).and_then(|n| exactly(n, plain).map(|()| n))?;
        from = &from[end..];
    }
    Ok(made)
}
