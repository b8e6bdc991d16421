"""What a trace may say of its surroundings: the rules of src/trace/privacy.rs, and no secret anywhere."""

import os
import re
import unittest

from support import ROOT, Case, read

from samebits import _identity

SECRET = "hunter2-correct-horse"


class Privacy(Case):
    def test_no_secret_in_any_file(self):
        """Would fail if a secret, or the home folder, could reach a file by any way in."""
        source = f"""
import os, sys, samebits
sys.argv = ["train.py", "--api-key", "abc-secret", "--token={SECRET}", os.path.join(os.environ["HOME"], "data")]
settings = {{"password": "opensesame", "note": "uses {SECRET}", "deep": [{{"api_key": "opensesame"}}]}}
with samebits.record(settings=settings, engine="mine {SECRET}") as r:
    r.event("login", "with {SECRET}")
    r.step(tensors={{"x": 1.0}})
"""
        environment = {"MY_API_TOKEN": SECRET, "CUDA_SECRET_KEY": "another-secret", "OMP_NUM_THREADS": "1", "HOME": "/home/annabel"}
        self.run_python(source, **environment)
        files = [p for p in self.folder.rglob("*") if p.is_file()]
        self.assertEqual(len(files), 1)
        text = files[0].read_text()
        for secret in (SECRET, "abc-secret", "another-secret", "opensesame", "/home/annabel", "CUDA_SECRET_KEY"):
            self.assertNotIn(secret, text)
        noted = read(files[0])[0]["identity"]["noted"]
        self.assertEqual(noted["argv"], "train.py --api-key <masked> --token=<masked> <home>/data")
        self.assertEqual(noted["env.OMP_NUM_THREADS"], "1")

    def test_rules_are_those_of_the_program(self):
        """Would fail if the two lists of what may be recorded drifted apart."""
        rust = ROOT / "src/trace/privacy.rs"
        if not rust.exists():
            self.skipTest("not run: not in a checkout")
        for name in ("EXACT", "PREFIXES", "SECRET"):
            text = re.search(rf"const {name}: \[&str; \d+\] = \[([^\]]*)\]", rust.read_text()).group(1)
            self.assertEqual(tuple(re.findall(r'"([^"]*)"', text)), getattr(_identity, name), name)

    def test_masking(self):
        """Would fail if a command line were masked otherwise than the program does."""
        mask = _identity.Mask({"A_KEY": "hunter22", "HOME": "/home/ann"})
        text = mask.apply("train --api-key abc --token=def /home/ann/x hunter22 PASSWORD=q --seed 1")
        self.assertEqual(text, "train --api-key <masked> --token=<masked> <home>/x <masked> PASSWORD=<masked> --seed 1")

    def test_identity(self):
        """Would fail if a trace could not say what it was made with."""
        about = _identity.identity(_identity.Mask(os.environ), "1")
        self.assertTrue({"python", "os", "arch", "cpu", "argv"} <= set(about["noted"]))


if __name__ == "__main__":
    unittest.main()
