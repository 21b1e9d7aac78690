"""Takes the ELF kernel out of a bzImage: QEMU starts it at once (PVH), and no guest has to unpack it in emulation.

usage: extract-vmlinux.py VMLINUZ VMLINUX
"""
import ctypes
import lzma
import struct
import subprocess
import sys

LZ4_BLOCK_BYTES = 8 << 20


def unpack_lz4(payload):
    """The legacy frame, as lz4 -l writes it: a magic number, then blocks, each with its packed size before it."""
    library = ctypes.CDLL("liblz4.so.1")
    block = ctypes.create_string_buffer(LZ4_BLOCK_BYTES)
    unpacked = bytearray()
    at = 4
    while at + 4 <= len(payload):
        size = struct.unpack_from("<I", payload, at)[0]
        got = library.LZ4_decompress_safe(payload[at + 4 : at + 4 + size], block, size, LZ4_BLOCK_BYTES)
        if got <= 0:
            sys.exit("the kernel is damaged")
        unpacked += block.raw[:got]
        at += 4 + size
    return bytes(unpacked)


source, target = sys.argv[1:]
with open(source, "rb") as file:
    image = file.read()
# Documentation/arch/x86/boot.rst: setup_sects at 0x1f1, payload_offset and payload_length at 0x248.
start = ((image[0x1F1] or 4) + 1) * 512
offset, length = struct.unpack_from("<II", image, 0x248)
payload = image[start + offset : start + offset + length]
# The last four bytes are the size of the unpacked kernel.
if payload[:4] == b"\x28\xb5\x2f\xfd":
    unpacked = subprocess.run(["zstd", "-dc"], input=payload[:-4], stdout=subprocess.PIPE, check=True).stdout
elif payload[:4] == b"\x02\x21\x4c\x18":
    unpacked = unpack_lz4(payload[:-4])
elif payload[:6] == b"\xfd7zXZ\0":
    unpacked = lzma.decompress(payload[:-4], lzma.FORMAT_XZ)
else:
    sys.exit("the kernel is packed with none of zstd, lz4 and xz")
if unpacked[:4] != b"\x7fELF":
    sys.exit("the payload is no ELF file")
with open(target, "wb") as file:
    file.write(unpacked)
