//! Zip files as NumPy and PyTorch write them: stored or deflated entries behind a central directory.
//!
//! A reader of our own, since what matters here is what a convenient one hides: a name given twice, entries that
//! overlap (which unpack without end), a size that is not what is there. Entries are slices of the file; a deflated one
//! is unpacked up to its declared size, which the file's length bounds.

use std::borrow::Cow;
use std::io::Read;

use flate2::Crc;
use flate2::read::DeflateDecoder;

/// One file in a zip file.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// name with its folders
    pub name: String,
    /// bytes as they lie in the file
    packed: &'a [u8],
    deflated: bool,
    size: u64,
    crc: u32,
    /// where its local header begins
    at: usize,
}

/// Most files in a zip file.
const ENTRIES: u64 = 1 << 20;

/// What deflated entries may unpack to, whatever the file's size.
const UNPACKED: u64 = 1 << 30;

/// Further bytes for each byte of the file: more is a bomb, or a mostly empty array that is better stored.
const RATIO: u64 = 64;

/// True for bytes that begin as a zip file does.
pub fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

/// Reads little-endian numbers one after the other; None past the end.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    /// A number of `n` bytes, at most 8.
    fn number(&mut self, n: usize) -> Option<u64> {
        Some(self.bytes(n)?.iter().rev().fold(0, |x, b| x << 8 | u64::from(*b)))
    }
}

/// The files in a zip file, in the order of its directory; folders are left out.
pub fn entries(bytes: &[u8]) -> Result<Vec<Entry<'_>>, String> {
    let (count, at, end) = directory(bytes).ok_or("not a whole zip file: no directory at its end")?;
    if count > ENTRIES {
        return Err(format!("its directory claims {count} entries; at most {ENTRIES} are read"));
    }
    let mut fields = Fields(bytes.get(at..end).ok_or("its directory lies outside the file")?);
    let (mut list, mut names) = (Vec::new(), std::collections::BTreeSet::new());
    for _ in 0..count {
        let entry = central(bytes, at, &mut fields)?;
        if !names.insert(entry.name.clone()) {
            return Err(format!("{:?} stands twice in it", entry.name));
        }
        list.push(entry);
    }
    if !fields.0.is_empty() {
        return Err(format!("its directory holds more than the {count} entries that it counts"));
    }
    check_overlap(&list, at)?;
    check_sizes(&list, bytes.len())?;
    list.retain(|e| !e.name.ends_with('/'));
    Ok(list)
}

/// Entries, begin and end of the central directory.
fn directory(bytes: &[u8]) -> Option<(u64, usize, usize)> {
    let last = bytes.len().checked_sub(22)?;
    let first = last.saturating_sub(0xffff);
    let is_end = |at: &usize| {
        let comment = usize::from(bytes[at + 20]) | usize::from(bytes[at + 21]) << 8;
        bytes[*at..].starts_with(b"PK\x05\x06") && at + 22 + comment == bytes.len()
    };
    let at = (first..=last).rev().find(is_end)?;
    let mut fields = Fields(&bytes[at + 4..]);
    let (disk, start_disk) = (fields.number(2)?, fields.number(2)?);
    let (here, count) = (fields.number(2)?, fields.number(2)?);
    let (size, offset) = (fields.number(4)?, fields.number(4)?);
    let far = at.checked_sub(20).filter(|l| bytes[*l..].starts_with(b"PK\x06\x07"));
    let (count, size, offset, end) = match far {
        Some(locator) => far_directory(bytes, locator)?,
        None if disk == 0 && start_disk == 0 && here == count => (count, size, offset, at),
        None => return None,
    };
    // Nothing may stand between the directory and its end, so that no other reader finds another directory.
    let begin = usize::try_from(offset).ok()?;
    (begin.checked_add(usize::try_from(size).ok()?)? == end).then_some((count, begin, end))
}

/// The same of a zip64 file, behind its locator.
fn far_directory(bytes: &[u8], locator: usize) -> Option<(u64, u64, u64, usize)> {
    let at = usize::try_from(Fields(&bytes[locator + 8..]).number(8)?).ok()?;
    let mut fields = Fields(bytes.get(at..locator)?.strip_prefix(b"PK\x06\x06")?);
    let rest = fields.number(8)?;
    if at.checked_add(12)?.checked_add(usize::try_from(rest).ok()?)? != locator {
        return None;
    }
    fields.bytes(12)?;
    let (here, count) = (fields.number(8)?, fields.number(8)?);
    let (size, offset) = (fields.number(8)?, fields.number(8)?);
    (here == count).then_some((count, size, offset, at))
}

