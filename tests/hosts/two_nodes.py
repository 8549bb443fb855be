# SPDX-License-Identifier: Apache-2.0
"""Four ranks on two nodes: what crosses the link is what the program says; a cut link, a dead or a
stopped rank ends the job.

two_nodes.py --transport mpi|ucx, with the program in TRIMTAB_BINARY. Skips, with status 77, where no namespaces
can be made.
"""

import argparse
import signal
import sys
import unittest

from faults import Faults
from guarding import Guarding
from launchers import LAUNCHERS
from nodes import why_not
from on_two_nodes import OnTwoNodes
from survivors import Survivors
from traffic import Traffic


def load_tests(loader, *_):
    return unittest.TestSuite(map(loader.loadTestsFromTestCase, (Traffic, Faults, Survivors, Guarding)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--transport", choices=sorted(LAUNCHERS), default="mpi")
    options, others = parser.parse_known_args()
    OnTwoNodes.launcher_class = LAUNCHERS[options.transport]
    if reason := why_not() or OnTwoNodes.launcher_class.why_not():
        print(f"skipped: {reason}")
        sys.exit(77)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # An exit would only end the test in hand.
    unittest.main(argv=[sys.argv[0], *others], verbosity=2)


if __name__ == "__main__":
    main()
