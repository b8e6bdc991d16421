//! Kernels from source to machine code: NVRTC for the device at hand, kept in a folder of compiled kernels.
//!
//! A kept file is keyed by everything that decides it (source, headers, options, NVRTC's version, architecture), begins
//! with its own SHA-256, and is written under another name, synced and renamed. One that does not verify is compiled
//! again.

use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};

use cudarc::nvrtc::sys;

use super::error::CudaError;
use crate::digest::sha::{Hasher, sha256};

/// Options of every kernel: the contract's rule 1.
const OPTIONS: [&str; 5] = ["--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17"];

macro_rules! texts {
    ($($name:literal),*) => { [$(($name, include_str!(concat!("../../../kernels/", $name)))),*] };
}

/// Headers that kernels include, by name.
const HEADERS: [(&str, &str); 6] =
    texts!["contract.cuh", "learner.cuh", "priority.cuh", "ring.cuh", "state.cuh", "trading.cuh"];

/// A kernel file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// its stem, shared with its launcher
    pub stem: &'static str,
    /// its text
    pub text: &'static str,
    /// preprocessor definitions
    pub defines: Vec<(&'static str, u32)>,
}

/// Source of a stem: `source!("adam")`.
macro_rules! source {
    ($stem:literal) => {
        crate::engine::cuda::compile::Source {
            stem: $stem,
            text: include_str!(concat!("../../../kernels/", $stem, ".cu")),
            defines: Vec::new(),
        }
    };
}
pub(super) use source;

/// NVRTC, loaded at run time.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// version as NVRTC says it
    pub version: (i32, i32),
    kept: Option<PathBuf>,
}

/// A program of NVRTC's, destroyed when dropped.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program was created and is not destroyed elsewhere.
        let _ = unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}

impl Compiler {
    /// NVRTC 12 or newer; compiled kernels are kept below `kept`.
    pub fn open(kept: Option<&Path>) -> Result<Self, CudaError> {
        // SAFETY: opens and closes a library by name; its initialisers are NVRTC's own.
        if !unsafe { sys::is_culib_present() } {
            let lacks = "libnvrtc.so is not on the library path (it comes with the CUDA toolkit, or with PyPI's nvidia-cuda-nvrtc)";
            return Err(CudaError::NoCompiler(lacks.to_owned()));
        }
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the library is present; both numbers outlive the call.
        let answer = unsafe { sys::nvrtcVersion(&mut major, &mut minor) } as u32;
        if answer != 0 || major < 12 {
            let found = format!("version {major}.{minor} (answer {answer}); expected 12 or newer");
            return Err(CudaError::NoCompiler(found));
        }
        Ok(Compiler { version: (major, minor), kept: kept.map(Path::to_owned) })
    }

    /// Machine code for one architecture, kept or compiled.
    pub fn cubin(&self, source: &Source, target: (u32, u32)) -> Result<Vec<u8>, CudaError> {
        let options = options(source, &format!("sm_{}{}", target.0, target.1));
        let Some(folder) = &self.kept else { return self.compile(source, &options, Output::Cubin) };
        let file = folder.join(format!("{}-{}.cubin", source.stem, &self.key(source, &options)[..32]));
        if let Some(code) = read_kept(&file) {
            return Ok(code);
        }
        let code = self.compile(source, &options, Output::Cubin)?;
        let whole = [&sha256(&code).0[..], &code].concat();
        let unwritten = |source| CudaError::Cache { path: file.display().to_string(), source };
        crate::trace::writer::write_atomically(&file, &whole).map_err(unwritten)?;
        Ok(code)
    }

    /// Text of the virtual architecture's instructions.
    pub fn ptx(&self, source: &Source, target: (u32, u32)) -> Result<String, CudaError> {
        let options = options(source, &format!("compute_{}{}", target.0, target.1));
        let text = self.compile(source, &options, Output::Ptx)?;
        Ok(String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned())
    }

    fn key(&self, source: &Source, options: &[String]) -> String {
        let mut hasher = Hasher::default();
        hasher.update(format!("{:?}", self.version).as_bytes()).update(source.text.as_bytes());
        HEADERS.iter().for_each(|(name, text)| {
            hasher.update(name.as_bytes()).update(text.as_bytes());
        });
        options.iter().for_each(|o| {
            hasher.update(b"\0").update(o.as_bytes());
        });
        hasher.finish().to_string()
    }

