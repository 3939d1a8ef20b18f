#!/bin/sh
# Installs the program `evertally` for this user: see `install.sh --help`. Needs a POSIX shell, tar, gzip, a program for
# SHA-256, curl or wget for downloads, and ssh-keygen for signatures. `release/test` tests it.
set -eu

# Allowed signers of releases, in the format of ssh-keygen. `release/manifest --sign` writes them here.
signers='
'
signer=evertally # the name of a signer, and the namespace of signatures
releases=https://github.com/evertally/evertally/releases

usage() {
    cat <<'END'
Install, upgrade or remove the program evertally for this user. It needs no root rights.

Usage: install.sh [OPTIONS]

Options:
  --version X          version to install [default: the latest release, or the only one in the folder of --from]
  --from PLACE         folder or address with the archive, SHA256SUMS and SHA256SUMS.sig
                       [default: the releases of https://github.com/evertally/evertally]
  --to FOLDER          folder of the program [default: ~/.local/bin]
  --no-extras          install the program alone: no completions, manual pages, documents
  --without-signature  verify the checksum, but not the signature
  --uninstall          remove all files that this script installed; keys and data stay
  --help               print this help

Completions, manual pages and documents go to $XDG_DATA_HOME [default: ~/.local/share].
END
}

report() {
    printf '%s\n' "$*"
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# The checksum of a file, as 64 hexadecimal digits.
sha256() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum <"$1" | cut -c 1-64
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 <"$1" | cut -c 1-64
    elif command -v openssl >/dev/null 2>&1; then
        openssl dgst -sha256 -r <"$1" | cut -c 1-64
    else
        fail "there is no sha256sum, shasum or openssl: install one of them"
    fi
}

# Copies a file of the release from the folder, or downloads it.
fetch() {
    case $from in
    http://* | https://*)
        protocols='=https'
        case $from in http://*) protocols='=http,https' ;; esac
        if command -v curl >/dev/null 2>&1; then
            curl --fail --silent --show-error --location --retry 3 --proto "$protocols" --output "$2" "$from/$1" ||
                fail "$from/$1 cannot be downloaded: check --from, --version and the network"
        elif command -v wget >/dev/null 2>&1; then
            wget -q -O "$2" "$from/$1" ||
                fail "$from/$1 cannot be downloaded: check --from, --version and the network"
        else
            fail "there is no curl or wget: install one of them, or download the files and name their folder by --from"
        fi
        ;;
    *)
        [ -f "$from/$1" ] || fail "$from/$1 does not exist: check --from and --version"
        cp "$from/$1" "$2" || fail "$from/$1 cannot be read"
        ;;
    esac
}

# The target of the archive for this machine.
find_target() {
    system=$(uname -s)
    case $(uname -m) in
    x86_64 | amd64) architecture=x86_64 ;;
    aarch64 | arm64) architecture=aarch64 ;;
    *) architecture= ;;
    esac
    target=
    [ -z "$architecture" ] || case $system in
    Linux) target=$architecture-unknown-linux-gnu ;;
    Darwin) target=$architecture-apple-darwin ;;
    esac
    [ -n "$target" ] || fail "there is no program for $system on $(uname -m): build it from source with cargo"
}

# Verifies who signed SHA256SUMS.
verify_signature() {
    if [ "$signature" = no ]; then
        report "The signature is not verified (--without-signature)."
    elif [ -z "$(printf '%s' "$signers" | tr -d '[:space:]')" ]; then
        signature=no
        report "The signature is not verified: this copy of the script names no signer."
    else
        command -v ssh-keygen >/dev/null 2>&1 ||
            fail "there is no ssh-keygen to verify the signature: install OpenSSH, or repeat with --without-signature"
        fetch SHA256SUMS.sig "$work/SHA256SUMS.sig"
        printf '%s\n' "$signers" | sed '/^[[:space:]]*$/d' >"$work/signers"
        ssh-keygen -Y verify -f "$work/signers" -I "$signer" -n "$signer" -s "$work/SHA256SUMS.sig" \
            <"$work/SHA256SUMS" >"$work/ssh-keygen" 2>&1 ||
            fail "the signature of SHA256SUMS is not that of a signer of evertally: install nothing from $from" \
                "($(tail -n 1 "$work/ssh-keygen"))"
    fi
    [ "$signature" = no ] || return 0
    case $from in
    http://localhost[:/]* | http://127.0.0.1[:/]*) ;;
    http://*) fail "$from is neither encrypted nor signed: use https, or download the files and name their folder" ;;
    https://*)
        if ! command -v curl >/dev/null 2>&1 && wget --help 2>&1 | grep -q BusyBox; then
            fail "the wget of BusyBox verifies no certificates, and the files are not signed: install curl"
        fi
        ;;
    esac
}

