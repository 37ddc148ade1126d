"""Programs of Debian that run once: what compresses, encodes, draws, proves, searches, and looks at other programs."""

from __future__ import annotations

from row import Row, tidy

# Text that compresses about as prose does, and the same each time: 1.5 MB, and 7 MB for what is quick.
LONG = """awk 'BEGIN { srand(7); for (i = 0; i < 900000; i++) printf "%s%d%s", (i % 3 ? "word" : "some"), int(rand() * 2000), (i % 11 ? " " : "\\n") }' >text"""
TEXT = LONG.replace("900000", "200000")
# A second and a half of noise and tones: 16 bits, two channels.
SOUND = (
    'sox -R -n -r 44100 -b 16 -c 2 sound.wav synth 20 sine 300-3000 pinknoise vol 0.4'
)
# A moving test picture, from ffmpeg itself, whole in a file so that the encoders alone are counted.
VIDEO = "ffmpeg -nostdin -loglevel error -f lavfi -i testsrc2=size=640x360:rate=25 -t 3 -pix_fmt yuv420p -y video.y4m"
# What is hashed must not hold when it was made, nor by which version.
EXACT = "-fflags +bitexact -flags:v +bitexact -flags:a +bitexact -map_metadata -1"


def tool(name: str, apt: str, command: str, prepare: str = "", file: str = "", text: str = "", one_cpu: bool = False) -> Row:
    files = {file: tidy(text)} if file else {}
    return Row(name, "tools", command, apt=tuple(apt.split()), prepare=prepare, files=files, one_cpu=one_cpu)


def packer(name: str, apt: str, pack: str, unpack: str, text: str = TEXT) -> Row:
    """A compressor: what it writes, and whether it reads that back."""
    command = f'{pack} <"$KIT/text" >packed && sha256sum <packed && {unpack} <packed | cmp - "$KIT/text" && echo back'
    return tool(name, apt, command, text)


def ffmpeg(name: str, options: str, sound: bool = False) -> Row:
    source, prepare, apt = ("sound.wav", SOUND, "ffmpeg sox") if sound else ("video.y4m", VIDEO, "ffmpeg")
    command = f'exec ffmpeg -nostdin -loglevel error -i "$KIT/{source}" {EXACT} {options} -f framemd5 -'
    return tool(name, apt, command, prepare)


