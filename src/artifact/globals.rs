//! Functions and types that a pickle of tensors may name; any other is refused.

use crate::trace::record::Dtype;

/// Functions and types known by name.
#[derive(Clone, Debug, PartialEq)]
pub enum Global {
    /// `collections.OrderedDict`
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`, or `_v3`, whose type is an argument
    Rebuild {
        /// `_v3`
        typed: bool,
    },
    /// `torch._utils._rebuild_parameter`
    Parameter,
    /// `torch.Size`
    Size,
    /// `torch.device`
    Device,
    /// `_codecs.encode`, by which old protocols write bytes
    Encode,
    /// `torch.FloatStorage`, ...
    Storage(Element),
    /// `torch.float32`, ...
    Element(Element),
    /// `collections.defaultdict`
    DefaultDict,
    /// `collections.Counter`
    Counter,
    /// `collections.deque`
    Deque,
    /// a plain type of Python or a number type of NumPy, by its name: `list`, `numpy.float32`
    Type(&'static str),
    /// `numpy.ndarray`
    Ndarray,
    /// `numpy.dtype`
    Dtype,
    /// `numpy.core.multiarray._reconstruct`: an array whose state follows
    Reconstruct,
    /// `numpy.core.numeric._frombuffer`: an array in protocol 5
    FromBuffer,
    /// `numpy.core.multiarray.scalar`
    Scalar,
    /// `numpy.random._pcg64.PCG64`, ..., by its name
    Bits(&'static str),
    /// `numpy.random._pickle.__bit_generator_ctor`
    BitsCtor,
    /// `__generator_ctor` or `__randomstate_ctor`
    GeneratorCtor,
    /// `numpy.random.bit_generator.SeedSequence`
    Seeds,
    /// `numpy.random.bit_generator.__pyx_unpickle_SeedSequence`
    SeedsNew,
}

/// Plain types of Python.
const TYPES: [&str; 11] =
    ["bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set", "str"];

/// Number types of NumPy.
const NUMBERS: [&str; 15] = [
    "numpy.bool",
    "numpy.bool_",
    "numpy.complex128",
    "numpy.complex64",
    "numpy.float16",
    "numpy.float32",
    "numpy.float64",
    "numpy.int16",
    "numpy.int32",
    "numpy.int64",
    "numpy.int8",
    "numpy.uint16",
    "numpy.uint32",
    "numpy.uint64",
    "numpy.uint8",
];

impl Global {
    /// The name of a plain type, which may stand as a value: what a `defaultdict` makes.
    pub fn type_name(&self) -> Option<&'static str> {
        Some(match self {
            Global::Type(name) => name,
            Global::OrderedDict => "collections.OrderedDict",
            Global::DefaultDict => "collections.defaultdict",
            Global::Counter => "collections.Counter",
            Global::Deque => "collections.deque",
            _ => return None,
        })
    }
}

/// Type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// its name in a trace, or safetensors' name of a type that traces do not have
    pub word: &'static str,
    /// None for bytes
    pub dtype: Option<Dtype>,
    /// bytes
    pub size: usize,
}

/// The refusal of a function, with its name.
pub(super) fn refusal(module: &str, name: &str) -> String {
    let name: String = format!("{module}.{name}").chars().filter(|c| !c.is_control()).take(80).collect();
    let reads = "samebits reads tensors, NumPy's arrays and plain values only";
    format!("refused: the pickle calls {name}; {reads}: save a state_dict() or plain values, of a namedtuple _asdict()")
}

/// A function or type by its name.
pub(super) fn global(module: &str, name: &str) -> Result<Global, String> {
    let found = match (module, name) {
        ("collections", "OrderedDict") => Some(Global::OrderedDict),
        ("torch._utils", "_rebuild_tensor_v2") => Some(Global::Rebuild { typed: false }),
        ("torch._utils", "_rebuild_tensor_v3") => Some(Global::Rebuild { typed: true }),
        ("torch._utils", "_rebuild_parameter") => Some(Global::Parameter),
        ("torch", "Size") => Some(Global::Size),
        ("torch", "device") => Some(Global::Device),
        ("_codecs", "encode") => Some(Global::Encode),
        ("torch" | "torch.storage", "UntypedStorage") => Some(Global::Storage(element(Dtype::U8))),
        ("collections", "defaultdict") => Some(Global::DefaultDict),
        ("collections", "Counter") => Some(Global::Counter),
        ("collections", "deque") => Some(Global::Deque),
        ("builtins" | "__builtin__", name) => TYPES.into_iter().find(|t| *t == name).map(Global::Type),
        ("torch", name) => storage_type(name).map(Global::Storage).or_else(|| element_type(name).map(Global::Element)),
        (module, name) => numpy(module, name),
    };
    found.ok_or_else(|| refusal(module, name))
}

/// Functions and types of NumPy; `core` became `_core` in version 2.
fn numpy(module: &str, name: &str) -> Option<Global> {
    Some(match (module, name) {
        ("numpy", "ndarray") => Global::Ndarray,
        ("numpy", "dtype") => Global::Dtype,
        ("numpy", name) => Global::Type(NUMBERS.into_iter().find(|known| known.strip_prefix("numpy.") == Some(name))?),
        ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => Global::Reconstruct,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Global::Scalar,
        ("numpy.core.numeric" | "numpy._core.numeric", "_frombuffer") => Global::FromBuffer,
        ("numpy.random._pickle", "__bit_generator_ctor") => Global::BitsCtor,
        ("numpy.random._pickle", "__generator_ctor" | "__randomstate_ctor") => Global::GeneratorCtor,
        ("numpy.random.bit_generator", "SeedSequence") => Global::Seeds,
        ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence") => Global::SeedsNew,
        ("numpy.random._mt19937", "MT19937")
        | ("numpy.random._pcg64", "PCG64" | "PCG64DXSM")
        | ("numpy.random._philox", "Philox")
        | ("numpy.random._sfc64", "SFC64") => Global::Bits(super::objects::bits(name)?),
        _ => return None,
    })
}

fn element(dtype: Dtype) -> Element {
    Element { word: dtype.word(), dtype: Some(dtype), size: dtype.size() }
}

fn storage_type(name: &str) -> Option<Element> {
    Some(element(match name {
        "BoolStorage" => Dtype::Bool,
        "ByteStorage" => Dtype::U8,
        "CharStorage" => Dtype::I8,
        "ShortStorage" => Dtype::I16,
        "IntStorage" => Dtype::I32,
        "LongStorage" => Dtype::I64,
        "HalfStorage" => Dtype::F16,
        "BFloat16Storage" => Dtype::Bf16,
        "FloatStorage" => Dtype::F32,
        "DoubleStorage" => Dtype::F64,
        "ComplexFloatStorage" => Dtype::C64,
        "ComplexDoubleStorage" => Dtype::C128,
        _ => return None,
    }))
}

fn element_type(name: &str) -> Option<Element> {
    let word = |word| Some(Element { word, dtype: None, size: 1 });
    let dtype = match name {
        "bool" => Dtype::Bool,
        "uint8" => Dtype::U8,
        "int8" => Dtype::I8,
        "uint16" => Dtype::U16,
        "int16" => Dtype::I16,
        "uint32" => Dtype::U32,
        "int32" => Dtype::I32,
        "uint64" => Dtype::U64,
        "int64" => Dtype::I64,
        "float16" => Dtype::F16,
        "bfloat16" => Dtype::Bf16,
        "float32" => Dtype::F32,
        "float64" => Dtype::F64,
        "complex64" => Dtype::C64,
        "complex128" => Dtype::C128,
        // The words of safetensors.
        "float8_e4m3fn" => return word("f8_e4m3"),
        "float8_e5m2" => return word("f8_e5m2"),
        "float8_e4m3fnuz" => return word("f8_e4m3fnuz"),
        "float8_e5m2fnuz" => return word("f8_e5m2fnuz"),
        "float8_e8m0fnu" => return word("f8_e8m0"),
        _ => return None,
    };
    Some(element(dtype))
}
