"""Packages of PyPI with compiled parts: each is imported and used a little."""

from __future__ import annotations

from row import Row, python

ROWS: list[Row] = [
    python("numpy", "numpy", """
        import numpy as np
        r = np.random.default_rng(1)
        total = 0
        for n in range(60):
            a = r.integers(0, 9, (700, 700))
            total += int((a * a.T + n).sum()) + int(np.sort(a.ravel())[::1000].sum())
        print(total, int((r.integers(0, 3, (300, 300)) @ r.integers(0, 3, (300, 300))).trace()))
    """),
    python("pandas", "pandas", """
        import numpy as np, pandas as pd
        r = np.random.default_rng(2)
        f = pd.DataFrame({"k": r.integers(0, 500, 400_000), "v": r.integers(0, 1000, 400_000)})
        for _ in range(4):
            g = f.groupby("k").agg(s=("v", "sum"), m=("v", "max"))
            j = f.merge(g, left_on="k", right_index=True)
        print(int(j.s.sum()), g.head(3).to_csv(), len(pd.read_csv(__import__("io").StringIO(f.head(50_000).to_csv()))))
    """),
    python("scipy", "scipy", """
        import numpy as np
        from scipy import fft, optimize, signal, sparse, spatial
        r = np.random.default_rng(3)
        x = r.integers(0, 9, 1 << 18).astype(float)
        for _ in range(4):
            y = fft.irfft(fft.rfft(x), len(x))
        m = sparse.random(4000, 4000, 0.002, random_state=1, format="csr")
        tree = spatial.cKDTree(r.random((9_000, 3)))
        print(np.rint(y).sum(), (m @ m).nnz, len(tree.query_pairs(0.03)), round(optimize.brentq(lambda v: v**3 - 2, 0, 2), 6),
              signal.find_peaks(x)[0].size)
    """),
    python("scikit-learn", "scikit-learn", """
        import numpy as np
        from sklearn.datasets import make_classification
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.cluster import KMeans
        x, y = make_classification(1500, 20, random_state=1)
        forest = RandomForestClassifier(20, random_state=1).fit(x, y)
        groups = KMeans(5, n_init=2, random_state=1).fit_predict(x)
        print((forest.predict(x) == y).mean().round(3), np.sort(np.bincount(groups)).shape)
    """),
    python("pyarrow", "pyarrow", """
        import io, random
        import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
        r = random.Random(4)
        t = pa.table({"k": [r.randrange(1000) for _ in range(200_000)], "v": [str(r.randrange(10**6)) for _ in range(200_000)]})
        for _ in range(10):
            f = io.BytesIO()
            pq.write_table(t, f, compression="zstd")
            b = pq.read_table(io.BytesIO(f.getvalue()))
        print(b.equals(t), pc.sum(b["k"]), b.group_by("k").aggregate([("v", "count")]).num_rows, len(f.getvalue()))
    """),
    python("polars", "polars", """
        import polars as pl
        n = 400_000
        f = pl.DataFrame({"k": pl.int_range(n, eager=True) * 7919 % 1000, "v": pl.int_range(n, eager=True)})
        for _ in range(12):
            g = f.group_by("k").agg(pl.col("v").sum()).sort("k")
            j = f.join(g, on="k", suffix="_sum").filter(pl.col("v") % 3 == 0)
        print(g.head(3).rows(), j["v_sum"].sum(), j.height)
    """),
    python("duckdb", "duckdb", """
        import duckdb
        c = duckdb.connect(config={"threads": 2})
        c.execute("create table t as select range i, range * 7919 % 1000 k from range(1000000)")
        for _ in range(8):
            rows = c.execute("select k, sum(i), count(*) from t group by k order by k limit 3").fetchall()
        print(rows, c.execute("select count(*) from t a join (select distinct k from t) b using (k)").fetchall())
    """),
    python("lxml", "lxml", """
        from lxml import etree
        for n in range(6):
            root = etree.Element("r")
            for i in range(20_000):
                etree.SubElement(root, "a", n=str(i % 97)).text = f"text {i}"
            text = etree.tostring(root)
            found = etree.fromstring(text).xpath("//a[@n='5']/text()")
        print(len(text), len(found), found[-1])
    """),
    python("pillow", "Pillow", """
        import hashlib, io
        from PIL import Image, ImageDraw, ImageFilter
        for n in range(6):
            i = Image.linear_gradient("L").resize((1200, 900)).convert("RGB")
            ImageDraw.Draw(i).ellipse((100, 100, 700 + n, 600), fill=(200, 30, n))
            i = i.filter(ImageFilter.GaussianBlur(3)).rotate(17)
            f = io.BytesIO()
            i.save(f, "JPEG")
            g = io.BytesIO()
            Image.open(io.BytesIO(f.getvalue())).resize((400, 300)).save(g, "PNG")
        print(len(f.getvalue()), hashlib.sha256(g.getvalue()).hexdigest())
    """),
    python("cryptography", "cryptography", """
        import hashlib
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519, padding, rsa
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
        h = hashlib.sha256()
        for n in range(1500):
            h.update(key.sign(b"%d" % n))
        big = AESGCM(bytes(32))
        for n in range(60):
            sealed = big.encrypt(n.to_bytes(12, "big"), bytes(1 << 20), None)
            assert big.decrypt(n.to_bytes(12, "big"), sealed, None) == bytes(1 << 20)
            h.update(sealed)
        print(h.hexdigest())
    """),
    python("cffi", "cffi", """
        import cffi
        ffi = cffi.FFI()
        ffi.cdef("void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t); int snprintf(char *, size_t, const char *, ...);"
                 "void qsort(void *, size_t, size_t, int (*)(const void *, const void *));")
        c = ffi.dlopen(None)
        for n in range(4000):
            p = c.mmap(ffi.NULL, 65536, 3, 0x22, -1, 0)
            v = ffi.cast("char *", p)
            assert v[0] == b"\\0" and v[65535] == b"\\0"
            c.snprintf(v, 100, b"%d", ffi.cast("int", n))
            assert c.munmap(p, 65536) == 0
        @ffi.callback("int(const void *, const void *)")
        def order(a, b):
            return ffi.cast("int *", a)[0] - ffi.cast("int *", b)[0]
        a = ffi.new("int[]", [i * 7919 % 20011 for i in range(20000)])
        c.qsort(a, 20000, 4, order)
        print(a[0], a[100], a[19999])
    """),
    python("pydantic-core", "pydantic", """
        from pydantic import BaseModel
        class Part(BaseModel):
            name: str
            sizes: list[int]
        class Whole(BaseModel):
            parts: list[Part]
        for n in range(6):
            w = Whole.model_validate({"parts": [{"name": f"p{i}", "sizes": [i, "7", n]} for i in range(8000)]})
            text = w.model_dump_json()
            assert Whole.model_validate_json(text) == w
        print(len(text), w.parts[-1])
    """),
    python("orjson", "orjson", """
        import orjson
        data = [{"id": i, "name": f"name {i}", "list": list(range(i % 50)), "f": i / 7} for i in range(20_000)]
        for _ in range(12):
            text = orjson.dumps(data, option=orjson.OPT_SORT_KEYS)
            back = orjson.loads(text)
        print(len(text), back == data, text[:60])
    """),
    python("ujson", "ujson", """
        import ujson
        data = [{"id": i, "name": f"name {i}", "list": list(range(i % 50))} for i in range(20_000)]
        for _ in range(8):
            text = ujson.dumps(data)
            back = ujson.loads(text)
        print(len(text), back == data)
    """),
    python("msgpack", "msgpack", """
        import msgpack
        data = [{"id": i, "name": f"name {i}", "raw": bytes(i % 300)} for i in range(40_000)]
        for _ in range(12):
            packed = msgpack.packb(data)
            back = msgpack.unpackb(packed)
        print(len(packed), back == data)
    """),
    python("grpcio", "grpcio", """
        import threading
        from concurrent import futures
        import grpc
        def echo(request, context):
            return request[::-1]
        handler = grpc.method_handlers_generic_handler("t.T", {"E": grpc.unary_unary_rpc_method_handler(echo)})
        server = grpc.server(futures.ThreadPoolExecutor(2), handlers=(handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/t.T/E")
            total = sum(len(call(b"x" * (n * 37 % 60_000))) for n in range(1500))
        server.stop(None).wait()
        print(total)
    """),
    python("protobuf", "protobuf", """
        from google.protobuf import struct_pb2, json_format
        from google.protobuf.internal import api_implementation
        for n in range(12):
            s = struct_pb2.Struct()
            for i in range(6000):
                s[f"k{i}"] = [i, "text", {"n": n}]
            raw = s.SerializeToString(deterministic=True)
            t = struct_pb2.Struct.FromString(raw)
        print(api_implementation.Type(), len(raw), t == s, len(json_format.MessageToJson(t)))
    """),
    python("psycopg2", "psycopg2-binary", """
        import psycopg2
        from psycopg2 import extensions, extras
        q = 0
        for n in range(120_000):
            a = extensions.adapt([n, f"it's {n}", None, 1.5])
            q += len(a.getquoted())
        print(psycopg2.extensions.make_dsn(host="h", dbname="d"), q, extras.Json({"a": [1]}).getquoted())
        try:
            psycopg2.connect(host="/nowhere", dbname="d", user="u")
        except psycopg2.OperationalError as error:
            print(type(error).__name__)
    """),
    python("asyncpg", "asyncpg", """
        import asyncio, asyncpg
        from asyncpg.protocol import protocol
        from asyncpg.pgproto import pgproto, types
        async def main():
            try:
                await asyncpg.connect(host="127.0.0.1", port=1, user="u", password="p", database="d", timeout=3)
            except OSError as error:
                print(type(error).__name__)
        asyncio.run(main())
        seen = 0
        for n in range(300_000):
            u = pgproto.UUID(b"%016d" % n)
            seen ^= hash(u) & 0xFFFF
            types.Point(n, 2)
        print(seen, u, types.Box(types.Point(1, 2), types.Point(3, 4)))
    """),
    python("aiohttp", "aiohttp", """
        import asyncio, aiohttp
        from aiohttp import web
        async def main():
            async def hello(request):
                return web.json_response({"n": len(await request.read()), "q": request.query["q"]})
            app = web.Application()
            app.router.add_post("/", hello)
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = site._server.sockets[0].getsockname()[1]
            total = 0
            async with aiohttp.ClientSession() as s:
                for n in range(700):
                    async with s.post(f"http://127.0.0.1:{port}/?q={n}", data=b"x" * (n * 41 % 100_000)) as r:
                        total += (await r.json())["n"]
            await runner.cleanup()
            print(total)
        asyncio.run(main())
    """),
    python("multidict", "multidict", """
        from multidict import CIMultiDict
        for n in range(20):
            d = CIMultiDict()
            for i in range(15_000):
                d.add(f"Key-{i % 3000}", str(i))
            got = sum(len(d.getall(f"key-{i}")) for i in range(0, 3000, 10))
        print(len(d), got)
    """),
    python("yarl", "yarl", """
        from yarl import URL
        total = 0
        for n in range(60_000):
            u = URL(f"http://example.org:80{n % 10}/a b/{n}/?q={n}&z=ä")
            total += len(str(u / "more" % {"x": n}))
        print(total, u)
    """),
    python("frozenlist", "frozenlist", """
        from frozenlist import FrozenList
        total = 0
        for n in range(60):
            l = FrozenList(range(20_000))
            for i in range(2000):
                l.append(i)
                l.insert(i, n)
            l.freeze()
            total += hash(l) & 0xFF
        print(total, len(l))
    """),
    python("regex", "regex", """
        import regex
        text = " ".join(f"word{i} número-{i * 7} <tag a='{i}'>" for i in range(6000))
        for _ in range(16):
            a = regex.findall(r"\\p{L}+\\p{N}{2,}", text)
            b = regex.findall(r"<(\\w+) (?P<k>\\w)='([^']*)'>", text)
            c = regex.search(r"(?:w0rd1234){e<=2}", text[:100000])
        print(len(a), len(b), c.group())
    """),
    python("pyyaml", "PyYAML", """
        import yaml
        data = {f"k{i}": [i, {"text": "a: b" * (i % 5)}, None, 1.5] for i in range(2500)}
        for _ in range(2):
            text = yaml.dump(data, Dumper=yaml.CSafeDumper)
            back = yaml.load(text, Loader=yaml.CSafeLoader)
        print(len(text), back == data)
    """),
    python("markupsafe", "MarkupSafe", """
        from markupsafe import Markup, escape
        total = 0
        for n in range(1500):
            total += len(escape("<a href='x'>&" * (n % 3000)))
        for n in range(100_000):
            total += len(Markup("<b>{}</b>").format(f"<{n}>"))
        print(total)
    """),
    python("greenlet", "greenlet", """
        from greenlet import greenlet, getcurrent
        def deep(n, other):
            return other.switch(n) if n == 0 else deep(n - 1, other) + 1
        main = getcurrent()
        total = 0
        for n in range(12_000):
            g = greenlet(lambda: deep(n % 60, main))
            total += g.switch() + g.switch(n)
        print(total)
    """),
    python("gevent", "gevent", """
        import gevent
        from gevent import pool, queue, socket, server
        s = server.StreamServer(("127.0.0.1", 0), lambda c, a: c.sendall(c.recv(99)[::-1]))
        s.start()
        def ask(n):
            c = socket.create_connection(s.address)
            c.sendall(str(n).encode())
            got = c.recv(99)
            c.close()
            return int(got[::-1])
        print(sum(pool.Pool(20).map(ask, range(3000))))
        q = queue.Queue(10)
        def put():
            for n in range(20_000):
                q.put(n)
        gevent.spawn(put)
        print(sum(q.get() for _ in range(20_000)))
    """),
    python("uvloop", "uvloop", """
        import asyncio, uvloop
        async def main():
            async def serve(r, w):
                while line := await r.readline():
                    w.write(line.upper())
                w.close()
            s = await asyncio.start_server(serve, "127.0.0.1", 0)
            port = s.sockets[0].getsockname()[1]
            async def ask(k):
                r, w = await asyncio.open_connection("127.0.0.1", port)
                n = 0
                for i in range(400):
                    w.write(b"line %d %d\\n" % (k, i))
                    n += len(await r.readline())
                w.close()
                return n
            print(sum(await asyncio.gather(*(ask(k) for k in range(20)))))
            s.close()
        uvloop.run(main())
    """),
    python("httptools", "httptools", """
        import httptools
        class P:
            n = 0
            def on_url(self, u): P.n += len(u)
            def on_header(self, k, v): P.n += len(k) + len(v)
            def on_body(self, b): P.n += len(b)
        raw = b"POST /path?q=1 HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 1000\\r\\nX-A: b\\r\\n\\r\\n" + b"x" * 1000
        for _ in range(90_000):
            httptools.HttpRequestParser(P()).feed_data(raw)
        print(P.n, httptools.parse_url(b"http://u@h:8/p?q#f").path)
    """),
    python("psutil", "psutil", """
        import psutil
        me = psutil.Process()
        n = 0
        for _ in range(60):
            n += bool(me.memory_full_info().rss) + bool(me.open_files() is not None) + (me.num_threads() > 0)
            n += len(psutil.cpu_times()) > 3
            n += psutil.virtual_memory().total > 0
            n += any(p.pid == me.pid for p in psutil.process_iter(["name", "memory_info"]))
        print(n, any("python" in m.path for m in me.memory_maps()))
    """),
    python("bcrypt", "bcrypt", """
        import bcrypt
        salt = b"$2b$08$" + b"abcdefghijklmnopqrstuu"
        print([bcrypt.hashpw(b"word%d" % n, salt) for n in range(40)][-1], bcrypt.kdf(b"p", b"salt", 32, 50).hex())
    """),
    python("pynacl", "PyNaCl", """
        import nacl.bindings, nacl.hash, nacl.pwhash, nacl.secret, nacl.signing
        k = nacl.signing.SigningKey(bytes(32))
        box = nacl.secret.SecretBox(bytes(32))
        for n in range(1500):
            s = k.sign(b"m%d" % n)
            k.verify_key.verify(s)
            e = box.encrypt(bytes(10_000), n.to_bytes(24, "big"))
            assert box.decrypt(e) == bytes(10_000)
        # Argon2 asks for its memory by mmap and locks none of it.
        h = [nacl.pwhash.argon2id.kdf(32, b"p%d" % n, bytes(16), opslimit=1, memlimit=16 << 20).hex() for n in range(12)]
        print(nacl.hash.sha256(s), nacl.hash.blake2b(e), h[-1])
    """),
    python("argon2-cffi", "argon2-cffi", """
        from argon2.low_level import Type, hash_secret
        for n in range(12):
            h = hash_secret(b"word%d" % n, b"saltsalt", time_cost=2, memory_cost=32768, parallelism=2, hash_len=32, type=Type.ID)
        print(h)
    """),
    python("zstandard", "zstandard", """
        import hashlib, zstandard
        data = b"".join(hashlib.sha256(b"%d" % (i % 5000)).digest() for i in range(200_000))
        for level in (1, 3, 9, 3, 1):
            c = zstandard.ZstdCompressor(level=level).compress(data)
            assert zstandard.ZstdDecompressor().decompress(c) == data
        parts = zstandard.ZstdCompressor(level=3, threads=2).compress(data)
        print(len(c), hashlib.sha256(c).hexdigest(), len(parts) > 0)
    """),
    python("lz4", "lz4", """
        import hashlib, lz4.block, lz4.frame
        data = b"".join(hashlib.sha256(b"%d" % (i % 5000)).digest() for i in range(400_000))
        for n in range(6):
            f = lz4.frame.compress(data)
            b = lz4.block.compress(data)
            assert lz4.frame.decompress(f) == lz4.block.decompress(b) == data
        print(len(f), len(b))
    """),
    python("python-snappy", "python-snappy", """
        import hashlib, snappy
        data = b"".join(hashlib.sha256(b"%d" % (i % 900)).digest() for i in range(400_000))
        for n in range(8):
            c = snappy.compress(data)
            assert snappy.uncompress(c) == data
        print(len(c), hashlib.sha256(c).hexdigest())
    """),
    python("brotli", "brotli", """
        import brotli, hashlib
        data = b" ".join(b"word%d" % (i * 7919 % 4001) for i in range(300_000))
        for q in (4, 5, 6, 7, 8, 5, 4):
            c = brotli.compress(data, quality=q)
            assert brotli.decompress(c) == data
        print(len(c), hashlib.sha256(c).hexdigest())
    """),
    python("cython", "cython", """
        from Cython.Compiler import Main, Options
        import os
        source = "\\n".join(f"cdef int f{i}(int a, list b):\\n    return a + len(b) + {i}\\ndef g{i}(x): return f{i}(x, [x])" for i in range(25))
        with open("m.pyx", "w") as f:
            f.write(source)
        r = Main.compile("m.pyx", Options.CompilationOptions(Options.default_options, language_level=3))
        print(r.num_errors, sum(1 for _ in open(r.c_file)))
    """),
    python("numba", "numba", """
        import numpy as np
        from numba import njit, prange
        @njit(parallel=True)
        def total(a):
            s = 0
            for i in prange(len(a)):
                s += a[i] * (i % 7)
            return s
        @njit
        def sieve(n):
            f = np.ones(n, np.uint8)
            for i in range(2, n):
                if f[i]:
                    for j in range(i * i, n, i):
                        f[j] = 0
            return f.sum()
        print(total(np.arange(3_000_000)), sieve(2_000_000))
    """),
    python("llvmlite", "llvmlite", """
        import ctypes
        from llvmlite import binding, ir
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        total = 0
        for n in range(60):
            m = ir.Module(f"m{n}")
            i64 = ir.IntType(64)
            f = ir.Function(m, ir.FunctionType(i64, [i64]), "f")
            b = ir.IRBuilder(f.append_basic_block())
            v = f.args[0]
            for k in range(80):
                v = b.add(b.mul(v, i64(k | 1)), i64(n))
            b.ret(v)
            tm = binding.Target.from_default_triple().create_target_machine(opt=2)
            with binding.create_mcjit_compiler(binding.parse_assembly(str(m)), tm) as e:
                e.finalize_object()
                total += ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(e.get_function_address("f"))(3) & 0xFFFF
        print(total)
    """),
    python("numexpr", "numexpr", """
        import numexpr as ne, numpy as np
        a = np.arange(2_000_000, dtype=np.int64)
        for n in range(30):
            b = ne.evaluate("(a * a + 3 * a + n) % 1009")
        print(b.sum(), ne.evaluate("sum(where(a % 3 == 0, a, 0))"))
    """),
    python("bottleneck", "bottleneck", """
        import bottleneck as bn, numpy as np
        a = (np.arange(1_500_000) * 7919 % 10007).astype(float)
        a[::97] = np.nan
        for n in range(5):
            m = bn.move_median(a[:200_000], 25, min_count=1)
            s, r = bn.nansum(a), bn.move_max(a, 50, min_count=1)
        print(s, np.nansum(m), np.nansum(r), bn.median(a[1:97]))
    """),
    python("matplotlib", "matplotlib", """
        import hashlib, io, matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        import numpy as np
        for n in range(2):
            fig, ax = plt.subplots(1, 2, figsize=(8, 4))
            ax[0].plot(np.arange(2000), np.arange(2000) * 7919 % 1009)
            ax[1].imshow(np.arange(10_000).reshape(100, 100) % (7 + n))
            ax[0].set_title("Title $x^2$")
            f = io.BytesIO()
            fig.savefig(f, format="png")
            plt.close(fig)
        print(len(f.getvalue()), hashlib.sha256(f.getvalue()).hexdigest())
    """),
    python("contourpy", "contourpy", """
        import contourpy, numpy as np
        y, x = np.mgrid[0:600, 0:600]
        z = ((x - 300) ** 2 + (y - 200) ** 2) % 5000
        total = 0
        for name in ("serial", "threaded"):
            g = contourpy.contour_generator(z=z, name=name, chunk_size=100)
            for level in range(100, 4000, 400):
                total += sum(len(l) for l in g.lines(level))
        print(total)
    """),
    python("kiwisolver", "kiwisolver", """
        import kiwisolver as k
        for n in range(25):
            s = k.Solver()
            v = [k.Variable(f"v{i}") for i in range(400)]
            s.addConstraint(v[0] == 0)
            for a, b in zip(v, v[1:]):
                s.addConstraint(b >= a + 10 + n)
                s.addConstraint((b == a + 5) | "weak")
            s.updateVariables()
        print(v[-1].value())
    """),
    python("opencv", "opencv-python-headless", """
        import hashlib
        import cv2, numpy as np
        i = (np.arange(1200 * 900 * 3) * 7919 % 251).astype(np.uint8).reshape(900, 1200, 3)
        for n in range(8):
            g = cv2.GaussianBlur(i, (9, 9), 2)
            e = cv2.Canny(cv2.cvtColor(g, cv2.COLOR_BGR2GRAY), 40, 90)
            m = cv2.warpAffine(g, cv2.getRotationMatrix2D((600, 450), 10 + n, 1), (1200, 900))
            ok, raw = cv2.imencode(".png", cv2.resize(m, (300, 200)))
        print(int(e.sum()), ok, hashlib.sha256(raw).hexdigest())
    """),
    python("tokenizers", "tokenizers", """
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
        text = [" ".join(f"word{i * j % 997}" for j in range(40)) for i in range(1500)]
        t = Tokenizer(models.BPE(unk_token="[U]"))
        t.pre_tokenizer = pre_tokenizers.Whitespace()
        t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=800, special_tokens=["[U]"], show_progress=False))
        for _ in range(5):
            e = t.encode_batch(text)
        print(t.get_vocab_size(), sum(len(one.ids) for one in e) > 0, e[3].tokens[:3] == t.encode(text[3]).tokens[:3])
    """),
    python("safetensors", "safetensors numpy", """
        import numpy as np
        from safetensors import safe_open
        from safetensors.numpy import load, load_file, save, save_file
        t = {f"layer{i}": np.arange(200_000, dtype=np.float32) + i for i in range(30)}
        for n in range(8):
            save_file(t, "a.safetensors")
            back = load_file("a.safetensors")
            again = load(save(t))
        with safe_open("a.safetensors", "np") as f:
            part = f.get_slice("layer7")[10:20]
        print(sum(float(v[3]) for v in back.values()), part.sum(), len(again))
    """),
    python("sentencepiece", "sentencepiece", """
        import io, sentencepiece as sp
        text = [" ".join(f"word{i * j % 199}" for j in range(20)) for i in range(1200)]
        m = io.BytesIO()
        sp.SentencePieceTrainer.train(sentence_iterator=iter(text), model_writer=m, vocab_size=120, minloglevel=9, num_threads=1)
        p = sp.SentencePieceProcessor(model_proto=m.getvalue())
        for _ in range(10):
            ids = [p.encode(t) for t in text]
        print(p.vocab_size(), sum(map(len, ids)), p.decode(ids[3]) == text[3])
    """),
    python("shapely", "shapely", """
        import shapely
        from shapely.strtree import STRtree
        discs = [shapely.Point(i * 7919 % 1000, i * 104729 % 1000).buffer(6) for i in range(3000)]
        u = shapely.union_all(discs)
        pairs = STRtree(discs).query(discs, predicate="intersects").shape[1]
        print(round(u.area, 4), pairs, len(shapely.to_wkb(u)))
    """),
    python("pyproj", "pyproj numpy", """
        import numpy as np, pyproj
        t = pyproj.Transformer.from_crs(4326, 32633, always_xy=True)
        x, y = np.linspace(12, 18, 200_000), np.linspace(-60, 60, 200_000)
        for _ in range(4):
            e, n = t.transform(x, y)
        a = pyproj.Geod(ellps="WGS84").inv(x[:-1], y[:-1], x[1:], y[1:])[2]
        print(round(float(e.sum()), 1), round(float(n.sum()), 1), round(float(a.sum()), 1))
    """),
    python("h5py", "h5py numpy", """
        import h5py, numpy as np
        a = (np.arange(3_000_000) * 7919 % 1009).reshape(1000, 3000)
        for n in range(4):
            with h5py.File("a.h5", "w") as f:
                f.create_dataset("a", data=a, chunks=(100, 300), compression="gzip", compression_opts=1)
                f.attrs["n"] = n
            with h5py.File("a.h5") as f:
                s = int(f["a"][100:900:7].sum()) + int(f.attrs["n"])
        print(s)
    """),
    python("netcdf4", "netCDF4 numpy", """
        import netCDF4, numpy as np
        for n in range(5):
            with netCDF4.Dataset("a.nc", "w") as d:
                d.createDimension("t", None)
                d.createDimension("x", 1000)
                v = d.createVariable("v", "i4", ("t", "x"), zlib=True, chunksizes=(100, 100))
                v[:] = (np.arange(1_000_000) * 7919 % 1009).reshape(1000, 1000)
            with netCDF4.Dataset("a.nc") as d:
                s = int(d["v"][::3].sum())
        print(s)
    """),
    python("tables", "tables numpy", """
        import numpy as np, tables
        class R(tables.IsDescription):
            k = tables.Int64Col()
            v = tables.Float64Col()
        rows = np.zeros(300_000, [("k", "i8"), ("v", "f8")])
        rows["k"] = np.arange(300_000) * 7919 % 1009
        for n in range(3):
            with tables.open_file("a.h5", "w") as f:
                t = f.create_table("/", "t", R, filters=tables.Filters(5, "blosc"))
                t.append(rows)
                t.flush()
                t.cols.k.create_index()
                found = len(t.read_where("(k == 7) | (k > 1000)"))
        print(found)
    """),
    python("xxhash", "xxhash", """
        import xxhash
        h = xxhash.xxh3_128()
        block = bytes(range(256)) * 8192
        for n in range(5000):
            h.update(block)
            a = xxhash.xxh64(block[:9999], seed=n).hexdigest()
        print(h.hexdigest(), a)
    """),
    python("blake3", "blake3", """
        import blake3
        block = bytes(range(256)) * 65536
        for n in range(30):
            h = blake3.blake3(block, max_threads=blake3.blake3.AUTO).hexdigest()
            k = blake3.blake3(block, key=bytes(32)).hexdigest()
        print(h, k)
    """),
    python("rapidfuzz", "rapidfuzz numpy", """
        from rapidfuzz import fuzz, process
        words = [f"word {i * 7919 % 10007} and {i}" for i in range(4000)]
        m = process.cdist(words[:600], words[:1500], scorer=fuzz.ratio, workers=2)
        print(round(float(m.sum()), 1), process.extract("word 77 and 5", words, limit=3))
    """),
    python("levenshtein", "Levenshtein", """
        import Levenshtein as l
        words = [f"word {i * 7919 % 10007} and {i}" for i in range(900)]
        print(sum(l.distance(a, b) for a in words for b in words[:500]), l.median(words[:60]))
    """),
    python("wrapt", "wrapt", """
        import wrapt
        @wrapt.decorator
        def twice(wrapped, instance, args, kwargs):
            return 2 * wrapped(*args, **kwargs)
        class C:
            @twice
            def f(self, a):
                return a
        p = wrapt.ObjectProxy(list(range(10)))
        print(sum(C().f(n) for n in range(500_000)), len(p), p == list(range(10)))
    """),
    python("lazy-object-proxy", "lazy-object-proxy", """
        import lazy_object_proxy as l
        total = 0
        for n in range(700_000):
            p = l.Proxy(lambda: [n, n + 1])
            total += p[1] + len(p)
        print(total)
    """),
    python("simplejson", "simplejson", """
        import simplejson
        from decimal import Decimal
        data = [{"id": i, "name": f"name {i}", "d": Decimal(i) / 4, "list": list(range(i % 50))} for i in range(15_000)]
        for _ in range(4):
            text = simplejson.dumps(data)
            back = simplejson.loads(text, use_decimal=True)
        print(len(text), back == data)
    """),
    python("tornado", "tornado", """
        import asyncio
        from tornado import httpclient, httpserver, netutil, web, websocket
        class H(web.RequestHandler):
            def post(self):
                self.write({"n": len(self.request.body)})
        class W(websocket.WebSocketHandler):
            def on_message(self, m):
                self.write_message(m[::-1])
        async def main():
            sockets = netutil.bind_sockets(0, "127.0.0.1")
            httpserver.HTTPServer(web.Application([("/", H), ("/w", W)])).add_sockets(sockets)
            port = sockets[0].getsockname()[1]
            c = httpclient.AsyncHTTPClient()
            n = 0
            for i in range(250):
                n += len((await c.fetch(f"http://127.0.0.1:{port}/", method="POST", body=b"x" * (i * 97))).body)
            w = await websocket.websocket_connect(f"ws://127.0.0.1:{port}/w")
            for i in range(1000):
                await w.write_message(b"m" * i, binary=True)
                n += len(await w.read_message())
            w.close()
            print(n)
        asyncio.run(main())
    """),
    python("zope-interface", "zope.interface", """
        from zope.interface import Interface, implementer, providedBy
        from zope.interface.adapter import AdapterRegistry
        total = 0
        for n in range(12):
            r = AdapterRegistry()
            made = []
            for i in range(150):
                I = type(Interface)(f"I{i}", (Interface,), {})
                C = implementer(I)(type(f"C{i}", (), {}))
                r.register([I], Interface, "", i)
                made.append(C())
            total += sum(r.lookup1(providedBy(c), Interface) for c in made for _ in range(40))
        print(total)
    """),
    python("pyzmq", "pyzmq", """
        import threading, zmq
        c = zmq.Context()
        a = c.socket(zmq.PAIR)
        port = a.bind_to_random_port("tcp://127.0.0.1")
        def echo():
            b = c.socket(zmq.PAIR)
            b.connect(f"tcp://127.0.0.1:{port}")
            while (m := b.recv(copy=False)).bytes:
                b.send(m.bytes[::-1], copy=False)
            b.close()
        t = threading.Thread(target=echo)
        t.start()
        n = 0
        for i in range(6000):
            a.send(b"x" * (1 + i * 31 % 90_000), copy=False)
            n += len(a.recv())
        a.send(b"")
        t.join()
        print(n)
    """),
    python("hiredis", "hiredis", """
        import hiredis
        r = hiredis.Reader()
        n = 0
        for i in range(250_000):
            r.feed(hiredis.pack_command(("SET", f"key{i}", "v" * (i % 300))))
            n += len(r.gets()[2])
        r.feed(b"*2\\r\\n:5\\r\\n$3\\r\\nabc\\r\\n")
        print(n, r.gets())
    """),
    python("confluent-kafka", "confluent-kafka", """
        import confluent_kafka as k
        # A broker inside the client's own library, on loopback.
        p = k.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "127.0.0.1:1", "log_level": 0})
        sent = []
        for n in range(40_000):
            p.produce("t", b"value %d" % n, key=b"%d" % (n % 7), callback=lambda e, m: sent.append(e))
            p.poll(0)
        left = p.flush(60)
        print(left, len(sent), sum(e is not None for e in sent))
    """),
    python("sqlalchemy", "sqlalchemy", """
        from sqlalchemy import Column, ForeignKey, Integer, String, create_engine, func, select
        from sqlalchemy.orm import Session, declarative_base, relationship
        B = declarative_base()
        class U(B):
            __tablename__ = "u"
            id = Column(Integer, primary_key=True)
            name = Column(String)
            a = relationship("A")
        class A(B):
            __tablename__ = "a"
            id = Column(Integer, primary_key=True)
            u = Column(ForeignKey("u.id"))
        e = create_engine("sqlite://")
        B.metadata.create_all(e)
        with Session(e) as s:
            s.add_all([U(name=f"u{i}", a=[A(), A()]) for i in range(1200)])
            s.commit()
            print(s.scalar(select(func.count()).select_from(A).join(U).where(U.name.like("u1%"))), sum(len(u.a) for u in s.scalars(select(U).limit(500))))
    """),
    python("wasmtime", "wasmtime", """
        import wasmtime as w
        s = w.Store()
        m = w.Module(s.engine, '(module (memory (export "m") 4) (func (export "f") (param i32) (result i32) (local i32)'
            '(loop (local.set 1 (i32.add (local.get 1) (i32.mul (local.get 0) (local.get 0))))'
            '(i32.store (i32.and (local.get 0) (i32.const 65532)) (local.get 1))'
            '(br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))) (local.get 1)))')
        total = 0
        for n in range(400):
            s = w.Store(m.engine if hasattr(m, "engine") else s.engine)
            i = w.Instance(s, m, [])
            total += i.exports(s)["f"](s, 200_000 + n) & 0xFFFF
            i.exports(s)["m"].grow(s, 5)
        try:
            w.Instance(s, w.Module(s.engine, '(module (func (export "t") unreachable))'), []).exports(s)["t"](s)
        except w.Trap as t:
            print(t.trap_code)
        print(total)
    """),
    python("mypy", "mypy", """
        import mypy.api
        with open("m.py", "w") as f:
            f.write("import dataclasses, typing\\nx: int = 'a'\\n" + "".join(f"def f{i}(a: int) -> str: return a\\n" for i in range(200)))
        out, err, status = mypy.api.run(["--no-incremental", "--cache-dir", "/dev/null", "m.py"])
        print(status, len(out.splitlines()), out.splitlines()[0])
    """),
    python("black", "black", """
        import black
        text = "\\n".join(f"def f{i}( a,b = {i} ):\\n  return {{'a':a , 'b' : [b,{i}] }}" for i in range(150))
        got = black.format_str(text, mode=black.Mode())
        print(len(got), got == black.format_str(got, mode=black.Mode()))
    """),
    Row(
        "ruff", "pypi", '"$VENV/bin/ruff" check --isolated --no-cache --select ALL --statistics --exit-zero "$KIT" 2>/dev/null; "$VENV/bin/ruff" format --isolated --no-cache --diff "$KIT" 2>/dev/null | sha256sum',
        pip=("ruff",),
        prepare='for i in $(seq 300); do for j in $(seq 60); do echo "def f${i}_$j( a,b = $j ): return a==None and (b, '"'x'"')"; done >m$i.py; done',
    ),
    python("tree-sitter", "tree-sitter tree-sitter-python", """
        import tree_sitter as t, tree_sitter_python as p
        parser = t.Parser(t.Language(p.language()))
        text = "\\n".join(f"def f{i}(a, b={i}):\\n    return [x for x in a if x > {i}]" for i in range(4000)).encode()
        for n in range(6):
            tree = parser.parse(text)
        count, todo = 0, [tree.root_node]
        while todo:
            node = todo.pop()
            count += 1
            todo += node.children if count < 60_000 else []
        print(count, tree.root_node.has_error)
    """),
    python("jiter", "jiter", """
        import json, jiter
        text = json.dumps([{"id": i, "name": f"name {i}", "list": list(range(i % 50))} for i in range(20_000)]).encode()
        for _ in range(12):
            v = jiter.from_json(text)
        print(len(v), v[-1]["name"], jiter.from_json(text[:1000], partial_mode=True)[0])
    """),
    python("onnxruntime", "onnxruntime numpy", """
        import numpy as np, onnxruntime as o
        o.set_default_logger_severity(4)
        def field(n, v):
            def var(x):
                out = b""
                while x > 127:
                    out, x = out + bytes([x & 127 | 128]), x >> 7
                return out + bytes([x])
            return var(n << 3) + var(v) if isinstance(v, int) else var(n << 3 | 2) + var(len(v)) + v
        # A model by hand, y = max(x @ x, 0), since only its reader is on trial here.
        shape = field(2, field(1, field(1, 256)) + field(1, field(1, 256)))
        value = lambda name: field(1, name) + field(2, field(1, field(1, 1) + shape))
        node = lambda i, out, op: b"".join(field(1, x) for x in i) + field(2, out) + field(4, op)
        graph = field(1, node([b"x", b"x"], b"h", b"MatMul")) + field(1, node([b"h"], b"y", b"Relu")) + field(2, b"g") + field(11, value(b"x")) + field(12, value(b"y"))
        s = o.InferenceSession(field(1, 8) + field(7, graph) + field(8, field(2, 17)), providers=["CPUExecutionProvider"])
        x = (np.arange(65536) % 7 - 3).reshape(256, 256).astype(np.float32)
        for n in range(150):
            y = s.run(None, {"x": x})[0]
        print(float(y.sum()))
    """),
    python("faiss", "faiss-cpu numpy", """
        import faiss, numpy as np
        faiss.omp_set_num_threads(2)
        x = (np.arange(20_000 * 32) * 7919 % 1009).reshape(-1, 32).astype(np.float32)
        i = faiss.IndexFlatL2(32)
        i.add(x)
        d, n = i.search(x[:600], 5)
        q = faiss.IndexIVFFlat(faiss.IndexFlatL2(32), 32, 50)
        q.train(x)
        q.add(x)
        print(n.shape, float(d[:, 0].sum()), q.ntotal)
    """),
    python("rpds", "rpds-py", """
        import rpds
        m = rpds.HashTrieMap()
        for n in range(250_000):
            m = m.insert(n, n * 2)
            if n % 3 == 0:
                m = m.remove(n)
        l = rpds.List(range(100_000))
        print(len(m), m[100], l.first, len(rpds.HashTrieSet(range(50_000))))
    """),
    python("websockets", "websockets", """
        import asyncio
        from websockets.asyncio.client import connect
        from websockets.asyncio.server import serve
        async def main():
            async def echo(w):
                async for m in w:
                    await w.send(m[::-1])
            async with serve(echo, "127.0.0.1", 0) as s:
                port = s.sockets[0].getsockname()[1]
                n = 0
                async with connect(f"ws://127.0.0.1:{port}") as w:
                    for i in range(1500):
                        await w.send(b"x" * (i * 13))
                        n += len(await w.recv())
                print(n)
        asyncio.run(main())
    """),
    python("charset-normalizer", "charset-normalizer", """
        import charset_normalizer as c
        text = "Überall dieselbe alte Leier. Das Layout ist fertig, der Text läßt auf sich warten. " * 300
        print([str(c.from_bytes(text.encode(e)).best()) == text for e in ("utf-8", "cp1252", "utf-16")], c.detect(text.encode("latin-1"))["language"])
    """),
    python("coverage", "coverage", """
        import coverage
        with open("m.py", "w") as f:
            f.write("def f(n):\\n    t = 0\\n    for i in range(n):\\n        if i % 3:\\n            t += i\\n        else:\\n            t -= 1\\n    return t\\n")
        c = coverage.Coverage(data_file=None, branch=True)
        c.start()
        import sys
        sys.path.insert(0, ".")
        import m
        print(m.f(1_500_000))
        c.stop()
        print(c.analysis2("m.py")[1:4])
    """),
    python("pycryptodome", "pycryptodome", """
        from Crypto.Cipher import AES, ChaCha20
        from Crypto.Hash import SHA3_256
        from Crypto.Protocol.KDF import scrypt
        h = SHA3_256.new()
        for n in range(20):
            c = AES.new(bytes(32), AES.MODE_GCM, nonce=n.to_bytes(12, "big")).encrypt_and_digest(bytes(1 << 20))
            h.update(c[0] + c[1] + ChaCha20.new(key=bytes(32), nonce=bytes(8)).encrypt(bytes(1 << 18)))
        print(h.hexdigest(), scrypt(b"p", b"s", 32, 2**14, 8, 1).hex())
    """),
    python("statsmodels", "statsmodels", """
        import numpy as np, statsmodels.api as sm
        r = np.random.default_rng(5)
        x = sm.add_constant(r.integers(0, 9, (20_000, 8)).astype(float))
        y = x @ np.arange(9) + r.integers(-3, 4, 20_000)
        for _ in range(4):
            f = sm.OLS(y, x).fit()
        g = sm.nonparametric.lowess(y[:1500], x[:1500, 1])
        print(f.params.round(1), g.shape)
    """),
    python("scikit-image", "scikit-image", """
        import numpy as np
        from skimage import filters, measure, morphology, segmentation, transform
        y, x = np.mgrid[0:500, 0:500]
        i = ((x * x + y * y) % 5003 / 5003.0)
        e = filters.sobel(i)
        l = measure.label(i > 0.6)
        w = segmentation.watershed(np.rint(e * 1000).astype(int), markers=40)
        print(round(float(e.sum()), 3), l.max(), len(np.unique(w)), transform.rotate(i, 30).shape, morphology.disk(5).sum())
    """),
    python("pymongo", "pymongo", """
        import bson
        data = {"rows": [{"_id": i, "name": f"name {i}", "list": list(range(i % 30))} for i in range(6000)]}
        for _ in range(12):
            raw = bson.encode(data)
            back = bson.decode(raw)
        print(bson.has_c(), len(raw), back == data)
    """),
    python("lightgbm", "lightgbm numpy", """
        import lightgbm as l, numpy as np
        r = np.random.default_rng(6)
        x = r.random((6_000, 12))
        y = (x[:, 0] + x[:, 3] * x[:, 5] > 0.8).astype(int)
        b = l.train({"objective": "binary", "verbose": -1, "num_threads": 2, "deterministic": True, "seed": 1, "force_row_wise": True}, l.Dataset(x, y), 40)
        print(((b.predict(x) > 0.5) == y).mean().round(3), b.num_trees())
    """),
    python("cbor2", "cbor2", """
        import cbor2
        data = [{"id": i, "name": f"name {i}", "list": list(range(i % 50))} for i in range(12_000)]
        for _ in range(4):
            raw = cbor2.dumps(data)
            back = cbor2.loads(raw)
        print(len(raw), back == data)
    """),
    python("bitarray", "bitarray", """
        from bitarray import bitarray
        from bitarray.util import count_and, urandom
        n = 5_000_000
        b = bitarray(n)
        b.setall(1)
        for i in range(2, 2300):
            if b[i]:
                b[i * i :: i] = 0
        for _ in range(700):
            c = (b | ~b) & (b << 3)
        print(b.count(), c.count(), count_and(b, c))
    """),
    python("pyroaring", "pyroaring", """
        from pyroaring import BitMap
        for n in range(20):
            a, b = BitMap(range(0, 2_000_000, 3)), BitMap(i * i % 3_000_017 for i in range(60_000))
            c = a & b | BitMap(range(n, 90_000))
            raw = c.serialize()
        print(len(c), len(raw), BitMap.deserialize(raw) == c)
    """),
]
