//! `samebits kernels`: compiles every kernel without a GPU, and holds its instructions against the contract's rule 1.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::Failure;
use super::table::aligned;
use crate::compare::verdict::exit;
use crate::engine::cuda::compile::Compiler;
use crate::engine::cuda::kernels::{for_each_source, sources};
use crate::engine::cuda::ptx::violations;
use crate::{say, tell};

/// Architectures that CI compiles for.
const TARGETS: [(u32, u32); 7] = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];

/// Arguments of `samebits kernels`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Architecture such as sm_90 (repeatable) [default: 75, 80, 86, 89, 90, 100, 120]
    #[arg(long = "target", value_name = "SM", value_parser = target)]
    pub targets: Vec<(u32, u32)>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn target(text: &str) -> Result<(u32, u32), String> {
    let digits = text.strip_prefix("sm_").unwrap_or(text);
    let number = digits.parse::<u32>().ok().filter(|n| (50..1000).contains(n));
    number.map(|n| (n / 10, n % 10)).ok_or_else(|| format!("{text:?}: expected an architecture such as sm_90"))
}

/// Compiles and checks.
pub fn main(args: Args) -> Result<u8, Failure> {
    let compiler = Compiler::open(None).map_err(Failure::unverified)?;
    let targets = if args.targets.is_empty() { TARGETS.to_vec() } else { args.targets };
    let bar = indicatif::ProgressBar::new((targets.len() * sources().len()) as u64);
    let (bytes, broken) = (Mutex::new(BTreeMap::<(u32, u32), usize>::new()), Mutex::new(BTreeSet::new()));
    for_each_source(&targets, |source, target| {
        let ptx = compiler.ptx(source, target)?;
        let may_fuse = source.text.contains("#define CONTRACT_FUSES");
        let found = violations(&ptx, may_fuse).into_iter().map(|v| format!("kernels/{}.cu, {v}", source.stem));
        broken.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        let code = compiler.cubin(source, target)?.len();
        *bytes.lock().unwrap_or_else(PoisonError::into_inner).entry(target).or_default() += code;
        bar.inc(1);
        Ok(())
    })
    .map_err(Failure::unverified)?;
    bar.finish_and_clear();
    let (bytes, broken) = (bytes.into_inner().unwrap_or_default(), broken.into_inner().unwrap_or_default());
    let mut rows = vec![["architecture", "files", "machine code"].map(str::to_owned).to_vec()];
    rows.extend(bytes.iter().map(|(target, bytes)| {
        let name = format!("sm_{}{}", target.0, target.1);
        vec![name, sources().len().to_string(), format!("{} KiB", bytes / 1024)]
    }));
    let (major, minor) = compiler.version;
    if args.json {
        let nvrtc = format!("{major}.{minor}");
        say!(
            "{}",
            serde_json::json!({ "schema": "samebits-kernels/1", "nvrtc": nvrtc, "rows": rows, "violations": broken })
        );
    } else {
        tell!("{}", aligned(&rows, 2));
        broken.iter().for_each(|b| say!("{b}"));
        say!(
            "NVRTC {major}.{minor}: {} architectures, {} instructions outside the contract",
            targets.len(),
            broken.len()
        );
    }
    Ok(if broken.is_empty() { exit::SAME } else { exit::DIFFERENT })
}
