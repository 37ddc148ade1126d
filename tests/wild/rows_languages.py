"""Compilers, and languages with an allocator or a runtime of their own."""

from __future__ import annotations

from row import Row, tidy


def language(name: str, apt: str, file: str, command: str, program: str, prepare: str = "") -> Row:
    """A program in one file, in a language that Debian has."""
    return Row(name, "languages", command, apt=tuple(apt.split()), files={file: tidy(program)}, prepare=prepare)


# Objects of changing sizes that live for a while: what allocators and collectors have most work with.
JAVA = """
    import java.util.*;
    import java.util.concurrent.*;
    public class Main {
        public static void main(String[] a) throws Exception {
            ExecutorService e = Executors.newFixedThreadPool(3);
            List<Future<Long>> all = new ArrayList<>();
            for (int t = 0; t < 3; t++) {
                final int k = t;
                all.add(e.submit(() -> {
                    Map<Integer, byte[]> m = new HashMap<>();
                    long s = 0;
                    for (int i = 0; i < 150000; i++) {
                        byte[] old = m.put(i * 7919 % 2003, new byte[(i * 31 + k) % 5000]);
                        s += old == null ? 1 : old.length;
                    }
                    return s;
                }));
            }
            long sum = 0;
            for (Future<Long> f : all) sum += f.get();
            java.nio.ByteBuffer d = java.nio.ByteBuffer.allocateDirect(8 << 20);
            for (int i = 0; i < d.capacity(); i += 4096) d.put(i, (byte) 1);
            System.out.println(sum + " " + d.get(4096));
            e.shutdown();
        }
    }
"""
JAVA_PREPARE = "javac Main.java"


def java(collector: str) -> Row:
    flags = f"-XX:+UnlockExperimentalVMOptions -XX:+Use{collector}GC -Xmx256m -Xshare:auto"
    return language(
        f"java-{collector.lower()}", "openjdk-17-jdk-headless", "Main.java", f'exec java {flags} -cp "$KIT" Main', JAVA, JAVA_PREPARE
    )


C = """
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    static void *work(void *k) {
        static _Thread_local char *held[512];
        unsigned x = (unsigned)(size_t)k;
        size_t sum = 0;
        for (int i = 0; i < 600000; i++) {
            x = x * 1664525u + 1013904223u;
            unsigned at = x >> 23, size = 16 + (x >> 8) % (i % 100 ? 3000 : 300000);
            if (held[at]) sum += (unsigned char)held[at][0];
            free(held[at]);
            held[at] = malloc(size);
            memset(held[at], i & 255, size < 256 ? size : 256);
            if (i % 50 == 0) held[at] = realloc(held[at], size * 2);
        }
        return (void *)sum;
    }
    int main(void) {
        pthread_t t[3];
        for (size_t k = 0; k < 3; k++) pthread_create(&t[k], 0, work, (void *)(k + 1));
        size_t sum = 0;
        for (int k = 0; k < 3; k++) { void *r; pthread_join(t[k], &r); sum += (size_t)r; }
        printf("%zu\\n", sum);
    }
"""
C_PREPARE = "cc -O2 -pthread -o main main.c"


def allocator(name: str, apt: str, library: str, env: str = "") -> Row:
    """A program in C over an allocator that is linked, not preloaded: two libraries in LD_PRELOAD would be another trial."""
    prepare = f'cc -O2 -pthread -o main main.c -Wl,--no-as-needed -l:"{library}"'
    return language(name, apt, "main.c", f'{env} exec "$KIT/main"', C, prepare)


