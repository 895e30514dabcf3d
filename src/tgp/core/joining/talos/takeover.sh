#!/bin/sh
# Writes Talos over the disk that this machine runs from, its machine config beside it, and restarts.
#
# Given: TGP_IMAGE, the address of a raw disk image without the ending of its compression; TGP_ARCH; and the beginning
# of a FAT filesystem labelled cidata, with the machine config in it, as the file cidata beside this script.
# Everything that can fail is tried before the disk is touched. What fails until then leaves the disk as it was, is said
# on the console, and switches the machine off: a machine that cannot become a node only costs.
# Nothing is installed. Needed: coreutils, gzip, mount, ldd; curl or wget; xz, zstd or gzip, whichever is there.
# The names below that begin with TGP_ and are not said above are for trials on another disk than one's own.
set -eu
umask 077
PATH=${TGP_PATH:-${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
LC_ALL=C
export PATH LC_ALL

PROC=${TGP_PROC:-/proc}
SYS=${TGP_SYS:-/sys}
DEV=${TGP_DEV:-/dev}
ROOT=${TGP_ROOT:-}
PAUSE=${TGP_PAUSE:-15} # seconds between two tries
TRIES=${TGP_TRIES:-40} # the factory builds an image when it is first asked for it, which takes minutes
HOME_DIR=$ROOT/run/tgp
RAM=$HOME_DIR/ram
STEPS=9
SECTOR=512
ALIGNED=2048          # sectors: partitions begin at whole MiB
SPARE=268435456       # bytes of memory that stay free
UNKNOWN_SIZE=2147483648 # bytes that are reckoned with where the factory does not say
BASIC_DATA='\242\240\320\353\271\345\063\104\207\300\150\266\267\046\231\307' # EBD0A0A2-B9E5-4433-87C0-68B6B72699C7
NAME='c\0i\0d\0a\0t\0a\0'
step=0

# -- words -------------------------------------------------------------------------------------------------------------

open_consoles() {
    exec 3>/dev/null 4>/dev/null
    if [ -n "${TGP_CONSOLE:-}" ]; then
        exec 3>>"$TGP_CONSOLE"
        return
    fi
    if (: >"$DEV/console") 2>/dev/null; then exec 3>"$DEV/console"; fi
    active=$(cat "$SYS/class/tty/console/active" 2>/dev/null) || active=
    case $active in
    *ttyS0) ;; # it is the console already
    *) if (: >"$DEV/ttyS0") 2>/dev/null; then exec 4>"$DEV/ttyS0"; fi ;;
    esac
}

say() {
    echo "tgp: $*"
    echo "tgp: $*" >&3 || :
    echo "tgp: $*" >&4 || :
} 2>/dev/null

now() {
    step=$((step + 1))
    say "$step/$STEPS $*"
}

die() {
    trap - EXIT
    say "stopped at $step/$STEPS: $*"
    say "the disk is unchanged; powering off"
    forget
    umount -l "$RAM" 2>/dev/null || :
    sync
    systemctl poweroff --no-block 2>/dev/null || poweroff 2>/dev/null || echo o >"$PROC/sysrq-trigger" || :
    exit 1
}

ended() {
    # shellcheck disable=SC2181 # the status of whatever ended the script
    if [ $? -ne 0 ]; then die "unexpected error"; fi
}

# -- secrets -----------------------------------------------------------------------------------------------------------

blank() {
    # In place, so that the blocks themselves are overwritten.
    for file in "$@"; do
        if [ -f "$file" ] && [ ! -L "$file" ]; then
            size=$(wc -c <"$file") || continue
            head -c "$size" /dev/zero | dd of="$file" conv=notrunc,fsync 2>/dev/null || :
            : >"$file" || :
        fi
    done
}

forget() {
    # Where cloud-init keeps what it was told; and the script itself where it came as one.
    blank "$ROOT"/var/lib/cloud/instances/*/user-data.txt* "$ROOT"/var/lib/cloud/instances/*/cloud-config.txt \
        "$ROOT"/var/lib/cloud/instances/*/obj.pkl "$ROOT"/var/lib/cloud/instances/*/vendor-data*.txt* \
        "$ROOT"/run/cloud-init/instance-data-sensitive.json "$ROOT"/run/cloud-init/combined-cloud-config.json \
        "$HOME_DIR/cidata" "$HOME_DIR/cidata.gz" "${TGP_SELF:-}"
}

# -- numbers in files --------------------------------------------------------------------------------------------------

number() { # file, offset, bytes (2, 4 or 8): little-endian, as this machine reads them
    value=$(od -An -v "-tu$3" -j "$2" -N "$3" "$1" | tr -d ' \n')
    echo "${value:-0}"
}

