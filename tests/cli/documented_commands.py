# SPDX-License-Identifier: Apache-2.0
"""Every command line of the program that README.md and docs/guides show is run, in the order it is shown.

Taken are the lines of ```sh blocks that begin with `trimtab` or `build/release/bin/trimtab`, continued after a
backslash. The commands of one document run in one temporary folder, so that a later one finds the files of an earlier
one; what the project ships for them to read is there from the start. A comment on the line before the block changes what
is expected:

    <!-- test: before trimtab generate -o loads.json -->   runs a command that the document does not show first
    <!-- test: exit 4 -->                                  every command of the block ends with this status
    <!-- test: skip needs two machines -->                 the block is not run; the reason is printed
"""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from program import BINARY

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))] if path.exists()]
BLOCK = re.compile(r"(?P<comments>(?:^<!-- test: .*? -->\n)*)^```sh\n(?P<body>.*?)^```$", re.M | re.S)
COMMENT = re.compile(r"<!-- test: (before|exit|skip) (.*?) -->")
COMMAND = re.compile(r"^(?:build/release/bin/)?trimtab(?: .*)?$")


def commands_of(body):
    return [line for line in body.replace("\\\n", " ").splitlines() if COMMAND.match(line)]


def blocks_of(document):
    """(settings by name, commands) of each block that shows the program."""
    for match in BLOCK.finditer(document.read_text()):
        commands = commands_of(match["body"])
        if commands:
            yield dict(COMMENT.findall(match["comments"])), commands


class DocumentedCommands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trimtab-documented-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        programs = self.folder / "build" / "release" / "bin"
        programs.mkdir(parents=True)
        (programs / "trimtab").symlink_to(BINARY)
        for shipped in ("README.md", "examples", "models", "src"):
            (self.folder / shipped).symlink_to(ROOT / shipped)
        self.environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}")

    def run_command(self, command, status):
        done = subprocess.run(command, shell=True, cwd=self.folder, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.returncode, status, f"{command}\n{done.stdout}")

    def run_document(self, document):
        for settings, commands in blocks_of(document):
            if "skip" in settings:
                print(f"{document.name}: not run ({settings['skip']}): {commands}")
                continue
            if "before" in settings:
                self.run_command(settings["before"], 0)
            for command in commands:
                self.run_command(command, int(settings.get("exit", 0)))

    def test_blocks_are_found(self):
        text = "<!-- test: exit 3 -->\n```sh\n# say\ntrimtab a \\\n  b\nls\nbuild/release/bin/trimtab c\n```\n```sh\nls\n```\n"
        path = self.folder / "page.md"
        path.write_text(text)
        self.assertEqual(list(blocks_of(path)), [({"exit": "3"}, ["trimtab a    b", "build/release/bin/trimtab c"])])

    def test_the_guide_shows_every_verb(self):
        shown = " ".join(c for _, commands in blocks_of(ROOT / "docs/guides/command-line.md") for c in commands)
        for verb in re.findall(r"^  (\w+) ", verbs_in_help(), re.M):
            self.assertIn(f"trimtab {verb} ", shown)

    def test_commands_run(self):
        for document in DOCUMENTS:
            with self.subTest(document.name):
                self.run_document(document)


def verbs_in_help():
    text = subprocess.run([BINARY, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return text.split("Subcommands:\n")[1].split("\n\n")[0]


if __name__ == "__main__":
    unittest.main()
