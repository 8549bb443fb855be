# SPDX-License-Identifier: Apache-2.0
"""The model that is shipped: text that it finds likely, domains that heat different experts, and mutants that it notices."""

import json
import pathlib
import statistics
import subprocess
import unittest

from program import BINARY
from text_runs import TextRunTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "small"
DOMAINS = ["chinese", "code", "english", "structured"]


class RealModel(TextRunTest):
    def serve_model(self, *options, status=0):
        return self.serve("--model", MODEL, "--ranks", 2, *options, status=status)[0]

    def test_text_of_every_domain_is_served_alike_with_and_without_balancing(self):
        document = self.serve_model("--forwards", 48, "--record", "traces")
        self.check_arms(document, DOMAINS)
        for domain in document["text"]["domains"]:
            self.assertLess(domain["bits_per_byte"]["on"], 4.0, domain["name"])  # A byte of unknown text is 8.
        self.check_domains([self.folder / "traces" / f"{domain}.trace" for domain in DOMAINS])

    def check_domains(self, traces):
        shown = json.loads(self.succeed("inspect", *traces, "--json", "-"))
        self.assertEqual([trace["domain"] for trace in shown["traces"]], DOMAINS)
        imbalances = [trace["summary"]["imbalance_mean"] for trace in shown["traces"]]
        self.assertGreaterEqual(sum(imbalance >= 1.3 for imbalance in imbalances), 2, imbalances)
        overlap = shown["hot_overlap"]
        others = [overlap[one][other] for one in range(4) for other in range(one)]
        self.assertLess(statistics.mean(others), 0.6)

    def test_shipped_traces_differ_as_domains_do(self):
        traces = [ROOT / "examples" / "data" / f"{domain}.trace" for domain in DOMAINS]
        self.check_domains(traces)
        shown = json.loads(self.succeed("inspect", *traces, "--slots", 40, "--plans", "--json", "-"))
        self.assertTrue(all(trace["tokens"] >= 20_000 for trace in shown["traces"]))
        cross = shown["cross_imbalance"]
        for served in range(4):
            others = [cross[made_for][served] for made_for in range(4) if made_for != served]
            self.assertGreater(min(others), cross[served][served])
            self.assertGreater(max(others), cross[served][served] + 0.05)

    def test_card_of_the_traces_shows_what_inspect_shows(self):
        card = (ROOT / "examples" / "data" / "README.md").read_text(encoding="utf-8")
        traces = [f"examples/data/{domain}.trace" for domain in DOMAINS]
        plain, planned = (subprocess.run([BINARY, "inspect", *traces, *options], cwd=ROOT, text=True, capture_output=True,
                                         check=True).stdout for options in ((), ("--slots", "40", "--plans")))
        self.assertIn(f"```text\n{plain}```\n", card)
        self.assertIn(f"```text\n{planned[planned.index('imbalance under a plan'):]}```\n", card)

    def test_mutants_cost_bits(self):
        """For the same prompts the model needs more, most of all in the later half, when most weights have moved."""
        for mutant, least in (("wrong-scale", 1.002), ("table-before-weights", 1.01)):
            document = self.serve_model("--forwards", 32, "--tokens", 128, "--rebalance-every", 2, "--mutant", mutant, status=1)
            self.assertIs(document["outputs_identical"], False)
            off, on = ([block["bits_per_byte"] for block in document["blocks"] if block["balancing"] is arm]
                       for arm in (False, True))
            self.assertEqual(len(off), len(on))
            later = len(on) // 2
            # Not in each: few of its bytes may have met a wrong weight.
            self.assertGreaterEqual(sum(map(float.__gt__, on, off)), 0.75 * len(on), (mutant, off, on))
            self.assertGreater(statistics.mean(on[later:]), least * statistics.mean(off[later:]), mutant)


if __name__ == "__main__":
    unittest.main()
