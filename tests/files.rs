//! Files of foreign engines: what NumPy and PyTorch wrote is read to the bit, and no bytes do harm.
//!
//! The fixtures were made by real NumPy and PyTorch (`tests/fixtures/make.py`); hostile files are built here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use samebits::artifact::{self, Found, Tensor, npy, pickle, zip};
use samebits::compare::evidence::{Evidence, artifacts, compare, read_file};
use samebits::compare::verdict::{Comparison, Reason, Verdict};
use samebits::scenario::case::Scope;
use samebits::trace::example::{lines, records};
use samebits::trace::record::Dtype;

#[path = "../fuzz/zipped.rs"]
mod zipped;

use zipped::zipped;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn bytes_of(name: &str) -> Vec<u8> {
    fs::read(fixture(name)).unwrap()
}

fn found(name: &str) -> Found {
    artifact::parse(name, bytes_of(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn by_name(found: &Found) -> BTreeMap<&str, &Tensor> {
    found.tensors.iter().map(|t| (t.name.as_str(), t)).collect()
}

fn diff(a: &Path, b: &Path) -> Comparison {
    compare(a, b, &Scope::default())
}

fn diff_fixtures(a: &str, b: &str) -> Comparison {
    diff(&fixture(a), &fixture(b))
}

fn refused(name: &str, bytes: &[u8], words: &str) {
    let error = artifact::parse(name, bytes.to_vec()).expect_err(words);
    assert!(error.contains(words), "expected {words:?}: {error}");
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Would fail if the order in memory or on disk decided what an array holds.
#[test]
fn npy_arrays_are_row_major_and_little_endian() {
    let plain = found("c.npy");
    let tensor = &plain.tensors[0];
    let values: Vec<f32> = (0..12u8).map(f32::from).collect();
    assert_eq!((tensor.dtype, tensor.shape.as_slice()), (Some(Dtype::F32), &[3, 4][..]));
    assert_eq!(tensor.bytes, floats(&values));
    for other in ["fortran.npy", "big-endian.npy"] {
        assert_eq!(diff_fixtures("c.npy", other).verdict, Verdict::Same, "{other}");
    }
    assert!(found("big-endian.npy").remarks[0].contains("big-endian"));
    let scalar = found("scalar.npy");
    assert_eq!((scalar.tensors[0].shape.len(), &scalar.tensors[0].bytes[..]), (0, &(-0.0f64).to_le_bytes()[..]));
    assert!(matches!(
        diff_fixtures("empty.npy", "empty.npy").verdict,
        Verdict::Unverified { reason: Reason::NoEvidence, .. }
    ));
    let record = found("record.npy");
    assert_eq!(record.tensors[0].word, "{x: f32, n: big-endian i32[2], s: S2}");
    assert_eq!((record.tensors[0].bytes.len(), record.remarks.len()), (14, 1));
    refused("object.npy", &bytes_of("object.npy"), "refused: an array of Python objects");
}

/// Would fail if an array of an npz were lost, or a difference of one bit not be named by array, element and distance.
#[test]
fn npz_files_are_compared_array_by_array() {
    assert_eq!(diff_fixtures("stored.npz", "deflated.npz").verdict, Verdict::Same);
    let all = found("stored.npz");
    let words: Vec<&str> = all.tensors.iter().map(|t| t.word.as_str()).collect();
    let expected = [
        "f32", "f16", "bool", "c64", "c128", "U2", "M8[s]", "i64", "i8", "u16", "i16", "u32", "i32", "u64", "i64",
        "f64",
    ];
    assert_eq!(words, expected);
    let different = diff_fixtures("stored.npz", "one-ulp.npz");
    let first = different.first.clone().unwrap();
    let elements = first.elements.unwrap();
    assert_eq!((different.verdict.clone(), first.name.as_str()), (Verdict::Different, "w"));
    assert_eq!((elements.first, elements.differing, elements.max_ulp), (4, 1, Some(1)));
    assert_eq!(elements.values.unwrap(), ["4e0", "4.0000005e0"]);
    assert!(samebits::report::text::comparison(&different).contains("at most 1 ULP"));
}

/// Would fail if anything of a nested state were passed over, or a view read in another order than its elements have.
#[test]
fn torch_states_are_flattened_whole() {
    let state = found("state.pt");
    let of = by_name(&state);
    let mut names: Vec<&str> = of.keys().copied().collect();
    names.retain(|n| !n.starts_with("types.") && !n.starts_with("optimizer.param_groups"));
    #[rustfmt::skip]
    let expected = [
        "big", "device", "done", "dtype", "empty.0", "empty.1", "empty.2", "epoch", "loss", "model._metadata..version",
        "model.bias", "model.weight", "name", "none", "none_wide", "optimizer.state.0.exp_avg",
        "optimizer.state.0.exp_avg_sq", "optimizer.state.0.step", "optimizer.state.1.exp_avg",
        "optimizer.state.1.exp_avg_sq", "optimizer.state.1.step", "parameter", "raw", "size.0", "size.1",
        "views.expanded", "views.row", "views.step", "views.transposed", "views.wide",
    ];
    assert_eq!(names, expected);
    let ints = |name: &str| -> Vec<i32> {
        of[name].bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    assert_eq!(ints("views.transposed"), [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
    assert_eq!((of["views.transposed"].shape.as_slice(), ints("views.row")), (&[4, 3][..], vec![4, 5, 6, 7]));
    assert_eq!((ints("views.step"), ints("views.expanded")), (vec![0, 2, 4, 6, 8, 10], vec![0; 4]));
    assert_eq!((of["epoch"].bytes.as_slice(), of["epoch"].word.as_str()), (&3i64.to_le_bytes()[..], "i64"));
    assert_eq!((of["raw"].bytes.as_slice(), of["name"].bytes.as_slice()), (&b"a\xff"[..], &b"run"[..]));
    assert_eq!((of["device"].bytes.as_slice(), of["dtype"].bytes.as_slice()), (&b"cpu"[..], &b"bf16"[..]));
    assert_eq!(of["optimizer.param_groups.0.lr"].bytes, 0.25f64.to_le_bytes());
    assert_eq!((of["big"].word.as_str(), of["big"].bytes.len()), ("int", 9));
    assert_eq!(by_name(&found("tensor.pt"))["value"].bytes.len(), 24);
}

/// Would fail if a type of PyTorch lost its name or its bytes.
#[test]
fn torch_types_keep_their_names() {
    let state = found("state.pt");
    let of = by_name(&state);
    for (name, word, bytes) in [
        ("bool", "bool", vec![1, 0]),
        ("uint8", "u8", vec![1, 0]),
        ("int8", "i8", vec![1, 0]),
        ("int16", "i16", vec![1, 0, 0, 0]),
        ("uint16", "u16", vec![1, 0, 0, 0]),
        ("uint32", "u32", vec![1, 0, 0, 0, 0, 0, 0, 0]),
        ("float16", "f16", vec![0, 0x3c, 0, 0]),
        ("bfloat16", "bf16", vec![0x80, 0x3f, 0, 0]),
        ("complex64", "c64", floats(&[1.0, 0.0, 0.0, 0.0])),
        ("float8_e4m3fn", "f8_e4m3", vec![0x38, 0]),
    ] {
        let tensor = of[format!("types.{name}").as_str()];
        assert_eq!((tensor.word.as_str(), &tensor.bytes), (word, &bytes), "{name}");
    }
    let safe = found("types.safetensors");
    let words: BTreeMap<&str, &str> = safe.tensors.iter().map(|t| (t.name.as_str(), t.word.as_str())).collect();
    assert!(words.iter().all(|(name, word)| name == word || (*name, *word) == ("f8", "f8_e4m3")), "{words:?}");
}

/// Would fail if one bit of a state could pass, or code, old formats or unknown types be read as something else.
#[test]
fn torch_differences_and_refusals() {
    let different = diff_fixtures("state.pt", "one-ulp.pt");
    let first = different.first.unwrap();
    assert_eq!((different.verdict, first.name.as_str()), (Verdict::Different, "model.bias"));
    let elements = first.elements.unwrap();
    assert_eq!((elements.first, elements.differing, elements.max_ulp), (1, 1, Some(1)));
    assert_eq!(different.differing, ["model.bias"]);
    refused("legacy.pt", &bytes_of("legacy.pt"), "before 1.6");
    refused(
        "module.pt",
        &bytes_of("module.pt"),
        "refused: the pickle calls torch.nn.modules.linear.Linear; samebits reads",
    );
    let scalar = found("numpy-scalar.pt");
    assert_eq!((scalar.tensors[0].name.as_str(), &scalar.tensors[0].bytes[..]), ("best", &1.5f64.to_le_bytes()[..]));
    let verdict = diff_fixtures("module.pt", "module.pt").verdict;
    assert!(matches!(verdict, Verdict::Unverified { reason: Reason::NotComparable, .. }), "{verdict:?}");
}

/// Would fail if a value of NumPy in a state were lost, or read as other elements than NumPy has.
#[test]
fn numpy_values_in_torch_states_are_read() {
    let state = found("numpy.pt");
    let of = by_name(&state);
    let values: Vec<f32> = (0..6u8).map(f32::from).collect();
    let shorts: Vec<u8> = (0..6i16).flat_map(i16::to_le_bytes).collect();
    let mt = of["legacy._bit_generator.state.key"];
    #[rustfmt::skip]
    let expected: [(&str, &str, &[usize], Vec<u8>); 20] = [
        ("replay.c", "f32", &[2, 3], floats(&values)),
        ("replay.fortran", "i16", &[2, 3], shorts),
        ("replay.big", "i32", &[3], (0..3i32).flat_map(i32::to_le_bytes).collect()),
        ("replay.empty", "f64", &[0, 3], vec![]),
        ("replay.scalar", "f64", &[], (-0.0f64).to_le_bytes().into()),
        ("replay.mask", "bool", &[2], vec![1, 0]),
        ("replay.raw", "S2", &[2], b"abc\0".to_vec()),
        ("replay.when", "M8[s]", &[1], 1_577_923_200i64.to_le_bytes().into()),
        ("replay.z", "c64", &[1], floats(&[1.0, 2.0])),
        ("best", "f32", &[], 0.1f32.to_le_bytes().into()),
        ("steps", "i64", &[], (-7i64).to_le_bytes().into()),
        ("done", "bool", &[], vec![1]),
        ("day", "M8[D]", &[], 18_263i64.to_le_bytes().into()),
        ("kind", "type", &[13], b"numpy.float32".to_vec()),
        ("dtype", "dtype", &[14], b"big-endian f32".to_vec()),
        ("gain", "c128", &[], [1.0f64, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect()),
        ("buffer", "bytes", &[2], b"ab".to_vec()),
        ("table.(0, \"up\").0", "f64", &[], 1.0f64.to_le_bytes().into()),
        ("table.default_factory", "type", &[4], b"list".to_vec()),
        ("legacy_state.1", "u32", &[624], mt.bytes.clone()),
    ];
    for (name, word, shape, bytes) in expected {
        let tensor = of[name];
        assert_eq!((tensor.word.as_str(), tensor.shape.as_slice(), &tensor.bytes), (word, shape, &bytes), "{name}");
    }
    assert_eq!((of["generator._bit_generator.state.state"].word.as_str(), mt.shape[0]), ("int", 624));
    for name in [
        "generator._bit_generator.seed_seq.entropy",
        "bits.state.counter",
        "seeds.pool",
        "torch_state",
        "python_state.1.2",
        "order.b",
        "counts.a",
        "returns.1",
        "returns.maxlen",
        "legacy.gauss",
        "legacy_state.2",
    ] {
        assert!(of.contains_key(name), "{name}: {:?}", of.keys());
    }
    assert_eq!(["seen.0", "seen.1", "seen.2"].map(|n| of[n].bytes.as_slice()), [b"a", b"b", b"c"]);
    assert_eq!(["kept.0.1", "kept.1.0"].map(|n| of[n].bytes[0]), [9, 1]);
}

/// Would fail if the protocol decided, or a generator that drew once more passed for one that did not.
#[test]
fn numpy_states_are_compared_by_bits() {
    assert_eq!(diff_fixtures("numpy.pt", "numpy-5.pt").verdict, Verdict::Same);
    let other = diff_fixtures("numpy.pt", "numpy-other.pt");
    assert_eq!(other.verdict, Verdict::Different);
    let expected = [
        "generator._bit_generator.state.state",
        "legacy._bit_generator.state.pos",
        "legacy.state.pos",
        "legacy_state.2",
    ];
    assert_eq!(other.differing, expected);
    refused("numpy-object.pt", &bytes_of("numpy-object.pt"), "refused: an array of Python objects");
}

/// The program of an element type of NumPy, of an array of it, and of `_codecs.encode` of Latin-1 text.
fn dtype(code: &str, state: &[u8]) -> Vec<u8> {
    [&b"cnumpy\ndtype\n"[..], &binunicode(code), b"\x89\x88\x87R", state, b"b"].concat()
}

fn plain_state(order: &str) -> Vec<u8> {
    [&b"(K\x03"[..], &binunicode(order), b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t"].concat()
}

fn encoded(text: &str) -> Vec<u8> {
    [&b"c_codecs\nencode\n"[..], &binunicode(text), &binunicode("latin1"), b"\x86R"].concat()
}

fn ndarray(module: &str, state: &[u8]) -> Vec<u8> {
    let names = format!("c{module}\n_reconstruct\ncnumpy\nndarray\n");
    [names.as_bytes(), b"K\x00\x85", &encoded("b"), b"\x87R", state, b"b"].concat()
}

/// Would fail if an array could claim what is not there, hold objects, or be of a form that is guessed.
#[test]
fn numpy_claims_in_pickles_are_checked() {
    let (f4, old, new) = (dtype("f4", &plain_state("<")), "numpy.core.multiarray", "numpy._core.multiarray");
    let body = |shape: &[u8], element: &[u8], fortran: &[u8], data: &[u8]| {
        [&b"(K\x01"[..], shape, element, fortran, data, b"t"].concat()
    };
    let eight = encoded("\0\0\u{80}?\0\0\0@");
    for module in [old, new] {
        let good =
            artifact::parse("x.pt", state(&ndarray(module, &body(b"K\x02\x85", &f4, b"\x89", &eight)), b"")).unwrap();
        assert_eq!((good.tensors[0].word.as_str(), &good.tensors[0].bytes), ("f32", &floats(&[1.0, 2.0])));
    }
    let scalar =
        |element: &[u8], data: &[u8]| [&b"cnumpy.core.multiarray\nscalar\n"[..], element, data, b"\x86R"].concat();
    let of = |shape: &[u8], element: &[u8], data: &[u8]| ndarray(old, &body(shape, element, b"\x89", data));
    let fields = [&b"(K\x03"[..], &binunicode("|"), b"N)}K\x08K\x01K\x10t"].concat();
    let long = [&b"\x8a\x09"[..], &[0xff; 8], b"\0"].concat();
    for (program, words) in [
        (of(b"K\x03\x85", &f4, &eight), "an array that claims f32[3], and 8 bytes of data"),
        (of(b"K\x01\x85", &f4, &eight), "an array that claims f32[1], and 8 bytes"),
        (of(&[&long[..], b"\x85"].concat(), &f4, &eight), "that is no number"),
        (of(b"J\xff\xff\xff\xff\x85", &f4, &eight), "a size, stride or offset of -1"),
        (of(b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x87", &f4, &eight), "an array that claims f32"),
        (of(b"K\x02\x85", &dtype("O8", &plain_state("|")), b"](K\x01K\x02e"), "an array of Python objects"),
        (of(b"K\x02\x85", &f4, b"](K\x01K\x02e"), "an array of Python objects"),
        (of(b"K\x02\x85", &dtype("V8", &fields), &eight), "an array of records"),
        (of(b"K\x02\x85", &dtype("f16", &plain_state("<")), &eight), "bytes without a meaning"),
        (of(b"K\x02\x85", &dtype("f4", &plain_state("=")), &eight), "NumPy's type \"f4\""),
        (of(b"K\x02\x85", &dtype("f4", &plain_state("|")), &eight), "NumPy's type \"f4\""),
        (of(b"K\x02\x85", &dtype("q4", &plain_state("<")), &eight), "is not read"),
        (of(b"K\x02\x85", &dtype("M8[\n]", &plain_state("<")), &eight), "unknown arguments"),
        (of(b"K\x02\x85", b"N", &eight), "an array of an unknown type"),
        (of(b"K\x02\x85", &f4, b"N"), "whose data is no bytes"),
        (ndarray(old, &body(b"K\x02\x85", &f4, b"K\x00", &eight)), "unknown arguments"),
        (ndarray(old, b"N"), "a state of an unknown form"),
        ([&of(b"K\x02\x85", &f4, &eight)[..], b"Nb"].concat(), "a state of an unknown form"),
        ([&f4[..], &plain_state("<"), b"b"].concat(), "a state of an unknown form"),
        (scalar(&f4, &encoded("abc")), "an array that claims f32[], and 3 bytes"),
        (b"cnumpy\nndarray\n".to_vec(), "a function, not a value"),
        (b"cnumpy\nndarray\n)R".to_vec(), "unknown arguments"),
        (ndarray(old, b"N")[..66].to_vec(), "the pickle"),
        (b"cnumpy\nload\n".to_vec(), "refused: the pickle calls numpy.load"),
        (b"cnumpy.core.multiarray\nfromfile\n".to_vec(), "refused: the pickle calls numpy.core.multiarray.fromfile"),
        (b"cbuiltins\ngetattr\n".to_vec(), "refused: the pickle calls builtins.getattr"),
        (b"c__main__\nPoint\n".to_vec(), "refused: the pickle calls __main__.Point"),
        ([&b"c_codecs\nencode\n"[..], &binunicode("a"), &binunicode("rot13"), b"\x86R"].concat(), "another encoding"),
    ] {
        refused("x.pt", &state(&program, b""), words);
    }
}

/// Would fail if a generator without a state, or with that of another, were read, or a set's order decided.
#[test]
fn generators_and_sets_in_pickles_are_whole() {
    let bits = [&b"cnumpy.random._pickle\n__bit_generator_ctor\n"[..], &binunicode("PCG64"), b"\x85R"].concat();
    let named = |name: &str| [&b"}"[..], &binunicode("bit_generator"), &binunicode(name), b"sb"].concat();
    for (program, words) in [
        (bits.clone(), "a generator of NumPy without its state"),
        ([&bits[..], b"}b"].concat(), "a generator PCG64 with the state of none"),
        ([&bits[..], &named("MT19937")].concat(), "a generator PCG64 with the state of MT19937"),
        ([&bits[..], b"Nb"].concat(), "a generator whose state is no dict"),
        ([&bits[..], b")b"].concat(), "a generator of NumPy without its state"),
        ([&bits[..], &named("PCG64"), b"}b"].concat(), "a state of an unknown form"),
        (b"cnumpy.random._pickle\n__generator_ctor\nN\x85R".to_vec(), "unknown arguments"),
        (b"cnumpy.random._pickle\n__bit_generator_ctor\nX\x02\0\0\0os\x85R".to_vec(), "unknown arguments"),
        (b"cbuiltins\nset\n](]K\x01e\x85R".to_vec(), "a set of something other"),
        (b"\x8f(}\x90".to_vec(), "a set of something other"),
        (b"(]\x91".to_vec(), "a set of something other"),
        (b"\x8fK\x01a".to_vec(), "no list or dict"),
        (b"ccollections\nCounter\n]\x85R".to_vec(), "unknown arguments"),
    ] {
        refused("x.pt", &state(&program, b""), words);
    }
    let whole = artifact::parse("x.pt", state(&[&bits[..], &named("PCG64")].concat(), b"")).unwrap();
    assert_eq!(whole.tensors[0].name, "bit_generator");
    let set = |items: &[u8]| artifact::parse("x.pt", state(&[b"\x8f(", items, b"\x90"].concat(), b"")).unwrap().tensors;
    assert_eq!(set(b"K\x07K\x01\x8c\x01aJ\xff\xff\xff\xff"), set(b"\x8c\x01aJ\xff\xff\xff\xffK\x01K\x07K\x07"));
    assert_ne!(set(b"K\x07K\x01"), set(b"K\x07K\x02"));
    let old = b"c__builtin__\nfrozenset\n](K\x07K\x01e\x85R";
    assert_eq!(artifact::parse("x.pt", state(old, b"")).unwrap().tensors, set(b"K\x01K\x07"));
    let made = artifact::parse("x.pt", state(b"ccollections\ndefaultdict\nccollections\nCounter\n\x85R", b"")).unwrap();
    let first = (made.tensors[0].name.as_str(), made.tensors[0].bytes.as_slice());
    assert_eq!(first, ("default_factory", &b"collections.Counter"[..]));
    let number = |code: &str, bytes: &str| {
        [&b"cnumpy.core.multiarray\nscalar\n"[..], &dtype(code, &plain_state("<")), &encoded(bytes), b"\x86R"].concat()
    };
    let keyed = |key: &[u8]| {
        artifact::parse("x.pt", state(&[b"}", key, b"K\x01s"].concat(), b"")).map(|f| f.tensors[0].name.clone())
    };
    assert_eq!(keyed(b"\x8a\x09\0\0\0\0\0\0\0\0\xff").as_deref(), Ok("-18446744073709551616"));
    assert_eq!(keyed(b"C\x02\0a").as_deref(), Ok("b\"\\x00a\""));
    assert!(keyed(&[&[0x8a, 17][..], &[1; 17]].concat()).unwrap_err().contains("more than 128 bits"));
    assert_eq!(keyed(&number("i4", "\u{fe}\u{ff}\u{ff}\u{ff}")).as_deref(), Ok("-2"));
    assert_eq!(keyed(&[&number("u2", "\u{fe}\u{ff}")[..], b"K\x03\x86"].concat()).as_deref(), Ok("(65534, 3)"));
    assert!(keyed(&number("f4", "\0\0\u{80}?")).unwrap_err().contains("no whole number"));
    let (one, two) = (number("u1", "\x01"), number("u1", "\x02"));
    assert_eq!(set(&[&one[..], &two].concat()), set(&[&two[..], &one, &two].concat()));
    // A set that the memo shares is sorted anew wherever it stands, which the budget bounds.
    let many = [&b"(\x8f("[..], &binunicode(&"a".repeat(1 << 16)), b"\x90q\x00", &b"h\x00".repeat(5000), b"t"].concat();
    refused("x.pt", &state(&many, b""), "unpacks to more than");
}

/// A header and data of an npy file.
fn array(header: &str, data: &[u8]) -> Vec<u8> {
    [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data].concat()
}

/// Replaces bytes, which must be there.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes.windows(from.len()).rposition(|w| w == from).expect("bytes to replace");
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}

/// Would fail if an array could claim what is not there, or a header be read as another.
#[test]
fn npy_claims_are_checked() {
    let header =
        |shape: &str, descr: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n");
    let claims = "its header claims";
    for shape in ["(2500000000,)", "(4294967296, 4294967296)", "(18446744073709551615,)", "(1,)", "(3,)", "()"] {
        refused("x.npy", &array(&header(shape, "'<f4'"), &[0; 8]), claims);
    }
    assert!(artifact::parse("x", array(&header("(2L,)", "'<f4'"), &[0; 8])).is_ok());
    for (shape, descr, words) in [
        ("(99999999999999999999,)", "'<f4'", "the number 99999999999999999999"),
        ("(-1,)", "'<f4'", "cannot be read at"),
        ("(2,)", "'<q4'", "is not read"),
        ("(2,)", "'é'", "is not read"),
        ("(2,)", "'|O'", "refused: an array of Python objects"),
        ("(2,)", "[('a', '|O')]", "refused: an array of Python objects"),
        ("(2,)", "[('a', '<f4', (4611686018427387904, 8))]", "overflows"),
        ("(2,)", "__import__('os')", "cannot be read at"),
        ("[2]", "'<f4'", "its shape is no tuple"),
        (&format!("({})", "1,".repeat(65)), "'<f4'", "65 dimensions"),
        (&"(".repeat(5000), "'<f4'", "nests too deep"),
        ("(2,), 'shape': (2,)", "'<f4'", "twice"),
    ] {
        refused("x.npy", &array(&header(shape, descr), &[0; 8]), words);
    }
    refused("x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "a header of");
    refused("x.npy", b"\x93NUMPY\x09\x00\x00\x00", "npy version 9.0");
    refused("x.npy", b"", "not an npy file");
    let whole = bytes_of("c.npy");
    (0..whole.len()).for_each(|n| assert!(npy::parse("x", &whole[..n]).is_err(), "cut at {n}"));
}

/// Would fail if names given twice, overlaps, bombs, damage or names that climb out were unpacked.
#[test]
fn zip_files_are_checked() {
    let good = zipped(&[("a.npy", &bytes_of("c.npy"), true), ("b.npy", &bytes_of("c.npy"), false)]);
    assert_eq!(artifact::parse("x.npz", good.clone()).unwrap().tensors.len(), 2);
    assert_eq!(artifact::parse("x", good.clone()).unwrap().tensors.len(), 2);
    (0..good.len()).for_each(|n| assert!(artifact::parse("x.npz", good[..n].to_vec()).is_err(), "cut at {n}"));
    refused("x.npz", &zipped(&[("a.npy", b"", false), ("a.npy", b"", false)]), "stands twice");
    for name in ["../a.npy", "/a.npy", "a/../../b.npy", "a\\b.npy", "a\0.npy", "./a.npy", ""] {
        refused("x.npz", &zipped(&[(name, b"", false)]), "leaves the folder");
    }
    refused("x.npz", &[&good[..], b"more"].concat(), "no directory");
    refused("x.npz", &[b"before", &good[..]].concat(), "no directory");
    refused("x.npz", &zipped(&[("a.txt", b"", false)]), "no .npy file");
    refused("x.pt", &zipped(&[("a.txt", b"", false)]), "without data.pkl");
    assert_eq!(artifact::parse("x.jar", zipped(&[("a.txt", b"", false)])).unwrap().tensors[0].word, "u8");
    refused(
        "x.npz",
        &replaced(&good, b"PK\x01\x02\x14\x00\x14\x00\x00", b"PK\x01\x02\x14\x00\x14\x00\x01"),
        "encrypted",
    );
    let stored = zipped(&[("a.npy", b"12345678", false)]);
    refused("x.npz", &replaced(&stored, b"a.npy1234", b"a.npy1235"), "its CRC");
    refused(
        "x.npz",
        &replaced(&stored, b"PK\x01\x02\x14\x00\x14\x00\x00\x00\x00", b"PK\x01\x02\x14\x00\x14\x00\x00\x00\x0c"),
        "method 12",
    );
    refused("x.npz", &replaced(&stored, b"\x08\0\0\0\x08\0\0\0\x05", b"\x08\0\0\0\x09\0\0\0\x05"), "is stored, yet");
    refused("x.npz", &replaced(&stored, b"\x08\0\0\0\x08\0\0\0\x05", b"\xff\0\0\0\xff\0\0\0\x05"), "outside the file");
    // A claim that deflate cannot reach, one that it could but does not, and a true one that is too much.
    let packed = zipped(&[("a.npy", &[0; 2000], true)]);
    let size = 2000u32.to_le_bytes();
    refused("x.npz", &replaced(&packed, &size, &u32::MAX.to_le_bytes()), "cannot unpack to");
    refused("x.npz", &replaced(&packed, &size, &1999u32.to_le_bytes()), "not of the 1999 bytes");
    refused("x.npz", &replaced(&packed, &size, &2001u32.to_le_bytes()), "not of the 2001 bytes");
    let bombs: Vec<String> = (0..40).map(|i| format!("{i}.npy")).collect();
    let zeros = vec![0; 32 << 20];
    let one = zipped(&[("0.npy", &zeros, true)]);
    let bomb = zipped(&bombs.iter().map(|n| (n.as_str(), &zeros[..], true)).collect::<Vec<_>>());
    assert!(zip::entries(&one).is_ok() && bomb.len() < 2 << 20);
    refused("x.npz", &bomb, "unpack to more than");
}

/// Would fail if the sizes of large files (zip64) were not found, or could claim more than the file.
#[test]
fn far_sizes_are_read() {
    let far = |size: u64, at: u64, count: u64| {
        let plain = zipped(&[("a.npy", &bytes_of("c.npy"), false)]);
        let start = plain.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
        let (mut out, mut central) = (plain[..start].to_vec(), plain[start..start + 46 + 5].to_vec());
        [20, 24, 42].into_iter().for_each(|field| central[field..field + 4].copy_from_slice(&[0xff; 4]));
        central[30] = 28;
        central
            .extend([&b"\x01\x00\x18\x00"[..], &size.to_le_bytes(), &size.to_le_bytes(), &at.to_le_bytes()].concat());
        let locator = out.len() + central.len();
        out.extend(&central);
        out.extend([&b"PK\x06\x06"[..], &44u64.to_le_bytes(), &[0; 12]].concat());
        [count, count, central.len() as u64, start as u64].iter().for_each(|n| out.extend(n.to_le_bytes()));
        out.extend([&b"PK\x06\x07\0\0\0\0"[..], &(locator as u64).to_le_bytes(), b"\x01\0\0\0"].concat());
        out.extend([&b"PK\x05\x06\0\0\0\0"[..], &[0xff; 12], &[0, 0]].concat());
        out
    };
    let whole = bytes_of("c.npy").len() as u64;
    assert_eq!(artifact::parse("x.npz", far(whole, 0, 1)).unwrap().tensors.len(), 1);
    for (size, at, count, words) in [
        (u64::MAX, 0, 1, "outside the file"),
        (1 << 40, 0, 1, "outside the file"),
        (whole, u64::MAX, 1, "is not where the directory says"),
        (whole, 0, 2, "cut or not a directory"),
        (whole, 0, u64::MAX, "at most 1048576"),
    ] {
        refused("x.npz", &far(size, at, count), words);
    }
}

/// Would fail if a foreign name could write to the terminal, or two names become one.
#[test]
fn names_are_printable_and_unique() {
    let pickle = |keys: &[&str]| {
        let items: Vec<u8> = keys.iter().flat_map(|k| [binunicode(k), b"K\x01".to_vec()].concat()).collect();
        state(&[&b"}("[..], &items, b"u"].concat(), b"")
    };
    let one = artifact::parse("x.pt", pickle(&["a\x1b[2J\n"])).unwrap();
    assert_eq!(one.tensors[0].name, "a\\u{1b}[2J\\n");
    refused("x.pt", &pickle(&["a\n", "a\\n"]), "two entries have the name");
    let npz = zipped(&[("a\n.npy", &bytes_of("c.npy"), false)]);
    assert_eq!(artifact::parse("x.npz", npz).unwrap().tensors[0].name, "a\\n");
    let (a, b) = ("a.npz", "a.npz:w");
    let twice = folder(&[(a, &bytes_of("stored.npz")), (b, b"1")]);
    let verdict = diff(twice.path(), twice.path()).verdict;
    assert!(
        matches!(&verdict, Verdict::Unverified { detail, .. } if detail.contains("two tensors have the name a.npz:w"))
    );
}

/// Would fail if two entries could share bytes, which is how a small file unpacks without end.
#[test]
fn overlapping_entries_are_refused() {
    // Both directory records point at the first local header, which has the name of both.
    let mut two = zipped(&[("a.npy", b"12345678", false), ("b.npy", b"12345678", false)]);
    let second = two.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    two[second + 42..second + 46].copy_from_slice(&0u32.to_le_bytes());
    refused("x.npz", &two, "is not where the directory says");
    // The first entry claims the second one's header and bytes as its own.
    let mut long = zipped(&[("a.npy", b"12345678", false), ("b.npy", b"12345678", false)]);
    let first = long.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    for at in [20, 24] {
        long[first + at..first + at + 4].copy_from_slice(&20u32.to_le_bytes());
    }
    refused("x.npz", &long, "overlaps");
}

fn binunicode(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// A state file whose pickle is this program and whose storage `0` holds these bytes.
fn state(program: &[u8], storage: &[u8]) -> Vec<u8> {
    let pickle = [b"\x80\x02", program, b"."].concat();
    zipped(&[("s/data.pkl", &pickle, false), ("s/byteorder", b"little", false), ("s/data/0", storage, false)])
}

/// The program of a tensor of f32 over storage `0`.
fn view(count: u32, offset: u32, shape: &[u32], strides: &[u32]) -> Vec<u8> {
    let number = |n: u32| [&b"\x8a\x05"[..], &n.to_le_bytes(), b"\0"].concat();
    let tuple = |list: &[u32]| [&b"("[..], &list.iter().flat_map(|n| number(*n)).collect::<Vec<u8>>(), b"t"].concat();
    let storage = [
        &b"("[..],
        &binunicode("storage"),
        b"ctorch\nFloatStorage\n",
        &binunicode("0"),
        &binunicode("cpu"),
        &number(count),
        b"tQ",
    ];
    let rebuild = [&b"ctorch._utils\n_rebuild_tensor_v2\n("[..], &storage.concat(), &number(offset)].concat();
    [rebuild, tuple(shape), tuple(strides), b"\x89ccollections\nOrderedDict\n)RtR".to_vec()].concat()
}

/// Would fail if a tensor could reach outside its storage, or claim more than the file explains.
#[test]
fn torch_claims_are_checked() {
    let data = floats(&[1.0, 2.0, 3.0, 4.0]);
    let good = artifact::parse("x.pt", state(&view(4, 1, &[2], &[2]), &data)).unwrap();
    assert_eq!((good.tensors[0].name.as_str(), &good.tensors[0].bytes), ("value", &floats(&[2.0, 4.0])));
    for (program, words) in [
        (view(5, 0, &[1], &[1]), "has 16 bytes, not 5 elements of f32"),
        (view(4, 4, &[1], &[1]), "reaches past the 16 bytes"),
        (view(4, 0, &[2], &[4]), "reaches past the 16 bytes"),
        (view(4, 0, &[2, 2], &[1]), "more sizes than strides"),
        (view(4, 0, &[u32::MAX], &[0]), "unpacks to more than"),
        (view(4, 0, &[u32::MAX, u32::MAX, u32::MAX], &[0, 0, 0]), "elements"),
        (view(4, 0, &[1; 65], &[0; 65]), "65 dimensions"),
    ] {
        refused("x.pt", &state(&program, &data), words);
    }
    // What `torch.save` writes of a conjugate: the same storage, and a dict beside it.
    let flagged = |flags: &[u8]| {
        let plain = view(4, 0, &[1], &[1]);
        state(&[&plain[..plain.len() - 2], flags, b"tR"].concat(), &data)
    };
    refused("x.pt", &flagged(&[&b"}"[..], &binunicode("conj"), b"\x88s"].concat()), "resolve_conj()");
    assert!(artifact::parse("x.pt", flagged(b"}")).is_ok() && artifact::parse("x.pt", flagged(b"N")).is_ok());
    let without = zipped(&[("s/data.pkl", &[&b"\x80\x02"[..], &view(4, 0, &[1], &[1]), b"."].concat(), false)]);
    refused("x.pt", &without, "data/0 is missing");
    let whole = state(&view(4, 0, &[4], &[1]), &data);
    let swapped: Vec<u8> = data.chunks(4).flat_map(|b| b.iter().rev().copied()).collect();
    let pickle = [&b"\x80\x02"[..], &view(4, 0, &[4], &[1]), b"."].concat();
    let big = zipped(&[("s/data.pkl", &pickle, false), ("s/byteorder", b"big", false), ("s/data/0", &swapped, false)]);
    assert_eq!(artifact::parse("x.pt", big).unwrap().tensors, artifact::parse("x.pt", whole).unwrap().tensors);
    let unread = artifact::parse("x.pt", state(b"K\x01", &data)).unwrap();
    assert!(unread.unlooked[0].contains("belong to no tensor"), "{:?}", unread.unlooked);
}

/// Would fail if a pickle could run code, grow without end, or be read beyond what it says.
#[test]
fn pickles_execute_nothing() {
    for (program, words) in [
        (&b"cos\nsystem\n\x8c\x02ls\x85R"[..], "refused: the pickle calls os.system; samebits reads tensors"),
        (b"\x8c\x05posix\x8c\x06system\x93", "refused: the pickle calls posix.system"),
        (b"cbuiltins\neval\n", "refused: the pickle calls builtins.eval"),
        (b"(ios\nsystem\n", "refused: the pickle calls os.system"),
        (b"ctorch\nload\n", "refused: the pickle calls torch.load"),
        (b"ctorch\nFloatStorage\n)R", "unknown arguments"),
        (b"ctorch\nFloatStorage\n", "a function, not a value"),
        (b"NNR", "no tuple"),
        (b"N)R", "what is no function"),
        (b"K\x01K\x02", "more than one value"),
        (b"0", "not there"),
        (b"(0", "not there"),
        (b"\x85", "not there"),
        (b"t", "a mark that is not there"),
        (b"h\x07", "recalls what it did not keep"),
        (b"}(K\x01u", "a key and no value"),
        (b"NNa", "no list or dict"),
        (b"NQ", "no tuple"),
        (b"S'a'\n", "the instruction"),
        (b"]}b", "sets attributes"),
        (b"}NNs", "nothing"),
        (b"}}NsN", "nothing"),
    ] {
        if words == "nothing" {
            let _ = artifact::parse("x.pt", state(program, b""));
            continue;
        }
        refused("x.pt", &state(program, b""), words);
    }
    refused("x.pt", &zipped(&[("s/data.pkl", b"\x80\x09.", false)]), "pickle protocol 9");
    refused("x.pt", &zipped(&[("s/data.pkl", b"", false)]), "the pickle is cut");
    refused("x.pt", &zipped(&[("s/data.pkl", b"X\xff\xff\xff\xff", false)]), "the pickle is cut");
    let nested = [&b"]".repeat(70)[..], &b"a".repeat(69)].concat();
    refused("x.pt", &state(&nested, b""), "nested more than 64 deep");
    refused("x.pt", &state(&b"]".repeat(5_000_000), b""), "builds more than");
    refused("x.pt", &state(b"]q\x00h\x00a", b""), "nested more than 64 deep");
    let twice =
        [&b"}"[..], &binunicode("a.b"), b"K\x01s", &binunicode("a"), b"}", &binunicode("b"), b"K\x02ss"].concat();
    refused("x.pt", &state(&twice, b""), "two entries have the name \"a.b\"");
    let code = zipped(&[("s/data.pkl", b"\x80\x02N.", false), ("s/constants.pkl", b"", false)]);
    refused("x.pt", &code, "TorchScript");
}

/// Would fail if what the memo shares could be walked, or copied, without end.
#[test]
fn memo_bombs_are_refused() {
    // Each list holds the one before twice: 2^60 leaves from 60 lists.
    let mut bomb = b"K\x01\x85q\x00".to_vec();
    for i in 1..60u8 {
        bomb.extend([b'h', i - 1, b'h', i - 1, 0x86, b'q', i]);
    }
    assert!(pickle::read(&[b"\x80\x02(", &bomb[..], b"l."].concat()).is_ok());
    refused("x.pt", &state(&[b"(", &bomb[..], b"l"].concat(), b""), "unpacks to more than");
    // A key that holds one wide tuple again and again: its name would be as long as all of them.
    let wide = [&b"}(("[..], &b"N".repeat(20_000), b"tq\x00", &b"h\x00".repeat(99), b"tNs"].concat();
    refused("x.pt", &state(&wide, b""), "unpacks to more than");
    // One long string, encoded or kept as an attribute again and again.
    let long = binunicode(&"a".repeat(1 << 20));
    let call = b"h\x01h\x00h\x02\x86R0".repeat(400);
    let copies = [&long[..], b"q\x00c_codecs\nencode\nq\x01", &binunicode("latin1"), b"q\x02", &call, b"0"].concat();
    refused("x.pt", &state(&copies, b""), "copies strings without end");
    let tensors = [&view(1, 0, &[1], &[1])[..], b"q\x00(", &b"h\x00".repeat(200_000), b"t\x86"].concat();
    assert!(artifact::parse("x.pt", state(&tensors, &[0; 4])).is_ok());
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    folder
}

/// Would fail if a file of unknown form, or one on one side only, could be passed over.
#[test]
fn folders_are_compared_file_by_file() {
    let (npz, pt, log) = (bytes_of("stored.npz"), bytes_of("state.pt"), &b"{\"loss\": 1}\n"[..]);
    let a = folder(&[("out/w.npz", &npz), ("last.pt", &pt), ("metrics.jsonl", log), ("notes.txt", b"hello")]);
    let b = folder(&[("out/w.npz", &npz), ("last.pt", &pt), ("metrics.jsonl", log), ("notes.txt", b"hello")]);
    let same = diff(a.path(), b.path());
    assert_eq!(same.verdict, Verdict::Same, "{same:?}");
    fs::write(b.path().join("notes.txt"), b"hullo").unwrap();
    let first = diff(a.path(), b.path()).first.unwrap();
    assert_eq!((first.name.as_str(), first.elements.unwrap().first), ("notes.txt", 1));
    fs::write(b.path().join("notes.txt"), b"hello").unwrap();
    fs::write(b.path().join("out/w.npz"), bytes_of("one-ulp.npz")).unwrap();
    assert_eq!(diff(a.path(), b.path()).first.unwrap().name, "out/w.npz:w");
    fs::remove_file(b.path().join("out/w.npz")).unwrap();
    let lacking = diff(a.path(), b.path()).verdict;
    assert!(
        matches!(&lacking, Verdict::Unverified { reason: Reason::NotComparable, detail } if detail.contains("out/w.npz:w")),
        "{lacking:?}"
    );
    fs::write(a.path().join("last.pt"), b"PK\x03\x04").unwrap();
    let broken = diff(a.path(), b.path()).verdict;
    assert!(matches!(&broken, Verdict::Unverified { detail, .. } if detail.contains("last.pt")), "{broken:?}");
    let empty = tempfile::tempdir().unwrap();
    let none = diff(empty.path(), empty.path()).verdict;
    assert!(matches!(none, Verdict::Unverified { reason: Reason::NoEvidence, .. }));
}

/// Would fail if links were followed out of the folder, or paths and traces taken for what they are not.
#[test]
fn artifacts_stay_inside_and_apart() {
    let base = folder(&[("a.bin", b"12"), ("run.log", lines(&records(0, 1)).as_bytes())]);
    let read = |files: &[&str]| artifacts(base.path(), &files.iter().map(PathBuf::from).collect::<Vec<_>>());
    let one = read(&["a.bin"]).unwrap();
    assert_eq!((one.list[0].name.as_str(), one.list[0].word.as_str()), ("a.bin", "u8"));
    for outside in ["../a.bin", "/etc/hostname", "", "x/../a.bin"] {
        assert!(read(&[outside]).unwrap_err().detail.contains("not a plain relative path"), "{outside}");
    }
    assert!(read(&["nowhere"]).is_err());
    assert!(read(&["a.bin", "run.log"]).unwrap_err().detail.contains("a trace among other files"));
    assert!(matches!(read_file(&base.path().join("run.log")), Ok(Evidence::Traces(_))));
    std::os::unix::fs::symlink("/etc/hostname", base.path().join("link")).unwrap();
    let link = read(&["link"]).unwrap();
    assert_eq!((link.list[0].word.as_str(), link.list[0].bytes.as_slice()), ("link", &b"/etc/hostname"[..]));
    assert!(link.remarks[0].contains("not followed"));
}

/// Would fail if a file's own name decided, or a damaged trace could be the same as itself.
#[test]
fn single_files_of_any_name() {
    let base = folder(&[("a.bin", b"12"), ("b.bin", b"12"), ("c.bin", b"13"), ("x.jsonl", b"{}\n"), ("raw.pt", b"12")]);
    let diff = |a: &str, b: &str| diff(&base.path().join(a), &base.path().join(b));
    assert_eq!(diff("a.bin", "b.bin").verdict, Verdict::Same);
    assert_eq!(diff("a.bin", "c.bin").first.unwrap().elements.unwrap().first, 1);
    assert!(matches!(diff("x.jsonl", "x.jsonl").verdict, Verdict::Unverified { .. }));
    let raw = diff("raw.pt", "raw.pt");
    assert!(raw.verdict == Verdict::Same && raw.noted[0].contains("compared as bytes"), "{raw:?}");
}

fn names() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["x.npy", "x.npz", "x.pt", "x.bin", "x.safetensors", "x"])
}

const WHOLE: [&str; 8] = [
    "fortran.npy",
    "record.npy",
    "stored.npz",
    "deflated.npz",
    "state.pt",
    "tensor.pt",
    "types.safetensors",
    "numpy.pt",
];

proptest! {
    /// Would fail if any bytes made a reader panic.
    #[test]
    fn arbitrary_bytes_never_panic(name in names(), bytes in prop::collection::vec(any::<u8>(), 0..300), start in 0usize..4) {
        let start: &[u8] = [&b""[..], npy::MAGIC, b"PK\x03\x04", b"\x80\x02"][start];
        let bytes = [start, &bytes[..]].concat();
        let _ = pickle::read(&bytes);
        if let Ok(found) = artifact::parse(name, bytes) {
            prop_assert!(found.tensors.iter().all(|t| t.bytes.len() < 1 << 20));
        }
    }

    /// Would fail if a damaged file made a reader panic, or a tensor hold more or less than its shape says.
    #[test]
    fn mutated_files_never_panic(which in 0usize..8, changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6)) {
        let mut bytes = bytes_of(WHOLE[which]);
        for (at, to) in changes {
            let at = at % bytes.len();
            bytes[at] = to;
        }
        if let Ok(found) = artifact::parse(WHOLE[which], bytes) {
            for tensor in &found.tensors {
                let count = tensor.shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).unwrap();
                prop_assert!(tensor.dtype.is_none_or(|d| count * d.size() == tensor.bytes.len()), "{}", tensor.name);
            }
        }
    }

    /// Would fail if a damaged pickle made the reader or the walk over its values panic.
    #[test]
    fn mutated_pickles_never_panic(which in 0usize..3, changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..8)) {
        let whole = match which {
            0 => bytes_of("state.pt"),
            n => {
                let seed = fixture(["../../fuzz/seeds/pickle/numpy-2.pkl", "../../fuzz/seeds/pickle/numpy-5.pkl"][n - 1]);
                let whole = zipped(&[("s/data.pkl", &fs::read(seed).unwrap(), false)]);
                assert!(artifact::parse("x.pt", whole.clone()).is_ok());
                whole
            }
        };
        let entries = zip::entries(&whole).unwrap();
        let mut parts: Vec<(String, Vec<u8>)> =
            entries.iter().map(|e| (e.name.clone(), e.read().unwrap().into_owned())).collect();
        let program = &mut parts.iter_mut().find(|(name, _)| name.ends_with("data.pkl")).unwrap().1;
        for (at, to) in changes {
            let at = at % program.len();
            program[at] = to;
        }
        let parts: Vec<(&str, &[u8], bool)> = parts.iter().map(|(n, b)| (n.as_str(), b.as_slice(), false)).collect();
        let _ = artifact::parse("x.pt", zipped(&parts));
    }
}

fn samebits(arguments: &[&str]) -> (Option<i32>, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_samebits")).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Would fail if the command line did not name the first array, element and distance, or gave another exit code.
#[test]
fn diff_names_the_first_array() {
    let [a, b] = ["stored.npz", "one-ulp.npz"].map(|n| fixture(n).display().to_string());
    let (code, text) = samebits(&["diff", &a, &b]);
    assert!(code == Some(1) && text.contains("first: w in tensor") && text.contains("the first is [4]"), "{text}");
    let (code, text) = samebits(&["diff", &a, &b, "--tensors", "half,mask", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &value["comparison"]["compared"]["tensors"]), (Some(0), &serde_json::json!(2)));
    let module = fixture("module.pt").display().to_string();
    let (code, text) = samebits(&["diff", &module, &module]);
    assert!(code == Some(2) && text.contains("the pickle calls torch.nn"), "{text}");
}

/// Would fail if the line at which two texts part were not told, or a name that differs be left untold.
#[test]
fn diff_tells_lines_and_names() {
    let names: Vec<String> =
        (0..20).map(|i| format!("logs/run/{i:02}.txt")).chain(["metrics.csv".to_owned()]).collect();
    let side = |loss: &str| {
        let text = format!("step,loss\n0,1.5\n1,{loss}\n2,0.5\n");
        let files: Vec<(&str, &[u8])> = names.iter().map(|n| (n.as_str(), text.as_bytes())).collect();
        folder(&files)
    };
    let (a, b) = (side("0.75"), side("0.7\x1b[2J5"));
    let [a, b] = [&a, &b].map(|f| f.path().display().to_string());
    let (code, text) = samebits(&["diff", &a, &b]);
    let line = "  lines: 1 of 4 differ, the first is line 3: \"1,0.75\" | \"1,0.7\\u{1b}[2J5\"\n";
    assert!(code == Some(1) && text.contains(line) && !text.contains('\x1b'), "{text}");
    assert!(text.contains("differing there: 21 (logs/run/* (20), metrics.csv)"), "{text}");
    let (_, all) = samebits(&["diff", &a, &b, "--all"]);
    assert!(names.iter().all(|n| all.contains(&format!("\n    {n}\n"))), "{all}");
    let (_, top) = samebits(&["diff", &a, &b, "--top", "2"]);
    assert!(top.contains("    logs/run/01.txt\n    19 more") && !top.contains("    logs/run/02.txt"), "{top}");
    let (code, text) = samebits(&["diff", &a, &b, "--json"]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let comparison = &value["comparison"];
    assert_eq!((code, comparison["differing"].as_array().unwrap().len()), (Some(1), 21));
    let lines = &comparison["first"]["lines"];
    assert_eq!((&lines["first"], &lines["differing"]), (&serde_json::json!(3), &serde_json::json!(1)));
    assert_eq!(lines["values"], serde_json::json!(["1,0.75", "1,0.7\\u{1b}[2J5"]));
    assert_eq!(samebits(&["diff", &a, &b, "--top", "0"]).0, Some(64));
}

/// Would fail if a cut, altered or foreign file passed as a trace, or what a trace lacks were not said.
#[test]
fn validate_says_what_a_trace_is() {
    let whole = lines(&records(0, 1));
    let cut = &whole[..whole.len() - 9];
    let altered = whole.replacen("\"w\":\"e5", "\"w\":\"f5", 1);
    let base =
        folder(&[("a.jsonl", whole.as_bytes()), ("cut.jsonl", cut.as_bytes()), ("altered.jsonl", altered.as_bytes())]);
    let path = |name: &str| base.path().join(name).display().to_string();
    let (code, text) = samebits(&["validate", &path("a.jsonl")]);
    assert!(code == Some(0) && text.contains("my-trainer 1.0, rank 0 of 1, level op, 6 records, complete"), "{text}");
    assert!(text.contains("lacks nothing"), "{text}");
    let mut bare = records(0, 1);
    let samebits::trace::record::Record::Open(open) = &mut bare[0] else { panic!("open") };
    open.seed = None;
    fs::write(base.path().join("bare.jsonl"), lines(&bare)).unwrap();
    let (code, text) = samebits(&["validate", &path("bare.jsonl")]);
    assert!(code == Some(0) && text.contains("lacks no-seed (no seed): two runs of other seeds"), "{text}");
    assert!(text.contains("\n    mend: `seed` in open; in Python record(seed=...)\n"), "{text}");
    let (_, text) = samebits(&["validate", "--json", &path("bare.jsonl")]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(value["traces"][0]["lacks"][0]["mend"].as_str().unwrap().contains("seed=..."), "{text}");
    let array = fixture("c.npy").display().to_string();
    let (code, text) = samebits(&["validate", &path("a.jsonl"), &path("cut.jsonl"), &path("altered.jsonl"), &array]);
    assert_eq!(code, Some(2));
    assert!(text.contains("not valid (cut-trace)") && text.contains("after 5 records"), "{text}");
    assert!(text.contains("not valid (altered-trace)") && text.contains("altered.jsonl:2"), "{text}");
    assert!(text.contains("not valid (not-comparable)") && text.contains("not a trace"), "{text}");
    let (code, text) = samebits(&["validate", "--json", &path("a.jsonl"), &path("cut.jsonl"), &path("nowhere")]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let traces = &value["traces"];
    assert_eq!((code, &value["schema"]), (Some(2), &serde_json::json!("samebits-validate/1")));
    assert_eq!((&traces[0]["valid"], &traces[0]["lacks"]), (&serde_json::json!(true), &serde_json::json!([])));
    assert_eq!(
        (&traces[1]["reason"], &traces[2]["reason"]),
        (&serde_json::json!("cut-trace"), &serde_json::json!("no-evidence"))
    );
}

/// Would fail if one of two tensors of one name in a safetensors header were passed over.
#[test]
fn a_name_given_twice_in_safetensors_is_refused() {
    let entry = r#""w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    let file = |header: String| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[7]].concat();
    assert_eq!(samebits::artifact::safe::parse(&file(format!("{{{entry}}}"))).unwrap().len(), 1);
    let twice = samebits::artifact::safe::parse(&file(format!("{{{entry},{entry}}}"))).unwrap_err();
    assert!(twice.contains("twice"), "{twice}");
}

/// Would fail if texts in the header of a safetensors file were passed over, their order decided, one on one side only
/// was same, or texts made up for tensors that are all empty.
#[test]
fn metadata_of_safetensors_is_compared() {
    let base = tempfile::tempdir().unwrap();
    let write = |name: &str, metadata: &str, shape: usize| {
        let tensor = format!(r#""w":{{"dtype":"U8","shape":[{shape}],"data_offsets":[0,{shape}]}}"#);
        let header = format!("{{{metadata}{tensor}}}");
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![7; shape]].concat();
        let path = base.path().join(name).with_extension("safetensors");
        fs::write(&path, bytes).unwrap();
        path
    };
    let a = write("a", r#""__metadata__":{"x":"1","y":"2"},"#, 1);
    let b = write("b", r#""__metadata__":{"y":"2","x":"1"},"#, 1);
    let c = write("c", r#""__metadata__":{"x":"1","y":"3"},"#, 1);
    let none = write("none", "", 1);
    let twice = write("twice", r#""__metadata__":{"x":"1","x":"1"},"#, 1);
    let empty = write("empty", r#""__metadata__":{"x":"1"},"#, 0);
    assert_eq!(diff(&a, &b).verdict, Verdict::Same);
    let differs = diff(&a, &c);
    assert_eq!((differs.verdict, differs.differing), (Verdict::Different, vec!["__metadata__".to_owned()]));
    assert_eq!(diff(&none, &none).verdict, Verdict::Same);
    for (x, y, words) in [(&a, &none, "__metadata__ is absent"), (&twice, &a, "twice"), (&empty, &empty, "empty")] {
        let found = diff(x, y).verdict;
        assert!(matches!(&found, Verdict::Unverified { detail, .. } if detail.contains(words)), "{words}: {found:?}");
    }
}