ROWS: list[Row] = [
    packer("xz", "xz-utils", "xz -4 -T1", "xz -d"),
    packer("xz-threads", "xz-utils", "xz -2 -T2 --block-size=1MiB", "xz -d -T2", LONG),
    packer("zstd", "zstd", "zstd -q -15", "zstd -q -d"),
    packer("zstd-threads", "zstd", "zstd -q -12 -T2 -B1MiB", "zstd -q -d", LONG),
    packer("gzip", "gzip", "gzip -n -9", "gzip -d"),
    packer("bzip2", "bzip2", "bzip2 -9", "bzip2 -d"),
    packer("pigz", "pigz", "pigz -n -p 2", "pigz -d", LONG),
    packer("lbzip2", "lbzip2", "lbzip2 -n 2", "lbzip2 -n 2 -d", LONG),
    packer("brotli-tool", "brotli", "brotli -q 7 -c", "brotli -d -c", LONG),
    packer("lz4-tool", "lz4", "lz4 -q -9", "lz4 -q -d", LONG),
    tool("7z", "p7zip-full", '7z a -bd -mx=5 -mmt=2 -mtm=off a.7z "$KIT/text" >log && 7z x -so a.7z | cmp - "$KIT/text" && echo back', TEXT),
    tool("tar", "tar zstd", 'tar -C "$KIT" --sort=name --mtime=@0 --owner=0 --group=0 --zstd -cf a.tar.zst tree && sha256sum a.tar.zst && tar -xf a.tar.zst && find tree -type f | wc -l',
         'mkdir tree; for i in $(seq 1500); do head -c $((i * 37 % 9000)) /dev/zero | tr "\\0" "$((i % 9))" >tree/f$i; done'),
    tool("sort", "coreutils", 'tr " " "\\n" <"$KIT/text" | sort --parallel=2 -S 20M -T . | uniq -c | sort -k1,1nr -k2 | sha256sum', LONG),
    tool("grep", "grep", 'for i in 1 2 3 4 5 6; do LC_ALL=C.UTF-8 grep -ciE "(word|some)1?[0-9]{2}7 .*some$i" "$KIT/text"; done', LONG),
    tool("ripgrep", "ripgrep", 'for i in $(seq 12); do rg -c -j2 "(word|some)\\d+7 .*some$i" "$KIT/tree" | sort | sed "s/.*tree//" | sha256sum; done',
         "mkdir tree; for i in $(seq 60); do seq $i 20000 | sed 's/^/word17 some/' >tree/f$i; done"),
    tool("fd", "fd-find", 'for i in $(seq 10); do fdfind -j2 "f.*7$" "$KIT/tree" | sort | sed "s/.*tree//" | sha256sum; done',
         "for i in $(seq 60); do mkdir -p tree/d$i; (cd tree/d$i && touch $(seq -f f%.0f 400)); done"),
    tool("sqlite3", "sqlite3", 'exec sqlite3 a.db <"$KIT/main.sql"', "", "main.sql", """
        pragma cache_size = -4000;
        create table t(a integer primary key, b text, c integer);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) insert into t select i, hex(i * 7919), i * 31 % 1009 from n;
        create index x on t(c, b);
        select c, count(*), max(b) from t group by c order by 2 desc, 1 limit 3;
        delete from t where a % 3 = 0;
        vacuum;
        select count(*), sum(length(b)) from t where b like '%3937%';
        pragma integrity_check;
    """),
    tool("git", "git", """
        export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
        git init -q -b main one && cd one && git config gc.auto 0
        for i in $(seq 8); do
            for k in $(seq 20); do seq $i $((i * k + 50)) >f$k; done
            git add . && git commit -qm "change $i"
        done
        git gc -q --aggressive && git fsck --strict 2>/dev/null
        git clone -q . ../two && cd ../two && git log --stat --oneline | sha256sum && git grep -c 77 | tail -n 1 && git blame -s f20 | sha256sum
    """),
    tool("git-pack", "git", 'for i in 1 2 3; do git -C "$KIT/big" pack-objects --stdout --threads=2 --no-reuse-delta --window=20 --all </dev/null >pack; done; git init -q x && git -C x index-pack --stdin <pack >/dev/null && git verify-pack -v x/.git/objects/pack/*.idx | grep -c blob', """
        export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
        git init -q -b main big && cd big && git config gc.auto 0
        for i in $(seq 30); do for k in $(seq 20); do seq $((i * k)) $((i * k + 2000)) >f$k; done; git add . && git commit -qm "$i"; done
    """),
    tool("mercurial", "mercurial", 'hg init r && cd r && for i in 1 2; do for k in $(seq 30); do seq $i $((i * k + 500)) >f$k; done; hg -q addremove && hg commit -q -u a -d "0 0" -m $i; done; hg log --template "{node}\\n"; hg verify -q && echo whole'),
    tool("subversion", "subversion", 'svnadmin create r && svn checkout -q "file://$WORK/r" w && cd w && for i in 1 2 3 4; do for k in $(seq 40); do seq $i $((i * k + 500)) >f$k; done; svn add -q --force . && svn commit -q -m $i; done; svn update -q && svnlook youngest ../r && svn cat -r 2 f7 | sha256sum && svnadmin verify -q ../r'),
    tool("fossil", "fossil", 'fossil init -A a r.fossil >/dev/null && mkdir w && cd w && fossil open ../r.fossil --user a >/dev/null && for i in 1 2 3 4; do for k in $(seq 40); do seq $i $((i * k + 500)) >f$k; done; fossil addremove >/dev/null; fossil commit --no-warnings -m $i --user-override a >/dev/null; done; fossil ls | wc -l; fossil test-integrity ../r.fossil | tail -n 1'),
    tool("borg", "borgbackup", 'export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes; borg init -e none r && cd "$KIT" && borg create --compression zstd,3 "$WORK/r::a" text && borg check "$WORK/r" && cd "$WORK" && borg extract r::a && cmp text "$KIT/text" && echo back', TEXT),
    tool("openssl-enc", "openssl", 'for i in 1 2 3 4 5; do openssl enc -aes-256-ctr -pbkdf2 -iter 100000 -S 0102030405060708 -k word -in "$KIT/text" | openssl sha3-256; done', TEXT),
    tool("openssl-sign", "openssl", 'for i in $(seq 40); do openssl dgst -sha256 -sign "$KIT/k.pem" -out s "$KIT/k.pem" && openssl dgst -sha256 -verify "$KIT/p.pem" -signature s "$KIT/k.pem"; done | sort | uniq -c; openssl prime 2147483647',
         "openssl genrsa -out k.pem 4096 && openssl rsa -in k.pem -pubout -out p.pem"),
    tool("gpg", "gpg gpg-agent", 'mkdir -m 700 g && export GNUPGHOME=$WORK/g && gpg -q --batch --pinentry-mode loopback --passphrase word --s2k-count 65011712 --compress-algo none -c -o a.gpg "$KIT/text" && gpg -q --batch --pinentry-mode loopback --passphrase word -d a.gpg | cmp - "$KIT/text" && gpg -q --batch --passphrase "" --quick-generate-key a@b.c future-default 2>/dev/null && gpg -q --batch -r a@b.c --trust-model always -e <"$KIT/text" | gpg -q --batch -d 2>/dev/null | cmp - "$KIT/text" && echo back; gpgconf --kill all', TEXT),
    tool("x264", "x264 ffmpeg", 'x264 --quiet --threads 2 --preset fast -o a.264 "$KIT/video.y4m" 2>/dev/null && sha256sum a.264', VIDEO),
    tool("x265", "x265 ffmpeg", 'x265 --log-level none --pools 2 -F 1 --no-wpp --preset ultrafast --y4m "$KIT/video.y4m" -o a.265 2>/dev/null && sha256sum a.265', VIDEO),
    ffmpeg("ffmpeg-vp9", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -threads 2 -b:v 500k"),
    ffmpeg("ffmpeg-av1", "-frames:v 20 -c:v libaom-av1 -usage realtime -cpu-used 8 -threads 2 -b:v 300k"),
    ffmpeg("ffmpeg-mpeg4", "-vf scale=1280:720,hqdn3d -c:v mpeg4 -threads 2 -q:v 5"),
    ffmpeg("ffmpeg-aac", "-c:a aac -b:a 128k", sound=True),
    tool("lame", "lame sox", 'lame --quiet "$KIT/sound.wav" a.mp3 && sha256sum a.mp3 && lame --quiet --decode a.mp3 - | sha256sum', SOUND),
    tool("opus", "opus-tools sox", 'opusenc --quiet --serial 1 --discard-comments "$KIT/sound.wav" a.opus && opusdec --quiet --force-wav --no-dither a.opus - 2>/dev/null | wc -c', SOUND),
    tool("flac", "flac sox", 'flac -s -8 "$KIT/sound.wav" -o a.flac && sha256sum a.flac && flac -s -d a.flac -c | cmp - "$KIT/sound.wav" && echo back', SOUND),
    tool("sox", "sox", 'exec sox -R "$KIT/sound.wav" -t raw - rate -v 48000 reverb 50 tempo 1.3 norm -1 | sha256sum', SOUND),
    tool("espeak", "espeak-ng", 'for i in $(seq 12); do espeak-ng --stdout "the number $i of many words that are said aloud, one after the other" | sha256sum; done'),
    tool("imagemagick", "imagemagick", 'for i in 1 2 3; do convert -size 900x700 gradient:red-blue -swirl 120 -blur 0x$i -rotate 17 -resize 600x +dither -colors 64 -depth 8 rgb:- | sha256sum; done'),
    tool("graphicsmagick", "graphicsmagick", 'for i in 1 2 3; do gm convert -size 900x700 gradient:red-blue -swirl 120 -blur 0x$i -resize 600x -depth 8 rgb:- | sha256sum; done'),
    tool("webp", "webp imagemagick", 'cwebp -quiet -mt -m 4 "$KIT/a.png" -o a.webp && sha256sum a.webp && dwebp -quiet a.webp -ppm -o - | sha256sum', "convert -size 1600x1200 plasma:red-blue -seed 7 -depth 8 a.png"),
    tool("librsvg", "librsvg2-bin", 'for i in 1 2 3; do rsvg-convert -w 1200 "$KIT/a.svg" | sha256sum; done',
         '(echo "<svg xmlns=\'http://www.w3.org/2000/svg\' width=\'1000\' height=\'1000\'>"; for i in $(seq 3000); do echo "<circle cx=\'$((i * 7919 % 1000))\' cy=\'$((i * 104729 % 1000))\' r=\'$((i % 40))\' fill=\'#$((i % 9))$((i % 7))f\' opacity=\'.5\'/>"; done; echo "</svg>") >a.svg'),
    tool("ghostscript", "ghostscript", 'gs -q -dBATCH -dNOPAUSE -dSAFER -sDEVICE=ppmraw -r100 -sOutputFile=- "$KIT/a.ps" | sha256sum; gs -q -dBATCH -dNOPAUSE -sDEVICE=pdfwrite -sOutputFile=a.pdf "$KIT/a.ps" && gs -q -dBATCH -dNOPAUSE -sDEVICE=txtwrite -sOutputFile=- a.pdf | sha256sum',
         "", "a.ps", """
        %!PS
        /Times-Roman findfont 11 scalefont setfont
        1 1 12 { pop
          0 1 60 { /n exch def 50 720 n 11 mul sub moveto 0 1 12 { n mul 97 mod 20 string cvs show ( some words ) show } for } for
          0 1 200 { /n exch def n 200 div 0 1 setrgbcolor n 3 mul 100 n 2 mul add 20 0 360 arc fill } for
          showpage } for
    """),
    tool("poppler", "poppler-utils ghostscript", 'pdftotext "$KIT/a.pdf" - | sha256sum; pdftoppm -r 60 "$KIT/a.pdf" | sha256sum; pdfinfo "$KIT/a.pdf" | grep Pages',
         "gs -q -dBATCH -dNOPAUSE -sDEVICE=pdfwrite -sOutputFile=a.pdf a.ps", "a.ps", """
        %!PS
        /Times-Roman findfont 11 scalefont setfont
        1 1 30 { pop
          0 1 60 { /n exch def 50 720 n 11 mul sub moveto 0 1 12 { n mul 97 mod 20 string cvs show ( some words ) show } for } for
          showpage } for
    """),
    tool("mupdf", "mupdf-tools ghostscript", 'mutool draw -q -r 60 -F ppm -o a.ppm "$KIT/a.pdf" && sha256sum a.ppm && mutool draw -q -F text "$KIT/a.pdf" 2>/dev/null | sha256sum',
         "gs -q -dBATCH -dNOPAUSE -sDEVICE=pdfwrite -sOutputFile=a.pdf a.ps", "a.ps", """
        %!PS
        /Times-Roman findfont 11 scalefont setfont
        1 1 30 { pop
          0 1 60 { /n exch def 50 720 n 11 mul sub moveto 0 1 12 { n mul 97 mod 20 string cvs show ( some words ) show } for } for
          showpage } for
    """),
    tool("povray", "povray", 'povray -D -WT2 +W320 +H240 +A0.3 -J +FP +Oa.ppm "$KIT/a.pov" >log 2>&1 && tail -c 230400 a.ppm | sha256sum', "", "a.pov", """
        #version 3.7;
        global_settings { assumed_gamma 1 }
        camera { location <0, 3, -9> look_at 0 }
        light_source { <9, 9, -9> rgb 1 }
        plane { y, -1 pigment { checker rgb 1 rgb 0.2 } }
        #for (i, 0, 60)
          sphere { <mod(i * 7, 11) - 5, mod(i, 3), mod(i * 5, 9) - 3>, 0.5 pigment { rgb <i / 60, 0.5, 1> } finish { reflection 0.3 } }
        #end
    """),
    tool("gnuplot", "gnuplot-nox", 'for i in 1 2 3 4 5 6; do gnuplot "$KIT/a.gp" | sha256sum; done', "", "a.gp", """
        set terminal svg size 900,700
        set samples 3000
        set isosamples 60
        plot sin(x * 30) / x, cos(x) ** 3
        set samples 60
        splot sin(x) * cos(y) with pm3d
    """),
    tool("graphviz", "graphviz", 'dot -Tsvg "$KIT/a.dot" | sha256sum; neato -Tplain "$KIT/a.dot" | wc -l',
         '(echo "digraph g {"; for i in $(seq 300); do echo "n$i -> n$((i / 2)); n$i -> n$((i / 3));"; done; echo "}") >a.dot'),
    tool("jq", "jq", """jq -c '[.[] | select(.a % 3 == 0) | {k: (.a % 7), s: .b}] | group_by(.k) | map({k: .[0].k, n: length, l: (map(.s | length) | add)})' "$KIT/a.json" """,
         """awk 'BEGIN { printf "["; for (i = 0; i < 60000; i++) printf "%s{\\"a\\":%d,\\"b\\":\\"text %d\\"}", (i ? "," : ""), i, i * 7919; print "]" }' >a.json"""),
    tool("pandoc", "pandoc", 'pandoc -f markdown -t html "$KIT/a.md" | sha256sum; pandoc -f markdown -t latex "$KIT/a.md" | sha256sum',
         "for i in $(seq 250); do printf '# Title %d\\n\\nSome *words* and `code`[^%d].\\n\\n- one\\n- two\\n\\n[^%d]: a note\\n\\n' $i $i $i; done >a.md"),
    tool("tesseract", "tesseract-ocr tesseract-ocr-eng imagemagick fonts-dejavu-core", 'OMP_THREAD_LIMIT=1 tesseract "$KIT/a.png" - 2>/dev/null', "convert -size 900x200 -background white -fill black -font DejaVu-Sans -pointsize 28 label:'The quick brown fox jumps\\nover the lazy dog 12345' a.png"),
    tool("ledger", "ledger", 'exec ledger -f "$KIT/a.ledger" balance', "for i in $(seq 12000); do printf '2024/01/%02d shop %d\\n  Expenses:Kind%d  $%d.%02d\\n  Assets:Cash\\n\\n' $((i % 28 + 1)) $i $((i % 40)) $i $((i % 100)); done >a.ledger"),
    tool("maxima", "maxima", """exec maxima --very-quiet --batch-string='display2d:false$ print(nterms(expand((x+y+z)^70)))$ print(factor(x^210-1))$' """),
    tool("z3", "z3", 'for i in $(seq 10); do z3 smt.random_seed=$i "$KIT/a.smt2"; done', """
        (echo '(set-logic QF_LIA)'; for i in $(seq 0 9); do echo "(declare-const q$i Int) (assert (and (>= q$i 0) (< q$i 10)))"; done
        for i in $(seq 0 9); do for j in $(seq $((i + 1)) 9); do echo "(assert (and (not (= q$i q$j)) (not (= (- q$i q$j) $((j - i)))) (not (= (- q$j q$i) $((j - i))))))"; done; done
        echo '(check-sat)') >a.smt2"""),
    tool("cvc5", "cvc5", 'for i in $(seq 20); do cvc5 --seed $i "$KIT/a.smt2"; done', """
        (echo '(set-logic QF_BV)'; echo '(declare-const a (_ BitVec 18)) (declare-const b (_ BitVec 18))'
        echo '(assert (= (bvmul a b) (_ bv131071 18))) (assert (bvugt a (_ bv1 18))) (assert (bvugt b a)) (assert (bvult b (_ bv4096 18)))'
        echo '(check-sat)') >a.smt2"""),
    tool("minisat", "minisat", 'minisat -verb=0 "$KIT/a.cnf" >log; tail -n 1 log',
         """awk 'BEGIN { p = 9; h = 8; printf "p cnf %d %d\\n", p * h, p + h * p * (p - 1) / 2; for (i = 0; i < p; i++) { for (k = 1; k <= h; k++) printf "%d ", i * h + k; print 0 } for (k = 1; k <= h; k++) for (i = 0; i < p; i++) for (j = i + 1; j < p; j++) print -(i * h + k), -(j * h + k), 0 }' >a.cnf"""),
    tool("glpk", "glpk-utils", 'exec glpsol --math "$KIT/a.mod" | grep -E "^(best|Model)"', "", "a.mod", """
        param n := 34;
        set I := 1..n;
        param w{i in I} := 20 + (i * 7919) mod 61;
        param v{i in I} := 15 + (i * 104729) mod 67;
        var x{I} binary;
        var y{I, 1..3} binary;
        maximize total: sum{i in I} v[i] * x[i] + sum{i in I, k in 1..3} v[i] * y[i, k] / k;
        s.t. room: sum{i in I} w[i] * x[i] <= 600;
        s.t. part{k in 1..3}: sum{i in I} w[i] * y[i, k] <= 300 + k;
        s.t. once{i in I}: x[i] + sum{k in 1..3} y[i, k] <= 1;
        solve;
        printf "best %.3f\\n", total;
    """),
    tool("yosys", "yosys", 'yosys -q -p "read_verilog $KIT/a.v; synth -top top; write_json a.json" && grep -c "\\"type\\"" a.json', "", "a.v", """
        module top(input clk, input [31:0] a, b, output reg [31:0] q);
          reg [31:0] m [0:7];
          wire [31:0] s = (a * b) ^ (a + m[b[2:0]]);
          always @(posedge clk) begin q <= s; m[a[2:0]] <= q; end
        endmodule
    """),
    tool("coq", "coq", 'cp "$KIT/a.v" . && coqc -q a.v', "", "a.v", """
        Require Import Arith List Lia.
        Import ListNotations.
        Lemma one : forall a b c : nat, a < b -> b < c -> a + 1 < c + 5. Proof. intros; lia. Qed.
        Lemma two : forall (l m : list nat), length (l ++ m) = length m + length l. Proof. intros; rewrite app_length; lia. Qed.
        Fixpoint f n := match n with 0 => 1 | S k => f k + f k end.
        Eval vm_compute in f 9.
        Eval compute in map (fun x => x * x) (seq 0 40).
    """),
    tool("cppcheck", "cppcheck", 'exec cppcheck -q --enable=all --suppress=missingIncludeSystem "$KIT/a.c" 2>&1 | sed "s/.*a.c/a.c/" | sha256sum',
         'for i in $(seq 150); do echo "int f$i(int *p, int n) { int a[$i]; int unused = n; if (p) a[0] = *p; for (int k = 0; k <= $i; k++) a[k % $i] += n / (k + 1); return a[n % $i] + *p; }"; done >a.c'),
    tool("ctags", "universal-ctags", 'ctags --sort=yes -f - "$KIT/a.c" | cut -f 1,4- | sha256sum', 'for i in $(seq 60000); do echo "int f$i(int a) { return a + $i; } struct s$i { int x; };"; done >a.c'),
    tool("nasm", "nasm", 'nasm -f elf64 -O2 -o a.o "$KIT/a.asm" && sha256sum a.o', '(echo "bits 64"; for i in $(seq 40000); do echo "l$i: mov rax, [rbx + $i]"; echo "add rax, $((i * 7919))"; echo "jz l$((i * 3 / 4 + 1))"; done) >a.asm'),
    tool("binutils", "binutils gcc", 'for i in $(seq 12); do ld -r -o all.o "$KIT"/*.o && objdump -d all.o | wc -l; done; strip all.o && sha256sum all.o',
         'for i in $(seq 40); do for k in $(seq 60); do echo "int f${i}_$k(int *a) { return a[$k] * $i + a[0]; }"; done >a$i.c; gcc -g -O1 -c a$i.c; done'),
    tool("make", "make gcc", 'cp "$KIT"/* . && make -s -j2 && ./all',
         'for i in $(seq 16); do echo "int f$i(int a) { return a * $i; }" >f$i.c; done; (echo "int main(void) { return __builtin_printf(\\"made\\\\n\\") != 5; }") >main.c; printf "all: main.o %s\\n\\t\\$(CC) -o all \\$^\\n" "$(seq -s " " -f f%.0f.o 16)" >Makefile'),
    tool("gdb", "gdb gcc", 'exec gdb -q -nx -batch -ex "set debuginfod enabled off" -ex "set startup-with-shell off" -ex "break f if n == 300" -ex run -ex "print n" -ex "print sum" -ex "info args" -ex kill "$KIT/main" 2>/dev/null | grep -E "^([$]|n =)"',
         "gcc -g -O0 -o main main.c", "main.c", """
        long sum;
        void f(int n) { sum += n; }
        int main(void) { for (int i = 0; i < 1000; i++) f(i); return 0; }
    """),
    tool("valgrind", "valgrind gcc libc6-dbg", 'exec valgrind -q --error-exitcode=0 --leak-check=summary "$KIT/main" 2>&1 | sed "s/==[0-9]*==//" | grep -E "lost|sum"',
         "gcc -g -O1 -o main main.c", "main.c", """
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
            long sum = 0;
            for (int i = 0; i < 60000; i++) {
                char *p = calloc(1, 10 + i % 3000);
                p[5] = (char)i;
                sum += p[5];
                if (i % 10000) free(p);
            }
            printf("sum %ld\\n", sum);
        }
    """),
    tool("strace", "strace", """strace -f -qq -e trace=write -e signal=none -o log sh -c 'for i in $(seq 150); do echo $i | cat; done' | tail -n 1; grep -c 'write(1' log""", one_cpu=True),
    tool("asan", "gcc libasan8", 'ASAN_OPTIONS=verify_asan_link_order=0 exec "$KIT/main"', "gcc -g -O0 -fsanitize=address -o main main.c", "main.c", """
        #include <stdio.h>
        #include <stdlib.h>
        int main(void) {
            long sum = 0;
            for (int i = 0; i < 400000; i++) {
                char *p = malloc(10 + i % 3000);
                p[5] = (char)i;
                sum += p[5];
                free(p);
            }
            printf("%ld\\n", sum);
        }
    """),
    tool("qemu-user", "qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross", 'exec qemu-aarch64 "$KIT/main"', "aarch64-linux-gnu-gcc -O2 -static -pthread -o main main.c", "main.c", """
        #include <pthread.h>
        #include <stdio.h>
        #include <string.h>
        #include <sys/mman.h>
        static void *work(void *k) {
            size_t sum = 0;
            for (int i = 0; i < 3000; i++) {
                size_t size = 4096 * (1 + i * 31 % 64);
                char *p = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                sum += p[0] + p[size - 1] + 1;
                memset(p, 1, size);
                if (i % 3 == 0) { madvise(p, size, MADV_DONTNEED); sum += p[7]; }
                munmap(p, size);
            }
            return (void *)(sum + (size_t)k);
        }
        int main(void) {
            pthread_t t[2];
            for (size_t k = 0; k < 2; k++) pthread_create(&t[k], 0, work, (void *)k);
            for (int k = 0; k < 2; k++) { void *r; pthread_join(t[k], &r); printf("%zu\\n", (size_t)r); }
        }
    """),
    tool("qemu-img", "qemu-utils", 'qemu-img create -q -f qcow2 a.qcow2 200M && qemu-io -c "write -P 7 1M 40M" -c "write -P 9 100M 20M" a.qcow2 >/dev/null && qemu-img convert -c -O qcow2 a.qcow2 b.qcow2 && qemu-img compare a.qcow2 b.qcow2 && qemu-img check b.qcow2 | tail -n 1 | wc -l'),
    tool("qemu-system", "qemu-system-x86 nasm", 'timeout 60 qemu-system-x86_64 -accel tcg -M pc -m 128 -nodefaults -nographic -no-reboot -debugcon file:said -device isa-debug-exit,iobase=0xf4,iosize=4 -drive file="$KIT/boot",format=raw,snapshot=on; echo "exit $?"; cat said',
         "nasm -f bin -o boot boot.asm", "boot.asm", """
        ; A boot sector that writes over its memory for a while, and says so on the debug port.
        bits 16
        org 0x7c00
            mov dx, 0xe9
            mov bp, 60
        again:
            mov ax, 0x2000
            mov es, ax
            xor di, di
        fill:
            mov cx, 200
        spin:
            loop spin
            stosw
            inc ax
            test di, di
            jnz fill
            mov al, '.'
            out dx, al
            dec bp
            jnz again
            mov al, 10
            out dx, al
            mov al, 16
            out 0xf4, al
        halt:
            hlt
            jmp halt
            times 510 - ($ - $$) db 0
            dw 0xaa55
    """),
    tool("busybox", "busybox-static", 'busybox sh -c \'seq 100000 | busybox awk "{ s += \\$1 * 7919 % 1009 } END { print s }"; seq 60000 | busybox sort -r | busybox sha256sum\''),
    tool("bc", "bc", 'echo "scale=1500; 4*a(1); e(1)" | BC_LINE_LENGTH=0 bc -l | sha256sum'),
    tool("rsync", "rsync", 'rsync -a --no-owner --no-group "$KIT/tree/" a/ && touch -d @7 a/f7 && rsync -ac --no-owner --no-group --stats "$KIT/tree/" a/ | grep -E "Number of (files|regular)" && diff -r "$KIT/tree" a && echo same',
         'mkdir tree; for i in $(seq 3000); do head -c $((i * 37 % 9000)) /dev/zero | tr "\\0" "$((i % 9))" >tree/f$i; done'),
    tool("vim", "vim-nox", 'cp "$KIT/text" . && vim -Nu NONE -n -es -c "%s/word\\(\\d\\+\\)/\\1x/g" -c "g/7x/m0" -c "wq" text; sha256sum text', TEXT),
    tool("emacs", "emacs-nox", 'exec emacs -Q --batch -l "$KIT/a.el" 2>/dev/null', "", "a.el", """
        (let ((m (make-hash-table)) (total 0))
          (dotimes (n 300000)
            (puthash (% (* n 7919) 5003) (make-string (% n 300) ?x) m)
            (setq total (+ total (length (gethash 0 m)))))
          (with-temp-buffer
            (dotimes (n 20000) (insert (format "line %d\\n" n)))
            (goto-char 1)
            (while (re-search-forward "line \\\\([0-9]+\\\\)7" nil t) (replace-match "\\\\1"))
            (princ (format "%d %d\\n" total (buffer-size)))))
    """),
]
