//! The contract's rule 1 on the text of compiled kernels: one rounding an operation, to nearest, nothing flushed, nothing
//! approximated, no floating-point atomics, and fused only where the file says so.
//!
//! Verified: each kind of violation, on small texts. What a driver makes of these instructions is its promise: `.rn`
//! operations are never contracted.

/// Instructions outside the contract, each with its kernel.
pub fn violations(ptx: &str, may_fuse: bool) -> Vec<String> {
    let (mut kernel, mut found) = ("", Vec::new());
    for line in ptx.lines() {
        let line = line.trim();
        if let Some(rest) = line.split(".entry ").nth(1) {
            kernel = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(rest);
        }
        // A predicate, when there is one, stands before the instruction.
        let line = if line.starts_with('@') { line.split_once(' ').map_or("", |(_, rest)| rest.trim()) } else { line };
        let instruction = line.split([' ', '\t', ';']).next().unwrap_or_default();
        if let Some(reason) = refused(instruction, may_fuse) {
            found.push(format!("{kernel}: {instruction}: {reason}"));
        }
    }
    found
}

/// Why an instruction may not stand in a kernel.
fn refused(instruction: &str, may_fuse: bool) -> Option<&'static str> {
    let mut parts = instruction.split('.');
    let operation = parts.next().unwrap_or_default();
    let parts: Vec<&str> = parts.collect();
    let has = |name: &str| parts.contains(&name);
    let floating = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "tf32"].iter().any(|t| has(t));
    if !floating {
        return None;
    }
    match operation {
        _ if has("approx") => Some("approximated"),
        _ if has("ftz") => Some("subnormals are flushed"),
        _ if has("rz") || has("rm") || has("rp") => Some("rounded another way"),
        _ if has("sat") => Some("limited to 0 and 1"),
        "atom" | "red" => Some("a floating-point atomic: its order is not fixed"),
        "mad" => Some("fused or not as the compiler likes"),
        "fma" if !has("rn") => Some("rounding is not said"),
        "fma" if !may_fuse => Some("fused in a file that does not say so"),
        "add" | "sub" | "mul" if !has("rn") => Some("may be contracted"),
        "div" | "sqrt" if !has("rn") => Some("rounding is not said"),
        "sin" | "cos" | "ex2" | "lg2" | "tanh" | "rcp" | "rsqrt" | "mma" | "wmma" | "wgmma" => {
            Some("not of the contract")
        }
        "min" | "max" => Some("loses NaN; write the comparison"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if an instruction outside the contract passed, or one of it did not.
    #[test]
    fn instructions() {
        let of = |line: &str| violations(&format!(".visible .entry k(\n\t{line}\n"), false).len();
        for good in [
            "add.rn.f32 %f1, %f2, %f3;",
            "@%p1 mul.rn.f32 %f1, %f2, %f3;",
            "div.rn.f32 %f1, %f2, %f3;",
            "sqrt.rn.f32 %f1, %f2;",
            "atom.global.add.u64 %rd1, [%rd2], %rd3;",
            "ld.global.f32 %f1, [%rd1];",
            "setp.gt.f32 %p1, %f1, %f2;",
            "cvt.rn.f32.u32 %f1, %r1;",
            "cvt.rzi.u32.f32 %r1, %f1;",
        ] {
            assert_eq!(of(good), 0, "{good}");
        }
        for bad in [
            "add.f32 %f1, %f2, %f3;",
            "@%p1 mul.f32 %f1, %f2, %f3;",
            "fma.rn.f32 %f1, %f2, %f3, %f4;",
            "mad.rn.f32 %f1, %f2, %f3, %f4;",
            "div.approx.f32 %f1, %f2, %f3;",
            "div.full.f32 %f1, %f2, %f3;",
            "add.rn.ftz.f32 %f1, %f2, %f3;",
            "atom.global.add.f32 %f1, [%rd2], %f3;",
            "red.global.add.f64 [%rd2], %fd3;",
            "add.rz.f32 %f1, %f2, %f3;",
            "max.f32 %f1, %f2, %f3;",
        ] {
            assert_eq!(of(bad), 1, "{bad}");
        }
        assert!(violations("fma.rn.f32 %f1, %f2, %f3, %f4;", true).is_empty());
        assert_eq!(violations(".entry k(\nfma.f32 %f1;", true), ["k: fma.f32: rounding is not said"]);
    }
}
