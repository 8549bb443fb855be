# SPDX-License-Identifier: Apache-2.0
"""What crosses the link and the loopback is what the program says, and what is served is right."""

import json

from launchers import RANKS
from on_two_nodes import SIZES, OnTwoNodes

LARGE_EXPERTS = ("--forwards", 16, "--tokens", 16, "--hidden", 256, "--intermediate", 512)


class Traffic(OnTwoNodes):
    def serve(self, *arguments):
        """@return the document, and the bytes that the interfaces saw within and between nodes."""
        within, between = self.nodes.bytes_within(), self.nodes.bytes_between()
        statuses, said = self.launch("run", "--nodes", 2, *arguments, "--json", "run.json").finish(240)
        self.assertFalse(any(statuses), said)
        document = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        self.assertEqual((document["ranks"], document["nodes"]), (RANKS, 2))
        self.assertIs(document["outputs_identical"], True)
        return document, self.nodes.bytes_within() - within, self.nodes.bytes_between() - between

    def test_interfaces_see_the_bytes_that_the_program_names(self):
        document, within, between = self.serve(*SIZES, "--forwards", 16)
        for where, seen in (("within", within), ("between", between)):
            named = sum(document["traffic"][what][f"bytes_{where}_nodes"] for what in ("forward", "migration"))
            print(f"{where} nodes: {named} bytes named, {seen} seen, {seen / named:.3f}")
            self.assertGreater(named, 1000000)
            self.assertGreaterEqual(seen, named)
            self.assertLess(seen, self.launcher.most_overhead * named + self.launcher.start_bytes)

    def test_interfaces_see_the_bytes_of_migrations(self):
        """What is seen beside the forwards, with and without migrations."""
        others = []
        for rebalance_every in (2, 1000000):
            document, _, between = self.serve(*LARGE_EXPERTS, "--rebalance-every", rebalance_every)
            others.append((document["traffic"]["migration"]["bytes_between_nodes"],
                           between - document["traffic"]["forward"]["bytes_between_nodes"]))
        (named, seen), (none, unmoved) = others
        print(f"migrations between nodes: {named} bytes named, {seen} seen, {unmoved} without any")
        self.assertGreater(named, 50 * none)
        self.assertGreater(named, 10 * unmoved)
        self.assertGreaterEqual(seen, named)
        self.assertLess(seen, self.launcher.most_overhead * named + unmoved)

    def test_a_campaign(self):
        statuses, said = self.launch("verify", "--campaign", 10, "--nodes", 2, "--deadline-ms", 200, "--json",
                                   "verify.json").finish(240)
        self.assertFalse(any(statuses), said)
        document = json.loads((self.folder / "verify.json").read_text(encoding="utf-8"))
        self.assertEqual((document["cases"], document["violations"]), (10, 0))
        self.assertGreater(document["committed"], 0)
