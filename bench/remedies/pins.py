"""Which allocators are measured, and where each comes from: pinned, and nothing else is fetched.

Crates are pinned by the SHA-256 of their archive. Debian's packages are checked by apt against the
signed list of their suite; a suite that has moved on to another version is left out, and said so.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Crate:
    """Sources inside a crate; cargo fetches it."""

    name: str
    version: str
    sha256: str
    # Where the sources lie in it.
    folder: str

    def __str__(self) -> str:
        return f"crate {self.name} {self.version.split('+')[0]}"


@dataclasses.dataclass(frozen=True)
class Suite:
    """A library of a Debian suite, which is run with the C library of the same suite."""

    suite: str
    package: str
    # Its development package, for its static library; none if there is none.
    dev: str | None
    library: str

    def __str__(self) -> str:
        return f"Debian {self.suite}'s {self.package}"


@dataclasses.dataclass(frozen=True)
class Package:
    """Something that people install, with an allocator inside; only for quell to recognise it."""

    client: str
    name: str
    version: str
    sha256: str
    # The file with the allocator in it.
    member: str
    # Which one and its version, by the project's own lock file or messages; part of a version is enough.
    holds: tuple

    @property
    def folder(self) -> str:
        return f"packages/{self.name.split('/')[-1]}-{self.version}"

    @property
    def source(self) -> "Package":
        return self

    def __str__(self) -> str:
        return f"{self.client}'s {self.name} {self.version}"


@dataclasses.dataclass(frozen=True)
class Allocator:
    name: str
    version: str
    source: Crate | Suite
    # How it is built: jemalloc, mimalloc or tcmalloc from sources; none for a package.
    build: str | None = None
    # Settings that make another configuration of it, and that one's name.
    variants: tuple = ()
    # What the names of its functions start with. With one, it takes the place of nothing, and is only there
    # for quell to recognise it, as Redis and Rust programs hold it.
    prefix: str = ""

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}" + (f"+{self.prefix.strip('_')}" if self.prefix else "")


# Gives memory back at once: the worst setting there is, and people do set it to save memory.
DECAY_0 = ("decay 0", {"MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"})

# What a program needs to be linked and run with the C library of a suite.
ROOT_PACKAGES = ("libc6", "libc6-dev", "linux-libc-dev", "libgcc-s1", "libstdc++6")
SUITES = ("bullseye", "bookworm", "trixie", "sid")


def libc(suite: str, version: str) -> Allocator:
    return Allocator("glibc", version, Suite(suite, "libc6", "libc6-dev", "libc.so.6"))


def musl(suite: str, version: str) -> Allocator:
    return Allocator("musl", version, Suite(suite, "musl", "musl-dev", "ld-musl-x86_64.so.1"))


def jemalloc(version: str, crate: Crate, prefix: str = "") -> Allocator:
    return Allocator("jemalloc", version, crate, "jemalloc", (DECAY_0,), prefix)


def mimalloc(version: str, crate: str, sha256: str, folder: str = "c_src/mimalloc") -> Allocator:
    return Allocator("mimalloc", version, Crate("libmimalloc-sys", crate, sha256, folder), "mimalloc")


def debian_mimalloc(suite: str, version: str, package: str, library: str) -> Allocator:
    return Allocator("mimalloc", version, Suite(suite, package, "libmimalloc-dev", library))


def gperftools(suite: str, version: str, package: str) -> Allocator:
    source = Suite(suite, package, "libgoogle-perftools-dev", "libtcmalloc_minimal.so.4")
    return Allocator("gperftools", version, source)


# Without a version in it, as its crate has no history: it says 0.0.0, and quell goes by its options.
JEMALLOC_4_5_0 = Crate("jemalloc-sys", "0.1.4",
                       "479294d130502fada93c7a957e8d059b632b03d6204aca37af557dee947f30a9", "jemalloc")
JEMALLOC_5_0_1 = Crate("jemalloc-sys", "0.1.5",
                       "5abaa178749b7dbaa5b65f21da1949cda82aa0063f763630e1dfc324053acc24", "jemalloc")
JEMALLOC_5_1_0 = Crate("jemalloc-sys", "0.3.2",
                       "0d3b9f3f5c9b31aa0f5ed3260385ac205db665baa41d49bb8338008ae94ede45", "jemalloc")
JEMALLOC_5_2_1 = Crate("tikv-jemalloc-sys", "0.4.3+5.2.1-patched.2",
                       "a1792ccb507d955b46af42c123ea8863668fae24d03721e40cad6a41773dbb49", "jemalloc")
JEMALLOC_5_3_1 = Crate("tikv-jemalloc-sys", "0.7.1+5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8",
                       "1a2825c78386b4ae0314074867860ba9577875de945f05992c38815cbec327f0", "jemalloc")

ALLOCATORS = (
    libc("bullseye", "2.31"),
    libc("bookworm", "2.36"),
    libc("trixie", "2.41"),
    libc("sid", "2.43"),
    musl("bullseye", "1.2.2"),
    musl("bookworm", "1.2.3"),
    musl("trixie", "1.2.5"),
    musl("sid", "1.2.6"),
    Allocator("jemalloc", "4.5.0", JEMALLOC_4_5_0, "jemalloc"),
    jemalloc("5.0.1", JEMALLOC_5_0_1),
    jemalloc("5.1.0", JEMALLOC_5_1_0),
    jemalloc("5.2.1", JEMALLOC_5_2_1),
    jemalloc("5.2.1", JEMALLOC_5_2_1, "je_"),
    Allocator("jemalloc", "5.3.0", Suite("bookworm", "libjemalloc2", "libjemalloc-dev", "libjemalloc.so.2"),
              variants=(DECAY_0,)),
    jemalloc("5.3.1", JEMALLOC_5_3_1),
    jemalloc("5.3.1", JEMALLOC_5_3_1, "_rjem_"),
    mimalloc("1.0.0", "0.1.1", "609a6279eeb29db7da23eda3ef0317f2b423ce48c8c6f55b9d1b886e30fd0926"),
    mimalloc("1.6.0", "0.1.10", "d2da71cf75a0ed691e4a73723650f19ccf882008f0ae7c575a546d5ef3a7bcbc"),
    mimalloc("1.7.0", "0.1.20", "e58f42b6424a0ed536678c65fd97cd64b4344bcf86251e284f7c0ce9eee40e64"),
    mimalloc("1.7.5", "0.1.24", "7705fc40f6ed493f73584abbb324e74f96b358ff60dfe5659a0f8fc12c590a69"),
    mimalloc("2.0.6", "0.1.25", "11ca136052550448f55df7898c6dbe651c6b574fe38a0d9ea687a9f8088a2e2c"),
    mimalloc("2.0.7", "0.1.28", "04d1c67deb83e6b75fa4fe3309e09cfeade12e7721d95322af500d3814ea60c9"),
    debian_mimalloc("bookworm", "2.0.9", "libmimalloc2.0", "libmimalloc.so.2"),
    mimalloc("2.1.2", "0.1.33", "f4ac0e912c8ef1b735e92369695618dc5b1819f5a7bf3f167301a3ba1cea515e"),
    mimalloc("2.1.7", "0.1.39", "23aa6811d3bd4deb8a84dde645f943476d13b248d818edcf8ce0b2f37f036b44"),
    mimalloc("2.2.4", "0.1.44", "667f4fec20f29dfc6bc7357c582d91796c169ad7e2fce709468aefeb2c099870",
             "c_src/mimalloc/v2"),
    mimalloc("2.3.2", "0.1.49", "6a45a52f43e1c16f667ccfe4dd8c85b7f7c204fd5e3bf46c5b0db9a5c3c0b8e9",
             "c_src/mimalloc/v2"),
    debian_mimalloc("trixie", "3.0.1", "libmimalloc3", "libmimalloc.so.3"),
    mimalloc("3.1.5", "0.1.44", "667f4fec20f29dfc6bc7357c582d91796c169ad7e2fce709468aefeb2c099870",
             "c_src/mimalloc/v3"),
    mimalloc("3.3.2", "0.1.49", "6a45a52f43e1c16f667ccfe4dd8c85b7f7c204fd5e3bf46c5b0db9a5c3c0b8e9",
             "c_src/mimalloc/v3"),
    debian_mimalloc("sid", "3.6.0", "libmimalloc3", "libmimalloc.so.3"),
    gperftools("bullseye", "2.8.1", "libtcmalloc-minimal4"),
    gperftools("bookworm", "2.10", "libtcmalloc-minimal4"),
    gperftools("trixie", "2.16", "libtcmalloc-minimal4t64"),
    gperftools("sid", "2.18.1", "libtcmalloc-minimal4t64"),
    Allocator("tcmalloc", "google",
              Crate("libtcmalloc-sys", "0.1.14",
                    "33e204268a3b09862788a2894346c768b95b2cb29cba42c5e2bb9ea7f48fa317", "c_src"), "tcmalloc"),
)

PACKAGES = (
    Package("pip", "granian", "2.8.7", "4f14537401a6ec08957912ad88ae20a1e9ede2d6ef574b9e099e6da54c4a61b6", "granian/_granian.cpython-311-x86_64-linux-gnu.so",
            ("jemalloc", "5.3.1")),
    Package("npm", "@rspack/binding-linux-x64-gnu", "2.3.2", "4dbf85e4c65c1c2e0efb75e2ff9a3ef3792732974befee1e5a0422a23ee915ee", "package/rspack.linux-x64-gnu.node",
            ("mimalloc", "3")),
)

# Asked for, and not to be had from any package registry that was looked through.
NOT_HAD = (
    ("jemalloc 3 and 4.0 to 4.4", "Debian's releases that had them are in its archive only, and no crate has them"),
)
