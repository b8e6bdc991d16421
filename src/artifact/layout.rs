//! Elements from where they lie to row-major, little-endian bytes.

/// Elements of `size` bytes, gathered in row-major order. `offset` and `strides` count elements; None when one would lie
/// outside `bytes`. The caller has bounded the product of `shape`.
pub fn gather(bytes: &[u8], offset: usize, shape: &[usize], strides: &[usize], size: usize) -> Option<Vec<u8>> {
    let count = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
    let total = count.checked_mul(size)?;
    if total == 0 {
        return Some(Vec::new());
    }
    let mut last = offset;
    for (d, s) in shape.iter().zip(strides) {
        last = last.checked_add((d - 1).checked_mul(*s)?)?;
    }
    if last.checked_add(1)?.checked_mul(size)? > bytes.len() {
        return None;
    }
    if is_row_major(shape, strides) {
        return bytes.get(offset * size..offset * size + total).map(<[u8]>::to_vec);
    }
    let mut out = Vec::with_capacity(total);
    let (mut index, mut at) = (vec![0usize; shape.len()], offset);
    for _ in 0..count {
        out.extend_from_slice(bytes.get(at * size..at * size + size)?);
        for k in (0..shape.len()).rev() {
            index[k] += 1;
            at += strides[k];
            if index[k] < shape[k] {
                break;
            }
            at -= strides[k] * shape[k];
            index[k] = 0;
        }
    }
    Some(out)
}

fn is_row_major(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1;
    shape.iter().zip(strides).rev().all(|(d, s)| {
        let fits = *d == 1 || *s == expected;
        expected *= d;
        fits
    })
}

/// Strides of column-major order, in elements; None when they overflow.
pub fn column_major(shape: &[usize]) -> Option<Vec<usize>> {
    let mut next = 1usize;
    let stride = |d: &usize| {
        let stride = next;
        next = next.checked_mul(*d)?;
        Some(stride)
    };
    shape.iter().map(stride).collect()
}

/// Turns big-endian numbers of `unit` bytes into little-endian ones.
pub fn swap(bytes: &mut [u8], unit: usize) {
    if unit > 1 {
        bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a transposed, offset or broadcast view were read in another order, or past its end.
    #[test]
    fn views_are_row_major() {
        let bytes: Vec<u8> = (0..6).collect();
        assert_eq!(gather(&bytes, 0, &[2, 3], &column_major(&[2, 3]).unwrap(), 1), Some(vec![0, 2, 4, 1, 3, 5]));
        assert_eq!(gather(&bytes, 1, &[2], &[2], 2), None);
        assert_eq!(gather(&bytes, 0, &[2], &[2], 2), Some(vec![0, 1, 4, 5]));
        assert_eq!(gather(&bytes, 5, &[3], &[0], 1), Some(vec![5, 5, 5]));
        assert_eq!(gather(&bytes, 1, &[2, 2], &[2, 1], 1), Some(vec![1, 2, 3, 4]));
        assert_eq!(gather(&bytes, 6, &[], &[], 1), None);
        assert_eq!(gather(&bytes, 9, &[0, 7], &[1, 1], 1), Some(Vec::new()));
        let mut two = [1, 2, 3, 4];
        swap(&mut two, 2);
        assert_eq!(two, [2, 1, 4, 3]);
    }
}