hex() { # file, offset, bytes
    od -An -v -tx1 -j "$2" -N "$3" "$1" | tr -d ' \n'
}

octets() { # value, bytes: as escapes that printf writes, the lowest first
    left=$1
    count=$2
    while [ "$count" -gt 0 ]; do
        printf '\\%03o' $((left % 256))
        left=$((left / 256))
        count=$((count - 1))
    done
}

put() { # file, offset; what is put comes by standard input
    dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

put_number() { # file, offset, bytes, value
    # shellcheck disable=SC2059 # escapes are what it is for
    printf "$(octets "$4" "$3")" | put "$1" "$2"
}

crc() { # of standard input, in four bytes; gzip keeps that of what it packed, and it is the one that partition tables use
    gzip -1 -c | tail -c 8 | head -c 4
}

sign() { # a header's checksum over itself; file, offset of the header, its size
    put_number "$1" $(($2 + 16)) 4 0
    tail -c +$(($2 + 1)) "$1" | head -c "$3" | crc | put "$1" $(($2 + 16))
}

# -- the steps ---------------------------------------------------------------------------------------------------------

look_around() {
    now "looking around"
    [ "$(id -u)" = 0 ] || die "this must run as root"
    for tool in awk chroot dd gzip head ldd mknod mount od sync tail tr wc; do
        command -v "$tool" >/dev/null || die "this system has no $tool"
    done
    if command -v curl >/dev/null; then loader=curl; elif command -v wget >/dev/null; then loader=wget; else
        die "this system has neither curl nor wget"
    fi
    if command -v xz >/dev/null; then packed=.xz unpacker=xz; elif command -v zstd >/dev/null; then
        packed=.zst unpacker=zstd
    else
        packed=.gz unpacker=gzip
    fi
    case $(uname -m) in
    x86_64) arch=amd64 ;;
    aarch64) arch=arm64 ;;
    *) arch=$(uname -m) ;;
    esac
    [ "$arch" = "${TGP_ARCH:-amd64}" ] || die "the image is for ${TGP_ARCH:-amd64} and this machine is $arch"
    [ -s "$HOME_DIR/cidata" ] || die "the machine config is missing"
    [ "$(hex "$HOME_DIR/cidata" 510 2)" = 55aa ] || die "the machine config is damaged"
}

look_for_obstacles() {
    now "checking Secure Boot and other sources of a config"
    for variable in "$SYS"/firmware/efi/efivars/SecureBoot-*; do
        if [ -f "$variable" ] && [ "$(hex "$variable" 4 1)" = 01 ]; then
            die "Secure Boot is on: Talos from the factory would not start"
        fi
    done
    case $(cat "$SYS/class/dmi/id/product_serial" 2>/dev/null || :) in
    *ds=nocloud*) die "the machine's serial number names a config of the provider's: Talos would read that one" ;;
    esac
}

find_disk() {
    now "finding the disk"
    numbers=$(awk '$5 == "/" { found = $3 } END { print found }' "$PROC/self/mountinfo")
    case $numbers in
    '' | 0:*) die "the root filesystem is not on a plain disk" ;;
    esac
    place=$(cd "$SYS/dev/block/$numbers" 2>/dev/null && pwd -P) || die "the kernel does not show block device $numbers"
    if [ -f "$place/partition" ]; then place=${place%/*}; fi
    name=${place##*/}
    case $name in
    dm-* | md* | zram* | ram*) die "the root filesystem is on $name, which is not a plain disk" ;;
    esac
    for holder in "$place"/slaves/* "$place"/holders/* "$place"/*/holders/*; do
        if [ -e "$holder" ]; then die "disk $name is in use by ${holder##*/}"; fi
    done
    disk=$DEV/$name
    [ -b "$disk" ] || die "there is no $disk"
    [ "$(cat "$place/ro" 2>/dev/null || echo 0)" = 0 ] || die "disk $name cannot be written to"
    (: >>"$disk") 2>/dev/null || die "disk $name cannot be opened to be written to"
    block=$(cat "$place/queue/logical_block_size" 2>/dev/null || echo $SECTOR)
    [ "$block" = $SECTOR ] || die "disk $name has sectors of $block bytes, the image is made for $SECTOR"
    sectors=$(cat "$place/size")
    IFS=: read -r major minor <"$place/dev"
    for label in cidata CIDATA; do
        if [ -e "$DEV/disk/by-label/$label" ]; then
            other=$(readlink -f "$DEV/disk/by-label/$label")
            case $other in
            "$disk"*) ;; # it will be gone
            *) die "$other is labelled $label as well: Talos might read the provider's config instead of ours" ;;
            esac
        fi
    done
    say "disk $name with $((sectors / 2048)) MiB"
}

