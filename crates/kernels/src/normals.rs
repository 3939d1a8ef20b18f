//! Stand-in for the keyed normal variables.
use crate::Path;

/// Stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// Stand-in.
    Aes128Ctr,
}

/// Stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockName {
    /// Below 128.
    pub level: u8,
    /// Any.
    pub index: u64,
}

/// The standard normal variables of all nodes and coordinates under one key.
pub struct Normals {
    key: u64,
    path: Path,
}

impl Normals {
    /// Stand-in.
    pub fn new(_cipher: Cipher, key: &[u8; 32], path: Path) -> Self {
        Self { key: u64::from_le_bytes(key[..8].try_into().expect("8 bytes")), path }
    }

    /// The instructions in use.
    pub fn path(&self) -> Path {
        self.path
    }

    fn at(&self, node: BlockName, coordinate: u64) -> f64 {
        let mut sum = -6.0;
        let mut x = self.key
            ^ node.index.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ coordinate.wrapping_mul(0xd6e8_feb8_6659_fd93)
            ^ u64::from(node.level) << 57;
        for _ in 0..12 {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            sum += ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        }
        sum
    }

    /// Stand-in.
    pub fn fill_f32(&self, node: BlockName, first: u64, out: &mut [f32]) {
        out.iter_mut().zip(first..).for_each(|(z, c)| *z = self.at(node, c) as f32);
    }

    /// Stand-in.
    pub fn fill_f64(&self, node: BlockName, first: u64, out: &mut [f64]) {
        out.iter_mut().zip(first..).for_each(|(z, c)| *z = self.at(node, c));
    }
}
