# SPDX-License-Identifier: Apache-2.0
"""From files to the texts that are learnt from and those held out."""

import gzip
import io
import pathlib
import tarfile
import tempfile
import unittest

import training_code  # noqa: F401

import numpy

import corpus
from packages import Package


class Extraction(unittest.TestCase):
    def test_page_leaves_words_without_navigation_scripts_and_styles(self):
        page = ("<html><head><title>T</title><style>p { x }</style></head><body><nav>Prev <b>Next</b></nav>"
                "<h1>Move &amp; count</h1><p>One <b>two</b>\nthree.</p><script>var x;</script>"
                "<footer>2026</footer><ul><li>four</li></ul></body></html>")
        self.assertEqual(corpus.as_text("a/b.html", page.encode()), b"Move & count\n\nOne two\nthree.\n\nfour\n")

    def test_manual_page_leaves_words_without_requests_and_fonts(self):
        page = '.TH LS 1\n\'\\" comment\n.SH NAME\nls \\- list \\fIfiles\\fR\n.B \\-a\n.de XX\n'
        self.assertEqual(corpus.as_text("usr/share/man/zh_CN/man1/ls.1.gz", gzip.compress(page.encode())),
                         b"NAME\nls - list files\n-a\n")

    def test_other_text_stays_but_for_spaces_at_the_ends_of_lines_and_empty_lines(self):
        self.assertEqual(corpus.as_text("a.c", "int x;  \n\n\n\n\tf();\0\n\n".encode()), b"int x;\n\n\tf();\n")

    def test_what_is_not_utf_8_leaves_nothing(self):
        self.assertEqual(corpus.as_text("a.c", b"caf\xe9"), b"")

    def test_files_of_source_archives_are_taken_and_links_are_not(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            with tarfile.open(folder / "source.tar.xz", "w:xz") as archive:
                member = tarfile.TarInfo("x-1/a.c")
                member.size = 6
                archive.addfile(member, io.BytesIO(b"int a;"))
            (folder / "b.c").write_text("int b;")
            (folder / "link.c").symlink_to("b.c")
            found = list(corpus.files_of(folder))
            self.assertEqual(found, [("b.c", b"int b;"), ("x-1/a.c", b"int a;")])
            passages = list(corpus.passages_of_package(Package("p", "none", r"x-[0-9]/.*\.c"), folder))
            self.assertEqual([text for _, text in passages], [b"int a;\n"])


def passages(count, first=0):
    """Texts of two passages each."""
    return [passage for index in range(first, first + count)
            for passage in corpus.passages_of(f"text{index}", b"%d" % (index % 10) * (corpus.PASSAGE + 9))]


class Division(unittest.TestCase):
    def test_passages_are_all_there_in_one_part_or_the_other(self):
        given = passages(100)
        self.assertEqual({len(text) for _, text in given}, {corpus.PASSAGE, 9})
        parts = corpus.divided(given)
        texts = [text for part in parts.values() for text in bytes(part).split(b"\0")[1:]]
        self.assertEqual(sorted(texts), sorted(text for _, text in given))

    def test_passages_of_a_text_are_divided_one_by_one(self):
        given = list(corpus.passages_of("long", b"x" * (300 * corpus.PASSAGE)))
        self.assertGreater(corpus.divided(given)["heldout"].count(b"\0"), 1)
        self.assertGreater(corpus.divided(given)["train"].count(b"\0"), 200)

    def test_a_twentieth_is_held_out(self):
        given = [passage for index in range(4000) for passage in corpus.passages_of(f"short{index}", b"x")]
        self.assertAlmostEqual(corpus.divided(given)["heldout"].count(b"\0") / 4000, 0.05, delta=0.01)

    def test_what_is_held_out_stays_so_when_texts_are_added_or_come_in_another_order(self):
        few, many = corpus.divided(passages(150)), corpus.divided(reversed(passages(150) + passages(150, first=1000)))
        for name, part in few.items():
            self.assertFalse(set(map(bytes, part.split(b"\0")[1:])) - set(map(bytes, many[name].split(b"\0")[1:])))
        self.assertGreater(len(few["heldout"]), 0)

    def test_domain_ends_where_it_has_enough(self):
        given = passages(2 * corpus.MOST_BYTES // corpus.PASSAGE)
        parts = corpus.divided(given)
        self.assertTrue(corpus.divided(reversed(given)) == parts)
        size = sum(len(part) - part.count(b"\0") for part in parts.values())
        self.assertGreaterEqual(size, corpus.MOST_BYTES)
        self.assertLess(size, corpus.MOST_BYTES + corpus.PASSAGE)


class Batches(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)
        for domain, first in (("b", 100), ("a", 1)):
            corpus.write_domain({"train": bytes(range(first, first + 90)), "heldout": b"\0"}, folder / domain)
        self.texts = corpus.Corpus(folder)

    def test_row_is_a_byte_0_and_a_stretch_of_one_domain(self):
        self.assertEqual(self.texts.domains, ["a", "b"])
        batch = self.texts.batch([0.5, 0.5], 64, 20, numpy.random.default_rng(1))
        self.assertEqual(batch.shape, (64, 21))
        self.assertTrue((batch[:, 0] == 0).all())
        self.assertTrue((numpy.diff(batch[:, 1:]) == 1).all())
        self.assertEqual({value >= 100 for value in batch[:, 1].tolist()}, {False, True})

    def test_domains_are_drawn_by_their_shares(self):
        batch = self.texts.batch([0.9, 0.1], 500, 20, numpy.random.default_rng(2))
        self.assertAlmostEqual((batch[:, 1] < 100).mean(), 0.9, delta=0.05)


if __name__ == "__main__":
    unittest.main()