ROWS: list[Row] = [
    language("cpython-ctypes", "", "main.py", 'exec "$PYTHON" "$KIT/main.py"', """
        import ctypes, mmap
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        bad = 0
        for n in range(20_000):
            size = 4096 * (1 + n * 31 % 64)
            p = libc.mmap(None, size, 3, 0x22, -1, 0)
            bad += any(ctypes.string_at(p, 64)) or any(ctypes.string_at(p + size - 64, 64))
            ctypes.memset(p, n % 255 + 1, size if n % 10 == 0 else 128)
            libc.munmap(p, size)
        for n in range(3000):
            m = mmap.mmap(-1, 65536, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            bad += m[5] != 0
            m[5] = 7
            m.madvise(mmap.MADV_DONTNEED)
            bad += m[5] != 0
            m.close()
        print(bad)
    """),
    language("cpython", "", "main.py", 'exec "$PYTHON" "$KIT/main.py"', """
        import bz2, gc, hashlib, json, lzma, sqlite3, threading, zlib
        data = b"".join(hashlib.sha256(b"%d" % (i % 3000)).digest() for i in range(40_000))
        print([hashlib.sha256(m.compress(data)).hexdigest()[:12] for m in (zlib, bz2, lzma)])
        out = []
        def work(k):
            for n in range(8):
                s = json.dumps([{"a": i, "b": [k] * 5} for i in range(4000)])
                out.append(len(json.loads(s)))
                del s
                gc.collect()
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        d = sqlite3.connect(":memory:")
        d.execute("create table t(a, b)")
        d.executemany("insert into t values(?, ?)", ((i, str(i)) for i in range(100_000)))
        print(sum(out), d.execute("select sum(a), max(b) from t where b like '%7'").fetchall())
    """),
    Row(
        "cpython-compileall", "languages",
        'cp -r "$KIT/lib" lib && "$PYTHON" -m compileall -q -f -j 2 --invalidation-mode unchecked-hash lib && cat $(find lib -name "*.pyc" | sort) | wc -c',
        prepare='mkdir lib; cp "$("$PYTHON" -c "import json, os; print(os.path.dirname(os.path.dirname(json.__file__)))")"/[a-m]*.py lib; rm -f lib/__*',
    ),
    language("pypy", "pypy3", "main.py", 'exec pypy3 "$KIT/main.py"', """
        class Node:
            def __init__(self, n):
                self.left, self.right = (Node(n - 1), Node(n - 1)) if n else (None, None)
            def count(self):
                return 1 if self.left is None else 1 + self.left.count() + self.right.count()
        print(sum(Node(12).count() for _ in range(60)), sum(len(str(i)) for i in range(1_000_000)))
    """),
    java("Serial"),
    java("Parallel"),
    java("G1"),
    java("Z"),
    java("Shenandoah"),
    language("javac", "openjdk-17-jdk-headless", "Main.java", 'javac -d . "$KIT/Main.java" && ls', JAVA),
    language("gcc", "gcc", "main.c", 'for i in 1 2 3 4 5 6; do gcc -O2 -c "$KIT/main.c" -o main.o -DN=$i; done; sha256sum main.o', C),
    language("g++", "g++", "main.cc", 'g++ -O1 -c "$KIT/main.cc" -o main.o && sha256sum main.o', """
        #include <algorithm>
        #include <map>
        #include <string>
        #include <vector>
        std::map<std::string, std::vector<int>> f(const std::string &s) {
            std::map<std::string, std::vector<int>> m;
            m[s.substr(1)].push_back(std::stoi(s));
            for (auto &[k, v] : m) std::sort(v.begin(), v.end());
            return m;
        }
    """),
    language("clang", "clang", "main.c", 'for i in 1 2 3 4 5 6; do clang -O2 -pthread -c "$KIT/main.c" -o main.o; done; sha256sum main.o', C),
    language("tcc", "tcc libc6-dev", "main.c", 'for i in $(seq 60); do tcc -c "$KIT/main.c" -o main.o; done; sha256sum main.o', C.replace("_Thread_local ", "")),
    language("gfortran", "gfortran", "main.f90", 'gfortran -O2 "$KIT/main.f90" -o main && ./main', """
        program main
          implicit none
          integer, allocatable :: a(:)
          integer(8) :: s
          integer :: i, n
          s = 0
          do n = 1, 20000
            allocate(a(1 + mod(n * 7919, 30000)))
            do i = 1, size(a)
              a(i) = i + n
            end do
            s = s + sum(a)
            deallocate(a)
          end do
          print *, s
        end program
    """),
    language("gnat", "gnat", "main.adb", 'exec "$KIT/main"', """
        with Ada.Text_IO, Ada.Containers.Indefinite_Ordered_Maps;
        procedure Main is
           package Maps is new Ada.Containers.Indefinite_Ordered_Maps (Integer, String);
           M : Maps.Map;
           T : Long_Integer := 0;
        begin
           for N in 1 .. 300_000 loop
              M.Include (N * 79 mod 5003, (1 .. N mod 400 => 'x'));
              T := T + Long_Integer (M.First_Element'Length);
           end loop;
           Ada.Text_IO.Put_Line (Long_Integer'Image (T));
        end Main;
    """, "gnatmake -q -O2 main.adb"),
    language("fpc", "fpc", "main.pas", 'exec "$KIT/main"', """
        program Main;
        {$mode objfpc}{$H+}
        uses SysUtils, Classes;
        var l: TStringList; n: longint; t: int64;
        begin
          l := TStringList.Create; l.Sorted := true; l.Duplicates := dupIgnore; t := 0;
          for n := 1 to 300000 do begin
            l.Add(IntToStr(int64(n) * 7919 mod 20011) + StringOfChar('x', n mod 200));
            if l.Count > 3000 then l.Delete(n mod 3000);
            t := t + length(l[0]);
          end;
          writeln(t, ' ', l.Count);
        end.
    """, "fpc -O2 -v0 main.pas"),
    language("ldc", "ldc", "main.d", 'exec "$KIT/main"', """
        import std.stdio, std.conv, std.algorithm, std.array;
        void main() {
            string[string] m;
            size_t t = 0;
            foreach (n; 0 .. 400_000) {
                m[to!string(n * 7919 % 5003)] = replicate("x", n % 400);
                t += m["0"].length;
            }
            writeln(t, " ", m.keys.sort[0 .. 3]);
        }
    """, "ldc2 -O2 main.d"),
    language("nim", "nim gcc", "main.nim", 'exec "$KIT/main"', """
        import tables, strutils, algorithm
        var m = initTable[string, string]()
        var t = 0
        for n in 0 ..< 400_000:
          m[$(n * 7919 mod 5003)] = repeat('x', n mod 400)
          t += m["0"].len
        var k: seq[string]
        for key in m.keys: k.add key
        k.sort()
        echo t, " ", k[0 .. 2]
    """, "nim c -d:release --hints:off --nimcache:cache main.nim"),
    Row(
        "rustc", "languages", 'rustc --edition 2021 -C opt-level=1 -o main "$KIT/main.rs" && ./main',
        files={"main.rs": tidy("""
            use std::collections::BTreeMap;
            fn main() {
                let handles: Vec<_> = (0..3u64).map(|k| std::thread::spawn(move || {
                    let mut m = BTreeMap::new();
                    let mut t = 0usize;
                    for n in 0..100_000u64 { m.insert(n * 7919 % 5003, vec![k as u8; (n % 3000) as usize]); t += m[&0].len(); }
                    t
                })).collect();
                println!("{}", handles.into_iter().map(|h| h.join().unwrap()).sum::<usize>());
            }
        """)},
    ),
    Row(
        "cargo", "languages", 'cp -r "$KIT/crate" . && cd crate && cargo build -q --offline --release && target/release/tiny',
        files={
            "crate/Cargo.toml": '[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n',
            "crate/src/main.rs": 'mod other;\nfn main() {\n    println!("{:?}", other::words("a b a c"));\n}\n',
            "crate/src/other.rs": tidy("""
                use std::collections::HashMap;
                pub fn words(s: &str) -> Vec<(String, usize)> {
                    let mut m: HashMap<String, usize> = HashMap::new();
                    for w in s.split(' ') { *m.entry(w.to_owned()).or_default() += 1; }
                    let mut v: Vec<_> = m.into_iter().collect();
                    v.sort();
                    v
                }
            """),
        },
    ),
    Row(
        "go-build", "languages",
        # Of another wording each time, so that it is compiled, with a standard library that is.
        'cp "$KIT/main.go" . && echo "// $PORT" >>main.go && export GOCACHE="$KIT/cache" && go build -o main main.go && go vet main.go && ./main',
        files={
            "main.go": 'package main\n\nimport (\n\t"os"\n\t"strconv"\n)\n\nfunc main() {\n\tm := map[int][]byte{}\n\tt := 0\n\tfor n := 0; n < 300000; n++ {\n\t\tm[n*7919%5003] = make([]byte, n%3000)\n\t\tt += len(m[0])\n\t}\n\tos.Stdout.WriteString(strconv.Itoa(t) + "\\n")\n}\n',
        },
        prepare='export GOCACHE="$KIT/cache"; go build -o main main.go; go vet main.go',
    ),
    language("erlang", "erlang-base", "main.erl", 'exec erl -noshell -pa "$KIT" -s main run -s init stop', """
        -module(main).
        -export([run/0]).
        run() ->
            Self = self(),
            [spawn(fun() -> Self ! work(K, 15000, #{}, 0) end) || K <- lists:seq(1, 4)],
            io:format("~p~n", [lists:sum([receive N -> N end || _ <- lists:seq(1, 4)])]).
        work(_, 0, _, T) -> T;
        work(K, N, M, T) ->
            B = binary:copy(<<K>>, N rem 3000),
            work(K, N - 1, M#{N * 7919 rem 1009 => [B, integer_to_list(N)]}, T + byte_size(B)).
    """, "erlc main.erl"),
    language("elixir", "elixir erlang-base", "main.exs", 'exec elixir "$KIT/main.exs"', """
        IO.inspect(1..4 |> Task.async_stream(fn k ->
          Enum.reduce(1..80_000, %{}, fn n, m -> Map.update(m, rem(n * 7919, 1009), [k], &[n | Enum.take(&1, 20)]) end) |> map_size()
        end) |> Enum.map(fn {:ok, n} -> n end))
        IO.puts(String.length(Enum.map_join(1..100_000, ",", &Integer.to_string/1)))
    """),
    language("lua", "lua5.4", "main.lua", 'exec lua5.4 "$KIT/main.lua"', """
        local m, t = {}, 0
        for n = 1, 150000 do
          m[n * 7919 % 5003] = { tostring(n), string.rep("x", n % 300) }
          t = t + #(m[1] and m[1][2] or "")
        end
        print(t, #table.concat({ table.unpack(m[7]) }))
    """),
    language("luajit", "luajit", "main.lua", 'exec luajit "$KIT/main.lua"', """
        local ffi = require "ffi"
        ffi.cdef "void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t);"
        local m, t = {}, 0
        for n = 1, 600000 do
          m[n * 7919 % 5003] = { tostring(n), string.rep("x", n % 300) }
          t = t + #(m[1] and m[1][2] or "")
        end
        for n = 1, 20000 do
          local p = ffi.C.mmap(nil, 65536, 3, 0x22, -1, 0)
          local b = ffi.cast("char *", p)
          assert(b[0] == 0 and b[65535] == 0)
          b[0], b[65535] = 1, 2
          ffi.C.munmap(p, 65536)
        end
        print(t)
    """),
    language("ruby", "ruby", "main.rb", 'exec ruby "$KIT/main.rb"', """
        m, t = {}, 0
        400_000.times { |n| m[n * 7919 % 5003] = ["x" * (n % 300), n.to_s]; t += m[0][0].size }
        GC.compact if GC.respond_to?(:compact)
        threads = 3.times.map { |k| Thread.new { (1..60_000).map { |n| (n * k).to_s }.uniq.size } }
        puts t, threads.map(&:value).inspect, (1..30_000).map { |n| n.to_s(2) }.sort.last
        pid = fork { puts m.size; $stdout.flush; exit! 0 }
        Process.wait pid
    """),
    language("perl", "perl", "main.pl", 'exec perl "$KIT/main.pl"', """
        use strict; use warnings;
        my (%m, $t);
        for my $n (1 .. 600_000) { $m{$n * 7919 % 5003} = ["x" x ($n % 300), $n]; $t += length $m{7919 % 5003}[0]; }
        my @s = sort { $a->[1] <=> $b->[1] } values %m;
        my $text = join ",", map { $_->[1] } @s;
        my $c = () = $text =~ /(\\d)\\1/g;
        print "$t $s[0][1] $c\\n";
    """),
    language("php", "php-cli", "main.php", 'exec php "$KIT/main.php"', """
        <?php
        $m = []; $t = 0;
        for ($n = 0; $n < 900000; $n++) { $m[$n * 7919 % 5003] = [str_repeat("x", $n % 300), $n]; $t += strlen($m[0][0]); }
        for ($n = 0; $n < 25; $n++) { $big = range(0, 200000); $u = array_sum(array_reverse($big)); $s = serialize($big); unset($big); }
        echo $t, " ", $u, " ", strlen($s), " ", preg_match_all('/(\\d)\\1/', implode(",", array_keys($m))), "\\n";
    """),
    language("php-jit", "php-cli", "main.php",
        'exec php -d opcache.enable_cli=1 -d opcache.jit_buffer_size=32M -d opcache.jit=tracing "$KIT/main.php"', """
        <?php
        function f($n) { return $n < 2 ? $n : f($n - 1) + f($n - 2); }
        $t = 0;
        for ($i = 0; $i < 30000000; $i++) { $t = ($t * 31 + $i) % 1000003; }
        echo f(29), " ", $t, "\\n";
    """),
    language("r", "r-base-core", "main.r", 'exec Rscript --vanilla "$KIT/main.r"', """
        m <- list(); t <- 0
        for (n in 1:60000) { m[[as.character((n * 7919) %% 503)]] <- numeric(n %% 1000); t <- t + length(m[["7"]]) }
        d <- data.frame(k = (1:60000 * 7919) %% 101, v = 1:60000)
        for (i in 1:4) a <- aggregate(v ~ k, d, sum)
        x <- matrix((1:250000) %% 7, 500)
        cat(t, sum(a$v), sum(x %*% t(x)), nchar(paste(sort(as.character(d$v)), collapse = "")), "\\n")
    """),
    language("ocaml", "ocaml-nox", "main.ml", 'exec "$KIT/main"', """
        module M = Map.Make (Int)
        let rec go n m t =
          if n = 0 then t
          else
            let m = M.add (n * 7919 mod 5003) (String.make (n mod 600) 'x', [ n ]) m in
            go (n - 1) m (t + (match M.find_opt 7 m with Some (s, _) -> String.length s | None -> 0))
        let () = Printf.printf "%d\\n" (go 700_000 M.empty 0)
    """, "ocamlfind ocamlopt -O2 main.ml -o main 2>/dev/null || ocamlopt main.ml -o main"),
    language("ocamlopt", "ocaml-nox", "main.ml", 'cp "$KIT/main.ml" . && for i in 1 2 3 4; do ocamlopt main.ml -o main; done && ./main', """
        let () = List.init 100_000 (fun n -> n * 7919 mod 1009) |> List.sort_uniq compare |> List.length |> Printf.printf "%d\\n"
    """),
    language("haskell", "ghc", "main.hs", 'exec "$KIT/main" +RTS -N2 -A1m -qg', """
        import qualified Data.Map.Strict as M
        import Control.Concurrent
        import Control.Monad
        import Control.Exception (evaluate)
        main :: IO ()
        main = do
          all <- forM [1 .. 3] $ \\k -> do
            v <- newEmptyMVar
            _ <- forkIO $ evaluate (work k) >>= putMVar v
            pure v
          mapM takeMVar all >>= print
        work :: Int -> Int
        work k = sum . map length . M.elems $ foldr (\\n -> M.insert (n * 7919 `mod` 5003) (replicate (n `mod` 40) k)) M.empty [1 .. 150000]
    """, "ghc -O1 -threaded -rtsopts main.hs"),
    language("ghc", "ghc", "main.hs", 'cp "$KIT/main.hs" . && ghc -v0 -O1 main.hs && ./main', """
        import Data.List (sort)
        data Shape = Disc Int | Box Int Int deriving (Show, Eq, Ord)
        main :: IO ()
        main = print . last . sort $ concat [[Disc (n * 7 `mod` 101), Box n (n `div` 2)] | n <- [1 .. 5000]]
    """),
    language("sbcl", "sbcl", "main.lisp", 'exec sbcl --script "$KIT/main.lisp"', """
        (let ((m (make-hash-table)) (total 0))
          (dotimes (n 4000000)
            (setf (gethash (mod (* n 7919) 5003) m) (list n (make-string (mod n 100))))
            (incf total (length (second (gethash 0 m)))))
          (sb-ext:gc :full t)
          (format t "~a ~a~%" total (hash-table-count m)))
    """),
    language("clisp", "clisp", "main.lisp", 'exec clisp -q -norc "$KIT/main.lisp"', """
        (let ((m (make-hash-table)) (total 0))
          (dotimes (n 25000)
            (setf (gethash (mod (* n 7919) 5003) m) (list n (make-string (mod n 100))))
            (incf total (length (second (gethash 0 m)))))
          (format t "~a ~a~%" total (hash-table-count m)))
    """),
    language("ecl", "ecl", "main.lisp", 'exec ecl --norc --shell "$KIT/main.lisp"', """
        (let ((m (make-hash-table)) (total 0))
          (dotimes (n 600000)
            (setf (gethash (mod (* n 7919) 5003) m) (list n (make-string (mod n 100))))
            (incf total (length (second (gethash 0 m)))))
          (format t "~a ~a~%" total (hash-table-count m)))
    """),
    language("guile", "guile-3.0", "main.scm", 'exec guile-3.0 --no-auto-compile "$KIT/main.scm"', """
        (define m (make-hash-table))
        (define total 0)
        (do ((n 0 (+ n 1))) ((= n 500000))
          (hashv-set! m (modulo (* n 7919) 5003) (make-string (modulo n 300) #\\x))
          (set! total (+ total (string-length (hashv-ref m 0)))))
        (display total) (newline)
    """),
    language("racket", "racket", "main.rkt", 'exec racket "$KIT/main.rkt"', """
        #lang racket/base
        (define m (make-hasheqv))
        (define total 0)
        (for ([n (in-range 800000)])
          (hash-set! m (modulo (* n 7919) 5003) (make-string (modulo n 100) #\\x))
          (set! total (+ total (string-length (hash-ref m 0)))))
        (displayln total)
    """),
    language("chez", "chezscheme", "main.ss", 'exec chezscheme --script "$KIT/main.ss"', """
        (define m (make-eqv-hashtable))
        (define total 0)
        (do ((n 0 (+ n 1))) ((= n 1500000))
          (hashtable-set! m (modulo (* n 7919) 5003) (make-string (modulo n 100) #\\x))
          (set! total (+ total (string-length (hashtable-ref m 0 "")))))
        (collect (collect-maximum-generation))
        (display total) (newline)
    """),
    language("chicken", "chicken-bin", "main.scm", 'exec "$KIT/main"', """
        (define v (make-vector 5003 ""))
        (define total 0)
        (do ((n 0 (+ n 1))) ((= n 3000000))
          (vector-set! v (modulo (* n 7919) 5003) (make-string (modulo n 100) #\\x))
          (set! total (+ total (string-length (vector-ref v 0)))))
        (print total)
    """, "chicken-csc -O2 main.scm -o main || csc -O2 main.scm -o main"),
    language("polyml", "polyml", "main.sml", 'exec poly -q --script "$KIT/main.sml"', """
        fun go (0, _, t) = t
          | go (n, l, t) = go (n - 1, CharVector.tabulate (n mod 300, fn _ => #"x") :: List.take (l, Int.min (20, length l)), t + length l);
        print (Int.toString (go (900000, [], 0)) ^ "\\n");
    """),
    language("gforth", "gforth", "main.fs", 'exec gforth "$KIT/main.fs" -e bye', """
        variable total
        : work 900000 0 do i 7919 * 5003 mod 64 + dup allocate throw tuck swap 7 fill dup c@ total +! free throw loop ;
        : fib dup 2 < if drop 1 else dup 1- recurse swap 2 - recurse + then ;
        work total @ . 35 fib . cr
    """),
    language("swi-prolog", "swi-prolog-nox", "main.pl", 'exec swipl -q -g main -t halt "$KIT/main.pl"', """
        queens(N, Qs) :- numlist(1, N, L), permute(L, [], Qs).
        permute([], Qs, Qs).
        permute(L, Acc, Qs) :- select(Q, L, R), safe(Q, Acc, 1), permute(R, [Q|Acc], Qs).
        safe(_, [], _).
        safe(Q, [P|Ps], D) :- Q =\\= P + D, Q =\\= P - D, D1 is D + 1, safe(Q, Ps, D1).
        main :- queens(18, Qs), print(Qs), nl, findall(X-Y, (between(1, 200000, X), Y is X * 7919 mod 1009), Ps),
            msort(Ps, S), length(S, N), garbage_collect, atom_codes(A, "done"), print(N-A), nl.
    """),
    language("gprolog", "gprolog", "main.pl", 'for i in $(seq 12); do "$KIT/main"; done', """
        :- initialization(main).
        queens(N, Qs) :- numbers(N, L), permute(L, [], Qs).
        numbers(0, []).
        numbers(N, [N|L]) :- N > 0, M is N - 1, numbers(M, L).
        permute([], Qs, Qs).
        permute(L, Acc, Qs) :- select(Q, L, R), safe(Q, Acc, 1), permute(R, [Q|Acc], Qs).
        safe(_, [], _).
        safe(Q, [P|Ps], D) :- Q =\\= P + D, Q =\\= P - D, D1 is D + 1, safe(Q, Ps, D1).
        main :- queens(22, Qs), write(Qs), nl.
    """, "gplc --no-top-level main.pl -o main"),
    language("octave", "octave", "main.m", 'exec octave-cli --norc --no-history "$KIT/main.m"', """
        t = 0;
        for n = 1:300, a = mod((1:n*300) * 7919, 1009); t += sum(sort(a)(1:10:end)); end
        x = reshape(mod(1:90000, 7), 300, 300);
        for n = 1:5, y = x * x'; end
        c = num2cell(1:20000);
        printf("%d %d %d\\n", t, sum(y(:)), numel(strjoin(cellfun(@num2str, c(1:500), "UniformOutput", false), ",")));
    """),
    language("mono", "mono-mcs mono-runtime", "main.cs", 'exec mono "$KIT/main.exe"', """
        using System;
        using System.Collections.Generic;
        using System.Threading.Tasks;
        static class Program {
            static long Work(int k) {
                var m = new Dictionary<int, byte[]>();
                long t = 0;
                for (int n = 0; n < 40000; n++) { m[n * 31 % 2003] = new byte[(n * 7 + k) % 4000]; t += m[0].Length; }
                return t;
            }
            static void Main() {
                long t = 0;
                Parallel.For(0, 3, k => { System.Threading.Interlocked.Add(ref t, Work(k)); });
                Console.WriteLine(t);
            }
        }
    """, "mcs -optimize+ main.cs"),
    language("node", "", "main.mjs", 'exec node "$KIT/main.mjs"', """
        import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
        import zlib from "node:zlib";
        function work(k) {
          const m = new Map();
          let t = 0;
          for (let n = 0; n < 300_000; n++) { m.set(n * 7919 % 5003, new Uint8Array((n + k) % 4000)); t += m.get(0).length; }
          return t;
        }
        if (isMainThread) {
          const all = [1, 2].map(k => new Promise(r => new Worker(new URL(import.meta.url), { workerData: k }).on("message", r)));
          const s = JSON.stringify(Array.from({ length: 100_000 }, (_, i) => ({ i, s: "x".repeat(i % 50) })));
          console.log((await Promise.all(all)).join(), JSON.parse(s).length, zlib.gunzipSync(zlib.gzipSync(s)).length);
        } else parentPort.postMessage(work(workerData));
    """),
    language("node-wasm", "", "main.mjs", 'exec node "$KIT/main.mjs"', """
        // A function that sums and stores, and a memory that grows in between.
        const body = [1,1,127, 3,64, 32,1, 32,0, 32,0, 108, 106, 33,1, 32,0, 65,252,255,3, 113, 32,1, 54,2,0, 32,0, 65,1, 107, 34,0, 13,0, 11, 32,1, 11];
        const parts = [[1, [1,96,1,127,1,127]], [3, [1,0]], [5, [1,0,1]], [7, [2,1,102,0,0,1,109,2,0]], [10, [1, body.length, ...body]]];
        const bytes = new Uint8Array([0,97,115,109,1,0,0,0, ...parts.flatMap(([id, part]) => [id, part.length, ...part])]);
        let t = 0;
        for (let n = 0; n < 300; n++) {
          const { f, m } = new WebAssembly.Instance(new WebAssembly.Module(bytes)).exports;
          t = (t + f(300_000 + n)) | 0;
          m.grow(16);
          new Uint8Array(m.buffer)[1 << 20] = 7;
        }
        console.log(t);
    """),
    language("tcl", "tcl", "main.tcl", 'exec tclsh "$KIT/main.tcl"', """
        set t 0
        for {set n 0} {$n < 300000} {incr n} {
            dict set m [expr {$n * 7919 % 1009}] [string repeat x [expr {$n % 300}]]
            incr t [string length [dict get $m 0]]
        }
        puts "$t [llength [lsort [dict keys $m]]] [regexp -all {(\\d)\\1} [dict keys $m]]"
    """),
    language("gawk", "gawk", "main.awk", 'exec gawk -f "$KIT/main.awk"', """
        BEGIN {
            for (n = 0; n < 500000; n++) { m[n * 7919 % 5003] = sprintf("%*s", n % 300, "x"); t += length(m[0]) }
            c = asorti(m, s)
            print t, c, s[1], s[c]
        }
    """),
    language("mawk", "mawk", "main.awk", 'exec mawk -f "$KIT/main.awk"', """
        BEGIN {
            for (n = 0; n < 1200000; n++) { m[n * 7919 % 5003] = sprintf("%*s", n % 300, "x"); t += length(m[0]) }
            print t
        }
    """),
    language("bash", "", "main.sh", 'exec bash "$KIT/main.sh"', """
        declare -A m
        for ((n = 0; n < 60000; n++)); do
            m[$((n * 7919 % 1009))]=$n
            printf -v s '%*s' $((n % 100)) x
            ((t += ${#s}))
        done
        echo "$t ${#m[@]}"
        for ((n = 0; n < 150; n++)); do x=$(echo $n | tr 0-9 a-j); done
        echo "$x"
    """),
    language("glibc-malloc", "gcc", "main.c", 'exec "$KIT/main"', C, C_PREPARE),
    allocator("jemalloc", "libjemalloc2", "libjemalloc.so.2"),
    allocator("jemalloc-decay-0", "libjemalloc2", "libjemalloc.so.2", "MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0"),
    allocator("tcmalloc", "libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
    allocator("mimalloc", "libmimalloc2.0", "libmimalloc.so.2.0"),
]
