# SPDX-License-Identifier: Apache-2.0
"""Quantised weights and the file of a served model."""

import json
import struct
import unittest

from training_code import small_config

import numpy
import torch

import quantise
import safetensors_file
import served
from model import Model


def random_model(seed=1):
    torch.manual_seed(seed)
    model = Model(small_config())
    for experts in model.expert_layers():
        experts.bias.normal_(std=0.1)
    return model


def integers(low, high, shape, seed):
    return torch.from_numpy(numpy.random.default_rng(seed).integers(low, high + 1, shape))


class Weights(unittest.TestCase):
    def test_real_value_is_within_half_a_step(self):
        weight = torch.randn(40, 64, generator=torch.Generator().manual_seed(2)) + 0.3
        matrix = quantise.matrices(weight)
        loss = (matrix.real() - weight).abs() / matrix.scale[:, None]
        self.assertLess(loss.max(), 0.5001)
        self.assertTrue(torch.all(matrix.scale == (weight.amax(-1) - weight.amin(-1)) / 126))

    def test_range_and_offset_hold_for_channels_of_one_sign_and_of_zeros(self):
        weight = torch.stack([torch.linspace(1.0, 2.0, 16), -torch.linspace(1.0, 2.0, 16), torch.zeros(16)])
        matrix = quantise.matrices(weight)
        self.assertLessEqual(matrix.q.abs().max(), quantise.LIMIT)
        self.assertLessEqual(matrix.offset.abs().max(), quantise.LIMIT)
        self.assertTrue(torch.all(matrix.scale > 0))
        self.assertTrue(torch.all(matrix.real()[2] == 0))
        torch.testing.assert_close(matrix.real(), weight, atol=0.01, rtol=0.0)

    def test_extremes_that_round_off_the_grid_stay_on_it(self):
        matrix = quantise.matrices(torch.tensor([[-1.5, 124.5]]))  # The scale is 1, and both are ties.
        self.assertEqual(matrix.q.tolist(), [[-63, 62]])
        self.assertEqual(matrix.real().tolist(), [[-1.0, 124.0]])

    def test_matrix_whose_sums_floats_cannot_hold_is_refused(self):
        q = torch.full((1, 4096), 63, dtype=torch.int8)
        with self.assertRaisesRegex(ValueError, "16777216"):
            quantise.Matrix(q, torch.ones(1), torch.full((1,), -63, dtype=torch.int32))


class Products(unittest.TestCase):
    def test_rows_round_ties_to_even_and_reach_127(self):
        q, scale = quantise.rows(torch.tensor([[127.0, -127.0, 0.5, 1.5, 2.5, -0.5, -1.5], [0.0] * 7]))
        self.assertEqual(q.tolist(), [[127, -127, 0, 2, 2, 0, -2], [0] * 7])
        self.assertEqual(scale.tolist(), [[1.0], [0.0]])

    def test_product_is_that_of_integers_with_scales_applied_afterwards(self):
        matrix = quantise.Matrix(integers(-63, 63, (48, 512), 4).to(torch.int8), torch.rand(48) + 0.5,
                                 integers(-63, 63, 48, 5).int())
        x = 3.7 * torch.randn(9, 512, generator=torch.Generator().manual_seed(6))
        for values in (x, x.double()):
            q, scale = quantise.rows(values)
            sums = q.long() @ matrix.q.long().t() - matrix.offset.long() * q.long().sum(-1, keepdim=True)
            expected = sums.to(values.dtype) * (scale * matrix.scale.to(values.dtype))
            self.assertTrue(torch.equal(quantise.product(values, matrix), expected))


class File(unittest.TestCase):
    def setUp(self):
        self.model = served.quantised(random_model())
        self.content = served.encode(self.model)

    def test_same_weights_make_the_same_bytes(self):
        self.assertEqual(served.encode(served.quantised(random_model())), self.content)
        self.assertNotEqual(served.encode(served.quantised(random_model(seed=2))), self.content)

    def test_model_read_back_says_the_same(self):
        ids = integers(0, 255, (2, 64), 7)
        read = served.decode(self.content)
        self.assertEqual(read.config, self.model.config)
        self.assertTrue(torch.equal(read(ids), self.model(ids)))
        self.assertEqual(served.encode(read), self.content)

    def test_quantised_model_is_near_the_one_in_float(self):
        ids = integers(0, 255, (2, 64), 8)
        wanted, got = served.in_float(random_model())(ids), self.model(ids)
        self.assertLess((got - wanted).norm() / wanted.norm(), 0.1)
        self.assertFalse(torch.equal(got, wanted))

    def test_tensors_have_the_names_types_and_shapes_of_the_format(self):
        tensors, metadata = safetensors_file.decode(self.content)
        said = {name: (safetensors_file.NAMES[array.dtype], array.shape) for name, array in tensors.items()}
        self.assertEqual(len(said), 3 + 3 * 2 + 3 * 6 + 6 + 2 * (2 + 6 + 8 * 6))
        for name, wanted in {
                "model.embed_tokens.weight": ("F32", (256, 32)),
                "model.layers.0.self_attn.qkv_proj": ("I8", (96, 32)),
                "model.layers.0.self_attn.o_proj_offset": ("I32", (32,)),
                "model.layers.0.mlp.w13": ("I8", (128, 32)),
                "model.layers.1.input_layernorm.weight": ("F32", (32,)),
                "model.layers.1.mlp.gate.weight": ("F32", (8, 32)),
                "model.layers.1.mlp.gate.e_score_correction_bias": ("F32", (8,)),
                "model.layers.2.mlp.shared_experts.w2_scale": ("F32", (32,)),
                "model.layers.2.mlp.experts.7.w13": ("I8", (64, 32)),
                "model.layers.2.mlp.experts.7.w2": ("I8", (32, 32)),
                "model.norm.weight": ("F32", (32,)),
                "lm_head.weight": ("F32", (256, 32))}.items():
            self.assertEqual(said[name], wanted, name)
        self.assertEqual(metadata["format"], "trimtab.model/1")
        said = [metadata[name] for name in ("rope_base", "norm_epsilon", "experts")]
        self.assertEqual(said, ["10000", "1e-06", "8"])


class Layout(unittest.TestCase):
    def test_tensors_lie_without_gaps_and_aligned(self):
        content = safetensors_file.encode({"a": numpy.zeros(3, "i1"), "b": numpy.zeros((2, 1), "<f4"),
                                           "c": numpy.zeros(0, "i1"), "d": numpy.zeros(5, "<i4")}, {"x": "y"})
        length, = struct.unpack("<Q", content[:8])
        header = json.loads(content[8:8 + length])
        del header["__metadata__"]
        end = 0
        for entry in header.values():
            self.assertEqual(entry["data_offsets"][0], end)
            self.assertEqual((8 + length + end) % safetensors_file.TYPES[entry["dtype"]].itemsize, 0)
            end = entry["data_offsets"][1]
        self.assertEqual(end, 3 + 8 + 0 + 20)
        self.assertEqual(8 + length + end, len(content))


if __name__ == "__main__":
    unittest.main()
