# SPDX-License-Identifier: Apache-2.0
"""Namespaces are gone again, whatever happens to who made them."""

import pathlib
import signal
import subprocess
import sys
import time
import unittest

from nodes import namespaces

SLACK_S = 25  # For a busy machine.

MAKER = """
import subprocess, sys
from nodes import Nodes
with Nodes() as nodes:
    subprocess.Popen(nodes.inside(1, "sh", "-c", "echo; exec sleep 1000"))
    sys.stdin.read()
"""


class Guarding(unittest.TestCase):
    def test_nodes_go_with_their_maker(self):
        for end in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(end=end):
                with subprocess.Popen([sys.executable, "-B", "-c", MAKER], cwd=pathlib.Path(__file__).parent,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL) as maker:
                    maker.stdout.readline()
                    mine = [name for name in namespaces() if name.startswith(f"trimtab-hosts-{maker.pid}-")]
                    self.assertEqual(len(mine), 2)
                    maker.send_signal(end)
                    maker.stdout.read()  # Ends with the last process that holds the pipe: the one on the node.
                    until = time.monotonic() + SLACK_S
                    while set(mine) & set(namespaces()):
                        self.assertLess(time.monotonic(), until, "namespaces are left")
                        time.sleep(0.02)
