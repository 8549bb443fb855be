# SPDX-License-Identifier: Apache-2.0
"""Runs the built program as a user would."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BINARY = os.environ["TRIMTAB_BINARY"]


def run(*arguments, cwd=None, stdin=None, user=None):
    """The finished process, with its output as text."""
    return subprocess.run([BINARY, *map(str, arguments)], cwd=cwd, input=stdin, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, user=user)


def recorded_loads(pattern):
    """Files of recorded loads, where TRIMTAB_LOADS_DIR names a folder of them."""
    folder = os.environ.get("TRIMTAB_LOADS_DIR")
    return sorted(pathlib.Path(folder).glob(pattern)) if folder else []


def shipped_traces():
    """Of the small model, a domain each; they stand wherever loads do."""
    return sorted((pathlib.Path(__file__).resolve().parents[2] / "examples" / "data").glob("*.trace"))


class ProgramTest(unittest.TestCase):
    """A test in a temporary folder of its own, which is also where the program runs."""

    user = None  # Whom the program runs as, when not as ourselves.

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trimtab-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def trimtab(self, *arguments, stdin=None):
        return run(*arguments, cwd=self.folder, stdin=stdin, user=self.user)

    def succeed(self, *arguments, stdin=None):
        done = self.trimtab(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def fail_with(self, status, *arguments, says=(), stdin=None):
        """Fails with one line on standard error that holds each of `says`, and writes nothing to standard output."""
        done = self.trimtab(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.endswith("\n"))
        for text in says:
            self.assertIn(text, done.stderr)
        return done.stderr

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def read_json(self, name):
        return json.loads((self.folder / name).read_text())

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())