ask_for_image() {
    now "asking for the image (the factory may have to build it first)"
    address=$TGP_IMAGE$packed
    size=
    try=0
    while :; do
        try=$((try + 1))
        if [ $loader = curl ]; then
            answer=$(curl -fsSIL --connect-timeout 30 --max-time 900 "$address" 2>/dev/null) && break
        else
            answer=$(wget -qS --spider --tries=1 --timeout=900 "$address" 2>&1) && break
        fi
        [ "$try" -lt "$TRIES" ] || die "the factory did not serve the image in $try tries"
        sleep "$PAUSE"
    done
    size=$(printf '%s\n' "$answer" | tr -d '\r' | awk 'tolower($1) == "content-length:" { size = $2 } END { print size }')
    available=$(awk '$1 == "MemAvailable:" { print $2 }' "$PROC/meminfo") # in KiB: awk writes no large products
    wanted=$((${size:-$UNKNOWN_SIZE} + SPARE))
    [ $((${available:-0} * 1024)) -ge "$wanted" ] ||
        die "$((wanted / 1048576)) MiB of memory are needed, $((${available:-0} / 1024)) are free"
}

move_into_memory() {
    now "moving into memory"
    mkdir -p "$RAM"
    mount -t tmpfs -o "mode=700,size=$wanted" tgp "$RAM" || die "no memory filesystem can be made"
    mkdir -p "$RAM/bin" "$RAM/dev" "$RAM/lib" "$RAM/lib64" "$RAM/usr/lib"
    carry sh
    carry dd
    carry $unpacker
    mknod "$RAM/disk" b "$major" "$minor" || die "no device can be made in memory"
    mknod "$RAM/dev/null" c 1 3
    if ! chroot "$RAM" /bin/sh -c 'echo works | /bin/dd of=/tried 2>/dev/null' || [ ! -s "$RAM/tried" ]; then
        die "the programs do not run from memory"
    fi
}

