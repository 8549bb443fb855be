# SPDX-License-Identifier: Apache-2.0
"""The Debian 12 packages whose texts the model learns from. They are fetched, never committed."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Package:
    name: str
    licence: str  # Of the texts that are taken.
    paths: str  # A regular expression for the whole path of a file in the package, or in a .tar.xz in it.


# Of the training texts, by domain.
MIXTURE = {"chinese": 0.15, "code": 0.35, "english": 0.35, "structured": 0.15}

DOMAINS = {
    "english": (
        Package("postgresql-doc-15", "PostgreSQL", r"usr/share/doc/postgresql-doc-15/html/.*\.html"),
        Package("git-doc", "GPL-2", r"usr/share/doc/git-doc/.*\.html"),
        Package("debian-reference-en", "GPL-2+", r"usr/share/debian-reference/.*\.en\.html"),
        Package("debian-faq", "GPL-2+", r"usr/share/doc/debian/FAQ/.*\.en\.html"),
        Package("developers-reference", "GPL-2+", r"usr/share/developers-reference/.*\.html"),
        Package("jargon-text", "public domain", r"usr/share/doc/jargon-text/jargon\.txt\.gz"),
    ),
    "chinese": (
        Package("libreoffice-help-zh-cn", "MPL-2.0", r"usr/share/libreoffice/help/zh-CN/text/.*\.html"),
        Package("manpages-zh", "GFDL-1.2+, BSD and others", r"usr/share/man/zh_CN/.*\.gz"),
        Package("debian-reference-zh-cn", "GPL-2+", r"usr/share/debian-reference/.*\.zh-cn\.html"),
    ),
    "code": (
        Package("glibc-source", "LGPL-2.1+", r"glibc-[0-9.]+/(?!iconvdata|localedata)(?!.*(ieee754|tbl|table)).*\.[ch]"),
        Package("googletest", "BSD-3-Clause", r"usr/src/googletest/.*\.(cc|h)"),
        Package("libeigen3-dev", "MPL-2.0", r"usr/include/eigen3/.*\.h"),
    ),
    "structured": (
        Package("iso-codes", "LGPL-2.1+", r"usr/share/iso-codes/json/iso_.*\.json"),
        Package("python3-botocore", "Apache-2.0", r".*/botocore/data/.*\.json"),
    ),
}
