//! The fingerprint `fp/1` of `docs/contract.md`: 128 bits, an index of where to look, taken at every step.
//!
//! Verified: the contract's vectors; a maintained value against a full recomputation (property test).

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::sha::{hex, to_hex};

/// Bytes of one block.
pub const BLOCK: usize = 1024;
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A fingerprint: lane 0, lane 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fingerprint(pub [u64; 2]);

/// The splitmix64 finaliser.
#[inline]
pub fn mix64(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Word constants K of both lanes.
pub static KEYS: LazyLock<[[u32; 256]; 2]> = LazyLock::new(|| {
    let key = |k: u64, i: u64| mix64((k * 256 + i + 1).wrapping_mul(GOLDEN)) as u32;
    [0, 1].map(|k| std::array::from_fn(|i| key(k, i as u64)))
});

/// Contribution of block `j` to both lanes. `bytes` is at most [`BLOCK`] long.
#[inline]
fn block(bytes: &[u8], j: usize) -> [u64; 2] {
    let keys = &*KEYS;
    let full: &[u8; BLOCK] = match bytes.try_into() {
        Ok(full) => full,
        Err(_) => {
            let mut padded = [0; BLOCK];
            padded[..bytes.len()].copy_from_slice(bytes);
            return lanes(&padded, keys, j);
        }
    };
    lanes(full, keys, j)
}

#[inline]
fn lanes(bytes: &[u8; BLOCK], keys: &[[u32; 256]; 2], j: usize) -> [u64; 2] {
    let mut f = [0u64; 2];
    for (i, pair) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let low = u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]);
        let high = u32::from_le_bytes([pair[4], pair[5], pair[6], pair[7]]);
        for k in 0..2 {
            let product = u64::from(low ^ keys[k][2 * i]) * u64::from(high ^ keys[k][2 * i + 1]);
            f[k] = f[k].wrapping_add(product);
        }
    }
    f.map(|f| mix64(f.wrapping_add((j as u64 + 1).wrapping_mul(GOLDEN))))
}

/// Fingerprint of one byte string.
pub fn fingerprint(bytes: &[u8]) -> Fingerprint {
    let length = mix64(bytes.len() as u64 + 1);
    let mut sum = [length; 2];
    for (j, part) in bytes.chunks(BLOCK).enumerate() {
        let add = block(part, j);
        sum = [sum[0].wrapping_add(add[0]), sum[1].wrapping_add(add[1])];
    }
    Fingerprint(sum)
}

/// The fingerprint of a buffer that changes in places, kept up from the blocks written.
#[derive(Clone, Debug, Default)]
pub struct Maintained {
    blocks: Vec<[u64; 2]>,
    sum: Fingerprint,
}

impl Maintained {
    /// Starts from the whole buffer.
    pub fn new(bytes: &[u8]) -> Self {
        let blocks = bytes.chunks(BLOCK).enumerate().map(|(j, part)| block(part, j)).collect();
        Maintained { blocks, sum: fingerprint(bytes) }
    }

    /// Takes in that the bytes in `written` changed; `bytes` is the whole buffer, as long as at the start.
    pub fn update(&mut self, bytes: &[u8], written: std::ops::Range<usize>) {
        if written.is_empty() {
            return;
        }
        for j in written.start / BLOCK..=(written.end - 1) / BLOCK {
            let part = &bytes[j * BLOCK..if (j + 1) * BLOCK < bytes.len() { (j + 1) * BLOCK } else { bytes.len() }];
            let new = block(part, j);
            for ((sum, old), new) in self.sum.0.iter_mut().zip(self.blocks[j]).zip(new) {
                *sum = sum.wrapping_sub(old).wrapping_add(new);
            }
            self.blocks[j] = new;
        }
    }

    /// The value as maintained.
    pub fn value(&self) -> Fingerprint {
        self.sum
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.0.map(u64::to_be_bytes);
        f.write_str(&to_hex(&[low, high].concat()))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("expected 32 lower-case hex digits, found {:?}", text.chars().take(80).collect::<String>());
        let bytes: [u8; 16] = hex(text).ok_or_else(bad)?;
        let value = u128::from_be_bytes(bytes);
        Ok(Fingerprint([(value >> 64) as u64, value as u64]))
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Would fail if a maintained value could drift from the buffer's true fingerprint.
        #[test]
        fn maintained_equals_recomputed(len in 1usize..5000, writes in prop::collection::vec((0usize..5000, 1usize..1500, any::<u8>()), 0..12)) {
            let mut buffer: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut kept = Maintained::new(&buffer);
            for (at, n, value) in writes {
                let start = at % len;
                let end = if start + n < len { start + n } else { len };
                buffer[start..end].fill(value);
                kept.update(&buffer, start..end);
                prop_assert_eq!(kept.value(), fingerprint(&buffer));
            }
        }
    }
}