# The archives for this machine in SHA256SUMS.
archives() {
    sed -n "s/^[0-9a-f]\{64\} [ *]\(evertally-[0-9][0-9A-Za-z.+-]*-$target\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS"
}

# Downloads and verifies the archive, and unpacks it into $work/unpacked.
download() {
    fetch SHA256SUMS "$work/SHA256SUMS"
    verify_signature
    if [ -n "$version" ]; then
        archive=evertally-$version-$target.tar.gz
        number=$(archives | grep -cFx -e "$archive" || true)
    else
        archive=$(archives)
        number=$(archives | wc -l | tr -d ' ')
    fi
    case $number in
    1) ;;
    0) fail "SHA256SUMS in $from has no line for ${archive:-an archive for $target}: check --from and --version" ;;
    *) fail "SHA256SUMS in $from has $number lines for $target: choose one version with --version" ;;
    esac
    fetch "$archive" "$work/$archive"
    stated=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
    found=$(sha256 "$work/$archive")
    [ "$stated" = "$found" ] || fail "$archive is damaged or was replaced: its SHA-256 is $found, not $stated"
    version=${archive#evertally-}
    version=${version%"-$target.tar.gz"}
    mkdir "$work/unpacked"
    # Not by `tar -z`: some versions of tar have no decompression.
    gzip -dc "$work/$archive" >"$work/archive.tar" || fail "$archive cannot be decompressed"
    tar -xf "$work/archive.tar" -C "$work/unpacked" || fail "$archive cannot be unpacked: check the space in $work"
    unpacked=$work/unpacked/${archive%.tar.gz}
    is_plain "$unpacked/evertally" || fail "$archive has no program: report this as a bug of the release"
}

# Notes a folder and its parents that do not exist, parents first.
note_folder() {
    if [ ! -d "$1" ] && ! grep -qFx -e "folder $1" "$work/folders"; then
        note_folder "$(dirname "$1")"
        printf 'folder %s\n' "$1" >>"$work/folders"
    fi
}

make_folders() {
    sed -n 's/^folder //p' "$work/folders" >"$work/made"
    while IFS= read -r folder; do
        [ -d "$folder" ] || mkdir "$folder" ||
            fail "the folder $folder cannot be created: choose another one with --to or XDG_DATA_HOME"
    done <"$work/made"
}

is_plain() {
    [ -f "$1" ] && [ ! -L "$1" ]
}

# Lists a file for installation: its source, its destination and its mode.
add() {
    is_plain "$1" || return 0
    printf '%s\n' "$1" >>"$work/sources"
    printf '%s\n' "$2" >>"$work/destinations"
    printf '%s\n' "$3" >>"$work/modes"
}

list_files() {
    : >"$work/sources"
    : >"$work/destinations"
    : >"$work/modes"
    : >"$work/folders"
    if [ "$extras" = yes ]; then
        add "$unpacked/completions/evertally.bash" "$share/bash-completion/completions/evertally" 644
        add "$unpacked/completions/_evertally" "$share/zsh/site-functions/_evertally" 644
        add "$unpacked/completions/evertally.fish" "$share/fish/vendor_completions.d/evertally.fish" 644
        for page in "$unpacked"/man/man1/*.1; do
            add "$page" "$share/man/man1/${page##*/}" 644
        done
        for page in "$unpacked"/*.md "$unpacked"/*.txt "$unpacked"/LICENSE-*; do
            add "$page" "$share/doc/evertally/${page##*/}" 644
        done
    fi
    add "$unpacked/evertally" "$to/evertally" 755 # last: until then, the old program is complete
}

# The name next to a destination under which its new or old file waits: same folder, thus same disk.
waiting() {
    printf '%s/.evertally-%s.%s.%s\n' "$(dirname "$1")" "$2" "$(basename "$1")" $$
}

# Whether the receipt lists this file with these bytes.
is_ours() {
    [ -f "$receipt" ] && is_plain "$1" && grep -qFx -e "file $(sha256 "$1") $1" "$receipt"
}

