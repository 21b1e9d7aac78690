#!/bin/sh
# Makes what a test guest boots, in a cache that is kept: the kernel and an initramfs. Installs QEMU from Debian when it
# is missing, and says so. Prints the folder.
# usage: sh deploy/vm/prepare.sh [KERNEL_PACKAGE]    default: Debian's 6.12 for clouds
set -eu
here=$(cd "$(dirname "$0")" && pwd)
package=${1:-linux-image-6.12-cloud-amd64}
cache=${AGENTZIP_VM_CACHE:-/var/cache/agentzip-vm}/$package

# One at a time: tests in two guests begin together.
mkdir -p "$cache"
exec 9>"${cache%/*}/lock"
flock 9

modules="drivers/virtio/virtio_ring drivers/virtio/virtio drivers/virtio/virtio_pci_modern_dev
  drivers/virtio/virtio_pci_legacy_dev drivers/virtio/virtio_pci fs/fuse/fuse fs/fuse/virtiofs drivers/block/loop
  drivers/block/ublk_drv drivers/block/nbd lib/lz4/lz4_compress lib/lz4/lz4hc_compress lib/zstd/zstd_compress crypto/lz4
  crypto/zstd mm/zsmalloc drivers/block/zram/zram
  lib/crc16 crypto/crc32c_generic fs/mbcache fs/jbd2/jbd2 fs/ext4/ext4"

missing=
for needed in qemu-system-x86 qemu-system-common busybox-static cpio zstd xz-utils; do
  dpkg-query -W -f='${Status}' "$needed" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $needed"
done
if [ -n "$missing" ]; then
  echo "agentzip: installing from Debian:$missing" >&2
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
fi

# A cache that another list of modules was taken for is made anew.
if [ ! -s "$cache/vmlinux" ] || [ "$(cat "$cache/modules" 2>/dev/null)" != "$modules" ]; then
  rm -f "$cache"/*.ko
  work=$(mktemp -d "$cache/work.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  chmod 755 "$work"
  exact=$(apt-cache depends "$package" | sed -n 's/.*Depends: \(linux-image-[^ ]*\)/\1/p' | head -1)
  echo "agentzip: fetching ${exact:-$package} for the test guest" >&2
  (cd "$work" && apt-get download -qq "${exact:-$package}") >&2
  dpkg -x "$work"/*.deb "$work/root"
  version=$(ls "$work/root/lib/modules")
  number=10
  # In the order in which they need each other; what is not there is built in.
  for module in $modules; do
    number=$((number + 1))
    file=$work/root/lib/modules/$version/kernel/$module.ko
    to=$cache/$number-${module##*/}.ko
    if [ -e "$file" ]; then cp "$file" "$to"; elif [ -e "$file.xz" ]; then xz -dc "$file.xz" >"$to"; fi
  done
  python3 "$here/extract-vmlinux.py" "$work/root/boot/vmlinuz-$version" "$work/vmlinux"
  mv "$work/vmlinux" "$cache/vmlinux"
  echo "$modules" >"$cache/modules"
fi

# Cheap, so made every time: it holds our init.
image=$(mktemp -d "$cache/image.XXXXXX")
mkdir -p "$image/bin" "$image/proc" "$image/sys" "$image/dev" "$image/root" "$image/lib/modules"
cp /bin/busybox "$image/bin/busybox"
for tool in sh mount mkdir insmod cat base64 chroot poweroff; do ln -s busybox "$image/bin/$tool"; done
cp "$cache"/*.ko "$image/lib/modules/"
cp "$here/init" "$image/init"
chmod 755 "$image/init"
(cd "$image" && find . | cpio -o -H newc --quiet) >"$cache/initramfs.$$"
mv "$cache/initramfs.$$" "$cache/initramfs"
rm -rf "$image"
echo "$cache"
