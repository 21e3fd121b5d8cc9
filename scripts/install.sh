#!/usr/bin/env bash
# Install mnelo, or bring an installation up to date; a second run changes nothing.
set -euo pipefail
umask 077
unset CDPATH
# What is looked at must not change: not even by the caches that Python leaves beside its code.
export PYTHONDONTWRITEBYTECODE=1

usage() {
    cat <<'END'
Usage: bash scripts/install.sh [--dry-run] [--uninstall] [--help]

Copies the code to LIVE_ROOT, makes its .venv, memory.db, the token and the command mn (in
~/.local/bin), and has launchd or systemd keep the server running. Safe to run again: it brings an installation up to date.

  --dry-run    say what would be done, and change nothing
  --uninstall  stop the service; remove it, the code and .venv; memory, settings and token stay

Variables:
  LIVE_ROOT            where the server's code lies (default: ~/.hermes/memory)
  MNELO_HOME           where memory.db and config.toml lie (default: LIVE_ROOT)
  PY_BIN               the Python to use, 3.10 or newer (default: the newest of 3.13 to 3.10)
  SKIP_MODEL_DOWNLOAD  1: leave the embedding model to the server's first start
  XDG_CONFIG_HOME      where systemd/user is (default: ~/.config)
MNELO_MEMORY_*, VELLUM_*, HF_HOME, HUGGINGFACE_HUB_CACHE, FASTEMBED_CACHE_PATH,
HF_ENDPOINT and HF_HUB_OFFLINE that are set now are set for the service too.
END
}

die() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}
step() { printf '== %s\n' "$*"; }

# Run a command that changes something, or only show it.
change() {
    if [[ -z $dry_run ]]; then
        "$@"
    else
        printf '   would run:'
        printf ' %q' "$@"
        printf '\n'
    fi
}

# --- Where things are ------------------------------------------------------------------

