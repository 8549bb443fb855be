# SPDX-License-Identifier: Apache-2.0
"""A job of four ranks on two nodes that are made for each test, and gone after it."""

import os
import pathlib
import tempfile
import time
import unittest

from nodes import Nodes, namespaces

BINARY = os.environ["TRIMTAB_BINARY"]
SIZES = ("--tokens", 64, "--hidden", 64, "--intermediate", 32)


class OnTwoNodes(unittest.TestCase):
    launcher_class = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trimtab-hosts-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.nodes = Nodes()
        self.nodes.__enter__()
        self.addCleanup(self.check_that_nothing_is_left)
        self.addCleanup(self.nodes.__exit__)
        self.launcher = self.launcher_class(self.nodes, self.folder)

    def check_that_nothing_is_left(self):
        self.assertEqual([name for name in namespaces() if name.startswith(f"trimtab-hosts-{os.getpid()}-")], [])

    def launch(self, verb, *arguments):
        job = self.launcher.launch(BINARY, verb, "--transport", self.launcher.transport, *arguments)
        self.pids = job.await_ranks()
        return job

    def await_end(self, until, besides=()):
        """Of every process on the nodes, the launcher's own included."""
        while set(self.nodes.processes()) - set(besides):
            self.assertLess(time.monotonic(), until, "processes of the job still run")
            time.sleep(0.05)
