# SPDX-License-Identifier: Apache-2.0
"""tests/golden/model_logits.safetensors is what PyTorch says of the model that is shipped."""

import sys
import unittest

from training_code import ROOT

sys.path.insert(0, str(ROOT / "tests" / "golden"))

import numpy
import torch

import make_model_logits as golden
import safetensors_file


class GoldenLogits(unittest.TestCase):
    def test_file_is_what_pytorch_computes(self):
        torch.set_num_threads(1)
        kept, _ = safetensors_file.decode(golden.OUT.read_bytes())
        computed = golden.golden(golden.MODEL.read_bytes())
        self.assertEqual(sorted(kept), sorted(computed))
        for name in ("ids", "positions", "chosen"):
            self.assertTrue(numpy.array_equal(kept[name], computed[name]), name)
        numpy.testing.assert_allclose(kept["logits"], computed["logits"], atol=1e-4)  # Computed in float64.
        self.assertGreater(numpy.abs(kept["float_logits"] - kept["logits"]).max(), 0.01)


if __name__ == "__main__":
    unittest.main()
