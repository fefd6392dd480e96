#!/bin/sh
# The probe of blklab: prints what `blklab md audit` needs to know about the md arrays of a host. It
# changes nothing. It needs a POSIX shell, sed, dd and od. As root it reads superblocks; as another
# user, it reads only sysfs.
#
#     ssh HOST sh -s < probe.sh > HOST.probe     sh probe.sh [ROOT] > this.probe
#
# ROOT is the directory of /proc, /sys, /dev and /etc, by default /. The probe reads: sysfs of block
# devices; /proc/mdstat, swaps, diskstats, self/mountinfo and the kernel release; mdadm.conf and the
# files that start checks of arrays; the names of installed kernels; 128 KiB at each end of members,
# and of unused devices with a superblock; and the first 4 KiB of arrays and their partitions.
#
# probe_output.py reads the output: records, each a line with a kind and a path, and below it the
# content, each line after a blank; the last line is `end`. Names are never commands: they are quoted
# and begin with a slash. Names with a line break are left out.

main() {
    newline='
'
    root=$(real_path "${1:-/}") || exit 1
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
        "$root"/etc/systemd/system/*.wants/raid-check.timer \
        "$root"/etc/systemd/system/mdcheck_*.timer "$root"/etc/systemd/system/raid-check.timer \
        "$root"/lib/systemd/system/mdcheck_*.timer "$root"/lib/systemd/system/raid-check.timer \
        "$root"/boot/vmlinu[xz]-* "$root"/lib/modules/*/vmlinuz; do
        if [ -e "$unit" ] || [ -L "$unit" ]; then begin_record file "$unit"; fi
    done
    # PATH does not find the mdadm of another root.
    if [ -z "$root" ] && command -v mdadm >/dev/null; then
        printf 'mdadm\n'
        mdadm --version 2>&1 | lines
    fi
    link "$root/sys/block"
    unused_left=256 # More unused devices are not read
    for entry in "$root"/sys/class/block/*; do
        link "$entry" && block "$to" "${entry##*/}"
    done
    for entry in "$root"/sys/fs/btrfs/*/devices/*; do
        link "$entry"
    done
    printf 'end\n'
}

# real_path DIRECTORY: prints the path of a directory without links.
real_path() {
    cd -P -- "$1" 2>/dev/null && pwd -P
}

# begin_record KIND PATH: prints the first line of a record; fails if the path has a line break.
begin_record() {
    case $2 in *"$newline"*) return 1 ;; esac
    printf '%s %s\n' "$1" "${2#"$root"}"
}

# link PATH: prints a directory, or a link to one; sets $to to its real path.
link() {
    to=$(real_path "$1") || return 1
    case $to in *"$newline"*) return 1 ;; esac
    if [ "$to" = "$1" ]; then
        begin_record directory "$1"
    else
        begin_record link "$1" && printf ' %s\n' "${to#"$root"}"
    fi
}

# lines: prints a blank before each line of its input, and ends the last line.
lines() {
    sed 's/^/ /'
    printf '\n'
}

# content FILE: prints a file, or that it exists and cannot be read.
content() {
    if [ -f "$1" ] && [ -r "$1" ]; then
        begin_record file "$1" && lines <"$1"
    elif [ -e "$1" ] || [ -L "$1" ]; then
        begin_record unread "$1"
    fi
}

# attribute FILE: prints a file of sysfs without starting a process, because there are thousands.
attribute() {
    if [ -f "$1" ] && [ -r "$1" ] && begin_record file "$1"; then
        while IFS= read -r line || [ -n "$line" ]; do
            printf ' %s\n' "$line"
        done 2>/dev/null <"$1"
    fi
}

# block NODE NAME: prints a device and, if it is an array, its members.
block() {
    node=$1
    link "$root/sys/block/$2"
    attribute "$node/dev"
    number=
    { IFS= read -r number <"$node/dev"; } 2>/dev/null
    [ -z "$number" ] || link "$root/sys/dev/block/$number"
    for file in size start partition queue/rotational queue/physical_block_size \
        queue/logical_block_size queue/optimal_io_size dm/name dm/uuid loop/backing_file \
        wwid device/wwid; do
        attribute "$node/$file"
    done
    for related in "$node"/slaves/* "$node"/holders/* "$node"/multipath/* "$node/bcache"; do
        link "$related"
    done
    if [ -d "$node/md" ]; then
        for file in "$node"/md/* "$node"/md/bitmap/* "$node"/md/llbitmap/bits "$node"/md/dev-*/*; do
            attribute "$file"
        done
        for member in "$node"/md/dev-*; do
            link "$member/block" && bytes "$to" ends
        done
        bytes "$node"
        for file in "$node"/*/partition; do
            part=${file%/partition}
            if [ "$part" != "$node/*" ]; then bytes "$part"; fi
        done
    fi
    if [ "$unused_left" -gt 0 ] && unused "$node" "$2"; then
        unused_left=$((unused_left - 1))
        bytes "$node" superblocks
    fi
}

# unused NODE NAME: whether a device could be a member of an array: it has a size, and nothing holds it.
unused() {
    case $2 in ram[0-9]* | zram[0-9]* | sr[0-9]* | fd[0-9]* | mtdblock[0-9]*) return 1 ;; esac
    size=
    { IFS= read -r size <"$1/size"; } 2>/dev/null
    [ -e "$1/dev" ] && [ "${size:-0}" != 0 ] && free "$1" || return 1
    [ ! -e "$1/partition" ] || free "${1%/*}"
}

# free NODE: fails if something holds a device, or if it is an array that is not running.
free() {
    for holder in "$1"/holders/*; do
        if [ -e "$holder" ] || [ -L "$holder" ]; then return 1; fi
    done
    [ ! -e "$1/bcache" ] || return 1
    [ -d "$1/md" ] || return 0
    array_state=clear
    { IFS= read -r array_state <"$1/md/array_state"; } 2>/dev/null
    [ "$array_state" != clear ]
}

# bytes NODE [ends|superblocks]: prints the first page of a device, or 128 KiB at each end; with
# `superblocks`, only if there is a superblock in them.
bytes() {
    name=${1##*/}
    while :; do
        # Slashes in names of devices (cciss/c0d0) are exclamation marks in sysfs.
        case $name in *!*) name=${name%%!*}/${name#*!} ;; *) break ;; esac
    done
    disk=$root/dev/$name
    begin_record disk "$disk" || return 0
    sectors=
    { IFS= read -r sectors <"$1/size"; } 2>/dev/null
    case $sectors in '' | *[!0-9]*) sectors=0 ;; esac
    printf ' sectors %s\n' "$sectors"
    if [ ! -b "$disk" ] && [ ! -f "$disk" ]; then
        printf ' refused No such file or directory\n'
        return 0
    fi
    # Bypass the page cache, which may be older than what md itself wrote.
    option=iflag=direct
    if ! dd if="$disk" of=/dev/null bs=4096 count=1 "$option" 2>/dev/null; then
        option=bs=4096
        if ! message=$(dd if="$disk" of=/dev/null bs=4096 count=1 2>&1); then
            printf ' refused %s\n' "${message%%"$newline"*}"
            return 0
        fi
    fi
    if [ -z "${2-}" ]; then
        pages 0 1
        return 0
    fi
    [ "$2" = ends ] || has_superblock || return 0
    pages 0 32
    last=$(((sectors - 256) / 8))
    [ "$last" -ge 32 ] || last=32
    [ "$sectors" -le 256 ] || pages "$last" 33
}

# has_superblock: whether $disk has the magic number of md in the places of 1.1, 1.2, 1.0 or 0.90, in
# either byte order.
has_superblock() {
    [ "$sectors" -gt 256 ] || return 0
    for page in 0 1 $(((sectors - 16) / 8)) $(((sectors / 128 - 1) * 16)); do
        case $(dd if="$disk" bs=4096 skip="$page" count=1 "$option" 2>/dev/null | od -A n -t x1 -N 4) in
            *'fc 4e 2b a9'* | *'a9 2b 4e fc'*) return 0 ;;
        esac
    done
    return 1
}

# pages FIRST COUNT: prints pages of $disk; od leaves out repeated lines.
pages() {
    printf ' at %s\n' "$(($1 * 4096))"
    dd if="$disk" bs=4096 skip="$1" count="$2" "$option" 2>/dev/null | od -A d -t x1 | lines
}

LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL PATH
unset CDPATH
# stdin may be this script, so commands must not read it. `main` starts after the shell has read all.
main "$@" </dev/null
