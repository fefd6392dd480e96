#!/bin/sh
# blklab's probe: prints what `blklab md audit` must know of a machine's md arrays, and changes
# nothing. It wants a POSIX shell, sed, dd and od; as root it sees superblocks, else what sysfs
# tells everybody.
#
#     ssh HOST sh -s < probe.sh > HOST.probe     sh probe.sh [ROOT] > this.probe
#
# ROOT is where the machine's /proc, /sys, /dev and /etc are, / unless given. What is read: sysfs of
# block devices; /proc/mdstat, swaps, diskstats, self/mountinfo and the kernel's release; mdadm.conf
# and what has arrays checked; 128 KiB at either end of members, and the first 4 KiB of arrays and
# their partitions.
#
# The stream is read by stream.py beside this file: records of a kind and a path, and below each its
# lines, a blank before them; `end` is the last. Names are never words of a command: all are quoted,
# begin with a slash, and are left out if they hold a line's end.

main() {
    newline='
'
    root=$(there "${1:-/}") || exit 1
    root=${root%/}
    printf 'blklab-probe 1\n'
    for file in proc/mdstat proc/swaps proc/diskstats proc/self/mountinfo proc/sys/kernel/osrelease \
        etc/mdadm/mdadm.conf etc/mdadm.conf etc/default/mdadm etc/cron.d/mdadm etc/cron.d/raid-check; do
        content "$root/$file"
    done
    for file in "$root"/etc/mdadm/mdadm.conf.d/*.conf "$root"/etc/mdadm.conf.d/*.conf; do
        content "$file"
    done
    for unit in "$root"/etc/systemd/system/*.wants/mdcheck_start.timer \
        "$root"/etc/systemd/system/*.wants/raid-check.timer; do
        if [ -e "$unit" ] || [ -L "$unit" ]; then say file "$unit"; fi
    done
    # That of another root would not be found in our PATH.
    if [ -z "$root" ] && command -v mdadm >/dev/null; then
        printf 'mdadm\n'
        mdadm --version 2>&1 | lines
    fi
    link "$root/sys/block"
    for entry in "$root"/sys/class/block/*; do
        link "$entry" && block "$to" "${entry##*/}"
    done
    for entry in "$root"/sys/fs/btrfs/*/devices/*; do
        link "$entry"
    done
    printf 'end\n'
}

# there DIRECTORY: says where it really is.
there() {
    cd -P -- "$1" 2>/dev/null && pwd -P
}

# say KIND PATH: begins a record; fails if it cannot be said in a line.
say() {
    case $2 in *"$newline"*) return 1 ;; esac
    printf '%s %s\n' "$1" "${2#"$root"}"
}

# link PATH: a directory, or a link to one and, in $to, where it leads.
link() {
    to=$(there "$1") || return 1
    case $to in *"$newline"*) return 1 ;; esac
    if [ "$to" = "$1" ]; then
        say directory "$1"
    else
        say link "$1" && printf ' %s\n' "${to#"$root"}"
    fi
}

# lines: sets each line of its input off, and ends the last, which may lack an end.
lines() {
    sed 's/^/ /'
    printf '\n'
}

# content FILE: a file of some length, or that there is one which may not be read.
content() {
    if [ -f "$1" ] && [ -r "$1" ]; then
        say file "$1" && lines <"$1"
    elif [ -e "$1" ] || [ -L "$1" ]; then
        say unread "$1"
    fi
}

# attribute FILE: a file of sysfs; without another process, for there are thousands.
attribute() {
    if [ -f "$1" ] && [ -r "$1" ] && say file "$1"; then
        while IFS= read -r line || [ -n "$line" ]; do
            printf ' %s\n' "$line"
        done 2>/dev/null <"$1"
    fi
}

# block NODE NAME: a device and, if it is an array, all of it.
block() {
    node=$1
    link "$root/sys/block/$2"
    attribute "$node/dev"
    number=
    { IFS= read -r number <"$node/dev"; } 2>/dev/null
    [ -z "$number" ] || link "$root/sys/dev/block/$number"
    for file in size start partition queue/rotational queue/physical_block_size \
        dm/name dm/uuid loop/backing_file; do
        attribute "$node/$file"
    done
    for entry_beside in "$node"/slaves/* "$node"/holders/* "$node"/multipath/* "$node/bcache"; do
        link "$entry_beside"
    done
    if [ -d "$node/md" ]; then
        for file in "$node"/md/* "$node"/md/bitmap/* "$node"/md/dev-*/*; do
            attribute "$file"
        done
        bytes "$node"
        for file in "$node"/*/partition; do
            bytes "${file%/partition}"
        done
        for member in "$node"/md/dev-*; do
            link "$member/block" && bytes "$to" ends
        done
    fi
}

# bytes NODE [ends]: the first page of a device, or both its ends.
bytes() {
    name=${1##*/}
    while :; do
        # Slashes in names of devices (cciss/c0d0) are exclamation marks in sysfs.
        case $name in *!*) name=${name%%!*}/${name#*!} ;; *) break ;; esac
    done
    disk=$root/dev/$name
    { [ -b "$disk" ] || [ -f "$disk" ]; } && say disk "$disk" || return 0
    sectors=
    { IFS= read -r sectors <"$1/size"; } 2>/dev/null
    case $sectors in '' | *[!0-9]*) sectors=0 ;; esac
    printf ' sectors %s\n' "$sectors"
    # Around the page cache: its copy may be older than what md wrote itself.
    how=iflag=direct
    if ! dd if="$disk" of=/dev/null bs=4096 count=1 "$how" 2>/dev/null; then
        how=bs=4096
        if ! said=$(dd if="$disk" of=/dev/null bs=4096 count=1 2>&1); then
            printf ' refused %s\n' "${said%%"$newline"*}"
            return 0
        fi
    fi
    if [ -z "${2-}" ]; then
        pages 0 1
        return 0
    fi
    pages 0 32
    last=$(((sectors - 256) / 8))
    [ "$last" -ge 32 ] || last=32
    [ "$sectors" -le 256 ] || pages "$last" 33
}

# pages FIRST MANY: od leaves out lines that are like the one before, as most of them are.
pages() {
    printf ' at %s\n' "$(($1 * 4096))"
    dd if="$disk" bs=4096 skip="$1" count="$2" "$how" 2>/dev/null | od -A d -t x1 | lines
}

LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL PATH
unset CDPATH
# The script may be what stdin is; and all of it must have come before anything is done.
main "$@" </dev/null