carry() { # a program and the libraries it needs
    program=$(command -v "$1")
    cp -L "$program" "$RAM/bin/$1" || die "$1 cannot be copied"
    ldd "$program" 2>/dev/null | tr -s ' \t' '\n' | while read -r word; do
        case $word in
        /*)
            mkdir -p "$RAM${word%/*}"
            [ -e "$RAM$word" ] || cp -L "$word" "$RAM$word" || exit 1
            ;;
        esac
    done || die "the libraries of $1 cannot be copied"
}

load_image() {
    now "loading the image${size:+ ($((size / 1048576)) MiB)}"
    try=0
    while :; do
        try=$((try + 1))
        if [ $loader = curl ]; then
            curl -fsSL --connect-timeout 30 --speed-limit 1000 --speed-time 120 -o "$RAM/image" "$address" 2>/dev/null ||
                : >"$RAM/image"
        else
            wget -q --tries=1 --timeout=120 -O "$RAM/image" "$address" || : >"$RAM/image"
        fi
        loaded=$(wc -c <"$RAM/image")
        if [ "$loaded" -gt 0 ] && [ "$loaded" -eq "${size:-$loaded}" ]; then break; fi
        [ "$try" -lt "$TRIES" ] || die "the image is incomplete: $loaded of ${size:-?} bytes after $try tries"
        sleep "$PAUSE"
    done
    chroot "$RAM" /bin/$unpacker -t /image 2>/dev/null || die "the downloaded file is damaged or not an image"
}

lay_out() {
    now "laying out the disk"
    raw=$($unpacker -dc "$RAM/image" | wc -c)
    [ $((raw / SECTOR)) -le "$sectors" ] || die "the image needs $((raw / 1048576)) MiB, the disk has less"
    head=$RAM/head
    $unpacker -dc "$RAM/image" 2>/dev/null | head -c $((34 * SECTOR)) >"$head"
    [ "$(hex "$head" $SECTOR 8)" = 4546492050415254 ] || die "the image has no partition table that Talos would have"
    header_size=$(number "$head" $((SECTOR + 12)) 4)
    entries=$(number "$head" $((SECTOR + 80)) 4)
    if [ "$(number "$head" $((SECTOR + 84)) 4)" != 128 ] || [ "$(number "$head" $((SECTOR + 72)) 8)" != 2 ] ||
        [ "$entries" != 128 ] || [ "$header_size" != 92 ]; then
        die "the image's partition table has an unusual form"
    fi
    last_used=-1
    last_end=33
    entry=0
    # An entry a line, as eight-byte numbers: two of its type, two of its own id, its first and its last sector, …
    tail -c +$((2 * SECTOR + 1)) "$head" | od -An -v -tu8 -w128 >"$RAM/table"
    while read -r kind_1 kind_2 _ _ _ end _; do
        if [ "$kind_1$kind_2" != 00 ]; then
            last_used=$entry
            if [ "$end" -gt "$last_end" ]; then last_end=$end; fi
        fi
        entry=$((entry + 1))
    done <"$RAM/table"
    [ $last_used -ge 0 ] || die "the image has no partitions"
    [ $last_used -lt 127 ] || die "the image's partition table is full"
    [ "$last_end" -lt $((raw / SECTOR)) ] || die "the image ends before its last partition does"
    start=$(((last_end / ALIGNED + 1) * ALIGNED))
    length=$(number "$HOME_DIR/cidata" 19 2)
    last=$((sectors - 1))
    [ $((start + length)) -le $((last - 33)) ] || die "no space is left on the disk for the machine config"
    at=$((2 * SECTOR + (last_used + 1) * 128))
    # shellcheck disable=SC2059 # escapes are what it is for
    printf "$BASIC_DATA" | put "$head" $at
    head -c 16 "$DEV/urandom" | put "$head" $((at + 16))
    put_number "$head" $((at + 32)) 8 "$start"
    put_number "$head" $((at + 40)) 8 $((start + length - 1))
    put_number "$head" $((at + 48)) 8 0
    # shellcheck disable=SC2059 # escapes are what it is for
    printf "$NAME" | put "$head" $((at + 56))
    if [ "$(hex "$head" 450 1)" = ee ]; then
        whole=$last
        if [ "$whole" -gt 4294967295 ]; then whole=4294967295; fi
        put_number "$head" 458 4 "$whole"
    fi
    tail -c +$((2 * SECTOR + 1)) "$head" >"$RAM/entries"
    crc <"$RAM/entries" | put "$head" $((SECTOR + 88))
    put_number "$head" $((SECTOR + 32)) 8 "$last"
    put_number "$head" $((SECTOR + 48)) 8 $((last - 33))
    sign "$head" $SECTOR "$header_size"
    # The same once more, for the end of the disk, with its own places.
    tail -c +$((SECTOR + 1)) "$head" | head -c $SECTOR >"$RAM/header"
    put_number "$RAM/header" 24 8 "$last"
    put_number "$RAM/header" 32 8 1
    put_number "$RAM/header" 72 8 $((last - 32))
    sign "$RAM/header" 0 "$header_size"
    cat "$RAM/entries" "$RAM/header" >"$RAM/tail"
    cp "$HOME_DIR/cidata" "$RAM/cidata"
    cat >"$RAM/finish" <<'FINISH'
set -u
PATH=/bin
trap '' HUP INT TERM PIPE
say() {
    echo "tgp: $*" >&3
    echo "tgp: $*" >&4
}
failed() {
    say "stopped at $step/$STEPS: the disk cannot be written; powering off"
    echo o >&8
    exit 1
}
write() { # file, sector
    dd if="$1" of=/disk bs=512 seek="$2" conv=notrunc,fsync 2>/dev/null || failed
}
{ "$unpacker" -dc /image || : >/broken; } 2>/dev/null | dd of=/disk bs=4M conv=notrunc,fsync 2>/dev/null || failed
[ ! -e /broken ] || failed
write /cidata "$start"
write /tail "$tail"
write /head 0
say "$STEPS/$STEPS Talos is written; starting it"
echo b >&8
FINISH
}

take_over() {
    now "writing Talos over disk $name"
    forget
    swapoff -a 2>/dev/null || :
    sync
    [ -w "$PROC/sysrq-trigger" ] || die "the kernel accepts no sysrq commands"
    exec 8>>"$PROC/sysrq-trigger"
    echo s >&8
    echo u >&8
    # Whatever still wrote through the old filesystems would write into Talos.
    waited=0
    until is_read_only; do
        [ $waited -lt 30 ] || die "the old filesystems are still being written to"
        sleep 1
        waited=$((waited + 1))
    done
    echo $$ 2>/dev/null >"$SYS/fs/cgroup/cgroup.procs" || : # this must not end with the service that began it
    trap - EXIT
    cd "$RAM"
    export step STEPS start unpacker tail=$((last - 32))
    exec chroot "$RAM" /bin/sh /finish
}

is_read_only() { # every filesystem on this disk; the options of a superblock are the last word of a line
    while read -r _ _ numbers line; do
        there=$(cd "$SYS/dev/block/$numbers" 2>/dev/null && pwd -P) || continue
        case $there/ in
        "$place"/*) ;;
        *) continue ;;
        esac
        case ,${line##* }, in
        *,ro,*) ;;
        *) return 1 ;;
        esac
    done <"$PROC/self/mountinfo"
}

open_consoles
trap ended EXIT
look_around
look_for_obstacles
find_disk
ask_for_image
move_into_memory
load_image
lay_out
take_over
