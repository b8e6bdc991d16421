//! What of the surroundings may be written down.
//!
//! Environment variables are recorded by an allow-list; names that look like secrets never, and their values are masked
//! in any text that is kept (command lines, stderr).

use std::collections::BTreeMap;

const EXACT: [&str; 4] = ["NVIDIA_TF32_OVERRIDE", "PYTHONHASHSEED", "LD_LIBRARY_PATH", "SAMEBITS_SIMD"];
const PREFIXES: [&str; 6] = ["CUDA_", "CUBLAS", "NCCL_", "OMP_", "MKL_", "RAYON_"];
const SECRET: [&str; 5] = ["TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL"];

/// True for a name whose value must never be written.
pub fn is_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    SECRET.iter().any(|word| upper.contains(word))
}

/// True for a name that a trace may record.
pub fn is_allowed(name: &str) -> bool {
    !is_secret(name) && (EXACT.contains(&name) || PREFIXES.iter().any(|p| name.starts_with(p)))
}

/// The recordable part of this process's environment, secrets masked.
pub fn environment() -> BTreeMap<String, String> {
    let mask = Mask::from_environment();
    let text = |os: std::ffi::OsString| os.into_string().ok();
    let pairs = std::env::vars_os().filter_map(|(n, v)| Some((text(n)?, text(v)?)));
    pairs.filter(|(name, _)| is_allowed(name)).map(|(name, value)| (name, mask.apply(&value))).collect()
}

/// Values that must not appear in anything written.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    secrets: Vec<String>,
    places: Vec<(String, &'static str)>,
}

impl Mask {
    /// Secrets of this process's environment, and its home, host and user names.
    pub fn from_environment() -> Self {
        let text = |os: std::ffi::OsString| os.into_string().ok();
        let vars = std::env::vars_os().filter_map(|(n, v)| Some((text(n)?, text(v)?)));
        let mut secrets: Vec<String> = vars.filter(|(n, v)| is_secret(n) && v.len() >= 4).map(|(_, v)| v).collect();
        secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
        let home = std::env::var("HOME").ok().filter(|h| h.len() > 1);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut places: Vec<(String, &'static str)> = home.into_iter().map(|h| (h, "<home>")).collect();
        if host.len() >= 4 && host != "localhost" {
            places.push((host, "<host>"));
        }
        // Names as short or as common as `root` would be masked inside other words.
        let user = ["USER", "LOGNAME"].iter().find_map(|n| std::env::var(n).ok());
        places.extend(user.filter(|u| u.len() >= 4 && u != "root").map(|u| (u, "<user>")));
        Mask { secrets, places }
    }

    /// Also the values of secret-looking options in a command's arguments, wherever they appear.
    pub fn and_arguments(mut self, argv: &[String]) -> Self {
        let after = argv.windows(2).filter(|w| w[0].starts_with('-') && !w[0].contains('=') && is_secret(&w[0]));
        let joined = argv.iter().filter_map(|a| a.split_once('=')).filter(|(name, _)| is_secret(name));
        let values = after.map(|w| w[1].as_str()).chain(joined.map(|(_, value)| value));
        self.secrets.extend(values.filter(|v| v.len() >= 4).map(str::to_owned));
        self.secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
        self
    }

    /// True for a text with a secret in it.
    pub fn hides(&self, text: &str) -> bool {
        self.secrets.iter().any(|s| text.contains(s.as_str())) || mask_pairs(text) != text
    }

    /// The text with secrets as `<masked>`, home, host and user as placeholders, and the values of secret-looking
    /// `name=value` and `--name value` words masked.
    pub fn apply(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for secret in &self.secrets {
            out = out.replace(secret.as_str(), "<masked>");
        }
        for (value, name) in &self.places {
            out = out.replace(value.as_str(), name);
        }
        mask_pairs(&out)
    }

    /// The same for bytes that are no text: secrets, home, host and user are replaced.
    pub fn apply_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        let hidden = self.secrets.iter().map(|s| (s.as_str(), "<masked>"));
        for (value, name) in hidden.chain(self.places.iter().map(|(v, n)| (v.as_str(), *n))) {
            let (mut next, mut rest) = (Vec::new(), out.as_slice());
            while let Some(at) = rest.windows(value.len()).position(|w| w == value.as_bytes()) {
                next.extend_from_slice(&rest[..at]);
                next.extend_from_slice(name.as_bytes());
                rest = &rest[at + value.len()..];
            }
            next.extend_from_slice(rest);
            out = next;
        }
        out
    }
}

fn mask_pairs(text: &str) -> String {
    let mut hide_next = false;
    let mask = |word: &str| -> String {
        if hide_next && !word.trim().is_empty() {
            hide_next = false;
            return format!("<masked>{}", &word[word.trim_end().len()..]);
        }
        match word.split_once('=') {
            Some((name, value)) if is_secret(name) && !value.trim().is_empty() => {
                format!("{name}=<masked>{}", &value[value.trim_end().len()..])
            }
            None if word.starts_with("--") && is_secret(word) => {
                hide_next = true;
                word.to_owned()
            }
            _ => word.to_owned(),
        }
    };
    text.split_inclusive(char::is_whitespace).map(mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Would fail if a secret-looking name could be recorded, even under an allowed prefix.
    #[test]
    fn secrets_are_never_allowed() {
        assert!(is_allowed("CUDA_VISIBLE_DEVICES") && is_allowed("PYTHONHASHSEED"));
        assert!(!is_allowed("CUDA_API_KEY") && !is_allowed("HOME") && !is_allowed("AWS_SECRET_ACCESS"));
    }

    /// Would fail if a secret given as an argument survived where the program repeats it.
    #[test]
    fn arguments_are_masked_wherever_they_appear() {
        let argv = ["train", "--api-key", "two words", "--token=defg", "--seed", "1234", "-Password", "xyzw"];
        let mask = Mask::default().and_arguments(&argv.map(str::to_owned));
        assert_eq!(mask.apply("two words, defg 1234 xyzw"), "<masked>, <masked> 1234 <masked>");
    }

    /// Would fail if a secret in a command line survived.
    #[test]
    fn command_lines_are_masked() {
        let mask = Mask { secrets: vec!["hunter22".into()], places: vec![("/home/ann".into(), "<home>")] };
        let text = mask.apply("train --api-key abc --token=def /home/ann/x hunter22 PASSWORD=q --seed 1");
        assert_eq!(text, "train --api-key <masked> --token=<masked> <home>/x <masked> PASSWORD=<masked> --seed 1");
    }
}
