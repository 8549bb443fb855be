# SPDX-License-Identifier: Apache-2.0
"""`trimtab generate`: the right shape, the same bytes for a seed."""

import json
import unittest

from program import ProgramTest


class Generate(ProgramTest):
    def test_shape_and_totals(self):
        self.succeed("generate", "--layers", 5, "--dense-layers", 1, "--experts", 32, "--tokens", 1000, "--top-k", 4,
                     "-o", "loads.json")
        counts = self.read_json("loads.json")["logical_count"]
        self.assertEqual([sum(row) for row in counts], [0, 4000, 4000, 4000, 4000])
        self.assertTrue(all(len(row) == 32 and max(row) <= 1000 for row in counts))

    def test_steps_add_an_axis(self):
        self.succeed("generate", "--layers", 2, "--experts", 8, "--steps", 3, "-o", "loads.json")
        counts = self.read_json("loads.json")["logical_count"]
        self.assertEqual((len(counts), len(counts[0]), len(counts[0][0])), (3, 2, 8))

    def test_seed_decides_every_byte(self):
        arguments = ["generate", "--distribution", "zipf", "--outliers", 1, "--steps", 2, "-o", "-", "--seed"]
        first = self.succeed(*arguments, 5)
        self.assertEqual(self.succeed(*arguments, 5), first)
        self.assertNotEqual(self.succeed(*arguments, 6), first)

    def test_parameters_as_json(self):
        text = self.succeed("generate", "--seed", 18446744073709551615, "--json", "-", "-o", "loads.json")
        document = json.loads(text)
        self.assertEqual(document["schema"], "trimtab.generate/1")
        self.assertEqual(document["seed"], 18446744073709551615)

    def test_goes_into_a_pipe(self):
        loads = self.succeed("generate", "--layers", 2, "-o", "-")
        self.assertIn("2 layers", self.succeed("inspect", "-", stdin=loads))


if __name__ == "__main__":
    unittest.main()
