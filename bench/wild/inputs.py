#!/usr/bin/env python3
"""What the programs of this trial read, the same each time: `inputs.py KIND [SIZE]` writes it to standard output.

Nothing is fetched, and chance has a fixed seed; each kind says what its size is.
"""

import random
import struct
import sys

SEED = 7919
WORDS = 5000
# Rows repeat what so many draws gave, in another order each time: drawing each anew would take minutes.
DRAWN = 20000


def words(chance: random.Random) -> list[str]:
    letters = "etaoinshrdlucmfwypvbgk"
    return ["".join(chance.choices(letters, k=chance.randint(2, 11))) for _ in range(WORDS)]


def text(chance: random.Random, size: int, write) -> None:
    """Lines of words and numbers, of so many MB: the frequent words stand first, as in prose."""
    known = words(chance)
    weights = [1 / (rank + 2) for rank in range(WORDS)]
    lines = []
    for number in range(DRAWN):
        drawn = chance.choices(known, weights, k=chance.randint(5, 14))
        lines.append(" ".join(drawn) + f" {number * SEED % 100003}\n")
    left = size * 1_000_000
    while left > 0:
        chance.shuffle(lines)
        block = "".join(lines)[:left]
        write(block.encode())
        left -= len(block)


def csv(chance: random.Random, size: int, write) -> None:
    """A table of so many thousand rows: a key, a name, three numbers, a day."""
    known = words(chance)
    write(b"id,name,city,amount,rate,day\n")
    rest = []
    for _ in range(DRAWN):
        name, city = known[chance.randrange(WORDS)], known[chance.randrange(200)]
        day = f"2025-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
        rest.append(f",{name},{city},{chance.randrange(100000)},{chance.random():.6f},{day}\n")
    for first in range(0, size * 1000, 1000):
        if first % DRAWN == 0:
            chance.shuffle(rest)
        write("".join(f"{row}{rest[row % DRAWN]}" for row in range(first, first + 1000)).encode())


def xml(chance: random.Random, size: int, write) -> None:
    """A document of so many thousand records, with attributes and text."""
    known = words(chance)
    write(b"<?xml version='1.0'?>\n<records>\n")
    drawn = [(known[chance.randrange(WORDS)], " ".join(chance.choices(known, k=6))) for _ in range(DRAWN)]
    for row in range(size * 1000):
        name, note = drawn[row * SEED % DRAWN]
        write(f"<record id='{row}' kind='{row % 17}'><name>{name}</name><note>{note}</note></record>\n".encode())
    write(b"</records>\n")


def wav(chance: random.Random, size: int, write) -> None:
    """So many seconds of sound, 16 bits, two channels: a walk by chance."""
    frames = size * 44100
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + frames * 4, b"WAVE", b"fmt ", 16, 1, 2, 44100, 176400, 4, 16, b"data", frames * 4)
    write(header)
    level = 0
    second = bytearray()
    for _ in range(44100):
        level = max(-30000, min(30000, level + chance.randint(-900, 900)))
        second += struct.pack("<hh", level, -level // 2)
    for _ in range(size):
        write(bytes(second))


def ppm(chance: random.Random, size: int, write) -> None:
    """A picture of so many hundred columns, two thirds as high: noise on a slope."""
    width, height = size * 100, size * 200 // 3
    write(f"P6\n{width} {height}\n255\n".encode())
    noise = chance.randbytes(width * 3 + 4096)
    shades = [bytes((value >> 2) + shade * 3 // 4 for value in range(256)) for shade in range(256)]
    for row in range(height):
        start = row * 37 % 4096
        write(noise[start : start + width * 3].translate(shades[row * 255 // height]))


def fasta(chance: random.Random, size: int, write) -> None:
    """A genome of so many thousand bases, with repeats."""
    base = "".join(chance.choices("ACGT", k=size * 800))
    start = [chance.randrange(len(base) - 2000) for _ in range(size // 10)]
    genome = base + "".join(base[at : at + 2000] for at in start)
    write(b">genome\n")
    for at in range(0, len(genome), 80):
        write(genome[at : at + 80].encode() + b"\n")


def reads(chance: random.Random, size: int, write) -> None:
    """So many reads of that genome of 4,000 thousand bases, 5,000 bases long, one base of twelve wrong."""
    collected = bytearray()
    fasta(random.Random(SEED), 4000, collected.extend)
    genome = collected.decode().split("\n", 1)[1].replace("\n", "")
    for number in range(size):
        at = chance.randrange(len(genome) - 5000)
        bases = [chance.choice("ACGT") if chance.randrange(12) == 0 else one for one in genome[at : at + 5000]]
        write(f">read{number}\n{''.join(bases)}\n".encode())


def proteins(chance: random.Random, size: int, write) -> None:
    """So many sequences of amino acids, of 300 to 500."""
    for number in range(size):
        sequence = "".join(chance.choices("ACDEFGHIKLMNPQRSTVWY", k=chance.randint(300, 500)))
        write(f">p{number}\n{sequence}\n".encode())


def sql(chance: random.Random, size: int, write) -> None:
    """A table of so many thousand rows, filled and asked in the SQL that all engines here share."""
    known = words(chance)
    write(b"create table t(id int primary key, name varchar(40), amount int, note varchar(200));\n")
    drawn = [f"'{known[chance.randrange(WORDS)]}',{chance.randrange(100000)},'{' '.join(chance.choices(known, k=10))}'" for _ in range(DRAWN)]
    for first in range(0, size * 1000, 100):
        values = [f"({row},{drawn[row * SEED % DRAWN]})" for row in range(first, first + 100)]
        write(f"insert into t values {','.join(values)};\n".encode())
    write(b"create index byname on t(name, amount);\n")
    write(b"update t set amount = amount + 1 where id % 3 = 0;\n")
    for _ in range(3):
        write(b"select name, count(*), sum(amount), max(note) from t group by name order by 3 desc limit 3;\n")
    write(b"select count(*) from t a join t b on a.name = b.name where a.amount < b.amount and a.id % 20 = 0;\n")
    write(b"delete from t where id % 2 = 0;\n")
    write(b"select count(*), sum(amount) from t;\n")


def postscript(chance: random.Random, size: int, write) -> None:
    """So many pages of text and filled circles."""
    write(b"%!PS\n/Times-Roman findfont 11 scalefont setfont\n")
    known = words(chance)
    for _ in range(size):
        for line in range(60):
            write(f"50 {40 + line * 12} moveto ({' '.join(chance.choices(known, k=9))}) show\n".encode())
        for _ in range(150):
            x, y, shade = chance.randrange(600), chance.randrange(800), chance.random()
            write(f"{shade:.3f} 0 1 setrgbcolor {x} {y} 20 0 360 arc fill\n".encode())
        write(b"0 setgray showpage\n")


KINDS = {one.__name__: one for one in (text, csv, xml, wav, ppm, fasta, reads, proteins, sql, postscript)}


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
        sys.exit(f"inputs.py KIND SIZE, with a kind of {', '.join(KINDS)}")
    KINDS[sys.argv[1]](random.Random(SEED), int(sys.argv[2]), sys.stdout.buffer.write)


main()
