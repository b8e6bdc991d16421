"""fp/1 on every backend: the contract's vectors, and that values stand for their bytes whatever their type and layout."""

import json
import random
import unittest

from support import ROOT, Case, needs

from samebits import _fingerprint


def vectors(kind):
    cases = json.loads((ROOT / "cases/vectors/fingerprint.json").read_text())["cases"]
    return [c for c in cases if c["kind"] == kind]


def pairs():
    """(bytes, fingerprint) of the vectors, and lengths around the blocks, the pool and the tensors read in place."""
    found = [(bytes.fromhex(c["in"]["bytes"]), c["out"]["fp"]) for c in vectors("fingerprint")]
    assert len(found) > 20
    source = random.Random(7)
    for size in (7, 1023, 1025, _fingerprint.DIRECT - 1, _fingerprint.DIRECT, _fingerprint.DIRECT + 1029):
        data = source.randbytes(size)
        found.append((data, _fingerprint.text(_fingerprint.of_bytes(data))))
    return found


class Vectors(Case):
    def check(self, lanes):
        """One by one, and all laid one after another."""
        data, expected = zip(*pairs())
        self.assertEqual([_fingerprint.text(x) for x in lanes(data)], list(expected))
        self.assertEqual([_fingerprint.text(lanes([one])[0]) for one in data], list(expected))

    def test_finaliser_and_keys(self):
        """Would fail if a word constant or the finaliser were not the contract's."""
        (mix,) = vectors("mix64")
        numbers = [int(z, 16) for z in mix["in"]["z"].split()]
        self.assertEqual([f"{_fingerprint.mix64(z):016x}" for z in numbers], mix["out"]["mix"].split())
        for case in vectors("keys"):
            keys = " ".join(f"{key:08x}" for key in _fingerprint.KEYS[case["in"]["k"]])
            self.assertEqual(keys, case["out"]["keys"])

    def test_python(self):
        """Would fail if a trace written without array libraries had other fingerprints than the format says."""
        self.check(lambda data: [_fingerprint.of_bytes(x) for x in data])

    @needs("numpy")
    def test_numpy(self):
        """Would fail if NumPy's arithmetic, or laying tensors together, gave other bits."""
        from samebits import _numpy

        self.check(lambda data: _numpy.lanes([_numpy.from_bytes(x) for x in data]))

    @needs("torch")
    def test_torch(self):
        """Would fail if signed arithmetic, shifts or segments of PyTorch gave other bits."""
        from samebits import _torch

        self.check(lambda data: _torch.lanes([_torch.from_bytes(x) for x in data], [])[0])

        def as_other_devices_do(data):
            tensors = [_torch.from_bytes(x) for x in data]
            return _torch._pairs(_torch._on_device(tensors, tensors[0].device).reshape(-1).tolist())

        self.check(as_other_devices_do)

    @needs("torch")
    def test_cuda(self):
        """Would fail if a GPU gave other bits than the CPU."""
        import torch

        from samebits import _torch

        if not torch.cuda.is_available():
            self.skipTest("not run: no CUDA device")
        self.check(lambda data: _torch.lanes([_torch.from_bytes(x).cuda() for x in data], [])[0])

    @needs("jax")
    def test_jax(self):
        """Would fail if pairs of uint32 lost a carry."""
        import jax
        import numpy as np

        from samebits import _jax

        data, expected = zip(*pairs())
        arrays = [jax.numpy.array(np.frombuffer(x, dtype=np.uint8)) for x in data]
        self.assertEqual([_fingerprint.text(x) for x in _jax.lanes(arrays)], list(expected))


