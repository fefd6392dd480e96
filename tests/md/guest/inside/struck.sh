#!/bin/sh
# mdadm and udevadm, at one call of which md-boot is killed. `WHEN,CALL,WHO` is in the file or on the kernel's command
# line. WHEN: before or after the call. CALL: its number, or a word of it. WHO: step (the child), both (and its parent),
# or all (and what started it).
name=${0##*/}
spec=$(cat /run/struck.spec 2>/dev/null)
for word in $(cat /proc/cmdline); do
    case $word in
    struck=*) spec=${spec:-${word#*=}} ;;
    esac
done
when=${spec%%,*} who=${spec##*,} call=${spec#*,}
call=${call%,*}
number=$(($(cat /run/struck.count 2>/dev/null || echo 0) + 1))
echo "$number" >/run/struck.count
struck() {
    [ ! -e /run/struck.done ] || return 1
    case " $number $* " in
    *" $call "*) return 0 ;;
    esac
    return 1
}
strike() {
    echo "$number $name $*" >/run/struck.done
    for process in /proc/[0-9]*; do
        case $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null) in
        *"md-boot step "*) ;;
        *"md-boot run"*) [ "$who" != step ] || continue ;;
        *"init-premount/blklab-md-boot"*) [ "$who" = all ] || continue ;;
        *) continue ;;
        esac
        kill -9 "${process#/proc/}"
    done
}
if [ "$when" = before ] && struck "$@"; then
    strike "$@"
    exit 1
fi
for directory in /usr/sbin /sbin /usr/bin /bin; do
    [ ! -x "$directory/$name" ] || break
done
"$directory/$name" "$@"
status=$?
if [ "$when" = after ] && struck "$@"; then strike "$@"; fi
exit "$status"