# Writes the receipt at once, with these parts.
write_receipt() {
    cat "$@" >"$(waiting "$receipt" new)" && mv -f "$(waiting "$receipt" new)" "$receipt"
}

# Restores the replaced files and the receipt.
roll_back() {
    while IFS= read -r file; do
        old=$(waiting "$file" old)
        if [ -f "$old" ]; then
            cmp -s "$old" "$file" || mv -f "$old" "$file" || return
        else
            rm -f "$file" || return
        fi
    done <"$work/replaced"
    if [ -f "$work/receipt" ]; then
        write_receipt "$work/receipt"
    else
        rm -f "$receipt"
    fi
}

# Runs at every end of the script.
clean_up() {
    status=$?
    trap - EXIT HUP INT TERM
    if [ "$installing" = yes ]; then
        if [ ! -f "$work/replaced" ] || roll_back; then
            report "Nothing was changed." >&2
        else
            report "The old files could not be restored: mend the cause, and install again." >&2
        fi
    fi
    if [ -f "$work/folders" ]; then
        while IFS= read -r file; do
            rm -f "$(waiting "$file" old)" "$(waiting "$file" new)"
        done <"$work/destinations"
        rm -f "$(waiting "$receipt" new)"
        [ "$installing" = no ] || remove_folders "$work/folders"
    fi
    rm -rf "$work"
    exit "$status"
}

# Removes the listed folders that are empty, the last one first.
remove_folders() {
    sed -n 's/^folder //p' "$1" | sed '1!G;h;$!d' | while IFS= read -r folder; do
        rmdir "$folder" 2>/dev/null || true
    done
}

# Removes files that an ended run of this script left waiting.
remove_remains() {
    for remain in "$1"/.evertally-new.* "$1"/.evertally-old.*; do
        [ -e "$remain" ] || continue
        kill -0 "${remain##*.}" 2>/dev/null || rm -f "$remain"
    done
}

# Writes a receipt of old and new files, copies every new one next to its destination, tries the program, and renames
# all. If the power fails in between, the receipt suffices to install again or to remove everything.
install_files() {
    : >"$work/old"
    if [ -f "$receipt" ]; then
        cp "$receipt" "$work/receipt"
        cp "$receipt" "$work/old"
    fi
    printf 'program %s\n' "$to/evertally" >"$work/files"
    exec 3<"$work/sources"
    while IFS= read -r file; do
        IFS= read -r source <&3
        if { [ -e "$file" ] || [ -L "$file" ]; } && ! is_ours "$file"; then
            fail "$file exists, and is not a file that this script installed: remove it, or choose other folders"
        fi
        note_folder "$(dirname "$file")"
        remove_remains "$(dirname "$file")"
        printf 'file %s %s\n' "$(sha256 "$source")" "$file" >>"$work/files"
    done <"$work/destinations"
    exec 3<&-
    note_folder "$share"
    printf 'folder %s\n' "${receipt%/*}" >>"$work/folders" # only this script uses it
    remove_remains "${receipt%/*}"
    sed -n '/^folder /p' "$work/old" "$work/folders" | LC_ALL=C sort -u >>"$work/files"

    : >"$work/replaced"
    if ! mkdir -p "${receipt%/*}" || ! write_receipt "$work/files" "$work/old"; then
        fail "$receipt cannot be written: check rights and space"
    fi
    make_folders
    exec 3<"$work/sources" 4<"$work/modes"
    while IFS= read -r file; do
        IFS= read -r source <&3
        IFS= read -r mode <&4
        new=$(waiting "$file" new)
        if ! cp "$source" "$new" || ! chmod "$mode" "$new"; then
            fail "$file cannot be written: check rights and space"
        fi
    done <"$work/destinations"
    exec 3<&- 4<&-
    shown=$("$(waiting "$to/evertally" new)" --version 2>&1) ||
        fail "the program does not run on this machine: build it from source with cargo ($shown)"
    [ "$shown" = "evertally $version" ] || fail "$archive has another program, which reports its version as: $shown"
    while IFS= read -r file; do
        old=$(waiting "$file" old)
        if [ -f "$file" ] && ! ln "$file" "$old" 2>/dev/null && ! cp -p "$file" "$old"; then
            fail "$file cannot be saved: check rights and space"
        fi
        printf '%s\n' "$file" >>"$work/replaced"
        mv -f "$(waiting "$file" new)" "$file" || fail "$file cannot be replaced: check the rights"
    done <"$work/destinations"
    installing=no
    # Files of the old version that the new one does not have.
    sed -n 's/^file [0-9a-f]* //p' "$work/old" | while IFS= read -r file; do
        if ! grep -qFx -e "$file" "$work/destinations" && is_ours "$file"; then rm -f "$file"; fi
    done
    write_receipt "$work/files" || fail "$receipt cannot be written: check rights and space"
}

