//! safetensors files.

use safetensors::SafeTensors;

use super::Tensor;
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

/// Tensors of a safetensors file, in the file's order.
pub fn parse(bytes: &[u8]) -> Result<Vec<Tensor>, String> {
    let whole = |e: String| format!("not a whole safetensors file: {e}");
    let safe = SafeTensors::deserialize(bytes).map_err(|e| whole(e.to_string()))?;
    // The library keeps the last of two entries of one name.
    let length = bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    let header = usize::try_from(length).ok().and_then(|n| bytes.get(8..n.checked_add(8)?)).unwrap_or_default();
    serde_json::from_slice::<Ordered<serde::de::IgnoredAny>>(header).map_err(|e| whole(e.to_string()))?;
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
