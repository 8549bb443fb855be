# SPDX-License-Identifier: Apache-2.0
"""What `trimtab doctor` says of the transports, as built and in this environment."""

import json
import os
import subprocess
import unittest

from program import BINARY, ProgramTest

HAS = {name: os.environ[f"TRIMTAB_HAS_{name.upper()}"] == "TRUE" for name in ("mpi", "ucx")}


class Doctor(ProgramTest):
    def findings(self, **environment):
        done = subprocess.run([BINARY, "doctor", "--json", "-"], text=True, stdout=subprocess.PIPE, check=True,
                              env={**os.environ, **environment})
        return json.loads(done.stdout)

    def transports(self, **environment):
        return {one["name"]: one for one in self.findings(**environment)["transports"]}

    def test_says_what_was_built(self):
        found = self.transports()
        self.assertEqual(list(found), ["inproc", "mpi", "ucx"])
        self.assertTrue(found["inproc"]["built"] and found["inproc"]["usable"])
        for name, is_built in HAS.items():
            self.assertEqual(found[name]["built"], is_built)
            if not is_built:
                self.assertIn("built without", found[name]["note"])

    def test_says_why_mpi_is_not_usable_without_a_launcher(self):
        mpi = self.transports()["mpi"]
        self.assertFalse(mpi["usable"])
        self.assertIn("mpirun" if HAS["mpi"] else "built without", mpi["note"])

    @unittest.skipUnless(HAS["ucx"], "built without UCX")
    def test_names_what_ucx_would_use(self):
        ucx = self.findings()["ucx"]
        self.assertRegex(ucx["version"], r"^\d+\.\d+\.\d+$")
        self.assertIn("tcp/lo", ucx["devices"])
        self.assertTrue(ucx["lanes"])
        self.assertTrue(set(ucx["lanes"]) <= set(ucx["devices"]))
        self.assertEqual(self.transports()["ucx"]["chosen_for"], "ranks as processes")

    @unittest.skipUnless(HAS["ucx"], "built without UCX")
    def test_says_why_ucx_is_not_usable(self):
        ucx = self.transports(UCX_TLS="posix")["ucx"]
        self.assertFalse(ucx["usable"])
        self.assertIn("ucx: ucp_", ucx["note"])
        self.assertIsNone(ucx["chosen_for"])

    def test_names_the_bootstrap_and_what_is_wrong_with_it(self):
        self.assertEqual(self.findings()["bootstrap"], {"found": False})
        right = {"TRIMTAB_BOOTSTRAP": "head:7000", "TRIMTAB_RANK": "1", "TRIMTAB_NUM_RANKS": "4"}
        self.assertEqual(self.findings(**right)["bootstrap"],
                         {"found": True, "from": "TRIMTAB_RANK", "rank": 1, "num_ranks": 4, "address": "head:7000"})
        wrong = self.findings(**{**right, "TRIMTAB_RANK": "4"})["bootstrap"]
        self.assertFalse(wrong["found"])
        self.assertIn("TRIMTAB_RANK=4", wrong["problem"])

    def test_prints_a_table(self):
        text = self.succeed("doctor")
        for word in ("inproc", "mpi", "ucx", "bootstrap:", "locked memory:"):
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
