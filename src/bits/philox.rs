//! Philox4x32-10 and the streams of rule 7: keys, blocks, uniforms, indices.
//!
//! Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

use sha2::{Digest, Sha256};

/// Key of one stream: `[low, high]` of the first eight bytes of the stream's SHA-256.
pub type Key = [u32; 2];

/// The ten rounds over one counter block.
#[inline]
pub fn philox(counter: [u32; 4], key: Key) -> [u32; 4] {
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let p0 = u64::from(c0) * 0xD251_1F53;
        let p1 = u64::from(c2) * 0xCD9E_8D57;
        (c0, c1, c2, c3) = ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    [c0, c1, c2, c3]
}

/// Key of the stream named `stream` of a seed and a fold.
pub fn stream_key(seed: u64, fold: u32, stream: &str) -> Key {
    let mut hash = Sha256::new();
    hash.update(b"samebits/philox/1");
    hash.update(seed.to_le_bytes());
    hash.update(fold.to_le_bytes());
    hash.update(stream.as_bytes());
    let digest = hash.finalize();
    let word = |i: usize| u32::from_le_bytes([digest[i], digest[i + 1], digest[i + 2], digest[i + 3]]);
    [word(0), word(4)]
}

/// The block of (element, draw, step) of a stream.
#[inline]
pub fn block(key: Key, element: u32, draw: u32, step: u64) -> [u32; 4] {
    philox([element, draw, step as u32, (step >> 32) as u32], key)
}

/// A uniform number in [0, 1) from one word.
#[inline]
pub fn uniform(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// An index below `n` from the first two words of a block (multiply-shift, no rejection).
#[inline]
pub fn index_below(n: u64, words: [u32; 2]) -> u64 {
    let word = u64::from(words[1]) << 32 | u64::from(words[0]);
    ((u128::from(word) * u128::from(n)) >> 64) as u64
}

/// Exploration threshold of rule 7, compared with word 0 as u64.
///
/// `start` and `end` are the threshold's values before and after decay (see [`threshold_of`]), `t` the environment
/// steps done in the fold, `steps` the length of the decay.
#[inline]
pub fn explore_threshold(start: u64, end: u64, t: u64, steps: u32) -> u64 {
    let steps = u64::from(steps);
    start - ((start - end) * if t < steps { t } else { steps }) / steps
}

/// trunc(ε·2^32) of an exploration rate in [0, 1].
pub fn threshold_of(epsilon: f64) -> u64 {
    (epsilon * 4_294_967_296.0) as u64
}

/// The three random actions of one exploration block.
#[inline]
pub fn random_actions(words: [u32; 4]) -> [u8; 3] {
    let action = |w: u32| ((u64::from(w) * 5) >> 32) as u8;
    [action(words[1]), action(words[2]), action(words[3])]
}

/// Initial weight of one element: uniform in ±1/sqrt(fan_in); `scale` is [`initial_scale`] of the layer.
#[inline]
pub fn initial_weight(key: Key, element: u32, scale: f32) -> f32 {
    let word = block(key, element, 0, 0)[0];
    ((word >> 8) as i32 - (1 << 23)) as f32 * (1.0 / 8_388_608.0) * scale
}

/// f32(1/sqrt(fan_in)), square root and division in f64.
pub fn initial_scale(fan_in: usize) -> f32 {
    (1.0 / (fan_in as f64).sqrt()) as f32
}
