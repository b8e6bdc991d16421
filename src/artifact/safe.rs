//! safetensors files: tensors, and the `__metadata__` of the header, whose order is not the file's but that of a hash
//! table, so that it is compared sorted by key.

use std::collections::BTreeMap;

use safetensors::SafeTensors;
use serde::Deserialize;

use super::{Found, Tensor};
use crate::trace::record::{Dtype, Ordered};

/// The type that traces have too; None for bytes of another type (F8 and smaller).
fn dtype(of_file: safetensors::Dtype) -> Option<Dtype> {
    Some(match of_file {
        safetensors::Dtype::BOOL => Dtype::Bool,
        safetensors::Dtype::U8 => Dtype::U8,
        safetensors::Dtype::I8 => Dtype::I8,
        safetensors::Dtype::U16 => Dtype::U16,
        safetensors::Dtype::I16 => Dtype::I16,
        safetensors::Dtype::U32 => Dtype::U32,
        safetensors::Dtype::I32 => Dtype::I32,
        safetensors::Dtype::U64 => Dtype::U64,
        safetensors::Dtype::I64 => Dtype::I64,
        safetensors::Dtype::F16 => Dtype::F16,
        safetensors::Dtype::BF16 => Dtype::Bf16,
        safetensors::Dtype::F32 => Dtype::F32,
        safetensors::Dtype::F64 => Dtype::F64,
        safetensors::Dtype::C64 => Dtype::C64,
        _ => return None,
    })
}

/// Name of the header's texts as evidence; no tensor can have it.
pub const METADATA: &str = "__metadata__";

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "__metadata__")]
    metadata: Option<Ordered<String>>,
}

fn whole(e: impl std::fmt::Display) -> String {
    format!("not a whole safetensors file: {e}")
}

fn header(bytes: &[u8]) -> &[u8] {
    let length = bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    usize::try_from(length).ok().and_then(|n| bytes.get(8..n.checked_add(8)?)).unwrap_or_default()
}

/// Everything in a safetensors file that is compared: its tensors, then its metadata, if it has any.
pub fn file(bytes: &[u8]) -> Result<Found, String> {
    let mut tensors = parse(bytes)?;
    tensors.extend(metadata(bytes)?);
    Ok(Found { tensors, ..Found::default() })
}

/// The header's texts, a line each, sorted by key.
fn metadata(bytes: &[u8]) -> Result<Option<Tensor>, String> {
    let found: Header = serde_json::from_slice(header(bytes)).map_err(whole)?;
    let Some(texts) = found.metadata.filter(|texts| !texts.0.is_empty()) else { return Ok(None) };
    let sorted: BTreeMap<&str, &String> = texts.iter().collect();
    let text = serde_json::to_vec_pretty(&sorted).map_err(whole)?;
    let (name, word) = (METADATA.to_owned(), "metadata".to_owned());
    Ok(Some(Tensor { name, dtype: None, word, shape: vec![text.len()], bytes: text }))
}

/// Tensors of a safetensors file, in the file's order.
pub fn parse(bytes: &[u8]) -> Result<Vec<Tensor>, String> {
    let safe = SafeTensors::deserialize(bytes).map_err(whole)?;
    // The library keeps the last of two entries of one name.
    serde_json::from_slice::<Ordered<serde::de::IgnoredAny>>(header(bytes)).map_err(whole)?;
    let mut views: Vec<_> = safe.tensors();
    views.sort_by_key(|(_, view)| view.data().as_ptr() as usize - bytes.as_ptr() as usize);
    let tensor = |(name, view): (String, safetensors::tensor::TensorView<'_>)| Tensor {
        name,
        dtype: dtype(view.dtype()),
        word: dtype(view.dtype()).map_or_else(|| format!("{:?}", view.dtype()).to_lowercase(), |d| d.word().to_owned()),
        shape: view.shape().to_vec(),
        bytes: view.data().to_vec(),
    };
    Ok(views.into_iter().map(tensor).collect())
}
