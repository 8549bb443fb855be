# SPDX-License-Identifier: Apache-2.0
"""Runs that serve text, and what both arms of each must have in common."""

import json
import subprocess

from program import BINARY, ProgramTest


class TextRunTest(ProgramTest):
    def serve(self, *arguments, status=0, launcher=()):
        """The document of a run and what it said besides."""
        done = subprocess.run([*launcher, BINARY, "run", *map(str, arguments), "--json", "-"], cwd=self.folder, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout), done.stderr

    def check_arms(self, document, domains):
        self.assertIs(document["outputs_identical"], True)
        self.assertGreater(document["reference_checked"], 0)
        self.assertGreater(document["migrations"], 0)
        self.assertGreater(document["tokens_on_moved_slots"], 0)
        text = document["text"]
        self.assertEqual(text["bits_per_byte"]["off"], text["bits_per_byte"]["on"])
        self.assertEqual([domain["name"] for domain in text["domains"]], domains)
        for domain in text["domains"]:
            self.assertGreater(domain["requests"], 0)
            self.assertEqual(domain["bits_per_byte"]["off"], domain["bits_per_byte"]["on"])