# Whether shells find the program.
report_path() {
    case :$PATH: in
    *:"$to":*)
        first=$(command -v evertally || true)
        [ "$first" = "$to/evertally" ] ||
            report "The command evertally is another program, $first: its folder comes first in PATH."
        ;;
    *)
        report "$to is not in PATH. Add this line to the start-up file of your shell:"
        report "    export PATH=\"$to:\$PATH\""
        ;;
    esac
}

uninstall() {
    [ -f "$receipt" ] || fail "evertally is not installed by this script: $receipt does not exist"
    cp "$receipt" "$work/removed"
    sed -n 's/^file [0-9a-f]* //p' "$work/removed" | sort -u >"$work/listed"
    removed=0
    while IFS= read -r file; do
        if is_ours "$file"; then
            rm -f "$file" || fail "$file cannot be removed: check the rights, and repeat"
            removed=$((removed + 1))
        elif [ -e "$file" ]; then
            report "$file stays: it was changed after the installation."
        fi
        remove_remains "${file%/*}"
    done <"$work/listed"
    remove_remains "${receipt%/*}"
    rm -f "$receipt"
    remove_folders "$work/removed"
    report "Removed evertally: $removed files. Keys, ledgers and data stay."
}

main() {
    version='' from='' to='' extras=yes signature=yes action=install
    while [ $# -gt 0 ]; do
        case $1 in
        --version | --from | --to)
            [ -n "${2-}" ] || fail "$1 needs a value: see --help"
            case $1 in
            --version) version=${2#v} ;;
            --from) from=$2 ;;
            --to) to=$2 ;;
            esac
            shift
            ;;
        --no-extras) extras=no ;;
        --without-signature) signature=no ;;
        --uninstall) action=uninstall ;;
        --help)
            usage
            exit 0
            ;;
        *) fail "unknown option $1: see --help" ;;
        esac
        shift
    done
    case $version in
    *[!0-9A-Za-z.+-]*) fail "$version is not a version such as 0.1.0" ;;
    esac
    [ -n "${HOME-}" ] || fail "HOME is not set: set it to the folder of the user"
    share=${XDG_DATA_HOME:-$HOME/.local/share}
    to=${to:-$HOME/.local/bin}
    for folder in "$to" "$share"; do
        case $folder in
        *'
'*) fail "the name of a folder has a line break: choose another one with --to or XDG_DATA_HOME" ;;
        esac
    done
    case $to in /*) ;; *) to=$PWD/$to ;; esac
    to=${to%/}
    case $share in /*) ;; *) share=$HOME/.local/share ;; esac # as the XDG specification demands
    receipt=$share/evertally/installed
    from=${from#file://}
    if [ -z "$from" ]; then
        from=$releases/latest/download
        [ -z "$version" ] || from=$releases/download/v$version
    fi
    from=${from%/}

    installing=no
    sha256 /dev/null >/dev/null
    work=$(mktemp -d "${TMPDIR:-/tmp}/evertally.XXXXXX") || fail "there is no folder for temporary files: set TMPDIR"
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    if [ "$action" = uninstall ]; then
        uninstall
        return
    fi
    installing=yes
    if [ -f "$receipt" ]; then
        old=$(sed -n 's/^program //p' "$receipt" | head -n 1)
        [ "$old" = "$to/evertally" ] ||
            fail "evertally is installed as $old: give its folder by --to, or run --uninstall first"
    fi
    find_target
    download
    list_files
    install_files
    report "Installed evertally $version for $target as $to/evertally."
    if [ "$extras" = yes ]; then
        report "Completions, manual pages and documents are in $share."
        case ${SHELL-} in
        */zsh) report "For completions in zsh, add $share/zsh/site-functions to fpath before compinit." ;;
        esac
    fi
    report_path
}

main "$@"