own_folder() {
    local script=${BASH_SOURCE[0]} link
    while [[ -L $script ]]; do
        link=$(readlink "$script")
        [[ $link == /* ]] || link=$(dirname "$script")/$link
        script=$link
    done
    cd -P -- "$(dirname "$script")/.." && pwd
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
has_venv() {
    "$1" -c 'import importlib.util as it, sys
sys.exit(not (it.find_spec("venv") and it.find_spec("ensurepip")))' 2>/dev/null
}
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
absolute() {
    "$python" -S -c 'import os, sys; print(os.path.abspath(os.path.expanduser(sys.argv[1])))' "$1"
}

find_python() {
    local candidate without_venv=''
    for candidate in python3.13 python3.12 python3.11 python3.10 python3; do
        candidate=${PY_BIN:-$candidate}
        new_enough "$candidate" || continue
        python=$candidate
        if [[ -n $uninstall ]] || has_venv "$candidate"; then return; fi
        without_venv=$candidate
    done
    if [[ -n $without_venv ]]; then
        die "$without_venv has no ensurepip; on Debian and Ubuntu: apt install python3-venv"
    fi
    [[ -z ${PY_BIN:-} ]] || die "PY_BIN=$PY_BIN is not a Python 3.10 or newer"
    die "no Python 3.10 or newer found; install one, or name it with PY_BIN=/path/to/python"
}

find_places() {
    checkout=$(own_folder)
    live_root=$(absolute "${LIVE_ROOT:-$HOME/.hermes/memory}")
    MNELO_HOME=$(absolute "${MNELO_HOME:-${MNELO_MEMORY_DIR:-$live_root}}")
    export MNELO_HOME
    venv=$live_root/.venv
    stamp=$venv/.mnelo-requirements
    restart_pending=$live_root/.restart-pending
    # Where the server and the clients look for it, whatever XDG_CONFIG_HOME says.
    token=$HOME/.config/mnelo/auth_token
    mn=$HOME/.local/bin/mn
    manager='' service_folder=''
    case $(uname -s) in
        Darwin) manager=launchd service_folder=$HOME/Library/LaunchAgents ;;
        Linux) manager=systemd service_folder=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user ;;
    esac
    domain=gui/$(id -u)
}

# --- Code and data ---------------------------------------------------------------------

make_folders() {
    local folder
    for folder in "$live_root" "$MNELO_HOME/logs"; do
        if [[ ! -d $folder ]]; then
            step "make the folder $folder"
            change mkdir -p -- "$folder"
        fi
    done
}

# The virtual environment works, and is of the Python that was asked for, if one was.
venv_works() {
    new_enough "$venv/bin/python" || return 1
    [[ -z ${PY_BIN:-} ]] || [[ $(version "$PY_BIN") == "$(version "$venv/bin/python")" ]]
}

# What is installed once requirements.txt is: the exact Python, and the file's content.
wanted_stamp() {
    "$venv/bin/python" -c 'import hashlib, pathlib, sys
print(sys.version.split()[0], hashlib.sha256(pathlib.Path(sys.argv[1]).read_bytes()).hexdigest())' \
        "$checkout/requirements.txt"
}

# Before the code: if a package cannot be had, the old code goes on with its old packages.
install_packages() {
    if venv_works && [[ -f $stamp && $(<"$stamp") == "$(wanted_stamp)" ]]; then return; fi
    changed=1
    if ! venv_works || ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
        step "make $venv with $python"
        change "$python" -m venv --clear "$venv" || die "$python could not make $venv"
    fi
    step "install the packages of requirements.txt"
    change rm -f -- "$stamp"
    change "$venv/bin/python" -m pip install -q --disable-pip-version-check \
        -r "$checkout/requirements.txt" || die "pip could not install requirements.txt; run this again"
    [[ -n $dry_run ]] || wanted_stamp >"$stamp"
}

copy_code() {
    local said
    if [[ $live_root -ef $checkout ]]; then
        step "the code stays where it is: $live_root is this checkout"
        return
    fi
    said=$("$python" -S "$checkout/scripts/live_sync.py" --all "$live_root" ${dry_run:+--dry-run})
    if [[ -n $said ]]; then
        changed=1
        step "code in $live_root"
        printf '%s\n' "$said" | sed 's/^/   /'
    fi
}

make_database() {
    local no_model=''
    [[ ${SKIP_MODEL_DOWNLOAD:-0} == 0 ]] || no_model=1
    if [[ -e $MNELO_HOME/memory.db ]]; then return; fi
    if [[ -n $dry_run ]]; then
        step "make $MNELO_HOME/memory.db, or the file that config.toml names"
    else
        "$venv/bin/python" "$live_root/scripts/init_db.py" --if-missing ${no_model:+--no-model}
    fi
}

make_token() {
    local secret
    [[ ! -e $token && ! -L $token ]] || return 0
    step "make the token $token"
    [[ -z $dry_run ]] || return 0
    mkdir -p -- "${token%/*}"
    secret=$("$python" -c 'import secrets; print(secrets.token_urlsafe(32))')
    (set -o noclobber && printf '%s\n' "$secret" >"$token")
}

# --- The service -----------------------------------------------------------------------

write_service_files() {
    [[ -n $manager ]] || return 0
    service_changed=$("$python" -S "$checkout/scripts/service_files.py" "--$manager" "$service_folder" \
        --live-root "$live_root" --home "$MNELO_HOME" ${dry_run:+--dry-run})
    if [[ -n $service_changed ]]; then
        step "service"
        printf '%s\n' "$service_changed" | sed 's/^/   /'
    fi
}

manager_answers() {
    case $manager in
        launchd) command -v launchctl >/dev/null ;;
        systemd) systemctl --user show-environment >/dev/null 2>&1 ;;
        *) return 1 ;;
    esac
}

server_answers() {
    "$venv/bin/python" "$live_root/scripts/service_files.py" --await "$1"
}

is_loaded() { launchctl print "$domain/$1" >/dev/null 2>&1; }

is_running() {
    case $manager in
        launchd) [[ $(launchctl print "$domain/ai.mnelo.mcp" 2>/dev/null) == *"state = running"* ]] ;;
        systemd) systemctl --user -q is-active mnelo.service ;;
    esac
}

# launchd needs a moment to let go of an agent, and refuses the new one until then.
bootstrap() {
    local plist=$service_folder/$1.plist
    launchctl enable "$domain/$1"
    for _ in 1 2 3 4 5 6 7 8 9; do
        if launchctl bootstrap "$domain" "$plist" 2>/dev/null; then return; fi
        sleep 0.5
    done
    launchctl bootstrap "$domain" "$plist" || die "launchd does not take $plist; is this user logged in?"
}

start_launchd() {
    local label
    for label in ai.mnelo.mcp ai.mnelo.health; do
        if is_loaded "$label" && [[ -n $service_changed ]]; then
            launchctl bootout "$domain/$label" || true
            bootstrap "$label"
        elif ! is_loaded "$label"; then
            bootstrap "$label"
        elif [[ $label == ai.mnelo.mcp ]] && { [[ -n $changed ]] || ! is_running; }; then
            launchctl kickstart -k "$domain/$label"
        fi
    done
}

start_systemd() {
    local was_running=''
    if is_running; then was_running=1; fi
    [[ -z $service_changed ]] || systemctl --user daemon-reload
    systemctl --user -q enable --now mnelo.service mnelo-health.timer ||
        die "systemd did not start mnelo; see: journalctl --user -u mnelo"
    if [[ -n $was_running && -n $changed$service_changed ]]; then
        systemctl --user restart mnelo.service mnelo-health.timer
    fi
}

start_service() {
    if ! manager_answers; then
        if [[ -n $changed && -z $dry_run ]] && server_answers 0.1; then
            step "no service manager answers here; stop the server that runs, which has other code, and start it again:"
        else
            step "no service manager answers here; start the server yourself:"
        fi
        own_command mcp_server.py --transport sse
        return
    fi
    if [[ -n $dry_run ]]; then
        step "would have $manager start the server, or restart it if something changed"
        return
    fi
    if ! is_running && server_answers 0.1; then
        step "a server that is no service already runs: stop it, and the service takes over"
    fi
    "start_$manager"
    server_answers 15 || die "the server does not answer; see $(log_place)"
    step "the server runs, and will after every login"
    if [[ $manager == systemd && $(loginctl show-user "$(id -un)" -p Linger 2>/dev/null) != *yes ]]; then
        step "to have it run while nobody is logged in: loginctl enable-linger"
    fi
}

log_place() {
    if [[ $manager == launchd ]]; then
        echo "$MNELO_HOME/logs/mcp.log"
    else
        echo "journalctl --user -u mnelo"
    fi
}

# A command line of the live folder to paste into a shell.
own_command() {
    local script=$1
    shift
    printf '  '
    if [[ $MNELO_HOME != "$HOME/.hermes/memory" ]]; then printf ' MNELO_HOME=%q' "$MNELO_HOME"; fi
    printf ' %q' "$venv/bin/python" "$live_root/$script" "$@"
    printf '\n'
}

# --- The command line ------------------------------------------------------------------

command_script() {
    printf '#!/usr/bin/env bash\n# mnelo: the command line; made by install.sh\n'
    if [[ $MNELO_HOME != "$HOME/.hermes/memory" ]]; then printf 'export MNELO_HOME=%q\n' "$MNELO_HOME"; fi
    printf 'exec %q %q "$@"\n' "$venv/bin/python" "$live_root/scripts/mn.py"
}

is_own_command() { [[ -f $mn ]] && grep -q '^# mnelo: ' "$mn"; }

make_command() {
    if [[ -e $mn || -L $mn ]] && ! is_own_command; then
        step "$mn is another program; mnelo's command line is"
        own_command scripts/mn.py
        return
    fi
    if is_own_command && [[ $(<"$mn") == "$(command_script)" ]]; then return; fi
    step "make the command $mn"
    [[ -z $dry_run ]] || return 0
    mkdir -p -- "${mn%/*}"
    command_script >"$mn.new"
    chmod 700 "$mn.new"
    mv -f -- "$mn.new" "$mn"
    case :$PATH: in
        *:"${mn%/*}":*) ;;
        *) step "add ${mn%/*} to your PATH to call it as mn" ;;
    esac
}

# --- Install and uninstall -------------------------------------------------------------

install() {
    make_folders
    install_packages
    copy_code
    # Kept until the server has been restarted: if something fails on the way, the next run does it.
    if [[ -e $restart_pending ]]; then changed=1; fi
    if [[ -n $changed && -z $dry_run ]]; then : >"$restart_pending"; fi
    make_database
    make_token
    make_command
    write_service_files
    start_service
    [[ -z $dry_run ]] || return 0
    rm -f -- "$restart_pending"
    step "settings for your clients; where they name MNELO_AUTH_TOKEN, put this into your profile:"
    printf "   export MNELO_AUTH_TOKEN=\"\$(cat %q)\"\n\n" "$token"
    "$venv/bin/python" "$live_root/mcp_server.py" --print-config all
    printf '\n'
    step "done. Memory and settings: $MNELO_HOME (config.toml; see config.toml.example in $live_root)"
    step "to see how it is"
    own_command scripts/health_check.py
    if [[ ! $live_root -ef $checkout && -e $checkout/.git ]]; then
        step "to bring every commit and pull of this checkout to the live folder from now on"
        printf '   git -C %q config core.hooksPath .githooks\n' "$checkout"
        if [[ $live_root != "$HOME/.hermes/memory" ]]; then
            printf '   git -C %q config mnelo.liveRoot %q\n' "$checkout" "$live_root"
        fi
    fi
}

stop_service() {
    local label file
    if [[ $manager == launchd ]] && manager_answers; then
        for label in ai.mnelo.mcp ai.mnelo.health; do
            if is_loaded "$label"; then change launchctl bootout "$domain/$label"; fi
        done
    elif [[ -e $service_folder/mnelo.service ]] && manager_answers; then
        change systemctl --user -q disable --now mnelo.service mnelo-health.timer
    fi
    for file in ai.mnelo.mcp.plist ai.mnelo.health.plist mnelo.service mnelo-health.service \
        mnelo-health.timer default.target.wants/mnelo.service timers.target.wants/mnelo-health.timer; do
        file=$service_folder/$file
        if [[ -e $file || -L $file ]]; then change rm -f -- "$file"; fi
    done
    if [[ $manager == systemd ]] && manager_answers; then change systemctl --user daemon-reload; fi
}

uninstall() {
    local kept
    step "stop and remove the service"
    if [[ -n $manager ]]; then stop_service; fi
    step "remove the code from $live_root"
    "$python" -S "$checkout/scripts/live_sync.py" --remove "$live_root" ${dry_run:+--dry-run} |
        sed 's/^/   /'
    if [[ -f $venv/pyvenv.cfg ]] && [[ -f $stamp || ! $live_root -ef $checkout ]]; then
        change rm -rf -- "$venv"
    fi
    if [[ -e $restart_pending ]]; then change rm -f -- "$restart_pending"; fi
    if is_own_command && [[ $(<"$mn") == *"$(printf '%q' "$live_root/scripts/mn.py")"* ]]; then
        step "remove the command $mn"
        change rm -f -- "$mn"
    fi
    step "these stay; remove them yourself if you want to:"
    for kept in "$MNELO_HOME"/memory.db* "$MNELO_HOME"/config.toml "$MNELO_HOME"/backups \
        "$MNELO_HOME"/logs "$MNELO_HOME"/cron "$token"; do
        if [[ -e $kept ]]; then printf '   %s\n' "$kept"; fi
    done
}

dry_run='' uninstall='' changed='' service_changed='' python=''
for argument; do
    case $argument in
        --dry-run) dry_run=1 ;;
        --uninstall) uninstall=1 ;;
        --help | -h) usage && exit 0 ;;
        *)
            printf 'install.sh: no such option: %s (see --help)\n' "$argument" >&2
            exit 2
            ;;
    esac
done
[[ -n ${HOME:-} ]] || die "HOME is not set"
find_python
find_places
if [[ -n $uninstall ]]; then uninstall; else install; fi
