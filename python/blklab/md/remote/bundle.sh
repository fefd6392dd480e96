#!/bin/sh
# Prints what others need to judge the md arrays of a host: the output of mdadm for each array and each disk,
# /proc/mdstat, lsblk, smartctl and the kernel's log about disks. It changes nothing. As root it reads superblocks.
#
#     sh bundle.sh [ROOT] > FILE          ssh HOST sh -s < bundle.sh > FILE
#
# ROOT is the directory of /proc and /sys, by default /. Each output follows the command that printed it.

main() {
    root=${1:-}
    printf 'blklab-bundle 1\n'
    show uname -srm
    show mdadm --version
    show cat "$root/proc/mdstat"
    for array in "$root"/sys/block/*/md; do
        [ -d "$array" ] || continue
        name=${array%/md}
        show mdadm --detail "/dev/${name##*/}"
    done
    for node in "$root"/sys/class/block/*; do
        name=${node##*/}
        case $name in
        '*' | *[!A-Za-z0-9_-]*) continue ;;
        md* | loop*) examine_members "/dev/$name" ;;
        ram* | zram* | sr* | fd*) continue ;;
        *) examine "/dev/$name" ;;
        esac
    done
    show lsblk -P -o NAME,SIZE,TYPE,FSTYPE,MODEL,SERIAL,WWN,ROTA,LOG-SEC,PHY-SEC
    for node in "$root"/sys/block/*; do
        name=${node##*/}
        case $name in
        sd* | nvme*) if [ -e "$node/device" ]; then show smartctl -n standby -i -H -A -l scterc "/dev/$name"; fi ;;
        esac
    done
    printf '$ dmesg\n'
    dmesg 2>&1 </dev/null |
        grep -E 'md[0-9/:_]|raid|bitmap|\bata[0-9]|\bsd[a-z]|nvme|I/O error|blocked for more|scsi|usb [0-9].*(isconnect|reset|Serial)|dmesg:' | tail -n 3000
    printf '\nend\n'
}

# show COMMAND...: prints a command and its output, or that it is not installed.
show() {
    printf '$ %s\n' "$*"
    if command -v "$1" >/dev/null; then
        "$@" 2>&1 </dev/null | head -n 4000
    else
        printf '%s: not found\n' "$1"
    fi
    printf '\n'
}

# examine DISK: prints a member's superblock, and its bad-block list if that has entries.
examine() {
    command -v mdadm >/dev/null || return 0
    said=$(mdadm --examine "$1" 2>&1 </dev/null | head -n 400)
    printf '$ mdadm --examine %s\n%s\n\n' "$1" "$said"
    case $said in *'bad blocks present'*) show mdadm --examine-badblocks "$1" ;; esac
}

# examine_members DEVICE: prints the superblock of an array or loop device that is a member of another array.
examine_members() {
    command -v mdadm >/dev/null || return 0
    case $(mdadm --examine "$1" 2>&1 </dev/null | head -n 4) in *'Magic :'*) examine "$1" ;; esac
}

LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL PATH
# stdin may be this script, so commands must not read it. `main` starts after the shell has read all.
main "$@" </dev/null
