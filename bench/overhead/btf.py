"""A copy of the kernel's type information (BTF) in which one member of a structure has an older name.

Programs that are compiled once and run everywhere (CO-RE) find members by name. Linux 6.15 renamed
`kernfs_node.parent` to `__parent`, and Rezolus 5.4.0, which looks for the old name, does not load there.
It can be told to read type information from a file: this one.
"""

import pathlib
import struct

KERNEL = pathlib.Path("/sys/kernel/btf/vmlinux")
HEADER = struct.Struct("<HBBIIIII")
# name, kind and count, size or type; include/uapi/linux/btf.h
TYPE = struct.Struct("<III")
MEMBER_SIZE = 12
STRUCT = 4
# What follows a type of each kind: (bytes once, bytes for each of its count)
TAILS = {1: (4, 0), 3: (12, 0), STRUCT: (0, MEMBER_SIZE), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0),
         15: (0, 12), 17: (4, 0), 19: (0, 12)}


def with_older_name(structure: str, member: str, older: str) -> bytes | None:
    """The kernel's BTF with the member renamed to an ending of its own name; None if it has no such member."""
    if not member.endswith(older):
        raise ValueError(f"{older} is no ending of {member}, so the string is not there")
    data = bytearray(KERNEL.read_bytes())
    _, _, _, header_len, type_off, type_len, str_off, _ = HEADER.unpack_from(data)
    at, end, strings = header_len + type_off, header_len + type_off + type_len, header_len + str_off

    def name(offset: int) -> str:
        start = strings + offset
        return data[start:data.index(0, start)].decode()

    while at < end:
        name_off, info, _ = TYPE.unpack_from(data, at)
        kind, count = info >> 24 & 0x1F, info & 0xFFFF
        at += TYPE.size
        if kind == STRUCT and name(name_off) == structure:
            for field in range(at, at + count * MEMBER_SIZE, MEMBER_SIZE):
                (field_name,) = struct.unpack_from("<I", data, field)
                if name(field_name) == member:
                    struct.pack_into("<I", data, field, field_name + len(member) - len(older))
                    return bytes(data)
        once, each = TAILS.get(kind, (0, 0))
        at += once + each * count
    return None
