//! A zip file of entries, written by the targets that read zip files: random bytes never get past its sums.

use std::io::Write as _;

/// Entries as name, bytes, and whether they are deflated.
pub fn zipped(entries: &[(&str, &[u8], bool)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes, deflate) in entries {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        let packed = if *deflate {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(bytes).expect("into memory");
            encoder.finish().expect("into memory")
        } else {
            bytes.to_vec()
        };
        let mut header = vec![20, 0, 0, 0, if *deflate { 8 } else { 0 }, 0, 0, 0, 0, 0];
        for n in [crc.sum(), packed.len() as u32, bytes.len() as u32] {
            header.extend(n.to_le_bytes());
        }
        header.extend((name.len() as u16).to_le_bytes());
        header.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&header);
        directory.extend([0; 10]);
        directory.extend((out.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&header);
        out.extend(name.as_bytes());
        out.extend(packed);
    }
    let start = out.len() as u32;
    let count = (entries.len() as u16).to_le_bytes();
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count, count].concat());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}
