set -eu
# Needs the packages lvm2, thin-provisioning-tools (dm-cache) and mdadm (a mirror).
group=  # complete this: the volume group, as in lvs
volume=  # complete this: the volume
@disks
@checks
lvs "$group/$volume"
! lvs --noheadings -o segtype "$group/$volume" | grep cache || { echo "it has a cache" >&2; exit 1; }
! lvs "$group/fast" 2>/dev/null || { echo "$group/fast exists" >&2; exit 1; }
! lsblk -nro MOUNTPOINTS "/dev/$group/$volume" | grep -xE "/|/usr" || { echo "not for the root filesystem: its initramfs may not know the cache" >&2; exit 1; }
@block
@array
vgextend "$group" @path
@cache
# So that no other volume grows onto the rest of the disk:
pvchange --allocatable n @path
# To undo it: lvconvert --uncache "$group/$volume"