    fn compile(&self, source: &Source, options: &[String], output: Output) -> Result<Vec<u8>, CudaError> {
        let program = create(source)?;
        let options: Vec<CString> = options.iter().map(|o| c_string(o)).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the program is alive; the options are C strings that outlive the call, as many as is said.
        let answer = unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as i32, pointers.as_ptr()) } as u32;
        if answer != 0 {
            let target = options[0].to_string_lossy().into_owned();
            return Err(CudaError::Compile { stem: source.stem, target, log: log(&program) });
        }
        fetch(&program, output).map_err(|answer| CudaError::Compile {
            stem: source.stem,
            target: options[0].to_string_lossy().into_owned(),
            log: format!("compiled, but NVRTC answered {answer} when asked for the code"),
        })
    }
}

#[derive(Clone, Copy)]
enum Output {
    Cubin,
    Ptx,
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

fn options(source: &Source, architecture: &str) -> Vec<String> {
    let mut all = vec![format!("--gpu-architecture={architecture}")];
    all.extend(OPTIONS.map(str::to_owned));
    all.extend(source.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    all
}

fn create(source: &Source) -> Result<Program, CudaError> {
    let (text, name) = (c_string(source.text), c_string(&format!("{}.cu", source.stem)));
    let headers = HEADERS.map(|(name, text)| (c_string(name), c_string(text)));
    let (texts, names) = (headers.each_ref().map(|h| h.1.as_ptr()), headers.each_ref().map(|h| h.0.as_ptr()));
    let mut program = std::ptr::null_mut();
    let count = HEADERS.len() as i32;
    // SAFETY: all strings end in 0 and outlive the call, which copies them; the arrays are as long as is said.
    let answer = unsafe {
        sys::nvrtcCreateProgram(&mut program, text.as_ptr(), name.as_ptr(), count, texts.as_ptr(), names.as_ptr())
    } as u32;
    if answer != 0 {
        return Err(CudaError::NoCompiler(format!("nvrtcCreateProgram answered {answer}")));
    }
    Ok(Program(program))
}

/// The code that a compiled program holds.
fn fetch(program: &Program, output: Output) -> Result<Vec<u8>, u32> {
    let mut size = 0;
    // SAFETY: the program is compiled; `size` outlives the calls, and the buffer has the size that they gave.
    unsafe {
        let answer = match output {
            Output::Cubin => sys::nvrtcGetCUBINSize(program.0, &mut size),
            Output::Ptx => sys::nvrtcGetPTXSize(program.0, &mut size),
        };
        if answer as u32 != 0 {
            return Err(answer as u32);
        }
        let mut code = vec![0u8; size];
        let answer = match output {
            Output::Cubin => sys::nvrtcGetCUBIN(program.0, code.as_mut_ptr().cast()),
            Output::Ptx => sys::nvrtcGetPTX(program.0, code.as_mut_ptr().cast()),
        };
        if answer as u32 == 0 { Ok(code) } else { Err(answer as u32) }
    }
}

fn log(program: &Program) -> String {
    let mut size = 0;
    // SAFETY: the program is alive; `size` outlives the calls, and the buffer has the size that they gave.
    let text = unsafe {
        if sys::nvrtcGetProgramLogSize(program.0, &mut size) as u32 != 0 {
            return "no log".to_owned();
        }
        let mut text = vec![0u8; size];
        if sys::nvrtcGetProgramLog(program.0, text.as_mut_ptr().cast()) as u32 != 0 {
            return "no log".to_owned();
        }
        text
    };
    String::from_utf8_lossy(&text).trim_end_matches(['\0', '\n']).to_owned()
}

/// A kept file's code, if it verifies.
fn read_kept(file: &Path) -> Option<Vec<u8>> {
    let whole = std::fs::read(file).ok()?;
    let (digest, code) = whole.split_at_checked(32)?;
    (sha256(code).0 == digest).then(|| code.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a damaged kept file were loaded.
    #[test]
    fn a_kept_file_verifies() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.cubin");
        std::fs::write(&file, [&sha256(b"code").0[..], b"code"].concat()).unwrap();
        assert_eq!(read_kept(&file).unwrap(), b"code");
        std::fs::write(&file, [&sha256(b"code").0[..], b"cod"].concat()).unwrap();
        assert_eq!(read_kept(&file), None);
        std::fs::write(&file, b"short").unwrap();
        assert_eq!(read_kept(&file), None);
    }
}
