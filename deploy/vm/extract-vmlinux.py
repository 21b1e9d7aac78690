"""Takes the ELF kernel out of a bzImage: QEMU starts it at once (PVH), and no guest has to unpack it in emulation.

usage: extract-vmlinux.py VMLINUZ VMLINUX
"""
import struct
import subprocess
import sys

source, target = sys.argv[1:]
with open(source, "rb") as file:
    image = file.read()
# Documentation/arch/x86/boot.rst: setup_sects at 0x1f1, payload_offset and payload_length at 0x248.
start = ((image[0x1F1] or 4) + 1) * 512
offset, length = struct.unpack_from("<II", image, 0x248)
payload = image[start + offset : start + offset + length]
if payload[:4] != b"\x28\xb5\x2f\xfd":
    sys.exit("the kernel is not packed with zstd")
# The last four bytes are the size of the unpacked kernel.
unpacked = subprocess.run(["zstd", "-dc"], input=payload[:-4], stdout=subprocess.PIPE, check=True).stdout
if unpacked[:4] != b"\x7fELF":
    sys.exit("the payload is no ELF file")
with open(target, "wb") as file:
    file.write(unpacked)