/// One entry of the directory, and where its bytes lie.
fn central<'a>(bytes: &'a [u8], directory: usize, fields: &mut Fields<'_>) -> Result<Entry<'a>, String> {
    let cut = "its directory is cut or not a directory";
    if fields.bytes(4) != Some(b"PK\x01\x02") {
        return Err(cut.to_owned());
    }
    let mut next = |n| fields.number(n).ok_or(cut);
    let (_, flags, method) = (next(4)?, next(2)?, next(2)?);
    let (_, crc) = (next(4)?, next(4)?);
    let (packed, size) = (next(4)?, next(4)?);
    let (name, extra, comment) = (next(2)?, next(2)?, next(2)?);
    let (_, at) = (next(8)?, next(4)?);
    let name = fields.bytes(name as usize).ok_or(cut)?;
    let extra = fields.bytes(extra as usize).ok_or(cut)?;
    fields.bytes(comment as usize).ok_or(cut)?;
    let [size, packed, at] = far_sizes(extra, [size, packed, at]).ok_or(cut)?;
    let name = plain_name(name)?;
    if flags & 1 != 0 {
        return Err(format!("{name:?} in it is encrypted"));
    }
    if ![0, 8].contains(&method) {
        return Err(format!("{name:?} in it is packed by method {method}; stored and deflated entries are read"));
    }
    if method == 0 && packed != size {
        return Err(format!("{name:?} in it is stored, yet {packed} bytes stand for {size}"));
    }
    let outside = || format!("{name:?} in it lies outside the file");
    let at = usize::try_from(at).map_err(|_| outside())?;
    let start = local(bytes, at, &name, method)?;
    let end = usize::try_from(packed).ok().and_then(|n| start.checked_add(n)).filter(|end| *end <= directory);
    let packed = bytes.get(start..end.ok_or_else(outside)?).ok_or_else(outside)?;
    Ok(Entry { name, packed, deflated: method == 8, size, crc: crc as u32, at })
}

/// Sizes and offset, from the zip64 field where the short one is full.
fn far_sizes(extra: &[u8], mut short: [u64; 3]) -> Option<[u64; 3]> {
    if short.iter().all(|x| *x != 0xffff_ffff) {
        return Some(short);
    }
    let mut fields = Fields(extra);
    while !fields.0.is_empty() {
        let (id, length) = (fields.number(2)?, fields.number(2)?);
        let mut field = Fields(fields.bytes(length as usize)?);
        if id == 1 {
            for x in short.iter_mut().filter(|x| **x == 0xffff_ffff) {
                *x = field.number(8)?;
            }
            return Some(short);
        }
    }
    Some(short)
}

/// A name that stays inside, whatever a file system makes of it.
fn plain_name(name: &[u8]) -> Result<String, String> {
    let name = std::str::from_utf8(name).map_err(|_| "a name in it is not UTF-8")?;
    let climbs = name.split('/').any(|part| part == ".." || part == ".");
    if name.is_empty() || name.starts_with('/') || climbs || name.contains(['\\', '\0']) {
        return Err(format!("the name {name:?} in it leaves the folder"));
    }
    Ok(name.to_owned())
}

/// Where the bytes behind a local header begin. Its name must be that of the directory.
fn local(bytes: &[u8], at: usize, name: &str, method: u64) -> Result<usize, String> {
    let wrong = || format!("{name:?} in it is not where the directory says");
    let mut fields = Fields(bytes.get(at..).ok_or_else(wrong)?);
    if fields.bytes(4) != Some(b"PK\x03\x04") {
        return Err(wrong());
    }
    let mut next = |n| fields.number(n).ok_or_else(wrong);
    let (_, own_method) = (next(4)?, next(2)?);
    let (_, _) = (next(8)?, next(8)?);
    let (length, extra) = (next(2)? as usize, next(2)? as usize);
    if own_method != method || fields.bytes(length) != Some(name.as_bytes()) {
        return Err(wrong());
    }
    Ok(at + 30 + length + extra)
}

/// No byte may belong to two entries: that is how a small file unpacks to any size.
fn check_overlap(list: &[Entry<'_>], directory: usize) -> Result<(), String> {
    let mut order: Vec<&Entry<'_>> = list.iter().collect();
    order.sort_by_key(|e| e.at);
    let ends = order.iter().skip(1).map(|e| e.at).chain([directory]);
    for (entry, end) in order.iter().zip(ends) {
        // The bytes are a slice of the file that lies behind the header, so header and bytes are at least so long.
        let least = entry.at + 30 + entry.name.len() + entry.packed.len();
        if least > end {
            return Err(format!("{:?} in it overlaps another entry", entry.name));
        }
    }
    Ok(())
}

/// Declared sizes must be ones that deflate can reach, and bounded by the file's.
fn check_sizes(list: &[Entry<'_>], file: usize) -> Result<(), String> {
    let mut left = UNPACKED + RATIO * file as u64;
    for entry in list.iter().filter(|e| e.deflated) {
        if entry.size > 64 + 1032 * entry.packed.len() as u64 {
            let packed = entry.packed.len();
            return Err(format!("{:?} claims {} bytes, which {packed} cannot unpack to", entry.name, entry.size));
        }
        left = left.checked_sub(entry.size).ok_or_else(|| {
            let limit = UNPACKED + RATIO * file as u64;
            format!("its entries unpack to more than {limit} bytes from {file}; store them uncompressed")
        })?;
    }
    Ok(())
}

impl<'a> Entry<'a> {
    /// Bytes when unpacked.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes; their number and their CRC must be those declared.
    pub fn read(&self) -> Result<Cow<'a, [u8]>, String> {
        let name = &self.name;
        let bytes = if self.deflated {
            let mut out = Vec::new();
            let read = DeflateDecoder::new(self.packed).take(self.size + 1).read_to_end(&mut out);
            read.map_err(|e| format!("{name:?} in it cannot be unpacked: {e}"))?;
            Cow::Owned(out)
        } else {
            Cow::Borrowed(self.packed)
        };
        if bytes.len() as u64 != self.size {
            return Err(format!("{name:?} in it is not of the {} bytes that it claims", self.size));
        }
        let mut crc = Crc::new();
        crc.update(&bytes);
        if crc.sum() != self.crc {
            return Err(format!("{name:?} in it is damaged: its CRC is not that of its bytes"));
        }
        Ok(bytes)
    }
}
