# SPDX-License-Identifier: Apache-2.0
"""Four ranks on two nodes: what crosses the link is what the program says; a cut link or a dead rank ends
the job.

two_nodes.py --transport mpi, with the program in TRIMTAB_BINARY. Skips, with status 77, where no namespaces can be made.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from launchers import LAUNCHERS, RANKS
from nodes import Nodes, namespaces, why_not

# Headers of messages, TCP and Ethernet beside the payload, and acknowledgements.
MOST_OVERHEAD = 1.10
# Of starting and ending the job.
START_BYTES = 500000

BINARY = os.environ["TRIMTAB_BINARY"]
DEADLINE_S = 2
SLACK_S = 25  # For a busy machine, and for daemons that find out on their own.
SIZES = ("--tokens", 64, "--hidden", 64, "--intermediate", 32)
LARGE_EXPERTS = ("--forwards", 16, "--tokens", 16, "--hidden", 256, "--intermediate", 512)
ENDLESS = (*SIZES, "--forwards", 1000000, "--rebalance-every", 2, "--deadline-ms", 1000 * DEADLINE_S)


def used_seconds(pid):
    """Of a core."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class TwoNodes(unittest.TestCase):
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

    def await_work(self, rank, seconds):
        while used_seconds(self.pids[rank]) < seconds:
            time.sleep(0.01)

    def serve(self, *arguments):
        """@return the document, and the bytes that the interfaces saw within and between nodes."""
        within, between = self.nodes.bytes_within(), self.nodes.bytes_between()
        status, said = self.launch("run", "--nodes", 2, *arguments, "--json", "run.json").finish(240)
        self.assertEqual(status, 0, said)
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
            self.assertLess(seen, MOST_OVERHEAD * named + START_BYTES)

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
        self.assertLess(seen, MOST_OVERHEAD * named + unmoved)

    def test_a_campaign(self):
        status, said = self.launch("verify", "--campaign", 10, "--nodes", 2, "--deadline-ms", 200, "--json",
                                   "verify.json").finish(240)
        self.assertEqual(status, 0, said)
        document = json.loads((self.folder / "verify.json").read_text(encoding="utf-8"))
        self.assertEqual((document["cases"], document["violations"]), (10, 0))
        self.assertGreater(document["committed"], 0)

    def test_a_cut_link_ends_the_run(self):
        for after_s in (0.0, 0.5, 1.5):
            with self.subTest(after_s=after_s):
                job = self.launch("run", "--nodes", 2, *ENDLESS)
                self.await_work(0, after_s)
                self.nodes.cut()
                until = time.monotonic() + 2 * DEADLINE_S + SLACK_S
                status, said = job.finish(2 * DEADLINE_S + SLACK_S)
                self.assertNotEqual(status, 0, said)
                self.assertRegex(said, self.launcher.says_of_cut)
                self.await_end(until)
                self.nodes.mend()

    def test_a_killed_rank_ends_the_run(self):
        for rank, after_s in ((3, 0.0), (2, 0.1), (1, 0.5), (0, 1.0)):
            with self.subTest(rank=rank, after_s=after_s):
                job = self.launch("run", "--nodes", 2, *ENDLESS)
                self.await_work(rank, after_s)
                os.kill(self.pids[rank], signal.SIGKILL)
                status, said = job.finish(2 * DEADLINE_S + SLACK_S)
                self.assertNotEqual(status, 0, said)
                self.assertIn(f"rank {rank}", said)
                self.await_end(time.monotonic() + SLACK_S)

    def await_end(self, until):
        """Of every process on the nodes, the launcher's own included."""
        while self.nodes.processes():
            self.assertLess(time.monotonic(), until, "processes of the job still run")
            time.sleep(0.05)


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
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as maker:
                    maker.stdout.readline()
                    mine = [name for name in namespaces() if name.startswith(f"trimtab-hosts-{maker.pid}-")]
                    self.assertEqual(len(mine), 2)
                    maker.send_signal(end)
                    maker.stdout.read()  # Ends with the last process that holds the pipe: the one on the node.
                    until = time.monotonic() + SLACK_S
                    while set(mine) & set(namespaces()):
                        self.assertLess(time.monotonic(), until, "namespaces are left")
                        time.sleep(0.02)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--transport", choices=sorted(LAUNCHERS), default="mpi")
    options, others = parser.parse_known_args()
    TwoNodes.launcher_class = LAUNCHERS[options.transport]
    if reason := why_not() or TwoNodes.launcher_class.why_not():
        print(f"skipped: {reason}")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    unittest.main(argv=[sys.argv[0], *others], verbosity=2)


if __name__ == "__main__":
    main()