class Values(Case):
    """Arrays of a type against the bytes that NumPy says they have."""

    def leaf(self, value, expected, dtype, shape):
        import hashlib

        from samebits import _leaves

        leaf = _leaves.leaf("x", value)
        lanes = _leaves.reduce([leaf], [])[0][0]
        self.assertEqual((leaf.dtype, leaf.shape), (dtype, shape))
        self.assertEqual(lanes, _fingerprint.of_bytes(expected), f"{dtype}{shape}")
        self.assertEqual(leaf.sha256(), hashlib.sha256(expected).hexdigest(), f"{dtype}{shape}")

    def arrays(self):
        import numpy as np

        for name, dtype in [("u1", "u8"), ("i1", "i8"), ("<i2", "i16"), ("<i4", "i32"), ("<i8", "i64"), ("<f2", "f16"),
                            ("<f4", "f32"), ("<f8", "f64"), ("<c8", "c64"), ("<c16", "c128"), ("?", "bool")]:  # fmt: skip
            full = (np.arange(35) % 3).astype(name).reshape(5, 7)
            yield full, dtype
            yield np.array(full[1, 2]), dtype
            yield full[:0], dtype

    @needs("numpy")
    def test_numpy(self):
        """Would fail if a type, a stride, a byte order or an empty array were recorded as other bytes."""
        import numpy as np

        for array, dtype in self.arrays():
            self.leaf(array, array.tobytes(), dtype, array.shape)
            self.leaf(array.T, array.T.tobytes(), dtype, array.T.shape)
            self.leaf(array.astype(array.dtype.newbyteorder(">")), array.tobytes(), dtype, array.shape)
        for unsigned in ("u2", "u4", "u8"):
            self.leaf(np.ones(3, f"<{unsigned}"), np.ones(3, f"<{unsigned}").tobytes(), f"u{8 * int(unsigned[1])}", (3,))
        self.leaf(np.float32(2), np.float32(2).tobytes(), "f32", ())
        self.leaf(np.array(["ab", "c"]), np.array(["ab", "c"]).tobytes(), "u8", (2, 8))

    @needs("torch", "numpy")
    def test_torch(self):
        """Would fail if views, offsets, lazy conjugates or autograd leaves were recorded as other bytes."""
        import torch

        for array, dtype in self.arrays():
            tensor = torch.from_numpy(array.copy())
            self.leaf(tensor, array.tobytes(), dtype, array.shape)
            self.leaf(tensor.T if array.ndim == 2 else tensor, array.T.tobytes(), dtype, array.T.shape)
            if array.size > 1:
                self.leaf(tensor.flatten()[3:], array.reshape(-1)[3:].tobytes(), dtype, (array.size - 3,))
        z = torch.tensor([1 + 2j, 3 - 4j])
        self.leaf(z.conj(), z.resolve_conj().numpy().conj().tobytes(), "c64", (2,))
        self.leaf(torch.nn.Parameter(torch.ones(3)), torch.ones(3).numpy().tobytes(), "f32", (3,))
        self.leaf(torch.tensor([1.0, -2.5], dtype=torch.bfloat16), bytes.fromhex("803f20c0"), "bf16", (2,))
        self.leaf(torch.tensor([1.0, -2.0]).to(torch.float8_e5m2), bytes.fromhex("3cc0"), "u8", (2, 1))
        big = torch.randn(400_001)
        self.leaf(big[1:], big[1:].numpy().tobytes(), "f32", (400_000,))

        from samebits import _torch

        lanes = _torch._pairs(_torch._on_device([_torch.flat(big[1:])], big.device).reshape(-1).tolist())
        self.assertEqual(lanes, [_fingerprint.of_bytes(big[1:].numpy().tobytes())])

    @needs("jax")
    def test_jax(self):
        """Would fail if packing small types, splitting wide ones or complex numbers gave other bytes."""
        import jax
        import jax.numpy as jnp

        for array, dtype in self.arrays():
            if array.dtype.itemsize < 8 or array.dtype.kind == "c" and array.dtype.itemsize == 8:
                self.leaf(jnp.asarray(array), array.tobytes(), dtype, array.shape)
        self.leaf(jnp.array([1.0, -2.5], jnp.bfloat16), bytes.fromhex("803f20c0"), "bf16", (2,))
        with jax.enable_x64():
            for array, dtype in self.arrays():
                self.leaf(jnp.asarray(array), array.tobytes(), dtype, array.shape)

    @needs("jax")
    def test_jax_sums_in_groups(self):
        """Would fail if a tensor of more blocks than are added at once lost a carry."""
        import jax.numpy as jnp
        import numpy as np

        from samebits import _jax

        kept, _jax.GROUP = _jax.GROUP, 4
        self.addCleanup(setattr, _jax, "GROUP", kept)
        array = np.arange(21_003, dtype=np.uint32) * np.uint32(2654435761)
        self.leaf(jnp.asarray(array), array.tobytes(), "u32", (21_003,))

    def test_numbers_and_bytes(self):
        """Would fail if Python's own values were not tensors of shape [] or flat bytes."""
        import struct
        from array import array

        self.leaf(0.5, struct.pack("<d", 0.5), "f64", ())
        self.leaf(-3, struct.pack("<q", -3), "i64", ())
        self.leaf(True, b"\1", "bool", ())
        self.leaf(b"abc", b"abc", "u8", (3,))
        self.leaf(array("f", [1.0, 2.0]), struct.pack("<2f", 1, 2), "f32", (2,))


if __name__ == "__main__":
    unittest.main()
