//! Text tables that read well without colour.

/// Rows of equal length as aligned lines; the first row is the head. Columns after the first `left` are set right.
pub fn aligned(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).fold(0, usize::max);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cell = |(c, text): (usize, &String)| {
            let pad = " ".repeat(widths[c] - text.chars().count());
            if c < left { format!("{text}{pad}") } else { format!("{pad}{text}") }
        };
        row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(|r| line(r) + "\n").collect()
}

/// `1.5 MB`
pub fn bytes(n: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut x, mut unit) = (n as f64, 0);
    while x >= 1000.0 && unit + 1 < units.len() {
        x /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{x:.1} {}", units[unit]) }
}
