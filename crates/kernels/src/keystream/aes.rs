//! AES-128 in counter mode.
//!
//! The portable set uses the `aes` crate, which is bitsliced if the processor has no instructions for AES: constant
//! time everywhere.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128Enc, Block};

use super::GROUP;
use crate::InstructionSet;
use crate::instruction_set::Instructions;

#[cfg(target_arch = "x86_64")]
pub(in crate::keystream) mod x86;

/// Blocks of 16 bytes in a group.
const BLOCKS: usize = GROUP / 4;

/// An expanded key, in the form that an instruction set needs. Overwritten when dropped.
pub(super) enum RoundKeys {
    /// Boxed, because bitsliced keys are large.
    Portable(Box<Aes128Enc>),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::AesRoundKeys),
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::AesRoundKeys),
}

impl RoundKeys {
    pub(super) fn new(key: &[u8; 16], instructions: InstructionSet) -> Self {
        match instructions.kind() {
            Instructions::Portable => Self::Portable(Box::new(Aes128Enc::new(key.into()))),
            // SAFETY: a set exists only if the processor has its instructions.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => Self::Avx2(unsafe { x86::AesRoundKeys::new(key) }),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => Self::Avx512(unsafe { x86::AesRoundKeys::new(key) }),
        }
    }

    /// Whole groups; the halves are those of the name of the first block, and the upper one is a multiple of 64.
    pub(super) fn groups(&self, lower: u64, upper: u64, groups: &mut [[u32; GROUP]]) {
        debug_assert!(upper.is_multiple_of(BLOCKS as u64), "groups are aligned");
        match self {
            Self::Portable(keys) => portable(keys, lower, upper, groups),
            // SAFETY: this variant is created only from a set, and a set exists only if the processor has its
            // instructions.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(keys) => unsafe { keys.groups_avx2(lower, upper, groups) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(keys) => unsafe { keys.groups_avx512(lower, upper, groups) },
        }
    }
}

fn portable(keys: &Aes128Enc, lower: u64, mut upper: u64, groups: &mut [[u32; GROUP]]) {
    let mut blocks = [Block::default(); BLOCKS];
    for group in groups {
        for (i, block) in (0..).zip(&mut blocks) {
            // The counter's last six bits number the group's blocks: nothing is carried.
            *block = (u128::from(lower) | u128::from(upper | i) << 64).to_le_bytes().into();
        }
        upper = upper.wrapping_add(BLOCKS as u64); // past 2^64 only after the very last group
        keys.encrypt_blocks(&mut blocks);
        for (words, block) in group.as_chunks_mut::<4>().0.iter_mut().zip(&blocks) {
            for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
        }
    }
}
