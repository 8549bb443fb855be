# SPDX-License-Identifier: Apache-2.0
"""The corpus: for each domain the bytes to learn from and those held out, made of what Debian packages ship.

A folder with sources.json, DOMAIN.train and DOMAIN.heldout: texts one behind the other, a byte 0 before each."""

import gzip
import hashlib
import html.parser
import json
import pathlib
import re
import subprocess
import tarfile
import tempfile

import numpy

from packages import DOMAINS

SEPARATOR = 0  # Begins every text; in none of them.
PASSAGE = 32768  # Longer texts are held out, or not, passage by passage.
MOST_BYTES = 12_000_000  # Of one domain: texts are taken in the order of their hashes.
ONE_IN = 20  # Is held out.


class Words(html.parser.HTMLParser):
    """The text of a page, without what is there to find one's way."""

    HIDDEN = frozenset(("script", "style", "head", "nav", "header", "footer", "aside"))
    BREAKS = frozenset(("p", "div", "li", "tr", "br", "h1", "h2", "h3", "h4", "dt", "dd", "pre", "table"))

    def __init__(self):
        super().__init__()
        self.parts, self.depth = [], 0

    def handle_starttag(self, tag, attrs):
        self.depth += tag in self.HIDDEN
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        self.depth -= tag in self.HIDDEN
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_data(self, data):
        if self.depth == 0:
            self.parts.append(data)


def without_tags(text):
    words = Words()
    words.feed(text)
    return "".join(words.parts)


def without_roff(text):
    lines = [re.sub(r"^\.(?:SH|SS|B|I|BR|IR|TP|PP|BI|RB|RI)\b ?", "", line) for line in text.splitlines()]
    kept = (line for line in lines if not line.startswith((".", "'")))
    return re.sub(r"\\(?:f[A-Z]|f\(..|\*\(..|&)", "", "\n".join(kept)).replace("\\-", "-")


def as_text(path, raw):
    """Of a file's bytes; nothing of what is not UTF-8."""
    if path.endswith(".gz"):
        raw = gzip.decompress(raw)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return b""
    if path.endswith(".html"):
        text = without_tags(text)
    elif "/man/" in path:
        text = without_roff(text)
    lines = (line.rstrip() for line in text.replace("\0", "").splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip().encode() + b"\n"


def files_of(folder):
    """Path and bytes of all files of an unpacked package, and of those in its source archives."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        if path.name.endswith(".tar.xz"):
            with tarfile.open(path) as archive:
                for member in archive:
                    if member.isfile():
                        yield member.name, archive.extractfile(member).read()
        else:
            yield str(path.relative_to(folder)), path.read_bytes()


def fetch(name, folder):
    """The package, unpacked, and its version. Needs Debian's archive, and no rights."""
    subprocess.run(["apt-get", "download", name], cwd=folder, check=True, capture_output=True)
    archive, = folder.glob(f"{name}_*.deb")
    unpacked = folder / name
    subprocess.run(["dpkg-deb", "-x", archive, unpacked], check=True)
    version = subprocess.run(["dpkg-deb", "-f", archive, "Version"], check=True, capture_output=True, text=True)
    return unpacked, version.stdout.strip()


def passages_of(name, text):
    """Of one text, each with the hash that decides about it: it depends on names alone."""
    for begin in range(0, len(text), PASSAGE):
        yield hashlib.sha256(f"{name}/{begin // PASSAGE}".encode()).digest(), text[begin:begin + PASSAGE]


def passages_of_package(package, folder):
    for path, raw in files_of(folder):
        if re.fullmatch(package.paths, path):
            yield from passages_of(f"{package.name}/{path}", as_text(path, raw))


def divided(passages):
    """What to learn from and what is held out, each passage behind a byte 0, until there is enough."""
    parts, size = {"train": bytearray(), "heldout": bytearray()}, 0
    for digest, text in sorted(passages):
        if size >= MOST_BYTES:
            break
        parts["heldout" if digest[-1] % ONE_IN == 0 else "train"] += bytes([SEPARATOR]) + text
        size += len(text)
    return parts


def write_domain(parts, path):
    for name, content in parts.items():
        path.with_suffix("." + name).write_bytes(content)


def build_domain(packages, folder, out):
    passages, sources = [], []
    for package in packages:
        print(f"corpus: {out.name}: {package.name}", flush=True)
        unpacked, version = fetch(package.name, folder)
        own = list(passages_of_package(package, unpacked))
        if not own:
            raise SystemExit(f"corpus: package {package.name} {version} has no file like {package.paths}")
        passages += own
        sources.append({"package": package.name, "version": version, "licence": package.licence,
                        "bytes": sum(len(text) for _, text in own)})
    parts = divided(passages)
    write_domain(parts, out)
    return {"sources": sources, **{name: len(content) for name, content in parts.items()}}


def build(folder):
    """Builds what is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "sources.json"
    if not index.exists():
        with tempfile.TemporaryDirectory() as scratch:
            said = {domain: build_domain(packages, pathlib.Path(scratch), folder / domain)
                    for domain, packages in DOMAINS.items()}
        index.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")


class Corpus:
    def __init__(self, folder):
        self.domains = sorted(path.stem for path in folder.glob("*.train"))
        self.train = [numpy.fromfile(folder / f"{name}.train", numpy.uint8) for name in self.domains]
        self.heldout = [numpy.fromfile(folder / f"{name}.heldout", numpy.uint8) for name in self.domains]

    def batch(self, weights, rows, length, random):
        """[rows][length + 1]: a byte 0, then a stretch of one domain each."""
        out = numpy.zeros((rows, length + 1), numpy.int64)
        domains = random.choice(len(self.domains), rows, p=weights)
        for row, domain in zip(out, domains):
            texts = self.train[domain]
            begin = random.integers(len(texts) - length)
            row[1:] = texts[begin:begin + length]
        return out
